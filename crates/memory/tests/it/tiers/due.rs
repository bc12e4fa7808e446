//! When messages leave a context: queueing, working through the queue, and messages that never leave.

use std::sync::Arc;

use journal::{OutboxItem, Write};
use memory::{MemorySettings, SummarizationWorker, SummarizedTurns};
use protocol::{ArchiveReason, CompactionUndone, EventType, NewEvent, ParentKind, ThreadId};
use runtime::{ContextCache, Frame, FrameSender, SubscriptionItem};
use serde_json::json;
use test_model::{GatePosition, ScriptedReply};
use tokio_util::sync::CancellationToken;

use super::{TierFixture, agent_id, mark_as_subagent, repeated_reply, timestamp};

pub const SUMMARY: &str = "They spoke of the harbour and of what it needs.";

/// Returns a fixture with this budget in tokens, and a thread of turns with a question and an answer of about 30
/// tokens each.
pub async fn thread_with_turns(
    replies: Vec<ScriptedReply>,
    budget: u64,
    turns: usize,
) -> (TierFixture, ThreadId) {
    let mut desk = TierFixture::new(replies);
    desk.settings.short_term_tokens = Some(budget);
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, turns).await;
    (desk, thread_id)
}

pub async fn append_turns(desk: &TierFixture, thread_id: ThreadId, turns: usize) {
    let from = desk.store.thread(thread_id).await.unwrap().unwrap().last_seq;
    for number in from..from + turns as u64 {
        let asked = format!("U: Question {number} about the harbour, please?");
        desk.append_lines(
            thread_id,
            &[&asked, "C: I look it up.", "T: a tool said so", "A: That is how it is, they say."],
        )
        .await;
    }
}

fn reasons(settled: &[SummarizedTurns]) -> Vec<(ArchiveReason, u64)> {
    settled.iter().map(|settled| (settled.reason, settled.turns)).collect()
}

#[tokio::test]
async fn f8_the_oldest_turns_leave_a_thread_that_is_over_its_budget() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 10).await;
    let tiering = desk.worker();
    tiering.enqueue_if_due(thread_id).await.unwrap();
    tiering.enqueue_if_due(thread_id).await.unwrap();
    let queue = desk.queued_items().await;
    assert_eq!((queue.len(), queue[0].attempts), (1, 0));
    let budget = json!({"tokens": 300, "model": "anthropic/large"});
    assert_eq!(
        queue[0].payload,
        json!({"agent_id": "agent", "thread_id": thread_id, "budget": budget}),
        "the budget goes with it"
    );
    let before = desk.context_texts(thread_id).await;
    let settled = desk.summarize_queue().await.unwrap();
    assert_eq!(settled.len(), 1);
    assert_eq!((settled[0].thread_id, settled[0].model.as_str()), (thread_id, "anthropic/small"));
    assert_eq!(desk.queued_items().await, []);
    let after = desk.context_texts(thread_id).await;
    assert_eq!(after, before[before.len() - after.len()..], "whole turns left, the oldest first");
    assert!(after[0].starts_with("Question"), "{after:?}");
    let context = ContextCache::default().read_context(&*desk.store, thread_id).await.unwrap();
    let tokens = context.request_tokens("", 0);
    assert!((75..=150).contains(&tokens), "{tokens}");
    assert_eq!(desk.unarchived_texts(thread_id).await.len() * 4 / 3, after.len());
    // Every message counts once, and nothing more is due.
    assert_eq!(settled[0].turns as usize + desk.unarchived_texts(thread_id).await.len(), 30);
    let archived = &desk.archived_events(thread_id).await[0];
    assert_eq!(archived.reason, ArchiveReason::Budget);
    assert_eq!((archived.first_seq, archived.context_from), (1, Some(archived.last_seq + 1)));
    tiering.enqueue_if_due(thread_id).await.unwrap();
    assert_eq!((desk.queued_items().await, desk.summarize_queue().await.unwrap()), (vec![], vec![]));
    // The cached context equals the context that is read from the start.
    append_turns(&desk, thread_id, 1).await;
    let followed = desk.worker().contexts.read_context(&*desk.store, thread_id).await.unwrap();
    let anew = ContextCache::default().read_context(&*desk.store, thread_id).await.unwrap();
    assert_eq!(followed.messages, anew.messages);
    assert_eq!(anew.messages.len(), after.len() + 4);
}

