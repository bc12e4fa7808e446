//! Commands of the protocol: begin a run, answer what is asked. A command becomes a request for a run like any other.

use std::collections::BTreeMap;

use agent::Position;
use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::{Command, Multitask, RunRequest, ThreadId};
use scheduler::IfNotExists;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::out::number;
use crate::caller::Caller;
use crate::extract::{self, InThread};
use crate::fault::{Envelope, Fault};
use crate::requests::check_readable;
use crate::resources::{self, assistants::resolve};
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
    /// What the command is about.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Option<Map<String, Value>>,
}

/// Why a command was not done, in the protocol's words.
struct Refused {
    code: &'static str,
    message: String,
}

impl Refused {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What becomes of a command that cannot be done: an answer of the protocol, or of HTTP.
enum Failure {
    Refused(Refused),
    Fault(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault.status() {
            StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::CONFLICT
            | StatusCode::UNPROCESSABLE_ENTITY => {
                Self::Refused(Refused::new("invalid_argument", fault.detail()))
            }
            _ => Self::Fault(fault),
        }
    }
}

impl From<scheduler::Error> for Failure {
    fn from(error: scheduler::Error) -> Self {
        match error {
            scheduler::Error::Agent(
                error @ agent::Error::Thread(agent::ThreadError::UnknownCheckpoint { .. }),
            ) => Self::Refused(Refused::new("no_such_checkpoint", format!("failed to {error}"))),
            other => Fault::from(other).into(),
        }
    }
}

/// Does a command.
#[utoipa::path(
    post, path = "/threads/{thread_id}/commands", tag = "events", request_body = CommandEnvelope,
    params(("thread_id" = Uuid, Path, description = "The thread; `run.start` makes it.")),
    responses(
        (status = 200, description = "What came of it: `success` or `error`.", body = Value),
        (status = "4XX", description = "It is no command.", body = Envelope),
    )
)]
pub(super) async fn command(
    caller: Caller,
    InThread(thread_id): InThread,
    request: Request,
) -> Result<Response, Fault> {
    let bytes = extract::read(request).await?;
    let envelope: CommandEnvelope =
        extract::parse(&bytes).map_err(|fault| Fault::bad_request(fault.detail()))?;
    let params = Value::Object(envelope.params.unwrap_or_default());
    let done = match envelope.method.as_str() {
        "run.start" => start(&caller, thread_id, params).await,
        "input.respond" => respond(&caller, thread_id, params).await,
        "agent.getTree" => tree(&caller, thread_id).await,
        "subscription.subscribe" | "subscription.unsubscribe" | "subscription.reconnect" => {
            Err(Failure::Refused(Refused::new(
                "not_supported",
                "subscriptions need a socket; use `stream/events`",
            )))
        }
        other => {
            let shown: String = other.chars().take(80).collect();
            Err(Failure::Refused(Refused::new("unknown_command", format!("there is no command `{shown}`"))))
        }
    };
    let id = envelope.id;
    let told = match done {
        Ok(result) => {
            let mut told = json!({"type": "success", "id": id, "result": result});
            // It is done, whether it is known how far or not.
            if let Some(applied) = applied_through(&caller, thread_id).await {
                told["meta"] = json!({"applied_through_seq": applied});
            }
            told
        }
        Err(Failure::Refused(Refused { code, message })) => {
            json!({"type": "error", "id": id, "error": code, "message": message})
        }
        Err(Failure::Fault(fault)) => return Err(fault),
    };
    Ok(Json(told).into_response())
}

async fn applied_through(caller: &Caller, thread_id: ThreadId) -> Option<u64> {
    let thread = caller.agent.threads().get(thread_id).await;
    let thread = thread.inspect_err(|error| {
        tracing::warn!(thread_id = %thread_id, %error, "failed to read how far thread {thread_id} is");
    });
    let last_seq = thread.ok()?.map_or(0, |thread| thread.last_seq);
    Some(number(Position { seq: last_seq, sub: 0 }, 0))
}

#[derive(Debug, Deserialize)]
struct StartParams {
    assistant_id: String,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default, rename = "multitaskStrategy", alias = "multitask_strategy")]
    multitask: Option<Multitask>,
}

