//! The one file that names an engine crate.
