//! People and programs: setup, sign-in, sessions, tokens.
//!
//! Secrets are 256 random bits, stored as SHA-256; passwords as argon2id. An unknown user costs as much time as a known one.
use crate::app::App;
use crate::db::users::{self, Role};
use crate::db::{audit, sessions, throttle, tokens};
use crate::edge::Rng;
use crate::error::{AppError, FieldError};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

/// Memory of one password hash, KiB; with the two below the default of OWASP for argon2id.
const HASH_MEMORY_KIB: u32 = 19_456;
const HASH_PASSES: u32 = 2;
const HASH_LANES: u32 = 1;
/// Hashes at the same time: each holds 19 MiB.
const HASHES_MAX: usize = 2;
/// Shortest and longest password, characters and bytes.
const PASSWORD_CHARS_MIN: usize = 8;
const PASSWORD_BYTES_MAX: usize = 1024;
/// What every API token begins with, so that scanners for leaked secrets know it.
pub const TOKEN_PREFIX: &str = "mp_pat_";

/// Who does something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// User name, `token:NAME`, or `command line`.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Key of the user; `None` for tokens and the command line.
    pub user_id: Option<i64>,
    /// Hash of the session cookie; `None` without one.
    pub session: Option<[u8; 32]>,
}

impl Actor {
    /// The person at the terminal: owns the data folder.
    pub fn command_line() -> Self {
        Self { name: "command line".into(), role: Role::Admin, user_id: None, session: None }
    }
}

/// Hashes passwords, two at a time, away from the threads that serve requests.
pub struct Passwords {
    permits: Semaphore,
    /// Compared with when there is no such user.
    dummy: std::sync::OnceLock<String>,
}

fn hasher() -> Argon2<'static> {
    let params = Params::new(HASH_MEMORY_KIB, HASH_PASSES, HASH_LANES, None).expect("constant parameters");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hash_now(password: &str) -> Result<String, AppError> {
    hasher()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|error| AppError::internal(error.to_string()))
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// With its own bound.
    pub fn new() -> Self {
        Self { permits: Semaphore::new(HASHES_MAX), dummy: std::sync::OnceLock::new() }
    }

    /// PHC string of a password.
    ///
    /// # Errors
    /// [`AppError::Internal`].
    pub async fn hash(&self, password: &str) -> Result<String, AppError> {
        let _permit = self.permits.acquire().await.map_err(AppError::internal)?;
        let password = password.to_owned();
        tokio::task::spawn_blocking(move || hash_now(&password)).await.map_err(AppError::internal)?
    }

    /// Whether `password` is that of `phc`; without a `phc` it takes as long and is false.
    ///
    /// # Errors
    /// [`AppError::Internal`].
    pub async fn verify(&self, password: &str, phc: Option<&str>) -> Result<bool, AppError> {
        let dummy = match (phc, self.dummy.get()) {
            (None, None) => self.dummy.get_or_init(|| hash_now("nobody").unwrap_or_default()).clone(),
            (None, Some(dummy)) => dummy.clone(),
            (Some(_), _) => String::new(),
        };
        let _permit = self.permits.acquire().await.map_err(AppError::internal)?;
        let (known, phc) = (phc.is_some(), phc.map_or(dummy, str::to_owned));
        let password = password.to_owned();
        let matches = tokio::task::spawn_blocking(move || {
            PasswordHash::new(&phc)
                .is_ok_and(|hash| hasher().verify_password(password.as_bytes(), &hash).is_ok())
        });
        Ok(matches.await.map_err(AppError::internal)? && known)
    }
}

/// The one-time code that the terminal shows and the setup page demands. It exists in memory only.
pub struct SetupCode(String);

/// Letters without those that are mistaken for each other.
const CODE_LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

impl SetupCode {
    /// A new code: 12 letters of 32, 60 bits, in three groups.
    pub fn new(rng: &dyn Rng) -> Self {
        let letters = rng.bytes::<12>().map(|byte| char::from(CODE_LETTERS[usize::from(byte % 32)]));
        let text: String = letters.into_iter().collect();
        Self(format!("{}-{}-{}", &text[..4], &text[4..8], &text[8..]))
    }