#[tokio::test]
async fn f8_turns_leave_repeatedly_and_each_message_is_in_one_summary() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 0).await;
    for _ in 0..8 {
        append_turns(&desk, thread_id, 5).await;
        desk.worker().enqueue_if_due(thread_id).await.unwrap();
        desk.summarize_queue().await.unwrap();
    }
    let archived = desk.archived_events(thread_id).await;
    assert!(archived.len() >= 3, "{}", archived.len());
    for pair in archived.windows(2) {
        assert!(pair[0].last_seq < pair[1].first_seq);
        assert!(pair[0].turn_range_end < pair[1].turn_range_start);
    }
    let trace = desk.task_trace(thread_id).await;
    assert_eq!(trace.len(), 8 * 5 * 3);
    assert!(trace.iter().all(|turn| turn.is_archived == turn.summary_id.is_some()));
    let summarized: u64 = archived.iter().map(|archived| archived.turn_count).sum();
    assert_eq!(summarized as usize, trace.iter().filter(|turn| turn.is_archived).count());
}

#[tokio::test]
async fn f8_messages_within_the_budget_or_of_sub_agents_stay() {
    let (desk, thread_id) = thread_with_turns(vec![], 100_000, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await, [], "within its budget");
    // Without a configured budget, the model's window determines it; without a known window, there is none.
    for (tokens, window, is_due) in [(None, None, false), (None, Some(4_000), false), (None, Some(330), true)]
    {
        let mut desk = TierFixture::with_store(Arc::clone(&desk.store), []);
        desk.settings = MemorySettings { short_term_tokens: tokens, ..MemorySettings::default() };
        let tiering = SummarizationWorker { window, ..desk.worker() };
        tiering.enqueue_if_due(thread_id).await.unwrap();
        assert_eq!(desk.queued_items().await.len(), usize::from(is_due), "{window:?}");
    }
    let (desk, thread_id) = thread_with_turns(vec![], 10, 1).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await, [], "the newest complete turn stays, however large");
    let (mut desk, thread_id) = thread_with_turns(vec![], 10, 10).await;
    desk.settings.enabled = false;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await, [], "switched off");
    desk.worker().enqueue_if_due(ThreadId::generate()).await.unwrap();
    // Messages of a sub-agent's thread never leave, even if the thread is queued.
    let mut desk = TierFixture::new([]);
    desk.settings.short_term_tokens = Some(10);
    let thread_id = desk.create_thread_of("agent", mark_as_subagent).await;
    append_turns(&desk, thread_id, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await, []);
    desk.enqueue(thread_id).await;
    assert_eq!(desk.summarize_queue().await.unwrap(), []);
    assert_eq!((desk.queued_items().await, desk.counts().await.summaries), (vec![], 0));
    assert_eq!(desk.context_texts(thread_id).await.len(), 40);
}

#[tokio::test]
async fn f8_an_unfinished_turn_stays_and_so_does_the_one_before_it() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 10, 3).await;
    desk.append_lines(thread_id, &["U: And the last one?", "C: I look."]).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    desk.summarize_queue().await.unwrap();
    let context = desk.context_texts(thread_id).await;
    assert_eq!(context.len(), 4 + 2, "{context:?}");
    assert!(context[0].starts_with("Question 2"), "{context:?}");
}

