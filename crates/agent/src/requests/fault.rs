//! How a run failed, as clients of the wire are told: the name of a class of errors, and what happened. Front ends show
//! it; what makes a run fail is decided elsewhere.

use protocol::RunStatus;
use serde::Serialize;

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The name of the class of errors, such as `EmptyInputError`.
    #[serde(rename = "error")]
    pub name: &'static str,
    /// What happened.
    pub message: String,
}

/// There was nothing to begin with.
pub(super) const EMPTY_INPUT: &str = "EmptyInputError";
/// An answer was given to what does not wait.
pub(super) const UNKNOWN_INTERRUPT: &str = "UnknownInterruptError";
/// Several questions wait, and the answer does not say which it is for.
pub(super) const AMBIGUOUS_RESUME: &str = "AmbiguousResumeError";
/// The answer cannot be taken.
pub(super) const INVALID_DECISION: &str = "InvalidDecisionError";
/// What was put in, or is to be changed, cannot be read.
pub(super) const INVALID_UPDATE: &str = "InvalidUpdateError";
/// The thread's past has no such point.
pub(super) const UNKNOWN_CHECKPOINT: &str = "UnknownCheckpointError";
/// A setting is missing or wrong.
pub(super) const CONFIGURATION: &str = "ConfigurationError";
/// What waits belongs to another folder.
pub(super) const WORKSPACE: &str = "WorkspaceError";
/// The run came to its limit of steps.
const STEPS_LIMIT: &str = "GraphRecursionError";
/// The run's time was up.
const TIMEOUT: &str = "TimeoutError";
/// A person stopped the run.
const STOPPED: &str = "UserInterrupt";
/// Anything else, such as a model that could not be used.
const FAILED: &str = "RunError";

/// The names that a stored text may begin with.
const STORED: [&str; 8] = [
    EMPTY_INPUT,
    UNKNOWN_INTERRUPT,
    AMBIGUOUS_RESUME,
    INVALID_DECISION,
    INVALID_UPDATE,
    UNKNOWN_CHECKPOINT,
    CONFIGURATION,
    WORKSPACE,
];

impl Fault {
    pub(super) fn new(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, message: message.into() }
    }

    /// Returns how a run failed that ended like this; `None` for one that did not. `error` is what its row says.
    pub fn of(status: RunStatus, error: Option<&str>) -> Option<Self> {
        let text = error.unwrap_or_default();
        match status {
            RunStatus::Pending | RunStatus::Running | RunStatus::Success | RunStatus::Interrupted => None,
            RunStatus::Cancelled => Some(Self::new(STOPPED, non_empty(text, "it was stopped"))),
            RunStatus::Timeout if text.contains("limit of") && text.contains("steps") => {
                Some(Self::new(STEPS_LIMIT, text))
            }
            RunStatus::Timeout => Some(Self::new(TIMEOUT, non_empty(text, "its time is up"))),
            RunStatus::Error => Some(Self::stored(text)),
        }
    }

    /// Returns the text under which it is stored with the run.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.name, self.message)
    }

    fn stored(text: &str) -> Self {
        let known =
            STORED.into_iter().find_map(|name| Some((name, text.strip_prefix(name)?.strip_prefix(": ")?)));
        match known {
            Some((name, message)) => Self::new(name, message),
            None => Self::new(FAILED, non_empty(text, "the run failed")),
        }
    }
}

fn non_empty<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_run_failed_is_told_from_its_row() {
        let check = |status, error: Option<&str>, name: Option<&str>, message: &str| {
            let fault = Fault::of(status, error);
            assert_eq!(fault.as_ref().map(|fault| fault.name), name, "{error:?}");
            assert_eq!(fault.map(|fault| fault.message).unwrap_or_default(), message, "{error:?}");
        };
        let own = Fault::new(EMPTY_INPUT, "there is: nothing").text();
        check(RunStatus::Error, Some(&own), Some("EmptyInputError"), "there is: nothing");
        check(RunStatus::Error, Some("call the model"), Some("RunError"), "call the model");
        check(RunStatus::Error, Some("OtherError: x"), Some("RunError"), "OtherError: x");
        check(RunStatus::Error, None, Some("RunError"), "the run failed");
        let steps = "the run reached its limit of 3 steps";
        check(RunStatus::Timeout, Some(steps), Some("GraphRecursionError"), steps);
        check(RunStatus::Timeout, Some("its time is up"), Some("TimeoutError"), "its time is up");
        check(RunStatus::Cancelled, None, Some("UserInterrupt"), "it was stopped");
        check(RunStatus::Success, None, None, "");
        check(RunStatus::Interrupted, None, None, "");
    }
}
