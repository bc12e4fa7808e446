//! Tests that a user cannot see or change the data of another user (K1), for every endpoint. The endpoints are read from
//! the OpenAPI document, so that a new endpoint without a case fails here.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixture::{ServerFixture, TestCaller};
use crate::resources::facts::propose_fact;
use crate::sse::SseReader;

/// A word that occurs only in Ada's data: her messages, metadata, store and memory.
const SECRET_WORD: &str = "xylophonium";

/// Endpoints that need no authentication.
const PUBLIC_PATHS: [&str; 5] = ["/", "/ok", "/info", "/docs", "/openapi.json"];

/// Endpoints that follow a thread which may not exist yet. For another user they stay open and send nothing.
const STREAMING_PATHS: [&str; 1] = ["/threads/{thread_id}/stream/events"];

/// The data of the user Ada.
struct OwnerFixture {
    key: String,
    thread: String,
    run: String,
    checkpoint: String,
    handoff: String,
    interrupt: String,
    file: String,
    fact: String,
}

impl OwnerFixture {
    async fn with_data(server: &ServerFixture) -> Self {
        let key = server.create_key("ada").await;
        let caller = TestCaller::Key(&key);
        let thread = server
            .create_thread_with_message(
                caller,
                &format!("my {SECRET_WORD} is broken, look at src/{SECRET_WORD}.rs"),
            )
            .await;
        let content = json!([
            {"type": "text", "text": format!("a picture of my {SECRET_WORD}")},
            {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "iVBORw0KGgo="},
        ]);
        let message = json!({"messages": [{"role": "user", "content": content}]});
        let run_body = json!({"assistant_id": "agent", "input": message});
        assert_eq!(
            server.send(caller, Method::POST, &format!("/threads/{thread}/runs/wait"), &run_body).await.0,
            200
        );
        let get = async |path: String| server.send(caller, Method::GET, &path, &Value::Null).await.1;
        let run = get(format!("/threads/{thread}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
        let checkpoint =
            get(format!("/threads/{thread}/state")).await["checkpoint_id"].as_str().unwrap().to_owned();
        let note = json!({"metadata": {"note": SECRET_WORD}});
        server.send(caller, Method::PATCH, &format!("/threads/{thread}"), &note).await;
        let item = json!({"namespace": ["notes"], "key": "k", "value": {"text": SECRET_WORD}});
        assert_eq!(server.send(caller, Method::PUT, "/store/items", &item).await.0, 204);
        let remembered = server
            .send(
                caller,
                Method::POST,
                "/api/memory/remember",
                &json!({"text": format!("the {SECRET_WORD} is red")}),
            )
            .await;
        assert!(remembered.0.is_success(), "{remembered:?}");
        let pin = json!({"text": format!("the {SECRET_WORD} stays")});
        let path = format!("/api/threads/{thread}/pins");
        assert!(server.send(caller, Method::POST, &path, &pin).await.0.is_success());
        let feedback = json!({"rating": 1, "comment": SECRET_WORD});
        let path = format!("/api/threads/{thread}/runs/{run}/feedback");
        assert!(server.send(caller, Method::PUT, &path, &feedback).await.0.is_success());
        let (status, response) =
            server.send(caller, Method::POST, &format!("/api/threads/{thread}/handoffs"), &json!({})).await;
        assert!(status.is_success(), "{response}");
        let listed = get("/api/handoffs".to_owned()).await;
        let text = listed.to_string();
        let position = text.find("\"handoff_id\":\"").unwrap_or_else(|| panic!("{listed}")) + 14;
        let handoff = text[position..position + 36].to_owned();
        let state = get(format!("/threads/{thread}/state")).await;
        let interrupt = state["interrupts"][0]["id"].as_str().unwrap_or_else(|| panic!("{state}")).to_owned();
        let history = get(format!("/api/threads/{thread}/history")).await.to_string();
        let position = history.find("\"sha256\":\"").unwrap_or_else(|| panic!("{history}")) + 10;
        let file = history[position..position + 64].to_owned();
        let text = format!("The {SECRET_WORD} is old.");
        let fact = propose_fact(server, Some("ada"), &thread, &text).await.to_string();
        Self { key, thread, run, checkpoint, handoff, interrupt, file, fact }
    }

    /// Returns the path with the ids of Ada's data.
    fn fill_path(&self, path: &str) -> String {
        path.replace("{thread_id}", &self.thread)
            .replace("{run_id}", &self.run)
            .replace("{checkpoint_id}", &self.checkpoint)
            .replace("{handoff_id}", &self.handoff)
            .replace("{assistant_id}", "agent")
            .replace("{namespace}", "x")
            .replace("{sha256}", &self.file)
            .replace("{seq}", "1")
            .replace("{number}", "1")
            .replace("{revision}", "1")
            .replace("{fact_id}", &self.fact)
    }

    /// Returns the responses that Ada gets for her own data.
    async fn read_everything(&self, server: &ServerFixture) -> Vec<Value> {
        let caller = TestCaller::Key(&self.key);
        let mut responses = Vec::new();
        for path in [
            "/threads/{thread_id}",
            "/threads/{thread_id}/state",
            "/threads/{thread_id}/runs",
            "/api/threads/{thread_id}/history",
            "/api/threads/{thread_id}/pins",
            "/api/handoffs/{handoff_id}",
            "/api/memory/agent_md",
            "/api/memory/facts",
            "/api/memory/history/1",
            "/store/items?key=k&namespace=notes",
        ] {
            let (status, body) = server.send(caller, Method::GET, &self.fill_path(path), &Value::Null).await;
            assert_eq!(status, 200, "{path} {body}");
            assert!(path.contains("runs") || body.to_string().contains(SECRET_WORD), "{path} {body}");
            responses.push(body);
        }
        responses
    }
}

/// Returns the bodies that another user sends to an endpoint. They contain no data of Ada except the id of her
/// question.
fn foreign_bodies(method: &Method, path: &str, ada: &OwnerFixture) -> Vec<Value> {
    if path == "/threads/{thread_id}/commands" {
        let decisions = json!({"decisions": [{"type": "approve"}]});
        let respond = json!({"interrupt_id": ada.interrupt, "response": decisions});
        let run =
            json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}});
        return vec![
            json!({"id": 1, "method": "run.start", "params": run}),
            json!({"id": 2, "method": "input.respond", "params": respond}),
        ];
    }
    vec![foreign_body(method, path)]
}

