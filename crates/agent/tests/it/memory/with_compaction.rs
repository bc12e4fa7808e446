//! Compaction beside memory: what is condensed when a stretch of the conversation has left already, at its beginning or in
//! its middle, and what the marker says of it.

use memory::TurnWindow;
use protocol::{Message, Seq};

use super::*;
use crate::compaction::{compact_keeping, newest_request as newest_messages, visible_markers};
use crate::environment::{assert_paired, messages};

/// Sentences of a turn, so many that condensing a few of them is worth it.
const SENTENCES: usize = 400;

/// Tokens of the short-term tier, about five such turns.
const LONG_BUDGET: u64 = 5 * BUDGET_TOKENS;

async fn talk(agent: &Agent, thread: ThreadId, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        send_message(agent, thread, &long_turn_text(number, SENTENCES)).await;
    }
}

/// Returns the seqs of the messages the next request has, behind what stands for condensed ones.
async fn context_seqs(agent: &Agent, thread: ThreadId) -> Vec<Seq> {
    let context = runtime::ContextCache::default().read_context(&**agent.store(), thread).await.unwrap();
    context.seqs[context.summary_len..].to_vec()
}

#[tokio::test]
async fn c2_a_marker_counts_what_was_left_when_the_oldest_turns_had_gone() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (LONG_BUDGET, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    talk(&agent, thread, 1..=6).await;
    settle_memory(&agent).await;
    let before = context_seqs(&agent, thread).await;
    let gone = turns_archived(&agent, thread).await[0].last_seq;
    assert!(before[0] > gone);
    let condensed = compact_keeping(&agent, thread, 2).await.compaction;
    let after = context_seqs(&agent, thread).await;
    assert_eq!(condensed.first_seq, before[0], "it begins behind what has left");
    assert_eq!(condensed.replaced_count as usize, before.len() - after.len());
    assert_eq!((condensed.kept_count as usize, after.len()), (2, 2));
    assert_eq!(condensed.last_seq, before[before.len() - 3]);
    assert!(condensed.tokens_after < condensed.tokens_before);
    send_message(&agent, thread, "And now?").await;
    let request = newest_request(&server).body;
    assert_paired(&request);
    assert!(
        request["system"].to_string().contains(SUMMARY_TEXT),
        "the summary of what had left is still told"
    );
    assert!(!newest_messages(&server).contains(FIRST_TURN_TEXT));
}

#[tokio::test]
async fn c3_chained_markers_stay_right_when_memory_takes_turns_between_them() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (LONG_BUDGET, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    talk(&agent, thread, 1..=4).await;
    let first = compact_keeping(&agent, thread, 2).await.compaction;
    talk(&agent, thread, 5..=12).await;
    settle_memory(&agent).await;
    let left = turns_archived(&agent, thread).await;
    let by_budget: Vec<_> =
        left.iter().filter(|archived| archived.reason.is_removed_from_context()).collect();
    assert!(!by_budget.is_empty() && by_budget[0].first_seq > first.last_seq, "{left:?}");
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
    // Both are taken back, one after the other; what memory has stays with memory.
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(context_seqs(&agent, thread).await, before);
    agent.threads().undo_compaction(thread).await.unwrap();
    let whole = context_seqs(&agent, thread).await;
    let in_memory = |seq: &Seq| by_budget.iter().any(|gone| (gone.first_seq..=gone.last_seq).contains(seq));
    assert!(whole[0] < first.last_seq && !whole.iter().any(in_memory), "{whole:?}");
    send_message(&agent, thread, "And now?").await;
    assert_paired(&newest_request(&server).body);
}

#[tokio::test]
async fn c2_a_stretch_that_left_the_middle_is_neither_condensed_nor_counted() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    talk(&agent, thread, 1..=8).await;
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let middle = trace[4..8].iter().map(|turn| turn.turn_index);
    let tiers = agent.memory().tiering_worker().unwrap().summarization;
    let window = TurnWindow::from_indexes(middle).in_thread(thread);
    let summary = tiers.transfer(agent.assistant_id(), &window).await.unwrap().unwrap();
    assert!(summary.summary_text.contains(SUMMARY_TEXT));
    let before = context_seqs(&agent, thread).await;
    assert_eq!(before.len(), 16 - 4);
    let condensed = compact_keeping(&agent, thread, 2).await.compaction;
    assert_eq!((condensed.replaced_count, condensed.kept_count), (10, 2));
    assert_eq!((condensed.first_seq, condensed.last_seq), (before[0], before[9]));
    let asked: String = server
        .requests()
        .iter()
        .filter(|request| request.body.to_string().contains(crate::compaction::SUMMARIZER_PROMPT))
        .map(|request| request.body.to_string())
        .collect();
    assert!(
        asked.contains("Request 2.") && asked.contains("Request 5.") && !asked.contains("Request 3."),
        "{asked}"
    );
    send_message(&agent, thread, "And now?").await;
    assert!(newest_request(&server).body["system"].to_string().contains(SUMMARY_TEXT));
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(context_seqs(&agent, thread).await[..12], before[..]);
    let requests =
        messages(&agent, thread).await.iter().filter(|message| matches!(message, Message::Human(_))).count();
    assert_eq!(requests, 9);
}
