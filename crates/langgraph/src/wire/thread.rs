//! Threads on the wire: the row of a thread, and the values of its current state.

use std::collections::BTreeMap;

use agent::ThreadSnapshot;
use protocol::{Thread, ThreadId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::failure::WireRunFailure;
use super::state::{Interrupt, StateValues, ThreadTask, pending_tasks};
use super::{AnyObject, thread_status, timestamp};

/// Keys of a thread's metadata that are not sent. The path of the workspace is private to this machine.
const HIDDEN_METADATA: [&str; 1] = [agent::WORKSPACE_KEY];

/// The fields of a thread that a search can select. `context`, `ttl` and `extracted` are in the protocol, but a
/// thread may not have them here.
pub(crate) const THREAD_FIELDS: [&str; 13] = [
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "status",
    "config",
    "values",
    "interrupts",
    "error",
    "context",
    "ttl",
    "extracted",
];

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Thread)]
pub(crate) struct WireThread {
    /// The id of the thread.
    #[schema(value_type = String, format = Uuid)]
    pub thread_id: ThreadId,
    /// The time of its creation.
    pub created_at: String,
    /// The time of its last change.
    pub updated_at: String,
    /// The creation time of its current checkpoint.
    pub state_updated_at: String,
    /// The metadata that clients set.
    pub metadata: AnyObject,
    /// The status: `idle`, `busy`, `interrupted` or `error`.
    #[schema(pattern = "^(idle|busy|interrupted|error)$")]
    pub status: &'static str,
    /// The configuration. `configurable` is always empty, and absent before the first event.
    pub config: AnyObject,
    /// The values of its current state; `null` before the first event.
    #[schema(value_type = Option<Object>)]
    pub values: Option<StateValues>,
    /// The pending interrupts, by the id of the task that raised them.
    pub interrupts: BTreeMap<String, Vec<Interrupt>>,
    /// The failure of its last run, or the fact that the run was stopped; `null` if neither applies.
    #[schema(value_type = Option<Object>)]
    pub error: Option<Value>,
    /// The values at the `extract` paths of a search; absent in other responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extracted: Option<AnyObject>,
}

impl WireThread {
    /// Returns the thread. `state` is its current state, and `failure` that of its last run; both are `None` if there
    /// is none.
    pub fn from_thread(
        thread: &Thread,
        state: Option<&ThreadSnapshot>,
        failure: Option<&WireRunFailure>,
    ) -> Self {
        let metadata = thread.metadata.iter().filter(|(key, _)| !HIDDEN_METADATA.contains(&key.as_str()));
        let metadata: Map<String, Value> =
            metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        let task_interrupts =
            |task: ThreadTask| (!task.interrupts.is_empty()).then_some((task.id, task.interrupts));
        Self {
            thread_id: thread.thread_id,
            created_at: timestamp(thread.created_at),
            updated_at: timestamp(thread.updated_at),
            state_updated_at: timestamp(state.map_or(thread.updated_at, |state| state.created_at)),
            config: thread_config(state),
            metadata: AnyObject(metadata),
            status: thread_status(thread.status),
            values: state.map(|state| StateValues::from_state(thread.thread_id, state)),
            interrupts: state
                .map(pending_tasks)
                .unwrap_or_default()
                .into_iter()
                .filter_map(task_interrupts)
                .collect(),
            error: failure.map(|failure| json!({"error": failure.name, "message": failure.message})),
            extracted: None,
        }
    }
}

/// Returns the configuration of a thread. It is empty, because each run has the configuration of its request; once
/// the thread has a state, it contains an empty `configurable`, which shows that there was a run.
fn thread_config(state: Option<&ThreadSnapshot>) -> AnyObject {
    let mut config = Map::new();
    if state.is_some() {
        config.insert("configurable".to_owned(), json!({}));
    }
    AnyObject(config)
}
