//! Tests of compactions that the user or the agent requests: with and without a model, as a preview, and while a handoff or
//! a tool call waits for a decision.

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
async fn e16_a_manual_compaction_with_a_model_returns_its_result() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let before = messages(&agent, thread).await;
    let compacted = compact_thread(&agent, thread).await.unwrap();
    assert!(compacted.is_stored);
    assert_eq!(
        (compacted.compaction.trigger, compacted.compaction.model.as_str()),
        (CompactionTrigger::Manual, TEST_MODEL)
    );
    let marker = compacted.marker.unwrap();
    assert_eq!(marker.id, format!("summary-marker-{}", marker.seq));
    let HistoryItem::Marker(shown) = &marker.item else { panic!("a marker: {marker:?}") };
    assert_eq!(shown.replaced_count, compacted.compaction.replaced_count);
    assert_eq!(server.call_count(), 1, "no turn is started");
    assert_eq!(messages(&agent, thread).await, before);
    let page = agent
        .threads()
        .history_page(thread, &HistoryQuery { limit: 200, ..HistoryQuery::default() })
        .await
        .unwrap();
    assert_eq!(page.entries.last().unwrap(), &marker, "b1: the marker follows all messages");
    assert!(
        matches!(&page.entries[0].item, HistoryItem::Message(first) if first.text().contains("Request 1"))
    );
    // Repeated compactions have less to do each time, and finally fail with a reason.
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
async fn e16_without_a_model_the_compaction_uses_the_offline_summary() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let thread = filled_thread(&agent, 3_000).await;
    let compacted = compact_thread(&agent, thread).await.unwrap();
    assert_eq!(compacted.compaction.model, "extractive");
    assert!(compacted.compaction.summary.contains("billing table"), "{}", compacted.compaction.summary);
    assert!(compacted.compaction.usage.total_tokens() == 0);
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
async fn e16_the_user_chooses_how_much_is_kept() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    for (keep, kept_max) in
        [(KeepPolicy::Messages(4), 4), (KeepPolicy::Tokens(2_000), 12), (KeepPolicy::Fraction(0.01), 12)]
    {
        let thread = filled_thread(&agent, 3_000).await;
        let request = CompactionParameters { focus: None, keep: Some(keep) };
        let (frames, cancel) = unwatched();
        let compacted = agent.threads().compact(thread, &request, &frames, &cancel).await.unwrap().compaction;
        assert!((1..=kept_max).contains(&compacted.kept_count), "{keep:?}: {compacted:?}");
        assert_eq!(compacted.kept_count + compacted.replaced_count, 32);
    }
}

#[tokio::test]
async fn g15_a_preview_equals_the_later_compaction_and_stores_nothing() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let before = environment.all_rows();
    let (frames, cancel) = unwatched();
    let request = CompactionParameters::default();
    let shown = agent.threads().preview_compaction(thread, &request, &frames, &cancel).await.unwrap();
    assert_eq!((shown.is_stored, shown.marker.is_none()), (false, true));
    assert_eq!(environment.all_rows(), before, "the preview writes nothing");
    let stored = compact_thread(&agent, thread).await.unwrap();
    let mut expected = stored.compaction;
    (expected.duration_ms, expected.step) = (shown.compaction.duration_ms, shown.compaction.step);
    assert_eq!(shown.compaction, expected);
    assert_ne!(environment.all_rows(), before);
}

/// Runs a turn in which the model calls `compact_conversation`, in a thread whose newest request had `tokens` tokens.
async fn compaction_requested_by_agent(
    tokens: u64,
) -> (TestEnvironment, ScriptedServer, agent::Agent, protocol::ThreadId) {
    let environment = TestEnvironment::new();
    let call = ScriptedReply::call("k1", "compact_conversation", json!({"focus": "the last part"}));
    let server = ScriptedServer::start(Script::new([
        record_reply(),
        without_usage(call),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]))
    .unwrap();
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread_with_usage(&agent, tokens).await;
    send_message(&agent, thread, "Now something else.").await;
    (environment, server, agent, thread)
}

#[tokio::test]
async fn e19_the_agents_compaction_request_is_refused_below_half_the_trigger() {
    let (_world, server, agent, thread) = compaction_requested_by_agent(36_000).await;
    assert_eq!(visible_markers(&agent, thread).await, []);
    let (summarized, answered) = split_requests(&server);
    assert_eq!((summarized.len(), answered.len()), (0, 2));
    assert_paired(&answered[1].body);
    assert!(newest_request(&server).contains("less than half"), "{}", newest_request(&server));
}

