//! Branch plans: the writes with which a thread continues from a past checkpoint, with messages added,
//! replaced or removed.
//!
//! No event is rewritten. The thread is rewound to before the first message that differs, and the messages
//! after it are appended again. The plan is computed here and written by the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use journal::{EventQuery, SupersededVisibility, Write};
use protocol::{CheckpointId, CheckpointSource, Event, Handoff, Message, NewEvent, Seq, ThreadId};
use runtime::{Channels, RewindRequest};
use uuid::Uuid;

use super::message::{StateMessage, own_message_id, with_message_id};
use super::points::HistoryPoint;
use crate::ThreadService;
use crate::runs::request::messages::{InputMessage, MessageChange, is_same_message};
use crate::{Result, ThreadError};

/// Events per page when messages are appended again.
const REPLAY_PAGE_ROWS: usize = 500;

/// A plan to continue a thread from a past checkpoint.
#[derive(Debug, Default)]
pub(crate) struct BranchPlan {
    /// The rewind that precedes everything else; `None` if messages are only appended to the current state.
    pub(crate) rewind_target: Option<RewindRequest>,
    /// The events to append after the rewind, in order: repeated messages and new ones.
    pub(crate) events: Vec<NewEvent>,
    /// Other writes of the same transaction, such as artifacts of new messages.
    pub(crate) writes: Vec<Write>,
    /// The next node at the checkpoint; `None` if the thread was idle there, or for the point before an
    /// input.
    pub(crate) next_node: Option<String>,
    /// True if the newest AI message has tool calls without a result.
    pub(crate) has_pending_calls: bool,
    /// The handoffs that are withdrawn, because they were requested after the target of the rewind.
    pub(crate) withdrawn_handoffs: Vec<Handoff>,
}

/// A message of the branch.
#[derive(Debug, Clone)]
enum BranchMessage {
    /// An existing message, unchanged.
    Kept(Arc<StateMessage>),
    /// An existing message with new content.
    Changed(Arc<StateMessage>, Message),
    /// A new message.
    New(Message),
}

