//! The scenario of the tests of disk faults: what a journal lives through in three sessions of a process. Its transactions are
//! the same in each repetition, so that the state after each of them is known.

use std::fmt::Debug;

use journal::{
    Artifact, EventQuery, FencingToken, HealthCheckDepth, RunFilter, RunPatch, SqliteStore, Store,
    SupersededVisibility, Transaction, TurnQuery, Write,
};
use protocol::{ArchiveReason, AssistantId, EventType, NewEvent, RunStatus, Thread, ThreadId};
use serde_json::json;

use crate::conformance::fixtures::{
    ai, all_history, at, checkpoint, compaction_event, event, human, interrupt, messages, run, thread,
    tool_calls, tool_result,
};
use crate::conformance::tiers::memory_fixtures::{archive_event, newest_query, summarization};

/// A word of the first message.
const KEPT_WORD: &str = "heron";
/// A word of the thread that is deleted.
const DELETED_WORD: &str = "walnut";

/// All rows that a client can read, one text for each.
pub type JournalState = Vec<String>;

/// The transactions of a process that works on a journal, closes it and opens it again.
pub struct Scenario {
    /// The transactions, in order.
    pub transactions: Vec<Transaction>,
    /// The number of transactions after which each session ends.
    pub session_ends: Vec<usize>,
    /// The thread that stays.
    kept: ThreadId,
    /// The thread that is deleted.
    deleted: ThreadId,
}

impl Scenario {
    /// Returns a scenario with new ids.
    pub fn new() -> Self {
        let threads = [thread(), thread()];
        let [kept, deleted] = threads.each_ref().map(|thread| thread.thread_id);
        let mut transactions = create_threads(threads);
        transactions.extend(complete_run(kept));
        let mut session_ends = vec![transactions.len()];
        transactions.extend(archive_and_delete(kept, deleted));
        session_ends.push(transactions.len());
        transactions.extend(rewind(kept));
        session_ends.push(transactions.len());
        Self { transactions, session_ends, kept, deleted }
    }

    /// Reads everything that the transactions store.
    pub async fn read_state(&self, store: &SqliteStore) -> JournalState {
        let mut state = Vec::new();
        for thread_id in [self.kept, self.deleted] {
            state.extend(debug_texts(store.thread(thread_id).await.unwrap()));
            let superseded = SupersededVisibility::Shown;
            let query = EventQuery { superseded, ..EventQuery::after(0, 500) };
            state.extend(debug_texts(store.events(thread_id, query).await.unwrap()));
            state.extend(debug_texts(store.checkpoints(thread_id, None, 50, superseded).await.unwrap()));
            state.extend(debug_texts(store.checkpoint(thread_id).await.unwrap()));
            state.extend(debug_texts(store.pending_interrupts(thread_id).await.unwrap()));
            state.extend(debug_texts(all_history(store, thread_id, 500).await));
            let artifact = store.artifact(thread_id, &artifact(self.kept).sha256).await.unwrap();
            state.extend(debug_texts(artifact.map(|artifact| artifact.bytes.len())));
        }
        let runs = RunFilter { limit: 50, ..RunFilter::default() };
        state.extend(debug_texts(store.runs(runs).await.unwrap()));
        let turns = TurnQuery::for_agent(AssistantId::default());
        state.extend(debug_texts(store.turns(turns).await.unwrap()));
        state.extend(debug_texts(store.summaries(newest_query()).await.unwrap()));
        state
    }

    /// Asserts that the journal, with all transactions, is intact: the file, its rows and its search index.
    pub async fn check_end(&self, store: &SqliteStore) {
        assert_eq!(messages(store, KEPT_WORD).await, [(self.kept, 1)]);
        assert!(messages(store, DELETED_WORD).await.is_empty());
        check_integrity(store).await;
    }
}

/// Asserts that the check of the whole database finds no problem.
pub async fn check_integrity(store: &SqliteStore) {
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!(health.problems, Vec::<String>::new());
}

fn debug_texts<T: Debug>(rows: impl IntoIterator<Item = T>) -> Vec<String> {
    rows.into_iter().map(|row| format!("{row:?}")).collect()
}

fn unfenced(writes: Vec<Write>) -> Transaction {
    Transaction { fence: None, writes }
}

