//! Errors of the administrative calls: access keys, MCP servers, rules about tools, trace export.

use crate::Class;
use crate::error::Advice;
use crate::home::keys::LABEL_BYTES_MAX;

/// Why an administrative call failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Keys are managed by the person at the machine only.
    #[error("manage keys: only the person at the machine may")]
    KeysDenied,
    /// No key begins with that.
    #[error("find a key `{0}`")]
    UnknownKey(String),
    /// The label of a key is too long.
    #[error("make a key: its label is longer than {LABEL_BYTES_MAX} bytes")]
    LabelTooLong,
    /// The system has no randomness to make a key of.
    #[error("make a key: {0}")]
    NoRandomness(String),
    /// The remembered rules about tool calls could not be read or written.
    #[error(transparent)]
    Permission(tools::permission::Error),
    /// What is written down about MCP servers could not be read or written.
    #[error("use the MCP servers that are written down: {0}")]
    Mcp(#[source] mcp::Error),
    /// Traces cannot be sent where they should be.
    #[error(transparent)]
    Tracing(telemetry::Error),
}

impl AdminError {
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::KeysDenied => Class::User.with("use the token of the installation"),
            Self::UnknownKey(_) => Class::User.with("`segue keys list` shows the keys"),
            Self::LabelTooLong => Class::User.with("choose a shorter label"),
            Self::NoRandomness(_) => (Class::Internal, None),
            Self::Permission(_) => {
                Class::Store.with("mend or remove the file; it holds nothing but remembered rules")
            }
            Self::Mcp(_) => Class::Config.with("mend the file; `segue mcp list` shows what is written down"),
            Self::Tracing(_) => Class::User.with(
                "set `endpoint` of `[tracing]`, or OTEL_EXPORTER_OTLP_ENDPOINT, to an address such as http://localhost:4318, \
                 which takes OTLP over HTTP (`http/protobuf`); OTEL_SDK_DISABLED=true sends nothing",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_administration_say_what_failed_and_what_can_be_done() {
        let check = |error: AdminError, text: &str, class: Class, hint: &str| {
            assert_eq!(error.to_string(), text);
            let (found, advice) = error.advice();
            assert_eq!(
                (found, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        check(
            AdminError::KeysDenied,
            "manage keys: only the person at the machine may",
            Class::User,
            "token",
        );
        check(AdminError::UnknownKey("x".to_owned()), "find a key `x`", Class::User, "segue keys list");
        let text = "make a key: its label is longer than 200 bytes";
        check(AdminError::LabelTooLong, text, Class::User, "shorter label");
        let traces = telemetry::Error::Target("x".to_owned());
        check(AdminError::Tracing(traces), "send traces: x", Class::User, "OTEL_EXPORTER_OTLP_ENDPOINT");
    }
}
