//! What a use case can fail with, and what the person is told.
//!
//! Every `Display` text is safe to show and says what to do; causes go to the log only. No HTTP type here: `http::failure`
//! turns this into a problem document, a page or a toast.
use crate::db::DbError;
use model::engine::EngineError;
use model::placement::Refusal;

/// One wrong field of a request or form.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Path of the field, e.g. `claims[0].capacity`.
    pub field: String,
    /// One sentence that says what would be right.
    pub detail: String,
}

impl FieldError {
    /// A wrong field.
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), detail: detail.into() }
    }
}

/// Failure of one use case.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// No valid session or token.
    #[error("sign in to continue")]
    NotSignedIn,
    /// The role is too low.
    #[error("this needs the role `{needs}`")]
    Forbidden {
        /// The least role.
        needs: &'static str,
    },
    /// Cookie, origin or content type do not prove that the person meant it.
    #[error("{0}")]
    Refused(&'static str),
    /// There is no such thing.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The path exists, the method does not.
    #[error("this address does not take that method")]
    MethodNotAllowed,
    /// The request cannot be read.
    #[error("the request cannot be read: {0}")]
    Malformed(String),
    /// The body is larger than this address takes.
    #[error("the request is too large")]
    TooLarge,
    /// It was read, and these fields are wrong.
    #[error("{}", list(.0))]
    Invalid(Vec<FieldError>),
    /// It cannot be placed.
    #[error("{0}")]
    Unplaceable(Refusal),
    /// It does not fit the present state: in use, taken, stale.
    #[error("{0}")]
    Conflict(String),
    /// Too many wrong passwords.
    #[error("Too many tries. Try again in {seconds} s.")]
    TooManyTries {
        /// Wait.
        seconds: i64,
    },
    /// The contract has it, this release does not.
    #[error("{0}")]
    NotYet(String),
    /// The engine is away; the outcome is unknown.
    #[error("the storage engine is unavailable: {0}")]
    Unavailable(String),
    /// A mistake of ours, or a broken console database.
    #[error("something went wrong on our side; the server log has the cause under the request id")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

fn list(errors: &[FieldError]) -> String {
    errors.iter().map(|error| format!("{}: {}", error.field, error.detail)).collect::<Vec<_>>().join("; ")
}

impl AppError {
    /// Wraps a cause that the person cannot act on.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(cause.into())
    }

    /// One wrong field.
    pub fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, detail)])
    }

    /// `Ok` when there is no wrong field.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with all of them.
    pub fn check(errors: Vec<FieldError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Invalid(errors)) }
    }

    /// `outer: middle: inner`, for the log.
    pub fn cause_chain(&self) -> String {
        let first: &dyn std::error::Error = self;
        std::iter::successors(Some(first), |error| error.source())
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(": ")
    }
}

impl From<DbError> for AppError {
    fn from(error: DbError) -> Self {
        Self::internal(error)
    }
}

impl From<EngineError> for AppError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NotFound { what } => Self::NotFound(what),
            EngineError::Unplaceable(refusal) => Self::Unplaceable(refusal),
            EngineError::Unsupported { text, .. } => Self::NotYet(text),
            EngineError::Invalid { field, detail } => Self::field(field, detail),
            EngineError::Unavailable { detail } => Self::Unavailable(detail),
            taken @ (EngineError::NameTaken { .. }
            | EngineError::InUse { .. }
            | EngineError::StaleVersion { .. }
            | EngineError::Conflict { .. }) => Self::Conflict(taken.to_string()),
            other => Self::internal(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_for_the_log_only() {
        let error = AppError::internal(std::io::Error::other("/data/console.db: disk I/O error"));
        assert!(!error.to_string().contains("console.db"));
        assert!(error.cause_chain().ends_with("/data/console.db: disk I/O error"));
    }

    #[test]
    fn every_engine_refusal_keeps_its_meaning() {
        let taken = EngineError::NameTaken { what: "volume \"db\"".into() };
        assert!(matches!(AppError::from(taken), AppError::Conflict(text) if text.contains("volume \"db\"")));
        let away = EngineError::Unavailable { detail: "stopped".into() };
        assert!(matches!(AppError::from(away), AppError::Unavailable(_)));
    }
}
