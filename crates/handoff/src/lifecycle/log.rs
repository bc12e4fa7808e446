//! The log lines about handoffs and their levels (contract §10).
//!
//! Every line has the ids of the handoff and of its threads, the run that drafted the summary and the tokens that
//! drafting used. The lines are for operators of a server; the journal holds the durable record.

use protocol::{Handoff, Proposal};

/// The value of the field `model_run_id` in a line about a text that no model wrote.
pub(crate) const NO_MODEL_RUN: &str = "none";

/// One log line: its variant decides the level and the text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandoffLogLine<'a> {
    /// INFO: the handoff succeeded; the child has its summary.
    Succeeded,
    /// DEBUG: nothing was done, for this reason.
    Skipped(&'a str),
    /// WARN: the block in `agent.md` could not be written, for this reason.
    NotSeeded(&'a str),
    /// WARN: the block in `agent.md` could not be cleared, for this reason.
    NotReset(&'a str),
}

impl HandoffLogLine<'_> {
    /// Logs the line. `proposal` is the proposal it is about, if there is one.
    pub(crate) fn log(self, handoff: &Handoff, proposal: Option<&Proposal>) {
        let summary = proposal.map(|proposal| &proposal.summary_json);
        let model_run_id =
            summary.and_then(|summary| summary.model_run_id.as_deref()).unwrap_or(NO_MODEL_RUN);
        let tokens_used = summary.map(|summary| summary.tokens_used);
        macro_rules! line {
            ($level:ident, $($words:tt)+) => {
                tracing::$level!(
                    handoff_id = %handoff.handoff_id,
                    thread_id = %handoff.parent_thread_id,
                    child_thread_id = %handoff.child_thread_id,
                    run_id = handoff.run_id.map(display),
                    model_run_id,
                    tokens_used,
                    $($words)+
                )
            };
        }
        let id = handoff.handoff_id;
        match self {
            Self::Succeeded => line!(info, "handoff {id} succeeded"),
            Self::Skipped(reason) => line!(debug, "handoff {id}: middleware skipped: {reason}"),
            Self::NotSeeded(reason) => {
                line!(warn, "handoff {id}: {reason}; the child thread still gets its summary")
            }
            Self::NotReset(reason) => {
                line!(warn, "handoff {id}: block reset failed: {reason}; it is retried after the next turn")
            }
        }
    }
}
