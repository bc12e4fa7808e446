//! The work on a thread's line: one task a busy thread, which begins one after the other, drives it to its end, and waits
//! for what another process does there.

pub(crate) mod exclusive;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent::{Agent, Begun, Class, Cut, Retelling, Retold};
use futures::FutureExt;
use protocol::{FailureKind, Run, RunFailure, RunId, RunRef, RunStatus, Scope, ThreadId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::cancel::CancelAction;
use crate::dispatch::Dispatch;
use crate::limits::{ATTEMPTS_MAX, CONFLICTS_MAX, POLL, SOON};
use crate::line::{Behind, End, Grant, Place, Waiting, Who};
use crate::streams::stream::Stream;

/// How a run ends that panicked.
const PANICKED: &str = "it failed in the middle for a fault of the program: it panicked";

/// How a thread is left when what worked on it has come to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rested {
    /// Nobody waits; the line is gone.
    Alone,
    /// Others wait.
    Others,
    /// Another process works on the thread, or nobody knows how it stands; the line is held.
    Elsewhere,
    /// The server stops; nothing more is done.
    Halted,
}

/// What the readers of a run were told that is not driven here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// How it ended.
    End,
    /// Nothing: it goes on somewhere else, or nobody knows.
    Nothing,
}

impl Dispatch {
    /// Works through the thread's line until nobody is left in it.
    pub(crate) async fn go_on(self: Arc<Self>, thread_id: ThreadId, mut rested: Rested) {
        loop {
            match rested {
                Rested::Alone | Rested::Halted => return,
                Rested::Elsewhere => {
                    rested = self.wait_elsewhere(thread_id).await;
                    continue;
                }
                Rested::Others => {}
            }
            // What is no run needs no leave: it may be there to stop one.
            let is_run = self.lines.lock().is_run_next(thread_id);
            let permit = match is_run {
                true => match Arc::clone(&self.permits).acquire_owned().await {
                    Ok(permit) => Some(permit),
                    // The server stops.
                    Err(_) => return,
                },
                false => None,
            };
            let next = self.lines.lock().take(thread_id);
            rested = match (next, permit) {
                (None, _) => Rested::Alone,
                // It came to the front meanwhile.
                (Some(run @ Waiting::Run(..)), None) => {
                    let mut lines = self.lines.lock();
                    lines.rested(thread_id);
                    lines.put_first(thread_id, run);
                    Rested::Others
                }
                (Some(Waiting::Run(stream, place)), Some(permit)) => {
                    let working = self.begin_waiting(stream, place, permit);
                    match AssertUnwindSafe(working).catch_unwind().await {
                        Ok(rested) => rested,
                        Err(_) => self.panicked(thread_id).await,
                    }
                }
                (Some(Waiting::Exclusive(ticket, _, place)), _) => {
                    drop(place);
                    self.let_work(thread_id, ticket).await
                }
            };
        }
    }

    /// Ends a run that panicked before it was driven. Where that cannot be, its thread is held until it is known what became
    /// of it. The others go on.
    pub(crate) async fn panicked(self: &Arc<Self>, thread_id: ThreadId) -> Rested {
        tracing::error!(thread_id = %thread_id, "failed to begin a run on thread {thread_id}: it panicked");
        let working = self.lines.lock().working(thread_id);
        if let Some(Who::Run(run_id)) = working
            && let Some(stream) = self.streams.here(run_id)
        {
            let agent = self.agent(&stream.scope);
            return self.fell(&agent, &stream).await;
        }
        self.lines.lock().put_back(thread_id, None);
        Rested::Elsewhere
    }

    /// Drives a run that has begun to its end, and leaves its thread.
    pub(crate) async fn drive(
        self: &Arc<Self>,
        agent: &Agent,
        begun: Begun,
        stream: &Arc<Stream>,
        permit: OwnedSemaphorePermit,
    ) -> Rested {
        let driven = agent.runs().drive_begun(begun, &stream.frames, &stream.cancel);
        let ended = tokio::select! {
            biased;
            ended = AssertUnwindSafe(driven).catch_unwind() => ended,
            () = self.halt.cancelled() => return Rested::Halted,
        };
        drop(permit);
        let problem = match ended {
            Ok(Ok(_)) => return self.ended(agent, stream).await,
            Ok(Err(error)) if error.is_halted() => return Rested::Halted,
            Ok(Err(error)) => {
                self.note_lost(&error);
                format!("failed to {error}")
            }
            Err(_) => return self.fell(agent, stream).await,
        };
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        tracing::warn!(run_id = %run_id, thread_id = %thread_id, "run {run_id} stopped in the middle: {problem}");
        self.cut_off(agent, stream, problem).await
    }

