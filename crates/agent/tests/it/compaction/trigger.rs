//! Tests of automatic compaction: the trigger clauses, the token and message counts, and how much is kept.

use agent::{EventQuery, Frame, FrameSender, SubscriptionItem};
use protocol::{Category, CompactionTrigger, EventType, Message};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    CODE_WORD_SENTENCE, RECORD, SUMMARY_OPENING, agent_of, append, events_of, filled_thread,
    filled_thread_with_usage, good_server, newest_request, record_reply, send_message, split_requests, turns,
    visible_markers,
};
use crate::environment::{TEST_MODEL, TestEnvironment, assert_paired, messages, unwatched};

/// A context window so large that only the trigger clauses cause a compaction.
const WINDOW: u64 = 100_000;

/// Sends a message in a thread of 34 messages, whose newest request had `tokens` tokens. Returns whether the thread was
/// compacted.
async fn is_compacted(section: &str, tokens: u64) -> bool {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (WINDOW, section));
    let thread = filled_thread_with_usage(&agent, tokens).await;
    send_message(&agent, thread, "And now?").await;
    let markers = visible_markers(&agent, thread).await;
    let (summarized, answered) = split_requests(&server);
    assert_eq!((summarized.len(), answered.len()), (markers.len(), 1), "{section}: one call for each marker");
    assert_paired(&answered[0].body);
    assert!(markers.iter().all(|(_, marker)| marker.trigger == CompactionTrigger::Auto));
    match markers.len() {
        0 => assert!(!newest_request(&server).contains(SUMMARY_OPENING)),
        count => assert!(
            count == 1 && newest_request(&server).contains(SUMMARY_OPENING),
            "{section}: {count} markers"
        ),
    }
    !markers.is_empty()
}

#[tokio::test]
async fn e1_any_clause_is_enough_and_all_of_a_clause_must_hold() {
    for (section, tokens, expected) in [
        ("", 83_000, false),
        ("", 86_000, true),
        ("trigger = [{ fraction = 0.5 }]", 49_000, false),
        ("trigger = [{ fraction = 0.5 }]", 51_000, true),
        ("trigger = [{ tokens = 40000 }]", 39_000, false),
        ("trigger = [{ tokens = 40000 }]", 41_000, true),
        ("trigger = [{ messages = 36 }]", 20_000, false),
        ("trigger = [{ messages = 35 }]", 20_000, true),
        ("trigger = [{ tokens = 40000, messages = 36 }]", 41_000, false),
        ("trigger = [{ tokens = 40000, messages = 35 }]", 41_000, true),
        ("trigger = [{ tokens = 40000, messages = 35 }]", 39_000, false),
        ("trigger = [{ tokens = 90000 }, { messages = 35 }]", 20_000, true),
        ("trigger = []", 70_000, false),
        ("enabled = false", 86_000, false),
    ] {
        assert_eq!(is_compacted(section, tokens).await, expected, "{section:?} at {tokens} tokens");
    }
}

#[tokio::test]
async fn e2_a_thread_is_compacted_with_an_unknown_window_and_without_reported_usage() {
    for section in ["", "[compaction]\ntrigger = [{ fraction = 0.8 }]\n"] {
        let (environment, server) = (TestEnvironment::new(), good_server());
        environment.configure_with_extra(&server, section);
        let agent = environment.agent_over(environment.store(), "openai-chat/unknown-model");
        let small = filled_thread(&agent, 400).await;
        send_message(&agent, small, "And now?").await;
        assert_eq!(visible_markers(&agent, small).await, [], "the thread is far below 170,000 tokens");
        let large = filled_thread(&agent, 90_000).await;
        send_message(&agent, large, "And now?").await;
        let markers = visible_markers(&agent, large).await;
        assert_eq!(markers.len(), 1, "{section:?}");
        assert!(markers[0].1.tokens_before > 170_000 && markers[0].1.kept_count <= 6, "{:?}", markers[0].1);
    }
}

