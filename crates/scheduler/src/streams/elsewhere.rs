//! Runs that another process drives, told here: each has a stream like those of this process, fed from the journal for as
//! long as somebody looks on. How the journal tells of a run is not decided here.

use std::sync::{Arc, Weak};

use agent::{CancellationToken, Retelling, Retold, RunFilter, ThreadNews};
use protocol::{Run, RunRef, RunStatus, Scope, ThreadId};

use crate::Result;
use crate::dispatch::Dispatch;
use crate::limits::{NET, THREAD_NET, THREAD_RUNS_BEHIND_MAX};
use crate::streams::ScopedThread;
use crate::streams::live::{Live, StreamPosition};
use crate::streams::stream::Stream;

/// The telling of one run.
struct Told {
    stream: Arc<Stream>,
    retelling: Retelling,
    news: ThreadNews,
}

impl Dispatch {
    /// Returns a reader of a run wherever it works, as [`Self::live`] does of one that works here; `None` when it has ended and
    /// is not kept.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn follow(
        self: &Arc<Self>,
        scope: &Scope,
        run: &Run,
        after: Option<StreamPosition>,
    ) -> Result<Option<Live>> {
        let live = self.live(run.run_id, after);
        if live.is_some() || !run.status.is_active() {
            return Ok(live);
        }
        let stream = self.retell(run.run_ref(), scope, Keep::WhileRead).await?;
        Ok(Live::of(stream, after, Arc::downgrade(self)))
    }

    /// Returns a reader of all that the journal tells of a run that has ended, and whose stream is kept nowhere here.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn retold(self: &Arc<Self>, scope: &Scope, run: &Run) -> Result<Option<Live>> {
        let stream = Arc::new(Stream::elsewhere(run.run_ref(), scope));
        let news = self.agent(scope).threads().commits_of(run.thread_id);
        let mut told = Told { stream, retelling: Retelling::new(run.thread_id, run.run_id), news };
        told.go_on(self).await?;
        told.stream.closed.cancel();
        Ok(Live::of(told.stream, None, Arc::downgrade(self)))
    }

    /// Opens the stream of a run that another process drives.
    async fn retell(self: &Arc<Self>, run: RunRef, scope: &Scope, keep: Keep) -> Result<Arc<Stream>> {
        let agent = self.agent(scope);
        let stream = Arc::new(Stream::elsewhere(run, scope));
        if keep == Keep::AfterItsEnd {
            stream.keep();
        }
        // Whatever is committed from here on is heard.
        let news = agent.threads().commits_of(run.thread_id);
        let mut told = Told { stream, retelling: Retelling::new(run.thread_id, run.run_id), news };
        let so_far = told.go_on(self).await?;
        let opened = self.streams.open_elsewhere(&told.stream);
        if !Arc::ptr_eq(&opened, &told.stream) {
            return Ok(opened);
        }
        match so_far {
            Retold::Whole => drop(self.streams.close(&opened, std::time::Instant::now())),
            Retold::SoFar => self.spawn(told.until_its_end(Arc::downgrade(self), self.closing.clone())),
        }
        Ok(opened)
    }

    /// Looks for runs of other processes on a thread for as long as somebody follows it.
    pub(crate) fn watch_thread(self: &Arc<Self>, scope: &Scope, thread_id: ThreadId) {
        let news = self.everyone.threads().commits_of(thread_id);
        self.spawn(watch(Arc::downgrade(self), ScopedThread { thread_id, scope: scope.clone() }, news));
    }

    /// Tells those who follow the thread of runs that began in other processes since the last look, and at the first of those
    /// that work.
    async fn look_for_others(self: &Arc<Self>, whose: &ScopedThread, look: Look) -> Result<()> {
        let ScopedThread { thread_id, scope } = whose;
        let agent = self.agent(scope);
        let filter =
            RunFilter { thread_id: Some(*thread_id), limit: THREAD_RUNS_BEHIND_MAX, ..RunFilter::default() };
        let mut newest = agent.runs().list(filter).await?;
        newest.retain(|run| run.status != RunStatus::Pending && !self.everyone.runs().is_ours(run));
        if look == Look::First {
            let (work, over): (Vec<Run>, Vec<Run>) =
                newest.into_iter().partition(|run| run.status.is_active());
            self.streams.pass(whose, over.iter().map(|run| run.run_id));
            newest = work;
        }
        let ids = newest.iter().rev().map(|run| run.run_id).collect();
        for run_id in self.streams.untold(whose, ids) {
            let stream =
                self.retell(RunRef { thread_id: *thread_id, run_id }, scope, Keep::AfterItsEnd).await?;
            self.streams.begun(&stream);
        }
        Ok(())
    }
}

/// What becomes of a stream when nobody reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    WhileRead,
    AfterItsEnd,
}

/// Which look at a thread it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    Later,
}

impl Told {
    async fn go_on(&mut self, dispatch: &Dispatch) -> Result<Retold> {
        let agent = dispatch.agent(&self.stream.scope);
        let told = agent.runs().retell(&mut self.retelling, &self.stream.frames).await;
        self.stream.was_retold(&self.retelling, None);
        Ok(told?)
    }

    /// Tells what becomes durable until the run has ended, works here, or nobody looks on.
    async fn until_its_end(mut self, dispatch: Weak<Dispatch>, closing: CancellationToken) {
        let closed = self.stream.closed.clone();
        loop {
            tokio::select! {
                () = closing.cancelled() => return,
                () = closed.cancelled() => return,
                () = self.news.changed() => {}
                () = tokio::time::sleep(NET) => {}
            }
            let Some(dispatch) = dispatch.upgrade() else { return };
            if !self.stream.is_read() && !self.stream.is_kept() {
                return dispatch.streams.discard(&self.stream);
            }
            let run_id = self.stream.run_id;
            match self.go_on(&dispatch).await {
                Ok(Retold::SoFar) => {}
                Ok(Retold::Whole) => return dispatch.close(&self.stream),
                Err(error) => {
                    tracing::warn!(run_id = %run_id, %error, "failed to follow run {run_id} in another process");
                }
            }
        }
    }
}

async fn watch(dispatch: Weak<Dispatch>, whose: ScopedThread, mut news: ThreadNews) {
    let mut look = Look::First;
    loop {
        let Some(dispatch) = dispatch.upgrade().filter(|dispatch| dispatch.streams.is_followed(&whose))
        else {
            return;
        };
        match dispatch.look_for_others(&whose, look).await {
            Ok(()) => look = Look::Later,
            Err(error) => {
                tracing::warn!(thread_id = %whose.thread_id, %error, "failed to look for runs of other processes on thread {}", whose.thread_id)
            }
        }
        dispatch.streams.changed(&whose);
        let closing = dispatch.closing.clone();
        drop(dispatch);
        tokio::select! {
            () = closing.cancelled() => return,
            () = news.changed() => {}
            () = tokio::time::sleep(THREAD_NET) => {}
        }
    }
}
