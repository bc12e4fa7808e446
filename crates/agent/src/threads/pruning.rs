//! Pruning: deleting threads that have not been used for a long time. A plan is made first, so that a person
//! can confirm it. [`ThreadService::delete`] deletes each thread.

use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use journal::{HandoffFilter, PAGE_ROWS_MAX, SubagentVisibility, ThreadFilter, ThreadSize, ThreadSort};
use protocol::{HandoffStatus, ParentKind, Thread, ThreadId, ThreadState};
use runtime::{Frame, FrameSender};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::ThreadService;
use crate::threads::display_state;

/// The treatment of named threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedThreadPolicy {
    /// They are deleted like others.
    Prune,
    /// They are kept.
    Keep,
}

/// A plan of the threads that would be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrunePlan {
    /// The time since which the threads have been inactive.
    pub before: Timestamp,
    /// The threads to delete. Children precede their parents.
    pub threads: Vec<PrunableThread>,
    /// The number of other inactive threads, which are kept.
    pub kept: KeptThreadCounts,
}

/// A thread that would be deleted together with its sub-agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrunableThread {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its name, or else its first prompt.
    pub name: Option<String>,
    /// The time of its last activity.
    pub updated_at: Timestamp,
    /// The number of its messages.
    pub messages: u64,
    /// Its size, including sub-agents.
    #[serde(flatten)]
    pub size: ThreadSize,
}

/// The number of inactive threads that are kept, by reason. Each thread counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KeptThreadCounts {
    /// Threads with an active or queued run, a pending question or a pending handoff.
    pub in_use: usize,
    /// Threads with a name.
    pub named: usize,
    /// Threads with a child that is kept, because the child can recall messages from them.
    pub with_children: usize,
}

/// The result of a pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// The number of deleted threads.
    pub threads: usize,
    /// Their total size.
    #[serde(flatten)]
    pub size: ThreadSize,
    /// The number of planned threads that became active since the plan was made and were kept.
    pub came_to_use: usize,
    /// True if the pruning was cancelled before it was complete.
    pub is_stopped: bool,
}

/// A thread with the facts that decide whether it is kept.
struct PruneCandidate {
    /// The parent; `None` for a root.
    parent_id: Option<ThreadId>,
    /// The reason to keep the thread; `None` if it can be deleted.
    keep_reason: Option<KeepReason>,
    /// The thread as it appears in a plan.
    thread: PrunableThread,
}

/// The reason why a thread is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepReason {
    /// It was active since the given time.
    RecentlyUsed,
    /// A run, a question or a handoff is pending.
    InUse,
    /// It has a name and named threads are kept.
    Named,
    /// A descendant is kept.
    HasChildren,
}

