//! Benchmarks of runs requested by clients: each run creates its own thread and has one message and one answer, as over the
//! HTTP API but without HTTP on the server's side. The scripted model answers at once over HTTP and runs in this process;
//! the processor time of its thread is listed separately. Every commit is durable.
//!
//! `cargo bench -p segue-agent --bench runs` prints a table; nothing is asserted.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder};
use futures::StreamExt;
use protocol::{RunId, RunRequest, RunStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Number of runs in one measurement.
const RUNS: usize = 2_000;
/// Numbers of concurrent runs, one for each measurement.
const CONCURRENT_RUNS: [usize; 3] = [1, 32, 128];

/// Opens an agent whose home is in `folder` and whose model is the scripted server.
async fn agent(folder: &Path, server: &ScriptedServer) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("the home folder has a path");
    home.create().expect("the home folder can be created");
    let config = format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"bench\"\n", server.url());
    std::fs::write(home.config_path(), config).expect("the settings are written");
    let settings = AgentSettings {
        model: Some("anthropic/instant".to_owned()),
        request_reader: langgraph::read_request,
        ..AgentSettings::new(home, folder)
    };
    Agent::open(settings).await.expect("the agent opens")
}

/// The duration of each part of a run, in microseconds.
#[derive(Default)]
struct RunTimings {
    create: f64,
    begin: f64,
    drive: f64,
}

/// Creates a thread, runs the request on it, and returns the durations.
async fn measure_run(agent: &Agent, request: &RunRequest) -> RunTimings {
    let (frames, mut stream) = FrameSender::channel();
    let start = Instant::now();
    let thread_id = agent.threads().create(None).await.expect("a thread can be created").thread_id;
    let created = start.elapsed();
    let started =
        agent.runs().begin(RunId::generate(), thread_id, request, &frames).await.expect("the run starts");
    let begin = start.elapsed();
    let end =
        agent.runs().drive_started(started, &frames, &CancellationToken::new()).await.expect("the run ends");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.failure);
    let drive = start.elapsed() - begin;
    while stream.try_next().is_some() {}
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    RunTimings { create: micros(created), begin: micros(begin - created), drive: micros(drive) }
}

/// Returns the processor time of this process so far, in microseconds, by the name of its threads.
fn processor_time() -> BTreeMap<String, f64> {
    let mut times = BTreeMap::new();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return times };
    for task in tasks.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let nanoseconds = read("schedstat").split(' ').next().and_then(|time| time.parse::<f64>().ok());
        *times.entry(read("comm").trim().to_owned()).or_default() += nanoseconds.unwrap_or(0.0) / 1e3;
    }
    times
}

fn main() {
    println!(
        "{:>8}  {:>8}  {:>8}  {:>8}  {:>8}  by thread, µs of processor time per run",
        "parallel", "runs/s", "create", "begin", "drive"
    );
    for concurrency in CONCURRENT_RUNS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be created here");
        let script = Script::new([ScriptedReply::from_pieces(["Some ", "words ", "said."]).with_repeat()])
            .with_requests_kept(1);
        let server = ScriptedServer::start(script).expect("the model starts");
        let tokio_runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let tokio_runtime = tokio_runtime.expect("the runtime starts");
        let agent = tokio_runtime.block_on(agent(folder.path(), &server));
        let input = json!({"messages": [{"type": "human", "content": "Say something."}]});
        let request = RunRequest { input: Some(input), ..RunRequest::default() };
        let run_all = |runs: usize| {
            let all = futures::stream::iter(0..runs).map(|_| {
                let (agent, request) = (agent.clone(), request.clone());
                async move { tokio::spawn(async move { measure_run(&agent, &request).await }).await }
            });
            tokio_runtime.block_on(all.buffer_unordered(concurrency).fold(
                RunTimings::default(),
                async |mut sum, done| {
                    let parts = done.expect("no run panics");
                    sum.create += parts.create;
                    sum.begin += parts.begin;
                    sum.drive += parts.drive;
                    sum
                },
            ))
        };
        run_all(RUNS / 10);
        let (before, start) = (processor_time(), Instant::now());
        let parts = run_all(RUNS);
        let (seconds, after) = (start.elapsed().as_secs_f64(), processor_time());
        let runs = RUNS as f64;
        let per_run = |(name, time): (&String, &f64)| {
            (name.clone(), (time - before.get(name).copied().unwrap_or(0.0)) / runs)
        };
        let thread_times: Vec<String> = after
            .iter()
            .map(per_run)
            .filter(|(_, time)| *time > 1.0)
            .map(|(name, time)| format!("{name} {time:.0}"))
            .collect();
        println!(
            "{concurrency:>8}  {:>8.0}  {:>8.0}  {:>8.0}  {:>8.0}  {}",
            runs / seconds,
            parts.create / runs,
            parts.begin / runs,
            parts.drive / runs,
            thread_times.join(", ")
        );
    }
}
