//! Failures of runs, in the form that is stored with the run and sent to clients.

use serde::{Deserialize, Serialize};

use super::RunStatus;
use crate::event::names::stored_enum;

stored_enum! {
    /// The kind of a failure, on which programs can depend. The text of a failure is for users only.
    pub enum FailureKind {
        /// The model call failed. A later attempt or another model may succeed.
        Model = "model",
        /// The request exceeded the model's context window.
        Overflow = "overflow",
        /// An API key or a setting is missing or invalid.
        Config = "config",
        /// The journal's database failed.
        Store = "store",
        /// A limit was reached that an immediate retry cannot avoid, such as the context window or the number of
        /// model calls.
        Limit = "limit",
        /// The run reached its step limit.
        StepLimit = "steps",
        /// An invariant of Segue was violated. This is a defect.
        Internal = "internal",
        /// The run reached its time limit.
        Timeout = "timeout",
        /// A user stopped the run.
        Cancelled = "cancelled",
        /// The thread is empty, and the input contains no message.
        EmptyInput = "EmptyInputError",
        /// The answer refers to an interrupt that is not pending.
        UnknownInterrupt = "UnknownInterruptError",
        /// Several interrupts are pending, and the answer does not name one.
        AmbiguousResume = "AmbiguousResumeError",
        /// The answer does not have the form that the interrupt requires.
        InvalidDecision = "InvalidDecisionError",
        /// The input or the state update cannot be parsed.
        InvalidUpdate = "InvalidUpdateError",
        /// The thread has no checkpoint with the requested id.
        UnknownCheckpoint = "UnknownCheckpointError",
        /// The request contains invalid or unavailable settings.
        Request = "ConfigurationError",
        /// The pending call was proposed in another workspace folder.
        Workspace = "WorkspaceError",
        /// A failure of an earlier version, which stored a text only.
        Unclassified = "RunError",
    }
}

impl FailureKind {
    /// The kinds of failures that an invalid request causes. Their stored name is also their class name.
    const REQUEST_ERRORS: [Self; 8] = [
        Self::EmptyInput,
        Self::UnknownInterrupt,
        Self::AmbiguousResume,
        Self::InvalidDecision,
        Self::InvalidUpdate,
        Self::UnknownCheckpoint,
        Self::Request,
        Self::Workspace,
    ];

    /// Returns true if the failure is that of an answer to an interrupt which is not pending, or to which the answer does
    /// not fit.
    pub const fn is_about_answer(&self) -> bool {
        matches!(self, Self::UnknownInterrupt | Self::InvalidDecision)
    }

    /// Returns the error class that clients of the Agent Server protocol receive.
    pub const fn class_name(&self) -> &'static str {
        match self {
            Self::EmptyInput => "EmptyInputError",
            Self::UnknownInterrupt => "UnknownInterruptError",
            Self::AmbiguousResume => "AmbiguousResumeError",
            Self::InvalidDecision => "InvalidDecisionError",
            Self::InvalidUpdate => "InvalidUpdateError",
            Self::UnknownCheckpoint => "UnknownCheckpointError",
            Self::Request => "ConfigurationError",
            Self::Workspace => "WorkspaceError",
            Self::Timeout => "TimeoutError",
            Self::Cancelled => "UserInterrupt",
            Self::StepLimit => "GraphRecursionError",
            Self::Model
            | Self::Overflow
            | Self::Config
            | Self::Store
            | Self::Limit
            | Self::Internal
            | Self::Unclassified
            | Self::Other(_) => "RunError",
        }
    }
}

/// The reason why a run did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// One line for the user: the failed operation and its object.
    pub message: String,
    /// The suggested remedy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl RunFailure {
    /// Returns a failure without a hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Sets the suggested remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the JSON text that is stored with the run.
    ///
    /// # Errors
    /// Never in practice: all fields are text.
    pub fn stored_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Parses the stored text of a run with this status; `None` for a run that did not fail.
    ///
    /// Earlier versions stored a sentence instead of JSON. Its kind is derived from the status and the sentence. Only
    /// this function does so.
    pub fn from_stored_text(status: RunStatus, text: Option<&str>) -> Option<Self> {
        let text = text.unwrap_or_default();
        if let Ok(failure) = serde_json::from_str(text) {
            return Some(failure);
        }
        let failure =
            |kind, default: &str| Some(Self::new(kind, if text.is_empty() { default } else { text }));
        match status {
            RunStatus::Pending | RunStatus::Running | RunStatus::Success | RunStatus::Interrupted => None,
            RunStatus::Cancelled => failure(FailureKind::Cancelled, "it was stopped"),
            RunStatus::Timeout if text.contains("limit of") && text.contains("steps") => {
                failure(FailureKind::StepLimit, text)
            }
            RunStatus::Timeout => failure(FailureKind::Timeout, "its time is up"),
            RunStatus::Error => {
                let request_error = FailureKind::REQUEST_ERRORS.into_iter().find_map(|kind| {
                    let message = text.strip_prefix(kind.as_str())?.strip_prefix(": ")?;
                    Some(Self::new(kind, message))
                });
                request_error.or_else(|| failure(FailureKind::Unclassified, "the run failed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_parsed_from_its_stored_text() {
        let check = |status, text: Option<&str>, kind: Option<FailureKind>, message: &str| {
            let failure = RunFailure::from_stored_text(status, text);
            assert_eq!(failure.as_ref().map(|failure| &failure.kind), kind.as_ref(), "{text:?}");
            assert_eq!(failure.map(|failure| failure.message).unwrap_or_default(), message, "{text:?}");
        };
        let own = "EmptyInputError: there is: nothing";
        check(RunStatus::Error, Some(own), Some(FailureKind::EmptyInput), "there is: nothing");
        check(RunStatus::Error, Some("call the model"), Some(FailureKind::Unclassified), "call the model");
        check(RunStatus::Error, Some("OtherError: x"), Some(FailureKind::Unclassified), "OtherError: x");
        check(RunStatus::Error, None, Some(FailureKind::Unclassified), "the run failed");
        let steps = "the run reached its limit of 3 steps";
        check(RunStatus::Timeout, Some(steps), Some(FailureKind::StepLimit), steps);
        check(RunStatus::Timeout, Some("its time is up"), Some(FailureKind::Timeout), "its time is up");
        check(RunStatus::Cancelled, None, Some(FailureKind::Cancelled), "it was stopped");
        let stored = RunFailure::new(FailureKind::Overflow, "send the request").with_hint("shorten it");
        let text = stored.stored_text().unwrap();
        assert_eq!(RunFailure::from_stored_text(RunStatus::Error, Some(&text)), Some(stored));
        check(RunStatus::Success, None, None, "");
        check(RunStatus::Interrupted, None, None, "");
    }

    #[test]
    fn every_kind_parses_from_its_stored_name() {
        for kind in FailureKind::REQUEST_ERRORS {
            assert_eq!(FailureKind::from(kind.as_str()), kind);
            assert_eq!(kind.class_name(), kind.as_str());
        }
        let later = FailureKind::from("quota");
        assert_eq!((later.as_str(), later.class_name()), ("quota", "RunError"));
    }
}
