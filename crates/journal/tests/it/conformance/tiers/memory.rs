//! Medium-term memory: summaries replace turns, and each turn is either active or in exactly one summary.

use std::collections::{BTreeMap, BTreeSet};

use journal::{Error, RunPatch, Store, SummaryQuery, TurnQuery, TurnSummarization, Write};
use protocol::{
    ArchiveReason, AssistantId, LoggedMessage, MessageRole, NewEvent, ParentKind, RunStatus, Seq, SummaryId,
    Thread, ThreadId,
};

pub use super::memory_fixtures::summarization;
use super::memory_fixtures::{
    all_turns, append_turns, archive_event, current_version, newest_query, read_turns, search_summaries,
    summarize_turns, summary, summary_texts, turn_indexes,
};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    ai, all_history, append, at, commit, create, create_run, human, thread, tool_calls, tool_result,
    trace_event,
};

pub async fn f6_a_summarization_archives_exactly_its_window(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    append(
        &*store,
        one,
        vec![human("q"), tool_calls(&["c"]), tool_result("c", "r"), ai("a"), trace_event(1)],
    )
    .await
    .unwrap();
    append_turns(&*store, two, 4).await;
    let stored = summarization(two, (3, 5), "We talked of herons.");
    commit(&*store, vec![Write::SummarizeTurns(stored.clone())]).await.unwrap();
    assert_eq!(turn_indexes(&*store).await, (vec![1, 2, 6], vec![3, 4, 5]));
    let all = all_turns(&*store).await;
    let first = LoggedMessage {
        agent_id: AssistantId::default(),
        thread_id: two,
        turn_index: 3,
        role: MessageRole::User,
        content: "question 0".to_owned(),
        created_at: at(1),
        is_archived: true,
        seq: 1,
        summary_id: Some(stored.summary.id),
    };
    assert_eq!(all[2], first);
    assert_eq!((all[1].role, all[1].content.as_str(), all[1].seq), (MessageRole::Assistant, "a", 4));
    let summaries = store.summaries(newest_query()).await.unwrap();
    assert_eq!(summaries.len(), 1);
    assert_eq!(
        (&summaries[0].summary, summaries[0].thread_id, summaries[0].turns),
        (&stored.summary, Some(two), 3)
    );
    let counts = store.memory_counts(&AssistantId::default()).await.unwrap();
    assert_eq!((counts.active_turns, counts.summarised_turns, counts.rewound_turns), (3, 3, 0));
    assert_eq!(counts.summaries, 1);
}

pub async fn f6_a_summarization_that_does_not_match_its_window_archives_nothing(store: SharedStore) {
    let (one, two, deleted) = (create(&*store).await, create(&*store).await, create(&*store).await);
    let other = Thread { assistant_id: "reviewer".parse().unwrap(), ..thread() };
    let others = other.thread_id;
    commit(&*store, vec![Write::CreateThread(other), Write::DeleteThread { thread_id: deleted }])
        .await
        .unwrap();
    append_turns(&*store, one, 4).await;
    append_turns(&*store, two, 2).await;
    append_turns(&*store, others, 4).await;
    let window = summarization(one, (1, 4), "Nothing of it stays.");
    let everywhere =
        TurnSummarization { thread_id: None, turns: 6, ..summarization(one, (1, 6), "Nothing of it stays.") };
    let cases = [
        TurnSummarization { turns: 3, ..window.clone() },
        TurnSummarization { turns: 5, ..window.clone() },
        TurnSummarization { thread_versions: vec![current_version(two)], ..window.clone() },
        TurnSummarization {
            thread_versions: vec![current_version(one), current_version(deleted)],
            ..window.clone()
        },
        TurnSummarization {
            thread_versions: vec![current_version(one), current_version(others)],
            ..window.clone()
        },
        TurnSummarization { thread_id: Some(others), thread_versions: vec![], ..window.clone() },
        TurnSummarization { thread_id: Some(deleted), thread_versions: vec![], ..window.clone() },
        TurnSummarization { thread_versions: vec![], ..window.clone() },
        everywhere.clone(),
        TurnSummarization {
            thread_versions: vec![current_version(one), current_version(two)],
            ..summarization(one, (7, 9), "Nothing of it stays.")
        },
    ];
    for case in cases {
        let refused = commit(&*store, vec![Write::SummarizeTurns(case.clone())]).await.unwrap_err();
        assert!(
            matches!(refused, Error::Conflict { what: "message range of summary", .. }),
            "{refused:?}: {case:?}"
        );
    }
    let empty =
        commit(&*store, vec![Write::SummarizeTurns(TurnSummarization { turns: 0, ..window.clone() })]).await;
    assert!(matches!(empty, Err(Error::InvalidRequest { .. })));
    assert_eq!(turn_indexes(&*store).await.1, Vec::<u64>::new());
    assert_eq!(summary_texts(&*store, newest_query()).await, Vec::<String>::new());
    // A second summarization under the same id is refused as a conflict and leaves one summary.
    let both =
        TurnSummarization { thread_versions: vec![current_version(two), current_version(one)], ..everywhere };
    commit(&*store, vec![Write::SummarizeTurns(both.clone())]).await.unwrap();
    let again = commit(&*store, vec![Write::SummarizeTurns(both)]).await;
    assert!(matches!(again, Err(Error::Conflict { .. })));
    assert_eq!(summary_texts(&*store, newest_query()).await.len(), 1);
}

