//! What the runtime costs beside the model: contexts, and turns with one tool call, over threads of growing length, on a
//! database on disk with every commit durable. The model and the tool answer at once, so that the whole time is ours.
//! The threads are condensed as the default configuration does, at 170,000 tokens down to 17,000.
//!
//! `cargo bench -p segue-runtime --bench turns` prints a table; nothing is asserted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::{Sqlite, Store, Transaction, Write};
use model::{ChatModel, ChatRequest, Limits as ModelLimits, ModelName, Part, PartStream, ToolSpec};
use protocol::{
    AiMessage, AssistantId, Block, EventType, Message, NewEvent, RunId, RunStatus, Thread, ThreadId,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Activities, Admission, BEFORE_AGENT_NODE, Breakpoints, Contexts,
    Driver, Edge, Frames, Graph, HooksNode, Limits, MODEL_NODE, ModelNode, Point, Repeat, Start, TOOLS_NODE,
    Tool, ToolContext, ToolOutput, ToolsNode, Update, wants_tools,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Lengths of the threads, in messages.
const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// Turns measured at each length, and contexts read from nothing.
const TURNS: usize = 200;
const COLD_READS: usize = 20;

/// Messages between two compactions, and those that stay: a message is about 40 tokens.
const MESSAGES_PER_COMPACTION: usize = 3_800;
const MESSAGES_KEPT: usize = 425;

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

fn after_model(channels: &runtime::Channels) -> runtime::NextNode {
    Ok(Some(if wants_tools(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
}

fn driver(store: &Arc<dyn Store>, contexts: &Arc<Contexts>) -> Driver {
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Note)];
    let name: ModelName = "anthropic/instant".parse().expect("the name is well formed");
    let asking = ModelNode {
        model: Arc::new(Echo { name, calls: AtomicU64::new(0) }),
        tools: tools.iter().map(|tool| tool.spec()).collect(),
        hooks: Vec::new(),
        contexts: Arc::clone(contexts),
        too_large_hint: "begin again",
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
        lease: "bench".into(),
        limits: Limits::default(),
        breakpoints: Breakpoints::default(),
        halt: Default::default(),
    }
}

async fn filled(store: &Arc<dyn Store>, messages: usize) -> ThreadId {
    let now = Timestamp::now();
    let thread_id = ThreadId::generate();
    let thread = Thread::blank(thread_id, AssistantId::default(), now);
    commit(store, Write::CreateThread(thread)).await;
    let text = |at: usize| format!("Message {at}: {}", "some words that people say ".repeat(6));
    let (mut seq, mut condensed, mut since) = (0, 0, 0);
    let mut events = Vec::new();
    for at in 0..messages {
        let message = if at % 2 == 0 { Message::human(text(at)) } else { Message::ai(text(at)) };
        events.push(NewEvent::message(&message, now).expect("a message is JSON"));
        (seq, since) = (seq + 1, since + 1);
        if since > MESSAGES_PER_COMPACTION {
            let range = (condensed + 1, seq - MESSAGES_KEPT);
            events.push(marker(range, now));
            (seq, condensed, since) = (seq + 1, range.1, 0);
        }
        if events.len() >= FILL_ROWS || at + 1 == messages {
            let events = std::mem::take(&mut events);
            commit(store, Write::Append { thread_id, events }).await;
        }
    }
    thread_id
}

fn marker((first_seq, last_seq): (usize, usize), now: Timestamp) -> NewEvent {
    let content = json!({
        "schema_version": 1, "trigger": "auto", "first_seq": first_seq, "last_seq": last_seq,
        "replaced_count": last_seq - first_seq, "kept_count": MESSAGES_KEPT, "tokens_before": 170_000,
        "tokens_after": 20_000, "model": "anthropic/instant",
        "summary": "A sentence of the summary. ".repeat(300), "sections": {"goal": "Mend the importer."},
        "carry_over": {}, "duration_ms": 9_000,
    });
    NewEvent::new(EventType::Compacted, &content, now).expect("JSON")
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
        lease: driver.lease.clone(),
        now,
        origin: runtime::Origin::New,
        durability: Default::default(),
    };
    let start = Start { update: Update { events: vec![message], ..Update::default() }, ..Start::default() };
    let point =
        runtime::admit(&*driver.store, &driver.graph, &admission, start).await.expect("it is admitted");
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let end = driver.drive(point, &frames, &cancel).await.expect("it is driven");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.failure);
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

/// Returns how long the thread's context takes to read.
async fn context(store: &Arc<dyn Store>, contexts: &Contexts, thread_id: ThreadId) -> Duration {
    let began = Instant::now();
    let context = contexts.read(&**store, thread_id).await.expect("the journal is sound");
    assert!(!context.messages.is_empty());
    began.elapsed()
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder can be made here");
    println!(
        "{:>9}  {:>12}  {:>12}  {:>12}  {:>12}  {:>14}  {:>8}",
        "messages", "cold ctx ms", "warm ctx ms", "first ms", "turn ms", "bytes per turn", "RSS MB"
    );
    for length in LENGTHS {
        let path = folder.path().join(format!("{length}.db"));
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the database can be made"));
        let thread_id = filled(&store, length).await;
        let contexts = Arc::new(Contexts::default());
        let driver = driver(&store, &contexts);
        let mut cold = Vec::with_capacity(COLD_READS);
        for _ in 0..COLD_READS {
            cold.push(context(&store, &Contexts::default(), thread_id).await);
        }
        let first = turn(&driver, thread_id).await.as_secs_f64() * 1e3;
        let before = size(&store).await;
        let (mut times, mut warm) = (Vec::with_capacity(TURNS), Vec::with_capacity(TURNS));
        for _ in 0..TURNS {
            times.push(turn(&driver, thread_id).await);
            warm.push(context(&store, &contexts, thread_id).await);
        }
        let bytes = (size(&store).await - before) / TURNS as u64;
        let (cold, warm, times) = (median(cold), median(warm), median(times));
        println!(
            "{length:>9}  {cold:>12.3}  {warm:>12.3}  {first:>12.2}  {times:>12.3}  {bytes:>14}  {:>8.1}",
            resident()
        );
    }
}

/// Returns the size of the database itself, without its log.
async fn size(store: &Arc<dyn Store>) -> u64 {
    store.health(journal::HealthDepth::Counts).await.expect("the database can be asked").bytes
}
