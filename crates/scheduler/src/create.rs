//! Taking a run: it begins at once on a free thread, or waits, or is refused. What its request means is the agent's
//! business.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use agent::{Agent, CancellationToken, IfExists, NewThread};
use futures::FutureExt;
use futures::future::try_join_all;
use protocol::{Multitask, Run, RunId, RunRef, RunRequest, Scope, ThreadId};
use serde_json::Map;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::Result;
use crate::cancel::CancelAction;
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::limits::RETRY_AFTER;
use crate::line::{End, Entered, Place, Put, Waiting, Who, Working};
use crate::streams::live::Live;
use crate::streams::stream::Stream;
use crate::webhooks::target::{Refusal, Target};
use crate::work::Rested;

/// A run that somebody asks for.
#[derive(Debug)]
pub struct NewRun {
    /// The thread; one is made where none is named.
    pub thread_id: Option<ThreadId>,
    /// What is asked.
    pub request: RunRequest,
    /// What becomes of it when there is no thread of that id.
    pub if_not_exists: IfNotExists,
}

/// What becomes of a run whose thread does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfNotExists {
    /// It is refused.
    #[default]
    Reject,
    /// The thread is made.
    Create,
}

/// A run that was taken.
#[derive(Debug)]
pub struct Created {
    /// Its row: it works already, or waits.
    pub run: Run,
    /// What was asked.
    pub request: Arc<RunRequest>,
    /// Its stream from the beginning.
    pub live: Live,
}

/// A run on its way in.
struct Order {
    agent: Arc<Agent>,
    /// Its thread, where that is made with it.
    new_thread: Option<NewThread>,
    request: Arc<RunRequest>,
    stream: Arc<Stream>,
    /// A place to wait in, where one was kept.
    place: Option<Place>,
    told: oneshot::Sender<Result<Created>>,
}

impl Dispatch {
    /// Takes a run. On a free thread it has begun when this returns; otherwise it waits or is refused, as its
    /// `multitask_strategy` says: `interrupt` and `rollback` stop what works and go to the front of the line.
    ///
    /// The run is taken whether the caller waits for the answer or not.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Full`], [`Error::Webhook`], [`Error::ShuttingDown`]; and the agent's, when the thread does not
    /// exist, the request names a point of its past that is not there, or it holds a secret.
    pub async fn create(self: &Arc<Self>, scope: &Scope, new: NewRun) -> Result<Created> {
        self.check(scope, [&new.request]).await?;
        self.take(scope, new, None).await
    }

    /// Takes several runs, or none of them: where one cannot be taken, those before it are taken back. They go on whether
    /// the caller waits for the answer or not, and whoever reads them.
    ///
    /// # Errors
    /// As for [`Self::create`], of the first that cannot be taken; [`Error::Full`] where not all could wait.
    pub async fn create_all(self: &Arc<Self>, scope: &Scope, new: Vec<NewRun>) -> Result<Vec<Created>> {
        self.check(scope, new.iter().map(|one| &one.request)).await?;
        let places = new.iter().map(|_| self.places.take(scope)).collect::<Result<Vec<_>>>()?;
        let (told, answer) = oneshot::channel();
        let new = new.into_iter().zip(places).collect();
        self.behind(Arc::clone(self).take_all(scope.clone(), new, told), answer).await
    }

    async fn take_all(
        self: Arc<Self>,
        scope: Scope,
        new: Vec<(NewRun, Place)>,
        told: oneshot::Sender<Result<Vec<Created>>>,
    ) {
        let mut taken: Vec<Created> = Vec::with_capacity(new.len());
        for (one, place) in new {
            match self.take(&scope, one, Some(place)).await {
                Ok(created) => taken.push(Created { live: created.live.idle(), ..created }),
                Err(error) => {
                    for Created { run, .. } in &taken {
                        self.stop_behind(&scope, run.run_ref(), CancelAction::Rollback);
                    }
                    return answer(told, Err(error));
                }
            }
        }
        answer(told, Ok(taken));
    }