pub async fn f6_a_failed_summarization_leaves_nothing(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 4).await;
    let refused = NewEvent {
        content: serde_json::value::RawValue::from_string(r#""\ud800""#.into()).unwrap(),
        ..trace_event(1)
    };
    let writes = vec![
        Write::SummarizeTurns(summarization(thread_id, (1, 2), "Words of a heron.")),
        Write::Append { thread_id, events: vec![refused] },
    ];
    assert!(matches!(commit(&*store, writes).await, Err(Error::InvalidRequest { .. })));
    assert_eq!(turn_indexes(&*store).await, (vec![1, 2, 3, 4], vec![]));
    assert_eq!(search_summaries(&*store, "heron").await, Vec::<SummaryId>::new());
    assert_eq!(summary_texts(&*store, newest_query()).await, Vec::<String>::new());
}

pub async fn f6_overlapping_windows_do_not_archive_a_turn_twice(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 10).await;
    commit(&*store, vec![Write::SummarizeTurns(summarization(thread_id, (4, 6), "middle"))]).await.unwrap();
    // A window around the archived one, and the same window again.
    let around = TurnSummarization { turns: 7, ..summarization(thread_id, (1, 10), "around") };
    commit(&*store, vec![Write::SummarizeTurns(around.clone())]).await.unwrap();
    let again = TurnSummarization { summary: summary((1, 10), "again"), ..around };
    assert!(matches!(commit(&*store, vec![Write::SummarizeTurns(again)]).await, Err(Error::Conflict { .. })));
    let turn_counts: BTreeMap<u64, u64> = store
        .summaries(newest_query())
        .await
        .unwrap()
        .iter()
        .map(|stored| (stored.summary.turn_range_start, stored.turns))
        .collect();
    assert_eq!(turn_counts, BTreeMap::from([(1, 7), (4, 3)]));
    assert_eq!(turn_indexes(&*store).await, (vec![], (1..=10).collect()));
}

pub async fn f6_a_window_of_one_thread_does_not_affect_other_threads(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    for thread_id in [one, two, one, two, one] {
        append(&*store, thread_id, vec![human("q"), ai("a")]).await.unwrap();
    }
    let of_one = TurnSummarization { turns: 4, ..summarization(one, (2, 9), "of one") };
    commit(&*store, vec![Write::SummarizeTurns(of_one)]).await.unwrap();
    assert_eq!(turn_indexes(&*store).await, (vec![1, 3, 4, 7, 8, 10], vec![2, 5, 6, 9]));
    // The first and the last turn of the window may belong to another thread.
    let remaining = TurnSummarization { turns: 4, ..summarization(two, (1, 10), "of two") };
    commit(&*store, vec![Write::SummarizeTurns(remaining)]).await.unwrap();
    assert_eq!(turn_indexes(&*store).await.0, [1, 10]);
}

