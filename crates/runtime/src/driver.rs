//! The driver of a run: performs the effects that [`TurnMachine`] requests, one at a time. It contains no rules
//! about what a run does next.

mod commit;
pub(crate) mod deferred;
pub(crate) mod lease;
pub(crate) mod lifecycle;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use journal::{FencingToken, Store, ThreadSubscription};
use parking_lot::Mutex;
use protocol::{
    Checkpoint, FailureKind, Interrupt, PendingActivity, RunFailure, RunId, RunStatus, Seq, ThreadId, Usage,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use self::deferred::DeferredWrites;
use self::lease::{LeaseGuard, LeaseHolder};
use crate::Result;
use crate::activity::ActivityRegistry;
use crate::admit::stop_key;
use crate::graph::Graph;
use crate::step::{
    EarlyCommit, EarlyCommitSender, GraphUpdate, KeyedAnswer, StepContext, StepEntry, StepFailure,
};
use crate::stream::FrameSender;
use crate::stream::frame::Frame;
use crate::turn::breakpoints::Breakpoints;
use crate::turn::{RunEnding, TurnEffect, TurnInput, TurnLimits, TurnMachine};

/// The interval between two checks of the journal for a stop request of another process. Where the commit feed
/// notifies about the request, the run does not wait for the next check.
const STOP_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverLimits {
    /// The most steps of one run; 500 by default.
    pub steps_max: u64,
    /// The most wall-clock time of one run; `None`, the default, is no limit.
    pub time_max: Option<Duration>,
}

impl DriverLimits {
    /// Returns the time at which a run that starts now exceeds its limit. A limit that the clock cannot represent is never
    /// reached.
    fn deadline(&self) -> Option<tokio::time::Instant> {
        self.time_max.and_then(|limit| tokio::time::Instant::now().checked_add(limit))
    }
}

impl Default for DriverLimits {
    fn default() -> Self {
        Self { steps_max: 500, time_max: None }
    }
}

/// The outcome of a run that was driven to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// The run.
    pub run_id: RunId,
    /// The final status of the run.
    pub status: RunStatus,
    /// The interrupts that wait for an answer, if the status is interrupted.
    pub interrupts: Vec<Interrupt>,
    /// The reason why the run did not succeed, if it did not.
    pub failure: Option<RunFailure>,
    /// The tokens that model calls of the run used since this process admitted, resumed or took over the run.
    pub usage: Usage,
}

/// A run that this process has admitted, resumed or taken over and can now drive with [`Driver::drive`].
#[derive(Debug)]
pub struct AdmittedRun {
    /// The checkpoint from which the run continues.
    pub checkpoint: Checkpoint,
    /// The way the next step is entered: for the first time, or after a process that may have started it.
    pub entry: StepEntry,
    /// The state of the questions of other runs.
    other_questions: OtherQuestions,
    /// Writes of the admission that are not durable yet.
    deferred_writes: DeferredWrites,
    /// A stop request that was found at the takeover.
    stop_request: StopRequest,
}

/// A stop request for a run, as found when the run is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// No stop was requested.
    Absent,
    /// A stop was requested, and the run must end as cancelled.
    Pending,
}

/// Knowledge about pending interrupts of the thread that other runs raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherQuestions {
    /// There are none. This stays true while the run is driven, because only a run raises interrupts and the
    /// thread has no other active run.
    None,
    /// The thread has not been checked, so there may be some.
    Unknown,
}

impl AdmittedRun {
    /// Returns a run whose admission is durable, without knowledge about other questions of the thread.
    pub fn new(checkpoint: Checkpoint, entry: StepEntry) -> Self {
        let (other_questions, stop_request) = (OtherQuestions::Unknown, StopRequest::Absent);
        Self { checkpoint, entry, other_questions, deferred_writes: DeferredWrites::default(), stop_request }
    }

    /// Returns a run whose admission is durable, with the admission's knowledge about other questions of the
    /// thread.
    pub(crate) fn with_other_questions(checkpoint: Checkpoint, other_questions: OtherQuestions) -> Self {
        Self { other_questions, ..Self::new(checkpoint, StepEntry::Fresh) }
    }

    /// Returns a run that this process takes over from another one.
    pub(crate) fn from_takeover(checkpoint: Checkpoint, entry: StepEntry, stop_request: StopRequest) -> Self {
        Self { stop_request, ..Self::new(checkpoint, entry) }
    }

    /// Returns a run whose admission becomes durable together with its first step.
    pub(crate) fn with_deferred_admission(checkpoint: Checkpoint, writes: Vec<journal::Write>) -> Self {
        Self {
            deferred_writes: DeferredWrites::from_admission(writes),
            ..Self::new(checkpoint, StepEntry::Fresh)
        }
    }
}

