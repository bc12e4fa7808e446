//! Handoffs and their proposals, the outbox, and import positions.

use std::sync::Arc;

use journal::{
    Error, HandoffFilter, HandoffPatch, ImportProgress, ImportSource, OutboxItem, OutboxQuery, Write,
};
use protocol::{Handoff, HandoffId, HandoffStatus, Proposal, RunId, ThreadId};
use serde_json::json;

use super::SharedStore;
use super::fixtures::{append, at, commit, create, handoff, human, proposal};

/// Returns the write that changes the status of the handoff.
fn transition_write(handoff: &Handoff, from: HandoffStatus, to: HandoffStatus) -> Write {
    let handoff_id = handoff.handoff_id;
    Write::TransitionHandoff { handoff_id, from, to, patch: HandoffPatch::default(), at: at(9) }
}

pub async fn a_parent_has_one_pending_handoff(store: SharedStore) {
    let parent = create(&*store).await;
    let (first, second) = (handoff(parent, 1), handoff(parent, 2));
    // A request that is repeated because its response was lost creates one handoff.
    commit(&*store, vec![Write::CreateHandoff(first.clone()), Write::CreateHandoff(first.clone())])
        .await
        .unwrap();
    let refused = commit(&*store, vec![Write::CreateHandoff(second.clone())]).await;
    assert!(
        matches!(refused, Err(Error::HandoffPending { handoff_id, .. }) if handoff_id == first.handoff_id),
        "{refused:?}"
    );
    // Another thread of the same assistant may have its own pending handoff.
    let other = handoff(create(&*store).await, 3);
    commit(&*store, vec![Write::CreateHandoff(other)]).await.unwrap();
    commit(&*store, vec![transition_write(&first, HandoffStatus::Requested, HandoffStatus::Failed)])
        .await
        .unwrap();
    commit(&*store, vec![Write::CreateHandoff(second.clone())]).await.unwrap();
    let back =
        commit(&*store, vec![transition_write(&first, HandoffStatus::Failed, HandoffStatus::Drafting)]).await;
    assert!(matches!(back, Err(Error::HandoffPending { handoff_id, .. }) if handoff_id == second.handoff_id));
    let different = Handoff { child_thread_id: ThreadId::generate(), ..second };
    let different = commit(&*store, vec![Write::CreateHandoff(different)]).await;
    assert!(matches!(different, Err(Error::Conflict { what: "handoff", .. })), "{different:?}");
}

pub async fn a_handoff_transition_requires_the_current_status(store: SharedStore) {
    let handoff = handoff(create(&*store).await, 1);
    commit(&*store, vec![Write::CreateHandoff(handoff.clone())]).await.unwrap();
    assert_eq!(store.handoff(handoff.handoff_id).await.unwrap(), Some(handoff.clone()));
    let patch = HandoffPatch {
        iteration: Some(2),
        run_id: Some(RunId::generate()),
        accepted_sha256: Some("ab".to_owned()),
        note: Some("why".to_owned()),
    };
    let full = Write::TransitionHandoff {
        handoff_id: handoff.handoff_id,
        from: HandoffStatus::Requested,
        to: HandoffStatus::AwaitingDecision,
        patch: patch.clone(),
        at: at(7),
    };
    commit(&*store, vec![full.clone()]).await.unwrap();
    let expected = Handoff {
        status: HandoffStatus::AwaitingDecision,
        iteration: 2,
        run_id: patch.run_id,
        accepted_sha256: patch.accepted_sha256,
        note: patch.note,
        updated_at: at(7),
        ..handoff.clone()
    };
    assert_eq!(store.handoff(handoff.handoff_id).await.unwrap(), Some(expected.clone()));
    let refused = commit(&*store, vec![full]).await;
    assert!(matches!(
        refused,
        Err(Error::HandoffStatusChanged { status: HandoffStatus::AwaitingDecision, .. })
    ));
    commit(
        &*store,
        vec![transition_write(&handoff, HandoffStatus::AwaitingDecision, HandoffStatus::Accepted)],
    )
    .await
    .unwrap();
    let stored = store.handoff(handoff.handoff_id).await.unwrap().unwrap();
    assert_eq!(stored, Handoff { status: HandoffStatus::Accepted, updated_at: at(9), ..expected });
    let unknown = Handoff { handoff_id: HandoffId::generate(), ..handoff };
    let unknown =
        commit(&*store, vec![transition_write(&unknown, HandoffStatus::Requested, HandoffStatus::Failed)])
            .await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "handoff", .. })), "{unknown:?}");
}

