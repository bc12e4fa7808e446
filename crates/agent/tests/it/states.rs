//! States: what the clients of the wire see of a thread's past, and how they change it.

mod change;
mod files;
mod past;
mod tree;

use agent::{Agent, RunEnd, ThreadSnapshot};
use protocol::{CheckpointId, RunId, RunRequest, ThreadId};
use serde_json::{Value, json};

use crate::environment::unwatched;

/// Runs what is asked for until it rests.
pub async fn run_request(agent: &Agent, thread: ThreadId, request: &RunRequest) -> RunEnd {
    let (frames, cancel) = unwatched();
    let begun = agent.runs().begin(RunId::generate(), thread, request, &frames).await.unwrap();
    agent.runs().drive_started(begun, &frames, &cancel).await.unwrap()
}

/// Returns a request that puts in what a person says.
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

/// Changes the state of the thread as a client asks for it.
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