pub async fn f6_turns_are_not_summarized_during_a_run(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let idle = create(&*store).await;
    append(&*store, run.thread_id, vec![human("q"), ai("a")]).await.unwrap();
    append(&*store, idle, vec![human("q"), ai("a")]).await.unwrap();
    let both = TurnSummarization {
        thread_id: None,
        turns: 4,
        thread_versions: vec![current_version(idle), current_version(run.thread_id)],
        summary: summary((1, 4), "both"),
    };
    for (transfer, is_busy) in [
        (both.clone(), true),
        (summarization(run.thread_id, (1, 2), "busy"), true),
        (summarization(idle, (3, 4), "idle"), false),
    ] {
        let outcome = commit(&*store, vec![Write::SummarizeTurns(transfer)]).await;
        match outcome {
            Err(error @ Error::Busy { .. }) => assert!(is_busy && error.is_retryable()),
            outcome => assert!(!is_busy && outcome.is_ok(), "{outcome:?}"),
        }
    }
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    let ended = Write::UpdateRun { run_id: run.run_id, patch };
    let transfer = summarization(run.thread_id, (1, 2), "ended");
    commit(&*store, vec![ended, Write::SummarizeTurns(transfer)]).await.unwrap();
    assert_eq!(summary_texts(&*store, newest_query()).await.len(), 2);
}

/// After concurrent summarizations each message is in one summary, and a summary covers exactly the messages it names.
pub async fn f6_after_eight_concurrent_summarizations_every_turn_is_in_one_place(store: SharedStore) {
    const WORKERS: u64 = 8;
    let turn_count: u64 = test_counts::count(5_000, 50_000);
    let thread_id = create(&*store).await;
    for _ in 0..turn_count / 2_500 {
        append_turns(&*store, thread_id, 2_500).await;
    }
    let workers = (0..WORKERS).map(|worker| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut stored = 0;
            // Each worker processes all turns in windows of a different length, so that the windows overlap.
            let length = 900 + 137 * worker;
            for number in 0..=turn_count / length {
                // Half of the workers start at the end.
                let number = if worker % 2 == 0 { number } else { turn_count / length - number };
                let window = (number * length + 1, (number + 1) * length);
                stored += summarize_window(&*store, thread_id, window).await;
            }
            stored
        })
    });
    let mut stored = 0;
    for worker in workers.collect::<Vec<_>>() {
        stored += worker.await.unwrap();
    }
    assert_eq!(stored, turn_count, "the total number of archived turns");
    let mut turn_counts: BTreeMap<SummaryId, u64> = BTreeMap::new();
    let mut first = 1;
    loop {
        let page =
            read_turns(&*store, TurnQuery { first, ..TurnQuery::for_agent(AssistantId::default()) }).await;
        let Some(last) = page.last() else { break };
        first = last.turn_index + 1;
        for turn in page {
            assert!(turn.is_archived);
            *turn_counts.entry(turn.summary_id.unwrap()).or_default() += 1;
        }
    }
    let query = SummaryQuery { limit: usize::MAX, ..newest_query() };
    let summaries = store.summaries(query).await.unwrap();
    assert_eq!(
        summaries.into_iter().map(|stored| (stored.summary.id, stored.turns)).collect::<BTreeMap<_, _>>(),
        turn_counts
    );
}

