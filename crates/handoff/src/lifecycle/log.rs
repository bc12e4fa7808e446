//! What is logged of a handoff, and at which level (contract §10). Every line names the handoff and its threads, the run its summary was
//! drafted in and the tokens that took. What happened is in the journal; this is for who watches a server.

use protocol::{Handoff, Proposal};

/// The level and the words of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Line<'a> {
    /// The child has its summary.
    Succeeded,
    /// There is nothing to do, or a person wants nothing done: why.
    Skipped(&'a str),
    /// The block in agent.md could not be written: why.
    NotSeeded(&'a str),
    /// The block in agent.md could not be taken out: why.
    NotReset(&'a str),
}

impl Line<'_> {
    /// Logs it.
    pub(crate) fn of(self, handoff: &Handoff, proposal: Option<&Proposal>) {
        let summary = proposal.map(|proposal| &proposal.summary_json);
        let drafted_in = summary.and_then(|summary| summary.model_run_id);
        let tokens_used = summary.map(|summary| summary.tokens_used);
        macro_rules! line {
            ($level:ident, $($words:tt)+) => {
                tracing::$level!(
                    handoff_id = %handoff.handoff_id,
                    thread_id = %handoff.parent_thread_id,
                    child_thread_id = %handoff.child_thread_id,
                    run_id = handoff.run_id.map(display),
                    model_run_id = drafted_in.map(display),
                    tokens_used,
                    $($words)+
                )
            };
        }
        let id = handoff.handoff_id;
        match self {
            Self::Succeeded => line!(info, "handoff {id} succeeded"),
            Self::Skipped(why) => line!(debug, "handoff {id}: middleware skipped: {why}"),
            Self::NotSeeded(why) => {
                line!(warn, "handoff {id}: {why}; the child has its summary all the same")
            }
            Self::NotReset(why) => {
                line!(warn, "handoff {id}: block reset failed: {why}; it is tried again after the next turn")
            }
        }
    }
}
