//! An HTTP client with little overhead: one connection, requests as bytes, responses checked without building objects.

use std::time::Duration;

use protocol::ThreadId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error_text;

/// The end of a response head.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// The last chunk of a response with chunked encoding.
const END_OF_BODY: &[u8] = b"\r\n0\r\n\r\n";

/// The events of a run: its metadata, the first state, the chunks and the end of the answer, the last state, and the
/// end.
const EXPECTED_EVENTS: [&str; 7] =
    ["metadata", "values", "messages", "messages", "messages", "values", "end"];

/// One connection to the server.
pub struct LoadClient {
    stream: TcpStream,
    head: String,
    response: Vec<u8>,
}

impl LoadClient {
    /// Connects to the server; `key` authenticates all requests.
    pub async fn connect(address: &str, key: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(error_text)?;
        stream.set_nodelay(true).map_err(error_text)?;
        let head =
            format!("HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n");
        Ok(Self { stream, head, response: Vec::new() })
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
        self.stream.write_all(request.as_bytes()).await.map_err(error_text)?;
        self.response.clear();
        while !self.response.ends_with(END_OF_BODY) {
            self.read().await?;
        }
        check_events(&self.response).map(|()| thread_id)
    }

    /// Opens the stream of a thread and reads its head.
    pub async fn follow(&mut self, thread_id: ThreadId) -> Result<(), String> {
        let request = format!("GET /threads/{thread_id}/stream {}\r\n", self.head);
        self.stream.write_all(request.as_bytes()).await.map_err(error_text)?;
        self.response.clear();
        while !contains(&self.response, END_OF_HEAD) {
            self.read().await?;
        }
        match self.response.starts_with(b"HTTP/1.1 200") {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&self.response).into_owned()),
        }
    }

    /// Returns the number of heartbeats that arrive within `time`.
    pub async fn heartbeats(mut self, time: Duration) -> Result<usize, String> {
        let deadline = tokio::time::Instant::now() + time;
        while let Ok(read) = tokio::time::timeout_at(deadline, self.read()).await {
            read?;
        }
        Ok(String::from_utf8_lossy(&self.response).matches(": heartbeat").count())
    }

    /// Appends received bytes to the response.
    async fn read(&mut self) -> Result<(), String> {
        match self.stream.read_buf(&mut self.response).await.map_err(error_text)? {
            0 => {
                Err(format!("the server closed the connection: {}", String::from_utf8_lossy(&self.response)))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a stream contains every expected event once and in order.
fn check_events(response: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(response);
    let failure = |problem: &str| Err(format!("a stream {problem}: {text}"));
    if !text.starts_with("HTTP/1.1 200") {
        return failure("was refused");
    }
    let events: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    if events != EXPECTED_EVENTS {
        return failure("does not have the events it should");
    }
    let ids: Vec<[u64; 3]> =
        text.lines().filter_map(|line| line.strip_prefix("id: ")).map(parse_event_id).collect();
    if !ids.is_sorted_by(|left, right| left < right) {
        return failure("is out of order");
    }
    if !text.contains("An answer.") {
        return failure("lacks the answer");
    }
    Ok(())
}

/// Returns the three numbers of an event id.
fn parse_event_id(id: &str) -> [u64; 3] {
    let mut numbers = id.trim().split('-').map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

/// Returns whether the bytes contain `part`.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
