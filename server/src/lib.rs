//! Millpond's server: console, HTTP API, command line, projections.
//!
//! Map, top to bottom; each layer uses only those below it:
//!
//! ```text
//! cli                      the commands of `millpond`; `cli::serve` wires everything
//! router                   every route with the role it needs, on one screen
//! web, api                 pages, JSON. `http` holds what both share: authorisation, headers, failures, live stream
//! service                  use cases: typed functions over views of `model`. No HTTP type
//! db                       all SQL. `console.db` (people, drafts, history), `views.db` (projections)
//! listen, tls              the port: connections, their limits, the certificate
//! app, error, edge         shared state, the one error type, clock and randomness
//! engines                  the one file that names an engine crate
//! ```
//!
//! Architecture invariant: reality belongs to the engines behind [`model::engine::Engine`]. Both databases can be deleted
//! while the server is stopped, and no volume, policy or placement is lost.
pub mod api;
pub mod app;
pub mod cli;
pub mod db;
pub mod edge;
pub mod engines;
pub mod error;
pub mod http;
pub mod listen;
pub mod router;
pub mod service;
pub mod tls;
pub mod web;

#[cfg(test)]
mod tests;
