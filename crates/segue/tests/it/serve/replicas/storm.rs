//! Three servers on one database with two hundred runs under way, of which one after the other is killed, told to end, or
//! stopped for longer than its lease: whatever happens, each run ends once, and what is stored and told of it is whole.

use std::collections::{BTreeMap, HashSet};

use rustix::process::Signal;
use serde_json::json;
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use super::postgres_database;
use crate::fleet::{FleetRun, ServerFleet, StreamReaders, StreamRecord, start_run};

/// Servers at a time.
const SERVER_COUNT: usize = 3;
/// Runs under way at once.
const RUN_COUNT: usize = 200;
/// Runs that are let go on together; those of the others wait for an answer of the model meanwhile.
const BATCH_RUNS: usize = 20;
/// Calls of a tool in each run: before it waits, when it is let go on, and behind that.
const CALLS_PER_RUN: usize = 3;
/// The one that the model has them make only when they are let go on.
const WAITING_CALL: usize = 2;
/// How long the servers' leases are.
const LEASE_SECONDS: u32 = 4;
/// The fault that happens when half of a batch has ended; none after the last batch.
const FAULTS: [ServerFault; RUN_COUNT / BATCH_RUNS - 1] = [
    ServerFault::Kill,
    ServerFault::End,
    ServerFault::Kill,
    ServerFault::Pause,
    ServerFault::Wake,
    ServerFault::End,
    ServerFault::Kill,
    ServerFault::End,
    ServerFault::Kill,
];

#[derive(Clone, Copy)]
enum ServerFault {
    /// A server is killed, and another one started in its place.
    Kill,
    /// A server is told to end once another one has taken its place.
    End,
    /// A server stands still.
    Pause,
    /// It goes on, when others have ended all it was doing for the batches of before.
    Wake,
}

fn batch_gate(run: usize) -> String {
    format!("batch-{:02}", run / BATCH_RUNS)
}

/// Returns a model that has each run call a tool, which notes that it was called; the runs of a batch wait together.
fn model_script() -> Script {
    // What is printed and noted is like nothing else that is.
    let command = "id=$(cat /proc/sys/kernel/random/uuid); echo $id >> noted; sleep 0.1; echo $id";
    let call = |step: usize| {
        ScriptedReply::text("I look.")
            .with_call(format!("c{step}"), "execute", json!({"command": command}))
            .when_turn_is(1, step)
            .with_repeat()
    };
    let mut replies: Vec<ScriptedReply> =
        (1..=CALLS_PER_RUN).filter(|step| *step != WAITING_CALL).map(call).collect();
    for first in (0..RUN_COUNT).step_by(BATCH_RUNS) {
        let gate = Some(Gate { name: batch_gate(first), at: GatePosition::Start });
        replies.push(ScriptedReply { gate, ..call(WAITING_CALL) }.when_body_contains(batch_gate(first)));
    }
    replies.push(ScriptedReply::text("Done.").with_repeat());
    // The others are forgotten: they take room.
    Script::new(replies).with_requests_kept(RUN_COUNT)
}

/// Begins all runs, a third at each server and at all servers at once.
fn start_all_runs(fleet: &ServerFleet, readers: &StreamReaders) -> Vec<FleetRun> {
    let begin_at = |server: usize| {
        let api = fleet.api(server);
        let own = (0..RUN_COUNT).filter(move |run| run % SERVER_COUNT == server);
        own.map(move |run| (run, start_run(&api, &batch_gate(run), &["updates"]))).collect::<Vec<_>>()
    };
    let mut runs: Vec<(usize, FleetRun)> = std::thread::scope(|scope| {
        let begin_at = &begin_at;
        let working: Vec<_> = (0..SERVER_COUNT).map(|server| scope.spawn(move || begin_at(server))).collect();
        working.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    runs.sort_by_key(|(run, _)| *run);
    for (run, begun) in &runs {
        // Two of three look on from another server than the one that was asked.
        readers.follow_run(begun, run / SERVER_COUNT);
    }
    runs.into_iter().map(|(_, begun)| begun).collect()
}

/// Lets one batch after the other go on, and has servers fail in the middle of each; returns what the readers were told.
fn run_storm(fleet: &mut ServerFleet, readers: &StreamReaders) -> Vec<StreamRecord> {
    let (mut stories, mut ending, mut paused) = (Vec::new(), Vec::new(), None);
    for (round, fault) in FAULTS.into_iter().enumerate() {
        fleet.model.open_gate(&batch_gate(round * BATCH_RUNS));
        let (server, so_far) = (round % SERVER_COUNT, round * BATCH_RUNS + BATCH_RUNS / 2);
        stories.extend(readers.wait_for_records(so_far - stories.len()));
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
                ending.push(old);
            }
            ServerFault::Pause => {
                fleet.signal(server, Signal::STOP);
                paused = Some(server);
            }
            ServerFault::Wake => {
                stories.extend(readers.wait_for_records((round + 1) * BATCH_RUNS - stories.len()));
                fleet.signal(paused.take().unwrap(), Signal::CONT);
            }
        }
    }
    fleet.model.open_gate(&batch_gate(RUN_COUNT - 1));
    stories.extend(readers.wait_for_records(RUN_COUNT - stories.len()));
    for old in ending {
        assert_eq!(old.wait_for_exit(), Some(0));
    }
    stories
}

