//! Benchmarks of the operations with user-visible latency: durable appends from many tasks, a page of events, a list of
//! threads. Files are on the disk of the target folder, because `fsync` costs nothing on an in-memory file system.

use std::path::Path;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use jiff::Timestamp;
use journal::{EventQuery, SqliteStore, Store, ThreadFilter, Transaction, Write};
use protocol::{AssistantId, EventType, Message, NewEvent, RunId, Thread, ThreadId};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Tasks that append concurrently.
const TASKS: usize = 64;
/// Appends of each task, one event each.
const APPENDS_PER_TASK: usize = 100;

fn main() {
    divan::main();
}

/// An SQLite journal on disk and the async runtime for its commits.
struct AppendBench {
    runtime: Runtime,
    store: Arc<SqliteStore>,
    /// Keeps the folder of the database until the fixture is dropped.
    _folder: TempDir,
}

/// Creates an empty journal in the target folder.
fn fixture() -> AppendBench {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir_in(target).expect("the target folder is writable");
    let store = Arc::new(SqliteStore::open(&folder.path().join("segue.db")).expect("an empty folder"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    AppendBench { runtime, store, _folder: folder }
}

impl AppendBench {
    /// Commits the writes in one transaction without a lease.
    fn commit(&self, writes: Vec<Write>) {
        let transaction = Transaction { fence: None, writes };
        self.runtime.block_on(self.store.commit(transaction)).expect("the disk has room");
    }

    /// Creates `count` threads and returns their ids.
    fn threads(&self, count: usize) -> Vec<ThreadId> {
        let threads: Vec<Thread> = (0..count).map(|_| thread()).collect();
        let ids = threads.iter().map(|thread| thread.thread_id).collect();
        self.commit(threads.into_iter().map(Write::CreateThread).collect());
        ids
    }
}

/// Returns a new thread without events.
fn thread() -> Thread {
    Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH)
}

/// Returns a message of about 270 characters, alternating between user and model.
fn message(number: usize) -> NewEvent {
    let text = format!("{number}: {}", "a sentence of some length. ".repeat(10));
    let message = if number.is_multiple_of(2) { Message::human(text) } else { Message::ai(text) };
    NewEvent::from_message(&message, Timestamp::now()).expect("text is JSON")
}

/// Returns a small trace event.
fn model_called(number: usize) -> NewEvent {
    let content = json!({"purpose": "handoff", "model": "scripted/one", "number": number});
    NewEvent::new(EventType::ModelCalled, &content, Timestamp::now()).expect("JSON")
}

/// Measures [`TASKS`] tasks that append events to one thread each.
fn appends(bencher: Bencher<'_, '_>, event: fn(usize) -> NewEvent) {
    let fixture = fixture();
    let threads = fixture.threads(TASKS);
    bencher.counter(ItemsCount::new(TASKS * APPENDS_PER_TASK)).bench(|| {
        fixture.runtime.block_on(async {
            let tasks: Vec<_> = threads
                .iter()
                .map(|thread_id| tokio::spawn(append_all(Arc::clone(&fixture.store), *thread_id, event)))
                .collect();
            for task in tasks {
                task.await.expect("no append fails");
            }
        });
    });
}

/// Performs the appends of one task.
async fn append_all(store: Arc<SqliteStore>, thread_id: ThreadId, event: fn(usize) -> NewEvent) {
    let run_id = RunId::generate();
    for number in 0..APPENDS_PER_TASK {
        let events = vec![event(number).with_run(run_id)];
        let transaction = Transaction { fence: None, writes: vec![Write::Append { thread_id, events }] };
        store.commit(transaction).await.expect("the disk has room");
    }
}

#[divan::bench(sample_count = 20)]
fn durable_appends_of_messages_from_64_tasks(bencher: Bencher<'_, '_>) {
    appends(bencher, message);
}

#[divan::bench(sample_count = 20)]
fn durable_appends_of_small_events_from_64_tasks(bencher: Bencher<'_, '_>) {
    appends(bencher, model_called);
}

#[divan::bench(args = [1_000, 100_000])]
fn page_of_50(bencher: Bencher<'_, '_>, events: usize) {
    let fixture = fixture();
    let thread_id = fixture.threads(1)[0];
    for batch in 0..events / 1_000 {
        let events = (0..1_000).map(|number| message(batch * 1_000 + number)).collect();
        fixture.commit(vec![Write::Append { thread_id, events }]);
    }
    let query = EventQuery {
        after: None,
        before: Some(events as u64 / 2),
        categories: Vec::new(),
        limit: 50,
        ..EventQuery::default()
    };
    bencher.bench(|| fixture.runtime.block_on(fixture.store.events(thread_id, query.clone())));
}

/// Benchmarks a page of events before and after a superseded range.
#[divan::bench(args = [1_000, 100_000])]
fn page_of_50_around_superseded_events(bencher: Bencher<'_, '_>, events: usize) {
    let fixture = fixture();
    let thread_id = fixture.threads(1)[0];
    for batch in 0..events / 1_000 {
        let events = (0..1_000).map(|number| message(batch * 1_000 + number)).collect();
        fixture.commit(vec![Write::Append { thread_id, events }]);
    }
    fixture.commit(vec![Write::Rewind { thread_id, keep_seq: 100, at: Timestamp::now() }]);
    fixture.commit(vec![Write::Append { thread_id, events: (0..25).map(message).collect() }]);
    let query = EventQuery { limit: 50, ..EventQuery::default() };
    bencher.bench(|| fixture.runtime.block_on(fixture.store.events(thread_id, query.clone())));
}

#[divan::bench]
fn first_50_of_10_000_threads(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    fixture.threads(10_000);
    let filter = ThreadFilter::for_scope(protocol::OwnerScope::Owner(None), 50);
    bencher.bench(|| fixture.runtime.block_on(fixture.store.threads(filter.clone())));
}

/// Benchmarks the database work of `segue threads list`, from opening to closing the database.
#[divan::bench]
fn open_list_and_close_with_10_000_threads(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    fixture.threads(10_000);
    let AppendBench { runtime, store, _folder: folder } = fixture;
    drop(store);
    let filter = ThreadFilter::for_scope(protocol::OwnerScope::Owner(None), 50);
    bencher.bench(|| {
        let store = SqliteStore::open(&folder.path().join("segue.db")).expect("the database exists");
        runtime.block_on(store.threads(filter.clone()))
    });
}
