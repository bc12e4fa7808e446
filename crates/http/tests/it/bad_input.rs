//! Invalid requests: each gets a 4xx status and a text that names the problem, and none of them causes a server error.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixture::{ServerFixture, TestCaller, read_response};

const UNKNOWN_ID: &str = "018f0000-0000-7000-8000-00000000000f";

/// Method, path (`{t}` is an existing thread, `{n}` an unknown id), body, expected status, expected part of the text.
const CASES: &[(&str, &str, &str, u16, &str)] = &[
    ("GET", "/nothing/here", "", 404, "Not Found"),
    ("POST", "/nothing/here", "{}", 404, "Not Found"),
    ("PUT", "/threads", "{}", 405, "Method Not Allowed"),
    ("DELETE", "/assistants/search", "", 405, "Method Not Allowed"),
    ("POST", "/assistants", "{}", 404, "Not Found"),
    // Ids.
    ("GET", "/threads/nothing", "", 422, "Invalid thread ID: must be a UUID"),
    ("GET", "/threads/{n}", "", 404, "not found"),
    ("PATCH", "/threads/{n}", "{}", 404, "not found"),
    ("DELETE", "/threads/{n}", "", 404, "not found"),
    ("POST", "/threads/{n}/copy", "", 404, "not found"),
    ("GET", "/threads/{n}/state", "", 404, "not found"),
    ("POST", "/threads/{n}/state", "{}", 404, "not found"),
    ("POST", "/threads/{n}/history", "{}", 404, "not found"),
    ("GET", "/threads/%ff/state", "", 422, "UTF-8"),
    ("GET", "/threads/..%2f..%2fetc", "", 422, "must be a UUID"),
    ("GET", "/assistants/other", "", 422, "Invalid assistant"),
    ("GET", "/assistants/{n}/graph", "", 404, "not found"),
    // Bodies that are not JSON, or not an object.
    ("POST", "/threads", "", 422, "Invalid JSON in request body"),
    ("POST", "/threads", "{", 422, "Invalid JSON in request body"),
    ("POST", "/threads", "[]", 422, "must be a JSON object"),
    ("POST", "/threads", "null", 422, "must be a JSON object"),
    ("POST", "/threads", "\"x\"", 422, "must be a JSON object"),
    ("POST", "/threads/search", "{\"metadata\":{\"a\":\"\\ud800\"}}", 422, "Invalid JSON"),
    // Fields.
    ("POST", "/threads", "{\"thread_id\":\"x\"}", 422, "`thread_id`"),
    ("POST", "/threads", "{\"thread_id\":3}", 422, "`thread_id`"),
    ("POST", "/threads", "{\"metadata\":[]}", 422, "`metadata`"),
    ("POST", "/threads", "{\"if_exists\":\"ignore\"}", 422, "`if_exists`"),
    (
        "POST",
        "/threads",
        "{\"supersteps\":[{\"updates\":[{\"values\":3}]}]}",
        422,
        "`supersteps[0].updates[0].values`",
    ),
    ("PATCH", "/threads/{t}", "{\"metadata\":\"x\"}", 422, "`metadata`"),
    ("POST", "/threads/search", "{\"limit\":0}", 422, "`limit`"),
    ("POST", "/threads/search", "{\"limit\":1001}", 422, "`limit`"),
    ("POST", "/threads/search", "{\"limit\":-1}", 422, "`limit`"),
    ("POST", "/threads/search", "{\"offset\":-1}", 422, "`offset`"),
    ("POST", "/threads/search", "{\"offset\":18446744073709551615}", 422, "`offset`"),
    ("POST", "/threads/search", "{\"status\":\"done\"}", 422, "`status`"),
    ("POST", "/threads/search", "{\"ids\":[\"x\"]}", 422, "Invalid thread ID"),
    ("POST", "/threads/search", "{\"sort_by\":\"name\"}", 422, "`sort_by`"),
    ("POST", "/threads/search", "{\"sort_order\":\"up\"}", 422, "`sort_order`"),
    ("POST", "/threads/search", "{\"select\":[\"secret\"]}", 422, "`select`"),
    ("POST", "/threads/search", "{\"extract\":{\"a\":\"x[\"}}", 422, "`extract.a`"),
    ("POST", "/threads/count", "{\"status\":3}", 422, "`status`"),
    ("POST", "/assistants/search", "{\"limit\":5000}", 422, "`limit`"),
    ("POST", "/assistants/search", "{\"metadata\":3}", 422, "`metadata`"),
    ("POST", "/threads/{t}/history", "{\"limit\":0}", 422, "`limit`"),
    ("POST", "/threads/{t}/history", "{\"before\":3}", 422, "`before`"),
    ("POST", "/threads/{t}/history", "{\"before\":\"nothing\"}", 404, "checkpoint"),
    ("GET", "/threads/{t}/history?limit=x", "", 422, "`limit`"),
    ("GET", "/threads/{t}/state?subgraphs=perhaps", "", 422, "`subgraphs`"),
    ("GET", "/threads/{t}/state/nothing", "", 404, "checkpoint"),
    ("POST", "/threads/{t}/state/checkpoint", "{}", 422, "`checkpoint`"),
    ("POST", "/threads/{t}/state", "{\"values\":[1]}", 400, "`values`"),
    ("POST", "/threads/{t}/state", "{\"as_node\":3}", 422, "`as_node`"),
    ("GET", "/ok?check_db=perhaps", "", 422, "`check_db`"),
    // The store.
    ("PUT", "/store/items", "{\"namespace\":[],\"key\":\"k\",\"value\":{}}", 400, "namespace is empty"),
    ("PUT", "/store/items", "{\"namespace\":[\"langgraph\"],\"key\":\"k\",\"value\":{}}", 400, "reserved"),
    ("PUT", "/store/items", "{\"namespace\":[\"a.b\"],\"key\":\"k\",\"value\":{}}", 422, "a.b"),
    ("PUT", "/store/items", "{\"namespace\":[\"\"],\"key\":\"k\",\"value\":{}}", 422, "label"),
    ("PUT", "/store/items", "{\"namespace\":[\"a\"],\"key\":\"k\",\"value\":3}", 422, "`value`"),
    ("PUT", "/store/items", "{\"namespace\":[\"a\"],\"value\":{}}", 422, "`key`"),
    ("GET", "/store/items?namespace=a", "", 422, "`key`"),
    ("GET", "/store/items?key=k", "", 400, "namespace is empty"),
    ("POST", "/store/items/search", "{\"filter\":{\"a\":{\"$near\":1}}}", 422, "$near"),
    ("POST", "/store/items/search", "{\"limit\":0}", 422, "`limit`"),
    ("POST", "/store/namespaces", "{\"prefix\":\"a\"}", 422, "`prefix`"),
];

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_and_the_problem_is_named() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    for (method, path, body, expected, part) in CASES {
        let path = path.replace("{t}", &thread).replace("{n}", UNKNOWN_ID);
        let request = server.request(TestCaller::Local, method.parse().unwrap(), &path).body(*body);
        let (status, response) = read_response(request.send().await.unwrap()).await;
        assert_eq!(status.as_u16(), *expected, "{method} {path} {body}: {response}");
        let detail = response["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(part), "{method} {path} {body}: {response}");
        assert!(response["code"].is_string(), "{response}");
    }
    server.stop().await;
}