impl ThreadService<'_> {
    /// Plans how the thread continues from a past checkpoint, or from its current state, with these messages.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] if the thread has no such checkpoint;
    /// [`ThreadError::InvalidStateChange`] if a message to remove does not exist.
    pub(crate) async fn branch_plan(
        self,
        thread_id: ThreadId,
        checkpoint_id: Option<CheckpointId>,
        changes: Vec<InputMessage>,
    ) -> Result<BranchPlan> {
        let point = match checkpoint_id {
            Some(id) => self.past_point(thread_id, id).await?,
            None => None,
        };
        if point.is_none() && changes.is_empty() {
            return Ok(BranchPlan::default());
        }
        self.branch_plan_at(thread_id, point.as_ref(), changes).await
    }

    /// Plans how the thread continues from `point`, or from its current state if that is `None`.
    pub(super) async fn branch_plan_at(
        self,
        thread_id: ThreadId,
        point: Option<&HistoryPoint>,
        changes: Vec<InputMessage>,
    ) -> Result<BranchPlan> {
        self.branch_plan_within(thread_id, point, Seq::MAX, changes).await
    }

    /// Plans how the thread continues from `point`, or from its current state, where no event after
    /// `keep_max` stays visible.
    pub(crate) async fn branch_plan_within(
        self,
        thread_id: ThreadId,
        point: Option<&HistoryPoint>,
        keep_max: Seq,
        changes: Vec<InputMessage>,
    ) -> Result<BranchPlan> {
        let head_seq = point.map(HistoryPoint::head_seq);
        let read_messages = |all: &super::transcript_cache::ThreadTranscript| {
            let visible = all.branches.visible_at(Seq::MAX);
            (
                all.visible_after(0),
                head_seq.map(|head| (all.visible_at(head), visible.contains(head) || head == 0)),
            )
        };
        let (current, past) =
            self.agent.transcripts.with_transcript(&*self.agent.store, thread_id, read_messages).await?;
        let (existing, is_visible) = past.unwrap_or_else(|| (current.clone(), true));
        let (branch_messages, writes) =
            edit_messages(existing, changes).map_err(|id| unknown_message_error(thread_id, &id))?;
        let unchanged_count = branch_messages
            .iter()
            .zip(&current)
            .take_while(|(message, current)| message.is_unchanged(current))
            .count();
        let before_first_difference = current.get(unchanged_count).map(|message| message.seq - 1);
        // After a visible point there can be events other than messages, so the thread is rewound at least to
        // that point. A point on a hidden branch is not visible; its messages are appended again from where
        // the two branches diverge.
        let keep_seq = match head_seq.filter(|_| is_visible) {
            Some(head) => Some(before_first_difference.map_or(head, |seq| seq.min(head))),
            None => before_first_difference,
        };
        let mut plan = BranchPlan { writes, ..BranchPlan::default() };
        plan.next_node = point.and_then(HistoryPoint::next_node).map(str::to_owned);
        plan.has_pending_calls = has_pending_calls(&branch_messages);
        plan.events = self.replayed_events(thread_id, &branch_messages[unchanged_count..]).await?;
        if point.is_none() && keep_seq.is_none() {
            return Ok(plan);
        }
        let keep_seq = match keep_seq {
            Some(seq) => seq,
            None => self.agent.thread(thread_id).await?.last_seq,
        };
        let (keep_seq, now) = (keep_seq.min(keep_max), Timestamp::now());
        let effects = self.rollback_effects(thread_id, keep_seq, now).await?;
        let (checkpoint_id, mut channels) = self.kept_state(thread_id, point).await?;
        for handoff in &effects.withdrawn_handoffs {
            // The state at the target is from before the request of the handoff, so it must not contain its channels.
            let dismissal = handoff::dismiss_handoff(handoff, &channels, None, now);
            let handoff_channels = dismissal.map(|dismissal| dismissal.channels).unwrap_or_default();
            channels.retain(|key, _| !handoff_channels.contains_key(key));
        }
        plan.writes.extend(effects.writes);
        plan.withdrawn_handoffs = effects.withdrawn_handoffs;
        plan.rewind_target =
            Some(RewindRequest { keep_seq, channels, checkpoint_id, superseded: effects.superseded_count });
        Ok(plan)
    }

    /// Returns the point with that id; `None` if it is the current point of the thread.
    pub(super) async fn past_point(
        self,
        thread_id: ThreadId,
        id: CheckpointId,
    ) -> Result<Option<HistoryPoint>> {
        let point = self.point(thread_id, id).await?;
        let head = self.head_point(thread_id).await?;
        Ok(Some(point).filter(|point| head.as_ref().is_none_or(|head| head.id() != point.id())))
    }

    /// Returns the checkpoint that the new branch names as its predecessor, and the channels that are kept.
    /// Without a point, these are of the current state.
    async fn kept_state(
        self,
        thread_id: ThreadId,
        point: Option<&HistoryPoint>,
    ) -> Result<(Option<CheckpointId>, Channels)> {
        Ok(match point {
            Some(point) => {
                (self.named_parent(thread_id, point).await?, self.public_channels(thread_id, point).await?)
            }
            None => {
                let before = self.agent.store.checkpoint(thread_id).await?;
                let parent = match self.head_point(thread_id).await? {
                    Some(head) => self.named_parent(thread_id, &head).await?,
                    None => None,
                };
                (parent, before.map(|before| before.channels).unwrap_or_default())
            }
        })
    }

    /// Returns the checkpoint that a following point names as its predecessor. For a checkpoint of a rewind
    /// it is the one before it.
    pub(crate) async fn named_parent(
        self,
        thread_id: ThreadId,
        point: &HistoryPoint,
    ) -> Result<Option<CheckpointId>> {
        match point {
            HistoryPoint::Stored(stored) if stored.source == CheckpointSource::Rewind => {
                self.checkpoint_before(thread_id, stored).await
            }
            HistoryPoint::Stored(_) | HistoryPoint::Input(_) | HistoryPoint::Base { .. } => {
                Ok(Some(point.id()))
            }
        }
    }

    /// Returns the channels of a point.
    async fn public_channels(self, thread_id: ThreadId, point: &HistoryPoint) -> Result<Channels> {
        let parent = match point {
            HistoryPoint::Input(_) => self.parent_of_input(thread_id, point.id()).await?,
            HistoryPoint::Stored(_) | HistoryPoint::Base { .. } => None,
        };
        self.stored_channels(thread_id, point, parent).await
    }

    /// Returns the events that append these messages. Repeated messages keep their content, id, run and time.
    async fn replayed_events(self, thread_id: ThreadId, messages: &[BranchMessage]) -> Result<Vec<NewEvent>> {
        let seqs: BTreeSet<Seq> = messages.iter().filter_map(BranchMessage::seq).collect();
        let mut stored = self.events_at(thread_id, &seqs).await?;
        let mut events = Vec::with_capacity(messages.len());
        for message in messages {
            let event = match message {
                BranchMessage::New(message) => self.new_message_event(thread_id, message).await?,
                BranchMessage::Kept(kept) => match stored.remove(&kept.seq) {
                    Some(event) => replayed_event(event, kept, &kept.message)?,
                    None => continue,
                },
                BranchMessage::Changed(kept, message) => match stored.remove(&kept.seq) {
                    Some(event) => replayed_event(event, kept, message)?,
                    None => self.new_message_event(thread_id, message).await?,
                },
            };
            events.push(event);
        }
        Ok(events)
    }

    /// Returns the event of a new message. A person's message gets the key by which its id is looked up,
    /// unless the key is taken: an id that was used on any branch stays known.
    async fn new_message_event(self, thread_id: ThreadId, message: &Message) -> Result<NewEvent> {
        let now = Timestamp::now();
        let Some(id) = own_message_id(message) else {
            // The message gets an id at once, because a derived one would depend on its seq, which it does
            // not have yet.
            let message = with_message_id(message.clone(), &Uuid::now_v7().to_string());
            return Ok(NewEvent::from_message(&message, now)?);
        };
        let event = NewEvent::from_message(message, now)?;
        let key = format!("message:{id}");
        let is_keyed = matches!(message, Message::Human(_))
            && self.agent.store.seq_of_event_key(thread_id, &key).await?.is_none();
        Ok(if is_keyed { event.with_key(key) } else { event })
    }

    /// Returns the message events with these seqs, including superseded ones.
    async fn events_at(self, thread_id: ThreadId, seqs: &BTreeSet<Seq>) -> Result<BTreeMap<Seq, Event>> {
        let mut events = BTreeMap::new();
        let (Some(first), Some(last)) = (seqs.first(), seqs.last()) else { return Ok(events) };
        let mut after = first - 1;
        loop {
            let query = EventQuery {
                before: Some(last + 1),
                categories: vec![protocol::Category::Message],
                superseded: SupersededVisibility::Shown,
                ..EventQuery::after(after, REPLAY_PAGE_ROWS)
            };
            let page = self.agent.store.events(thread_id, query).await?;
            let is_end = page.len() < REPLAY_PAGE_ROWS;
            after = page.last().map_or(after, |event| event.seq);
            events.extend(
                page.into_iter().map(|event| (event.seq, event)).filter(|(seq, _)| seqs.contains(seq)),
            );
            if is_end {
                return Ok(events);
            }
        }
    }
}

