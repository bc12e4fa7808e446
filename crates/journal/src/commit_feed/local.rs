//! The feed of commits of this process, for background consumers such as traces and user hooks. It records only which
//! threads have new events and their seqs, so its size stays small if a consumer is slow, and no commit waits for a
//! consumer. Commits of other processes are in [`super::CommitFeed`].

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use protocol::{Seq, ThreadId};
use tokio::sync::Notify;

use crate::{CommitReceipt, Transaction, Write};

/// The feed of commits of this process. Cloning is cheap; clones share their subscribers.
#[derive(Debug, Clone, Default)]
pub struct LocalCommitFeed(Arc<LocalFeedState>);

/// The subscribers of a feed.
#[derive(Debug, Default)]
struct LocalFeedState {
    /// `true` if there is any subscriber. A commit checks only this flag if there is none.
    has_subscribers: AtomicBool,
    /// The subscribers.
    subscribers: Mutex<Vec<Arc<LocalFeedSubscriber>>>,
}

/// The state of one subscriber.
#[derive(Debug)]
struct LocalFeedSubscriber {
    /// The unique name of the subscriber.
    name: &'static str,
    /// The commits that it has not processed yet.
    backlog: Mutex<SubscriberBacklog>,
    /// Signals new commits.
    new_commits: Notify,
    /// Signals that the subscriber has processed its batch.
    processed: Notify,
}

/// The commits that a subscriber has not processed yet.
#[derive(Debug, Default)]
struct SubscriberBacklog {
    /// Seqs of committed events that it has not received yet, by thread.
    pending: HashMap<ThreadId, Vec<RangeInclusive<Seq>>>,
    /// Threads of the batch that it is processing.
    in_progress: HashSet<ThreadId>,
}

/// A subscription to the commits of this process. Dropping it unsubscribes.
#[derive(Debug)]
pub struct LocalCommitSubscription {
    /// The feed.
    feed: LocalCommitFeed,
    /// The state of this subscriber.
    subscriber: Arc<LocalFeedSubscriber>,
}

impl LocalCommitFeed {
    /// Subscribes to later commits under a name. Returns `None` if there is a subscriber with the same name.
    pub fn subscribe(&self, name: &'static str) -> Option<LocalCommitSubscription> {
        let mut subscribers = self.0.subscribers.lock();
        if subscribers.iter().any(|subscriber| subscriber.name == name) {
            return None;
        }
        let subscriber = Arc::new(LocalFeedSubscriber {
            name,
            backlog: Mutex::default(),
            new_commits: Notify::new(),
            processed: Notify::new(),
        });
        subscribers.push(Arc::clone(&subscriber));
        self.0.has_subscribers.store(true, Ordering::Relaxed);
        Some(LocalCommitSubscription { feed: self.clone(), subscriber })
    }

    /// Returns the thread of each append of a transaction, or nothing if there is no subscriber.
    pub(crate) fn appended_threads(&self, transaction: &Transaction) -> Vec<ThreadId> {
        if !self.0.has_subscribers.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let appended = |write: &Write| {
            let Write::Append { thread_id, .. } = write else { return None };
            Some(*thread_id)
        };
        transaction.writes.iter().filter_map(appended).collect()
    }

    /// Adds committed events to the backlogs of all subscribers. `threads` are the threads of the appends.
    pub(crate) fn publish(&self, threads: &[ThreadId], receipt: &CommitReceipt) {
        if threads.is_empty() || receipt.stored_events == 0 {
            return;
        }
        for subscriber in self.0.subscribers.lock().iter() {
            let mut backlog = subscriber.backlog.lock();
            for (thread_id, new_seqs) in threads.iter().zip(&receipt.new_seqs) {
                if let Some(seqs) = new_seqs {
                    add_seq_range(backlog.pending.entry(*thread_id).or_default(), seqs.clone());
                }
            }
            drop(backlog);
            subscriber.new_commits.notify_one();
        }
    }

    /// Waits until all subscribers have processed the commits of a thread. Called before a thread is deleted, because
    /// its events cannot be read afterwards. Use a timeout, because a subscriber may be slow. Cancel safe.
    pub async fn wait_until_processed(&self, thread_id: ThreadId) {
        let subscribers: Vec<Arc<LocalFeedSubscriber>> = self.0.subscribers.lock().clone();
        for subscriber in subscribers {
            loop {
                let processed = subscriber.processed.notified();
                if !subscriber.is_processing(thread_id) {
                    break;
                }
                processed.await;
            }
        }
    }
}

/// Adds a range of seqs, merging it with an adjacent one. Seqs between two ranges were written by other processes.
fn add_seq_range(ranges: &mut Vec<RangeInclusive<Seq>>, seqs: RangeInclusive<Seq>) {
    match ranges.last_mut() {
        Some(last) if *last.end() + 1 == *seqs.start() => *last = *last.start()..=*seqs.end(),
        // Two commits of a thread may be published in reverse order.
        Some(last) if *seqs.end() + 1 == *last.start() => *last = *seqs.start()..=*last.end(),
        _ => ranges.push(seqs),
    }
}

impl LocalFeedSubscriber {
    /// Returns whether the subscriber has not processed all commits of a thread.
    fn is_processing(&self, thread_id: ThreadId) -> bool {
        let backlog = self.backlog.lock();
        backlog.pending.contains_key(&thread_id) || backlog.in_progress.contains(&thread_id)
    }

