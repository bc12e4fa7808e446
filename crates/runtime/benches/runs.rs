//! What the simplest run costs beside the model: a person's message in a thread of its own, one answer, no tool. Many run
//! at once over one database on disk with every commit durable; the model answers at once. Processor time is told apart
//! by thread: the journal's writer, what reads off the async threads, and the async threads themselves.
//!
//! `cargo bench -p segue-runtime --bench runs` prints a table; nothing is asserted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::{Sqlite, Store, Transaction, Write};
use model::{ChatModel, ChatRequest, Limits as ModelLimits, ModelName, Part, PartStream};
use protocol::{AiMessage, AssistantId, Block, Message, NewEvent, RunId, RunStatus, Thread, ThreadId};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Activities, Admission, BEFORE_AGENT_NODE, Breakpoints, Contexts,
    Driver, Edge, Frames, Graph, HooksNode, Limits, MODEL_NODE, ModelNode, Point, Start, TOOLS_NODE,
    ToolsNode, Update, wants_tools,
};
use tokio_util::sync::CancellationToken;

/// Runs of one measurement.
const RUNS: usize = 4_000;

/// Runs that work at the same time.
const AT_ONCE: [usize; 3] = [1, 32, 128];

/// Pieces an answer comes in.
const PIECES: usize = 8;

/// When a run's thread is created.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Created {
    /// In a transaction before.
    Before,
    /// With the admission.
    WithRun,
}

/// Answers at once.
struct Echo {
    name: ModelName,
}

#[async_trait]
impl ChatModel for Echo {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { context_tokens: Some(200_000), output_tokens: None }
    }

    async fn stream(&self, _request: &ChatRequest) -> model::Result<PartStream> {
        let piece = "some words ";
        let answer = AiMessage { content: vec![Block::text(piece.repeat(PIECES))], ..AiMessage::default() };
        let parts = (0..PIECES).map(move |_| Ok(Part::Text(piece.to_owned())));
        Ok(futures::stream::iter(parts.chain([Ok(Part::Done(answer))])).boxed())
    }
}

fn driver(store: &Arc<dyn Store>) -> Driver {
    let name: ModelName = "anthropic/instant".parse().expect("the name is well formed");
    let asking = ModelNode {
        model: Arc::new(Echo { name }),
        tools: model::Tools::default(),
        hooks: Vec::new(),
        contexts: Arc::new(Contexts::default()),
        too_large_hint: "begin again",
    };
    let point = |point| Arc::new(HooksNode { point, hooks: Vec::new() });
    let after_model = |channels: &runtime::Channels| {
        Ok(Some(if wants_tools(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
    };
    let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
        .node(point(Point::BeforeAgent), Edge::To(MODEL_NODE))
        .node(Arc::new(asking), Edge::To(AFTER_MODEL_NODE))
        .node(point(Point::AfterModel), Edge::When(after_model))
        .node(Arc::new(ToolsNode::new(Vec::new(), std::env::temp_dir(), Vec::new())), Edge::To(MODEL_NODE))
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

async fn run(driver: &Driver, created: Created) {
    let (now, thread_id) = (Timestamp::now(), ThreadId::generate());
    let create = Write::CreateThread(Thread::blank(thread_id, AssistantId::default(), now));
    let message = NewEvent::message(&Message::human("Say something."), now).expect("a message is JSON");
    let mut update = Update { events: vec![message], ..Update::default() };
    match created {
        Created::WithRun => update.writes.push(create),
        Created::Before => {
            let transaction = Transaction { fence: None, writes: vec![create] };
            driver.store.commit(transaction).await.expect("the bench's database can be written");
        }
    }
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
    let start = Start { update, ..Start::default() };
    let admitted =
        runtime::admit(&*driver.store, &driver.graph, &admission, start).await.expect("it is admitted");
    let (frames, mut stream) = Frames::channel();
    let end = driver.drive(admitted, &frames, &CancellationToken::new()).await.expect("it is driven");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.failure);
    while stream.try_next().is_some() {}
}

/// Returns the processor time of this process so far, in microseconds, by the name of its threads.
fn processor_time() -> BTreeMap<String, f64> {
    let mut times = BTreeMap::new();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return times };
    for task in tasks.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let nanoseconds = read("schedstat").split(' ').next().and_then(|time| time.parse::<f64>().ok());
        *times.entry(read("comm").trim().to_owned()).or_default() += nanoseconds.unwrap_or(0.0) / 1e3;
    }
    times
}

fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder can be made here");
    println!(
        "{:>8}  {:>9}  {:>8}  {:>12}  by thread, µs a run",
        "at once", "thread", "runs/s", "CPU µs a run"
    );
    for (number, (at_once, created)) in AT_ONCE
        .into_iter()
        .flat_map(|at_once| [(at_once, Created::Before), (at_once, Created::WithRun)])
        .enumerate()
    {
        let path = folder.path().join(format!("{number}.db"));
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the database can be made"));
        let driver = driver(&store);
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let threads = threads.expect("threads can be had");
        let work = |runs: usize| {
            let all = futures::stream::iter(0..runs).map(|_| {
                let driver = driver.clone();
                async move { tokio::spawn(async move { run(&driver, created).await }).await }
            });
            threads.block_on(all.buffer_unordered(at_once).for_each(|done| async {
                done.expect("no run panics");
            }));
        };
        work(RUNS / 10);
        let (before, began) = (processor_time(), Instant::now());
        work(RUNS);
        let (seconds, after) = (began.elapsed().as_secs_f64(), processor_time());
        let runs = RUNS as f64;
        let of = |(name, time): (&String, &f64)| {
            (name.clone(), (time - before.get(name).copied().unwrap_or(0.0)) / runs)
        };
        let by_thread: Vec<(String, f64)> = after.iter().map(of).filter(|(_, time)| *time > 1.0).collect();
        let total: f64 = by_thread.iter().map(|(_, time)| time).sum();
        let told: Vec<String> = by_thread.iter().map(|(name, time)| format!("{name} {time:.0}")).collect();
        let created = if created == Created::Before { "before" } else { "with run" };
        println!("{at_once:>8}  {created:>9}  {:>8.0}  {total:>12.0}  {}", runs / seconds, told.join(", "));
    }
}
