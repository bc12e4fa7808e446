//! Runs on the wire. Its statuses differ from Segue's own: a run that waits for an answer has the status `success`,
//! and a run that was stopped has the status `interrupted`.

use protocol::{MultitaskStrategy, Run, RunId, RunRequest, RunStatus, ThreadId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{AnyObject, timestamp};

/// The fields of a run that a client can select.
pub(crate) const RUN_FIELDS: [&str; 9] = [
    "run_id",
    "thread_id",
    "assistant_id",
    "status",
    "created_at",
    "updated_at",
    "metadata",
    "kwargs",
    "multitask_strategy",
];

/// A run.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct WireRun {
    /// The id of the run.
    #[schema(value_type = String, format = Uuid)]
    pub run_id: RunId,
    /// The thread of the run.
    #[schema(value_type = String, format = Uuid)]
    pub thread_id: ThreadId,
    /// The assistant of the run.
    #[schema(format = "uuid")]
    pub assistant_id: String,
    /// The status: `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    #[schema(pattern = "^(pending|running|success|error|timeout|interrupted)$")]
    pub status: &'static str,
    /// The time of the request.
    pub created_at: String,
    /// The time of its last change.
    pub updated_at: String,
    /// The metadata that the client set, and the assistant of the run.
    pub metadata: AnyObject,
    /// The arguments of the request.
    pub kwargs: AnyObject,
    /// The effect of the request on a busy thread.
    #[schema(pattern = "^(reject|rollback|interrupt|enqueue)$")]
    pub multitask_strategy: &'static str,
}

impl WireRun {
    /// Returns the run. A run without a request was started at the terminal; it has the arguments of an empty request.
    pub fn from_run(run: &Run, request: Option<RunRequest>) -> Self {
        let request = request.unwrap_or_default();
        let name = run.assistant_id.name();
        let multitask_strategy = multitask_name(request.multitask_strategy);
        let mut metadata = request.metadata.clone();
        let assistant_id = run.assistant_id.wire_id().hyphenated().to_string();
        metadata.insert("graph_id".to_owned(), name.into());
        metadata.insert("assistant_id".to_owned(), assistant_id.as_str().into());
        metadata.insert("created_by".to_owned(), "system".into());
        for (key, id) in [("run_id", run.run_id.to_string()), ("thread_id", run.thread_id.to_string())] {
            // Ids that the client set may be those of another run. A key that the client did not set is not added.
            metadata.entry(key).and_modify(|value| *value = id.into());
        }
        Self {
            run_id: run.run_id,
            thread_id: run.thread_id,
            assistant_id,
            status: run_status(run.status),
            created_at: timestamp(run.created_at),
            updated_at: timestamp(run.updated_at),
            metadata: AnyObject(metadata),
            kwargs: AnyObject(run_kwargs(request)),
            multitask_strategy,
        }
    }
}

/// Returns the name of a run's status on the wire.
pub(crate) const fn run_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "pending",
        RunStatus::Running => "running",
        // On the wire, a pending interrupt is part of the thread's status, not of the run's.
        RunStatus::Success | RunStatus::Interrupted => "success",
        RunStatus::Error => "error",
        RunStatus::Timeout => "timeout",
        RunStatus::Cancelled => "interrupted",
    }
}

/// Returns the name of a strategy on the wire.
const fn multitask_name(strategy: MultitaskStrategy) -> &'static str {
    match strategy {
        MultitaskStrategy::Enqueue => "enqueue",
        MultitaskStrategy::Reject => "reject",
        MultitaskStrategy::Interrupt => "interrupt",
        MultitaskStrategy::Rollback => "rollback",
    }
}

/// Returns the arguments of the request under the names of the API. Arguments that Segue does not have
/// get fixed values.
fn run_kwargs(request: RunRequest) -> Map<String, Value> {
    let kwargs = json!({
        "input": request.input,
        "command": request.command,
        "config": request.config,
        "context": request.context,
        "stream_mode": request.stream_mode,
        "interrupt_before": request.interrupt_before,
        "interrupt_after": request.interrupt_after,
        "webhook": request.webhook,
        "feedback_keys": null,
        "temporary": request.temporary,
        "subgraphs": request.stream_subgraphs,
        "resumable": request.stream_resumable,
        "checkpoint_during": true,
        "durability": request.durability,
    });
    match kwargs {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
