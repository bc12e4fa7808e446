//! Creating runs: a run starts at once on a free thread, is queued on a busy one, or is refused. The agent decides what
//! its request means.
//!
//! A free thread is occupied before anything is stored, so that two creations in this process cannot both start a run
//! on it. Between processes, the lease in the journal decides: the creation that loses the race queues its run instead.

pub(crate) mod answers;

use futures::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use agent::{Agent, CancellationToken, NewThread};
use futures::FutureExt;
use futures::future::try_join_all;
use protocol::{MultitaskStrategy, OwnerScope, Run, RunId, RunRef, RunRequest, ThreadId};
use serde_json::Map;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::Result;
use crate::cancel::CancelAction;
use crate::error::Error;
use crate::limits::RETRY_AFTER;
use crate::queue::{Admission, EnqueueOutcome, Occupancy, Occupant, QueuePosition, QueuedWork, QuotaPermit};
use crate::scheduler::Scheduler;
use crate::streams::run_reader::RunReader;
use crate::streams::stream::RunStream;
use crate::webhooks::target::{WebhookTarget, WebhookTargetError};
use crate::worker::ThreadOutcome;

/// A run to create.
#[derive(Debug)]
pub struct NewRun {
    /// The thread of the run. Without it, a new thread is created.
    pub thread_id: Option<ThreadId>,
    /// The request of the run.
    pub request: RunRequest,
    /// How to proceed if there is no thread with that id.
    pub if_not_exists: IfNotExists,
}

/// How a run is handled whose thread does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfNotExists {
    /// The run is refused.
    #[default]
    Reject,
    /// The thread is created.
    Create,
}

/// A run that was accepted.
#[derive(Debug)]
pub struct CreatedRun {
    /// The row of the run. The run is active or queued.
    pub run: Run,
    /// The request of the run.
    pub request: Arc<RunRequest>,
    /// A reader of the run's stream from its beginning.
    pub reader: RunReader,
}

/// A run during its admission.
struct RunSubmission {
    agent: Arc<Agent>,
    /// The thread that is created together with the run, if any.
    new_thread: Option<NewThread>,
    request: Arc<RunRequest>,
    stream: Arc<RunStream>,
    /// A queue permit that was acquired beforehand. Without it, one is acquired when the run has to be queued.
    permit: Option<QuotaPermit>,
    /// Receives the created run or the reason why it was refused.
    reply: oneshot::Sender<Result<CreatedRun>>,
}