/// Returns whether the newest AI message has tool calls without a result.
fn has_pending_calls(messages: &[BranchMessage]) -> bool {
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    for message in messages.iter().rev().filter(|message| !message.is_projected()).map(BranchMessage::message)
    {
        match message {
            Message::Tool(result) => drop(answered.insert(&result.call_id)),
            Message::Ai(_) => return message.tool_calls().any(|(id, ..)| !answered.contains(id)),
            Message::Human(_) => return false,
        }
    }
    false
}

impl BranchMessage {
    /// Returns whether the message represents something other than a message, so that it cannot be changed.
    fn is_projected(&self) -> bool {
        matches!(self, Self::Kept(kept) if kept.is_projected)
    }

    /// Returns the message with its new content.
    fn message(&self) -> &Message {
        match self {
            Self::Kept(kept) => &kept.message,
            Self::Changed(_, message) | Self::New(message) => message,
        }
    }

    /// Returns whether this is the given message, unchanged.
    fn is_unchanged(&self, current: &StateMessage) -> bool {
        matches!(self, Self::Kept(kept) if kept.seq == current.seq)
    }

    /// Returns the id of the message; `None` for a new message without one.
    fn id(&self) -> Option<&str> {
        match self {
            Self::Kept(kept) | Self::Changed(kept, _) => Some(&kept.id),
            Self::New(message) => own_message_id(message),
        }
    }

