//! Tests of the transaction of an acceptance.

use std::sync::Arc;

use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use memory::AgentFile;
use protocol::{
    AssistantId, EventType, Handoff, HandoffStatus, Message, NewEvent, ParentKind, Proposal, Thread, ThreadId,
};
use runtime::FrameSender;
use serde_json::json;

use super::{Acceptance, accept_update};
use crate::mirror::{MirrorSettings, SummaryMirror};
use crate::review::edit::tests::shown_summary;

/// Stores a parent, a child that another handoff created, and the pending handoff of the parent into the child.
async fn pending_merge(store: &SqliteStore) -> (Handoff, Proposal) {
    let now = Timestamp::UNIX_EPOCH;
    let thread = || Thread::blank(ThreadId::generate(), AssistantId::default(), now);
    let (parent, child) = (thread(), Thread { parent_kind: Some(ParentKind::Handoff), ..thread() });
    let summary = shown_summary();
    let handoff = Handoff {
        handoff_id: summary.handoff_id,
        assistant_id: AssistantId::default(),
        parent_thread_id: parent.thread_id,
        child_thread_id: child.thread_id,
        status: HandoffStatus::AwaitingDecision,
        iteration: 0,
        goal: None,
        run_id: None,
        options: json!({"into": child.thread_id}),
        accepted_sha256: None,
        note: None,
        created_at: now,
        updated_at: now,
    };
    let package_md = crate::render_summary(&summary);
    let proposal = Proposal {
        handoff_id: handoff.handoff_id,
        iteration: 0,
        summary_sha256: protocol::sha256_hex(&package_md),
        package_md,
        summary_json: summary,
        feedback: None,
        created_at: now,
    };
    let writes = vec![
        Write::CreateThread(parent),
        Write::CreateThread(child),
        Write::CreateHandoff(handoff.clone()),
        Write::PutProposal(proposal.clone()),
    ];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
    (handoff, proposal)
}

#[tokio::test]
async fn m2_a_first_message_between_the_check_and_the_commit_keeps_the_merge_out() {
    let store = SqliteStore::in_memory().unwrap();
    let (handoff, proposal) = pending_merge(&store).await;
    let now = Timestamp::UNIX_EPOCH;
    let update = accept_update(&store, &handoff, &proposal, now).await.unwrap();
    let message = NewEvent::from_message(&Message::human("Go on."), now).unwrap();
    let append = Write::Append { thread_id: handoff.child_thread_id, events: vec![message] };
    store.commit(Transaction { fence: None, writes: vec![append] }).await.unwrap();
    let committed = store.commit(Transaction { fence: None, writes: update.writes }).await;
    let error = committed.map(drop).unwrap_err();
    assert!(error.is_message_conflict(), "{error:?}");
    let stored = store.handoff(handoff.handoff_id).await.unwrap().unwrap();
    assert_eq!((stored.status, stored.accepted_sha256), (HandoffStatus::AwaitingDecision, None));
}

#[tokio::test]
async fn a_merge_is_an_event_of_the_child() {
    let store = SqliteStore::in_memory().unwrap();
    let (handoff, proposal) = pending_merge(&store).await;
    let update = accept_update(&store, &handoff, &proposal, Timestamp::UNIX_EPOCH).await.unwrap();
    store.commit(Transaction { fence: None, writes: update.writes }).await.unwrap();
    let events = store.events(handoff.child_thread_id, journal::EventQuery::after(0, 9)).await.unwrap();
    let kinds: Vec<_> = events.iter().filter_map(|event| event.kind()).collect();
    assert_eq!(kinds, [EventType::HandoffMerged]);
}

#[tokio::test]
async fn m2_a_repeated_acceptance_clears_the_block_of_a_child_that_was_deleted_meanwhile() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let (pending, proposal) = pending_merge(&store).await;
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(AgentFile::new(folder.path().join("agent.md")));
    // The process was killed after it had written the block. No thread waits for this handoff since.
    file.write_block(&proposal.package_md, Timestamp::UNIX_EPOCH).unwrap();
    let accepted = Handoff {
        status: HandoffStatus::Accepted,
        accepted_sha256: Some(proposal.summary_sha256.clone()),
        child_thread_id: ThreadId::generate(),
        ..pending
    };
    let agent_md = Arc::clone(&file);
    let acceptance = Acceptance {
        store: Arc::clone(&store) as Arc<dyn Store>,
        agent_md: Arc::new(move |_: &AssistantId| Arc::clone(&agent_md)),
        mirror: SummaryMirror::new(&MirrorSettings::default(), None, store).unwrap(),
    };
    acceptance.seed_child(&accepted, &proposal, &FrameSender::default()).await.unwrap();
    let block = file.read().unwrap().block.clone();
    assert_eq!(block.as_deref(), Some(memory::managed_block::PLACEHOLDER));
}
