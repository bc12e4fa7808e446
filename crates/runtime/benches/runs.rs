//! Benchmark of the overhead of the simplest run: a person's message in a thread of its own, one answer, no tool.
//! Many runs work concurrently on one database on disk, with durable commits, and the model answers immediately.
//! Processor time is shown by thread: the journal's writer, reads outside the async threads, and the async
//! threads.
//!
//! `cargo bench -p segue-runtime --bench runs` prints a table; nothing is asserted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use model::{AnswerPart, AnswerStream, ChatModel, ChatRequest, ModelLimits, ModelName};
use protocol::{AiMessage, AssistantId, ContentBlock, Message, NewEvent, RunId, RunStatus, Thread, ThreadId};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, ActivityRegistry, BEFORE_AGENT_NODE, Breakpoints, ContextCache,
    Driver, DriverLimits, Edge, FrameSender, Graph, GraphUpdate, HookPoint, HooksNode, MODEL_NODE, ModelNode,
    RunAdmission, RunStart, TOOLS_NODE, ToolsNode, has_tool_calls,
};
use tokio_util::sync::CancellationToken;

/// The number of runs in one measurement.
const RUNS: usize = 4_000;

/// The numbers of runs that work at the same time.
const CONCURRENT_RUNS: [usize; 3] = [1, 32, 128];

/// The number of parts that an answer is streamed in.
const ANSWER_PARTS: usize = 8;

/// The time at which a run's thread is created.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CreatedThread {
    /// In a transaction before the admission.
    Before,
    /// In the transaction of the admission.
    WithRun,
}

/// A model that answers immediately.
struct EchoModel {
    name: ModelName,
}

#[async_trait]
impl ChatModel for EchoModel {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { context_tokens: Some(200_000), output_tokens: None }
    }

    async fn stream(&self, _request: &ChatRequest) -> model::Result<AnswerStream> {
        let text = "some words ";
        let answer = AiMessage {
            content: vec![ContentBlock::text(text.repeat(ANSWER_PARTS))],
            ..AiMessage::default()
        };
        let parts = (0..ANSWER_PARTS).map(move |_| Ok(AnswerPart::Text(text.to_owned())));
        Ok(futures::stream::iter(parts.chain([Ok(AnswerPart::Done(answer))])).boxed())
    }
}

fn driver(store: &Arc<dyn Store>) -> Driver {
    let name: ModelName = "anthropic/instant".parse().expect("the name is well formed");
    let model_node = ModelNode {
        model: Arc::new(EchoModel { name }),
        tools: model::ToolSpecs::default(),
        hooks: Vec::new(),
        contexts: Arc::new(ContextCache::default()),
        too_large_hint: "start a new thread".into(),
    };
    let point = |point| Arc::new(HooksNode { point, hooks: Vec::new() });
    let after_model = |channels: &runtime::Channels| {
        Ok(Some(if has_tool_calls(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
    };
    let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
        .with_node(point(HookPoint::BeforeAgent), Edge::To(MODEL_NODE))
        .with_node(Arc::new(model_node), Edge::To(AFTER_MODEL_NODE))
        .with_node(point(HookPoint::AfterModel), Edge::Conditional(after_model))
        .with_node(
            Arc::new(ToolsNode::new(Vec::new(), std::env::temp_dir(), Vec::new())),
            Edge::To(MODEL_NODE),
        )
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

async fn run(driver: &Driver, created: CreatedThread) {
    let (now, thread_id) = (Timestamp::now(), ThreadId::generate());
    let create = Write::CreateThread(Thread::blank(thread_id, AssistantId::default(), now));
    let message = NewEvent::from_message(&Message::human("Say something."), now).expect("a message is JSON");
    let mut update = GraphUpdate { events: vec![message], ..GraphUpdate::default() };
    match created {
        CreatedThread::WithRun => update.writes.push(create),
        CreatedThread::Before => {
            let transaction = Transaction { fence: None, writes: vec![create] };
            driver.store.commit(transaction).await.expect("the bench's database can be written");
        }
    }
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
    let start = RunStart { update, ..RunStart::default() };
    let admitted = runtime::admit_run(&*driver.store, &driver.graph, &admission, start)
        .await
        .expect("the run is admitted");
    let (frames, mut stream) = FrameSender::channel();
    let end = driver.drive(admitted, &frames, &CancellationToken::new()).await.expect("the run is driven");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.failure);
    while stream.try_next().is_some() {}
}

/// Returns the processor time of this process so far in microseconds, by thread name.
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
    let folder = tempfile::tempdir_in(".").expect("a folder can be created here");
    println!(
        "{:>8}  {:>9}  {:>8}  {:>12}  by thread, µs a run",
        "parallel", "thread", "runs/s", "CPU µs a run"
    );
    for (number, (parallel, created)) in CONCURRENT_RUNS
        .into_iter()
        .flat_map(|parallel| [(parallel, CreatedThread::Before), (parallel, CreatedThread::WithRun)])
        .enumerate()
    {
        let path = folder.path().join(format!("{number}.db"));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("the database can be created"));
        let driver = driver(&store);
        let async_runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let async_runtime = async_runtime.expect("threads can be started");
        let run_many = |runs: usize| {
            let runs_in_flight = futures::stream::iter(0..runs).map(|_| {
                let driver = driver.clone();
                async move { tokio::spawn(async move { run(&driver, created).await }).await }
            });
            async_runtime.block_on(runs_in_flight.buffer_unordered(parallel).for_each(|result| async {
                result.expect("no run panics");
            }));
        };
        run_many(RUNS / 10);
        let (before, started_at) = (processor_time(), Instant::now());
        run_many(RUNS);
        let (seconds, after) = (started_at.elapsed().as_secs_f64(), processor_time());
        let runs = RUNS as f64;
        let per_run = |(name, time): (&String, &f64)| {
            (name.clone(), (time - before.get(name).copied().unwrap_or(0.0)) / runs)
        };
        let by_thread: Vec<(String, f64)> =
            after.iter().map(per_run).filter(|(_, time)| *time > 1.0).collect();
        let total: f64 = by_thread.iter().map(|(_, time)| time).sum();
        let thread_times: Vec<String> =
            by_thread.iter().map(|(name, time)| format!("{name} {time:.0}")).collect();
        let created = if created == CreatedThread::Before { "before" } else { "with run" };
        println!(
            "{parallel:>8}  {created:>9}  {:>8.0}  {total:>12.0}  {}",
            runs / seconds,
            thread_times.join(", ")
        );
    }
}
