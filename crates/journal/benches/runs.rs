//! Benchmarks of the writer thread when many runs start at once: runs per second with group commit, and CPU time of the
//! writer for each transaction. A run has the writes of a server's run: its stored request and three commits. No model and
//! no runtime is involved.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use journal::{FencingToken, RunPatch, ScopedStore, SqliteStore, Store, ThreadPatch, Transaction, Write};
use protocol::{
    AiMessage, AssistantId, Checkpoint, CheckpointId, CheckpointSource, ContentBlock, EventType, Message,
    NewEvent, OwnerScope, Run, RunId, RunRequest, RunStatus, StopReason, Thread, ThreadId, ThreadStatus,
    Usage,
};
use serde_json::{Map, Value, json};

/// Threads with concurrent runs.
const CONCURRENT_TASKS: usize = 128;
/// Runs of each thread, one after the other.
const RUNS_EACH: usize = 100;
/// Lease owner of the runs, with the length of a real one.
const OWNER: &str = "host-1234-0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";
/// Duration of the lease of a run.
const LEASE: SignedDuration = SignedDuration::from_secs(30);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    for kind in [AdmissionMode::Immediate, AdmissionMode::Queued] {
        runtime.block_on(measure(kind));
    }
}

/// The measured ways in which a run starts.
#[derive(Debug, Clone, Copy)]
enum AdmissionMode {
    /// The run starts with its admission.
    Immediate,
    /// The run is queued before it starts.
    Queued,
}

/// Performs all runs on a new journal and prints the report.
async fn measure(kind: AdmissionMode) {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a writable folder");
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&folder.path().join("segue.db")).expect("an empty folder"));
    let (started_at, cpu) = (Instant::now(), writer_time());
    let mut tasks = Vec::new();
    for _ in 0..CONCURRENT_TASKS {
        let store: Arc<dyn Store> = Arc::new(ScopedStore::new(Arc::clone(&store), OwnerScope::Owner(None)));
        tasks.push(tokio::spawn(run_load(store, kind)));
    }
    let mut commits = Vec::new();
    for task in tasks {
        commits.extend(task.await.expect("no task panics"));
    }
    report(kind, (started_at.elapsed(), writer_time().saturating_sub(cpu)), commits);
}

/// Prints throughput, CPU time of the writer threads, and commit latencies.
fn report(kind: AdmissionMode, (wall, cpu): (Duration, Duration), mut commits: Vec<Duration>) {
    let runs = CONCURRENT_TASKS * RUNS_EACH;
    let each = |time: Duration, count: usize| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "{kind:?}: {:.0} runs per second, {CONCURRENT_TASKS} concurrent",
        runs as f64 / wall.as_secs_f64()
    );
    println!(
        "  writer: {:.1} µs per run, {:.1} µs per transaction",
        each(cpu, runs),
        each(cpu, commits.len())
    );
    commits.sort_unstable();
    let at = |part: f64| commits[(commits.len() as f64 * part) as usize];
    println!("  {} commits: median {:?}, p99 {:?}", commits.len(), at(0.5), at(0.99));
}

/// Returns the CPU time of the writer threads, or zero if the system does not report it.
fn writer_time() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let time = |folder: &Path| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let stat = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanos = stat.split(' ').next()?.parse().ok()?;
        (name.trim() == "journal-writer").then(|| Duration::from_nanos(nanos))
    };
    threads.filter_map(|thread| time(&thread.ok()?.path())).sum()
}

/// Commits the runs of one thread, one after the other.
struct ThreadLoad {
    store: Arc<dyn Store>,
    thread_id: ThreadId,
    /// The newest checkpoint of the thread.
    before: Option<CheckpointId>,
    /// Latency of each commit.
    commits: Vec<Duration>,
}

/// Performs the runs of one thread and returns the latencies of their commits.
async fn run_load(store: Arc<dyn Store>, kind: AdmissionMode) -> Vec<Duration> {
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let mut load = ThreadLoad { store, thread_id: thread.thread_id, before: None, commits: Vec::new() };
    load.commit(None, vec![Write::CreateThread(thread)]).await;
    load.commits.clear();
    for number in 0..RUNS_EACH {
        load.run(number, kind).await;
    }
    load.commits
}

impl ThreadLoad {
    async fn commit(&mut self, fence: Option<FencingToken>, writes: Vec<Write>) {
        let started_at = Instant::now();
        self.store.commit(Transaction { fence, writes }).await.expect("the disk has room");
        self.commits.push(started_at.elapsed());
    }

