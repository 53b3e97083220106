//! A certificate that this server makes for itself: `tls-cert.pem` and `tls-key.pem` in the data folder, for the names and addresses of
//! the machine. Made once, so that a person compares its fingerprint once; made again before it ends.
use super::pair::{Pair, TlsError};
use crate::edge::rfc3339;
use model::units::Timestamp;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The certificate, in the data folder. May be given to clients (`curl --cacert`).
pub const CERTIFICATE: &str = "tls-cert.pem";
/// Its key, mode 0600.
pub const KEY: &str = "tls-key.pem";

const DAY_MS: i64 = 24 * 3600 * 1000;
/// How long a certificate is for, days. Source: browsers take none for longer than 398 days.
const DAYS: i64 = 397;
/// It is made again when it ends within so many days.
const RENEW_DAYS: i64 = 30;

/// The certificate of the folder: the one that is there, or a new one when there is none, when it ends soon, or when it cannot be used.
///
/// # Errors
/// `Read` when a file is there and may not be read; `Make`.
pub fn open(folder: &Path, names: &[String], now: Timestamp) -> Result<Pair, TlsError> {
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    match Pair::read(&certificate, &key, now) {
        Ok(pair) if pair.until.0 - now.0 > RENEW_DAYS * DAY_MS => return Ok(pair),
        Err(error @ TlsError::Read { .. }) if !is_missing(&error) => return Err(error),
        _ => {}
    }
    let failed = |why: String| TlsError::Make { folder: folder.to_owned(), why };
    let (text, secret) = make(names, now).map_err(|error| failed(error.to_string()))?;
    // A crash between the two leaves a pair that does not match, and the next start makes another.
    for (path, text) in [(&key, &secret), (&certificate, &text)] {
        replace(path, text).map_err(|error| failed(error.to_string()))?;
    }
    Pair::read(&certificate, &key, now)
}

fn is_missing(error: &TlsError) -> bool {
    matches!(error, TlsError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// A new certificate and its key, both in PEM form.
fn make(names: &[String], now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    let mut who = DistinguishedName::new();
    let host = names.iter().find(|name| *name != "localhost").map_or("localhost", String::as_str);
    who.push(DnType::CommonName, format!("Millpond on {host}"));
    params.distinguished_name = who;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // From yesterday: the clock of the one who looks may be behind ours.
    let ((year, month, date), until) = (day(now.0 - DAY_MS), day(now.0 + (DAYS - 1) * DAY_MS));
    params.not_before = rcgen::date_time_ymd(year, month, date);
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Year, month and day in UTC of a moment.
fn day(milliseconds: i64) -> (i32, u8, u8) {
    let text = rfc3339(Timestamp(milliseconds));
    let number = |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse().ok()).unwrap_or(1);
    (text.get(..4).and_then(|part| part.parse().ok()).unwrap_or(1970), number(5, 7), number(8, 10))
}

/// Writes a new file that only its owner reads, flushes, renames it over `path`, and flushes the folder.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("pem.new");
    if fresh.exists() {
        std::fs::remove_file(&fresh)?;
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
