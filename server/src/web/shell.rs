//! What every page needs around its content: theme, person, cluster, navigation, counts. An extractor, so that a handler
//! names it once.
use crate::app::App;
use crate::error::AppError;
use crate::http::cookie;
use crate::service::auth::Actor;
use crate::web::format;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use model::state::{HostState, ObjectHealth, TaskState};
use model::units::Timestamp;
use model::view::Snapshot;

/// Frame of a page.
#[derive(Clone, Debug, Default)]
pub struct Shell {
    /// `light`, `dark`, or empty: as the system says.
    pub theme: &'static str,
    /// Signed-in person.
    pub user: Option<String>,
    /// Their role.
    pub role: String,
    /// Path with query of this page.
    pub path: String,
    /// Name of the cluster shown.
    pub cluster: String,
    /// All clusters.
    pub clusters: Vec<String>,
    /// Tasks at work.
    pub tasks_running: u64,
    /// Hosts away and objects that are not as promised.
    pub alerts: u64,
    /// Resyncs at work or queued.
    pub resyncs: u64,
    /// Whether the cluster is configured: else the navigation leads to the first screen.
    pub configured: bool,
    /// Whether this is a lab, which may be broken on purpose.
    pub lab: bool,
    /// Address of the live stream; empty: the page is not live.
    pub live: String,
}

/// Group of the navigation.
pub struct NavGroup {
    /// Heading.
    pub name: &'static str,
    /// Links.
    pub links: Vec<NavLink>,
}

/// A count beside a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Badge {
    /// Id of its element.
    pub id: &'static str,
    /// The count; nothing is shown for 0.
    pub count: u64,
    /// What is counted, for screen readers.
    pub word: &'static str,
}

/// Link of the navigation.
pub struct NavLink {
    /// Word.
    pub word: &'static str,
    /// Address.
    pub href: &'static str,
    /// Glyph.
    pub icon: &'static str,
    /// Open things there, for links that count.
    pub badge: Option<Badge>,
    /// Whether the page belongs to it.
    pub current: bool,
}

impl Shell {
    /// The theme that the switch leads to.
    pub fn other_theme(&self) -> &'static str {
        if self.theme == "dark" { "light" } else { "dark" }
    }

    /// Makes the page live on these topics, besides the counts of the frame.
    #[must_use]
    pub fn live_on(mut self, topics: &[String]) -> Self {
        let topics: Vec<String> =
            topics.iter().map(|topic| format::encoded(topic).replace("%3A", ":")).collect();
        self.live =
            std::iter::once("/live?topics=shell".to_owned()).chain(topics).collect::<Vec<_>>().join(",");
        self
    }

    fn link(&self, word: &'static str, href: &'static str, icon: &'static str) -> NavLink {
        let path = self.path.split('?').next().unwrap_or_default();
        let current = path == href || (href != "/" && path.starts_with(&format!("{href}/")));
        NavLink { word, href, icon, badge: None, current }
    }

    fn counted(
        &self,
        word: &'static str,
        href: &'static str,
        icon: &'static str,
        badge: &'static str,
    ) -> NavLink {
        let badge = self.badges().into_iter().find(|known| known.id == badge);
        NavLink { badge, ..self.link(word, href, icon) }
    }

    /// The counts beside links of the navigation; the stream keeps them right.
    pub fn badges(&self) -> Vec<Badge> {
        let badge = |id, count, word| Badge { id, count, word };
        vec![
            badge("nav-resync", self.resyncs, "at work or queued"),
            badge("nav-tasks", self.tasks_running, "at work"),
        ]
    }

    /// The navigation.
    pub fn nav(&self) -> Vec<NavGroup> {
        let mut operate = vec![
            self.link("Capacity", "/capacity", "chart-pie"),
            self.link("Performance", "/performance", "activity"),
            self.counted("Resync", "/resync", "refresh-cw", "nav-resync"),
            self.counted("Tasks", "/tasks", "list-checks", "nav-tasks"),
        ];
        if self.lab {
            operate.push(self.link("Watch it lose a host", "/watch", "circle-play"));
            operate.push(self.link("Lab faults", "/lab", "flask-conical"));
        }
        let group = |name, links| NavGroup { name, links };
        vec![
            group(
                "",
                vec![
                    self.link("Dashboard", "/", "layout-dashboard"),
                    self.link("Health", "/health", "heart-pulse"),
                    self.link("Events", "/events", "scroll-text"),
                ],
            ),
            group(
                "Storage",
                vec![
                    self.link("Volumes", "/volumes", "database"),
                    self.link("Policies", "/policies", "file-sliders"),
                ],
            ),
            group(
                "Hardware",
                vec![
                    self.link("Hosts and disks", "/hosts", "server"),
                    self.link("Fault domains", "/fault-domains", "layers"),
                ],
            ),
            group("Operate", operate),
            group(
                "Administer",
                vec![
                    self.link("Users and tokens", "/people", "users"),
                    self.link("Licence", "/licence", "badge-check"),
                    self.link("API reference", "/api-reference", "terminal"),
                    self.link("Third-party licences", "/third-party", "scale"),
                ],
            ),
        ]
    }

    /// Takes counts from a snapshot.
    pub fn count(&mut self, snapshot: &Snapshot) {
        let running = snapshot.tasks.iter().filter(|task| task.state == TaskState::Running).count();
        let away = snapshot.hosts.iter().filter(|host| host.state == HostState::Absent).count();
        let hurt = snapshot
            .objects
            .iter()
            .filter(|object| !matches!(object.health, ObjectHealth::Healthy | ObjectHealth::Moving))
            .count();
        self.tasks_running = running as u64;
        self.alerts = (away + hurt) as u64;
        self.resyncs = snapshot.resync.items.len() as u64;
        self.cluster.clone_from(&snapshot.cluster.name);
        self.configured = snapshot.cluster.state != model::state::ClusterState::Unconfigured;
        self.lab = snapshot.hosts.iter().any(|host| host.kind == model::state::HostKind::Lab);
        if self.cluster.is_empty() {
            self.cluster = "no cluster yet".into();
        }
    }

    /// The frame for a request that failed before any handler ran.
    pub fn bare() -> Self {
        Self { path: "/".into(), ..Self::default() }
    }
}

/// The theme that a cookie chose.
fn theme(parts: &Parts) -> &'static str {
    match cookie::named(&parts.headers, "theme").as_deref() {
        Some("dark") => "dark",
        Some("light") => "light",
        _ => "",
    }
}

/// Frame, time and headers of a page request.
pub struct Page {
    /// Frame.
    pub shell: Shell,
    /// Now.
    pub now: Timestamp,
    /// Headers, for the choice of page or fragment.
    pub headers: axum::http::HeaderMap,
}

impl FromRequestParts<App> for Page {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, AppError> {
        let actor = parts.extensions.get::<Actor>();
        let mut shell = Shell {
            theme: theme(parts),
            user: actor.map(|actor| actor.name.clone()),
            role: actor.map(|actor| actor.role.word().to_owned()).unwrap_or_default(),
            path: parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            ..Shell::default()
        };
        let snapshot = app.cluster(None)?.projected.borrow().clone();
        if actor.is_some() {
            shell.count(&snapshot);
            shell.clusters = vec![shell.cluster.clone()];
            shell = shell.live_on(&[]);
        }
        Ok(Self { shell, now: app.clock.now(), headers: parts.headers.clone() })
    }
}