impl Scheduler {
    /// Creates a run. On a free thread, the run has started when this returns. On a busy thread, it is queued or
    /// refused according to its `multitask_strategy`; `interrupt` and `rollback` stop the active run and put the new
    /// one at the front of the queue.
    ///
    /// Dropping the returned future does not cancel the creation.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::QueueFull`], [`Error::Webhook`] and [`Error::ShuttingDown`]. [`Error::Agent`] if the
    /// thread does not exist, if the request names a checkpoint that does not exist, if the request contains a
    /// secret, or if its answer comes too late or is invalid.
    pub fn create_run<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        new: NewRun,
    ) -> BoxFuture<'a, Result<CreatedRun>> {
        agent::box_future(async move {
            self.check_requests(scope, [&new.request]).await?;
            self.submit_run(scope, new, None).await
        })
    }

    /// Creates several runs, or none of them: if one is refused, the runs before it are rolled back. The runs continue
    /// whether the caller waits for the response or not, and without any reader.
    ///
    /// # Errors
    /// Those of [`Self::create_run`], for the first run that is refused; [`Error::QueueFull`] if not all runs could be
    /// queued.
    pub fn create_runs<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        new: Vec<NewRun>,
    ) -> BoxFuture<'a, Result<Vec<CreatedRun>>> {
        agent::box_future(async move {
            self.check_requests(scope, new.iter().map(|run| &run.request)).await?;
            let queue_permits =
                new.iter().map(|_| self.queue_quota.acquire(scope)).collect::<Result<Vec<_>>>()?;
            let (reply, response) = oneshot::channel();
            let new = new.into_iter().zip(queue_permits).collect();
            self.spawn_detached(Arc::clone(self).submit_all(scope.clone(), new, reply), response).await
        })
    }

    /// Creates the runs one after the other and sends the result; on an error it rolls back those that were created.
    async fn submit_all(
        self: Arc<Self>,
        scope: OwnerScope,
        new: Vec<(NewRun, QuotaPermit)>,
        reply: oneshot::Sender<Result<Vec<CreatedRun>>>,
    ) {
        let mut created_runs: Vec<CreatedRun> = Vec::with_capacity(new.len());
        for (run, queue_permit) in new {
            match self.submit_run(&scope, run, Some(queue_permit)).await {
                Ok(created) => {
                    created_runs.push(CreatedRun { reader: created.reader.continue_on_drop(), ..created })
                }
                Err(error) => {
                    for CreatedRun { run, .. } in &created_runs {
                        self.stop_detached(&scope, run.run_ref(), CancelAction::Rollback);
                    }
                    return send_reply(reply, Err(error));
                }
            }
        }
        send_reply(reply, Ok(created_runs));
    }

    /// Validates the parts of requests that do not depend on their threads. Each distinct host of a webhook is resolved
    /// once.
    async fn check_requests(
        &self,
        scope: &OwnerScope,
        requests: impl IntoIterator<Item = &RunRequest>,
    ) -> Result<()> {
        let mut targets: Vec<WebhookTarget> = Vec::new();
        for request in requests {
            agent::check_request(request)?;
            let Some(url) = &request.webhook else { continue };
            let target = WebhookTarget::parse(url, self.webhook_policy)?;
            if !targets.iter().any(|other| other.host_and_port() == target.host_and_port()) {
                targets.push(target);
            }
        }
        let resolver = &self.webhooks.resolver;
        match try_join_all(targets.iter().map(|target| target.check_address(resolver, scope))).await {
            Err(WebhookTargetError::TooManyLookups) => Err(Error::QueueFull { retry_after: RETRY_AFTER }),
            checked => Ok(checked.map(drop)?),
        }
    }

    /// Admits one run in a task of its own and waits for the reply.
    async fn submit_bound_run(
        self: &Arc<Self>,
        scope: &OwnerScope,
        new: NewRun,
        queue_permit: Option<QuotaPermit>,
    ) -> Result<CreatedRun> {
        let (reply, response) = oneshot::channel();
        self.spawn_detached(Arc::clone(self).admit_run(scope.clone(), new, queue_permit, reply), response)
            .await
    }

    /// Spawns `work`, which continues even if the caller stops waiting, and returns its reply.
    async fn spawn_detached<T>(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        response: oneshot::Receiver<Result<T>>,
    ) -> Result<T> {
        {
            // The lock is held over the spawn: a shutdown closes the queues first and then waits for every spawned
            // task.
            let queues = self.queues.lock();
            if queues.is_closed() {
                return Err(Error::ShuttingDown);
            }
            self.tasks.spawn(work);
        }
        response
            .await
            .map_err(|_| if self.queues.lock().is_closed() { Error::ShuttingDown } else { Error::Aborted })?
    }

    /// Starts, queues or refuses a run, and then works through its thread's queue if this task is the one to do so.
    async fn admit_run(
        self: Arc<Self>,
        scope: OwnerScope,
        new: NewRun,
        queue_permit: Option<QuotaPermit>,
        reply: oneshot::Sender<Result<CreatedRun>>,
    ) {
        let agent = self.agent(&scope);
        let run_id = RunId::generate();
        // The heartbeat must be running before the run exists, because other processes take over runs without one.
        if let Err(error) = agent.runs().start_heartbeat().await {
            return send_reply(reply, Err(error.into()));
        }
        let (thread_id, new_thread) = match resolve_thread(&agent, &new, run_id).await {
            Ok(thread) => thread,
            Err(error) => return send_reply(reply, Err(error)),
        };
        let stream = Arc::new(RunStream::new(RunRef { thread_id, run_id }, &scope, &new.request));
        let (request, submission_stream) = (Arc::new(new.request), Arc::clone(&stream));
        let submission = RunSubmission {
            agent,
            new_thread,
            request,
            stream: submission_stream,
            permit: queue_permit,
            reply,
        };
        // The stream must exist before another task can see the run as active or queued.
        self.streams.open(&stream);
        let occupancy = Occupancy::new(Occupant::Run(stream.run_id), stream.cancel.clone());
        let admission = self.queues.lock().admit(thread_id, occupancy);
        // Without a free permit, the run is queued behind those that wait for one.
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        match (admission, permit) {
            (Admission::Admitted, Some(permit)) => {
                let beginning = Arc::clone(&self).begin_immediately(submission, permit);
                if AssertUnwindSafe(beginning).catch_unwind().await.is_err() {
                    let outcome = self.handle_begin_panic(thread_id).await;
                    self.drain_queue(thread_id, outcome).await;
                }
            }
            (Admission::Admitted, None) => self.queue_until_permit(submission).await,
            (Admission::Occupied, _) => self.queue_behind_local(submission).await,
            (Admission::Closed, _) => {
                self.streams.discard(&stream);
                send_reply(submission.reply, Err(Error::ShuttingDown));
            }
        }
    }

    /// Queues a run on a free thread because the maximum of active runs is reached.
    ///
    /// The thread is reserved while the run is stored, so a request to cancel the run can arrive before it is queued.
    /// Such a run is ended here. Afterwards this task is the worker of the thread's queue.
    async fn queue_until_permit(self: Arc<Self>, submission: RunSubmission) {
        let RunSubmission { agent, new_thread, request, stream, permit: queue_permit, reply } = submission;
        let thread_id = stream.thread_id;
        let queued =
            self.store_queued_run(&agent, &stream, queue_permit, new_thread.as_ref(), &request).await;
        let outcome = match queued {
            Ok((run, queued_work)) => {
                let stopped = {
                    let mut queues = self.queues.lock();
                    let stopped = queues.vacate(thread_id);
                    if stopped.is_none() {
                        queues.hold_for_remote(thread_id, Some(queued_work));
                        queues.vacate(thread_id);
                    }
                    stopped
                };
                send_reply(reply, self.new_created_run(run, request, &stream));
                match stopped {
                    Some(_) => self.finish_stopped(&agent, &stream, stopped).await,
                    None => ThreadOutcome::Pending,
                }
            }
            Err(error) => {
                self.streams.discard(&stream);
                send_reply(reply, Err(error));
                self.release_thread(thread_id)
            }
        };
        self.drain_queue(thread_id, outcome).await;
    }

    /// Starts a run on a thread that is reserved for it, drives it, and then works through the thread's queue.
    ///
    /// If a run of another process comes first or holds the thread's lease, the run is queued behind that process
    /// instead.
    async fn begin_immediately(self: Arc<Self>, submission: RunSubmission, permit: OwnedSemaphorePermit) {
        let RunSubmission { agent, new_thread, request, stream, permit: queue_permit, reply } = submission;
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        let started = match &new_thread {
            Some(new_thread) => {
                agent.runs().begin_on_new_thread(run_id, new_thread, &request, &stream.frames).await
            }
            None if self.is_outranked(stream.run_ref(), stream.queue_position).await => {
                // Queued runs of another process come first.
                drop(permit);
                let submission =
                    RunSubmission { agent, new_thread: None, request, stream, permit: queue_permit, reply };
                return self.queue_behind_remote(submission).await;
            }
            None => agent.runs().begin(run_id, thread_id, &request, &stream.frames).await,
        };
        let outcome = match started {
            Ok(started) => {
                drop(queue_permit);
                self.streams.publish_start(&stream);
                send_reply(reply, self.new_created_run(started.run.clone(), request, &stream));
                self.drive_run(&agent, started, &stream, permit).await
            }
            Err(error) if error.has_lost_race() => {
                // Another process works on the thread.
                drop(permit);
                return self
                    .queue_behind_remote(RunSubmission {
                        agent,
                        new_thread: None,
                        request,
                        stream,
                        permit: queue_permit,
                        reply,
                    })
                    .await;
            }
            Err(error) => {
                self.streams.discard(&stream);
                send_reply(reply, Err(error.into()));
                self.release_thread(thread_id)
            }
        };
        self.drain_queue(thread_id, outcome).await;
    }

    /// Queues a run on a thread on which another process works. The thread's queue is reserved for it.
    ///
    /// The strategies `interrupt` and `rollback` request the stop of the other process's run through the journal; a
    /// rollback is queued before the new run. The strategy `reject` refuses the run.
    async fn queue_behind_remote(self: Arc<Self>, submission: RunSubmission) {
        let RunSubmission { agent, request, stream, permit: queue_permit, reply, .. } = submission;
        let (thread_id, strategy) = (stream.thread_id, request.multitask_strategy);
        let queued = match strategy {
            MultitaskStrategy::Reject => Err(Error::Busy { thread_id }),
            MultitaskStrategy::Enqueue | MultitaskStrategy::Interrupt | MultitaskStrategy::Rollback => {
                self.store_queued_run(&agent, &stream, queue_permit, None, &request).await
            }
        };
        let outcome = match queued {
            Ok((run, queued_work)) => {
                let active = self.find_remote_run(&agent, thread_id, strategy).await;
                let displaced = active.as_ref().map(|active| active.run_id);
                let stopped = {
                    let mut queues = self.queues.lock();
                    let stopped = queues.vacate(thread_id);
                    queues.hold_for_remote(thread_id, stopped.is_none().then_some(queued_work));
                    if let Some(active) = active.filter(|_| strategy == MultitaskStrategy::Rollback) {
                        self.enqueue_rollback(&mut queues, &agent, active);
                    }
                    stopped
                };
                self.stop_displaced_run(&agent, displaced).await;
                send_reply(reply, self.new_created_run(run, Arc::clone(&request), &stream));
                match stopped {
                    Some(_) => self.finish_stopped(&agent, &stream, stopped).await,
                    None => ThreadOutcome::Remote,
                }
            }
            Err(error) => {
                self.streams.discard(&stream);
                send_reply(reply, Err(error));
                self.release_thread(thread_id)
            }
        };
        self.drain_queue(thread_id, outcome).await;
    }

    /// Queues a run behind the active entry of its thread, or at the front of the thread's queue.
    ///
    /// The row is stored before the entry is added, so that a queued run always survives a crash. If the run has to be
    /// refused after all, because another creation was faster, the row is deleted again.
    async fn queue_behind_local(self: Arc<Self>, submission: RunSubmission) {
        let RunSubmission { agent, new_thread, request, stream, permit: queue_permit, reply } = submission;
        let (thread_id, strategy) = (stream.thread_id, request.multitask_strategy);
        if strategy == MultitaskStrategy::Reject
            && let Err(refused) = self.check_not_busy(&agent, &stream, new_thread.as_ref()).await
        {
            self.streams.discard(&stream);
            return send_reply(reply, Err(refused));
        }
        let (run, queued_work) =
            match self.store_queued_run(&agent, &stream, queue_permit, new_thread.as_ref(), &request).await {
                Ok(queued) => queued,
                Err(error) => {
                    self.streams.discard(&stream);
                    return send_reply(reply, Err(error));
                }
            };
        let created = self.new_created_run(run, request, &stream);
        // Read before this run can start: it may stop only the run that is active now.
        let is_remote = match self.queues.lock().occupant(thread_id) {
            Some(Occupant::Remote) => true,
            Some(Occupant::Run(_) | Occupant::Exclusive) | None => false,
        };
        let active = if is_remote { self.find_remote_run(&agent, thread_id, strategy).await } else { None };
        let Some((enqueued, displaced, stop)) =
            self.enqueue_run(&agent, thread_id, queued_work, active, strategy)
        else {
            if let Ok(created) = created {
                created.reader.detach();
            }
            return self.reject_stored_run(&agent, &stream, reply).await;
        };
        self.stop_displaced_run(&agent, displaced).await;
        stop.inspect(CancellationToken::cancel);
        send_reply(reply, created);
        match enqueued {
            // When the queues are closed, the row of the run is left for the next process.
            EnqueueOutcome::Queued | EnqueueOutcome::Closed => {}
            EnqueueOutcome::QueueCreated => self.drain_queue(thread_id, ThreadOutcome::Pending).await,
        }
    }

    /// Adds a run to its thread's queue and marks the run that it displaces. Returns `None` if the run's strategy is
    /// `reject` and another run was faster.
    fn enqueue_run(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        thread_id: ThreadId,
        queued_work: QueuedWork,
        remote_run: Option<Run>,
        strategy: MultitaskStrategy,
    ) -> Option<(EnqueueOutcome, Option<RunId>, Option<CancellationToken>)> {
        let mut queues = self.queues.lock();
        let occupant = queues.occupant(thread_id);
        let is_busy = matches!(occupant, Some(Occupant::Run(_))) || queues.has_queued_run(thread_id);
        if strategy == MultitaskStrategy::Reject && is_busy {
            return None;
        }
        let stop = cancel_action_for(strategy)
            .zip(occupant)
            .and_then(|(action, occupant)| queues.mark_stop(thread_id, occupant, action));
        let enqueued = queues.enqueue(thread_id, queued_work, QueuePosition::for_strategy(strategy));
        let remote_run = remote_run.filter(|_| occupant == Some(Occupant::Remote));
        let displaced = match (occupant, &stop) {
            (Some(Occupant::Run(run_id)), Some(_)) => Some(run_id),
            (Some(Occupant::Run(_) | Occupant::Exclusive | Occupant::Remote) | None, Some(_) | None) => {
                remote_run.as_ref().map(|active| active.run_id)
            }
        };
        if let Some(active) = remote_run.filter(|_| strategy == MultitaskStrategy::Rollback) {
            self.enqueue_rollback(&mut queues, agent, active);
        }
        Some((enqueued, displaced, stop))
    }

    /// Refuses a run whose row was already written.
    async fn reject_stored_run(
        &self,
        agent: &Agent,
        stream: &Arc<RunStream>,
        reply: oneshot::Sender<Result<CreatedRun>>,
    ) {
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        if let Err(error) = agent.runs().forget_run(run_id).await {
            tracing::warn!(run_id = %run_id, %error, "failed to forget run {run_id}, which was refused");
        }
        self.streams.discard(stream);
        send_reply(reply, Err(Error::Busy { thread_id }));
    }

    /// Refuses a run with the strategy `reject` if another run is active or queued on its thread. Exclusive work, and
    /// runs of other owners that are about to be refused, do not count. A new thread is stored first: the run that is
    /// active may be another one that creates the thread, and the id may belong to another owner.
    async fn check_not_busy(
        &self,
        agent: &Agent,
        stream: &RunStream,
        new_thread: Option<&NewThread>,
    ) -> Result<()> {
        let thread_id = stream.thread_id;
        if let Some(new_thread) = new_thread {
            agent.threads().store_new_thread(new_thread).await?;
        }
        if agent.threads().get(thread_id).await?.is_none() {
            return Err(agent::Error::from(agent::ThreadError::Unknown(thread_id.to_string())).into());
        }
        let (active, has_queued_run) = {
            let queues = self.queues.lock();
            (queues.occupant(thread_id), queues.has_queued_run(thread_id))
        };
        let is_own = |run_id| self.streams.get(run_id).is_some_and(|other| other.scope == stream.scope);
        if has_queued_run || matches!(active, Some(Occupant::Run(run_id)) if is_own(run_id)) {
            return Err(Error::Busy { thread_id });
        }
        let active = agent.runs().active_runs(Some(thread_id)).await?;
        let queued = agent.runs().queued_runs(Some(thread_id)).await?;
        if active.is_empty() && queued.is_empty() { Ok(()) } else { Err(Error::Busy { thread_id }) }
    }

    /// Stores a run as pending. An answer that comes too late is refused.
    async fn store_queued_run(
        &self,
        agent: &Agent,
        stream: &Arc<RunStream>,
        queue_permit: Option<QuotaPermit>,
        new_thread: Option<&NewThread>,
        request: &RunRequest,
    ) -> Result<(Run, QueuedWork)> {
        let queue_permit = queue_permit.map_or_else(|| self.queue_quota.acquire(&stream.scope), Ok)?;
        if let Some(new_thread) = new_thread {
            agent.threads().store_new_thread(new_thread).await?;
        }
        agent.runs().check_answers_undecided(stream.thread_id, request).await?;
        let run = agent.runs().enqueue(stream.run_id, stream.thread_id, request).await?;
        Ok((run, QueuedWork::Run(Arc::clone(stream), queue_permit)))
    }

    /// Returns the run that another process executes on the thread, if a run with that strategy displaces it.
    async fn find_remote_run(
        &self,
        agent: &Agent,
        thread_id: ThreadId,
        strategy: MultitaskStrategy,
    ) -> Option<Run> {
        cancel_action_for(strategy)?;
        match agent.runs().active_runs(Some(thread_id)).await {
            Ok(runs) => runs.into_iter().next(),
            Err(error) => {
                tracing::warn!(thread_id = %thread_id, %error, "failed to read which run another process executes on thread {thread_id}");
                None
            }
        }
    }

    /// Stores a stop request for the displaced run, in whatever process it is active.
    async fn stop_displaced_run(&self, agent: &Agent, displaced: Option<RunId>) {
        let Some(run_id) = displaced else { return };
        match agent.runs().stop_run(run_id).await {
            Ok(_) | Err(agent::Error::Run(agent::RunError::Unknown(_))) => {}
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to request the stop of run {run_id}")
            }
        }
    }

    /// Returns the created run with a reader of its stream.
    fn new_created_run(
        self: &Arc<Self>,
        run: Run,
        request: Arc<RunRequest>,
        stream: &Arc<RunStream>,
    ) -> Result<CreatedRun> {
        let reader = RunReader::open(Arc::clone(stream), None, Arc::downgrade(self)).ok_or(Error::Aborted)?;
        Ok(CreatedRun { run, request, reader: reader.with_disconnect_policy() })
    }
}

