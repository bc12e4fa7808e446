//! A load benchmark for `segue serve`, run in a process of its own. First, it measures durable runs that are created
//! and streamed in one request, with several numbers of concurrent clients. Then it measures many idle streams. The
//! model is scripted and answers at once, so the results show the work of the server, the model server and this client
//! only.
//!
//! `cargo xtask bench-gateway` builds the programs and starts this one. The results are printed without a judgement; an
//! incomplete stream ends the benchmark with an error.

mod client;
mod process;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::client::LoadClient;
use crate::process::{LoadPrograms, LoadServer};

/// Numbers of concurrent clients.
const CLIENTS: [usize; 4] = [1, 8, 64, 256];
/// Runs measured for each number of clients.
const RUNS: usize = 20_000;
/// Runs measured for a single client, which is slower.
const RUNS_SINGLE_CLIENT: usize = 2_000;
/// Runs before the first measurement, which fill connections, caches and files.
const WARM_UP: usize = 500;
/// Number of idle streams.
const IDLE_STREAMS: usize = 10_000;
/// Minimum number of open files: one for each idle stream, and some for everything else.
const FILES_MIN: u64 = IDLE_STREAMS as u64 + 256;
/// How long the idle streams are observed: more than two heartbeats.
const WATCH_TIME: Duration = Duration::from_secs(12);

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let programs = match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(segue), Some(scripted), Some(folder)) => {
            LoadPrograms { segue: segue.into(), scripted: scripted.into(), folder: PathBuf::from(folder) }
        }
        // `cargo bench` of the whole workspace does not build the programs.
        _ => {
            println!("gateway load: run `cargo xtask bench-gateway`");
            return Ok(());
        }
    };
    allow_open_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(error_text)?;
    runtime.block_on(measure_runs(&programs))
}

/// Raises this process's limit of open files as far as the system allows.
fn allow_open_files() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed }).map_err(error_text)?;
    match allowed.maximum {
        Some(files_max) if files_max < FILES_MIN => Err(format!(
            "this machine allows a process {files_max} open files; {FILES_MIN} are needed (`ulimit -Hn`)"
        )),
        Some(_) | None => Ok(()),
    }
}

/// Measures runs for each number of clients, and then idle streams.
async fn measure_runs(programs: &LoadPrograms) -> Result<(), String> {
    let server = programs.serve().await?;
    println!("durable runs, created and streamed in one request, each on a new thread");
    run_clients(&server, 8, WARM_UP).await?;
    for clients in CLIENTS {
        let count = if clients == 1 { RUNS_SINGLE_CLIENT } else { RUNS };
        let before = server.cpu_time()?;
        let started_at = Instant::now();
        let mut times = run_clients(&server, clients, count).await?;
        let (elapsed, cpu) = (started_at.elapsed(), server.cpu_time()?.saturating_sub(before));
        times.sort_unstable();
        println!(
            "  {clients:>4} clients: {:>6.0} runs/s, p50 {}, p99 {}, {:.3} ms of the server's CPU a run, {} MiB resident",
            count as f64 / elapsed.as_secs_f64(),
            format_milliseconds(times[count / 2]),
            format_milliseconds(times[count * 99 / 100]),
            cpu.as_secs_f64() * 1_000.0 / count as f64,
            server.resident_mib()?,
        );
    }
    measure_idle_streams(&server).await
}

/// Executes `count` runs with that many concurrent clients, and returns the duration of each run.
async fn run_clients(server: &LoadServer, clients: usize, count: usize) -> Result<Vec<Duration>, String> {
    let mut workers = Vec::with_capacity(clients);
    for number in 0..clients {
        let share = count / clients + usize::from(number < count % clients);
        let (address, key) = (server.address.clone(), server.key.clone());
        workers.push(tokio::spawn(async move {
            let mut client = LoadClient::connect(&address, &key).await?;
            let mut times = Vec::with_capacity(share);
            for _ in 0..share {
                let started_at = Instant::now();
                client.run().await?;
                times.push(started_at.elapsed());
            }
            Ok::<_, String>(times)
        }));
    }
    let mut times = Vec::with_capacity(count);
    for worker in workers {
        times.extend(worker.await.map_err(error_text)??);
    }
    Ok(times)
}

/// Measures the memory, the CPU time and the heartbeats of idle streams, and the duration of a run next to them.
async fn measure_idle_streams(server: &LoadServer) -> Result<(), String> {
    let before = server.resident_mib()?;
    let mut client = LoadClient::connect(&server.address, &server.key).await?;
    let thread_id = client.run().await?;
    let started_at = Instant::now();
    let mut streams = Vec::with_capacity(IDLE_STREAMS);
    for _ in 0..IDLE_STREAMS {
        let mut stream = LoadClient::connect(&server.address, &server.key).await?;
        stream.follow(thread_id).await?;
        streams.push(stream);
    }
    println!("{IDLE_STREAMS} idle streams opened in {:.1} s", started_at.elapsed().as_secs_f64());
    let cpu = server.cpu_time()?;
    let watchers = streams.into_iter().map(|stream| tokio::spawn(stream.heartbeats(WATCH_TIME)));
    let watchers: Vec<_> = watchers.collect();
    let started_at = Instant::now();
    client.run().await?;
    let run_time = started_at.elapsed();
    let mut fewest = usize::MAX;
    for watcher in watchers {
        fewest = fewest.min(watcher.await.map_err(error_text)??);
    }
    println!(
        "  each had at least {fewest} heartbeats in {} s; {} MiB resident ({before} before), {:.1} % of a core; a run meanwhile {}",
        WATCH_TIME.as_secs(),
        server.resident_mib()?,
        server.cpu_time()?.saturating_sub(cpu).as_secs_f64() * 100.0 / WATCH_TIME.as_secs_f64(),
        format_milliseconds(run_time),
    );
    Ok(())
}

/// Returns the duration in milliseconds, with two decimals.
fn format_milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

fn error_text(error: impl ToString) -> String {
    error.to_string()
}
