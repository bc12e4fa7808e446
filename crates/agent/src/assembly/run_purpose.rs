//! The purpose of a run: the node at which its graph starts or resumes, and the channels that say so.

use compaction::COMPACTION_NODE;
use protocol::Checkpoint;
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, Channel, Channels, MODEL_NODE, TOOLS_NODE,
};
use serde::{Deserialize, Serialize};

use super::call_limit;

/// Channel: the start of the graph, which the entry edge reads.
const ENTRY_CHANNEL: Channel<GraphEntry> = Channel::new("_start");

/// The start of a run in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GraphEntry {
    /// At `before_agent`, for a turn.
    Turn,
    /// At the drafting of a handoff.
    Handoff,
    /// At the compaction node.
    Compaction,
}

/// The purpose of a run, which determines the nodes of its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPurpose {
    /// A turn: a person's message is answered.
    Turn,
    /// A handoff is drafted or decided.
    Handoff,
    /// The conversation is compacted at a person's request, and nothing else happens.
    Compaction,
    /// Only the activities that an earlier run left pending are performed.
    PendingActivities,
    /// Nothing is executed: pending questions and steps of the thread are dropped, or the thread is rewound.
    Discard,
}

impl RunPurpose {
    /// Returns the purpose of a run that starts with these channels.
    ///
    /// # Errors
    /// Fails if the entry channel cannot be read.
    pub(crate) fn from_channels(channels: &Channels) -> runtime::Result<Self> {
        Ok(match ENTRY_CHANNEL.get(channels)? {
            Some(GraphEntry::Turn) => Self::Turn,
            Some(GraphEntry::Handoff) => Self::Handoff,
            Some(GraphEntry::Compaction) => Self::Compaction,
            None => Self::PendingActivities,
        })
    }

    /// Returns the purpose of a graph that can resume at `node` with these channels. An unreadable compaction
    /// request counts as a turn: the graph of a turn has the compaction node too, and that node fails the
    /// run.
    pub(crate) fn from_node(node: Option<&str>, channels: Option<&Channels>) -> Self {
        match node {
            Some(COMPACTION_NODE)
                if channels
                    .is_some_and(|channels| compaction::is_compaction_only_run(channels) == Ok(true)) =>
            {
                Self::Compaction
            }
            Some(COMPACTION_NODE) => Self::Turn,
            Some(BEFORE_AGENT_NODE | MODEL_NODE | AFTER_MODEL_NODE | TOOLS_NODE | AFTER_AGENT_NODE) => {
                Self::Turn
            }
            Some(_) => Self::Handoff,
            None => Self::PendingActivities,
        }
    }

    /// Returns the purpose of a graph that can resume at `node` from the checkpoint. A handoff that the agent
    /// requested is part of its turn, because it returns to the turn after the decision.
    pub(crate) fn for_resume(node: Option<&str>, checkpoint: Option<&Checkpoint>) -> Self {
        let channels = checkpoint.map(|point| &point.channels);
        match Self::from_node(node, channels) {
            Self::Handoff if channels.is_some_and(handoff::is_requested_by_agent) => Self::Turn,
            purpose => purpose,
        }
    }

    /// Returns the channels that direct the entry edge. They also reset the count of model calls for the new
    /// run.
    pub(crate) fn entry_channels(self) -> Channels {
        let mut channels = Channels::new();
        match self {
            Self::Turn => ENTRY_CHANNEL.set(&mut channels, &GraphEntry::Turn),
            Self::Handoff => ENTRY_CHANNEL.set(&mut channels, &GraphEntry::Handoff),
            Self::Compaction => ENTRY_CHANNEL.set(&mut channels, &GraphEntry::Compaction),
            Self::PendingActivities | Self::Discard => ENTRY_CHANNEL.clear(&mut channels),
        }
        call_limit::MODEL_CALLS_CHANNEL.clear(&mut channels);
        channels
    }
}

/// Returns the first node of a run. A run without an entry has no node and performs only pending activities.
pub(super) fn entry_node(channels: &Channels) -> runtime::NextNode {
    match ENTRY_CHANNEL.get(channels)? {
        Some(GraphEntry::Turn) => Ok(Some(BEFORE_AGENT_NODE)),
        Some(GraphEntry::Handoff) => handoff::route_entry(channels),
        Some(GraphEntry::Compaction) => Ok(Some(COMPACTION_NODE)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use compaction::{CompactionRequest, compaction_request_channels};
    use protocol::CompactionTrigger;

    use super::*;

    #[test]
    fn e9_a_turn_that_is_interrupted_during_its_compaction_resumes_as_a_turn() {
        let request = |is_whole_run| CompactionRequest {
            trigger: CompactionTrigger::Auto,
            focus: None,
            keep: None,
            frame_tokens: 0,
            is_whole_run,
        };
        // The purpose before does not matter: an answer resumes a turn in the state that a handoff or a
        // compaction left.
        for before in
            [RunPurpose::Turn, RunPurpose::Handoff, RunPurpose::Compaction, RunPurpose::PendingActivities]
        {
            for (is_whole_run, purpose) in [(false, RunPurpose::Turn), (true, RunPurpose::Compaction)] {
                let mut channels = before.entry_channels();
                channels.extend(compaction_request_channels(&request(is_whole_run)));
                assert_eq!(
                    RunPurpose::from_node(Some(COMPACTION_NODE), Some(&channels)),
                    purpose,
                    "{before:?}"
                );
            }
        }
        assert_eq!(RunPurpose::from_node(Some(COMPACTION_NODE), None), RunPurpose::Turn);
    }
}
