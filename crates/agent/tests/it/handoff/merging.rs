//! Tests of handing two threads off into one: both packages are reviewed, reach the child byte for byte, and are cleared
//! together.

use agent::{Agent, Error, HandoffError, HandoffRequestOptions, PendingHandoff};
use memory::managed_block;
use protocol::{HandoffStatus, ThreadId};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{accept_handoff, pending_handoff};
use crate::environment::{
    CrashingStore, DRAFT, DRAFT_PROMPT, TEST_MODEL, TestEnvironment, approval, unwatched,
};

/// Requests a handoff of another session, into an existing child.
async fn request_into(
    environment: &TestEnvironment,
    agent: &Agent,
    into: ThreadId,
) -> agent::Result<PendingHandoff> {
    let (frames, cancel) = unwatched();
    let session = environment.write_session_about("second");
    let report = agent.threads().import(&[session], &frames, &cancel).await.unwrap();
    let options = HandoffRequestOptions { into: Some(into), ..HandoffRequestOptions::default() };
    agent.handoffs().request(report.threads[0].thread_id, options, &frames, &cancel).await
}

/// Returns a server that drafts, and answers every other request.
fn server() -> ScriptedServer {
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    ScriptedServer::start(Script::new([draft, ScriptedReply::text("Done.").with_repeat()])).unwrap()
}

#[tokio::test]
async fn m1_two_parents_are_merged_into_one_child_with_both_packages() {
    let environment = TestEnvironment::new();
    let server = server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    let second = request_into(&environment, &agent, child).await.unwrap();
    assert_eq!(second.handoff.child_thread_id, child);
    assert_eq!(accept_handoff(&agent, &second).await, child);
    let block = managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
    assert_eq!(block.trim(), second.proposal.package_md.trim(), "the block shows the newest package");
    let (frames, cancel) = unwatched();
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let request = server.requests().last().unwrap().body["system"].to_string();
    for pending in [&first, &second] {
        let text = model::untrusted_text::neutralize(&pending.proposal.package_md);
        let text = serde_json::to_string(&text).unwrap();
        assert!(request.contains(text.trim_matches('"')), "{request}");
    }
    for pending in [&first, &second] {
        let handoff = agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
        assert_eq!(handoff.status, HandoffStatus::Cleaned);
    }
    assert!(!environment.read_agent_md().contains("last row"), "the block is cleared");
    let thread = agent.threads().find(&child.to_string()).await.unwrap();
    assert_eq!(agent.handoffs().origins(&thread).await.unwrap().len(), 2);
    // The lineage and the tree of either parent contain the other one and the child, and the child's history has the merge.
    let parents = [first.handoff.parent_thread_id, second.handoff.parent_thread_id];
    for thread_id in [parents[0], parents[1], child] {
        let lineage = agent.threads().lineage(thread_id).await.unwrap();
        let ids: Vec<ThreadId> = lineage.threads.iter().map(|entry| entry.thread.thread_id).collect();
        assert!(ids.len() == 3 && parents.iter().chain([&child]).all(|id| ids.contains(id)), "{ids:?}");
        let entry = lineage.threads.iter().find(|entry| entry.thread.thread_id == child).unwrap();
        let merged: Vec<ThreadId> = entry.merged_parents.iter().map(|parent| parent.thread_id).collect();
        assert_eq!(merged, [parents[1]]);
    }
    let tree = agent.threads().tree(Some(parents[1])).await.unwrap();
    assert_eq!(tree[0].merged_children[0].thread_id, child);
    let tree = agent.threads().tree(Some(parents[0])).await.unwrap();
    assert_eq!(tree[0].children[0].merged_parents[0].handoff_id, second.handoff.handoff_id);
    let history = agent
        .threads()
        .history_page(child, &agent::HistoryQuery { limit: 50, ..agent::HistoryQuery::default() })
        .await
        .unwrap();
    let texts: Vec<String> = history
        .entries
        .iter()
        .filter_map(|entry| match &entry.item {
            agent::HistoryItem::Audit(audit) => Some(audit.text.clone()),
            _ => None,
        })
        .collect();
    assert!(texts[0].contains("merged into this thread"), "{texts:?}");
    // Both parents can be searched from the child.
    let query = agent::RecallQuery::new(agent::MessageFilter::Words("importer".to_owned()));
    let recalled = agent.memory().recall(child, &query).await.unwrap();
    let parents = [first.handoff.parent_thread_id, second.handoff.parent_thread_id];
    assert!(parents.iter().all(|parent| recalled.threads.contains(parent)), "{:?}", recalled.threads);
}

#[tokio::test]
async fn only_a_child_without_messages_gets_a_further_package() {
    let environment = TestEnvironment::new();
    let server = server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let parent = first.handoff.parent_thread_id;
    let child = accept_handoff(&agent, &first).await;
    let check = |refused: agent::Result<PendingHandoff>, reason: &str| match refused {
        Err(Error::Handoff(HandoffError::NotMergeable { reason: given, .. })) => assert_eq!(given, reason),
        other => panic!("{other:?}"),
    };
    check(request_into(&environment, &agent, parent).await, "no handoff created it");
    let (frames, cancel) = unwatched();
    let second = request_into(&environment, &agent, child).await.unwrap();
    // A message is written in the child while the second package is reviewed.
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let decided =
        agent.handoffs().decide(second.handoff.handoff_id, &approval(&second), &frames, &cancel).await;
    assert!(
        matches!(decided, Err(Error::Handoff(HandoffError::NotMergeable { .. }))),
        "the handoff stays pending: {decided:?}"
    );
    let handoff = agent.handoffs().get(second.handoff.handoff_id).await.unwrap();
    assert_eq!(handoff.status, HandoffStatus::AwaitingDecision);
}

