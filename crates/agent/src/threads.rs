//! The thread service: finding, listing, renaming and deleting threads, and their tree.

pub(crate) mod compaction;
pub(crate) mod error;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod lineage;
pub(crate) mod pruning;
mod queries;
pub(crate) mod reports;
pub(crate) mod rewind;
pub(crate) mod rollback;
pub(crate) mod states;

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use journal::{
    AllThreadsSubscription, HandoffFilter, ThreadFilter, ThreadPatch, ThreadSort, ThreadSubscription,
    Transaction, Write,
};
use protocol::event::body::ThreadRenamed;
use protocol::{HandoffStatus, NewEvent, ParentKind, Thread, ThreadId, ThreadState};
use serde::Serialize;

use crate::MergedParent;
use crate::handoffs::MergedHandoffs;
use crate::{Agent, Result, ThreadError};

/// The longest time that the deletion of a thread waits for hooks and trace exports that still read its
/// events.
const READERS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Threads: finding, listing, reading, changing, importing and deleting them, and the states clients see of them.
#[derive(Clone, Copy)]
pub struct ThreadService<'a> {
    /// The agent whose threads the service works on.
    pub(crate) agent: &'a Agent,
}

impl Agent {
    /// Returns the service for threads.
    pub const fn threads(&self) -> ThreadService<'_> {
        ThreadService { agent: self }
    }
}

/// A thread with its descendants.
#[derive(Debug, Clone, Serialize)]
pub struct ThreadNode {
    /// The thread.
    pub thread: Thread,
    /// The state of the thread, as lists show it.
    pub state: ThreadState,
    /// The child threads, oldest first.
    pub children: Vec<ThreadNode>,
    /// The threads that were handed off into it after its parent.
    pub merged_parents: Vec<MergedParent>,
    /// The threads into which it was handed off too, and which are children of other threads.
    pub merged_children: Vec<Thread>,
}

