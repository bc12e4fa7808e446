//! Tests of overflows, in which the provider refuses a request as too large: the thread is compacted and the request is sent
//! again, at most once.

use protocol::{CompactionTrigger, EventType, RunStatus};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    SUMMARY_OPENING, agent_of, events_of, filled_thread, newest_request, record_reply, send_message,
    split_requests, visible_markers, without_usage,
};
use crate::environment::{TestEnvironment, message_texts, unwatched};

/// Returns an error response as Anthropic sends it for a request that exceeds the context window.
fn too_large_reply() -> ScriptedReply {
    let message = "prompt is too long: 213462 tokens > 200000 maximum";
    let body =
        serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    ScriptedReply::status(400, body.to_string())
}

#[tokio::test]
async fn e7_after_an_overflow_the_thread_is_compacted_and_the_request_is_sent_again() {
    for reply in [too_large_reply(), ScriptedReply::status(413, "{}")] {
        for window in [0, 200_000] {
            let environment = TestEnvironment::new();
            let answer = without_usage(ScriptedReply::text("Done.")).with_repeat();
            let server = ScriptedServer::start(Script::new([record_reply(), reply.clone(), answer])).unwrap();
            let agent = match window {
                0 => {
                    environment.configure(&server);
                    environment.agent_over(environment.store(), "openai-chat/unknown-model")
                }
                window => agent_of(&environment, &server, (window, "")),
            };
            let thread = filled_thread(&agent, 3_000).await;
            send_message(&agent, thread, "And now?").await;
            let markers = visible_markers(&agent, thread).await;
            assert_eq!(markers.len(), 1);
            assert_eq!(markers[0].1.trigger, CompactionTrigger::Overflow);
            let (summarized, answered) = split_requests(&server);
            assert_eq!((summarized.len(), answered.len()), (1, 2), "the request is sent once more");
            assert!(
                newest_request(&server).contains(SUMMARY_OPENING)
                    && newest_request(&server).contains("And now?")
            );
            let texts = message_texts(&agent, thread).await;
            assert_eq!(texts.len(), 32 + 2, "the request is stored once, with its answer");
        }
    }
}

#[tokio::test]
async fn e7_a_second_overflow_is_an_error_with_sizes_and_no_loop() {
    let environment = TestEnvironment::new();
    let answer = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server =
        ScriptedServer::start(Script::new([record_reply(), too_large_reply(), too_large_reply(), answer]))
            .unwrap();
    let agent = agent_of(&environment, &server, (200_000, ""));
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
    let (summarized, answered) = split_requests(&server);
    assert_eq!((summarized.len(), answered.len()), (1, 2));
    assert_eq!(visible_markers(&agent, thread).await.len(), 1);
    // The next turn may compact and retry again.
    send_message(&agent, thread, "And then?").await;
}

#[tokio::test]
async fn e7_each_new_overflow_leads_to_a_compaction_and_an_overflow_without_messages_to_compact_is_an_error()
{
    let environment = TestEnvironment::new();
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
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "One.").await;
    send_message(&agent, thread, "Two.").await;
    super::append(&agent, thread, &super::turns(20..26, 3_000)).await;
    send_message(&agent, thread, "Three.").await;
    assert_eq!(visible_markers(&agent, thread).await.len(), 2);
    let blank = agent.threads().create(None).await.unwrap().thread_id;
    let calls_before = server.call_count();
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(blank, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("overflow")),
        "{end:?}"
    );
    assert!(server.call_count() - calls_before <= 2, "no loop");
    assert_eq!(events_of(&agent, blank, EventType::Compacted).await.len(), 0);
}

#[tokio::test]
async fn l11_a_rate_limited_or_overloaded_provider_is_no_overflow() {
    let environment = TestEnvironment::new();
    let [rate_limited, overloaded] =
        [429, 529].map(|status| ScriptedReply::status(status, r#"{"error":{"message":"slow down"}}"#));
    let answer = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server = ScriptedServer::start(Script::new([rate_limited, overloaded, answer])).unwrap();
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "And now?").await;
    assert_eq!(server.call_count(), 3);
    assert_eq!(visible_markers(&agent, thread).await, []);
    assert!(split_requests(&server).0.is_empty(), "the thread is not compacted");
}

#[tokio::test]
async fn e7_with_automatic_compaction_off_an_overflow_error_has_a_hint() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([too_large_reply().with_repeat()])).unwrap();
    let agent = agent_of(&environment, &server, (200_000, "enabled = false"));
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.failure.as_ref().map(|failure| failure.kind.as_str()), server.call_count()),
        (Some("overflow"), 1)
    );
    assert!(end.failure.clone().unwrap().hint.unwrap().contains("/compact"));
}

#[tokio::test]
async fn e7_a_request_that_is_too_large_because_of_agent_md_names_the_file_its_size_and_the_limit() {
    let notes = "- A note that is to be remembered always.\n".repeat(7_000);
    // A model with a known window is not called; one with an unknown window refuses the request.
    for window in [30_000, 0] {
        let environment = TestEnvironment::new();
        let replies = [record_reply(), too_large_reply().with_repeat()];
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent_md = environment.agent_md();
        std::fs::create_dir_all(agent_md.parent().unwrap()).unwrap();
        std::fs::write(&agent_md, &notes).unwrap();
        let agent = match window {
            0 => {
                environment.configure(&server);
                environment.agent_over(environment.store(), "openai-chat/unknown-model")
            }
            window => agent_of(&environment, &server, (window, "")),
        };
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        let (frames, cancel) = unwatched();
        let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
        let hint = end.failure.as_ref().and_then(|failure| failure.hint.clone()).unwrap_or_default();
        for part in [agent_md.to_str().unwrap(), &notes.len().to_string(), "65536 is the limit"] {
            assert!(hint.contains(part), "{window}: {part}: {end:?}");
        }
    }
}
