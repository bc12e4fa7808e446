//! `GET /api/threads/{id}/lineage`: the ancestors and descendants of a thread. The response is a tree even if a stored
//! parent link is wrong.

use std::collections::BTreeMap;

use agent::{LineageThread, MergedParent, ThreadLineage};
use axum::Json;
use jiff::Timestamp;
use langgraph::extract::ThreadPath;
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{ParentKind, Thread, ThreadId, ThreadState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::threads::shapes::{redacted, state_name, thread_title};

/// The tree that contains a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineageBody {
    /// The requested thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The thread's oldest ancestor.
    #[schema(value_type = String, format = Uuid)]
    root_thread_id: ThreadId,
    /// All threads of the tree, each before its descendants, oldest first. Before them, the further parents of threads with
    /// their ancestors.
    threads: Vec<LineageThreadShape>,
    /// True if `threads` is complete; very large trees are cut off.
    is_complete: bool,
}

/// A thread that was handed off into a child that another thread's handoff had created.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct MergedParentShape {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The handoff.
    #[schema(value_type = String, format = Uuid)]
    handoff_id: protocol::HandoffId,
    /// The title of the thread; `null` if it was deleted.
    title: Option<String>,
}

impl MergedParentShape {
    /// Returns the shapes of the further parents of a thread; `title` returns the titles of threads.
    pub(crate) fn list(parents: &[MergedParent], title: impl Fn(ThreadId) -> Option<String>) -> Vec<Self> {
        let shape = |parent: &MergedParent| Self {
            thread_id: parent.thread_id,
            handoff_id: parent.handoff_id,
            title: title(parent.thread_id),
        };
        parents.iter().map(shape).collect()
    }
}

/// A thread of a lineage tree.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineageThreadShape {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The parent thread.
    #[schema(value_type = Option<String>, format = Uuid)]
    parent_id: Option<ThreadId>,
    /// How the thread was created from its parent: `handoff` (with a summary) or `fork` (with a copy).
    parent_kind: Option<&'static str>,
    /// The handoff that created the thread.
    #[schema(value_type = Option<String>, format = Uuid)]
    handoff_id: Option<protocol::HandoffId>,
    /// The threads that were handed off into it after its parent.
    merged_parents: Vec<MergedParentShape>,
    /// Number of ancestors.
    depth: usize,
    /// The name of the thread.
    name: Option<String>,
    /// The first message of the thread.
    first_prompt: Option<String>,
    /// `running`, `needs_you`, `stopped`, `idle` or `error`.
    state: &'static str,
    /// The status of the Agent Server API: `idle`, `busy`, `interrupted` or `error`.
    status: &'static str,
    /// Number of messages.
    message_count: u64,
    /// When the thread was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the thread last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl LineageThreadShape {
    /// Returns the shape of a thread; `states` and `titles` hold the display states and the titles of all threads of the tree.
    fn from_thread(
        entry: LineageThread,
        states: &BTreeMap<ThreadId, ThreadState>,
        titles: &BTreeMap<ThreadId, Option<String>>,
    ) -> Self {
        let LineageThread { thread, depth, merged_parents } = entry;
        Self {
            merged_parents: MergedParentShape::list(&merged_parents, |id| titles.get(&id).cloned().flatten()),
            handoff_id: origin_handoff_id(&thread),
            state: state_name(&thread, states),
            thread_id: thread.thread_id,
            parent_id: thread.parent_id,
            parent_kind: thread.parent_kind.map(ParentKind::as_str),
            depth,
            name: redacted(thread.name.as_deref()),
            first_prompt: redacted(thread.first_prompt.as_deref()),
            status: thread.status.as_str(),
            message_count: thread.message_count,
            created_at: thread.created_at,
            updated_at: thread.updated_at,
        }
    }
}

/// Returns the handoff that created the thread. A parent thread carries the mark of the same handoff and is excluded.
fn origin_handoff_id(thread: &Thread) -> Option<protocol::HandoffId> {
    let mark = thread.handoff_mark().filter(|mark| mark.child_thread_id == thread.thread_id);
    mark.map(|mark| mark.handoff_id)
}

/// Returns the tree of handoffs and forks that contains a thread, from the oldest ancestor
#[utoipa::path(get, path = "/api/threads/{thread_id}/lineage", tag = "segue", operation_id = "thread_lineage",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = LineageBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn get_lineage(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Json<LineageBody>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let ThreadLineage { root_thread_id, threads, is_complete } =
        caller.agent.threads().lineage(thread_id).await?;
    let states = caller.agent.threads().display_states(threads.iter().map(|entry| &entry.thread)).await?;
    let titles: BTreeMap<ThreadId, Option<String>> =
        threads.iter().map(|entry| (entry.thread.thread_id, thread_title(&entry.thread))).collect();
    let threads = threads.into_iter();
    let threads = threads.map(|entry| LineageThreadShape::from_thread(entry, &states, &titles)).collect();
    Ok(Json(LineageBody { thread_id, root_thread_id, threads, is_complete }))
}
