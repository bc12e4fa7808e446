//! Several servers on one database: one is killed, paused for longer than its lease, or shut down with
//! active runs. The other servers take the runs over, and readers of their streams receive each event once.

mod storm;

use rustix::process::Signal;

use crate::fleet::{FINAL_GATE, FleetDatabase, FleetRun, ServerFleet, streamed_events};

/// Number of runs that are active at once.
const RUN_COUNT: usize = 24;

/// Checks that a reader received every event once, in order, up to the end of the stream, without a gap.
#[track_caller]
fn assert_streamed_once(readers: Vec<std::thread::JoinHandle<crate::serve::client::ApiResponse>>) {
    for reader in readers {
        let answer = reader.join().unwrap();
        let (ids, names) = streamed_events(&answer);
        assert!(ids.is_sorted_by(|a, b| a < b), "{}", answer.text());
        assert_eq!(names.last().map(String::as_str), Some("end"), "{}", answer.text());
        assert!(!names.iter().any(|name| name == "gap"), "{}", answer.text());
        let updates = names.iter().filter(|name| *name == "updates").count();
        assert_eq!(updates, 7, "three calls with their results, and the answer: {}", answer.text());
    }
}

/// Kills a server while its runs call tools, and checks that another server takes them over.
fn check_killed_server(store: FleetDatabase) {
    let mut fleet = ServerFleet::start(store, 2, (2, 3));
    let runs = fleet.start_runs(0, RUN_COUNT);
    let readers: Vec<_> = runs.iter().map(|run| fleet.follow_run(1, run)).collect();
    fleet.wait_until(|fleet| fleet.noted_calls().len() >= RUN_COUNT);
    fleet.signal(0, Signal::KILL);
    let killed = fleet.servers.remove(0);
    assert_eq!(killed.wait_for_exit(), None);
    fleet.model.open_gate(FINAL_GATE);
    fleet.assert_runs_complete(0, (&runs, 3));
    assert_streamed_once(readers);
    assert_eq!(fleet.metric(0, "segue_runs_taken_over_total"), RUN_COUNT as u64);
}

/// Pauses a server for longer than its lease. Checks that its writes after the pause are rejected, and that
/// its readers receive the events that the other server wrote.
fn check_paused_server(store: FleetDatabase) {
    let fleet = ServerFleet::start(store, 2, (2, 3));
    let runs = fleet.start_runs(0, RUN_COUNT);
    let readers: Vec<_> = runs.iter().map(|run| fleet.follow_run(1, run)).collect();
    let followers: Vec<_> = runs.iter().map(|run| fleet.follow_run(0, run)).collect();
    // All runs wait for their last answer.
    fleet.wait_until(|fleet| fleet.model.call_count() >= RUN_COUNT * 4);
    fleet.pause(0);
    fleet.wait_until(|fleet| fleet.metric(1, "segue_runs_taken_over_total") == RUN_COUNT as u64);
    fleet.model.open_gate(FINAL_GATE);
    fleet.assert_runs_complete(1, (&runs, 3));
    assert_streamed_once(readers);
    let last_seq = |run: &FleetRun| {
        let page = fleet.api(1).get(&format!("/api/threads/{}/history", run.thread)).json();
        page["entries"].as_array().unwrap().last().unwrap()["seq"].as_u64().unwrap()
    };
    let before: Vec<u64> = runs.iter().map(last_seq).collect();
    fleet.signal(0, Signal::CONT);
    fleet.wait_until(|fleet| fleet.metric(0, "segue_runs_lost_total") == RUN_COUNT as u64);
    assert_eq!(runs.iter().map(last_seq).collect::<Vec<_>>(), before, "it wrote nothing");
    assert_streamed_once(followers);
    fleet.assert_runs_complete(0, (&runs, 3));
}

/// Shuts a server down, and checks that another server takes its runs over long before their leases expire.
fn check_shut_down_server(store: FleetDatabase) {
    let mut fleet = ServerFleet::start(store, 2, (600, 3));
    let runs = fleet.start_runs(0, RUN_COUNT);
    let readers: Vec<_> = runs.iter().map(|run| fleet.follow_run(1, run)).collect();
    fleet.wait_until(|fleet| fleet.noted_calls().len() >= RUN_COUNT);
    fleet.signal(0, Signal::TERM);
    fleet.model.open_gate(FINAL_GATE);
    let stopped = fleet.servers.remove(0);
    assert_eq!(stopped.wait_for_exit(), Some(0));
    fleet.assert_runs_complete(0, (&runs, 3));
    assert_streamed_once(readers);
}

#[test]
fn j2_another_server_takes_over_the_runs_of_a_killed_server_and_streams_each_event_once() {
    check_killed_server(FleetDatabase::Sqlite);
}

#[test]
fn j3_a_server_that_was_paused_for_longer_than_its_lease_writes_nothing_afterwards() {
    check_paused_server(FleetDatabase::Sqlite);
}

#[test]
fn j5_another_server_takes_over_the_runs_of_a_server_that_shuts_down_at_once() {
    check_shut_down_server(FleetDatabase::Sqlite);
}

fn postgres_database() -> FleetDatabase {
    FleetDatabase::Postgres(test_postgres::TestDatabase::create().unwrap())
}

#[test]
fn j2_another_server_takes_over_the_runs_of_a_killed_server_on_postgresql() {
    check_killed_server(postgres_database());
}

#[test]
fn j3_a_server_that_was_paused_for_longer_than_its_lease_writes_nothing_to_postgresql() {
    check_paused_server(postgres_database());
}

#[test]
fn j5_another_server_takes_over_the_runs_of_a_server_that_shuts_down_at_once_on_postgresql() {
    check_shut_down_server(postgres_database());
}
