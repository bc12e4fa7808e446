//! Invalid requests: each is refused with a status and a text that describes the error, and changes
//! nothing.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::client::ApiClient;
use super::{import_session, owner_client};
use crate::sandbox::{TestSandbox, sample_session};
use crate::server::ServeProcess;

/// A UUID that names nothing.
const UNKNOWN_ID: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

#[test]
fn missing_resources_are_404_and_malformed_ids_are_422() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = import_session(&api);
    let fill_path = |path: &str| path.replace("{t}", &thread).replace("{x}", UNKNOWN_ID);
    for (path, status) in [
        ("/api/threads/{x}/history", 404),
        ("/api/threads/nonsense/history", 422),
        ("/api/threads/{t}/history?limit=0", 422),
        ("/api/threads/{t}/history?limit=-1", 422),
        ("/api/threads/{t}/history?limit=1001", 422),
        ("/api/threads/{t}/history?before_seq=x", 422),
        ("/api/threads/{t}/history?after_seq=99999999999999999999", 422),
        ("/api/threads/{t}/history?shown=some", 422),
        ("/api/threads/{t}/history?superseded=perhaps", 422),
        ("/api/threads/{t}/history/markers/x/messages", 422),
        ("/api/threads/{t}/history/markers/9/messages", 404),
        ("/api/threads/{t}/runs/{x}/events", 404),
        ("/api/threads/{t}/runs/x/events", 422),
        ("/api/threads/{t}/runs/{x}/feedback", 404),
        ("/api/threads/{x}/context", 404),
        ("/api/threads/{x}/lineage", 404),
        ("/api/threads/{t}/export?format=docx", 422),
        ("/api/threads/{t}/artifacts/zz", 422),
        ("/api/handoffs/{x}", 404),
        ("/api/handoffs/x", 422),
        ("/api/handoffs?status=open", 422),
        ("/api/handoffs?limit=5000", 422),
        ("/api/handoffs?thread_id=x", 422),
        ("/api/search", 422),
        ("/api/search?q=%3F%3F", 422),
        ("/api/search?q=a&kinds=thread", 422),
        ("/api/search?q=a&since=yesterday", 422),
        ("/api/search?q=a&thread_id={x}", 404),
        ("/api/memory/summaries?limit=0", 422),
        ("/api/nothing", 404),
    ] {
        let answer = api.get(&fill_path(path));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.json()["detail"].is_string(), "{path}");
    }
    assert_eq!(api.delete("/api/memory").status, 405);
}

#[test]
fn invalid_bodies_are_refused_with_the_name_of_the_field() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = import_session(&api);
    let in_thread = |action: &str| format!("/api/threads/{thread}/{action}");
    for (path, body, what) in [
        (in_thread("compact"), json!({"keep": {"messages": "x"}}), "keep"),
        (in_thread("compact"), json!({"keep": {"fraction": 2.0}}), "keep.fraction"),
        (in_thread("compact"), json!([]), "JSON object"),
        (in_thread("rewind"), json!({}), "keep_seq"),
        (in_thread("rewind"), json!({"keep_seq": -1}), "keep_seq"),
        (in_thread("handoffs"), json!({"messages": 0}), "messages"),
        (in_thread("handoffs"), json!({"goal": 7}), "goal"),
        ("/api/memory/remember".to_owned(), json!({"text": "  "}), "text"),
        ("/api/memory/remember".to_owned(), json!({}), "text"),
    ] {
        api.post(&path, &body).assert_refused(422, what);
    }
    api.post(&in_thread("rewind"), &json!({"keep_seq": u64::MAX})).assert_refused(404, "find event");
    for body in ["", "{", "nonsense", "{\"text\": \"\\ud800\"}"] {
        api.send("POST", "/api/memory/remember", &[], body.as_bytes()).assert_refused(422, "");
    }
    api.post(&format!("/api/handoffs/{UNKNOWN_ID}/decision"), &json!({"decisions": [{"type": "approve"}]}))
        .assert_refused(404, "");
    assert_eq!(sandbox.threads().len(), 1);
    assert_eq!(sandbox.read_agent_md(), None);
}

#[test]
fn a_session_is_imported_once_from_a_body_or_a_form_and_other_content_is_refused() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = import_session(&api);
    let second_import = import_form(&api, sample_session().as_bytes());
    assert_eq!(second_import["threads"][0]["thread_id"], thread.as_str(), "{second_import}");
    assert_eq!(
        (&second_import["threads"][0]["is_new"], &second_import["threads"][0]["events_new"]),
        (&json!(false), &json!(0))
    );
    for body in [&b""[..], b"no session at all", b"\x00\x01\x02\xff\xfe", b"{\"a\": 1}"] {
        api.send("POST", "/api/import", &[], body).assert_refused(422, "request body");
    }
    api.send("POST", "/api/import", &["content-type: multipart/form-data"], b"x").assert_refused(422, "form");
    assert_eq!(sandbox.threads().len(), 1);
    // The temporary file of the upload is deleted.
    let remaining_files = std::fs::read_dir(sandbox.home())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tmp"));
    assert_eq!(remaining_files.count(), 0);
}

fn import_form(api: &ApiClient, bytes: &[u8]) -> Value {
    let mut body =
        b"--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"session.jsonl\"\r\n\r\n".to_vec();
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n--b--\r\n");
    api.send("POST", "/api/import", &["content-type: multipart/form-data; boundary=b"], &body).json()
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let mut connection = TcpStream::connect(&api.addr).unwrap();
    let head = format!(
        "POST /api/import HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-length: 100000\r\n\r\n",
        api.addr,
        api.key.as_deref().unwrap()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(sample_session().as_bytes()).unwrap();
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    let mut response = Vec::new();
    // The client receives either an error or no response.
    let _ = connection.read_to_end(&mut response);
    assert!(sandbox.threads().is_empty());
    assert_eq!(api.get("/api/agent").status, 200);
}
