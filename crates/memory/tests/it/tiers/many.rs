//! Many messages and concurrent transfers of them: each message is in exactly one summary.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use memory::{SummarizationError, TurnWindow};
use proptest::prelude::*;
use protocol::{Message, NewEvent, ThreadId};

use super::{TierFixture, agent_id, repeated_reply, timestamp};

/// Number of messages of the agent, small and full.
const TURN_COUNTS: (u64, u64) = (2_000, 50_000);
/// Number of the threads of these messages.
const THREADS: u64 = 5;
/// Number of transactions that store them.
const BATCHES: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f6_after_eight_concurrent_transfers_each_of_many_messages_is_in_one_summary() {
    let mut desk = TierFixture::new([repeated_reply("A summary of many numbers.")]);
    desk.window = 1_000_000;
    let turn_count = test_counts::count(TURN_COUNTS.0, TURN_COUNTS.1);
    let threads = fill_threads(&desk, turn_count).await;
    let tiers = Arc::new(desk.summarization());
    // Two windows over everything, three over overlapping thirds, and three of one thread each.
    let windows = [
        TurnWindow::from_indexes([1, turn_count]),
        TurnWindow::from_indexes([turn_count, 1]),
        TurnWindow::from_indexes([1, turn_count * 4 / 10]),
        TurnWindow::from_indexes([turn_count * 3 / 10, turn_count * 7 / 10]),
        TurnWindow::from_indexes([turn_count * 6 / 10, turn_count]),
        TurnWindow::from_indexes([1, turn_count]).in_thread(threads[0]),
        TurnWindow::from_indexes([1, turn_count]).in_thread(threads[2]),
        TurnWindow::from_indexes([turn_count / 4, turn_count / 2]).in_thread(threads[4]),
    ];
    let transfers = windows.map(|window| {
        let tiers = Arc::clone(&tiers);
        tokio::spawn(async move { tiers.transfer(&agent_id(), &window).await })
    });
    let mut summaries = BTreeMap::new();
    for transfer in transfers {
        match transfer.await.unwrap() {
            Ok(Some(summary)) => {
                summaries.insert(summary.id, summary);
            }
            Ok(None) => {}
            Err(error) => assert!(matches!(error, SummarizationError::Contended { .. }), "{error}"),
        }
    }
    let (mut turns, mut messages_by_summary) = (0, BTreeMap::<_, u64>::new());
    for thread_id in &threads {
        let mut after = None;
        loop {
            let page = tiers.get_task_trace(*thread_id, after, 5_000).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.turn_index);
            turns += page.len() as u64;
            for turn in page {
                let summary = &summaries[&turn.summary_id.expect("every turn is in a summary")];
                assert!((summary.turn_range_start..=summary.turn_range_end).contains(&turn.turn_index));
                *messages_by_summary.entry(summary.id).or_default() += 1;
            }
        }
    }
    let counts = desk.counts().await;
    assert_eq!((turns, counts.summarised_turns, counts.active_turns), (turn_count, turn_count, 0));
    assert_eq!(counts.summaries as usize, summaries.len());
    // The threads' `turns_archived` events match the summaries.
    let mut archived = BTreeMap::<_, u64>::new();
    for thread_id in &threads {
        for event in desk.archived_events(*thread_id).await {
            *archived.entry(event.summary_id).or_default() += event.turn_count;
        }
    }
    assert_eq!(archived, messages_by_summary);
}

/// Fills the threads alternately.
async fn fill_threads(desk: &TierFixture, turn_count: u64) -> Vec<ThreadId> {
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        threads.push(desk.create_thread().await);
    }
    let events = turn_count / BATCHES;
    for batch in 0..BATCHES {
        let to_event = |number: u64| {
            let text = format!("Number {}.", batch * events + number);
            let message = if number.is_multiple_of(2) { Message::human(text) } else { Message::ai(text) };
            let said_at: Timestamp = timestamp(i64::try_from(batch).unwrap());
            NewEvent::from_message(&message, said_at).unwrap()
        };
        desk.append(threads[(batch % THREADS) as usize], (0..events).map(to_event).collect()).await;
    }
    threads
}

/// Generates windows: bounds in any order, and a thread or none.
fn window() -> impl Strategy<Value = (Vec<u64>, Option<usize>)> {
    (proptest::collection::vec(0..40_u64, 0..4), proptest::option::of(0..2_usize))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_counts::count(12, 48)))]

    #[test]
    fn f6_whatever_windows_are_asked_for_a_turn_is_in_the_first_summary_that_covers_it(
        speakers in proptest::collection::vec(0..2_usize, 1..30),
        windows in proptest::collection::vec(window(), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let desk = TierFixture::new([]);
            let threads = [desk.create_thread().await, desk.create_thread().await];
            for (number, speaker) in speakers.iter().enumerate() {
                desk.append_lines(threads[*speaker], &[&format!("U: Words of turn {number}.")]).await;
            }
            let mut expected: Vec<Option<usize>> = vec![None; speakers.len()];
            let mut summaries = Vec::new();
            for (number, (indexes, thread)) in windows.iter().enumerate() {
                let mut window = TurnWindow::from_indexes(indexes.clone());
                window.thread_id = thread.map(|thread| threads[thread]);
                let covered: Vec<usize> = (1..=speakers.len()).filter(|index| {
                    let is_inside = window.bounds().is_some_and(|(first, last)| (first..=last).contains(&(*index as u64)));
                    let is_of_thread = thread.is_none_or(|thread| speakers[index - 1] == thread);
                    is_inside && is_of_thread && expected[index - 1].is_none()
                }).collect();
                covered.iter().for_each(|index| expected[index - 1] = Some(number));
                let summary = desk.offline_summarization().transfer(&agent_id(), &window).await.unwrap();
                let range = summary.as_ref().map(|summary| (summary.turn_range_start, summary.turn_range_end));
                let ends = covered.first().zip(covered.last()).map(|(first, last)| (*first as u64, *last as u64));
                assert_eq!(range, ends, "{indexes:?}");
                summaries.push(summary.map(|summary| summary.id));
            }
            let mut trace = desk.task_trace(threads[0]).await;
            trace.extend(desk.task_trace(threads[1]).await);
            trace.sort_by_key(|turn| turn.turn_index);
            let of: Vec<_> = trace.iter().map(|turn| turn.summary_id).collect();
            let expected: Vec<_> = expected.iter().map(|number| number.and_then(|number| summaries[number])).collect();
            assert_eq!(of, expected);
        });
    }
}