#[tokio::test]
async fn e3_the_configured_amount_is_kept_and_no_call_is_separated_from_its_result() {
    for (keep, kept_max) in [
        ("keep = { messages = 9 }", 9),
        ("keep = { messages = 1 }", 1),
        ("keep = { tokens = 700 }", 16),
        ("keep = { fraction = 0.005 }", 12),
    ] {
        let (environment, server) = (TestEnvironment::new(), good_server());
        let agent =
            agent_of(&environment, &server, (WINDOW, &format!("trigger = [{{ messages = 35 }}]\n{keep}")));
        let thread = filled_thread_with_usage(&agent, 20_000).await;
        send_message(&agent, thread, "And now?").await;
        let (_, marker) = visible_markers(&agent, thread).await.remove(0);
        assert!((1..=kept_max).contains(&marker.kept_count), "{keep}: {marker:?}");
        assert_eq!(
            marker.replaced_count + marker.kept_count,
            35,
            "{keep}: each message is either replaced or kept"
        );
        let body = &split_requests(&server).1[0].body;
        assert_paired(body);
        assert!(body.to_string().contains("And now?"), "{keep}: the request is sent");
        assert!(!body.to_string().contains(CODE_WORD_SENTENCE), "{keep}: compacted messages are not sent");
    }
}

#[tokio::test]
async fn c1_c2_one_event_in_the_transaction_of_the_step_describes_the_compaction() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (WINDOW, ""));
    let thread = filled_thread_with_usage(&agent, 86_000).await;
    let before = messages(&agent, thread).await;
    let end = send_message(&agent, thread, "And now?").await;
    let events = agent.threads().events(thread).await.unwrap();
    let index = events.iter().position(|event| event.kind() == Some(EventType::Compacted)).unwrap();
    let (marker, (seq, content)) = (&events[index], visible_markers(&agent, thread).await.remove(0));
    assert_eq!((marker.run_id, marker.seq), (Some(end.run_id), seq));
    assert_eq!(marker.kind().unwrap().category(), Category::Middleware);
    let in_range = |event: &&protocol::Event| (content.first_seq..=content.last_seq).contains(&event.seq);
    let replaced = events.iter().filter(in_range).filter(|event| event.message().is_some()).count();
    assert_eq!(content.replaced_count, replaced as u64, "c3: the count is that of the messages in the range");
    assert_eq!(content.model, TEST_MODEL);
    assert!(content.summary.contains("Put every part in order."), "{}", content.summary);
    assert!(content.tokens_before >= 86_000 && content.tokens_after < content.tokens_before, "{content:?}");
    assert_eq!((content.schema_version, content.previous_seq), (1, None));
    assert!(content.step > 0);
    let after = messages(&agent, thread).await;
    assert_eq!(after[..before.len()], before, "no message is changed or removed");
    assert_eq!(after.len(), before.len() + 2, "a13, a14: the request is stored once, with its answer");
}

#[tokio::test]
async fn c3_a_second_compaction_counts_neither_the_summary_nor_messages_of_the_first() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent =
        agent_of(&environment, &server, (WINDOW, "trigger = [{ messages = 20 }]\nkeep = { messages = 3 }"));
    let thread = filled_thread(&agent, 400).await;
    send_message(&agent, thread, "And now?").await;
    append(&agent, thread, &turns(9..14, 400)).await;
    send_message(&agent, thread, "And then?").await;
    let markers = visible_markers(&agent, thread).await;
    let [(first_seq, first), (_, second)] = markers.as_slice() else { panic!("two markers: {markers:?}") };
    assert_eq!(second.previous_seq, Some(*first_seq));
    assert_eq!(second.first_seq, first.last_seq + 1, "ranges are adjacent and disjoint");
    let events = agent.threads().events(thread).await.unwrap();
    for marker in [first, second] {
        let in_range =
            events.iter().filter(|event| (marker.first_seq..=marker.last_seq).contains(&event.seq));
        let messages = in_range.filter(|event| event.message().is_some()).count();
        assert_eq!(marker.replaced_count, messages as u64);
    }
    // The summarizer updates its earlier record, so it receives only the record and the new messages.
    let summarized = split_requests(&server).0;
    let prompt = summarized[1].body["messages"].to_string();
    assert!(prompt.contains("<earlier_record>") && !prompt.contains(CODE_WORD_SENTENCE), "{prompt}");
    assert!(prompt.contains("Request 9"), "{prompt}");
}

