//! Tests of the stored state of a pending handoff: a state of an earlier version can be decided, and an unreadable state
//! fails only the run that needs it.

use agent::{Agent, Error, HandoffError, HandoffRequestOptions, PendingHandoff};
use journal::{Transaction, Write};
use protocol::{CheckpointId, FailureKind, HandoffMark, HandoffStatus, RunStatus, ThreadId};
use serde_json::{Map, Value, json};

use super::{accept_handoff, injected_summary, pending_handoff};
use crate::environment::{
    TestEnvironment, answering_server, approval, decisions, drafting_server, unwatched,
};

/// A checkpoint of an earlier version, which stored each part of a handoff in its own channel.
const OLD_CHECKPOINT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../handoff/src/state/migration/golden/awaiting_decision.json"
));

/// Stores a changed copy of the thread's newest checkpoint.
async fn change_channels(agent: &Agent, thread: ThreadId, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut checkpoint = agent.store().checkpoint(thread).await.unwrap().unwrap();
    change(&mut checkpoint.channels);
    checkpoint.checkpoint_id = CheckpointId::generate();
    let writes = vec![Write::PutCheckpoint(checkpoint)];
    agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
}

/// Returns the channels of [`OLD_CHECKPOINT`] with the ids of `pending`.
fn old_channels(pending: &PendingHandoff) -> Map<String, Value> {
    let mut old: Value = serde_json::from_str(OLD_CHECKPOINT).unwrap();
    let channels = &mut old["channels"];
    channels["_handoff_metadata"]["handoff_id"] = json!(pending.handoff.handoff_id);
    channels["_handoff_metadata"]["parent_thread_id"] = json!(pending.handoff.parent_thread_id);
    channels["handoff_proposal"]["handoff_id"] = json!(pending.handoff.handoff_id);
    channels["handoff_proposal"]["summary_sha256"] = json!(pending.proposal.summary_sha256);
    channels["_asked:handoff_approval"]["step"] = json!(2);
    channels.as_object().unwrap().clone()
}

/// Returns a decision of type `edit` with these arguments.
fn edit_decision(args: &Value) -> protocol::Decisions {
    let action = json!({"name": "handoff_summary", "args": args});
    decisions(&json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string())
}

/// Returns a decision of type `reject`.
fn decline_decision() -> protocol::Decisions {
    decisions(r#"{"decisions":[{"type":"reject","message":"later"}]}"#)
}

/// Returns the names of the thread's channels that belong to a handoff.
async fn handoff_keys(agent: &Agent, thread: ThreadId) -> Vec<String> {
    let channels = agent.store().checkpoint(thread).await.unwrap().unwrap().channels;
    channels.into_iter().map(|(key, _)| key).filter(|key| key.contains("handoff")).collect()
}

#[tokio::test]
async fn a_handoff_that_is_pending_during_an_upgrade_can_be_refined_and_accepted() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (id, parent) = (first.handoff.handoff_id, first.handoff.parent_thread_id);
    change_channels(&agent, parent, |channels| *channels = old_channels(&first)).await;
    let (frames, cancel) = unwatched();
    let feedback = edit_decision(&json!({"feedback": "Shorter."}));
    let refined = agent.handoffs().decide(id, &feedback, &frames, &cancel).await.unwrap().next.unwrap();
    assert_eq!((refined.proposal.iteration, refined.problem.as_ref()), (1, None));
    let state_keys: Vec<String> =
        handoff_keys(&agent, parent).await.into_iter().filter(|key| key.starts_with("_handoff")).collect();
    assert_eq!(state_keys, ["_handoff"], "the first step replaces the old channels by the current one");
    let decided = agent.handoffs().decide(id, &approval(&refined), &frames, &cancel).await.unwrap();
    assert_eq!(decided.handoff.status, HandoffStatus::Seeded);
}

#[tokio::test]
async fn a_handoff_that_is_pending_during_an_upgrade_can_be_declined() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let parent = first.handoff.parent_thread_id;
    change_channels(&agent, parent, |channels| *channels = old_channels(&first)).await;
    let (frames, cancel) = unwatched();
    let decided = agent
        .handoffs()
        .decide(first.handoff.handoff_id, &decline_decision(), &frames, &cancel)
        .await
        .unwrap();
    assert_eq!((decided.handoff.status, decided.end.status), (HandoffStatus::Declined, RunStatus::Success));
    assert_eq!(handoff_keys(&agent, parent).await, ["handoff_approved", "handoff_decision", "_handoff"]);
}

