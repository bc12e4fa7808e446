//! The folder of a thread: where the calls that wait for a decision are made, and moving the thread to the server's folder.

use std::path::Path;

use agent::{Error, RunError, is_in_place};
use axum::Json;
use axum::extract::Request;
use langgraph::extract::{InThread, parse, read};
use langgraph::{Caller, Envelope, Fault};
use protocol::{Interrupt, InterruptId, RunId, RunRequest, ThreadId};
use scheduler::{IfNotExists, NewRun};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where calls that wait for a decision are made once they are approved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallWorkspace {
    /// The folder in which they were proposed. They are made there and nowhere else.
    path: String,
    /// Whether that folder exists on the server's machine. Where it does not, the calls can be rejected, or asked about again
    /// in the server's folder (`POST /api/threads/{thread_id}/rehome`).
    exists: bool,
    /// The server's folder; `null` for a user whose agent has no folder.
    server_path: Option<String>,
}

impl CallWorkspace {
    /// Returns where the calls are made that these questions are about; `None` when no folder was recorded.
    pub(super) fn of(caller: &Caller, pending: &[Interrupt]) -> Option<Self> {
        let path = pending.iter().find_map(|interrupt| interrupt.payload.workspace.clone())?;
        let server_path = caller.agent.named_workspace().ok().flatten();
        Some(Self { exists: is_in_place(Path::new(&path)), path, server_path })
    }
}

/// A thread that moves to the server's folder.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RehomingBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The run that moves it, and asks again about the calls that wait.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// The folder that the thread moves to.
    workspace: Option<String>,
}

/// Which question moves with the thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RehomeBody {
    /// The question that is shown: where it does not wait any more, the thread stays. Without it, any question about calls
    /// is asked again.
    #[schema(value_type = Option<String>)]
    interrupt_id: Option<InterruptId>,
}

/// Moves a thread to the server's folder, and asks again about the calls that wait for a decision
///
/// Paths below the old folder in the calls' arguments become paths below the new one. Nothing is made before the new
/// question is answered. It is a run like others: it waits for those that are there, and its streams tell what it asks.
#[utoipa::path(post, path = "/api/threads/{thread_id}/rehome", tag = "segue", operation_id = "rehome_thread",
    params(("thread_id" = String, Path, format = Uuid)),
    request_body = Option<RehomeBody>,
    responses((status = 200, body = RehomingBody), (status = 404, body = Envelope),
        (status = 409, body = Envelope, description = "No call waits, the question does not, or its folder is the server's"),
        (status = 422, body = Envelope)))]
pub(crate) async fn rehome(
    caller: Caller,
    InThread(thread_id): InThread,
    request: Request,
) -> Result<Json<RehomingBody>, Fault> {
    let bytes = read(request).await?;
    let body = if bytes.is_empty() { RehomeBody::default() } else { parse(&bytes)? };
    langgraph::thread(&caller, thread_id).await?;
    let refused = |error| match error {
        Error::Run(RunError::NotMoved { .. }) => Fault::conflict(format!("failed to {error}")),
        error => error.into(),
    };
    caller.agent.runs().check_rehome(thread_id, body.interrupt_id).await.map_err(refused)?;
    let workspace = caller.agent.named_workspace()?;
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
    let created = caller.server.dispatch.create(&caller.scope, new).await?;
    let run_id = created.run.run_id;
    created.live.leave();
    Ok(Json(RehomingBody { thread_id, run_id, workspace }))
}
