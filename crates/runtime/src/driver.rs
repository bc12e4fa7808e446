//! The driver: does what the turn machine asks for, one effect at a time. It decides nothing.

mod commit;
pub(crate) mod lease;
pub(crate) mod lifecycle;
pub(crate) mod owed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use journal::{Fence, Store, ThreadNews};
use parking_lot::Mutex;
use protocol::{
    Checkpoint, FailureKind, Interrupt, PendingActivity, RunFailure, RunId, RunStatus, Seq, ThreadId, Usage,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use self::lease::{Held, Lease};
use self::owed::Owed;
use crate::Result;
use crate::activity::Activities;
use crate::admit::stop_key;
use crate::graph::Graph;
use crate::step::{Answer, Early, Entry, Failure, Recorded, StepContext, Update};
use crate::stream::Frames;
use crate::stream::frame::Frame;
use crate::turn::breakpoints::Breakpoints;
use crate::turn::{Bounds, Effect, Ending, Input, Turn};

/// How often a run looks whether another process asked it to stop, where no news come.
const STOP_POLL: Duration = Duration::from_secs(1);

/// What a run may use at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps of one run.
    pub steps_max: u64,
    /// Wall-clock time of one run; `None` is no limit.
    pub time_max: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps_max: 500, time_max: None }
    }
}

/// How a run came to rest.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// The run.
    pub run_id: RunId,
    /// Its last status.
    pub status: RunStatus,
    /// What waits for an answer, when it is interrupted.
    pub interrupts: Vec<Interrupt>,
    /// Why, when it did not succeed.
    pub failure: Option<RunFailure>,
    /// Tokens that its model calls took since it was admitted, resumed or taken over.
    pub usage: Usage,
}

/// A run that was admitted, resumed or taken over: where it stands, and what of its admission is not durable yet.
#[derive(Debug)]
pub struct Admitted {
    /// The checkpoint it goes on from.
    pub checkpoint: Checkpoint,
    /// Whether what comes next may have been begun before.
    pub entry: Entry,
    others: Others,
    owed: Owed,
    /// Whether it was asked to stop before it was taken over.
    stop: StopAsked,
}

/// Whether somebody asked for a run's stop that is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopAsked {
    No,
    Yes,
}

/// Whether questions of the thread wait that this run did not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// None: only a run raises questions, and no other works in the thread meanwhile.
    None,
    /// Nobody has looked.
    Perhaps,
}

impl Admitted {
    /// Returns a run whose admission is durable.
    pub fn at(checkpoint: Checkpoint, entry: Entry) -> Self {
        let (others, stop) = (Others::Perhaps, StopAsked::No);
        Self { checkpoint, entry, others, owed: Owed::default(), stop }
    }

    /// Returns a run whose admission is durable, and of whose thread it is known whether other questions wait.
    pub(crate) fn knowing(checkpoint: Checkpoint, others: Others) -> Self {
        Self { others, ..Self::at(checkpoint, Entry::Fresh) }
    }

    /// Returns a run that is taken over.
    pub(crate) fn taken_over(checkpoint: Checkpoint, entry: Entry, stop: StopAsked) -> Self {
        Self { stop, ..Self::at(checkpoint, entry) }
    }

    /// Returns a run whose admission becomes durable with its first step.
    pub(crate) fn owing(checkpoint: Checkpoint, writes: Vec<journal::Write>) -> Self {
        Self { owed: Owed::admission(writes), ..Self::at(checkpoint, Entry::Fresh) }
    }
}

/// Runs turns of one graph.
#[derive(Clone)]
pub struct Driver {
    /// Where facts go.
    pub store: Arc<dyn Store>,
    /// The graph.
    pub graph: Arc<Graph>,
    /// The activities its nodes may ask for.
    pub activities: Activities,
    /// How this process holds runs.
    pub lease: Lease,
    /// What a run may use.
    pub limits: Limits,
    /// Where its client wants to look.
    pub breakpoints: Breakpoints,
    /// Cancelled when this process is about to end: what works is done to its end and made durable, and nothing after it is
    /// begun here.
    pub halt: CancellationToken,
}

/// One run being driven.
struct Drive<'a> {
    driver: &'a Driver,
    thread_id: ThreadId,
    run_id: RunId,
    frames: &'a Frames,
    cancel: &'a CancellationToken,
    deadline: Option<tokio::time::Instant>,
    /// The newest event of the thread when this process took the run up.
    taken_up: Seq,
    /// The newest event of the thread that this run knows.
    head: AtomicU64,
    usage: Mutex<Usage>,
    /// The run's lease.
    held: Held,
    /// News of the thread, such as that somebody asks the run to stop.
    news: ThreadNews,
    /// When the journal is next looked at for a stop from another process.
    look_at: Mutex<tokio::time::Instant>,
    others: Others,
    /// What is to become durable with the next commit.
    owed: Owed,
}

