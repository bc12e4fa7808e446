//! Benchmarks of a run that a client requests: a thread of its own, a message, one answer, as the gateway does it but
//! without HTTP on our side. The model answers at once, over HTTP, from this process; its thread is told apart. Every
//! commit is durable.
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

/// Runs of one measurement.
const RUNS: usize = 2_000;
/// Runs that work at the same time.
const CONCURRENT_RUNS: [usize; 3] = [1, 32, 128];

async fn agent(folder: &Path, server: &ScriptedServer) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("a home can be named");
    home.create().expect("a home can be made");
    let config = format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"bench\"\n", server.url());
    std::fs::write(home.config_path(), config).expect("the settings can be written");
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

async fn measure_run(agent: &Agent, request: &RunRequest) -> RunTimings {
    let (frames, mut stream) = FrameSender::channel();
    let began = Instant::now();
    let thread_id = agent.threads().create(None).await.expect("a thread can be made").thread_id;
    let created = began.elapsed();
    let begun = agent.runs().begin(RunId::generate(), thread_id, request, &frames).await.expect("it begins");
    let begin = began.elapsed();
    let end =
        agent.runs().drive_started(begun, &frames, &CancellationToken::new()).await.expect("it is driven");
    assert_eq!(end.status, RunStatus::Success, "{:?}", end.failure);
    let drive = began.elapsed() - begin;
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
        "{:>8}  {:>8}  {:>8}  {:>8}  {:>8}  by thread, µs of processor a run",
        "at once", "runs/s", "create", "begin", "drive"
    );
    for at_once in CONCURRENT_RUNS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be made here");
        let script = Script::new([ScriptedReply::from_pieces(["Some ", "words ", "said."]).with_repeat()])
            .with_requests_kept(1);
        let server = ScriptedServer::start(script).expect("the model starts");
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let threads = threads.expect("threads can be had");
        let agent = threads.block_on(agent(folder.path(), &server));
        let input = json!({"messages": [{"type": "human", "content": "Say something."}]});
        let request = RunRequest { input: Some(input), ..RunRequest::default() };
        let work = |runs: usize| {
            let all = futures::stream::iter(0..runs).map(|_| {
                let (agent, request) = (agent.clone(), request.clone());
                async move { tokio::spawn(async move { measure_run(&agent, &request).await }).await }
            });
            threads.block_on(all.buffer_unordered(at_once).fold(
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
        work(RUNS / 10);
        let (before, began) = (processor_time(), Instant::now());
        let parts = work(RUNS);
        let (seconds, after) = (began.elapsed().as_secs_f64(), processor_time());
        let runs = RUNS as f64;
        let of = |(name, time): (&String, &f64)| {
            (name.clone(), (time - before.get(name).copied().unwrap_or(0.0)) / runs)
        };
        let told: Vec<String> = after
            .iter()
            .map(of)
            .filter(|(_, time)| *time > 1.0)
            .map(|(name, time)| format!("{name} {time:.0}"))
            .collect();
        println!(
            "{at_once:>8}  {:>8.0}  {:>8.0}  {:>8.0}  {:>8.0}  {}",
            runs / seconds,
            parts.create / runs,
            parts.begin / runs,
            parts.drive / runs,
            told.join(", ")
        );
    }
}
