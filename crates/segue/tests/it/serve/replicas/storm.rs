//! Three servers on one database with many active runs, while one server after the other is killed, shut down,
//! or paused for longer than its lease. Each run ends exactly once, and its stored events and its stream are
//! complete. With full counts, these are two hundred runs through nine faults.

use std::collections::{BTreeMap, HashSet};

use rustix::process::Signal;
use serde_json::json;
use test_counts::count;
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use super::postgres_database;
use crate::fleet::{FleetRun, ServerFleet, StreamReaders, StreamRecord, start_run};

/// Number of servers at a time.
const SERVER_COUNT: usize = 3;
/// Number of tool calls in each run: before the gate, at the gate, and after it.
const CALLS_PER_RUN: usize = 3;
/// Index of the call that the model requests only after the gate has opened.
const WAITING_CALL: usize = 2;
/// Duration of a server's lease in seconds.
const LEASE_SECONDS: u32 = 4;
/// The runs, which are all active at once, and the faults.
#[derive(Clone, Copy)]
struct StormSize {
    /// Number of runs in a batch. The gate releases one batch at a time; the other runs wait for an answer of
    /// the model.
    batch_runs: usize,
    /// The fault for each batch. It happens when half of the batch has ended. One more batch has no fault.
    faults: &'static [ServerFault],
}

/// Each fault once.
const SMALL_STORM: StormSize = StormSize {
    batch_runs: 4,
    faults: &[ServerFault::Pause, ServerFault::Wake, ServerFault::End, ServerFault::Kill],
};
const FULL_STORM: StormSize = StormSize {
    batch_runs: 20,
    faults: &[
        ServerFault::Kill,
        ServerFault::End,
        ServerFault::Kill,
        ServerFault::Pause,
        ServerFault::Wake,
        ServerFault::End,
        ServerFault::Kill,
        ServerFault::End,
        ServerFault::Kill,
    ],
};

impl StormSize {
    fn run_count(self) -> usize {
        (self.faults.len() + 1) * self.batch_runs
    }

    fn batch_gate(self, run: usize) -> String {
        format!("batch-{:02}", run / self.batch_runs)
    }
}

#[derive(Clone, Copy)]
enum ServerFault {
    /// A server is killed and a new one replaces it.
    Kill,
    /// A server is asked to shut down after its replacement has started.
    End,
    /// A server is paused with SIGSTOP.
    Pause,
    /// The paused server continues after the other servers have finished its runs of the earlier
    /// batches.
    Wake,
}

/// Returns a model whose runs call a tool that records each call. All runs of a batch wait at the same
/// gate.
fn model_script(size: StormSize) -> Script {
    // Each call prints and records a unique id.
    let command = "id=$(cat /proc/sys/kernel/random/uuid); echo $id >> noted; sleep 0.1; echo $id";
    let call = |step: usize| {
        ScriptedReply::text("I look.")
            .with_call(format!("c{step}"), "execute", json!({"command": command}))
            .when_turn_is(1, step)
            .with_repeat()
    };
    let mut replies: Vec<ScriptedReply> =
        (1..=CALLS_PER_RUN).filter(|step| *step != WAITING_CALL).map(call).collect();
    for first in (0..size.run_count()).step_by(size.batch_runs) {
        let gate = Some(Gate { name: size.batch_gate(first), at: GatePosition::Start });
        replies.push(ScriptedReply { gate, ..call(WAITING_CALL) }.when_body_contains(size.batch_gate(first)));
    }
    replies.push(ScriptedReply::text("Done.").with_repeat());
    // Other requests are not recorded, because they would use too much memory.
    Script::new(replies).with_requests_kept(size.run_count())
}

