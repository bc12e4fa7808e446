//! A provider that refuses a request as too large: condensed and asked once more, and no more than once.

use protocol::{CompactionTrigger, EventType, RunStatus};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    SUMMARY_OPENING, agent_of, events_of, filled_thread, newest_request, record_reply, send_message,
    split_requests, visible_markers, without_usage,
};
use crate::environment::{TestEnvironment, message_texts, unwatched};

/// The provider's words.
fn too_large_reply() -> ScriptedReply {
    let said = "prompt is too long: 213462 tokens > 200000 maximum";
    let body =
        serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
    ScriptedReply::status(400, body.to_string())
}

#[tokio::test]
async fn e7_an_overflow_is_condensed_and_asked_once_more() {
    for reply in [too_large_reply(), ScriptedReply::status(413, "{}")] {
        for window in [0, 200_000] {
            let world = TestEnvironment::new();
            let answer = without_usage(ScriptedReply::text("Done.")).with_repeat();
            let server = ScriptedServer::start(Script::new([record_reply(), reply.clone(), answer])).unwrap();
            let agent = match window {
                0 => {
                    world.configure(&server);
                    world.agent_over(world.store(), "openai-chat/nobody-knows")
                }
                window => agent_of(&world, &server, (window, "")),
            };
            let thread = filled_thread(&agent, 3_000).await;
            send_message(&agent, thread, "And now?").await;
            let markers = visible_markers(&agent, thread).await;
            assert_eq!(markers.len(), 1);
            assert_eq!(markers[0].1.trigger, CompactionTrigger::Overflow);
            let (asked, answered) = split_requests(&server);
            assert_eq!((asked.len(), answered.len()), (1, 2), "asked once more");
            assert!(
                newest_request(&server).contains(SUMMARY_OPENING)
                    && newest_request(&server).contains("And now?")
            );
            let said = message_texts(&agent, thread).await;
            assert_eq!(said.len(), 32 + 2, "the request once, and its answer");
        }
    }
}

#[tokio::test]
async fn e7_a_second_overflow_is_an_error_with_sizes_and_no_loop() {
    let world = TestEnvironment::new();
    let answer = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server =
        ScriptedServer::start(Script::new([record_reply(), too_large_reply(), too_large_reply(), answer]))
            .unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("overflow")),
        "{end:?}"
    );
    let (error, hint) = (end.failure.clone().unwrap().message, end.failure.clone().unwrap().hint.unwrap());
    for part in ["prompt is too long", "already compacted", "of 200000", "instructions and tools", "messages"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert!(hint.contains("--model"), "{hint}");
    let (asked, answered) = split_requests(&server);
    assert_eq!((asked.len(), answered.len()), (1, 2));
    assert_eq!(visible_markers(&agent, thread).await.len(), 1);
    // The next turn has a chance of its own.
    send_message(&agent, thread, "And then?").await;
}

#[tokio::test]
async fn e7_every_overflow_of_its_own_is_condensed_for_and_nothing_to_condense_is_an_error() {
    let world = TestEnvironment::new();
    let answer = || without_usage(ScriptedReply::text("Done."));
    let replies = [
        record_reply(),
        too_large_reply(),
        answer(),
        answer(),
        too_large_reply(),
        answer(),
        too_large_reply().with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "One.").await;
    send_message(&agent, thread, "Two.").await;
    super::append(&agent, thread, &super::turns(20..26, 3_000)).await;
    send_message(&agent, thread, "Three.").await;
    assert_eq!(visible_markers(&agent, thread).await.len(), 2);
    let blank = agent.threads().create(None).await.unwrap().thread_id;
    let called = server.call_count();
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(blank, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("overflow")),
        "{end:?}"
    );
    assert!(server.call_count() - called <= 2, "no loop");
    assert_eq!(events_of(&agent, blank, EventType::Compacted).await.len(), 0);
}

#[tokio::test]
async fn l11_a_busy_provider_is_no_overflow() {
    let world = TestEnvironment::new();
    let [a, b] =
        [429, 529].map(|status| ScriptedReply::status(status, r#"{"error":{"message":"slow down"}}"#));
    let answer = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server = ScriptedServer::start(Script::new([a, b, answer])).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "And now?").await;
    assert_eq!(server.call_count(), 3);
    assert_eq!(visible_markers(&agent, thread).await, []);
    assert!(split_requests(&server).0.is_empty(), "nothing is condensed for it");
}

#[tokio::test]
async fn e7_where_condensing_is_off_an_overflow_says_what_helps() {
    let world = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([too_large_reply().with_repeat()])).unwrap();
    let agent = agent_of(&world, &server, (200_000, "enabled = false"));
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.failure.as_ref().map(|failure| failure.kind.as_str()), server.call_count()),
        (Some("overflow"), 1)
    );
    assert!(end.failure.clone().unwrap().hint.unwrap().contains("/compact"));
}
