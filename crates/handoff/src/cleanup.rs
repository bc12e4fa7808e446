//! The end of a child's first complete turn: the mark, the edge and the node that clear its block exactly once
//! (contract §3 and §8), and the activity that does it.

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, ThreadPatch, Transaction, Write};
use protocol::event::body::HandoffCleaned;
use protocol::{HandoffMark, HandoffStatus, NewEvent, PendingActivity, Thread};
use runtime::{Activity, Channel, Channels, Failure, Frame, Frames, Node, StepContext, Update};
use serde_json::{Map, Value, json};

use crate::accept::{Acceptance, handoff_id};
use crate::lifecycle::log::Line;
use crate::lifecycle::{Step, moved};
use crate::request::ASKER_CHANNEL;

/// Channel: whether the first turn of a child whose block is to be cleared is complete; absent in any other thread.
const FIRST_TURN_CHANNEL: Channel<bool> = Channel::new("_handoff_first_turn_done");

/// The name of the node that marks the first complete turn.
pub const MARK_NODE: &str = "mark_first_handoff_turn";
/// The name of the node that has the block cleared.
pub const CLEANUP_NODE: &str = "cleanup_handoff";
/// The name the clearing is stored under.
pub const CLEAR_ACTIVITY: &str = "clear_handoff_block";

/// Returns the channels with which a turn of `thread` begins, so that the graph knows whether a handoff's cleanup
/// is due at its end.
pub fn turn_channels(thread: &Thread) -> Channels {
    let mut channels = Channels::new();
    match own_mark(thread).is_some_and(|mark| mark.cleanup_required) {
        true => FIRST_TURN_CHANNEL.set(&mut channels, &false),
        false => FIRST_TURN_CHANNEL.clear(&mut channels),
    }
    // A person who goes on leaves the call that asked for a handoff without an answer to wait for.
    ASKER_CHANNEL.clear(&mut channels);
    channels
}

/// Returns the mark of the handoff that `thread` is the child of.
fn own_mark(thread: &Thread) -> Option<HandoffMark> {
    thread.handoff().filter(|mark| mark.child_thread_id == thread.thread_id)
}

/// The edge after a turn: to the mark when a cleanup is due, otherwise the graph is idle.
pub fn after_turn(channels: &Channels) -> runtime::NextNode {
    Ok(FIRST_TURN_CHANNEL.is_set(channels).then_some(MARK_NODE))
}

/// The edge after the mark: to the cleanup once the first turn is done.
pub fn should_cleanup_handoff(channels: &Channels) -> runtime::NextNode {
    Ok((FIRST_TURN_CHANNEL.get(channels)? == Some(true)).then_some(CLEANUP_NODE))
}

/// Marks that the child's first turn is complete: from here on its summary is not injected.
pub struct MarkFirstTurn;

#[async_trait]
impl Node for MarkFirstTurn {
    fn name(&self) -> &'static str {
        MARK_NODE
    }

    fn is_immediate(&self) -> bool {
        true
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let mut update = Update::default();
        let thread = step.store.thread(step.thread_id).await?;
        if let Some(mut mark) = thread.as_ref().and_then(own_mark) {
            mark.pending = false;
            update.writes.push(set_mark(&mark)?);
        }
        FIRST_TURN_CHANNEL.set(&mut update.channels, &true);
        Ok(update)
    }
}

/// Has the child's block cleared.
pub struct HandoffCleanup;

#[async_trait]
impl Node for HandoffCleanup {
    fn name(&self) -> &'static str {
        CLEANUP_NODE
    }

    fn is_immediate(&self) -> bool {
        true
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let mut update = Update::default();
        FIRST_TURN_CHANNEL.clear(&mut update.channels);
        let thread = step.store.thread(step.thread_id).await?;
        if let Some(mark) = thread.as_ref().and_then(own_mark) {
            let args = json!({"handoff_id": mark.handoff_id});
            update.activities.push(PendingActivity { name: CLEAR_ACTIVITY.to_owned(), args });
        }
        Ok(update)
    }
}

/// Clears the block of a child whose first turn is complete.
#[derive(Clone)]
pub struct BlockClearing {
    /// The service that owns the block.
    pub acceptance: Acceptance,
}

#[async_trait]
impl Activity for BlockClearing {
    fn name(&self) -> &'static str {
        CLEAR_ACTIVITY
    }

    async fn perform(&self, args: &Value, frames: &Frames) -> Result<Update, Failure> {
        // A handoff whose record is gone has nothing left to clear.
        let Some(handoff) = self.acceptance.store.handoff(handoff_id(args)?).await? else {
            return Ok(Update::default());
        };
        if handoff.status != HandoffStatus::Seeded {
            Line::Skipped(&format!("its block is to be cleared, and it is {}", handoff.status.as_str()))
                .of(&handoff, self.acceptance.accepted(&handoff).await?.as_ref());
            return Ok(Update::default());
        }
        if let Err(problem) = self.acceptance.withdraw(&handoff).await {
            let accepted = self.acceptance.accepted(&handoff).await?;
            Line::NotReset(&problem).of(&handoff, accepted.as_ref());
            let text = format!("{problem}. The block stays in agent.md and is cleared after the next turn.");
            frames.send(Frame::Notice { text });
            return Ok(Update::default());
        }
        let now = Timestamp::now();
        let store = &self.acceptance.store;
        let event = NewEvent::of(&HandoffCleaned { handoff_id: handoff.handoff_id }, now)?;
        let mut writes = vec![moved(&handoff, Step::Clean, HandoffPatch::default(), now)?];
        let child = store.thread(handoff.child_thread_id).await?;
        let mark = child.as_ref().and_then(own_mark).filter(|mark| mark.handoff_id == handoff.handoff_id);
        if let Some(mut mark) = mark {
            mark.pending = false;
            mark.cleanup_required = false;
            mark.last_cleanup_at = Some(now);
            writes.push(set_mark(&mark)?);
            writes.push(Write::Append { thread_id: handoff.child_thread_id, events: vec![event] });
        }
        store.commit(Transaction { fence: None, writes }).await?;
        Ok(Update::default())
    }
}

fn set_mark(mark: &HandoffMark) -> Result<Write, serde_json::Error> {
    let metadata = Map::from_iter([(HandoffMark::KEY.to_owned(), serde_json::to_value(mark)?)]);
    Ok(Write::UpdateThread {
        thread_id: mark.child_thread_id,
        patch: ThreadPatch { metadata, ..ThreadPatch::default() },
    })
}
