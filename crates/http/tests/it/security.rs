//! Tests of authentication, Host and Origin checks, and limits (invariants K).

use http::{AllowedOrigins, AuthMode, RateLimit, ServerLimits, ServerSettings};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::fixture::{ServerFixture, TestCaller, read_response};

#[tokio::test(flavor = "multi_thread")]
async fn k2_only_the_token_or_a_key_authenticates_a_request() {
    let server = ServerFixture::start_default().await;
    let key = server.create_key("ada").await;
    let status = async |name: &str, value: &str| {
        let request =
            server.request(TestCaller::Anonymous, Method::POST, "/threads/search").header(name, value);
        request.json(&json!({})).send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("x-api-key", &server.token).await, 200);
    assert_eq!(status("authorization", &format!("Bearer {}", server.token)).await, 200);
    assert_eq!(status("x-api-key", &key).await, 200);
    assert_eq!(status("authorization", &format!("bearer {key}")).await, 200);
    let mut wrong = key.clone();
    wrong.replace_range(key.len() - 1.., if key.ends_with('0') { "1" } else { "0" });
    for refused in [wrong.as_str(), "", " ", &"0".repeat(64), &server.token[..63], &key[..8]] {
        assert_eq!(status("x-api-key", refused).await, 401, "{refused}");
    }
    assert_eq!(status("cookie", &format!("token={}", server.token)).await, 401);
    let refused = server.request(TestCaller::Anonymous, Method::GET, "/nothing/here").send().await.unwrap();
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    let (status, body) = read_response(refused).await;
    assert_eq!((status.as_u16(), &body["code"]), (401, &json!("unauthorized")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_a_revoked_key_is_refused() {
    let server = ServerFixture::start_default().await;
    let key = server.create_key("ada").await;
    let status = async || {
        server.request(TestCaller::Key(&key), Method::GET, "/api/agent").send().await.unwrap().status()
    };
    assert_eq!(status().await, 200);
    let keys = server.agent.admin().keys().await.unwrap();
    server.agent.admin().revoke_key(&keys[0].key_id).await.unwrap();
    assert_eq!(status().await, 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_a_foreign_host_name_is_refused() {
    let server = ServerFixture::with_settings(|settings| ServerSettings {
        allowed_hosts: vec!["segue.example".into()],
        ..settings
    })
    .await;
    let status = async |host: &str| {
        let request = server.request(TestCaller::Local, Method::GET, "/ok").header("host", host);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("evil.example").await, 403);
    assert_eq!(status("localhost.evil.example").await, 403);
    assert_eq!(status("localhost:1").await, 200);
    assert_eq!(status("segue.example").await, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_pages_of_other_origins_are_refused_and_allowed_ones_can_read_errors() {
    let origins = AllowedOrigins::Listed(vec!["https://chat.example".into()]);
    let server =
        ServerFixture::with_settings(|settings| ServerSettings { allowed_origins: origins, ..settings })
            .await;
    let preflight = async |origin: &str| {
        let request = server.request(TestCaller::Anonymous, Method::OPTIONS, "/threads/search");
        let request = request.header("origin", origin).header("access-control-request-method", "POST");
        let request = request.header(
            "access-control-request-headers",
            "content-type,x-api-key,authorization,last-event-id,x-auth-scheme,prefer",
        );
        request.send().await.unwrap()
    };
    let allowed = preflight("https://chat.example").await;
    assert_eq!(allowed.status(), 200);
    let headers = allowed.headers();
    assert_eq!(headers["access-control-allow-origin"], "https://chat.example");
    assert!(headers["access-control-allow-headers"].to_str().unwrap().contains("last-event-id"));
    assert!(headers["access-control-allow-methods"].to_str().unwrap().contains("POST"));
    assert!(headers.contains_key("access-control-max-age"));
    for refused in ["https://evil.example", "null", "https://chat.example:444", "http://chat.example"] {
        let response = preflight(refused).await;
        assert_eq!(response.status(), 403, "{refused}");
        assert!(!response.headers().contains_key("access-control-allow-origin"), "{refused}");
    }
    let missing =
        server.request(TestCaller::Local, Method::GET, "/threads/018f0000-0000-7000-8000-000000000000");
    let missing = missing.header("origin", "https://chat.example").send().await.unwrap();
    assert_eq!(missing.status(), 404);
    assert_eq!(missing.headers()["access-control-allow-origin"], "https://chat.example");
    let exposed = missing.headers()["access-control-expose-headers"].to_str().unwrap().to_owned();
    for name in ["content-location", "location", "x-pagination-total", "x-pagination-next"] {
        assert!(exposed.contains(name), "{exposed}");
    }
    let refused = server
        .request(TestCaller::Anonymous, Method::GET, "/metrics")
        .header("origin", "http://localhost:3000");
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["access-control-allow-origin"], "http://localhost:3000");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_above_the_rate_limit_is_refused_with_a_time_to_retry() {
    let rate = Some(RateLimit { per_second: 1, burst: 3 });
    let limits = ServerLimits { rate, ..ServerLimits::default() };
    let server = ServerFixture::with_settings(|settings| ServerSettings { limits, ..settings }).await;
    let key = server.create_key("ada").await;
    let send = async |caller| server.request(caller, Method::GET, "/api/agent").send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(send(TestCaller::Key(&key)).await.status(), 200);
    }
    let refused = send(TestCaller::Key(&key)).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    for _ in 0..10 {
        assert_eq!(send(TestCaller::Local).await.status(), 200);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused() {
    let limits = ServerLimits { body_bytes_max: 1_000, ..ServerLimits::default() };
    let server = ServerFixture::with_settings(|settings| ServerSettings { limits, ..settings }).await;
    let (status, body) = server.post("/threads", &json!({"metadata": {"x": "y".repeat(2_000)}})).await;
    assert_eq!((status, &body["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("too_large")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i6_a_body_with_too_many_values_is_refused_and_stores_nothing() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let empty = vec![json!([]); 100_000];
    for (path, body) in [
        (format!("/threads/{thread}/runs"), json!({"assistant_id": "agent", "input": {"x": empty}})),
        (format!("/threads/{thread}/runs/wait"), json!({"assistant_id": "agent", "input": {"x": empty}})),
        (format!("/threads/{thread}/state"), json!({"values": {"x": empty}})),
        (
            format!("/threads/{thread}/commands"),
            json!({"id": 1, "method": "run.start", "params": {"x": empty}}),
        ),
        ("/threads".to_owned(), json!({"metadata": {"x": empty}})),
    ] {
        let (status, answer) = server.post(&path, &body).await;
        assert_eq!(
            (status, &answer["code"]),
            (StatusCode::PAYLOAD_TOO_LARGE, &json!("too_large")),
            "{path}: {answer}"
        );
    }
    let text = "x".repeat(5 << 20);
    let (status, answer) =
        server.post(&format!("/threads/{thread}/state"), &json!({"values": {"notes": text}})).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    let messages = json!({"messages": [{"role": "user", "content": text}]});
    let (status, answer) =
        server.post(&format!("/threads/{thread}/state"), &json!({"values": messages})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i6_every_endpoint_refuses_a_body_with_too_many_values_before_it_parses_it() {
    let server = ServerFixture::start_default().await;
    let document = server.get("/openapi.json").await.1;
    let body = json!({"decisions": vec![json!([]); 100_000]});
    let mut checked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation["requestBody"]["content"]["application/json"].is_null() {
                continue;
            }
            let segments = path.split('/').map(|segment| match segment.starts_with('{') {
                true => uuid::Uuid::nil().to_string(),
                false => segment.to_owned(),
            });
            let path = segments.collect::<Vec<_>>().join("/");
            let method: Method = method.to_uppercase().parse().unwrap();
            let (status, answer) = server.send(TestCaller::Local, method.clone(), &path, &body).await;
            assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{method} {path}: {answer}");
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked} endpoints");
    server.stop().await;
}

#[test]
fn k2_a_server_without_authentication_accepts_only_loopback_addresses_and_origins() {
    let open = ServerSettings::new(AuthMode::Disabled);
    assert!(open.check_exposure("127.0.0.1:2024".parse().unwrap()).is_ok());
    assert!(open.check_exposure("[::1]:2024".parse().unwrap()).is_ok());
    let error = open.check_exposure("0.0.0.0:2024".parse().unwrap()).unwrap_err();
    assert!(error.hint().contains("segue keys create") && error.hint().contains("127.0.0.1"), "{error}");
    let any =
        ServerSettings { allowed_origins: AllowedOrigins::Any, ..ServerSettings::new(AuthMode::Disabled) };
    assert!(any.check_exposure("127.0.0.1:2024".parse().unwrap()).is_err());
    assert!(ServerSettings::new(AuthMode::Keys).check_exposure("0.0.0.0:2024".parse().unwrap()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_authentication_treats_every_client_as_the_local_operator() {
    let server = ServerFixture::with_settings(|_| ServerSettings::new(AuthMode::Disabled)).await;
    let thread = server.create_thread(TestCaller::Anonymous).await;
    let path = format!("/threads/{thread}");
    assert_eq!(
        server.request(TestCaller::Key("whatever"), Method::GET, &path).send().await.unwrap().status(),
        200
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_limit_of_open_requests_and_the_local_operator_has_none() {
    let limits = ServerLimits { open_per_user_max: 1, ..ServerLimits::default() };
    let server = ServerFixture::with_settings(|settings| ServerSettings { limits, ..settings }).await;
    let (ada, bob) = (server.create_key("ada").await, server.create_key("bob").await);
    let thread = server.create_thread(TestCaller::Key(&ada)).await;
    let path = format!("/threads/{thread}/stream");
    let open = server.request(TestCaller::Key(&ada), Method::GET, &path).send().await.unwrap();
    assert_eq!(open.status(), 200);
    let send = async |caller| server.request(caller, Method::GET, "/api/agent").send().await.unwrap();
    let refused = send(TestCaller::Key(&ada)).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(send(TestCaller::Key(&bob)).await.status(), 200);
    assert_eq!(send(TestCaller::Local).await.status(), 200);
    drop(open);
    while send(TestCaller::Key(&ada)).await.status() != 200 {}
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_details_of_the_machine_are_shown_only_to_the_local_operator() {
    let server = ServerFixture::start_default().await;
    let key = server.create_key("ada").await;
    let body_of = async |caller, path| {
        read_response(server.request(caller, Method::GET, path).send().await.unwrap()).await.1
    };
    assert!(body_of(TestCaller::Local, "/api/agent").await["workspace"].is_string());
    assert!(body_of(TestCaller::Local, "/api/models").await["providers"][0]["reason"].is_string());
    assert_eq!(body_of(TestCaller::Key(&key), "/api/agent").await["workspace"], json!(null));
    let models = body_of(TestCaller::Key(&key), "/api/models").await;
    assert_eq!((&models["default_from"], &models["providers"][0]["reason"]), (&json!(null), &json!(null)));
    server.stop().await;
}