async fn start(caller: &Caller, thread_id: ThreadId, params: Value) -> Result<Value, Failure> {
    let params: StartParams = read(params)?;
    resolve(&caller.agent, &params.assistant_id)?;
    let request = RunRequest {
        input: params.input,
        multitask_strategy: params.multitask.unwrap_or_default(),
        ..with_config(params.config, params.metadata)?
    };
    let run_id = create(caller, thread_id, IfNotExists::Create, request).await?;
    Ok(json!({"run_id": run_id}))
}

#[derive(Debug, Deserialize)]
struct RespondParams {
    #[serde(default)]
    interrupt_id: Option<String>,
    #[serde(default)]
    response: Option<Value>,
    #[serde(default)]
    responses: Option<Vec<OneResponse>>,
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
struct OneResponse {
    interrupt_id: String,
    #[serde(default)]
    response: Value,
}

async fn respond(caller: &Caller, thread_id: ThreadId, params: Value) -> Result<Value, Failure> {
    let params: RespondParams = read(params)?;
    let responses = match (params.responses, params.interrupt_id) {
        (Some(responses), _) => responses,
        (None, Some(interrupt_id)) => {
            vec![OneResponse { interrupt_id, response: params.response.unwrap_or_default() }]
        }
        (None, None) => return Err(invalid("`interrupt_id` or `responses` is missing")),
    };
    if responses.is_empty() || responses.len() > RESPONSES_MAX {
        return Err(invalid(format!("`responses` must have 1 to {RESPONSES_MAX} entries")));
    }
    let pending = caller.agent.runs().pending_interrupts(thread_id).await.map_err(Fault::from)?;
    let waits = |id: &str| pending.iter().any(|interrupt| interrupt.interrupt_id.to_string() == id);
    if let Some(unknown) = responses.iter().find(|response| !waits(&response.interrupt_id)) {
        let shown: String = unknown.interrupt_id.chars().take(80).collect();
        let message = format!("no interrupt `{shown}` waits in thread {thread_id}");
        return Err(Failure::Refused(Refused::new("no_such_interrupt", message)));
    }
    let answers: BTreeMap<String, Value> =
        responses.into_iter().map(|response| (response.interrupt_id, response.response)).collect();
    let command = Command { resume: Some(json!(answers)), update: params.update, goto: params.goto };
    let request = RunRequest {
        command: Some(command),
        strict_resume: true,
        ..with_config(params.config, params.metadata)?
    };
    create(caller, thread_id, IfNotExists::Reject, request).await?;
    Ok(json!({}))
}

/// Returns the thread's agent and those it handed tasks to, as far as a client can go on with them: itself.
async fn tree(caller: &Caller, thread_id: ThreadId) -> Result<Value, Failure> {
    let thread = caller.agent.threads().get(thread_id).await.map_err(Fault::from)?;
    let status = thread.map_or("idle", |thread| crate::wire::thread_status(thread.status));
    let name = caller.agent.assistant_id().name();
    Ok(json!({"tree": {"namespace": [], "graph_name": name, "status": status, "children": []}}))
}

fn with_config(
    config: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
) -> Result<RunRequest, Fault> {
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

async fn create(
    caller: &Caller,
    thread_id: ThreadId,
    if_not_exists: IfNotExists,
    request: RunRequest,
) -> Result<protocol::RunId, Failure> {
    check_readable(&request).map_err(|fault| invalid(fault.message))?;
    let new = scheduler::NewRun { thread_id: Some(thread_id), request, if_not_exists };
    let created = match caller.server.dispatch.create(&caller.scope, new).await {
        Err(scheduler::Error::Agent(error @ agent::Error::Thread(agent::ThreadError::Exists(_)))) => {
            return Err(resources::not_made(caller, error).await.into());
        }
        created => created?,
    };
    let run_id = created.run.run_id;
    created.live.leave();
    Ok(run_id)
}

fn read<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_json::from_value(params).map_err(|error| invalid(format!("`params`: {error}")))
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::Refused(Refused::new("invalid_argument", message))
}
