//! Tests of feedback over HTTP: concurrent ratings, a server without authentication, and runs that the caller may not rate.

use http::{AuthMode, ServerSettings};
use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Script, ScriptedServer};
use tokio::task::JoinSet;

use crate::fixture::{ServerFixture, TestCaller};

const UNKNOWN_ID: &str = "018f0000-0000-7000-8000-0000000000ff";

/// Number of ratings that are sent at the same time.
const RATINGS: usize = 12;

/// Returns the path of the feedback on a run.
fn feedback_path(thread: &str, run: &str) -> String {
    format!("/api/threads/{thread}/runs/{run}/feedback")
}

/// Returns the newest run of a thread.
async fn newest_run(server: &ServerFixture, caller: TestCaller<'_>, thread: &str) -> String {
    let path = format!("/threads/{thread}/runs");
    let (_, runs) = server.send(caller, Method::GET, &path, &Value::Null).await;
    runs[0]["run_id"].as_str().unwrap().to_owned()
}

/// Returns the feedback in a thread's history, one entry for each run that can be rated.
async fn feedback_in_history(server: &ServerFixture, thread: &str) -> Vec<Value> {
    let (_, page) = server.get(&format!("/api/threads/{thread}/history")).await;
    let entries = page["entries"].as_array().unwrap();
    entries.iter().filter_map(|entry| entry.get("feedback").cloned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_concurrent_ratings_without_authentication_are_one_rating_of_the_local_operator() {
    let server = ServerFixture::with_settings(|_| ServerSettings::new(AuthMode::Disabled)).await;
    let thread = server.create_thread_with_message(TestCaller::Anonymous, "Hello.").await;
    let run = newest_run(&server, TestCaller::Anonymous, &thread).await;
    let path = feedback_path(&thread, &run);
    let mut sending = JoinSet::new();
    for number in 0..RATINGS {
        let rating = json!({"rating": if number % 2 == 0 { 1 } else { -1 }});
        sending.spawn(server.request(TestCaller::Anonymous, Method::PUT, &path).json(&rating).send());
    }
    while let Some(sent) = sending.join_next().await {
        assert_eq!(sent.unwrap().unwrap().status(), 200);
    }
    let (_, given) = server.get(&path).await;
    assert!([json!(1), json!(-1)].contains(&given["feedback"]["rating"]), "{given}");
    let in_history = feedback_in_history(&server, &thread).await;
    assert_eq!(in_history.len(), 1, "the thread has one answer: {in_history:?}");
    assert_eq!(in_history[0]["rating"], given["feedback"]["rating"]);

    // Clients without authentication are the local operator, who has the same rating with the token.
    let folder = server.stop().await;
    let model = ScriptedServer::start(Script::default()).unwrap();
    let server = ServerFixture::in_folder(model, folder, |settings| settings).await;
    assert_eq!(server.get(&path).await.1, given);
    for _ in 0..2 {
        let (status, removed) = server.send(TestCaller::Local, Method::DELETE, &path, &Value::Null).await;
        assert_eq!((status.as_u16(), &removed["feedback"]), (200, &Value::Null));
        assert_eq!(feedback_in_history(&server, &thread).await, [Value::Null], "no second row is left");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_only_a_run_of_the_named_thread_and_of_the_caller_takes_feedback() {
    let server = ServerFixture::start_default().await;
    let (ada, bob) = (server.create_key("ada").await, server.create_key("bob").await);
    let (ada, bob) = (TestCaller::Key(&ada), TestCaller::Key(&bob));
    let thread = server.create_thread_with_message(ada, "Hello.").await;
    let other_thread = server.create_thread_with_message(ada, "Hello again.").await;
    let run = newest_run(&server, ada, &thread).await;
    let path = feedback_path(&thread, &run);
    let put = async |caller, path: &str, rating: i64| {
        server.send(caller, Method::PUT, path, &json!({"rating": rating})).await
    };
    assert_eq!(put(ada, &path, 1).await.0, 200);
    let (_, given) = server.send(ada, Method::GET, &path, &Value::Null).await;
    assert_eq!(given["feedback"]["rating"], 1, "{given}");
    for (caller, wrong_path) in [
        (ada, feedback_path(&other_thread, &run)),
        (ada, feedback_path(&thread, UNKNOWN_ID)),
        (ada, feedback_path(UNKNOWN_ID, &run)),
        (bob, path.clone()),
        (TestCaller::Local, path.clone()),
    ] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let (status, refused) =
                server.send(caller, method.clone(), &wrong_path, &json!({"rating": -1})).await;
            assert_eq!(status, 404, "{method} {wrong_path}: {refused}");
            assert!(!refused.to_string().contains("created_at"), "{method} {wrong_path}: {refused}");
        }
    }
    assert_eq!(server.send(ada, Method::GET, &path, &Value::Null).await.1, given, "the rating is unchanged");
    let own_thread = server.create_thread_with_message(bob, "Hello.").await;
    let own_run = newest_run(&server, bob, &own_thread).await;
    assert_eq!(put(bob, &feedback_path(&own_thread, &own_run), -1).await.0, 200);
    server.stop().await;
}
