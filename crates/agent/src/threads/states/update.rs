//! Changes of a thread's state by a client between runs: messages, channels, pending questions and the next
//! node. Also copies threads. The state before a change stays a checkpoint of the thread's past.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{ThreadPatch, Transaction, Write};
use protocol::event::body::ThreadCreated;
use protocol::{
    Checkpoint, CheckpointId, CheckpointSource, Handoff, HandoffStatus, Interrupt, NewEvent, ParentKind,
    Thread, ThreadId, ThreadStatus,
};
use runtime::{
    ADMISSION_ATTEMPTS_MAX, AFTER_MODEL_NODE, Channels, HAS_TOOL_CALLS_CHANNEL, MODEL_NODE, RewindRequest,
};
use serde_json::Value;

use super::branching::BranchPlan;
use super::client_channels;
use super::points::{HistoryPoint, placeholder_run_id};
use crate::ThreadService;
use crate::admin::graph_shape;
use crate::agent::Agent;
use crate::assembly::RunPurpose;
use crate::runs::RESERVED_METADATA;
use crate::runs::request::messages::InputMessage;
use crate::threads::rollback::withdraws_questions;
use crate::workspace::WORKSPACE_KEY;
use crate::{Result, RunError, ThreadError};

/// The channels in which clients can keep values: todos, files, a title, and data of user interfaces. Other
/// channels of a request are ignored.
const CLIENT_CHANNELS: [&str; 5] = ["todos", "files", "title", "ui", "email"];

/// The channel whose entries are merged one by one.
const FILES_CHANNEL: &str = "files";

/// The most bytes of JSON in the channels of clients. Every checkpoint that changes stores them again, so the
/// limit is low.
const CLIENT_CHANNELS_BYTES_MAX: usize = 256 << 10;

/// A client's change of a thread's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateChange {
    /// Messages that are added, or that replace or remove others.
    pub messages: Vec<InputMessage>,
    /// The channels to set. Channels that clients cannot set are ignored.
    pub channels: Channels,
    /// The point at which the thread continues.
    pub continuation: Continuation,
    /// The checkpoint to change; `None` means the current one.
    pub point: Option<CheckpointId>,
}

/// The point at which a thread continues after a change of its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Continuation {
    /// At the next node that it had before.
    #[default]
    Unchanged,
    /// At the entry of the graph.
    AtEntry,
    /// Nowhere: pending questions and handoffs are withdrawn, and the thread becomes idle.
    Idle,
    /// At the next node that it had before, from a copy of the checkpoint. The copy has the same predecessor
    /// as the original.
    Copy,
    /// After this node, as if it had just run.
    After(String),
}

/// A change that is being planned.
struct StateChangePlan<'a> {
    /// The agent of the thread's owner.
    agent: &'a Agent,
    /// The thread.
    thread_id: ThreadId,
    /// The time of the change.
    now: Timestamp,
    /// The current checkpoint of the thread; `None` if it has none.
    head: Option<&'a Checkpoint>,
    /// The past point that is changed; `None` means the current one.
    point: Option<HistoryPoint>,
    /// The point at which the thread continues.
    continuation: &'a Continuation,
}

/// The facts about the turn that determine the next node after a change.
struct TurnAfterChange {
    /// The next node before the change.
    previous_next_node: Option<String>,
    /// True if messages were added.
    has_new_messages: bool,
    /// True if the newest AI message has tool calls without a result.
    has_pending_calls: bool,
}

