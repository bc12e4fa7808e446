//! Benchmark of the runtime's overhead: reading contexts, and turns with one tool call, on threads of increasing
//! length. The database is on disk with durable commits. The model and the tool answer immediately, so the whole
//! time is overhead. The threads are compacted as with the default configuration: at 170,000 tokens, down to
//! 17,000.
//!
//! `cargo bench -p segue-runtime --bench turns` prints a table; nothing is asserted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use model::{AnswerPart, AnswerStream, ChatModel, ChatRequest, ModelLimits, ModelName, ToolSpec};
use protocol::{
    AiMessage, AssistantId, ContentBlock, EventType, Message, NewEvent, RunId, RunStatus, Thread, ThreadId,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, ActivityRegistry, BEFORE_AGENT_NODE, Breakpoints, ContextCache,
    Driver, DriverLimits, Edge, FrameSender, Graph, GraphUpdate, HookPoint, HooksNode, MODEL_NODE, ModelNode,
    RepeatSafety, RunAdmission, RunStart, TOOLS_NODE, Tool, ToolContext, ToolOutput, ToolsNode,
    has_tool_calls,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The lengths of the threads, in messages.
const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// The number of turns that are measured at each length.
const TURNS: usize = 200;
/// The number of contexts that are read from nothing at each length.
const COLD_READS: usize = 20;

/// The number of messages between two compactions. A message has about 40 tokens.
const MESSAGES_PER_COMPACTION: usize = 3_800;
/// The number of messages that a compaction keeps.
const MESSAGES_KEPT: usize = 425;

/// The number of messages that one transaction appends while a thread is filled.
const FILL_ROWS: usize = 1_000;

/// A model that answers a person's message with a call of `note`, and a result with a text.
struct NotingModel {
    name: ModelName,
    calls: AtomicU64,
}

#[async_trait]
impl ChatModel for NotingModel {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { context_tokens: Some(100_000_000), output_tokens: None }
    }

    async fn stream(&self, request: &ChatRequest) -> model::Result<AnswerStream> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let content = match request.messages.last() {
            Some(Message::Human(_)) => vec![ContentBlock::ToolCall {
                id: format!("call_{number}"),
                name: "note".to_owned(),
                args: json!({"text": "x"}),
            }],
            _ => vec![ContentBlock::text("Done.")],
        };
        let answer = AiMessage { content, ..AiMessage::default() };
        Ok(futures::stream::iter([Ok(AnswerPart::Done(answer))]).boxed())
    }
}

struct NoteTool;

#[async_trait]
impl Tool for NoteTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "note".to_owned(),
            description: "Takes a note.".to_owned(),
            parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        }
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Unsafe
    }

    async fn call(&self, _args: &Value, _context: &ToolContext) -> ToolOutput {
        ToolOutput::success("noted")
    }
}