/// Returns a pending handoff whose state cannot be read.
async fn pending_with_unreadable_state(
    environment: &TestEnvironment,
    agent: Agent,
) -> (Agent, PendingHandoff) {
    let (agent, pending) = pending_handoff(agent, environment).await;
    let garbage = json!({"stage": "paused"});
    let parent = pending.handoff.parent_thread_id;
    change_channels(&agent, parent, |channels| drop(channels.insert("_handoff".to_owned(), garbage))).await;
    (agent, pending)
}

#[tokio::test]
async fn a_decision_that_needs_an_unreadable_state_fails_its_run_and_can_be_repeated() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, pending) = pending_with_unreadable_state(&environment, environment.agent_with(&server)).await;
    let (id, parent) = (pending.handoff.handoff_id, pending.handoff.parent_thread_id);
    let (frames, cancel) = unwatched();
    let failed = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap_err();
    let Error::Handoff(HandoffError::NotDrafted { reason, .. }) = &failed else { panic!("{failed:?}") };
    assert!(reason.starts_with("read the state `_handoff`: "), "{reason}");
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::AwaitingDecision);
    // Nothing is drafted again, because the handoff and its proposals are stored in their own tables.
    let again =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert_eq!((&again.proposal, server.call_count()), (&pending.proposal, 1));
    let decided = agent.handoffs().decide(id, &approval(&again), &frames, &cancel).await.unwrap();
    assert_eq!(decided.handoff.status, HandoffStatus::Seeded);
}

#[tokio::test]
async fn a_handoff_with_an_unreadable_state_can_be_declined() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, pending) = pending_with_unreadable_state(&environment, environment.agent_with(&server)).await;
    let (frames, cancel) = unwatched();
    let decided = agent
        .handoffs()
        .decide(pending.handoff.handoff_id, &decline_decision(), &frames, &cancel)
        .await
        .unwrap();
    assert_eq!((decided.handoff.status, decided.end.status), (HandoffStatus::Declined, RunStatus::Success));
    let parent = pending.handoff.parent_thread_id;
    let next =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert_ne!(next.handoff.handoff_id, pending.handoff.handoff_id);
}

#[tokio::test]
async fn a_thread_with_an_unreadable_handoff_state_accepts_messages() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, pending) = pending_with_unreadable_state(&environment, environment.agent_with(&server)).await;
    let (frames, cancel) = unwatched();
    let end = agent
        .runs()
        .send_message(pending.handoff.parent_thread_id, "Go on here.", &frames, &cancel)
        .await
        .unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(
        agent.handoffs().get(pending.handoff.handoff_id).await.unwrap().status,
        HandoffStatus::AwaitingDecision
    );
}

#[tokio::test]
async fn an_unreadable_state_of_any_crate_fails_one_run_with_a_reason() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let agent = environment.agent_with(&server);
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
    let garbage = || json!({"attempts": "many"});
    change_channels(&agent, thread, |channels| {
        drop(channels.insert("_compaction_stuck".to_owned(), garbage()));
    })
    .await;
    let failed = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    let failure = failed.failure.unwrap();
    assert_eq!((failed.status, failure.kind), (RunStatus::Error, FailureKind::Store));
    assert!(failure.message.contains("`_compaction_stuck`") && failure.hint.is_some());
    let end = agent.runs().send_message(thread, "Again.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "the failed run removed the unreadable state");
}

#[tokio::test]
async fn g14_the_first_turn_ends_the_cleanup_and_the_parent_keeps_its_last_handoff() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &pending).await;
    let thread = async |id| agent.threads().get(id).await.unwrap().unwrap();
    for (pending, cleanup_required) in [(true, true), (false, false)] {
        let mark = thread(child).await.handoff_mark().unwrap();
        assert_eq!((mark.pending, mark.cleanup_required), (pending, cleanup_required));
        assert_eq!(mark.last_cleanup_at.is_some(), !pending);
        agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    }
    let parent = thread(pending.handoff.parent_thread_id).await;
    let last = &parent.metadata[HandoffMark::LAST_KEY];
    assert_eq!(last["handoff_id"], pending.handoff.handoff_id.to_string());
    assert_eq!(last["child_thread_id"], child.to_string());
}