impl<'a> ThreadService<'a> {
    /// Changes the thread's state, and returns the id of the new checkpoint.
    ///
    /// A change at a past checkpoint rewinds the thread to it; the new checkpoint becomes the current one.
    /// Pending questions about tool calls are withdrawn. A pending handoff stays, unless the continuation is
    /// [`Continuation::Idle`].
    ///
    /// The change is planned again, up to [`ADMISSION_ATTEMPTS_MAX`] times, if the thread changed meanwhile.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] if a run is active, because its state must not change under it.
    /// [`ThreadError::InvalidStateChange`] if the change is invalid, and [`ThreadError::UnknownCheckpoint`]
    /// if the checkpoint does not exist. Also fails if the thread does not exist, or if the journal fails.
    pub fn update_state(
        self,
        thread_id: ThreadId,
        change: StateChange,
    ) -> BoxFuture<'a, Result<CheckpointId>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            if let Continuation::After(node) = &change.continuation
                && !graph_shape::is_node(node)
            {
                let reason =
                    format!("there is no node `{node}`; the nodes are {}", graph_shape::node_names());
                return Err(ThreadError::InvalidStateChange { thread_id, reason }.into());
            }
            let mut attempts = 0;
            loop {
                // The checkpoint is read first. A run that starts before the commit moves it, and the commit then
                // fails.
                let before = self.agent.store.checkpoint(thread_id).await?;
                self.agent.runs().end_orphaned_run(thread_id).await?;
                let now = Timestamp::now();
                let point = match &change.point {
                    Some(id) => self.past_point(thread_id, *id).await?,
                    None => None,
                };
                let plan = StateChangePlan {
                    agent: self.agent,
                    thread_id,
                    now,
                    head: before.as_ref(),
                    point,
                    continuation: &change.continuation,
                };
                let (checkpoint_id, writes) = plan.writes(change.messages.clone(), &change.channels).await?;
                match self.agent.store.commit(Transaction { fence: None, writes }).await {
                    Ok(_) => return Ok(checkpoint_id),
                    Err(journal::Error::Conflict { .. }) if attempts < ADMISSION_ATTEMPTS_MAX => {
                        attempts += 1
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }

    /// Copies the thread with its metadata and its transcript. The history of the copy begins with the
    /// thread's current state. Pending questions and handoffs are not copied.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn copy_thread(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            let source = self.agent.thread(thread_id).await?;
            let before = self.agent.store.checkpoint(thread_id).await?;
            let now = Timestamp::now();
            let mut thread = Thread::blank(ThreadId::generate(), source.assistant_id.clone(), now);
            let is_copied = |key: &str| key == WORKSPACE_KEY || !RESERVED_METADATA.contains(&key);
            thread.metadata = source.metadata.into_iter().filter(|(key, _)| is_copied(key)).collect();
            (thread.name, thread.parent_id) = (source.name, Some(thread_id));
            thread.parent_kind = Some(ParentKind::Fork);
            let into = thread.thread_id;
            let origin = ThreadCreated::Fork { parent_thread_id: Some(thread_id), until: None };
            let created = NewEvent::from_body(&origin, now)?;
            let mut writes = vec![
                Write::CreateThread(thread.with_assistant_metadata()),
                Write::CopyEvents { from: thread_id, until: None, into },
                Write::Append { thread_id: into, events: vec![created] },
            ];
            if let Some(before) = before {
                let channels = client_channels(&before.channels);
                writes.push(Write::PutCheckpoint(client_checkpoint(into, None, None, channels, now)));
            }
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            self.agent.thread(into).await
        })
    }
}

