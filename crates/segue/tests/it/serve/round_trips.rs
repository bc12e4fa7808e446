//! The statements and round trips of a server with PostgreSQL. A recorder in front of the database counts them, so a test sees
//! every statement, whichever part of the program sends it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use test_postgres::{RecordedStatement, StatementRecorder, TestDatabase};

use super::client::ApiClient;
use crate::sandbox::TestSandbox;
use crate::server::ServeProcess;

/// Maximum number of statements of a run of one message and one answer on an existing thread.
const STATEMENTS_MAX: usize = 24;
/// Maximum number of its round trips, on all connections together.
const ROUND_TRIPS_MAX: usize = 18;
/// Maximum number of statements of a run that creates its thread.
const NEW_STATEMENTS_MAX: usize = 28;
/// Maximum number of its round trips, on all connections together.
const NEW_ROUND_TRIPS_MAX: usize = 20;
/// Runs that are started before a run is counted, so that every connection has its prepared statements.
const WARM_UP_RUNS: usize = 12;
/// Maximum number of runs until one is counted.
const RECORDED_RUNS_MAX: usize = 50;

/// Scans of an idle server after which its statements are counted.
const IDLE_SCANS: usize = 6;

/// Returns the messages that a client sends.
fn run_body(text: &str) -> Value {
    json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]},
        "stream_mode": ["values"], "if_not_exists": "create",
    })
}

/// Runs a turn on the thread, which is created if there is none, and reads its stream to the end.
fn run_turn(api: &ApiClient, thread: &str) {
    let response = api.post(&format!("/threads/{thread}/runs/stream"), &run_body("go"));
    assert!(response.status == 200 && response.text().contains("Done."), "{}", response.text());
}

