//! What the component macros of `templates/parts` take: plain data for the screen, no engine type.
//!
//! Invariant: a state is always shape + word + colour; [`Tone`] is the only place that pairs them.
use super::format::{self, When};
use crate::db::history::PastEvent;
use crate::error::FieldError;
use model::state::Severity;
use model::units::Timestamp;

/// Kind of state: decides shape and colour. The word comes with it in a [`Chip`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Check in a circle.
    #[default]
    Healthy,
    /// Spanner: on purpose, or neutral.
    Maint,
    /// Arrow leaving.
    Evacuating,
    /// Turning arrows.
    Rebuilding,
    /// Dashed circle: may come back.
    Absent,
    /// Triangle: will not come back, or less than promised.
    Degraded,
    /// Cross in a circle, inverted.
    Failed,
}

impl Tone {
    /// All, for the kit page.
    pub const ALL: [Self; 7] = [
        Self::Healthy,
        Self::Rebuilding,
        Self::Absent,
        Self::Degraded,
        Self::Evacuating,
        Self::Failed,
        Self::Maint,
    ];

    /// Class in the style sheet; with `f-` before it the fill of a bar.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Maint => "maint",
            Self::Evacuating => "evacuating",
            Self::Rebuilding => "rebuilding",
            Self::Absent => "absent",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }

    /// Glyph in `static/icons.svg`.
    pub fn icon(&self) -> &'static str {
        match self {
            Self::Healthy => "circle-check",
            Self::Maint => "wrench",
            Self::Evacuating => "arrow-right-from-line",
            Self::Rebuilding => "refresh-cw",
            Self::Absent => "circle-dashed",
            Self::Degraded => "triangle-alert",
            Self::Failed => "circle-x",
        }
    }

    /// Whether the glyph turns.
    pub fn turns(&self) -> bool {
        matches!(self, Self::Rebuilding)
    }
}

/// A state with its word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chip {
    /// Shape and colour.
    pub tone: Tone,
    /// Word.
    pub word: String,
}

impl Chip {
    /// A chip.
    pub fn new(tone: Tone, word: impl Into<String>) -> Self {
        Self { tone, word: word.into() }
    }
}

/// A step of the breadcrumb; the last one has no link.
#[derive(Clone, Debug, Default)]
pub struct Crumb {
    /// Word.
    pub word: String,
    /// Where it leads.
    pub href: Option<String>,
}

/// Breadcrumb from pairs of word and address; the last word is the page itself.
pub fn crumbs(links: &[(&str, &str)], here: impl Into<String>) -> Vec<Crumb> {
    let mut list: Vec<Crumb> = links
        .iter()
        .map(|(word, href)| Crumb { word: (*word).to_owned(), href: Some((*href).to_owned()) })
        .collect();
    list.push(Crumb { word: here.into(), href: None });
    list
}

/// A named value: in the row of facts or a key-value list.
#[derive(Clone, Debug, Default)]
pub struct Fact {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Second, quieter value.
    pub note: String,
    /// Exact value, as title.
    pub exact: String,
    /// Link on the value.
    pub href: Option<String>,
    /// Shown instead of the value.
    pub chip: Option<Chip>,
    /// What the copy button beside it copies.
    pub copy: Option<String>,
    /// Ids and device names.
    pub mono: bool,
}

impl Fact {
    /// Name and value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), ..Self::default() }
    }

    /// A byte count, with the exact number as title.
    pub fn bytes(name: impl Into<String>, bytes: u64) -> Self {
        Self { exact: format::exact(bytes), ..Self::new(name, format::bytes(bytes)) }
    }

    /// A state.
    pub fn chip(name: impl Into<String>, tone: Tone, word: impl Into<String>) -> Self {
        Self { chip: Some(Chip::new(tone, word)), ..Self::new(name, "") }
    }

    /// Adds the second value.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Makes it a link.
    #[must_use]
    pub fn link(mut self, href: impl Into<String>) -> Self {
        self.href = Some(href.into());
        self
    }

    /// An id: monospace, short, with a button that copies all of it.
    #[must_use]
    pub fn id(name: impl Into<String>, id: &uuid::Uuid) -> Self {
        let whole = id.to_string();
        Self { mono: true, copy: Some(whole.clone()), ..Self::new(name, &whole[..8]) }
    }
}

