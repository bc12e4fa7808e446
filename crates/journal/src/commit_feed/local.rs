//! The feed of commits of this process, for background consumers such as traces and user hooks. It records which threads
//! have new events and their seqs, and the events themselves as long as they are few. So its size stays small if a
//! consumer is slow, and no commit waits for a consumer. Commits of other processes are in [`super::CommitFeed`].

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use protocol::{Event, NewEvent, Seq, ThreadId};
use tokio::sync::Notify;

use crate::{CommitReceipt, Transaction, Write};

/// Maximum bytes of the events that are kept for a subscriber. Above it, the subscriber reads them from the
/// journal.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// The feed of commits of this process. Cloning is cheap; clones share their subscribers.
#[derive(Debug, Clone, Default)]
pub struct LocalCommitFeed(Arc<LocalFeedState>);

/// The subscribers of a feed.
#[derive(Debug, Default)]
struct LocalFeedState {
    /// `true` if there is any subscriber. A commit checks only this flag if there is none.
    has_subscribers: AtomicBool,
    /// `true` if a subscriber receives events.
    keeps_events: AtomicBool,
    /// The subscribers.
    subscribers: Mutex<Vec<Arc<LocalFeedSubscriber>>>,
}

/// The state of one subscriber.
#[derive(Debug)]
struct LocalFeedSubscriber {
    /// The unique name of the subscriber.
    name: &'static str,
    /// The part of each commit that it receives.
    detail: CommitDetail,
    /// The commits that it has not processed yet.
    backlog: Mutex<SubscriberBacklog>,
    /// Signals new commits.
    new_commits: Notify,
    /// Signals that the subscriber has processed its batch.
    processed: Notify,
}

/// The part of a commit that a subscriber receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitDetail {
    /// The seqs of the new events.
    Seqs,
    /// The seqs, and the events as long as they are few.
    Events,
}

/// The commits that a subscriber has not processed yet.
#[derive(Debug, Default)]
struct SubscriberBacklog {
    /// Committed events that it has not received yet, by thread.
    pending: HashMap<ThreadId, CommittedEvents>,
    /// Bytes of the pending events that are kept.
    event_bytes: usize,
    /// Threads of the batch that it is processing.
    in_progress: HashSet<ThreadId>,
}

/// The events that this process has appended to a thread since the subscriber received the last ones.
#[derive(Debug, Clone, Default)]
pub struct CommittedEvents {
    /// The seqs of the events, in ascending ranges. Seqs between two ranges were written by other processes.
    pub ranges: Vec<RangeInclusive<Seq>>,
    /// The events, in ascending order. Some are missing if they were too large to be kept.
    events: Vec<Arc<Event>>,
}

impl CommittedEvents {
    /// Returns all events of the thread after the seq `after`, up to the last one of these commits. Returns `None` if they
    /// have to be read from the journal, because another process has written some of them or they were too large.
    pub fn events_after(&self, after: Seq) -> Option<&[Arc<Event>]> {
        let last = *self.ranges.last()?.end();
        let events = &self.events[self.events.partition_point(|event| event.seq <= after)..];
        let is_complete = events.len() as u64 == last.saturating_sub(after)
            && events.first().is_none_or(|first| first.seq == after + 1)
            && events.last().is_none_or(|newest| newest.seq == last);
        is_complete.then_some(events)
    }

    /// Adds the events of a commit.
    fn add(&mut self, seqs: RangeInclusive<Seq>, events: &[Arc<Event>]) {
        add_seq_range(&mut self.ranges, seqs);
        self.events.extend(events.iter().cloned());
    }

    /// Sorts the ranges and the events, because two commits of a thread may be published in reverse order.
    fn sort(&mut self) {
        self.ranges.sort_unstable_by_key(|seqs| *seqs.start());
        self.events.sort_unstable_by_key(|event| event.seq);
    }
}

/// The events of one append of a transaction, which is not committed yet.
#[derive(Debug)]
pub(crate) struct AppendedEvents {
    /// The thread.
    thread_id: ThreadId,
    /// The events; empty if they are too large to be kept.
    events: Vec<NewEvent>,
}

