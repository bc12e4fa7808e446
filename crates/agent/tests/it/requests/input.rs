//! The input of a run: messages of every form, an empty list, and no input.

use protocol::{ContentBlock, Message, RunStatus, ThreadStatus};
use serde_json::{Value, json};
use test_model::{ScriptedFault, ScriptedReply};

use super::{RequestFixture, assert_fault, done_reply, run_until_call, user_request, write_call};
use crate::environment::messages;

fn ids(messages: &[Message]) -> Vec<String> {
    let id = |message: &Message| match message {
        Message::Human(said) => said.id.clone(),
        Message::Ai(said) => said.id.clone(),
        Message::Tool(said) => said.id.clone(),
    };
    messages.iter().map(|message| id(message).unwrap_or_default()).collect()
}

#[tokio::test]
async fn a13_what_a_client_says_is_journaled_once_with_its_id() {
    let desk = RequestFixture::new([ScriptedReply::status(401, "{}"), done_reply()]).await;
    let input = json!({"messages": [
        {"type": "human", "id": "m1", "content": "One."},
        {"type": "human", "content": [{"type": "text", "text": "Two."}], "x": 1},
    ], "files": {"a": "b"}, "unknown": 3});
    let end = desk.run(json!({"input": input})).await;
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("config"))
    );
    assert_eq!(desk.transcript_lines().await, ["U: One.", "U: Two."]);
    let given = ids(&messages(&desk.agent, desk.thread).await);
    assert_eq!(given[0], "m1");
    assert!(uuid::Uuid::try_parse(&given[1]).is_ok(), "{given:?}");
    let end =
        desk.run(json!({"input": {"messages": [{"type": "human", "id": "m1", "content": "One."}]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        desk.transcript_lines().await,
        ["U: One.", "U: Two.", "A: Done."],
        "what is there is not said again"
    );
}

#[tokio::test]
async fn a_message_in_other_words_takes_the_place_of_the_one_with_its_id() {
    let desk = RequestFixture::new([
        ScriptedReply::text("Four."),
        ScriptedReply::text("Nine.").when_body_contains("3 times 3").with_repeat(),
    ])
    .await;
    desk.run(json!({"input": {"messages": [{"type": "human", "id": "m1", "content": "2 times 2?"}]}})).await;
    let changed =
        json!([{"type": "human", "id": "m1", "content": "3 times 3?"}, {"role": "user", "content": "Well?"}]);
    let end = desk.run(json!({"input": {"messages": changed}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: 3 times 3?", "A: Four.", "U: Well?", "A: Nine."]);
    let last = desk.server.requests()[1].body.to_string();
    assert!(!last.contains("2 times 2"), "{last}");
    let removal = json!([{"type": "remove", "id": "m1"}, {"role": "user", "content": "And?"}]);
    desk.run(json!({"input": {"messages": removal}})).await;
    assert_eq!(desk.transcript_lines().await[..2], ["A: Four.", "U: Well?"]);
}

#[tokio::test]
async fn a_client_that_sends_the_whole_transcript_adds_only_what_is_new() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    let rules = json!({"command": {"resume": super::approve()}});
    desk.say("Write.").await;
    desk.run(rules).await;
    let before = desk.transcript_lines().await;
    assert_eq!(before.len(), 4, "{before:?}");
    let state = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
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
    let end = desk.run(json!({"input": {"messages": all}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let after = desk.transcript_lines().await;
    assert_eq!(after[..4], before[..]);
    assert_eq!(after[4..], ["U: Again.", "A: Done."]);
}

#[tokio::test]
async fn a_result_that_a_client_makes_up_is_that_of_its_call() {
    let two = write_call("c1", "a").with_call("c2", "write_file", json!({"path": "b", "content": "x"}));
    let desk = RequestFixture::new([two, done_reply()]).await;
    desk.say("Write.").await;
    let filler = json!({"type": "tool", "id": "do-not-render-1", "tool_call_id": "c1", "name": "write_file", "content": "Successfully handled tool call."});
    let orphan = json!({"type": "tool", "id": "t9", "tool_call_id": "handoff-1-0", "content": "x"});
    let end =
        desk.run(json!({"input": {"messages": [filler, orphan, {"role": "user", "content": "No."}]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let said = messages(&desk.agent, desk.thread).await;
    let result_of = |call: &str| {
        let results = said.iter().filter_map(|message| match message {
            Message::Tool(result) if result.call_id == call => Some((result.id.clone(), message.text())),
            _ => None,
        });
        results.collect::<Vec<_>>()
    };
    let filled = (Some("do-not-render-1".to_owned()), "Successfully handled tool call.".to_owned());
    assert_eq!(result_of("c1"), [filled]);
    let [(_, ours)] = &*result_of("c2") else { panic!("{said:?}") };
    assert!(ours.starts_with("Not done"), "{ours}");
    assert_eq!(said.len(), 6, "{said:?}");
    let [.., human, answer] = &*said else { panic!("{said:?}") };
    assert_eq!((human.text(), answer.text()), ("No.".to_owned(), "Done.".to_owned()));
    assert_eq!((desk.world.read_file("a"), desk.world.read_file("b")), (String::new(), String::new()));
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap(), []);
}

#[tokio::test]
async fn a_result_belongs_to_the_calls_there_were_where_a_run_goes_back_to() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply().with_repeat()]).await;
    desk.say("Write.").await;
    let waiting = desk.head().await;
    desk.run(json!({"command": {"resume": super::approve()}})).await;
    let result = |id: &str| json!({"type": "tool", "id": id, "tool_call_id": "c1", "content": "Mine."});
    let asked = json!([result("t1"), {"role": "user", "content": "Again."}]);
    let end = desk.run(json!({"input": {"messages": asked}, "checkpoint_id": waiting})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: Write.", "A: ", "T: Mine.", "U: Again.", "A: Done."]);
}

#[tokio::test]
async fn a_result_of_a_call_that_waits_is_taken_from_the_client() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    desk.say("Write.").await;
    let result = json!({"type": "tool", "id": "t1", "tool_call_id": "c1", "content": "I wrote it myself."});
    let end = desk.run(json!({"input": {"messages": [result]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: Write.", "A: ", "T: I wrote it myself.", "A: Done."]);
}

#[tokio::test]
async fn nothing_put_in_is_an_error_on_a_fresh_thread_only() {
    let desk = RequestFixture::new([done_reply()]).await;
    for empty in [json!({}), json!({"input": null}), json!({"input": {}}), json!({"input": {"messages": []}})]
    {
        let end = desk.run(empty.clone()).await;
        assert_fault(&end, "EmptyInputError");
        assert_eq!(desk.row().await.status, ThreadStatus::Error, "{empty}");
    }
    assert_eq!(desk.server.call_count(), 0);
    desk.say("Hello.").await;
    let end = desk.run(json!({"input": null})).await;
    assert_eq!(
        (end.status, desk.server.call_count()),
        (RunStatus::Success, 1),
        "there is nothing to go on with"
    );
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
    let end = desk.run(json!({"input": {}})).await;
    assert_eq!(
        (end.status, desk.server.call_count()),
        (RunStatus::Success, 2),
        "the graph runs on what there is"
    );
    assert_eq!(desk.transcript_lines().await, ["U: Hello.", "A: Done.", "A: Done."]);
}

#[tokio::test]
async fn what_cannot_be_read_ends_the_run_and_changes_nothing() {
    let desk = RequestFixture::new([done_reply()]).await;
    desk.say("Hello.").await;
    let before = desk.transcript_lines().await;
    for bad in [
        json!({"input": "Hello."}),
        json!({"input": {"messages": [{"role": "robot", "content": "x"}]}}),
        json!({"input": {"messages": [{"type": "remove", "id": "unknown"}]}}),
        json!({"command": {"goto": 3}}),
    ] {
        let end = desk.run(bad.clone()).await;
        assert_fault(&end, "InvalidUpdateError");
        assert_eq!(
            (desk.transcript_lines().await, desk.row().await.status),
            (before.clone(), ThreadStatus::Error),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn b16_an_image_is_kept_apart_and_reaches_the_model() {
    let desk = RequestFixture::new([done_reply()]).await;
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let content = json!([{"type": "text", "text": "What is it?"}, {"type": "image", "mime_type": "image/png", "base64": png}]);
    let end = desk.run(json!({"input": {"messages": [{"role": "user", "content": content}]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let said = messages(&desk.agent, desk.thread).await.remove(0);
    let ContentBlock::Media { sha256: Some(sha256), .. } = &said.content()[1] else { panic!("{said:?}") };
    let artifact = desk.agent.store().artifact(desk.thread, sha256).await.unwrap().unwrap();
    assert_eq!(artifact.media_type, "image/png");
    assert!(desk.server.requests()[0].body.to_string().contains(png));
}

#[tokio::test]
async fn a_run_that_was_stopped_midway_goes_on_without_input() {
    let desk =
        RequestFixture::new([ScriptedReply::text("Let me").with_fault(ScriptedFault::Stall), done_reply()])
            .await;
    let end = run_until_call(&desk, user_request("Hello."), 1).await;
    assert_eq!(end.status, RunStatus::Cancelled, "{end:?}");
    assert!(desk.next().await.is_some());
    let end = desk.run(json!({"input": null})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await.last().unwrap(), "A: Done.");
    assert_eq!(desk.transcript_lines().await.iter().filter(|line| line.starts_with("U:")).count(), 1);
}

#[tokio::test]
async fn the_first_run_says_on_the_thread_which_assistant_works_in_it() {
    let desk = RequestFixture::new([done_reply()]).await;
    desk.say("Hello.").await;
    let metadata = desk.row().await.metadata;
    assert_eq!(metadata["graph_id"], "agent");
    assert_eq!(metadata["assistant_id"], "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
    let run_id = desk.agent.store().newest_run(desk.thread).await.unwrap().unwrap();
    let kept = desk.agent.store().run_requests(&[run_id]).await.unwrap();
    let workspace = Some(desk.world.workspace().to_string_lossy().into_owned());
    let request =
        protocol::RunRequest { workspace, ..super::request(user_request("Hello.")).without_input_messages() };
    assert_eq!(kept, [(run_id, request)], "the thread has what was said");
    assert_eq!(kept[0].1.input, Some(json!({})));
}
