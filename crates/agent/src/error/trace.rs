//! Why what happened cannot be shown, or sent where it should be.

use super::more_of;

/// Why a trace is not there.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No run, thread or handoff has an id that begins so.
    #[error("find a run, a thread or a handoff `{given}`")]
    Unknown {
        /// What was given.
        given: String,
    },
    /// Several of them do.
    #[error("choose among {} that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// What each is, with its id.
        matches: Vec<String>,
    },
    /// Traces cannot be sent where they should be.
    #[error(transparent)]
    Sending(#[from] telemetry::Error),
}

impl TraceError {
    /// Returns what a person can do about it.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Unknown { .. } => {
                "`segue threads list`, `segue history THREAD` and `segue handoff --list` show ids; a beginning is enough"
                    .to_owned()
            }
            Self::Ambiguous { matches, .. } => more_of(matches),
            Self::Sending(_) => "set `endpoint` of `[tracing]`, or OTEL_EXPORTER_OTLP_ENDPOINT, to an address such as \
                                 http://localhost:4318, which takes OTLP over HTTP (`http/protobuf`); OTEL_SDK_DISABLED=true sends nothing"
                .to_owned(),
        }
    }
}