/// Returns how a new run with that strategy stops the active run of its thread.
const fn cancel_action_for(strategy: MultitaskStrategy) -> Option<CancelAction> {
    match strategy {
        MultitaskStrategy::Interrupt => Some(CancelAction::Interrupt),
        MultitaskStrategy::Rollback => Some(CancelAction::Rollback),
        MultitaskStrategy::Enqueue | MultitaskStrategy::Reject => None,
    }
}

/// Sends the reply. If the caller is gone, the reply is dropped, which counts as a reader that disconnected.
fn send_reply<T>(reply: oneshot::Sender<Result<T>>, created: Result<T>) {
    drop(reply.send(created));
}

/// Returns the run's thread, and the thread to create if there is none yet. It is stored later, together with the run.
async fn resolve_thread(agent: &Agent, new: &NewRun, run_id: RunId) -> Result<(ThreadId, Option<NewThread>)> {
    if let (Some(thread_id), IfNotExists::Reject) = (new.thread_id, new.if_not_exists) {
        return Ok((thread_id, None));
    }
    match new.thread_id {
        Some(thread_id) if agent.threads().get(thread_id).await?.is_some() => Ok((thread_id, None)),
        Some(thread_id) => Ok((thread_id, Some(agent.threads().prepare_new_thread(thread_id, Map::new())?))),
        None => {
            let thread = agent.threads().prepare_new_thread(ThreadId::generate(), Map::new())?;
            let thread = if new.request.temporary { thread.with_temporary_run(run_id) } else { thread };
            Ok((thread.thread_id(), Some(thread)))
        }
    }
}