/// The driver of the runs of one graph. Cloning it is cheap.
#[derive(Clone)]
pub struct Driver {
    /// The journal that the driver commits to.
    pub store: Arc<dyn Store>,
    /// The graph to run.
    pub graph: Arc<Graph>,
    /// The activities that the graph's nodes can request.
    pub activities: ActivityRegistry,
    /// The identity and the lease duration with which this process holds runs.
    pub lease: LeaseHolder,
    /// The limits of each run.
    pub limits: DriverLimits,
    /// The breakpoints that the run's client has set.
    pub breakpoints: Breakpoints,
    /// Cancelled when this process is about to exit. A running node or activity then completes and is committed,
    /// and the run is released instead of continuing.
    pub shutdown: CancellationToken,
}

/// A run while it is driven.
struct ActiveRun<'a> {
    driver: &'a Driver,
    /// The thread of the run.
    thread_id: ThreadId,
    /// The run.
    run_id: RunId,
    /// The sender of the run's frames.
    frames: &'a FrameSender,
    /// Cancelled when the run is to stop.
    cancel: &'a CancellationToken,
    /// The time at which the run exceeds its limit; `None` without a limit.
    deadline: Option<tokio::time::Instant>,
    /// The sequence number of the thread's newest event when this process started to drive the run.
    start_seq: Seq,
    /// The sequence number of the newest event of the thread that this run knows.
    head: AtomicU64,
    /// The tokens used since this process started to drive the run.
    usage: Mutex<Usage>,
    /// The run's lease; a background task renews it.
    lease_guard: LeaseGuard,
    /// Notifications about commits to the thread, for example of a stop request.
    commit_feed: ThreadSubscription,
    /// The time of the next check of the journal for a stop request.
    next_stop_poll: Mutex<tokio::time::Instant>,
    /// The state of the questions of other runs.
    other_questions: OtherQuestions,
    /// Writes for the next commit.
    deferred_writes: DeferredWrites,
    /// The keys of the events of the steps so far. An event with one of them is stored already, or will be with the
    /// deferred writes. On PostgreSQL, storing it again would make the whole transaction fail and be repeated.
    event_keys: BTreeSet<String>,
}

impl Driver {
    /// Drives the run until it ends and returns its outcome. Everything that happens is in the journal.
    ///
    /// Cancelling `cancel` stops the run between two steps, and tells a running node to return what it has. The
    /// future may also be dropped at any point, with the same result as a crash: the last checkpoint is durable,
    /// and [`crate::take_over_run`] continues from it with [`StepEntry::Recovered`].
    ///
    /// # Errors
    /// - [`crate::Error::ShuttingDown`] when [`Self::shutdown`] is cancelled. Another process can continue the run
    ///   at once.
    /// - [`crate::Error::LeaseExpired`], or [`journal::Error::Fenced`], when another process has or may have the run.
    /// - Any other error of the journal.
    /// - The errors of an admission, if the admission becomes durable only with the first step.
    ///
    /// In all these cases the run is as its last commit left it.
    pub fn drive<'a>(
        &'a self,
        admitted: AdmittedRun,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<RunEnd>> {
        Box::pin(self.drive_steps(admitted, frames, cancel))
    }

    /// Drives the run as [`Self::drive`] does, which boxes the future for its callers.
    async fn drive_steps(
        &self,
        admitted: AdmittedRun,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let AdmittedRun { checkpoint, entry, other_questions, deferred_writes, stop_request } = admitted;
        // The caller may use its token for other runs, and a stop request in the journal is for this run only.
        let cancel = &cancel.child_token();
        if stop_request == StopRequest::Pending {
            cancel.cancel();
        }
        let (thread_id, run_id) = (checkpoint.thread_id, checkpoint.run_id);
        let deadline = self.limits.deadline();
        frames.advance_to(checkpoint.head_seq);
        let fence = FencingToken { run_id, owner: self.lease.owner().to_owned() };
        let lease_guard = LeaseGuard::start(&self.store, fence, &self.lease);
        let mut run = ActiveRun {
            driver: self,
            lease_guard,
            commit_feed: self.store.commit_feed().subscribe_thread(thread_id),
            thread_id,
            run_id,
            frames,
            cancel,
            deadline,
            start_seq: checkpoint.head_seq,
            head: AtomicU64::new(checkpoint.head_seq),
            usage: Mutex::default(),
            next_stop_poll: Mutex::new(tokio::time::Instant::now() + STOP_POLL_INTERVAL),
            other_questions,
            deferred_writes,
            event_keys: BTreeSet::new(),
        };
        run.publish_start(&checkpoint, entry);
        let limits = TurnLimits { steps_max: self.limits.steps_max, breakpoints: &self.breakpoints };
        let (mut turn, mut effect) = TurnMachine::begin(&self.graph, &checkpoint, limits, entry);
        loop {
            if self.shutdown.is_cancelled()
                && matches!(effect, TurnEffect::RunNode { .. } | TurnEffect::Perform(_))
            {
                return Err(run.release_run(&turn).await);
            }
            let input = match effect {
                TurnEffect::RunNode { node, answers, entry } => {
                    if !run.is_immediate(&node) {
                        run.flush_deferred().await?;
                    }
                    run.run_node(&turn, &node, &answers, entry).await?
                }
                TurnEffect::Commit { update, ending } => {
                    run.commit_step(&turn, update, ending.as_ref()).await?;
                    if tokio::time::Instant::now() >= run.next_stop_poll() {
                        run.poll_stop_request().await?;
                    }
                    TurnInput::Committed
                }
                TurnEffect::Perform(activity) => {
                    run.flush_deferred().await?;
                    let performed = tokio::select! {
                        performed = run.perform_activity(&activity) => performed,
                        () = run.lease_guard.lost.cancelled() => return Err(run.lease_loss_error().await),
                    };
                    TurnInput::Performed(performed)
                }
                TurnEffect::Finish(ending) => return run.finish_run(&turn, ending).await,
            };
            effect = turn.advance(run.apply_stop(input));
        }
    }
}

