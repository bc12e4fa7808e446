//! Tests of requests at the limit of the context window: small windows, oversized tool results, requests that cannot be
//! compacted at all, and compactions that do not help.

use jiff::Timestamp;
use journal::Artifact;
use protocol::{EventType, Message, RunStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    SUMMARIZER_PROMPT, agent_of, agent_with_large_tool, append, compact_thread, events_of, filled_thread,
    good_server, large_call, large_result, newest_request, record_reply, send_message, split_requests, turns,
    visible_markers, without_usage,
};
use crate::environment::{TestEnvironment, assert_paired, message_texts, messages, unwatched};

/// The maximum number of bytes of a request body for each token of the window: four bytes of text and one byte for JSON
/// syntax.
const BYTES_PER_TOKEN: u64 = 5;

/// Returns the estimated tokens of a request without messages, that is of the instructions and the tools.
async fn frame_tokens(agent: &agent::Agent) -> u64 {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    agent.threads().context_report(thread).await.unwrap().tokens
}

#[tokio::test]
async fn a_report_about_the_context_needs_no_lease_and_writes_no_lock_file() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 300).await;
    // A file in the place of the folder of the locks lets each attempt to take a lease fail, as a full disk does.
    std::fs::write(environment.home().root().join("processes"), "").unwrap();
    let report = agent.threads().context_report(thread).await.unwrap();
    assert!(report.parts.iter().any(|part| part.name == "tools" && part.tokens > 0), "{report:?}");
}

#[tokio::test]
async fn l6_a_small_window_never_blocks_a_conversation() {
    let environment = TestEnvironment::new();
    let server = good_server();
    let frame = frame_tokens(&agent_with_large_tool(&environment, &server, (200_000, ""))).await;
    println!("instructions and tools take {frame} tokens");
    for message_tokens in [1_200_u64, 2_000, 4_000, 8_000] {
        // A quarter of the window is reserved for the answer.
        let window = (frame + message_tokens) * 4 / 3;
        let environment = TestEnvironment::new();
        let mut replies = vec![record_reply()];
        for (number, chars) in [2_000, 9_000, 300, 40_000, 6_000, 6_000, 12_000, 100].into_iter().enumerate()
        {
            let calls = large_call(&format!("a{number}"), chars).with_call(
                format!("b{number}"),
                "large",
                json!({"chars": chars / 2}),
            );
            replies.push(calls);
        }
        replies.push(without_usage(ScriptedReply::text("Done.")).with_repeat());
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent = agent_with_large_tool(&environment, &server, (window, ""));
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        for request in ["Look at all of it.", "And again.", "And once more."] {
            send_message(&agent, thread, request).await;
        }
        let (summarized, answered) = split_requests(&server);
        assert_eq!(answered.len(), 8 + 3, "window {window}");
        assert!(summarized.len() <= 30, "window {window}: {} calls for summaries", summarized.len());
        assert!(!visible_markers(&agent, thread).await.is_empty(), "window {window}");
        println!("window {window}: {} calls for summaries", summarized.len());
        for request in answered {
            assert_paired(&request.body);
            let bytes = request.body.to_string().len() as u64;
            assert!(bytes < window * BYTES_PER_TOKEN, "window {window}: {bytes} bytes");
        }
        let texts = message_texts(&agent, thread).await;
        assert!(texts.iter().any(|text| *text == large_result(40_000)), "the journal has the whole result");
    }
}