    /// Counts a run that another process took over.
    fn note_lost(&self, error: &agent::Error) {
        if error.class() == Class::Conflict {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends a run that panicked: it alone fails, and at once.
    async fn fell(self: &Arc<Self>, agent: &Agent, stream: &Arc<Stream>) -> Rested {
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        tracing::error!(run_id = %run_id, thread_id = %thread_id, "run {run_id} panicked");
        match agent.runs().fail(run_id, PANICKED).await {
            Ok(_) => self.came_to_nothing(agent, stream).await,
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which panicked");
                self.cut_off(agent, stream, PANICKED.to_owned()).await
            }
        }
    }

    /// Finds out what became of a run whose driver failed: the journal may have failed, or another process took it over.
    async fn cut_off(self: &Arc<Self>, agent: &Agent, stream: &Arc<Stream>, problem: String) -> Rested {
        match agent.runs().get(stream.run_id).await {
            Ok(Some(run)) if !run.status.is_active() => return self.ended_elsewhere(agent, stream).await,
            // It never was durable.
            Ok(None) => {
                stream.tell_end(RunStatus::Error, Some(RunFailure::new(FailureKind::Internal, problem)));
                return self.ended(agent, stream).await;
            }
            // It waited, and its beginning was not durable yet. Where it cannot be ended either, a later look begins it.
            Ok(Some(run)) if run.status == RunStatus::Pending => {
                if let Err(error) = agent.runs().fail(stream.run_id, &problem).await {
                    tracing::warn!(run_id = %stream.run_id, %error, "failed to end run {}, which cannot begin", stream.run_id);
                }
                return self.never_began(agent, stream).await;
            }
            // Its row says that it works; it goes on from there, here or elsewhere.
            Ok(Some(_)) | Err(_) => {}
        }
        self.hold(stream)
    }

    /// Leaves the thread of a run that has ended: takes back what it did if that was asked, lets the next one come, and ends
    /// the stream. The rows are final before anybody sees the end.
    async fn ended(self: &Arc<Self>, agent: &Agent, stream: &Arc<Stream>) -> Rested {
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        let stopped = self.lines.lock().rested(thread_id);
        if stopped == Some(CancelAction::Rollback) {
            match agent.runs().roll_back(run_id).await {
                // Nothing is left that its stream could be of.
                Ok(()) => stream.let_go(),
                Err(error) => tracing::warn!(run_id = %run_id, %error, "failed to take run {run_id} back"),
            }
        }
        let rested = self.leave(thread_id);
        self.close(stream);
        self.settle_later(&stream.scope);
        rested
    }

    /// Begins a run that waited.
    async fn begin_waiting(
        self: &Arc<Self>,
        stream: Arc<Stream>,
        place: Place,
        permit: OwnedSemaphorePermit,
    ) -> Rested {
        let agent = self.agent(&stream.scope);
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        if self.goes_behind(stream.run_ref(), stream.end).await {
            return self.wait_behind(&agent, stream, place).await;
        }
        let mut attempts = 0;
        let error = loop {
            let begun = match agent.runs().request(run_id).await {
                Ok(Some(request)) => {
                    agent.runs().begin_queued(run_id, thread_id, &request, &stream.frames).await
                }
                // It was cancelled, and is forgotten.
                Ok(None) => return self.never_began(&agent, &stream).await,
                Err(error) => Err(error),
            };
            match begun {
                Ok(begun) => {
                    drop(place);
                    self.streams.begun(&stream);
                    return self.drive(&agent, begun, &stream, permit).await;
                }
                Err(error) if error.is_outrun() => {
                    if !self.waits(&agent, &stream).await {
                        return self.never_began(&agent, &stream).await;
                    }
                    if self.conflicts(&agent, &stream).await > CONFLICTS_MAX {
                        break error;
                    }
                    return self.wait_behind(&agent, stream, place).await;
                }
                Err(error) if error.class() == Class::Store && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    if self.pause().await.is_break() {
                        return Rested::Halted;
                    }
                }
                Err(error) => break error,
            }
        };
        tracing::warn!(run_id = %run_id, thread_id = %thread_id, %error, "failed to begin run {run_id}, which waited");
        // What cannot begin does not wait for ever.
        let why = format!("failed to {error}");
        if let Err(error) = agent.runs().fail(run_id, &why).await {
            tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which cannot begin");
        }
        self.never_began(&agent, &stream).await
    }