impl StateChangePlan<'_> {
    /// Returns the id of the new checkpoint, and all writes of the change.
    async fn writes(
        &self,
        changes: Vec<InputMessage>,
        values: &Channels,
    ) -> Result<(CheckpointId, Vec<Write>)> {
        let (agent, thread_id) = (self.agent, self.thread_id);
        let has_new_messages = !changes.is_empty();
        let BranchPlan {
            rewind_target: rewind,
            events: messages,
            writes: extra_writes,
            next_node,
            has_pending_calls,
            withdrawn_handoffs,
        } = agent.threads().branch_plan_at(thread_id, self.point.as_ref(), changes).await?;
        let rewind = match rewind {
            Some(rewind) => Some(rewind),
            None => self.base_rewind_target().await?,
        };
        let mut channels = match &rewind {
            Some(rewind) => rewind.channels.clone(),
            None => self.head.map(|before| before.channels.clone()).unwrap_or_default(),
        };
        self.set_client_channels(&mut channels, values)?;
        let (withdrawal_writes, has_open_interrupts) =
            self.withdraw_interrupts(&mut channels, &withdrawn_handoffs, rewind.as_ref()).await?;
        let mut events: Vec<NewEvent> = Vec::new();
        let expected = self.head.map(|before| before.checkpoint_id);
        let mut writes = vec![Write::ExpectCheckpoint { thread_id, checkpoint_id: expected }];
        if let Some(rewind) = &rewind {
            let (rewind_write, rewind_event) =
                self.named_rewind_target(rewind).await?.rewind_write_and_event(thread_id, self.now)?;
            writes.push(rewind_write);
            events.push(rewind_event);
        }
        events.extend(messages);
        if *self.continuation == Continuation::Idle && withdrawn_handoffs.is_empty() {
            let dismissal = self.withdraw_handoff(&mut channels).await?;
            events.extend(dismissal.events);
            writes.extend(dismissal.writes);
        }
        writes.extend(withdrawal_writes);
        writes.extend(extra_writes);
        if !events.is_empty() {
            writes.push(Write::Append { thread_id, events });
        }
        let previous =
            if self.point.is_some() { next_node } else { self.head.and_then(|head| head.next.clone()) };
        let is_of_handoff = |node: &String| RunPurpose::from_node(Some(node), None) == RunPurpose::Handoff;
        let previous_next_node =
            previous.filter(|node| withdrawn_handoffs.is_empty() || !is_of_handoff(node));
        let turn = TurnAfterChange { previous_next_node, has_new_messages, has_pending_calls };
        let next = self.next_node(&mut channels, turn).await?;
        let status = if has_open_interrupts || next.is_some() {
            ThreadStatus::Interrupted
        } else {
            ThreadStatus::Idle
        };
        let metadata = self.agent.thread(thread_id).await?.missing_assistant_metadata();
        let (status, updated_at) = (Some(status), Some(self.now));
        let patch = ThreadPatch { status, updated_at, metadata, ..ThreadPatch::default() };
        writes.push(Write::UpdateThread { thread_id, patch });
        channels.retain(|_, value| !value.is_null());
        let new = client_checkpoint(thread_id, self.head, next, channels, self.now);
        let checkpoint_id = new.checkpoint_id;
        writes.push(Write::PutCheckpoint(new));
        Ok((checkpoint_id, writes))
    }

    /// Returns a rewind that names the base point of the thread as the predecessor of the change, if nothing
    /// ever ran in the thread; otherwise `None`.
    async fn base_rewind_target(&self) -> Result<Option<RewindRequest>> {
        if self.head.is_some() {
            return Ok(None);
        }
        let base = self.agent.threads().head_point(self.thread_id).await?;
        let last_seq = self.agent.thread(self.thread_id).await?.last_seq;
        Ok(base.map(|base| RewindRequest {
            keep_seq: last_seq,
            channels: Channels::new(),
            checkpoint_id: Some(base.id()),
            superseded: 0,
        }))
    }

    /// Returns the rewind with the predecessor that the new checkpoint names. A copy of a checkpoint has the
    /// same predecessor as the original.
    async fn named_rewind_target(&self, rewind: &RewindRequest) -> Result<RewindRequest> {
        let (Some(point), Continuation::Copy) = (&self.point, self.continuation) else {
            return Ok(rewind.clone());
        };
        let copied = self.agent.threads().state_at(self.thread_id, point.id()).await?;
        Ok(RewindRequest { checkpoint_id: copied.parent_id.or_else(|| Some(point.id())), ..rewind.clone() })
    }

    /// Sets the channels of clients; `null` removes one.
    ///
    /// # Errors
    /// [`ThreadError::InvalidStateChange`] if the channels would exceed [`CLIENT_CHANNELS_BYTES_MAX`].
    fn set_client_channels(&self, channels: &mut Channels, values: &Channels) -> Result<()> {
        for (key, value) in values.iter().filter(|(key, _)| CLIENT_CHANNELS.contains(&key.as_str())) {
            match (key.as_str(), value, channels.get_mut(key)) {
                (FILES_CHANNEL, Value::Object(new), Some(Value::Object(files))) => {
                    files.extend(new.clone());
                    files.retain(|_, file| !file.is_null());
                }
                _ => drop(channels.insert(key.clone(), value.clone())),
            }
        }
        let client_channels = CLIENT_CHANNELS.iter().filter_map(|key| channels.get(*key));
        let bytes: usize = client_channels.map(|value| value.to_string().len()).sum();
        if bytes > CLIENT_CHANNELS_BYTES_MAX {
            let reason = format!("the channels have {bytes} bytes, the limit is {CLIENT_CHANNELS_BYTES_MAX}");
            return Err(ThreadError::InvalidStateChange { thread_id: self.thread_id, reason }.into());
        }
        Ok(())
    }

    /// Returns the writes that withdraw questions, and whether other questions stay pending.
    /// `withdrawn_handoffs` are the handoffs that the rewind withdraws.
    async fn withdraw_interrupts(
        &self,
        channels: &mut Channels,
        withdrawn_handoffs: &[Handoff],
        rewind: Option<&RewindRequest>,
    ) -> Result<(Vec<Write>, bool)> {
        let pending = self.agent.store.pending_interrupts(self.thread_id).await?;
        // A thread has at most one pending handoff, so its question is that of the withdrawn one.
        let is_all = *self.continuation == Continuation::Idle || !withdrawn_handoffs.is_empty();
        let is_withdrawn = |interrupt: &Interrupt| {
            is_all || RunPurpose::from_node(Some(&interrupt.node), None) != RunPurpose::Handoff
        };
        let (withdrawn, remaining): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_withdrawn);
        let mut writes = match withdraws_questions(rewind) {
            true => Vec::new(),
            false => self.agent.runs().withdrawal_writes(&withdrawn, self.now).await?,
        };
        for interrupt in withdrawn {
            runtime::forget_question(channels, &interrupt.node);
            let (interrupt_id, at) = (interrupt.interrupt_id, self.now);
            writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
        }
        Ok((writes, !remaining.is_empty()))
    }

    /// Returns the update that withdraws the pending handoff of the thread.
    async fn withdraw_handoff(&self, channels: &mut Channels) -> Result<runtime::GraphUpdate> {
        let mut update = runtime::GraphUpdate::default();
        let filter = journal::HandoffFilter {
            parent_thread_id: Some(self.thread_id),
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            ..journal::HandoffFilter::default()
        };
        for handoff in self.agent.store.handoffs(filter).await? {
            let dismissal = handoff::dismiss_handoff(&handoff, channels, None, self.now);
            let dismissal = dismissal.map_err(|failure| ThreadError::InvalidStateChange {
                thread_id: self.thread_id,
                reason: failure.message,
            })?;
            channels.extend(dismissal.channels.clone());
            update.merge(dismissal);
        }
        Ok(update)
    }

    /// Returns the next node after the change, and sets the channels that it reads.
    ///
    /// # Errors
    /// [`RunError::NoModel`] if the thread is to continue with a turn and no model is usable.
    async fn next_node(&self, channels: &mut Channels, turn: TurnAfterChange) -> Result<Option<String>> {
        let is_first = self.head.is_none() && self.point.is_none();
        let node = match self.continuation {
            Continuation::Idle => return Ok(None),
            Continuation::Copy => return Ok(turn.previous_next_node),
            // In a thread in which nothing ever ran, new messages are the input of a turn.
            Continuation::Unchanged if !(is_first && turn.has_new_messages) => {
                return Ok(turn.previous_next_node);
            }
            Continuation::Unchanged | Continuation::AtEntry => None,
            Continuation::After(node) => Some(node.as_str()),
        };
        if node.is_some_and(|node| [MODEL_NODE, AFTER_MODEL_NODE].contains(&node)) {
            HAS_TOOL_CALLS_CHANNEL.set(channels, &turn.has_pending_calls);
        }
        let purpose = RunPurpose::from_node(Some(node.unwrap_or(MODEL_NODE)), None);
        channels.extend(RunPurpose::Turn.entry_channels());
        let thread_id = self.thread_id;
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let model = self.agent.models.open_selected()?;
        if model.is_none() {
            // Without a model, messages can still be added to a thread, but nothing is executed after them.
            if *self.continuation == Continuation::Unchanged {
                return Ok(None);
            }
            if purpose == RunPurpose::Turn {
                return Err(RunError::NoModel(thread_id).into());
            }
        }
        let driver = self.agent.driver(&assistant_id, model.as_ref(), RunPurpose::Turn).await?;
        let next = match node {
            Some(node) => driver.graph.next_node(node, channels),
            None => driver.graph.first_node(channels),
        };
        Ok(next.map_err(runtime::Error::from)?)
    }
}

/// Returns the checkpoint that a client's change writes. It is the next step after `before` and keeps its
/// pending activities.
fn client_checkpoint(
    thread_id: ThreadId,
    before: Option<&Checkpoint>,
    next: Option<String>,
    channels: Channels,
    now: Timestamp,
) -> Checkpoint {
    Checkpoint {
        checkpoint_id: CheckpointId::generate(),
        thread_id,
        run_id: placeholder_run_id(),
        step: before.map_or(0, |before| before.step + 1),
        head_seq: 0,
        next,
        channels,
        activities: before.map(|before| before.activities.clone()).unwrap_or_default(),
        source: CheckpointSource::Update,
        created_at: now,
    }
}
