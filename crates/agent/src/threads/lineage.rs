//! The lineage of a thread: the tree of handoffs and forks that contains it, searched up to the oldest
//! ancestor and then down. Only threads of the tree are read. Missing or cyclic parent links still yield a
//! tree.

use futures::future::BoxFuture;
use std::collections::BTreeSet;

use journal::{EventQuery, HandoffFilter, SortDirection, SubagentVisibility, ThreadFilter, ThreadSort};
use protocol::event::body::ThreadCreated;
use protocol::{EventType, ParentKind, Thread, ThreadId};

use crate::MergedParent;
use crate::Result;
use crate::ThreadService;

/// The most threads of a tree that are read. The result says if there are more.
const THREADS_MAX: usize = 1_000;

/// The most sub-agents of a thread that are read. The result says if there are more.
const SUBAGENTS_MAX: usize = 200;

/// The tree that contains a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadLineage {
    /// The oldest ancestor.
    pub root_thread_id: ThreadId,
    /// The threads in depth-first order: each precedes its descendants, and siblings are sorted from oldest
    /// to newest. The further parents of threads, each after its ancestors, precede the tree.
    pub threads: Vec<LineageThread>,
    /// True if the tree is complete. `false` if it has more than `THREADS_MAX` threads.
    pub is_complete: bool,
}

/// A thread in a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct LineageThread {
    /// The thread.
    pub thread: Thread,
    /// The number of its ancestors in the tree.
    pub depth: usize,
    /// The threads that were handed off into it after its parent. They are among the threads of the result too.
    pub merged_parents: Vec<MergedParent>,
}

impl LineageThread {
    /// Returns the ids of the thread's parents.
    fn parents(&self) -> impl Iterator<Item = ThreadId> {
        self.merged_parents.iter().map(|parent| parent.thread_id).chain(self.thread.parent_id)
    }
}

/// The thread of a sub-agent.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentThread {
    /// The id of the tool call that started the sub-agent, if it is known.
    pub call_id: Option<String>,
    /// The thread.
    pub thread: Thread,
}

/// The sub-agents of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentList {
    /// The sub-agents, oldest first.
    pub subagents: Vec<SubagentThread>,
    /// True if the list is complete. `false` if there are more than `SUBAGENTS_MAX`.
    pub is_complete: bool,
}