#[tokio::test]
async fn e19_the_agents_compaction_request_is_done_before_the_next_model_call_above_half_the_trigger() {
    let (_world, server, agent, thread) = compaction_requested_by_agent(50_000).await;
    let markers = visible_markers(&agent, thread).await;
    assert_eq!(markers.len(), 1);
    assert_eq!(markers[0].1.focus.as_deref(), Some("the last part"));
    let (summarized, answered) = split_requests(&server);
    assert_eq!((summarized.len(), answered.len()), (1, 2));
    assert!(summarized[0].body.to_string().contains("the last part"));
    assert_paired(&answered[1].body);
    assert!(
        newest_request(&server).contains(SUMMARY_OPENING)
            && newest_request(&server).contains("Now something else.")
    );
    let results = super::events_of(&agent, thread, EventType::ToolMessage).await;
    assert!(results.iter().any(|result| result["call_id"] == "k1"), "the call has its result");
}

#[tokio::test]
async fn a_pending_handoff_survives_a_compaction_and_is_accepted_unchanged() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let replies = [record_reply(), draft, without_usage(ScriptedReply::text("Done.")).with_repeat()];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    compact_thread(&agent, thread).await.unwrap();
    let interrupts = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(interrupts.len(), 1, "the interrupt is still pending");
    agent.threads().undo_compaction(thread).await.unwrap();
    compact_thread(&agent, thread).await.unwrap();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert!(decided.child_thread_id.is_some());
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
}

#[tokio::test]
async fn a_pending_approval_of_a_tool_call_survives_a_compaction_and_its_decision_runs_the_call() {
    let environment = TestEnvironment::new();
    let write = ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}));
    let replies =
        [record_reply(), without_usage(write), without_usage(ScriptedReply::text("Done.")).with_repeat()];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    configure(&environment, &server, (200_000, ""));
    let settings =
        agent::AgentSettings { approval_policy: ApprovalPolicy::Ask, ..environment.settings(TEST_MODEL) };
    let agent = agent::Agent::with_store(settings, environment.store()).unwrap();
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Write it.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    compact_thread(&agent, thread).await.unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(pending.len(), 1);
    let approve = decisions(r#"{"decisions":[{"type":"approve"}]}"#);
    let end =
        agent.runs().resume(pending[0].interrupt_id, &approve, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(environment.read_file("new.txt"), "words");
    let body = split_requests(&server).1.last().unwrap().body.clone();
    assert_paired(&body);
    assert!(body["messages"].to_string().contains(SUMMARY_OPENING) && body.to_string().contains("w1"));
}

#[tokio::test]
async fn a_compaction_that_the_agent_requested_happens_once_and_not_again_in_the_next_turn() {
    let environment = TestEnvironment::new();
    let calls = ScriptedReply::call("k1", "compact_conversation", json!({})).with_call(
        "k2",
        "large",
        json!({"chars": 10}),
    );
    let replies = [
        record_reply(),
        without_usage(calls),
        large_call("k3", 10),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&environment, &server, (200_000, "trigger = [{ tokens = 60000 }]"));
    let thread = filled_thread_with_usage(&agent, 50_000).await;
    send_message(&agent, thread, "Now something else.").await;
    let count = visible_markers(&agent, thread).await.len();
    send_message(&agent, thread, "And now?").await;
    assert_eq!((count, visible_markers(&agent, thread).await.len()), (1, 1), "one request, one compaction");
    let state = agent.store().checkpoint(thread).await.unwrap().unwrap().channels;
    let remaining: Vec<&String> = state.keys().filter(|key| key.starts_with("_compaction")).collect();
    assert_eq!(remaining, Vec::<&String>::new());
}

#[tokio::test]
async fn m15_a_handoff_is_proposed_once_for_a_size_and_again_only_after_a_compaction_and_growth() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (100_000, "[handoff]\npropose_at = 0.5"));
    let thread = filled_thread_with_usage(&agent, 60_000).await;
    let full = agent.handoffs().context_usage(thread).await.unwrap().unwrap();
    assert!(full.is_due && full.tokens >= 60_000, "{full:?}");
    assert_eq!(
        (server.call_count(), visible_markers(&agent, thread).await.len()),
        (0, 0),
        "the proposal alone calls no model and compacts nothing"
    );
    agent.handoffs().record_proposed_size(thread, full.tokens).await.unwrap();
    assert!(
        !agent.handoffs().context_usage(thread).await.unwrap().unwrap().is_due,
        "one proposal for each size"
    );
    compact_thread(&agent, thread).await.unwrap();
    let small = agent.handoffs().context_usage(thread).await.unwrap().unwrap();
    assert!(!small.is_due && small.tokens < 30_000, "{small:?}");
    append(&agent, thread, &turns(20..28, 24_000)).await;
    assert!(
        agent.handoffs().context_usage(thread).await.unwrap().unwrap().is_due,
        "the thread has grown again"
    );
}