/// Returns the body that another user sends to an endpoint; panics for an endpoint without a case.
fn foreign_body(method: &Method, path: &str) -> Value {
    let run = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}, "if_not_exists": "create"});
    match (method.as_str(), path) {
        ("GET" | "DELETE", path) if path != "/store/items" => Value::Null,
        ("GET", "/store/items") => Value::Null,
        ("PUT", "/store/items") => json!({"namespace": ["other"], "key": "k", "value": {}}),
        ("DELETE", "/store/items") => json!({"namespace": ["notes"], "key": "k"}),
        ("PATCH", "/threads/{thread_id}") => json!({"metadata": {"mine": true}}),
        ("POST", "/threads/{thread_id}/state") => {
            json!({"values": {"messages": [{"role": "user", "content": "hi"}]}})
        }
        ("POST", "/threads/{thread_id}/state/checkpoint") => json!({"checkpoint": {}}),
        ("POST", "/threads/{thread_id}/history") => json!({"limit": 100}),
        ("POST", "/threads/{thread_id}/copy") => json!({}),
        ("POST", "/threads/search" | "/threads/count") => json!({"limit": 100}),
        ("POST", "/threads" | "/assistants/search" | "/assistants/count") => json!({}),
        ("POST", "/store/items/search" | "/store/namespaces") => json!({"limit": 100}),
        ("POST", "/runs" | "/runs/wait" | "/runs/stream") => run,
        ("POST", "/runs/batch") => json!([run]),
        ("POST", "/runs/cancel") => json!({"status": "all"}),
        (
            "POST",
            "/threads/{thread_id}/runs"
            | "/threads/{thread_id}/runs/stream"
            | "/threads/{thread_id}/runs/wait",
        ) => run,
        ("POST", "/threads/{thread_id}/runs/{run_id}/cancel") => json!({}),
        ("POST", "/threads/{thread_id}/stream/events") => {
            json!({"channels": ["values", "messages", "lifecycle"]})
        }
        ("PUT", "/api/threads/{thread_id}/runs/{run_id}/feedback") => json!({"rating": -1}),
        (
            "POST",
            "/api/threads/{thread_id}/compact"
            | "/api/threads/{thread_id}/uncompact"
            | "/api/threads/{thread_id}/rehome",
        ) => json!({}),
        ("PATCH", "/api/threads/{thread_id}") => json!({"name": "mine"}),
        ("POST", "/api/threads/{thread_id}/pins") => json!({"text": "mine"}),
        ("POST", "/api/threads/{thread_id}/fork") => json!({}),
        ("POST", "/api/threads/{thread_id}/rewind") => json!({"keep_seq": 0}),
        ("POST", "/api/threads/{thread_id}/handoffs") => json!({}),
        ("POST", "/api/handoffs/{handoff_id}/decision") => json!({"decisions": [{"type": "approve"}]}),
        ("POST", "/api/handoffs/{handoff_id}/probe") => json!({}),
        ("POST", "/api/handoffs/{handoff_id}/edit-preview") => json!({"title": "mine"}),
        ("POST", "/api/handoffs/{handoff_id}/package") => json!({"summary_sha256": "0", "line": "- x"}),
        ("PUT", "/api/memory/agent_md") => json!({"text": "mine"}),
        ("POST", "/api/memory/remember") => json!({"text": "the sky is blue"}),
        ("POST", "/api/memory/facts/{fact_id}") => json!({"decision": "accept"}),
        ("POST", "/api/memory/history/{revision}/restore") => json!({}),
        ("POST", "/api/import") => json!([{"role": "user", "content": "hi"}]),
        (method, path) => panic!("add the body that another user sends to {method} {path}"),
    }
}