#[tokio::test]
async fn f8_compacted_messages_are_summarized_and_the_context_is_unchanged() {
    let desk = TierFixture::new([repeated_reply(SUMMARY)]);
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, 6).await;
    // The last request was compacted and is still sent, so its turn stays.
    let marker_seq = desk.compact(thread_id, 18, Some(17)).await;
    desk.enqueue(thread_id).await;
    let before = desk.context_texts(thread_id).await;
    let settled = desk.summarize_queue().await.unwrap();
    assert_eq!(reasons(&settled), [(ArchiveReason::Compaction, 12)]);
    assert_eq!(desk.context_texts(thread_id).await, before);
    let archived = &desk.archived_events(thread_id).await[0];
    assert_eq!((archived.first_seq, archived.last_seq, archived.marker_seq), (1, 16, Some(marker_seq)));
    assert_eq!((archived.context_from, desk.queued_items().await), (None, vec![]));
    // The same item again, as after a crash before it was removed from the queue.
    desk.enqueue(thread_id).await;
    assert_eq!(desk.summarize_queue().await.unwrap(), []);
    assert_eq!(desk.queued_items().await, []);
    // The next compaction archives the rest. A compaction whose item was lost is detected.
    append_turns(&desk, thread_id, 2).await;
    desk.compact(thread_id, 28, None).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await.len(), 1);
    assert_eq!(reasons(&desk.summarize_queue().await.unwrap()), [(ArchiveReason::Compaction, 7)]);
}

#[tokio::test]
async fn f8_a_compaction_and_the_budget_are_summarized_in_order() {
    let (mut desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 150, 8).await;
    desk.compact(thread_id, 8, None).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    let settled = desk.summarize_queue().await.unwrap();
    let reasons: Vec<_> = settled.iter().map(|settled| settled.reason).collect();
    assert_eq!(reasons, [ArchiveReason::Compaction, ArchiveReason::Budget]);
    let context = desk.context_texts(thread_id).await;
    assert!(context[0].contains("condensed") && context[1].starts_with("Question"), "{context:?}");
    let archived = desk.archived_events(thread_id).await;
    assert_eq!(
        (archived[0].last_seq, archived[1].first_seq, archived[1].marker_seq),
        (8, 9, archived[0].marker_seq)
    );
    // With a larger budget no message returns, and none leaves.
    desk.settings.short_term_tokens = Some(10_000);
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await, []);
}

#[tokio::test]
async fn f8_a_busy_thread_stays_in_the_queue_and_counts_no_attempt() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    let queue = desk.queued_items().await;
    let run_id = desk.begin_run(thread_id).await;
    assert_eq!(desk.summarize_queue().await.unwrap(), []);
    assert_eq!((desk.queued_items().await, desk.server.call_count()), (queue, 0));
    desk.end_run(run_id).await;
    assert_eq!(desk.summarize_queue().await.unwrap().len(), 1);
}

#[tokio::test]
async fn f8_a_deleted_threads_item_is_removed_and_others_are_summarized() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 10).await;
    desk.enqueue(ThreadId::generate()).await;
    let nonsense = OutboxItem { payload: "?".into(), ..desk.transfer_item(thread_id, timestamp(1)).await };
    desk.commit(vec![Write::PutOutboxItem(OutboxItem { key: "nonsense".to_owned(), ..nonsense })]).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    assert_eq!(desk.queued_items().await.len(), 3);
    assert_eq!(desk.summarize_queue().await.unwrap().len(), 1);
    assert_eq!(desk.queued_items().await, []);
}

#[tokio::test]
async fn f8_another_compaction_keeps_the_failures_and_the_unstored_summary() {
    let desk = TierFixture::new(vec![repeated_reply("")]);
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, 6).await;
    desk.compact(thread_id, 12, None).await;
    desk.enqueue(thread_id).await;
    assert_eq!(desk.summarize_queue().await.unwrap(), []);
    let failed = desk.queued_items().await.remove(0);
    let again = desk.transfer_item(thread_id, timestamp(99)).await;
    assert_eq!((failed.attempts, again.attempts), (1, 1));
    let draft = json!({"turns": {"first": 1, "last": 2, "count": 2, "digest": 3}, "text": "paid for", "model": "a/b",
                       "withheld": 0, "usage": protocol::Usage::default()});
    let mut waiting = again.clone();
    waiting.payload["draft"] = draft;
    desk.commit(vec![Write::PutOutboxItem(waiting.clone())]).await;
    let newest = desk.transfer_item(thread_id, timestamp(100)).await;
    assert_eq!((newest.payload, newest.created_at), (waiting.payload, timestamp(100)));
}