    /// Marks the current batch as processed.
    fn finish_batch(&self) {
        self.backlog.lock().in_progress.clear();
        self.processed.notify_waiters();
    }
}

impl LocalCommitSubscription {
    /// Waits for commits and returns a batch: the threads with new events, and the ranges of seqs that this process
    /// wrote to each, in ascending order. Calling it marks the previous batch as processed. Cancel safe.
    pub async fn next_batch(&mut self) -> Vec<(ThreadId, Vec<RangeInclusive<Seq>>)> {
        loop {
            let threads = self.take_pending();
            if !threads.is_empty() {
                return threads;
            }
            self.subscriber.new_commits.notified().await;
        }
    }

    /// Returns a batch like [`Self::next_batch`], without waiting. It is empty if there are no commits.
    pub fn take_pending(&mut self) -> Vec<(ThreadId, Vec<RangeInclusive<Seq>>)> {
        self.subscriber.finish_batch();
        let mut backlog = self.subscriber.backlog.lock();
        let mut threads: Vec<_> = backlog.pending.drain().collect();
        backlog.in_progress = threads.iter().map(|(thread_id, _)| *thread_id).collect();
        drop(backlog);
        threads.iter_mut().for_each(|(_, ranges)| ranges.sort_unstable_by_key(|seqs| *seqs.start()));
        threads
    }
}

impl Drop for LocalCommitSubscription {
    fn drop(&mut self) {
        let mut subscribers = self.feed.0.subscribers.lock();
        subscribers.retain(|subscriber| !Arc::ptr_eq(subscriber, &self.subscriber));
        self.feed.0.has_subscribers.store(!subscribers.is_empty(), Ordering::Relaxed);
        drop(subscribers);
        // Calls of `wait_until_processed` must not wait for a dropped subscriber.
        self.subscriber.backlog.lock().pending.clear();
        self.subscriber.finish_batch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(thread_id: ThreadId) -> Transaction {
        Transaction { fence: None, writes: vec![Write::Append { thread_id, events: Vec::new() }] }
    }

    fn committed(seqs: Option<RangeInclusive<Seq>>) -> CommitReceipt {
        let stored = seqs.clone().map_or(0, |seqs| seqs.count() as u64);
        CommitReceipt { new_seqs: vec![seqs], stored_events: stored, ..CommitReceipt::default() }
    }

    #[tokio::test]
    async fn each_subscriber_receives_the_new_seqs_of_each_thread_once() {
        let (feed, thread, other_thread) =
            (LocalCommitFeed::default(), ThreadId::generate(), ThreadId::generate());
        assert!(feed.appended_threads(&append(thread)).is_empty(), "there is no subscriber");
        let mut traces = feed.subscribe("traces").unwrap();
        assert!(feed.subscribe("traces").is_none(), "the name is in use");
        let mut hooks = feed.subscribe("hooks").unwrap();
        for (thread_id, new) in [(thread, 4..=5), (thread, 2..=3), (other_thread, 7..=7), (thread, 6..=6)] {
            let threads = feed.appended_threads(&append(thread_id));
            feed.publish(&threads, &committed(Some(new)));
        }
        let mut expected = vec![(thread, vec![2..=6]), (other_thread, vec![7..=7])];
        expected.sort_unstable_by_key(|(thread_id, _)| *thread_id);
        for subscription in [&mut traces, &mut hooks] {
            let mut batch = subscription.next_batch().await;
            batch.sort_unstable_by_key(|(thread_id, _)| *thread_id);
            assert_eq!(batch, expected);
            assert!(subscription.take_pending().is_empty(), "once");
        }
        // Repetitions are not new events.
        let threads = feed.appended_threads(&append(thread));
        feed.publish(&threads, &committed(None));
        assert!(traces.take_pending().is_empty());
        // The seqs in between were written by another process.
        feed.publish(&threads, &committed(Some(12..=12)));
        feed.publish(&threads, &committed(Some(15..=16)));
        assert_eq!(traces.take_pending(), [(thread, vec![12..=12, 15..=16])]);
        drop(traces);
        assert!(!feed.appended_threads(&append(thread)).is_empty(), "another subscriber remains");
        drop(hooks);
        assert!(feed.appended_threads(&append(thread)).is_empty());
        assert!(feed.subscribe("traces").is_some());
    }

    #[tokio::test]
    async fn a_thread_is_processed_once_every_subscriber_asks_for_the_next_batch() {
        let (feed, thread_id) = (LocalCommitFeed::default(), ThreadId::generate());
        let (mut traces, mut hooks) = (feed.subscribe("traces").unwrap(), feed.subscribe("hooks").unwrap());
        feed.wait_until_processed(thread_id).await;
        let threads = feed.appended_threads(&append(thread_id));
        feed.publish(&threads, &committed(Some(1..=3)));
        let mut processed = Box::pin(feed.wait_until_processed(thread_id));
        let is_done = futures::poll!(&mut processed).is_ready();
        assert!(!is_done, "no subscriber has received the batch");
        assert_eq!(traces.next_batch().await.len(), 1);
        assert!(traces.take_pending().is_empty());
        assert_eq!(hooks.next_batch().await.len(), 1);
        let is_done = futures::poll!(&mut processed).is_ready();
        assert!(!is_done, "a subscriber is still processing the batch");
        drop(hooks);
        processed.await;
    }
}