    /// Checks what can be seen without the threads. Each host is looked up once.
    async fn check(&self, scope: &Scope, requests: impl IntoIterator<Item = &RunRequest>) -> Result<()> {
        let mut targets: Vec<Target> = Vec::new();
        for request in requests {
            agent::check_request(request)?;
            let Some(url) = &request.webhook else { continue };
            let target = Target::read(url, self.webhook_targets)?;
            if !targets.iter().any(|other| other.place() == target.place()) {
                targets.push(target);
            }
        }
        let lookups = &self.webhooks.lookups;
        match try_join_all(targets.iter().map(|target| target.check(lookups, scope))).await {
            Err(Refusal::TooMany) => Err(Error::Full { retry_after: RETRY_AFTER }),
            checked => Ok(checked.map(drop)?),
        }
    }

    async fn take(self: &Arc<Self>, scope: &Scope, new: NewRun, place: Option<Place>) -> Result<Created> {
        let (told, answer) = oneshot::channel();
        self.behind(Arc::clone(self).take_in(scope.clone(), new, place, told), answer).await
    }

    /// Does work that goes on whether the caller waits for its answer or not.
    async fn behind<T>(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        answer: oneshot::Receiver<Result<T>>,
    ) -> Result<T> {
        {
            // Whoever closes the lines waits for every task that was spawned before.
            let lines = self.lines.lock();
            if lines.is_closed() {
                return Err(Error::ShuttingDown);
            }
            self.tasks.spawn(work);
        }
        answer
            .await
            .map_err(|_| if self.lines.lock().is_closed() { Error::ShuttingDown } else { Error::CutOff })?
    }

    async fn take_in(
        self: Arc<Self>,
        scope: Scope,
        new: NewRun,
        place: Option<Place>,
        told: oneshot::Sender<Result<Created>>,
    ) {
        let agent = self.agent(&scope);
        let run_id = RunId::generate();
        // What becomes of it is this process's to tell, as long as that lives.
        if let Err(error) = agent.runs().announce().await {
            return answer(told, Err(error.into()));
        }
        let (thread_id, new_thread) = match thread_for(&agent, &new, run_id).await {
            Ok(place) => place,
            Err(error) => return answer(told, Err(error)),
        };
        let stream = Arc::new(Stream::new(RunRef { thread_id, run_id }, &scope, &new.request));
        let (request, stream_of) = (Arc::new(new.request), Arc::clone(&stream));
        let order = Order { agent, new_thread, request, stream: stream_of, place, told };
        // It is there before anybody else can see that it works or waits.
        self.streams.open(&stream);
        let working = Working::new(Who::Run(stream.run_id), stream.cancel.clone());
        let entered = self.lines.lock().enter(thread_id, working);
        // Whoever finds everything taken waits behind those who wait already.
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        match (entered, permit) {
            (Entered::First, Some(permit)) => {
                let working = Arc::clone(&self).begin_at_once(order, permit);
                if AssertUnwindSafe(working).catch_unwind().await.is_err() {
                    let rested = self.panicked(thread_id).await;
                    self.go_on(thread_id, rested).await;
                }
            }
            (Entered::First, None) => self.wait_in_front(order).await,
            (Entered::Behind, _) => self.wait_in_line(order).await,
            (Entered::Closed, _) => {
                self.streams.discard(&stream);
                answer(order.told, Err(Error::ShuttingDown));
            }
        }
    }