#[test]
fn a_run_takes_few_statements_and_round_trips() {
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let model = ScriptedServer::start(Script::new(vec![ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let mut sandbox = TestSandbox::new().with_file_database().with_model(&model);
    sandbox.set_variable("SEGUE_DATABASE_URL", &database.url_through(recorder.address()));
    let serving = ServeProcess::start(&sandbox);
    let api = super::owner_client(&serving);
    let new_thread = || protocol::ThreadId::generate().to_string();
    let thread = new_thread();
    for _ in 0..WARM_UP_RUNS {
        run_turn(&api, &new_thread());
        run_turn(&api, &thread);
    }
    let before = recorder.take_statements();
    assert!(before.iter().any(|statement| statement.is_preparation), "the recorder sees the statements");
    let existing = record_run(&api, &recorder, || thread.clone());
    let new = record_run(&api, &recorder, new_thread);
    for (run, statements_max, round_trips_max) in
        [(existing, STATEMENTS_MAX, ROUND_TRIPS_MAX), (new, NEW_STATEMENTS_MAX, NEW_ROUND_TRIPS_MAX)]
    {
        let transactions = run.statements(|sql| sql.starts_with("BEGIN; SET LOCAL"));
        assert_eq!(transactions, 2, "the admission and the end: {run}");
        assert!(run.statements(|_| true) <= statements_max, "{run}");
        assert!(run.round_trips() <= round_trips_max, "{run}");
    }
}

#[test]
fn a_run_with_a_tool_call_makes_no_transaction_fail() {
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let call = ScriptedReply::call("c1", "ls", json!({"path": "."})).when_turn_is(1, 1).with_repeat();
    let script = Script::new(vec![call, ScriptedReply::text("Done.").with_repeat()]);
    let model = ScriptedServer::start(script).unwrap();
    let mut sandbox = TestSandbox::new().with_file_database().with_model(&model);
    sandbox.set_variable("SEGUE_DATABASE_URL", &database.url_through(recorder.address()));
    let serving = ServeProcess::start(&sandbox);
    let api = super::owner_client(&serving);
    for _ in 0..5 {
        run_turn(&api, &protocol::ThreadId::generate().to_string());
    }
    assert_eq!(model.call_count(), 10, "each run calls a tool");
    let statements = recorder.take_statements();
    let rollbacks = statements.iter().filter(|statement| statement.sql.contains("ROLLBACK")).count();
    assert_eq!(rollbacks, 0, "{}", RecordedRun(statements));
}

#[test]
fn an_idle_server_scans_for_unowned_runs_with_one_statement() {
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let mut sandbox = TestSandbox::new().with_file_database();
    sandbox.set_variable("SEGUE_DATABASE_URL", &database.url_through(recorder.address()));
    let _serving = ServeProcess::start(&sandbox);
    let is_scan = |statement: &RecordedStatement| statement.sql.contains("r.lease_until < $1");
    let mut executed: Vec<RecordedStatement> = Vec::new();
    while executed.iter().filter(|statement| is_scan(statement)).count() < IDLE_SCANS {
        let statements = recorder.take_statements().into_iter();
        executed.extend(statements.filter(|statement| !statement.is_preparation));
        std::thread::yield_now();
    }
    // The start of the server and a heartbeat may come between two scans.
    let scans_in_succession = executed.windows(2).filter(|pair| pair.iter().all(is_scan)).count();
    assert!(scans_in_succession >= IDLE_SCANS - 3, "{}", RecordedRun(executed));
}

/// Returns the statements of a run. A run in which a connection prepares a statement is repeated, because the server
/// chooses the connections, and a preparation is a round trip of its own.
fn record_run(api: &ApiClient, recorder: &StatementRecorder, thread: impl Fn() -> String) -> RecordedRun {
    for _ in 0..RECORDED_RUNS_MAX {
        // Those of the run before are not counted.
        let _ = recorder.take_statements();
        run_turn(api, &thread());
        let run = RecordedRun::new(recorder.take_statements());
        if run.0.iter().all(|statement| !statement.is_preparation) {
            return run;
        }
    }
    panic!("a connection prepared a statement in each of {RECORDED_RUNS_MAX} runs");
}

/// The statements of a run, without those of heartbeats.
struct RecordedRun(Vec<RecordedStatement>);

impl RecordedRun {
    /// Leaves out heartbeats, which are not part of a run: each transaction with a statement about replicas.
    fn new(statements: Vec<RecordedStatement>) -> Self {
        let mut transactions: HashMap<_, usize> = HashMap::new();
        let mut number_of = |statement: &RecordedStatement| {
            let number = transactions.entry(statement.connection).or_default();
            *number += usize::from(statement.sql.starts_with("BEGIN"));
            (statement.connection, *number)
        };
        let numbers: Vec<_> = statements.iter().map(&mut number_of).collect();
        let is_heartbeat = |(statement, _): &(&RecordedStatement, _)| statement.sql.contains("replicas");
        let heartbeats: HashSet<_> =
            statements.iter().zip(&numbers).filter(is_heartbeat).map(|(_, number)| *number).collect();
        let is_kept = numbers.iter().map(|number| !heartbeats.contains(number));
        Self(
            statements
                .iter()
                .zip(is_kept)
                .filter(|(_, is_kept)| *is_kept)
                .map(|(kept, _)| kept.clone())
                .collect(),
        )
    }

    /// Returns the number of executed statements that satisfy a condition.
    fn statements(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        self.0.iter().filter(|statement| !statement.is_preparation && is_counted(&statement.sql)).count()
    }

    /// Returns the number of round trips of all connections.
    fn round_trips(&self) -> usize {
        let trips: HashSet<_> =
            self.0.iter().map(|statement| (statement.connection, statement.round_trip)).collect();
        trips.len()
    }
}

impl std::fmt::Display for RecordedRun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "{} statements, {} round trips", self.statements(|_| true), self.round_trips())?;
        for RecordedStatement { connection, round_trip, sql, is_preparation } in &self.0 {
            let sql: String = sql.chars().take(150).collect();
            let action = if *is_preparation { "prepares" } else { "executes" };
            writeln!(formatter, "{connection:>2} {round_trip:>4} {action} {sql}")?;
        }
        Ok(())
    }
}
