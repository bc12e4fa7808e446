//! Tests of the endpoints of the store.

use reqwest::Method;
use serde_json::json;

use crate::fixture::{ServerFixture, TestCaller, read_response};

#[tokio::test(flavor = "multi_thread")]
async fn items_can_be_stored_found_and_deleted() {
    let server = ServerFixture::start_default().await;
    let put = json!({"namespace": ["users", "ada"], "key": "k", "value": {"colour": "blue", "n": 3}});
    assert_eq!(server.send(TestCaller::Local, Method::PUT, "/store/items", &put).await.0, 204);
    let (_, item) = server.get("/store/items?key=k&namespace=users.ada").await;
    assert_eq!(
        (&item["namespace"], &item["value"]),
        (&json!(["users", "ada"]), &json!({"colour": "blue", "n": 3}))
    );
    assert!(item["created_at"].as_str().unwrap().ends_with("+00:00"));
    let (_, results) = server
        .post("/store/items/search", &json!({"namespace_prefix": ["users"], "filter": {"n": {"$gte": 3}}}))
        .await;
    assert_eq!((&results["items"][0]["key"], &results["items"][0]["score"]), (&json!("k"), &json!(null)));
    let (_, none) = server
        .post("/store/items/search", &json!({"namespace_prefix": ["users"], "filter": {"n": {"$lt": 3}}}))
        .await;
    assert_eq!(none, json!({"items": []}));
    assert_eq!(
        server.post("/store/namespaces", &json!({"max_depth": 1})).await.1,
        json!({"namespaces": [["users"]]})
    );
    for (ttl, status) in [(json!(null), 204), (json!(60), 422)] {
        let put = json!({"namespace": ["a"], "key": "k", "value": {}, "ttl": ttl, "index": false});
        assert_eq!(
            server.send(TestCaller::Local, Method::PUT, "/store/items", &put).await.0,
            status,
            "{put}"
        );
    }
    let name = json!({"namespace": ["users", "ada"], "key": "k"});
    for _ in 0..2 {
        assert_eq!(server.send(TestCaller::Local, Method::DELETE, "/store/items", &name).await.0, 204);
    }
    let missing = server
        .request(TestCaller::Local, Method::GET, "/store/items?key=k&namespace=users.ada")
        .send()
        .await
        .unwrap();
    assert_eq!(read_response(missing).await, (200.try_into().unwrap(), json!(null)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f10_each_user_has_a_separate_store() {
    let server = ServerFixture::start_default().await;
    let (ada, bob) = (server.create_key("ada").await, server.create_key("bob").await);
    let put = |text: &str| json!({"namespace": ["notes"], "key": "k", "value": {"text": text}});
    for (caller, text) in [
        (TestCaller::Key(&ada), "of ada"),
        (TestCaller::Key(&bob), "of bob"),
        (TestCaller::Local, "of the machine"),
    ] {
        assert_eq!(server.send(caller, Method::PUT, "/store/items", &put(text)).await.0, 204, "{text}");
    }
    for (caller, text) in [
        (TestCaller::Key(&ada), "of ada"),
        (TestCaller::Key(&bob), "of bob"),
        (TestCaller::Local, "of the machine"),
    ] {
        let (_, results) = server.send(caller, Method::POST, "/store/items/search", &json!({})).await;
        assert_eq!(results["items"].as_array().unwrap().len(), 1, "{results}");
        assert_eq!(
            (&results["items"][0]["value"]["text"], &results["items"][0]["namespace"]),
            (&json!(text), &json!(["notes"]))
        );
        let (_, spaces) = server.send(caller, Method::POST, "/store/namespaces", &json!({})).await;
        assert_eq!(spaces, json!({"namespaces": [["notes"]]}));
    }
    let forged = json!({"namespace": ["@ada", "notes"], "key": "k", "value": {"text": "forged"}});
    assert!(server.send(TestCaller::Local, Method::PUT, "/store/items", &forged).await.0.is_client_error());
    server.send(TestCaller::Key(&bob), Method::PUT, "/store/items", &forged).await;
    let (_, item) = read_response(
        server
            .request(TestCaller::Key(&ada), Method::GET, "/store/items?key=k&namespace=notes")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(item["value"]["text"], "of ada");
    server.stop().await;
}
