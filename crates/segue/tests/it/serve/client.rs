//! An HTTP client that writes requests by hand: one connection per request, and no HTTP library between the
//! test and the bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Maximum time for a response before the test fails.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// A client of one server.
#[derive(Debug, Clone)]
pub struct ApiClient {
    pub addr: String,
    /// Value of the `x-api-key` header.
    pub key: Option<String>,
}

/// A response.
#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ApiResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks that the request was refused with this status and with a body that contains `what`.
    #[track_caller]
    pub fn assert_refused(&self, status: u16, what: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        let envelope = self.json();
        assert!(envelope["detail"].as_str().unwrap().contains(what), "{what}: {envelope}");
        assert!(envelope["code"].is_string(), "{envelope}");
    }
}

impl ApiClient {
    pub fn get(&self, path: &str) -> ApiResponse {
        self.send("GET", path, &[], b"")
    }

    pub fn delete(&self, path: &str) -> ApiResponse {
        self.send("DELETE", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> ApiResponse {
        self.send("POST", path, &["content-type: application/json"], body.to_string().as_bytes())
    }

    pub fn put(&self, path: &str, body: &Value) -> ApiResponse {
        self.send("PUT", path, &["content-type: application/json"], body.to_string().as_bytes())
    }

    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> ApiResponse {
        let mut connection = TcpStream::connect(&self.addr).unwrap();
        connection.set_read_timeout(Some(ANSWER_WAIT_MAX)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.addr);
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        if let Some(key) = &self.key {
            head.push_str(&format!("x-api-key: {key}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        connection.write_all(head.as_bytes()).unwrap();
        // A server that refuses a request after its head does not read the body, so the write may
        // fail.
        let _ = connection.write_all(body);
        let mut bytes = Vec::new();
        let _ = connection.read_to_end(&mut bytes);
        parse_response(&bytes)
    }
}

fn parse_response(bytes: &[u8]) -> ApiResponse {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = &bytes[end + 4..];
    let body = if is_chunked { decode_chunks(body) } else { body.to_vec() };
    ApiResponse { status, headers, body }
}

fn decode_chunks(mut remaining: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = remaining.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&remaining[..end]).unwrap();
        let size = usize::from_str_radix(size.split(';').next().unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        body.extend_from_slice(&remaining[end + 2..end + 2 + size]);
        remaining = &remaining[end + 4 + size..];
    }
    body
}
