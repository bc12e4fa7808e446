//! The reader for handoff states that an earlier version of Segue stored in one channel for each part.
//!
//! No code writes these channels any more; [`clear_separate_channels`] removes them with the next state change.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use runtime::{Channel, ChannelError, Channels};
use serde::{Deserialize, Serialize};

use super::{
    CHILD_VIEW, DECISION_VIEW, DecisionView, HandoffInProgress, HandoffState, PROPOSAL_VIEW, ProposalRef,
    Refinement, Revision,
};
use crate::request::{DraftProblem, HandoffMetadata};

/// The identity of the handoff and its options.
const METADATA: Channel<HandoffMetadata> = Channel::new("_handoff_metadata");
/// The iteration that was being drafted or decided.
const ITERATION: Channel<u32> = Channel::new("_handoff_iteration");
/// The feedback that the next draft had to follow. It was set only while that draft was due.
const FEEDBACK: Channel<String> = Channel::new("_handoff_feedback");
/// The Markdown of the proposal that the feedback was about.
const PREVIOUS_SUMMARY: Channel<String> = Channel::new("_handoff_previous_summary");
/// All refinements, including the one in progress.
const REFINEMENT_HISTORY: Channel<Vec<Refinement>> = Channel::new("_handoff_refinement_history");
/// The redraft that was due.
const REDRAFT: Channel<StoredRedraft> = Channel::new("_handoff_redraft");
/// The model that the person chose.
const MODEL: Channel<String> = Channel::new("_handoff_model");
/// The problem with the newest draft.
const PROBLEM: Channel<DraftProblem> = Channel::new("_handoff_problem");

/// The value of the channel `_handoff_redraft`.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRedraft {
    /// The model named for the redraft; `None` kept the model.
    model: Option<String>,
}

/// Returns the state that the separate channels describe; `None` when they hold no handoff.
///
/// # Errors
///
/// When a channel does not hold a value of the expected shape, or an accepted handoff has no child thread.
pub(super) fn read_separate_channels(channels: &Channels) -> Result<Option<HandoffState>, ChannelError> {
    let Some(metadata) = METADATA.get(channels)? else { return read_decision(channels) };
    let proposal = PROPOSAL_VIEW.get(channels)?;
    let (feedback, redraft) = (FEEDBACK.get(channels)?, REDRAFT.get(channels)?);
    let refinements = REFINEMENT_HISTORY.get(channels)?.unwrap_or_default();
    let mut handoff = Box::new(HandoffInProgress { metadata, refinements, model: MODEL.get(channels)? });
    let revision = match (feedback, redraft) {
        (Some(feedback), _) => Revision::Refine(take_refinement(&mut handoff, feedback, channels)?),
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
        // A draft that was resumed after a crash had no proposal in its channels.
        None => ProposalRef {
            handoff_id: handoff.metadata.handoff_id,
            iteration: ITERATION.get(channels)?.unwrap_or_default().saturating_sub(1),
            summary_sha256: None,
        },
    };
    Ok(Some(HandoffState::Redrafting { handoff, proposal, revision }))
}

/// Removes the refinement in progress from the history and returns it. The earlier version added a refinement to the
/// history before its draft was made; the present state adds it afterwards.
fn take_refinement(
    handoff: &mut HandoffInProgress,
    feedback: String,
    channels: &Channels,
) -> Result<Refinement, ChannelError> {
    let last = handoff.refinements.pop_if(|last| last.feedback == feedback);
    let previous_summary = PREVIOUS_SUMMARY.get(channels)?;
    let created_at: Timestamp = handoff.metadata.created_at;
    Ok(last.unwrap_or_else(|| Refinement {
        iteration: 0,
        feedback,
        summary_md: previous_summary.unwrap_or_default(),
        timestamp: created_at,
    }))
}

/// Returns the state of a decided handoff, from the views of the decision.
fn read_decision(channels: &Channels) -> Result<Option<HandoffState>, ChannelError> {
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

/// Adds to `channels` the values that clear every separate channel.
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