impl AppendedEvents {
    /// Returns the events as they were stored, if they are kept. `seqs` has the seq of each event, and `new` the seqs of
    /// those that are no repetitions.
    fn into_stored(self, seqs: &[Seq], new: &RangeInclusive<Seq>) -> Vec<Arc<Event>> {
        let mut next = *new.start();
        let mut stored = Vec::with_capacity(self.events.len());
        for (event, seq) in self.events.into_iter().zip(seqs) {
            if *seq == next {
                stored.push(Arc::new(event.into_stored(self.thread_id, next)));
                next += 1;
            }
        }
        stored
    }
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
    pub fn subscribe(&self, name: &'static str, detail: CommitDetail) -> Option<LocalCommitSubscription> {
        let mut subscribers = self.0.subscribers.lock();
        if subscribers.iter().any(|subscriber| subscriber.name == name) {
            return None;
        }
        let subscriber = Arc::new(LocalFeedSubscriber {
            name,
            detail,
            backlog: Mutex::default(),
            new_commits: Notify::new(),
            processed: Notify::new(),
        });
        subscribers.push(Arc::clone(&subscriber));
        self.0.update_flags(&subscribers);
        Some(LocalCommitSubscription { feed: self.clone(), subscriber })
    }

    /// Returns the events of each append of a transaction, or nothing if there is no subscriber.
    pub(crate) fn appended_events(&self, transaction: &Transaction) -> Vec<AppendedEvents> {
        if !self.0.has_subscribers.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let appended = |write: &Write| {
            let Write::Append { thread_id, events } = write else { return None };
            let is_kept = self.0.keeps_events.load(Ordering::Relaxed)
                && events.iter().map(|event| event.content.get().len()).sum::<usize>() <= EVENT_BYTES_MAX;
            let events = if is_kept { events.clone() } else { Vec::new() };
            Some(AppendedEvents { thread_id: *thread_id, events })
        };
        transaction.writes.iter().filter_map(appended).collect()
    }

