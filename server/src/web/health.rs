//! `GET /health`: every check with finding, impact, evidence and remedy; what needs a person first, what is well folded away.
use crate::app::App;
use crate::error::AppError;
use crate::http::body::InCluster;
use crate::service::health::{self, Check, Status};
use crate::web::format::{self, When};
use crate::web::html;
use crate::web::parts::{self, Chip, Command, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain::sentence;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::units::Timestamp;

struct Finding {
    id: String,
    title: &'static str,
    chip: Chip,
    finding: String,
    impact: String,
    remedy: String,
    evidence: Vec<String>,
    href: &'static str,
    word: &'static str,
}

struct Group {
    name: &'static str,
    checks: Vec<Finding>,
}

#[derive(Template)]
#[template(path = "health.html")]
struct HealthPage {
    shell: Shell,
    chip: Chip,
    lead: String,
    wrong: Vec<Finding>,
    good: Vec<Group>,
    good_words: String,
    last_run: When,
    command_list: Vec<Command>,
}

fn chip(status: Status) -> Chip {
    match status {
        Status::Green => Chip::new(Tone::Healthy, "Well"),
        Status::Unknown => Chip::new(Tone::Maint, "Cannot be said"),
        Status::Yellow => Chip::new(Tone::Degraded, "Less than promised"),
        Status::Red => Chip::new(Tone::Failed, "Data unavailable, or soon"),
    }
}

fn group_name(id: &str) -> &'static str {
    match id {
        "data" => "Data",
        "hosts" => "Hosts",
        "disks" => "Disks",
        "capacity" => "Capacity",
        _ => "Cluster",
    }
}

/// The page that answers a check best.
fn page_of(id: &str) -> (&'static str, &'static str) {
    match id {
        "inaccessible" => ("/volumes?state=inaccessible", "See these volumes"),
        "reduced" => ("/resync", "See what moves and when"),
        "out-of-date" => ("/policies", "See the policies"),
        "connected" | "failed" | "slow" | "checksums" => ("/hosts?state=attention", "See hosts and disks"),
        "faults" => ("/lab", "See the faults"),
        "room" => ("/capacity", "See capacity"),
        _ => ("/events", "See what happened"),
    }
}

fn finding(group: &str, check: &Check) -> Finding {
    let (href, word) = page_of(check.id);
    Finding {
        id: format!("{group}-{}", check.id),
        title: check.title,
        chip: chip(check.status),
        finding: sentence(&check.finding),
        impact: if check.impact.is_empty() { String::new() } else { sentence(check.impact) },
        remedy: if check.remedy.is_empty() { String::new() } else { sentence(check.remedy) },
        evidence: check.evidence.clone(),
        href,
        word,
    }
}

fn build(health: &health::Health, shell: Shell, now: Timestamp) -> HealthPage {
    let mut wrong: Vec<(Status, Finding)> = Vec::new();
    let mut good = Vec::new();
    for group in &health.groups {
        let (well, ill): (Vec<_>, Vec<_>) =
            group.checks.iter().partition(|check| check.status == Status::Green);
        wrong.extend(ill.into_iter().map(|check| (check.status, finding(group.id, check))));
        if !well.is_empty() {
            let checks = well.into_iter().map(|check| finding(group.id, check)).collect();
            good.push(Group { name: group_name(group.id), checks });
        }
    }
    wrong.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
    let count: usize = good.iter().map(|group| group.checks.len()).sum();
    HealthPage {
        chip: chip(health.status),
        lead: if wrong.is_empty() {
            "Every check is well.".into()
        } else {
            format!(
                "{} of {} need a look. Many things hurt by one cause are one finding.",
                wrong.len(),
                wrong.len() + count
            )
        },
        wrong: wrong.into_iter().map(|(_, finding)| finding).collect(),
        good_words: format::plural(count as u64, "check"),
        good,
        last_run: format::when(health.last_run, now),
        command_list: parts::commands(&[(
            "all checks",
            "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/health".into(),
        )]),
        shell,
    }
}

/// The page. Checks run each time it is opened.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    html(&build(&health::now(&app, &cluster).await?, page.shell, page.now))
}

#[cfg(test)]
mod tests {
    use crate::web::sample;
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn what_is_wrong_comes_first_with_its_remedy() {
        let page = Console::sample().await.get("/health").await;
        shows(
            &page,
            &[
                "1 host is absent",
                "h3",
                "Bring the host back",
                "1 volume has less redundancy",
                "No disk has failed",
            ],
        );
        assert!(page.1.find("host is absent") < page.1.find("No disk has failed"));
    }

    #[tokio::test]
    async fn a_well_cluster_says_so() {
        let mut snapshot = sample::snapshot();
        snapshot.objects.remove(0);
        snapshot.hosts[2] =
            model::view::HostView { name: "h3".into(), faults: Vec::new(), ..snapshot.hosts[0].clone() };
        let page = Console::over(snapshot).await.get("/health").await;
        shows(&page, &["Every check is well."]);
    }
}
