//! Licence keys. Community is the default: every feature, no key, no clock.
//!
//! A key is `mpl1.PAYLOAD.SIGNATURE`, both base64url without padding: the payload is JSON ([`Terms`]), signed with ed25519 over
//! `mpl1.` and the encoded payload. Whoever issues keys keeps the secret half in a file (`licence issuer init`); this server
//! verifies with the public half that its setting `licence-issuer` holds. A key never phones home, and losing one, or its
//! end, takes nothing away that Community has.
use crate::app::{App, Cluster};
use crate::db::settings;
use crate::edge::{Rng, parse_rfc3339};
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::draft::{self, Draft};
use crate::service::{cluster, intent};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use model::engine::Intent;
use model::units::Timestamp;
use serde::{Deserialize, Serialize};

/// What a key begins with: kind and version.
const PREFIX: &str = "mpl1";
/// Name of the setting with the public key of the issuer, base64url.
pub const ISSUER_SETTING: &str = "licence-issuer";
/// Longest key, characters.
const KEY_CHARS_MAX: usize = 4096;

/// What a key says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Edition, e.g. `community`, `supported`.
    pub edition: String,
    /// Who holds it.
    pub holder: String,
    /// Named extras; none of Community's features is ever among them.
    #[serde(default)]
    pub features: Vec<String>,
    /// End, RFC 3339; `None` never ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Why a key is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not of the form of a key.
    #[error("this is not a licence key; a key begins with `mpl1.`")]
    Form,
    /// Signed by somebody else, or changed.
    #[error("the signature of this key is not that of the issuer this server knows")]
    Signature,
    /// No public key to verify with.
    #[error("this server knows no issuer of keys yet; Community needs none")]
    NoIssuer,
    /// Its end has passed.
    #[error("this key has ended")]
    Expired,
}

/// The licence in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Licence {
    /// `community`, or that of the key.
    pub edition: String,
    /// Whether a key is needed for what this cluster does: never, in this release.
    pub required: bool,
    /// `community`, `valid`, `expired` or `invalid`.
    pub state: &'static str,
    /// End.
    pub expires_at: Option<String>,
    /// Named extras.
    pub features: Vec<String>,
    /// Who holds it.
    pub holder: Option<String>,
}

impl Licence {
    fn community(state: &'static str) -> Self {
        let edition = "community".into();
        Self { edition, required: false, state, expires_at: None, features: Vec::new(), holder: None }
    }
}

/// A new issuer's secret half, base64url.
pub fn new_issuer(rng: &dyn Rng) -> String {
    URL_SAFE_NO_PAD.encode(rng.bytes::<32>())
}

fn signing_key(secret: &str) -> Result<SigningKey, KeyError> {
    let bytes = URL_SAFE_NO_PAD.decode(secret.trim()).map_err(|_| KeyError::Form)?;
    Ok(SigningKey::from_bytes(&bytes.try_into().map_err(|_| KeyError::Form)?))
}

/// The public half of an issuer, base64url.
///
/// # Errors
/// [`KeyError::Form`] when the secret is not one.
pub fn public_half(secret: &str) -> Result<String, KeyError> {
    Ok(URL_SAFE_NO_PAD.encode(signing_key(secret)?.verifying_key().as_bytes()))
}

/// Signs terms: the key.
///
/// # Errors
/// [`KeyError::Form`] when the secret is not one.
pub fn issue(secret: &str, terms: &Terms) -> Result<String, KeyError> {
    let payload = serde_json::to_vec(terms).map_err(|_| KeyError::Form)?;
    let signed = format!("{PREFIX}.{}", URL_SAFE_NO_PAD.encode(payload));
    let signature = signing_key(secret)?.sign(signed.as_bytes());
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes())))
}

/// Terms of a key without looking at its signature: for `licence show`.
///
/// # Errors
/// [`KeyError::Form`].
pub fn read(key: &str) -> Result<Terms, KeyError> {
    let mut parts = key.trim().split('.');
    let (Some(PREFIX), Some(payload), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(KeyError::Form);
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| KeyError::Form)?;
    serde_json::from_slice(&payload).map_err(|_| KeyError::Form)
}

