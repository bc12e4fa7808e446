//! History stays complete when a process that appends and compacts is killed at random points, with full counts a
//! thousand times.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use journal::view::HistoryItem;
use journal::{EventQuery, HealthCheckDepth, RunPatch, SqliteStore, Store, Write};
use protocol::{EventType, RunStatus, Seq, ThreadId};

use crate::conformance::fixtures::{
    ai, all_events, all_history, checkpoint, commit, compaction_event, create, human, run, trace_event,
};
use crate::crash::acknowledged_seqs;
use crate::processes::spawn;

/// Databases that are tested in parallel, each with its share of the kills.
const DATABASES: u64 = 2;
/// Number of kills of all databases, small and full.
const KILL_COUNTS: (u64, u64) = (100, 1_000);
/// Number of complete checks of each database.
const CHECKS: u64 = 5;
/// Minimum number of compactions of each database at the end of the test, small and full.
const COMPACTIONS_MIN: (usize, usize) = (1, 20);
/// Number of messages after which a thread is compacted.
const MESSAGES_PER_COMPACTION: u64 = 24;
/// Maximum number of acknowledgements before a kill.
const REPORTS_MAX: u64 = 6;
/// Maximum delay of a kill, in spin-loop iterations, so that kills happen at other points than after an acknowledgement.
const SPINS_MAX: u64 = 200_000;

/// A deterministic pseudo-random number generator (SplitMix64).
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The task of a child: appends messages in an endless loop and compacts the thread after
/// [`MESSAGES_PER_COMPACTION`] messages. The text of each message is its number, counted from 1.
pub async fn converse(store: &dyn Store, thread_id: ThreadId) {
    let mut messages = store.thread(thread_id).await.unwrap().unwrap().message_count;
    let mut compacted = last_compacted_seq(store, thread_id).await;
    for unfinished in store.active_runs(Some(thread_id)).await.unwrap() {
        let patch = RunPatch { status: Some(RunStatus::Cancelled), ..RunPatch::default() };
        commit(store, vec![Write::UpdateRun { run_id: unfinished.run_id, patch }]).await.unwrap();
    }
    loop {
        let run = run(thread_id, "child");
        let question =
            vec![human(&(messages + 1).to_string()).with_run(run.run_id), trace_event(messages + 1)];
        let writes = vec![
            Write::AdmitRun(run.clone()),
            Write::Append { thread_id, events: question },
            Write::PutCheckpoint(checkpoint(&run, 0)),
        ];
        report(commit(store, writes).await.unwrap().seqs[0][1]);
        let answer = vec![ai(&(messages + 2).to_string()).with_run(run.run_id), trace_event(messages + 2)];
        let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
        let writes = vec![
            Write::Append { thread_id, events: answer },
            Write::UpdateRun { run_id: run.run_id, patch },
            Write::PutCheckpoint(checkpoint(&run, 1)),
        ];
        let last = commit(store, writes).await.unwrap().seqs[0][0];
        report(last + 1);
        messages += 2;
        if last - compacted > 2 * MESSAGES_PER_COMPACTION {
            let marker = compaction_event((compacted + 1, last - 4), None, &messages.to_string());
            let events = vec![marker, trace_event(messages)];
            let writes = vec![Write::Append { thread_id, events }, Write::PutCheckpoint(checkpoint(&run, 2))];
            report(commit(store, writes).await.unwrap().seqs[0][1]);
            compacted = last - 4;
        }
    }
}

/// Prints the seq of an acknowledged event for the parent process.
fn report(seq: Seq) {
    println!("acknowledged {seq}");
}

/// Returns the last seq that a compaction covers, or 0 without a compaction.
async fn last_compacted_seq(store: &dyn Store, thread_id: ThreadId) -> Seq {
    let types = vec![EventType::Compacted];
    let query = EventQuery { types, limit: 1, ..EventQuery::default() };
    let marker = store.events(thread_id, query).await.unwrap().pop();
    marker.map_or(0, |marker| marker.content_value()["last_seq"].as_u64().unwrap())
}

#[test]
fn a3_b1_b2_history_is_complete_after_kills_and_compactions() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..DATABASES {
            let database = folder.path().join(format!("{number}.db"));
            scope.spawn(move || kill_repeatedly(&database, SplitMix64(number)));
        }
    });
}

/// Kills children on one database and checks the database [`CHECKS`] times.
fn kill_repeatedly(database: &Path, mut random: SplitMix64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let thread_id = runtime.block_on(async { create(&SqliteStore::open(database).unwrap()).await });
    let mut acknowledged_so_far = 0;
    let kills = test_counts::count(KILL_COUNTS.0, KILL_COUNTS.1) / DATABASES;
    for kill in 1..=kills {
        let reports = random.below(REPORTS_MAX + 1);
        let output = work_until_killed(database, thread_id, (reports, random.below(SPINS_MAX)));
        acknowledged_so_far = acknowledged_seqs(&output).into_iter().fold(acknowledged_so_far, Seq::max);
        if kill % (kills / CHECKS) == 0 {
            let state = runtime.block_on(check(database, thread_id));
            assert!(state.0 >= acknowledged_so_far, "after {kill} kills: {state:?} of {acknowledged_so_far}");
            let expected = test_counts::count(COMPACTIONS_MIN.0, COMPACTIONS_MIN.1);
            assert!(kill < kills || state.1 >= expected, "{} compactions", state.1);
        }
    }
}

/// Starts a child, kills it after `reports` acknowledgements and a delay, and returns its output.
fn work_until_killed(database: &Path, thread_id: ThreadId, (reports, spins): (u64, u64)) -> String {
    let mut child = spawn("converse_until_killed", database, thread_id);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut output = String::new();
    while (acknowledged_seqs(&output).len() as u64) < reports {
        assert!(lines.read_line(&mut output).unwrap() > 0, "the child exited before it was killed: {output}");
    }
    (0..spins).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
    lines.read_to_string(&mut output).unwrap();
    output
}

/// Asserts that no event is missing and no transaction is partial. Returns the last seq and the number of compactions.
async fn check(database: &Path, thread_id: ThreadId) -> (Seq, usize) {
    let store = SqliteStore::open(database).unwrap();
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!(health.problems, Vec::<String>::new());
    let events = all_events(&store, thread_id, &[]).await;
    assert!(events.iter().map(|event| event.seq).eq(1..=events.len() as Seq), "a prefix without a gap");
    // Each transaction appends two events: either both are stored or neither.
    assert!(events.chunks(2).all(|pair| pair.len() == 2 && pair[1].kind() == Some(EventType::MemoryRead)));
    let message_count = store.thread(thread_id).await.unwrap().unwrap().message_count;
    let mut texts = Vec::new();
    let mut markers: Vec<(Seq, Seq)> = Vec::new();
    for entry in all_history(&store, thread_id, 500).await {
        match entry.item {
            HistoryItem::Message(message) => texts.push(message.text()),
            HistoryItem::Marker(marker) => markers.push((marker.first_seq, marker.last_seq)),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        texts.into_iter().eq((1..=message_count).map(|number| number.to_string())),
        "all {message_count} messages in order"
    );
    assert!(markers.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "ranges meet: {markers:?}");
    assert_eq!(
        store.checkpoint(thread_id).await.unwrap().map(|point| point.head_seq),
        events.last().map(|e| e.seq)
    );
    (events.len() as Seq, markers.len())
}
