//! Changes of a thread while its messages are summarized: a plan that no longer holds stores nothing, and a model call
//! that was paid for is not repeated.

use std::sync::Arc;

use journal::Write;
use memory::{SummarizationError, TurnWindow};
use protocol::{ArchiveReason, EventType, NewEvent, Seq, ThreadId};
use serde_json::json;
use test_model::{GatePosition, ScriptedReply};

use super::due::{SUMMARY, append_turns, thread_with_turns};
use super::{TierFixture, agent_id, repeated_reply, timestamp};

/// Returns a first answer that waits, and another for each further call.
fn gated_replies() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::text("The first summary tells of the harbour.")
            .with_gate("go", GatePosition::Start)
            .with_tokens(700, 30),
        repeated_reply(SUMMARY),
    ]
}

/// Returns a fixture with a thread that is queued because it exceeds its budget of 300 tokens.
async fn queued_thread() -> (TierFixture, ThreadId) {
    let (desk, thread_id) = thread_with_turns(gated_replies(), 300, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await.len(), 1);
    (desk, thread_id)
}

/// Waits until the small model is called.
async fn wait_for_model_call(desk: &TierFixture) {
    while desk.server.call_count() == 0 {
        tokio::task::yield_now().await;
    }
}

/// Rewinds the thread as a user does.
async fn rewind(desk: &TierFixture, thread_id: ThreadId, keep_seq: Seq) {
    let noted =
        NewEvent::new(EventType::ThreadRewound, &json!({"keep_seq": keep_seq}), timestamp(1)).unwrap();
    let events = vec![noted];
    desk.commit(vec![
        Write::Rewind { thread_id, keep_seq, at: timestamp(1) },
        Write::Append { thread_id, events },
    ])
    .await;
}

/// Returns the number of recorded calls of the small model in the thread.
async fn count_traced_calls(desk: &TierFixture, thread_id: ThreadId) -> usize {
    let events = desk.events(thread_id).await;
    events.iter().filter(|event| event.kind() == Some(EventType::ModelCalled)).count()
}

/// Checks that the thread's `turns_archived` events match its archived messages.
async fn check_summaries(desk: &TierFixture, thread_id: ThreadId) {
    let trace = desk.task_trace(thread_id).await;
    let archived = desk.archived_events(thread_id).await;
    for event in &archived {
        let of: Vec<_> = trace.iter().filter(|turn| turn.summary_id == Some(event.summary_id)).collect();
        assert_eq!(of.len() as u64, event.turn_count);
        assert!(of.iter().all(|turn| (event.first_seq..=event.last_seq).contains(&turn.seq)));
    }
    let summarized: u64 = archived.iter().map(|event| event.turn_count).sum();
    assert_eq!(summarized as usize, trace.iter().filter(|turn| turn.summary_id.is_some()).count());
}

#[tokio::test]
async fn f8_concurrently_rewound_messages_are_not_summarized() {
    let (desk, thread_id) = queued_thread().await;
    let (settled, ()) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        rewind(&desk, thread_id, 8).await;
        desk.server.open_gate("go");
    });
    assert_eq!(settled.unwrap(), [], "what is left is within the budget");
    assert_eq!((desk.context_texts(thread_id).await.len(), desk.counts().await.summaries), (8, 0));
    assert_eq!((desk.queued_items().await, desk.archived_events(thread_id).await), (vec![], vec![]));
    assert_eq!(
        (desk.server.call_count(), count_traced_calls(&desk, thread_id).await),
        (1, 1),
        "the paid call is recorded"
    );
}

#[tokio::test]
async fn f8_concurrently_compacted_messages_do_not_leave_because_of_the_budget() {
    let (desk, thread_id) = queued_thread().await;
    let (settled, before) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        desk.compact(thread_id, 36, None).await;
        desk.enqueue(thread_id).await;
        let before = desk.context_texts(thread_id).await;
        desk.server.open_gate("go");
        before
    });
    assert_eq!(settled.unwrap(), []);
    assert_eq!(
        (desk.context_texts(thread_id).await, desk.archived_events(thread_id).await),
        (before, vec![])
    );
    // The compaction's item is still queued, and its transfer archives the compacted messages.
    assert_eq!(desk.queued_items().await.len(), 1);
    let settled = desk.summarize_queue().await.unwrap();
    assert_eq!(settled.iter().map(|settled| settled.reason).collect::<Vec<_>>(), [ArchiveReason::Compaction]);
    check_summaries(&desk, thread_id).await;
}

