//! Who is let in, from where, and how often: the K group at the door.

use http::{Auth, Limits, Origins, Rate, Settings};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::world::{As, World, answer};

#[tokio::test(flavor = "multi_thread")]
async fn k2_only_who_has_the_token_or_a_key_comes_in() {
    let world = World::start().await;
    let key = world.key("ada").await;
    let status = async |name: &str, value: &str| {
        let request = world.request(As::Nobody, Method::POST, "/threads/search").header(name, value);
        request.json(&json!({})).send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("x-api-key", &world.token).await, 200);
    assert_eq!(status("authorization", &format!("Bearer {}", world.token)).await, 200);
    assert_eq!(status("x-api-key", &key).await, 200);
    assert_eq!(status("authorization", &format!("bearer {key}")).await, 200);
    let mut wrong = key.clone();
    wrong.replace_range(key.len() - 1.., if key.ends_with('0') { "1" } else { "0" });
    for refused in [wrong.as_str(), "", " ", &"0".repeat(64), &world.token[..63], &key[..8]] {
        assert_eq!(status("x-api-key", refused).await, 401, "{refused}");
    }
    assert_eq!(status("cookie", &format!("token={}", world.token)).await, 401);
    let refused = world.request(As::Nobody, Method::GET, "/nothing/here").send().await.unwrap();
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    let (status, body) = answer(refused).await;
    assert_eq!((status.as_u16(), &body["code"]), (401, &json!("unauthorized")));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_a_key_that_was_revoked_lets_nobody_in() {
    let world = World::start().await;
    let key = world.key("ada").await;
    let status =
        async || world.request(As::Key(&key), Method::GET, "/metrics").send().await.unwrap().status();
    assert_eq!(status().await, 200);
    let keys = world.agent.admin().keys().await.unwrap();
    world.agent.admin().revoke_key(&keys[0].key_id).await.unwrap();
    assert_eq!(status().await, 401);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_a_page_whose_name_points_here_is_refused() {
    let world =
        World::with(|settings| Settings { allowed_hosts: vec!["segue.example".into()], ..settings }).await;
    let status = async |host: &str| {
        let request = world.request(As::Local, Method::GET, "/ok").header("host", host);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("evil.example").await, 403);
    assert_eq!(status("localhost.evil.example").await, 403);
    assert_eq!(status("localhost:1").await, 200);
    assert_eq!(status("segue.example").await, 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_pages_of_other_origins_are_refused_and_those_let_in_read_errors_too() {
    let origins = Origins::These(vec!["https://chat.example".into()]);
    let world = World::with(|settings| Settings { allowed_origins: origins, ..settings }).await;
    let preflight = async |origin: &str| {
        let request = world.request(As::Nobody, Method::OPTIONS, "/threads/search");
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
        let answer = preflight(refused).await;
        assert_eq!(answer.status(), 403, "{refused}");
        assert!(!answer.headers().contains_key("access-control-allow-origin"), "{refused}");
    }
    let missing = world.request(As::Local, Method::GET, "/threads/018f0000-0000-7000-8000-000000000000");
    let missing = missing.header("origin", "https://chat.example").send().await.unwrap();
    assert_eq!(missing.status(), 404);
    assert_eq!(missing.headers()["access-control-allow-origin"], "https://chat.example");
    let exposed = missing.headers()["access-control-expose-headers"].to_str().unwrap().to_owned();
    for name in ["content-location", "location", "x-pagination-total", "x-pagination-next"] {
        assert!(exposed.contains(name), "{exposed}");
    }
    let refused =
        world.request(As::Nobody, Method::GET, "/metrics").header("origin", "http://localhost:3000");
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["access-control-allow-origin"], "http://localhost:3000");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_comes_too_often_is_told_when_to_come_again() {
    let rate = Some(Rate { per_second: 1, burst: 3 });
    let limits = Limits { rate, ..Limits::default() };
    let world = World::with(|settings| Settings { limits, ..settings }).await;
    let key = world.key("ada").await;
    let send = async |who| world.request(who, Method::GET, "/metrics").send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(send(As::Key(&key)).await.status(), 200);
    }
    let refused = send(As::Key(&key)).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    for _ in 0..10 {
        assert_eq!(send(As::Local).await.status(), 200);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused() {
    let limits = Limits { body_bytes_max: 1_000, ..Limits::default() };
    let world = World::with(|settings| Settings { limits, ..settings }).await;
    let (status, body) = world.post("/threads", &json!({"metadata": {"x": "y".repeat(2_000)}})).await;
    assert_eq!((status, &body["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("too_large")));
    world.stop().await;
}

#[test]
fn k2_a_server_without_keys_is_for_this_machine_only() {
    let open = Settings::new(Auth::Open);
    assert!(open.check("127.0.0.1:2024".parse().unwrap()).is_ok());
    assert!(open.check("[::1]:2024".parse().unwrap()).is_ok());
    let error = open.check("0.0.0.0:2024".parse().unwrap()).unwrap_err();
    assert!(error.hint().contains("segue keys create") && error.hint().contains("127.0.0.1"), "{error}");
    let any = Settings { allowed_origins: Origins::Any, ..Settings::new(Auth::Open) };
    assert!(any.check("127.0.0.1:2024".parse().unwrap()).is_err());
    assert!(Settings::new(Auth::Keys).check("0.0.0.0:2024".parse().unwrap()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_keys_takes_everyone_for_the_person_at_the_machine() {
    let world = World::with(|_| Settings::new(Auth::Open)).await;
    let thread = world.thread(As::Nobody).await;
    let path = format!("/threads/{thread}");
    assert_eq!(world.request(As::Key("whatever"), Method::GET, &path).send().await.unwrap().status(), 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_much_open_at_a_time_and_the_person_at_the_machine_is_never_kept_out() {
    let limits = Limits { open_per_user_max: 1, ..Limits::default() };
    let world = World::with(|settings| Settings { limits, ..settings }).await;
    let (ada, bob) = (world.key("ada").await, world.key("bob").await);
    let thread = world.thread(As::Key(&ada)).await;
    let path = format!("/threads/{thread}/stream");
    let open = world.request(As::Key(&ada), Method::GET, &path).send().await.unwrap();
    assert_eq!(open.status(), 200);
    let send = async |who| world.request(who, Method::GET, "/api/agent").send().await.unwrap();
    let refused = send(As::Key(&ada)).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(send(As::Key(&bob)).await.status(), 200);
    assert_eq!(send(As::Local).await.status(), 200);
    drop(open);
    while send(As::Key(&ada)).await.status() != 200 {}
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_places_of_the_machine_are_told_to_the_person_at_it() {
    let world = World::start().await;
    let key = world.key("ada").await;
    let told = async |who, path| answer(world.request(who, Method::GET, path).send().await.unwrap()).await.1;
    assert!(told(As::Local, "/api/agent").await["workspace"].is_string());
    assert!(told(As::Local, "/api/models").await["providers"][0]["reason"].is_string());
    assert_eq!(told(As::Key(&key), "/api/agent").await["workspace"], json!(null));
    let models = told(As::Key(&key), "/api/models").await;
    assert_eq!((&models["default_from"], &models["providers"][0]["reason"]), (&json!(null), &json!(null)));
    world.stop().await;
}
