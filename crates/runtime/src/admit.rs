//! Admission: the one transaction that begins or resumes a run. The person's words are journaled here, before any
//! model is called, exactly once.

mod answers;
mod lost;
mod withdrawal;

pub use self::answers::{answered, begin_answered, check_decisions, resume};
pub(crate) use self::lost::stop_key;
pub use self::lost::{Taken, fail, give_up, reclaim, request_stop};
pub use self::withdrawal::forget_question;
use crate::driver::lease::Lease;
use crate::driver::lifecycle::RunEvents;
use crate::driver::{Admitted, Others};
use crate::error::Error;
use crate::graph::Graph;
use crate::node::hooks::AFTER_MODEL_NODE;
use crate::node::tools::TOOLS_NODE;
use crate::step::Channels;
use crate::turn::{ANSWERS_CHANNEL, GOES_ON_CHANNEL, RECOVERED_CHANNEL};
use crate::{Result, step::Update};
use jiff::Timestamp;
use journal::{Store, Transaction, Write};
use protocol::event::body::{RunBeginning, ThreadRewound};
use protocol::{
    AssistantId, Checkpoint, CheckpointId, CheckpointSource, NewEvent, PendingActivity, Run, RunId,
    RunStatus, Seq, ThreadId, ThreadStatus, Usage,
};

/// When the lease of a run ended whose process gave it back, between two steps: nothing of the next one was begun.
pub(crate) const GIVEN_BACK: Timestamp = Timestamp::UNIX_EPOCH;

/// How often an admission is worked out again because another run came and went meanwhile.
pub const ATTEMPTS_MAX: u32 = 5;

/// Who admits a run, and when.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The new run's id.
    pub run_id: RunId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The assistant.
    pub assistant_id: AssistantId,
    /// `provider/name` of the model the run will use, if any.
    pub model: Option<String>,
    /// How this process holds runs.
    pub lease: Lease,
    /// The present.
    pub now: Timestamp,
    /// Where the run comes from.
    pub origin: Origin,
    /// When answers become durable.
    pub durability: AnswerDurability,
}

/// When the answers that a run resumes with become durable, where the node that asked is immediate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerDurability {
    /// With the admission, if anything else is written with it: a client is told of a run that is durable.
    #[default]
    AtAdmission,
    /// Always with the node's step, in one transaction: the caller drives the run itself and learns how that ended.
    WithStep,
}

/// Where a run comes from that is admitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody has heard of it.
    #[default]
    New,
    /// It waits in the journal; one that is there no longer does not begin.
    Queue,
}

impl Origin {
    /// Returns the write that admits the run.
    pub const fn admitting(self, run: Run) -> Write {
        match self {
            Self::New => Write::AdmitRun(run),
            Self::Queue => Write::BeginRun(run),
        }
    }
}

/// What a new run begins with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Facts to journal and rows to change with the admission; the person's message is one of them. A thread that is
    /// created among the writes is there before everything else.
    pub update: Update,
    /// State channels the graph's entry edge reads; they replace those of the checkpoint before.
    pub channels: Channels,
    /// The node to begin at, instead of along the graph's entry. What the thread waits at goes on as if it had not
    /// stopped: a question of that node is asked again, and an answer it got is still good. Whoever read the thread to
    /// choose the node says what was read in `head`.
    pub node: Option<String>,
    /// The point of the thread's past to go back to first.
    pub back_to: Option<BackTo>,
    /// Where the thread stands, if the start was worked out from that. It is not looked at again then, and where another
    /// run came and went meanwhile, nothing is admitted.
    pub head: Head,
}

/// What is known of where a thread stands.
#[derive(Debug, Clone, Default)]
pub enum Head {
    /// Nothing.
    #[default]
    Unread,
    /// Its newest checkpoint; `None` when it has none.
    Read(Option<Box<Checkpoint>>),
}