#[tokio::test]
async fn f6_messages_that_another_process_summarized_are_in_one_summary() {
    let (desk, thread_id) = queued_thread().await;
    let (settled, ()) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        let window = TurnWindow::from_indexes([1, 3]).in_thread(thread_id);
        desk.offline_summarization().transfer(&agent_id(), &window).await.unwrap().unwrap();
        desk.server.open_gate("go");
    });
    assert_eq!(settled.unwrap().len(), 1);
    assert_eq!((desk.counts().await.summaries, desk.queued_items().await), (2, vec![]));
    check_summaries(&desk, thread_id).await;
    assert_eq!(desk.archived_events(thread_id).await.len(), 2);
    assert!(
        !desk.archived_events(thread_id).await[1].summary.contains("first summary"),
        "it covered other messages"
    );
}

#[tokio::test]
async fn f8_a_concurrent_message_does_not_disturb_a_transfer() {
    let (desk, thread_id) = queued_thread().await;
    let (settled, ()) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        append_turns(&desk, thread_id, 2).await;
        desk.server.open_gate("go");
    });
    assert_eq!((settled.unwrap().len(), desk.server.call_count()), (1, 1));
    check_summaries(&desk, thread_id).await;
}

#[tokio::test]
async fn f6_a_requested_transfer_is_repeated_after_a_concurrent_change() {
    let desk = TierFixture::new(gated_replies());
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, 4).await;
    let (tiers, agent, window) = (desk.summarization(), agent_id(), TurnWindow::from_indexes([1, 12]));
    let (summary, ()) = tokio::join!(tiers.transfer(&agent, &window), async {
        wait_for_model_call(&desk).await;
        rewind(&desk, thread_id, 8).await;
        desk.server.open_gate("go");
    });
    let summary = summary.unwrap().unwrap();
    assert_eq!((summary.turn_range_start, summary.turn_range_end), (1, 6));
    assert!(summary.summary_text.ends_with(SUMMARY), "{}", summary.summary_text);
    assert_eq!((desk.server.call_count(), count_traced_calls(&desk, thread_id).await), (2, 2));
    check_summaries(&desk, thread_id).await;
}

#[tokio::test]
async fn f8_a_paid_summary_is_kept_while_the_thread_has_an_active_run() {
    let (desk, thread_id) = queued_thread().await;
    let (settled, run_id) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        let run_id = desk.begin_run(thread_id).await;
        desk.server.open_gate("go");
        run_id
    });
    assert_eq!(settled.unwrap(), []);
    let queue = desk.queued_items().await;
    assert_eq!((queue.len(), queue[0].attempts), (1, 0));
    assert_eq!(count_traced_calls(&desk, thread_id).await, 1, "the call is accounted for");
    // The user continues, and the thread is queued again.
    append_turns(&desk, thread_id, 1).await;
    assert_eq!(desk.summarize_queue().await.unwrap(), []);
    desk.end_run(run_id).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await, queue);
    assert!(queue[0].payload.to_string().contains("first summary"), "{}", queue[0].payload);
    let settled = desk.summarize_queue().await.unwrap();
    let archived = desk.archived_events(thread_id).await;
    assert!(archived[0].summary.contains("first summary"), "{}", archived[0].summary);
    assert_eq!((archived[0].usage.input_tokens, archived[0].turn_count), (700, settled[0].turns));
    assert_eq!(desk.server.call_count(), settled.len(), "one call for each summary");
    assert_eq!(count_traced_calls(&desk, thread_id).await, settled.len());
    assert_eq!(desk.queued_items().await, []);
    check_summaries(&desk, thread_id).await;
}

#[tokio::test]
async fn k9_deleting_a_thread_removes_its_unstored_summary_from_the_queue() {
    let (desk, thread_id) = queued_thread().await;
    desk.enqueue(thread_id).await;
    let (settled, ()) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        let mut writes = vec![Write::DeleteThread { thread_id }];
        writes.extend(memory::dequeue_writes(thread_id));
        desk.commit(writes).await;
        desk.server.open_gate("go");
    });
    assert_eq!((settled.unwrap(), desk.queued_items().await), (vec![], vec![]));
}

