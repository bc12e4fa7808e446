//! Benchmarks of a turn in the journal: bytes on disk beyond its text for each table, and the latency of a commit. The transactions are those of a run with one tool call; no model and no runtime is involved.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use journal::{FencingToken, RunPatch, SqliteStore, Store, ThreadPatch, Transaction, Write};
use protocol::{
    AiMessage, AssistantId, Checkpoint, CheckpointId, CheckpointSource, ContentBlock, EventType, Message,
    NewEvent, Run, RunId, RunStatus, StopReason, Thread, ThreadId, ThreadStatus, ToolMessage, ToolStatus,
    Usage,
};
use serde_json::{Map, Value, json};

/// Number of measured turns.
const TURNS: usize = 1_000;
/// Lease owner of the runs, with the length of a real one.
const OWNER: &str = "host-1234-0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";
/// Duration of the lease of a run.
const LEASE: SignedDuration = SignedDuration::from_secs(30);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for kind in [TurnKind::Answer, TurnKind::ToolCall] {
        runtime.block_on(measure(kind));
    }
}

/// The measured kinds of turns.
#[derive(Debug, Clone, Copy)]
enum TurnKind {
    /// A message and an answer without tools.
    Answer,
    /// A message, one tool call with its result, and an answer.
    ToolCall,
}

/// Writes turns to one thread and counts their bytes.
struct TurnBench {
    store: SqliteStore,
    thread_id: ThreadId,
    /// The newest checkpoint of the thread.
    before: Option<CheckpointId>,
    /// Bytes of message texts and of arguments and results of tools.
    text: usize,
    /// Bytes of the messages in their stored form.
    messages: usize,
    /// Latency of each commit.
    commits: Vec<Duration>,
}

/// Writes [`TURNS`] turns to a new journal and prints the report.
async fn measure(kind: TurnKind) {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a writable folder");
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).expect("an empty folder");
    let thread = thread();
    let mut work = TurnBench {
        store,
        thread_id: thread.thread_id,
        before: None,
        text: 0,
        messages: 0,
        commits: Vec::new(),
    };
    work.commit(None, vec![Write::CreateThread(thread)]).await;
    work.commits.clear();
    let empty = pages(&path);
    for number in 0..TURNS {
        work.turn(number, kind).await;
    }
    let TurnBench { store, text, messages, commits, .. } = work;
    drop(store);
    report(kind, (&empty, &pages(&path)), (text, messages));
    report_latency(commits);
}

fn report(
    kind: TurnKind,
    (empty, full): (&BTreeMap<String, u64>, &BTreeMap<String, u64>),
    (text, messages): (usize, usize),
) {
    let per_turn = |bytes: u64| bytes / TURNS as u64;
    let total: u64 = full.values().sum::<u64>() - empty.values().sum::<u64>();
    let text = per_turn(text as u64);
    let messages = per_turn(messages as u64);
    println!("{kind:?}: {} bytes per turn, {messages} of them messages, {text} text", per_turn(total));
    let aim = messages * 13 / 10 + 1_024;
    println!(
        "  beyond the text: {} bytes; the target is {aim} in total",
        per_turn(total).saturating_sub(text)
    );
    for (table, bytes) in full {
        let grown = per_turn(bytes - empty.get(table).copied().unwrap_or_default());
        if grown > 0 {
            println!("  {table:24}{grown:6}");
        }
    }
}

/// Prints the percentiles of the commit latencies.
fn report_latency(mut commits: Vec<Duration>) {
    commits.sort_unstable();
    let at = |part: f64| commits[(commits.len() as f64 * part) as usize];
    println!("  {} commits: median {:?}, p90 {:?}, p99 {:?}", commits.len(), at(0.5), at(0.9), at(0.99));
}

/// Returns the bytes of the pages of every table and index.
fn pages(path: &Path) -> BTreeMap<String, u64> {
    let raw = rusqlite::Connection::open(path).expect("the database exists");
    raw.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").expect("no other reader exists");
    let mut statement =
        raw.prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").expect("dbstat is compiled in");
    let sizes = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())));
    sizes.and_then(Iterator::collect).expect("the database is sound")
}

impl TurnBench {
    async fn commit(&mut self, fence: Option<FencingToken>, writes: Vec<Write>) {
        let started_at = Instant::now();
        self.store.commit(Transaction { fence, writes }).await.expect("the disk has room");
        self.commits.push(started_at.elapsed());
    }

    /// Returns the event of a message and adds its sizes to the totals.
    fn message_event(&mut self, message: &Message, run_id: RunId) -> NewEvent {
        self.text += message.content().iter().map(length).sum::<usize>();
        let event = NewEvent::from_message(message, Timestamp::now()).expect("text is JSON").with_run(run_id);
        self.messages += event.content.get().len();
        event
    }

