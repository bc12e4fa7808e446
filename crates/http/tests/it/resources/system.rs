//! What the server tells of itself, and how it ends.

use reqwest::Method;
use serde_json::json;

use crate::world::{As, World, answer};

#[tokio::test(flavor = "multi_thread")]
async fn health_and_version_are_told_to_anybody() {
    let world = World::start().await;
    for path in ["/ok", "/ok?check_db=1", "/"] {
        let (status, body) = answer(world.request(As::Nobody, Method::GET, path).send().await.unwrap()).await;
        assert_eq!((status.as_u16(), body), (200, json!({"ok": true, "services": {}})), "{path}");
    }
    let (status, info) = answer(world.request(As::Nobody, Method::GET, "/info").send().await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(info["flags"]["strict_resume"], true);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_names_every_answer_and_the_page_loads_nothing_from_elsewhere() {
    let world = World::start().await;
    let (_, api) = world.get("/openapi.json").await;
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"), "{}", api["openapi"]);
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(operation["tags"].is_array(), "{method} {path}");
        }
    }
    let page = world.request(As::Nobody, Method::GET, "/docs").send().await.unwrap();
    assert!(page.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    let page = page.text().await.unwrap();
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_told_to_who_has_a_key() {
    let world = World::start().await;
    let metrics =
        world.request(As::Local, Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("# TYPE segue_requests_total counter\nsegue_requests_total "), "{metrics}");
    assert_eq!(world.request(As::Nobody, Method::GET, "/metrics").send().await.unwrap().status(), 401);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j5_a_server_that_is_told_to_stop_stops_and_leaves_what_was_said() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "remember this").await;
    let (url, agent) = (world.url.clone(), world.agent.clone());
    let folder = world.stop().await;
    assert!(reqwest::get(format!("{url}/ok")).await.is_err());
    let state = agent.threads().state(thread.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(state.messages.len(), 2);
    drop(folder);
}
