//! What this process commits, for who follows it beside the work: which threads have new events, and where. It says where to
//! look and holds nothing of what is there, so it stays small however far behind a follower is; no commit waits for anybody.
//! What other processes commit is news.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// What one follower has not asked for yet.
#[derive(Debug)]
struct Follower {
    name: &'static str,
    threads: Mutex<HashMap<ThreadId, Vec<RangeInclusive<Seq>>>>,
    rings: Notify,
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
        let mut followers = self.followers();
        if followers.iter().any(|follower| follower.name == name) {
            return None;
        }
        let own = Arc::new(Follower { name, threads: Mutex::default(), rings: Notify::new() });
        followers.push(Arc::clone(&own));
        self.0.is_followed.store(true, Ordering::Relaxed);
        Some(Following { commits: self.clone(), own })
    }

    /// Returns the threads a transaction appends to, one for each append; nothing while nobody follows.
    pub(crate) fn appends(&self, transaction: &Transaction) -> Vec<ThreadId> {
        if !self.0.is_followed.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let appended = |write: &Write| match write {
            Write::Append { thread_id, .. } => Some(*thread_id),
            _ => None,
        };
        transaction.writes.iter().filter_map(appended).collect()
    }

    /// Tells of what was committed; `threads` are those of the appends.
    pub(crate) fn tell(&self, threads: &[ThreadId], committed: &Committed) {
        if threads.is_empty() || committed.stored == 0 {
            return;
        }
        for follower in self.followers().iter() {
            let mut told = follower.threads();
            for (thread_id, seqs) in threads.iter().zip(&committed.seqs) {
                if let Some(stored) = newly_stored(seqs) {
                    add(told.entry(*thread_id).or_default(), stored);
                }
            }
            drop(told);
            follower.rings.notify_one();
        }
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Arc<Follower>>> {
        self.0.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the seqs that were handed out just now: one after the other, and above those of repetitions, which an append
/// returns as they were.
fn newly_stored(seqs: &[Seq]) -> Option<RangeInclusive<Seq>> {
    let mut seqs = seqs.to_vec();
    seqs.sort_unstable();
    let newest = seqs.pop()?;
    let first = seqs.into_iter().rev().fold(newest, |first, seq| if seq + 1 == first { seq } else { first });
    Some(first..=newest)
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
    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<RangeInclusive<Seq>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Following {
    /// Returns the threads something was committed to since the last call, with the stretches of seqs that this process wrote, in
    /// order; waits while there are none.
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
        let mut threads: Vec<_> = self.own.threads().drain().collect();
        threads.iter_mut().for_each(|(_, stretches)| stretches.sort_unstable_by_key(|seqs| *seqs.start()));
        threads
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut followers = self.commits.followers();
        followers.retain(|follower| !Arc::ptr_eq(follower, &self.own));
        self.commits.0.is_followed.store(!followers.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(thread_id: ThreadId) -> Transaction {
        Transaction { fence: None, writes: vec![Write::Append { thread_id, events: Vec::new() }] }
    }

    fn committed(seqs: &[Seq]) -> Committed {
        Committed { seqs: vec![seqs.to_vec()], stored: seqs.len() as u64, ..Committed::default() }
    }

    #[tokio::test]
    async fn who_follows_is_told_what_of_each_thread_is_new_and_nobody_else_is() {
        let (commits, one, other) = (Commits::default(), ThreadId::generate(), ThreadId::generate());
        assert!(commits.appends(&append(one)).is_empty(), "nobody follows");
        let mut following = commits.follow("traces").unwrap();
        assert!(commits.follow("traces").is_none(), "one does");
        let mut second = commits.follow("hooks").unwrap();
        for (thread_id, seqs) in [(one, &[4, 5][..]), (one, &[2, 3]), (other, &[7]), (one, &[6]), (one, &[])]
        {
            let threads = commits.appends(&append(thread_id));
            commits.tell(&threads, &committed(seqs));
        }
        let mut expected = vec![(one, vec![2..=6]), (other, vec![7..=7])];
        expected.sort_unstable_by_key(|(thread_id, _)| *thread_id);
        for following in [&mut following, &mut second] {
            let mut told = following.next().await;
            told.sort_unstable_by_key(|(thread_id, _)| *thread_id);
            assert_eq!(told, expected);
            assert!(following.waiting().is_empty(), "once");
        }
        // What was stored before an append repeats is nothing new, and neither is what stands before it.
        let threads = commits.appends(&append(one));
        commits.tell(&threads, &Committed { stored: 0, ..committed(&[3]) });
        assert!(following.waiting().is_empty());
        commits.tell(&threads, &Committed { stored: 2, ..committed(&[3, 9, 10]) });
        assert_eq!(following.waiting(), [(one, vec![9..=10])]);
        // What another process wrote in between is not this one's.
        commits.tell(&threads, &committed(&[12]));
        commits.tell(&threads, &committed(&[15, 16]));
        assert_eq!(following.waiting(), [(one, vec![12..=12, 15..=16])]);
        drop(following);
        assert!(!commits.appends(&append(one)).is_empty(), "another one still follows");
        drop(second);
        assert!(commits.appends(&append(one)).is_empty());
        assert!(commits.follow("traces").is_some());
    }
}
