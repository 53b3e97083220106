//! What pages and API share at the HTTP edge: authorisation, headers, failures, bodies, assets, the live stream.
pub mod assets;
pub mod auth;
pub mod body;
pub mod cookie;
pub mod failure;
pub mod layers;
pub mod live;
pub mod render;
