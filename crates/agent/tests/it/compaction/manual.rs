//! Condensing as a person or the agent asks for it: with and without a model, looked at first, beside what else waits.

use agent::{
    ApprovalPolicy, CompactionParameters, Error, HandoffRequestOptions, HistoryItem, HistoryQuery,
    KeepPolicy, ThreadError,
};
use protocol::{CompactionTrigger, EventType, HandoffStatus, RunStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    SUMMARY_OPENING, agent_of, agent_with_large_tool, append, compact_thread, configure, filled_thread,
    filled_thread_with_usage, good_server, large_call, newest_request, record_reply, send_message,
    split_requests, turns, visible_markers, without_usage,
};
use crate::environment::{
    DRAFT, DRAFT_PROMPT, TEST_MODEL, TestEnvironment, approval, assert_paired, decisions, messages, unwatched,
};

#[tokio::test]
async fn e16_a_person_condenses_with_a_model_and_is_told_what_was_done() {
    let (world, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let said = messages(&agent, thread).await;
    let condensed = compact_thread(&agent, thread).await.unwrap();
    assert!(condensed.is_stored);
    assert_eq!(
        (condensed.compaction.trigger, condensed.compaction.model.as_str()),
        (CompactionTrigger::Manual, TEST_MODEL)
    );
    let marker = condensed.marker.unwrap();
    assert_eq!(marker.id, format!("summary-marker-{}", marker.seq));
    let HistoryItem::Marker(shown) = &marker.item else { panic!("a marker: {marker:?}") };
    assert_eq!(shown.replaced_count, condensed.compaction.replaced_count);
    assert_eq!(server.call_count(), 1, "no turn is begun");
    assert_eq!(messages(&agent, thread).await, said);
    let page = agent
        .threads()
        .history_page(thread, &HistoryQuery { limit: 200, ..HistoryQuery::default() })
        .await
        .unwrap();
    assert_eq!(page.entries.last().unwrap(), &marker, "b1: at its place, behind everything that was said");
    assert!(
        matches!(&page.entries[0].item, HistoryItem::Message(first) if first.text().contains("Request 1"))
    );
    // Idempotent: again there is less to do each time, until there is nothing, and that is said.
    let mut times = 0;
    let reason = loop {
        match compact_thread(&agent, thread).await {
            Ok(_) => times += 1,
            Err(
                Error::Thread(ThreadError::NothingToCompact { reason, .. })
                | Error::Thread(ThreadError::NotCompacted { reason, .. }),
            ) => break reason,
            Err(error) => panic!("{error:?}"),
        }
    };
    assert!(times <= 2 && !reason.is_empty(), "{times} more: {reason}");
    assert_eq!(visible_markers(&agent, thread).await.len(), 1 + times);
}

#[tokio::test]
async fn e16_without_a_model_the_extract_condenses() {
    let world = TestEnvironment::new();
    let agent = world.agent();
    let thread = filled_thread(&agent, 3_000).await;
    let condensed = compact_thread(&agent, thread).await.unwrap();
    assert_eq!(condensed.compaction.model, "extractive");
    assert!(condensed.compaction.summary.contains("billing table"), "{}", condensed.compaction.summary);
    assert!(condensed.compaction.usage.total_tokens() == 0);
    let blank = agent.threads().create(None).await.unwrap().thread_id;
    let nothing = compact_thread(&agent, blank).await.unwrap_err();
    assert!(
        matches!(&nothing, Error::Thread(ThreadError::NothingToCompact { reason, .. }) if !reason.is_empty()),
        "{nothing:?}"
    );
    let undone = agent.threads().undo_compaction(blank).await.unwrap_err();
    assert!(matches!(undone, Error::Thread(ThreadError::NothingToUndo(_))), "{undone:?}");
}

#[tokio::test]
async fn e16_a_person_says_how_much_stays() {
    let (world, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
    for (keep, kept_max) in
        [(KeepPolicy::Messages(4), 4), (KeepPolicy::Tokens(2_000), 12), (KeepPolicy::Fraction(0.01), 12)]
    {
        let thread = filled_thread(&agent, 3_000).await;
        let request = CompactionParameters { focus: None, keep: Some(keep) };
        let (frames, cancel) = unwatched();
        let condensed = agent.threads().compact(thread, &request, &frames, &cancel).await.unwrap().compaction;
        assert!((1..=kept_max).contains(&condensed.kept_count), "{keep:?}: {condensed:?}");
        assert_eq!(condensed.kept_count + condensed.replaced_count, 32);
    }
}

#[tokio::test]
async fn g15_a_preview_is_what_would_be_stored_and_stores_nothing() {
    let (world, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let before = world.all_rows();
    let (frames, cancel) = unwatched();
    let request = CompactionParameters::default();
    let shown = agent.threads().preview_compaction(thread, &request, &frames, &cancel).await.unwrap();
    assert_eq!((shown.is_stored, shown.marker.is_none()), (false, true));
    assert_eq!(world.all_rows(), before, "not a byte");
    let stored = compact_thread(&agent, thread).await.unwrap();
    let mut expected = stored.compaction;
    (expected.duration_ms, expected.step) = (shown.compaction.duration_ms, shown.compaction.step);
    assert_eq!(shown.compaction, expected);
    assert_ne!(world.all_rows(), before);
}

/// Lets the model call the tool in a turn of a thread whose newest request had so many tokens.
async fn compaction_requested_by_agent(
    tokens: u64,
) -> (TestEnvironment, ScriptedServer, agent::Agent, protocol::ThreadId) {
    let world = TestEnvironment::new();
    let asks = ScriptedReply::call("k1", "compact_conversation", json!({"focus": "the last part"}));
    let server = ScriptedServer::start(Script::new([
        record_reply(),
        without_usage(asks),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]))
    .unwrap();
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled_thread_with_usage(&agent, tokens).await;
    send_message(&agent, thread, "Now something else.").await;
    (world, server, agent, thread)
}

#[tokio::test]
async fn e19_the_agents_own_wish_is_refused_below_half_the_trigger() {
    let (_world, server, agent, thread) = compaction_requested_by_agent(36_000).await;
    assert_eq!(visible_markers(&agent, thread).await, []);
    let (asked, answered) = split_requests(&server);
    assert_eq!((asked.len(), answered.len()), (0, 2));
    assert_paired(&answered[1].body);
    assert!(newest_request(&server).contains("less than half"), "{}", newest_request(&server));
}

#[tokio::test]
async fn e19_the_agents_own_wish_is_done_before_its_next_call_above_it() {
    let (_world, server, agent, thread) = compaction_requested_by_agent(50_000).await;
    let markers = visible_markers(&agent, thread).await;
    assert_eq!(markers.len(), 1);
    assert_eq!(markers[0].1.focus.as_deref(), Some("the last part"));
    let (asked, answered) = split_requests(&server);
    assert_eq!((asked.len(), answered.len()), (1, 2));
    assert!(asked[0].body.to_string().contains("the last part"));
    assert_paired(&answered[1].body);
    assert!(
        newest_request(&server).contains(SUMMARY_OPENING)
            && newest_request(&server).contains("Now something else.")
    );
    let results = super::events_of(&agent, thread, EventType::ToolMessage).await;
    assert!(results.iter().any(|result| result["call_id"] == "k1"), "the call has its result");
}

#[tokio::test]
async fn a_pending_handoff_survives_a_compaction_and_is_accepted_as_it_was_shown() {
    let world = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let replies = [record_reply(), draft, without_usage(ScriptedReply::text("Done.")).with_repeat()];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    compact_thread(&agent, thread).await.unwrap();
    let still = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(still.len(), 1, "the question is still asked");
    agent.threads().undo_compaction(thread).await.unwrap();
    compact_thread(&agent, thread).await.unwrap();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert!(decided.child_thread_id.is_some());
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
}

#[tokio::test]
async fn a_pending_question_of_a_tool_survives_a_compaction_and_its_answer_finds_the_call() {
    let world = TestEnvironment::new();
    let write = ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}));
    let replies =
        [record_reply(), without_usage(write), without_usage(ScriptedReply::text("Done.")).with_repeat()];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    configure(&world, &server, (200_000, ""));
    let settings =
        agent::AgentSettings { approval_policy: ApprovalPolicy::Ask, ..world.settings(TEST_MODEL) };
    let agent = agent::Agent::with_store(settings, world.store()).unwrap();
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Write it.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    compact_thread(&agent, thread).await.unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(pending.len(), 1);
    let yes = decisions(r#"{"decisions":[{"type":"approve"}]}"#);
    let end = agent.runs().resume(pending[0].interrupt_id, &yes, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(world.read_file("new.txt"), "words");
    let body = split_requests(&server).1.last().unwrap().body.clone();
    assert_paired(&body);
    assert!(body["messages"].to_string().contains(SUMMARY_OPENING) && body.to_string().contains("w1"));
}

#[tokio::test]
async fn a_turn_stopped_after_the_agents_wish_leaves_nothing_to_the_next_turn() {
    let world = TestEnvironment::new();
    let asks = ScriptedReply::call("k1", "compact_conversation", json!({})).with_call(
        "k2",
        "large",
        json!({"chars": 10}),
    );
    let replies = [
        record_reply(),
        without_usage(asks),
        large_call("k3", 10),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&world, &server, (200_000, "trigger = [{ tokens = 60000 }]"));
    let thread = filled_thread_with_usage(&agent, 50_000).await;
    send_message(&agent, thread, "Now something else.").await;
    let count = visible_markers(&agent, thread).await.len();
    send_message(&agent, thread, "And now?").await;
    assert_eq!((count, visible_markers(&agent, thread).await.len()), (1, 1), "it was wanted once");
    let state = agent.store().checkpoint(thread).await.unwrap().unwrap().channels;
    let left: Vec<&String> = state.keys().filter(|key| key.starts_with("_compaction")).collect();
    assert_eq!(left, Vec::<&String>::new());
}

#[tokio::test]
async fn m15_growth_is_proposed_once_and_again_only_after_it_was_condensed_and_grew() {
    let (world, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&world, &server, (100_000, "[handoff]\npropose_at = 0.5"));
    let thread = filled_thread_with_usage(&agent, 60_000).await;
    let full = agent.handoffs().context_usage(thread).await.unwrap().unwrap();
    assert!(full.is_due && full.tokens >= 60_000, "{full:?}");
    assert_eq!(
        (server.call_count(), visible_markers(&agent, thread).await.len()),
        (0, 0),
        "nothing changes without a decision"
    );
    agent.handoffs().record_proposed_size(thread, full.tokens).await.unwrap();
    assert!(!agent.handoffs().context_usage(thread).await.unwrap().unwrap().is_due, "not twice for the same");
    compact_thread(&agent, thread).await.unwrap();
    let small = agent.handoffs().context_usage(thread).await.unwrap().unwrap();
    assert!(!small.is_due && small.tokens < 30_000, "{small:?}");
    append(&agent, thread, &turns(20..28, 24_000)).await;
    assert!(agent.handoffs().context_usage(thread).await.unwrap().unwrap().is_due, "it has grown again");
}