    /// Has a run go on waiting, at the front of its line, for what another process does on its thread; unless somebody stopped
    /// it meanwhile.
    async fn wait_behind(self: &Arc<Self>, agent: &Agent, stream: Arc<Stream>, place: Place) -> Rested {
        let stopped = {
            let mut lines = self.lines.lock();
            let stopped = lines.rested(stream.thread_id);
            if stopped.is_none() {
                lines.put_back(stream.thread_id, Some(Waiting::Run(stream, place)));
                return Rested::Elsewhere;
            }
            stopped
        };
        self.stopped_waiting(agent, &stream, stopped).await
    }

    /// Returns how often a run that is to begin met another one since something last happened on its thread.
    async fn conflicts(&self, agent: &Agent, stream: &Stream) -> u32 {
        let newest = match agent.threads().get(stream.thread_id).await {
            Ok(thread) => thread.map_or(0, |thread| thread.last_seq),
            // Nobody knows; it counts as nothing.
            Err(_) => stream.met_at.load(Ordering::Relaxed),
        };
        if stream.met_at.swap(newest, Ordering::Relaxed) != newest {
            stream.conflicts.store(0, Ordering::Relaxed);
        }
        stream.conflicts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends a run that was to begin and was stopped before it did.
    pub(crate) async fn stopped_waiting(
        self: &Arc<Self>,
        agent: &Agent,
        stream: &Arc<Stream>,
        stopped: Option<CancelAction>,
    ) -> Rested {
        let run_id = stream.run_id;
        if let Err(error) = agent.runs().cancel_queued(run_id).await {
            tracing::warn!(run_id = %run_id, %error, "failed to stop run {run_id}, which waits");
        }
        let told = self.tell_end(agent, stream).await;
        if stopped == Some(CancelAction::Rollback)
            && let Err(error) = agent.runs().forget(run_id).await
        {
            tracing::warn!(run_id = %run_id, %error, "failed to forget run {run_id}");
        }
        let rested = self.leave(stream.thread_id);
        self.end_stream(stream, told);
        rested
    }

    /// Returns whether the run's row says that it waits.
    async fn waits(&self, agent: &Agent, stream: &Stream) -> bool {
        match agent.runs().get(stream.run_id).await {
            Ok(row) => row.is_some_and(|run| run.status == RunStatus::Pending),
            // Nobody knows; it is tried again.
            Err(_) => true,
        }
    }

    /// Leaves the thread of a run that does not begin here when its turn comes: somebody stopped it, or took it over. Nothing
    /// is taken back, whoever wanted that.
    async fn never_began(self: &Arc<Self>, agent: &Agent, stream: &Arc<Stream>) -> Rested {
        let told = self.tell_end(agent, stream).await;
        let rested = self.leave(stream.thread_id);
        self.end_stream(stream, told);
        rested
    }

    /// Ends the stream of a run that is not driven here.
    pub(crate) fn end_stream(self: &Arc<Self>, stream: &Arc<Stream>, told: Told) {
        match told {
            Told::End => self.close(stream),
            Told::Nothing => self.streams.discard(stream),
        }
    }

    /// Leaves the thread of a run that had begun and came to its end without its driver. Where that cannot be seen, the thread
    /// is held until it can.
    async fn came_to_nothing(self: &Arc<Self>, agent: &Agent, stream: &Arc<Stream>) -> Rested {
        match self.tell_end(agent, stream).await {
            Told::End => self.ended(agent, stream).await,
            Told::Nothing => self.hold(stream),
        }
    }

    /// Leaves the thread of a run that somebody else ended: what was done there this stream has not told, and its readers go on
    /// with what the journal tells.
    async fn ended_elsewhere(self: &Arc<Self>, agent: &Agent, stream: &Arc<Stream>) -> Rested {
        self.streams.discard(stream);
        self.ended(agent, stream).await
    }

    /// Tells how the run ended, where no driver did.
    pub(crate) async fn tell_end(&self, agent: &Agent, stream: &Stream) -> Told {
        match agent.runs().get(stream.run_id).await {
            Ok(Some(run)) if !run.status.is_active() => stream.tell_end(run.status, run.failure),
            Ok(None) => stream
                .tell_end(RunStatus::Cancelled, RunFailure::from_stored_text(RunStatus::Cancelled, None)),
            Ok(Some(_)) | Err(_) => return Told::Nothing,
        }
        Told::End
    }

    /// Lets somebody work alone on the thread, and waits for the end of it.
    async fn let_work(&self, thread_id: ThreadId, ticket: oneshot::Sender<Grant>) -> Rested {
        let (grant, mut granted) = Grant::new(self.lines.lock().cancel_of(thread_id));
        if ticket.send(grant).is_ok() {
            granted.is_done().await;
        }
        self.leave(thread_id)
    }

    /// Waits until no other process works on the thread, or is to go first. A run whose process is gone is gone on with here.
    async fn wait_elsewhere(self: &Arc<Self>, thread_id: ThreadId) -> Rested {
        let mut news = self.everyone.threads().commits_of(thread_id);
        let (mut attempts, mut looks, mut failures) = (0, 0, 0);
        loop {
            looks += 1;
            let mut pause = POLL;
            match self.everyone.runs().active(Some(thread_id)).await {
                Ok(runs) => match runs.into_iter().next() {
                    // Where nothing works, something came and went; it is not tried again in the same moment.
                    None if looks == 1 => pause = SOON,
                    None if self.is_behind(thread_id).await => {}
                    None => break,
                    Some(run) if self.is_left(&run) => {
                        attempts += 1;
                        match self.resume(run, attempts).await {
                            Rested::Elsewhere => {}
                            rested => return rested,
                        }
                    }
                    // Its own process goes on with it, and nobody here minds.
                    Some(run)
                        if !self.everyone.runs().is_ours(&run)
                            && !self.lines.lock().is_waited_for(thread_id) =>
                    {
                        break;
                    }
                    Some(_) => {}
                },
                Err(error) => {
                    failures += 1;
                    if failures > ATTEMPTS_MAX {
                        tracing::warn!(thread_id = %thread_id, %error, "failed to see what works on thread {thread_id}");
                        break;
                    }
                }
            }
            tokio::select! {
                () = news.changed() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.closing.cancelled() => return Rested::Halted,
            }
        }
        self.leave(thread_id)
    }

    /// Returns whether nobody works on the run: its process is gone, or it is this one, which does not.
    fn is_left(&self, run: &Run) -> bool {
        let is_lost = || self.everyone.runs().is_ours(run) && !self.streams.is_open(run.run_id);
        self.everyone.runs().is_cut_off(run) || is_lost()
    }

    /// Returns whether a run that waits in another process goes before the one that is next here.
    async fn is_behind(&self, thread_id: ThreadId) -> bool {
        let next = self.lines.lock().next_run(thread_id);
        match next {
            Some((run_id, end)) => self.goes_behind(RunRef { thread_id, run_id }, end).await,
            None => false,
        }
    }

    /// Returns whether a run that waits in another process goes before this one: those that displace what works go first, and
    /// then those that came first.
    pub(crate) async fn goes_behind(&self, run: RunRef, end: End) -> bool {
        let RunRef { thread_id, run_id } = run;
        let runs = self.everyone.runs();
        // Where it cannot be read, it cannot begin either.
        let Ok(queued) = runs.queued(Some(thread_id)).await else { return false };
        let own = queued.iter().find(|run| run.run_id == run_id).map(|run| (run.created_at, run.run_id));
        let others: Vec<Run> = queued
            .into_iter()
            .filter(|run| run.run_id != run_id && !self.streams.is_open(run.run_id))
            .collect();
        if others.is_empty() {
            return false;
        }
        let ids: Vec<RunId> = others.iter().map(|run| run.run_id).collect();
        let Ok(requests) = runs.requests(&ids).await else { return false };
        let rank = |end| if end == End::Displacing { 0 } else { 1 };
        others.iter().any(|other| {
            let asked = requests.iter().find(|(run_id, _)| *run_id == other.run_id);
            let end_of = asked.map_or(End::Back, |(_, request)| End::of(request.multitask_strategy));
            let place = (rank(end_of), Some((other.created_at, other.run_id)));
            match own {
                Some(own) => place < (rank(end), Some(own)),
                // It is not written down yet, and comes last of its kind.
                None => place.0 <= rank(end),
            }
        })
    }

    /// Goes on with a run whose process is gone, on a thread that is held for it. Whoever reads its stream sees the rest.
    pub(crate) async fn resume(self: &Arc<Self>, run: Run, attempts: u32) -> Rested {
        let scope = Scope::Owner(run.assistant_id.owner());
        let agent = self.agent(&scope);
        let (run_id, thread_id) = (run.run_id, run.thread_id);
        match agent.runs().is_of_here(thread_id).await {
            Ok(true) => {}
            Ok(false) => return self.pass_over(&agent, run).await,
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to see where run {run_id} was begun")
            }
        }
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return Rested::Halted };
        let Some(run) = self.claimed(run).await else { return Rested::Elsewhere };
        let Ok(Some(thread)) = agent.threads().get(thread_id).await else { return Rested::Elsewhere };
        let request = agent.runs().request(run_id).await.ok().flatten().unwrap_or_default();
        let stream = Arc::new(Stream::waited(RunRef { thread_id, run_id }, &scope, &request));
        // Whoever read of it elsewhere goes on with this one: what is stored of it has the same places here.
        let mut retelling = Retelling::new(thread_id, run_id);
        match agent.runs().retell(&mut retelling, &stream.frames).await {
            Ok(Retold::SoFar) => {}
            // It has ended after all.
            Ok(Retold::Whole) => return Rested::Elsewhere,
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to read what run {run_id} has done");
                return Rested::Elsewhere;
            }
        }
        let cut = Cut { after: retelling.newest(), until: thread.last_seq + 1 };
        stream.was_retold(&retelling, Some(cut));
        self.lines.lock().take_over(thread_id, &stream);
        self.streams.open(&stream);
        self.streams.begun(&stream);
        let recovered = agent.runs().go_on(&run, &stream.frames, &stream.cancel);
        let ended = tokio::select! {
            biased;
            ended = AssertUnwindSafe(recovered).catch_unwind() => ended,
            () = self.halt.cancelled() => return Rested::Halted,
        };
        drop(permit);
        let problem = match ended {
            Ok(Ok(Some(end))) if end.run_id == run_id => return self.ended(&agent, &stream).await,
            // It ended before it could be taken over, or cannot go on in this version.
            Ok(Ok(_)) => return self.ended_elsewhere(&agent, &stream).await,
            Ok(Err(error)) if error.is_halted() => return Rested::Halted,
            Ok(Err(error)) if error.class() == Class::Conflict => {
                self.note_lost(&error);
                return self.hold(&stream);
            }
            Ok(Err(error)) if error.is_lease_end() => return self.hold(&stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => return self.fell(&agent, &stream).await,
        };
        tracing::warn!(run_id = %run_id, thread_id = %thread_id, "failed to go on with run {run_id}: {problem}");
        if attempts < ATTEMPTS_MAX {
            return self.hold(&stream);
        }
        if let Err(error) = agent.runs().fail(run_id, &format!("failed to {problem}")).await {
            tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which cannot go on");
        }
        self.came_to_nothing(&agent, &stream).await
    }

    /// Takes a run that nobody works on, and returns it as it was; `None` when another process was faster.
    async fn claimed(&self, run: Run) -> Option<Run> {
        if self.everyone.runs().is_ours(&run) {
            return Some(run);
        }
        match self.everyone.runs().claim(vec![run.run_id]).await {
            Ok(claimed) => {
                self.counts.taken_over.fetch_add(claimed.len(), Ordering::Relaxed);
                claimed.into_iter().next()
            }
            Err(error) => {
                tracing::warn!(run_id = %run.run_id, %error, "failed to take over run {}", run.run_id);
                None
            }
        }
    }

    /// Leaves a run alone that was begun in another folder, where somebody goes on with it; one that is in the way of
    /// others is ended.
    async fn pass_over(&self, agent: &Agent, run: Run) -> Rested {
        let (run_id, thread_id) = (run.run_id, run.thread_id);
        if !self.lines.lock().is_waited_for(thread_id) {
            return self.leave(thread_id);
        }
        if let Err(error) = agent.runs().end_cut_off(thread_id).await {
            tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which was begun in another folder");
        }
        Rested::Elsewhere
    }

    /// Holds the thread until it is known what becomes of a run that nobody drives here any more.
    fn hold(&self, stream: &Stream) -> Rested {
        self.streams.discard(stream);
        self.lines.lock().put_back(stream.thread_id, None);
        Rested::Elsewhere
    }

    /// Leaves a thread on which nothing works.
    pub(crate) fn leave(&self, thread_id: ThreadId) -> Rested {
        let mut lines = self.lines.lock();
        lines.rested(thread_id);
        match lines.leave(thread_id) {
            Behind::Some => Rested::Others,
            Behind::Nobody => Rested::Alone,
        }
    }

    /// Waits a moment before something is tried again; a break when the server stops.
    async fn pause(&self) -> std::ops::ControlFlow<()> {
        tokio::select! {
            () = tokio::time::sleep(POLL) => std::ops::ControlFlow::Continue(()),
            () = self.closing.cancelled() => std::ops::ControlFlow::Break(()),
        }
    }
}