    /// Returns the seq of the existing message; `None` for a new one.
    fn seq(&self) -> Option<Seq> {
        match self {
            Self::Kept(kept) | Self::Changed(kept, _) => Some(kept.seq),
            Self::New(_) => None,
        }
    }
}

/// Applies changes to the existing messages. Returns the resulting messages and the writes for their
/// artifacts.
///
/// A put message with the id of an existing one replaces it; if it has the same content, nothing changes. The
/// error is the id of a message to remove that does not exist.
fn edit_messages(
    existing: Vec<Arc<StateMessage>>,
    changes: Vec<InputMessage>,
) -> std::result::Result<(Vec<BranchMessage>, Vec<Write>), String> {
    let mut writes = Vec::new();
    let last_remove_all = changes.iter().rposition(|message| message.change == MessageChange::RemoveAll);
    // A removed message keeps its index, because it may be put again.
    let mut messages: Vec<(BranchMessage, MessagePresence)> = match last_remove_all {
        Some(_) => Vec::new(),
        None => existing
            .into_iter()
            .map(|message| (BranchMessage::Kept(message), MessagePresence::Present))
            .collect(),
    };
    let ids = messages
        .iter()
        .enumerate()
        .filter_map(|(index, (message, _))| Some((message.id()?.to_owned(), index)));
    let mut indexes: BTreeMap<String, usize> = ids.collect();
    for message in changes.into_iter().skip(last_remove_all.map_or(0, |index| index + 1)) {
        let index = message.id.as_ref().and_then(|id| indexes.get(id).copied());
        match (message.change, index) {
            (MessageChange::Put(new), index) => {
                writes.extend(message.artifacts.into_iter().map(Write::PutArtifact));
                match index {
                    Some(index) => {
                        messages[index] = (messages[index].0.with_message(new), MessagePresence::Present)
                    }
                    None => {
                        let new = BranchMessage::New(new);
                        indexes.extend(new.id().map(|id| (id.to_owned(), messages.len())));
                        messages.push((new, MessagePresence::Present));
                    }
                }
            }
            (MessageChange::Remove, Some(index)) if messages[index].0.is_projected() => {}
            (MessageChange::Remove, Some(index)) => messages[index].1 = MessagePresence::Removed,
            (MessageChange::Remove, None) => return Err(message.id.unwrap_or_default()),
            (MessageChange::RemoveAll, _) => {}
        }
    }
    let remaining = messages.into_iter().filter(|(_, presence)| *presence == MessagePresence::Present);
    Ok((remaining.map(|(message, _)| message).collect(), writes))
}

/// The presence of a message after the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessagePresence {
    /// It remains.
    Present,
    /// It is removed.
    Removed,
}

impl BranchMessage {
    /// Returns the message after `new` is put in its place. If `new` has the same content, the existing
    /// message stays, because a client that sends a message back omits its model and usage.
    fn with_message(&self, new: Message) -> Self {
        match self {
            Self::Kept(kept) | Self::Changed(kept, _)
                if kept.is_projected || is_same_message(&kept.message, &new) =>
            {
                Self::Kept(Arc::clone(kept))
            }
            Self::Kept(kept) | Self::Changed(kept, _) => Self::Changed(Arc::clone(kept), new),
            Self::New(_) => Self::New(new),
        }
    }
}

/// Builds the error for a message to remove that does not exist.
fn unknown_message_error(thread_id: ThreadId, id: &str) -> ThreadError {
    let reason = format!("there is no message `{id}` to remove");
    ThreadError::InvalidStateChange { thread_id, reason }
}

