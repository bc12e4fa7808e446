//! The handoff state machine in the graph of the parent thread: one value in one channel, and one pure transition
//! function.
//!
//! The state keys that clients see (contract §3) are views of this value. They are stored next to it, so that the state
//! history of a thread shows them too. The status of the handoff's row is decided in [`crate::lifecycle`].

mod migration;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use protocol::{HandoffId, OFFLINE_SUMMARY_MODEL, Proposal, Seq, ThreadId};
use runtime::{Channel, ChannelError, Channels, FailureKind, StepFailure};
use serde::{Deserialize, Serialize};

use crate::request::{DraftProblem, HandoffMetadata};

/// The channel of the state. It is private (its name begins with `_`); clients see the views below.
const STATE_CHANNEL: Channel<HandoffState> = Channel::new("_handoff");

/// View: true while a handoff is in progress.
const REQUESTED_VIEW: Channel<bool> = Channel::new("handoff_requested");
/// View: the newest proposal, until the handoff is decided.
const PROPOSAL_VIEW: Channel<ProposalRef> = Channel::new("handoff_proposal");
/// View: the decision.
const DECISION_VIEW: Channel<DecisionView> = Channel::new("handoff_decision");
/// View: whether the decision was an accept. It is set once there is a decision.
const APPROVED_VIEW: Channel<bool> = Channel::new("handoff_approved");
/// View: the child thread of an accepted handoff.
const CHILD_VIEW: Channel<ThreadId> = Channel::new("child_thread_id");

/// The stage of a handoff in the graph of its parent thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub(crate) enum HandoffState {
    /// The first proposal has to be drafted.
    Requested {
        /// The handoff to draft.
        handoff: Box<HandoffInProgress>,
    },
    /// A proposal is stored, and a person has to decide about it.
    AwaitingDecision {
        /// The drafted handoff.
        handoff: Box<HandoffInProgress>,
        /// The proposal to decide about.
        proposal: ProposalRef,
        /// The problem with the newest draft, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<DraftProblem>,
    },
    /// Another proposal has to be drafted. Until it is stored, the previous proposal is the newest.
    Redrafting {
        /// The handoff to draft.
        handoff: Box<HandoffInProgress>,
        /// The proposal that the person wants replaced.
        proposal: ProposalRef,
        /// The change that the new draft has to make.
        revision: Revision,
    },
    /// A person accepted the handoff.
    Accepted {
        /// The thread in which the work continues.
        child_thread_id: ThreadId,
    },
    /// A person declined the handoff, or it was dismissed.
    Declined,
    /// The summary was shown, and the person wanted nothing else.
    Previewed,
}

/// A handoff that is being drafted or reviewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffInProgress {
    /// The identity of the handoff and the options of its request.
    pub(crate) metadata: HandoffMetadata,
    /// The refinements so far, oldest first, including those whose draft failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refinements: Vec<Refinement>,
    /// The model that the person chose for the drafts; `None` uses the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

/// A reference to a stored proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProposalRef {
    /// The handoff it belongs to.
    pub(crate) handoff_id: HandoffId,
    /// Its iteration, from 0.
    pub(crate) iteration: u32,
    /// The hash of its text. Absent when the state was rebuilt from the handoff's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary_sha256: Option<String>,
}

/// The reason for another draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Revision {
    /// The draft has to follow the person's feedback.
    Refine(Refinement),
    /// The same request is drafted once more.
    Redraft {
        /// The model that drafts, `provider/name` or the offline summary; `None` keeps the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The draft has to cover the messages after the previous proposal too, and to keep the person's changes to it.
    CoverNewer {
        /// The Markdown of the previous proposal; the next draft's prompt contains it.
        summary_md: String,
        /// The last event that the previous proposal covers.
        covered_until: Seq,
    },
}

