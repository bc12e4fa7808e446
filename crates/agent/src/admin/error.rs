//! Errors of the administrative calls: access keys, MCP servers, permission rules and trace export.

use crate::ErrorClass;
use crate::admin::keys::LABEL_BYTES_MAX;
use crate::error::ErrorAdvice;

/// The reason why an administrative call failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The caller is not the person at the machine, who alone may manage keys.
    #[error("manage keys: only the person at the machine may")]
    KeysDenied,
    /// No key has the given public part.
    #[error("find a key `{0}`")]
    UnknownKey(String),
    /// The label of a new key is longer than `LABEL_BYTES_MAX`.
    #[error("make a key: its label is longer than {LABEL_BYTES_MAX} bytes")]
    LabelTooLong,
    /// The operating system's random number generator failed while a key was generated.
    #[error("make a key: {0}")]
    NoRandomness(String),
    /// The file of remembered permission rules could not be read or written.
    #[error(transparent)]
    Permission(tools::permission::Error),
    /// The configuration of the MCP servers could not be read or written.
    #[error("use the configured MCP servers: {0}")]
    Mcp(#[source] mcp::Error),
    /// Traces could not be exported to the configured endpoint.
    #[error(transparent)]
    Tracing(telemetry::Error),
}

impl AdminError {
    /// Returns the class of the failure and a hint for the person.
    pub(crate) fn advice(&self) -> ErrorAdvice {
        match self {
            Self::KeysDenied => ErrorClass::User.with_hint("use the token of the installation"),
            Self::UnknownKey(_) => ErrorClass::User.with_hint("`segue keys list` shows the keys"),
            Self::LabelTooLong => ErrorClass::User.with_hint("choose a shorter label"),
            Self::NoRandomness(_) => (ErrorClass::Internal, None),
            Self::Permission(_) => {
                ErrorClass::Store.with_hint("fix or remove the file; it holds nothing but remembered rules")
            }
            Self::Mcp(_) => ErrorClass::Config.with_hint("fix the file; `segue mcp list` shows the configured servers"),
            Self::Tracing(_) => ErrorClass::User.with_hint(
                "set `endpoint` of `[tracing]`, or OTEL_EXPORTER_OTLP_ENDPOINT, to an address such as http://localhost:4318 \
                 that accepts OTLP over HTTP (`http/protobuf`); OTEL_SDK_DISABLED=true turns the export off",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrative_errors_name_the_failure_and_a_remedy() {
        let check = |error: AdminError, text: &str, class: ErrorClass, hint: &str| {
            assert_eq!(error.to_string(), text);
            let (actual_class, advice) = error.advice();
            assert_eq!(
                (actual_class, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        check(
            AdminError::KeysDenied,
            "manage keys: only the person at the machine may",
            ErrorClass::User,
            "token",
        );
        check(AdminError::UnknownKey("x".to_owned()), "find a key `x`", ErrorClass::User, "segue keys list");
        let text = "make a key: its label is longer than 200 bytes";
        check(AdminError::LabelTooLong, text, ErrorClass::User, "shorter label");
        let traces = telemetry::Error::Target("x".to_owned());
        check(AdminError::Tracing(traces), "send traces: x", ErrorClass::User, "OTEL_EXPORTER_OTLP_ENDPOINT");
    }
}
