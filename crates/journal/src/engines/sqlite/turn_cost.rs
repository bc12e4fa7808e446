//! Tests of the cost of a turn and of a page of history: their statements read as many rows in a long thread as in a short one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::{
    AssistantId, Checkpoint, CheckpointId, CheckpointSource, EventType, Message, NewEvent, Run, RunId,
    RunStatus, Thread, ThreadStatus, Usage,
};
use serde_json::{Map, json};

use super::*;
use crate::tables::count_machine_steps;
use crate::{EventQuery, FencingToken, HistoryQuery, RunPatch, Store, ThreadPatch, Write, history_page};

/// Owner of the leases.
const OWNER: &str = "test";
/// Messages in the short and in the long thread.
const LENGTHS: [usize; 2] = [500, 5_000];
/// Entries of the pages whose cost is measured.
const PAGE_ENTRIES: usize = 50;

/// A thread in memory, of which the steps of SQLite's virtual machine are counted.
struct CountedThread {
    store: SqliteStore,
    thread_id: protocol::ThreadId,
    steps: Arc<AtomicU64>,
}

impl CountedThread {
    /// Creates a thread with this number of messages.
    async fn with_messages(count: usize) -> Self {
        let database = Arc::new(DatabasePath::new(PathBuf::from(":memory:")));
        let mut connection = connect::open_in_memory(&database).unwrap();
        let steps = count_machine_steps(&mut connection);
        let store = SqliteStore::start(connection, Duration::ZERO, database, None).unwrap();
        let thread =
            Thread::blank(protocol::ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
        let thread_id = thread.thread_id;
        let counted = Self { store, thread_id, steps };
        counted.commit(None, vec![Write::CreateThread(thread)]).await;
        let message = |number: usize| match number % 2 {
            0 => Message::human(format!("Question {number}?")),
            _ => Message::ai(format!("Answer {number}.")),
        };
        let event = |number| {
            let event = NewEvent::from_message(&message(number), Timestamp::UNIX_EPOCH).unwrap();
            event.with_key(format!("message:{number}"))
        };
        let events: Vec<NewEvent> = (0..count).map(event).collect();
        for events in events.chunks(1_000) {
            counted.commit(None, vec![Write::Append { thread_id, events: events.to_vec() }]).await;
        }
        counted
    }

    async fn commit(&self, fence: Option<FencingToken>, writes: Vec<Write>) {
        self.store.commit(Transaction { fence, writes }).await.unwrap();
    }

    /// Performs the reads and commits of a run with one answer.
    async fn run_turn(&self) {
        let (store, thread_id) = (&self.store, self.thread_id);
        let thread = store.thread(thread_id).await.unwrap().unwrap();
        assert!(store.active_runs(Some(thread_id)).await.unwrap().is_empty());
        store.pending_interrupts(thread_id).await.unwrap();
        store.newest_run(thread_id).await.unwrap();
        store.messages_after(thread_id, thread.last_seq).await.unwrap();
        let before = store.checkpoint(thread_id).await.unwrap().map(|checkpoint| checkpoint.checkpoint_id);
        let run_id = RunId::generate();
        let message = NewEvent::from_message(&Message::human("Go on."), Timestamp::UNIX_EPOCH).unwrap();
        let started = NewEvent::new(EventType::RunStarted, &json!({}), Timestamp::UNIX_EPOCH).unwrap();
        let events =
            [message.with_key(format!("run:{run_id}:0")), started].map(|event| event.with_run(run_id));
        let writes = vec![
            Write::AdmitRun(self.run(run_id)),
            Write::ExpectCheckpoint { thread_id, checkpoint_id: before },
            Write::Append { thread_id, events: events.to_vec() },
            self.status(ThreadStatus::Busy),
            Write::PutCheckpoint(self.checkpoint(run_id, 0)),
        ];
        self.commit(None, writes).await;
        store.events(thread_id, EventQuery::after(thread.last_seq, 32)).await.unwrap();
        store.events(thread_id, EventQuery { limit: 32, ..EventQuery::default() }).await.unwrap();
        assert_eq!(store.seq_of_event_key(thread_id, &format!("stop:{run_id}")).await.unwrap(), None);
        let answer = NewEvent::from_message(&Message::ai("Done."), Timestamp::UNIX_EPOCH).unwrap();
        let events = vec![answer.with_key(format!("run:{run_id}:1")).with_run(run_id)];
        let patch = RunPatch {
            status: Some(RunStatus::Success),
            add_usage: Some(Usage::default()),
            ..RunPatch::default()
        };
        let writes = vec![
            self.status(ThreadStatus::Idle),
            Write::UpdateRun { run_id, patch },
            Write::Append { thread_id, events },
            Write::PutCheckpoint(self.checkpoint(run_id, 1)),
        ];
        self.commit(Some(FencingToken { run_id, owner: OWNER.to_owned() }), writes).await;
        assert_eq!(store.run_events(thread_id, run_id, 0, 100).await.unwrap().len(), 3);
        store.run(run_id).await.unwrap();
    }

    fn run(&self, run_id: RunId) -> Run {
        Run {
            run_id,
            thread_id: self.thread_id,
            assistant_id: AssistantId::default(),
            status: RunStatus::Running,
            model: None,
            failure: None,
            lease_owner: Some(OWNER.to_owned()),
            lease_until: Some(Timestamp::MAX),
            usage: Usage::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn status(&self, status: ThreadStatus) -> Write {
        let patch = ThreadPatch { status: Some(status), ..ThreadPatch::default() };
        Write::UpdateThread { thread_id: self.thread_id, patch }
    }

    fn checkpoint(&self, run_id: RunId, step: u64) -> Checkpoint {
        Checkpoint {
            checkpoint_id: CheckpointId::generate(),
            thread_id: self.thread_id,
            run_id,
            step,
            head_seq: 0,
            next: None,
            channels: Map::new(),
            activities: Vec::new(),
            source: CheckpointSource::Loop,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }
}

#[tokio::test]
async fn b7_a_turn_reads_as_many_rows_in_a_long_thread_as_in_a_short_one() {
    let mut costs = Vec::new();
    for length in LENGTHS {
        let thread = CountedThread::with_messages(length).await;
        // The first turn creates rows that later turns update.
        thread.run_turn().await;
        let before = thread.steps.load(Ordering::Relaxed);
        thread.run_turn().await;
        costs.push(thread.steps.load(Ordering::Relaxed) - before);
    }
    // The number of steps of an insertion depends slightly on the rows beside it, not on the number of rows.
    assert!(costs[1] <= costs[0] * 21 / 20, "{costs:?}");
}

#[tokio::test]
async fn b7_a_page_of_history_reads_as_many_rows_in_a_long_thread_as_in_a_short_one() {
    let mut costs = Vec::new();
    for length in LENGTHS {
        let thread = CountedThread::with_messages(length).await;
        let middle = Some(length as u64 / 2);
        let newest = HistoryQuery { limit: PAGE_ENTRIES, ..HistoryQuery::default() };
        let queries = [
            HistoryQuery { before_seq: middle, ..newest.clone() },
            HistoryQuery { after_seq: middle, ..newest.clone() },
            HistoryQuery { after_seq: Some(0), ..newest.clone() },
            newest,
        ];
        let mut steps = Vec::new();
        for query in &queries {
            let before = thread.steps.load(Ordering::Relaxed);
            let page = history_page(&thread.store, thread.thread_id, query).await.unwrap();
            assert_eq!(page.entries.len(), PAGE_ENTRIES);
            steps.push(thread.steps.load(Ordering::Relaxed) - before);
        }
        costs.push(steps);
    }
    for (short, long) in costs[0].iter().zip(&costs[1]) {
        assert!(*short > 0 && *long <= short * 21 / 20, "{costs:?}");
    }
}