/// Method and path of endpoints that take a body.
const BODY_ENDPOINTS: &[(&str, &str)] = &[
    ("POST", "/threads"),
    ("PATCH", "/threads/{t}"),
    ("POST", "/threads/search"),
    ("POST", "/threads/count"),
    ("POST", "/threads/{t}/history"),
    ("POST", "/threads/{t}/state"),
    ("POST", "/threads/{t}/commands"),
    ("POST", "/threads/{t}/runs/wait"),
    ("POST", "/runs/wait"),
    ("POST", "/runs/batch"),
    ("POST", "/runs/cancel"),
    ("PUT", "/store/items"),
    ("POST", "/store/items/search"),
    ("POST", "/store/namespaces"),
    ("POST", "/api/handoffs/{n}/decision"),
    ("POST", "/api/threads/{t}/compact"),
    ("POST", "/api/threads/{t}/fork"),
    ("POST", "/api/threads/{t}/pins"),
    ("POST", "/api/threads/{t}/rewind"),
    ("POST", "/api/memory/remember"),
];

/// Returns the bodies of the corpus of fuzz targets: as they are, and with the fields that endpoints require.
fn corpus_bodies() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzzing/corpus");
    let mut bodies = Vec::new();
    for target in ["requests", "decisions"] {
        for file in std::fs::read_dir(corpus.join(target)).unwrap() {
            let body = std::fs::read(file.unwrap().path()).unwrap();
            if let Ok(fields @ Value::Object(_)) = serde_json::from_slice::<Value>(&body) {
                let mut complete = fields.clone();
                complete["assistant_id"] = json!("agent");
                complete["values"] = fields["input"].clone();
                complete["id"] = json!(1);
                complete["method"] = json!("run.start");
                complete["params"] = complete.clone();
                bodies.push(serde_json::to_vec(&complete).unwrap());
            }
            bodies.push(body);
        }
    }
    bodies
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_of_the_corpus_of_fuzz_targets_causes_a_server_error() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    let bodies = corpus_bodies();
    assert!(bodies.len() > 30, "the corpus has {} bodies", bodies.len());
    for (method, path) in BODY_ENDPOINTS {
        let path = path.replace("{t}", &thread).replace("{n}", UNKNOWN_ID);
        for body in &bodies {
            let request = server.request(TestCaller::Local, method.parse().unwrap(), &path);
            let (status, response) = read_response(request.body(body.clone()).send().await.unwrap()).await;
            let shown = String::from_utf8_lossy(body);
            assert!(!status.is_server_error(), "{method} {path} {shown}: {status} {response}");
            let has_reason = response["detail"].is_string() && response["code"].is_string();
            assert!(!status.is_client_error() || has_reason, "{method} {path} {shown}: {status} {response}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_and_unusual_content_types_are_ignored() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let (status, _) =
        server.post("/threads", &json!({"unknown": {"x": 1}, "ttl": null, "metadata": null})).await;
    assert_eq!(status, 200);
    let request = server
        .request(TestCaller::Local, Method::POST, "/threads/search")
        .header("content-type", "text/plain");
    assert_eq!(request.body("{}").send().await.unwrap().status(), 200);
    let request =
        server.request(TestCaller::Local, Method::GET, &format!("/threads/{thread}?include=ttl&x=y"));
    assert_eq!(request.header("content-type", "application/json").send().await.unwrap().status(), 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_with_a_trailing_slash_redirects_to_the_endpoint() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let request = server.request(TestCaller::Local, Method::GET, &format!("/threads/{thread}/?x=y"));
    let (status, body) = read_response(request.send().await.unwrap()).await;
    assert_eq!((status.as_u16(), &body["thread_id"]), (200, &json!(thread)));
    let (status, _) = server.get("//evil.example/").await;
    assert_eq!(status, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_cut_off_changes_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let server = ServerFixture::start_default().await;
    for cut in [
        "POST /threads HT",
        "POST /threads HTTP/1.1\r\nhost: localhost\r\n",
        "POST /threads HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{\"metadata\"",
    ] {
        let address = server.url.trim_start_matches("http://");
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(
                cut.replace("\r\n\r\n", &format!("\r\nx-api-key: {}\r\n\r\n", server.token)).as_bytes(),
            )
            .await
            .unwrap();
        drop(stream);
    }
    assert_eq!(server.post("/threads/count", &json!({})).await.1, json!(0));
    server.stop().await;
}