    /// Has a run wait on a thread it has taken, because as many others work as may.
    async fn wait_in_front(self: Arc<Self>, order: Order) {
        let Order { agent, new_thread, request, stream, place, told } = order;
        let thread_id = stream.thread_id;
        let queued = self.queue(&agent, &stream, place, new_thread.as_ref(), &request).await;
        let rested = match queued {
            Ok((run, waiting)) => {
                let stopped = {
                    let mut lines = self.lines.lock();
                    let stopped = lines.rested(thread_id);
                    if stopped.is_none() {
                        lines.put_back(thread_id, Some(waiting));
                        lines.rested(thread_id);
                    }
                    stopped
                };
                answer(told, self.created(run, request, &stream));
                match stopped {
                    Some(_) => self.stopped_waiting(&agent, &stream, stopped).await,
                    None => Rested::Others,
                }
            }
            Err(error) => {
                self.streams.discard(&stream);
                answer(told, Err(error));
                self.leave(thread_id)
            }
        };
        self.go_on(thread_id, rested).await;
    }

    /// Begins a run on a thread it has taken, drives it, and then works through the thread's line.
    async fn begin_at_once(self: Arc<Self>, order: Order, permit: OwnedSemaphorePermit) {
        let Order { agent, new_thread, request, stream, place, told } = order;
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        let begun = match &new_thread {
            Some(new_thread) => agent.runs().begin_on_new(run_id, new_thread, &request, &stream.frames).await,
            None if self.goes_behind(stream.run_ref(), stream.end).await => {
                // Runs that wait in another process go first.
                drop(permit);
                let order = Order { agent, new_thread: None, request, stream, place, told };
                return self.wait_for_another(order).await;
            }
            None => agent.runs().begin(run_id, thread_id, &request, &stream.frames).await,
        };
        let rested = match begun {
            Ok(begun) => {
                drop(place);
                self.streams.begun(&stream);
                answer(told, self.created(begun.run.clone(), request, &stream));
                self.drive(&agent, begun, &stream, permit).await
            }
            Err(error) if error.is_outrun() => {
                // Another process works on the thread.
                drop(permit);
                return self
                    .wait_for_another(Order { agent, new_thread: None, request, stream, place, told })
                    .await;
            }
            Err(error) => {
                self.streams.discard(&stream);
                answer(told, Err(error.into()));
                self.leave(thread_id)
            }
        };
        self.go_on(thread_id, rested).await;
    }

    /// Has a run wait on a thread that another process works on, whose line is held for it.
    async fn wait_for_another(self: Arc<Self>, order: Order) {
        let Order { agent, request, stream, place, told, .. } = order;
        let (thread_id, strategy) = (stream.thread_id, request.multitask_strategy);
        let queued = match strategy {
            Multitask::Reject => Err(Error::Busy { thread_id }),
            Multitask::Enqueue | Multitask::Interrupt | Multitask::Rollback => {
                self.queue(&agent, &stream, place, None, &request).await
            }
        };
        let rested = match queued {
            Ok((run, waiting)) => {
                let working = self.at_work(&agent, thread_id, strategy).await;
                let displaced = working.as_ref().map(|working| working.run_id);
                let stopped = {
                    let mut lines = self.lines.lock();
                    let stopped = lines.rested(thread_id);
                    lines.put_back(thread_id, stopped.is_none().then_some(waiting));
                    if let Some(working) = working.filter(|_| strategy == Multitask::Rollback) {
                        self.take_back_first(&mut lines, &agent, working);
                    }
                    stopped
                };
                self.displace(&agent, displaced).await;
                answer(told, self.created(run, Arc::clone(&request), &stream));
                match stopped {
                    Some(_) => self.stopped_waiting(&agent, &stream, stopped).await,
                    None => Rested::Elsewhere,
                }
            }
            Err(error) => {
                self.streams.discard(&stream);
                answer(told, Err(error));
                self.leave(thread_id)
            }
        };
        self.go_on(thread_id, rested).await;
    }

