//! Runs of many concurrent clients.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::client::HttpClient;
use super::server::ServeProcess;
use super::statistics::percentile;

/// Bytes of a client thread's stack.
const STACK_BYTES: usize = 256 * 1024;

/// The result of a load.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// The duration of each request in milliseconds.
    times: Vec<f64>,
    seconds: f64,
    cpu_seconds: f64,
}

impl LoadResult {
    pub fn requests_per_second(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }

    /// Returns the CPU time of the server for one request, in milliseconds.
    pub fn cpu_ms(&self) -> f64 {
        self.cpu_seconds * 1e3 / self.times.len() as f64
    }

    /// Returns the duration of a request at a percentile, in milliseconds.
    pub fn percentile_ms(&self, percent: usize) -> f64 {
        percentile(self.times.clone(), percent)
    }
}

/// Sends `count` requests from `clients` connections at once. `send` sends one request and waits for its response.
///
/// # Errors
/// The first error of a client.
pub fn run_load(
    server: &ServeProcess,
    clients: usize,
    count: usize,
    send: fn(&mut HttpClient) -> anyhow::Result<()>,
) -> anyhow::Result<LoadResult> {
    let connections: Vec<HttpClient> = (0..clients).map(|_| server.connect()).collect::<Result<_, _>>()?;
    let started = AtomicUsize::new(0);
    let cpu_before = server.cpu_time()?;
    let start = Instant::now();
    let times = std::thread::scope(|scope| {
        let started = &started;
        let mut workers = Vec::with_capacity(clients);
        for mut client in connections {
            let work = move || send_requests(&mut client, started, count, send);
            workers.push(std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work)?);
        }
        let mut times = Vec::with_capacity(count);
        for worker in workers {
            times.extend(worker.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        anyhow::Ok(times)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = server.cpu_time()?.saturating_sub(cpu_before).as_secs_f64();
    Ok(LoadResult { times, seconds, cpu_seconds })
}

/// Sends requests until all clients together have sent `count`, and returns their durations in milliseconds.
fn send_requests(
    client: &mut HttpClient,
    started: &AtomicUsize,
    count: usize,
    send: fn(&mut HttpClient) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    while started.fetch_add(1, Ordering::Relaxed) < count {
        let start = Instant::now();
        send(client)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}