/// Requests a handoff of the thread for `goal`, accepts it, and returns the pending handoff and the child.
async fn hand_off(agent: &Agent, thread: ThreadId, goal: &str) -> (PendingHandoff, ThreadId) {
    let (frames, cancel) = unwatched();
    let options = HandoffRequestOptions { goal: Some(goal.to_owned()), ..HandoffRequestOptions::default() };
    let pending = agent.handoffs().request(thread, options, &frames, &cancel).await.unwrap();
    let child = accept_handoff(agent, &pending).await;
    (pending, child)
}

#[tokio::test]
async fn g10_deleting_a_pending_child_restores_the_block_before_it_and_leaves_the_other_threads_alone() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (agent, first) = pending_handoff(environment.agent(), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    let block = || memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
    let thread = async |id| agent.threads().get(id).await.unwrap().unwrap();
    let first_block = block();
    assert_eq!(first_block, first.proposal.package_md.trim());
    let before = [thread(first.handoff.parent_thread_id).await.metadata, thread(child).await.metadata];

    // A handoff of an unrelated thread.
    let path = environment.write_session_about("billing");
    let report = agent.threads().import(&[path], &frames, &cancel).await.unwrap();
    let other_parent = report.threads[0].thread_id;
    let own_metadata = async || {
        let mut metadata = thread(other_parent).await.metadata;
        metadata.retain(|key, _| ![HandoffMark::KEY, HandoffMark::LAST_KEY].contains(&key.as_str()));
        metadata
    };
    let other_before = own_metadata().await;
    let (second, other_child) = hand_off(&agent, other_parent, "Bill by the minute").await;
    assert_eq!(block(), second.proposal.package_md.trim(), "the block shows the newest pending summary");
    agent.threads().delete(other_child).await.unwrap();
    assert_eq!(block(), first_block);
    assert_eq!(own_metadata().await, other_before);
    assert_eq!([thread(first.handoff.parent_thread_id).await.metadata, thread(child).await.metadata], before);

    // A handoff of the child itself, which still waits for its own first turn.
    let mark = thread(child).await.handoff_mark();
    let (third, grandchild) = hand_off(&agent, child, "Ship the importer").await;
    assert_eq!(block(), third.proposal.package_md.trim());
    agent.threads().delete(grandchild).await.unwrap();
    assert_eq!(block(), first_block);
    assert_eq!(thread(child).await.handoff_mark(), mark, "the child still waits for its first turn");
    assert!(mark.is_some_and(|mark| mark.pending));
    agent.threads().delete(child).await.unwrap();
    assert_eq!(block(), memory::managed_block::PLACEHOLDER);
}

#[tokio::test]
async fn f3_two_children_that_wait_for_their_first_turn_get_their_own_summaries_in_any_order() {
    let environment = TestEnvironment::new();
    let server = answering_server("Going on.");
    let (frames, cancel) = unwatched();
    let (agent, older) = pending_handoff(environment.agent_with(&server), &environment).await;
    let older_child = accept_handoff(&agent, &older).await;
    let path = environment.write_session_about("billing");
    let report = agent.threads().import(&[path], &frames, &cancel).await.unwrap();
    let (newer, newer_child) = hand_off(&agent, report.threads[0].thread_id, "Bill by the minute").await;
    assert_ne!(older.proposal.summary_sha256, newer.proposal.summary_sha256);
    let placeholder = memory::managed_block::PLACEHOLDER;
    // The older child has its first turn while the block shows the summary of the newer one.
    for (child, own, block_after) in
        [(older_child, &older, newer.proposal.package_md.trim()), (newer_child, &newer, placeholder)]
    {
        agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
        let sent = injected_summary(&server.requests().last().unwrap().body);
        assert_eq!(protocol::sha256_hex(&sent), own.proposal.summary_sha256);
        let block = memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
        assert_eq!(block, block_after);
        assert_eq!(
            agent.handoffs().get(own.handoff.handoff_id).await.unwrap().status,
            HandoffStatus::Cleaned
        );
    }
}
