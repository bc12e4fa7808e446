//! Admission: the one transaction that starts or resumes a run. A person's message is journaled here exactly
//! once, before any model is called. Driving the admitted run is left to [`crate::Driver`].

mod answers;
mod takeover;
mod withdrawal;

pub use self::answers::{check_decisions, find_answered_interrupt, resume_answered, resume_run};
pub(crate) use self::takeover::stop_key;
pub use self::takeover::{TakeoverReason, abandon_run, fail_run, request_stop, take_over_run};
pub use self::withdrawal::{OpenCall, forget_question, relayed_withdrawals, withdraw_calls};
use crate::driver::lease::LeaseHolder;
use crate::driver::lifecycle::RunEvents;
use crate::driver::{AdmittedRun, OtherQuestions};
use crate::error::Error;
use crate::graph::Graph;
use crate::node::hooks::AFTER_MODEL_NODE;
use crate::node::tools::TOOLS_NODE;
use crate::step::Channels;
use crate::turn::{ANSWERS_CHANNEL, RECOVERED_CHANNEL, RESUMED_CHANNEL};
use crate::{Result, step::GraphUpdate};
use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{Store, Transaction, Write};
use protocol::event::body::{RunStartKind, ThreadRewound};
use protocol::{
    AssistantId, Checkpoint, CheckpointId, CheckpointSource, NewEvent, PendingActivity, Run, RunId,
    RunStatus, Seq, ThreadId, ThreadStatus, Usage,
};

/// The lease end of a run that its process released between two steps. It marks a run whose next step was not
/// started.
pub(crate) const RELEASED_LEASE_END: Timestamp = Timestamp::UNIX_EPOCH;

/// The most times an admission is planned again because the thread's newest checkpoint has changed in the
/// meantime.
pub const ADMISSION_ATTEMPTS_MAX: u32 = 5;

/// The identity of a new run and the conditions of its admission.
#[derive(Debug, Clone)]
pub struct RunAdmission {
    /// The id of the new run.
    pub run_id: RunId,
    /// The thread to run on.
    pub thread_id: ThreadId,
    /// The assistant that runs.
    pub assistant_id: AssistantId,
    /// The `provider/name` of the model that the run will use, if any.
    pub model: Option<String>,
    /// The identity and the lease duration with which this process holds the run.
    pub lease: LeaseHolder,
    /// The time of the admission.
    pub now: Timestamp,
    /// The origin of the run: new, or queued in the journal.
    pub origin: AdmissionSource,
    /// When the answers that the run resumes with become durable.
    pub durability: AnswerDurability,
}

/// The time at which the answers that a run resumes with become durable, if the node that asked is immediate.
/// Otherwise they become durable with the admission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerDurability {
    /// With the admission, if the admission writes other rows, too. A client that is told of the run can rely on
    /// its being durable.
    #[default]
    AtAdmission,
    /// With the node's step, in one transaction with the admission. This is for a caller that drives the run
    /// itself and therefore learns whether it succeeded.
    WithStep,
}

/// The origin of a run that is admitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdmissionSource {
    /// The run does not exist yet.
    #[default]
    New,
    /// The run is queued: the journal has a pending row for it. If the row no longer exists, the admission fails.
    Queued,
}

impl AdmissionSource {
    /// Returns the write that admits `run`.
    pub const fn admission_write(self, run: Run) -> Write {
        match self {
            Self::New => Write::AdmitRun(run),
            Self::Queued => Write::BeginRun(run),
        }
    }
}

/// The starting point of a new run.
#[derive(Debug, Clone, Default)]
pub struct RunStart {
    /// Events to journal and rows to change with the admission, the person's message among them. A thread that is
    /// created among the writes is created before everything else.
    pub update: GraphUpdate,
    /// Channels for the graph's entry edge. They replace those of the thread's checkpoint.
    pub channels: Channels,
    /// The node to start at, instead of the one that the graph's entry edge leads to. If the thread stopped at
    /// this node, the run continues as if it had not stopped: a question of the node is asked again, and an
    /// answer that it already has stays valid. A caller that read the thread to choose the node must give what it
    /// read in `head`.
    pub node: Option<String>,
    /// The past point of the thread to go back to first.
    pub rewind: Option<RewindRequest>,
    /// The checkpoint from which the caller computed this start, if it did. The admission then does not read the
    /// checkpoint again, and it fails if the thread has a newer one.
    pub head: ExpectedHead,
    /// The pending interrupts of the thread at that checkpoint, as far as the caller knows them.
    pub questions: KnownQuestions,
}

