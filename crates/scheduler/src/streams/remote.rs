//! Streams of runs that another process drives. Each has a stream like a local run, filled from the journal while it
//! has readers. How events become frames is decided by `agent`'s replay.
//!
//! The journal is read after each commit notification, and additionally at a fixed interval, because a notification can
//! be lost when a connection breaks. Text that is not stored yet is not visible here; a message arrives as a whole.

use futures::future::BoxFuture;
use std::sync::{Arc, Weak};

use agent::{CancellationToken, Replay, ReplayStatus, RunFilter, ThreadSubscription};
use protocol::{OwnerScope, Run, RunRef, RunStatus, ThreadId};

use crate::Result;
use crate::limits::{FOLLOWED_THREAD_POLL_INTERVAL, REMOTE_RUN_POLL_INTERVAL, THREAD_READER_LAG_MAX};
use crate::scheduler::Scheduler;
use crate::streams::ScopedThread;
use crate::streams::run_reader::{RunReader, StreamPosition};
use crate::streams::stream::RunStream;

/// The replay of one remote run into its stream.
struct RemoteReplay {
    stream: Arc<RunStream>,
    replay: Replay,
    /// Notifications of commits on the run's thread.
    commits: ThreadSubscription,
}

impl Scheduler {
    /// Returns a reader of a run in any process: like [`Self::run_reader`] for a local run, and through the journal for
    /// an active run of another process. Returns `None` if the run has ended and its stream is not kept.
    ///
    /// # Errors
    /// [`crate::Error::Agent`] if the journal fails.
    pub fn follow_run<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        run: &'a Run,
        after: Option<StreamPosition>,
    ) -> BoxFuture<'a, Result<Option<RunReader>>> {
        agent::box_future(async move {
            let reader = self.run_reader(run.run_id, after);
            if reader.is_some() || !run.status.is_active() {
                return Ok(reader);
            }
            let stream = self.open_remote_stream(run.run_ref(), scope, RemoteRetention::WhileRead).await?;
            Ok(RunReader::open(stream, after, Arc::downgrade(self)))
        })
    }

    /// Returns a reader of an ended run's events from the journal, for a run whose stream is not kept here.
    ///
    /// # Errors
    /// [`crate::Error::Agent`] if the journal fails.
    pub fn replay_ended_run<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Option<RunReader>>> {
        agent::box_future(async move {
            let stream = Arc::new(RunStream::new_remote(run.run_ref(), scope));
            let commits = self.agent(scope).threads().subscribe_thread_commits(run.thread_id);
            let mut replay = RemoteReplay { stream, replay: Replay::new(run.thread_id, run.run_id), commits };
            replay.replay_committed(self).await?;
            replay.stream.closed.cancel();
            Ok(RunReader::open(replay.stream, None, Arc::downgrade(self)))
        })
    }

    /// Opens the stream of a run that another process drives, and follows the run in the background.
    async fn open_remote_stream(
        self: &Arc<Self>,
        run: RunRef,
        scope: &OwnerScope,
        retention: RemoteRetention,
    ) -> Result<Arc<RunStream>> {
        let agent = self.agent(scope);
        let stream = Arc::new(RunStream::new_remote(run, scope));
        if retention == RemoteRetention::AfterEnd {
            stream.retain();
        }
        // Subscribed before the first read, so that no commit is missed.
        let commits = agent.threads().subscribe_thread_commits(run.thread_id);
        let mut replay = RemoteReplay { stream, replay: Replay::new(run.thread_id, run.run_id), commits };
        let status = replay.replay_committed(self).await?;
        let opened = self.streams.open_remote(&replay.stream);
        if !Arc::ptr_eq(&opened, &replay.stream) {
            return Ok(opened);
        }
        match status {
            ReplayStatus::Complete => drop(self.streams.close(&opened, std::time::Instant::now())),
            ReplayStatus::Partial => {
                self.spawn_background(replay.follow_until_end(Arc::downgrade(self), self.closing.clone()))
            }
        }
        Ok(opened)
    }

    /// Polls the thread for runs of other processes while it has readers.
    pub(crate) fn spawn_thread_poller(self: &Arc<Self>, scope: &OwnerScope, thread_id: ThreadId) {
        let commits = self.system_agent.threads().subscribe_thread_commits(thread_id);
        self.spawn_background(poll_thread(
            Arc::downgrade(self),
            ScopedThread { thread_id, scope: scope.clone() },
            commits,
        ));
    }

    /// Announces runs to the thread's readers that started in other processes since the last poll. The first poll
    /// announces only active runs, because the readers did not ask for those that ended before.
    async fn poll_remote_runs(self: &Arc<Self>, thread: &ScopedThread, round: PollRound) -> Result<()> {
        let ScopedThread { thread_id, scope } = thread;
        let agent = self.agent(scope);
        let filter =
            RunFilter { thread_id: Some(*thread_id), limit: THREAD_READER_LAG_MAX, ..RunFilter::default() };
        let mut newest = agent.runs().list(filter).await?;
        newest.retain(|run| run.status != RunStatus::Pending && !self.system_agent.runs().is_own_run(run));
        if round == PollRound::First {
            let (active, ended): (Vec<Run>, Vec<Run>) =
                newest.into_iter().partition(|run| run.status.is_active());
            self.streams.mark_announced(thread, ended.iter().map(|run| run.run_id));
            newest = active;
        }
        let ids = newest.iter().rev().map(|run| run.run_id).collect();
        for run_id in self.streams.select_unannounced(thread, ids) {
            let stream = self
                .open_remote_stream(
                    RunRef { thread_id: *thread_id, run_id },
                    scope,
                    RemoteRetention::AfterEnd,
                )
                .await?;
            self.streams.publish_start(&stream);
        }
        Ok(())
    }
}

