//! Tests of run requests: how a request is interpreted, and the state of the thread after its run.

mod forks;
mod goto;
mod input;
mod isolation;
mod keys;
mod limits;
mod new_thread;
mod resume;
mod undo;
mod webhooks;

use agent::{Agent, ApprovalPolicy, CancellationToken, FrameSender, RunEnd};
use protocol::{RunId, RunRequest, RunStatus, Thread, ThreadId};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TestEnvironment, unwatched};

/// A test environment with one thread, and a server whose model plays scripted replies.
pub struct RequestFixture {
    pub environment: TestEnvironment,
    pub server: ScriptedServer,
    pub agent: Agent,
    pub thread: ThreadId,
}

impl RequestFixture {
    pub async fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::with_config(replies, "").await
    }

    pub async fn with_config(replies: impl IntoIterator<Item = ScriptedReply>, config: &str) -> Self {
        let environment = TestEnvironment::new();
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent = environment.agent_with_policy(&server, (config, ApprovalPolicy::Ask));
        let thread = blank_thread(&agent).await;
        Self { environment, server, agent, thread }
    }

    /// Runs a client's request in the fixture's thread and returns the end of the run.
    pub async fn run(&self, request: Value) -> RunEnd {
        run(&self.agent, self.thread, request).await
    }

    /// Sends a user message in the fixture's thread.
    pub async fn say(&self, text: &str) -> RunEnd {
        self.run(user_request(text)).await
    }

    /// Returns the stored row of the thread.
    pub async fn row(&self) -> Thread {
        self.agent.store().thread(self.thread).await.unwrap().unwrap()
    }

    /// Returns the next node of the thread's checkpoint, or `None` if the thread is idle.
    pub async fn next(&self) -> Option<String> {
        self.agent.store().checkpoint(self.thread).await.unwrap().and_then(|point| point.next)
    }

    /// Returns the visible messages of the thread, as in [`transcript_lines`].
    /// Returns the visible messages of a thread, each as `U: `, `A: ` or `T: ` (user, assistant, tool) and its text.
    pub async fn transcript_lines(&self) -> Vec<String> {
        transcript_lines(&self.agent, self.thread).await
    }

    /// Returns the id of the newest checkpoint.
    pub async fn head(&self) -> String {
        self.agent.threads().state(self.thread).await.unwrap().unwrap().checkpoint_id.to_string()
    }
}

/// Creates an empty thread.
pub async fn blank_thread(agent: &Agent) -> ThreadId {
    agent
        .threads()
        .ensure_thread(None, serde_json::Map::new(), agent::IfExists::Raise)
        .await
        .unwrap()
        .0
        .thread_id
}

/// Parses a run request.
pub fn request(request: Value) -> RunRequest {
    serde_json::from_value(request).unwrap()
}

/// Returns a run request with one user message.
pub fn user_request(text: &str) -> Value {
    json!({"input": {"messages": [{"role": "user", "content": text}]}})
}

/// Runs a request and returns the end of the run.
pub async fn run(agent: &Agent, thread: ThreadId, run_request: Value) -> RunEnd {
    try_run(agent, thread, RunId::generate(), run_request).await.unwrap()
}

/// Runs a request under the given id. Fails if the run cannot be admitted.
pub async fn try_run(
    agent: &Agent,
    thread: ThreadId,
    run_id: RunId,
    run_request: Value,
) -> agent::Result<RunEnd> {
    let (frames, cancel) = unwatched();
    let started = agent.runs().begin(run_id, thread, &request(run_request), &frames).await?;
    agent.runs().drive_started(started, &frames, &cancel).await
}

/// Starts a queued run and drives it to its end.
pub async fn begin_queued(
    agent: &Agent,
    thread: ThreadId,
    run_id: RunId,
    run_request: &RunRequest,
) -> RunEnd {
    let (frames, cancel) = unwatched();
    let started = agent.runs().begin_queued(run_id, thread, run_request, &frames).await.unwrap();
    agent.runs().drive_started(started, &frames, &cancel).await.unwrap()
}

/// Runs a request and cancels the run as soon as the server has received `calls` model requests.
pub async fn run_until_call(fixture: &RequestFixture, run_request: Value, calls: usize) -> RunEnd {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let started = fixture
        .agent
        .runs()
        .begin(RunId::generate(), fixture.thread, &request(run_request), &frames)
        .await
        .unwrap();
    let stop = async {
        fixture.server.wait_for_calls(calls).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(fixture.agent.runs().drive_started(started, &frames, &cancel), stop);
    end.unwrap()
}

/// Returns the visible messages of a thread, each as `U: `, `A: ` or `T: ` (user, assistant, tool) and its text.
pub async fn transcript_lines(agent: &Agent, thread: ThreadId) -> Vec<String> {
    let messages = crate::environment::messages(agent, thread).await;
    let lines = messages.iter().map(|message| {
        let role = match message {
            protocol::Message::Human(_) => "U",
            protocol::Message::Ai(_) => "A",
            protocol::Message::Tool(_) => "T",
        };
        format!("{role}: {}", message.text())
    });
    lines.collect()
}

/// Fails unless the run ended with a failure of the kind `name`.
#[track_caller]
pub fn assert_fault(end: &RunEnd, name: &str) {
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some(name)),
        "{end:?}"
    );
    assert_eq!(end.failure.as_ref().unwrap().kind.class_name(), name, "{end:?}");
}

/// Returns a model reply that calls `write_file` to write a file whose content is its path.
pub fn write_call(call: &str, path: &str) -> ScriptedReply {
    ScriptedReply::call(call, "write_file", json!({"path": path, "content": path}))
}

/// Returns the repeated model reply "Done.".
pub fn done_reply() -> ScriptedReply {
    ScriptedReply::text("Done.").with_repeat()
}

/// Returns the answer that approves a single action.
pub fn approve() -> Value {
    json!({"decisions": [{"type": "approve"}]})
}