/// A person's feedback on a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refinement {
    /// The iteration of the proposal that the feedback is about.
    pub(crate) iteration: u32,
    /// The feedback, as the person wrote it.
    pub(crate) feedback: String,
    /// The Markdown of the proposal that the feedback is about; the next draft's prompt contains it.
    pub(crate) summary_md: String,
    /// The time of the feedback.
    pub(crate) timestamp: Timestamp,
}

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HandoffInput {
    /// A draft became a proposal.
    Propose {
        /// The stored proposal.
        proposal: ProposalRef,
        /// The problem with the draft, if there was one.
        problem: Option<DraftProblem>,
    },
    /// Another draft produced no proposal, so the previous one is proposed again.
    KeepProposal {
        /// The reason; `None` when a person stopped the draft.
        problem: Option<String>,
    },
    /// The person wants another draft.
    Revise(Revision),
    /// The person replaced the text, by that of an earlier iteration or by their own. It is stored as this proposal.
    ReplaceProposal(ProposalRef),
    /// The person accepted the handoff.
    Accept {
        /// The thread in which the work continues.
        child_thread_id: ThreadId,
    },
    /// The person declined the handoff.
    Decline,
    /// The person only wanted to see the summary.
    Preview,
}

/// The error for an input that the present stage does not allow.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("apply {input:?} to a handoff that is {stage}")]
pub(crate) struct IllegalInput {
    /// The present stage, as a phrase that follows "is".
    pub(crate) stage: &'static str,
    /// The rejected input.
    pub(crate) input: Box<HandoffInput>,
}

impl From<IllegalInput> for StepFailure {
    fn from(error: IllegalInput) -> Self {
        Self::new(FailureKind::Internal, error.to_string())
    }
}

/// The decision as clients see it in a thread's state. An edited text is an approval, as in contract §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum DecisionView {
    Approve,
    Reject,
    Preview,
}

impl HandoffState {
    /// Returns the handoff state in `channels`; `None` when the thread has no handoff. Channels written by an earlier
    /// version of Segue are understood too.
    ///
    /// # Errors
    ///
    /// When a channel does not hold a value of the expected shape.
    pub(crate) fn read(channels: &Channels) -> Result<Option<Self>, ChannelError> {
        match STATE_CHANNEL.get(channels)? {
            Some(state) => Ok(Some(state)),
            None => migration::read_separate_channels(channels),
        }
    }

    /// Returns the state after `input`. This is the only function that changes a handoff's state.
    ///
    /// # Errors
    ///
    /// [`IllegalInput`] when the present stage does not allow the input.
    pub(crate) fn transition(self, input: HandoffInput) -> Result<Self, IllegalInput> {
        use HandoffInput as I;
        match (self, input) {
            (Self::Requested { handoff }, I::Propose { proposal, problem }) => {
                Ok(Self::AwaitingDecision { handoff, proposal, problem })
            }
            (Self::Redrafting { handoff, revision, .. }, I::Propose { proposal, problem }) => {
                Ok(Self::AwaitingDecision { handoff: handoff.with_revision(revision), proposal, problem })
            }
            (Self::Redrafting { handoff, proposal, revision }, I::KeepProposal { problem }) => {
                let unused_feedback = revision.feedback().map(str::to_owned);
                let problem =
                    problem.map(|problem| DraftProblem { unused_feedback, ..DraftProblem::failed(problem) });
                Ok(Self::AwaitingDecision { handoff: handoff.with_revision(revision), proposal, problem })
            }
            (Self::AwaitingDecision { mut handoff, proposal, .. }, I::Revise(revision)) => {
                if let Revision::Redraft { model: Some(model) } = &revision
                    && model != OFFLINE_SUMMARY_MODEL
                {
                    handoff.model = Some(model.clone());
                }
                Ok(Self::Redrafting { handoff, proposal, revision })
            }
            (Self::AwaitingDecision { handoff, .. }, I::ReplaceProposal(proposal)) => {
                Ok(Self::AwaitingDecision { handoff, proposal, problem: None })
            }
            (Self::AwaitingDecision { .. }, I::Accept { child_thread_id }) => {
                Ok(Self::Accepted { child_thread_id })
            }
            (Self::AwaitingDecision { .. }, I::Decline) => Ok(Self::Declined),
            (Self::AwaitingDecision { .. }, I::Preview) => Ok(Self::Previewed),
            (state, input) => Err(IllegalInput { stage: state.stage(), input: Box::new(input) }),
        }
    }

