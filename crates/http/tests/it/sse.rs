//! A client for server-sent events (SSE) that gives tests the exact bytes of each event.

use bytes::Bytes;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// A received event.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedEvent {
    pub name: String,
    pub data: Value,
    pub id: Option<String>,
    /// The raw text of the event.
    pub text: String,
}

/// A stream of events, read one by one.
pub struct SseReader {
    response: Response,
    buffer: Vec<u8>,
    /// The length of the buffer's prefix that is known to contain no end of an event.
    scanned: usize,
    /// Number of comments, such as heartbeats.
    pub comments: usize,
}

impl SseReader {
    /// Sends the request and expects an event stream as the response.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let status = response.status();
        if status != 200 {
            unreachable!("{status}: {}", response.text().await.unwrap());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, buffer: Vec::new(), scanned: 0, comments: 0 }
    }

    pub fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Returns the id of the stream's run, from the `content-location` header.
    pub fn run_id(&self) -> String {
        self.header("content-location").rsplit('/').next().unwrap().to_owned()
    }

    /// Returns the next event; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<ReceivedEvent> {
        loop {
            let scanned = self.scanned;
            if let Some(end) = self.buffer[scanned..].windows(2).position(|pair| pair == b"\n\n") {
                let end = scanned + end;
                self.scanned = 0;
                let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let text = String::from_utf8(text).unwrap();
                if text.starts_with(':') {
                    self.comments += 1;
                    continue;
                }
                return Some(parse_event(text));
            }
            self.scanned = self.buffer.len().saturating_sub(1);
            let chunk: Option<Bytes> = self.response.chunk().await.unwrap();
            match chunk {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => {
                    assert!(
                        self.buffer.is_empty(),
                        "half an event: {:?}",
                        String::from_utf8_lossy(&self.buffer)
                    );
                    return None;
                }
            }
        }
    }

    /// Reads up to the first event of that name; returns all events read.
    pub async fn read_until(&mut self, name: &str) -> Vec<ReceivedEvent> {
        let mut received = Vec::new();
        while let Some(event) = self.next().await {
            let is_match = event.name == name;
            received.push(event);
            if is_match {
                return received;
            }
        }
        unreachable!("the stream ended without {name}: {:?}", event_names(&received))
    }

    /// Waits until `count` heartbeats have arrived, with no event in between.
    pub async fn wait_for_heartbeats(&mut self, count: usize) {
        while self.comments < count {
            let chunk = self.response.chunk().await.unwrap().expect("the stream stays open");
            assert_eq!(chunk, ": heartbeat\n\n");
            self.comments += 1;
        }
    }

    /// Reads to the end of the connection; returns the remaining events.
    pub async fn read_to_end(mut self) -> Vec<ReceivedEvent> {
        let mut received = Vec::new();
        while let Some(event) = self.next().await {
            received.push(event);
        }
        received
    }
}

/// Parses the text of one event: its name, its id and its JSON data.
fn parse_event(text: String) -> ReceivedEvent {
    let (mut name, mut data, mut id) = (String::new(), None, None);
    let mut order = Vec::new();
    for line in text.trim_end().lines() {
        let (field, value) = line.split_once(": ").unwrap();
        order.push(field.to_owned());
        match field {
            "event" => name = value.to_owned(),
            "data" => data = Some(serde_json::from_str(value).unwrap()),
            "id" => id = Some(value.to_owned()),
            other => unreachable!("{other} in {text}"),
        }
    }
    assert!(["event,data", "event,data,id"].contains(&order.join(",").as_str()), "{text}");
    ReceivedEvent { name, data: data.unwrap(), id, text }
}

/// Returns the names of the events.
pub fn event_names(events: &[ReceivedEvent]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Returns the data of the events of that name.
pub fn event_data<'a>(events: &'a [ReceivedEvent], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event.name == name).map(|event| &event.data).collect()
}
