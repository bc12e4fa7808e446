//! The lifecycle of a handoff's row: the state machine over [`HandoffStatus`] (contract §2), and the write that
//! performs a transition.
//!
//! [`next_status`] is the only place that decides which status may follow which. The write names the status it expects,
//! so the journal refuses it when another process has changed the row meanwhile.

pub(crate) mod log;

use jiff::Timestamp;
use journal::{HandoffPatch, Write};
use protocol::{Handoff, HandoffStatus};
use runtime::{FailureKind, StepFailure};

/// An action that changes the status of a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffAction {
    /// Starts drafting the first proposal or another one.
    Draft,
    /// Stores a proposal and awaits a decision about it.
    Propose,
    /// Replaces the shown proposal by a text that needs no draft: that of an earlier iteration, or the person's own.
    ReplaceProposal,
    /// Accepts the shown proposal or the person's own text.
    Accept,
    /// Records that the child's block in `agent.md` was written, or that writing it failed.
    Seed,
    /// Records that the child's first turn is complete and its block is cleared.
    Clean,
    /// Declines the proposal.
    Decline,
    /// Ends a handoff whose summary the person only wanted to see.
    Preview,
    /// Ends a handoff without a decision.
    Expire,
}

/// The error for an action that the present status of the handoff does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step:?} a handoff that is {}", from.as_str())]
pub struct IllegalTransition {
    /// The present status.
    pub from: HandoffStatus,
    /// The rejected action.
    pub step: HandoffAction,
}

/// Returns the status that `step` leads to from `from`.
///
/// # Errors
///
/// [`IllegalTransition`] when the state machine has no such transition.
pub const fn next_status(
    from: HandoffStatus,
    step: HandoffAction,
) -> Result<HandoffStatus, IllegalTransition> {
    use HandoffStatus as S;
    match (from, step) {
        (S::Requested | S::AwaitingDecision, HandoffAction::Draft) => Ok(S::Drafting),
        (S::Drafting, HandoffAction::Propose) | (S::AwaitingDecision, HandoffAction::ReplaceProposal) => {
            Ok(S::AwaitingDecision)
        }
        (S::AwaitingDecision, HandoffAction::Accept) => Ok(S::Accepted),
        (S::Accepted, HandoffAction::Seed) => Ok(S::Seeded),
        (S::Seeded, HandoffAction::Clean) => Ok(S::Cleaned),
        (S::AwaitingDecision, HandoffAction::Decline) => Ok(S::Declined),
        (S::AwaitingDecision, HandoffAction::Preview) => Ok(S::Previewed),
        (S::Requested | S::Drafting | S::AwaitingDecision, HandoffAction::Expire) => Ok(S::Expired),
        (from, step) => Err(IllegalTransition { from, step }),
    }
}

/// Returns the write that changes the status of `handoff` by `step` and applies `patch` to its row.
///
/// # Errors
///
/// When the present status of `handoff` does not allow the action.
pub(crate) fn transition_write(
    handoff: &Handoff,
    step: HandoffAction,
    patch: HandoffPatch,
    at: Timestamp,
) -> Result<Write, StepFailure> {
    let illegal = |error: IllegalTransition| StepFailure::new(FailureKind::Internal, error.to_string());
    let to = next_status(handoff.status, step).map_err(illegal)?;
    Ok(Write::TransitionHandoff { handoff_id: handoff.handoff_id, from: handoff.status, to, patch, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_a_final_status_has_no_transition() {
        let steps = [
            HandoffAction::Draft,
            HandoffAction::Propose,
            HandoffAction::ReplaceProposal,
            HandoffAction::Accept,
            HandoffAction::Seed,
            HandoffAction::Clean,
            HandoffAction::Decline,
            HandoffAction::Preview,
            HandoffAction::Expire,
        ];
        for from in HandoffStatus::ALL {
            let allowed: Vec<HandoffAction> =
                steps.into_iter().filter(|step| next_status(from, *step).is_ok()).collect();
            match from {
                HandoffStatus::Requested => {
                    assert_eq!(allowed, [HandoffAction::Draft, HandoffAction::Expire])
                }
                HandoffStatus::Drafting => {
                    assert_eq!(allowed, [HandoffAction::Propose, HandoffAction::Expire])
                }
                HandoffStatus::AwaitingDecision => assert_eq!(
                    allowed,
                    [
                        HandoffAction::Draft,
                        HandoffAction::ReplaceProposal,
                        HandoffAction::Accept,
                        HandoffAction::Decline,
                        HandoffAction::Preview,
                        HandoffAction::Expire
                    ]
                ),
                HandoffStatus::Accepted => assert_eq!(allowed, [HandoffAction::Seed]),
                HandoffStatus::Seeded => assert_eq!(allowed, [HandoffAction::Clean]),
                HandoffStatus::Cleaned
                | HandoffStatus::Declined
                | HandoffStatus::Previewed
                | HandoffStatus::Failed
                | HandoffStatus::Expired => assert_eq!(allowed, []),
            }
        }
    }
}
