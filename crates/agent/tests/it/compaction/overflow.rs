//! A provider that refuses a request as too large: condensed and asked once more, and no more than once.

use protocol::{CompactionTrigger, EventType, RunStatus};
use test_model::{Reply, Script, Server};

use super::{OPENING, agent_of, events_of, filled, markers, newest, record, sent, split, unreported};
use crate::world::{World, quiet, texts};

/// The provider's words.
fn refusal() -> Reply {
    let said = "prompt is too long: 213462 tokens > 200000 maximum";
    let body =
        serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
    Reply::status(400, body.to_string())
}

#[tokio::test]
async fn e7_an_overflow_is_condensed_and_asked_once_more() {
    for reply in [refusal(), Reply::status(413, "{}")] {
        for window in [0, 200_000] {
            let world = World::new();
            let answer = unreported(Reply::text("Done.")).repeated();
            let server = Server::start(Script::new([record(), reply.clone(), answer])).unwrap();
            let agent = match window {
                0 => {
                    world.configure(&server);
                    world.agent_over(world.store(), "openai-chat/nobody-knows")
                }
                window => agent_of(&world, &server, (window, "")),
            };
            let thread = filled(&agent, 3_000).await;
            sent(&agent, thread, "And now?").await;
            let markers = markers(&agent, thread).await;
            assert_eq!(markers.len(), 1);
            assert_eq!(markers[0].1.trigger, CompactionTrigger::Overflow);
            let (asked, answered) = split(&server);
            assert_eq!((asked.len(), answered.len()), (1, 2), "asked once more");
            assert!(newest(&server).contains(OPENING) && newest(&server).contains("And now?"));
            let said = texts(&agent, thread).await;
            assert_eq!(said.len(), 32 + 2, "the request once, and its answer");
        }
    }
}

#[tokio::test]
async fn e7_a_second_overflow_is_an_error_with_sizes_and_no_loop() {
    let world = World::new();
    let answer = unreported(Reply::text("Done.")).repeated();
    let server = Server::start(Script::new([record(), refusal(), refusal(), answer])).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled(&agent, 3_000).await;
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("overflow")),
        "{end:?}"
    );
    let (error, hint) = (end.failure.clone().unwrap().message, end.failure.clone().unwrap().hint.unwrap());
    for part in ["prompt is too long", "condensed already", "of 200000", "instructions and tools", "messages"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert!(hint.contains("--model"), "{hint}");
    let (asked, answered) = split(&server);
    assert_eq!((asked.len(), answered.len()), (1, 2));
    assert_eq!(markers(&agent, thread).await.len(), 1);
    // The next turn has a chance of its own.
    sent(&agent, thread, "And then?").await;
}

#[tokio::test]
async fn e7_every_overflow_of_its_own_is_condensed_for_and_nothing_to_condense_is_an_error() {
    let world = World::new();
    let answer = || unreported(Reply::text("Done."));
    let replies = [record(), refusal(), answer(), answer(), refusal(), answer(), refusal().repeated()];
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled(&agent, 3_000).await;
    sent(&agent, thread, "One.").await;
    sent(&agent, thread, "Two.").await;
    super::append(&agent, thread, &super::turns(20..26, 3_000)).await;
    sent(&agent, thread, "Three.").await;
    assert_eq!(markers(&agent, thread).await.len(), 2);
    let blank = agent.threads().create(None).await.unwrap().thread_id;
    let called = server.calls();
    let (frames, cancel) = quiet();
    let end = agent.runs().send(blank, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("overflow")),
        "{end:?}"
    );
    assert!(server.calls() - called <= 2, "no loop");
    assert_eq!(events_of(&agent, blank, EventType::Compacted).await.len(), 0);
}

#[tokio::test]
async fn l11_a_busy_provider_is_no_overflow() {
    let world = World::new();
    let [a, b] = [429, 529].map(|status| Reply::status(status, r#"{"error":{"message":"slow down"}}"#));
    let answer = unreported(Reply::text("Done.")).repeated();
    let server = Server::start(Script::new([a, b, answer])).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled(&agent, 3_000).await;
    sent(&agent, thread, "And now?").await;
    assert_eq!(server.calls(), 3);
    assert_eq!(markers(&agent, thread).await, []);
    assert!(split(&server).0.is_empty(), "nothing is condensed for it");
}

#[tokio::test]
async fn e7_where_condensing_is_off_an_overflow_says_what_helps() {
    let world = World::new();
    let server = Server::start(Script::new([refusal().repeated()])).unwrap();
    let agent = agent_of(&world, &server, (200_000, "enabled = false"));
    let thread = filled(&agent, 3_000).await;
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.failure.as_ref().map(|failure| failure.kind.as_str()), server.calls()),
        (Some("overflow"), 1)
    );
    assert!(end.failure.clone().unwrap().hint.unwrap().contains("/compact"));
}
