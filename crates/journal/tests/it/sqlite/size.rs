//! The space that turns take on disk in addition to their messages. Commit times are measured by the benches.

use std::path::Path;
use std::sync::Arc;

use journal::{RunPatch, SqliteStore, Write};
use protocol::{CheckpointId, EventType, NewEvent, Run, RunRequest, RunStatus, ThreadId};
use serde_json::json;

use crate::conformance::fixtures::{
    ai, checkpoint, commit, create, event, human, run, tool_calls, tool_result,
};

/// Threads that are written concurrently, so that their rows are interleaved on disk.
const THREADS: usize = 4;
/// Turns of each thread: enough that the free space on the last page of each table is negligible.
const TURNS_PER_THREAD: usize = 100;

#[derive(Debug, Clone, Copy)]
enum SizeCase {
    Answer,
    ToolCall,
}

#[tokio::test]
async fn turns_take_at_most_1_3_of_their_messages_and_a_kibibyte() {
    for kind in [SizeCase::Answer, SizeCase::ToolCall] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segue.db");
        drop(SqliteStore::open(&path).unwrap());
        let empty = length(&path);
        let store = Arc::new(SqliteStore::open(&path).unwrap());
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let thread_id = create(&*store).await;
            threads.push(tokio::spawn(write_turns(Arc::clone(&store), thread_id, kind)));
        }
        let mut messages = 0;
        for thread in threads {
            messages += thread.await.unwrap();
        }
        drop(store);
        let turns = (THREADS * TURNS_PER_THREAD) as u64;
        let (bytes, messages) = ((length(&path) - empty) / turns, messages / turns);
        println!("{kind:?}: {bytes} bytes per turn, {messages} of them messages");
        assert!(bytes * 10 <= messages * 13 + 10_240, "{kind:?}: {bytes} bytes per turn for {messages}");
    }
}

/// Returns the length of the closed database file, whose write-ahead log is checkpointed.
fn length(path: &Path) -> u64 {
    let log = std::fs::metadata(path.with_extension("db-wal"));
    assert_eq!(log.map_or(0, |log| log.len()), 0);
    std::fs::metadata(path).unwrap().len()
}

/// Writes all turns of a thread and returns the total size of their messages in bytes.
async fn write_turns(store: Arc<SqliteStore>, thread_id: ThreadId, kind: SizeCase) -> u64 {
    let mut turn = TurnWriter { store, run: run(thread_id, "host-1234"), before: None, messages: 0 };
    for number in 0..TURNS_PER_THREAD {
        turn.run = run(thread_id, "host-1234");
        turn.perform(number, kind).await;
    }
    turn.messages
}

/// Writes turns as a run does, with one commit for each step.
struct TurnWriter {
    store: Arc<SqliteStore>,
    run: Run,
    before: Option<CheckpointId>,
    messages: u64,
}

impl TurnWriter {
    async fn perform(&mut self, number: usize, kind: SizeCase) {
        let prompt =
            human(&format!("Turn {number}: please look at the importer again, it drops the last row."));
        let started = event(EventType::RunStarted, &json!({"how": "admitted", "model": "scripted/one"}));
        let admitted = Write::AdmitRun(self.run.clone());
        let expected = Write::ExpectCheckpoint { thread_id: self.run.thread_id, checkpoint_id: self.before };
        self.step(0, vec![admitted, expected, self.append_question()], vec![prompt, started]).await;
        if let SizeCase::ToolCall = kind {
            let id = format!("toolu_01A09q90qw90lq917835lq{number}");
            self.step(1, Vec::new(), vec![tool_calls(&[&id])]).await;
            let lines = "    let row = reader.next_row().await?; // the last one\n".repeat(12);
            self.step(2, Vec::new(), vec![tool_result(&id, &lines)]).await;
        }
        let answer = ai(&"The loop ends one row early, because the count excludes the header. ".repeat(4));
        let ended = event(EventType::RunEnded, &json!({"status": "success", "steps": 3}));
        let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
        let done = Write::UpdateRun { run_id: self.run.run_id, patch };
        self.step(3, vec![done], vec![answer, ended]).await;
    }

    /// Writes a client's request as it is stored once the run has started.
    fn append_question(&self) -> Write {
        let request = RunRequest {
            input: Some(json!({"messages": [{"type": "human", "content": "It drops the last row."}]})),
            stream_mode: ["values", "messages-tuple", "custom"].map(str::to_owned).into(),
            stream_subgraphs: true,
            stream_resumable: true,
            ..RunRequest::default()
        };
        let (run_id, thread_id) = (self.run.run_id, self.run.thread_id);
        Write::PutRunRequest { run_id, thread_id, request: Box::new(request.without_input_messages()) }
    }

    async fn step(&mut self, number: u64, mut writes: Vec<Write>, events: Vec<NewEvent>) {
        let thread_id = self.run.thread_id;
        let messages =
            events.iter().filter(|event| event.event_type.category() == protocol::Category::Message);
        self.messages += messages.map(|event| event.content.get().len() as u64).sum::<u64>();
        let events = events.into_iter().map(|event| event.with_run(self.run.run_id)).collect();
        let point = checkpoint(&self.run, number);
        self.before = Some(point.checkpoint_id);
        writes.extend([Write::Append { thread_id, events }, Write::PutCheckpoint(point)]);
        commit(&*self.store, writes).await.unwrap();
    }
}
