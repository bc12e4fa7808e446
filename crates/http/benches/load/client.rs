//! A client that costs little: one connection, requests as bytes, answers checked as they come and never kept.

use std::time::Duration;

use protocol::ThreadId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::text;

const END_OF_HEAD: &[u8] = b"\r\n\r\n";
const END_OF_BODY: &[u8] = b"\r\n0\r\n\r\n";

/// What a run tells: its beginning, the state it begins with, two pieces and the end of the answer, and the state behind it.
const EVENTS: [&str; 7] = ["metadata", "values", "messages", "messages", "messages", "values", "end"];

/// One connection to the server.
pub struct Client {
    stream: TcpStream,
    head: String,
    answer: Vec<u8>,
}

impl Client {
    pub async fn connect(address: &str, key: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let head =
            format!("HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n");
        Ok(Self { stream, head, answer: Vec::new() })
    }

    /// Creates a run on a new thread, reads its stream to the end, and returns the thread's id.
    pub async fn run(&mut self) -> Result<ThreadId, String> {
        const BODY: &str = concat!(
            r#"{"assistant_id":"agent","if_not_exists":"create","stream_mode":["values","messages-tuple"],"#,
            r#""stream_resumable":true,"input":{"messages":[{"type":"human","content":"hi"}]}}"#
        );
        let thread_id = ThreadId::generate();
        let head = &self.head;
        let request = format!(
            "POST /threads/{thread_id}/runs/stream {head}content-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        self.stream.write_all(request.as_bytes()).await.map_err(text)?;
        self.answer.clear();
        while !self.answer.ends_with(END_OF_BODY) {
            self.read().await?;
        }
        whole(&self.answer).map(|()| thread_id)
    }

    /// Opens the stream of a thread and reads its head.
    pub async fn follow(&mut self, thread_id: ThreadId) -> Result<(), String> {
        let request = format!("GET /threads/{thread_id}/stream {}\r\n", self.head);
        self.stream.write_all(request.as_bytes()).await.map_err(text)?;
        self.answer.clear();
        while !contains(&self.answer, END_OF_HEAD) {
            self.read().await?;
        }
        match self.answer.starts_with(b"HTTP/1.1 200") {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&self.answer).into_owned()),
        }
    }

    /// Returns how many heartbeats come within `time`.
    pub async fn heartbeats(mut self, time: Duration) -> Result<usize, String> {
        let deadline = tokio::time::Instant::now() + time;
        while let Ok(read) = tokio::time::timeout_at(deadline, self.read()).await {
            read?;
        }
        Ok(String::from_utf8_lossy(&self.answer).matches(": heartbeat").count())
    }

    async fn read(&mut self) -> Result<(), String> {
        match self.stream.read_buf(&mut self.answer).await.map_err(text)? {
            0 => Err(format!("the server hung up: {}", String::from_utf8_lossy(&self.answer))),
            _ => Ok(()),
        }
    }
}

/// Checks that the stream has every event once and in order.
fn whole(answer: &[u8]) -> Result<(), String> {
    let told = String::from_utf8_lossy(answer);
    let fault = |what: &str| Err(format!("a stream {what}: {told}"));
    if !told.starts_with("HTTP/1.1 200") {
        return fault("was refused");
    }
    let events: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    if events != EVENTS {
        return fault("does not have the events it should");
    }
    let ids: Vec<[u64; 3]> =
        told.lines().filter_map(|line| line.strip_prefix("id: ")).map(position).collect();
    if !ids.is_sorted_by(|before, after| before < after) {
        return fault("is out of order");
    }
    if !told.contains("An answer.") {
        return fault("lacks the answer");
    }
    Ok(())
}

fn position(id: &str) -> [u64; 3] {
    let mut numbers = id.trim().split('-').map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
