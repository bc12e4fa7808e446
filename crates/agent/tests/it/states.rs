//! Tests of thread states: how protocol clients read the checkpoints of a thread and change its state.

mod change;
mod export;
mod files;
mod imports;
mod past;
mod tree;

use agent::{Agent, RunEnd, ThreadSnapshot};
use protocol::{CheckpointId, RunId, RunRequest, ThreadId};
use serde_json::{Value, json};

use crate::environment::unwatched;

/// Runs a request until the run ends.
pub async fn run_request(agent: &Agent, thread: ThreadId, request: &RunRequest) -> RunEnd {
    let (frames, cancel) = unwatched();
    let started = agent.runs().begin(RunId::generate(), thread, request, &frames).await.unwrap();
    agent.runs().drive_started(started, &frames, &cancel).await.unwrap()
}

/// Returns a request with one user message that has the given id.
pub fn message_request(id: &str, text: &str) -> RunRequest {
    let message = json!({"type": "human", "id": id, "content": text});
    RunRequest { input: Some(json!({"messages": [message]})), ..RunRequest::default() }
}

/// Returns the ids and texts of the messages.
pub fn message_ids_and_texts(state: &ThreadSnapshot) -> Vec<(String, String)> {
    state.messages.iter().map(|message| (message.id.clone(), message.message.text())).collect()
}

/// Returns the texts of the messages.
pub fn message_texts(state: &ThreadSnapshot) -> Vec<String> {
    state.messages.iter().map(|message| message.message.text()).collect()
}

/// Returns every state of the thread, newest first.
pub async fn all_states(agent: &Agent, thread: ThreadId) -> Vec<ThreadSnapshot> {
    agent.threads().states(thread, None, 1_000).await.unwrap()
}

/// Updates the state of the thread with a client's values, at a checkpoint or at the newest one.
pub async fn update_state(
    agent: &Agent,
    thread: ThreadId,
    values: Value,
    as_node: Option<&str>,
    point: Option<CheckpointId>,
) -> agent::Result<CheckpointId> {
    let change = langgraph::read_state_update(thread, values.as_object().cloned(), as_node, point)?;
    agent.threads().update_state(thread, change).await
}