#[tokio::test]
async fn m2_an_accept_into_a_thread_with_messages_is_refused_on_every_path_and_the_question_stays() {
    let environment = TestEnvironment::new();
    let server = server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    let second = request_into(&environment, &agent, child).await.unwrap();
    let (frames, cancel) = unwatched();
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let block = environment.read_agent_md();
    let resumed =
        agent.runs().resume(second.interrupt.interrupt_id, &approval(&second), &frames, &cancel).await;
    assert!(matches!(resumed, Err(Error::Handoff(HandoffError::NotMergeable { .. }))), "{resumed:?}");
    assert_eq!(environment.read_agent_md(), block);
    // The proposal can still be declined, and a new request creates a thread.
    let decline = crate::environment::decisions(r#"{"decisions":[{"type":"reject"}]}"#);
    let id = second.handoff.handoff_id;
    let declined = agent.handoffs().decide(id, &decline, &frames, &cancel).await.unwrap();
    assert_eq!(declined.handoff.status, HandoffStatus::Declined);
    let parent = second.handoff.parent_thread_id;
    let options = HandoffRequestOptions::default();
    let again = agent.handoffs().request(parent, options, &frames, &cancel).await.unwrap();
    assert_ne!(accept_handoff(&agent, &again).await, child);
}

#[tokio::test]
async fn m2_a_message_that_comes_during_the_accept_is_reported_alike_on_every_path() {
    for is_resumed in [false, true] {
        let environment = TestEnvironment::new();
        let server = server();
        environment.configure(&server);
        let store = CrashingStore::never_crash(environment.store());
        let agent = Agent::with_store(environment.settings(TEST_MODEL), store.clone()).unwrap();
        let (agent, first) = pending_handoff(agent, &environment).await;
        let child = accept_handoff(&agent, &first).await;
        let second = request_into(&environment, &agent, child).await.unwrap();
        let other = environment.agent_with(&server);
        store.before_next_commit(async move {
            let (frames, cancel) = unwatched();
            other.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
        });
        let (frames, cancel) = unwatched();
        let (decision, id) = (approval(&second), second.handoff.handoff_id);
        let refused = match is_resumed {
            true => {
                let interrupt = second.interrupt.interrupt_id;
                agent.runs().resume(interrupt, &decision, &frames, &cancel).await.map(drop)
            }
            false => agent.handoffs().decide(id, &decision, &frames, &cancel).await.map(drop),
        };
        match refused {
            Err(Error::Handoff(HandoffError::NotMergeable { reason, .. })) => {
                assert_eq!(reason, "it has messages already");
            }
            other => panic!("{is_resumed}: {other:?}"),
        }
        assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::AwaitingDecision);
    }
}

#[tokio::test]
async fn m2_a_summary_of_the_same_thread_is_added_once() {
    let environment = TestEnvironment::new();
    let (agent, first) = pending_handoff(environment.agent_with(&server()), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    let second = request_into(&environment, &agent, child).await.unwrap();
    let parent = second.handoff.parent_thread_id;
    agent.handoffs().check_mergeable(parent, child).await.unwrap();
    accept_handoff(&agent, &second).await;
    let refused = agent.handoffs().check_mergeable(parent, child).await;
    assert!(
        matches!(
            refused,
            Err(Error::Handoff(HandoffError::NotMergeable { reason, .. })) if reason.contains("the same thread already")
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_lineage_of_a_child_contains_the_ancestors_of_every_merged_parent() {
    let environment = TestEnvironment::new();
    let server = server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    // A second pair of parents is merged into another child, which is merged into the first child in its turn.
    let (frames, cancel) = unwatched();
    let mut grandparents = Vec::new();
    let mut middle = None;
    for name in ["third", "fourth"] {
        let session = environment.write_session_about(name);
        let report = agent.threads().import(&[session], &frames, &cancel).await.unwrap();
        let thread = report.threads[0].thread_id;
        let options = HandoffRequestOptions { into: middle, ..HandoffRequestOptions::default() };
        let pending = agent.handoffs().request(thread, options, &frames, &cancel).await.unwrap();
        middle = Some(accept_handoff(&agent, &pending).await);
        grandparents.push(thread);
    }
    let middle = middle.unwrap();
    agent.runs().send_message(middle, "Go on.", &frames, &cancel).await.unwrap();
    let options = HandoffRequestOptions { into: Some(child), ..HandoffRequestOptions::default() };
    let merged = agent.handoffs().request(middle, options, &frames, &cancel).await.unwrap();
    assert_eq!(accept_handoff(&agent, &merged).await, child);
    let expected = [first.handoff.parent_thread_id, child, middle, grandparents[0], grandparents[1]];
    for thread in expected {
        let lineage = agent.threads().lineage(thread).await.unwrap();
        let ids: Vec<ThreadId> = lineage.threads.iter().map(|entry| entry.thread.thread_id).collect();
        assert!(
            ids.len() == expected.len() && expected.iter().all(|id| ids.contains(id)),
            "{thread}: {ids:?}, expected {expected:?}"
        );
    }
    let query = agent::RecallQuery::new(agent::MessageFilter::Words("importer".to_owned()));
    let recalled = agent.memory().recall(child, &query).await.unwrap();
    assert!(expected.iter().all(|thread| recalled.threads.contains(thread)), "{:?}", recalled.threads);
}
