//! The meaning of a client's request for a run, and the state that it leaves.

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

/// A world with one thread, and a model that plays `replies`.
pub struct RequestFixture {
    pub world: TestEnvironment,
    pub server: ScriptedServer,
    pub agent: Agent,
    pub thread: ThreadId,
}

impl RequestFixture {
    pub async fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::with_config(replies, "").await
    }

    pub async fn with_config(replies: impl IntoIterator<Item = ScriptedReply>, config: &str) -> Self {
        let world = TestEnvironment::new();
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent = world.agent_with_policy(&server, (config, ApprovalPolicy::Ask));
        let thread = blank_thread(&agent).await;
        Self { world, server, agent, thread }
    }

    /// Returns how the run ends that a client asks for.
    pub async fn run(&self, request: Value) -> RunEnd {
        run(&self.agent, self.thread, request).await
    }

    /// Says something in the thread.
    pub async fn say(&self, text: &str) -> RunEnd {
        self.run(user_request(text)).await
    }

    pub async fn row(&self) -> Thread {
        self.agent.store().thread(self.thread).await.unwrap().unwrap()
    }

    /// Returns the node that comes next, where there is one.
    pub async fn next(&self) -> Option<String> {
        self.agent.store().checkpoint(self.thread).await.unwrap().and_then(|point| point.next)
    }

    /// Returns what is in sight of the transcript: `U: `, `A: `, `T: ` and the text.
    pub async fn transcript_lines(&self) -> Vec<String> {
        transcript_lines(&self.agent, self.thread).await
    }

    pub async fn head(&self) -> String {
        self.agent.threads().state(self.thread).await.unwrap().unwrap().checkpoint_id.to_string()
    }
}

pub async fn blank_thread(agent: &Agent) -> ThreadId {
    agent
        .threads()
        .ensure_thread(None, serde_json::Map::new(), agent::IfExists::Raise)
        .await
        .unwrap()
        .0
        .thread_id
}

pub fn request(request: Value) -> RunRequest {
    serde_json::from_value(request).unwrap()
}

pub fn user_request(text: &str) -> Value {
    json!({"input": {"messages": [{"role": "user", "content": text}]}})
}

pub async fn run(agent: &Agent, thread: ThreadId, asked: Value) -> RunEnd {
    try_run(agent, thread, RunId::generate(), asked).await.unwrap()
}

pub async fn try_run(agent: &Agent, thread: ThreadId, run_id: RunId, asked: Value) -> agent::Result<RunEnd> {
    let (frames, cancel) = unwatched();
    let begun = agent.runs().begin(run_id, thread, &request(asked), &frames).await?;
    agent.runs().drive_started(begun, &frames, &cancel).await
}

/// Begins a run that waits, and drives it.
pub async fn begin_queued(agent: &Agent, thread: ThreadId, run_id: RunId, asked: &RunRequest) -> RunEnd {
    let (frames, cancel) = unwatched();
    let begun = agent.runs().begin_queued(run_id, thread, asked, &frames).await.unwrap();
    agent.runs().drive_started(begun, &frames, &cancel).await.unwrap()
}

/// Runs what a client asks for, and stops it once the model is asked for the `calls`th time.
pub async fn run_until_call(desk: &RequestFixture, asked: Value, calls: usize) -> RunEnd {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let begun =
        desk.agent.runs().begin(RunId::generate(), desk.thread, &request(asked), &frames).await.unwrap();
    let stop = async {
        desk.server.wait_for_calls(calls).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(desk.agent.runs().drive_started(begun, &frames, &cancel), stop);
    end.unwrap()
}

pub async fn transcript_lines(agent: &Agent, thread: ThreadId) -> Vec<String> {
    let messages = crate::environment::messages(agent, thread).await;
    let told = messages.iter().map(|message| {
        let who = match message {
            protocol::Message::Human(_) => "U",
            protocol::Message::Ai(_) => "A",
            protocol::Message::Tool(_) => "T",
        };
        format!("{who}: {}", message.text())
    });
    told.collect()
}

/// Fails unless the run ended with a fault of that name, and its row says so too.
#[track_caller]
pub fn assert_fault(end: &RunEnd, name: &str) {
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some(name)),
        "{end:?}"
    );
    assert_eq!(end.failure.as_ref().unwrap().kind.class_name(), name, "{end:?}");
}

pub fn write_call(call: &str, path: &str) -> ScriptedReply {
    ScriptedReply::call(call, "write_file", json!({"path": path, "content": path}))
}

pub fn done_reply() -> ScriptedReply {
    ScriptedReply::text("Done.").with_repeat()
}

pub fn approve() -> Value {
    json!({"decisions": [{"type": "approve"}]})
}
