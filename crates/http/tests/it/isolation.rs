//! K1 over every endpoint: what belongs to one user is not there for another, whatever is asked and however. The endpoints
//! are those of the server's own document, so that one that is added without a case fails here.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::sse::Events;
use crate::world::{As, World};

/// A word that only Ada says. It is in her messages, her notes, her store and her memory.
const WORD: &str = "xylophonium";

/// Endpoints that are answered to anybody.
const OPEN: [&str; 5] = ["/", "/ok", "/info", "/docs", "/openapi.json"];

/// Endpoints that follow a thread which need not be there yet: a stranger is told nothing, for ever.
const WAITING: [&str; 1] = ["/threads/{thread_id}/stream/events"];

/// What Ada has.
struct Ada {
    key: String,
    thread: String,
    run: String,
    checkpoint: String,
    handoff: String,
    interrupt: String,
    file: String,
}

impl Ada {
    async fn settled_in(world: &World) -> Self {
        let key = world.key("ada").await;
        let who = As::Key(&key);
        let thread = world.talk(who, &format!("my {WORD} is broken, look at src/{WORD}.rs")).await;
        let shown = json!([
            {"type": "text", "text": format!("a picture of my {WORD}")},
            {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "iVBORw0KGgo="},
        ]);
        let message = json!({"messages": [{"role": "user", "content": shown}]});
        let shows = json!({"assistant_id": "agent", "input": message});
        assert_eq!(
            world.send(who, (Method::POST, &format!("/threads/{thread}/runs/wait")), &shows).await.0,
            200
        );
        let get = async |path: String| world.send(who, (Method::GET, &path), &Value::Null).await.1;
        let run = get(format!("/threads/{thread}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
        let checkpoint =
            get(format!("/threads/{thread}/state")).await["checkpoint_id"].as_str().unwrap().to_owned();
        let note = json!({"metadata": {"note": WORD}});
        world.send(who, (Method::PATCH, &format!("/threads/{thread}")), &note).await;
        let item = json!({"namespace": ["notes"], "key": "k", "value": {"text": WORD}});
        assert_eq!(world.send(who, (Method::PUT, "/store/items"), &item).await.0, 204);
        let remembered = world
            .send(who, (Method::POST, "/api/memory/remember"), &json!({"text": format!("the {WORD} is red")}))
            .await;
        assert!(remembered.0.is_success(), "{remembered:?}");
        let thumb = json!({"rating": 1, "comment": WORD});
        let path = format!("/api/threads/{thread}/runs/{run}/feedback");
        assert!(world.send(who, (Method::PUT, &path), &thumb).await.0.is_success());
        let (status, asked) =
            world.send(who, (Method::POST, &format!("/api/threads/{thread}/handoffs")), &json!({})).await;
        assert!(status.is_success(), "{asked}");
        let listed = get("/api/handoffs".to_owned()).await;
        let text = listed.to_string();
        let at = text.find("\"handoff_id\":\"").unwrap_or_else(|| panic!("{listed}")) + 14;
        let handoff = text[at..at + 36].to_owned();
        let asked = get(format!("/threads/{thread}/state")).await;
        let interrupt = asked["interrupts"][0]["id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
        let history = get(format!("/api/threads/{thread}/history")).await.to_string();
        let at = history.find("\"sha256\":\"").unwrap_or_else(|| panic!("{history}")) + 10;
        let file = history[at..at + 64].to_owned();
        Self { key, thread, run, checkpoint, handoff, interrupt, file }
    }

    /// Returns the path with what Ada has in its places.
    fn fill(&self, path: &str) -> String {
        path.replace("{thread_id}", &self.thread)
            .replace("{run_id}", &self.run)
            .replace("{checkpoint_id}", &self.checkpoint)
            .replace("{handoff_id}", &self.handoff)
            .replace("{assistant_id}", "agent")
            .replace("{namespace}", "x")
            .replace("{sha256}", &self.file)
            .replace("{seq}", "1")
    }

    /// Returns everything Ada sees of her own.
    async fn everything(&self, world: &World) -> Vec<Value> {
        let who = As::Key(&self.key);
        let mut seen = Vec::new();
        for path in [
            "/threads/{thread_id}",
            "/threads/{thread_id}/state",
            "/threads/{thread_id}/runs",
            "/api/threads/{thread_id}/history",
            "/api/handoffs/{handoff_id}",
            "/api/memory/agent_md",
            "/store/items?key=k&namespace=notes",
        ] {
            let (status, body) = world.send(who, (Method::GET, &self.fill(path)), &Value::Null).await;
            assert_eq!(status, 200, "{path} {body}");
            assert!(path.contains("runs") || body.to_string().contains(WORD), "{path} {body}");
            seen.push(body);
        }
        seen
    }
}

/// Returns what a stranger sends there. None of it is Ada's, but for the names in the path and what she is asked.
fn body(method: &Method, path: &str, ada: &Ada) -> Vec<Value> {
    if path == "/threads/{thread_id}/commands" {
        let answer = json!({"decisions": [{"type": "approve"}]});
        let respond = json!({"interrupt_id": ada.interrupt, "response": answer});
        let run =
            json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}});
        return vec![
            json!({"id": 1, "method": "run.start", "params": run}),
            json!({"id": 2, "method": "input.respond", "params": respond}),
        ];
    }
    vec![one_body(method, path)]
}