/// Verifies a key with the issuer's public half. Pure.
///
/// # Errors
/// [`KeyError`]; an ended key is `Expired` after its signature was found right.
pub fn verify_with(public: &str, key: &str, now: Timestamp) -> Result<Terms, KeyError> {
    if key.len() > KEY_CHARS_MAX {
        return Err(KeyError::Form);
    }
    let terms = read(key)?;
    let (signed, signature) = key.trim().rsplit_once('.').ok_or(KeyError::Form)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| KeyError::Form)?;
    let signature = Signature::from_slice(&signature).map_err(|_| KeyError::Form)?;
    let public = URL_SAFE_NO_PAD.decode(public.trim()).map_err(|_| KeyError::NoIssuer)?;
    let public: [u8; 32] = public.try_into().map_err(|_| KeyError::NoIssuer)?;
    let public = VerifyingKey::from_bytes(&public).map_err(|_| KeyError::NoIssuer)?;
    public.verify_strict(signed.as_bytes(), &signature).map_err(|_| KeyError::Signature)?;
    match &terms.expires_at {
        Some(end) if parse_rfc3339(end).is_none_or(|end| end <= now) => Err(KeyError::Expired),
        _ => Ok(terms),
    }
}

async fn check(app: &App, key: &str) -> Result<Result<Terms, KeyError>, AppError> {
    let Some(public) = settings::get(&app.console, ISSUER_SETTING).await? else {
        return Ok(Err(KeyError::NoIssuer));
    };
    Ok(verify_with(&public, key, app.clock.now()))
}

/// Verifies a key that somebody entered.
///
/// # Errors
/// [`AppError::Invalid`] on `key`.
pub async fn verify(app: &App, key: &str) -> Result<Terms, AppError> {
    check(app, key).await?.map_err(|error| AppError::field("key", error.to_string()))
}

/// The licence in force.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn get(app: &App, cluster: &Cluster) -> Result<Licence, AppError> {
    let snapshot = cluster::snapshot_or_picture(app, cluster).await?;
    let Some(key) = &snapshot.cluster.licence_key else { return Ok(Licence::community("community")) };
    let state = match check(app, key).await? {
        Ok(_) => "valid",
        Err(KeyError::Expired) => "expired",
        Err(_) => return Ok(Licence::community("invalid")),
    };
    let terms = read(key).map_err(AppError::internal)?;
    let Terms { edition, holder, features, expires_at } = terms;
    Ok(Licence { edition, required: false, state, expires_at, features, holder: Some(holder) })
}

/// Stores a verified key with the cluster; `None` goes back to Community.
///
/// # Errors
/// [`AppError::Invalid`] on `key`.
pub async fn put(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    key: Option<String>,
) -> Result<Licence, AppError> {
    if let Some(key) = &key {
        verify(app, key).await?;
    }
    if draft::is_unconfigured(cluster).await? {
        let put = |draft: &mut Draft| {
            draft.licence_key.clone_from(&key);
            Ok(())
        };
        draft::change(app, actor, &cluster.key, None, put).await?;
    } else {
        intent::apply(app, actor, cluster, Intent::SetLicence { key }).await?;
    }
    get(app, cluster).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::SystemRng;

    fn terms(expires_at: Option<&str>) -> Terms {
        let (edition, holder) = ("supported".into(), "Mill & Sons".into());
        Terms { edition, holder, features: vec!["support".into()], expires_at: expires_at.map(str::to_owned) }
    }

    #[test]
    fn a_key_reads_back_and_no_changed_key_does() {
        let secret = new_issuer(&SystemRng);
        let public = public_half(&secret).unwrap();
        let key = issue(&secret, &terms(None)).unwrap();
        assert_eq!(verify_with(&public, &key, Timestamp(0)), Ok(terms(None)));
        for index in 0..key.len() {
            let mut changed = key.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(verify_with(&public, &changed, Timestamp(0)).is_err(), "{index}");
        }
    }

    #[test]
    fn another_issuer_is_not_ours() {
        let (ours, theirs) = (new_issuer(&SystemRng), new_issuer(&SystemRng));
        let key = issue(&theirs, &terms(None)).unwrap();
        let public = public_half(&ours).unwrap();
        assert_eq!(verify_with(&public, &key, Timestamp(0)), Err(KeyError::Signature));
    }

    #[test]
    fn a_key_ends_when_it_says() {
        let secret = new_issuer(&SystemRng);
        let public = public_half(&secret).unwrap();
        let end = "2030-01-01T00:00:00Z";
        let key = issue(&secret, &terms(Some(end))).unwrap();
        let end = parse_rfc3339(end).unwrap();
        assert!(verify_with(&public, &key, Timestamp(end.0 - 1)).is_ok());
        assert_eq!(verify_with(&public, &key, end), Err(KeyError::Expired));
        let never = issue(&secret, &terms(Some("soon"))).unwrap();
        assert_eq!(verify_with(&public, &never, Timestamp(0)), Err(KeyError::Expired));
    }

    #[test]
    fn nonsense_is_not_a_key() {
        for text in ["", "mpl1", "mpl1..", "mpl2.e30.e30", "mpl1.e30.e30.e30", &"x".repeat(10_000)] {
            assert!(verify_with("", text, Timestamp(0)).is_err(), "{text}");
        }
    }
}
