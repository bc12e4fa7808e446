//! Compaction beside memory: what is condensed when a stretch of the conversation has left already, at its beginning or in
//! its middle, and what the marker says of it.

use memory::TurnWindow;
use protocol::{Message, Seq};

use super::*;
use crate::compaction::{compacted_to, markers, newest as newest_messages};
use crate::world::{assert_paired, messages};

/// Sentences of a turn, so many that condensing a few of them is worth it.
const SENTENCES: usize = 400;

/// Tokens of the short-term tier, about five such turns.
const LONG_BUDGET: u64 = 5 * BUDGET;

async fn talk(agent: &Agent, thread: ThreadId, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        sent(agent, thread, &said_at_length(number, SENTENCES)).await;
    }
}

/// Returns the seqs of the messages the next request has, behind what stands for condensed ones.
async fn in_context(agent: &Agent, thread: ThreadId) -> Vec<Seq> {
    let context = runtime::Contexts::default().read(&**agent.store(), thread).await.unwrap();
    context.seqs[context.opening..].to_vec()
}

#[tokio::test]
async fn c2_a_marker_counts_what_was_left_when_the_oldest_turns_had_gone() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (LONG_BUDGET, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    talk(&agent, thread, 1..=6).await;
    settled(&agent).await;
    let before = in_context(&agent, thread).await;
    let gone = archives(&agent, thread).await[0].last_seq;
    assert!(before[0] > gone);
    let condensed = compacted_to(&agent, thread, 2).await.compaction;
    let after = in_context(&agent, thread).await;
    assert_eq!(condensed.first_seq, before[0], "it begins behind what has left");
    assert_eq!(condensed.replaced_count as usize, before.len() - after.len());
    assert_eq!((condensed.kept_count as usize, after.len()), (2, 2));
    assert_eq!(condensed.last_seq, before[before.len() - 3]);
    assert!(condensed.tokens_after < condensed.tokens_before);
    sent(&agent, thread, "And now?").await;
    let request = newest(&server).body;
    assert_paired(&request);
    assert!(request["system"].to_string().contains(SUMMARY), "the summary of what had left is still told");
    assert!(!newest_messages(&server).contains(FIRST));
}

#[tokio::test]
async fn c3_chained_markers_stay_right_when_memory_takes_turns_between_them() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (LONG_BUDGET, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    talk(&agent, thread, 1..=4).await;
    let first = compacted_to(&agent, thread, 2).await.compaction;
    talk(&agent, thread, 5..=12).await;
    settled(&agent).await;
    let left = archives(&agent, thread).await;
    let by_budget: Vec<_> = left.iter().filter(|archived| archived.reason.leaves_context()).collect();
    assert!(!by_budget.is_empty() && by_budget[0].first_seq > first.last_seq, "{left:?}");
    let marker = markers(&agent, thread).await[0].0;
    assert_eq!(by_budget[0].marker_seq, Some(marker));
    let before = in_context(&agent, thread).await;
    let second = compacted_to(&agent, thread, 2).await.compaction;
    let after = in_context(&agent, thread).await;
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
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(in_context(&agent, thread).await, before);
    agent.threads().uncompact(thread).await.unwrap();
    let whole = in_context(&agent, thread).await;
    let in_memory = |seq: &Seq| by_budget.iter().any(|gone| (gone.first_seq..=gone.last_seq).contains(seq));
    assert!(whole[0] < first.last_seq && !whole.iter().any(in_memory), "{whole:?}");
    sent(&agent, thread, "And now?").await;
    assert_paired(&newest(&server).body);
}

#[tokio::test]
async fn c2_a_stretch_that_left_the_middle_is_neither_condensed_nor_counted() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    talk(&agent, thread, 1..=8).await;
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let middle = trace[4..8].iter().map(|turn| turn.turn_index);
    let tiers = agent.memory().tiering().unwrap().tiers;
    let window = TurnWindow::of(middle).in_thread(thread);
    let summary = tiers.transfer(agent.assistant_id(), &window).await.unwrap().unwrap();
    assert!(summary.summary_text.contains(SUMMARY));
    let before = in_context(&agent, thread).await;
    assert_eq!(before.len(), 16 - 4);
    let condensed = compacted_to(&agent, thread, 2).await.compaction;
    assert_eq!((condensed.replaced_count, condensed.kept_count), (10, 2));
    assert_eq!((condensed.first_seq, condensed.last_seq), (before[0], before[9]));
    let asked: String = server
        .requests()
        .iter()
        .filter(|request| request.body.to_string().contains(crate::compaction::PROMPT))
        .map(|request| request.body.to_string())
        .collect();
    assert!(
        asked.contains("Request 2.") && asked.contains("Request 5.") && !asked.contains("Request 3."),
        "{asked}"
    );
    sent(&agent, thread, "And now?").await;
    assert!(newest(&server).body["system"].to_string().contains(SUMMARY));
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(in_context(&agent, thread).await[..12], before[..]);
    let requests =
        messages(&agent, thread).await.iter().filter(|message| matches!(message, Message::Human(_))).count();
    assert_eq!(requests, 9);
}
