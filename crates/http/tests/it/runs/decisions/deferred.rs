//! Tests of decisions about some actions of one interrupt: the others stay undecided and become another interrupt, and a
//! decision on the first interrupt comes too late.

use futures::future::join_all;
use serde_json::{Value, json};
use test_model::ScriptedReply;

use super::{
    approve, ask, assert_refused, has_file, pending_questions, reject, resume, run_count, start_server,
};
use crate::fixture::ServerFixture;

/// Returns a server with a thread whose model writes the files `a` and `b`, and the id of the question about both.
async fn ask_about_two_calls() -> (ServerFixture, String, String) {
    let args = |path: &str| json!({"path": path, "content": path});
    let both = ScriptedReply::call("c1", "write_file", args("a")).with_call("c2", "write_file", args("b"));
    let server = start_server([both]).await;
    let (thread, mut questions) = ask(&server, "Write both.").await;
    assert_eq!(questions.len(), 1);
    (server, thread, questions.remove(0))
}

/// Returns an answer with decisions of these types.
fn answer(types: &[&str]) -> Value {
    let decisions: Vec<Value> = types.iter().map(|kind| json!({"type": kind})).collect();
    json!({"decisions": decisions})
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_two_approvals_of_one_turn_are_decided_one_at_a_time() {
    let (server, thread, first) = ask_about_two_calls().await;
    let (status, values) = resume(&server, &thread, &json!({&first: answer(&["approve", "defer"])})).await;
    assert_eq!(status, 200, "{values}");
    let asked = &values["__interrupt__"];
    assert_eq!(asked.as_array().map(Vec::len), Some(1), "{values}");
    let requests = asked[0]["value"]["action_requests"].as_array().unwrap();
    assert_eq!(requests.iter().map(|request| &request["args"]["path"]).collect::<Vec<_>>(), ["b"]);
    let second = pending_questions(&server, &thread).await;
    assert_eq!(asked[0]["id"], second[0]);
    assert_ne!(second[0], first);
    assert_eq!(server.get(&format!("/threads/{thread}")).await.1["status"], "interrupted");
    assert!(!has_file(&server, "a"), "no call is made before all are decided");

    // The first question is used up, also for the action that was deferred.
    for late in [answer(&["reject", "defer"]), answer(&["defer", "approve"]), answer(&["approve", "approve"])]
    {
        let refused = resume(&server, &thread, &json!({&first: late})).await;
        assert_refused(&refused, 409, &[&first, "was answered", "approve, defer"]);
        let hint = refused.1["hint"].as_str().unwrap();
        assert!(hint.contains("the interrupt that asks about the deferred actions"), "{hint}");
    }
    assert_eq!(pending_questions(&server, &thread).await, second);

    let (status, values) = resume(&server, &thread, &json!({&second[0]: reject()})).await;
    assert_eq!(status, 200, "{values}");
    assert!(has_file(&server, "a") && !has_file(&server, "b"));
    assert_eq!(pending_questions(&server, &thread).await, Vec::<String>::new());
    assert_refused(&resume(&server, &thread, &approve()).await, 409, &[&second[0], "reject"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_one_of_two_concurrent_decisions_about_different_actions_counts() {
    let (server, thread, question) = ask_about_two_calls().await;
    let given =
        [answer(&["approve", "defer"]), answer(&["defer", "approve"])].map(|it| json!({&question: it}));
    let answers = join_all(given.iter().map(|answer| resume(&server, &thread, answer))).await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert!(statuses == [200, 409] || statuses == [409, 200], "{answers:?}");
    let next = pending_questions(&server, &thread).await;
    assert!(next.len() == 1 && next[0] != question, "{next:?}");
    // A client that knows nothing of `defer` decides the rest.
    assert_eq!(resume(&server, &thread, &approve()).await.0, 200);
    assert!(has_file(&server, "a") && has_file(&server, "b"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_an_answer_that_decides_no_action_is_refused_and_uses_nothing_up() {
    let (server, thread, question) = ask_about_two_calls().await;
    let runs = run_count(&server, &thread).await;
    for invalid in [answer(&["defer", "defer"]), answer(&["approve"]), answer(&["approve", "later"])] {
        assert_refused(&resume(&server, &thread, &invalid).await, 422, &["answer"]);
    }
    assert_eq!(
        (run_count(&server, &thread).await, pending_questions(&server, &thread).await),
        (runs, vec![question])
    );
    let (status, values) = resume(&server, &thread, &answer(&["approve", "reject"])).await;
    assert_eq!((status, values.get("__interrupt__")), (200, None), "{values}");
    assert!(has_file(&server, "a") && !has_file(&server, "b"));
    server.stop().await;
}
