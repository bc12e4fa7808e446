//! Stopping a run, wherever it is: in a line, in this process, in another one, or in one that is gone. It returns when the
//! run has stopped.

use std::sync::Arc;

use agent::{Agent, CancellationToken, Frames, ThreadNews};
use protocol::{Run, RunId, RunRef, RunStatus, Scope, ThreadId};
use tokio::sync::oneshot;

use crate::Result;
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::limits::POLL;
use crate::line::{End, Lines, Put, Waiting, Who};
use crate::streams::stream::Stream;
use crate::work::Rested;

/// What becomes of a run that is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAction {
    /// It ends, and what it did stays.
    Interrupt,
    /// It is taken back and forgotten.
    Rollback,
}

impl Dispatch {
    /// Stops a run and returns when it has stopped. Of several who stop one run, the first decides what becomes of it, and
    /// all of them are answered when it has stopped. A run that waits ends without having begun.
    ///
    /// # Errors
    /// [`Error::UnknownRun`]; [`Error::Ended`] when it had come to its end before, or was to be taken back and another had
    /// it only interrupted; and when the journal fails.
    pub async fn cancel(
        self: &Arc<Self>,
        scope: &Scope,
        thread_id: ThreadId,
        run_id: RunId,
        action: CancelAction,
    ) -> Result<()> {
        let agent = self.agent(scope);
        let mut is_asked = false;
        loop {
            let run = match self.run(&agent, thread_id, run_id).await {
                // It was taken back, by this or by another.
                Err(Error::UnknownRun { .. }) if is_asked => return Ok(()),
                found => found?,
            };
            match run.status {
                RunStatus::Pending => {
                    if self.cancel_waiting(&agent, &run, action).await? {
                        return Ok(());
                    }
                }
                RunStatus::Running => self.stop_working(&agent, run, action).await?,
                RunStatus::Success
                | RunStatus::Error
                | RunStatus::Interrupted
                | RunStatus::Timeout
                | RunStatus::Cancelled => {
                    let is_done = is_asked && action == CancelAction::Interrupt;
                    let ended = Error::Ended { run_id, status: run.status };
                    return if is_done { Ok(()) } else { Err(ended) };
                }
            }
            is_asked = true;
        }
    }

    /// Waits for the end of a run and returns its row.
    ///
    /// # Errors
    /// [`Error::UnknownRun`], also when it is taken back meanwhile; [`Error::ShuttingDown`]; and when the journal fails.
    pub async fn join(self: &Arc<Self>, scope: &Scope, thread_id: ThreadId, run_id: RunId) -> Result<Run> {
        let agent = self.agent(scope);
        let mut news = agent.threads().commits_of(thread_id);
        loop {
            let run = self.run(&agent, thread_id, run_id).await?;
            if !run.status.is_active() {
                return Ok(run);
            }
            match self.streams.get(run_id) {
                Some(stream) if !stream.closed.is_cancelled() => stream.closed.cancelled().await,
                // It is driven by another process.
                Some(_) | None => self.wait_for(&mut news).await?,
            }
            if self.closing.is_cancelled() && self.streams.get(run_id).is_none() {
                return Err(Error::ShuttingDown);
            }
        }
    }

    /// Returns the thread's run.
    async fn run(&self, agent: &Agent, thread_id: ThreadId, run_id: RunId) -> Result<Run> {
        let found = agent.runs().get(run_id).await?;
        let of_thread = found.filter(|run| run.thread_id == thread_id);
        of_thread.ok_or(Error::UnknownRun { thread_id, run_id })
    }

    /// Ends a run that waits; says whether it still did.
    async fn cancel_waiting(
        self: &Arc<Self>,
        agent: &Agent,
        run: &Run,
        action: CancelAction,
    ) -> Result<bool> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        match agent.runs().cancel_queued(run_id).await {
            Ok(true) => {}
            // It began, and may have been taken back already.
            Ok(false) | Err(agent::Error::Run(agent::RunError::Unknown(_))) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let waited = self.lines.lock().remove(thread_id, run_id);
        let stream = self.streams.here(run_id);
        match (waited, &stream) {
            (Some(waited), Some(stream)) => {
                drop(waited);
                let told = self.tell_end(agent, stream).await;
                self.end_stream(stream, told);
            }
            // Its line was about to begin it, and finds that it cannot.
            (None, Some(stream)) => stream.closed.cancelled().await,
            (Some(_) | None, None) => {}
        }
        if action == CancelAction::Rollback {
            gone(agent.runs().forget(run_id).await)?;
            self.forget_stream(run_id);
        }
        Ok(true)
    }