pub async fn g20_of_concurrent_transitions_one_wins(store: SharedStore) {
    let handoff = handoff(create(&*store).await, 1);
    commit(&*store, vec![Write::CreateHandoff(handoff.clone())]).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..10 {
        let store = Arc::clone(&store);
        let to = if number % 2 == 0 { HandoffStatus::Accepted } else { HandoffStatus::Declined };
        let write = transition_write(&handoff, HandoffStatus::Requested, to);
        tasks.push(tokio::spawn(async move { (commit(&*store, vec![write]).await, to) }));
    }
    let mut winners = Vec::new();
    let mut outcomes = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            (Ok(_), to) => winners.push(to),
            (Err(Error::HandoffStatusChanged { status, .. }), _) => outcomes.push(status),
            (Err(other), _) => panic!("{other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert!(
        outcomes.iter().all(|outcome| *outcome == winners[0]),
        "each failed transition returns the outcome of the winner"
    );
}

pub async fn g1_a_stored_proposal_never_changes(store: SharedStore) {
    let handoff = handoff(create(&*store).await, 1);
    let first = proposal(&handoff, 0, "first\r\ntext \u{2028} 👍");
    let unknown = commit(&*store, vec![Write::PutProposal(first.clone())]).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "handoff", .. })), "{unknown:?}");
    let second = Proposal { feedback: Some("shorter".to_owned()), ..proposal(&handoff, 1, "second") };
    let writes = vec![
        Write::CreateHandoff(handoff.clone()),
        Write::PutProposal(second.clone()),
        Write::PutProposal(first.clone()),
        Write::PutProposal(first.clone()),
    ];
    commit(&*store, writes).await.unwrap();
    let differs = commit(&*store, vec![Write::PutProposal(proposal(&handoff, 0, "changed"))]).await;
    assert!(matches!(differs, Err(Error::Conflict { what: "proposal", .. })), "{differs:?}");
    assert_eq!(store.proposals(handoff.handoff_id).await.unwrap(), [first, second]);
}

pub async fn a_stopped_first_draft_leaves_no_handoff(store: SharedStore) {
    let parent = create(&*store).await;
    let (stopped, next) = (handoff(parent, 1), handoff(parent, 2));
    let forget = |handoff: &Handoff| Write::DeleteHandoff { handoff_id: handoff.handoff_id };
    commit(&*store, vec![Write::CreateHandoff(stopped.clone())]).await.unwrap();
    // A repeated deletion succeeds, because a response can be lost. A new handoff is possible immediately.
    let writes = vec![forget(&stopped), forget(&stopped), Write::CreateHandoff(next.clone())];
    commit(&*store, writes).await.unwrap();
    assert_eq!(store.handoff(stopped.handoff_id).await.unwrap(), None);
    commit(&*store, vec![Write::PutProposal(proposal(&next, 0, "text"))]).await.unwrap();
    let refused = commit(&*store, vec![forget(&next)]).await;
    assert!(matches!(refused, Err(Error::Conflict { what: "handoff", .. })), "{refused:?}");
    assert_eq!(store.handoffs(HandoffFilter::default()).await.unwrap(), std::slice::from_ref(&next));
    assert_eq!(store.proposals(next.handoff_id).await.unwrap().len(), 1);
}