    /// Commits all steps of one turn.
    async fn turn(&mut self, number: usize, kind: TurnKind) {
        let now = Timestamp::now();
        let run = run(self.thread_id, now);
        let run_id = run.run_id;
        let started = json!({"how": "admitted", "model": run.model});
        let prompt = format!("Turn {number}: please look at the importer again, it drops the last row.");
        let events = vec![
            self.message_event(&Message::human(prompt), run_id),
            event(EventType::RunStarted, &started, run_id),
        ];
        let checkpoint = self.checkpoint(run_id, 0, Some("model"));
        let writes = vec![
            Write::AdmitRun(run),
            Write::ExpectCheckpoint { thread_id: self.thread_id, checkpoint_id: self.before },
            Write::Append { thread_id: self.thread_id, events },
            self.status(ThreadStatus::Busy, now),
            Write::PutCheckpoint(checkpoint.clone()),
        ];
        self.commit(None, writes).await;
        self.before = Some(checkpoint.checkpoint_id);
        let mut step = 1;
        if let TurnKind::ToolCall = kind {
            let call = self.message_event(&call(number), run_id);
            self.step((run_id, step, Some("tools")), vec![call]).await;
            let result = self.message_event(&result(number), run_id);
            self.step((run_id, step + 1, Some("model")), vec![result]).await;
            step += 2;
        }
        let answer = self.message_event(&answer(number), run_id);
        let ended = event(EventType::RunEnded, &json!({"status": "success", "steps": step}), run_id);
        self.step((run_id, step, None), vec![answer, ended]).await;
    }

    /// Commits one step. A step without a next node ends the run.
    async fn step(&mut self, (run_id, step, next): (RunId, u64, Option<&str>), events: Vec<NewEvent>) {
        let now = Timestamp::now();
        let usage = Usage { input_tokens: 4_000, output_tokens: 90, ..Usage::default() };
        let patch = RunPatch {
            status: next.is_none().then_some(RunStatus::Success),
            lease_until: next.is_some().then(|| now + LEASE),
            add_usage: Some(usage),
            at: Some(now),
            failure: None,
        };
        let checkpoint = self.checkpoint(run_id, step, next);
        let mut writes = Vec::new();
        if next.is_none() {
            writes.push(self.status(ThreadStatus::Idle, now));
        }
        writes.push(Write::UpdateRun { run_id, patch });
        writes.push(Write::Append { thread_id: self.thread_id, events });
        writes.push(Write::PutCheckpoint(checkpoint.clone()));
        self.commit(Some(FencingToken { run_id, owner: OWNER.to_owned() }), writes).await;
        self.before = Some(checkpoint.checkpoint_id);
    }

    fn status(&self, status: ThreadStatus, now: Timestamp) -> Write {
        let patch = ThreadPatch { status: Some(status), updated_at: Some(now), ..ThreadPatch::default() };
        Write::UpdateThread { thread_id: self.thread_id, patch }
    }

    fn checkpoint(&self, run_id: RunId, step: u64, next: Option<&str>) -> Checkpoint {
        Checkpoint {
            checkpoint_id: CheckpointId::generate(),
            thread_id: self.thread_id,
            run_id,
            step,
            head_seq: 0,
            next: next.map(str::to_owned),
            channels: Map::from_iter([
                ("_start".to_owned(), json!("message")),
                ("todos".to_owned(), json!([{"text": "read the importer", "status": "completed"}])),
            ]),
            activities: Vec::new(),
            source: CheckpointSource::Loop,
            created_at: Timestamp::now(),
        }
    }
}

fn length(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::ToolCall { args, .. } => args.to_string().len(),
        ContentBlock::Thinking { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => 0,
    }
}

fn event(event_type: EventType, content: &Value, run_id: RunId) -> NewEvent {
    NewEvent::new(event_type, content, Timestamp::now()).expect("JSON").with_run(run_id)
}

fn ai(content: Vec<ContentBlock>, stop: StopReason) -> Message {
    let usage = Usage { input_tokens: 4_000, output_tokens: 90, ..Usage::default() };
    Message::Ai(AiMessage {
        content,
        model: Some("anthropic/claude-sonnet-4".to_owned()),
        usage: Some(usage),
        stop: Some(stop),
        ..AiMessage::default()
    })
}

fn call(number: usize) -> Message {
    let args = json!({"path": format!("src/importer/rows_{number}.rs"), "offset": 1, "limit": 200});
    let id = format!("toolu_01A09q90qw90lq917835lq{number}");
    let call = ContentBlock::ToolCall { id, name: "read_file".to_owned(), args };
    ai(vec![ContentBlock::text("I will look at the file."), call], StopReason::ToolCalls)
}

fn result(number: usize) -> Message {
    let line = "    let row = reader.next_row().await?; // the last one\n";
    Message::Tool(ToolMessage {
        id: None,
        call_id: format!("toolu_01A09q90qw90lq917835lq{number}"),
        name: Some("read_file".to_owned()),
        content: vec![ContentBlock::text(line.repeat(12))],
        status: ToolStatus::Success,
    })
}

fn answer(number: usize) -> Message {
    let text = format!(
        "{number}: {}",
        "The loop ends one row early, because the count excludes the header. ".repeat(4)
    );
    ai(vec![ContentBlock::text(text)], StopReason::EndTurn)
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

fn thread() -> Thread {
    Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH)
}