#[tokio::test]
async fn f8_an_unstored_summary_of_rewound_messages_is_dropped() {
    let (desk, thread_id) = queued_thread().await;
    let (settled, run_id) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        let run_id = desk.begin_run(thread_id).await;
        desk.server.open_gate("go");
        run_id
    });
    assert_eq!(settled.unwrap(), []);
    desk.end_run(run_id).await;
    desk.offline_summarization()
        .transfer(&agent_id(), &TurnWindow::from_indexes([2, 2]))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(desk.summarize_queue().await.unwrap().len(), 1);
    let archived = desk.archived_events(thread_id).await;
    assert!(archived.iter().all(|event| !event.summary.contains("first summary")), "{archived:?}");
    assert_eq!((desk.server.call_count(), count_traced_calls(&desk, thread_id).await), (2, 2));
    check_summaries(&desk, thread_id).await;
}

#[tokio::test]
async fn f6_the_calls_of_a_failed_transfer_are_recorded() {
    let desk = TierFixture::new(gated_replies());
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, 2).await;
    let (tiers, agent, window) = (desk.summarization(), agent_id(), TurnWindow::from_indexes([1, 6]));
    let (refused, ()) = tokio::join!(tiers.transfer(&agent, &window), async {
        wait_for_model_call(&desk).await;
        desk.begin_run(thread_id).await;
        desk.server.open_gate("go");
    });
    assert!(matches!(refused, Err(SummarizationError::Busy { .. })), "{refused:?}");
    assert_eq!(count_traced_calls(&desk, thread_id).await, 1);
}

#[tokio::test]
async fn f8_the_budget_of_the_queue_item_applies_in_every_process() {
    // A process with a small model works through the queue of one with a large one.
    let (large, thread_id) = thread_with_turns(vec![], 100_000, 10).await;
    let mut small = TierFixture::with_store(Arc::clone(&large.store), [repeated_reply(SUMMARY)]);
    small.settings.short_term_tokens = Some(50);
    large.compact(thread_id, 8, None).await;
    large.worker().enqueue_if_due(thread_id).await.unwrap();
    let settled = small.summarize_queue().await.unwrap();
    assert_eq!(settled.iter().map(|settled| settled.reason).collect::<Vec<_>>(), [ArchiveReason::Compaction]);
    assert_eq!((small.context_texts(thread_id).await.len(), small.queued_items().await), (33, vec![]));
    // The same the other way round.
    let (small, thread_id) = thread_with_turns(vec![], 300, 10).await;
    small.worker().enqueue_if_due(thread_id).await.unwrap();
    let large = TierFixture::with_store(Arc::clone(&small.store), [repeated_reply(SUMMARY)]);
    let settled = large.summarize_queue().await.unwrap();
    assert_eq!(settled.iter().map(|settled| settled.reason).collect::<Vec<_>>(), [ArchiveReason::Budget]);
}

#[tokio::test]
async fn f8_items_for_different_reasons_do_not_replace_each_other() {
    let (mut desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    desk.enqueue(thread_id).await;
    assert_eq!(desk.queued_items().await.len(), 2);
    // An item with another budget replaces the one before.
    desk.settings.short_term_tokens = Some(200);
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    let queue = desk.queued_items().await;
    let budgets: Vec<_> = queue.iter().filter_map(|item| item.payload.get("budget")).collect();
    assert_eq!((queue.len(), budgets.len()), (2, 1));
    assert_eq!(budgets[0]["tokens"], 200);
}

#[tokio::test]
async fn f8_a_concurrently_queued_item_stays_in_the_queue() {
    let desk = TierFixture::new(gated_replies());
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, 6).await;
    desk.compact(thread_id, 12, None).await;
    desk.enqueue(thread_id).await;
    let newer = desk.transfer_item(thread_id, timestamp(99)).await;
    let (settled, ()) = tokio::join!(desk.summarize_queue(), async {
        wait_for_model_call(&desk).await;
        desk.commit(vec![Write::PutOutboxItem(newer.clone())]).await;
        desk.server.open_gate("go");
    });
    assert_eq!(settled.unwrap().len(), 1);
    assert_eq!(desk.queued_items().await, [newer]);
}
