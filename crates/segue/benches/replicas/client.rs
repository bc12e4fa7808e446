//! A client that notes when it hears of what: requests as bytes, one connection each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::timing::{EventArrivals, now};

/// A client of a server.
#[derive(Clone)]
pub struct BenchClient {
    address: String,
    key: String,
}

/// A run, and its thread.
#[derive(Clone)]
pub struct BenchRun {
    pub thread: String,
    pub run: String,
    /// When it was asked for.
    pub requested_at: f64,
}

impl BenchClient {
    /// Returns a client of the server that said this of itself.
    pub fn from_announcement(about: &Value) -> Self {
        let text = |name: &str| about[name].as_str().expect("it says so").to_owned();
        let key = std::fs::read_to_string(text("token_file")).expect("it can be read");
        Self { address: text("addr"), key: key.trim().to_owned() }
    }

    /// Begins a run that is to be like that, on that thread or a new one.
    pub fn start_run(&self, like: &str, thread: Option<&str>) -> BenchRun {
        let thread = match thread {
            Some(thread) => thread.to_owned(),
            None => string_field(&self.post("/threads", &json!({})), "thread_id"),
        };
        let body = json!({
            "assistant_id": "agent", "stream_mode": ["updates"], "stream_resumable": true,
            "input": {"messages": [{"role": "user", "content": format!("{like} it is")}]},
        });
        let asked = now();
        let run = self.post(&format!("/threads/{thread}/runs"), &body);
        BenchRun { thread, run: string_field(&run, "run_id"), requested_at: asked }
    }

    /// Waits for a run's end.
    pub fn wait_for_run(&self, begun: &BenchRun) {
        let path = format!("/threads/{}/runs/{}/join", begun.thread, begun.run);
        let mut answer = String::new();
        self.send("GET", &path, "").read_to_string(&mut answer).expect("it is told");
    }

    /// Follows a run from its beginning to its end, and returns when which event was heard of.
    pub fn follow_run(&self, begun: &BenchRun) -> EventArrivals {
        let path = format!("/threads/{}/runs/{}/stream", begun.thread, begun.run);
        let mut lines = self.send("GET", &path, "").lines().map_while(Result::ok);
        let head = lines.by_ref().take_while(|line| !line.is_empty()).next().unwrap_or_default();
        assert!(head.contains(" 200 "), "{head}");
        let mut heard = EventArrivals::starting_at(now());
        for line in lines {
            if let Some(id) = line.strip_prefix("id: ") {
                let seq = id.split('-').next().and_then(|seq| seq.parse().ok());
                heard.record(seq.expect("an id begins with a seq"), now());
            }
        }
        heard
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let mut answer = String::new();
        self.send("POST", path, &body.to_string()).read_to_string(&mut answer).expect("it answers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        serde_json::from_str(body).expect("an answer is JSON")
    }

    /// Sends a request and returns what comes. The older version has a body end with the connection, and not in pieces.
    fn send(&self, method: &str, path: &str, body: &str) -> BufReader<TcpStream> {
        let mut connection = TcpStream::connect(&self.address).expect("the server is there");
        connection.set_nodelay(true).expect("it is open");
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
             last-event-id: -1\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.key,
            body.len(),
        );
        connection.write_all(request.as_bytes()).expect("it reads");
        BufReader::new(connection)
    }
}

fn string_field(answer: &Value, name: &str) -> String {
    answer[name].as_str().expect("it is in the answer").to_owned()
}