    /// As it is printed.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether `typed` is the code; case, blanks and dashes do not matter.
    pub fn is(&self, typed: &str) -> bool {
        let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        let typed = plain(typed).to_ascii_uppercase();
        plain(&self.0).as_bytes().ct_eq(typed.as_bytes()).into()
    }
}

/// SHA-256 of a secret: what is stored.
fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Checks a name by the alphabet of the contract.
///
/// # Errors
/// The sentence for the person.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if first && rest && name.len() <= 80 {
        Ok(())
    } else {
        Err("use 1 to 80 letters, digits, dots, dashes and underscores, beginning with a letter or digit")
    }
}

fn check_password(password: &str) -> Result<(), &'static str> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        return Err("use at least 8 characters");
    }
    if password.len() > PASSWORD_BYTES_MAX { Err("use at most 1024 bytes") } else { Ok(()) }
}

fn check_credentials(name: &str, password: &str) -> Vec<FieldError> {
    let name = check_name(name).err().map(|detail| FieldError::new("name", detail));
    let password = check_password(password).err().map(|detail| FieldError::new("password", detail));
    name.into_iter().chain(password).collect()
}

/// A new session of a user: the secret for the cookie.
async fn new_session(app: &App, user_id: i64, address: &str, agent: &str) -> Result<String, AppError> {
    let secret = URL_SAFE_NO_PAD.encode(app.rng.bytes::<32>());
    let agent: String = agent.chars().take(200).collect();
    sessions::insert(&app.console, &digest(&secret), user_id, app.clock.now(), address, &agent).await?;
    Ok(secret)
}

/// Writes one line of the audit log; a failure to write is a failure of the deed.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn record(
    app: &App,
    actor: &str,
    action: &str,
    subject: &str,
    detail: &str,
    outcome: &'static str,
) -> Result<(), AppError> {
    let entry = audit::Entry {
        time: app.clock.now(),
        actor: actor.to_owned(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        detail: detail.to_owned(),
        outcome,
    };
    Ok(audit::insert(&app.console, &entry).await?)
}

/// Whether the setup page exists: until there is an administrator.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn setup_is_open(app: &App) -> Result<bool, AppError> {
    Ok(!users::admin_exists(&app.console).await?)
}

/// Makes the first administrator and signs in: the secret for the cookie.
///
/// # Errors
/// [`AppError::NotFound`] when there is an administrator already, [`AppError::Invalid`] on `code`, `name` or `password`,
/// [`AppError::TooManyTries`].
pub async fn set_up(
    app: &App,
    code: &str,
    name: &str,
    password: &str,
    address: &str,
    agent: &str,
) -> Result<String, AppError> {
    let closed = || AppError::NotFound("the setup page".into());
    if !setup_is_open(app).await? {
        return Err(closed());
    }
    AppError::check(check_credentials(name, password))?;
    let keys = ["u:".to_owned(), format!("ip:{address}")];
    let seconds = throttle::count(&app.console, &keys, app.clock.now()).await?;
    if seconds > 0 {
        return Err(AppError::TooManyTries { seconds });
    }
    if !app.setup.is(code) {
        return Err(AppError::field("code", "this is not the code that the terminal shows"));
    }
    throttle::forget(&app.console, &keys).await?;
    let phc = app.passwords.hash(password).await?;
    let id = users::insert_first_admin(&app.console, name, &phc, app.clock.now()).await?;
    let id = id.ok_or_else(closed)?;
    record(app, name, "set-up", name, "first administrator", "accepted").await?;
    new_session(app, id, address, agent).await
}

