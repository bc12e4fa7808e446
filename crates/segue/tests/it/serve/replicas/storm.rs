//! Three servers on one database with two hundred runs under way, of which one after the other is killed, told to end, or
//! stopped for longer than its lease: whatever happens, each run ends once, and what is stored and told of it is whole.

use std::collections::{BTreeMap, HashSet};

use rustix::process::Signal;
use serde_json::json;
use test_model::{Gate, Place, Reply, Script};

use super::postgres;
use crate::fleet::{Begun, Fleet, Readers, Story, begin};

/// Servers at a time.
const SERVERS: usize = 3;
/// Runs under way at once.
const RUNS: usize = 200;
/// Runs that are let go on together; those of the others wait for an answer of the model meanwhile.
const BATCH: usize = 20;
/// Calls of a tool in each run: before it waits, when it is let go on, and behind that.
const CALLS: usize = 3;
/// The one that the model has them make only when they are let go on.
const WAITING_CALL: usize = 2;
/// How long the servers' leases are.
const LEASE_SECONDS: u32 = 4;
/// What happens when half of a batch has ended and the other half is under way; nothing when the last one is.
const FAULTS: [Fault; RUNS / BATCH - 1] = [
    Fault::Kill,
    Fault::End,
    Fault::Kill,
    Fault::Pause,
    Fault::Wake,
    Fault::End,
    Fault::Kill,
    Fault::End,
    Fault::Kill,
];

#[derive(Clone, Copy)]
enum Fault {
    /// A server is killed, and another one started in its place.
    Kill,
    /// A server is told to end once another one has taken its place.
    End,
    /// A server stands still.
    Pause,
    /// It goes on, when others have ended all it was doing for the batches of before.
    Wake,
}

fn batch(run: usize) -> String {
    format!("batch-{:02}", run / BATCH)
}

/// Returns a model that has each run call a tool, which notes that it was called; the runs of a batch wait together.
fn model() -> Script {
    // What is printed and noted is like nothing else that is.
    let command = "id=$(cat /proc/sys/kernel/random/uuid); echo $id >> noted; sleep 0.1; echo $id";
    let call = |step: usize| {
        Reply::text("I look.")
            .and_call(format!("c{step}"), "execute", json!({"command": command}))
            .when_turn_is(1, step)
            .repeated()
    };
    let mut replies: Vec<Reply> = (1..=CALLS).filter(|step| *step != WAITING_CALL).map(call).collect();
    for first in (0..RUNS).step_by(BATCH) {
        let gate = Some(Gate { name: batch(first), at: Place::Start });
        replies.push(Reply { gate, ..call(WAITING_CALL) }.when_body_contains(batch(first)));
    }
    replies.push(Reply::text("Done.").repeated());
    // The others are forgotten: they take room.
    Script::new(replies).keeping(RUNS)
}

