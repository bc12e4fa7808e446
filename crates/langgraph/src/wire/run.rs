//! Runs as clients read them. The wire has its own words for how a run ended: one that waits for an answer succeeded, and
//! one that was stopped is interrupted.

use protocol::{MultitaskStrategy, Run, RunId, RunRequest, RunStatus, ThreadId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{AnyObject, timestamp};

/// The fields of a run, as a client may choose among them.
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
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    pub run_id: RunId,
    /// The thread it runs on.
    #[schema(value_type = String, format = Uuid)]
    pub thread_id: ThreadId,
    /// The assistant that runs.
    #[schema(format = "uuid")]
    pub assistant_id: String,
    /// `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    #[schema(pattern = "^(pending|running|success|error|timeout|interrupted)$")]
    pub status: &'static str,
    /// When it was asked for.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// The client's notes, and whose run it is.
    pub metadata: AnyObject,
    /// The arguments of the request.
    pub kwargs: AnyObject,
    /// The strategy on a busy thread.
    #[schema(pattern = "^(reject|rollback|interrupt|enqueue)$")]
    pub multitask_strategy: &'static str,
}

impl WireRun {
    /// Returns a run; one without a request was begun at the terminal.
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
            // What a client says there is not of this run.
            metadata.entry(key).and_modify(|said| *said = id.into());
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

/// Returns the wire's word for where a run stands.
pub(crate) const fn run_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "pending",
        RunStatus::Running => "running",
        // It waits for an answer: on the wire that is the thread's state, not the run's.
        RunStatus::Success | RunStatus::Interrupted => "success",
        RunStatus::Error => "error",
        RunStatus::Timeout => "timeout",
        RunStatus::Cancelled => "interrupted",
    }
}

const fn multitask_name(strategy: MultitaskStrategy) -> &'static str {
    match strategy {
        MultitaskStrategy::Enqueue => "enqueue",
        MultitaskStrategy::Reject => "reject",
        MultitaskStrategy::Interrupt => "interrupt",
        MultitaskStrategy::Rollback => "rollback",
    }
}

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
