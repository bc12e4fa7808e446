//! What this process commits, for who follows it beside the work: which threads have new events, and where. It says where to
//! look and holds nothing of what is there, so it stays small however far behind a follower is; no commit waits for anybody.
//! What other processes commit is news.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use protocol::{Seq, ThreadId};
use tokio::sync::Notify;

use crate::{Committed, Transaction, Write};

/// Where it is told what one journal commits. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Commits(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    /// Whether there is anybody at all: a commit asks nothing else then.
    is_followed: AtomicBool,
    followers: Mutex<Vec<Arc<Follower>>>,
}

/// What one follower has not asked for yet, and what it is at.
#[derive(Debug)]
struct Follower {
    name: &'static str,
    work: Mutex<Work>,
    rings: Notify,
    /// Rings when it has done with what it was at.
    passes: Notify,
}

#[derive(Debug, Default)]
struct Work {
    waiting: HashMap<ThreadId, Vec<RangeInclusive<Seq>>>,
    at: HashSet<ThreadId>,
}

/// One who follows, until it is dropped.
#[derive(Debug)]
pub struct Following {
    commits: Commits,
    own: Arc<Follower>,
}

impl Commits {
    /// Follows from here on under a name; `None` while somebody else does under the same.
    pub fn follow(&self, name: &'static str) -> Option<Following> {
        let mut followers = self.0.followers.lock();
        if followers.iter().any(|follower| follower.name == name) {
            return None;
        }
        let (rings, passes) = (Notify::new(), Notify::new());
        let own = Arc::new(Follower { name, work: Mutex::default(), rings, passes });
        followers.push(Arc::clone(&own));
        self.0.is_followed.store(true, Ordering::Relaxed);
        Some(Following { commits: self.clone(), own })
    }

    /// Returns the threads a transaction appends to, one for each append; nothing while nobody follows.
    pub(crate) fn appends(&self, transaction: &Transaction) -> Vec<ThreadId> {
        if !self.0.is_followed.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let appended = |write: &Write| {
            let Write::Append { thread_id, .. } = write else { return None };
            Some(*thread_id)
        };
        transaction.writes.iter().filter_map(appended).collect()
    }

    /// Tells of what was committed; `threads` are those of the appends.
    pub(crate) fn tell(&self, threads: &[ThreadId], committed: &Committed) {
        if threads.is_empty() || committed.stored == 0 {
            return;
        }
        for follower in self.0.followers.lock().iter() {
            let mut work = follower.work.lock();
            for (thread_id, new) in threads.iter().zip(&committed.new) {
                if let Some(stored) = new {
                    add(work.waiting.entry(*thread_id).or_default(), stored.clone());
                }
            }
            drop(work);
            follower.rings.notify_one();
        }
    }

    /// Waits until all who follow have read what was committed to the thread: what is deleted cannot be read any more. Nobody should wait
    /// for this without a limit.
    pub async fn read(&self, thread_id: ThreadId) {
        let followers: Vec<Arc<Follower>> = self.0.followers.lock().clone();
        for follower in followers {
            loop {
                let passed = follower.passes.notified();
                if !follower.is_at(thread_id) {
                    break;
                }
                passed.await;
            }
        }
    }
}

/// Adds a stretch to those before it; what lies between two is another process's.
fn add(stretches: &mut Vec<RangeInclusive<Seq>>, stored: RangeInclusive<Seq>) {
    match stretches.last_mut() {
        Some(last) if *last.end() + 1 == *stored.start() => *last = *last.start()..=*stored.end(),
        // Two commits of a thread may be told in the other order.
        Some(last) if *stored.end() + 1 == *last.start() => *last = *stored.start()..=*last.end(),
        _ => stretches.push(stored),
    }
}

impl Follower {
    fn is_at(&self, thread_id: ThreadId) -> bool {
        let work = self.work.lock();
        work.waiting.contains_key(&thread_id) || work.at.contains(&thread_id)
    }

    /// Has done with what it was at.
    fn pass(&self) {
        self.work.lock().at.clear();
        self.passes.notify_waiters();
    }
}

