//! Changes of a thread's state by a client, between runs: messages put in, changed or removed, channels set, questions
//! given up, and the copy of a thread. The state before stays a point of the thread's past.

use jiff::Timestamp;
use journal::{ThreadPatch, Transaction, Write};
use protocol::event::body::ThreadCreated;
use protocol::{
    Checkpoint, CheckpointId, CheckpointSource, Handoff, HandoffStatus, Interrupt, NewEvent, ParentKind,
    Thread, ThreadId, ThreadStatus,
};
use runtime::{AFTER_MODEL_NODE, ATTEMPTS_MAX, BackTo, Channels, MODEL_NODE, TOOLS_WANTED_CHANNEL};
use serde_json::Value;

use super::beginnings::Beginning;
use super::points::{Point, no_run};
use super::shape;
use super::shown_channels;
use crate::agent::Agent;
use crate::agent::services::ThreadService;
use crate::assembly::Purpose;
use crate::requests::RESERVED_METADATA;
use crate::requests::messages::InputMessage;
use crate::threads::back::takes_questions;
use crate::workspace::WORKSPACE_KEY;
use crate::{Result, RunError, ThreadError};

/// The channels that clients keep in a thread's state beside ours: the files a page shows, a title, parts of a page.
/// Anything else that they send is left out.
const CLIENT_CHANNELS: [&str; 5] = ["todos", "files", "title", "ui", "email"];

/// The channel whose entries are set one by one.
const FILES_CHANNEL: &str = "files";

/// The most bytes of what clients keep in a thread's state: every checkpoint that changes has it once more.
const CLIENT_CHANNELS_BYTES_MAX: usize = 256 << 10;

/// What a client changes of a thread's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateChange {
    /// The messages that are put in, or that change others.
    pub messages: Vec<InputMessage>,
    /// The channels that are set; those that are not a client's to keep are left out.
    pub channels: Channels,
    /// Where the thread goes on.
    pub continuation: Continuation,
    /// The point of the thread's past that is changed; `None` means its head.
    pub point: Option<CheckpointId>,
}

/// Where a thread goes on after a change of its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Continuation {
    /// Where it stood.
    #[default]
    Unchanged,
    /// At the graph's entry.
    AtEntry,
    /// Nowhere: everything that waits is given up.
    Idle,
    /// Where it stood, from a point that is written once more beside the one it copies.
    Copied,
    /// Behind this node, which is taken to have just run.
    After(String),
}

/// A change on its way into the journal.
struct Changing<'a> {
    agent: &'a Agent,
    thread_id: ThreadId,
    now: Timestamp,
    /// Where the thread stands.
    before: Option<&'a Checkpoint>,
    /// The point that is changed; `None` means the head.
    point: Option<Point>,
    continuation: &'a Continuation,
}

/// What a state change leaves of the turn, before it is decided where the thread goes on.
struct ChangedTurn {
    /// The node that came next before the change.
    then: Option<String>,
    /// Whether messages were put in.
    brings_messages: bool,
    /// Whether the newest answer has calls without a result.
    calls_wait: bool,
}