#[tokio::test]
async fn l6_a_long_chat_in_a_small_window_continues_with_a_good_and_a_bad_summarizer() {
    for summarizer in [
        record_reply(),
        ScriptedReply::text("lorem ipsum").when_body_contains(SUMMARIZER_PROMPT).with_repeat(),
    ] {
        let environment = TestEnvironment::new();
        let answer =
            ScriptedReply::text("There is much to say about it, and here is some of it. ".repeat(30));
        let server =
            ScriptedServer::start(Script::new([summarizer, without_usage(answer).with_repeat()])).unwrap();
        let agent = agent_of(&environment, &server, (200_000, ""));
        let window = (frame_tokens(&agent).await + 2_500) * 4 / 3;
        drop(agent);
        let agent = agent_of(&environment, &server, (window, ""));
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        for number in 0..24 {
            let request =
                format!("Question {number}: {}", "what about the next of them? ".repeat(number % 5 * 20));
            send_message(&agent, thread, &request).await;
            assert!(newest_request(&server).contains(&format!("Question {number}:")));
        }
        let markers = visible_markers(&agent, thread).await;
        assert!((3..24).contains(&markers.len()), "{} markers", markers.len());
        for (_, marker) in &markers {
            assert!(marker.tokens_after * 4 / 3 <= window, "{marker:?}");
            assert!(
                marker.tokens_after * 10 <= marker.tokens_before * 9 || marker.tokens_before * 4 / 3 > window
            );
        }
        assert_eq!(messages(&agent, thread).await.len(), 48);
    }
}

#[tokio::test]
async fn a21_e6_an_oversized_result_is_clipped_to_a_pointer_that_read_file_follows() {
    let environment = TestEnvironment::new();
    let whole = large_result(200_000);
    let any_thread = protocol::ThreadId::generate();
    let name = Artifact::new(any_thread, "text/plain", whole.clone().into_bytes(), Timestamp::now()).sha256;
    let read_args = json!({"path": format!("artifact:{}", &name[..16]), "offset": 4_000, "limit": 3});
    let server = ScriptedServer::start(Script::new([
        record_reply(),
        large_call("c1", 200_000),
        without_usage(ScriptedReply::call("c2", "read_file", read_args)),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]))
    .unwrap();
    let agent = agent_with_large_tool(&environment, &server, (40_000, ""));
    let thread = filled_thread(&agent, 400).await;
    send_message(&agent, thread, "Look at the large one.").await;
    let requests = split_requests(&server).1;
    let clipped = requests[1].body.to_string();
    assert!(clipped.contains(&format!("artifact:{}", &name[..16])), "{clipped}");
    assert!(clipped.contains("line 0 says") && clipped.len() < 160_000, "{} bytes", clipped.len());
    requests.iter().for_each(|request| assert_paired(&request.body));
    let read = requests[2].body.to_string();
    assert!(read.contains("line 4000 says that all is well"), "{read}");
    let clips = events_of(&agent, thread, EventType::ResultClipped).await;
    assert_eq!(clips.len(), 1);
    assert_eq!(
        (clips[0]["bytes"].as_u64(), clips[0]["sha256"].as_str()),
        (Some(200_000), Some(name.as_str()))
    );
    assert!(message_texts(&agent, thread).await.contains(&whole), "the journal has the whole result");
}

#[tokio::test]
async fn l11_a_request_that_cannot_be_compacted_fails_with_its_parts_before_any_model_call() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (20_000, ""));
    for is_first in [true, false] {
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        if !is_first {
            append(&agent, thread, &turns(1..6, 400)).await;
        }
        let (frames, cancel) = unwatched();
        let long = "word ".repeat(16_000);
        let end = agent.runs().send_message(thread, long.as_str(), &frames, &cancel).await.unwrap();
        assert_eq!(
            (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
            (RunStatus::Error, Some("limit")),
            "{end:?}"
        );
        let error = end.failure.clone().unwrap().message;
        for part in ["instructions and tools", "your last message 20003", "15000 tokens"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(end.failure.as_ref().is_some_and(|failure| failure.hint.is_some()));
        assert_eq!(server.call_count(), 0, "no model was called");
        assert_eq!(
            message_texts(&agent, thread).await.last().unwrap(),
            &long,
            "a13: the user's message is stored"
        );
        let message_count: u64 = message_texts(&agent, thread).await.len() as u64;
        agent
            .threads()
            .rewind(thread, agent.threads().prompts(thread, 1).await.unwrap()[0].seq - 1)
            .await
            .unwrap();
        assert_eq!(message_texts(&agent, thread).await.len() as u64, message_count - 1);
    }
}

#[tokio::test]
async fn l11_a_request_that_just_fits_is_sent_although_it_cannot_be_compacted() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (40_000, ""));
    // A quarter of the window is reserved for the answer.
    let words = 30_000 - frame_tokens(&agent).await - 50;
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, thread, &"abc ".repeat(usize::try_from(words).unwrap())).await;
    assert_eq!(server.call_count(), 1);
}