/// The caller's knowledge of the thread's pending interrupts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KnownQuestions {
    /// The caller has not looked for any.
    #[default]
    Unread,
    /// There are none at the checkpoint that the caller read. Only a run raises interrupts, and it stores a new checkpoint.
    None,
}

/// The caller's knowledge of the thread's newest checkpoint.
#[derive(Debug, Clone, Default)]
pub enum ExpectedHead {
    /// The caller has not read it.
    #[default]
    Unread,
    /// The newest checkpoint, or `None` if the thread has none.
    Read(Option<Box<Checkpoint>>),
}

/// A past point of a thread from which a run continues. The admission supersedes everything after that point, and
/// its first event, `thread_rewound`, records this.
#[derive(Debug, Clone, Default)]
pub struct RewindRequest {
    /// The sequence number of the last event that stays; 0 keeps none.
    pub keep_seq: Seq,
    /// The state at that point. It has no private channels, because checkpoints of the past do not keep them. If
    /// the tools node comes next, the calls are therefore reviewed again, and a person is asked again about those
    /// that need a decision.
    pub channels: Channels,
    /// The checkpoint at that point, if there is one.
    pub checkpoint_id: Option<CheckpointId>,
    /// The number of messages that the rewind hides.
    pub superseded: u64,
}

/// Admits a run: commits its row with a lease, the start's events and rows, and the first checkpoint.
///
/// Pending questions of the thread's last turn are withdrawn, unless the run starts at the node that asked. If
/// the thread's newest checkpoint changes while the admission is planned, the plan is made again, at most
/// [`ADMISSION_ATTEMPTS_MAX`] times.
///
/// # Errors
/// - [`journal::Error::Busy`] when another run of the thread is active.
/// - [`Error::HeadConflict`] when the checkpoint has changed and `start` is bound to the one that the caller read
///   ([`ExpectedHead::Read`], or a node to start at).
/// - [`Error::Channel`] when the state that the entry edge depends on cannot be read.
///
/// Nothing is written in any of these cases.
pub fn admit_run<'a>(
    store: &'a dyn Store,
    graph: &'a Graph,
    admission: &'a RunAdmission,
    start: RunStart,
) -> BoxFuture<'a, Result<AdmittedRun>> {
    journal::box_future(async move {
        let mut attempts = 0;
        loop {
            // A checkpoint that the caller read, or that of a thread to be created, may be out of date. The commit
            // detects that.
            let head = match &start.head {
                ExpectedHead::Read(head) if attempts == 0 => head.as_deref().cloned(),
                ExpectedHead::Unread if attempts == 0 && start.is_creating_thread(admission.thread_id) => {
                    None
                }
                ExpectedHead::Read(_) | ExpectedHead::Unread => store.checkpoint(admission.thread_id).await?,
            };
            let planner = RunAdmissionPlanner { store, graph, admission, start: &start, head: head.as_ref() };
            let RunAdmissionPlan { writes, events, checkpoint, other_questions } =
                planner.plan_admission().await?;
            match commit_admission(store, admission, writes, events, checkpoint).await {
                Ok(checkpoint) => return Ok(AdmittedRun::with_other_questions(checkpoint, other_questions)),
                Err(error) if is_head_conflict(&error) && start.is_bound_to_head() => {
                    return Err(Error::HeadConflict);
                }
                Err(error) if is_head_conflict(&error) && attempts < ADMISSION_ATTEMPTS_MAX => attempts += 1,
                Err(error) => return Err(error),
            }
        }
    })
}

/// The inputs of planning an admission.
struct RunAdmissionPlanner<'a> {
    /// The journal to read from.
    store: &'a dyn Store,
    /// The graph of the run.
    graph: &'a Graph,
    /// The identity and conditions of the run.
    admission: &'a RunAdmission,
    /// The starting point of the run.
    start: &'a RunStart,
    /// The thread's newest checkpoint, if it has one.
    head: Option<&'a Checkpoint>,
}