/// Signs in: the secret for a new cookie. An `old` session of the same browser ends.
///
/// # Errors
/// [`AppError::TooManyTries`]; [`AppError::Invalid`] with one sentence that does not say which of the two was wrong.
pub async fn sign_in(
    app: &App,
    name: &str,
    password: &str,
    address: &str,
    agent: &str,
    old: Option<&str>,
) -> Result<String, AppError> {
    let known: String = name.chars().take(80).collect::<String>().to_ascii_lowercase();
    let keys = [format!("u:{known}"), format!("ip:{address}")];
    let seconds = throttle::count(&app.console, &keys, app.clock.now()).await?;
    if seconds > 0 {
        return Err(AppError::TooManyTries { seconds });
    }
    let user = users::by_name(&app.console, name).await?;
    let phc = user.as_ref().map(|user| user.password_phc.as_str());
    let password: &str = if password.len() > PASSWORD_BYTES_MAX { "" } else { password };
    let matches = app.passwords.verify(password, phc).await?;
    let Some(user) = user.filter(|_| matches) else {
        record(app, &known, "sign-in", &known, &format!("from {address}"), "refused").await?;
        return Err(AppError::field("password", "name or password is wrong"));
    };
    throttle::forget(&app.console, &keys).await?;
    if let Some(old) = old {
        sessions::delete(&app.console, &digest(old)).await?;
    }
    record(app, &user.name, "sign-in", &user.name, &format!("from {address}"), "accepted").await?;
    new_session(app, user.id, address, agent).await
}

/// Ends a session.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn sign_out(app: &App, actor: &Actor) -> Result<(), AppError> {
    if let Some(session) = &actor.session {
        sessions::delete(&app.console, session).await?;
    }
    Ok(())
}

/// Who holds a session cookie. `touch` counts as activity (a live stream does not).
///
/// # Errors
/// [`AppError::NotSignedIn`].
pub async fn session_actor(app: &App, secret: &str, touch: bool) -> Result<Actor, AppError> {
    let id = digest(secret);
    let holder = sessions::holder(&app.console, &id, app.clock.now(), touch).await?;
    let holder = holder.ok_or(AppError::NotSignedIn)?;
    Ok(Actor { name: holder.name, role: holder.role, user_id: Some(holder.user_id), session: Some(id) })
}

/// Whether the session of an actor is still valid; true for those without one.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn still_signed_in(app: &App, actor: &Actor) -> Result<bool, AppError> {
    let Some(id) = &actor.session else { return Ok(true) };
    Ok(sessions::holder(&app.console, id, app.clock.now(), false).await?.is_some())
}

/// Who holds an API token.
///
/// # Errors
/// [`AppError::NotSignedIn`].
pub async fn token_actor(app: &App, secret: &str) -> Result<Actor, AppError> {
    if !secret.starts_with(TOKEN_PREFIX) {
        return Err(AppError::NotSignedIn);
    }
    let holder = tokens::holder(&app.console, &digest(secret), app.clock.now()).await?;
    let (name, role) = holder.ok_or(AppError::NotSignedIn)?;
    Ok(Actor { name: format!("token:{name}"), role, user_id: None, session: None })
}

/// Makes an API token and returns the secret, which is shown once.
///
/// # Errors
/// [`AppError::Invalid`] on `name`.
pub async fn create_token(
    console: &crate::db::Pool,
    rng: &dyn Rng,
    now: model::units::Timestamp,
    name: &str,
    role: Role,
) -> Result<String, AppError> {
    check_name(name).map_err(|detail| AppError::field("name", detail))?;
    let secret = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(rng.bytes::<32>()));
    let prefix = &secret[..TOKEN_PREFIX.len() + 4];
    tokens::insert(console, &digest(&secret), prefix, name, role, now).await?;
    Ok(secret)
}

/// Adds a user.
///
/// # Errors
/// [`AppError::Invalid`] on `name` or `password`; [`AppError::Conflict`] when the name is taken.
pub async fn add_user(
    console: &crate::db::Pool,
    passwords: &Passwords,
    now: model::units::Timestamp,
    name: &str,
    role: Role,
    password: &str,
) -> Result<(), AppError> {
    AppError::check(check_credentials(name, password))?;
    let phc = passwords.hash(password).await?;
    if users::insert(console, name, role, &phc, now).await? {
        Ok(())
    } else {
        Err(AppError::Conflict(format!("user \"{name}\" exists already; reset the password instead")))
    }
}

