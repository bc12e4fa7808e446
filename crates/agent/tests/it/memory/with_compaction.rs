//! Tests of compaction together with memory: which messages are compacted when memory has already removed turns at the
//! beginning or in the middle of the context, and what the compaction boundary counts.

use std::sync::Arc;

use memory::TurnWindow;
use protocol::{Message, Seq};

use super::*;
use crate::compaction::{append, compact_keeping, newest_request as newest_messages, visible_markers};
use crate::environment::{CrashingStore, assert_paired, messages};

/// Filler sentences of a message: enough that compacting a few turns saves tokens.
const SENTENCES: usize = 400;

/// Budget of the short-term tier in tokens: about five turns of [`SENTENCES`] sentences.
const LONG_BUDGET: u64 = 5 * BUDGET_TOKENS;

/// Sends the messages of the turns `numbers`.
async fn send_turns(agent: &Agent, thread: ThreadId, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        send_message(agent, thread, &long_turn_text(number, SENTENCES)).await;
    }
}

/// Returns the sequence numbers of the messages in the next request, without the compaction summary.
async fn context_seqs(agent: &Agent, thread: ThreadId) -> Vec<Seq> {
    let context = runtime::ContextCache::default().read_context(&**agent.store(), thread).await.unwrap();
    context.seqs[context.summary_len..].to_vec()
}

/// A long thread of which a compaction covers all but the last two messages. Memory is not settled yet.
struct CompactedThread {
    _environment: TestEnvironment,
    _server: ScriptedServer,
    /// The store, which counts what is read.
    store: Arc<CrashingStore>,
    agent: Agent,
    thread: ThreadId,
}

impl CompactedThread {
    /// The number of messages.
    const MESSAGES: usize = 6_000;

    async fn create() -> Self {
        let (environment, server) = (TestEnvironment::new(), summarizing_server());
        configure(&environment, &server, (200_000, "[memory]\nshort_term_tokens = 1000000\n"));
        let store = CrashingStore::never_crash(environment.store());
        let agent = environment.agent_over(store.clone(), TEST_MODEL);
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        let message = |number: usize| match number % 2 {
            0 => Message::human(format!("Request {number}.")),
            _ => Message::ai(format!("Done with {number}.")),
        };
        append(&agent, thread, &(0..Self::MESSAGES).map(message).collect::<Vec<_>>()).await;
        compact_keeping(&agent, thread, 2).await;
        Self { _environment: environment, _server: server, store, agent, thread }
    }
}

#[tokio::test]
async fn c2_a_compaction_counts_only_the_messages_that_memory_left_in_the_context() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (LONG_BUDGET, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_turns(&agent, thread, 1..=6).await;
    settle_memory(&agent).await;
    let before = context_seqs(&agent, thread).await;
    let last_archived = turns_archived(&agent, thread).await[0].last_seq;
    assert!(before[0] > last_archived);
    let compaction = compact_keeping(&agent, thread, 2).await.compaction;
    let after = context_seqs(&agent, thread).await;
    assert_eq!(compaction.first_seq, before[0], "the compaction begins after the archived turns");
    assert_eq!(compaction.replaced_count as usize, before.len() - after.len());
    assert_eq!((compaction.kept_count as usize, after.len()), (2, 2));
    assert_eq!(compaction.last_seq, before[before.len() - 3]);
    assert!(compaction.tokens_after < compaction.tokens_before);
    send_message(&agent, thread, "And now?").await;
    let request = newest_request(&server).body;
    assert_paired(&request);
    assert!(
        request["system"].to_string().contains(SUMMARY_TEXT),
        "the summary of the archived turns is still sent"
    );
    assert!(!newest_messages(&server).contains(FIRST_TURN_TEXT));
}

#[tokio::test]
async fn f6_each_message_of_a_long_thread_is_read_three_times_however_many_summaries_it_needs() {
    let compacted = CompactedThread::create().await;
    let CompactedThread { store, agent, .. } = &compacted;
    let before = store.turns_read();
    let summarized = settle_memory(agent).await;
    assert!(summarized.len() > 10, "{}", summarized.len());
    assert!(
        summarized.iter().map(|summary| summary.turns).sum::<u64>() >= CompactedThread::MESSAGES as u64 - 3
    );
    // Once for the plan, once to measure the window of a summary, and once for the summary.
    let read = store.turns_read() - before;
    assert!(read <= 3 * CompactedThread::MESSAGES + 10, "{read}");
}