/// A point of a thread's past that a run goes on from. What came after it is superseded with the admission, which tells so
/// in a `thread_rewound` event, the first one of the admission.
#[derive(Debug, Clone, Default)]
pub struct BackTo {
    /// The last seq that stays; 0 keeps nothing.
    pub keep_seq: Seq,
    /// The state of that point. Private channels are not kept of a past point: where tools were to be called next, the
    /// calls are looked at again, and what a person decided about them is asked again.
    pub channels: Channels,
    /// The point, where it is one.
    pub checkpoint_id: Option<CheckpointId>,
    /// How many messages that takes out of sight.
    pub superseded: u64,
}

/// Admits a run.
///
/// # Errors
/// [`journal::Error::Busy`] when another run of the thread is active, and [`Error::Outrun`] when one came and went since
/// the start was worked out ([`Head::Read`], or a node to begin at); nothing is written then.
pub async fn admit(
    store: &dyn Store,
    graph: &Graph,
    admission: &Admission,
    start: Start,
) -> Result<Admitted> {
    let mut attempts = 0;
    loop {
        // What was read, or is created here, may be out of date: the admission finds out.
        let before = match &start.head {
            Head::Read(head) if attempts == 0 => head.as_deref().cloned(),
            Head::Unread if attempts == 0 && start.creates(admission.thread_id) => None,
            Head::Read(_) | Head::Unread => store.checkpoint(admission.thread_id).await?,
        };
        let planning = Planning { store, graph, admission, start: &start, before: before.as_ref() };
        let Plan { writes, events, checkpoint, others } = planning.plan().await?;
        match commit(store, admission, writes, events, checkpoint).await {
            Ok(checkpoint) => return Ok(Admitted::knowing(checkpoint, others)),
            Err(error) if is_outrun(&error) && start.is_bound() => return Err(Error::Outrun),
            Err(error) if is_outrun(&error) && attempts < ATTEMPTS_MAX => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// An admission that is being worked out.
struct Planning<'a> {
    store: &'a dyn Store,
    graph: &'a Graph,
    admission: &'a Admission,
    start: &'a Start,
    /// Where the thread stands.
    before: Option<&'a Checkpoint>,
}

/// An admission that was worked out.
struct Plan {
    /// What it writes first.
    writes: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: Checkpoint,
    others: Others,
}

impl Planning<'_> {
    async fn plan(&self) -> Result<Plan> {
        let mut channels = self.channels();
        let withdrawal = self.withdraw(&mut channels).await?;
        let update = self.start.update.clone();
        channels.extend(self.start.channels.clone());
        channels.extend(update.channels);
        channels.retain(|_, value| !value.is_null());
        let mut activities: Vec<PendingActivity> =
            self.before.map(|point| point.activities.clone()).unwrap_or_default();
        activities.extend(update.activities);
        let next = self.first(&channels)?;
        let checkpoint = checkpoint(self.admission, channels, activities, next);
        let (mut writes, others): (Vec<_>, Vec<_>) =
            update.writes.into_iter().partition(|write| matches!(write, Write::CreateThread(_)));
        let mut events = Vec::with_capacity(update.events.len() + 1);
        if let Some(back_to) = &self.start.back_to {
            let (thread_id, at) = (self.admission.thread_id, self.admission.now);
            // A run that is active already would stand in its way.
            let (rewind, told) = back_to.told(thread_id, at)?;
            writes.push(rewind);
            events.push(told);
        }
        writes.push(admitting(self.admission));
        writes.push(expected(self.admission, self.before));
        writes.extend(withdrawal.writes);
        writes.extend(others);
        events.extend(withdrawal.events);
        events.extend(update.events);
        events.push(started(self.admission, RunBeginning::Admitted)?);
        Ok(Plan { writes, events, checkpoint, others: withdrawal.others })
    }

    /// Returns the state the run begins with, before the start's own.
    fn channels(&self) -> Channels {
        let mut channels = match (&self.start.back_to, self.before) {
            (Some(back_to), _) => back_to.channels.clone(),
            (None, Some(before)) => before.channels.clone(),
            (None, None) => Channels::new(),
        };
        if self.start.back_to.is_some() || !self.goes_on() {
            ANSWERS_CHANNEL.remove(&mut channels);
            RECOVERED_CHANNEL.remove(&mut channels);
        }
        GOES_ON_CHANNEL.remove(&mut channels);
        if self.goes_on() {
            GOES_ON_CHANNEL.set(&mut channels, &true);
        }
        channels
    }

    /// Returns whether the run goes on where the thread, or its past point, stands.
    fn goes_on(&self) -> bool {
        let stands_at = self.before.and_then(|point| point.next.as_deref());
        self.start.node.is_some() && (self.start.back_to.is_some() || self.start.node.as_deref() == stands_at)
    }

    fn first(&self, channels: &Channels) -> Result<Option<String>> {
        Ok(match self.start.node.as_deref() {
            Some(TOOLS_NODE)
                if self.start.back_to.is_some() && self.graph.get(AFTER_MODEL_NODE).is_some() =>
            {
                Some(AFTER_MODEL_NODE.to_owned())
            }
            Some(node) => Some(node.to_owned()),
            None => self.graph.first(channels)?,
        })
    }
}

impl Start {
    /// Returns whether it is good only for the thread as it was when it was worked out.
    const fn is_bound(&self) -> bool {
        self.node.is_some() || matches!(self.head, Head::Read(_))
    }

    fn creates(&self, id: ThreadId) -> bool {
        let creates = |write: &Write| matches!(write, Write::CreateThread(thread) if thread.thread_id == id);
        self.update.writes.iter().any(creates)
    }
}

impl BackTo {
    /// Returns the write that goes back, and the event that tells of it, which comes before any other behind that write.
    pub fn told(&self, thread_id: ThreadId, now: Timestamp) -> Result<(Write, NewEvent)> {
        let Self { keep_seq, superseded, checkpoint_id, .. } = *self;
        let told = NewEvent::of(&ThreadRewound { keep_seq, superseded, checkpoint_id }, now)?;
        Ok((Write::Rewind { thread_id, keep_seq: self.keep_seq, at: now }, told))
    }
}

fn expected(admission: &Admission, before: Option<&Checkpoint>) -> Write {
    Write::ExpectCheckpoint {
        thread_id: admission.thread_id,
        checkpoint_id: before.map(|point| point.checkpoint_id),
    }
}

/// Returns whether another run came and went between reading the checkpoint and the admission.
pub(crate) fn is_outrun(error: &Error) -> bool {
    matches!(error, Error::Journal(error) if error.is_other_checkpoint())
}

/// Makes the admission durable; returns its checkpoint as it is stored.
async fn commit(
    store: &dyn Store,
    admission: &Admission,
    first: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: Checkpoint,
) -> Result<Checkpoint> {
    let writes = writes(admission, first, events, &checkpoint);
    let committed = store.commit(Transaction { fence: None, writes }).await?;
    // The thread's own append is the last one.
    let head_seq = committed.seqs.last().and_then(|seqs| seqs.iter().copied().max());
    Ok(Checkpoint { head_seq: head_seq.unwrap_or(checkpoint.head_seq), ..checkpoint })
}

/// Returns the writes of an admission that begins with `first`.
fn writes(
    admission: &Admission,
    first: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: &Checkpoint,
) -> Vec<Write> {
    // What is said again, because the thread goes on from another branch, stays of the run that said it.
    let of_run = |event: NewEvent| match event.run_id {
        Some(_) => event,
        None => event.in_run(admission.run_id),
    };
    let events = events.into_iter().map(of_run).collect();
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

fn started(admission: &Admission, how: RunBeginning) -> Result<NewEvent> {
    let events = RunEvents { run_id: admission.run_id, at: admission.now };
    Ok(events.started(how, admission.model.clone())?)
}

fn admitting(admission: &Admission) -> Write {
    admission.origin.admitting(Run {
        run_id: admission.run_id,
        thread_id: admission.thread_id,
        assistant_id: admission.assistant_id.clone(),
        status: RunStatus::Running,
        model: admission.model.clone(),
        failure: None,
        lease_owner: Some(admission.lease.owner().to_owned()),
        lease_until: Some(admission.lease.until()),
        usage: Usage::default(),
        created_at: admission.now,
        updated_at: admission.now,
    })
}

fn checkpoint(
    admission: &Admission,
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
