//! Commands of the protocol: begin a run, answer what is asked. A command becomes a request for a run like any other.

use std::collections::BTreeMap;

use agent::FramePosition;
use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::{MultitaskStrategy, RunCommand, RunRequest, ThreadId};
use scheduler::IfNotExists;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::writer::sequence_number;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{self, ThreadPath};
use crate::requests::check_readable;
use crate::resources::{self, assistants::resolve_assistant};
use crate::runs::body::configured_checkpoint;

/// The most answers of one command.
const RESPONSES_MAX: usize = 64;

/// One command.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CommandEnvelope {
    /// The client's number of the command; the answer carries it.
    id: i64,
    /// `run.start`, `input.respond` or `agent.getTree`.
    method: String,
    /// The parameters of the command.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Option<Map<String, Value>>,
}

/// Why a command was not done, in the protocol's words.
struct CommandError {
    code: &'static str,
    message: String,
}

impl CommandError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The response to a command that cannot be done: an error of the protocol, or of HTTP.
enum CommandFailure {
    Protocol(CommandError),
    Http(ApiError),
}

impl From<ApiError> for CommandFailure {
    fn from(fault: ApiError) -> Self {
        match fault.status() {
            StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::CONFLICT
            | StatusCode::UNPROCESSABLE_ENTITY => {
                Self::Protocol(CommandError::new("invalid_argument", fault.detail()))
            }
            _ => Self::Http(fault),
        }
    }
}

impl From<scheduler::Error> for CommandFailure {
    fn from(error: scheduler::Error) -> Self {
        match error {
            scheduler::Error::Agent(
                error @ agent::Error::Thread(agent::ThreadError::UnknownCheckpoint { .. }),
            ) => Self::Protocol(CommandError::new("no_such_checkpoint", format!("failed to {error}"))),
            other => ApiError::from(other).into(),
        }
    }
}

/// Does a command.
#[utoipa::path(
    post, path = "/threads/{thread_id}/commands", tag = "events", request_body = CommandEnvelope,
    params(("thread_id" = Uuid, Path, description = "The thread; `run.start` makes it.")),
    responses(
        (status = 200, description = "What came of it: `success` or `error`.", body = Value),
        (status = "4XX", description = "It is no command.", body = ErrorBody),
    )
)]
pub(super) async fn execute_command(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    request: Request,
) -> Result<Response, ApiError> {
    let bytes = extract::read_body(request).await?;
    let envelope: CommandEnvelope =
        extract::parse_json(&bytes).map_err(|fault| ApiError::bad_request(fault.detail()))?;
    let params = Value::Object(envelope.params.unwrap_or_default());
    let done = match envelope.method.as_str() {
        "run.start" => start_run(&caller, thread_id, params).await,
        "input.respond" => respond_to_interrupts(&caller, thread_id, params).await,
        "agent.getTree" => agent_tree(&caller, thread_id).await,
        "subscription.subscribe" | "subscription.unsubscribe" | "subscription.reconnect" => {
            Err(CommandFailure::Protocol(CommandError::new(
                "not_supported",
                "subscriptions need a socket; use `stream/events`",
            )))
        }
        other => {
            let shown: String = other.chars().take(80).collect();
            Err(CommandFailure::Protocol(CommandError::new(
                "unknown_command",
                format!("there is no command `{shown}`"),
            )))
        }
    };
    let id = envelope.id;
    let told = match done {
        Ok(result) => {
            let mut told = json!({"type": "success", "id": id, "result": result});
            // It is done, whether it is known how far or not.
            if let Some(applied) = applied_through_seq(&caller, thread_id).await {
                told["meta"] = json!({"applied_through_seq": applied});
            }
            told
        }
        Err(CommandFailure::Protocol(CommandError { code, message })) => {
            json!({"type": "error", "id": id, "error": code, "message": message})
        }
        Err(CommandFailure::Http(fault)) => return Err(fault),
    };
    Ok(Json(told).into_response())
}

async fn applied_through_seq(caller: &Caller, thread_id: ThreadId) -> Option<u64> {
    let thread = caller.agent.threads().get(thread_id).await;
    let thread = thread.inspect_err(|error| {
        tracing::warn!(thread_id = %thread_id, %error, "failed to read how far thread {thread_id} is");
    });
    let last_seq = thread.ok()?.map_or(0, |thread| thread.last_seq);
    Some(sequence_number(FramePosition { seq: last_seq, sub: 0 }, 0))
}

#[derive(Debug, Deserialize)]
struct RunStartParams {
    assistant_id: String,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default, rename = "multitaskStrategy", alias = "multitask_strategy")]
    multitask: Option<MultitaskStrategy>,
}