/// Returns the endpoints of the OpenAPI document.
async fn list_endpoints(server: &ServerFixture) -> Vec<(Method, String)> {
    let (_, api) = server.get("/openapi.json").await;
    let mut endpoints = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if let Ok(method) = method.to_uppercase().parse() {
                endpoints.push((method, path.clone()));
            }
        }
    }
    assert!(endpoints.len() > 50, "{endpoints:?}");
    endpoints
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_the_data_of_a_user_is_invisible_to_all_others() {
    let server = ServerFixture::start_default().await;
    let ada = OwnerFixture::with_data(&server).await;
    let before = ada.read_everything(&server).await;
    let bob = server.create_key("bob").await;
    for (method, template) in list_endpoints(&server).await {
        for caller in [TestCaller::Key(&bob), TestCaller::Local] {
            check_endpoint(&server, &ada, caller, Endpoint { method: &method, template: &template }).await;
        }
    }
    // For another user, an id in use and an unknown id have the same response.
    let supersteps = json!([{"updates": [{"values": {"messages": []}, "as_node": "model"}]}]);
    for body in [json!({}), json!({"if_exists": "do_nothing"}), json!({"supersteps": supersteps})] {
        let mut body = body;
        body["thread_id"] = ada.thread.as_str().into();
        let (status, response) = server.send(TestCaller::Key(&bob), Method::POST, "/threads", &body).await;
        assert_eq!(status, 404, "{body}: {response}");
    }
    assert_eq!(ada.read_everything(&server).await, before);
    server.stop().await;
}

/// An endpoint of the OpenAPI document.
#[derive(Clone, Copy)]
struct Endpoint<'a> {
    method: &'a Method,
    /// The path with its parameters in braces.
    template: &'a str,
}

/// Checks the responses that another user gets from an endpoint.
async fn check_endpoint(
    server: &ServerFixture,
    ada: &OwnerFixture,
    caller: TestCaller<'_>,
    endpoint: Endpoint<'_>,
) {
    for body in foreign_bodies(endpoint.method, endpoint.template, ada) {
        check_request(server, ada, caller, endpoint, body).await;
    }
}