    /// Has a run wait behind what works on its thread, or in front of what waits there.
    async fn wait_in_line(self: Arc<Self>, order: Order) {
        let Order { agent, new_thread, request, stream, place, told } = order;
        let (thread_id, strategy) = (stream.thread_id, request.multitask_strategy);
        if strategy == Multitask::Reject
            && let Err(refused) = self.refuse_to_wait(&agent, &stream).await
        {
            self.streams.discard(&stream);
            return answer(told, Err(refused));
        }
        let (run, waiting) = match self.queue(&agent, &stream, place, new_thread.as_ref(), &request).await {
            Ok(queued) => queued,
            Err(error) => {
                self.streams.discard(&stream);
                return answer(told, Err(error));
            }
        };
        let created = self.created(run, request, &stream);
        // Read before this run can begin: no other one is to be stopped than what works now.
        let elsewhere = match self.lines.lock().working(thread_id) {
            Some(Who::Elsewhere) => true,
            Some(Who::Run(_) | Who::Exclusive) | None => false,
        };
        let working = if elsewhere { self.at_work(&agent, thread_id, strategy).await } else { None };
        let Some((put, displaced, stop)) = self.place(&agent, thread_id, waiting, working, strategy) else {
            if let Ok(created) = created {
                created.live.leave();
            }
            return self.turn_away(&agent, &stream, told).await;
        };
        self.displace(&agent, displaced).await;
        stop.inspect(CancellationToken::cancel);
        answer(told, created);
        match put {
            // Its row waits for the next process.
            Put::Waits | Put::Closed => {}
            Put::IsNew => self.go_on(thread_id, Rested::Others).await,
        }
    }

    /// Puts a run into its thread's line and marks what it displaces; `None` where it would rather not wait, and another one
    /// was faster.
    fn place(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        thread_id: ThreadId,
        waiting: Waiting,
        elsewhere: Option<Run>,
        strategy: Multitask,
    ) -> Option<(Put, Option<RunId>, Option<CancellationToken>)> {
        let mut lines = self.lines.lock();
        let who = lines.working(thread_id);
        let is_busy = matches!(who, Some(Who::Run(_))) || lines.has_waiting_run(thread_id);
        if strategy == Multitask::Reject && is_busy {
            return None;
        }
        let marked =
            stopped_by(strategy).zip(who).and_then(|(action, who)| lines.mark(thread_id, who, action));
        let put = lines.put(thread_id, waiting, End::of(strategy));
        let elsewhere = elsewhere.filter(|_| who == Some(Who::Elsewhere));
        let displaced = match (who, &marked) {
            (Some(Who::Run(run_id)), Some(_)) => Some(run_id),
            (Some(Who::Run(_) | Who::Exclusive | Who::Elsewhere) | None, Some(_) | None) => {
                elsewhere.as_ref().map(|working| working.run_id)
            }
        };
        if let Some(working) = elsewhere.filter(|_| strategy == Multitask::Rollback) {
            self.take_back_first(&mut lines, agent, working);
        }
        Some((put, displaced, marked))
    }

    /// Refuses a run that was written down already.
    async fn turn_away(&self, agent: &Agent, stream: &Arc<Stream>, told: oneshot::Sender<Result<Created>>) {
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        if let Err(error) = agent.runs().forget(run_id).await {
            tracing::warn!(run_id = %run_id, %error, "failed to forget run {run_id}, which was refused");
        }
        self.streams.discard(stream);
        answer(told, Err(Error::Busy { thread_id }));
    }

    /// Refuses a run that would rather not wait, where a run works on its thread or waits for it. Work that is none, and
    /// strangers who are about to be turned away, are no reason.
    async fn refuse_to_wait(&self, agent: &Agent, stream: &Stream) -> Result<()> {
        let thread_id = stream.thread_id;
        if agent.threads().get(thread_id).await?.is_none() {
            return Err(agent::Error::from(agent::ThreadError::Unknown(thread_id.to_string())).into());
        }
        let (working, is_waited_for) = {
            let lines = self.lines.lock();
            (lines.working(thread_id), lines.has_waiting_run(thread_id))
        };
        let is_own = |run_id| self.streams.get(run_id).is_some_and(|other| other.scope == stream.scope);
        if is_waited_for || matches!(working, Some(Who::Run(run_id)) if is_own(run_id)) {
            return Err(Error::Busy { thread_id });
        }
        let active = agent.runs().active(Some(thread_id)).await?;
        let queued = agent.runs().queued(Some(thread_id)).await?;
        if active.is_empty() && queued.is_empty() { Ok(()) } else { Err(Error::Busy { thread_id }) }
    }

