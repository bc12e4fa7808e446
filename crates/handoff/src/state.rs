//! Where the handoff that a thread gives stands: one value in one channel, and one pure function that moves it. The state
//! keys that clients see (contract §3) are views of it, stored with it so that past points of a thread show them too. Which
//! status the handoff's row may have next is decided in [`crate::lifecycle`].

mod migration;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use protocol::{HandoffId, Proposal, ThreadId};
use runtime::{Channel, ChannelError, Channels, Failure, FailureKind};
use serde::{Deserialize, Serialize};

use crate::draft::summarization::EXTRACTIVE;
use crate::request::{Metadata, Problem};

/// Channel: the state. It is private; clients see the views below.
const STATE_CHANNEL: Channel<HandoffState> = Channel::new("_handoff");

/// View: whether a handoff is under way.
const REQUESTED_VIEW: Channel<bool> = Channel::new("handoff_requested");
/// View: the newest proposal, while it can be decided.
const PROPOSAL_VIEW: Channel<ProposalRef> = Channel::new("handoff_proposal");
/// View: how the handoff was decided.
const DECISION_VIEW: Channel<DecisionView> = Channel::new("handoff_decision");
/// View: whether it was accepted, once it is decided.
const APPROVED_VIEW: Channel<bool> = Channel::new("handoff_approved");
/// View: the thread it led to.
const CHILD_VIEW: Channel<ThreadId> = Channel::new("child_thread_id");

/// Where a handoff stands in the graph of its parent thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub(crate) enum HandoffState {
    /// Its first proposal is to be drafted.
    Requested {
        /// What is drafted.
        handoff: Box<HandoffInProgress>,
    },
    /// A proposal is stored, and a person decides about it.
    AwaitingDecision {
        /// What was drafted.
        handoff: Box<HandoffInProgress>,
        proposal: ProposalRef,
        /// What was wrong with the newest draft.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    },
    /// Another proposal is to be drafted; until it is there, the one before it is the newest.
    Redrafting {
        /// What is drafted.
        handoff: Box<HandoffInProgress>,
        /// The proposal that the person wants another one for.
        proposal: ProposalRef,
        /// What the draft is to follow.
        revision: Revision,
    },
    Accepted {
        /// The thread in which the work goes on.
        child_thread_id: ThreadId,
    },
    /// A person declined it, or it was given up.
    Declined,
    /// It was shown, and nothing else was wanted.
    Previewed,
}

/// A handoff that is being drafted or reviewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffInProgress {
    /// Which handoff it is, and how it was asked for.
    pub(crate) metadata: Metadata,
    /// The refinements that are behind it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refinements: Vec<Refinement>,
    /// The model a person chose for its drafts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

/// A proposal as the state names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProposalRef {
    pub(crate) handoff_id: HandoffId,
    pub(crate) iteration: u32,
    /// Absent where the state was made anew from the handoff's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary_sha256: Option<String>,
}

/// What another draft is to follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Revision {
    Refine(Refinement),
    /// Nothing new; it is made by the model of that name, if one is named.
    Redraft {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

/// Feedback on a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refinement {
    pub(crate) iteration: u32,
    pub(crate) feedback: String,
    pub(crate) summary_md: String,
    pub(crate) timestamp: Timestamp,
}

/// What happens to a handoff in its parent's graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HandoffInput {
    /// A draft became a proposal, perhaps not the one that was hoped for.
    Propose {
        proposal: ProposalRef,
        problem: Option<String>,
    },
    /// Another draft gave no proposal; `None` when a person stopped it.
    KeepProposal {
        problem: Option<String>,
    },
    Revise(Revision),
    /// A person wants to see an earlier text again, which is this proposal.
    Revert(ProposalRef),
    Accept {
        child_thread_id: ThreadId,
    },
    Decline,
    /// A person only wanted to see it.
    Preview,
}

/// An input that does not follow from where the handoff stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("take {input:?} for a handoff that is {stage}")]
pub(crate) struct IllegalInput {
    pub(crate) stage: &'static str,
    pub(crate) input: Box<HandoffInput>,
}

impl From<IllegalInput> for Failure {
    fn from(error: IllegalInput) -> Self {
        Self::new(FailureKind::Internal, error.to_string())
    }
}

/// The decision as clients see it in a thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum DecisionView {
    Approve,
    Reject,
    Preview,
}

impl HandoffState {
    /// Returns the state of the handoff in a thread with these channels, also where an earlier version of Segue wrote them.
    pub(crate) fn read(channels: &Channels) -> Result<Option<Self>, ChannelError> {
        match STATE_CHANNEL.get(channels)? {
            Some(state) => Ok(Some(state)),
            None => migration::read_separate_channels(channels),
        }
    }

