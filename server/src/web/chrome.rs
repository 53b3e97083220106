//! The parts of the frame that no page changes: each is compiled once, however many pages stand in it.
use super::shell::Shell;
use askama::Template;
use askama::filters::HtmlSafe;

/// Style, scripts, icon.
#[derive(Template)]
#[template(path = "chrome/head.html")]
pub struct Head;

/// Theme and signed-in person.
#[derive(Template)]
#[template(path = "chrome/person.html")]
pub struct Person<'a> {
    shell: &'a Shell,
}

/// Menu, cluster, search, counts.
#[derive(Template)]
#[template(path = "chrome/bar.html")]
pub struct Bar<'a> {
    shell: &'a Shell,
}

/// The navigation.
#[derive(Template)]
#[template(path = "chrome/nav.html")]
pub struct Navigation<'a> {
    shell: &'a Shell,
}

/// Live regions, toasts, the list of keys.
#[derive(Template)]
#[template(path = "chrome/foot.html")]
pub struct Foot;

// Each has escaped what it shows.
impl HtmlSafe for Head {}
impl HtmlSafe for Person<'_> {}
impl HtmlSafe for Bar<'_> {}
impl HtmlSafe for Navigation<'_> {}
impl HtmlSafe for Foot {}

impl Shell {
    /// Style, scripts, icon.
    pub fn head(&self) -> Head {
        Head
    }

    /// Theme and signed-in person.
    pub fn person(&self) -> Person<'_> {
        Person { shell: self }
    }

    /// Menu, cluster, search, counts.
    pub fn bar(&self) -> Bar<'_> {
        Bar { shell: self }
    }

    /// The navigation.
    pub fn navigation(&self) -> Navigation<'_> {
        Navigation { shell: self }
    }

    /// Live regions, toasts, the list of keys.
    pub fn foot(&self) -> Foot {
        Foot
    }
}
