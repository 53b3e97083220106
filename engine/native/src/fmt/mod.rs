//! Pure codecs of everything that Millpond writes to a disk. No I/O, no clock, no allocation policy.
pub mod cbor;
#[cfg(test)]
mod cbor_tests;
pub mod config;
pub mod descriptor;
