//! The server under load: durable runs on new threads, and stateless runs in a home with many messages.

use super::super::harness::BenchContext;
use super::super::harness::client::{END_EVENT, chat_run_body, new_thread_id};
use super::super::harness::home::BenchHome;
use super::super::harness::load::{LoadRequest, run_load};
use super::super::harness::model::ModelServer;
use super::super::harness::server::ServeProcess;
use super::super::report::Measurement;

/// The answer of the model.
pub const ANSWER: &str = "An answer.";
/// Runs before the first measurement, which fill connections, caches and files.
pub const WARM_UP_RUNS: usize = 500;
/// Number of runs of one client.
const SINGLE_RUNS: usize = 1_000;
/// Number of runs of many clients.
const RUNS: usize = 10_000;
/// The loads, with their goals.
const LOADS: [StreamGoals; 2] = [
    StreamGoals { streams: 64, runs_per_second: 3_000.0, cpu_ms: 0.45, p99_ms: 50.0, resident_mb: 50.0 },
    StreamGoals { streams: 256, runs_per_second: 3_000.0, cpu_ms: 0.45, p99_ms: 120.0, resident_mb: 60.0 },
];
/// Goal of the memory of an idle server.
const IDLE_GOAL_MB: f64 = 20.0;
/// Sessions of the home for stateless runs, and messages of each: 250,000 messages.
const SESSIONS: usize = 250;
const SESSION_MESSAGES: usize = 1_000;
/// Streams and runs of the stateless load.
const STATELESS_STREAMS: usize = 16;
const STATELESS_RUNS: usize = 2_000;

/// A number of concurrent streams, and the goals for it.
#[derive(Debug, Clone, Copy)]
struct StreamGoals {
    streams: usize,
    runs_per_second: f64,
    cpu_ms: f64,
    p99_ms: f64,
    resident_mb: f64,
}

/// Measures durable runs, each created and streamed in one request on a new thread.
///
/// # Errors
/// If a run fails.
pub fn measure_streams(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let model = ModelServer::start_with_answer(context, ANSWER)?;
    let home = BenchHome::create(context, "gateway")?;
    home.configure(&model.config(""))?;
    let server = ServeProcess::start(&home)?;
    let idle = Measurement::cost("gateway, idle: resident memory", server.resident_mb()?, "MB");
    let mut measurements = vec![idle.with_goal(IDLE_GOAL_MB)];
    run_load(&server, 8, WARM_UP_RUNS, durable_run)?;
    let single = run_load(&server, 1, SINGLE_RUNS, durable_run)?;
    measurements.push(Measurement::cost("gateway, 1 stream: a run", single.percentile_ms(50), "ms"));
    for goals in LOADS {
        let load = run_load(&server, goals.streams, RUNS, durable_run)?;
        let resident = server.resident_mb()?;
        let name = |part: &str| format!("gateway, {} streams: {part}", goals.streams);
        measurements.extend([
            Measurement::throughput(name("runs"), load.requests_per_second(), "runs/s")
                .with_goal(goals.runs_per_second),
            Measurement::cost(name("CPU of a run"), load.cpu_ms(), "ms").with_goal(goals.cpu_ms),
            Measurement::cost(name("p99"), load.percentile_ms(99), "ms").with_goal(goals.p99_ms),
            Measurement::cost(name("resident memory"), resident, "MB").with_goal(goals.resident_mb),
        ]);
    }
    Ok(measurements)
}

/// Measures stateless runs, whose threads are deleted at their end.
///
/// # Errors
/// If a run fails.
pub fn measure_stateless_runs(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let model = ModelServer::start_with_answer(context, ANSWER)?;
    let home = BenchHome::create(context, "stateless")?;
    home.import_sessions(SESSIONS, SESSION_MESSAGES)?;
    home.configure(&model.config(""))?;
    let server = ServeProcess::start(&home)?;
    let load = run_load(&server, STATELESS_STREAMS, STATELESS_RUNS, stateless_run)?;
    let name = |part: &str| format!("stateless, {STATELESS_STREAMS} streams, 250,000 messages: {part}");
    Ok(vec![
        Measurement::throughput(name("runs"), load.requests_per_second(), "runs/s").with_goal(1_200.0),
        Measurement::cost(name("CPU of a run"), load.cpu_ms(), "ms"),
        Measurement::cost(name("p99"), load.percentile_ms(99), "ms").with_goal(60.0),
    ])
}

/// Returns the request for a run on a new thread.
pub fn durable_run() -> LoadRequest {
    run_request(format!("/threads/{}/runs/stream", new_thread_id()))
}

fn stateless_run() -> LoadRequest {
    run_request("/runs/stream".to_owned())
}

fn run_request(path: String) -> LoadRequest {
    LoadRequest { path, body: chat_run_body("hi").to_string(), expected: [ANSWER, END_EVENT] }
}