/// Sets a new password (and role, when given); all sessions of the user end.
///
/// # Errors
/// [`AppError::Invalid`] on `password`; [`AppError::NotFound`]; [`AppError::Conflict`] for the last administrator.
pub async fn reset_user(
    console: &crate::db::Pool,
    passwords: &Passwords,
    name: &str,
    role: Option<Role>,
    password: &str,
) -> Result<(), AppError> {
    AppError::check(check_credentials(name, password))?;
    let phc = passwords.hash(password).await?;
    changed(users::update(console, name, role, Some(&phc)).await?, name)
}

/// Sets a new password from the command line, for who lost it: as [`reset_user`], and nobody has to wait for wrong tries of before, from
/// whatever address. The audit log has it.
///
/// # Errors
/// As [`reset_user`].
pub async fn rescue_user(
    console: &crate::db::Pool,
    passwords: &Passwords,
    now: model::units::Timestamp,
    name: &str,
    role: Option<Role>,
    password: &str,
) -> Result<(), AppError> {
    reset_user(console, passwords, name, role, password).await?;
    throttle::forget_all(console).await?;
    let detail = role.map(|role| format!("role {}", role.word())).unwrap_or_default();
    let entry = audit::Entry {
        time: now,
        actor: Actor::command_line().name,
        action: "reset-password".into(),
        subject: name.to_owned(),
        detail,
        outcome: "accepted",
    };
    Ok(audit::insert(console, &entry).await?)
}

/// What a change of a user came to, as an error when it was none.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] for the last administrator.
pub fn changed(changed: users::Changed, name: &str) -> Result<(), AppError> {
    match changed {
        users::Changed::Done => Ok(()),
        users::Changed::NoSuchUser => Err(AppError::NotFound(format!("user \"{name}\""))),
        users::Changed::LastAdmin => Err(AppError::Conflict(format!(
            "\"{name}\" is the only administrator; make another one first, or nobody could change this cluster"
        ))),
    }
}

/// Changes one's own password: the old one is asked for, all sessions end, and a new one begins for this browser.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::TooManyTries`].
pub async fn change_password(
    app: &App,
    actor: &Actor,
    old: &str,
    new: &str,
    address: &str,
    agent: &str,
) -> Result<String, AppError> {
    let keys = [format!("u:{}", actor.name.to_ascii_lowercase()), format!("ip:{address}")];
    let seconds = throttle::count(&app.console, &keys, app.clock.now()).await?;
    if seconds > 0 {
        return Err(AppError::TooManyTries { seconds });
    }
    let user = users::by_name(&app.console, &actor.name).await?.ok_or(AppError::NotSignedIn)?;
    if !app.passwords.verify(old, Some(&user.password_phc)).await? {
        return Err(AppError::field("old", "this is not your password"));
    }
    throttle::forget(&app.console, &keys).await?;
    reset_user(&app.console, &app.passwords, &user.name, None, new).await?;
    record(app, &actor.name, "change-password", &actor.name, "", "accepted").await?;
    new_session(app, user.id, address, agent).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::SystemRng;

    #[test]
    fn the_setup_code_may_be_typed_carelessly_but_not_wrongly() {
        let code = SetupCode::new(&SystemRng);
        assert!(code.is(code.text()));
        assert!(code.is(&code.text().replace('-', " ").to_lowercase()));
        assert!(!code.is(""));
        assert!(!code.is(&code.text()[1..]));
    }

    #[test]
    fn names_are_never_paths() {
        for good in ["a", "h1-cap1", "db.2026_01", &"x".repeat(80)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(81);
        let bad = [
            "",
            ".",
            "..",
            "../../tmp/x",
            "..%2f..%2fx",
            "a/../../x",
            "C:\\x",
            "-rf",
            "_a",
            "a b",
            "a\0",
            "ü",
            &long,
        ];
        for name in bad {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[tokio::test]
    async fn a_password_matches_only_itself_and_nobody_has_none() {
        let passwords = Passwords::new();
        let phc = passwords.hash("correct horse").await.unwrap();
        assert!(phc.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{phc}");
        assert!(passwords.verify("correct horse", Some(&phc)).await.unwrap());
        assert!(!passwords.verify("correct horses", Some(&phc)).await.unwrap());
        assert!(!passwords.verify("nobody", None).await.unwrap());
    }
}
