//! Tests of the input of a run: messages in every form, an empty list of messages, and no input.

use protocol::{ContentBlock, Message, RunStatus, ThreadStatus};
use serde_json::{Value, json};
use test_model::{ScriptedFault, ScriptedReply};

use super::{RequestFixture, assert_fault, done_reply, run_until_call, user_request, write_call};
use crate::environment::messages;

/// Returns the id of each message, or an empty string for a message without one.
fn ids(messages: &[Message]) -> Vec<String> {
    let id = |message: &Message| match message {
        Message::Human(messages) => messages.id.clone(),
        Message::Ai(messages) => messages.id.clone(),
        Message::Tool(messages) => messages.id.clone(),
    };
    messages.iter().map(|message| id(message).unwrap_or_default()).collect()
}

#[tokio::test]
async fn a13_a14_a_clients_message_is_journaled_once_with_its_id() {
    let fixture = RequestFixture::new([ScriptedReply::status(401, "{}"), done_reply()]).await;
    let input = json!({"messages": [
        {"type": "human", "id": "m1", "content": "One."},
        {"type": "human", "content": [{"type": "text", "text": "Two."}], "x": 1},
    ], "files": {"a": "b"}, "unknown": 3});
    let end = fixture.run(json!({"input": input})).await;
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("config"))
    );
    assert_eq!(fixture.transcript_lines().await, ["U: One.", "U: Two."]);
    let message_ids = ids(&messages(&fixture.agent, fixture.thread).await);
    assert_eq!(message_ids[0], "m1");
    assert!(uuid::Uuid::try_parse(&message_ids[1]).is_ok(), "{message_ids:?}");
    let end =
        fixture.run(json!({"input": {"messages": [{"type": "human", "id": "m1", "content": "One."}]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        fixture.transcript_lines().await,
        ["U: One.", "U: Two.", "A: Done."],
        "a message whose id is already stored is not added again"
    );
}

#[tokio::test]
async fn a_changed_message_replaces_the_one_with_its_id() {
    let fixture = RequestFixture::new([
        ScriptedReply::text("Four."),
        ScriptedReply::text("Nine.").when_body_contains("3 times 3").with_repeat(),
    ])
    .await;
    fixture
        .run(json!({"input": {"messages": [{"type": "human", "id": "m1", "content": "2 times 2?"}]}}))
        .await;
    let changed =
        json!([{"type": "human", "id": "m1", "content": "3 times 3?"}, {"role": "user", "content": "Well?"}]);
    let end = fixture.run(json!({"input": {"messages": changed}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: 3 times 3?", "A: Four.", "U: Well?", "A: Nine."]);
    let last = fixture.server.requests()[1].body.to_string();
    assert!(!last.contains("2 times 2"), "{last}");
    let removal = json!([{"type": "remove", "id": "m1"}, {"role": "user", "content": "And?"}]);
    fixture.run(json!({"input": {"messages": removal}})).await;
    assert_eq!(fixture.transcript_lines().await[..2], ["A: Four.", "U: Well?"]);
}

#[tokio::test]
async fn a14_a_client_that_sends_the_whole_transcript_adds_only_what_is_new() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    let approval = json!({"command": {"resume": super::approve()}});
    fixture.say("Write.").await;
    fixture.run(approval).await;
    let before = fixture.transcript_lines().await;
    assert_eq!(before.len(), 4, "{before:?}");
    let state = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
    let shown = state.messages.iter().map(|shown| match &shown.message {
        Message::Human(_) => json!({"type": "human", "id": shown.id, "content": shown.message.text()}),
        Message::Ai(_) => {
            let calls = shown.message.tool_calls().map(|(id, name, args)| json!({"id": id, "name": name, "args": args}));
            json!({"type": "ai", "id": shown.id, "content": shown.message.text(), "tool_calls": calls.collect::<Vec<_>>()})
        }
        Message::Tool(result) => {
            json!({"type": "tool", "id": shown.id, "tool_call_id": result.call_id, "name": result.name, "content": shown.message.text()})
        }
    });
    let mut all: Vec<Value> = shown.collect();
    all.push(json!({"role": "user", "content": "Again."}));
    let end = fixture.run(json!({"input": {"messages": all}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let after = fixture.transcript_lines().await;
    assert_eq!(after[..4], before[..]);
    assert_eq!(after[4..], ["U: Again.", "A: Done."]);
}

#[tokio::test]
async fn a_tool_result_from_a_client_belongs_to_the_call_with_its_id() {
    let two = write_call("c1", "a").with_call("c2", "write_file", json!({"path": "b", "content": "x"}));
    let fixture = RequestFixture::new([two, done_reply()]).await;
    fixture.say("Write.").await;
    let filler = json!({"type": "tool", "id": "do-not-render-1", "tool_call_id": "c1", "name": "write_file", "content": "Successfully handled tool call."});
    let orphan = json!({"type": "tool", "id": "t9", "tool_call_id": "handoff-1-0", "content": "x"});
    let end = fixture
        .run(json!({"input": {"messages": [filler, orphan, {"role": "user", "content": "No."}]}}))
        .await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let messages = messages(&fixture.agent, fixture.thread).await;
    let result_of = |call: &str| {
        let results = messages.iter().filter_map(|message| match message {
            Message::Tool(result) if result.call_id == call => Some((result.id.clone(), message.text())),
            _ => None,
        });
        results.collect::<Vec<_>>()
    };
    let client_result = (Some("do-not-render-1".to_owned()), "Successfully handled tool call.".to_owned());
    assert_eq!(result_of("c1"), [client_result]);
    let [(_, placeholder)] = &*result_of("c2") else { panic!("{messages:?}") };
    assert!(placeholder.starts_with("Not done"), "{placeholder}");
    assert_eq!(messages.len(), 6, "{messages:?}");
    let [.., human, answer] = &*messages else { panic!("{messages:?}") };
    assert_eq!((human.text(), answer.text()), ("No.".to_owned(), "Done.".to_owned()));
    assert_eq!(
        (fixture.environment.read_file("a"), fixture.environment.read_file("b")),
        (String::new(), String::new())
    );
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(), []);
}

#[tokio::test]
async fn a_tool_result_belongs_to_a_call_of_the_checkpoint_that_the_run_starts_from() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply().with_repeat()]).await;
    fixture.say("Write.").await;
    let waiting = fixture.head().await;
    fixture.run(json!({"command": {"resume": super::approve()}})).await;
    let result = |id: &str| json!({"type": "tool", "id": id, "tool_call_id": "c1", "content": "Mine."});
    let asked = json!([result("t1"), {"role": "user", "content": "Again."}]);
    let end = fixture.run(json!({"input": {"messages": asked}, "checkpoint_id": waiting})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: Write.", "A: ", "T: Mine.", "U: Again.", "A: Done."]);
}

#[tokio::test]
async fn a_client_can_send_the_result_of_a_pending_call() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.say("Write.").await;
    let result = json!({"type": "tool", "id": "t1", "tool_call_id": "c1", "content": "I wrote it myself."});
    let end = fixture.run(json!({"input": {"messages": [result]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: Write.", "A: ", "T: I wrote it myself.", "A: Done."]);
}

#[tokio::test]
async fn an_empty_input_is_an_error_on_a_new_thread_only() {
    let fixture = RequestFixture::new([done_reply()]).await;
    for empty in [json!({}), json!({"input": null}), json!({"input": {}}), json!({"input": {"messages": []}})]
    {
        let end = fixture.run(empty.clone()).await;
        assert_fault(&end, "EmptyInputError");
        assert_eq!(fixture.row().await.status, ThreadStatus::Error, "{empty}");
    }
    assert_eq!(fixture.server.call_count(), 0);
    fixture.say("Hello.").await;
    let end = fixture.run(json!({"input": null})).await;
    assert_eq!(
        (end.status, fixture.server.call_count()),
        (RunStatus::Success, 1),
        "there is no pending node to resume"
    );
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
    let end = fixture.run(json!({"input": {}})).await;
    assert_eq!(
        (end.status, fixture.server.call_count()),
        (RunStatus::Success, 2),
        "the graph runs on the existing messages"
    );
    assert_eq!(fixture.transcript_lines().await, ["U: Hello.", "A: Done.", "A: Done."]);
}

#[tokio::test]
async fn an_invalid_request_fails_its_run_and_changes_nothing() {
    let fixture = RequestFixture::new([done_reply()]).await;
    fixture.say("Hello.").await;
    let before = fixture.transcript_lines().await;
    for bad in [
        json!({"input": "Hello."}),
        json!({"input": {"messages": [{"role": "robot", "content": "x"}]}}),
        json!({"input": {"messages": [{"type": "remove", "id": "unknown"}]}}),
        json!({"command": {"goto": 3}}),
    ] {
        let end = fixture.run(bad.clone()).await;
        assert_fault(&end, "InvalidUpdateError");
        assert_eq!(
            (fixture.transcript_lines().await, fixture.row().await.status),
            (before.clone(), ThreadStatus::Error),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn b16_an_image_is_stored_as_an_artifact_and_sent_to_the_model() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let content = json!([{"type": "text", "text": "What is it?"}, {"type": "image", "mime_type": "image/png", "base64": png}]);
    let end = fixture.run(json!({"input": {"messages": [{"role": "user", "content": content}]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let messages = messages(&fixture.agent, fixture.thread).await.remove(0);
    let ContentBlock::Media { sha256: Some(sha256), .. } = &messages.content()[1] else {
        panic!("{messages:?}")
    };
    let artifact = fixture.agent.store().artifact(fixture.thread, sha256).await.unwrap().unwrap();
    assert_eq!(artifact.media_type, "image/png");
    assert!(fixture.server.requests()[0].body.to_string().contains(png));
}

#[tokio::test]
async fn a14_a_run_without_input_resumes_a_stopped_run() {
    let fixture =
        RequestFixture::new([ScriptedReply::text("Let me").with_fault(ScriptedFault::Stall), done_reply()])
            .await;
    let end = run_until_call(&fixture, user_request("Hello."), 1).await;
    assert_eq!(end.status, RunStatus::Cancelled, "{end:?}");
    assert!(fixture.next().await.is_some());
    let end = fixture.run(json!({"input": null})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await.last().unwrap(), "A: Done.");
    assert_eq!(fixture.transcript_lines().await.iter().filter(|line| line.starts_with("U:")).count(), 1);
}

#[tokio::test]
async fn the_first_run_records_its_assistant_in_the_threads_metadata() {
    let fixture = RequestFixture::new([done_reply()]).await;
    fixture.say("Hello.").await;
    let metadata = fixture.row().await.metadata;
    assert_eq!(metadata["graph_id"], "agent");
    assert_eq!(metadata["assistant_id"], "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
    let run_id = fixture.agent.store().newest_run(fixture.thread).await.unwrap().unwrap();
    let stored = fixture.agent.store().run_requests(&[run_id]).await.unwrap();
    let workspace = Some(fixture.environment.workspace().to_string_lossy().into_owned());
    let request =
        protocol::RunRequest { workspace, ..super::request(user_request("Hello.")).without_input_messages() };
    assert_eq!(
        stored,
        [(run_id, request)],
        "the request is stored without its messages, which the thread has"
    );
    assert_eq!(stored[0].1.input, Some(json!({})));
}
