//! Tests of the scripted model server, as a library and as a program: which reply a request gets, gates, and errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

/// Sends a request and returns the whole response.
fn post(url: &str, path: &str, body: &str) -> String {
    let mut response = String::new();
    send(url, path, body).read_to_string(&mut response).expect("the response is text");
    response
}

/// Sends a request and returns the connection.
fn send(url: &str, path: &str, body: &str) -> TcpStream {
    let host = url.strip_prefix("http://").expect("an http URL");
    let mut connection = TcpStream::connect(host).expect("the server listens");
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the request is sent");
    connection
}

#[test]
fn replies_are_played_in_order_to_the_requests_they_accept() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("for cats").when_body_contains("cat"),
        ScriptedReply::text("first"),
        ScriptedReply::text("always").when_path_contains("responses").with_repeat(),
    ]))
    .expect("it starts");
    let ask = |path: &str, text: &str| post(server.url(), path, &json!({"q": [text]}).to_string());
    assert!(ask("/v1/messages", "dog").contains("first"));
    assert!(ask("/v1/chat/completions", "a cat").contains("for cats"));
    assert!(ask("/v1/responses", "x").contains("always"));
    assert!(ask("/v1/responses", "x").contains("always"));
    let exhausted = ask("/v1/messages", "cat");
    assert!(
        exhausted.starts_with("HTTP/1.1 500") && exhausted.contains("no reply for request 5"),
        "{exhausted}"
    );
    assert!(ask("/elsewhere", "x").starts_with("HTTP/1.1 404"));
    assert_eq!(server.call_count(), 5);
    assert_eq!(server.requests()[1].path, "/v1/chat/completions");
    assert_eq!(server.requests()[1].body, json!({"q": ["a cat"]}));
}

#[test]
fn a_reply_waits_at_its_gate_until_it_is_opened() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("early").with_gate("first", GatePosition::Start),
        ScriptedReply::text("half").with_gate("second", GatePosition::End),
    ]))
    .expect("it starts");
    let mut connections: Vec<TcpStream> = (0..2)
        .map(|number| {
            let connection = send(server.url(), "/v1/messages", &json!({"q": number}).to_string());
            while server.call_count() <= number {
                std::thread::yield_now();
            }
            connection
        })
        .collect();
    let mut received = String::new();
    while !received.contains("half") {
        let mut bytes = [0; 512];
        let read = connections[1].read(&mut bytes).expect("the content comes before the gate");
        received.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert!(!received.contains("message_stop"), "{received}");
    server.open_gate("first");
    assert!(post(server.url(), "/gates/second", "").starts_with("HTTP/1.1 204"));
    for mut connection in connections {
        let mut remaining = String::new();
        connection.read_to_string(&mut remaining).expect("the response is text");
        assert!(remaining.contains("message_stop"), "{remaining}");
    }
}

#[test]
fn a_reply_for_a_turn_is_selected_in_every_wire_format() {
    let server = ScriptedServer::start(
        Script::new([
            ScriptedReply::text("second turn").when_turn_is(2, 1).with_repeat(),
            ScriptedReply::text("first turn").when_turn_is(1, 1).with_repeat(),
        ])
        .with_requests_kept(1),
    )
    .expect("it starts");
    for (path, field, user, text) in [
        ("/v1/messages", "messages", "user", "content"),
        ("/v1/chat/completions", "messages", "user", "content"),
        ("/v1/responses", "input", "user", "content"),
        ("/v1beta/models/m:streamGenerateContent", "contents", "user", "parts"),
    ] {
        let message =
            |role: &str| json!({"role": role, "type": "message", text: [{"type": "text", "text": "x"}]});
        let model = if field == "contents" { "model" } else { "assistant" };
        for (messages, expected) in [
            (vec![message(user)], "first turn"),
            (vec![message(user), message(model), message(user)], "second turn"),
        ] {
            let answer = post(server.url(), path, &json!({field: messages}).to_string());
            assert!(answer.contains(expected), "{path}: {answer}");
        }
    }
    assert_eq!((server.call_count(), server.requests().len()), (8, 1));
}

#[test]
fn a_request_of_eight_megabytes_is_accepted() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("read")])).expect("it starts");
    let answer = post(server.url(), "/v1/messages", &json!({"q": "x".repeat(8 << 20)}).to_string());
    assert!(answer.contains("read"), "{}", &answer[..answer.len().min(200)]);
}

#[test]
fn the_program_serves_a_script_from_a_file() {
    struct ChildGuard(Child);
    impl Drop for ChildGuard {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("script.json");
    std::fs::write(&file, r#"{"replies":[{"text":["hello"]}]}"#).expect("the script is written");
    let program = env!("CARGO_BIN_EXE_segue-test-model");
    let mut child = ChildGuard(
        Command::new(program).arg(&file).stdout(Stdio::piped()).spawn().expect("the program starts"),
    );
    let mut url = String::new();
    BufReader::new(child.0.stdout.take().expect("it is piped"))
        .read_line(&mut url)
        .expect("it prints its URL");
    assert!(post(url.trim(), "/v1beta/models/m:streamGenerateContent?alt=sse", "{}").contains("hello"));
}

#[test]
fn the_program_refuses_missing_and_unreadable_scripts() {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_segue-test-model")).args(arguments).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&[]).0, Some(2));
    let (code, message) = run(&["no-such-script.json"]);
    assert_eq!(code, Some(1));
    assert!(message.starts_with("failed to read the script no-such-script.json"), "{message}");
}