    /// Returns the name of the stage for error messages.
    const fn stage(&self) -> &'static str {
        match self {
            Self::Requested { .. } => "requested",
            Self::AwaitingDecision { .. } => "awaiting a decision",
            Self::Redrafting { .. } => "being redrafted",
            Self::Accepted { .. } => "accepted",
            Self::Declined => "declined",
            Self::Previewed => "previewed",
        }
    }

    /// Returns the handoff that is being drafted or reviewed; `None` after the decision.
    pub(crate) const fn in_progress(&self) -> Option<&HandoffInProgress> {
        match self {
            Self::Requested { handoff }
            | Self::AwaitingDecision { handoff, .. }
            | Self::Redrafting { handoff, .. } => Some(handoff),
            Self::Accepted { .. } | Self::Declined | Self::Previewed => None,
        }
    }

    /// Returns the problem with the newest draft, while a decision is awaited.
    pub(crate) const fn problem(&self) -> Option<&DraftProblem> {
        let Self::AwaitingDecision { problem, .. } = self else { return None };
        problem.as_ref()
    }

    /// Returns the reason for the next draft; `None` when no draft is due or it is the first.
    pub(crate) const fn revision(&self) -> Option<&Revision> {
        if let Self::Redrafting { revision, .. } = self { Some(revision) } else { None }
    }

    /// Returns the channel values that store this state and its views, and clear every view that it does not have.
    pub(crate) fn channels(&self) -> Channels {
        let mut channels = cleared_channels();
        STATE_CHANNEL.set(&mut channels, self);
        match self {
            Self::Requested { .. } => REQUESTED_VIEW.set(&mut channels, &true),
            Self::AwaitingDecision { proposal, .. } | Self::Redrafting { proposal, .. } => {
                REQUESTED_VIEW.set(&mut channels, &true);
                PROPOSAL_VIEW.set(&mut channels, proposal);
            }
            Self::Accepted { child_thread_id } => {
                set_decision_views(&mut channels, DecisionView::Approve);
                CHILD_VIEW.set(&mut channels, child_thread_id);
            }
            Self::Declined => set_decision_views(&mut channels, DecisionView::Reject),
            Self::Previewed => set_decision_views(&mut channels, DecisionView::Preview),
        }
        channels
    }
}

impl HandoffInProgress {
    /// Returns a handoff without refinements.
    pub(crate) const fn new(metadata: HandoffMetadata) -> Self {
        Self { metadata, refinements: Vec::new(), model: None }
    }

    /// Returns the handoff with `revision` added to its history, whether or not its draft succeeded.
    fn with_revision(mut self: Box<Self>, revision: Revision) -> Box<Self> {
        match revision {
            Revision::Refine(refinement) => self.refinements.push(refinement),
            Revision::Redraft { .. } | Revision::CoverNewer { .. } => {}
        }
        self
    }
}

impl Revision {
    /// Returns the feedback that the next draft has to follow.
    pub(crate) fn feedback(&self) -> Option<&str> {
        match self {
            Self::Refine(refinement) => Some(&refinement.feedback),
            Self::Redraft { .. } | Self::CoverNewer { .. } => None,
        }
    }
}

impl ProposalRef {
    /// Returns a reference to `proposal`.
    pub(crate) fn from_proposal(proposal: &Proposal) -> Self {
        Self {
            handoff_id: proposal.handoff_id,
            iteration: proposal.iteration,
            summary_sha256: Some(proposal.summary_sha256.clone()),
        }
    }
}

/// Sets the two views that show the decision.
fn set_decision_views(channels: &mut Channels, decision: DecisionView) {
    DECISION_VIEW.set(channels, &decision);
    APPROVED_VIEW.set(channels, &(decision == DecisionView::Approve));
}

/// Returns the channel values that remove a handoff and all its views from the state of its parent thread.
pub(crate) fn cleared_channels() -> Channels {
    let mut channels = Channels::new();
    STATE_CHANNEL.clear(&mut channels);
    REQUESTED_VIEW.clear(&mut channels);
    PROPOSAL_VIEW.clear(&mut channels);
    DECISION_VIEW.clear(&mut channels);
    APPROVED_VIEW.clear(&mut channels);
    CHILD_VIEW.clear(&mut channels);
    migration::clear_separate_channels(&mut channels);
    channels
}

/// Returns the values of `channels` that differ from `before`, the state at the beginning of the step, so that the
/// step's update names only what it changed.
pub(crate) fn changed_channels(mut channels: Channels, before: &Channels) -> Channels {
    channels.retain(|key, value| match before.get(key) {
        Some(old) => old != value,
        None => !value.is_null(),
    });
    channels
}
