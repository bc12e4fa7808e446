//! Load on a served gateway from a process of its own: durable runs that are created and streamed in one request, at
//! several numbers of clients at once, then many streams on which nothing happens. The model is the scripted one, which
//! answers at once, so that everything measured is the server's, the model double's and this client's own work.
//!
//! `cargo xtask bench-gateway` builds the programs and begins this one. Figures are printed, not judged; a stream that
//! is not whole ends the bench.

mod client;
mod process;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::process::{Programs, Served};

/// Clients at once.
const CLIENTS: [usize; 4] = [1, 8, 64, 256];
/// Runs measured at each number of clients.
const RUNS: usize = 20_000;
/// Runs of a single client, which is slower.
const RUNS_ALONE: usize = 2_000;
/// Runs before the first measure: connections, caches and files are there then.
const WARM_UP: usize = 500;
/// Streams on which nothing happens.
const IDLE_STREAMS: usize = 10_000;
/// Files that are open at once: those streams, and some for everything else.
const FILES_MIN: u64 = IDLE_STREAMS as u64 + 256;
/// How long idle streams are watched: more than two heartbeats.
const WATCHED: Duration = Duration::from_secs(12);

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let programs = match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(segue), Some(scripted), Some(folder)) => {
            Programs { segue: segue.into(), scripted: scripted.into(), folder: PathBuf::from(folder) }
        }
        // `cargo bench` of the whole workspace: it needs the built programs.
        _ => {
            println!("gateway load: run `cargo xtask bench-gateway`");
            return Ok(());
        }
    };
    allow_open_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
    runtime.block_on(measure(&programs))
}

/// Lets this process open a file for each stream, as far as the system allows it.
fn allow_open_files() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed }).map_err(text)?;
    match allowed.maximum {
        Some(most) if most < FILES_MIN => Err(format!(
            "this machine allows a process {most} open files; {FILES_MIN} are needed (`ulimit -Hn`)"
        )),
        Some(_) | None => Ok(()),
    }
}

async fn measure(programs: &Programs) -> Result<(), String> {
    let served = programs.serve().await?;
    println!("durable runs, created and streamed in one request, each on a new thread");
    runs(&served, 8, WARM_UP).await?;
    for clients in CLIENTS {
        let count = if clients == 1 { RUNS_ALONE } else { RUNS };
        let before = served.cpu()?;
        let begin = Instant::now();
        let mut times = runs(&served, clients, count).await?;
        let (elapsed, cpu) = (begin.elapsed(), served.cpu()?.saturating_sub(before));
        times.sort_unstable();
        println!(
            "  {clients:>4} clients: {:>6.0} runs/s, p50 {}, p99 {}, {:.3} ms of the server's CPU a run, {} MiB resident",
            count as f64 / elapsed.as_secs_f64(),
            milliseconds(times[count / 2]),
            milliseconds(times[count * 99 / 100]),
            cpu.as_secs_f64() * 1_000.0 / count as f64,
            served.resident_mib()?,
        );
    }
    idle(&served).await
}

/// Runs `count` runs by so many clients, and returns how long each took.
async fn runs(served: &Served, clients: usize, count: usize) -> Result<Vec<Duration>, String> {
    let mut working = Vec::with_capacity(clients);
    for number in 0..clients {
        let share = count / clients + usize::from(number < count % clients);
        let (address, key) = (served.address.clone(), served.key.clone());
        working.push(tokio::spawn(async move {
            let mut client = Client::connect(&address, &key).await?;
            let mut times = Vec::with_capacity(share);
            for _ in 0..share {
                let begin = Instant::now();
                client.run().await?;
                times.push(begin.elapsed());
            }
            Ok::<_, String>(times)
        }));
    }
    let mut times = Vec::with_capacity(count);
    for worker in working {
        times.extend(worker.await.map_err(text)??);
    }
    Ok(times)
}

async fn idle(served: &Served) -> Result<(), String> {
    let before = served.resident_mib()?;
    let mut client = Client::connect(&served.address, &served.key).await?;
    let thread_id = client.run().await?;
    let begin = Instant::now();
    let mut streams = Vec::with_capacity(IDLE_STREAMS);
    for _ in 0..IDLE_STREAMS {
        let mut stream = Client::connect(&served.address, &served.key).await?;
        stream.follow(thread_id).await?;
        streams.push(stream);
    }
    println!("{IDLE_STREAMS} idle streams opened in {:.1} s", begin.elapsed().as_secs_f64());
    let cpu = served.cpu()?;
    let watching = streams.into_iter().map(|stream| tokio::spawn(stream.heartbeats(WATCHED)));
    let watching: Vec<_> = watching.collect();
    let begin = Instant::now();
    client.run().await?;
    let alone = begin.elapsed();
    let mut fewest = usize::MAX;
    for watched in watching {
        fewest = fewest.min(watched.await.map_err(text)??);
    }
    println!(
        "  each had at least {fewest} heartbeats in {} s; {} MiB resident ({before} before), {:.1} % of a core; a run meanwhile {}",
        WATCHED.as_secs(),
        served.resident_mib()?,
        served.cpu()?.saturating_sub(cpu).as_secs_f64() * 100.0 / WATCHED.as_secs_f64(),
        milliseconds(alone),
    );
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
