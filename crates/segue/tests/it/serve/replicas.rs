//! Several servers on one database: one is killed, stopped for longer than its lease, or told to end, with runs under way;
//! the others go on with these, and whoever looks on sees each thing once.

mod storm;

use rustix::process::Signal;

use crate::fleet::{Begun, Fleet, GATE, Store, told};

/// Runs under way at once.
const RUNS: usize = 24;

/// Checks that a reader was told each thing once and in order, to the end, and that nothing was missing.
#[track_caller]
fn is_told_once(readers: Vec<std::thread::JoinHandle<crate::serve::client::Answer>>) {
    for reader in readers {
        let answer = reader.join().unwrap();
        let (ids, names) = told(&answer);
        assert!(ids.is_sorted_by(|a, b| a < b), "{}", answer.text());
        assert_eq!(names.last().map(String::as_str), Some("end"), "{}", answer.text());
        assert!(!names.iter().any(|name| name == "gap"), "{}", answer.text());
        let updates = names.iter().filter(|name| *name == "updates").count();
        assert_eq!(updates, 7, "three calls with their results, and the answer: {}", answer.text());
    }
}

/// A server is killed while its runs call tools; another one goes on with them.
fn killed(store: Store) {
    let mut fleet = Fleet::start(store, 2, (2, 3));
    let runs = fleet.begin(0, RUNS);
    let readers: Vec<_> = runs.iter().map(|run| fleet.follow(1, run)).collect();
    fleet.until(|fleet| fleet.noted().len() >= RUNS);
    fleet.signal(0, Signal::KILL);
    let killed = fleet.servers.remove(0);
    assert_eq!(killed.ended(), None);
    fleet.model.open(GATE);
    fleet.check(0, (&runs, 3));
    is_told_once(readers);
    assert_eq!(fleet.figure(0, "segue_runs_taken_over_total"), RUNS as u64);
}

/// A server is stopped for longer than its lease; what it tries when it wakes is refused, and who looked on there is told what
/// the other one did.
fn paused(store: Store) {
    let fleet = Fleet::start(store, 2, (2, 3));
    let runs = fleet.begin(0, RUNS);
    let readers: Vec<_> = runs.iter().map(|run| fleet.follow(1, run)).collect();
    let held: Vec<_> = runs.iter().map(|run| fleet.follow(0, run)).collect();
    // All wait for the last answer.
    fleet.until(|fleet| fleet.model.calls() >= RUNS * 4);
    fleet.signal(0, Signal::STOP);
    fleet.until(|fleet| fleet.figure(1, "segue_runs_taken_over_total") == RUNS as u64);
    fleet.model.open(GATE);
    fleet.check(1, (&runs, 3));
    is_told_once(readers);
    let last_seq = |run: &Begun| {
        let page = fleet.api(1).get(&format!("/api/threads/{}/history", run.thread)).json();
        page["entries"].as_array().unwrap().last().unwrap()["seq"].as_u64().unwrap()
    };
    let before: Vec<u64> = runs.iter().map(last_seq).collect();
    fleet.signal(0, Signal::CONT);
    fleet.until(|fleet| fleet.figure(0, "segue_runs_lost_total") == RUNS as u64);
    assert_eq!(runs.iter().map(last_seq).collect::<Vec<_>>(), before, "it wrote nothing");
    is_told_once(held);
    fleet.check(0, (&runs, 3));
}

/// A server is told to end; another one goes on with its runs long before their leases end.
fn ended(store: Store) {
    let mut fleet = Fleet::start(store, 2, (600, 3));
    let runs = fleet.begin(0, RUNS);
    let readers: Vec<_> = runs.iter().map(|run| fleet.follow(1, run)).collect();
    fleet.until(|fleet| fleet.noted().len() >= RUNS);
    fleet.signal(0, Signal::TERM);
    fleet.model.open(GATE);
    let stopped = fleet.servers.remove(0);
    assert_eq!(stopped.ended(), Some(0));
    fleet.check(0, (&runs, 3));
    is_told_once(readers);
}

#[test]
fn j2_runs_of_a_server_that_is_killed_go_on_in_another_and_are_told_once() {
    killed(Store::Sqlite);
}

#[test]
fn j3_a_server_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes() {
    paused(Store::Sqlite);
}

#[test]
fn j5_runs_of_a_server_that_ends_go_on_in_another_at_once() {
    ended(Store::Sqlite);
}

fn postgres() -> Store {
    Store::Postgres(test_postgres::Database::create().unwrap())
}

#[test]
fn j2_runs_of_a_server_that_is_killed_go_on_in_another_on_postgresql() {
    killed(postgres());
}

#[test]
fn j3_a_server_that_was_stopped_for_longer_than_its_lease_writes_nothing_to_postgresql_when_it_wakes() {
    paused(postgres());
}

#[test]
fn j5_runs_of_a_server_that_ends_go_on_in_another_at_once_on_postgresql() {
    ended(postgres());
}