/// Returns the event that appends an existing message again, with content `message`, under the same id and
/// with the same run.
fn replayed_event(event: Event, kept: &StateMessage, message: &Message) -> Result<NewEvent> {
    let mut metadata = event.parsed_metadata();
    // The metadata names the original event, which is the one whose usage was paid.
    metadata.again.get_or_insert(event.seq);
    let is_unchanged = std::ptr::eq(message, &raw const kept.message) && own_message_id(message).is_some();
    let mut new = match is_unchanged {
        true => NewEvent { content: event.content, ..NewEvent::from_message(message, event.created_at)? },
        false => NewEvent::from_message(&with_message_id(message.clone(), &kept.id), event.created_at)?,
    };
    new.run_id = event.run_id;
    Ok(new.with_metadata(&metadata)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the messages after changes to `existing`, in a compact form: `a=x` puts, `-a` removes, and `*`
    /// removes all. In the result, `+` marks new messages and `~` changed ones.
    #[track_caller]
    fn check(existing: &[(&str, &str)], changes: &[&str], expected: std::result::Result<&[&str], &str>) {
        let existing = (1..).zip(existing).map(|(seq, (id, text))| {
            let message = with_message_id(Message::human(*text), id);
            Arc::new(StateMessage::new((*id).to_owned(), seq, None, message, Timestamp::UNIX_EPOCH))
        });
        let changes = changes.iter().map(|change_text: &&str| {
            let (id, change) = match (change_text.strip_prefix('-'), change_text.split_once('=')) {
                (Some(id), _) => (Some(id), MessageChange::Remove),
                (None, Some((id, text))) => {
                    (Some(id), MessageChange::Put(with_message_id(Message::human(text), id)))
                }
                (None, None) => (None, MessageChange::RemoveAll),
            };
            InputMessage { id: id.map(str::to_owned), change, artifacts: Vec::new() }
        });
        let result = edit_messages(existing.collect(), changes.collect()).map(|(messages, _)| {
            let describe = |message: &BranchMessage| {
                let mark = match message {
                    BranchMessage::Kept(_) => ' ',
                    BranchMessage::Changed(..) => '~',
                    BranchMessage::New(_) => '+',
                };
                format!("{mark}{}={}", message.id().unwrap_or_default(), message.message().text())
            };
            messages.iter().map(describe).collect::<Vec<_>>()
        });
        let expected = expected.map(|expected| expected.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(result, expected.map_err(str::to_owned));
    }

    #[test]
    fn changes_are_applied_to_messages_by_id() {
        let existing = [("a", "1"), ("b", "2"), ("c", "3")];
        check(&existing, &[], Ok(&[" a=1", " b=2", " c=3"]));
        check(&existing, &["d=4"], Ok(&[" a=1", " b=2", " c=3", "+d=4"]));
        check(&existing, &["b=9"], Ok(&[" a=1", "~b=9", " c=3"]));
        check(&existing, &["b=2"], Ok(&[" a=1", " b=2", " c=3"]));
        check(&existing, &["b=9", "b=2"], Ok(&[" a=1", " b=2", " c=3"]));
        check(&existing, &["-b"], Ok(&[" a=1", " c=3"]));
        check(&existing, &["-b", "b=5"], Ok(&[" a=1", "~b=5", " c=3"]));
        check(&existing, &["d=4", "d=5"], Ok(&[" a=1", " b=2", " c=3", "+d=5"]));
        check(&existing, &["d=4", "-d"], Ok(&[" a=1", " b=2", " c=3"]));
        check(&existing, &["*"], Ok(&[]));
        check(&existing, &["x=0", "*", "a=1"], Ok(&["+a=1"]));
        check(&existing, &["*", "d=4", "*", "e=5"], Ok(&["+e=5"]));
        check(&existing, &["-x"], Err("x"));
        check(&existing, &["*", "-a"], Err("a"));
        check(&[], &["-a"], Err("a"));
    }

    #[test]
    fn calls_are_pending_until_each_has_its_result() {
        let call = |ids: &[&str]| {
            let content = ids.iter().map(|id| protocol::ContentBlock::ToolCall {
                id: (*id).to_owned(),
                name: "ls".to_owned(),
                args: json!({}),
            });
            Message::Ai(protocol::AiMessage { content: content.collect(), ..Default::default() })
        };
        let result = |id: &str| {
            Message::Tool(protocol::ToolMessage {
                id: None,
                call_id: id.to_owned(),
                name: None,
                content: Vec::new(),
                status: protocol::ToolStatus::Success,
            })
        };
        for (transcript, expected) in [
            (vec![], false),
            (vec![call(&["1"])], true),
            (vec![call(&["1", "2"]), result("1")], true),
            (vec![call(&["1", "2"]), result("2"), result("1")], false),
            (vec![call(&["1"]), Message::human("x")], false),
            (vec![Message::ai("x")], false),
        ] {
            let messages: Vec<BranchMessage> = transcript.into_iter().map(BranchMessage::New).collect();
            assert_eq!(has_pending_calls(&messages), expected, "{messages:?}");
        }
    }
}
