//! `/people`: users and API tokens, for administrators.
use crate::app::App;
use crate::db::tokens::Token;
use crate::db::users::{Role, User};
use crate::error::{AppError, FieldError};
use crate::http::auth::Admin;
use crate::http::body::{ByName, Named};
use crate::http::render;
use crate::service::people;
use crate::web::auth::form_errors;
use crate::web::format::{self, When};
use crate::web::parts::{self, Choice, Command, Crumb, Fact, Field};
use crate::web::precheck::{Ask, Precheck};
use crate::web::shell::{Page, Shell};
use crate::web::{html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::units::Timestamp;

struct UserRow {
    name: String,
    role: &'static str,
    you: bool,
    created: When,
    signed_in: Option<When>,
}

struct TokenRow {
    name: String,
    prefix: String,
    role: &'static str,
    created: When,
    used: Option<When>,
}

/// A token that has just been made: the only time its secret is on a page.
struct Made {
    name: String,
    role: &'static str,
    article: &'static str,
    secret: String,
}

#[derive(Template)]
#[template(path = "people/list.html")]
struct PeoplePage {
    shell: Shell,
    users: Vec<UserRow>,
    tokens: Vec<TokenRow>,
    made: Option<Made>,
    roles: Vec<Choice>,
    user_errors: Vec<FieldError>,
    name: Field,
    password: Field,
    user_role: String,
    token_errors: Vec<FieldError>,
    token: Field,
    token_role: String,
    command_list: Vec<Command>,
}

/// What the forms of the list send.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct AddForm {
    name: String,
    password: String,
    token: String,
    role: String,
}

impl AddForm {
    fn role(&self) -> Result<Role, AppError> {
        self.role.parse().map_err(|detail| AppError::field("role", detail))
    }
}

fn roles() -> Vec<Choice> {
    [Role::Viewer, Role::Operator, Role::Admin].map(|role| Choice::new(role.word(), role.word())).into()
}

/// A field for a new password.
pub(super) fn password_field(label: &'static str, errors: &[FieldError]) -> Field {
    let field = Field::text("password", label, "").help("At least 8 characters.");
    Field { kind: "password", autocomplete: "new-password", ..field }.checked(errors)
}

fn user_row(user: &User, you: &str, now: Timestamp) -> UserRow {
    UserRow {
        name: user.name.clone(),
        role: user.role.word(),
        you: user.name.eq_ignore_ascii_case(you),
        created: format::when(user.created_at, now),
        signed_in: user.signed_in_at.map(|time| format::when(time, now)),
    }
}

fn token_row(token: &Token, now: Timestamp) -> TokenRow {
    TokenRow {
        name: token.name.clone(),
        prefix: token.prefix.clone(),
        role: token.role.word(),
        created: format::when(token.created_at, now),
        used: token.used_at.map(|time| format::when(time, now)),
    }
}

async fn list(app: &App, shell: Shell, now: Timestamp) -> Result<PeoplePage, AppError> {
    let you = shell.user.clone().unwrap_or_default();
    let data = app.config.data_dir.display();
    Ok(PeoplePage {
        users: people::all(app).await?.iter().map(|user| user_row(user, &you, now)).collect(),
        tokens: people::all_tokens(app).await?.iter().map(|token| token_row(token, now)).collect(),
        made: None,
        roles: roles(),
        user_errors: Vec::new(),
        name: Field::text("name", "Name", "").help("Letters, digits, dots, dashes and underscores."),
        password: password_field("Password", &[]),
        user_role: Role::Viewer.word().into(),
        token_errors: Vec::new(),
        token: Field::text("token", "Name", "").help("To recognise it in events: what will use it."),
        token_role: Role::Viewer.word().into(),
        command_list: parts::commands(&[
            ("a token", format!("millpond token create --data {data} --name NAME --role viewer")),
            ("a user", format!("millpond user add --data {data} --name NAME --role viewer --password-stdin")),
        ]),
        shell,
    })
}

/// `GET /people`.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn page(_: Admin, State(app): State<App>, page: Page) -> Result<Response, AppError> {
    html(&list(&app, page.shell, page.now).await?)
}

/// Errors of a form: wrong fields, or a state that does not allow it.
fn wrong(error: AppError, field: &str) -> Result<(StatusCode, Vec<FieldError>), AppError> {
    match error {
        AppError::Conflict(text) => Ok((StatusCode::CONFLICT, vec![FieldError::new(field, text)])),
        other => form_errors(other),
    }
}

/// `POST /people/users`.
///
/// # Errors
/// [`AppError::Internal`]; wrong fields show the form again.
pub async fn add(
    user: Admin,
    State(app): State<App>,
    page: Page,
    Form(form): Form<AddForm>,
) -> Result<Response, AppError> {
    let done = match form.role() {
        Ok(role) => people::add(&app, &user.0, &form.name, role, &form.password).await,
        Err(error) => Err(error),
    };
    let Err(error) = done else { return Ok(render::go_to(&page.headers, "/people")) };
    let (status, errors) = wrong(error, "name")?;
    let mut filled = list(&app, page.shell, page.now).await?;
    filled.name.value = form.name;
    filled.name = filled.name.checked(&errors);
    filled.password = password_field("Password", &errors);
    (filled.user_role, filled.user_errors) = (form.role, errors);
    html_with(status, &filled)
}