impl Driver {
    /// Drives the run until it rests. What happened on the way is in the journal; a crash at any point leaves a
    /// checkpoint from which calling this again, with [`Entry::Recovered`], goes on.
    ///
    /// # Errors
    /// [`crate::Error::Halted`] when the process is about to end: the run can go on elsewhere at once. When the journal fails, or
    /// the run belongs to another process: the run itself is untouched then. Those of the admission too, when it becomes
    /// durable with the first step only.
    pub async fn drive(
        &self,
        admitted: Admitted,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let Admitted { checkpoint, entry, others, owed, stop: stop_asked } = admitted;
        // A stop that is found in the journal is this run's alone; the caller may go on with others.
        let cancel = &cancel.child_token();
        if stop_asked == StopAsked::Yes {
            cancel.cancel();
        }
        let (thread_id, run_id) = (checkpoint.thread_id, checkpoint.run_id);
        let deadline = self.limits.time_max.map(|limit| tokio::time::Instant::now() + limit);
        frames.at(checkpoint.head_seq);
        let head = AtomicU64::new(checkpoint.head_seq);
        let (usage, look_at) = (Mutex::default(), Mutex::new(tokio::time::Instant::now() + STOP_POLL));
        let fence = Fence { run_id, owner: self.lease.owner().to_owned() };
        let held = Held::begin(&self.store, fence, &self.lease);
        let mut drive = Drive {
            driver: self,
            held,
            news: self.store.news().of(thread_id),
            thread_id,
            run_id,
            frames,
            cancel,
            deadline,
            taken_up: checkpoint.head_seq,
            head,
            usage,
            look_at,
            others,
            owed,
        };
        drive.begin(&checkpoint, entry);
        let bounds = Bounds { steps_max: self.limits.steps_max, breakpoints: &self.breakpoints };
        let (mut turn, mut effect) = Turn::begin(&self.graph, &checkpoint, bounds, entry);
        loop {
            if self.halt.is_cancelled() && matches!(effect, Effect::Run { .. } | Effect::Perform(_)) {
                return Err(drive.leave(&turn).await);
            }
            let input = match effect {
                Effect::Run { node, answers, entry } => {
                    if !drive.is_immediate(&node) {
                        drive.flush().await?;
                    }
                    drive.run(&turn, &node, &answers, entry).await?
                }
                Effect::Commit { update, ending } => {
                    drive.commit(&turn, update, ending.as_ref()).await?;
                    if tokio::time::Instant::now() >= drive.look_at() {
                        drive.look_for_stop().await?;
                    }
                    Input::Committed
                }
                Effect::Perform(activity) => {
                    drive.flush().await?;
                    let performed = tokio::select! {
                        performed = drive.perform(&activity) => performed,
                        () = drive.held.lost.cancelled() => return Err(drive.lost().await),
                    };
                    Input::Performed(performed)
                }
                Effect::Rest(ending) => return drive.rest(&turn, ending).await,
            };
            effect = turn.advance(drive.stop(input));
        }
    }
}