pub async fn handoffs_are_found_by_each_filter_field(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    let failed = Handoff { status: HandoffStatus::Failed, ..handoff(one, 1) };
    let pending = handoff(one, 3);
    let other = Handoff { assistant_id: "reviewer".parse().unwrap(), ..handoff(two, 2) };
    let writes = [&failed, &pending, &other].map(|handoff| Write::CreateHandoff(handoff.clone()));
    commit(&*store, writes.to_vec()).await.unwrap();
    let all = HandoffFilter::default;
    for (filter, expected) in [
        (all(), vec![&pending, &other, &failed]),
        (HandoffFilter { parent_thread_id: Some(one), ..all() }, vec![&pending, &failed]),
        (HandoffFilter { child_thread_id: Some(other.child_thread_id), ..all() }, vec![&other]),
        (HandoffFilter { assistant_id: Some(other.assistant_id.clone()), ..all() }, vec![&other]),
        (HandoffFilter { statuses: vec![HandoffStatus::Failed], ..all() }, vec![&failed]),
        (
            HandoffFilter {
                parent_thread_id: Some(one),
                statuses: vec![HandoffStatus::Requested, HandoffStatus::Drafting],
                ..all()
            },
            vec![&pending],
        ),
        (HandoffFilter { parent_thread_id: Some(ThreadId::generate()), ..all() }, vec![]),
    ] {
        let handoffs = store.handoffs(filter.clone()).await.unwrap();
        assert_eq!(handoffs.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    }
}

pub async fn the_outbox_keeps_one_item_for_each_key(store: SharedStore) {
    let item = |key: &str, attempts, second| OutboxItem {
        kind: "mirror_summary".to_owned(),
        key: key.to_owned(),
        payload: json!({"attempt": attempts}),
        attempts,
        created_at: at(second),
    };
    let other = OutboxItem { kind: "other".to_owned(), ..item("a", 0, 0) };
    let writes = [item("a", 0, 2), item("b", 0, 1), item("a", 1, 2), other].map(Write::PutOutboxItem);
    commit(&*store, writes.to_vec()).await.unwrap();
    assert_eq!(
        store.outbox(OutboxQuery::for_kind("mirror_summary", 10)).await.unwrap(),
        [item("b", 0, 1), item("a", 1, 2)]
    );
    let dequeue =
        Write::RemoveOutboxItem { kind: "mirror_summary".to_owned(), key: "b".to_owned(), created_at: None };
    commit(&*store, vec![dequeue.clone(), dequeue]).await.unwrap();
    assert_eq!(store.outbox(OutboxQuery::for_kind("mirror_summary", 10)).await.unwrap(), [item("a", 1, 2)]);
    assert!(store.outbox(OutboxQuery::for_kind("unknown", 10)).await.unwrap().is_empty());
}

/// Deleting a completed outbox item does not delete an item that replaced it in the meantime.
pub async fn deleting_an_outbox_item_keeps_its_replacement(store: SharedStore) {
    let item = |second| OutboxItem {
        kind: "due".to_owned(),
        key: "a".to_owned(),
        payload: json!(null),
        attempts: 0,
        created_at: at(second),
    };
    let done = |second| Write::RemoveOutboxItem {
        kind: "due".to_owned(),
        key: "a".to_owned(),
        created_at: Some(at(second)),
    };
    commit(&*store, vec![Write::PutOutboxItem(item(1)), Write::PutOutboxItem(item(2)), done(1)])
        .await
        .unwrap();
    assert_eq!(store.outbox(OutboxQuery::for_kind("due", 10)).await.unwrap(), [item(2)]);
    commit(&*store, vec![done(2)]).await.unwrap();
    assert_eq!(store.outbox(OutboxQuery::for_kind("due", 10)).await.unwrap(), []);
}

/// Of two concurrent updates of an item one succeeds, and the one that lost cannot restore a removed item.
pub async fn of_concurrent_updates_of_an_outbox_item_one_succeeds(store: SharedStore) {
    let item = |payload: &str, attempts| OutboxItem {
        kind: "due".to_owned(),
        key: "a".to_owned(),
        payload: json!({"of": payload}),
        attempts,
        created_at: at(1),
    };
    let change = |was: OutboxItem, payload: &str, attempts| Write::UpdateOutboxItem {
        expected: was,
        payload: json!({"of": payload}),
        attempts,
    };
    let (initial, first) = (item("", 0), item("first", 0));
    commit(&*store, vec![Write::PutOutboxItem(initial.clone())]).await.unwrap();
    commit(&*store, vec![change(initial.clone(), "first", 0)]).await.unwrap();
    let refused = commit(&*store, vec![change(initial, "second", 0)]).await;
    assert!(matches!(refused, Err(Error::Conflict { what: "outbox item", .. })), "{refused:?}");
    assert_eq!(store.outbox_item("due", "a").await.unwrap(), Some(first.clone()));
    commit(&*store, vec![change(first, "first", 1)]).await.unwrap();
    let done = Write::RemoveOutboxItem { kind: "due".to_owned(), key: "a".to_owned(), created_at: None };
    commit(&*store, vec![done]).await.unwrap();
    let removed = commit(&*store, vec![change(item("first", 1), "first", 2)]).await;
    assert!(matches!(removed, Err(Error::Conflict { .. })), "{removed:?}");
    assert_eq!(store.outbox_item("due", "a").await.unwrap(), None);
}

pub async fn the_outbox_is_read_in_pages(store: SharedStore) {
    let item = |key: String, second| {
        let (kind, created_at) = ("due".to_owned(), at(second));
        Write::PutOutboxItem(OutboxItem { kind, key, payload: json!(null), attempts: 0, created_at })
    };
    assert_eq!(store.outbox_backlog("due", None).await.unwrap(), (0, None));
    let items = (0..7).map(|number| item(format!("k{number}"), 9 - number / 3));
    commit(&*store, items.collect()).await.unwrap();
    assert_eq!(store.outbox_backlog("due", None).await.unwrap(), (7, Some(at(7))));
    let (mut query, mut keys) = (OutboxQuery::for_kind("due", 2), Vec::new());
    loop {
        let page = store.outbox(query.clone()).await.unwrap();
        query.after = page.last().map(OutboxItem::cursor);
        keys.extend(page.iter().map(|item| item.key.clone()));
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(keys, ["k6", "k3", "k4", "k5", "k0", "k1", "k2"]);
    let none = store.outbox(OutboxQuery::for_kind("due", 0)).await;
    assert!(matches!(none, Err(Error::InvalidRequest { .. })), "{none:?}");
}

pub async fn an_import_is_stored_with_its_source(store: SharedStore) {
    let thread_id = create(&*store).await;
    let source = |entries: u64| ImportSource {
        source_key: "claude:abc".to_owned(),
        thread_id,
        entries,
        chain: format!("{entries:x}"),
        updated_at: at(1),
    };
    assert_eq!(store.import_source("claude:abc").await.unwrap(), None);
    let put = |entries, expected| Write::PutImport { source: source(entries), expected };
    let so_far = |entries, last_seq| Some(ImportProgress { entries, last_seq });
    commit(&*store, vec![put(3, None)]).await.unwrap();
    commit(&*store, vec![put(5, so_far(3, 0))]).await.unwrap();
    assert_eq!(store.import_source("claude:abc").await.unwrap(), Some(source(5)));
    assert_eq!(store.import_source("claude:ab").await.unwrap(), None);
}

pub async fn an_import_continues_only_from_the_expected_position(store: SharedStore) {
    let (thread_id, other) = (create(&*store).await, create(&*store).await);
    let put = |thread_id, entries, expected| {
        let source = ImportSource {
            source_key: "claude:abc".to_owned(),
            thread_id,
            entries,
            chain: format!("{entries:x}"),
            updated_at: at(1),
        };
        Write::PutImport { source, expected }
    };
    let so_far = |entries, last_seq| Some(ImportProgress { entries, last_seq });
    append(&*store, thread_id, vec![human("one")]).await.unwrap();
    commit(&*store, vec![put(thread_id, 1, None)]).await.unwrap();
    let stored = store.import_source("claude:abc").await.unwrap();
    for (case, write) in [
        ("another process imported first", put(other, 1, None)),
        ("another process continued the import", put(thread_id, 3, so_far(2, 1))),
        ("the thread has new events", put(thread_id, 3, so_far(1, 0))),
        ("the source belongs to another thread", put(other, 3, so_far(1, 0))),
    ] {
        let events = Write::Append { thread_id, events: vec![human("two")] };
        let outcome = commit(&*store, vec![write, events]).await;
        assert!(matches!(outcome, Err(Error::Conflict { what: "import", .. })), "{case}: {outcome:?}");
        assert_eq!(store.import_source("claude:abc").await.unwrap(), stored, "{case}");
        assert_eq!(store.thread(thread_id).await.unwrap().unwrap().last_seq, 1, "{case}");
    }
    commit(&*store, vec![put(thread_id, 2, so_far(1, 1))]).await.unwrap();
    let unknown = put(ThreadId::generate(), 1, None);
    assert!(matches!(commit(&*store, vec![unknown]).await, Err(Error::NotFound { .. })));
}
