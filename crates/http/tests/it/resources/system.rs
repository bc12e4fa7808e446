//! Tests of the endpoints for health, version, documentation and metrics, and of the shutdown of the server.

use http::{AuthMode, ServerSettings};
use reqwest::Method;
use serde_json::json;

use crate::fixture::{ServerFixture, TestCaller, http_client, read_response};

#[tokio::test(flavor = "multi_thread")]
async fn health_and_version_need_no_authentication() {
    let server = ServerFixture::start_default().await;
    for path in ["/ok", "/ok?check_db=1", "/"] {
        let (status, body) =
            read_response(server.request(TestCaller::Anonymous, Method::GET, path).send().await.unwrap())
                .await;
        assert_eq!((status.as_u16(), body), (200, json!({"ok": true, "services": {}})), "{path}");
    }
    let (status, info) =
        read_response(server.request(TestCaller::Anonymous, Method::GET, "/info").send().await.unwrap())
            .await;
    assert_eq!(status, 200);
    assert_eq!(info["flags"]["strict_resume"], true);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_lists_all_responses_and_its_page_loads_nothing_from_other_servers() {
    let server = ServerFixture::start_default().await;
    let (_, api) = server.get("/openapi.json").await;
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"), "{}", api["openapi"]);
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(operation["tags"].is_array(), "{method} {path}");
        }
    }
    let page = server.request(TestCaller::Anonymous, Method::GET, "/docs").send().await.unwrap();
    assert!(page.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    let page = page.text().await.unwrap();
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_require_a_key() {
    let server = ServerFixture::start_default().await;
    let metrics = server
        .request(TestCaller::Local, Method::GET, "/metrics")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(metrics.contains("# TYPE segue_requests_total counter\nsegue_requests_total "), "{metrics}");
    assert_eq!(
        server.request(TestCaller::Anonymous, Method::GET, "/metrics").send().await.unwrap().status(),
        401
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_metrics_are_for_operators_only() {
    let server = ServerFixture::with_settings(|settings| ServerSettings {
        operators: vec!["ops".parse().unwrap()],
        ..settings
    })
    .await;
    let (ops, ada) = (server.create_key("ops").await, server.create_key("ada").await);
    let read = async |caller| {
        read_response(server.request(caller, Method::GET, "/metrics").send().await.unwrap()).await
    };
    for caller in [TestCaller::Local, TestCaller::Key(&ops)] {
        let (status, metrics) = read(caller).await;
        assert_eq!(status, 200, "{metrics}");
        assert!(metrics.as_str().unwrap().contains("segue_requests_total "), "{metrics}");
    }
    let (status, refusal) = read(TestCaller::Key(&ada)).await;
    assert_eq!((status.as_u16(), &refusal["code"]), (403, &json!("forbidden")));
    assert!(refusal["detail"].as_str().unwrap().contains("the key of an operator"), "{refusal}");
    assert!(refusal["hint"].as_str().unwrap().contains("--operator"), "{refusal}");
    // An operator sees no more of the data of others than any user.
    let thread = server.create_thread(TestCaller::Key(&ada)).await;
    let path = format!("/threads/{thread}");
    let hidden = server.request(TestCaller::Key(&ops), Method::GET, &path).send().await.unwrap();
    assert_eq!(hidden.status(), 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_authentication_shows_its_metrics_to_every_client() {
    let server = ServerFixture::with_settings(|_| ServerSettings::new(AuthMode::Disabled)).await;
    let response = server.request(TestCaller::Anonymous, Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j5_a_shutdown_stops_the_server_and_keeps_the_messages() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "remember this").await;
    let (url, agent) = (server.url.clone(), server.agent.clone());
    let folder = server.stop().await;
    assert!(http_client().get(format!("{url}/ok")).send().await.is_err());
    let state = agent.threads().state(thread.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(state.messages.len(), 2);
    drop(folder);
}