/// Checks what a reader was told from the beginning to the end, by however many servers: each thing once, in order, and all.
#[track_caller]
fn assert_record_complete(story: &StreamRecord) {
    let place = |id: &str| id.split('-').map(|part| part.parse().unwrap()).collect::<Vec<u64>>();
    let ids: Vec<Vec<u64>> =
        story.events.iter().filter(|(id, _)| !id.is_empty()).map(|(id, _)| place(id)).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{story:?}");
    let count = |name: &str| story.events.iter().filter(|(_, other)| other == name).count();
    let failures = story.events.iter().filter(|(_, name)| name.starts_with("error")).count();
    assert_eq!((count("gap"), failures, count("end")), (0, 0, 1), "{story:?}");
    assert_eq!(
        count("updates"),
        2 * CALLS_PER_RUN + 1,
        "each call with its result, and the answer: {story:?}"
    );
}

/// Checks that the conversations of all runs are whole, and that no call was made again: returns how many were cut off.
#[track_caller]
fn assert_runs_done_once(fleet: &ServerFleet, runs: &[FleetRun]) -> usize {
    let noted: HashSet<String> = fleet.noted_calls().into_iter().collect();
    let (mut stored, mut cut_off) = (HashSet::new(), 0);
    for begun in runs {
        let state = fleet.api(0).get(&format!("/threads/{}/state", begun.thread)).json();
        let messages = state["values"]["messages"].as_array().unwrap_or_else(|| panic!("{state}"));
        let kinds: Vec<&str> = messages.iter().map(|message| message["type"].as_str().unwrap()).collect();
        let rest = ["ai", "tool"].repeat(CALLS_PER_RUN).into_iter().chain(["ai"]);
        assert_eq!(kinds, ["human"].into_iter().chain(rest).collect::<Vec<_>>(), "{state}");
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
    // A call was made once, or it was cut off and nobody knows whether it was made.
    let lost = noted.len() - stored.len();
    assert!(lost <= cut_off, "{lost} calls were made whose results are nowhere; {cut_off} were cut off");
    assert_eq!(stored.len() + cut_off, RUN_COUNT * CALLS_PER_RUN);
    cut_off
}

/// Checks the database: every run has ended well and once, behind everything else of it, and every thread's events are there
/// from the first to the last.
#[track_caller]
fn assert_database_consistent(fleet: &ServerFleet) {
    let runs = fleet.query_rows("SELECT status || ' ' || count(*)::text FROM runs GROUP BY status");
    assert_eq!(runs, [format!("success {RUN_COUNT}")]);
    let ends = fleet.query_rows(
        "SELECT event_type || ' ' || count(*)::text || ' ' || count(DISTINCT run_id)::text FROM events \
         WHERE event_type IN ('run_ended', 'run_failed', 'run_interrupted', 'run_stop_requested') GROUP BY event_type",
    );
    assert_eq!(ends, [format!("run_ended {RUN_COUNT} {RUN_COUNT}")]);
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
fn j2_j3_j5_two_hundred_runs_end_once_while_servers_are_killed_stopped_and_restarted() {
    let mut fleet =
        ServerFleet::start_with_script(postgres_database(), (SERVER_COUNT, LEASE_SECONDS), model_script());
    let readers = StreamReaders::new((0..SERVER_COUNT).map(|server| fleet.api(server)).collect());
    let runs = start_all_runs(&fleet, &readers);
    let stories = run_storm(&mut fleet, &readers);
    stories.iter().for_each(assert_record_complete);
    let told: BTreeMap<&str, usize> =
        stories.iter().map(|story| (story.run.as_str(), story.reconnects)).collect();
    assert_eq!(told.len(), RUN_COUNT);
    let cut_off = assert_runs_done_once(&fleet, &runs);
    assert_database_consistent(&fleet);
    eprintln!("{cut_off} calls were cut off; readers came back {} times", told.values().sum::<usize>());
}