#[tokio::test]
async fn f8_after_three_failures_of_the_model_an_offline_summary_is_made() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply("")], 300, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    for attempt in 1..=3 {
        let (frames, mut stream) = FrameSender::channel();
        let settled = desk.worker().summarize_queue(&frames, &CancellationToken::new()).await.unwrap();
        drop(frames);
        assert_eq!((settled.len(), desk.queued_items().await[0].attempts), (0, attempt));
        let mut notices = Vec::new();
        while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
            if let Frame::Notice { text } = &*frame {
                notices.push(text.clone());
            }
        }
        assert_eq!(
            notices,
            ["failed to read the summary of anthropic/small: it is empty; it is tried again later"]
        );
    }
    assert_eq!(desk.unarchived_texts(thread_id).await.len(), 30);
    let settled = desk.summarize_queue().await.unwrap();
    assert_eq!((settled.len(), settled[0].model.as_str(), desk.server.call_count()), (1, "extractive", 3));
    assert_eq!(desk.queued_items().await, []);
    // The usage of failed calls is recorded.
    let events = desk.events(thread_id).await;
    let called = events.iter().filter(|event| event.kind() == Some(EventType::ModelCalled));
    assert_eq!(called.filter(|event| event.content_value()["problem"].is_string()).count(), 3);
    let summaries = desk.summarization().retrieve_recent_summaries(&agent_id(), 1).await.unwrap();
    assert!(
        summaries[0].summary_text.contains("Question 0 about the harbour"),
        "{}",
        summaries[0].summary_text
    );
}

#[tokio::test]
async fn f8_cancelled_work_stays_in_the_queue() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 10).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert_eq!(desk.worker().summarize_queue(&FrameSender::default(), &stopped).await.unwrap(), []);
    assert_eq!((desk.queued_items().await.len(), desk.queued_items().await[0].attempts), (1, 0));
    assert_eq!(desk.unarchived_texts(thread_id).await.len(), 30);
    assert_eq!(desk.summarize_queue().await.unwrap().len(), 1);
}

#[tokio::test]
async fn f10_the_item_determines_the_agent_of_the_messages() {
    let mut desk = TierFixture::new([repeated_reply(SUMMARY)]);
    desk.settings.short_term_tokens = Some(300);
    let theirs = desk.create_thread_of("other", |_| {}).await;
    append_turns(&desk, theirs, 10).await;
    desk.worker().enqueue_if_due(theirs).await.unwrap();
    assert_eq!(desk.queued_items().await[0].payload["agent_id"], "other");
    desk.summarize_queue().await.unwrap();
    assert_eq!(desk.summarization().retrieve_recent_summaries(&agent_id(), 9).await.unwrap(), []);
    assert_eq!(
        desk.summarization().retrieve_recent_summaries(&"other".parse().unwrap(), 9).await.unwrap().len(),
        1
    );
    // An item that names another agent finds no messages of that agent in the thread.
    let last_seq = desk.store.thread(theirs).await.unwrap().unwrap().last_seq;
    append_turns(&desk, theirs, 20).await;
    desk.compact(theirs, last_seq + 40, None).await;
    desk.enqueue(theirs).await;
    assert_eq!(desk.summarize_queue().await.unwrap(), []);
}