/// The rows, events and checkpoint of an admission, ready to be committed.
struct RunAdmissionPlan {
    /// The writes that come before the thread's append.
    writes: Vec<Write>,
    /// The events to append to the thread.
    events: Vec<NewEvent>,
    /// The first checkpoint of the run.
    checkpoint: Checkpoint,
    /// The knowledge about pending questions of other runs.
    other_questions: OtherQuestions,
}

impl RunAdmissionPlanner<'_> {
    /// Plans the admission. Reads the journal and writes nothing.
    async fn plan_admission(&self) -> Result<RunAdmissionPlan> {
        let mut channels = self.initial_channels();
        let withdrawal = self.withdraw_questions(&mut channels).await?;
        let update = self.start.update.clone();
        channels.extend(self.start.channels.clone());
        channels.extend(update.channels);
        channels.retain(|_, value| !value.is_null());
        let mut activities: Vec<PendingActivity> =
            self.head.map(|point| point.activities.clone()).unwrap_or_default();
        activities.extend(update.activities);
        let next = self.first_node(&channels)?;
        let checkpoint = initial_checkpoint(self.admission, channels, activities, next);
        let (mut writes, other_writes): (Vec<_>, Vec<_>) =
            update.writes.into_iter().partition(|write| matches!(write, Write::CreateThread(_)));
        let mut events = Vec::with_capacity(update.events.len() + 1);
        if let Some(request) = &self.start.rewind {
            let (thread_id, at) = (self.admission.thread_id, self.admission.now);
            // The rewind precedes the admission, because a run that is still active must not prevent it.
            let (rewind, rewound_event) = request.rewind_write_and_event(thread_id, at)?;
            writes.push(rewind);
            events.push(rewound_event);
        }
        writes.push(run_admission_write(self.admission));
        writes.push(expect_checkpoint_write(self.admission, self.head));
        writes.extend(withdrawal.writes);
        writes.extend(other_writes);
        events.extend(withdrawal.events);
        events.extend(update.events);
        events.push(run_started_event(self.admission, RunStartKind::Admitted)?);
        Ok(RunAdmissionPlan { writes, events, checkpoint, other_questions: withdrawal.other_questions })
    }

    /// Returns the state from the thread's checkpoint or the past point, before the channels of the start are
    /// set.
    fn initial_channels(&self) -> Channels {
        let mut channels = match (&self.start.rewind, self.head) {
            (Some(request), _) => request.channels.clone(),
            (None, Some(before)) => before.channels.clone(),
            (None, None) => Channels::new(),
        };
        if self.start.rewind.is_some() || !self.is_resuming() {
            ANSWERS_CHANNEL.remove(&mut channels);
            RECOVERED_CHANNEL.remove(&mut channels);
        }
        RESUMED_CHANNEL.remove(&mut channels);
        if self.is_resuming() {
            RESUMED_CHANNEL.set(&mut channels, &true);
        }
        channels
    }

    /// Returns whether the run starts at the node at which the thread, or its past point, stopped.
    fn is_resuming(&self) -> bool {
        let stopped_at = self.head.and_then(|point| point.next.as_deref());
        self.start.node.is_some() && (self.start.rewind.is_some() || self.start.node.as_deref() == stopped_at)
    }

    /// Returns the first node of the run. After a rewind to the tools node it is the node of the `after_model`
    /// hooks, which review the calls again.
    fn first_node(&self, channels: &Channels) -> Result<Option<String>> {
        Ok(match self.start.node.as_deref() {
            Some(TOOLS_NODE) if self.start.rewind.is_some() && self.graph.get(AFTER_MODEL_NODE).is_some() => {
                Some(AFTER_MODEL_NODE.to_owned())
            }
            Some(node) => Some(node.to_owned()),
            None => self.graph.first_node(channels)?,
        })
    }
}

impl RunStart {
    /// Returns whether this start is valid only for the checkpoint from which the caller computed it.
    const fn is_bound_to_head(&self) -> bool {
        self.node.is_some() || matches!(self.head, ExpectedHead::Read(_))
    }

    /// Returns whether the thread has no pending interrupts at the checkpoint with which the admission is committed.
    const fn knows_no_questions(&self) -> bool {
        matches!((self.questions, &self.head), (KnownQuestions::None, ExpectedHead::Read(_)))
    }

    /// Returns whether the writes create the thread of that id.
    fn is_creating_thread(&self, id: ThreadId) -> bool {
        let creates = |write: &Write| matches!(write, Write::CreateThread(thread) if thread.thread_id == id);
        self.update.writes.iter().any(creates)
    }
}