/// Begins all runs, a third at each server and at all servers at once.
fn begun(fleet: &Fleet, readers: &Readers) -> Vec<Begun> {
    let begin_at = |server: usize| {
        let api = fleet.api(server);
        let own = (0..RUNS).filter(move |run| run % SERVERS == server);
        own.map(move |run| (run, begin(&api, &batch(run), &["updates"]))).collect::<Vec<_>>()
    };
    let mut runs: Vec<(usize, Begun)> = std::thread::scope(|scope| {
        let begin_at = &begin_at;
        let working: Vec<_> = (0..SERVERS).map(|server| scope.spawn(move || begin_at(server))).collect();
        working.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    runs.sort_by_key(|(run, _)| *run);
    for (run, begun) in &runs {
        // Two of three look on from another server than the one that was asked.
        readers.follow(begun, run / SERVERS);
    }
    runs.into_iter().map(|(_, begun)| begun).collect()
}

/// Lets one batch after the other go on, and has servers fail in the middle of each; returns what the readers were told.
fn storm(fleet: &mut Fleet, readers: &Readers) -> Vec<Story> {
    let (mut stories, mut ending, mut paused) = (Vec::new(), Vec::new(), None);
    for (round, fault) in FAULTS.into_iter().enumerate() {
        fleet.model.open(&batch(round * BATCH));
        let (server, so_far) = (round % SERVERS, round * BATCH + BATCH / 2);
        stories.extend(readers.ended(so_far - stories.len()));
        match fault {
            Fault::Kill => {
                fleet.signal(server, Signal::KILL);
                assert_eq!(fleet.replace(server).ended(), None);
                readers.moved(server, fleet.api(server));
            }
            Fault::End => {
                let old = fleet.replace(server);
                readers.moved(server, fleet.api(server));
                old.signal(Signal::TERM);
                ending.push(old);
            }
            Fault::Pause => {
                fleet.signal(server, Signal::STOP);
                paused = Some(server);
            }
            Fault::Wake => {
                stories.extend(readers.ended((round + 1) * BATCH - stories.len()));
                fleet.signal(paused.take().unwrap(), Signal::CONT);
            }
        }
    }
    fleet.model.open(&batch(RUNS - 1));
    stories.extend(readers.ended(RUNS - stories.len()));
    for old in ending {
        assert_eq!(old.ended(), Some(0));
    }
    stories
}

/// Checks what a reader was told from the beginning to the end, by however many servers: each thing once, in order, and all.
#[track_caller]
fn is_whole(story: &Story) {
    let place = |id: &str| id.split('-').map(|part| part.parse().unwrap()).collect::<Vec<u64>>();
    let ids: Vec<Vec<u64>> =
        story.events.iter().filter(|(id, _)| !id.is_empty()).map(|(id, _)| place(id)).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{story:?}");
    let count = |name: &str| story.events.iter().filter(|(_, other)| other == name).count();
    let failures = story.events.iter().filter(|(_, name)| name.starts_with("error")).count();
    assert_eq!((count("gap"), failures, count("end")), (0, 0, 1), "{story:?}");
    assert_eq!(count("updates"), 2 * CALLS + 1, "each call with its result, and the answer: {story:?}");
}

/// Checks that the conversations of all runs are whole, and that no call was made again: returns how many were cut off.
#[track_caller]
fn are_done_once(fleet: &Fleet, runs: &[Begun]) -> usize {
    let noted: HashSet<String> = fleet.noted().into_iter().collect();
    let (mut stored, mut cut_off) = (HashSet::new(), 0);
    for begun in runs {
        let state = fleet.api(0).get(&format!("/threads/{}/state", begun.thread)).json();
        let messages = state["values"]["messages"].as_array().unwrap_or_else(|| panic!("{state}"));
        let kinds: Vec<&str> = messages.iter().map(|message| message["type"].as_str().unwrap()).collect();
        let rest = ["ai", "tool"].repeat(CALLS).into_iter().chain(["ai"]);
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
    assert_eq!(stored.len() + cut_off, RUNS * CALLS);
    cut_off
}

/// Checks the database: every run has ended well and once, behind everything else of it, and every thread's events are there
/// from the first to the last.
#[track_caller]
fn is_sound(fleet: &Fleet) {
    let runs = fleet.rows("SELECT status || ' ' || count(*)::text FROM runs GROUP BY status");
    assert_eq!(runs, [format!("success {RUNS}")]);
    let ends = fleet.rows(
        "SELECT event_type || ' ' || count(*)::text || ' ' || count(DISTINCT run_id)::text FROM events \
         WHERE event_type IN ('run_ended', 'run_failed', 'run_interrupted', 'run_stop_requested') GROUP BY event_type",
    );
    assert_eq!(ends, [format!("run_ended {RUNS} {RUNS}")]);
    let behind = fleet.rows(
        "SELECT event.event_type FROM events AS event JOIN events AS ended USING (run_id) \
         WHERE ended.event_type = 'run_ended' AND event.seq > ended.seq",
    );
    assert_eq!(behind, [""; 0]);
    let holes = fleet.rows(
        "SELECT head.thread_id FROM thread_heads AS head JOIN events USING (thread_key) GROUP BY head.thread_id, head.last_seq \
         HAVING count(*) <> head.last_seq OR min(seq) <> 1 OR max(seq) <> head.last_seq",
    );
    assert_eq!(holes, [""; 0]);
}

#[test]
fn j2_j3_j5_two_hundred_runs_end_once_while_servers_are_killed_stopped_and_restarted() {
    let mut fleet = Fleet::playing(postgres(), (SERVERS, LEASE_SECONDS), model());
    let readers = Readers::of((0..SERVERS).map(|server| fleet.api(server)).collect());
    let runs = begun(&fleet, &readers);
    let stories = storm(&mut fleet, &readers);
    stories.iter().for_each(is_whole);
    let told: BTreeMap<&str, usize> =
        stories.iter().map(|story| (story.run.as_str(), story.returns)).collect();
    assert_eq!(told.len(), RUNS);
    let cut_off = are_done_once(&fleet, &runs);
    is_sound(&fleet);
    eprintln!("{cut_off} calls were cut off; readers came back {} times", told.values().sum::<usize>());
}
