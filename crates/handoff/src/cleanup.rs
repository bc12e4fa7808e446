//! The cleanup after a child's first complete turn (contract §3 and §8): the nodes and edges that schedule the
//! clearing of the managed block exactly once, and the activity that clears it.

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffFilter, HandoffPatch, ThreadPatch, Transaction, Write};
use protocol::event::body::HandoffCleaned;
use protocol::{Handoff, HandoffMark, HandoffStatus, NewEvent, PendingActivity, Thread};
use runtime::{Activity, Channel, Channels, Frame, FrameSender, GraphUpdate, Node, StepContext, StepFailure};
use serde_json::{Map, Value, json};

use crate::accept::{Acceptance, parse_handoff_id, replaced_edit_notice};
use crate::lifecycle::log::HandoffLogLine;
use crate::lifecycle::{HandoffAction, transition_write};
use crate::request::WAITING_CALL_CHANNEL;

/// The channel that tells whether the first turn of a child is complete. It is set only in a child whose block has not
/// been cleared, and absent in any other thread.
const FIRST_TURN_CHANNEL: Channel<bool> = Channel::new("_handoff_first_turn_done");

/// The name of the node that marks the first complete turn.
pub const MARK_NODE: &str = "mark_first_handoff_turn";
/// The name of the node that schedules the clearing of the block.
pub const CLEANUP_NODE: &str = "cleanup_handoff";
/// The name of the clearing activity in checkpoints.
pub const CLEAR_ACTIVITY: &str = "clear_handoff_block";

/// Returns the channel values for the start of a turn of `thread`. They tell the graph whether a cleanup is due at
/// the end of the turn, and forget a tool call that still waits for a handoff.
pub fn turn_channels(thread: &Thread) -> Channels {
    let mut channels = Channels::new();
    match own_mark(thread).is_some_and(|mark| mark.cleanup_required) {
        true => FIRST_TURN_CHANNEL.set(&mut channels, &false),
        false => FIRST_TURN_CHANNEL.clear(&mut channels),
    }
    // A new message ends the wait: the call that requested the handoff gets its result before the turn starts.
    WAITING_CALL_CHANNEL.clear(&mut channels);
    channels
}

/// Returns the handoff mark of `thread` if the thread is the child in it, not the parent.
fn own_mark(thread: &Thread) -> Option<HandoffMark> {
    thread.handoff_mark().filter(|mark| mark.child_thread_id == thread.thread_id)
}

/// Routes the graph after a turn: to [`MarkFirstTurn`] when a cleanup is due, otherwise to the end.
///
/// # Errors
///
/// Never; the type is the one that edges have.
pub fn route_after_turn(channels: &Channels) -> runtime::NextNode {
    Ok(FIRST_TURN_CHANNEL.is_set(channels).then_some(MARK_NODE))
}

/// Routes the graph after the mark: to [`HandoffCleanup`] when the first turn is complete, otherwise to the end.
///
/// # Errors
///
/// When the channel cannot be read.
pub fn should_cleanup_handoff(channels: &Channels) -> runtime::NextNode {
    Ok((FIRST_TURN_CHANNEL.get(channels)? == Some(true)).then_some(CLEANUP_NODE))
}

/// The node that marks the child's first turn as complete. Whether later requests contain its summary is a setting of the
/// hook in `memory`.
pub struct MarkFirstTurn;

#[async_trait]
impl Node for MarkFirstTurn {
    fn name(&self) -> &'static str {
        MARK_NODE
    }

    fn is_immediate(&self) -> bool {
        true
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let mut update = GraphUpdate::default();
        let thread = step.store.thread(step.thread_id).await?;
        if let Some(mut mark) = thread.as_ref().and_then(own_mark) {
            mark.pending = false;
            update.writes.push(set_mark_write(&mark)?);
        }
        FIRST_TURN_CHANNEL.set(&mut update.channels, &true);
        Ok(update)
    }
}

/// The node that schedules the activity which clears the child's block.
pub struct HandoffCleanup;

#[async_trait]
impl Node for HandoffCleanup {
    fn name(&self) -> &'static str {
        CLEANUP_NODE
    }

    fn is_immediate(&self) -> bool {
        true
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let mut update = GraphUpdate::default();
        FIRST_TURN_CHANNEL.clear(&mut update.channels);
        let thread = step.store.thread(step.thread_id).await?;
        if let Some(mark) = thread.as_ref().and_then(own_mark) {
            let args = json!({"handoff_id": mark.handoff_id});
            update.activities.push(PendingActivity { name: CLEAR_ACTIVITY.to_owned(), args });
        }
        Ok(update)
    }
}