    /// Has a run that works told to stop, wherever it works; says whether it works here as one that was asked for. That it
    /// is to stop is in the journal before anybody is answered: a crash does not forget it.
    async fn ask_to_stop(&self, agent: &Agent, run: RunRef, action: CancelAction) -> Result<bool> {
        // Noted first: it may stop by what the journal says.
        let here = self.lines.lock().mark(run.thread_id, Who::Run(run.run_id), action);
        let asked = agent.runs().stop_run(run.run_id).await;
        let is_here = here.inspect(CancellationToken::cancel).is_some();
        match asked {
            Ok(_) | Err(agent::Error::Run(agent::RunError::Unknown(_))) => Ok(is_here),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a run that works stop, and returns when it may have done so.
    async fn stop_working(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        run: Run,
        action: CancelAction,
    ) -> Result<()> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        let is_here = self.ask_to_stop(agent, run.run_ref(), action).await?;
        let stream = self.streams.here(run_id);
        if let Some(stream) = stream.filter(|stream| is_here || !stream.closed.is_cancelled()) {
            // What a handoff or a compaction does is a run too, which its stream stops. One that has come to rest, and whose
            // end is about to be told, minds no more.
            stream.cancel.cancel();
            stream.closed.cancelled().await;
            return Ok(());
        }
        // Where another run works here, this one has ended, or the other is about to make room for it.
        let works_here = self.lines.lock().working(thread_id);
        if let Some(Who::Run(_)) = works_here {
            return self.wait_a_moment().await;
        }
        match self.run(agent, thread_id, run_id).await {
            Ok(run) if run.status == RunStatus::Running => {}
            Ok(_) | Err(Error::UnknownRun { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let (agent, scope) = (Arc::clone(agent), Scope::Owner(run.assistant_id.owner()));
        let work = move |_| async move { see_it_end(&agent, run, action).await };
        // However many wait, a run can be stopped.
        let place = self.places.take_anyway(&scope);
        self.alone(&scope, thread_id, place, End::Front, work).await?
    }

    /// Has a run stop, and returns when it is certain to: one that waits has ended by then, one that works has been told and
    /// stops behind this call.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn stop(self: &Arc<Self>, scope: &Scope, run: &Run, action: CancelAction) -> Result<()> {
        let agent = self.agent(scope);
        if run.status == RunStatus::Pending && self.cancel_waiting(&agent, run, action).await? {
            return Ok(());
        }
        if !self.ask_to_stop(&agent, run.run_ref(), action).await? {
            self.stop_behind(scope, run.run_ref(), action);
        }
        Ok(())
    }

    /// Stops a run because whoever wanted it has gone away; nobody waits for that.
    pub(crate) fn cancel_behind(self: &Arc<Self>, stream: &Stream, action: CancelAction) {
        let run = stream.run_ref();
        let is_stopped = self.lines.lock().stop(run.thread_id, Who::Run(run.run_id), action);
        if !is_stopped && !self.closing.is_cancelled() {
            self.stop_behind(&stream.scope, run, action);
        }
    }

    /// Stops a run on a task that shutting down waits for as long as it waits for runs.
    pub(crate) fn stop_behind(self: &Arc<Self>, scope: &Scope, run: RunRef, action: CancelAction) {
        let (dispatch, scope) = (Arc::clone(self), scope.clone());
        let RunRef { thread_id, run_id } = run;
        self.spawn(async move {
            let stopped = tokio::select! {
                () = dispatch.halt.cancelled() => return,
                stopped = dispatch.cancel(&scope, thread_id, run_id, action) => stopped,
            };
            match stopped {
                Ok(()) | Err(Error::Ended { .. } | Error::UnknownRun { .. } | Error::ShuttingDown) => {}
                Err(error) => tracing::warn!(run_id = %run_id, %error, "failed to stop run {run_id}"),
            }
        });
    }

    /// Takes a run of another process back once it has stopped, before anything else is done on its thread.
    pub(crate) fn take_back_first(self: &Arc<Self>, lines: &mut Lines, agent: &Arc<Agent>, run: Run) {
        let (ticket, granted) = oneshot::channel();
        let place = self.places.take_anyway(&Scope::Owner(run.assistant_id.owner()));
        let waiting = Waiting::Exclusive(ticket, End::Front, place);
        if lines.put(run.thread_id, waiting, End::Front) == Put::IsNew {
            let line = Arc::clone(self).go_on(run.thread_id, Rested::Others);
            self.tasks.spawn(line);
        }
        let (agent, halt) = (Arc::clone(agent), self.halt.clone());
        self.tasks.spawn(async move {
            let Ok(grant) = granted.await else { return };
            let run_id = run.run_id;
            let taken_back = tokio::select! {
                () = halt.cancelled() => return,
                taken_back = see_it_end(&agent, run, CancelAction::Rollback) => taken_back,
            };
            if let Err(error) = taken_back {
                tracing::warn!(run_id = %run_id, %error, "failed to take run {run_id} back");
            }
            drop(grant);
        });
    }

    /// Waits until something happens on a thread elsewhere.
    async fn wait_for(&self, news: &mut ThreadNews) -> Result<()> {
        tokio::select! {
            () = news.changed() => Ok(()),
            waited = self.wait_a_moment() => waited,
        }
    }

    async fn wait_a_moment(&self) -> Result<()> {
        tokio::select! {
            () = tokio::time::sleep(POLL) => Ok(()),
            () = self.closing.cancelled() => Err(Error::ShuttingDown),
        }
    }
}

/// Waits until a run that was asked to stop in another process has done so, and takes it back if that was wanted. One whose
/// process is gone is ended here.
async fn see_it_end(agent: &Agent, run: Run, action: CancelAction) -> Result<()> {
    let mut news = agent.threads().commits_of(run.thread_id);
    loop {
        let now = agent.runs().get(run.run_id).await?;
        let Some(now) = now.filter(|now| now.status.is_active()) else { break };
        if agent.runs().is_cut_off(&now) {
            let stopped = CancellationToken::new();
            stopped.cancel();
            match agent.runs().recover(run.thread_id, &Frames::default(), &stopped).await {
                Err(error) if error.class() != agent::Class::Conflict => return Err(error.into()),
                Ok(_) => continue,
                Err(_) => {}
            }
        }
        tokio::select! {
            () = news.changed() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
    if action == CancelAction::Rollback {
        gone(agent.runs().roll_back(run.run_id).await)?;
    }
    Ok(())
}

/// A run that somebody else took back first is as gone as it was to be.
fn gone(done: agent::Result<()>) -> agent::Result<()> {
    match done {
        Err(agent::Error::Run(agent::RunError::Unknown(_))) => Ok(()),
        done => done,
    }
}
