//! TLS of the console: an own certificate from two files, or one that this server makes for itself.
//!
//! Map: `pair` reads and checks a certificate with its key, `own` makes one, `names` knows what this machine is called, `der` reads dates.
//! Invariants: a pair that is wrong is refused before a port or a disk is opened; a new pair that is wrong never replaces the one in use;
//! no key leaves its file but into the memory of this process.
mod der;
pub mod names;
mod own;
mod pair;

pub use own::{CERTIFICATE, KEY};
pub use pair::{Pair, TlsError};

use axum_server::tls_rustls::RustlsConfig;
use model::units::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `--tls-cert` and `--tls-key`, absolute.
    Files {
        /// The certificate, with those that signed it after it.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// `--tls-self-signed`.
    SelfSigned,
}

impl Source {
    /// Reads the pair; one of our own is made in `folder` when it is missing or ends soon.
    ///
    /// # Errors
    /// [`TlsError`]: one sentence with the remedy.
    pub fn open(&self, folder: &Path, names: &[String], now: Timestamp) -> Result<Pair, TlsError> {
        match self {
            Self::Files { certificate, key } => Pair::read(certificate, key, now),
            Self::SelfSigned => own::open(folder, names, now),
        }
    }
}

/// The certificate in use. Clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    source: Source,
    folder: PathBuf,
    names: Vec<String>,
    pair: RwLock<Arc<Pair>>,
    acceptor: RustlsConfig,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({:?})", self.0.source)
    }
}

impl Tls {
    /// Opens the certificate of a data folder. `names` is what this machine is called.
    ///
    /// # Errors
    /// [`TlsError`]: one sentence with the remedy.
    pub fn open(source: Source, folder: &Path, names: Vec<String>, now: Timestamp) -> Result<Self, TlsError> {
        let pair = source.open(folder, &names, now)?;
        let acceptor = RustlsConfig::from_config(pair.server.clone());
        let pair = RwLock::new(Arc::new(pair));
        Ok(Self(Arc::new(Inner { source, folder: folder.to_owned(), names, pair, acceptor })))
    }

    /// The pair in use.
    pub fn pair(&self) -> Arc<Pair> {
        self.0.pair.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// What connections are accepted with.
    pub fn acceptor(&self) -> RustlsConfig {
        self.0.acceptor.clone()
    }

    /// Reads the files again, or renews what ends soon; true when the certificate is another one now. Connections that are open stay.
    ///
    /// # Errors
    /// [`TlsError`]; the pair in use stays.
    pub fn refresh(&self, now: Timestamp) -> Result<bool, TlsError> {
        let fresh = self.0.source.open(&self.0.folder, &self.0.names, now)?;
        let is_new = fresh.leaf != self.pair().leaf;
        self.0.acceptor.reload_from_config(fresh.server.clone());
        *self.0.pair.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(fresh);
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests;