    /// Adds committed events to the backlogs of all subscribers.
    pub(crate) fn publish(&self, appended: Vec<AppendedEvents>, receipt: &CommitReceipt) {
        if appended.is_empty() || receipt.stored_events == 0 {
            return;
        }
        let seqs = receipt.seqs.iter().zip(&receipt.new_seqs);
        let stored: Vec<_> = appended
            .into_iter()
            .zip(seqs)
            .filter_map(|(appended, (seqs, new))| {
                let new = new.clone()?;
                Some((appended.thread_id, appended.into_stored(seqs, &new), new))
            })
            .collect();
        for subscriber in self.0.subscribers.lock().iter() {
            let mut backlog = subscriber.backlog.lock();
            for (thread_id, events, new) in &stored {
                let events = if subscriber.detail == CommitDetail::Events { &events[..] } else { &[] };
                backlog.add(*thread_id, new.clone(), events);
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

impl LocalFeedState {
    /// Updates what a commit checks after a change of the subscribers.
    fn update_flags(&self, subscribers: &[Arc<LocalFeedSubscriber>]) {
        let keeps_events = subscribers.iter().any(|subscriber| subscriber.detail == CommitDetail::Events);
        self.keeps_events.store(keeps_events, Ordering::Relaxed);
        self.has_subscribers.store(!subscribers.is_empty(), Ordering::Relaxed);
    }
}

/// Returns the approximate size of an event in memory.
fn size_in_bytes(event: &Event) -> usize {
    size_of::<Event>()
        + event.content.get().len()
        + event.metadata.as_ref().map_or(0, |json| json.get().len())
}

impl SubscriberBacklog {
    /// Adds the events of a commit. If the events have become too large, none of them is kept.
    fn add(&mut self, thread_id: ThreadId, seqs: RangeInclusive<Seq>, events: &[Arc<Event>]) {
        self.event_bytes += events.iter().map(|event| size_in_bytes(event)).sum::<usize>();
        self.pending.entry(thread_id).or_default().add(seqs, events);
        if self.event_bytes > EVENT_BYTES_MAX {
            self.pending.values_mut().for_each(|commits| commits.events = Vec::new());
            self.event_bytes = 0;
        }
    }

    /// Removes and returns the pending events, which are in progress then.
    fn take_batch(&mut self) -> Vec<(ThreadId, CommittedEvents)> {
        let mut threads: Vec<_> = self.pending.drain().collect();
        self.event_bytes = 0;
        self.in_progress = threads.iter().map(|(thread_id, _)| *thread_id).collect();
        threads.iter_mut().for_each(|(_, commits)| commits.sort());
        threads
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
    /// Waits for commits and returns a batch: the threads with new events, and what this process wrote to each. Calling
    /// it marks the previous batch as processed. Cancel safe.
    pub async fn next_batch(&mut self) -> Vec<(ThreadId, CommittedEvents)> {
        loop {
            let threads = self.take_pending();
            if !threads.is_empty() {
                return threads;
            }
            self.subscriber.new_commits.notified().await;
        }
    }

    /// Returns a batch like [`Self::next_batch`], without waiting. It is empty if there are no commits.
    pub fn take_pending(&mut self) -> Vec<(ThreadId, CommittedEvents)> {
        self.subscriber.finish_batch();
        self.subscriber.backlog.lock().take_batch()
    }
}

impl Drop for LocalCommitSubscription {
    fn drop(&mut self) {
        let mut subscribers = self.feed.0.subscribers.lock();
        subscribers.retain(|subscriber| !Arc::ptr_eq(subscriber, &self.subscriber));
        self.feed.0.update_flags(&subscribers);
        drop(subscribers);
        // Calls of `wait_until_processed` must not wait for a dropped subscriber.
        self.subscriber.backlog.lock().pending.clear();
        self.subscriber.finish_batch();
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{EventId, EventType};

    use super::*;

    fn append(thread_id: ThreadId, texts: &[&str]) -> Transaction {
        let event = |text: &&str| NewEvent {
            event_id: EventId::generate(),
            event_type: EventType::HumanMessage,
            run_id: None,
            event_key: None,
            content: serde_json::value::to_raw_value(text).unwrap(),
            metadata: None,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let events = texts.iter().map(event).collect();
        Transaction { fence: None, writes: vec![Write::Append { thread_id, events }] }
    }

    /// Publishes a commit of these texts, which got these seqs. Seqs below the first new one are repetitions.
    fn publish(feed: &LocalCommitFeed, thread_id: ThreadId, texts: &[&str], seqs: &[Seq], new_from: Seq) {
        let appended = feed.appended_events(&append(thread_id, texts));
        let new: Vec<Seq> = seqs.iter().copied().filter(|seq| *seq >= new_from).collect();
        let range = new.first().map(|first| *first..=*new.last().unwrap());
        let receipt = CommitReceipt {
            seqs: vec![seqs.to_vec()],
            new_seqs: vec![range],
            stored_events: new.len() as u64,
            ..CommitReceipt::default()
        };
        feed.publish(appended, &receipt);
    }

    /// Returns the ranges of a batch, by thread.
    fn ranges(batch: Vec<(ThreadId, CommittedEvents)>) -> Vec<(ThreadId, Vec<RangeInclusive<Seq>>)> {
        let mut ranges: Vec<_> =
            batch.into_iter().map(|(thread_id, commits)| (thread_id, commits.ranges)).collect();
        ranges.sort_unstable_by_key(|(thread_id, _)| *thread_id);
        ranges
    }

    #[tokio::test]
    async fn each_subscriber_receives_the_new_seqs_of_each_thread_once() {
        let (feed, thread, other_thread) =
            (LocalCommitFeed::default(), ThreadId::generate(), ThreadId::generate());
        assert!(feed.appended_events(&append(thread, &["a"])).is_empty(), "there is no subscriber");
        let mut traces = feed.subscribe("traces", CommitDetail::Events).unwrap();
        assert!(feed.subscribe("traces", CommitDetail::Events).is_none(), "the name is in use");
        let mut hooks = feed.subscribe("hooks", CommitDetail::Seqs).unwrap();
        publish(&feed, thread, &["d", "e"], &[4, 5], 4);
        publish(&feed, thread, &["b", "c"], &[2, 3], 2);
        publish(&feed, other_thread, &["x"], &[7], 7);
        publish(&feed, thread, &["f"], &[6], 6);
        let mut expected = vec![(thread, vec![2..=6]), (other_thread, vec![7..=7])];
        expected.sort_unstable_by_key(|(thread_id, _)| *thread_id);
        for subscription in [&mut traces, &mut hooks] {
            assert_eq!(ranges(subscription.next_batch().await), expected);
            assert!(subscription.take_pending().is_empty(), "once");
        }
        publish(&feed, thread, &["f"], &[6], 7);
        assert!(traces.take_pending().is_empty(), "repetitions are not new events");
        // The seqs in between were written by another process.
        publish(&feed, thread, &["l"], &[12], 12);
        publish(&feed, thread, &["o", "p"], &[15, 16], 15);
        assert_eq!(ranges(traces.take_pending()), [(thread, vec![12..=12, 15..=16])]);
        drop(traces);
        assert!(!feed.appended_events(&append(thread, &["a"])).is_empty(), "another subscriber remains");
        drop(hooks);
        assert!(feed.appended_events(&append(thread, &["a"])).is_empty());
        assert!(feed.subscribe("traces", CommitDetail::Events).is_some());
    }

    #[tokio::test]
    async fn a_batch_contains_the_events_unless_other_processes_wrote_some_or_they_are_large() {
        let (feed, thread) = (LocalCommitFeed::default(), ThreadId::generate());
        let mut traces = feed.subscribe("traces", CommitDetail::Events).unwrap();
        let mut next = || traces.take_pending().pop().unwrap().1;
        let seqs = |events: &[Arc<Event>]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
        publish(&feed, thread, &["c", "d"], &[3, 4], 3);
        publish(&feed, thread, &["a", "b"], &[1, 2], 1);
        let commits = next();
        let events = commits.events_after(0).unwrap();
        assert_eq!(seqs(events), [1, 2, 3, 4]);
        assert_eq!((events[2].content.get(), events[2].thread_id), ("\"c\"", thread));
        assert_eq!(seqs(commits.events_after(2).unwrap()), [3, 4]);
        assert_eq!(seqs(commits.events_after(4).unwrap()), [0_u64; 0]);
        // The first event is a repetition.
        publish(&feed, thread, &["b", "e"], &[2, 5], 5);
        let commits = next();
        assert_eq!(seqs(commits.events_after(4).unwrap()), [5]);
        assert!(commits.events_after(3).is_none(), "an event before these commits is not in them");
        publish(&feed, thread, &["f"], &[6], 6);
        publish(&feed, thread, &["h"], &[8], 8);
        assert!(next().events_after(5).is_none(), "another process wrote event 7");
        let large = "x".repeat(EVENT_BYTES_MAX / 2);
        publish(&feed, thread, &[&large], &[9], 9);
        publish(&feed, thread, &[&large], &[10], 10);
        let commits = next();
        assert_eq!(commits.ranges, [9..=10]);
        assert!(commits.events_after(8).is_none());
        publish(&feed, thread, &[&large, &large], &[11, 12], 11);
        assert!(next().events_after(10).is_none());
        publish(&feed, thread, &["m"], &[13], 13);
        assert_eq!(seqs(next().events_after(12).unwrap()), [13]);
    }

    #[tokio::test]
    async fn a_thread_is_processed_once_every_subscriber_asks_for_the_next_batch() {
        let (feed, thread_id) = (LocalCommitFeed::default(), ThreadId::generate());
        let (mut traces, mut hooks) = (
            feed.subscribe("traces", CommitDetail::Events).unwrap(),
            feed.subscribe("hooks", CommitDetail::Seqs).unwrap(),
        );
        feed.wait_until_processed(thread_id).await;
        publish(&feed, thread_id, &["a", "b", "c"], &[1, 2, 3], 1);
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
