//! Condensing as a person or the agent asks for it: with and without a model, looked at first, beside what else waits.

use agent::{CompactionRequest, Error, HandoffRequest, HistoryItem, HistoryQuery, Keep, Policy, ThreadError};
use protocol::{CompactionTrigger, EventType, HandoffStatus, RunStatus};
use serde_json::json;
use test_model::{Reply, Script, Server};

use super::{
    OPENING, agent_of, append, calls_large, compacted, configure, filled, good_server, markers, newest,
    record, reported, sent, split, turns, unreported, with_large,
};
use crate::world::{DRAFT, DRAFT_PROMPT, MODEL, World, approve, assert_paired, decisions, messages, quiet};

#[tokio::test]
async fn e16_a_person_condenses_with_a_model_and_is_told_what_was_done() {
    let (world, server) = (World::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled(&agent, 3_000).await;
    let said = messages(&agent, thread).await;
    let condensed = compacted(&agent, thread).await.unwrap();
    assert!(condensed.is_stored);
    assert_eq!(
        (condensed.compaction.trigger, condensed.compaction.model.as_str()),
        (CompactionTrigger::Manual, MODEL)
    );
    let marker = condensed.marker.unwrap();
    assert_eq!(marker.id, format!("summary-marker-{}", marker.seq));
    let HistoryItem::Marker(shown) = &marker.what else { panic!("a marker: {marker:?}") };
    assert_eq!(shown.replaced_count, condensed.compaction.replaced_count);
    assert_eq!(server.calls(), 1, "no turn is begun");
    assert_eq!(messages(&agent, thread).await, said);
    let page = agent
        .threads()
        .history_page(thread, &HistoryQuery { limit: 200, ..HistoryQuery::default() })
        .await
        .unwrap();
    assert_eq!(page.entries.last().unwrap(), &marker, "b1: at its place, behind everything that was said");
    assert!(
        matches!(&page.entries[0].what, HistoryItem::Message(first) if first.text().contains("Request 1"))
    );
    // Idempotent: again there is less to do each time, until there is nothing, and that is said.
    let mut times = 0;
    let reason = loop {
        match compacted(&agent, thread).await {
            Ok(_) => times += 1,
            Err(
                Error::Thread(ThreadError::NothingToCompact { reason, .. })
                | Error::Thread(ThreadError::NotCompacted { reason, .. }),
            ) => break reason,
            Err(error) => panic!("{error:?}"),
        }
    };
    assert!(times <= 2 && !reason.is_empty(), "{times} more: {reason}");
    assert_eq!(markers(&agent, thread).await.len(), 1 + times);
}

#[tokio::test]
async fn e16_without_a_model_the_extract_condenses() {
    let world = World::new();
    let agent = world.agent();
    let thread = filled(&agent, 3_000).await;
    let condensed = compacted(&agent, thread).await.unwrap();
    assert_eq!(condensed.compaction.model, "extractive");
    assert!(condensed.compaction.summary.contains("billing table"), "{}", condensed.compaction.summary);
    assert!(condensed.compaction.usage.total_tokens() == 0);
    let blank = agent.threads().create(None).await.unwrap().thread_id;
    let nothing = compacted(&agent, blank).await.unwrap_err();
    assert!(
        matches!(&nothing, Error::Thread(ThreadError::NothingToCompact { reason, .. }) if !reason.is_empty()),
        "{nothing:?}"
    );
    let undone = agent.threads().uncompact(blank).await.unwrap_err();
    assert!(matches!(undone, Error::Thread(ThreadError::NothingToUndo(_))), "{undone:?}");
}

#[tokio::test]
async fn e16_a_person_says_how_much_stays() {
    let (world, server) = (World::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
    for (keep, kept_max) in [(Keep::Messages(4), 4), (Keep::Tokens(2_000), 12), (Keep::Fraction(0.01), 12)] {
        let thread = filled(&agent, 3_000).await;
        let request = CompactionRequest { focus: None, keep: Some(keep) };
        let (frames, cancel) = quiet();
        let condensed = agent.threads().compact(thread, &request, &frames, &cancel).await.unwrap().compaction;
        assert!((1..=kept_max).contains(&condensed.kept_count), "{keep:?}: {condensed:?}");
        assert_eq!(condensed.kept_count + condensed.replaced_count, 32);
    }
}

#[tokio::test]
async fn g15_a_preview_is_what_would_be_stored_and_stores_nothing() {
    let (world, server) = (World::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled(&agent, 3_000).await;
    let before = world.rows();
    let (frames, cancel) = quiet();
    let request = CompactionRequest::default();
    let shown = agent.threads().preview_compaction(thread, &request, &frames, &cancel).await.unwrap();
    assert_eq!((shown.is_stored, shown.marker.is_none()), (false, true));
    assert_eq!(world.rows(), before, "not a byte");
    let stored = compacted(&agent, thread).await.unwrap();
    let mut expected = stored.compaction;
    (expected.duration_ms, expected.step) = (shown.compaction.duration_ms, shown.compaction.step);
    assert_eq!(shown.compaction, expected);
    assert_ne!(world.rows(), before);
}

/// Lets the model call the tool in a turn of a thread whose newest request had so many tokens.
async fn asked_by_the_agent(tokens: u64) -> (World, Server, agent::Agent, protocol::ThreadId) {
    let world = World::new();
    let asks = Reply::call("k1", "compact_conversation", json!({"focus": "the last part"}));
    let server =
        Server::start(Script::new([record(), unreported(asks), unreported(Reply::text("Done.")).repeated()]))
            .unwrap();
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = reported(&agent, tokens).await;
    sent(&agent, thread, "Now something else.").await;
    (world, server, agent, thread)
}

#[tokio::test]
async fn e19_the_agents_own_wish_is_refused_below_half_the_trigger() {
    let (_world, server, agent, thread) = asked_by_the_agent(36_000).await;
    assert_eq!(markers(&agent, thread).await, []);
    let (asked, answered) = split(&server);
    assert_eq!((asked.len(), answered.len()), (0, 2));
    assert_paired(&answered[1].body);
    assert!(newest(&server).contains("less than half"), "{}", newest(&server));
}

#[tokio::test]
async fn e19_the_agents_own_wish_is_done_before_its_next_call_above_it() {
    let (_world, server, agent, thread) = asked_by_the_agent(50_000).await;
    let markers = markers(&agent, thread).await;
    assert_eq!(markers.len(), 1);
    assert_eq!(markers[0].1.focus.as_deref(), Some("the last part"));
    let (asked, answered) = split(&server);
    assert_eq!((asked.len(), answered.len()), (1, 2));
    assert!(asked[0].body.to_string().contains("the last part"));
    assert_paired(&answered[1].body);
    assert!(newest(&server).contains(OPENING) && newest(&server).contains("Now something else."));
    let results = super::events_of(&agent, thread, EventType::ToolMessage).await;
    assert!(results.iter().any(|result| result["call_id"] == "k1"), "the call has its result");
}

#[tokio::test]
async fn a_pending_handoff_survives_a_compaction_and_is_accepted_as_it_was_shown() {
    let world = World::new();
    let draft = Reply::text(DRAFT).when_body_contains(DRAFT_PROMPT).repeated();
    let replies = [record(), draft, unreported(Reply::text("Done.")).repeated()];
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled(&agent, 3_000).await;
    let (frames, cancel) = quiet();
    let pending =
        agent.handoffs().request(thread, HandoffRequest::default(), &frames, &cancel).await.unwrap();
    compacted(&agent, thread).await.unwrap();
    let still = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(still.len(), 1, "the question is still asked");
    agent.threads().uncompact(thread).await.unwrap();
    compacted(&agent, thread).await.unwrap();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approve(&pending), &frames, &cancel).await.unwrap();
    assert!(decided.child_thread_id.is_some());
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
}

#[tokio::test]
async fn a_pending_question_of_a_tool_survives_a_compaction_and_its_answer_finds_the_call() {
    let world = World::new();
    let write = Reply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}));
    let replies = [record(), unreported(write), unreported(Reply::text("Done.")).repeated()];
    let server = Server::start(Script::new(replies)).unwrap();
    configure(&world, &server, (200_000, ""));
    let settings = agent::Settings { approve: Policy::Ask, ..world.settings(MODEL) };
    let agent = agent::Agent::with_store(settings, world.store()).unwrap();
    let thread = filled(&agent, 3_000).await;
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "Write it.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    compacted(&agent, thread).await.unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(pending.len(), 1);
    let yes = decisions(r#"{"decisions":[{"type":"approve"}]}"#);
    let end = agent.runs().resume(pending[0].interrupt_id, &yes, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(world.read("new.txt"), "words");
    let body = split(&server).1.last().unwrap().body.clone();
    assert_paired(&body);
    assert!(body["messages"].to_string().contains(OPENING) && body.to_string().contains("w1"));
}

#[tokio::test]
async fn a_turn_stopped_after_the_agents_wish_leaves_nothing_to_the_next_turn() {
    let world = World::new();
    let asks =
        Reply::call("k1", "compact_conversation", json!({})).and_call("k2", "large", json!({"chars": 10}));
    let replies =
        [record(), unreported(asks), calls_large("k3", 10), unreported(Reply::text("Done.")).repeated()];
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = with_large(&world, &server, (200_000, "trigger = [{ tokens = 60000 }]"));
    let thread = reported(&agent, 50_000).await;
    sent(&agent, thread, "Now something else.").await;
    let count = markers(&agent, thread).await.len();
    sent(&agent, thread, "And now?").await;
    assert_eq!((count, markers(&agent, thread).await.len()), (1, 1), "it was wanted once");
    let state = agent.store().checkpoint(thread).await.unwrap().unwrap().channels;
    let left: Vec<&String> = state.keys().filter(|key| key.starts_with("_compaction")).collect();
    assert_eq!(left, Vec::<&String>::new());
}

#[tokio::test]
async fn m15_growth_is_proposed_once_and_again_only_after_it_was_condensed_and_grew() {
    let (world, server) = (World::new(), good_server());
    let agent = agent_of(&world, &server, (100_000, "[handoff]\npropose_at = 0.5"));
    let thread = reported(&agent, 60_000).await;
    let full = agent.handoffs().fullness(thread).await.unwrap().unwrap();
    assert!(full.is_due && full.tokens >= 60_000, "{full:?}");
    assert_eq!(
        (server.calls(), markers(&agent, thread).await.len()),
        (0, 0),
        "nothing changes without a decision"
    );
    agent.handoffs().proposed_at(thread, full.tokens).await.unwrap();
    assert!(!agent.handoffs().fullness(thread).await.unwrap().unwrap().is_due, "not twice for the same");
    compacted(&agent, thread).await.unwrap();
    let small = agent.handoffs().fullness(thread).await.unwrap().unwrap();
    assert!(!small.is_due && small.tokens < 30_000, "{small:?}");
    append(&agent, thread, &turns(20..28, 24_000)).await;
    assert!(agent.handoffs().fullness(thread).await.unwrap().unwrap().is_due, "it has grown again");
}