#[tokio::test]
async fn l11_a_compaction_that_does_not_help_is_recorded_and_the_turn_continues() {
    // The conversation has only a few words, so every summary is longer.
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent =
        agent_of(&environment, &server, (200_000, "trigger = [{ messages = 3 }]\nkeep = { messages = 1 }"));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    append(&agent, thread, &[Message::human("Hello."), Message::ai("Hello.")]).await;
    for text in ["One.", "Two.", "Three.", "Four."] {
        send_message(&agent, thread, text).await;
    }
    assert_eq!(visible_markers(&agent, thread).await, [], "no progress, no marker");
    let failed = events_of(&agent, thread, EventType::CompactionFailed).await;
    assert_eq!(
        failed.len(),
        1,
        "a failed compaction is not retried before the conversation has grown: {failed:?}"
    );
    assert!(failed[0]["reason"].as_str().unwrap().contains("tokens instead of"), "{failed:?}");
    assert_eq!(split_requests(&server).0.len(), 1);
    let stuck = async |agent: &agent::Agent| {
        agent.store().checkpoint(thread).await.unwrap().unwrap().channels["_compaction_stuck"].clone()
    };
    let recorded = stuck(&agent).await;
    assert_eq!(recorded["attempts"], 1);
    let refused = compact_thread(&agent, thread).await.unwrap_err();
    let agent::Error::Thread(agent::ThreadError::NothingToCompact { reason, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(stuck(&agent).await, recorded, "manual attempts are not counted");
    assert!(reason.contains("hardly be smaller"), "{reason}");
}

#[tokio::test]
async fn l11_a_trigger_below_the_size_of_instructions_and_tools_never_loops() {
    for section in [
        "trigger = [{ tokens = 10 }]",
        "trigger = [{ fraction = 0.001 }]",
        "trigger = [{ messages = 1 }]",
        "trigger = [{ tokens = 10 }]\nkeep = { tokens = 10 }",
        "trigger = [{ messages = 1 }]\nkeep = { messages = 1 }",
    ] {
        let environment = TestEnvironment::new();
        let mut replies = vec![record_reply()];
        replies.extend((0..6).map(|number| large_call(&format!("c{number}"), 2_000)));
        replies.push(without_usage(ScriptedReply::text("Done.")).with_repeat());
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent = agent_with_large_tool(&environment, &server, (200_000, section));
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        for text in ["Look.", "Look again."] {
            send_message(&agent, thread, text).await;
        }
        let (summarized, answered) = split_requests(&server);
        assert_eq!(answered.len(), 6 + 2, "{section}");
        assert!(summarized.len() <= answered.len(), "{section}: {} calls for summaries", summarized.len());
        println!("{section}: {} calls for summaries", summarized.len());
        let steps = events_of(&agent, thread, EventType::RunEnded).await;
        assert!(steps.iter().all(|end| end["steps"].as_u64().unwrap() < 60), "{section}: {steps:?}");
    }
}

#[tokio::test]
async fn l12_a_thread_is_compacted_for_a_smaller_window_before_the_first_request() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 12_000).await;
    send_message(&agent, thread, "And now?").await;
    assert_eq!(visible_markers(&agent, thread).await, []);
    let whole = newest_request(&server).len();
    drop(agent);
    let agent = agent_of(&environment, &server, (24_000, ""));
    send_message(&agent, thread, "And with less?").await;
    assert_eq!(visible_markers(&agent, thread).await.len(), 1);
    let requests = server.requests();
    assert!(
        requests[1].body.to_string().contains(SUMMARIZER_PROMPT),
        "the thread is compacted before the message is sent"
    );
    assert!(newest_request(&server).len() < whole * 3 / 4, "{} of {whole}", newest_request(&server).len());
    assert!(newest_request(&server).contains("And with less?"));
    assert_eq!(messages(&agent, thread).await.len(), 32 + 4);
}
