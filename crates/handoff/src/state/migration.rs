//! Reading the state of a handoff that an earlier version of Segue stored in one channel for each of its parts. Nothing
//! writes these any more.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use runtime::{Channel, ChannelError, Channels};
use serde::{Deserialize, Serialize};

use super::{
    CHILD_VIEW, DECISION_VIEW, DecisionView, HandoffInProgress, HandoffState, PROPOSAL_VIEW, ProposalRef,
    Refinement, Revision,
};
use crate::request::{Metadata, Problem};

const METADATA: Channel<Metadata> = Channel::new("_handoff_metadata");
const ITERATION: Channel<u32> = Channel::new("_handoff_iteration");
const FEEDBACK: Channel<String> = Channel::new("_handoff_feedback");
const PREVIOUS_SUMMARY: Channel<String> = Channel::new("_handoff_previous_summary");
const REFINEMENT_HISTORY: Channel<Vec<Refinement>> = Channel::new("_handoff_refinement_history");
const REDRAFT: Channel<Redraft> = Channel::new("_handoff_redraft");
const MODEL: Channel<String> = Channel::new("_handoff_model");
const PROBLEM: Channel<Problem> = Channel::new("_handoff_problem");

/// What `_handoff_redraft` held.
#[derive(Debug, Serialize, Deserialize)]
struct Redraft {
    model: Option<String>,
}

/// Returns the state that separate channels describe; `None` where there is no handoff among them.
pub(super) fn read_separate_channels(channels: &Channels) -> Result<Option<HandoffState>, ChannelError> {
    let Some(metadata) = METADATA.get(channels)? else { return read_decided(channels) };
    let proposal = PROPOSAL_VIEW.get(channels)?;
    let (feedback, redraft) = (FEEDBACK.get(channels)?, REDRAFT.get(channels)?);
    let refinements = REFINEMENT_HISTORY.get(channels)?.unwrap_or_default();
    let mut handoff = Box::new(HandoffInProgress { metadata, refinements, model: MODEL.get(channels)? });
    let revision = match (feedback, redraft) {
        (Some(feedback), _) => Revision::Refine(refinement(&mut handoff, feedback, channels)?),
        (None, Some(redraft)) => Revision::Redraft { model: redraft.model },
        (None, None) => {
            return Ok(Some(match proposal {
                Some(proposal) => {
                    HandoffState::AwaitingDecision { handoff, proposal, problem: PROBLEM.get(channels)? }
                }
                None => HandoffState::Requested { handoff },
            }));
        }
    };
    let proposal = match proposal {
        Some(proposal) => proposal,
        // A draft that was taken up again had no proposal beside it.
        None => ProposalRef {
            handoff_id: handoff.metadata.handoff_id,
            iteration: ITERATION.get(channels)?.unwrap_or_default().saturating_sub(1),
            summary_sha256: None,
        },
    };
    Ok(Some(HandoffState::Redrafting { handoff, proposal, revision }))
}

/// Takes the refinement that is under way out of the history, where it was noted before it was made.
fn refinement(
    handoff: &mut HandoffInProgress,
    feedback: String,
    channels: &Channels,
) -> Result<Refinement, ChannelError> {
    let last = handoff.refinements.pop_if(|last| last.feedback == feedback);
    let noted = PREVIOUS_SUMMARY.get(channels)?;
    let created_at: Timestamp = handoff.metadata.created_at;
    Ok(last.unwrap_or_else(|| Refinement {
        iteration: 0,
        feedback,
        summary_md: noted.unwrap_or_default(),
        timestamp: created_at,
    }))
}

fn read_decided(channels: &Channels) -> Result<Option<HandoffState>, ChannelError> {
    let Some(decision) = DECISION_VIEW.get(channels)? else { return Ok(None) };
    match (decision, CHILD_VIEW.get(channels)?) {
        (DecisionView::Approve, Some(child_thread_id)) => {
            Ok(Some(HandoffState::Accepted { child_thread_id }))
        }
        (DecisionView::Approve, None) => Err(ChannelError {
            key: DECISION_VIEW.key().to_owned(),
            reason: "an accepted handoff names no child thread".to_owned(),
        }),
        (DecisionView::Reject, _) => Ok(Some(HandoffState::Declined)),
        (DecisionView::Preview, _) => Ok(Some(HandoffState::Previewed)),
    }
}

/// Removes the separate channels of a thread that goes on with this version.
pub(super) fn clear_separate_channels(channels: &mut Channels) {
    METADATA.clear(channels);
    ITERATION.clear(channels);
    FEEDBACK.clear(channels);
    PREVIOUS_SUMMARY.clear(channels);
    REFINEMENT_HISTORY.clear(channels);
    REDRAFT.clear(channels);
    MODEL.clear(channels);
    PROBLEM.clear(channels);
}
