//! Runs of many concurrent clients, from one thread. A thread for each client would cost the server CPU time, because each
//! of its writes would wake another thread.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, poll};

use super::server::ServeProcess;
use super::statistics::percentile;

/// The last chunk of a response.
const END_OF_BODY: &[u8] = b"\r\n0\r\n\r\n";
/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;
/// The most seconds without any data from the server.
const IDLE_SECONDS_MAX: i64 = 120;

/// One request of a load.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    pub path: String,
    pub body: String,
    /// Texts that the stream of the response must contain.
    pub expected: [&'static str; 2],
}

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

/// Sends `count` requests from `clients` connections at once. Each connection waits for its response before the next one.
///
/// # Errors
/// If a response is refused, incomplete or unexpected, or the server sends nothing for a long time.
pub fn run_load(
    server: &ServeProcess,
    clients: usize,
    count: usize,
    next_request: fn() -> LoadRequest,
) -> anyhow::Result<LoadResult> {
    let mut connections: Vec<LoadConnection> =
        (0..clients.min(count)).map(|_| LoadConnection::open(server)).collect::<Result<_, _>>()?;
    let cpu_before = server.cpu_time()?;
    let start = Instant::now();
    let mut started = 0;
    for connection in &mut connections {
        connection.send(next_request())?;
        started += 1;
    }
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        for index in readable(&connections)? {
            let connection = &mut connections[index];
            if !connection.read_available()? {
                continue;
            }
            times.push(connection.finish()?);
            if started < count {
                connection.send(next_request())?;
                started += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = server.cpu_time()?.saturating_sub(cpu_before).as_secs_f64();
    Ok(LoadResult { times, seconds, cpu_seconds })
}

/// Waits until connections have data, and returns their indexes.
fn readable(connections: &[LoadConnection]) -> anyhow::Result<Vec<usize>> {
    let mut files: Vec<PollFd<'_>> =
        connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)).collect();
    let timeout = rustix::event::Timespec { tv_sec: IDLE_SECONDS_MAX, tv_nsec: 0 };
    if poll(&mut files, Some(&timeout)).context("wait for responses")? == 0 {
        bail!("the server sent nothing for {IDLE_SECONDS_MAX} seconds");
    }
    let has_data = |(index, file): (usize, &PollFd<'_>)| (!file.revents().is_empty()).then_some(index);
    Ok(files.iter().enumerate().filter_map(has_data).collect())
}

/// A connection with at most one request.
#[derive(Debug)]
struct LoadConnection {
    stream: TcpStream,
    head: String,
    response: Vec<u8>,
    expected: [&'static str; 2],
    sent_at: Instant,
}

impl LoadConnection {
    fn open(server: &ServeProcess) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server.address()).context("connect to the server")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let head = server.request_head();
        Ok(Self { stream, head, response: Vec::new(), expected: [""; 2], sent_at: Instant::now() })
    }

    /// Sends a request. It is small, so it fits into the empty buffer of the connection.
    fn send(&mut self, request: LoadRequest) -> anyhow::Result<()> {
        let LoadRequest { path, body, expected } = request;
        let head = &self.head;
        let text = format!("POST {path} HTTP/1.1\r\n{head}content-length: {}\r\n\r\n{body}", body.len());
        self.expected = expected;
        self.sent_at = Instant::now();
        self.stream.write_all(text.as_bytes()).context("send a request")
    }

    /// Reads what has arrived. Returns true at the end of the response.
    fn read_available(&mut self) -> anyhow::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    bail!("the server closed the connection: {}", String::from_utf8_lossy(&self.response))
                }
                Ok(length) => self.response.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("read a response"),
            }
        }
        Ok(self.response.ends_with(END_OF_BODY))
    }

    /// Checks the response, and returns the milliseconds since its request.
    fn finish(&mut self) -> anyhow::Result<f64> {
        let milliseconds = self.sent_at.elapsed().as_secs_f64() * 1e3;
        let text = String::from_utf8_lossy(&self.response);
        if !text.starts_with("HTTP/1.1 2") || self.expected.iter().any(|part| !text.contains(part)) {
            bail!("a run did not end with its answer: {text}");
        }
        self.response.clear();
        Ok(milliseconds)
    }
}