impl<'a> ThreadService<'a> {
    /// Returns the sub-agents that the thread itself started. Sub-agents do not inherit those of others.
    /// Reads one event of each sub-agent's thread.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn subagents(self, thread_id: ThreadId) -> BoxFuture<'a, Result<SubagentList>> {
        journal::box_future(async move {
            let filter = ThreadFilter {
                parent_id: Some(thread_id),
                subagents: SubagentVisibility::Shown,
                order: ThreadSort { direction: SortDirection::Ascending, ..ThreadSort::NEWEST },
                limit: SUBAGENTS_MAX + 1,
                ..ThreadFilter::default()
            };
            let mut threads = self.agent.store.threads(filter).await?;
            let is_complete = threads.len() <= SUBAGENTS_MAX;
            threads.truncate(SUBAGENTS_MAX);
            threads.retain(|thread| thread.parent_kind == Some(ParentKind::Subagent));
            let mut subagents = Vec::with_capacity(threads.len());
            for thread in threads {
                let types = vec![EventType::ThreadCreated];
                let query = EventQuery { types, ..EventQuery::after(0, 1) };
                let created = self.agent.store.events(thread.thread_id, query).await?.pop();
                let call_id = match created.and_then(|created| created.body().ok()) {
                    Some(ThreadCreated::Subagent { call_id, .. }) => Some(call_id),
                    Some(
                        ThreadCreated::New
                        | ThreadCreated::Fork { .. }
                        | ThreadCreated::Handoff { .. }
                        | ThreadCreated::Other,
                    )
                    | None => None,
                };
                subagents.push(SubagentThread { call_id, thread });
            }
            Ok(SubagentList { subagents, is_complete })
        })
    }

    /// Returns the tree of handoffs and forks that contains the thread. Sub-agents are left out. Makes a
    /// few queries for each thread of the tree.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn lineage(self, thread_id: ThreadId) -> BoxFuture<'a, Result<ThreadLineage>> {
        journal::box_future(async move {
            let root = self.oldest_ancestor(thread_id).await?;
            let root_thread_id = root.thread_id;
            let (mut visited, mut threads) = (BTreeSet::from([root_thread_id]), Vec::new());
            let mut open = vec![self.lineage_thread(root, 0).await?];
            let mut is_complete = true;
            while let Some(next) = open.pop() {
                let remaining = THREADS_MAX.saturating_sub(visited.len());
                let depth = next.depth + 1;
                let mut children = self.children(next.thread.thread_id, remaining + 1).await?;
                threads.push(next);
                children.retain(|child| !visited.contains(&child.thread_id));
                is_complete = children.len() <= remaining;
                children.retain(|child| visited.len() < THREADS_MAX && visited.insert(child.thread_id));
                for thread in children {
                    open.push(self.lineage_thread(thread, depth).await?);
                }
                if !is_complete {
                    threads.extend(open.into_iter().rev());
                    break;
                }
            }
            let mut parents: Vec<ThreadId> = threads.iter().rev().flat_map(LineageThread::parents).collect();
            while let Some(parent) = parents.pop() {
                is_complete &= visited.len() < THREADS_MAX || visited.contains(&parent);
                let ancestors = self.further_ancestors(parent, &mut visited).await?;
                parents.extend(ancestors.iter().flat_map(LineageThread::parents));
                threads.splice(..0, ancestors);
            }
            Ok(ThreadLineage { root_thread_id, threads, is_complete })
        })
    }

    /// Returns up to about `limit` children of a thread, the newest first, because a stack pops the oldest next. Children that
    /// other threads' handoffs had created come last.
    async fn children(self, thread_id: ThreadId, limit: usize) -> Result<Vec<Thread>> {
        let filter = ThreadFilter {
            parent_id: Some(thread_id),
            order: ThreadSort::NEWEST,
            limit,
            ..ThreadFilter::default()
        };
        let filter_merged = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
        let mut children = Vec::new();
        for child in self.agent.handoffs().merged(filter_merged).await?.children.into_values().flatten() {
            children.extend(self.agent.store.thread(child).await?);
        }
        children.extend(self.agent.store.threads(filter).await?);
        Ok(children)
    }

    /// Returns a thread of a lineage with its further parents.
    async fn lineage_thread(self, thread: Thread, depth: usize) -> Result<LineageThread> {
        let merged_parents = self.agent.handoffs().merged_parents(&thread).await?;
        Ok(LineageThread { thread, depth, merged_parents })
    }

    /// Returns the thread and its ancestors that were not visited, the oldest first. A missing thread has none.
    async fn further_ancestors(
        self,
        thread_id: ThreadId,
        visited: &mut BTreeSet<ThreadId>,
    ) -> Result<Vec<LineageThread>> {
        let mut ancestors = Vec::new();
        let mut next = Some(thread_id);
        while let Some(id) = next.filter(|id| visited.len() < THREADS_MAX && visited.insert(*id)) {
            let Some(thread) = self.agent.store.thread(id).await? else { break };
            next = thread.parent_id;
            ancestors.push(thread);
        }
        let mut entries = Vec::with_capacity(ancestors.len());
        for (depth, thread) in ancestors.into_iter().rev().enumerate() {
            entries.push(self.lineage_thread(thread, depth).await?);
        }
        Ok(entries)
    }

    /// Returns the oldest ancestor of the thread. The search stops at a missing parent, at a cycle, and after
    /// `THREADS_MAX` threads.
    async fn oldest_ancestor(self, thread_id: ThreadId) -> Result<Thread> {
        let mut thread = self.agent.thread(thread_id).await?;
        let mut visited = BTreeSet::from([thread_id]);
        while let Some(parent_id) = thread.parent_id.filter(|parent| visited.insert(*parent)) {
            let parent = self.agent.store.thread(parent_id).await?;
            let Some(parent) = parent.filter(|_| visited.len() <= THREADS_MAX) else { break };
            thread = parent;
        }
        Ok(thread)
    }
}