#[tokio::test]
async fn f8_long_threads_become_summaries_of_a_hundred_turns() {
    let (desk, thread_id) = thread_with_turns(vec![repeated_reply(SUMMARY)], 4_000, 200).await;
    desk.worker().enqueue_if_due(thread_id).await.unwrap();
    let settled = desk.summarize_queue().await.unwrap();
    assert!(settled.len() > 3, "{}", settled.len());
    assert!(settled.iter().all(|settled| (60..=110).contains(&settled.turns)), "{settled:?}");
    let archived = desk.archived_events(thread_id).await;
    for pair in archived.windows(2) {
        assert_eq!(pair[0].last_seq + 1, pair[1].first_seq, "nothing is between them");
    }
}

#[tokio::test]
async fn m9_messages_that_return_during_the_summary_stay() {
    let desk = TierFixture::new([
        ScriptedReply::text(SUMMARY).with_gate("go", GatePosition::Start),
        repeated_reply(SUMMARY),
    ]);
    let thread_id = desk.create_thread().await;
    append_turns(&desk, thread_id, 6).await;
    let marker_seq = desk.compact(thread_id, 20, None).await;
    desk.enqueue(thread_id).await;
    let (settled, ()) = tokio::join!(desk.summarize_queue(), async {
        let undone = CompactionUndone { marker_seq, clip_seqs: Vec::new() };
        let undone = NewEvent::new(EventType::CompactionUndone, &undone, timestamp(1)).unwrap();
        desk.append(thread_id, vec![undone]).await;
        desk.server.open_gate("go");
    });
    assert_eq!(settled.unwrap(), []);
    assert_eq!((desk.counts().await.summaries, desk.unarchived_texts(thread_id).await.len()), (0, 18));
    assert_eq!((desk.context_texts(thread_id).await.len(), desk.queued_items().await), (24, vec![]));
}

#[tokio::test]
async fn f8_a_chain_of_compactions_is_summarized_step_by_step() {
    let desk = TierFixture::new([repeated_reply(SUMMARY)]);
    let thread_id = desk.create_thread().await;
    let mut completed = Vec::new();
    for _ in 0..4 {
        append_turns(&desk, thread_id, 3).await;
        let last_seq = desk.store.thread(thread_id).await.unwrap().unwrap().last_seq;
        desk.compact(thread_id, last_seq, None).await;
        desk.worker().enqueue_if_due(thread_id).await.unwrap();
        completed.extend(reasons(&desk.summarize_queue().await.unwrap()));
        desk.worker().enqueue_if_due(thread_id).await.unwrap();
        assert_eq!(desk.queued_items().await, []);
    }
    assert_eq!(completed, [(ArchiveReason::Compaction, 9); 4]);
}

#[tokio::test]
async fn f8_copied_messages_stay_until_they_are_compacted() {
    let (desk, source) = thread_with_turns(vec![repeated_reply(SUMMARY)], 300, 12).await;
    let fork = desk.create_thread_of("agent", |thread| thread.parent_kind = Some(ParentKind::Fork)).await;
    desk.commit(vec![Write::CopyEvents { from: source, until: None, into: fork }]).await;
    let copied = desk.context_texts(fork).await;
    // The fork's messages are logged for its source, so none is due although it exceeds the budget.
    desk.worker().enqueue_if_due(fork).await.unwrap();
    assert_eq!(desk.queued_items().await, []);
    desk.enqueue(fork).await;
    assert_eq!((desk.summarize_queue().await.unwrap(), desk.queued_items().await), (vec![], vec![]));
    append_turns(&desk, fork, 6).await;
    desk.worker().enqueue_if_due(fork).await.unwrap();
    assert_eq!(reasons(&desk.summarize_queue().await.unwrap()), [(ArchiveReason::Budget, 15)]);
    let context = desk.context_texts(fork).await;
    assert_eq!(context[..copied.len()], copied);
    assert_eq!(context.len(), copied.len() + 4, "of its own turns the newest stays");
    assert_eq!(desk.archived_events(fork).await[0].context_from, None);
    assert_eq!(desk.queued_items().await, []);
}
