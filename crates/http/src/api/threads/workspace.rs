//! The folder of a thread: the folder in which pending tool calls will run, and moving a thread to the server's folder.

use std::path::Path;

use agent::{Error, RunError, is_canonical_folder};
use axum::Json;
use axum::extract::Request;
use langgraph::extract::{ThreadPath, parse_json, read_body};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{Interrupt, InterruptId, RunId, RunRequest, ThreadId};
use scheduler::{IfNotExists, NewRun};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The folder in which pending tool calls run after their approval.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallWorkspace {
    /// The folder in which the calls were proposed. They run there and nowhere else.
    path: String,
    /// True if the folder exists on the server's machine. If it does not, the calls can be rejected, or moved to the
    /// server's folder (`POST /api/threads/{thread_id}/rehome`).
    exists: bool,
    /// The server's folder; `null` for a user whose agent has no folder.
    server_path: Option<String>,
}

impl CallWorkspace {
    /// Returns the folder of the calls that the questions are about; `None` if no folder was recorded.
    pub(super) fn from_interrupts(caller: &Caller, pending: &[Interrupt]) -> Option<Self> {
        let path = pending.iter().find_map(|interrupt| interrupt.payload.workspace.clone())?;
        let server_path = caller.agent.workspace_name().ok().flatten();
        Some(Self { exists: is_canonical_folder(Path::new(&path)), path, server_path })
    }
}

/// The result of moving a thread to the server's folder.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RehomeResultBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The run that moves the thread and asks again about the pending calls.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// The new folder of the thread.
    workspace: Option<String>,
}

/// The options of moving a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RehomeBody {
    /// The question that the user saw. If it is no longer pending, the thread is not moved. Without an id, any question
    /// about calls is asked again.
    #[schema(value_type = Option<String>)]
    interrupt_id: Option<InterruptId>,
}

/// Moves a thread to the server's folder, and asks again about its pending tool calls
///
/// Paths below the old folder in the arguments of the calls become paths below the new folder. No call runs before the
/// new question is answered. The move is a run: it is queued behind other runs, and its stream contains the new
/// question.
#[utoipa::path(post, path = "/api/threads/{thread_id}/rehome", tag = "segue", operation_id = "rehome_thread",
    params(("thread_id" = String, Path, format = Uuid)),
    request_body = Option<RehomeBody>,
    responses((status = 200, body = RehomeResultBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "No call is pending, the question is no longer pending, or the thread is in the server's folder already"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn rehome(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    request: Request,
) -> Result<Json<RehomeResultBody>, ApiError> {
    let bytes = read_body(request).await?;
    let body = if bytes.is_empty() { RehomeBody::default() } else { parse_json(&bytes)? };
    langgraph::find_thread(&caller, thread_id).await?;
    let refused = |error| match error {
        Error::Run(RunError::NotRehomed { .. }) => ApiError::conflict(format!("failed to {error}")),
        error => error.into(),
    };
    caller.agent.runs().check_rehome(thread_id, body.interrupt_id).await.map_err(refused)?;
    let workspace = caller.agent.workspace_name()?;
    let request = RunRequest {
        rehome: true,
        rehome_interrupt_id: body.interrupt_id,
        strict_resume: true,
        workspace: workspace.clone(),
        stream_resumable: true,
        stream_mode: vec!["values".to_owned()],
        ..RunRequest::default()
    };
    let new = NewRun { thread_id: Some(thread_id), request, if_not_exists: IfNotExists::Reject };
    let created = caller.server.scheduler.create_run(&caller.scope, new).await?;
    let run_id = created.run.run_id;
    created.reader.detach();
    Ok(Json(RehomeResultBody { thread_id, run_id, workspace }))
}