/// How long a remote stream is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemoteRetention {
    /// While it has readers.
    WhileRead,
    /// Also for a while after its end, like a resumable stream.
    AfterEnd,
}

/// The round of a poll: the first one of a thread, or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollRound {
    First,
    Later,
}

impl RemoteReplay {
    /// Replays the events that were committed since the last call.
    async fn replay_committed(&mut self, scheduler: &Scheduler) -> Result<ReplayStatus> {
        let agent = scheduler.agent(&self.stream.scope);
        let status = agent.runs().replay_frames(&mut self.replay, &self.stream.frames).await;
        self.stream.record_replay(&self.replay, None);
        Ok(status?)
    }

    /// Replays new commits until the run ends, continues in this process, or loses its last reader.
    async fn follow_until_end(mut self, scheduler: Weak<Scheduler>, closing: CancellationToken) {
        let closed = self.stream.closed.clone();
        loop {
            tokio::select! {
                () = closing.cancelled() => return,
                () = closed.cancelled() => return,
                () = self.commits.changed() => {}
                () = tokio::time::sleep(REMOTE_RUN_POLL_INTERVAL) => {}
            }
            let Some(scheduler) = scheduler.upgrade() else { return };
            if !self.stream.has_readers() && !self.stream.is_retained() {
                return scheduler.streams.discard(&self.stream);
            }
            let run_id = self.stream.run_id;
            match self.replay_committed(&scheduler).await {
                Ok(ReplayStatus::Partial) => {}
                Ok(ReplayStatus::Complete) => return scheduler.close_stream(&self.stream),
                Err(error) => {
                    tracing::warn!(run_id = %run_id, %error, "failed to follow run {run_id} in another process");
                }
            }
        }
    }
}

/// Announces remote runs and reports changes of a thread until its last reader is gone or the scheduler shuts down.
async fn poll_thread(scheduler: Weak<Scheduler>, thread: ScopedThread, mut commits: ThreadSubscription) {
    let mut round = PollRound::First;
    loop {
        let Some(scheduler) =
            scheduler.upgrade().filter(|scheduler| scheduler.streams.has_subscribers(&thread))
        else {
            return;
        };
        match scheduler.poll_remote_runs(&thread, round).await {
            Ok(()) => round = PollRound::Later,
            Err(error) => {
                tracing::warn!(thread_id = %thread.thread_id, %error, "failed to read the runs of other processes on thread {}", thread.thread_id)
            }
        }
        scheduler.streams.notify_changed(&thread);
        let closing = scheduler.closing.clone();
        drop(scheduler);
        tokio::select! {
            () = closing.cancelled() => return,
            () = commits.changed() => {}
            () = tokio::time::sleep(FOLLOWED_THREAD_POLL_INTERVAL) => {}
        }
    }
}