fn after_model(channels: &runtime::Channels) -> runtime::NextNode {
    Ok(Some(if has_tool_calls(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
}

fn driver(store: &Arc<dyn Store>, contexts: &Arc<ContextCache>) -> Driver {
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(NoteTool)];
    let name: ModelName = "anthropic/instant".parse().expect("the name is well formed");
    let model_node = ModelNode {
        model: Arc::new(NotingModel { name, calls: AtomicU64::new(0) }),
        tools: tools.iter().map(|tool| tool.spec()).collect(),
        hooks: Vec::new(),
        contexts: Arc::clone(contexts),
        too_large_hint: "start a new thread".into(),
    };
    let point = |point| Arc::new(HooksNode { point, hooks: Vec::new() });
    let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
        .with_node(point(HookPoint::BeforeAgent), Edge::To(MODEL_NODE))
        .with_node(Arc::new(model_node), Edge::To(AFTER_MODEL_NODE))
        .with_node(point(HookPoint::AfterModel), Edge::Conditional(after_model))
        .with_node(Arc::new(ToolsNode::new(tools, std::env::temp_dir(), Vec::new())), Edge::To(MODEL_NODE))
        .with_node(point(HookPoint::AfterAgent), Edge::End);
    Driver {
        store: Arc::clone(store),
        graph: Arc::new(graph),
        activities: ActivityRegistry::default(),
        lease: "bench".into(),
        limits: DriverLimits::default(),
        breakpoints: Breakpoints::default(),
        shutdown: Default::default(),
    }
}

async fn filled_thread(store: &Arc<dyn Store>, messages: usize) -> ThreadId {
    let now = Timestamp::now();
    let thread_id = ThreadId::generate();
    let thread = Thread::blank(thread_id, AssistantId::default(), now);
    commit(store, Write::CreateThread(thread)).await;
    let text = |index: usize| format!("Message {index}: {}", "some words that people say ".repeat(6));
    let (mut seq, mut compacted_seq, mut since_compaction) = (0, 0, 0);
    let mut events = Vec::new();
    for index in 0..messages {
        let message = if index % 2 == 0 { Message::human(text(index)) } else { Message::ai(text(index)) };
        events.push(NewEvent::from_message(&message, now).expect("a message is JSON"));
        (seq, since_compaction) = (seq + 1, since_compaction + 1);
        if since_compaction > MESSAGES_PER_COMPACTION {
            let range = (compacted_seq + 1, seq - MESSAGES_KEPT);
            events.push(compaction_event(range, now));
            (seq, compacted_seq, since_compaction) = (seq + 1, range.1, 0);
        }
        if events.len() >= FILL_ROWS || index + 1 == messages {
            let events = std::mem::take(&mut events);
            commit(store, Write::Append { thread_id, events }).await;
        }
    }
    thread_id
}

fn compaction_event((first_seq, last_seq): (usize, usize), now: Timestamp) -> NewEvent {
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

/// Runs one turn with a tool call and returns its duration.
async fn turn(driver: &Driver, thread_id: ThreadId) -> Duration {
    let started_at = Instant::now();
    let now = Timestamp::now();
    let message = NewEvent::from_message(&Message::human("Take a note."), now).expect("a message is JSON");
    let admission = RunAdmission {
        run_id: RunId::generate(),
        thread_id,
        assistant_id: AssistantId::default(),
        model: None,
        lease: driver.lease.clone(),
        now,
        origin: runtime::AdmissionSource::New,
        durability: Default::default(),
    };
    let start = RunStart {
        update: GraphUpdate { events: vec![message], ..GraphUpdate::default() },
        ..RunStart::default()
    };
    let admitted = runtime::admit_run(&*driver.store, &driver.graph, &admission, start)
        .await
        .expect("the run is admitted");
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let end = driver.drive(admitted, &frames, &cancel).await.expect("the run is driven");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.failure);
    started_at.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Returns the resident memory of this process in megabytes, or 0 where it cannot be read.
fn resident_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

/// Returns the time that reading the thread's context takes.
async fn context(store: &Arc<dyn Store>, contexts: &ContextCache, thread_id: ThreadId) -> Duration {
    let started_at = Instant::now();
    let context = contexts.read_context(&**store, thread_id).await.expect("the journal is sound");
    assert!(!context.messages.is_empty());
    started_at.elapsed()
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder can be created here");
    println!(
        "{:>9}  {:>12}  {:>12}  {:>12}  {:>12}  {:>14}  {:>8}",
        "messages", "cold ctx ms", "warm ctx ms", "first ms", "turn ms", "bytes per turn", "RSS MB"
    );
    for length in LENGTHS {
        let path = folder.path().join(format!("{length}.db"));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("the database can be created"));
        let thread_id = filled_thread(&store, length).await;
        let contexts = Arc::new(ContextCache::default());
        let driver = driver(&store, &contexts);
        let mut cold = Vec::with_capacity(COLD_READS);
        for _ in 0..COLD_READS {
            cold.push(context(&store, &ContextCache::default(), thread_id).await);
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
            resident_memory()
        );
    }
}

/// Returns the size of the database in bytes, without its write-ahead log.
async fn size(store: &Arc<dyn Store>) -> u64 {
    store.health(journal::HealthCheckDepth::Counts).await.expect("the database can be queried").bytes
}
