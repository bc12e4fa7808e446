//! What the runtime costs beside the model: turns with one tool call over threads of growing length, on a database on
//! disk with every commit durable. The model and the tool answer at once, so that the whole time is ours.
//!
//! `cargo bench -p runtime --bench turns` prints a table; nothing is asserted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::{Sqlite, Store, Transaction, Write};
use model::{ChatModel, ChatRequest, Limits as ModelLimits, ModelName, Part, PartStream, ToolSpec};
use protocol::{AiMessage, AssistantId, Block, Message, NewEvent, RunId, RunStatus, Thread, ThreadId};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Activities, Admission, BEFORE_AGENT_NODE, Contexts, Driver, Edge,
    Frames, Graph, HooksNode, Limits, MODEL_NODE, ModelNode, Point, Repeat, Start, TOOLS_NODE, Tool,
    ToolContext, ToolOutput, ToolsNode, Update, wants_tools,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Lengths of the threads, in messages.
const LENGTHS: [usize; 5] = [10, 100, 1_000, 5_000, 50_000];

/// Turns measured at each length.
const TURNS: usize = 60;

/// Messages appended in one transaction while a thread is filled.
const FILL_ROWS: usize = 1_000;

/// Answers with a call of `note` to a person, and with a text to a result.
struct Echo {
    name: ModelName,
    calls: AtomicU64,
}

#[async_trait]
impl ChatModel for Echo {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { context_tokens: Some(100_000_000), output_tokens: None }
    }

    async fn stream(&self, request: &ChatRequest) -> model::Result<PartStream> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let content = match request.messages.last() {
            Some(Message::Human(_)) => vec![Block::ToolCall {
                id: format!("call_{number}"),
                name: "note".to_owned(),
                args: json!({"text": "x"}),
            }],
            _ => vec![Block::text("Done.")],
        };
        let answer = AiMessage { content, ..AiMessage::default() };
        Ok(futures::stream::iter([Ok(Part::Done(answer))]).boxed())
    }
}

struct Note;

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "note".to_owned(),
            description: "Takes a note.".to_owned(),
            parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Never
    }

    async fn call(&self, _args: &Value, _context: &ToolContext) -> ToolOutput {
        ToolOutput::success("noted")
    }
}

fn after_model(channels: &runtime::Channels) -> Option<&'static str> {
    if wants_tools(channels) { Some(TOOLS_NODE) } else { Some(AFTER_AGENT_NODE) }
}

fn driver(store: &Arc<dyn Store>, contexts: &Arc<Contexts>) -> Driver {
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Note)];
    let name: ModelName = "anthropic/instant".parse().expect("the name is well formed");
    let asking = ModelNode {
        model: Arc::new(Echo { name, calls: AtomicU64::new(0) }),
        tools: tools.iter().map(|tool| tool.spec()).collect(),
        hooks: Vec::new(),
        contexts: Arc::clone(contexts),
    };
    let point = |point| Arc::new(HooksNode { point, hooks: Vec::new() });
    let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
        .node(point(Point::BeforeAgent), Edge::To(MODEL_NODE))
        .node(Arc::new(asking), Edge::To(AFTER_MODEL_NODE))
        .node(point(Point::AfterModel), Edge::When(after_model))
        .node(Arc::new(ToolsNode::new(tools, std::env::temp_dir(), Vec::new())), Edge::To(MODEL_NODE))
        .node(point(Point::AfterAgent), Edge::End);
    Driver {
        store: Arc::clone(store),
        graph: Arc::new(graph),
        activities: Activities::default(),
        owner: "bench".to_owned(),
        limits: Limits::default(),
    }
}

async fn filled(store: &Arc<dyn Store>, messages: usize) -> ThreadId {
    let now = Timestamp::now();
    let thread_id = ThreadId::generate();
    let thread = Thread::blank(thread_id, AssistantId::default(), now);
    commit(store, Write::CreateThread(thread)).await;
    let text = |at: usize| format!("Message {at}: {}", "some words that people say ".repeat(6));
    for first in (0..messages).step_by(FILL_ROWS) {
        let events = (first..messages.min(first + FILL_ROWS))
            .map(|at| if at % 2 == 0 { Message::human(text(at)) } else { Message::ai(text(at)) })
            .map(|message| NewEvent::message(&message, now).expect("a message is JSON"))
            .collect();
        commit(store, Write::Append { thread_id, events }).await;
    }
    thread_id
}

async fn commit(store: &Arc<dyn Store>, write: Write) {
    let transaction = Transaction { fence: None, writes: vec![write] };
    store.commit(transaction).await.expect("the bench's database can be written");
}

/// Runs one turn with a tool call, and returns how long it took.
async fn turn(driver: &Driver, thread_id: ThreadId) -> Duration {
    let began = Instant::now();
    let now = Timestamp::now();
    let message = NewEvent::message(&Message::human("Take a note."), now).expect("a message is JSON");
    let admission = Admission {
        run_id: RunId::generate(),
        thread_id,
        assistant_id: AssistantId::default(),
        model: None,
        owner: driver.owner.clone(),
        now,
    };
    let start = Start {
        update: Update { events: vec![message], ..Update::default() },
        channels: runtime::Channels::new(),
    };
    let point =
        runtime::admit(&*driver.store, &driver.graph, &admission, start).await.expect("it is admitted");
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let end = driver.drive(point, &frames, &cancel).await.expect("it is driven");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.error);
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Returns the resident memory of this process in megabytes, where the system tells.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder can be made here");
    println!(
        "{:>9}  {:>12}  {:>12}  {:>14}  {:>8}",
        "messages", "first ms", "turn ms", "bytes per turn", "RSS MB"
    );
    for length in LENGTHS {
        let path = folder.path().join(format!("{length}.db"));
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the database can be made"));
        let thread_id = filled(&store, length).await;
        let contexts = Arc::new(Contexts::default());
        let driver = driver(&store, &contexts);
        let first = turn(&driver, thread_id).await.as_secs_f64() * 1e3;
        let before = size(&store).await;
        let mut times = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            times.push(turn(&driver, thread_id).await);
        }
        let bytes = (size(&store).await - before) / TURNS as u64;
        println!("{length:>9}  {first:>12.2}  {:>12.3}  {bytes:>14}  {:>8.1}", median(times), resident());
    }
}

/// Returns the size of the database itself, without its log.
async fn size(store: &Arc<dyn Store>) -> u64 {
    store.health(journal::HealthDepth::Counts).await.expect("the database can be asked").bytes
}
