//! `/_kit`: every component in every state, in debug builds. The place to look at after a change of the style sheet.
use crate::error::{AppError, FieldError};
use crate::web::format::{self, When};
use crate::web::parts::{
    self, Chip, Choice, Column, Command, Crumb, Explain, Fact, Field, Happening, Pager, Segment, Step, Tab,
    TaskRow, Tone,
};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain;
use crate::web::view::map::{self, DomainBox};
use crate::web::view::placement::{self, RaidRow, VoteStrip};
use crate::web::{html, sample};
use askama::Template;
use axum::response::Response;
use model::state::ObjectHealth;

#[derive(Template)]
#[template(path = "kit.html")]
struct Kit {
    shell: Shell,
    trail: Vec<Crumb>,
    chips: Vec<Chip>,
    fact_list: Vec<Fact>,
    explains: Vec<Explain>,
    rows: Vec<RaidRow>,
    vote_strip: VoteStrip,
    history: Vec<Happening>,
    boxes: Vec<DomainBox>,
    legend: Vec<Chip>,
    pieces: Vec<Segment>,
    tasks: Vec<TaskRow>,
    tabs: Vec<Tab>,
    errors: Vec<FieldError>,
    good: Field,
    wrong: Field,
    choices: Vec<Choice>,
    columns: Vec<Column>,
    pager: Pager,
    step_list: Vec<Step>,
    command_list: Vec<Command>,
}

fn explains() -> Vec<Explain> {
    let snapshot = sample::snapshot();
    let healths = [
        ObjectHealth::ReducedWaiting,
        ObjectHealth::ReducedRebuilding,
        ObjectHealth::ReducedCannotRebuild,
        ObjectHealth::Inaccessible,
        ObjectHealth::Moving,
    ];
    let mut list: Vec<Explain> = healths
        .into_iter()
        .map(|health| {
            let mut object = sample::object();
            object.health = health;
            object.accessible = health != ObjectHealth::Inaccessible;
            explain::explain(&snapshot, &object, sample::NOW)
        })
        .collect();
    list.push(explain::explain(&snapshot, &sample::healthy_object(1, "mail"), sample::NOW));
    list
}

fn tasks() -> Vec<TaskRow> {
    let started: When = format::when(sample::NOW, sample::NOW);
    let row = |word: &str, tone, running, percent: u8| TaskRow {
        id: word.to_lowercase(),
        title: format!("Apply policy to erp-db ({word})"),
        chip: Chip::new(tone, word),
        running,
        percent,
        spoken: format!("{percent}% done"),
        step: "Copying to h4".into(),
        started_by: "admin".into(),
        started: started.clone(),
        error: (tone == Tone::Failed).then(|| "No room on h4; add a disk and run it again".into()),
    };
    vec![
        row("Running", Tone::Rebuilding, true, 62),
        row("Done", Tone::Healthy, false, 100),
        row("Failed", Tone::Failed, false, 40),
    ]
}

fn steps() -> Vec<Step> {
    let step = |state, name: &str, answer: &str| Step {
        state,
        name: name.into(),
        href: "/_kit".into(),
        answer: answer.into(),
        reachable: state == "done" || state == "wrong",
    };
    vec![
        step("done", "Hosts", "6 lab hosts"),
        step("wrong", "Fault domains", "one host is in none"),
        step("now", "Claim disks", "1 disk to decide"),
        step("todo", "Review", ""),
    ]
}

/// `GET /_kit`.
///
/// # Errors
/// [`AppError::Internal`] when a template fails.
pub async fn kit(page: Page) -> Result<Response, AppError> {
    let snapshot = sample::snapshot();
    let object = sample::object();
    let errors = vec![FieldError::new("wrong", "must begin with a letter or digit")];
    let tab = |word: &str, current| Tab { word: word.into(), href: "/_kit".into(), current };
    let choice = |value: &str, word: &str| Choice::new(value, word);
    html(&Kit {
        shell: page.shell,
        trail: parts::crumbs(&[("Dashboard", "/")], "Component kit"),
        chips: Tone::ALL.map(|tone| Chip::new(tone, tone.class())).to_vec(),
        fact_list: vec![
            Fact::new("Policy", "default").link("/policies/default").note("mirror, tolerates 1 host"),
            Fact::chip("Tolerates now", Tone::Degraded, "0 failures"),
            Fact::bytes("Size", object.size_bytes).note("412 GiB written"),
            Fact::id("Object", &object.uuid.0),
        ],
        explains: explains(),
        rows: placement::raid_rows(&snapshot, &object, sample::NOW),
        vote_strip: placement::votes(&object),
        history: parts::happenings(&sample::events(), sample::NOW),
        boxes: map::domains(&snapshot, &placement::tags(&object), false, sample::NOW),
        legend: map::legend(),
        pieces: parts::segments(vec![
            ("accent", "Usable for volumes".into(), String::new(), 13 << 40),
            ("accent-2", "Second copies".into(), String::new(), 13 << 40),
            ("ink", "Kept free".into(), "room to rebuild one host".into(), 7 << 40),
            ("line", "Structures".into(), String::new(), 1 << 40),
        ]),
        tasks: tasks(),
        tabs: vec![tab("Used disks", true), tab("All disks", false)],
        good: Field::text("good", "Name", "db").help("Letters, digits, dots, dashes."),
        wrong: Field::text("wrong", "Name", "-db").checked(&errors),
        errors,
        choices: vec![
            choice("cache", "Cache"),
            Choice { why_not: "holds data".into(), ..choice("capacity", "Capacity") },
            Choice { none: true, ..choice("none", "Leave") },
        ],
        columns: vec![
            Column { word: "Volume", href: "/_kit".into(), sorted: "ascending", number: false },
            Column { word: "Size", href: "/_kit".into(), sorted: "", number: true },
        ],
        pager: Pager {
            text: "1 of 184 volumes".into(),
            first: Some("/_kit".into()),
            next: Some("/_kit".into()),
        },
        step_list: steps(),
        command_list: parts::commands(&[(
            "tree with placement",
            format!("GET /api/v1/objects/{}", object.uuid),
        )]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_component_renders_in_every_state() {
        let page = Page { shell: Shell::bare(), now: sample::NOW, headers: axum::http::HeaderMap::new() };
        let response = kit(page).await.expect("the kit renders");
        let body = axum::body::to_bytes(response.into_body(), 1 << 22).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("UTF-8");
        for tone in Tone::ALL {
            assert!(text.contains(&format!("state {}", tone.class())), "{tone:?}");
        }
        for word in
            ["Resyncing 62%", "If one more host fails now", "Back to full protection", "Copy B", "in 48 min"]
        {
            assert!(text.contains(word), "{word}");
        }
    }
}