impl<'a> ThreadService<'a> {
    /// Finds the thread whose id begins with `prefix`. The prefix `last` means the most recently active
    /// thread.
    ///
    /// # Errors
    /// [`ThreadError::Unknown`] if there is none; [`ThreadError::Ambiguous`] if there are several.
    pub fn find(self, prefix: &'a str) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            let matches = match prefix {
                "last" => return self.last_thread().await,
                _ if prefix.trim().is_empty() => Vec::new(),
                _ => self.agent.store.threads_by_prefix(prefix, &self.agent.scope).await?,
            };
            match matches.as_slice() {
                [] => Err(ThreadError::Unknown(prefix.to_owned()).into()),
                [only] => self.agent.thread(*only).await,
                _ => Err(ThreadError::Ambiguous { prefix: prefix.to_owned(), matches }.into()),
            }
        })
    }

    /// Returns the most recently active thread. If it was just handed off, returns the child thread that
    /// awaits its first turn.
    async fn last_thread(self) -> Result<Thread> {
        let newest = self.list(ThreadFilter { limit: 1, ..ThreadFilter::default() }).await?.pop();
        let newest = newest.ok_or_else(|| ThreadError::Unknown("last".to_owned()))?;
        self.continuation_thread(newest).await
    }

    /// Returns the thread in which work on `thread` continues. This is its child if the thread's latest
    /// change is an accepted handoff and the child has not had its first turn; otherwise it is `thread`
    /// itself.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn continuation_thread(self, thread: Thread) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            let handed_off = thread.handoff_mark().filter(|mark| mark.source_thread_id == thread.thread_id);
            let child = match handed_off {
                Some(mark) => self.agent.store.thread(mark.child_thread_id).await?,
                None => None,
            };
            let awaits_first_turn = |child: &Thread| child.handoff_mark().is_some_and(|mark| mark.pending);
            Ok(child.filter(awaits_first_turn).unwrap_or(thread))
        })
    }

    /// Returns a thread by its id; `None` if it does not exist, was deleted or belongs to another owner.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn get(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Option<Thread>>> {
        journal::box_future(async move { Ok(self.agent.store.thread(thread_id).await?) })
    }

    /// Subscribes to the commits of all threads.
    pub fn subscribe_commits(self) -> AllThreadsSubscription {
        self.agent.store.commit_feed().subscribe_all()
    }

    /// Subscribes to the commits of one thread.
    pub fn subscribe_thread_commits(self, thread_id: ThreadId) -> ThreadSubscription {
        self.agent.store.commit_feed().subscribe_thread(thread_id)
    }

    /// Returns a page of threads.
    ///
    /// # Errors
    /// Fails if the page has no rows or more than [`journal::PAGE_ROWS_MAX`], or if the journal fails.
    pub fn list(self, filter: ThreadFilter) -> BoxFuture<'a, Result<Vec<Thread>>> {
        journal::box_future(async move { Ok(self.agent.store.threads(filter).await?) })
    }

    /// Returns all threads that match the filter, ignoring its page. Reads page by page.
    async fn list_all(self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        let mut all = Vec::new();
        loop {
            let (offset, limit) = (all.len(), journal::PAGE_ROWS_MAX);
            let page = self.list(ThreadFilter { offset, limit, ..filter.clone() }).await?;
            let is_last = page.len() < limit;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Returns the states of the threads, as lists show them. Missing threads are left out.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub async fn display_states(
        self,
        threads: impl IntoIterator<Item = &Thread> + Send,
    ) -> Result<BTreeMap<ThreadId, ThreadState>> {
        let ids: Vec<ThreadId> = threads.into_iter().map(|thread| thread.thread_id).collect();
        let mut states = BTreeMap::new();
        for page in ids.chunks(journal::PAGE_ROWS_MAX) {
            states.extend(self.agent.store.thread_states(page).await?);
        }
        Ok(states)
    }

    /// Returns all threads as trees, the most recently active root first. With `root`, returns only the tree
    /// that contains that thread, from its oldest ancestor on. Reads all threads of the owner.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn tree(self, root: Option<ThreadId>) -> BoxFuture<'a, Result<Vec<ThreadNode>>> {
        journal::box_future(async move {
            let all = self.list_all(ThreadFilter::default()).await?;
            let states = self.display_states(&all).await?;
            let merged = self.agent.handoffs().all_merged().await?;
            let merged_threads: BTreeMap<ThreadId, Thread> = all
                .iter()
                .filter(|thread| merged.parents.contains_key(&thread.thread_id))
                .map(|thread| (thread.thread_id, thread.clone()))
                .collect();
            let source = TreeSource { states: &states, merged: &merged, merged_threads: &merged_threads };
            Ok(build_tree(all, source, root))
        })
    }

    /// Renames the thread. The time of its last activity, by which lists are sorted, does not change.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn rename(self, thread_id: ThreadId, name: &'a str) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            let now = Timestamp::now();
            let previous = self.agent.thread(thread_id).await?.name;
            let renamed = NewEvent::from_body(&ThreadRenamed { name: name.to_owned(), previous }, now)?;
            let writes = vec![
                Write::UpdateThread {
                    thread_id,
                    patch: ThreadPatch { name: Some(name.to_owned()), ..ThreadPatch::default() },
                },
                Write::Append { thread_id, events: vec![renamed] },
            ];
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            self.agent.thread(thread_id).await
        })
    }

    /// Deletes the thread with everything that belongs to it, including the threads of its sub-agents. The
    /// block in `agent.md` is removed if the thread is the child of a handoff and has not had its first turn.
    ///
    /// Waits up to `READERS_WAIT_MAX` for hooks and trace exports.
    ///
    /// # Errors
    /// Fails if the thread does not exist or a run is active on it, if `agent.md` cannot be written, or if
    /// the journal fails.
    pub fn delete(self, thread_id: ThreadId) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            self.agent.runs().end_orphaned_run(thread_id).await?;
            let filter = HandoffFilter {
                child_thread_id: Some(thread_id),
                statuses: vec![HandoffStatus::Accepted, HandoffStatus::Seeded],
                ..HandoffFilter::default()
            };
            let mut writes = Vec::new();
            for handoff in self.agent.store.handoffs(filter).await? {
                writes.extend(handoff::child_deletion_writes(&handoff, Timestamp::now()));
                self.agent.acceptance_activity().withdraw_block(&handoff).await.map_err(|reason| {
                    ThreadError::UnreadableInput {
                        path: self.agent.settings.home.agent_md_path(&handoff.assistant_id),
                        reason,
                    }
                })?;
            }
            for subagent in self.subagent_thread_ids(thread_id).await? {
                self.agent.runs().end_orphaned_run(subagent).await?;
                writes.push(Write::DeleteThread { thread_id: subagent });
            }
            writes.push(Write::DeleteThread { thread_id });
            // The queued summarization of the thread contains text of it and is removed too.
            writes.extend(memory::dequeue_writes(thread_id));
            writes.extend(
                handoff::mirror::deletion_writes(&*self.agent.store, thread_id, Timestamp::now()).await?,
            );
            // User hooks and trace exports read the events of the thread, so they get a moment to process them.
            let _ = tokio::time::timeout(
                READERS_WAIT_MAX,
                self.agent.store.local_commits().wait_until_processed(thread_id),
            )
            .await;
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            self.agent.mirror.send_pending();
            Ok(())
        })
    }

    /// Returns the threads of the thread's sub-agents.
    async fn subagent_thread_ids(self, thread_id: ThreadId) -> Result<Vec<ThreadId>> {
        let filter = ThreadFilter {
            parent_id: Some(thread_id),
            subagents: journal::SubagentVisibility::Shown,
            order: ThreadSort::NEWEST,
            ..ThreadFilter::for_scope(self.agent.scope.clone(), journal::PAGE_ROWS_MAX)
        };
        let mut children = self.list_all(filter).await?;
        children.retain(|thread| thread.parent_kind == Some(ParentKind::Subagent));
        Ok(children.into_iter().map(|thread| thread.thread_id).collect())
    }
}

