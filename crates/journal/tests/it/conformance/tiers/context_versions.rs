//! A plan for a thread is applied only if the thread's context is still the one for which it was made.

use jiff::Timestamp;
use journal::{Error, Store, ThreadFilter, ThreadVersion, TurnSummarization, Write};
use protocol::{ArchiveReason, EventType, NewEvent, Seq, ThreadId, TurnsArchived, TurnsRestored};
use serde_json::json;

use super::memory_fixtures::{
    append_turns, archive_event, current_version, summarization, summarize_turns, summary, turn_indexes,
};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    ai, append, at, commit, compaction_event, create, event, human, rewind, trace_event, undo_event,
};

/// Returns a summarization of turns, planned for the thread's current version.
async fn plan_summarization(store: &dyn Store, thread_id: ThreadId, window: (u64, u64)) -> TurnSummarization {
    let last_seq = store.thread(thread_id).await.unwrap().unwrap().last_seq;
    TurnSummarization {
        thread_versions: vec![ThreadVersion { thread_id, last_seq }],
        ..summarization(thread_id, window, "as planned")
    }
}

pub async fn f6_a_plan_stays_valid_when_messages_are_added(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 6).await;
    // The plan includes events before its creation.
    append(&*store, thread_id, vec![compaction_event((1, 2), None, "S"), undo_event(7, vec![])])
        .await
        .unwrap();
    rewind(&*store, thread_id, 5).await.unwrap();
    let plan = plan_summarization(&*store, thread_id, (1, 2)).await;
    append(&*store, thread_id, vec![human("on"), trace_event(1), ai("on")]).await.unwrap();
    let archived = archive_event(&plan.summary, ArchiveReason::Budget, (1, 2));
    let append = Write::Append { thread_id, events: vec![archived] };
    let committed = commit(&*store, vec![Write::SummarizeTurns(plan), append]).await.unwrap();
    assert_eq!(turn_indexes(&*store).await, (vec![3, 4, 5, 7, 8], vec![1, 2]));
    // The second step of the same plan continues from the seq of the event that the first step appended.
    let next = ThreadVersion { thread_id, last_seq: committed.seqs[0][0] };
    let next =
        TurnSummarization { thread_versions: vec![next], ..summarization(thread_id, (3, 4), "and on") };
    commit(&*store, vec![Write::SummarizeTurns(next)]).await.unwrap();
    assert_eq!(turn_indexes(&*store).await, (vec![5, 7, 8], vec![1, 2, 3, 4]));
}

pub async fn f6_a_plan_for_a_changed_context_is_refused(store: SharedStore) {
    for what in
        ["rewind", "bare rewind", "compaction", "undo", "transfer", "of another of its threads", "restore"]
    {
        let (thread_id, beside) = (create(&*store).await, create(&*store).await);
        append_turns(&*store, thread_id, 6).await;
        append_turns(&*store, beside, 2).await;
        let base = store.turns(journal::TurnQuery {
            thread_id: Some(thread_id),
            ..journal::TurnQuery::for_agent(Default::default())
        });
        let base = base.await.unwrap()[0].turn_index - 1;
        append(&*store, thread_id, vec![compaction_event((1, 1), None, "S")]).await.unwrap();
        let retained = summarize_turns(&*store, thread_id, (base + 3, base + 3), ("kept", (3, 3))).await;
        let mut plan = plan_summarization(&*store, thread_id, (base + 1, base + 2)).await;
        match what {
            "rewind" => drop(rewind(&*store, thread_id, 6).await.unwrap()),
            "bare rewind" => {
                let rewind = Write::Rewind { thread_id, keep_seq: 7, at: at(3) };
                commit(&*store, vec![rewind]).await.unwrap();
            }
            "compaction" => {
                drop(append(&*store, thread_id, vec![compaction_event((1, 2), None, "T")]).await.unwrap());
            }
            "undo" => drop(append(&*store, thread_id, vec![undo_event(7, vec![])]).await.unwrap()),
            "transfer" => {
                summarize_turns(&*store, thread_id, (base + 4, base + 4), ("faster", (4, 4))).await;
            }
            "of another of its threads" => {
                plan = TurnSummarization {
                    summary: summary((base + 7, base + 8), "of both"),
                    thread_id: None,
                    turns: 2,
                    thread_versions: vec![
                        ThreadVersion { thread_id: beside, last_seq: 2 },
                        current_version(thread_id),
                    ],
                };
                append(&*store, beside, vec![compaction_event((1, 1), None, "T")]).await.unwrap();
            }
            _ => {
                let restore = Write::RestoreTurns { summary_ids: vec![retained.id], scope: None };
                commit(&*store, vec![restore]).await.unwrap();
            }
        }
        let before = turn_indexes(&*store).await;
        let refused = commit(&*store, vec![Write::SummarizeTurns(plan.clone())]).await.unwrap_err();
        assert!(
            matches!(refused, Error::Conflict { what: "message range of summary", .. }),
            "{what}: {refused:?}"
        );
        assert_eq!(turn_indexes(&*store).await, before, "{what}");
        for thread_id in [thread_id, beside] {
            commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
        }
    }
}

/// Returns the event with the given creation time.
fn at_time(event: NewEvent, created_at: Timestamp) -> NewEvent {
    NewEvent { created_at, ..event }
}

pub async fn f7_background_events_do_not_change_the_activity_time(store: SharedStore) {
    let (older, newer) = (create(&*store).await, create(&*store).await);
    append(&*store, older, vec![at_time(human("q"), at(10))]).await.unwrap();
    append(&*store, newer, vec![at_time(human("q"), at(20))]).await.unwrap();
    let archived: TurnsArchived = {
        let event = archive_event(&summary((1, 1), "told"), ArchiveReason::Budget, (1, 1));
        serde_json::from_str(event.content.get()).unwrap()
    };
    let called = event(EventType::ModelCalled, &json!({"purpose": "transfer"}));
    let background = [
        event(EventType::TurnsArchived, &json!(archived)),
        event(EventType::TurnsRestored, &json!(TurnsRestored { archived_seqs: vec![2] })),
        called.clone(),
        event(EventType::ThreadRenamed, &json!({"name": "a name"})),
    ];
    for event in background {
        append(&*store, older, vec![at_time(event, at(30))]).await.unwrap();
    }
    let recent = async |store: &dyn Store| -> Vec<(ThreadId, Timestamp, Seq)> {
        let filter = ThreadFilter::for_scope(protocol::OwnerScope::Everyone, 9);
        let threads = store.threads(filter).await.unwrap();
        threads.into_iter().map(|thread| (thread.thread_id, thread.updated_at, thread.last_seq)).collect()
    };
    assert_eq!(recent(&*store).await, [(newer, at(20), 1), (older, at(10), 5)]);
    // With a user's event, the activity time is that of the event.
    let both = vec![at_time(called, at(50)), at_time(ai("a"), at(40))];
    append(&*store, older, both).await.unwrap();
    assert_eq!(recent(&*store).await, [(older, at(40), 7), (newer, at(20), 1)]);
}
