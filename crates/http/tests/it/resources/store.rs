//! The store over HTTP.

use reqwest::Method;
use serde_json::json;

use crate::world::{As, World, answer};

#[tokio::test(flavor = "multi_thread")]
async fn items_are_kept_found_and_removed() {
    let world = World::start().await;
    let put = json!({"namespace": ["users", "ada"], "key": "k", "value": {"colour": "blue", "n": 3}});
    assert_eq!(world.send(As::Local, (Method::PUT, "/store/items"), &put).await.0, 204);
    let (_, item) = world.get("/store/items?key=k&namespace=users.ada").await;
    assert_eq!(
        (&item["namespace"], &item["value"]),
        (&json!(["users", "ada"]), &json!({"colour": "blue", "n": 3}))
    );
    assert!(item["created_at"].as_str().unwrap().ends_with("+00:00"));
    let (_, found) = world
        .post("/store/items/search", &json!({"namespace_prefix": ["users"], "filter": {"n": {"$gte": 3}}}))
        .await;
    assert_eq!((&found["items"][0]["key"], &found["items"][0]["score"]), (&json!("k"), &json!(null)));
    let (_, none) = world
        .post("/store/items/search", &json!({"namespace_prefix": ["users"], "filter": {"n": {"$lt": 3}}}))
        .await;
    assert_eq!(none, json!({"items": []}));
    assert_eq!(
        world.post("/store/namespaces", &json!({"max_depth": 1})).await.1,
        json!({"namespaces": [["users"]]})
    );
    for (ttl, status) in [(json!(null), 204), (json!(60), 422)] {
        let put = json!({"namespace": ["a"], "key": "k", "value": {}, "ttl": ttl, "index": false});
        assert_eq!(world.send(As::Local, (Method::PUT, "/store/items"), &put).await.0, status, "{put}");
    }
    let name = json!({"namespace": ["users", "ada"], "key": "k"});
    for _ in 0..2 {
        assert_eq!(world.send(As::Local, (Method::DELETE, "/store/items"), &name).await.0, 204);
    }
    let missing =
        world.request(As::Local, Method::GET, "/store/items?key=k&namespace=users.ada").send().await.unwrap();
    assert_eq!(answer(missing).await, (200.try_into().unwrap(), json!(null)));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f10_each_user_has_a_store_of_their_own() {
    let world = World::start().await;
    let (ada, bob) = (world.key("ada").await, world.key("bob").await);
    let put = |text: &str| json!({"namespace": ["notes"], "key": "k", "value": {"text": text}});
    for (who, text) in [(As::Key(&ada), "of ada"), (As::Key(&bob), "of bob"), (As::Local, "of the machine")] {
        assert_eq!(world.send(who, (Method::PUT, "/store/items"), &put(text)).await.0, 204, "{text}");
    }
    for (who, text) in [(As::Key(&ada), "of ada"), (As::Key(&bob), "of bob"), (As::Local, "of the machine")] {
        let (_, found) = world.send(who, (Method::POST, "/store/items/search"), &json!({})).await;
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
        assert_eq!(
            (&found["items"][0]["value"]["text"], &found["items"][0]["namespace"]),
            (&json!(text), &json!(["notes"]))
        );
        let (_, spaces) = world.send(who, (Method::POST, "/store/namespaces"), &json!({})).await;
        assert_eq!(spaces, json!({"namespaces": [["notes"]]}));
    }
    let forged = json!({"namespace": ["@ada", "notes"], "key": "k", "value": {"text": "forged"}});
    assert!(world.send(As::Local, (Method::PUT, "/store/items"), &forged).await.0.is_client_error());
    world.send(As::Key(&bob), (Method::PUT, "/store/items"), &forged).await;
    let (_, kept) = answer(
        world.request(As::Key(&ada), Method::GET, "/store/items?key=k&namespace=notes").send().await.unwrap(),
    )
    .await;
    assert_eq!(kept["value"]["text"], "of ada");
    world.stop().await;
}
