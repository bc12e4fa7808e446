//! Tests of the endpoints for pins: pinning a text or a message, listing, removal, and refused requests.

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixture::{ServerFixture, TestCaller};

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_messages_are_pinned_listed_and_removed() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "Which port?").await;
    let path = format!("/api/threads/{thread}/pins");
    let history = server.get(&format!("/api/threads/{thread}/history")).await.1;
    let entries = history["entries"].as_array().unwrap();
    let question = entries.iter().find(|entry| entry["type"] == "human").unwrap()["seq"].clone();

    let (status, pinned) = server.post(&path, &json!({"message_seq": question})).await;
    assert_eq!(status, 200, "{pinned}");
    let pin = &pinned["pin"];
    assert_eq!(
        (&pin["number"], &pin["text"], &pin["author"]),
        (&json!(1), &json!("Which port?"), &json!("user"))
    );
    assert_eq!((&pin["message_seq"], &pinned["was_pinned"]), (&question, &json!(false)));
    let secret = "AKIAIOSFODNN7EXAMPLE";
    let (_, pinned) = server.post(&path, &json!({"text": format!("The key is {secret}.")})).await;
    assert_eq!((&pinned["withheld"], pinned["pins"].as_array().unwrap().len()), (&json!(1), 2));
    assert!(!pinned.to_string().contains(secret), "{pinned}");
    let (_, again) = server.post(&path, &json!({"text": "Which port?"})).await;
    assert_eq!((&again["was_pinned"], &again["pin"]["number"]), (&json!(true), &json!(1)));

    let remove = async |number: &str| {
        server.send(TestCaller::Local, Method::DELETE, &format!("{path}/{number}"), &Value::Null).await
    };
    let (status, removed) = remove("1").await;
    assert_eq!((status.as_u16(), &removed["pin"]["text"]), (200, &json!("Which port?")));
    let (status, listed) = server.get(&path).await;
    assert_eq!((status.as_u16(), &listed["pins"]), (200, &removed["pins"]));
    assert!(listed["pins"][0]["tokens"].as_u64().unwrap() > 2, "{listed}");
    for (number, expected) in [("1", 404), ("99", 404), ("x", 422), ("-1", 422)] {
        let (status, body) = remove(number).await;
        assert_eq!(status, expected, "{number}: {body}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_pinned_is_refused_with_a_hint() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
    let path = format!("/api/threads/{thread}/pins");
    for (body, detail) in [
        (json!({}), "send either `text` or `message_seq`"),
        (json!({"text": "a", "message_seq": 1}), "send either `text` or `message_seq`"),
        (json!({"text": " \n"}), "it is empty"),
        (json!({"text": "x".repeat(4_001)}), "a pin has at most 4000"),
        (json!({"message_seq": 9_999}), "the thread has no such message"),
        (json!({"message_seq": -1}), "message_seq"),
        (json!({"text": "a", "number": 1}), "number"),
    ] {
        let (status, refused) = server.post(&path, &body).await;
        assert_eq!(status, 422, "{body}: {refused}");
        assert!(refused.to_string().contains(detail), "{body}: {refused}");
    }
    let unknown = "/api/threads/01890000-0000-7000-8000-000000000000/pins";
    assert_eq!(server.post(unknown, &json!({"text": "a"})).await.0, 404);
    assert_eq!(server.get(&path).await.1["pins"], json!([]));
    server.stop().await;
}