async fn start_run(caller: &Caller, thread_id: ThreadId, params: Value) -> Result<Value, CommandFailure> {
    let params: RunStartParams = parse_params(params)?;
    resolve_assistant(&caller.agent, &params.assistant_id)?;
    let request = RunRequest {
        input: params.input,
        multitask_strategy: params.multitask.unwrap_or_default(),
        ..configured_request(params.config, params.metadata)?
    };
    let run_id = create_run(caller, thread_id, IfNotExists::Create, request).await?;
    Ok(json!({"run_id": run_id}))
}

#[derive(Debug, Deserialize)]
struct InputRespondParams {
    #[serde(default)]
    interrupt_id: Option<String>,
    #[serde(default)]
    response: Option<Value>,
    #[serde(default)]
    responses: Option<Vec<InterruptResponse>>,
    #[serde(default)]
    update: Option<Value>,
    #[serde(default)]
    goto: Option<Value>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
struct InterruptResponse {
    interrupt_id: String,
    #[serde(default)]
    response: Value,
}

async fn respond_to_interrupts(
    caller: &Caller,
    thread_id: ThreadId,
    params: Value,
) -> Result<Value, CommandFailure> {
    let params: InputRespondParams = parse_params(params)?;
    let responses = match (params.responses, params.interrupt_id) {
        (Some(responses), _) => responses,
        (None, Some(interrupt_id)) => {
            vec![InterruptResponse { interrupt_id, response: params.response.unwrap_or_default() }]
        }
        (None, None) => return Err(invalid_argument("`interrupt_id` or `responses` is missing")),
    };
    if responses.is_empty() || responses.len() > RESPONSES_MAX {
        return Err(invalid_argument(format!("`responses` must have 1 to {RESPONSES_MAX} entries")));
    }
    let pending = caller.agent.runs().pending_interrupts(thread_id).await.map_err(ApiError::from)?;
    let waits = |id: &str| pending.iter().any(|interrupt| interrupt.interrupt_id.to_string() == id);
    if let Some(unknown) = responses.iter().find(|response| !waits(&response.interrupt_id)) {
        let shown: String = unknown.interrupt_id.chars().take(80).collect();
        let message = format!("no interrupt `{shown}` waits in thread {thread_id}");
        return Err(CommandFailure::Protocol(CommandError::new("no_such_interrupt", message)));
    }
    let answers: BTreeMap<String, Value> =
        responses.into_iter().map(|response| (response.interrupt_id, response.response)).collect();
    let command = RunCommand { resume: Some(json!(answers)), update: params.update, goto: params.goto };
    let request = RunRequest {
        command: Some(command),
        strict_resume: true,
        ..configured_request(params.config, params.metadata)?
    };
    create_run(caller, thread_id, IfNotExists::Reject, request).await?;
    Ok(json!({}))
}

/// Returns the thread's agent and those it handed tasks to, as far as a client can go on with them: itself.
async fn agent_tree(caller: &Caller, thread_id: ThreadId) -> Result<Value, CommandFailure> {
    let thread = caller.agent.threads().get(thread_id).await.map_err(ApiError::from)?;
    let status = thread.map_or("idle", |thread| crate::wire::thread_status(thread.status));
    let name = caller.agent.assistant_id().name();
    Ok(json!({"tree": {"namespace": [], "graph_name": name, "status": status, "children": []}}))
}

fn configured_request(
    config: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
) -> Result<RunRequest, ApiError> {
    let config = config.unwrap_or_default();
    Ok(RunRequest {
        checkpoint_id: configured_checkpoint(&config)?,
        metadata: metadata.unwrap_or_default(),
        stream_resumable: true,
        stream_subgraphs: true,
        stream_mode: vec!["values".to_owned()],
        config,
        ..RunRequest::default()
    })
}

async fn create_run(
    caller: &Caller,
    thread_id: ThreadId,
    if_not_exists: IfNotExists,
    request: RunRequest,
) -> Result<protocol::RunId, CommandFailure> {
    check_readable(&request).map_err(|fault| invalid_argument(fault.message))?;
    let new = scheduler::NewRun { thread_id: Some(thread_id), request, if_not_exists };
    let created = match caller.server.scheduler.create_run(&caller.scope, new).await {
        Err(scheduler::Error::Agent(error @ agent::Error::Thread(agent::ThreadError::Exists(_)))) => {
            return Err(resources::create_thread_error(caller, error).await.into());
        }
        created => created?,
    };
    let run_id = created.run.run_id;
    created.reader.detach();
    Ok(run_id)
}

fn parse_params<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, CommandFailure> {
    serde_json::from_value(params).map_err(|error| invalid_argument(format!("`params`: {error}")))
}

fn invalid_argument(message: impl Into<String>) -> CommandFailure {
    CommandFailure::Protocol(CommandError::new("invalid_argument", message))
}
