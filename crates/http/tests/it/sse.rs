//! Server-sent events as a client reads them, byte for byte.

use bytes::Bytes;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: String,
    pub data: Value,
    pub id: Option<String>,
    /// As it was sent.
    pub text: String,
}

/// A stream that is read event by event.
pub struct Events {
    response: Response,
    kept: Vec<u8>,
    /// How much of that is known to hold no end of an event.
    looked_at: usize,
    /// Comments, such as heartbeats.
    pub comments: usize,
}

impl Events {
    /// Sends the request, which must be answered with a stream.
    pub async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let status = response.status();
        if status != 200 {
            unreachable!("{status}: {}", response.text().await.unwrap());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, kept: Vec::new(), looked_at: 0, comments: 0 }
    }

    pub fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Returns the run of the stream, as clients find it.
    pub fn run_id(&self) -> String {
        self.header("content-location").rsplit('/').next().unwrap().to_owned()
    }

    /// Returns the next event; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let from = self.looked_at;
            if let Some(end) = self.kept[from..].windows(2).position(|two| two == b"\n\n") {
                let end = from + end;
                self.looked_at = 0;
                let text: Vec<u8> = self.kept.drain(..end + 2).collect();
                let text = String::from_utf8(text).unwrap();
                if text.starts_with(':') {
                    self.comments += 1;
                    continue;
                }
                return Some(event(text));
            }
            self.looked_at = self.kept.len().saturating_sub(1);
            let chunk: Option<Bytes> = self.response.chunk().await.unwrap();
            match chunk {
                Some(chunk) => self.kept.extend_from_slice(&chunk),
                None => {
                    assert!(self.kept.is_empty(), "half an event: {:?}", String::from_utf8_lossy(&self.kept));
                    return None;
                }
            }
        }
    }

    /// Returns the first event of that name, and those before it.
    pub async fn until(&mut self, name: &str) -> Vec<Event> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            let is_it = event.name == name;
            seen.push(event);
            if is_it {
                return seen;
            }
        }
        unreachable!("the stream ended without {name}: {:?}", names(&seen))
    }

    /// Waits for so many heartbeats, in which nothing is told.
    pub async fn heartbeats(&mut self, count: usize) {
        while self.comments < count {
            let chunk = self.response.chunk().await.unwrap().expect("the stream stays open");
            assert_eq!(chunk, ": heartbeat\n\n");
            self.comments += 1;
        }
    }

    /// Returns everything that is left.
    pub async fn rest(mut self) -> Vec<Event> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            seen.push(event);
        }
        seen
    }
}

fn event(text: String) -> Event {
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
    Event { name, data: data.unwrap(), id, text }
}

/// Returns the names of the events.
pub fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Returns what the events of that name say.
pub fn data<'a>(events: &'a [Event], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event.name == name).map(|event| &event.data).collect()
}
