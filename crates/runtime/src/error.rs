//! Errors of admitting, resuming and driving a run, and the reasons to reject a decision. A run that fails is not
//! an error of this crate: it ends with a [`crate::RunEnd`] that carries the failure.

use protocol::{InterruptId, InterruptStatus, RunId};

use crate::graph::channel::ChannelError;

/// Returns a count with its noun, which gets an `s` unless the count is 1.
fn count_noun(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The reason why the answer to an interrupt is rejected. The interrupt stays pending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionRejection {
    /// The number of decisions differs from the number of actions; each action needs exactly one.
    #[error(
        "{} {} given for {}",
        count_noun(*given, "decision"),
        if *given == 1 { "was" } else { "were" },
        count_noun(*expected, "action")
    )]
    WrongCount {
        /// The number of decisions in the answer.
        given: usize,
        /// The number of actions that the interrupt asks about.
        expected: usize,
    },
    /// The decision's type is not one of those that the action allows.
    #[error("`{given}` is not allowed for {action}; allowed: {}", allowed.join(", "))]
    NotAllowed {
        /// The type of the decision, for example `approve`.
        given: String,
        /// The name of the action that was decided about.
        action: String,
        /// The types of decision that the action allows.
        allowed: Vec<String>,
    },
    /// The decision has an allowed type, but its own fields cannot be used. The text says why.
    #[error("{0}")]
    Invalid(String),
    /// The decision refers to something that is no longer current. The text says what.
    #[error("{0}")]
    Stale(String),
    /// The interrupt was answered or withdrawn before, so no run waits for the decision. Carries the interrupt's
    /// status.
    #[error("the question is no longer pending ({})", .0.as_str())]
    NotPending(InterruptStatus),
}

/// An error of admitting, resuming or driving a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal returned an error.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The answer to an interrupt was rejected; nothing was written.
    #[error("accept the decision: {rejection}")]
    Rejected {
        /// The interrupt that the answer was for.
        interrupt_id: InterruptId,
        /// The reason for the rejection.
        rejection: DecisionRejection,
    },
    /// Another run changed the thread's newest checkpoint after the start of this run was planned. Nothing was
    /// written, and the caller may plan and admit the run again.
    #[error("start the run: another run of the thread started and ended in the meantime")]
    HeadConflict,
    /// This process is shutting down. The run stopped after a complete step, and another process can continue it.
    #[error("continue the run: the program is shutting down")]
    ShuttingDown,
    /// This process could not renew the run's lease before it expired, so another process may have taken the run
    /// over. The run is as its last commit left it, and any process that can reach the journal may continue it.
    #[error("continue run {run_id}: its lease expired before the journal could be written")]
    LeaseExpired {
        /// The run whose lease expired.
        run_id: RunId,
    },
    /// A channel of the thread's state cannot be read, so no run was started. A new message withdraws the pending
    /// question.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A step could not be serialized as JSON.
    #[error("serialize a step as JSON")]
    Json(#[from] serde_json::Error),
}