impl<'a> ThreadService<'a> {
    /// Returns a plan to delete the threads that have been inactive since `before`, have no pending work and
    /// no descendant that is kept. Threads of sub-agents are deleted with their parents. Reads all threads of
    /// the owner.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn prune_plan(self, before: Timestamp, named: NamedThreadPolicy) -> BoxFuture<'a, Result<PrunePlan>> {
        journal::box_future(async move {
            let mut all = self.prune_candidates(before, named).await?;
            keep_ancestors(&mut all);
            let mut kept = KeptThreadCounts::default();
            for candidate in all.values().filter(|candidate| candidate.thread.updated_at < before) {
                match candidate.keep_reason {
                    None | Some(KeepReason::RecentlyUsed) => {}
                    Some(KeepReason::InUse) => kept.in_use += 1,
                    Some(KeepReason::Named) => kept.named += 1,
                    Some(KeepReason::HasChildren) => kept.with_children += 1,
                }
            }
            let mut threads = Vec::new();
            for thread_id in prune_order(&all) {
                let Some(mut prunable) = all.remove(&thread_id).map(|candidate| candidate.thread) else {
                    continue;
                };
                prunable.size = self.size_with_subagents(thread_id).await?;
                threads.push(prunable);
            }
            Ok(PrunePlan { before, threads, kept })
        })
    }

    /// Deletes the planned threads, each in its own transaction. The pruning can therefore be cancelled
    /// between two threads, and other processes can use the journal meanwhile. A thread that became active
    /// since the plan was made is kept.
    ///
    /// # Errors
    /// Fails if the journal fails or `agent.md` cannot be written. Threads that were deleted before stay
    /// deleted.
    pub fn prune(
        self,
        plan: &'a PrunePlan,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<PruneReport>> {
        journal::box_future(async move {
            let mut report = PruneReport::default();
            let total = plan.threads.len() as u64;
            for (done, planned) in (0..).zip(&plan.threads) {
                if cancel.is_cancelled() {
                    report.is_stopped = true;
                    return Ok(report);
                }
                frames.send(Frame::Progress { what: "prune".to_owned(), done, total: Some(total) });
                match self.prune_one(planned, plan.before).await? {
                    true => {
                        report.threads += 1;
                        report.size.events += planned.size.events;
                        report.size.bytes += planned.size.bytes;
                    }
                    false => report.came_to_use += 1,
                }
            }
            Ok(report)
        })
    }

    /// Deletes a thread unless it became active. Returns whether it no longer exists.
    async fn prune_one(self, planned: &PrunableThread, before: Timestamp) -> Result<bool> {
        let Some(thread) = self.agent.store.thread(planned.thread_id).await? else { return Ok(true) };
        let state = display_state(&thread, &self.display_states([&thread]).await?);
        if thread.updated_at >= before || is_in_use(state) || self.has_children(planned.thread_id).await? {
            return Ok(false);
        }
        match self.delete(planned.thread_id).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) if error.has_lost_race() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the thread has children other than sub-agents.
    async fn has_children(self, thread_id: ThreadId) -> Result<bool> {
        let filter = ThreadFilter {
            parent_id: Some(thread_id),
            ..ThreadFilter::for_scope(self.agent.scope.clone(), 1)
        };
        Ok(!self.agent.store.threads(filter).await?.is_empty())
    }

    /// Returns all threads except those of sub-agents, each with its own reason to be kept. Descendants are
    /// not considered yet.
    async fn prune_candidates(
        self,
        before: Timestamp,
        named: NamedThreadPolicy,
    ) -> Result<BTreeMap<ThreadId, PruneCandidate>> {
        let in_use = self.threads_in_use().await?;
        let filter = ThreadFilter {
            subagents: SubagentVisibility::Hidden,
            order: ThreadSort::NEWEST,
            ..ThreadFilter::for_scope(self.agent.scope.clone(), PAGE_ROWS_MAX)
        };
        let threads = self.list_all(filter).await?;
        let states = self.display_states(&threads).await?;
        let mut all = BTreeMap::new();
        for thread in threads {
            let is_in_use = is_in_use(display_state(&thread, &states)) || in_use.contains(&thread.thread_id);
            let keep_reason = match named {
                NamedThreadPolicy::Prune | NamedThreadPolicy::Keep if thread.updated_at >= before => {
                    Some(KeepReason::RecentlyUsed)
                }
                NamedThreadPolicy::Prune | NamedThreadPolicy::Keep if is_in_use => Some(KeepReason::InUse),
                NamedThreadPolicy::Keep => thread.name.is_some().then_some(KeepReason::Named),
                NamedThreadPolicy::Prune => None,
            };
            all.insert(thread.thread_id, prune_candidate(thread, keep_reason));
        }
        Ok(all)
    }

    /// Returns the threads with an active or queued run, or a pending handoff.
    async fn threads_in_use(self) -> Result<BTreeSet<ThreadId>> {
        let mut in_use = BTreeSet::new();
        in_use.extend(self.agent.store.active_runs(None).await?.into_iter().map(|run| run.thread_id));
        in_use.extend(self.agent.store.queued_runs(None).await?.into_iter().map(|run| run.thread_id));
        let pending = HandoffFilter {
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            ..HandoffFilter::default()
        };
        in_use.extend(
            self.agent.store.handoffs(pending).await?.into_iter().map(|handoff| handoff.parent_thread_id),
        );
        Ok(in_use)
    }

    /// Returns the size of a thread including its sub-agents.
    async fn size_with_subagents(self, thread_id: ThreadId) -> Result<ThreadSize> {
        let mut size = self.agent.store.thread_size(thread_id).await?;
        for subagent in self.subagent_thread_ids(thread_id).await? {
            let ThreadSize { events, bytes } = self.agent.store.thread_size(subagent).await?;
            size.events += events;
            size.bytes += bytes;
        }
        Ok(size)
    }
}

/// Returns whether a thread in this state has pending work.
const fn is_in_use(state: ThreadState) -> bool {
    match state {
        ThreadState::Running | ThreadState::NeedsInput => true,
        ThreadState::Stopped | ThreadState::Idle | ThreadState::Error => false,
    }
}

