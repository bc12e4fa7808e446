//! What is done behind the runs: memory settles what is due, one worker an owner, and threads that were to last one run are
//! removed. No run waits for any of it, and what is dropped half-way stays in the journal's queue.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use agent::{Agent, Frames};
use futures::FutureExt;
use protocol::{Scope, ThreadId};

use crate::dispatch::Dispatch;
use crate::limits::{SETTLE_PAUSE, SETTLERS_MAX, SETTLING_MAX};
use crate::streams::stream::Stream;

/// Whose memory is to be looked at, and whose is being.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    due: VecDeque<Scope>,
    /// The same, to find it.
    noted: HashSet<Scope>,
    worked_on: HashSet<Scope>,
    workers: usize,
}

/// Whether somebody is to be set to work.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    /// Those who work will come to it.
    Enough,
    /// One more worker is wanted.
    Worker,
}

impl Settling {
    fn note(&mut self, scope: &Scope) -> Noted {
        if self.noted.len() >= SETTLING_MAX || self.noted.contains(scope) {
            return Noted::Enough;
        }
        self.noted.insert(scope.clone());
        self.due.push_back(scope.clone());
        if self.workers >= SETTLERS_MAX {
            return Noted::Enough;
        }
        self.workers += 1;
        Noted::Worker
    }

    /// Returns the next one that nobody works on; without one the worker goes.
    fn next(&mut self) -> Option<Scope> {
        let at = self.due.iter().position(|scope| !self.worked_on.contains(scope));
        let Some(scope) = at.and_then(|at| self.due.remove(at)) else {
            self.workers = self.workers.saturating_sub(1);
            return None;
        };
        self.noted.remove(&scope);
        self.worked_on.insert(scope.clone());
        Some(scope)
    }

    fn done(&mut self, scope: &Scope) {
        self.worked_on.remove(scope);
    }
}

impl Dispatch {
    /// Notes that something may be due in the memory of that owner.
    pub(crate) fn settle_later(self: &Arc<Self>, scope: &Scope) {
        if self.settling.lock().note(scope) == Noted::Worker {
            let dispatch = Arc::clone(self);
            self.spawn(async move { dispatch.settle_all().await });
        }
    }

    async fn settle_all(&self) {
        loop {
            // The more owners there are, the shorter: each has its turn within a pause.
            let pause =
                SETTLE_PAUSE / u32::try_from(self.settling.lock().due.len().max(1)).unwrap_or(u32::MAX);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.closing.cancelled() => return,
            }
            let Some(scope) = self.settling.lock().next() else { return };
            let settled = AssertUnwindSafe(self.settle(&scope)).catch_unwind();
            tokio::select! {
                settled = settled => if settled.is_err() {
                    tracing::warn!("failed to settle what is due in memory: it panicked");
                },
                () = self.halt.cancelled() => return,
            }
            self.settling.lock().done(&scope);
        }
    }

    async fn settle(&self, scope: &Scope) {
        let tiering = match self.agent(scope).memory().tiering() {
            Ok(tiering) => tiering,
            Err(error) => return tracing::warn!(%error, "failed to settle what is due in memory"),
        };
        if let Err(error) = tiering.settle(&Frames::default(), &self.closing).await {
            tracing::warn!(%error, "failed to settle what is due in memory");
        }
    }

    /// Ends the stream of a run whose rows are final.
    pub(crate) fn close(self: &Arc<Self>, stream: &Arc<Stream>) {
        let gone = self.streams.close(stream, Instant::now());
        if stream.is_owed {
            self.owe(stream.run_id, &stream.scope);
        }
        gone.iter().chain([stream]).for_each(|stream| self.remove_spent(stream));
    }

    /// Removes the thread of a run that was to last no longer than the run and its readers, once they are gone.
    pub(crate) fn remove_spent(self: &Arc<Self>, stream: &Stream) {
        let is_spent = stream.is_spent() && !self.closing.is_cancelled();
        if !is_spent || !self.streams.let_go_of_thread(stream.run_id) {
            return;
        }
        let (agent, run_id, thread_id) = (self.agent(&stream.scope), stream.run_id, stream.thread_id);
        self.forget_streams(&stream.scope, thread_id);
        let is_owed = stream.is_owed;
        self.spawn(async move {
            // Whoever is told of the run's end is told what the thread holds; it is removed after that.
            if !is_owed || matches!(agent.runs().webhook(run_id).await, Ok(None)) {
                remove(&agent, thread_id).await;
            }
        });
    }

    /// Sets a task to work that shutting down waits for. Outside a runtime, where everything is coming to its end, there is
    /// nobody to do it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

/// Removes a thread that was to last one run, unless somebody did.
pub(crate) async fn remove(agent: &Agent, thread_id: ThreadId) {
    match agent.threads().delete(thread_id).await {
        Ok(()) | Err(agent::Error::Thread(agent::ThreadError::Unknown(_))) => {}
        Err(error) => {
            tracing::warn!(thread_id = %thread_id, %error, "failed to remove thread {thread_id}, which was to last one run");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Scope {
        Scope::Owner(Some(name.parse().unwrap()))
    }

    #[test]
    fn f10_each_owner_has_one_worker_at_a_time_and_nothing_is_forgotten() {
        let mut settling = Settling::default();
        assert_eq!(settling.note(&of("a")), Noted::Worker);
        assert_eq!(settling.note(&of("a")), Noted::Enough, "it is noted");
        assert_eq!(settling.next(), Some(of("a")));
        assert_eq!(settling.note(&of("a")), Noted::Worker, "something is due again");
        assert_eq!(settling.next(), None, "the one who works comes to it");
        settling.done(&of("a"));
        assert_eq!(settling.next(), Some(of("a")));
        settling.done(&of("a"));
        assert_eq!((settling.next(), settling.workers), (None, 0));
    }

    #[test]
    fn workers_and_what_is_noted_are_bounded() {
        let mut settling = Settling::default();
        let workers =
            (0..SETTLING_MAX + 10).filter(|n| settling.note(&of(&format!("u{n}"))) == Noted::Worker);
        assert_eq!(workers.count(), SETTLERS_MAX);
        assert_eq!(settling.due.len(), SETTLING_MAX);
    }
}
