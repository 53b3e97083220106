//! Pages about policies: the list with its default, one policy, author and edit, delete.
pub mod change;
pub mod edit;
pub mod form;

use crate::app::App;
use crate::error::AppError;
use crate::http::body::{ByName, InCluster, Named};
use crate::service::cluster::snapshot_or_picture;
use crate::service::policies;
use crate::web::parts::{self, Chip, Command, Crumb, Fact, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::{explain, policy, words};
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::arithmetic;
use model::policy::Policy;
use model::state::Compliance;
use model::view::{ObjectView, Snapshot};
use std::sync::Arc;

struct Row {
    name: String,
    words: String,
    is_default: bool,
    built_in: bool,
    forced: bool,
    used: u64,
    chips: Vec<Chip>,
    factor: String,
    domains: Chip,
    usable: String,
    usable_exact: String,
}

#[derive(Template)]
#[template(path = "policies/list.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<Row>,
    scope: String,
    command_list: Vec<Command>,
}

#[derive(Template)]
#[template(path = "policies/show.html")]
struct ShowPage {
    shell: Shell,
    trail: Vec<Crumb>,
    name: String,
    built_in: bool,
    is_default: bool,
    out_of_date: u64,
    fact_list: Vec<Fact>,
    cost: Vec<Fact>,
    volumes: Vec<VolumeRow>,
    more: u64,
    command_list: Vec<Command>,
}

struct VolumeRow {
    name: String,
    compliance: Chip,
    health: Chip,
    size: String,
}

/// Most volumes that one page lists.
const VOLUMES_MAX: usize = 100;

/// Volumes that use a policy.
fn users<'a>(snapshot: &'a Snapshot, name: &str) -> Vec<&'a Arc<ObjectView>> {
    snapshot.objects.iter().filter(|object| object.policy == name).collect()
}

/// How many users are as the policy says, and how many are not and why.
fn compliance_chips(users: &[&Arc<ObjectView>]) -> Vec<Chip> {
    let count = |state: Compliance| users.iter().filter(|object| object.compliance == state).count();
    let states = [Compliance::Compliant, Compliance::NonCompliant, Compliance::OutOfDate];
    let chip = |state| {
        let number = count(state);
        let word = match state {
            Compliance::Compliant => "as promised",
            Compliance::NonCompliant => "not as promised",
            Compliance::OutOfDate => "out of date",
        };
        (number > 0).then(|| Chip::new(words::compliance(state).tone, format!("{number} {word}")))
    };
    states.into_iter().filter_map(chip).collect()
}

fn row(snapshot: &Snapshot, policy: &Policy) -> Row {
    let usable = crate::service::capacity::usable(snapshot, policy);
    let (needs, has) = (usable.needs_fault_domains, usable.has_fault_domains);
    let users = users(snapshot, &policy.name);
    Row {
        name: policy.name.clone(),
        words: words::policy(policy, explain::noun(snapshot)),
        is_default: policy.name == snapshot.cluster.default_policy,
        built_in: policy.name == Policy::built_in().name,
        forced: policy.force_provisioning,
        used: users.len() as u64,
        chips: compliance_chips(&users),
        factor: format!("{:.2}×", arithmetic::capacity_factor(policy)),
        domains: Chip::new(
            if needs <= has { Tone::Healthy } else { Tone::Degraded },
            format!("{needs} of {has}"),
        ),
        usable: format::bytes(usable.usable_bytes),
        usable_exact: format::exact(usable.usable_bytes),
    }
}

/// What the default applies to, in one sentence.
fn scope(snapshot: &Snapshot) -> String {
    let others = snapshot.objects.len() as u64;
    format!(
        "The default is {}. It applies to new volumes that name no policy; {}.",
        snapshot.cluster.default_policy,
        format::plural_that(others, "existing volume", "keeps its own", "keep their own"),
    )
}

/// `GET /policies`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let policies = policies::all(&app, &cluster).await?;
    html(&ListPage {
        rows: policies.iter().map(|policy| row(&snapshot, policy)).collect(),
        scope: scope(&snapshot),
        command_list: parts::commands(&[
            ("this list", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/policies".into()),
            ("author one", "curl -X POST … $MILLPOND/api/v1/policies -d '{\"name\":\"gold\",\"failures_to_tolerate\":2,\"fault_tolerance_method\":\"raid1\",\"stripe_width\":1,\"object_space_reservation_percent\":0,\"iops_limit\":null,\"checksum\":true,\"force_provisioning\":false}'".into()),
        ]),
        shell: page.shell,
    })
}