/// Converts a thread into a candidate.
fn prune_candidate(thread: Thread, keep_reason: Option<KeepReason>) -> PruneCandidate {
    PruneCandidate {
        parent_id: thread.parent_id.filter(|_| thread.parent_kind != Some(ParentKind::Subagent)),
        keep_reason,
        thread: PrunableThread {
            thread_id: thread.thread_id,
            name: thread.name.or(thread.first_prompt),
            updated_at: thread.updated_at,
            messages: thread.message_count,
            size: ThreadSize::default(),
        },
    }
}

/// Marks all ancestors of kept threads as kept.
fn keep_ancestors(all: &mut BTreeMap<ThreadId, PruneCandidate>) {
    let kept: Vec<ThreadId> =
        all.iter().filter(|(_, candidate)| candidate.keep_reason.is_some()).map(|(id, _)| *id).collect();
    for thread_id in kept {
        let mut ancestor = all.get(&thread_id).and_then(|candidate| candidate.parent_id);
        // The walk ends at an ancestor that is kept already, because its own ancestors are marked. It
        // therefore also ends in a cycle.
        while let Some(parent) =
            ancestor.and_then(|id| all.get_mut(&id)).filter(|parent| parent.keep_reason.is_none())
        {
            parent.keep_reason = Some(KeepReason::HasChildren);
            ancestor = parent.parent_id;
        }
    }
}

/// Returns the threads to delete, children before their parents, so that an interruption leaves no thread
/// without its parent. Threads of the same depth are sorted by descending id, which means newest first.
fn prune_order(all: &BTreeMap<ThreadId, PruneCandidate>) -> Vec<ThreadId> {
    let depth = |thread_id: &ThreadId| {
        let mut depth = 0;
        let mut ancestor = all.get(thread_id).and_then(|candidate| candidate.parent_id);
        while let Some(parent) = ancestor.and_then(|id| all.get(&id)).filter(|_| depth < all.len()) {
            depth += 1;
            ancestor = parent.parent_id;
        }
        depth
    };
    let mut prunable: Vec<(usize, ThreadId)> = all
        .iter()
        .filter(|(_, candidate)| candidate.keep_reason.is_none())
        .map(|(thread_id, _)| (depth(thread_id), *thread_id))
        .collect();
    prunable.sort_by(|left, right| right.cmp(left));
    prunable.into_iter().map(|(_, thread_id)| thread_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the prune order. Each thread is a letter, followed by the letter of its parent if it has one.
    /// Capital letters are in use and kept.
    fn check(threads: &[&str], expected: &str) {
        let id = |letter: char| {
            let number = u128::from(u32::from(letter.to_ascii_lowercase()));
            ThreadId::from_uuid(uuid::Uuid::from_u128(number))
        };
        let mut all = BTreeMap::new();
        for text in threads {
            let mut letters = text.chars();
            let own_letter = letters.next().unwrap();
            let parent_id = letters.next().map(id);
            let thread = PrunableThread {
                thread_id: id(own_letter),
                name: None,
                updated_at: Timestamp::UNIX_EPOCH,
                messages: 0,
                size: ThreadSize::default(),
            };
            let keep_reason = own_letter.is_uppercase().then_some(KeepReason::RecentlyUsed);
            all.insert(id(own_letter), PruneCandidate { parent_id, keep_reason, thread });
        }
        keep_ancestors(&mut all);
        let letter = |thread_id: ThreadId| {
            threads
                .iter()
                .filter_map(|text| text.chars().next())
                .find(|own_letter| id(*own_letter) == thread_id)
                .unwrap()
        };
        let order: String = prune_order(&all).into_iter().map(letter).collect();
        assert_eq!(order, expected, "{threads:?}");
    }

    #[test]
    fn h8_a_thread_is_pruned_only_with_all_its_descendants_and_after_them() {
        check(&["a", "b", "c"], "cba");
        check(&["a", "ba", "cb"], "cba");
        check(&["c", "bc", "ab"], "abc");
        check(&["a", "Ba", "cb"], "c");
        check(&["a", "ba", "Cb"], "");
        check(&["a", "ba", "Ca"], "b");
        check(&["az", "ba"], "ba");
    }

    #[test]
    fn a_cycle_of_parents_ends_the_walk() {
        check(&["ab", "ba"], "ba");
        check(&["ab", "ba", "Ca"], "");
    }
}
