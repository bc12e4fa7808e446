//! Durable runs on PostgreSQL: their time, their statements and round trips, and the effect of a distant database.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::harness::BenchContext;
use super::super::harness::client::{HttpClient, new_thread_id};
use super::super::harness::home::BenchHome;
use super::super::harness::load::run_load;
use super::super::harness::model::ModelServer;
use super::super::harness::postgres::PostgresProcess;
use super::super::harness::relay::{Relay, RelayCounts};
use super::super::harness::server::ServeProcess;
use super::super::report::Measurement;
use super::gateway::{ANSWER, WARM_UP_RUNS, durable_run};
use super::handoffs::{DRAFT, decide_handoff, draft_handoff};

/// Number of runs of one client, and of 64.
const SINGLE_RUNS: usize = 300;
const STREAMS: usize = 64;
const STREAM_RUNS: usize = 3_000;
/// Runs over which statements are counted.
const COUNTED_RUNS: usize = 100;
/// The round-trip time to the distant database. Round trips on the critical path follow from it.
const LATENCY: Duration = Duration::from_millis(100);
/// The latency of which the time is reported, in seconds.
const REPORTED_LATENCY_S: f64 = 0.5;
/// Length of the thread that is handed off.
const HANDOFF_MESSAGES: usize = 120;

/// Measures durable runs, each on a new thread.
///
/// # Errors
/// If a run fails.
pub fn measure_runs(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let model = ModelServer::start_with_answer(context, ANSWER)?;
    let postgres = PostgresProcess::start(&context.programs)?;
    let home = BenchHome::create(context, "postgres")?;
    home.configure(&model.config(""))?;
    let server = ServeProcess::start_on_database(&home, postgres.socket_url())?;
    run_load(&server, 8, WARM_UP_RUNS, durable_run)?;
    let single = run_load(&server, 1, SINGLE_RUNS, durable_run)?;
    let many = run_load(&server, STREAMS, STREAM_RUNS, durable_run)?;
    drop(server);
    let counts = count_statements(&home, &postgres)?;
    let mean = |total: u64| total as f64 / COUNTED_RUNS as f64;
    let name = |part: &str| format!("PostgreSQL: {part}");
    Ok(vec![
        Measurement::cost(name("a run of one client"), single.percentile_ms(50), "ms").with_goal(3.5),
        Measurement::throughput(name("64 streams"), many.requests_per_second(), "runs/s").with_goal(1_000.0),
        Measurement::cost(name("64 streams: CPU of a run"), many.cpu_ms(), "ms"),
        Measurement::cost(name("64 streams: p99"), many.percentile_ms(99), "ms"),
        Measurement::cost(name("statements of a run"), mean(counts.statements), "statements").with_goal(15.0),
        Measurement::cost(
            name("round trips of a run, all connections"),
            mean(counts.round_trips),
            "round trips",
        ),
    ])
}

/// Counts at a relay what [`COUNTED_RUNS`] runs of one client send to PostgreSQL.
fn count_statements(home: &BenchHome, postgres: &PostgresProcess) -> anyhow::Result<RelayCounts> {
    let relay = Relay::start(postgres.address()?, Duration::ZERO)?;
    let server = ServeProcess::start_on_database(home, &postgres.url_at(relay.address())?)?;
    // Connections are opened and statements prepared.
    run_load(&server, 1, COUNTED_RUNS, durable_run)?;
    let before = relay.counts();
    run_load(&server, 1, COUNTED_RUNS, durable_run)?;
    Ok(relay.counts().since(before))
}

/// Measures a run, and the first handoff of a server with the child's first run, on a distant database. The round trips on
/// the critical path are the additional time divided by the latency.
///
/// # Errors
/// If a request fails.
pub fn measure_latency(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let model = ModelServer::start_with_answer(context, DRAFT)?;
    let postgres = PostgresProcess::start(&context.programs)?;
    let home = BenchHome::create(context, "latency")?;
    home.configure(&model.config(&format!("[database]\nurl = \"{}\"\n", postgres.socket_url())))?;
    let thread_ids = [home.import_session(HANDOFF_MESSAGES)?, home.import_session(HANDOFF_MESSAGES + 4)?];
    let address = postgres.address()?;
    let [near, distant] = [Duration::ZERO, LATENCY].map(|latency| Relay::start(address, latency));
    let near = time_handoff_and_run(&home, &postgres.url_at(near?.address())?, &thread_ids[0])?;
    let distant = time_handoff_and_run(&home, &postgres.url_at(distant?.address())?, &thread_ids[1])?;
    let round_trips = |part: usize| (distant[part] - near[part]) / LATENCY.as_secs_f64();
    let (handoff, run) = (round_trips(0), round_trips(1));
    let name = |part: &str| format!("distant PostgreSQL: {part}");
    Ok(vec![
        Measurement::cost(name("round trips of a first handoff and a run"), handoff, "round trips")
            .with_goal(16.0),
        Measurement::cost(
            name("a first handoff and a run, at 500 ms"),
            near[0] + handoff * REPORTED_LATENCY_S,
            "s",
        ),
        Measurement::cost(name("round trips of a run"), run, "round trips").with_goal(4.0),
    ])
}

/// Returns the seconds of a new server's first handoff with the child's first run, and of a run on a new thread.
fn time_handoff_and_run(home: &BenchHome, database_url: &str, thread: &str) -> anyhow::Result<[f64; 2]> {
    let server = ServeProcess::start_on_database(home, database_url)?;
    let mut client: HttpClient = server.connect()?;
    let start = Instant::now();
    let handoff = draft_handoff(&mut client, thread)?;
    let outcome = decide_handoff(&mut client, &handoff, &json!({"type": "approve"}))?;
    let child = outcome["child_thread_id"].as_str().unwrap_or_default();
    client.run(&format!("/threads/{child}/runs/stream"), "Continue.", "The parser fails")?;
    let handoff = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let path = format!("/threads/{}/runs/stream", new_thread_id());
    client.run(&path, "hi", "The parser fails")?;
    Ok([handoff, start.elapsed().as_secs_f64()])
}