/// Summarizes the active turns of a window, and reads the window again after a conflict with another worker. Returns the
/// number of summarized turns.
async fn summarize_window(store: &dyn Store, thread_id: ThreadId, (first, last): (u64, u64)) -> u64 {
    loop {
        let query =
            TurnQuery { first, last, archived: Some(false), ..TurnQuery::for_agent(AssistantId::default()) };
        let turns = read_turns(store, query).await;
        let (Some(lowest), Some(highest)) = (turns.first(), turns.last()) else { return 0 };
        let window = (lowest.turn_index, highest.turn_index);
        let turns = turns.len() as u64;
        let transfer = TurnSummarization { turns, ..summarization(thread_id, window, "a window") };
        match commit(store, vec![Write::SummarizeTurns(transfer)]).await {
            Ok(_) => return turns,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn f7_summaries_are_newest_first_with_ties_by_id(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    for thread_id in [one, two, one, two, one] {
        append(&*store, thread_id, vec![human("q")]).await.unwrap();
    }
    let mut expected = Vec::new();
    for (turn, thread_id, second) in [(1, one, 3), (2, two, 9), (3, one, 3), (4, two, 3), (5, one, 1)] {
        let mut transfer = summarization(thread_id, (turn, turn), &format!("of turn {turn}"));
        transfer.summary.created_at = at(second);
        expected.push((at(second), transfer.summary.id, transfer.summary.summary_text.clone()));
        commit(&*store, vec![Write::SummarizeTurns(transfer)]).await.unwrap();
    }
    expected.sort_by_key(|(stored_at, id, _)| std::cmp::Reverse((*stored_at, *id)));
    let expected: Vec<String> = expected.into_iter().map(|(.., text)| text).collect();
    assert_eq!(expected[0], "of turn 2");
    assert_eq!(summary_texts(&*store, newest_query()).await, expected);
    for (offset, limit) in [(0, 0), (0, 2), (1, 3), (4, 9), (5, 9), (0, usize::MAX)] {
        let end = (offset + limit.min(9)).min(5);
        let query = SummaryQuery { offset, limit, ..newest_query() };
        assert_eq!(
            summary_texts(&*store, query).await,
            expected[offset.min(end)..end],
            "{limit} from {offset}"
        );
    }
    let of_two = SummaryQuery { except_thread: Some(one), ..newest_query() };
    assert_eq!(summary_texts(&*store, of_two).await, ["of turn 2", "of turn 4"]);
    let unknown = SummaryQuery { except_thread: Some(ThreadId::generate()), ..newest_query() };
    assert_eq!(summary_texts(&*store, unknown).await, expected);
    let others = SummaryQuery { agent_id: "reviewer".parse().unwrap(), ..newest_query() };
    assert_eq!(summary_texts(&*store, others).await, Vec::<String>::new());
}

pub async fn f7_turns_are_read_in_pages_by_agent_and_by_thread(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    for _ in 0..3 {
        append(&*store, one, vec![human("q"), tool_calls(&["c"]), tool_result("c", "r"), ai("a")])
            .await
            .unwrap();
        append(&*store, two, vec![human("q"), trace_event(1), ai("a")]).await.unwrap();
    }
    // The first thread has the turns 1, 2, 5, 6, 9, 10 at the seqs 1, 4, 5, 8, 9, 12.
    let part = TurnSummarization { turns: 4, ..summarization(one, (1, 6), "of one") };
    commit(&*store, vec![Write::SummarizeTurns(part)]).await.unwrap();
    let of = |thread_id| TurnQuery { thread_id, ..TurnQuery::for_agent(AssistantId::default()) };
    let (agent, thread_one) = (of(None), of(Some(one)));
    let cases: [(TurnQuery, &[u64]); 14] = [
        (agent.clone(), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        (TurnQuery { first: 3, last: 6, ..agent.clone() }, &[3, 4, 5, 6]),
        (TurnQuery { archived: Some(false), ..agent.clone() }, &[3, 4, 7, 8, 9, 10, 11, 12]),
        (TurnQuery { archived: Some(true), limit: 3, ..agent.clone() }, &[1, 2, 5]),
        (TurnQuery { agent_id: "reviewer".parse().unwrap(), ..agent }, &[]),
        (thread_one.clone(), &[1, 2, 5, 6, 9, 10]),
        (TurnQuery { limit: 2, ..thread_one.clone() }, &[1, 2]),
        (TurnQuery { first: 3, limit: 2, ..thread_one.clone() }, &[5, 6]),
        (TurnQuery { first: 7, limit: 2, ..thread_one.clone() }, &[9, 10]),
        (TurnQuery { first: 13, ..thread_one.clone() }, &[]),
        (TurnQuery { after_seq: Some(4), before_seq: Some(9), ..thread_one.clone() }, &[5, 6]),
        (TurnQuery { after_seq: Some(1), archived: Some(false), ..thread_one.clone() }, &[9, 10]),
        (TurnQuery { last: 5, archived: Some(true), ..thread_one.clone() }, &[1, 2, 5]),
        (TurnQuery { agent_id: "reviewer".parse().unwrap(), ..thread_one.clone() }, &[]),
    ];
    for (query, expected) in cases {
        let indexes: Vec<u64> =
            read_turns(&*store, query.clone()).await.iter().map(|turn| turn.turn_index).collect();
        assert_eq!(indexes, expected, "{query:?}");
    }
    assert_eq!(read_turns(&*store, of(Some(ThreadId::generate()))).await, []);
    for limit in [0, journal::PAGE_ROWS_MAX + 1] {
        let refused = store.turns(TurnQuery { limit, ..thread_one.clone() }).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })));
    }
}

