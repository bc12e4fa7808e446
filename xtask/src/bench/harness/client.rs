//! A blocking HTTP/1.1 client with one connection. It spends little CPU time, because it shares the machine with the
//! measured server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Timeout of one read. A benchmark of a slow version still ends.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes of the read buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// The last event of a stream.
pub const END_EVENT: &str = "event: end";
/// The most steps of a run with many tool calls.
const RECURSION_LIMIT: u32 = 10_000;

/// A connection to a server.
#[derive(Debug)]
pub struct HttpClient {
    connection: BufReader<TcpStream>,
    /// The parts of each request's head that do not change.
    head: String,
}

impl HttpClient {
    /// Connects to a server; `head` has the headers of all requests.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn connect(address: &str, head: String) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self { connection: BufReader::with_capacity(BUFFER_BYTES, stream), head })
    }

    /// Sends a request and returns the body of the response.
    ///
    /// # Errors
    /// If the connection breaks, or the status is not 200.
    pub fn request(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        self.send(method, path, "HTTP/1.1", body)?;
        let (status, framing) = self.read_head()?;
        let mut response = Vec::new();
        match framing {
            BodyFraming::Length(length) => self.read_part(&mut response, length)?,
            BodyFraming::Chunked => while self.read_chunk(&mut response)? {},
        }
        if !status.starts_with("HTTP/1.1 2") {
            bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&response));
        }
        Ok(response)
    }

    /// Sends a request and returns the response as JSON.
    ///
    /// # Errors
    /// As for [`Self::request`], and if the response is not JSON or reports a failure.
    pub fn request_json(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.request(method, path, &body)?;
        let value: Value = serde_json::from_slice(&response).with_context(|| format!("read {path}"))?;
        if let Some(error) = value.get("__error__") {
            bail!("{method} {path}: {error}");
        }
        Ok(value)
    }

    /// Executes a run with the stream of a chat client, and returns when it has ended. The stream must contain `expected`.
    ///
    /// # Errors
    /// As for [`Self::request`], and if the answer is missing.
    pub fn run(&mut self, path: &str, prompt: &str, expected: &str) -> anyhow::Result<()> {
        self.stream_run(path, &chat_run_body(prompt), expected)
    }

    /// Executes a run with a stream of the steps' updates. Its size does not grow with the thread.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_with_updates(&mut self, path: &str, prompt: &str, expected: &str) -> anyhow::Result<()> {
        let body = json!({
            "assistant_id": "agent", "if_not_exists": "create", "stream_mode": ["updates"],
            "config": {"recursion_limit": RECURSION_LIMIT},
            "input": {"messages": [{"type": "human", "content": prompt}]},
        });
        self.stream_run(path, &body, expected)
    }

    fn stream_run(&mut self, path: &str, body: &Value, expected: &str) -> anyhow::Result<()> {
        let response = self.request("POST", path, &body.to_string())?;
        let text = String::from_utf8_lossy(&response);
        if !text.contains(expected) || !text.contains(END_EVENT) {
            bail!("a run did not end with its answer: {text}");
        }
        Ok(())
    }

    /// Sends a request whose response ends with the connection, and returns the lines of the response as they arrive.
    ///
    /// # Errors
    /// If the request cannot be sent.
    pub fn into_lines(mut self, path: &str) -> anyhow::Result<impl Iterator<Item = String>> {
        self.head.push_str("last-event-id: -1\r\n");
        self.send("GET", path, "HTTP/1.0", "")?;
        Ok(self.connection.lines().map_while(Result::ok))
    }

    fn send(&mut self, method: &str, path: &str, version: &str, body: &str) -> anyhow::Result<()> {
        let head = &self.head;
        let request =
            format!("{method} {path} {version}\r\n{head}content-length: {}\r\n\r\n{body}", body.len());
        self.connection.get_mut().write_all(request.as_bytes()).context("send a request")
    }

    /// Reads a head and returns its status line and the framing of the body.
    fn read_head(&mut self) -> anyhow::Result<(String, BodyFraming)> {
        let status = self.read_line()?;
        let mut framing = BodyFraming::Length(0);
        loop {
            let line = self.read_line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok((status, framing));
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                framing = BodyFraming::Length(length.trim().parse()?);
            } else if line.starts_with("transfer-encoding:") {
                framing = BodyFraming::Chunked;
            }
        }
    }

    /// Reads one chunk. Returns false at the last one.
    fn read_chunk(&mut self, response: &mut Vec<u8>) -> anyhow::Result<bool> {
        let size = usize::from_str_radix(&self.read_line()?, 16).context("read the size of a chunk")?;
        self.read_part(response, size)?;
        self.read_line()?;
        Ok(size > 0)
    }

    fn read_part(&mut self, response: &mut Vec<u8>, length: usize) -> anyhow::Result<()> {
        let start = response.len();
        response.resize(start + length, 0);
        self.connection.read_exact(&mut response[start..]).context("read a response")
    }

    fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.connection.read_line(&mut line).context("read a response")? == 0 {
            bail!("the server closed the connection");
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

/// The way in which the end of a body is known.
#[derive(Debug, Clone, Copy)]
enum BodyFraming {
    Length(usize),
    Chunked,
}

/// Returns the body of a request for a run with the stream of a chat client, on a thread that may be new.
pub fn chat_run_body(prompt: &str) -> Value {
    json!({
        "assistant_id": "agent", "if_not_exists": "create", "stream_mode": ["values", "messages-tuple"],
        "stream_resumable": true, "input": {"messages": [{"type": "human", "content": prompt}]},
    })
}

/// Returns the id of a thread that does not exist yet: a UUID of version 7 with a counter in place of random bits.
pub fn new_thread_id() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let milliseconds = now.map_or(0, |time| time.as_millis() as u64) & 0xffff_ffff_ffff;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let process = u64::from(std::process::id()) & 0xfff;
    format!("{:08x}-{:04x}-7{process:03x}-8000-{number:012x}", milliseconds >> 16, milliseconds & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_new_threads_are_distinct_uuids() {
        let (first, second) = (new_thread_id(), new_thread_id());
        assert_ne!(first, second);
        assert_eq!((first.len(), first.as_bytes()[14], first.as_bytes()[19]), (36, b'7', b'8'));
    }
}
