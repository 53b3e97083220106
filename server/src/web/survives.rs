//! `GET /survives?policy=`: what every loss of one thing, and of two at once, does to data.
use crate::app::App;
use crate::error::AppError;
use crate::http::body::{Asked, InCluster};
use crate::service::survives::{self, Survives};
use crate::web::parts::{Chip, Tab, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::words;
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::claims::{Claim, Fate, PARTS_PAIRED_MAX, PartKind, Verdict, noun_of};
use model::state::ClusterState;

/// Parts of which pairs are drawn as a table with a row and a column each; of more they are listed.
const MATRIX_MAX: usize = 14;

/// `?policy=`.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    policy: Option<String>,
}

/// One loss.
struct LossRow {
    name: String,
    what: &'static str,
    chip: Chip,
    text: String,
    volumes: String,
}

/// One cell of the table of pairs; `None`: the two are lost together anyway.
struct Cell {
    chip: Option<Chip>,
    text: String,
}

/// One row of the table of pairs.
struct PairRow {
    number: usize,
    name: String,
    cells: Vec<Cell>,
}

#[derive(Template)]
#[template(path = "survives.html")]
struct SurvivesPage {
    shell: Shell,
    planned: bool,
    group_href: String,
    policy: String,
    words: String,
    usable: (String, &'static str),
    exact: String,
    domains: String,
    refusal: Option<String>,
    tabs: Vec<Tab>,
    singles: Vec<LossRow>,
    has_volumes: bool,
    pairs: Vec<PairRow>,
    listed: Vec<LossRow>,
    pairs_text: String,
    legend: Vec<Chip>,
    shared: Vec<String>,
    stranded: Vec<String>,
}

/// What a fate is called.
fn chip(fate: Fate) -> Chip {
    match fate {
        Fate::Available => Chip::new(Tone::Healthy, "Available"),
        Fate::Reduced => Chip::new(Tone::Absent, "Reduced"),
        Fate::Unavailable => Chip::new(Tone::Degraded, "Unavailable, safe"),
        Fate::Lost => Chip::new(Tone::Failed, "Lost"),
    }
}

/// What a claim means: the worst, what else may happen instead, and whether the cluster can start again.
fn meaning(claim: &Claim) -> String {
    let only = claim.fates.len() == 1;
    let volumes = match claim.worst() {
        Fate::Available => "No volume has anything there.",
        Fate::Reduced if only => "Every volume stays in use, with less redundancy until it is rebuilt.",
        Fate::Reduced => {
            "Volumes with a part there stay in use with less redundancy; the others notice nothing."
        }
        Fate::Unavailable if only => {
            "Volumes stop for want of votes. Their data is whole on what is left; they go on when one of these is back."
        }
        Fate::Unavailable => {
            "Volumes with too many votes there stop. Their data is whole on what is left; they go on when one of these is back. \
             The others go on now."
        }
        Fate::Lost if only => "All copies lie there: data is lost unless it comes back.",
        Fate::Lost => {
            "Volumes whose copies all lie there lose data, unless it comes back. The others stop or go on, depending on where \
             their parts lie."
        }
    };
    let start = match claim.restarts {
        true => "",
        false => {
            " Without it the cluster cannot be started again: more than half of its disks must be there."
        }
    };
    format!("{volumes}{start}")
}

fn volumes_text(survives: &Survives, claim: &Claim) -> String {
    let counts = survives.volumes(claim);
    let said = counts.iter().map(|(fate, count)| format!("{count} {}", chip(*fate).word.to_lowercase()));
    said.collect::<Vec<_>>().join(", ")
}

fn loss(survives: &Survives, claim: &Claim) -> LossRow {
    let verdict = &survives.verdict;
    let kind = verdict.parts[claim.lost[0]].kind;
    LossRow {
        name: verdict.names(claim).join(" + "),
        what: match kind {
            PartKind::Disk => "disk with data",
            PartKind::Cache => "cache disk: takes along the disks behind it",
            PartKind::Device => "one device, several disks",
            PartKind::Controller => "controller with all disks on it",
            PartKind::Enclosure => "enclosure with all disks in it",
            PartKind::Domain => "failure domain as a whole",
        },
        chip: chip(claim.worst()),
        text: meaning(claim),
        volumes: volumes_text(survives, claim),
    }
}

fn pairs(survives: &Survives) -> Vec<PairRow> {
    let verdict = &survives.verdict;
    if verdict.doubles.is_empty() || verdict.parts.len() > MATRIX_MAX {
        return Vec::new();
    }
    let cell = |row: usize, column: usize| {
        let pair = [row.min(column), row.max(column)];
        let claim = verdict.doubles.iter().find(|claim| claim.lost == pair);
        let single = (row == column).then(|| &verdict.singles[row]);
        let shown = claim.or(single);
        let text = match shown {
            Some(claim) => {
                format!(
                    "{}: {}. {}",
                    verdict.names(claim).join(" and "),
                    chip(claim.worst()).word,
                    meaning(claim)
                )
            }
            None => "Lost together with it anyway.".to_owned(),
        };
        Cell { chip: shown.map(|claim| chip(claim.worst())), text }
    };
    let count = verdict.parts.len();
    let row = |index: usize| PairRow {
        number: index + 1,
        name: verdict.parts[index].name.clone(),
        cells: (0..count).map(|column| cell(index, column)).collect(),
    };
    (0..count).map(row).collect()
}

fn pairs_text(verdict: &Verdict) -> String {
    let survived = verdict.doubles.iter().filter(|claim| claim.worst().goes_on()).count();
    let parts = verdict.parts.len();
    match (verdict.doubles.len(), survived) {
        (0, _) if parts > PARTS_PAIRED_MAX => format!(
            "{parts} parts make too many pairs for one page. Ask for one: curl -X POST … $MILLPOND/api/v1/what-if -d \
             '{{\"fail\":[\"disk:ID\",\"disk:ID\"]}}'"
        ),
        (0, _) => "There are no two things to lose that would not go together anyway.".to_owned(),
        (1, 0) => "The one pair there is is not survived when both are lost at once.".to_owned(),
        (1, _) => "The one pair there is is survived, also when both are lost at once.".to_owned(),
        (all, 0) => format!(
            "None of {all} pairs is survived when both are lost at once, before the first is rebuilt."
        ),
        (all, some) if all == some => {
            format!("All {all} pairs are survived, also when both are lost at once.")
        }
        (all, 1) => format!("Of {all} pairs 1 is survived when both are lost at once."),
        (all, some) => format!("Of {all} pairs {some} are survived when both are lost at once."),
    }
}

fn page_of(shell: Shell, cluster: &str, survives: &Survives) -> SurvivesPage {
    let verdict = &survives.verdict;
    let noun = noun_of(survives.division.kind);
    let tab = |policy: &model::policy::Policy| Tab {
        word: policy.name.clone(),
        href: format!("/survives?policy={}", format::encoded(&policy.name)),
        current: policy.name == survives.policy.name,
    };
    let shared = survives.division.shared_caches();
    let shared = shared.iter().map(|(member, names)| {
        format!("{} carries slices of the logs of {}: they share its fate.", member.name, names.join(", "))
    });
    let together = survives.division.together();
    let together = together
        .iter()
        .map(|names| format!("{} lie on one device: {} count as 1.", names.join(" and "), names.len()));
    let pairs = pairs(survives);
    let mut listed: Vec<&Claim> =
        if pairs.is_empty() { verdict.doubles.iter().collect() } else { Vec::new() };
    listed.sort_by_key(|claim| std::cmp::Reverse(claim.worst()));
    let domain_names: std::collections::BTreeSet<&str> =
        survives.division.domains.iter().map(|domain| domain.name.as_str()).collect();
    SurvivesPage {
        planned: survives.snapshot.cluster.state == ClusterState::Unconfigured,
        group_href: format!("/setup-cluster/{cluster}/group"),
        policy: survives.policy.name.clone(),
        words: words::policy(&survives.policy, noun),
        usable: format::bytes_parts(verdict.usable.usable_bytes),
        exact: format::exact(verdict.usable.usable_bytes),
        domains: format::plural(domain_names.len() as u64, noun),
        refusal: verdict.refusal.clone(),
        tabs: survives.snapshot.policies.iter().map(tab).collect(),
        singles: verdict.singles.iter().map(|claim| loss(survives, claim)).collect(),
        has_volumes: !survives.snapshot.objects.is_empty(),
        listed: listed.into_iter().map(|claim| loss(survives, claim)).collect(),
        pairs,
        pairs_text: pairs_text(&survives.verdict),
        legend: [Fate::Available, Fate::Reduced, Fate::Unavailable, Fate::Lost].map(chip).to_vec(),
        shared: shared.chain(together).collect(),
        stranded: verdict
            .usable
            .stranded_bytes
            .iter()
            .filter(|(_, bytes)| **bytes >= model::units::DISK_BYTES_MIN && verdict.refusal.is_none())
            .map(|(name, bytes)| format!("{} of {name}", format::bytes(*bytes)))
            .collect(),
        shell,
    }
}

/// The page.
///
/// # Errors
/// [`AppError::NotFound`] for an unknown policy; [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let survives = survives::of(&app, &cluster, query.policy.as_deref()).await?;
    let key = cluster.key.clone();
    // Every object is asked for every loss: not on a thread that serves pages.
    let built = tokio::task::spawn_blocking(move || page_of(page.shell, &key, &survives));
    html(&built.await.map_err(AppError::internal)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::testing::{Console, shows};

    fn claim(fates: &[Fate], restarts: bool) -> Claim {
        Claim { lost: vec![0, 1], fates: fates.iter().copied().collect(), restarts }
    }

    #[test]
    fn what_happens_to_some_is_not_said_of_all() {
        use Fate::{Available, Lost, Reduced, Unavailable};
        for (fates, all) in [
            (&[Lost][..], true),
            (&[Available, Lost], false),
            (&[Unavailable, Lost], false),
            (&[Unavailable], true),
            (&[Available, Unavailable], false),
            (&[Reduced, Unavailable], false),
            (&[Reduced], true),
            (&[Available, Reduced], false),
        ] {
            let said = meaning(&claim(fates, true));
            assert_eq!(!said.contains("others"), all, "{fates:?}: {said}");
            assert!(!said.contains("started again"), "{said}");
        }
        assert!(meaning(&claim(&[Reduced], false)).contains("cannot be started again"));
    }

    #[test]
    fn pairs_are_counted_in_words_that_fit() {
        let verdict = |parts: usize, doubles: &[Fate]| {
            let part = |index: usize| model::claims::Part {
                kind: PartKind::Disk,
                name: format!("disk {index}"),
                disks: std::collections::BTreeSet::new(),
            };
            let policy = model::policy::Policy::built_in();
            let usable = model::capacity::usable_by_policy(&model::placement::Topology::default(), &policy);
            pairs_text(&Verdict {
                usable,
                refusal: None,
                parts: (0..parts).map(part).collect(),
                singles: Vec::new(),
                doubles: doubles.iter().map(|fate| claim(&[*fate], true)).collect(),
            })
        };
        use Fate::{Lost, Reduced};
        assert!(verdict(2, &[]).contains("no two things"));
        assert!(verdict(PARTS_PAIRED_MAX + 1, &[]).contains("/api/v1/what-if"));
        assert!(
            verdict(2, &[Lost]).contains("is not survived") && verdict(2, &[Reduced]).contains("is survived")
        );
        assert!(verdict(3, &[Lost, Lost, Reduced]).contains("Of 3 pairs 1 is survived"));
        assert!(verdict(3, &[Lost, Lost]).contains("None of 2 pairs is"));
        assert!(verdict(3, &[Reduced, Reduced]).contains("All 2 pairs are"));
    }

    #[tokio::test]
    async fn every_loss_of_one_and_two_is_judged() {
        let page = Console::sample().await.get("/survives").await;
        shows(
            &page,
            &[
                "What survives",
                "disk h1-cap1",
                "cache disk h1-cache1",
                "Reduced",
                "Lost",
                "domain as a whole",
            ],
        );
        assert_eq!(Console::sample().await.get("/survives?policy=nonsense").await.0, 404);
    }
}
