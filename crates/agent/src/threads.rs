//! Threads, as a front end shows and changes them: find, list, tree, rename, fork, delete.

pub(crate) mod back;
pub(crate) mod compaction;
pub(crate) mod error;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod lineage;
pub(crate) mod pruning;
mod reads;
pub(crate) mod rewind;
pub(crate) mod spans;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use journal::{AnyNews, HandoffFilter, Sort, ThreadFilter, ThreadNews, ThreadPatch, Transaction, Write};
use protocol::event::body::ThreadRenamed;
use protocol::{HandoffStatus, NewEvent, ParentKind, Thread, ThreadId, ThreadState};
use serde::Serialize;

use crate::agent::services::ThreadService;
use crate::{Result, ThreadError};

/// How long the deletion of a thread waits for those who are to read what happened in it.
const READ_MAX: Duration = Duration::from_secs(2);

/// A thread with the threads that came from it.
#[derive(Debug, Clone, Serialize)]
pub struct ThreadNode {
    /// The thread.
    pub thread: Thread,
    /// Its state, as lists show it.
    pub state: ThreadState,
    /// The threads that came from it, oldest first.
    pub children: Vec<ThreadNode>,
}

impl ThreadService<'_> {
    /// Returns the thread whose id begins with `prefix`; `last` is the most recently active one.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn find(self, prefix: &str) -> Result<Thread> {
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
    }

    /// Returns the most recently active thread; of a handoff just accepted, the child that waits for its first turn.
    async fn last_thread(self) -> Result<Thread> {
        let newest = self.list(ThreadFilter { limit: 1, ..ThreadFilter::default() }).await?.pop();
        let newest = newest.ok_or_else(|| ThreadError::Unknown("last".to_owned()))?;
        self.continuation_of(newest).await
    }

    /// Returns where somebody goes on who goes on with `thread`: in the child that waits for its first turn, if the newest that happened
    /// is that it was handed off.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn continuation_of(self, thread: Thread) -> Result<Thread> {
        let handed_off = thread.handoff().filter(|mark| mark.source_thread_id == thread.thread_id);
        let child = match handed_off {
            Some(mark) => self.agent.store.thread(mark.child_thread_id).await?,
            None => None,
        };
        let waits = |child: &Thread| child.handoff().is_some_and(|mark| mark.pending);
        Ok(child.filter(waits).unwrap_or(thread))
    }

    /// Returns a thread by its id; `None` if there is none, or it was deleted.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn get(self, thread_id: ThreadId) -> Result<Option<Thread>> {
        Ok(self.agent.store.thread(thread_id).await?)
    }

    /// Subscribes to the commits of all threads.
    pub fn commits(self) -> AnyNews {
        self.agent.store.news().any()
    }

    /// Subscribes to the commits of one thread.
    pub fn commits_of(self, thread_id: ThreadId) -> ThreadNews {
        self.agent.store.news().of(thread_id)
    }

    /// Returns a page of threads.
    ///
    /// # Errors
    /// When the page has no rows or too many, or the journal fails.
    pub async fn list(self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        Ok(self.agent.store.threads(filter).await?)
    }

    /// Returns all threads that match the filter, whatever its page.
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

    /// Returns the state of each of the threads, as lists show it.
    ///
    /// # Errors
    /// When the journal fails.
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

    /// Returns all threads under those they came from, most recently active first. With `root`, only the tree that
    /// thread belongs to, from its oldest ancestor.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn tree(self, root: Option<ThreadId>) -> Result<Vec<ThreadNode>> {
        let all = self.list_all(ThreadFilter::default()).await?;
        let states = self.display_states(&all).await?;
        Ok(tree(all, &states, root))
    }

    /// Gives the thread another name. It is not an activity: its place in the list stays.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn rename(self, thread_id: ThreadId, name: &str) -> Result<Thread> {
        let now = Timestamp::now();
        let renamed = NewEvent::of(&ThreadRenamed { name: name.to_owned() }, now)?;
        let writes = vec![
            Write::UpdateThread {
                thread_id,
                patch: ThreadPatch { name: Some(name.to_owned()), ..ThreadPatch::default() },
            },
            Write::Append { thread_id, events: vec![renamed] },
        ];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(thread_id).await
    }

    /// Removes the thread with everything that belongs to it, the threads of its sub-agents too. The block of a child
    /// that never had its first turn goes with it.
    ///
    /// # Errors
    /// When the thread does not exist or is busy, or `agent.md` cannot be written.
    pub async fn delete(self, thread_id: ThreadId) -> Result<()> {
        self.agent.thread(thread_id).await?;
        self.agent.runs().end_cut_off(thread_id).await?;
        let filter = HandoffFilter {
            child_thread_id: Some(thread_id),
            statuses: vec![HandoffStatus::Accepted, HandoffStatus::Seeded],
            ..HandoffFilter::default()
        };
        let mut writes = Vec::new();
        for handoff in self.agent.store.handoffs(filter).await? {
            writes.extend(handoff::settled(&handoff, Timestamp::now()));
            self.agent.acceptance().withdraw(&handoff).await.map_err(|reason| ThreadError::Input {
                path: self.agent.settings.home.agent_md(&handoff.assistant_id),
                reason,
            })?;
        }
        for subagent in self.subagents_of(thread_id).await? {
            self.agent.runs().end_cut_off(subagent).await?;
            writes.push(Write::DeleteThread { thread_id: subagent });
        }
        writes.push(Write::DeleteThread { thread_id });
        // A summary that waits in the queue has words of the thread.
        writes.extend(memory::not_due(thread_id));
        writes
            .extend(handoff::mirror::follow_deletion(&*self.agent.store, thread_id, Timestamp::now()).await?);
        // What hooks and traces tell of is read from the thread.
        let _ = tokio::time::timeout(READ_MAX, self.agent.store.commits().read(thread_id)).await;
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.mirror.begin();
        Ok(())
    }

    async fn subagents_of(self, thread_id: ThreadId) -> Result<Vec<ThreadId>> {
        let filter = ThreadFilter {
            parent_id: Some(thread_id),
            subagents: journal::Subagents::Shown,
            order: Sort::NEWEST,
            ..ThreadFilter::of(self.agent.scope.clone(), journal::PAGE_ROWS_MAX)
        };
        let mut children = self.list_all(filter).await?;
        children.retain(|thread| thread.parent_kind == Some(ParentKind::Subagent));
        Ok(children.into_iter().map(|thread| thread.thread_id).collect())
    }
}

fn tree(
    all: Vec<Thread>,
    states: &BTreeMap<ThreadId, ThreadState>,
    root: Option<ThreadId>,
) -> Vec<ThreadNode> {
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
        .map(|thread| grow(thread, &mut children, states))
        .collect()
}

/// A chain longer than the number of threads is a cycle; the walk stops there.
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

fn grow(
    thread: Thread,
    children: &mut BTreeMap<ThreadId, Vec<Thread>>,
    states: &BTreeMap<ThreadId, ThreadState>,
) -> ThreadNode {
    let mut own = children.remove(&thread.thread_id).unwrap_or_default();
    own.sort_by_key(|child| child.created_at);
    ThreadNode {
        state: state_of(&thread, states),
        thread,
        children: own.into_iter().map(|child| grow(child, children, states)).collect(),
    }
}

/// Returns the thread's state among those that were read. A thread that was deleted while it was read is idle.
pub fn state_of(thread: &Thread, states: &BTreeMap<ThreadId, ThreadState>) -> ThreadState {
    states.get(&thread.thread_id).copied().unwrap_or(ThreadState::Idle)
}
