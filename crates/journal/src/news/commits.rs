//! What this process commits, for who follows it beside the work: which threads have new events, and from which on. It says where to
//! look and holds nothing of what is there, so it stays small however far behind the follower is; no commit waits for anybody.
//! What other processes commit is news.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    is_followed: AtomicBool,
    /// The first new event of each thread.
    threads: Mutex<HashMap<ThreadId, Seq>>,
    rings: Notify,
}

/// The one who follows, until it is dropped.
#[derive(Debug)]
pub struct Following(Commits);

impl Commits {
    /// Follows from here on; `None` while somebody else does.
    pub fn follow(&self) -> Option<Following> {
        let is_free = !self.0.is_followed.swap(true, Ordering::Relaxed);
        is_free.then(|| Following(self.clone()))
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
        let mut told = self.threads();
        for (thread_id, seqs) in threads.iter().zip(&committed.seqs) {
            let Some(first) = first_new(seqs) else { continue };
            match told.entry(*thread_id) {
                Entry::Vacant(place) => {
                    place.insert(first);
                }
                Entry::Occupied(mut known) => *known.get_mut() = (*known.get()).min(first),
            }
        }
        drop(told);
        self.0.rings.notify_one();
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, Seq>> {
        self.0.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first of the seqs that were handed out just now: one after the other, and above those of repetitions, which an append
/// returns as they were.
fn first_new(seqs: &[Seq]) -> Option<Seq> {
    let mut seqs = seqs.to_vec();
    seqs.sort_unstable();
    let newest = seqs.pop()?;
    Some(seqs.into_iter().rev().fold(newest, |first, seq| if seq + 1 == first { seq } else { first }))
}

impl Following {
    /// Returns the threads something was committed to since the last call, with the first new event of each; waits while there are none.
    pub async fn next(&mut self) -> Vec<(ThreadId, Seq)> {
        loop {
            let threads = self.waiting();
            if !threads.is_empty() {
                return threads;
            }
            self.0.0.rings.notified().await;
        }
    }

    /// Returns the same without waiting.
    pub fn waiting(&mut self) -> Vec<(ThreadId, Seq)> {
        self.0.threads().drain().collect()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.0.is_followed.store(false, Ordering::Relaxed);
        self.0.threads().clear();
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
    async fn who_follows_is_told_where_each_thread_has_something_new_and_nobody_else_is() {
        let (commits, one, other) = (Commits::default(), ThreadId::generate(), ThreadId::generate());
        assert!(commits.appends(&append(one)).is_empty(), "nobody follows");
        let mut following = commits.follow().unwrap();
        assert!(commits.follow().is_none(), "one does");
        for (thread_id, seqs) in [(one, &[4, 5][..]), (one, &[2]), (other, &[7]), (one, &[])] {
            let threads = commits.appends(&append(thread_id));
            commits.tell(&threads, &committed(seqs));
        }
        let mut told = following.next().await;
        told.sort_unstable();
        let mut expected = vec![(one, 2), (other, 7)];
        expected.sort_unstable();
        assert_eq!(told, expected);
        assert!(following.waiting().is_empty(), "once");
        // What was stored before an append repeats is nothing new, and neither is what stands before it.
        let threads = commits.appends(&append(one));
        commits.tell(&threads, &Committed { stored: 0, ..committed(&[3]) });
        assert!(following.waiting().is_empty());
        commits.tell(&threads, &Committed { stored: 2, ..committed(&[3, 9, 10]) });
        assert_eq!(following.waiting(), [(one, 9)]);
        drop(following);
        assert!(commits.follow().is_some());
    }
}
