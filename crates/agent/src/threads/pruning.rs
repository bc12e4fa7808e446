//! Removing threads that were not used for long. Which these are is found out first, so that it can be shown; how one is
//! removed is the matter of [`ThreadService::delete`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use journal::{HandoffFilter, PAGE_ROWS_MAX, Sort, Subagents, ThreadFilter, ThreadSize};
use protocol::{HandoffStatus, ParentKind, Thread, ThreadId, ThreadState};
use runtime::{Frame, Frames};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::agent::services::ThreadService;
use crate::threads::state_of;

/// What becomes of threads that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// They go like others.
    Pruned,
    /// They stay.
    Kept,
}

/// The threads that would be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prunable {
    /// Nothing happened in them since.
    pub before: Timestamp,
    /// The threads, children before those they came from.
    pub threads: Vec<PrunableThread>,
    /// Threads that were not used for as long and stay all the same.
    pub kept: KeptThreads,
}

/// A thread that would be removed, with those of its sub-agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrunableThread {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its name, or the beginning of the first thing said in it.
    pub name: Option<String>,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// Messages in it.
    pub messages: u64,
    /// What it holds, sub-agents included.
    #[serde(flatten)]
    pub size: ThreadSize,
}

/// How many threads stay, and why; each counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KeptThreads {
    /// Something works or waits in them: a run, a question, a handoff.
    pub in_use: usize,
    /// They have a name.
    pub named: usize,
    /// A thread that came from them stays, and looks things up in them.
    pub with_children: usize,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Threads that are gone.
    pub threads: usize,
    /// What they held.
    #[serde(flatten)]
    pub size: ThreadSize,
    /// Threads that came to be used since they were chosen, and stay.
    pub came_to_use: usize,
    /// Whether it was stopped before all were gone.
    pub is_stopped: bool,
}

/// What is looked at of a thread.
struct Candidate {
    parent_id: Option<ThreadId>,
    stays: Option<Stays>,
    thread: PrunableThread,
}

/// Why a thread stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stays {
    Used,
    InUse,
    Named,
    WithChildren,
}

impl ThreadService<'_> {
    /// Returns the threads in which nothing happened since `before` and that can go: nothing works or waits in them, and no
    /// thread that came from them stays. Those of sub-agents go with the thread they work for.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn prunable(self, before: Timestamp, named: Named) -> Result<Prunable> {
        let mut all = self.candidates(before, named).await?;
        keep_ancestors(&mut all);
        let mut kept = KeptThreads::default();
        for candidate in all.values().filter(|candidate| candidate.thread.updated_at < before) {
            match candidate.stays {
                None | Some(Stays::Used) => {}
                Some(Stays::InUse) => kept.in_use += 1,
                Some(Stays::Named) => kept.named += 1,
                Some(Stays::WithChildren) => kept.with_children += 1,
            }
        }
        let mut threads = Vec::new();
        for thread_id in children_first(&all) {
            let Some(mut found) = all.remove(&thread_id).map(|candidate| candidate.thread) else { continue };
            found.size = self.size_with_subagents(thread_id).await?;
            threads.push(found);
        }
        Ok(Prunable { before, threads, kept })
    }

    /// Removes these threads, each in a transaction of its own: it can be stopped between two, and another process may use the
    /// journal meanwhile. One that came to be used since it was chosen stays.
    ///
    /// # Errors
    /// When the journal or `agent.md` fails; what was removed by then is gone.
    pub async fn prune(
        self,
        prunable: &Prunable,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        let total = prunable.threads.len() as u64;
        for (done, chosen) in (0..).zip(&prunable.threads) {
            if cancel.is_cancelled() {
                pruned.is_stopped = true;
                return Ok(pruned);
            }
            frames.send(Frame::Progress { what: "prune".to_owned(), done, total: Some(total) });
            match self.prune_one(chosen, prunable.before).await? {
                true => {
                    pruned.threads += 1;
                    pruned.size.events += chosen.size.events;
                    pruned.size.bytes += chosen.size.bytes;
                }
                false => pruned.came_to_use += 1,
            }
        }
        Ok(pruned)
    }

    /// Removes a thread unless it came to be used; returns whether it is gone.
    async fn prune_one(self, chosen: &PrunableThread, before: Timestamp) -> Result<bool> {
        let Some(thread) = self.agent.store.thread(chosen.thread_id).await? else { return Ok(true) };
        let state = state_of(&thread, &self.display_states([&thread]).await?);
        if thread.updated_at >= before || is_in_use(state) || self.has_children(chosen.thread_id).await? {
            return Ok(false);
        }
        match self.delete(chosen.thread_id).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(true),
            Err(error) if error.is_outrun() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn has_children(self, thread_id: ThreadId) -> Result<bool> {
        let filter =
            ThreadFilter { parent_id: Some(thread_id), ..ThreadFilter::of(self.agent.scope.clone(), 1) };
        Ok(!self.agent.store.threads(filter).await?.is_empty())
    }

    /// Returns all threads but those of sub-agents, each with why it stays, as far as it says so itself.
    async fn candidates(self, before: Timestamp, named: Named) -> Result<BTreeMap<ThreadId, Candidate>> {
        let in_use = self.threads_in_use().await?;
        let filter = ThreadFilter {
            subagents: Subagents::Hidden,
            order: Sort::NEWEST,
            ..ThreadFilter::of(self.agent.scope.clone(), PAGE_ROWS_MAX)
        };
        let threads = self.list_all(filter).await?;
        let states = self.display_states(&threads).await?;
        let mut all = BTreeMap::new();
        for thread in threads {
            let is_in_use = is_in_use(state_of(&thread, &states)) || in_use.contains(&thread.thread_id);
            let stays = match named {
                Named::Pruned | Named::Kept if thread.updated_at >= before => Some(Stays::Used),
                Named::Pruned | Named::Kept if is_in_use => Some(Stays::InUse),
                Named::Kept => thread.name.is_some().then_some(Stays::Named),
                Named::Pruned => None,
            };
            all.insert(thread.thread_id, candidate(thread, stays));
        }
        Ok(all)
    }

    /// Returns the threads with a run that works or waits, or a handoff that waits for a draft or a decision.
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

    async fn size_with_subagents(self, thread_id: ThreadId) -> Result<ThreadSize> {
        let mut size = self.agent.store.thread_size(thread_id).await?;
        for subagent in self.subagents_of(thread_id).await? {
            let ThreadSize { events, bytes } = self.agent.store.thread_size(subagent).await?;
            size.events += events;
            size.bytes += bytes;
        }
        Ok(size)
    }
}