impl ActiveRun<'_> {
    /// Runs one node and returns its outcome for the state machine. A node that the graph does not have fails the
    /// run.
    async fn run_node(
        &self,
        turn: &TurnMachine<'_>,
        node: &str,
        answers: &[KeyedAnswer],
        entry: StepEntry,
    ) -> Result<TurnInput> {
        let Some(registered) = self.driver.graph.get(node) else {
            let message = format!("continue the run: this version has no node `{node}`");
            return Ok(TurnInput::Ran(Err(StepFailure::new(FailureKind::Internal, message))));
        };
        // The frames of the step before an immediate one, and of a deferred admission, are sent only after their
        // commit, and this frame must not precede them.
        if !registered.is_immediate() {
            self.frames.send(Frame::StepStarted { node: node.to_owned(), step: turn.step + 1 });
        }
        let cancel = self.cancel.child_token();
        let (early_commits, mut early_receiver) = EarlyCommitSender::channel();
        let work = registered.run(StepContext {
            thread_id: self.thread_id,
            run_id: self.run_id,
            step: turn.step + 1,
            entry,
            start_seq: self.start_seq,
            channels: &turn.channels,
            answers,
            store: &self.driver.store,
            frames: self.frames,
            cancel: &cancel,
            early_commits: &early_commits,
            deferred_writes: self.deferred_writes.writes(),
            context: None,
        });
        match self.supervise_node(work, &cancel, &mut early_receiver).await? {
            Some(input) => Ok(input),
            None => Err(self.lease_loss_error().await),
        }
    }

    /// Awaits a node's future while committing its early events, checking for stop requests and watching the
    /// deadline and the lease. These run concurrently, because the node may wait for a result of one of them. At
    /// most one journal operation is in flight besides the node.
    ///
    /// Returns the outcome for the state machine, or `None` when another process may have the run.
    async fn supervise_node(
        &self,
        work: impl Future<Output = std::result::Result<GraphUpdate, StepFailure>>,
        cancel: &CancellationToken,
        early_receiver: &mut UnboundedReceiver<EarlyCommit>,
    ) -> Result<Option<TurnInput>> {
        tokio::pin!(work);
        let mut is_overdue = false;
        let mut commits = self.commit_feed.clone();
        let mut journal_operation: Fuse<BoxFuture<'_, Result<()>>> = Fuse::terminated();
        loop {
            let is_idle = journal_operation.is_terminated();
            let may_poll = is_idle && !self.cancel.is_cancelled();
            tokio::select! {
                biased;
                result = &mut journal_operation, if !is_idle => result?,
                Some(commit) = early_receiver.recv(), if is_idle => {
                    journal_operation = self.commit_early(commit).boxed().fuse();
                }
                done = &mut work => {
                    if !is_idle {
                        journal_operation.await?;
                    }
                    return Ok(Some(match merge_early_commits(done, early_receiver) {
                        Ok(update) if is_overdue => stop_input(update, RunStatus::Timeout, "its time is up"),
                        done => TurnInput::Ran(done),
                    }));
                }
                () = sleep_until_deadline(self.deadline), if !is_overdue => {
                    // The node returns what it has, which is then kept.
                    is_overdue = true;
                    cancel.cancel();
                }
                () = self.lease_guard.lost.cancelled() => return Ok(None),
                () = commits.changed(), if may_poll => journal_operation = self.poll_stop_request().boxed().fuse(),
                () = tokio::time::sleep_until(self.next_stop_poll()), if may_poll => {
                    journal_operation = self.poll_stop_request().boxed().fuse();
                }
            }
        }
    }

    /// Returns whether the graph has this node and it is immediate.
    fn is_immediate(&self, node: &str) -> bool {
        self.driver.graph.get(node).is_some_and(|node| node.is_immediate())
    }

    /// Performs an activity. One that is not registered fails the run.
    async fn perform_activity(
        &self,
        activity: &PendingActivity,
    ) -> std::result::Result<GraphUpdate, StepFailure> {
        let Some(registered) = self.driver.activities.get(&activity.name) else {
            let message = format!("continue the run: this version has no activity `{}`", activity.name);
            return Err(StepFailure::new(FailureKind::Internal, message));
        };
        registered.perform(&activity.args, self.frames).await
    }

    /// Replaces the outcome of a step by a stop if the run is cancelled. The update of the node is kept, and no
    /// further step starts. Failures and the outcomes of activities are not replaced.
    fn apply_stop(&self, input: TurnInput) -> TurnInput {
        if !self.cancel.is_cancelled() {
            return input;
        }
        match input {
            TurnInput::Ran(Ok(update)) => stop_input(update, RunStatus::Cancelled, "it was stopped"),
            TurnInput::Committed => {
                stop_input(GraphUpdate::default(), RunStatus::Cancelled, "it was stopped")
            }
            TurnInput::Ran(Err(_)) | TurnInput::Performed(_) | TurnInput::Stop { .. } => input,
        }
    }

    /// Checks the journal for a stop request of another process and cancels the run if there is one.
    async fn poll_stop_request(&self) -> Result<()> {
        *self.next_stop_poll.lock() = tokio::time::Instant::now() + STOP_POLL_INTERVAL;
        let key = stop_key(self.run_id);
        if self.driver.store.seq_of_event_key(self.thread_id, &key).await?.is_some() {
            self.cancel.cancel();
        }
        Ok(())
    }

    /// Returns the time of the next check for a stop request.
    fn next_stop_poll(&self) -> tokio::time::Instant {
        *self.next_stop_poll.lock()
    }

    /// Returns the token that fences the run's writes.
    fn fence(&self) -> FencingToken {
        FencingToken { run_id: self.run_id, owner: self.driver.lease.owner().to_owned() }
    }

    /// Returns the error for a run whose lease this process has lost.
    async fn lease_loss_error(&self) -> crate::Error {
        lease::lease_loss_error(&*self.driver.store, self.fence()).await
    }

    /// Returns the sequence number of the newest event that this run knows.
    fn head(&self) -> Seq {
        self.head.load(Ordering::Relaxed)
    }

    /// Sends the last frames of the run and returns its outcome.
    async fn finish_run(&self, turn: &TurnMachine<'_>, ending: RunEnding) -> Result<RunEnd> {
        let mut interrupts = Vec::with_capacity(ending.interrupts.len());
        for index in 0..ending.interrupts.len() {
            interrupts.extend(self.driver.store.interrupt(self.interrupt_id(turn, index)).await?);
        }
        for interrupt in &interrupts {
            self.frames.send(Frame::Interrupted(Box::new(interrupt.clone())));
        }
        let RunEnding { status, failure, .. } = ending;
        let run_id = self.run_id;
        self.frames.send(Frame::RunEnded { run_id, status, failure: failure.clone() });
        let usage = *self.usage.lock();
        Ok(RunEnd { run_id, status, interrupts, failure, usage })
    }
}

/// Merges the early commits that are still queued into the result of the node, so that none is lost.
fn merge_early_commits(
    result: std::result::Result<GraphUpdate, StepFailure>,
    early_receiver: &mut UnboundedReceiver<EarlyCommit>,
) -> std::result::Result<GraphUpdate, StepFailure> {
    let mut update = GraphUpdate::default();
    while let Ok(EarlyCommit { events, writes, .. }) = early_receiver.try_recv() {
        update.merge(GraphUpdate { events, writes, ..GraphUpdate::default() });
    }
    match result {
        Ok(returned) => {
            update.merge(returned);
            Ok(update)
        }
        Err(mut failure) => {
            update.merge(std::mem::take(&mut *failure.partial));
            Err(failure.with_partial(update))
        }
    }
}

/// Returns the input that stops a run.
fn stop_input(update: GraphUpdate, status: RunStatus, reason: &str) -> TurnInput {
    TurnInput::Stop { update, status, reason: reason.to_owned() }
}

/// Sleeps until the deadline; forever if there is none.
async fn sleep_until_deadline(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
