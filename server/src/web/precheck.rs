//! The page before a deed: what happens, computed now, and then the button. One shape for volumes, policies, resync and people.
use crate::error::FieldError;
use crate::web::parts::{self, Choice, Command, Crumb, Fact, Field};
use crate::web::shell::Shell;
use crate::web::volumes::PolicyOption;
use askama::Template;

/// What the form at the end asks for.
pub enum Ask {
    /// Nothing but the button.
    Plain,
    /// A typed name, because something is lost for good; and what was wrong with it.
    Typed {
        /// To be typed.
        name: String,
        /// One sentence, or empty.
        error: String,
    },
    /// A size with its unit.
    Size {
        /// The number.
        size: Field,
        /// The unit chosen.
        unit: String,
        /// Units.
        units: Vec<Choice>,
    },
    /// One of the policies.
    Policy(Vec<PolicyOption>),
}

/// The page.
#[derive(Template)]
#[template(path = "precheck.html")]
pub struct Precheck {
    /// Frame.
    pub shell: Shell,
    /// Where it is.
    pub trail: Vec<Crumb>,
    /// Heading.
    pub title: String,
    /// One or two sentences below it; may be empty.
    pub lead: String,
    /// Where the form is sent.
    pub action: String,
    /// Where one leaves to.
    pub back: String,
    /// Word of the button.
    pub verb: String,
    /// Whether the button destroys.
    pub danger: bool,
    /// Title and text of a warning; empty: none.
    pub warning: (String, String),
    /// What happens.
    pub consequences: Vec<Fact>,
    /// Volumes that it happens to.
    pub volumes: Vec<String>,
    /// Title and text of why it cannot be done; the button is left out then.
    pub blocked: (&'static str, String),
    /// What was wrong with the last try.
    pub errors: Vec<FieldError>,
    /// The form.
    pub ask: Ask,
    /// The same by API.
    pub command_list: Vec<Command>,
}

impl Precheck {
    /// A page about `name`, one of the things listed at `list`; the form is sent to the page's own address.
    pub fn of(shell: Shell, list: (&str, &str), name: (&str, &str), verb: &str) -> Self {
        let title = format!("{verb} {}", name.0);
        Self {
            trail: parts::crumbs(&[list, name], verb),
            action: shell.path.split('?').next().unwrap_or_default().to_owned(),
            back: name.1.to_owned(),
            verb: title.clone(),
            title,
            lead: String::new(),
            danger: false,
            warning: (String::new(), String::new()),
            consequences: Vec::new(),
            volumes: Vec::new(),
            blocked: ("", String::new()),
            errors: Vec::new(),
            ask: Ask::Plain,
            command_list: Vec::new(),
            shell,
        }
    }

    /// Says why it cannot be done.
    pub fn block(&mut self, title: &'static str, why: impl Into<String>) {
        self.blocked = (title, why.into());
    }

    /// How bad the warning is.
    fn tone(&self) -> &'static str {
        if self.danger { "danger" } else { "warning" }
    }

    /// Whether it cannot be done.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.1.is_empty()
    }
}