/// `POST /people/tokens`: answers the page with the secret, once.
///
/// # Errors
/// [`AppError::Internal`]; wrong fields show the form again.
pub async fn create_token(
    user: Admin,
    State(app): State<App>,
    page: Page,
    Form(form): Form<AddForm>,
) -> Result<Response, AppError> {
    let done = match form.role() {
        Ok(role) => people::create_token(&app, &user.0, &form.token, role).await.map(|secret| (role, secret)),
        Err(error) => Err(error),
    };
    let mut filled = list(&app, page.shell, page.now).await?;
    match done {
        Ok((role, secret)) => {
            let article = if role == Role::Viewer { "a" } else { "an" };
            filled.made = Some(Made { name: form.token, role: role.word(), article, secret });
            html(&filled)
        }
        Err(error) => {
            let (status, errors) = wrong(error, "token")?;
            let named = |error: FieldError| match error.field.as_str() {
                "name" => FieldError::new("token", error.detail),
                _ => error,
            };
            let errors: Vec<FieldError> = errors.into_iter().map(named).collect();
            filled.token.value = form.token;
            filled.token = filled.token.checked(&errors);
            (filled.token_role, filled.token_errors) = (form.role, errors);
            html_with(status, &filled)
        }
    }
}

#[derive(Template)]
#[template(path = "people/user.html")]
struct UserPage {
    shell: Shell,
    trail: Vec<Crumb>,
    name: String,
    you: bool,
    role: String,
    roles: Vec<Choice>,
    facts: Vec<Fact>,
    password: Field,
    errors: Vec<FieldError>,
    command_list: Vec<Command>,
}

async fn one(
    app: &App,
    shell: Shell,
    name: &str,
    now: Timestamp,
    errors: Vec<FieldError>,
) -> Result<UserPage, AppError> {
    let user = people::get(app, name).await?;
    let row = user_row(&user, shell.user.as_deref().unwrap_or_default(), now);
    let data = app.config.data_dir.display();
    Ok(UserPage {
        trail: parts::crumbs(&[("Users and tokens", "/people")], &user.name),
        role: user.role.word().to_owned(),
        roles: roles(),
        facts: vec![
            Fact::new("Viewer", "Reads every page and the API"),
            Fact::new("Operator", "Works: volumes, policies, repair, lab faults"),
            Fact::new("Admin", "Changes the cluster, its fault domains, its licence and its people"),
        ],
        password: password_field("Password", &errors),
        errors,
        command_list: parts::commands(&[(
            "when nobody can sign in any more",
            format!("millpond user reset --data {data} --name {} --password-stdin", user.name),
        )]),
        you: row.you,
        name: user.name,
        shell,
    })
}

/// `GET /people/users/{name}`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn user(
    _: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    html(&one(&app, page.shell, &path.name, page.now, Vec::new()).await?)
}

/// The list after a change, or the page of the user with what was wrong.
async fn after(app: &App, page: Page, name: &str, done: Result<(), AppError>) -> Result<Response, AppError> {
    let Err(error) = done else { return Ok(render::go_to(&page.headers, "/people")) };
    let (status, errors) = wrong(error, "")?;
    html_with(status, &one(app, page.shell, name, page.now, errors).await?)
}

/// `POST /people/users/{name}/role`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn set_role(
    user: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
    Form(form): Form<AddForm>,
) -> Result<Response, AppError> {
    let done = match form.role() {
        Ok(role) => people::set_role(&app, &user.0, &path.name, role).await,
        Err(error) => Err(error),
    };
    after(&app, page, &path.name, done).await
}

/// `POST /people/users/{name}/password`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn reset_password(
    user: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
    Form(form): Form<AddForm>,
) -> Result<Response, AppError> {
    let done = people::reset_password(&app, &user.0, &path.name, &form.password).await;
    after(&app, page, &path.name, done).await
}

async fn removal(app: &App, shell: Shell, name: &str) -> Result<Precheck, AppError> {
    let all = people::all(app).await?;
    let user = people::get(app, name).await?;
    let admins = all.iter().filter(|user| user.role == Role::Admin).count();
    let page = format!("/people/users/{}", user.name);
    let mut filled = Precheck::of(shell, ("Users and tokens", "/people"), (&user.name, &page), "Remove");
    filled.danger = true;
    filled.consequences = vec![
        Fact::new("Sessions", "All end at once"),
        Fact::new("What the user did", "Stays in events and in the audit log, under the name"),
        Fact::new("Tokens", "Stay: they belong to programs, not to people. Revoke those that the user knows"),
        Fact::new("Undo", "Add the user again, with a new password"),
    ];
    if user.role == Role::Admin && admins == 1 {
        filled.block(
            "Not now.",
            "This is the only administrator. Make another one first, or nobody could change this cluster.",
        );
    }
    Ok(filled)
}