fn one_body(method: &Method, path: &str) -> Value {
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
        ("POST", "/api/threads/{thread_id}/fork") => json!({}),
        ("POST", "/api/threads/{thread_id}/rewind") => json!({"keep_seq": 0}),
        ("POST", "/api/threads/{thread_id}/handoffs") => json!({}),
        ("POST", "/api/handoffs/{handoff_id}/decision") => json!({"decisions": [{"type": "approve"}]}),
        ("PUT", "/api/memory/agent_md") => json!({"text": "mine"}),
        ("POST", "/api/memory/remember") => json!({"text": "the sky is blue"}),
        ("POST", "/api/import") => json!([{"role": "user", "content": "hi"}]),
        (method, path) => panic!("say here what a stranger sends to {method} {path}"),
    }
}

/// Returns every endpoint of the server's document.
async fn endpoints(world: &World) -> Vec<(Method, String)> {
    let (_, api) = world.get("/openapi.json").await;
    let mut found = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if let Ok(method) = method.to_uppercase().parse() {
                found.push((method, path.clone()));
            }
        }
    }
    assert!(found.len() > 50, "{found:?}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_what_is_adas_is_there_for_nobody_else() {
    let world = World::start().await;
    let ada = Ada::settled_in(&world).await;
    let before = ada.everything(&world).await;
    let bob = world.key("bob").await;
    for (method, template) in endpoints(&world).await {
        for who in [As::Key(&bob), As::Local] {
            check(&world, &ada, who, (&method, &template)).await;
        }
    }
    // An id that is taken is told to be no more than one that is not there.
    let supersteps = json!([{"updates": [{"values": {"messages": []}, "as_node": "model"}]}]);
    for body in [json!({}), json!({"if_exists": "do_nothing"}), json!({"supersteps": supersteps})] {
        let mut body = body;
        body["thread_id"] = ada.thread.as_str().into();
        let (status, told) = world.send(As::Key(&bob), (Method::POST, "/threads"), &body).await;
        assert_eq!(status, 404, "{body}: {told}");
    }
    assert_eq!(ada.everything(&world).await, before);
    world.stop().await;
}

/// Checks what a stranger is answered at an endpoint.
async fn check(world: &World, ada: &Ada, who: As<'_>, (method, template): (&Method, &str)) {
    for body in body(method, template, ada) {
        check_one(world, ada, (who, body), (method, template)).await;
    }
}