/// `GET /policies/{name}`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn show(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let found = policies::get(&app, &cluster, &path.name).await?;
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let using = users(&snapshot, &found.name);
    let volume = |object: &&Arc<ObjectView>| VolumeRow {
        name: object.name.clone(),
        compliance: words::compliance(object.compliance),
        health: words::health(object.health),
        size: format::bytes(object.size_bytes),
    };
    let stripe = Fact::new("Stripe width", found.stripe_width.to_string());
    let limit = found
        .iops_limit
        .map_or_else(|| "none".to_owned(), |limit| format!("{} I/O a second", format::count(limit.into())));
    html(&ShowPage {
        trail: parts::crumbs(&[("Policies", "/policies")], &found.name),
        built_in: found.name == Policy::built_in().name,
        is_default: found.name == snapshot.cluster.default_policy,
        out_of_date: using.iter().filter(|object| object.compliance == Compliance::OutOfDate).count() as u64,
        fact_list: vec![
            Fact::new("Used by", format::plural(using.len() as u64, "volume")),
            stripe,
            Fact::new("I/O limit", limit),
            Fact::new("Version", found.version.to_string()),
        ],
        cost: policy::cost(&snapshot, &found),
        volumes: using.iter().take(VOLUMES_MAX).map(volume).collect(),
        more: using.len().saturating_sub(VOLUMES_MAX) as u64,
        command_list: parts::commands(&[(
            "this policy",
            format!("curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/policies/{}", found.name),
        )]),
        name: found.name,
        shell: page.shell,
    })
}

#[cfg(test)]
mod tests {
    use crate::web::sample;
    use crate::web::testing::{Console, shows};
    use model::engine::Intent;
    use model::policy::Policy;
    use model::view::Snapshot;

    fn with_gold() -> Snapshot {
        let mut snapshot = sample::snapshot();
        snapshot.policies.push(Policy {
            name: "gold".into(),
            failures_to_tolerate: 2,
            version: 4,
            ..Policy::built_in()
        });
        snapshot
    }

    #[tokio::test]
    async fn the_list_says_use_need_and_default() {
        let page = Console::over(with_gold()).await.get("/policies").await;
        shows(
            &page,
            &["3 existing volumes keep their own", "1 not as promised", "2 as promised", "5 of 3", "2.00×"],
        );
    }

    #[tokio::test]
    async fn the_editor_counts_and_refuses_with_numbers() {
        let console = Console::over(with_gold()).await;
        shows(
            &console.get("/policies/new").await,
            &["RAID-5 and RAID-6 come with a later release", "needs 3, has 3", "2 writes"],
        );
        let form = "name=silver&fault_tolerance_method=raid1&failures_to_tolerate=2&stripe_width=1&object_space_reservation_percent=0&checksum=on";
        let page = console.post("/policies/preview", form).await;
        shows(&page, &["needs 5, has 3", "a mirror of 2 copies", "3.00×", "value=\"silver\""]);
        let wrong = console
            .post(
                "/policies/new",
                "name=-x&fault_tolerance_method=raid1&failures_to_tolerate=9&stripe_width=no",
            )
            .await;
        assert_eq!(wrong.0, 422);
        assert!(wrong.1.contains("things to put right") && wrong.1.contains("value=\"-x\""), "{}", wrong.1);
    }

    #[tokio::test]
    async fn an_edit_shows_what_moves_and_a_stale_one_keeps_the_values() {
        let mut snapshot = with_gold();
        for object in &mut snapshot.objects {
            std::sync::Arc::make_mut(object).policy = "gold".into();
        }
        let console = Console::over(snapshot).await;
        let form = "name=gold&fault_tolerance_method=raid1&failures_to_tolerate=1&stripe_width=1&object_space_reservation_percent=0&iops_limit=700&checksum=on";
        let page = console.post("/policies/preview?of=gold", &format!("{form}&version=4")).await;
        shows(&page, &["Volumes that change", "3 volumes", "erp-db"]);
        let (status, page) =
            console.post("/policies/gold/edit", &format!("{form}&version=3&apply=later")).await;
        assert_eq!(status, 409);
        for word in ["changed meanwhile", "value=\"700\"", "name=\"version\" value=\"4\""] {
            assert!(page.contains(word), "no {word} in {page}");
        }
        assert_eq!(console.post("/policies/gold/edit", &format!("{form}&version=4&apply=now")).await.0, 303);
        let last = console.intents().pop();
        assert!(
            matches!(last, Some(Intent::PutPolicy { expected_version: Some(4), apply_now: true, .. })),
            "{last:?}"
        );
    }

    #[tokio::test]
    async fn what_is_in_use_is_not_deleted_and_says_by_whom() {
        let console = Console::over(with_gold()).await;
        shows(&console.get("/policies/default").await, &["built in", "erp-db"]);
        shows(&console.get("/policies/gold/delete").await, &["No volume uses it", "Delete gold"]);
        assert_eq!(console.post("/policies/gold/delete", "").await.0, 303);
        assert!(matches!(console.intents().last(), Some(Intent::DeletePolicy { name }) if name == "gold"));
        let (status, page) = console.post("/policies/default/delete", "").await;
        assert_eq!(status, 409);
        assert!(page.contains("erp-db") && page.contains("mail"), "{page}");
    }

    #[tokio::test]
    async fn a_new_default_says_its_scope() {
        let console = Console::over(with_gold()).await;
        shows(
            &console.get("/policies/gold/default").await,
            &["New volumes that name no policy", "3 volumes keep"],
        );
        assert_eq!(console.post("/policies/gold/default", "").await.0, 303);
        assert!(
            matches!(console.intents().last(), Some(Intent::UpdateCluster { default_policy: Some(name), .. }) if name == "gold")
        );
    }
}
