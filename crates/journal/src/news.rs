//! News: that other processes committed something about a thread. It says that one may look again, never what happened: what
//! was committed is read like anything else. Nobody is told of what this process commits itself.

pub(crate) mod commits;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::ThreadId;
use tokio::sync::watch;

/// What another process committed something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// This thread: its events, its runs, or the thread itself.
    Thread(ThreadId),
    /// Any thread at all: nobody knows which, or something may have been missed.
    Any,
}

/// Where news of one journal are heard. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct News(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    threads: Mutex<HashMap<ThreadId, watch::Sender<()>>>,
    any: watch::Sender<()>,
}

/// News of one thread.
#[derive(Debug)]
pub struct ThreadNews {
    changed: watch::Receiver<()>,
    thread_id: ThreadId,
    heard: News,
}

/// News of any thread.
#[derive(Debug, Clone)]
pub struct AnyNews {
    changed: watch::Receiver<()>,
    _heard: News,
}

impl News {
    /// Returns news of a thread from here on; it need not exist yet.
    pub fn of(&self, thread_id: ThreadId) -> ThreadNews {
        let changed = self.0.threads.lock().entry(thread_id).or_default().subscribe();
        ThreadNews { changed, thread_id, heard: self.clone() }
    }

    /// Returns news of any thread from here on.
    pub fn any(&self) -> AnyNews {
        AnyNews { changed: self.0.any.subscribe(), _heard: self.clone() }
    }

    /// Tells those who listen.
    pub(crate) fn tell(&self, change: Change) {
        let threads = self.0.threads.lock();
        match change {
            Change::Thread(thread_id) => threads.get(&thread_id).into_iter().for_each(ring),
            Change::Any => threads.values().for_each(ring),
        }
        drop(threads);
        ring(&self.0.any);
    }

    /// Returns whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.0.any.receiver_count() > 0 || !self.0.threads.lock().is_empty()
    }
}

impl ThreadNews {
    /// Returns when there was news since the last call, however often.
    pub async fn changed(&mut self) {
        changed(&mut self.changed).await;
    }
}

impl AnyNews {
    /// Returns when there was news since the last call, however often.
    pub async fn changed(&mut self) {
        changed(&mut self.changed).await;
    }
}

fn ring(told: &watch::Sender<()>) {
    told.send_replace(());
}

async fn changed(told: &mut watch::Receiver<()>) {
    if told.changed().await.is_err() {
        // Nobody is left who could tell anything.
        std::future::pending::<()>().await;
    }
}

impl Clone for ThreadNews {
    fn clone(&self) -> Self {
        Self { changed: self.changed.clone(), thread_id: self.thread_id, heard: self.heard.clone() }
    }
}

impl Drop for ThreadNews {
    fn drop(&mut self) {
        let mut threads = self.heard.0.threads.lock();
        // This one is counted still.
        if threads.get(&self.thread_id).is_some_and(|told| told.receiver_count() <= 1) {
            threads.remove(&self.thread_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_now<F: Future>(future: F) -> bool {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut context).is_ready()
    }

    fn told(news: &mut ThreadNews) -> bool {
        is_now(news.changed())
    }

    #[test]
    fn news_of_a_thread_reach_those_who_listen_to_it_once_however_many_there_were() {
        let (news, thread, other) = (News::default(), ThreadId::generate(), ThreadId::generate());
        assert!(!news.is_heard());
        let (mut own, mut others) = (news.of(thread), news.of(other));
        let mut any = news.any();
        assert!(!told(&mut own) && !is_now(any.changed()), "from here on");
        news.tell(Change::Thread(thread));
        news.tell(Change::Thread(thread));
        assert!(told(&mut own) && !told(&mut own) && !told(&mut others));
        assert!(is_now(any.changed()));
        news.tell(Change::Any);
        assert!(told(&mut own) && told(&mut others));
    }

    #[test]
    fn who_stops_listening_is_forgotten() {
        let (news, thread) = (News::default(), ThreadId::generate());
        let first = news.of(thread);
        let second = first.clone();
        drop(first);
        assert!(news.is_heard());
        drop(second);
        assert!(!news.is_heard() && news.0.threads.lock().is_empty());
    }
}