impl RewindRequest {
    /// Returns the write that supersedes the later events, and the event that records the rewind. The event must
    /// be the first one after the write.
    ///
    /// # Errors
    /// Fails when the event cannot be serialized as JSON.
    pub fn rewind_write_and_event(&self, thread_id: ThreadId, now: Timestamp) -> Result<(Write, NewEvent)> {
        let Self { keep_seq, superseded, checkpoint_id, .. } = *self;
        let event = NewEvent::from_body(&ThreadRewound { keep_seq, superseded, checkpoint_id }, now)?;
        Ok((Write::Rewind { thread_id, keep_seq: self.keep_seq, at: now }, event))
    }
}

/// Returns the write that makes the transaction fail unless the thread's newest checkpoint is still this one.
fn expect_checkpoint_write(admission: &RunAdmission, before: Option<&Checkpoint>) -> Write {
    Write::ExpectCheckpoint {
        thread_id: admission.thread_id,
        checkpoint_id: before.map(|point| point.checkpoint_id),
    }
}

/// Returns whether the error says that the thread's newest checkpoint has changed since it was read.
pub(crate) fn is_head_conflict(error: &Error) -> bool {
    matches!(error, Error::Journal(error) if error.is_checkpoint_conflict())
}

/// Commits the admission and returns its checkpoint with the position that the journal gave it.
async fn commit_admission(
    store: &dyn Store,
    admission: &RunAdmission,
    first: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: Checkpoint,
) -> Result<Checkpoint> {
    let writes = admission_writes(admission, first, events, &checkpoint);
    let committed = store.commit(Transaction { fence: None, writes }).await?;
    // The thread's own append is the last one.
    let head_seq = committed.seqs.last().and_then(|seqs| seqs.iter().copied().max());
    Ok(Checkpoint { head_seq: head_seq.unwrap_or(checkpoint.head_seq), ..checkpoint })
}

/// Returns all writes of an admission: `first`, the thread's append, its status and its checkpoint.
fn admission_writes(
    admission: &RunAdmission,
    first: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: &Checkpoint,
) -> Vec<Write> {
    // Events that are repeated from another branch keep the run that they came from.
    let with_run = |event: NewEvent| match event.run_id {
        Some(_) => event,
        None => event.with_run(admission.run_id),
    };
    let events = events.into_iter().map(with_run).collect();
    let patch = journal::ThreadPatch {
        status: Some(ThreadStatus::Busy),
        updated_at: Some(admission.now),
        ..journal::ThreadPatch::default()
    };
    let mut writes = first;
    writes.push(Write::Append { thread_id: admission.thread_id, events });
    writes.push(Write::UpdateThread { thread_id: admission.thread_id, patch });
    writes.push(Write::PutCheckpoint(checkpoint.clone()));
    writes
}

/// Returns the event that records the start of the run.
fn run_started_event(admission: &RunAdmission, how: RunStartKind) -> Result<NewEvent> {
    let events = RunEvents { run_id: admission.run_id, at: admission.now };
    Ok(events.started_event(how, admission.model.clone())?)
}

/// Returns the write that creates the run's row, or starts the queued one, with a lease of this process.
fn run_admission_write(admission: &RunAdmission) -> Write {
    admission.origin.admission_write(Run {
        run_id: admission.run_id,
        thread_id: admission.thread_id,
        assistant_id: admission.assistant_id.clone(),
        status: RunStatus::Running,
        model: admission.model.clone(),
        failure: None,
        lease_owner: Some(admission.lease.owner().to_owned()),
        lease_until: Some(admission.lease.lease_end()),
        usage: Usage::default(),
        created_at: admission.now,
        updated_at: admission.now,
    })
}

/// Returns the checkpoint with which the run starts.
fn initial_checkpoint(
    admission: &RunAdmission,
    channels: Channels,
    activities: Vec<protocol::PendingActivity>,
    next: Option<String>,
) -> Checkpoint {
    Checkpoint {
        checkpoint_id: CheckpointId::generate(),
        thread_id: admission.thread_id,
        run_id: admission.run_id,
        step: 0,
        head_seq: 0,
        next,
        channels,
        activities,
        source: CheckpointSource::Loop,
        created_at: admission.now,
    }
}
