//! The commands of the event-streaming protocol: `run.start`, `input.respond` and `agent.getTree`.
//!
//! The first two become a [`RunRequest`] that is submitted to the scheduler like any other run. Errors that a client
//! can correct are returned with status 200 and an error code of the protocol; all other errors have an HTTP error
//! status.

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
use crate::extract::json_limits::check_channels_size;
use crate::extract::{self, ThreadPath};
use crate::requests::check_readable;
use crate::resources::{self, assistants::resolve_assistant};
use crate::runs::body::configured_checkpoint;

/// The maximum number of interrupts that one `input.respond` may answer.
const RESPONSES_MAX: usize = 64;

/// The body of a command request.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CommandEnvelope {
    /// The client's number for the command. The response repeats it.
    id: i64,
    /// `run.start`, `input.respond` or `agent.getTree`.
    method: String,
    /// The parameters of the command. Each method has its own.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Option<Map<String, Value>>,
}

/// An error of the protocol, sent to the client as a response of type `error`.
struct CommandError {
    /// A code that the protocol defines, such as `invalid_argument`.
    code: &'static str,
    /// A sentence for a developer. Clients do not parse it.
    message: String,
}

impl CommandError {
    /// Returns an error with that code and message.
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The failure of a command.
enum CommandFailure {
    /// The client can correct the command. The response has status 200 and the type `error`.
    Protocol(CommandError),
    /// The failure does not depend on the command, for example a failing journal. The response has an error status.
    Http(ApiError),
}

impl From<ApiError> for CommandFailure {
    fn from(error: ApiError) -> Self {
        match error.status() {
            StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::CONFLICT
            | StatusCode::UNPROCESSABLE_ENTITY => {
                Self::Protocol(CommandError::new("invalid_argument", error.detail()))
            }
            _ => Self::Http(error),
        }
    }
}

impl From<scheduler::Error> for CommandFailure {
    fn from(error: scheduler::Error) -> Self {
        match error {
            scheduler::Error::Agent(
                error @ agent::Error::Thread(agent::ThreadError::UnknownCheckpoint { .. }),
            ) => Self::Protocol(CommandError::new("no_such_checkpoint", format!("failed to {error}"))),
            scheduler::Error::Agent(error @ agent::Error::Run(agent::RunError::AnswerRefused(_)))
                if error.class() == agent::ErrorClass::Conflict =>
            {
                Self::Protocol(CommandError::new("no_such_interrupt", format!("failed to {error}")))
            }
            other => ApiError::from(other).into(),
        }
    }
}

/// Executes a command on a thread.
///
/// `run.start` starts a run, `input.respond` answers pending interrupts, and `agent.getTree` returns the thread's
/// agent. The subscription commands of the protocol are not supported, because they require a WebSocket.
#[utoipa::path(
    post, path = "/threads/{thread_id}/commands", tag = "events", request_body = CommandEnvelope,
    params(("thread_id" = Uuid, Path, description = "The thread. `run.start` creates it if it does not exist.")),
    responses(
        (status = 200, description = "The outcome of the command: an object of type `success` or `error`.", body = Value),
        (status = "4XX", description = "The body is not a valid command.", body = ErrorBody),
    )
)]
pub(super) async fn execute_command(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    request: Request,
) -> Result<Response, ApiError> {
    let bytes = extract::read_body(request).await?;
    let envelope: CommandEnvelope = extract::parse_json(&bytes).map_err(ApiError::or_bad_request)?;
    let params = Value::Object(envelope.params.unwrap_or_default());
    let outcome = match envelope.method.as_str() {
        "run.start" => start_run(&caller, thread_id, params).await,
        "input.respond" => respond_to_interrupts(&caller, thread_id, params).await,
        "agent.getTree" => agent_tree(&caller, thread_id).await,
        "subscription.subscribe" | "subscription.unsubscribe" | "subscription.reconnect" => {
            Err(CommandFailure::Protocol(CommandError::new(
                "not_supported",
                "subscriptions require a WebSocket; use `stream/events`",
            )))
        }
        unknown => {
            let shown: String = unknown.chars().take(80).collect();
            Err(CommandFailure::Protocol(CommandError::new(
                "unknown_command",
                format!("unknown command `{shown}`"),
            )))
        }
    };
    let id = envelope.id;
    let response = match outcome {
        Ok(result) => {
            let mut success = json!({"type": "success", "id": id, "result": result});
            // The command has been executed, so a failure to read the position must not turn it into an error.
            if let Some(applied) = applied_through_seq(&caller, thread_id).await {
                success["meta"] = json!({"applied_through_seq": applied});
            }
            success
        }
        Err(CommandFailure::Protocol(CommandError { code, message })) => {
            json!({"type": "error", "id": id, "error": code, "message": message})
        }
        Err(CommandFailure::Http(error)) => return Err(error),
    };
    Ok(Json(response).into_response())
}

/// Returns the event number of the thread's last event: 0 for a thread that does not exist, and `None`, after a warning
/// in the log, if the journal fails.
async fn applied_through_seq(caller: &Caller, thread_id: ThreadId) -> Option<u64> {
    let thread = caller.agent.threads().get(thread_id).await;
    let thread = thread.inspect_err(|error| {
        tracing::warn!(thread_id = %thread_id, %error, "failed to read the last sequence number of thread {thread_id}");
    });
    let last_seq = thread.ok()?.map_or(0, |thread| thread.last_seq);
    Some(sequence_number(FramePosition { seq: last_seq, sub: 0 }, 0))
}

