//! The lifecycle of a handoff: which status may follow which, and the write that moves one. The journal moves it, with the
//! status it must come from.

pub(crate) mod log;

use jiff::Timestamp;
use journal::{HandoffPatch, Write};
use protocol::{Handoff, HandoffStatus};
use runtime::{Failure, FailureKind};

/// What can happen to a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Drafting begins, of the first proposal or of a refined one.
    Draft,
    /// A proposal is stored.
    Propose,
    /// An earlier proposal is shown again.
    Revert,
    /// A person accepts what was shown, or their own text.
    Accept,
    /// The child's block is written, or could not be.
    Seed,
    /// The child's first turn is complete and the block is cleared.
    Clean,
    /// A person says no.
    Decline,
    /// It was shown, and nothing else is wanted.
    Preview,
    /// Nobody answered.
    Expire,
}

/// A step that does not follow from where the handoff stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step:?} a handoff that is {}", from.as_str())]
pub struct IllegalTransition {
    /// Where it stands.
    pub from: HandoffStatus,
    /// What was tried.
    pub step: Step,
}

/// Returns where `step` leads from `from`.
///
/// # Errors
/// [`IllegalTransition`] when the contract's state machine has no such arrow.
pub const fn next(from: HandoffStatus, step: Step) -> Result<HandoffStatus, IllegalTransition> {
    use HandoffStatus as S;
    match (from, step) {
        (S::Requested | S::AwaitingDecision, Step::Draft) => Ok(S::Drafting),
        (S::Drafting, Step::Propose) | (S::AwaitingDecision, Step::Revert) => Ok(S::AwaitingDecision),
        (S::AwaitingDecision, Step::Accept) => Ok(S::Accepted),
        (S::Accepted, Step::Seed) => Ok(S::Seeded),
        (S::Seeded, Step::Clean) => Ok(S::Cleaned),
        (S::AwaitingDecision, Step::Decline) => Ok(S::Declined),
        (S::AwaitingDecision, Step::Preview) => Ok(S::Previewed),
        (S::Requested | S::Drafting | S::AwaitingDecision, Step::Expire) => Ok(S::Expired),
        (from, step) => Err(IllegalTransition { from, step }),
    }
}

/// Returns the write that moves `handoff` by `step`.
///
/// # Errors
/// When the step does not follow from where it stands.
pub(crate) fn moved(
    handoff: &Handoff,
    step: Step,
    patch: HandoffPatch,
    at: Timestamp,
) -> Result<Write, Failure> {
    let illegal = |error: IllegalTransition| Failure::new(FailureKind::Internal, error.to_string());
    let to = next(handoff.status, step).map_err(illegal)?;
    Ok(Write::MoveHandoff { handoff_id: handoff.handoff_id, from: handoff.status, to, patch, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_a_handoff_that_rests_is_never_moved_again() {
        let steps = [
            Step::Draft,
            Step::Propose,
            Step::Revert,
            Step::Accept,
            Step::Seed,
            Step::Clean,
            Step::Decline,
            Step::Preview,
            Step::Expire,
        ];
        for from in HandoffStatus::ALL {
            let ways: Vec<Step> = steps.into_iter().filter(|step| next(from, *step).is_ok()).collect();
            match from {
                HandoffStatus::Requested => assert_eq!(ways, [Step::Draft, Step::Expire]),
                HandoffStatus::Drafting => assert_eq!(ways, [Step::Propose, Step::Expire]),
                HandoffStatus::AwaitingDecision => assert_eq!(
                    ways,
                    [Step::Draft, Step::Revert, Step::Accept, Step::Decline, Step::Preview, Step::Expire]
                ),
                HandoffStatus::Accepted => assert_eq!(ways, [Step::Seed]),
                HandoffStatus::Seeded => assert_eq!(ways, [Step::Clean]),
                HandoffStatus::Cleaned
                | HandoffStatus::Declined
                | HandoffStatus::Previewed
                | HandoffStatus::Failed
                | HandoffStatus::Expired => assert_eq!(ways, []),
            }
        }
    }
}