/// Creates the threads with messages. Those of the kept thread have the seqs and turn indexes 1 to 6.
fn create_threads(threads: [Thread; 2]) -> Vec<Transaction> {
    let [kept, deleted] = threads.each_ref().map(|thread| thread.thread_id);
    let [create_kept, create_deleted] = threads.map(Write::CreateThread);
    let turns = (0..6).map(|number| match number {
        0 => human(&format!("where does the {KEPT_WORD} nest?")),
        2 | 4 => human(&format!("and bird number {number}?")),
        _ => ai(&format!("in the reeds, {number} steps away")),
    });
    let deleted_turns = vec![human(&format!("the code word is {DELETED_WORD}")), ai("noted")];
    vec![
        unfenced(vec![create_kept]),
        unfenced(vec![Write::Append { thread_id: kept, events: turns.collect() }]),
        unfenced(vec![create_deleted, Write::Append { thread_id: deleted, events: deleted_turns }]),
    ]
}

/// Performs a run with a tool call, and compacts the thread. The events have the seqs 7 to 13.
fn complete_run(thread_id: ThreadId) -> Vec<Transaction> {
    let run = run(thread_id, "one");
    let fence = Some(FencingToken { run_id: run.run_id, owner: "one".to_owned() });
    let step = |number: u64, events: Vec<NewEvent>, writes: Vec<Write>| {
        let events = events.into_iter().map(|event| event.with_run(run.run_id)).collect();
        let stored = [Write::Append { thread_id, events }, Write::PutCheckpoint(checkpoint(&run, number))];
        writes.into_iter().chain(stored).collect::<Vec<_>>()
    };
    let started = event(EventType::RunStarted, &json!({"how": "admitted", "model": "scripted/one"}));
    let ended = event(EventType::RunEnded, &json!({"status": "success", "steps": 3}));
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    let end_run = Write::UpdateRun { run_id: run.run_id, patch };
    let lines = "    let row = reader.next_row().await?; // the last one\n".repeat(500);
    vec![
        unfenced(step(0, vec![human("read the importer"), started], vec![Write::AdmitRun(run.clone())])),
        Transaction { fence: fence.clone(), writes: step(1, vec![tool_calls(&["call-1"])], Vec::new()) },
        Transaction {
            fence: fence.clone(),
            writes: step(2, vec![tool_result("call-1", &lines)], Vec::new()),
        },
        Transaction { fence, writes: step(3, vec![ai("it ends one row early"), ended], vec![end_run]) },
        unfenced(step(4, vec![compaction_event((1, 4), None, "birds of the reeds")], Vec::new())),
    ]
}

/// Archives two turns, stores an artifact, interrupts a run with a question, and deletes a thread. The events have the seqs 14
/// and 15.
fn archive_and_delete(kept: ThreadId, deleted: ThreadId) -> Vec<Transaction> {
    let plan = summarization(kept, (1, 2), "a question about nests");
    let announcement = archive_event(&plan.summary, ArchiveReason::Budget, (1, 2));
    let run = run(kept, "two");
    let question = human("delete the old rows").with_run(run.run_id);
    let patch = RunPatch { status: Some(RunStatus::Interrupted), ..RunPatch::default() };
    vec![
        unfenced(vec![
            Write::SummarizeTurns(plan),
            Write::Append { thread_id: kept, events: vec![announcement] },
        ]),
        unfenced(vec![Write::PutArtifact(artifact(kept))]),
        unfenced(vec![
            Write::AdmitRun(run.clone()),
            Write::Append { thread_id: kept, events: vec![question] },
            Write::RaiseInterrupt(interrupt(&run, "tools", 2)),
            Write::PutCheckpoint(checkpoint(&run, 0)),
            Write::UpdateRun { run_id: run.run_id, patch },
        ]),
        unfenced(vec![Write::DeleteThread { thread_id: deleted }]),
    ]
}

fn artifact(thread_id: ThreadId) -> Artifact {
    let bytes = (0..5_000_u32).flat_map(u32::to_be_bytes).collect();
    Artifact::new(thread_id, "image/png", bytes, at(1))
}

/// Appends a message with the seq 16 and rewinds it.
fn rewind(thread_id: ThreadId) -> Vec<Transaction> {
    let rewound = event(EventType::ThreadRewound, &json!({"keep_seq": 15, "superseded": 1}));
    vec![
        unfenced(vec![Write::Append { thread_id, events: vec![human("not these rows")] }]),
        unfenced(vec![
            Write::Rewind { thread_id, keep_seq: 15, at: at(3) },
            Write::Append { thread_id, events: vec![rewound] },
        ]),
    ]
}