    async fn run(&mut self, number: usize, kind: AdmissionMode) {
        let now = Timestamp::now();
        let (run, thread_id) = (run(self.thread_id, now), self.thread_id);
        let run_id = run.run_id;
        let request = Write::PutRunRequest { run_id, thread_id, request: Box::new(request(number)) };
        let mut first = vec![request];
        if let AdmissionMode::Queued = kind {
            let waiting =
                Run { status: RunStatus::Pending, lease_owner: None, lease_until: None, ..run.clone() };
            first.push(Write::QueueRun(waiting));
            self.commit(None, std::mem::take(&mut first)).await;
        }
        let started = json!({"how": "admitted", "model": run.model});
        let prompt = Message::human(format!("Run {number}: please look at the importer again."));
        let prompt = NewEvent::from_message(&prompt, now).expect("text is JSON").with_run(run_id);
        let expected = Write::ExpectCheckpoint { thread_id, checkpoint_id: self.before };
        first.extend([Write::AdmitRun(run), expected]);
        first.push(Write::Append {
            thread_id,
            events: vec![prompt, event(EventType::RunStarted, &started, run_id)],
        });
        first.push(self.status(ThreadStatus::Busy));
        let checkpoint = self.checkpoint(run_id, 0, Some("model"));
        first.push(Write::PutCheckpoint(checkpoint));
        self.commit(None, first).await;
        let answer = NewEvent::from_message(&answer(number), Timestamp::now()).expect("text is JSON");
        self.step((run_id, 1, Some("after_agent")), vec![answer.with_run(run_id)]).await;
        let ended = event(EventType::RunEnded, &json!({"status": "success", "steps": 2}), run_id);
        self.step((run_id, 2, None), vec![ended]).await;
    }

    /// Commits one step. A step without a next node ends the run.
    async fn step(&mut self, (run_id, step, next): (RunId, u64, Option<&str>), events: Vec<NewEvent>) {
        let now = Timestamp::now();
        let patch = RunPatch {
            status: next.is_none().then_some(RunStatus::Success),
            lease_until: next.is_some().then(|| now + LEASE),
            add_usage: Some(Usage { input_tokens: 4_000, output_tokens: 90, ..Usage::default() }),
            at: Some(now),
            failure: None,
        };
        let mut writes = Vec::new();
        writes.extend(next.is_none().then(|| self.status(ThreadStatus::Idle)));
        writes.push(Write::UpdateRun { run_id, patch });
        writes.push(Write::Append { thread_id: self.thread_id, events });
        let checkpoint = self.checkpoint(run_id, step, next);
        writes.push(Write::PutCheckpoint(checkpoint));
        self.commit(Some(FencingToken { run_id, owner: OWNER.to_owned() }), writes).await;
    }

    fn status(&self, status: ThreadStatus) -> Write {
        let updated_at = Some(Timestamp::now());
        let patch = ThreadPatch { status: Some(status), updated_at, ..ThreadPatch::default() };
        Write::UpdateThread { thread_id: self.thread_id, patch }
    }

    fn checkpoint(&mut self, run_id: RunId, step: u64, next: Option<&str>) -> Checkpoint {
        let checkpoint_id = CheckpointId::generate();
        self.before = Some(checkpoint_id);
        Checkpoint {
            checkpoint_id,
            thread_id: self.thread_id,
            run_id,
            step,
            head_seq: 0,
            next: next.map(str::to_owned),
            channels: Map::from_iter([("_start".to_owned(), json!("message"))]),
            activities: Vec::new(),
            source: CheckpointSource::Loop,
            created_at: Timestamp::now(),
        }
    }
}

fn event(event_type: EventType, content: &Value, run_id: RunId) -> NewEvent {
    NewEvent::new(event_type, content, Timestamp::now()).expect("JSON").with_run(run_id)
}

fn answer(number: usize) -> Message {
    let text = format!("{number}: {}", "The loop ends one row early. ".repeat(8));
    Message::Ai(AiMessage {
        content: vec![ContentBlock::text(text)],
        model: Some("anthropic/claude-sonnet-4".to_owned()),
        stop: Some(StopReason::EndTurn),
        ..AiMessage::default()
    })
}

fn request(number: usize) -> RunRequest {
    let content = format!("Run {number}: please look at the importer again.");
    RunRequest {
        input: Some(json!({"messages": [{"type": "human", "content": content}]})),
        stream_mode: vec!["values".to_owned(), "messages-tuple".to_owned()],
        ..RunRequest::default()
    }
}

fn run(thread_id: ThreadId, now: Timestamp) -> Run {
    Run {
        run_id: RunId::generate(),
        thread_id,
        assistant_id: AssistantId::default(),
        status: RunStatus::Running,
        model: Some("anthropic/claude-sonnet-4".to_owned()),
        failure: None,
        lease_owner: Some(OWNER.to_owned()),
        lease_until: Some(now + LEASE),
        usage: Usage::default(),
        created_at: now,
        updated_at: now,
    }
}