/// `GET /people/users/{name}/remove`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn remove_page(
    _: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    html(&removal(&app, page.shell, &path.name).await?)
}

/// `POST /people/users/{name}/remove`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn remove(
    user: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let filled = removal(&app, page.shell, &path.name).await?;
    match people::remove(&app, &user.0, &path.name).await {
        Ok(()) => Ok(render::go_to(&page.headers, "/people")),
        Err(error) => {
            let (status, errors) = wrong(error, "")?;
            html_with(status, &Precheck { errors, ..filled })
        }
    }
}

/// `GET /people/tokens/{name}/revoke`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn revoke_page(
    _: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let tokens = people::all_tokens(&app).await?;
    let token = tokens.iter().find(|token| token.name == path.name);
    let token = token.ok_or_else(|| AppError::NotFound(format!("token \"{}\"", path.name)))?;
    let mut filled =
        Precheck::of(page.shell, ("Users and tokens", "/people"), (&path.name, "/people"), "Revoke");
    filled.title = format!("Revoke the token {}", path.name);
    filled.verb.clone_from(&filled.title);
    (filled.danger, filled.ask) = (true, Ask::Plain);
    let used = token.used_at.map_or_else(|| "never".into(), |time| format::when(time, page.now).full);
    filled.consequences = vec![
        Fact::new("Begins with", format!("{}…", token.prefix)),
        Fact::new("Last used", used),
        Fact::new("What uses it", "Is refused from the next request on"),
        Fact::new("Undo", "None: make another token"),
    ];
    html(&filled)
}

/// `POST /people/tokens/{name}/revoke`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn revoke(
    user: Admin,
    State(app): State<App>,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    people::revoke_token(&app, &user.0, &path.name).await?;
    Ok(render::go_to(&page.headers, "/people"))
}

#[cfg(test)]
mod tests {
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn users_are_added_changed_and_removed_and_an_administrator_always_stays() {
        let console = Console::sample().await;
        let bob = "name=bob&password=a+long+password&role=operator";
        assert_eq!(console.post("/people/users", bob).await.0, 303);
        shows(&console.get("/people").await, &["id=\"user-bob\"", "operator", ">you<"]);
        let (status, page) = console.post("/people/users", bob).await;
        assert!(status == 409 && page.contains("exists already"), "{page}");
        let (status, page) = console.post("/people/users", "name=../x&password=short&role=king").await;
        assert!(status == 422 && page.contains("../x"), "what was typed is kept: {page}");
        for (path, form) in [("role", "role=viewer"), ("remove", "")] {
            let (status, page) = console.post(&format!("/people/users/ada/{path}"), form).await;
            assert!(status == 409 && page.contains("only administrator"), "{path}: {status} {page}");
        }
        shows(&console.get("/people/users/ada/remove").await, &["This is the only administrator."]);
        assert_eq!(console.post("/people/users/bob/role", "role=admin").await.0, 303);
        assert_eq!(console.post("/people/users/bob/password", "password=short").await.0, 422);
        assert_eq!(console.post("/people/users/bob/password", "password=another+long+one").await.0, 303);
        assert_eq!(console.post("/people/users/bob/remove", "").await.0, 303);
        assert_eq!(console.get("/people/users/bob").await.0, 404);
        shows(
            &console.get("/events").await,
            &["user bob was added as operator", "user bob was removed", ">ada<"],
        );
    }

    #[tokio::test]
    async fn a_token_is_shown_once_and_works_until_it_is_revoked() {
        let console = Console::sample().await;
        let (status, page) = console.post("/people/tokens", "token=backup&role=viewer").await;
        assert_eq!(status, 200);
        let at = page.find("<code>mp_pat_").expect("the secret is on the page") + "<code>".len();
        let secret = &page[at..at + page[at..].find('<').expect("an end")];
        assert!(crate::service::auth::token_actor(&console.app, secret).await.is_ok());
        let list = console.get("/people").await;
        shows(&list, &["backup", "mp_pat_"]);
        assert!(!list.1.contains(secret), "the secret is on no page afterwards");
        assert_eq!(console.post("/people/tokens", "token=backup&role=viewer").await.0, 409);
        assert_eq!(console.post("/people/tokens", "token=a+b&role=viewer").await.0, 422);
        shows(&console.get("/people/tokens/backup/revoke").await, &["Is refused from the next request on"]);
        assert_eq!(console.post("/people/tokens/backup/revoke", "").await.0, 303);
        assert!(crate::service::auth::token_actor(&console.app, secret).await.is_err());
        assert_eq!(console.post("/people/tokens/backup/revoke", "").await.0, 404);
    }
}