/// Starts all runs: a third at each server, and on all servers concurrently.
fn start_all_runs(fleet: &ServerFleet, readers: &StreamReaders, size: StormSize) -> Vec<FleetRun> {
    let start_at = |server: usize| {
        let api = fleet.api(server);
        let own_runs = (0..size.run_count()).filter(move |run| run % SERVER_COUNT == server);
        own_runs
            .map(move |run| (run, start_run(&api, &size.batch_gate(run), &["updates"])))
            .collect::<Vec<_>>()
    };
    let mut runs: Vec<(usize, FleetRun)> = std::thread::scope(|scope| {
        let start_at = &start_at;
        let working: Vec<_> = (0..SERVER_COUNT).map(|server| scope.spawn(move || start_at(server))).collect();
        working.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    runs.sort_by_key(|(run, _)| *run);
    for (run, started) in &runs {
        // Two of three readers follow the run at another server than the one that started it.
        readers.follow_run(started, run / SERVER_COUNT);
    }
    runs.into_iter().map(|(_, started)| started).collect()
}

/// Releases one batch after the other and injects a fault in the middle of each. Returns the streams that
/// the readers received.
fn run_storm(fleet: &mut ServerFleet, readers: &StreamReaders, size: StormSize) -> Vec<StreamRecord> {
    let (mut records, mut shutting_down, mut paused) = (Vec::new(), Vec::new(), None);
    for (round, fault) in size.faults.iter().enumerate() {
        fleet.model.open_gate(&size.batch_gate(round * size.batch_runs));
        let (server, so_far) = (round % SERVER_COUNT, round * size.batch_runs + size.batch_runs / 2);
        records.extend(readers.wait_for_records(so_far - records.len()));
        match fault {
            ServerFault::Kill => {
                fleet.signal(server, Signal::KILL);
                assert_eq!(fleet.replace_server(server).wait_for_exit(), None);
                readers.replace_server(server, fleet.api(server));
            }
            ServerFault::End => {
                let old = fleet.replace_server(server);
                readers.replace_server(server, fleet.api(server));
                old.signal(Signal::TERM);
                shutting_down.push(old);
            }
            ServerFault::Pause => {
                fleet.pause(server);
                paused = Some(server);
            }
            ServerFault::Wake => {
                records.extend(readers.wait_for_records((round + 1) * size.batch_runs - records.len()));
                fleet.signal(paused.take().unwrap(), Signal::CONT);
            }
        }
    }
    fleet.model.open_gate(&size.batch_gate(size.run_count() - 1));
    records.extend(readers.wait_for_records(size.run_count() - records.len()));
    for old in shutting_down {
        assert_eq!(old.wait_for_exit(), Some(0));
    }
    records
}

/// Checks the stream that a reader received, from any number of servers: every event once, in order,
/// without a gap.
#[track_caller]
fn assert_record_complete(record: &StreamRecord) {
    let place = |id: &str| id.split('-').map(|part| part.parse().unwrap()).collect::<Vec<u64>>();
    let ids: Vec<Vec<u64>> =
        record.events.iter().filter(|(id, _)| !id.is_empty()).map(|(id, _)| place(id)).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{record:?}");
    let count = |name: &str| record.events.iter().filter(|(_, other)| other == name).count();
    let failures = record.events.iter().filter(|(_, name)| name.starts_with("error")).count();
    assert_eq!((count("gap"), failures, count("end")), (0, 0, 1), "{record:?}");
    assert_eq!(
        count("updates"),
        2 * CALLS_PER_RUN + 1,
        "each call with its result, and the answer: {record:?}"
    );
}

/// Checks that the conversations of all runs are complete and that no tool call was repeated. Returns the
/// number of interrupted calls.
#[track_caller]
fn assert_runs_done_once(fleet: &ServerFleet, runs: &[FleetRun]) -> usize {
    let noted: HashSet<String> = fleet.noted_calls().into_iter().collect();
    let (mut stored, mut cut_off) = (HashSet::new(), 0);
    for started in runs {
        let state = fleet.api(0).get(&format!("/threads/{}/state", started.thread)).json();
        let messages = state["values"]["messages"].as_array().unwrap_or_else(|| panic!("{state}"));
        let kinds: Vec<&str> = messages.iter().map(|message| message["type"].as_str().unwrap()).collect();
        let remaining_kinds = ["ai", "tool"].repeat(CALLS_PER_RUN).into_iter().chain(["ai"]);
        assert_eq!(kinds, ["human"].into_iter().chain(remaining_kinds).collect::<Vec<_>>(), "{state}");
        assert_eq!(messages.last().unwrap()["content"], json!("Done."), "{state}");
        let results = messages.iter().filter(|message| message["type"] == "tool");
        for (number, result) in results.enumerate() {
            assert_eq!(result["tool_call_id"], json!(format!("c{}", number + 1)), "{state}");
            let text = result["content"].as_str().unwrap();
            match text.split_whitespace().find(|word| noted.contains(*word)) {
                Some(id) => assert!(stored.insert(id.to_owned()), "a result is there twice: {state}"),
                None => {
                    assert!(text.contains("interrupted"), "{state}");
                    cut_off += 1;
                }
            }
        }
    }
    // A call either ran once, or it was interrupted and it is unknown whether it ran.
    let lost = noted.len() - stored.len();
    assert!(lost <= cut_off, "{lost} calls were made whose results are nowhere; {cut_off} were cut off");
    assert_eq!(stored.len() + cut_off, runs.len() * CALLS_PER_RUN);
    cut_off
}

/// Checks the database: every run ended once, successfully, with its end as its last event, and the events
/// of each thread have no gap.
#[track_caller]
fn assert_database_consistent(fleet: &ServerFleet, run_count: usize) {
    let runs = fleet.query_rows("SELECT status || ' ' || count(*)::text FROM runs GROUP BY status");
    assert_eq!(runs, [format!("success {run_count}")]);
    let ends = fleet.query_rows(
        "SELECT event_type || ' ' || count(*)::text || ' ' || count(DISTINCT run_id)::text FROM events \
         WHERE event_type IN ('run_ended', 'run_failed', 'run_interrupted', 'run_stop_requested') GROUP BY event_type",
    );
    assert_eq!(ends, [format!("run_ended {run_count} {run_count}")]);
    let behind = fleet.query_rows(
        "SELECT event.event_type FROM events AS event JOIN events AS ended USING (run_id) \
         WHERE ended.event_type = 'run_ended' AND event.seq > ended.seq",
    );
    assert_eq!(behind, [""; 0]);
    let holes = fleet.query_rows(
        "SELECT head.thread_id FROM thread_heads AS head JOIN events USING (thread_key) GROUP BY head.thread_id, head.last_seq \
         HAVING count(*) <> head.last_seq OR min(seq) <> 1 OR max(seq) <> head.last_seq",
    );
    assert_eq!(holes, [""; 0]);
}

#[test]
fn j2_j3_j5_runs_end_once_while_servers_are_killed_stopped_and_restarted() {
    let size = count(SMALL_STORM, FULL_STORM);
    let script = model_script(size);
    let mut fleet =
        ServerFleet::start_with_script(postgres_database(), (SERVER_COUNT, LEASE_SECONDS), script);
    let readers = StreamReaders::new((0..SERVER_COUNT).map(|server| fleet.api(server)).collect());
    let runs = start_all_runs(&fleet, &readers, size);
    let records = run_storm(&mut fleet, &readers, size);
    records.iter().for_each(assert_record_complete);
    let counts: BTreeMap<&str, usize> =
        records.iter().map(|record| (record.run.as_str(), record.reconnects)).collect();
    assert_eq!(counts.len(), size.run_count());
    let cut_off = assert_runs_done_once(&fleet, &runs);
    assert_database_consistent(&fleet, size.run_count());
    eprintln!(
        "{cut_off} calls were interrupted; readers reconnected {} times",
        counts.values().sum::<usize>()
    );
}