#[tokio::test]
async fn e4_l7_the_last_request_is_sent_verbatim_and_marked_as_pending_even_when_it_alone_exceeds_keep() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent =
        agent_of(&environment, &server, (WINDOW, "trigger = [{ messages = 20 }]\nkeep = { messages = 2 }"));
    let thread = filled_thread(&agent, 400).await;
    let request = format!("The request. {}", "It is very long, and every word of it matters. ".repeat(400));
    let mut more = vec![Message::human(&*request)];
    more.extend(turns(20..24, 400).into_iter().filter(|message| !matches!(message, Message::Human(_))));
    append(&agent, thread, &more).await;
    let (frames, cancel) = unwatched();
    let compacted = agent.threads().compact(thread, &Default::default(), &frames, &cancel).await.unwrap();
    let body = {
        send_message(&agent, thread, "Go on.").await;
        split_requests(&server).1[0].body.clone()
    };
    let sent_texts: Vec<String> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|block| block["text"].as_str().map(str::to_owned))
        .collect();
    assert!(sent_texts.iter().any(|text| text.trim() == request.trim()), "the request is sent verbatim");
    assert!(compacted.compaction.last_request_seq.is_some(), "{:?}", compacted.compaction);
    assert!(compacted.compaction.summary.contains("The user's last request then follows"));
}

#[tokio::test]
async fn c8_the_summary_is_never_streamed_as_an_answer() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (WINDOW, ""));
    let thread = filled_thread_with_usage(&agent, 86_000).await;
    let (frames, mut subscription) = FrameSender::channel();
    let (_, cancel) = unwatched();
    agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    let (mut streamed, mut markers) = (String::new(), 0);
    while let Some(SubscriptionItem::Frame(_, frame)) = subscription.try_next() {
        match &*frame {
            Frame::Text { text, .. } | Frame::Thinking { text, .. } => streamed.push_str(text),
            Frame::Event(event) if event.kind() == Some(EventType::Compacted) => markers += 1,
            _ => {}
        }
    }
    assert_eq!((streamed.as_str(), markers), ("Done.", 1));
}

#[tokio::test]
async fn a19_a24_the_summary_call_is_a_trace_event_and_its_tokens_are_counted() {
    let environment = TestEnvironment::new();
    let answer = ScriptedReply::text("Done.").with_tokens(900, 30).with_repeat();
    let server = ScriptedServer::start(Script::new([record_reply(), answer])).unwrap();
    let agent = agent_of(&environment, &server, (WINDOW, ""));
    let thread = filled_thread_with_usage(&agent, 86_000).await;
    let before = agent.threads().cost_report(thread).await.unwrap();
    let end = send_message(&agent, thread, "And now?").await;
    assert_eq!(end.usage.total_tokens(), 770 + 930);
    let traced = events_of(&agent, thread, EventType::ModelCalled).await;
    assert_eq!(traced.len(), 1);
    assert_eq!(
        (traced[0]["purpose"].as_str(), traced[0]["model"].as_str()),
        (Some("compaction"), Some(TEST_MODEL))
    );
    assert_eq!(traced[0]["usage"]["input_tokens"], 700);
    assert_eq!(EventType::ModelCalled.category(), Category::Trace);
    let cost = agent.threads().cost_report(thread).await.unwrap();
    let tokens =
        |cost: &agent::CostReport| cost.models.iter().map(|model| model.usage.total_tokens()).sum::<u64>();
    assert_eq!(tokens(&cost) - tokens(&before), 770 + 930);
    let query = EventQuery { categories: vec![Category::Message], limit: 100, ..EventQuery::default() };
    let messages = agent.store().events(thread, query).await.unwrap();
    assert!(messages.iter().all(|event| !event.content.get().contains("Put every part in order")));
    let (_, marker) = visible_markers(&agent, thread).await.remove(0);
    assert_eq!(marker.usage.total_tokens(), 770);
    assert!(RECORD.contains(&marker.sections.goal));
}

#[tokio::test]
async fn b11_b18_the_context_report_shows_the_compacted_range_and_the_providers_token_count() {
    let environment = TestEnvironment::new();
    let answer = ScriptedReply::text("Done.").with_tokens(30_000, 30).with_repeat();
    let server = ScriptedServer::start(Script::new([record_reply(), answer])).unwrap();
    let agent = agent_of(&environment, &server, (WINDOW, ""));
    let thread = filled_thread_with_usage(&agent, 86_000).await;
    send_message(&agent, thread, "And now?").await;
    let (seq, marker) = visible_markers(&agent, thread).await.remove(0);
    let report = agent.threads().context_report(thread).await.unwrap();
    let compacted = report.condensed.as_ref().unwrap();
    assert_eq!((compacted.marker_seq, compacted.last_seq), (seq, marker.last_seq));
    assert!(report.parts.iter().any(|part| part.name == compacted.part && part.tokens > 0), "{report:?}");
    assert!(report.tokens.abs_diff(30_030) <= 3_003, "{report:?}");
    assert!((75_000..=85_000).contains(&report.trigger_tokens.unwrap()), "{report:?}");
}