/// The parameters of `run.start`.
#[derive(Debug, Deserialize)]
struct RunStartParams {
    /// The assistant, by name or by id.
    assistant_id: String,
    /// The input. Without it, the run resumes at the thread's checkpoint.
    #[serde(default)]
    input: Option<Value>,
    /// The run's configuration. `configurable.checkpoint_id` selects the checkpoint to start from.
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// The client's metadata about the run.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    /// The strategy if the thread is busy. The protocol spells the field in camel case; the spelling of the run
    /// endpoints is accepted too.
    #[serde(default, rename = "multitaskStrategy", alias = "multitask_strategy")]
    multitask: Option<MultitaskStrategy>,
}

/// Executes `run.start`: creates the thread if it does not exist, and starts or queues a run. Returns the run's id.
async fn start_run(caller: &Caller, thread_id: ThreadId, params: Value) -> Result<Value, CommandFailure> {
    let params: RunStartParams = parse_params(params)?;
    resolve_assistant(&caller.agent, &params.assistant_id)?;
    if let Some(Value::Object(channels)) = &params.input {
        check_channels_size(channels)?;
    }
    let request = RunRequest {
        input: params.input,
        multitask_strategy: params.multitask.unwrap_or_default(),
        ..configured_request(params.config, params.metadata)?
    };
    let run_id = create_run(caller, thread_id, IfNotExists::Create, request).await?;
    Ok(json!({"run_id": run_id}))
}

/// The parameters of `input.respond`: either `interrupt_id` and `response`, or `responses`, which takes precedence.
#[derive(Debug, Deserialize)]
struct InputRespondParams {
    /// The one interrupt to answer.
    #[serde(default)]
    interrupt_id: Option<String>,
    /// The answer to that interrupt; `null` if it is missing.
    #[serde(default)]
    response: Option<Value>,
    /// The answers to several interrupts, at most [`RESPONSES_MAX`].
    #[serde(default)]
    responses: Option<Vec<InterruptResponse>>,
    /// A state update to apply with the answers.
    #[serde(default)]
    update: Option<Value>,
    /// The node or nodes to continue at.
    #[serde(default)]
    goto: Option<Value>,
    /// The run's configuration, as in `run.start`.
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// The client's metadata about the run.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// The answer to one interrupt.
#[derive(Debug, Deserialize)]
struct InterruptResponse {
    /// The interrupt, which must be pending.
    interrupt_id: String,
    /// The answer; `null` if it is missing.
    #[serde(default)]
    response: Value,
}

/// Executes `input.respond`: answers pending interrupts of the thread in one run, and returns an empty object.
///
/// All interrupts are checked before the run is created, so that an unknown id is reported as `no_such_interrupt` and
/// none of the answers is used. The admission of the run checks them again (`strict_resume`), because another client
/// may have answered in between.
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
    let is_pending = |id: &str| pending.iter().any(|interrupt| interrupt.interrupt_id.to_string() == id);
    if let Some(unknown) = responses.iter().find(|response| !is_pending(&response.interrupt_id)) {
        let shown: String = unknown.interrupt_id.chars().take(80).collect();
        let message = format!("thread {thread_id} has no pending interrupt `{shown}`");
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

/// Executes `agent.getTree`: returns the agents of the thread that a client can address. The tree has no children,
/// because a client cannot send commands to sub-agents. The status of a thread that does not exist is `idle`.
async fn agent_tree(caller: &Caller, thread_id: ThreadId) -> Result<Value, CommandFailure> {
    let thread = caller.agent.threads().get(thread_id).await.map_err(ApiError::from)?;
    let status = thread.map_or("idle", |thread| crate::wire::thread_status(thread.status));
    let name = caller.agent.assistant_id().name();
    Ok(json!({"tree": {"namespace": [], "graph_name": name, "status": status, "children": []}}))
}

/// Returns a run request with that configuration and metadata, and with the settings that all runs of this protocol
/// share: a resumable stream that includes sub-agents.
///
/// # Errors
/// If `config` contains a checkpoint id that is malformed.
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

/// Submits a run to the scheduler and returns its id. The run does not depend on this request: its events are sent on
/// the thread's event stream, so no reader is needed.
async fn create_run(
    caller: &Caller,
    thread_id: ThreadId,
    if_not_exists: IfNotExists,
    request: RunRequest,
) -> Result<protocol::RunId, CommandFailure> {
    check_readable(&request).map_err(|error| invalid_argument(error.message))?;
    let request = RunRequest { client: Some(caller.client.as_ref().to_owned()), ..request };
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

/// Deserializes the parameters of a command.
///
/// # Errors
/// `invalid_argument` with the message of the deserializer.
fn parse_params<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, CommandFailure> {
    serde_json::from_value(params).map_err(|error| invalid_argument(format!("`params`: {error}")))
}

/// Returns a failure with the code `invalid_argument`.
fn invalid_argument(message: impl Into<String>) -> CommandFailure {
    CommandFailure::Protocol(CommandError::new("invalid_argument", message))
}