    /// Writes a run down as one that waits.
    async fn queue(
        &self,
        agent: &Agent,
        stream: &Arc<Stream>,
        place: Option<Place>,
        new_thread: Option<&NewThread>,
        request: &RunRequest,
    ) -> Result<(Run, Waiting)> {
        let place = place.map_or_else(|| self.places.take(&stream.scope), Ok)?;
        if let Some(new_thread) = new_thread {
            agent.threads().store_new(new_thread).await?;
        }
        let run = agent.runs().queue(stream.run_id, stream.thread_id, request).await?;
        Ok((run, Waiting::Run(Arc::clone(stream), place)))
    }

    /// Returns the run that another process works on, where a new one displaces it.
    async fn at_work(&self, agent: &Agent, thread_id: ThreadId, strategy: Multitask) -> Option<Run> {
        stopped_by(strategy)?;
        match agent.runs().active(Some(thread_id)).await {
            Ok(runs) => runs.into_iter().next(),
            Err(error) => {
                tracing::warn!(thread_id = %thread_id, %error, "failed to see what another process does on thread {thread_id}");
                None
            }
        }
    }

    /// Writes down that a run is to stop which a new one displaces, in whatever process it works.
    async fn displace(&self, agent: &Agent, displaced: Option<RunId>) {
        let Some(run_id) = displaced else { return };
        match agent.runs().stop_run(run_id).await {
            Ok(_) | Err(agent::Error::Run(agent::RunError::Unknown(_))) => {}
            Err(error) => tracing::warn!(run_id = %run_id, %error, "failed to stop run {run_id}"),
        }
    }

    fn created(
        self: &Arc<Self>,
        run: Run,
        request: Arc<RunRequest>,
        stream: &Arc<Stream>,
    ) -> Result<Created> {
        let live = Live::of(Arc::clone(stream), None, Arc::downgrade(self)).ok_or(Error::CutOff)?;
        Ok(Created { run, request, live: live.of_creator() })
    }
}

/// Returns how a run of that strategy stops what works on its thread.
const fn stopped_by(strategy: Multitask) -> Option<CancelAction> {
    match strategy {
        Multitask::Interrupt => Some(CancelAction::Interrupt),
        Multitask::Rollback => Some(CancelAction::Rollback),
        Multitask::Enqueue | Multitask::Reject => None,
    }
}

/// Tells the caller. One that went away meanwhile counts as a reader who left: what it was sent is dropped.
fn answer<T>(told: oneshot::Sender<Result<T>>, created: Result<T>) {
    drop(told.send(created));
}

/// Returns the run's thread, making it where that is asked for. One of its own is made with the run.
async fn thread_for(agent: &Agent, new: &NewRun, run_id: RunId) -> Result<(ThreadId, Option<NewThread>)> {
    if let (Some(thread_id), IfNotExists::Reject) = (new.thread_id, new.if_not_exists) {
        return Ok((thread_id, None));
    }
    if new.thread_id.is_none() {
        let thread = agent.threads().prepare_new(Map::new())?;
        let thread = if new.request.temporary { thread.temporary(run_id) } else { thread };
        return Ok((thread.thread_id(), Some(thread)));
    }
    let (thread, _) = agent.threads().ensure(new.thread_id, Map::new(), IfExists::DoNothing).await?;
    Ok((thread.thread_id, None))
}