const fn is_in_use(state: ThreadState) -> bool {
    match state {
        ThreadState::Running | ThreadState::NeedsYou => true,
        ThreadState::Stopped | ThreadState::Idle | ThreadState::Error => false,
    }
}

fn candidate(thread: Thread, stays: Option<Stays>) -> Candidate {
    Candidate {
        parent_id: thread.parent_id.filter(|_| thread.parent_kind != Some(ParentKind::Subagent)),
        stays,
        thread: PrunableThread {
            thread_id: thread.thread_id,
            name: thread.name.or(thread.first_prompt),
            updated_at: thread.updated_at,
            messages: thread.message_count,
            size: ThreadSize::default(),
        },
    }
}

/// Has every thread stay from which one came that stays.
fn keep_ancestors(all: &mut BTreeMap<ThreadId, Candidate>) {
    let staying: Vec<ThreadId> =
        all.iter().filter(|(_, candidate)| candidate.stays.is_some()).map(|(id, _)| *id).collect();
    for thread_id in staying {
        let mut above = all.get(&thread_id).and_then(|candidate| candidate.parent_id);
        // One that stays has been seen to, with all above it; so a cycle ends as well.
        while let Some(parent) = above.and_then(|id| all.get_mut(&id)).filter(|parent| parent.stays.is_none())
        {
            parent.stays = Some(Stays::WithChildren);
            above = parent.parent_id;
        }
    }
}

/// Returns the threads that go, children before those they came from, so that whoever stops in between leaves none without its
/// parent; otherwise in the order of their ids, which is that of their creation, backwards.
fn children_first(all: &BTreeMap<ThreadId, Candidate>) -> Vec<ThreadId> {
    let depth = |thread_id: &ThreadId| {
        let mut depth = 0;
        let mut above = all.get(thread_id).and_then(|candidate| candidate.parent_id);
        while let Some(parent) = above.and_then(|id| all.get(&id)).filter(|_| depth < all.len()) {
            depth += 1;
            above = parent.parent_id;
        }
        depth
    };
    let mut going: Vec<(usize, ThreadId)> = all
        .iter()
        .filter(|(_, candidate)| candidate.stays.is_none())
        .map(|(thread_id, _)| (depth(thread_id), *thread_id))
        .collect();
    going.sort_by(|one, other| other.cmp(one));
    going.into_iter().map(|(_, thread_id)| thread_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads threads, each a letter with its parent's behind it: capitals are used and stay.
    fn check(threads: &[&str], expected: &str) {
        let id = |letter: char| {
            let number = u128::from(u32::from(letter.to_ascii_lowercase()));
            ThreadId::from_uuid(uuid::Uuid::from_u128(number))
        };
        let mut all = BTreeMap::new();
        for text in threads {
            let mut letters = text.chars();
            let own = letters.next().unwrap();
            let parent_id = letters.next().map(id);
            let thread = PrunableThread {
                thread_id: id(own),
                name: None,
                updated_at: Timestamp::UNIX_EPOCH,
                messages: 0,
                size: ThreadSize::default(),
            };
            let stays = own.is_uppercase().then_some(Stays::Used);
            all.insert(id(own), Candidate { parent_id, stays, thread });
        }
        keep_ancestors(&mut all);
        let letter = |thread_id: ThreadId| {
            threads.iter().filter_map(|text| text.chars().next()).find(|own| id(*own) == thread_id).unwrap()
        };
        let going: String = children_first(&all).into_iter().map(letter).collect();
        assert_eq!(going, expected, "{threads:?}");
    }

    #[test]
    fn h8_a_thread_goes_only_with_all_that_came_from_it_and_after_them() {
        check(&["a", "b", "c"], "cba");
        check(&["a", "ba", "cb"], "cba");
        check(&["c", "bc", "ab"], "abc");
        check(&["a", "Ba", "cb"], "c");
        check(&["a", "ba", "Cb"], "");
        check(&["a", "ba", "Ca"], "b");
        check(&["az", "ba"], "ba");
    }

    #[test]
    fn threads_that_came_from_each_other_end_the_walk() {
        check(&["ab", "ba"], "ba");
        check(&["ab", "ba", "Ca"], "");
    }
}
