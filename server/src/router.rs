//! Every route and the role it needs, on one screen. Nothing is reachable that is not in here.
//!
//! A test walks [`all`] without, with an expired, and with each kind of session and token.
use crate::app::App;
use crate::db::users::Role::{self, Admin, Operator, Viewer};
use crate::error::AppError;
use crate::http::auth::{self, Access};
use crate::http::{assets, layers, live};
use crate::{api, web};
use axum::Router;
use axum::extract::State;
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};

/// Without a session: login, setup, static files, liveness. They reveal nothing.
fn open() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/healthz", api::healthz).open(),
        Route::new(Method::GET, "/static/{*path}", assets::serve).open(),
        Route::new(Method::GET, "/setup", web::auth::setup_page).open(),
        Route::new(Method::POST, "/setup", web::auth::set_up).open(),
        Route::new(Method::GET, "/login", web::auth::login_page).open(),
        Route::new(Method::POST, "/login", web::auth::log_in).open(),
        Route::new(Method::POST, "/theme", web::auth::theme).open(),
        #[cfg(debug_assertions)]
        Route::new(Method::GET, "/_kit", web::kit::kit).open(),
    ]
}

/// Pages, for people with a session.
fn pages() -> Vec<Route> {
    use web::{auth, home, volumes, watch};
    vec![
        get("/", Viewer, home::page),
        get("/live", Viewer, live::stream),
        post("/logout", Viewer, auth::log_out),
        post("/start/lab", Admin, home::start_lab),
        post("/start/wizard", Admin, home::start_wizard),
        get("/watch", Viewer, watch::page),
        post("/watch", Operator, watch::start),
        get("/volumes", Viewer, volumes::list::page),
        get("/volumes/new", Viewer, volumes::new::page),
        get("/volumes/new/preview", Viewer, volumes::new::preview),
        post("/volumes/new", Operator, volumes::new::make),
        get("/volumes/{name}", Viewer, volumes::show::page),
        get("/volumes/{name}/grow", Operator, volumes::change::grow_page),
        post("/volumes/{name}/grow", Operator, volumes::change::grow),
        get("/volumes/{name}/policy", Operator, volumes::change::policy_page),
        post("/volumes/{name}/policy", Operator, volumes::change::policy),
        get("/volumes/{name}/repair", Operator, volumes::change::repair_page),
        post("/volumes/{name}/repair", Operator, volumes::change::repair),
        get("/volumes/{name}/delete", Operator, volumes::change::delete_page),
        post("/volumes/{name}/delete", Operator, volumes::change::delete),
    ]
}

/// The API, for programs with a token (and for pages). Each path below exists for the default cluster as `/api/v1…`, and for
/// each cluster as `/api/v1/clusters/{cluster}…`.
fn in_cluster() -> Vec<Route> {
    vec![]
}

/// The API that knows no cluster.
fn process_wide() -> Vec<Route> {
    let _ = (Operator, Admin);
    vec![]
}

/// One method of one path.
pub struct Route {
    /// Method.
    pub method: Method,
    /// Path with `{names}`.
    pub path: String,
    /// Who may.
    pub access: Access,
    handler: MethodRouter<App>,
}

impl Route {
    fn new<H, T>(method: Method, path: &str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that axum routes");
        Self { method, path: path.to_owned(), access: Access::Role(Admin), handler: on(filter, handler) }
    }

    fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }
}

fn get<H: Handler<T, App>, T: 'static>(path: &str, role: Role, handler: H) -> Route {
    Route { access: Access::Role(role), ..Route::new(Method::GET, path, handler) }
}

fn post<H: Handler<T, App>, T: 'static>(path: &str, role: Role, handler: H) -> Route {
    Route { access: Access::Role(role), ..Route::new(Method::POST, path, handler) }
}

/// All routes.
pub fn all() -> Vec<Route> {
    open().into_iter().chain(pages()).chain(process_wide()).chain(in_cluster()).collect()
}

/// The whole server as one service.
pub fn build(app: &App) -> Router {
    let mut router = Router::new();
    for Route { path, access, handler, .. } in all() {
        let guard = middleware::from_fn_with_state((app.clone(), access), auth::guard);
        router = router.route(&path, handler.layer(guard));
    }
    let router = router.fallback(unknown).method_not_allowed_fallback(wrong_method);
    layers::wrap(app, router).with_state(app.clone())
}

/// An address that there is not. Under the API nobody learns even that without a token.
async fn unknown(State(app): State<App>, method: Method, uri: Uri, headers: HeaderMap) -> AppError {
    refuse(&app, &method, uri.path(), &headers, AppError::NotFound("this address".into())).await
}

async fn wrong_method(State(app): State<App>, method: Method, uri: Uri, headers: HeaderMap) -> AppError {
    refuse(&app, &method, uri.path(), &headers, AppError::MethodNotAllowed).await
}

async fn refuse(app: &App, method: &Method, path: &str, headers: &HeaderMap, error: AppError) -> AppError {
    if !crate::http::failure::is_api(path) {
        return error;
    }
    auth::authenticate(app, method, path, headers).await.err().unwrap_or(error)
}
