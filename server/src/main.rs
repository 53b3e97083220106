//! Millpond: console, API, command line.
fn main() {}