/// A button-like link.
#[derive(Clone, Debug, Default)]
pub struct Action {
    /// Verb.
    pub word: String,
    /// Where.
    pub href: String,
    /// Glyph.
    pub icon: &'static str,
    /// The one thing to do first.
    pub primary: bool,
}

impl Action {
    /// An action.
    pub fn new(word: impl Into<String>, href: impl Into<String>, icon: &'static str) -> Self {
        Self { word: word.into(), href: href.into(), icon, primary: false }
    }

    /// Makes it the first one.
    #[must_use]
    pub fn primary(mut self) -> Self {
        self.primary = true;
        self
    }
}

/// One line of "if one more fails" or "back to full protection".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How bad.
    pub tone: Tone,
    /// Who or when.
    pub title: String,
    /// What follows.
    pub detail: String,
}

impl Outcome {
    /// An outcome.
    pub fn new(tone: Tone, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { tone, title: title.into(), detail: detail.into() }
    }
}

/// Something happens by itself at a time.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    /// Words before the time.
    pub before: String,
    /// The time.
    pub at: When,
    /// Words after it, with the leading space or comma.
    pub after: String,
}

/// The explain banner: what, why, what happens by itself and when, what can be done; next failure; way back.
#[derive(Clone, Debug, Default)]
pub struct Explain {
    /// Colour of its edge.
    pub tone: Tone,
    /// What, in one sentence.
    pub title: String,
    /// Why, a paragraph each.
    pub text: Vec<String>,
    /// What happens by itself.
    pub deadline: Option<Deadline>,
    /// What the person can do.
    pub actions: Vec<Action>,
    /// E.g. `If one more host fails now`.
    pub next_title: String,
    /// What one more failure does.
    pub next: Vec<Outcome>,
    /// The way back.
    pub back: Vec<Outcome>,
}

/// A piece of a stacked bar and a line of its legend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// Fill class without `f-`: `accent`, `accent-2`, `ink`, `line`, `none`, or a tone.
    pub fill: &'static str,
    /// Name.
    pub name: String,
    /// Why, in a few words.
    pub note: String,
    /// Amount for people.
    pub amount: String,
    /// Exact amount.
    pub exact: String,
    /// Left edge, 0..=100.
    pub from_percent: f64,
    /// Width, 0..=100.
    pub percent: f64,
}

/// Lays named byte counts out on one bar. The whole is their sum.
pub fn segments(pieces: Vec<(&'static str, String, String, u64)>) -> Vec<Segment> {
    let whole: u64 = pieces.iter().map(|piece| piece.3).sum();
    let mut before = 0;
    pieces
        .into_iter()
        .map(|(fill, name, note, bytes)| {
            let from = before;
            before += bytes;
            Segment {
                fill,
                name,
                note,
                amount: format::bytes(bytes),
                exact: format::exact(bytes),
                from_percent: format::width(from, whole),
                percent: format::width(bytes, whole),
            }
        })
        .collect()
}

/// One of few, in a segmented control or a select.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Value that is sent.
    pub value: String,
    /// Word that is shown.
    pub word: String,
    /// Why it cannot be chosen; empty when it can.
    pub why_not: String,
    /// The neutral choice.
    pub none: bool,
}

impl Choice {
    /// A choice that can be made.
    pub fn new(value: impl Into<String>, word: impl Into<String>) -> Self {
        Self { value: value.into(), word: word.into(), ..Self::default() }
    }

    /// Whether it is the choice of that value.
    pub fn is(&self, value: impl AsRef<str>) -> bool {
        self.value == value.as_ref()
    }
}

/// A view with its own address.
#[derive(Clone, Debug, Default)]
pub struct Tab {
    /// Word.
    pub word: String,
    /// Address.
    pub href: String,
    /// Whether it is the one shown.
    pub current: bool,
}

