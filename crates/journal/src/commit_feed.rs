//! The commit feed: notifications that other processes have committed something for a thread. A notification only
//! tells a subscriber to read again; it contains no data. Commits of this process are in [`local`].

pub(crate) mod local;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::ThreadId;
use tokio::sync::watch;

/// The threads that a commit of another process concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitNotice {
    /// This thread: its row, its events or its runs.
    Thread(ThreadId),
    /// Possibly any thread, because the threads are not known or notifications may have been lost.
    Any,
}

/// The feed of commits of other processes. Cloning is cheap; clones share their subscribers.
#[derive(Debug, Clone, Default)]
pub struct CommitFeed(Arc<CommitFeedState>);

/// The subscribers of a feed.
#[derive(Debug, Default)]
struct CommitFeedState {
    /// Channels for threads with at least one subscriber.
    threads: Mutex<HashMap<ThreadId, watch::Sender<()>>>,
    /// The channel for subscribers of all threads.
    any_thread: watch::Sender<()>,
}

/// A subscription to the commits of one thread.
#[derive(Debug)]
pub struct ThreadSubscription {
    /// Receives a signal for each commit.
    changed: watch::Receiver<()>,
    /// The thread.
    thread_id: ThreadId,
    /// The feed, to unsubscribe when this is dropped.
    feed: CommitFeed,
}

/// A subscription to the commits of all threads.
#[derive(Debug, Clone)]
pub struct AllThreadsSubscription {
    /// Receives a signal for each commit.
    changed: watch::Receiver<()>,
    /// Keeps the sender alive.
    _feed: CommitFeed,
}

impl CommitFeed {
    /// Subscribes to later commits of a thread. The thread need not exist yet.
    pub fn subscribe_thread(&self, thread_id: ThreadId) -> ThreadSubscription {
        let changed = self.0.threads.lock().entry(thread_id).or_default().subscribe();
        ThreadSubscription { changed, thread_id, feed: self.clone() }
    }

    /// Subscribes to later commits of all threads.
    pub fn subscribe_all(&self) -> AllThreadsSubscription {
        AllThreadsSubscription { changed: self.0.any_thread.subscribe(), _feed: self.clone() }
    }

    /// Notifies the subscribers of a commit.
    pub(crate) fn publish(&self, change: CommitNotice) {
        let threads = self.0.threads.lock();
        match change {
            CommitNotice::Thread(thread_id) => threads.get(&thread_id).into_iter().for_each(wake_subscribers),
            CommitNotice::Any => threads.values().for_each(wake_subscribers),
        }
        drop(threads);
        wake_subscribers(&self.0.any_thread);
    }

    /// Returns whether there is any subscriber.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.0.any_thread.receiver_count() > 0 || !self.0.threads.lock().is_empty()
    }
}

impl ThreadSubscription {
    /// Waits for a commit since the last call. Several commits wake it once. Cancel safe.
    pub async fn changed(&mut self) {
        wait_for_change(&mut self.changed).await;
    }
}

impl AllThreadsSubscription {
    /// Waits for a commit since the last call. Several commits wake it once. Cancel safe.
    pub async fn changed(&mut self) {
        wait_for_change(&mut self.changed).await;
    }
}

/// Sends a signal to the subscribers of a channel.
fn wake_subscribers(channel: &watch::Sender<()>) {
    channel.send_replace(());
}

/// Waits for a signal. If the feed was dropped, it waits forever.
async fn wait_for_change(receiver: &mut watch::Receiver<()>) {
    if receiver.changed().await.is_err() {
        // All senders are gone, so there can be no further notification.
        std::future::pending::<()>().await;
    }
}

impl Clone for ThreadSubscription {
    fn clone(&self) -> Self {
        Self { changed: self.changed.clone(), thread_id: self.thread_id, feed: self.feed.clone() }
    }
}

impl Drop for ThreadSubscription {
    fn drop(&mut self) {
        let mut threads = self.feed.0.threads.lock();
        // The receiver of this subscription is still counted.
        if threads.get(&self.thread_id).is_some_and(|sender| sender.receiver_count() <= 1) {
            threads.remove(&self.thread_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready<F: Future>(future: F) -> bool {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut context).is_ready()
    }

    fn has_changed(subscription: &mut ThreadSubscription) -> bool {
        is_ready(subscription.changed())
    }

    #[test]
    fn a_commit_wakes_the_subscribers_of_its_thread_once() {
        let (feed, thread, other) = (CommitFeed::default(), ThreadId::generate(), ThreadId::generate());
        assert!(!feed.has_subscribers());
        let (mut subscription, mut other_subscription) =
            (feed.subscribe_thread(thread), feed.subscribe_thread(other));
        let mut any = feed.subscribe_all();
        assert!(!has_changed(&mut subscription) && !is_ready(any.changed()), "only later commits count");
        feed.publish(CommitNotice::Thread(thread));
        feed.publish(CommitNotice::Thread(thread));
        assert!(
            has_changed(&mut subscription)
                && !has_changed(&mut subscription)
                && !has_changed(&mut other_subscription)
        );
        assert!(is_ready(any.changed()));
        feed.publish(CommitNotice::Any);
        assert!(has_changed(&mut subscription) && has_changed(&mut other_subscription));
    }

    #[test]
    fn a_dropped_subscription_is_removed_from_the_feed() {
        let (feed, thread) = (CommitFeed::default(), ThreadId::generate());
        let first = feed.subscribe_thread(thread);
        let second = first.clone();
        drop(first);
        assert!(feed.has_subscribers());
        drop(second);
        assert!(!feed.has_subscribers() && feed.0.threads.lock().is_empty());
    }
}