async fn check_one(
    world: &World,
    ada: &Ada,
    (who, mut body): (As<'_>, Value),
    (method, template): (&Method, &str),
) {
    let changes_notes = (method, template) == (&Method::PUT, "/api/memory/agent_md");
    if changes_notes {
        let own = world.send(who, (Method::GET, template), &Value::Null).await.1;
        body["sha256"] = own["sha256"].clone();
    }
    let request = world.request(who, method.clone(), &ada.fill(template));
    let request = if body.is_null() { request } else { request.json(&body) };
    let response = request.send().await.unwrap();
    let status = response.status();
    if WAITING.contains(&template) {
        // What it is told while Ada's run works has a test of its own.
        return assert_eq!(status, 200, "{method} {template}");
    }
    let text = response.text().await.unwrap();
    assert!(!text.contains(WORD), "{method} {template} told a stranger {text}");
    assert!(!status.is_server_error(), "{method} {template}: {status} {text}");
    assert!(!changes_notes || status == 200, "{status} {text}");
    let is_adas = ["{thread_id}", "{run_id}", "{handoff_id}"].iter().any(|name| template.contains(name));
    match template {
        // The protocol answers 200 with an error in it, and one that begins a run may say that the id is taken.
        "/threads/{thread_id}/commands" => assert!(text.contains("\"error\""), "{method} {template}: {text}"),
        _ if is_adas && method == Method::POST && template.contains("/runs") => {
            assert_eq!(status, 404, "{method} {template}: {text}");
        }
        _ if is_adas => assert_eq!(status, 404, "{method} {template}: {text}"),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_who_follows_a_thread_of_somebody_else_is_told_nothing_while_it_works() {
    let world = World::start().await;
    let (ada, bob) = (world.key("ada").await, world.key("bob").await);
    let thread = world.talk(As::Key(&ada), &format!("my {WORD} is broken")).await;
    let follow = async |who| {
        let path = format!("/threads/{thread}/stream/events");
        let filter = json!({"channels": ["values", "messages", "lifecycle"]});
        Events::of(world.request(who, Method::POST, &path).json(&filter)).await
    };
    let mut strangers = [follow(As::Key(&bob)).await, follow(As::Local).await];
    let mut own = follow(As::Key(&ada)).await;
    let run = json!({
        "assistant_id": "agent", "stream_resumable": true,
        "input": {"messages": [{"role": "user", "content": format!("and my {WORD}?")}]},
    });
    let path = format!("/threads/{thread}/runs/wait");
    assert_eq!(world.send(As::Key(&ada), (Method::POST, &path), &run).await.0, 200);
    // Ada is told, of this run and of none before.
    let told = own.until("values").await;
    assert!(told.iter().any(|event| event.text.contains(WORD)), "{told:?}");
    for stranger in &mut strangers {
        // Whoever listens and whoever comes later: the stream is kept by now.
        let told = tokio::time::timeout(Duration::from_millis(300), stranger.next()).await;
        assert!(told.is_err(), "a stranger was told {told:?}");
    }
    let told =
        tokio::time::timeout(Duration::from_millis(300), async { follow(As::Key(&bob)).await.next().await })
            .await;
    assert!(told.is_err(), "a stranger was told {told:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_nobody_comes_in_anywhere_without_a_key() {
    let world = World::start().await;
    let ada = Ada::settled_in(&world).await;
    for (method, template) in endpoints(&world).await {
        let path = ada.fill(&template);
        let status =
            world.request(As::Nobody, method.clone(), &path).body("{}").send().await.unwrap().status();
        let is_open = OPEN.contains(&template.as_str());
        assert_eq!(status == 401, !is_open, "{method} {path}: {status}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_paths_of_the_matrix_lead_to_what_is_there() {
    let world = World::start().await;
    let ada = Ada::settled_in(&world).await;
    for (method, template) in endpoints(&world).await {
        // Streams that follow a thread do not end.
        let is_endless = template.ends_with("{thread_id}/stream");
        if method != Method::GET || is_endless {
            continue;
        }
        let path = ada.fill(&template);
        let status = world.request(As::Key(&ada.key), method, &path).send().await.unwrap().status().as_u16();
        // What a path cannot say stands behind its `?`, and some points are no markers.
        let is_there = status == 200
            || (status == 422 && !template.contains("{thread_id}"))
            || template.contains("markers");
        assert!(is_there, "{path}: {status}");
    }
    world.stop().await;
}
