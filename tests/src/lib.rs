//! What the system tests share: a real server, `curl`, foreign NBD clients, a real browser.
//!
//! Rules: every test has its own folder and port; waits are on conditions with generous limits; nothing measures time; a process that a
//! test started is ended with it. A missing tool fails loudly.
pub mod api;
pub mod browser;
pub mod loops;
pub mod server;
pub mod tools;
pub mod wait;

pub use api::Api;
pub use server::{Lab, Server};
pub use wait::{until, within};

/// Says something to whoever runs the tests, also when the test passes: its own output is hidden then.
pub fn say(words: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{words}");
}
