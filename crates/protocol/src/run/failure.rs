//! Failures of runs: what is stored with a run that did not succeed, and sent to clients.

use serde::{Deserialize, Serialize};

use super::RunStatus;
use crate::event::names::stored_enum;

stored_enum! {
    /// The sort of a failure; programs decide by it.
    pub enum FailureKind {
        /// The model could not be used; trying again later or another model may help.
        Model = "model",
        /// The model was sent more than it takes.
        Overflow = "overflow",
        /// A key or a setting is missing or wrong.
        Config = "config",
        /// The journal failed.
        Store = "store",
        /// The conversation is at a limit, such as that of the model's window.
        Limit = "limit",
        /// The run took all the steps it may take.
        StepLimit = "steps",
        /// A rule of Segue was broken: a defect.
        Internal = "internal",
        /// The run took longer than it may.
        Timeout = "timeout",
        /// A person stopped the run.
        Cancelled = "cancelled",
        /// The request was to begin a run with nothing.
        EmptyInput = "EmptyInputError",
        /// An answer was given to a question that does not wait.
        UnknownInterrupt = "UnknownInterruptError",
        /// Several questions wait, and the answer does not say which it is for.
        AmbiguousResume = "AmbiguousResumeError",
        /// The answer cannot be taken.
        InvalidDecision = "InvalidDecisionError",
        /// The input, or a change of the state, cannot be read.
        InvalidUpdate = "InvalidUpdateError",
        /// The thread's past has no such checkpoint.
        UnknownCheckpoint = "UnknownCheckpointError",
        /// The request asks for settings that cannot be had.
        Request = "ConfigurationError",
        /// The pending call was proposed in another workspace folder.
        Workspace = "WorkspaceError",
        /// A failure of which only a text was stored.
        Unclassified = "RunError",
    }
}

impl FailureKind {
    /// The kinds of requests that could not be met.
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

    /// Returns the name of the class of errors that clients of the Agent Server protocol are told.
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

/// Why a run did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// The sort of failure.
    pub kind: FailureKind,
    /// One line for people: what failed, for what.
    pub message: String,
    /// The suggested remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl RunFailure {
    /// Returns a failure without a hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Sets what a person can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the text under which it is stored with its run.
    ///
    /// # Errors
    /// Never in practice: its fields are text.
    pub fn stored_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Returns the failure of a run of that status; `None` for a run that did not fail. Earlier versions stored a sentence, which
    /// is searched for the kind here and nowhere else.
    pub fn from_stored_text(status: RunStatus, text: Option<&str>) -> Option<Self> {
        let text = text.unwrap_or_default();
        if let Ok(failure) = serde_json::from_str(text) {
            return Some(failure);
        }
        let of =
            |kind, otherwise: &str| Some(Self::new(kind, if text.is_empty() { otherwise } else { text }));
        match status {
            RunStatus::Pending | RunStatus::Running | RunStatus::Success | RunStatus::Interrupted => None,
            RunStatus::Cancelled => of(FailureKind::Cancelled, "it was stopped"),
            RunStatus::Timeout if text.contains("limit of") && text.contains("steps") => {
                of(FailureKind::StepLimit, text)
            }
            RunStatus::Timeout => of(FailureKind::Timeout, "its time is up"),
            RunStatus::Error => {
                let request = FailureKind::REQUEST_ERRORS.into_iter().find_map(|kind| {
                    let message = text.strip_prefix(kind.as_str())?.strip_prefix(": ")?;
                    Some(Self::new(kind, message))
                });
                request.or_else(|| of(FailureKind::Unclassified, "the run failed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_run_failed_is_told_from_a_stored_text() {
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
    fn every_kind_reads_as_what_it_is_stored_as() {
        for kind in FailureKind::REQUEST_ERRORS {
            assert_eq!(FailureKind::from(kind.as_str()), kind);
            assert_eq!(kind.class_name(), kind.as_str());
        }
        let later = FailureKind::from("quota");
        assert_eq!((later.as_str(), later.class_name()), ("quota", "RunError"));
    }
}
