//! Shared by the system tests: real server, real clients, real browser.
