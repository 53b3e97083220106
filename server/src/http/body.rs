//! Bodies, queries and path names with errors in our own words: malformed 400, wrong field 422.
use crate::app::{App, Cluster};
use crate::error::AppError;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, RawPathParams, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A JSON body. An empty one is read as `{}`, so that an action without options needs none.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = AppError;
    async fn from_request(request: Request, state: &App) -> Result<Self, AppError> {
        let bytes =
            axum::body::Bytes::from_request(request, state).await.map_err(|rejection| {
                match rejection.status().as_u16() {
                    413 => AppError::TooLarge,
                    _ => AppError::Malformed("the body broke off".into()),
                }
            })?;
        let text = if bytes.is_empty() { &b"{}"[..] } else { &bytes[..] };
        parse(text).map(Self)
    }
}

/// Reads JSON: first as JSON at all, then as what is asked for.
///
/// # Errors
/// [`AppError::Malformed`] when it is no JSON; [`AppError::Invalid`] with the path of the wrong field.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, AppError> {
    let value: serde_json::Value = serde_json::from_slice(text)
        .map_err(|error| AppError::Malformed(format!("the body is not JSON ({error})")))?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut path = error.path().to_string();
        let detail = error.inner().to_string();
        let named = detail.split('`').nth(1).filter(|_| detail.starts_with("missing field"));
        if let Some(name) = named {
            path = if path == "." { name.to_owned() } else { format!("{path}.{name}") };
        }
        AppError::field(if path == "." { "body" } else { &path }, detail)
    })
}

/// A query string; unknown keys are wrong fields when `T` denies them.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, AppError> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(value)| Self(value)).map_err(|error| AppError::field("query", error.body_text()))
    }
}

/// Named parts of the path; one that cannot be read means that there is no such thing.
pub struct Named<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Named<T> {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, AppError> {
        let found = Path::<T>::from_request_parts(parts, state).await;
        found.map(|Path(value)| Self(value)).map_err(|_| AppError::NotFound("what this address names".into()))
    }
}

/// `{name}` in the path.
#[derive(serde::Deserialize)]
pub struct ByName {
    /// The name, decoded.
    pub name: String,
}

/// `{id}` in the path.
#[derive(serde::Deserialize)]
pub struct ById<T> {
    /// The id.
    pub id: T,
}

/// The cluster that the path names: `/api/v1/clusters/{cluster}/…`, else the default one.
pub struct InCluster(pub Arc<Cluster>);

impl FromRequestParts<App> for InCluster {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, AppError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| AppError::NotFound("what this address names".into()))?;
        let key = params.iter().find(|(name, _)| *name == "cluster").map(|(_, value)| value.to_owned());
        state.cluster(key.as_deref()).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Sample {
        size_bytes: u64,
        claims: Vec<Inner>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Inner {
        host: String,
    }

    fn wrong(text: &str) -> String {
        match parse::<Sample>(text.as_bytes()) {
            Err(AppError::Invalid(errors)) => errors[0].field.clone(),
            Err(AppError::Malformed(_)) => "malformed".into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wrong_body_names_its_field() {
        assert_eq!(wrong("{"), "malformed");
        assert_eq!(wrong(r#"{"claims": []}"#), "size_bytes");
        assert_eq!(wrong(r#"{"size_bytes": -1, "claims": []}"#), "size_bytes");
        assert_eq!(wrong(r#"{"size_bytes": 1, "claims": [{"host": 7}]}"#), "claims[0].host");
        assert_eq!(wrong(r#"{"size_bytes": 1, "claims": [{}]}"#), "claims[0].host");
        assert_eq!(wrong(r#"{"size_bytes": 1, "claims": [], "colour": 1}"#), "colour");
    }
}