/// The tables from which the nodes of a tree are built.
#[derive(Clone, Copy)]
struct TreeSource<'a> {
    /// The states of all threads.
    states: &'a BTreeMap<ThreadId, ThreadState>,
    /// The handoffs that were merged into children of other threads.
    merged: &'a MergedHandoffs,
    /// The children into which several threads were handed off, by id.
    merged_threads: &'a BTreeMap<ThreadId, Thread>,
}

/// Arranges threads as trees. A thread whose parent is not in the list is a root.
fn build_tree(all: Vec<Thread>, source: TreeSource<'_>, root: Option<ThreadId>) -> Vec<ThreadNode> {
    let parents: BTreeMap<ThreadId, Option<ThreadId>> =
        all.iter().map(|thread| (thread.thread_id, thread.parent_id)).collect();
    let top = root.map(|id| oldest_ancestor(&parents, id));
    let mut children: BTreeMap<ThreadId, Vec<Thread>> = BTreeMap::new();
    let mut roots = Vec::new();
    for thread in all {
        match thread.parent_id.filter(|parent| parents.contains_key(parent)) {
            Some(parent) => children.entry(parent).or_default().push(thread),
            None => roots.push(thread),
        }
    }
    roots
        .into_iter()
        .filter(|thread| top.is_none_or(|id| id == thread.thread_id))
        .map(|thread| build_subtree(thread, &mut children, source))
        .collect()
}

/// Returns the oldest ancestor in the list. A chain that is longer than the list is a cycle, and the search
/// stops there.
fn oldest_ancestor(parents: &BTreeMap<ThreadId, Option<ThreadId>>, from: ThreadId) -> ThreadId {
    let mut id = from;
    for _ in 0..parents.len() {
        match parents.get(&id).copied().flatten().filter(|parent| parents.contains_key(parent)) {
            Some(parent) => id = parent,
            None => return id,
        }
    }
    id
}

/// Returns the subtree of a thread. Children are removed from the map, so that a cycle cannot recurse without
/// end.
fn build_subtree(
    thread: Thread,
    children: &mut BTreeMap<ThreadId, Vec<Thread>>,
    source: TreeSource<'_>,
) -> ThreadNode {
    let thread_id = thread.thread_id;
    let mut own_children = children.remove(&thread_id).unwrap_or_default();
    own_children.sort_by_key(|child| child.created_at);
    let merged_children = source.merged.children.get(&thread_id).into_iter().flatten();
    ThreadNode {
        state: display_state(&thread, source.states),
        thread,
        children: own_children.into_iter().map(|child| build_subtree(child, children, source)).collect(),
        merged_parents: source.merged.parents.get(&thread_id).cloned().unwrap_or_default(),
        merged_children: merged_children
            .filter_map(|child| source.merged_threads.get(child).cloned())
            .collect(),
    }
}

/// Returns the state of a thread from the states that were read. A thread without one was deleted meanwhile
/// and counts as idle.
pub fn display_state(thread: &Thread, states: &BTreeMap<ThreadId, ThreadState>) -> ThreadState {
    states.get(&thread.thread_id).copied().unwrap_or(ThreadState::Idle)
}
