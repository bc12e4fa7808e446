//! The time from a commit on PostgreSQL to a client of another server. The database knows when it committed what, and
//! everything is on one machine with one clock.

use std::collections::BTreeMap;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Value, json};

use super::super::harness::BenchContext;
use super::super::harness::home::BenchHome;
use super::super::harness::model::ModelServer;
use super::super::harness::postgres::PostgresProcess;
use super::super::harness::server::ServeProcess;
use super::super::harness::statistics::percentile;
use super::super::report::Measurement;

/// Numbers of runs that are followed, and how many of them at once.
const SINGLE_RUNS: usize = 10;
const CONCURRENT_RUNS: usize = 64;
/// Tool calls of a run.
const CALLS: usize = 20;
/// The command of each call. Events are apart from each other, as those of a real model are.
const COMMAND: &str = "sleep 0.02";
/// Settings with which a run needs no approval.
const SECTIONS: &str = "[permissions]\nallow = [\"execute\"]\n[memory]\nenabled = false\n";

/// The arrival of each event of a run, by its seq, in seconds of the machine's clock.
struct EventArrivals {
    thread: String,
    /// The time at which the stream was open. Events before it are replayed and not measured.
    opened_at: f64,
    times: BTreeMap<u64, f64>,
}

/// Measures the delay at the server that does not execute the run, for one run at a time and for 64 at once.
///
/// # Errors
/// If a run or its stream fails.
pub fn measure_delays(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let call = |step: usize| {
        let calls = json!([{"id": format!("call_{step}"), "name": "execute", "args": {"command": COMMAND}}]);
        json!({"always": true, "when": {"turn": 1, "step": step}, "calls": calls})
    };
    let replies: Vec<Value> =
        (1..=CALLS).map(call).chain([json!({"always": true, "text": ["Done."]})]).collect();
    let model = ModelServer::start(context, &replies)?;
    let postgres = PostgresProcess::start(&context.programs)?;
    let home = BenchHome::create(context, "replicas")?;
    home.configure(&model.config(SECTIONS))?;
    let start = || ServeProcess::start_on_database(&home, postgres.socket_url());
    let servers = [start()?, start()?];
    follow_runs(&servers, 1)?;
    let mut single = Vec::new();
    for _ in 0..SINGLE_RUNS {
        single.extend(delays_ms(&postgres, &follow_runs(&servers, 1)?)?);
    }
    let many = delays_ms(&postgres, &follow_runs(&servers, CONCURRENT_RUNS)?)?;
    let name = |part: &str| format!("commit to a client of another server: {part}");
    Ok(vec![
        Measurement::cost(name("p50"), percentile(single.clone(), 50), "ms").with_goal(5.0),
        Measurement::cost(name("p99"), percentile(single, 99), "ms"),
        Measurement::cost(name("64 runs at once, p50"), percentile(many.clone(), 50), "ms"),
        Measurement::cost(name("64 runs at once, p99"), percentile(many, 99), "ms").with_goal(60.0),
    ])
}

/// Starts runs at the first server, follows them at the second, and returns the arrivals.
fn follow_runs(servers: &[ServeProcess; 2], count: usize) -> anyhow::Result<Vec<EventArrivals>> {
    let mut client = servers[0].connect()?;
    let mut followers = Vec::with_capacity(count);
    for _ in 0..count {
        let thread = client.request_json("POST", "/threads", &json!({}))?;
        let thread = thread["thread_id"].as_str().context("the thread has no id")?.to_owned();
        let body = json!({
            "assistant_id": "agent", "stream_mode": ["updates"], "stream_resumable": true,
            "input": {"messages": [{"role": "user", "content": "Work."}]},
        });
        let run = client.request_json("POST", &format!("/threads/{thread}/runs"), &body)?;
        let run_id = run["run_id"].as_str().context("the run has no id")?;
        let path = format!("/threads/{thread}/runs/{run_id}/stream");
        let follower = servers[1].connect()?;
        followers.push(thread::spawn(move || {
            let lines = follower.into_lines(&path)?;
            anyhow::Ok(read_arrivals(thread, lines))
        }));
    }
    let join = |follower: thread::JoinHandle<anyhow::Result<EventArrivals>>| {
        follower.join().map_err(|_| anyhow::anyhow!("a follower panicked"))?
    };
    followers.into_iter().map(join).collect()
}

/// Records when each event arrives. The first part of an event's id is its seq.
fn read_arrivals(thread: String, lines: impl Iterator<Item = String>) -> EventArrivals {
    let mut arrivals = EventArrivals { thread, opened_at: f64::INFINITY, times: BTreeMap::new() };
    for line in lines {
        if line.is_empty() && arrivals.opened_at.is_infinite() {
            arrivals.opened_at = clock_seconds();
        }
        let seq = line.strip_prefix("id: ").and_then(|id| id.split('-').next()?.parse().ok());
        if let Some(seq) = seq {
            arrivals.times.entry(seq).or_insert_with(clock_seconds);
        }
    }
    arrivals
}

/// Returns the milliseconds from the commit of each event to its arrival.
///
/// # Errors
/// If the database cannot be queried, or no event was measured.
fn delays_ms(postgres: &PostgresProcess, runs: &[EventArrivals]) -> anyhow::Result<Vec<f64>> {
    let mut delays = Vec::new();
    for run in runs {
        let sql = format!(
            "SELECT seq, extract(epoch FROM pg_xact_commit_timestamp(events.xmin)) FROM events \
             JOIN thread_heads USING (thread_key) WHERE thread_id = '{}'",
            run.thread
        );
        for row in postgres.query(&sql)? {
            let (seq, committed_at) = row.split_once('|').context("read a commit time")?;
            let committed_at: f64 = committed_at.parse()?;
            let arrived_at = run.times.get(&seq.parse()?);
            delays.extend(
                arrived_at
                    .filter(|_| committed_at > run.opened_at)
                    .map(|arrived_at| (arrived_at - committed_at) * 1e3),
            );
        }
    }
    anyhow::ensure!(!delays.is_empty(), "no event arrived after its stream was open");
    Ok(delays)
}

fn clock_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