    /// Returns where `input` leads. The only function that moves a handoff's state.
    ///
    /// # Errors
    /// [`IllegalInput`] when the input does not follow from this state.
    pub(crate) fn next(self, input: HandoffInput) -> Result<Self, IllegalInput> {
        use HandoffInput as I;
        match (self, input) {
            (Self::Requested { handoff }, I::Propose { proposal, problem }) => {
                let problem = problem.map(|problem| Problem { problem, unused_feedback: None });
                Ok(Self::AwaitingDecision { handoff, proposal, problem })
            }
            (Self::Redrafting { handoff, revision, .. }, I::Propose { proposal, problem }) => {
                let problem = problem.map(|problem| Problem { problem, unused_feedback: None });
                Ok(Self::AwaitingDecision { handoff: handoff.with(revision), proposal, problem })
            }
            (Self::Redrafting { handoff, proposal, revision }, I::KeepProposal { problem }) => {
                let unused_feedback = revision.feedback().map(str::to_owned);
                let problem = problem.map(|problem| Problem { problem, unused_feedback });
                Ok(Self::AwaitingDecision { handoff: handoff.with(revision), proposal, problem })
            }
            (Self::AwaitingDecision { mut handoff, proposal, .. }, I::Revise(revision)) => {
                if let Revision::Redraft { model: Some(model) } = &revision
                    && model != EXTRACTIVE
                {
                    handoff.model = Some(model.clone());
                }
                Ok(Self::Redrafting { handoff, proposal, revision })
            }
            (Self::AwaitingDecision { handoff, .. }, I::Revert(proposal)) => {
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

    /// Returns the handoff while it is under way.
    pub(crate) const fn in_progress(&self) -> Option<&HandoffInProgress> {
        match self {
            Self::Requested { handoff }
            | Self::AwaitingDecision { handoff, .. }
            | Self::Redrafting { handoff, .. } => Some(handoff),
            Self::Accepted { .. } | Self::Declined | Self::Previewed => None,
        }
    }

    /// Returns what was wrong with the newest draft, while a person decides.
    pub(crate) const fn problem(&self) -> Option<&Problem> {
        let Self::AwaitingDecision { problem, .. } = self else { return None };
        problem.as_ref()
    }

    /// Returns what the next draft is to follow, when it is not the first.
    pub(crate) const fn revision(&self) -> Option<&Revision> {
        if let Self::Redrafting { revision, .. } = self { Some(revision) } else { None }
    }

    /// Returns the channels that hold this state and its views and nothing of another one.
    pub(crate) fn channels(&self) -> Channels {
        let mut channels = cleared();
        STATE_CHANNEL.set(&mut channels, self);
        match self {
            Self::Requested { .. } => REQUESTED_VIEW.set(&mut channels, &true),
            Self::AwaitingDecision { proposal, .. } | Self::Redrafting { proposal, .. } => {
                REQUESTED_VIEW.set(&mut channels, &true);
                PROPOSAL_VIEW.set(&mut channels, proposal);
            }
            Self::Accepted { child_thread_id } => {
                decided(&mut channels, DecisionView::Approve);
                CHILD_VIEW.set(&mut channels, child_thread_id);
            }
            Self::Declined => decided(&mut channels, DecisionView::Reject),
            Self::Previewed => decided(&mut channels, DecisionView::Preview),
        }
        channels
    }
}

impl HandoffInProgress {
    /// Returns a handoff that nobody has refined.
    pub(crate) const fn new(metadata: Metadata) -> Self {
        Self { metadata, refinements: Vec::new(), model: None }
    }

    /// Returns the handoff with `revision` behind it, whatever came of it.
    fn with(mut self: Box<Self>, revision: Revision) -> Box<Self> {
        match revision {
            Revision::Refine(refinement) => self.refinements.push(refinement),
            Revision::Redraft { .. } => {}
        }
        self
    }
}

impl Revision {
    /// Returns the feedback to follow.
    pub(crate) fn feedback(&self) -> Option<&str> {
        match self {
            Self::Refine(refinement) => Some(&refinement.feedback),
            Self::Redraft { .. } => None,
        }
    }
}

impl ProposalRef {
    /// Returns the name of `proposal`.
    pub(crate) fn of(proposal: &Proposal) -> Self {
        Self {
            handoff_id: proposal.handoff_id,
            iteration: proposal.iteration,
            summary_sha256: Some(proposal.summary_sha256.clone()),
        }
    }
}

fn decided(channels: &mut Channels, decision: DecisionView) {
    DECISION_VIEW.set(channels, &decision);
    APPROVED_VIEW.set(channels, &(decision == DecisionView::Approve));
}

/// Returns the channels that remove a handoff from its parent's state, and every view of it.
pub(crate) fn cleared() -> Channels {
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

/// Returns of `channels` what differs from the state `before` a step, so that the step tells clients only what it changed.
pub(crate) fn changed(mut channels: Channels, before: &Channels) -> Channels {
    channels.retain(|key, value| match before.get(key) {
        Some(old) => old != value,
        None => !value.is_null(),
    });
    channels
}
