//! Threads as clients read them: the row, and what stands at its head.

use std::collections::BTreeMap;

use agent::ThreadSnapshot;
use protocol::{Thread, ThreadId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::failure::WireRunFailure;
use super::state::{Interrupt, StateValues, ThreadTask, pending_tasks};
use super::{AnyObject, thread_status, timestamp};

/// Metadata of a thread that is not sent: its folder on this machine.
const HIDDEN_METADATA: [&str; 1] = [agent::WORKSPACE_KEY];

/// The fields of a thread, as a search may choose among them. The last are known to clients and may have nothing here.
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
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    pub thread_id: ThreadId,
    /// When it was created.
    pub created_at: String,
    /// When something last happened in it.
    pub updated_at: String,
    /// When its state last changed.
    pub state_updated_at: String,
    /// Notes about it.
    pub metadata: AnyObject,
    /// `idle`, `busy`, `interrupted` or `error`.
    #[schema(pattern = "^(idle|busy|interrupted|error)$")]
    pub status: &'static str,
    /// How its runs were configured.
    pub config: AnyObject,
    /// The values at its head; `null` before the first event.
    #[schema(value_type = Option<Object>)]
    pub values: Option<StateValues>,
    /// The pending interrupts, by task.
    pub interrupts: BTreeMap<String, Vec<Interrupt>>,
    /// How its last run failed, or that it was stopped.
    #[schema(value_type = Option<Object>)]
    pub error: Option<Value>,
    /// The values of the search's `extract` paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extracted: Option<AnyObject>,
}

impl WireThread {
    /// Returns a thread as clients read it. `state` is what stands at its head, `failure` how its last run failed.
    pub fn from_thread(
        thread: &Thread,
        state: Option<&ThreadSnapshot>,
        failure: Option<&WireRunFailure>,
    ) -> Self {
        let metadata = thread.metadata.iter().filter(|(key, _)| !HIDDEN_METADATA.contains(&key.as_str()));
        let metadata: Map<String, Value> =
            metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        let asked = |task: ThreadTask| (!task.interrupts.is_empty()).then_some((task.id, task.interrupts));
        Self {
            thread_id: thread.thread_id,
            created_at: timestamp(thread.created_at),
            updated_at: timestamp(thread.updated_at),
            state_updated_at: timestamp(state.map_or(thread.updated_at, |state| state.created_at)),
            config: thread_config(state),
            metadata: AnyObject(metadata),
            status: thread_status(thread.status),
            values: state.map(|state| StateValues::from_state(thread.thread_id, state)),
            interrupts: state.map(pending_tasks).unwrap_or_default().into_iter().filter_map(asked).collect(),
            error: failure.map(|fault| json!({"error": fault.name, "message": fault.message})),
            extracted: None,
        }
    }
}

/// Runs are configured by those who ask for them; a thread only tells that there were some.
fn thread_config(state: Option<&ThreadSnapshot>) -> AnyObject {
    let mut config = Map::new();
    if state.is_some() {
        config.insert("configurable".to_owned(), json!({}));
    }
    AnyObject(config)
}