impl Drive<'_> {
    async fn run(&self, turn: &Turn<'_>, node: &str, answers: &[Answer], entry: Entry) -> Result<Input> {
        let Some(found) = self.driver.graph.get(node) else {
            let unknown = format!("continue the run: this version has no node `{node}`");
            return Ok(Input::Ran(Err(Failure::new(FailureKind::Internal, unknown))));
        };
        // The step before an immediate one is not told yet, nor is the run, where it is not durable.
        if !found.is_immediate() {
            self.frames.send(Frame::StepStarted { node: node.to_owned(), step: turn.step + 1 });
        }
        let cancel = self.cancel.child_token();
        let (early, mut recorded) = Early::channel();
        let work = found.run(StepContext {
            thread_id: self.thread_id,
            run_id: self.run_id,
            step: turn.step + 1,
            entry,
            taken_up: self.taken_up,
            channels: &turn.channels,
            answers,
            store: &self.driver.store,
            frames: self.frames,
            cancel: &cancel,
            early: &early,
            unwritten: self.owed.writes(),
            context: None,
        });
        match self.beside(work, &cancel, &mut recorded).await? {
            Some(input) => Ok(input),
            None => Err(self.lost().await),
        }
    }

    /// Does a node's work while writing down what it hands over and looking whether it is to stop: all at once, since the work
    /// may need what the others wait for. Returns what it hands on; `None` when another process may have the run.
    async fn beside(
        &self,
        work: impl Future<Output = std::result::Result<Update, Failure>>,
        cancel: &CancellationToken,
        recorded: &mut UnboundedReceiver<Recorded>,
    ) -> Result<Option<Input>> {
        tokio::pin!(work);
        let mut is_late = false;
        let mut news = self.news.clone();
        let mut aside: Fuse<BoxFuture<'_, Result<()>>> = Fuse::terminated();
        loop {
            let is_idle = aside.is_terminated();
            let may_look = is_idle && !self.cancel.is_cancelled();
            tokio::select! {
                biased;
                written = &mut aside, if !is_idle => written?,
                Some((events, writes)) = recorded.recv(), if is_idle => {
                    aside = self.record(events, writes).boxed().fuse();
                }
                done = &mut work => {
                    if !is_idle {
                        aside.await?;
                    }
                    return Ok(Some(match with_recorded(done, recorded) {
                        Ok(update) if is_late => stop(update, RunStatus::Timeout, "its time is up"),
                        done => Input::Ran(done),
                    }));
                }
                () = at(self.deadline), if !is_late => {
                    // The node returns what it has.
                    is_late = true;
                    cancel.cancel();
                }
                () = self.held.lost.cancelled() => return Ok(None),
                () = news.changed(), if may_look => aside = self.look_for_stop().boxed().fuse(),
                () = tokio::time::sleep_until(self.look_at()), if may_look => {
                    aside = self.look_for_stop().boxed().fuse();
                }
            }
        }
    }

    fn is_immediate(&self, node: &str) -> bool {
        self.driver.graph.get(node).is_some_and(|node| node.is_immediate())
    }

    async fn perform(&self, activity: &PendingActivity) -> std::result::Result<Update, Failure> {
        let Some(found) = self.driver.activities.get(&activity.name) else {
            let unknown = format!("continue the run: this version has no activity `{}`", activity.name);
            return Err(Failure::new(FailureKind::Internal, unknown));
        };
        found.perform(&activity.args, self.frames).await
    }

    /// A person's stop takes effect between steps: what the node returned is kept, what would follow is not begun.
    fn stop(&self, input: Input) -> Input {
        if !self.cancel.is_cancelled() {
            return input;
        }
        match input {
            Input::Ran(Ok(update)) => stop(update, RunStatus::Cancelled, "it was stopped"),
            Input::Committed => stop(Update::default(), RunStatus::Cancelled, "it was stopped"),
            Input::Ran(Err(_)) | Input::Performed(_) | Input::Stop { .. } => input,
        }
    }

    /// Takes a stop that another process wrote into the journal as if it came from here.
    async fn look_for_stop(&self) -> Result<()> {
        *self.look_at.lock() = tokio::time::Instant::now() + STOP_POLL;
        let key = stop_key(self.run_id);
        if self.driver.store.seq_of_key(self.thread_id, &key).await?.is_some() {
            self.cancel.cancel();
        }
        Ok(())
    }

    fn look_at(&self) -> tokio::time::Instant {
        *self.look_at.lock()
    }

    fn fence(&self) -> Fence {
        Fence { run_id: self.run_id, owner: self.driver.lease.owner().to_owned() }
    }

    /// Returns why the run is not this process's any more.
    async fn lost(&self) -> crate::Error {
        lease::lost(&*self.driver.store, self.fence()).await
    }

    fn head(&self) -> Seq {
        self.head.load(Ordering::Relaxed)
    }

    async fn rest(&self, turn: &Turn<'_>, ending: Ending) -> Result<RunEnd> {
        let mut interrupts = Vec::with_capacity(ending.interrupts.len());
        for index in 0..ending.interrupts.len() {
            interrupts.extend(self.driver.store.interrupt(self.interrupt_id(turn, index)).await?);
        }
        for interrupt in &interrupts {
            self.frames.send(Frame::Interrupted(Box::new(interrupt.clone())));
        }
        let Ending { status, failure, .. } = ending;
        let run_id = self.run_id;
        self.frames.send(Frame::RunEnded { run_id, status, failure: failure.clone() });
        let usage = *self.usage.lock();
        Ok(RunEnd { run_id, status, interrupts, failure, usage })
    }
}

/// Adds what the node handed over last, which nobody has taken yet, to what it returned.
fn with_recorded(
    done: std::result::Result<Update, Failure>,
    recorded: &mut UnboundedReceiver<Recorded>,
) -> std::result::Result<Update, Failure> {
    let mut update = Update::default();
    while let Ok((events, writes)) = recorded.try_recv() {
        update.merge(Update { events, writes, ..Update::default() });
    }
    match done {
        Ok(returned) => {
            update.merge(returned);
            Ok(update)
        }
        Err(mut failure) => {
            update.merge(std::mem::take(&mut *failure.partial));
            Err(failure.keeping(update))
        }
    }
}

fn stop(update: Update, status: RunStatus, why: &str) -> Input {
    Input::Stop { update, status, why: why.to_owned() }
}

async fn at(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
