//! A certificate and its key as they are read from files: checked before anything is opened, so that a wrong pair is a sentence at the
//! start and not a browser's riddle later.
use super::der;
use crate::edge::rfc3339;
use model::units::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a certificate cannot be used; `Display` says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; name a file that this user may read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No certificate in the file.
    #[error("{} holds no certificate in PEM form; one in DER form is converted by `openssl x509 -inform der -in FILE -out cert.pem`", .0.display())]
    NoCertificate(PathBuf),
    /// No key in the file.
    #[error("{} holds no plain private key in PEM form; an encrypted one is converted by `openssl pkey -in FILE -out key.pem`", .0.display())]
    NoKey(PathBuf),
    /// They do not belong together.
    #[error("the key in {} does not belong to the first certificate in {}; name the two that were made together", key.display(), certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// It has ended.
    #[error("the certificate in {} ended at {until}; renew it, or leave it out and use --tls-self-signed", path.display())]
    Expired {
        /// Which.
        path: PathBuf,
        /// When.
        until: String,
    },
    /// It has not begun.
    #[error("the certificate in {} begins at {from}; set this machine's clock right, or use another one", path.display())]
    NotYet {
        /// Which.
        path: PathBuf,
        /// When.
        from: String,
    },
    /// It cannot be understood.
    #[error("the certificate in {} cannot be used ({why}); make a new one", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A certificate of our own cannot be made or stored.
    #[error("cannot make a certificate in {}: {why}", folder.display())]
    Make {
        /// The data folder.
        folder: PathBuf,
        /// Why.
        why: String,
    },
}

/// A certificate with its key, fit to serve.
#[derive(Debug)]
pub struct Pair {
    /// The certificate itself, in DER; those that signed it are in `server` only.
    pub leaf: CertificateDer<'static>,
    /// Its last moment.
    pub until: Timestamp,
    /// What connections are accepted with: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
    pub server: Arc<ServerConfig>,
}

impl Pair {
    /// Reads and checks both files.
    ///
    /// # Errors
    /// As the variants say.
    pub fn read(certificate: &Path, key: &Path, now: Timestamp) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
        };
        let (chain, secret) = (read(certificate)?, read(key)?);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain).filter_map(Result::ok).collect();
        let leaf = chain.first().cloned().ok_or_else(|| TlsError::NoCertificate(certificate.to_owned()))?;
        let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|_| TlsError::NoKey(key.to_owned()))?;
        let unusable = |why: String| TlsError::Unusable { path: certificate.to_owned(), why };
        let (from, until) =
            der::validity(&leaf).ok_or_else(|| unusable("its dates cannot be read".into()))?;
        let server = server_config(chain, secret).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() }
            }
            other => unusable(other.to_string()),
        })?;
        if now > until {
            return Err(TlsError::Expired { path: certificate.to_owned(), until: rfc3339(until) });
        }
        if now < from {
            return Err(TlsError::NotYet { path: certificate.to_owned(), from: rfc3339(from) });
        }
        Ok(Self { leaf, until, server: Arc::new(server) })
    }

    /// SHA-256 of the certificate, as browsers show it: pairs of capital hex digits with colons between.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(&self.leaf);
        digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// Whether the certificate is for this name or address.
    pub fn is_for(&self, name: &str) -> bool {
        let Ok(name) = rustls::pki_types::ServerName::try_from(name) else { return false };
        rustls::server::ParsedCertificate::try_from(&self.leaf)
            .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, &name).is_ok())
    }
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
