//! The tree one thread belongs to, found from that thread: up to its oldest ancestor, then down. Only threads of the tree
//! are read, and whatever is wrong with a parent link, the answer is a tree.

use std::collections::BTreeSet;

use journal::{Direction, EventQuery, Sort, Subagents, ThreadFilter};
use protocol::event::body::ThreadCreated;
use protocol::{EventType, ParentKind, Thread, ThreadId};

use crate::Result;
use crate::agent::services::ThreadService;

/// Threads of a tree that are read; the rest is left out, and said to be.
const THREADS_MAX: usize = 1_000;

/// Sub-agents of a thread that are read.
const SUBAGENTS_MAX: usize = 200;

/// The tree a thread belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Lineage {
    /// Its oldest ancestor.
    pub root_thread_id: ThreadId,
    /// The threads, each before those that came from it, which follow it oldest first.
    pub threads: Vec<LineageThread>,
    /// Whether these are all.
    pub is_complete: bool,
}

/// A thread of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct LineageThread {
    /// The thread.
    pub thread: Thread,
    /// How many threads are above it.
    pub depth: usize,
}

/// A thread that a sub-agent works in.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentThread {
    /// The call it works for, if it is known.
    pub call_id: Option<String>,
    /// The thread.
    pub thread: Thread,
}

/// The sub-agents that worked for a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentsOf {
    /// Each of them, oldest first.
    pub subagents: Vec<SubagentThread>,
    /// Whether these are all.
    pub is_complete: bool,
}

impl ThreadService<'_> {
    /// Returns the sub-agents that worked for the thread itself; those that worked for these are theirs.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn subagents(self, thread_id: ThreadId) -> Result<SubagentsOf> {
        let filter = ThreadFilter {
            parent_id: Some(thread_id),
            subagents: Subagents::Shown,
            order: Sort { direction: Direction::Ascending, ..Sort::NEWEST },
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
        Ok(SubagentsOf { subagents, is_complete })
    }

    /// Returns the tree of the thread: handoffs and forks, from its oldest ancestor. Sub-agents are left out.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn lineage(self, thread_id: ThreadId) -> Result<Lineage> {
        let root = self.oldest_ancestor(thread_id).await?;
        let root_thread_id = root.thread_id;
        let (mut seen, mut threads) = (BTreeSet::from([root_thread_id]), Vec::new());
        let mut open = vec![LineageThread { thread: root, depth: 0 }];
        while let Some(next) = open.pop() {
            let left = THREADS_MAX.saturating_sub(seen.len());
            let depth = next.depth + 1;
            // The newest first, so that the oldest is taken up next.
            let children = self.agent.store.threads(ThreadFilter {
                parent_id: Some(next.thread.thread_id),
                order: Sort::NEWEST,
                limit: left + 1,
                ..ThreadFilter::default()
            });
            threads.push(next);
            let mut children = children.await?;
            let is_cut = children.len() > left;
            children.retain(|child| seen.len() < THREADS_MAX && seen.insert(child.thread_id));
            open.extend(children.into_iter().map(|thread| LineageThread { thread, depth }));
            if is_cut {
                threads.extend(open.into_iter().rev());
                return Ok(Lineage { root_thread_id, threads, is_complete: false });
            }
        }
        Ok(Lineage { root_thread_id, threads, is_complete: true })
    }

    /// Returns the thread that the thread came from at last. A parent that is not there, or that came from the thread, is
    /// none.
    async fn oldest_ancestor(self, thread_id: ThreadId) -> Result<Thread> {
        let mut thread = self.agent.thread(thread_id).await?;
        let mut seen = BTreeSet::from([thread_id]);
        while let Some(parent_id) = thread.parent_id.filter(|parent| seen.insert(*parent)) {
            let parent = self.agent.store.thread(parent_id).await?;
            let Some(parent) = parent.filter(|_| seen.len() <= THREADS_MAX) else { break };
            thread = parent;
        }
        Ok(thread)
    }
}