/// Checks the response to one request of another user.
async fn check_request(
    server: &ServerFixture,
    ada: &OwnerFixture,
    caller: TestCaller<'_>,
    endpoint: Endpoint<'_>,
    mut body: Value,
) {
    let Endpoint { method, template } = endpoint;
    let changes_notes = (method, template) == (&Method::PUT, "/api/memory/agent_md");
    if changes_notes {
        let own_file = server.send(caller, Method::GET, template, &Value::Null).await.1;
        body["sha256"] = own_file["sha256"].clone();
    }
    let request = server.request(caller, method.clone(), &ada.fill_path(template));
    let request = if body.is_null() { request } else { request.json(&body) };
    let response = request.send().await.unwrap();
    let status = response.status();
    if STREAMING_PATHS.contains(&template) {
        // The events of the stream are checked by `k1_a_stream_of_another_users_thread_sends_nothing`.
        return assert_eq!(status, 200, "{method} {template}");
    }
    let text = response.text().await.unwrap();
    assert!(!text.contains(SECRET_WORD), "{method} {template} sent another user's data: {text}");
    assert!(!status.is_server_error(), "{method} {template}: {status} {text}");
    assert!(!changes_notes || status == 200, "{status} {text}");
    let is_adas =
        ["{thread_id}", "{run_id}", "{handoff_id}", "{fact_id}"].iter().any(|name| template.contains(name));
    match template {
        // The event-streaming protocol responds with 200 and an error in the body.
        "/threads/{thread_id}/commands" => assert!(text.contains("\"error\""), "{method} {template}: {text}"),
        _ if is_adas && method == Method::POST && template.contains("/runs") => {
            assert_eq!(status, 404, "{method} {template}: {text}");
        }
        _ if is_adas => assert_eq!(status, 404, "{method} {template}: {text}"),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_a_stream_of_another_users_thread_sends_nothing() {
    let server = ServerFixture::start_default().await;
    let (ada, bob) = (server.create_key("ada").await, server.create_key("bob").await);
    let thread = server
        .create_thread_with_message(TestCaller::Key(&ada), &format!("my {SECRET_WORD} is broken"))
        .await;
    let follow = async |caller| {
        let path = format!("/threads/{thread}/stream/events");
        let filter = json!({"channels": ["values", "messages", "lifecycle"]});
        SseReader::open(server.request(caller, Method::POST, &path).json(&filter)).await
    };
    let mut foreign_streams = [follow(TestCaller::Key(&bob)).await, follow(TestCaller::Local).await];
    let mut own_stream = follow(TestCaller::Key(&ada)).await;
    let run = json!({
        "assistant_id": "agent", "stream_resumable": true,
        "input": {"messages": [{"role": "user", "content": format!("and my {SECRET_WORD}?")}]},
    });
    let path = format!("/threads/{thread}/runs/wait");
    assert_eq!(server.send(TestCaller::Key(&ada), Method::POST, &path, &run).await.0, 200);
    // Ada's stream receives events of this run.
    let received = own_stream.read_until("values").await;
    assert!(received.iter().any(|event| event.text.contains(SECRET_WORD)), "{received:?}");
    for foreign_stream in &mut foreign_streams {
        // This stream was open during the run.
        let received = tokio::time::timeout(Duration::from_millis(300), foreign_stream.next()).await;
        assert!(received.is_err(), "a foreign stream received {received:?}");
    }
    let received = tokio::time::timeout(Duration::from_millis(300), async {
        follow(TestCaller::Key(&bob)).await.next().await
    })
    .await;
    assert!(received.is_err(), "a foreign stream received {received:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_a_summary_cannot_be_merged_into_another_users_thread() {
    let server = ServerFixture::start_default().await;
    let ada = OwnerFixture::with_data(&server).await;
    let decision = json!({"decisions": [{"type": "approve"}]});
    let path = ada.fill_path("/api/handoffs/{handoff_id}/decision");
    let accepted = server.send(TestCaller::Key(&ada.key), Method::POST, &path, &decision).await.1;
    let child = accepted["child_thread_id"].as_str().unwrap_or_else(|| panic!("{accepted}"));

    let bob = server.create_key("bob").await;
    let bob = TestCaller::Key(&bob);
    let thread = server.create_thread_with_message(bob, "hello").await;
    let path = format!("/api/threads/{thread}/handoffs");
    let unknown = "01890000-0000-7000-8000-000000000000";
    let mut refusals = Vec::new();
    for into in [child, unknown] {
        let (status, body) = server.send(bob, Method::POST, &path, &json!({"into": into})).await;
        assert_eq!(status, 404, "{body}");
        refusals.push(body.to_string().replace(into, "ID"));
    }
    // The answer does not tell that the thread exists.
    assert_eq!(refusals[0], refusals[1]);
    let (status, listed) = server.send(bob, Method::GET, "/api/handoffs?status=all", &Value::Null).await;
    assert_eq!((status.as_u16(), &listed["handoffs"]), (200, &json!([])));
    let path = format!("/api/threads/{child}/packages");
    let (_, packages) = server.send(TestCaller::Key(&ada.key), Method::GET, &path, &Value::Null).await;
    assert_eq!(packages["packages"].as_array().map(Vec::len), Some(1), "{packages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_every_endpoint_except_the_public_ones_requires_a_key() {
    let server = ServerFixture::start_default().await;
    let ada = OwnerFixture::with_data(&server).await;
    for (method, template) in list_endpoints(&server).await {
        let path = ada.fill_path(&template);
        let status = server
            .request(TestCaller::Anonymous, method.clone(), &path)
            .body("{}")
            .send()
            .await
            .unwrap()
            .status();
        let is_public = PUBLIC_PATHS.contains(&template.as_str());
        assert_eq!(status == 401, !is_public, "{method} {path}: {status}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_paths_of_the_matrix_exist_for_their_owner() {
    let server = ServerFixture::start_default().await;
    let ada = OwnerFixture::with_data(&server).await;
    for (method, template) in list_endpoints(&server).await {
        // Streams of a thread do not end.
        let is_endless = template.ends_with("{thread_id}/stream");
        if method != Method::GET || is_endless {
            continue;
        }
        let path = ada.fill_path(&template);
        let status =
            server.request(TestCaller::Key(&ada.key), method, &path).send().await.unwrap().status().as_u16();
        // Required query parameters are missing here, and position 1 is not a marker. The metrics are for operators.
        let expected = if template == "/metrics" { 403 } else { 200 };
        let exists = status == expected
            || (status == 422 && !template.contains("{thread_id}"))
            || template.contains("markers");
        assert!(exists, "{path}: {status}");
    }
    server.stop().await;
}
