//! `GET /api/threads/{id}/lineage`: where a thread came from and what came from it, both ways. Whatever is wrong with a
//! parent link, the answer is a tree.

use std::collections::BTreeMap;

use agent::{Lineage, LineageThread};
use axum::Json;
use jiff::Timestamp;
use langgraph::extract::InThread;
use langgraph::{Caller, Envelope, Fault};
use protocol::{ParentKind, Thread, ThreadId, ThreadState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::own::threads::shapes::state_of;

/// The tree a thread belongs to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineageBody {
    /// The thread that was asked about.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// Its oldest ancestor.
    #[schema(value_type = String, format = Uuid)]
    root_thread_id: ThreadId,
    /// Every thread of the tree, each before those that came from it, oldest first.
    threads: Vec<RelativeShape>,
    /// Whether these are all: of a very large tree the rest is left out.
    is_complete: bool,
}

/// A thread of the tree.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RelativeShape {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The one it came from.
    #[schema(value_type = Option<String>, format = Uuid)]
    parent_id: Option<ThreadId>,
    /// How: `handoff` (with a summary) or `fork` (with a copy).
    parent_kind: Option<&'static str>,
    /// The handoff it came from.
    #[schema(value_type = Option<String>, format = Uuid)]
    handoff_id: Option<protocol::HandoffId>,
    /// How many threads are above it.
    depth: usize,
    /// What it is called.
    name: Option<String>,
    /// How it begins.
    first_prompt: Option<String>,
    /// `running`, `needs_you`, `stopped`, `idle` or `error`.
    state: &'static str,
    /// The status of the Agent Server API: `idle`, `busy`, `interrupted` or `error`.
    status: &'static str,
    /// Its messages.
    message_count: u64,
    /// When it was begun.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When something last happened in it.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl RelativeShape {
    fn of(found: LineageThread, states: &BTreeMap<ThreadId, ThreadState>) -> Self {
        let LineageThread { thread, depth } = found;
        Self {
            handoff_id: came_by(&thread),
            state: state_of(&thread, states),
            thread_id: thread.thread_id,
            parent_id: thread.parent_id,
            parent_kind: thread.parent_kind.map(ParentKind::as_str),
            depth,
            name: thread.name,
            first_prompt: thread.first_prompt,
            status: thread.status.as_str(),
            message_count: thread.message_count,
            created_at: thread.created_at,
            updated_at: thread.updated_at,
        }
    }
}

fn came_by(thread: &Thread) -> Option<protocol::HandoffId> {
    let mark = thread.handoff().filter(|mark| mark.child_thread_id == thread.thread_id);
    mark.map(|mark| mark.handoff_id)
}

/// Returns the tree a thread belongs to: handoffs and forks, from the oldest ancestor
#[utoipa::path(get, path = "/api/threads/{thread_id}/lineage", tag = "segue", operation_id = "thread_lineage",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = LineageBody), (status = 404, body = Envelope)))]
pub(crate) async fn lineage(
    caller: Caller,
    InThread(thread_id): InThread,
) -> Result<Json<LineageBody>, Fault> {
    langgraph::thread(&caller, thread_id).await?;
    let Lineage { root_thread_id, threads, is_complete } = caller.agent.threads().lineage(thread_id).await?;
    let states = caller.agent.threads().display_states(threads.iter().map(|found| &found.thread)).await?;
    let threads = threads.into_iter().map(|found| RelativeShape::of(found, &states)).collect();
    Ok(Json(LineageBody { thread_id, root_thread_id, threads, is_complete }))
}