/// A text field of a form, with what was typed and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// Name and id.
    pub name: &'static str,
    /// Label.
    pub label: &'static str,
    /// Help below.
    pub help: String,
    /// Value.
    pub value: String,
    /// Input type.
    pub kind: &'static str,
    /// Autocomplete token.
    pub autocomplete: &'static str,
    /// What is wrong, one sentence.
    pub error: Option<String>,
    /// Must be filled in.
    pub required: bool,
    /// Narrow.
    pub short: bool,
}

impl Field {
    /// A required text field.
    pub fn text(name: &'static str, label: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            label,
            value: value.into(),
            kind: "text",
            autocomplete: "off",
            required: true,
            ..Self::default()
        }
    }

    /// Adds help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Takes its error out of a list.
    #[must_use]
    pub fn checked(mut self, errors: &[FieldError]) -> Self {
        self.error = errors.iter().find(|error| error.field == self.name).map(|error| error.detail.clone());
        self
    }
}

/// A step of the wizard.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// `done`, `now`, `todo`, `wrong`.
    pub state: &'static str,
    /// Name.
    pub name: String,
    /// Address.
    pub href: String,
    /// The answer given so far.
    pub answer: String,
    /// Whether one may go there.
    pub reachable: bool,
}

/// A line of a check list.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// How bad.
    pub tone: Tone,
    /// Finding.
    pub text: String,
    /// Impact or remedy.
    pub detail: String,
}

/// A header of a data table.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Word.
    pub word: &'static str,
    /// Address that sorts by it; empty: cannot be sorted.
    pub href: String,
    /// `ascending`, `descending` or empty.
    pub sorted: &'static str,
    /// Right-aligned.
    pub number: bool,
}

/// Where one is in a long list.
#[derive(Clone, Debug, Default)]
pub struct Pager {
    /// E.g. `100 of 100 000 volumes`.
    pub text: String,
    /// Address of the first page, when this is another.
    pub first: Option<String>,
    /// Address of the next page.
    pub next: Option<String>,
}

/// A command, with a comment before it.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// What it does.
    pub comment: String,
    /// The command.
    pub text: String,
}

/// Commands from pairs of comment and text.
pub fn commands(pairs: &[(&str, String)]) -> Vec<Command> {
    pairs
        .iter()
        .map(|(comment, text)| Command { comment: (*comment).to_owned(), text: text.clone() })
        .collect()
}

/// Something that happened.
#[derive(Clone, Debug, Default)]
pub struct Happening {
    /// When.
    pub when: When,
    /// How bad.
    pub tone: Tone,
    /// What.
    pub text: String,
    /// By whom, or why.
    pub detail: String,
}

/// Events, newest first, for a timeline.
pub fn happenings(events: &[PastEvent], now: Timestamp) -> Vec<Happening> {
    let of = |event: &PastEvent| Happening {
        when: format::when(event.time, now),
        tone: event_tone(event.severity, &event.kind),
        text: event.text.clone(),
        detail: event.user.as_ref().map(|user| format!("by {user}")).unwrap_or_default(),
    };
    events.iter().map(of).collect()
}

/// Shape and colour of an event: what its kind says, else its severity.
pub fn event_tone(severity: Severity, kind: &str) -> Tone {
    match severity {
        _ if kind.contains("resync-started") => Tone::Rebuilding,
        _ if kind.contains("absent") => Tone::Absent,
        Severity::Info => Tone::Healthy,
        Severity::Warning => Tone::Degraded,
        Severity::Error => Tone::Failed,
    }
}

/// A task in a list.
#[derive(Clone, Debug, Default)]
pub struct TaskRow {
    /// Id.
    pub id: String,
    /// What it does to what.
    pub title: String,
    /// State.
    pub chip: Chip,
    /// Whether it is at work.
    pub running: bool,
    /// 0..=100.
    pub percent: u8,
    /// The bar in words.
    pub spoken: String,
    /// Step at work.
    pub step: String,
    /// Who.
    pub started_by: String,
    /// When.
    pub started: When,
    /// Why it failed.
    pub error: Option<String>,
}