#[tokio::test]
async fn b7_a_run_reads_few_events_of_archived_turns_however_many_a_compaction_left() {
    let compacted = CompactedThread::create().await;
    let CompactedThread { store, agent, thread, .. } = &compacted;
    settle_memory(agent).await;
    assert!(turns_archived(agent, *thread).await.len() > 40);
    send_message(agent, *thread, "And now?").await;
    settle_memory(agent).await;
    let before = store.archived_events_read();
    send_message(agent, *thread, "And then?").await;
    settle_memory(agent).await;
    // The newest one for the section of the request, and the newest four for the plan of the next summaries.
    let read = store.archived_events_read() - before;
    assert!(read <= 9, "{read}");
}

#[tokio::test]
async fn c3_chained_compactions_stay_correct_when_memory_archives_turns_between_them() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (LONG_BUDGET, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_turns(&agent, thread, 1..=4).await;
    let first = compact_keeping(&agent, thread, 2).await.compaction;
    send_turns(&agent, thread, 5..=12).await;
    settle_memory(&agent).await;
    let archived_events = turns_archived(&agent, thread).await;
    let by_budget: Vec<_> =
        archived_events.iter().filter(|archived| archived.reason.is_removed_from_context()).collect();
    assert!(!by_budget.is_empty() && by_budget[0].first_seq > first.last_seq, "{archived_events:?}");
    let marker = visible_markers(&agent, thread).await[0].0;
    assert_eq!(by_budget[0].marker_seq, Some(marker));
    let before = context_seqs(&agent, thread).await;
    let second = compact_keeping(&agent, thread, 2).await.compaction;
    let after = context_seqs(&agent, thread).await;
    assert_eq!(
        (second.previous_seq, second.first_seq),
        (Some(marker), before[0].min(by_budget[0].last_seq + 1))
    );
    assert_eq!(
        second.replaced_count as usize,
        before.len() - after.len(),
        "the earlier summary is not counted"
    );
    assert!(second.first_seq > by_budget[0].last_seq);
    // Both compactions are undone, one after the other. Turns that memory archived for the budget stay archived.
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(context_seqs(&agent, thread).await, before);
    agent.threads().undo_compaction(thread).await.unwrap();
    let whole = context_seqs(&agent, thread).await;
    let in_memory =
        |seq: &Seq| by_budget.iter().any(|archived| (archived.first_seq..=archived.last_seq).contains(seq));
    assert!(whole[0] < first.last_seq && !whole.iter().any(in_memory), "{whole:?}");
    send_message(&agent, thread, "And now?").await;
    assert_paired(&newest_request(&server).body);
}

#[tokio::test]
async fn c2_turns_archived_in_the_middle_are_neither_compacted_nor_counted() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_turns(&agent, thread, 1..=8).await;
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let middle = trace[4..8].iter().map(|turn| turn.turn_index);
    let tiers = agent.memory().tiering_worker().unwrap().summarization;
    let window = TurnWindow::from_indexes(middle).in_thread(thread);
    let summary = tiers.transfer(agent.assistant_id(), &window).await.unwrap().unwrap();
    assert!(summary.summary_text.contains(SUMMARY_TEXT));
    let before = context_seqs(&agent, thread).await;
    assert_eq!(before.len(), 16 - 4);
    let compaction = compact_keeping(&agent, thread, 2).await.compaction;
    assert_eq!((compaction.replaced_count, compaction.kept_count), (10, 2));
    assert_eq!((compaction.first_seq, compaction.last_seq), (before[0], before[9]));
    let summarizer_input: String = server
        .requests()
        .iter()
        .filter(|request| request.body.to_string().contains(crate::compaction::SUMMARIZER_PROMPT))
        .map(|request| request.body.to_string())
        .collect();
    assert!(
        summarizer_input.contains("Request 2.")
            && summarizer_input.contains("Request 5.")
            && !summarizer_input.contains("Request 3."),
        "{summarizer_input}"
    );
    send_message(&agent, thread, "And now?").await;
    assert!(newest_request(&server).body["system"].to_string().contains(SUMMARY_TEXT));
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(context_seqs(&agent, thread).await[..12], before[..]);
    let human_messages =
        messages(&agent, thread).await.iter().filter(|message| matches!(message, Message::Human(_))).count();
    assert_eq!(human_messages, 9);
}