/// The user does not take part in a sub-agent's thread, and the parent thread has its result.
pub async fn f6_messages_of_sub_agents_are_not_turns(store: SharedStore) {
    let parent = create(&*store).await;
    let of = |parent_id, kind| Thread { parent_id: Some(parent_id), parent_kind: Some(kind), ..thread() };
    let helper = of(parent, ParentKind::Subagent);
    let fork = of(helper.thread_id, ParentKind::Fork);
    let child = of(parent, ParentKind::Handoff);
    let ids = [helper.thread_id, fork.thread_id, child.thread_id];
    commit(&*store, [helper, fork, child].map(Write::CreateThread).into()).await.unwrap();
    for thread_id in [&[parent], &ids[..]].concat() {
        append(&*store, thread_id, vec![human("q"), ai("a")]).await.unwrap();
    }
    let threads: Vec<ThreadId> = all_turns(&*store).await.iter().map(|turn| turn.thread_id).collect();
    assert_eq!(threads, [parent, parent, ids[2], ids[2]]);
    let prompt = store.thread(ids[0]).await.unwrap().unwrap().first_prompt;
    assert_eq!(prompt.as_deref(), Some("q"), "a sub-agent's thread has a first prompt");
    commit(&*store, vec![Write::DeleteThread { thread_id: ids[0] }]).await.unwrap();
    assert_eq!(all_turns(&*store).await.len(), 4);
}

/// Archiving and restoring turns does not change the displayed history.
pub async fn f7_b1_summarization_does_not_change_history(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 6).await;
    let before: BTreeSet<Seq> =
        all_history(&*store, thread_id, 2).await.iter().map(|entry| entry.seq).collect();
    let summary = summarize_turns(&*store, thread_id, (1, 4), ("We <talked>.", (1, 4))).await;
    let compacted = TurnSummarization { turns: 1, ..summarization(thread_id, (5, 5), "condensed") };
    let event = archive_event(&compacted.summary, ArchiveReason::Compaction, (5, 5));
    let writes = vec![Write::SummarizeTurns(compacted), Write::Append { thread_id, events: vec![event] }];
    commit(&*store, writes).await.unwrap();
    let entries = all_history(&*store, thread_id, 2).await;
    let markers: Vec<serde_json::Value> = entries
        .iter()
        .filter(|entry| !before.contains(&entry.seq))
        .map(|entry| serde_json::to_value(entry).unwrap())
        .collect();
    let expected = serde_json::json!({
        "id": "archive-marker-7", "type": "turns_archived", "seq": 7, "run_id": null,
        "created_at": at(1), "turn_count": 4, "first_seq": 1, "last_seq": 4, "reason": "budget",
        "summary": "We <talked>.", "model": "scripted/one", "summary_id": summary.id,
    });
    assert_eq!(
        markers,
        [expected],
        "the other left the context before, by a compaction that has its own marker"
    );
    assert_eq!(entries.len(), before.len() + 1);
}