impl ThreadService<'_> {
    /// Changes the thread's state, and returns the id of the new point. Where it is changed at an earlier point, what came
    /// after that is out of sight, and the new point is the thread's head. What was asked about tool calls is given up; a
    /// handoff that waits stays, unless everything is given up ([`Continuation::Idle`]).
    ///
    /// # Errors
    /// [`journal::Error::Busy`] while a run is active: what it works on cannot change under it. [`ThreadError::StateChange`] when the
    /// change cannot be made, [`ThreadError::UnknownCheckpoint`].
    pub async fn update_state(self, thread_id: ThreadId, change: StateChange) -> Result<CheckpointId> {
        self.agent.thread(thread_id).await?;
        if let Continuation::After(node) = &change.continuation
            && !shape::is_node(node)
        {
            let reason = format!("there is no node `{node}`, only {}", shape::names());
            return Err(ThreadError::StateChange { thread_id, reason }.into());
        }
        let mut attempts = 0;
        loop {
            // Whatever begins between here and the commit moves the checkpoint.
            let before = self.agent.store.checkpoint(thread_id).await?;
            self.agent.runs().end_cut_off(thread_id).await?;
            let now = Timestamp::now();
            let point = match &change.point {
                Some(id) => self.past_point(thread_id, *id).await?,
                None => None,
            };
            let changing = Changing {
                agent: self.agent,
                thread_id,
                now,
                before: before.as_ref(),
                point,
                continuation: &change.continuation,
            };
            let (checkpoint_id, writes) = changing.writes(change.messages.clone(), &change.channels).await?;
            match self.agent.store.commit(Transaction { fence: None, writes }).await {
                Ok(_) => return Ok(checkpoint_id),
                Err(journal::Error::Differs { .. }) if attempts < ATTEMPTS_MAX => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Copies the thread with its notes and its transcript. The copy's past begins where the thread stands now; what is
    /// asked there, and handoffs, are not copied.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn copy(self, thread_id: ThreadId) -> Result<Thread> {
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
        let created = NewEvent::of(&origin, now)?;
        let mut writes = vec![
            Write::CreateThread(thread.stamped()),
            Write::CopyEvents { from: thread_id, until: None, into },
            Write::Append { thread_id: into, events: vec![created] },
        ];
        if let Some(before) = before {
            let channels = shown_channels(&before.channels);
            writes.push(Write::PutCheckpoint(checkpoint(into, None, None, channels, now)));
        }
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(into).await
    }
}

impl Changing<'_> {
    /// Returns the id of the new point and everything that is written with it.
    async fn writes(
        &self,
        given: Vec<InputMessage>,
        values: &Channels,
    ) -> Result<(CheckpointId, Vec<Write>)> {
        let (agent, thread_id) = (self.agent, self.thread_id);
        let brings_messages = !given.is_empty();
        let Beginning { back, events: said, writes: beside, next: then, calls_wait, given_up } =
            agent.threads().beginning_at(thread_id, self.point.as_ref(), given).await?;
        let back = match back {
            Some(back) => Some(back),
            None => self.base_kept().await?,
        };
        let mut channels = match &back {
            Some(back) => back.channels.clone(),
            None => self.before.map(|before| before.channels.clone()).unwrap_or_default(),
        };
        self.set(&mut channels, values)?;
        let (withdrawn, waits) = self.withdrawn(&mut channels, &given_up, back.as_ref()).await?;
        let mut events: Vec<NewEvent> = Vec::new();
        let expected = self.before.map(|before| before.checkpoint_id);
        let mut writes = vec![Write::ExpectCheckpoint { thread_id, checkpoint_id: expected }];
        if let Some(back) = &back {
            let (rewind, told) = self.named(back).await?.told(thread_id, self.now)?;
            writes.push(rewind);
            events.push(told);
        }
        events.extend(said);
        if *self.continuation == Continuation::Idle && given_up.is_empty() {
            let aside = self.put_aside(&mut channels).await?;
            events.extend(aside.events);
            writes.extend(aside.writes);
        }
        writes.extend(withdrawn);
        writes.extend(beside);
        if !events.is_empty() {
            writes.push(Write::Append { thread_id, events });
        }
        let then =
            if self.point.is_some() { then } else { self.before.and_then(|before| before.next.clone()) };
        let is_of_handoff = |node: &String| Purpose::at(Some(node), None) == Purpose::Handoff;
        let then = then.filter(|node| given_up.is_empty() || !is_of_handoff(node));
        let next = self.next(&mut channels, ChangedTurn { then, brings_messages, calls_wait }).await?;
        let status = if waits || next.is_some() { ThreadStatus::Interrupted } else { ThreadStatus::Idle };
        let metadata = self.agent.thread(thread_id).await?.stamp();
        let (status, updated_at) = (Some(status), Some(self.now));
        let patch = ThreadPatch { status, updated_at, metadata, ..ThreadPatch::default() };
        writes.push(Write::UpdateThread { thread_id, patch });
        channels.retain(|_, value| !value.is_null());
        let new = checkpoint(thread_id, self.before, next, channels, self.now);
        let checkpoint_id = new.checkpoint_id;
        writes.push(Write::PutCheckpoint(new));
        Ok((checkpoint_id, writes))
    }

    /// Returns what names a thread's first state as the point before the change, where nothing ever ran in it.
    async fn base_kept(&self) -> Result<Option<BackTo>> {
        if self.before.is_some() {
            return Ok(None);
        }
        let base = self.agent.threads().head_point(self.thread_id).await?;
        let last_seq = self.agent.thread(self.thread_id).await?.last_seq;
        Ok(base.map(|base| BackTo {
            keep_seq: last_seq,
            channels: Channels::new(),
            checkpoint_id: Some(base.id()),
            superseded: 0,
        }))
    }

    /// Returns where the thread goes back to, as the new point names it. A copy of a point comes after what came before
    /// that point.
    async fn named(&self, back: &BackTo) -> Result<BackTo> {
        let (Some(point), Continuation::Copied) = (&self.point, self.continuation) else {
            return Ok(back.clone());
        };
        let copied = self.agent.threads().state_at(self.thread_id, point.id()).await?;
        Ok(BackTo { checkpoint_id: copied.parent_id.or_else(|| Some(point.id())), ..back.clone() })
    }

    /// Sets the channels that clients keep; `null` removes one.
    fn set(&self, channels: &mut Channels, values: &Channels) -> Result<()> {
        for (key, value) in values.iter().filter(|(key, _)| CLIENT_CHANNELS.contains(&key.as_str())) {
            match (key.as_str(), value, channels.get_mut(key)) {
                (FILES_CHANNEL, Value::Object(new), Some(Value::Object(files))) => {
                    files.extend(new.clone());
                    files.retain(|_, file| !file.is_null());
                }
                _ => drop(channels.insert(key.clone(), value.clone())),
            }
        }
        let kept = CLIENT_CHANNELS.iter().filter_map(|key| channels.get(*key));
        let bytes: usize = kept.map(|value| value.to_string().len()).sum();
        if bytes > CLIENT_CHANNELS_BYTES_MAX {
            let reason =
                format!("{bytes} bytes beside the messages, the most is {CLIENT_CHANNELS_BYTES_MAX}");
            return Err(ThreadError::StateChange { thread_id: self.thread_id, reason }.into());
        }
        Ok(())
    }

    /// Returns what withdraws the questions that are given up, and whether any stays.
    async fn withdrawn(
        &self,
        channels: &mut Channels,
        given_up: &[Handoff],
        back: Option<&BackTo>,
    ) -> Result<(Vec<Write>, bool)> {
        let pending = self.agent.store.pending_interrupts(self.thread_id).await?;
        // A thread has one handoff that waits.
        let is_all = *self.continuation == Continuation::Idle || !given_up.is_empty();
        let is_given_up =
            |asked: &Interrupt| is_all || Purpose::at(Some(&asked.node), None) != Purpose::Handoff;
        let (given_up, kept): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_given_up);
        let mut writes = match takes_questions(back) {
            true => Vec::new(),
            false => self.agent.runs().taken_back(&given_up, self.now).await?,
        };
        for asked in given_up {
            runtime::forget_question(channels, &asked.node);
            let (interrupt_id, at) = (asked.interrupt_id, self.now);
            writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
        }
        Ok((writes, !kept.is_empty()))
    }

    /// Returns what gives up the handoff that waits.
    async fn put_aside(&self, channels: &mut Channels) -> Result<runtime::Update> {
        let mut update = runtime::Update::default();
        let filter = journal::HandoffFilter {
            parent_thread_id: Some(self.thread_id),
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            ..journal::HandoffFilter::default()
        };
        for handoff in self.agent.store.handoffs(filter).await? {
            let aside = handoff::put_aside(&handoff, channels, None, self.now);
            let aside = aside.map_err(|failure| ThreadError::StateChange {
                thread_id: self.thread_id,
                reason: failure.message,
            })?;
            channels.extend(aside.channels.clone());
            update.merge(aside);
        }
        Ok(update)
    }

    /// Returns what comes next.
    async fn next(&self, channels: &mut Channels, turn: ChangedTurn) -> Result<Option<String>> {
        let is_first = self.before.is_none() && self.point.is_none();
        let node = match self.continuation {
            Continuation::Idle => return Ok(None),
            Continuation::Copied => return Ok(turn.then),
            // Where nothing ever ran, what is put in is input.
            Continuation::Unchanged if !(is_first && turn.brings_messages) => return Ok(turn.then),
            Continuation::Unchanged | Continuation::AtEntry => None,
            Continuation::After(node) => Some(node.as_str()),
        };
        if node.is_some_and(|node| [MODEL_NODE, AFTER_MODEL_NODE].contains(&node)) {
            TOOLS_WANTED_CHANNEL.set(channels, &turn.calls_wait);
        }
        let purpose = Purpose::at(Some(node.unwrap_or(MODEL_NODE)), None);
        channels.extend(Purpose::Turn.channels());
        let thread_id = self.thread_id;
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let model = self.agent.models.open()?;
        if model.is_none() {
            // Without a model a thread can be filled all the same; nothing runs on in it.
            if *self.continuation == Continuation::Unchanged {
                return Ok(None);
            }
            if purpose == Purpose::Turn {
                return Err(RunError::NoModel(thread_id).into());
            }
        }
        let driver = self.agent.driver(&assistant_id, model.as_ref(), Purpose::Turn).await?;
        let next = match node {
            Some(node) => driver.graph.after(node, channels),
            None => driver.graph.first(channels),
        };
        Ok(next.map_err(runtime::Error::from)?)
    }
}

/// Returns the checkpoint of a point that a client wrote.
fn checkpoint(
    thread_id: ThreadId,
    before: Option<&Checkpoint>,
    next: Option<String>,
    channels: Channels,
    now: Timestamp,
) -> Checkpoint {
    Checkpoint {
        checkpoint_id: CheckpointId::generate(),
        thread_id,
        run_id: no_run(),
        step: before.map_or(0, |before| before.step + 1),
        head_seq: 0,
        next,
        channels,
        activities: before.map(|before| before.activities.clone()).unwrap_or_default(),
        source: CheckpointSource::Update,
        created_at: now,
    }
}