impl Following {
    /// Returns the threads something was committed to since the last call, with the stretches of seqs that this process wrote, in
    /// order; waits while there are none. Whoever calls has read what the last call returned.
    pub async fn next(&mut self) -> Vec<(ThreadId, Vec<RangeInclusive<Seq>>)> {
        loop {
            let threads = self.waiting();
            if !threads.is_empty() {
                return threads;
            }
            self.own.rings.notified().await;
        }
    }

    /// Returns the same without waiting.
    pub fn waiting(&mut self) -> Vec<(ThreadId, Vec<RangeInclusive<Seq>>)> {
        self.own.pass();
        let mut work = self.own.work.lock();
        let mut threads: Vec<_> = work.waiting.drain().collect();
        work.at = threads.iter().map(|(thread_id, _)| *thread_id).collect();
        drop(work);
        threads.iter_mut().for_each(|(_, stretches)| stretches.sort_unstable_by_key(|seqs| *seqs.start()));
        threads
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut followers = self.commits.0.followers.lock();
        followers.retain(|follower| !Arc::ptr_eq(follower, &self.own));
        self.commits.0.is_followed.store(!followers.is_empty(), Ordering::Relaxed);
        drop(followers);
        // Nobody waits for one who is gone.
        self.own.work.lock().waiting.clear();
        self.own.pass();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(thread_id: ThreadId) -> Transaction {
        Transaction { fence: None, writes: vec![Write::Append { thread_id, events: Vec::new() }] }
    }

    fn committed(new: Option<RangeInclusive<Seq>>) -> Committed {
        let stored = new.clone().map_or(0, |new| new.count() as u64);
        Committed { new: vec![new], stored, ..Committed::default() }
    }

    #[tokio::test]
    async fn who_follows_is_told_what_of_each_thread_is_new_and_nobody_else_is() {
        let (commits, one, other) = (Commits::default(), ThreadId::generate(), ThreadId::generate());
        assert!(commits.appends(&append(one)).is_empty(), "nobody follows");
        let mut following = commits.follow("traces").unwrap();
        assert!(commits.follow("traces").is_none(), "one does");
        let mut second = commits.follow("hooks").unwrap();
        for (thread_id, new) in [(one, 4..=5), (one, 2..=3), (other, 7..=7), (one, 6..=6)] {
            let threads = commits.appends(&append(thread_id));
            commits.tell(&threads, &committed(Some(new)));
        }
        let mut expected = vec![(one, vec![2..=6]), (other, vec![7..=7])];
        expected.sort_unstable_by_key(|(thread_id, _)| *thread_id);
        for following in [&mut following, &mut second] {
            let mut told = following.next().await;
            told.sort_unstable_by_key(|(thread_id, _)| *thread_id);
            assert_eq!(told, expected);
            assert!(following.waiting().is_empty(), "once");
        }
        // What an append only repeats is nothing new.
        let threads = commits.appends(&append(one));
        commits.tell(&threads, &committed(None));
        assert!(following.waiting().is_empty());
        // What another process wrote in between is not this one's.
        commits.tell(&threads, &committed(Some(12..=12)));
        commits.tell(&threads, &committed(Some(15..=16)));
        assert_eq!(following.waiting(), [(one, vec![12..=12, 15..=16])]);
        drop(following);
        assert!(!commits.appends(&append(one)).is_empty(), "another one still follows");
        drop(second);
        assert!(commits.appends(&append(one)).is_empty());
        assert!(commits.follow("traces").is_some());
    }

    #[tokio::test]
    async fn a_thread_is_read_once_every_follower_comes_back_for_more() {
        let (commits, thread_id) = (Commits::default(), ThreadId::generate());
        let (mut one, mut other) = (commits.follow("traces").unwrap(), commits.follow("hooks").unwrap());
        commits.read(thread_id).await;
        let threads = commits.appends(&append(thread_id));
        commits.tell(&threads, &committed(Some(1..=3)));
        let mut reading = Box::pin(commits.read(thread_id));
        let is_done = futures::poll!(&mut reading).is_ready();
        assert!(!is_done, "nobody has looked");
        assert_eq!(one.next().await.len(), 1);
        assert!(one.waiting().is_empty());
        assert_eq!(other.next().await.len(), 1);
        let is_done = futures::poll!(&mut reading).is_ready();
        assert!(!is_done, "one is at it");
        drop(other);
        reading.await;
    }
}
