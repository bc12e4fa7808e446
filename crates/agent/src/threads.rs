//! Threads, as a front end shows and changes them: find, list, tree, rename, fork, delete.

pub(crate) mod back;
pub(crate) mod compaction;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod lineage;
pub(crate) mod pruning;
pub(crate) mod rewind;
pub(crate) mod spans;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use journal::{HandoffFilter, Sort, ThreadFilter, ThreadPatch, Transaction, Write};
use protocol::{EventType, HandoffStatus, NewEvent, ParentKind, Thread, ThreadId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::turns::WORKSPACE_KEY;
use crate::{Error, Result};

/// Threads a thread may have come from, one by way of the other, before its folder is taken for unknown.
const ANCESTORS_MAX: usize = 64;

/// How long the deletion of a thread waits for those who are to read what happened in it.
const READ_MAX: Duration = Duration::from_secs(2);

/// A thread with the threads that came from it.
#[derive(Debug, Clone, Serialize)]
pub struct ThreadNode {
    /// The thread.
    pub thread: Thread,
    /// The threads that came from it, oldest first.
    pub children: Vec<ThreadNode>,
}

impl Agent {
    /// Returns the thread whose id begins with `prefix`; `last` is the most recently active one.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn find_thread(&self, prefix: &str) -> Result<Thread> {
        if prefix == "last" {
            return self.last_thread().await;
        }
        if prefix.trim().is_empty() {
            return Err(Error::UnknownThread { prefix: prefix.to_owned() });
        }
        let mut matches = self.store.threads_by_prefix(prefix, &self.scope).await?;
        match (matches.pop(), matches.is_empty()) {
            (None, _) => Err(Error::UnknownThread { prefix: prefix.to_owned() }),
            (Some(only), true) => self.thread(only).await,
            (Some(last), false) => {
                matches.push(last);
                Err(Error::AmbiguousThread { prefix: prefix.to_owned(), matches })
            }
        }
    }

    /// Returns the most recently active thread; of a handoff just accepted, the child that waits for its first turn.
    async fn last_thread(&self) -> Result<Thread> {
        let newest = self.threads(ThreadFilter { limit: 1, ..ThreadFilter::default() }).await?.pop();
        let newest = newest.ok_or_else(|| Error::UnknownThread { prefix: "last".to_owned() })?;
        self.carried_on(newest).await
    }

    /// Returns where somebody goes on who goes on with `thread`: in the child that waits for its first turn, if the newest that happened
    /// is that it was handed off.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn carried_on(&self, thread: Thread) -> Result<Thread> {
        let handed_off = thread.handoff().filter(|mark| mark.source_thread_id == thread.thread_id);
        let child = match handed_off {
            Some(mark) => self.store.thread(mark.child_thread_id).await?,
            None => None,
        };
        let waits = |child: &Thread| child.handoff().is_some_and(|mark| mark.pending);
        Ok(child.filter(waits).unwrap_or(thread))
    }

    /// Returns the folder the thread was begun in, or the one it came from; `None` when nobody knows.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn workspace_of(&self, thread: &Thread) -> Result<Option<PathBuf>> {
        let (mut folder, mut parent) = (own_workspace(thread), thread.parent_id);
        for _ in 0..ANCESTORS_MAX {
            let (None, Some(id)) = (&folder, parent) else { break };
            let Some(found) = self.store.thread(id).await? else { break };
            (folder, parent) = (own_workspace(&found), found.parent_id);
        }
        Ok(folder.map(PathBuf::from))
    }

    /// Checks that what waits in the thread may be gone on with here: tool calls were looked at in their own folder.
    pub(crate) async fn check_workspace(&self, thread_id: ThreadId) -> Result<()> {
        let thread = self.thread(thread_id).await?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match self.workspace_of(&thread).await? {
            Some(workspace) if real(&workspace) != real(&self.settings.workspace) => {
                Err(Error::OtherWorkspace { thread_id, workspace })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns a page of threads.
    ///
    /// # Errors
    /// When the page has no rows or too many, or the journal fails.
    pub async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        Ok(self.store.threads(filter).await?)
    }

    /// Returns all threads under those they came from, most recently active first. With `root`, only the tree that
    /// thread belongs to, from its oldest ancestor.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn thread_tree(&self, root: Option<ThreadId>) -> Result<Vec<ThreadNode>> {
        let mut all: Vec<Thread> = Vec::new();
        loop {
            let filter =
                ThreadFilter { offset: all.len(), limit: journal::PAGE_ROWS_MAX, ..ThreadFilter::default() };
            let page = self.store.threads(filter).await?;
            let full = page.len() == journal::PAGE_ROWS_MAX;
            all.extend(page);
            if !full {
                break;
            }
        }
        Ok(tree(all, root))
    }

    /// Gives the thread another name. It is not an activity: its place in the list stays.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn rename_thread(&self, thread_id: ThreadId, name: &str) -> Result<Thread> {
        let now = Timestamp::now();
        let renamed = NewEvent::new(EventType::ThreadRenamed, &json!({"name": name}), now)?;
        let writes = vec![
            Write::UpdateThread {
                thread_id,
                patch: ThreadPatch { name: Some(name.to_owned()), ..ThreadPatch::default() },
            },
            Write::Append { thread_id, events: vec![renamed] },
        ];
        self.store.commit(Transaction { fence: None, writes }).await?;
        self.thread(thread_id).await
    }

    /// Removes the thread with everything that belongs to it, the threads of its sub-agents too. The block of a child
    /// that never had its first turn goes with it.
    ///
    /// # Errors
    /// When the thread does not exist or is busy, or `agent.md` cannot be written.
    pub async fn delete_thread(&self, thread_id: ThreadId) -> Result<()> {
        self.thread(thread_id).await?;
        self.end_cut_off(thread_id).await?;
        let filter = HandoffFilter {
            child_thread_id: Some(thread_id),
            statuses: vec![HandoffStatus::Accepted, HandoffStatus::Seeded],
            ..HandoffFilter::default()
        };
        let mut writes = Vec::new();
        for handoff in self.store.handoffs(filter).await? {
            writes.extend(handoff::settled(&handoff, Timestamp::now()));
            self.acceptance().withdraw(&handoff).await.map_err(|reason| Error::Input {
                path: self.settings.home.agent_md(&handoff.assistant_id),
                reason,
            })?;
        }
        for subagent in self.subagents_of(thread_id).await? {
            self.end_cut_off(subagent).await?;
            writes.push(Write::DeleteThread { thread_id: subagent });
        }
        writes.push(Write::DeleteThread { thread_id });
        // A summary that waits in the queue has words of the thread.
        writes.extend(memory::not_due(thread_id));
        writes.extend(handoff::mirror::follow_deletion(&*self.store, thread_id, Timestamp::now()).await?);
        // What hooks and traces tell of is read from the thread.
        let _ = tokio::time::timeout(READ_MAX, self.store.commits().read(thread_id)).await;
        self.store.commit(Transaction { fence: None, writes }).await?;
        self.mirror.begin();
        Ok(())
    }

    async fn subagents_of(&self, thread_id: ThreadId) -> Result<Vec<ThreadId>> {
        let mut found = Vec::new();
        let mut offset = 0;
        loop {
            let page = self.store.threads(ThreadFilter {
                parent_id: Some(thread_id),
                subagents: journal::Subagents::Shown,
                order: Sort::NEWEST,
                offset,
                ..ThreadFilter::of(self.scope.clone(), journal::PAGE_ROWS_MAX)
            });
            let page = page.await?;
            offset += page.len();
            let is_subagent = |thread: &&Thread| thread.parent_kind == Some(ParentKind::Subagent);
            found.extend(page.iter().filter(is_subagent).map(|thread| thread.thread_id));
            if page.len() < journal::PAGE_ROWS_MAX {
                return Ok(found);
            }
        }
    }
}

/// Returns the folder that the thread's own metadata names, here or in the agent it was imported from.
fn own_workspace(thread: &Thread) -> Option<String> {
    let source = thread.metadata.get("source").and_then(|source| source.get(WORKSPACE_KEY));
    let named = thread.metadata.get(WORKSPACE_KEY).or(source);
    named.and_then(Value::as_str).map(str::to_owned)
}

fn tree(all: Vec<Thread>, root: Option<ThreadId>) -> Vec<ThreadNode> {
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
        .map(|t| grow(t, &mut children))
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

fn grow(thread: Thread, children: &mut BTreeMap<ThreadId, Vec<Thread>>) -> ThreadNode {
    let mut own = children.remove(&thread.thread_id).unwrap_or_default();
    own.sort_by_key(|child| child.created_at);
    ThreadNode { thread, children: own.into_iter().map(|child| grow(child, children)).collect() }
}