/// The activity that clears the block of a child whose first turn is complete.
///
/// It acts only on a handoff with the status `seeded`, so repeating it is harmless. When `agent.md` cannot be
/// written, the handoff stays `seeded` and the next turn of the child tries again.
#[derive(Clone)]
pub struct ClearBlockActivity {
    /// The service that owns the managed block.
    pub acceptance: Acceptance,
}

#[async_trait]
impl Activity for ClearBlockActivity {
    fn name(&self) -> &'static str {
        CLEAR_ACTIVITY
    }

    async fn perform(&self, args: &Value, frames: &FrameSender) -> Result<GraphUpdate, StepFailure> {
        // A handoff that was deleted with its threads has nothing left to clear.
        let Some(handoff) = self.acceptance.store.handoff(parse_handoff_id(args)?).await? else {
            return Ok(GraphUpdate::default());
        };
        if handoff.status != HandoffStatus::Seeded {
            HandoffLogLine::Skipped(&format!(
                "its block cannot be cleared while its status is {}",
                handoff.status.as_str()
            ))
            .log(&handoff, self.acceptance.accepted_proposal(&handoff).await?.as_ref());
            return Ok(GraphUpdate::default());
        }
        let withdrawn = self.acceptance.withdraw_block(&handoff).await;
        if let Ok(Some(backup)) = &withdrawn {
            frames.send(replaced_edit_notice(backup));
        }
        if let Err(problem) = withdrawn {
            let accepted = self.acceptance.accepted_proposal(&handoff).await?;
            HandoffLogLine::NotReset(&problem).log(&handoff, accepted.as_ref());
            let text = format!(
                "Failed to {problem}. The block stays in agent.md; clearing it is retried after the next turn."
            );
            frames.send(Frame::Notice { text });
            return Ok(GraphUpdate::default());
        }
        let now = Timestamp::now();
        let store = &self.acceptance.store;
        let event = NewEvent::from_body(&HandoffCleaned { handoff_id: handoff.handoff_id }, now)?;
        let mut writes =
            vec![transition_write(&handoff, HandoffAction::Clean, HandoffPatch::default(), now)?];
        let child = store.thread(handoff.child_thread_id).await?;
        let mark = child.as_ref().and_then(own_mark).filter(|mark| mark.handoff_id == handoff.handoff_id);
        if let Some(mut mark) = mark {
            mark.pending = false;
            mark.cleanup_required = false;
            mark.last_cleanup_at = Some(now);
            writes.push(set_mark_write(&mark)?);
            writes.push(Write::Append { thread_id: handoff.child_thread_id, events: vec![event] });
        }
        writes.extend(self.merged_handoff_writes(&handoff, now).await?);
        store.commit(Transaction { fence: None, writes }).await?;
        Ok(GraphUpdate::default())
    }
}

impl ClearBlockActivity {
    /// Returns the writes that complete the other handoffs of the same child. The block does not hold their summaries.
    async fn merged_handoff_writes(
        &self,
        handoff: &Handoff,
        now: Timestamp,
    ) -> Result<Vec<Write>, StepFailure> {
        let filter = HandoffFilter {
            child_thread_id: Some(handoff.child_thread_id),
            statuses: vec![HandoffStatus::Seeded],
            ..HandoffFilter::default()
        };
        let others = self.acceptance.store.handoffs(filter).await?;
        let others = others.iter().filter(|other| other.handoff_id != handoff.handoff_id);
        others
            .map(|other| transition_write(other, HandoffAction::Clean, HandoffPatch::default(), now))
            .collect()
    }
}

/// Returns the write that stores `mark` in the metadata of the child thread.
fn set_mark_write(mark: &HandoffMark) -> Result<Write, serde_json::Error> {
    let metadata = Map::from_iter([(HandoffMark::KEY.to_owned(), serde_json::to_value(mark)?)]);
    Ok(Write::UpdateThread {
        thread_id: mark.child_thread_id,
        patch: ThreadPatch { metadata, ..ThreadPatch::default() },
    })
}
