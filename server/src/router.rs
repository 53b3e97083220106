//! Every route and the role it needs, on one screen. Nothing is reachable that is not in here.
//!
//! A test walks [`all`] without, with an expired, and with each kind of session and token.
use crate::api::openapi::{Facts, HasSchema};
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
        Route::new(Method::GET, "/healthz", api::healthz).says("Liveness").open(),
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
    use web::{auth, home, import, search, volumes, watch, wizard};
    vec![
        get("/", Viewer, home::page),
        get("/live", Viewer, live::stream),
        post("/logout", Viewer, auth::log_out),
        get("/search", Viewer, search::page),
        post("/start/lab", Admin, home::start_lab),
        post("/start/wizard", Admin, home::start_wizard),
        get("/import", Admin, import::page),
        post("/import", Admin, import::start),
        get("/setup-cluster/{cluster}/progress", Viewer, wizard::progress::page),
        get("/setup-cluster/{cluster}/{step}", Admin, wizard::page),
        post("/setup-cluster/{cluster}/{step}", Admin, wizard::save),
        post("/setup-cluster/{cluster}/{step}/preview", Admin, wizard::preview),
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

/// Pages about hardware and policies.
fn planning() -> Vec<Route> {
    use web::{hardware, policies};
    vec![
        get("/hosts", Viewer, hardware::page),
        get("/hosts/{name}", Viewer, hardware::host::page),
        get("/disks/{id}", Viewer, hardware::disk::page),
        get("/fault-domains", Viewer, hardware::domains::page),
        post("/fault-domains", Admin, hardware::domains::apply),
        post("/fault-domains/preview", Viewer, hardware::domains::preview),
        get("/policies", Viewer, policies::page),
        get("/policies/new", Operator, policies::edit::new_page),
        post("/policies/new", Operator, policies::edit::add),
        post("/policies/preview", Viewer, policies::edit::preview),
        get("/policies/{name}", Viewer, policies::show),
        get("/policies/{name}/edit", Operator, policies::edit::edit_page),
        post("/policies/{name}/edit", Operator, policies::edit::save),
        get("/policies/{name}/apply", Operator, policies::change::apply_page),
        post("/policies/{name}/apply", Operator, policies::change::apply),
        get("/policies/{name}/default", Operator, policies::change::default_page),
        post("/policies/{name}/default", Operator, policies::change::make_default),
        get("/policies/{name}/delete", Operator, policies::change::delete_page),
        post("/policies/{name}/delete", Operator, policies::change::delete),
    ]
}

/// Pages about people and programs that sign in.
fn people() -> Vec<Route> {
    use web::{account, people};
    vec![
        get("/account", Viewer, account::page),
        post("/account", Viewer, account::change_password),
        get("/people", Admin, people::page),
        post("/people/users", Admin, people::add),
        get("/people/users/{name}", Admin, people::user),
        post("/people/users/{name}/role", Admin, people::set_role),
        post("/people/users/{name}/password", Admin, people::reset_password),
        get("/people/users/{name}/remove", Admin, people::remove_page),
        post("/people/users/{name}/remove", Admin, people::remove),
        post("/people/tokens", Admin, people::create_token),
        get("/people/tokens/{name}/revoke", Admin, people::revoke_page),
        post("/people/tokens/{name}/revoke", Admin, people::revoke),
    ]
}

/// Pages about what goes on, and about the product itself.
fn operating() -> Vec<Route> {
    use web::{about, capacity, events, health, lab, licence, performance, resync, survives, tasks};
    vec![
        get("/health", Viewer, health::page),
        get("/events", Viewer, events::page),
        get("/events.csv", Viewer, events::export),
        get("/tasks", Viewer, tasks::page),
        get("/tasks/{id}", Viewer, tasks::show),
        post("/tasks/{id}/cancel", Operator, tasks::cancel),
        get("/lab", Viewer, lab::page),
        get("/lab/faults", Operator, lab::form),
        post("/lab/faults", Operator, lab::apply),
        get("/licence", Viewer, licence::page),
        post("/licence", Admin, licence::put),
        post("/licence/remove", Admin, licence::remove),
        get("/third-party", Viewer, about::third_party),
        get("/api-reference", Viewer, about::api_reference),
        get("/capacity", Viewer, capacity::page),
        get("/survives", Viewer, survives::page),
        get("/performance", Viewer, performance::page),
        get("/performance.csv", Viewer, performance::export),
        get("/resync", Viewer, resync::page),
        post("/resync/limit", Operator, resync::limit),
        post("/resync/limit/lift", Operator, resync::lift),
        get("/resync/repair", Operator, resync::repair_page),
        post("/resync/repair", Operator, resync::repair),
    ]
}

/// The API, for programs with a token (and for pages). Each path below exists for the default cluster as `/api/v1…`, and for
/// each cluster as `/api/v1/clusters/{cluster}…`.
#[rustfmt::skip]
fn in_cluster() -> Vec<Route> {
    use api::{cluster as c, domains as d, dto, groupings as g, import as i, operations as o, policies as p, risk as r, storage as s};
    vec![
        get("/cluster", Viewer, c::get).says("The cluster").answers::<dto::Cluster>(),
        post("/cluster", Admin, c::configure).says("Make the cluster").takes::<c::ConfigureBody>().accepts(),
        patch("/cluster", Admin, c::update).says("Change the cluster").takes::<c::UpdateBody>().answers::<dto::Cluster>(),
        post("/cluster/claims", Admin, c::claim).says("Add disk groups").takes::<c::ClaimsBody>().accepts(),
        post("/lab", Admin, c::plan_lab).says("Plan a lab").takes::<c::LabBody>().answers::<c::LabAnswer>(),
        post("/lab/faults", Operator, o::inject_fault).says("Break or heal something").takes::<o::FaultBody>().answers::<o::FaultAnswer>(),
        get("/hosts", Viewer, c::hosts).says("Hosts").lists::<dto::Host>(),
        post("/hosts", Admin, c::add_host).says("Make a failure domain of this machine's disks").takes::<c::HostBody>().created(),
        get("/hosts/{name}", Viewer, c::host).says("A host").answers::<dto::Host>(),
        post("/hosts/{name}/maintenance", Operator, c::maintenance).says("Enter or leave maintenance").accepts(),
        get("/hosts/{name}/maintenance/precheck", Viewer, r::precheck).says("What maintenance would do").answers::<r::PrecheckAnswer>(),
        put("/fault-domains", Admin, d::put).says("Fault domains, or a preview with ?preview=1").takes::<Vec<dto::HostGroup>>().answers::<dto::Cluster>(),
        get("/disks", Viewer, c::disks).says("Disks").lists::<dto::Disk>(),
        get("/disks/groupings", Viewer, g::all).says("Ways to divide this machine into failure domains").lists::<g::Grouping>(),
        post("/disks", Admin, c::add_disk).says("Add a file as a disk").takes::<c::FileDiskBody>().answers::<dto::Disk>().created(),
        post("/disks/{id}/retire", Operator, c::retire_disk).says("Empty a disk and let it go").accepts(),
        post("/disks/{id}/replace", Admin, c::replace_disk).says("Put a new disk in the place of an absent or failed one").takes::<c::ReplaceBody>().accepts(),
        get("/policies", Viewer, p::all).says("Policies").lists::<dto::PolicyItem>(),
        post("/policies", Operator, p::add).says("Add a policy").takes::<dto::PolicyBody>().answers::<dto::PolicyItem>().created(),
        get("/policies/{name}", Viewer, p::get).says("A policy").answers::<dto::PolicyItem>(),
        put("/policies/{name}", Operator, p::replace).says("Change a policy").takes::<dto::PolicyBody>().answers::<dto::PolicyItem>(),
        delete("/policies/{name}", Operator, p::delete).says("Delete a policy").empty(),
        post("/policies/{name}/preview", Viewer, p::preview).says("A preview").takes::<dto::PolicyBody>().answers::<r::PreviewAnswer>(),
        get("/volumes", Viewer, s::volumes).says("Volumes").lists::<dto::Volume>(),
        post("/volumes", Operator, s::create).says("Make a volume").takes::<s::VolumeBody>().answers::<dto::Volume>().created(),
        get("/volumes/{name}", Viewer, s::get).says("A volume").answers::<dto::Volume>(),
        patch("/volumes/{name}", Operator, s::grow).says("Grow a volume").takes::<s::GrowBody>().answers::<dto::Volume>(),
        delete("/volumes/{name}", Operator, s::delete).says("Delete a volume and its data").empty(),
        put("/volumes/{name}/policy", Operator, s::set_policy).says("Give a volume another policy").takes::<s::PolicyName>().accepts(),
        post("/volumes/{name}/reapply", Operator, s::reapply).says("Apply the edited policy").accepts(),
        get("/objects", Viewer, s::objects).says("Objects").lists::<dto::Object>(),
        get("/objects/{id}", Viewer, s::object).says("An object with its tree").answers::<dto::Object>(),
        get("/capacity", Viewer, r::capacity).says("Capacity").answers::<r::CapacityAnswer>(),
        post("/what-if", Viewer, r::what_if).says("What failures would do").takes::<r::WhatIfBody>().answers::<r::WhatIfAnswer>(),
        get("/resync", Viewer, o::resync).says("What moves").answers::<o::ResyncAnswer>(),
        patch("/resync", Operator, o::limit_resync).says("Limit resync").takes::<o::LimitBody>().answers::<o::ResyncAnswer>(),
        post("/resync/repair-now", Operator, o::repair_now).says("Repair without waiting").takes::<o::RepairBody>().accepts(),
        post("/scrub", Operator, o::scrub).says("Verify every byte").accepts(),
        get("/health", Viewer, r::health).says("Health checks"),
        get("/performance", Viewer, r::performance).says("One metric over time"),
        get("/tasks", Viewer, o::tasks).says("Tasks, newest first").lists::<dto::TaskItem>(),
        get("/tasks/{id}", Viewer, o::task).says("A task").answers::<dto::TaskItem>(),
        post("/tasks/{id}/cancel", Operator, o::cancel_task).says("Stop a task").answers::<dto::TaskItem>(),
        get("/events", Viewer, o::events).says("Events, newest first").lists::<o::EventItem>(),
        get("/licence", Viewer, c::licence).says("The licence in force").answers::<c::LicenceAnswer>(),
        put("/licence", Admin, c::put_licence).says("Enter a licence key").takes::<c::LicenceBody>().answers::<c::LicenceAnswer>(),
        get("/license", Viewer, c::licence).says("As /licence").answers::<c::LicenceAnswer>(),
        put("/license", Admin, c::put_licence).says("As /licence").takes::<c::LicenceBody>().answers::<c::LicenceAnswer>(),
        post("/import/scan", Admin, i::scan).says("Look for a cluster on disks").takes::<i::ScanBody>().answers::<i::ScanAnswer>(),
        post("/import", Admin, i::start).says("Take over a cluster on disks").takes::<i::ImportBody>().accepts(),
    ]
}

/// The API that knows no cluster.
fn process_wide() -> Vec<Route> {
    vec![
        get("/metrics", Viewer, api::metrics::metrics).says("Prometheus text"),
        get("/api/v1/clusters", Viewer, api::cluster::all).says("Clusters").lists::<api::dto::Cluster>(),
        get("/api/v1/openapi.json", Viewer, api::openapi::get).says("This document"),
    ]
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
    /// What the API's own description says of it.
    pub facts: Facts,
}

impl Route {
    fn new<H, T>(method: Method, path: &str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that axum routes");
        let handler = on(filter, handler);
        let (path, access) = (path.to_owned(), Access::Role(Admin));
        Self { method, path, access, handler, facts: Facts::NONE }
    }

    fn says(mut self, summary: &'static str) -> Self {
        self.facts.says(summary);
        self
    }

    fn takes<T: HasSchema>(mut self) -> Self {
        self.facts.takes::<T>();
        self
    }

    fn answers<T: HasSchema>(mut self) -> Self {
        self.facts.answers::<T>();
        self
    }

    fn lists<T: HasSchema>(mut self) -> Self {
        self.facts.lists::<T>();
        self
    }

    fn status(mut self, status: u16) -> Self {
        self.facts.status(status);
        self
    }

    fn accepts(self) -> Self {
        self.answers::<api::dto::Accepted>().status(202)
    }

    fn created(self) -> Self {
        self.status(201)
    }

    fn empty(self) -> Self {
        self.status(204)
    }

    fn below(self, prefix: &str) -> Self {
        Self { path: format!("{prefix}{}", self.path), ..self }
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

fn put<H: Handler<T, App>, T: 'static>(path: &str, role: Role, handler: H) -> Route {
    Route { access: Access::Role(role), ..Route::new(Method::PUT, path, handler) }
}

fn patch<H: Handler<T, App>, T: 'static>(path: &str, role: Role, handler: H) -> Route {
    Route { access: Access::Role(role), ..Route::new(Method::PATCH, path, handler) }
}

fn delete<H: Handler<T, App>, T: 'static>(path: &str, role: Role, handler: H) -> Route {
    Route { access: Access::Role(role), ..Route::new(Method::DELETE, path, handler) }
}

/// The API under both of its prefixes.
fn all_api() -> Vec<Route> {
    let default = in_cluster().into_iter().map(|route| route.below("/api/v1"));
    let each = in_cluster().into_iter().map(|route| route.below("/api/v1/clusters/{cluster}"));
    process_wide().into_iter().chain(default).chain(each).collect()
}

/// All routes.
pub fn all() -> Vec<Route> {
    let people = pages().into_iter().chain(planning()).chain(people()).chain(operating());
    open().into_iter().chain(people).chain(all_api()).collect()
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
