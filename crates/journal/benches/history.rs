//! Benchmarks of threads of growing length: a page of history at the end and in the middle, the whole history, the model
//! context, the trace of a run, and the append of a turn. The threads are compacted as in the default configuration, from
//! 170,000 to 17,000 tokens.

use std::path::Path;
use std::sync::Arc;

use divan::Bencher;
use jiff::Timestamp;
use journal::view::context::ContextOutline;
use journal::{
    EventQuery, HistoryPage, HistoryQuery, RunPatch, SqliteStore, Store, Transaction, Write, history_page,
};
use protocol::{
    AssistantId, Category, Event, EventType, Message, NewEvent, Run, RunFeedback, RunId, RunStatus, Seq,
    Thread, ThreadId, Usage,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Lengths of the measured threads, in messages.
const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// Messages between two compactions. A message has about 40 tokens.
const MESSAGES_PER_COMPACTION: usize = 3_800;
/// Messages that remain in the context after a compaction.
const MESSAGES_KEPT: usize = 425;

/// Number of rows that the runtime reads at a time when it builds a context.
const CONTEXT_PAGE_ROWS: usize = 500;

fn main() {
    divan::main();
}

/// A journal with one filled thread.
struct HistoryBench {
    runtime: Runtime,
    store: Arc<SqliteStore>,
    thread_id: ThreadId,
    /// The newest run of the thread, whose trace is measured.
    last_run: RunId,
    /// Keeps the folder of the database until the fixture is dropped.
    _folder: TempDir,
}

/// Creates a thread of `messages` messages, two for each run, with the events of runs without tools.
fn fixture(messages: usize) -> HistoryBench {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a writable folder");
    let store = Arc::new(SqliteStore::open(&folder.path().join("segue.db")).expect("an empty folder"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    let mut fixture =
        HistoryBench { runtime, store, thread_id, last_run: RunId::generate(), _folder: folder };
    fixture.commit(vec![Write::CreateThread(thread)]);
    let mut kept_from = 1;
    let mut tail: std::collections::VecDeque<Seq> = std::collections::VecDeque::new();
    let mut since = 0;
    let mut writes = Vec::new();
    let mut seq = 0;
    for number in (0..messages).step_by(2) {
        fixture.last_run = RunId::generate();
        writes.extend(turn(thread_id, fixture.last_run, number));
        tail.extend([seq + 1, seq + 3]);
        seq += 4;
        since += 2;
        if since > MESSAGES_PER_COMPACTION {
            let last_seq = tail[tail.len() - MESSAGES_KEPT];
            writes.push(Write::Append {
                thread_id,
                events: vec![compaction_event((kept_from, last_seq), tail.len())],
            });
            seq += 1;
            (kept_from, since) = (last_seq + 1, 0);
            tail.drain(..tail.len() - MESSAGES_KEPT);
        }
        if writes.len() > 1_000 {
            fixture.commit(std::mem::take(&mut writes));
        }
    }
    fixture.commit(writes);
    fixture
}

impl HistoryBench {
    /// Commits the writes in one transaction without a lease.
    fn commit(&self, writes: Vec<Write>) {
        let transaction = Transaction { fence: None, writes };
        self.runtime.block_on(self.store.commit(transaction)).expect("the disk has room");
    }

    /// Reads one page of history.
    fn page(&self, query: &HistoryQuery) -> HistoryPage {
        self.runtime
            .block_on(history_page(&*self.store, self.thread_id, query))
            .expect("the database is readable")
    }
}

/// Returns the text of a message, about 40 tokens.
fn text(number: usize) -> String {
    format!("Message {number}: {}", "some words that people say ".repeat(6))
}

fn event(event_type: EventType, content: &serde_json::Value) -> NewEvent {
    NewEvent::new(event_type, content, Timestamp::now()).expect("JSON")
}

/// Returns the boundary event of a compaction of `replaced` messages.
fn compaction_event((first_seq, last_seq): (Seq, Seq), replaced: usize) -> NewEvent {
    let content = json!({
        "schema_version": 1, "trigger": "auto", "first_seq": first_seq, "last_seq": last_seq,
        "replaced_count": replaced - MESSAGES_KEPT, "kept_count": MESSAGES_KEPT, "tokens_before": 170_000,
        "tokens_after": 20_000, "model": "scripted/one", "summary": "A sentence of the summary. ".repeat(300),
        "sections": {"goal": "Mend the importer."}, "carry_over": {}, "last_request_seq": null,
        "duration_ms": 9_000,
    });
    event(EventType::Compacted, &content)
}

/// Returns the writes of a run with a message and its answer.
fn turn(thread_id: ThreadId, run_id: RunId, number: usize) -> Vec<Write> {
    let now = Timestamp::now();
    let run = Run {
        run_id,
        thread_id,
        assistant_id: AssistantId::default(),
        status: RunStatus::Running,
        model: Some("scripted/one".to_owned()),
        failure: None,
        lease_owner: Some("bench".to_owned()),
        lease_until: None,
        usage: Usage::default(),
        created_at: now,
        updated_at: now,
    };
    let append =
        |message: Message| NewEvent::from_message(&message, now).expect("text is JSON").with_run(run_id);
    let events = vec![
        append(Message::human(text(number))),
        event(EventType::RunStarted, &json!({"model": "scripted/one"})).with_run(run_id),
        append(Message::ai(text(number + 1))),
        event(EventType::RunEnded, &json!({"status": "success", "steps": 1})).with_run(run_id),
    ];
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    vec![Write::AdmitRun(run), Write::Append { thread_id, events }, Write::UpdateRun { run_id, patch }]
}

#[divan::bench(args = LENGTHS)]
fn history_page_of_50_at_the_end(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    let query = HistoryQuery { limit: 50, ..HistoryQuery::default() };
    bencher.bench(|| fixture.page(&query));
}

#[divan::bench(args = LENGTHS)]
fn history_page_of_50_at_the_end_with_feedback(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    let feedback = Some(RunFeedback::LOCAL_USER.to_owned());
    let query = HistoryQuery { limit: 50, feedback, ..HistoryQuery::default() };
    bencher.bench(|| fixture.page(&query));
}

#[divan::bench(args = LENGTHS)]
fn history_page_of_50_in_the_middle(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    let before_seq = Some(messages as Seq);
    let query = HistoryQuery { limit: 50, before_seq, ..HistoryQuery::default() };
    bencher.bench(|| fixture.page(&query));
}

#[divan::bench(args = LENGTHS, sample_count = 10)]
fn whole_history(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    bencher.bench(|| {
        let mut after_seq = Some(0);
        let mut entries = 0;
        loop {
            let query = HistoryQuery { limit: 1_000, after_seq, ..HistoryQuery::default() };
            let page = fixture.page(&query);
            entries += page.entries.len();
            if !page.has_more_after {
                return entries;
            }
            after_seq = page.entries.last().map(|entry| entry.seq);
        }
    });
}

/// Benchmarks reading the context of a thread that is not cached.
#[divan::bench(args = LENGTHS, sample_count = 20)]
fn context_from_the_newest_page_back(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    let categories = vec![Category::Message, Category::Middleware];
    bencher.bench(|| {
        let mut beginning = ContextOutline::default();
        let mut pages: Vec<Vec<Event>> = Vec::new();
        let mut before = None;
        loop {
            let query = EventQuery {
                before,
                categories: categories.clone(),
                limit: CONTEXT_PAGE_ROWS,
                ..EventQuery::default()
            };
            let page = fixture.runtime.block_on(fixture.store.events(fixture.thread_id, query));
            let page = page.expect("the database is readable");
            beginning.scan_page(&page);
            before = page.first().map(|event| event.seq);
            let is_all = page.len() < CONTEXT_PAGE_ROWS;
            pages.push(page);
            if is_all || beginning.first_seq().is_some_and(|first| before <= Some(first)) {
                break;
            }
        }
        let mut context = beginning.opening_messages(None);
        context.extend(pages.iter().rev().flat_map(|page| beginning.project_messages(page)));
        context
    });
}

#[divan::bench(args = LENGTHS)]
fn trace_of_the_last_run(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    let HistoryBench { runtime, store, thread_id, last_run, .. } = &fixture;
    bencher.bench(|| {
        runtime.block_on(store.run_events(*thread_id, *last_run, 0, 100)).expect("the database is readable")
    });
}

/// Benchmarks the latency of one durable commit.
#[divan::bench(args = LENGTHS, sample_count = 200)]
fn append_of_one_turn(bencher: Bencher<'_, '_>, messages: usize) {
    let fixture = fixture(messages);
    bencher
        .with_inputs(|| turn(fixture.thread_id, RunId::generate(), messages))
        .bench_values(|writes| fixture.commit(writes));
}
