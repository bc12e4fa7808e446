//! Pages of history: limits count visible entries, paging is complete in both directions, and each page can be displayed
//! without its neighbours.

use journal::view::{HistoryEntry, HistoryItem, history};
use journal::{
    Error, HistoryFilter, HistoryPage, HistoryQuery, PAGE_ROWS_MAX, SupersededVisibility, Write, history_page,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::{Event, EventType, Message, NewEvent, Rating, Run, RunFeedback, RunId, Seq, ThreadId};
use serde_json::{Value, json};

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    ai, all_events, all_history, append, commit, compaction_event, complete_run, create, event, feedback,
    fork, human, rewind, run, tool_calls, tool_result, trace_event, undo_event,
};

async fn page(store: &SharedStore, thread_id: ThreadId, query: HistoryQuery) -> HistoryPage {
    history_page(&**store, thread_id, &query).await.unwrap()
}

fn seqs(entries: &[HistoryEntry]) -> Vec<Seq> {
    entries.iter().map(|entry| entry.seq).collect()
}

fn newest(limit: usize) -> HistoryQuery {
    HistoryQuery { limit, ..HistoryQuery::default() }
}

/// Returns a query that includes the local operator's feedback.
fn with_feedback(limit: usize) -> HistoryQuery {
    HistoryQuery { feedback: Some(RunFeedback::LOCAL_USER.to_owned()), ..newest(limit) }
}

fn as_subagent_event(event: NewEvent) -> NewEvent {
    event.with_metadata(&json!({"side": true})).unwrap()
}

pub async fn a9_history_pages_honour_their_bounds(store: SharedStore) {
    let thread_id = create(&*store).await;
    // Of every four events the first and the last are visible: 1, 4, 5, 8, 9, …
    let events = (0..20).map(|n| if n % 4 == 1 || n % 4 == 2 { trace_event(n) } else { human("text") });
    append(&*store, thread_id, events.collect()).await.unwrap();
    for (after_seq, before_seq, limit, expected, more) in [
        (None, None, 3, vec![16, 17, 20], (true, false)),
        (None, None, 10, vec![1, 4, 5, 8, 9, 12, 13, 16, 17, 20], (false, false)),
        (None, None, 9, vec![4, 5, 8, 9, 12, 13, 16, 17, 20], (true, false)),
        (None, None, 11, vec![1, 4, 5, 8, 9, 12, 13, 16, 17, 20], (false, false)),
        (None, Some(8), 2, vec![4, 5], (true, true)),
        (None, Some(8), 3, vec![1, 4, 5], (false, true)),
        (None, Some(21), 1, vec![20], (true, false)),
        (None, Some(u64::MAX), 1, vec![20], (true, false)),
        (None, Some(1), 2, vec![], (false, true)),
        (None, Some(0), 2, vec![], (false, true)),
        (Some(0), None, 2, vec![1, 4], (false, true)),
        (Some(1), None, 2, vec![4, 5], (true, true)),
        (Some(13), None, 3, vec![16, 17, 20], (true, false)),
        (Some(13), None, 2, vec![16, 17], (true, true)),
        (Some(20), None, 2, vec![], (true, false)),
        (Some(u64::MAX), None, 2, vec![], (true, false)),
        (Some(3), Some(10), 9, vec![4, 5, 8, 9], (true, false)),
        (Some(3), Some(10), 4, vec![4, 5, 8, 9], (true, false)),
        (Some(3), Some(10), 3, vec![4, 5, 8], (true, true)),
        (Some(0), Some(6), 3, vec![1, 4, 5], (false, false)),
        (Some(9), Some(5), 2, vec![], (true, false)),
    ] {
        let query = HistoryQuery { after_seq, before_seq, limit, ..HistoryQuery::default() };
        let result = page(&store, thread_id, query).await;
        let returned = (seqs(&result.entries), (result.has_more_before, result.has_more_after));
        assert_eq!(returned, (expected, more), "after {after_seq:?} before {before_seq:?} limit {limit}");
        assert_eq!((result.thread_id, result.source), (thread_id, "journal"));
    }
    for limit in [0, PAGE_ROWS_MAX + 1, usize::MAX] {
        let refused = history_page(&*store, thread_id, &newest(limit)).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{limit}");
    }
    let unknown = page(&store, ThreadId::generate(), with_feedback(PAGE_ROWS_MAX)).await;
    assert!(unknown.entries.is_empty() && !unknown.has_more_before && !unknown.has_more_after);
}

pub async fn b5_a_long_thread_pages_completely(store: SharedStore) {
    const MESSAGES: u64 = 5_001;
    let thread_id = create(&*store).await;
    append(&*store, thread_id, (0..MESSAGES).map(|n| human(&n.to_string())).collect()).await.unwrap();
    let all: Vec<Seq> = (1..=MESSAGES).collect();
    for limit in [617, PAGE_ROWS_MAX] {
        assert_eq!(seqs(&all_history(&*store, thread_id, limit).await), all, "pages of {limit}");
    }
    let largest = page(&store, thread_id, newest(PAGE_ROWS_MAX)).await;
    assert!(largest.entries.len() == PAGE_ROWS_MAX && largest.has_more_before);
    let last = HistoryQuery { before_seq: largest.entries.first().map(|entry| entry.seq), ..newest(5_000) };
    assert_eq!(seqs(&page(&store, thread_id, last).await.entries), [1]);
}

pub async fn b6_pages_are_full_despite_hidden_events(store: SharedStore) {
    const HIDDEN: u64 = 10_000;
    let thread_id = create(&*store).await;
    let hidden =
        || (0..HIDDEN).map(|n| if n % 2 == 0 { as_subagent_event(ai("side")) } else { trace_event(n) });
    append(&*store, thread_id, vec![human("one"), ai("two")]).await.unwrap();
    append(&*store, thread_id, hidden().collect()).await.unwrap();
    append(&*store, thread_id, vec![human("three")]).await.unwrap();
    append(&*store, thread_id, hidden().collect()).await.unwrap();
    let result = page(&store, thread_id, newest(2)).await;
    assert_eq!((seqs(&result.entries), result.has_more_before), (vec![2, HIDDEN + 3], true));
    let result = page(&store, thread_id, HistoryQuery { after_seq: Some(1), ..newest(5) }).await;
    assert_eq!((seqs(&result.entries), result.has_more_after), (vec![2, HIDDEN + 3], false));
    let result = page(&store, thread_id, HistoryQuery { before_seq: Some(HIDDEN), ..newest(2) }).await;
    assert_eq!((seqs(&result.entries), result.has_more_after), (vec![1, 2], true));
    let nothing = page(&store, thread_id, HistoryQuery { after_seq: Some(HIDDEN + 3), ..newest(1) }).await;
    assert!(nothing.entries.is_empty() && nothing.has_more_before && !nothing.has_more_after);
    // Cursors pass over the hidden events in both directions, and every page moves them.
    assert_eq!(seqs(&all_history(&*store, thread_id, 1).await), [1, 2, HIDDEN + 3]);
    let mut forward = vec![0];
    while let after_seq @ Some(last) = forward.last().copied() {
        let result = page(&store, thread_id, HistoryQuery { after_seq, ..newest(1) }).await;
        assert_eq!(result.entries.len(), 1, "after {last}");
        forward.extend(seqs(&result.entries));
        if !result.has_more_after {
            break;
        }
    }
    assert_eq!(forward, [0, 1, 2, HIDDEN + 3]);
}

pub async fn a10_c4_markers_count_like_messages_and_their_details_do_not(store: SharedStore) {
    let thread_id = create(&*store).await;
    let failed = event(EventType::CompactionFailed, &json!({"trigger": "auto", "reason": "blank"}));
    let events = vec![
        human("one"),
        ai("two"),
        trace_event(1),
        failed,
        compaction_event((1, 2), Some(1), "S"),
        crate::conformance::fixtures::clip_event(2, "t"),
        human("three"),
        undo_event(5, vec![6]),
        event(EventType::HandoffRequested, &json!({})),
        ai("four"),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let entries = all_history(&*store, thread_id, 2).await;
    assert_eq!(seqs(&entries), [1, 2, 4, 5, 7, 8, 10]);
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!((ids[2], ids[3], ids[5]), ("compaction-failed-4", "summary-marker-5", "summary-undone-8"));
    // The messages that a marker covers are paged like any others.
    let HistoryItem::Marker(marker) = &entries[3].item else { panic!("{entries:?}") };
    let query = HistoryQuery {
        after_seq: Some(marker.first_seq - 1),
        before_seq: Some(marker.last_seq + 1),
        ..newest(50)
    };
    assert_eq!(page(&store, thread_id, query).await.entries, entries[..2]);
}

pub async fn b8_a_tool_result_includes_its_call_if_the_page_does_not(store: SharedStore) {
    let thread_id = create(&*store).await;
    let events = vec![
        human("go"),
        tool_calls(&["a", "b"]),
        tool_result("a", "A"),
        trace_event(0),
        as_subagent_event(tool_calls(&["b"])),
        tool_result("b", "B"),
        tool_result("b", "B again"),
        tool_result("", "of no call"),
        tool_result("lost", "of a call that is nowhere"),
        tool_calls(&["a"]),
        tool_result("a", "A of the second call"),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let entry_calls = |page: &HistoryPage| -> Vec<(Seq, Option<(Seq, String)>)> {
        let call = |entry: &HistoryEntry| entry.call.as_ref().map(|call| (call.seq, call.id.clone()));
        page.entries.iter().map(|entry| (entry.seq, call(entry))).collect()
    };
    let call = |seq, id: &str| Some((seq, id.to_owned()));
    for (before_seq, limit, expected) in [
        (None, 50, vec![None, None, None, None, None, None, None, None, None]),
        (None, 1, vec![call(10, "a")]),
        (None, 2, vec![None, None]),
        (Some(10), 4, vec![call(2, "b"), call(2, "b"), None, None]),
        (Some(10), 5, vec![call(2, "a"), call(2, "b"), call(2, "b"), None, None]),
        (Some(10), 6, vec![None, None, None, None, None, None]),
    ] {
        let result = page(&store, thread_id, HistoryQuery { before_seq, ..newest(limit) }).await;
        let calls: Vec<_> = entry_calls(&result).into_iter().map(|(_, call)| call).collect();
        assert_eq!(calls, expected, "before {before_seq:?} limit {limit}");
    }
    let result = page(&store, thread_id, HistoryQuery { after_seq: Some(2), ..newest(1) }).await;
    let written = serde_json::to_value(&result.entries[0]).unwrap();
    let expected = json!({"seq": 2, "id": "a", "name": "read_file", "args": {"path": "a"}});
    assert_eq!(written["call"], expected);
}

pub async fn b8_a_call_far_before_its_result_is_found(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut events = vec![tool_calls(&["far"])];
    events.extend((0..300).map(|_| ai("between")));
    events.push(tool_result("far", "at last"));
    append(&*store, thread_id, events).await.unwrap();
    let result = page(&store, thread_id, newest(1)).await;
    assert_eq!(result.entries[0].call.as_ref().map(|call| call.seq), Some(1));
}

/// Any number of sub-agent messages between a call and its result is skipped.
pub async fn b8_a_call_is_found_before_many_messages_of_sub_agents(store: SharedStore) {
    for (adjacent, between) in [(400, 0), (1_200, 0), (400, 900), (0, 998)] {
        let thread_id = create(&*store).await;
        let mut events = vec![tool_calls(&["far"])];
        events.extend((0..adjacent).map(|_| as_subagent_event(ai("beside"))));
        events.extend((0..between).map(|_| ai("between")));
        events.push(tool_result("far", "at last"));
        append(&*store, thread_id, events).await.unwrap();
        let result = page(&store, thread_id, newest(1)).await;
        let call = result.entries[0].call.as_ref().map(|call| call.seq);
        assert_eq!(call, Some(1), "{adjacent} adjacent and {between} between");
    }
}

/// A page of markers has the same bounds and limits as a page of messages.
pub async fn a9_pages_of_markers_honour_their_bounds(store: SharedStore) {
    let thread_id = create(&*store).await;
    // Markers are 3, 6, 9 and 12. Event 15 undoes the last one.
    for turn in 1..=4 {
        let events = vec![human("one"), ai("two"), compaction_event((turn * 3 - 2, turn * 3 - 1), None, "S")];
        append(&*store, thread_id, events).await.unwrap();
    }
    append(&*store, thread_id, vec![human("one"), ai("two"), undo_event(12, Vec::new()), ai("end")])
        .await
        .unwrap();
    for (after_seq, before_seq, limit, expected, more) in [
        (None, None, 9, vec![3, 6, 9, 12, 15], (false, false)),
        (None, None, 5, vec![3, 6, 9, 12, 15], (false, false)),
        (None, None, 4, vec![6, 9, 12, 15], (true, false)),
        (None, Some(12), 9, vec![3, 6, 9], (false, true)),
        (None, Some(12), 2, vec![6, 9], (true, true)),
        (None, Some(16), 9, vec![3, 6, 9, 12, 15], (false, false)),
        (None, Some(3), 9, vec![], (false, true)),
        (Some(3), None, 2, vec![6, 9], (true, true)),
        (Some(2), None, 9, vec![3, 6, 9, 12, 15], (false, false)),
        (Some(6), None, 9, vec![9, 12, 15], (true, false)),
        (Some(15), None, 9, vec![], (true, false)),
        (Some(3), Some(12), 9, vec![6, 9], (true, false)),
        (Some(3), Some(12), 1, vec![6], (true, true)),
    ] {
        let query =
            HistoryQuery { after_seq, before_seq, filter: HistoryFilter::Markers, ..with_feedback(limit) };
        let result = page(&store, thread_id, query).await;
        let returned = (seqs(&result.entries), (result.has_more_before, result.has_more_after));
        assert_eq!(returned, (expected, more), "after {after_seq:?} before {before_seq:?} limit {limit}");
    }
    let refused =
        history_page(&*store, thread_id, &HistoryQuery { filter: HistoryFilter::Markers, ..newest(0) }).await;
    assert!(matches!(refused, Err(Error::InvalidRequest { .. })));
}

/// A reader that asks for rewound messages sees which of them were rewound.
pub async fn b9_rewound_entries_are_marked(store: SharedStore) {
    let thread_id = create(&*store).await;
    let subagent_events = (0..30).map(|_| as_subagent_event(ai("beside")));
    append(&*store, thread_id, vec![human("one"), ai("two"), compaction_event((1, 2), None, "S")])
        .await
        .unwrap();
    append(&*store, thread_id, subagent_events.chain([undo_event(3, Vec::new()), human("gone")]).collect())
        .await
        .unwrap();
    rewind(&*store, thread_id, 5).await.unwrap();
    append(&*store, thread_id, vec![human("on")]).await.unwrap();
    for shown in [HistoryFilter::All, HistoryFilter::Markers] {
        let expected: &[(Seq, bool)] = match shown {
            HistoryFilter::All => {
                &[(1, false), (2, false), (3, false), (34, true), (35, true), (36, false), (37, false)]
            }
            HistoryFilter::Markers => &[(3, false), (34, true)],
        };
        for limit in 1..=7 {
            let query =
                HistoryQuery { superseded: SupersededVisibility::Shown, filter: shown, ..newest(limit) };
            let result = page(&store, thread_id, query.clone()).await;
            let flags: Vec<_> = result.entries.iter().map(|entry| (entry.seq, entry.is_superseded)).collect();
            assert_eq!(flags, expected[expected.len().saturating_sub(limit)..], "{shown:?} limit {limit}");
            let flagged = result.entries.iter().map(|entry| serde_json::to_value(entry).unwrap());
            assert!(flagged.eq(result.entries.iter().map(|entry| {
                let mut whole =
                    serde_json::to_value(HistoryEntry { is_superseded: false, ..entry.clone() }).unwrap();
                if entry.is_superseded {
                    whole["superseded"] = json!(true);
                }
                whole
            })));
            let hidden =
                page(&store, thread_id, HistoryQuery { superseded: SupersededVisibility::Hidden, ..query })
                    .await;
            assert!(hidden.entries.iter().all(|entry| !entry.is_superseded));
        }
    }
}

pub async fn b9_rewound_entries_are_returned_only_on_request(store: SharedStore) {
    let thread_id = create(&*store).await;
    complete_run(&*store, thread_id, vec![human("one"), ai("first try")]).await;
    rewind(&*store, thread_id, 1).await.unwrap();
    let retained = complete_run(&*store, thread_id, vec![ai("second try")]).await;
    assert_eq!(seqs(&page(&store, thread_id, with_feedback(9)).await.entries), [1, 3, 4]);
    let all = HistoryQuery { superseded: SupersededVisibility::Shown, ..with_feedback(9) };
    let result = page(&store, thread_id, all.clone()).await;
    assert_eq!(seqs(&result.entries), [1, 2, 3, 4], "the third is the rewind itself");
    assert!(result.entries[1].feedback.is_some() && result.entries[3].feedback.is_some());
    let between = HistoryQuery { before_seq: Some(4), ..all };
    let result = page(&store, thread_id, between).await;
    assert_eq!((seqs(&result.entries), result.has_more_after), (vec![1, 2, 3], true));
    // Rewinding a replacement does not restore the entry that it replaced.
    rewind(&*store, thread_id, 0).await.unwrap();
    let left = page(&store, thread_id, with_feedback(9)).await.entries;
    assert!(left.iter().all(|entry| matches!(entry.item, HistoryItem::Audit(_))), "{left:?}");
    assert_eq!(store.run_events(thread_id, retained.run_id, 0, 9).await.unwrap().len(), 1);
}

/// Returns the seqs of the entries that carry feedback, each with its rating.
fn feedback_ratings(page: &HistoryPage) -> Vec<(Seq, Option<Rating>)> {
    let ratings = page.entries.iter().filter_map(|entry| Some((entry.seq, entry.feedback.as_ref()?)));
    ratings.map(|(seq, feedback)| (seq, feedback.as_ref().map(|feedback| feedback.rating))).collect()
}

pub async fn b10_d6_feedback_is_attached_only_to_the_last_answer_of_a_run(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("imported"), ai("of no run")]).await.unwrap();
    let long = vec![
        human("go"),
        tool_calls(&["a"]),
        tool_result("a", "A"),
        ai("done"),
        trace_event(0),
        as_subagent_event(ai("side")),
    ];
    let long = complete_run(&*store, thread_id, long).await;
    let marker = compaction_event((1, 6), Some(3), "S");
    let short = complete_run(&*store, thread_id, vec![human("and?"), marker, ai("yes")]).await;
    let failed = complete_run(&*store, thread_id, vec![human("no answer")]).await;
    for (run, rating) in [(&long, Rating::Up), (&failed, Rating::Down)] {
        commit(&*store, vec![Write::PutFeedback(feedback(run, rating, 5))]).await.unwrap();
    }
    let all = page(&store, thread_id, with_feedback(50)).await;
    assert_eq!(feedback_ratings(&all), [(6, Some(Rating::Up)), (11, None)]);
    assert_eq!(
        serde_json::to_value(&all.entries[9]).unwrap().get("feedback"),
        None,
        "a user's message has no feedback field"
    );
    let unrated = serde_json::to_value(&all.entries[8]).unwrap();
    assert_eq!((&unrated["seq"], &unrated["feedback"]), (&json!(11), &json!(null)));
    let rated_entry = serde_json::to_value(&all.entries[5]).unwrap();
    assert_eq!(rated_entry["feedback"]["rating"], 1);
    // On every page, an answer that is not the last of its run has no feedback.
    for before_seq in 1..=13 {
        for limit in 1..=4 {
            let query = HistoryQuery { before_seq: Some(before_seq), ..with_feedback(limit) };
            let result = page(&store, thread_id, query).await;
            let expected: Vec<_> = feedback_ratings(&all)
                .into_iter()
                .filter(|(seq, _)| seqs(&result.entries).contains(seq))
                .collect();
            assert_eq!(feedback_ratings(&result), expected, "before {before_seq} limit {limit}");
        }
    }
    let other = HistoryQuery { feedback: Some("somebody".to_owned()), ..newest(50) };
    assert_eq!(feedback_ratings(&page(&store, thread_id, other).await), [(6, None), (11, None)]);
    // If a rewind hides the last answer, the answer before it is the last one of the run.
    rewind(&*store, thread_id, 4).await.unwrap();
    assert_eq!(feedback_ratings(&page(&store, thread_id, with_feedback(50)).await), [(4, Some(Rating::Up))]);
    assert!(store.run(short.run_id).await.unwrap().is_some());
}

pub async fn d7_feedback_is_returned_only_on_request(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run = complete_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
    commit(&*store, vec![Write::PutFeedback(feedback(&run, Rating::Up, 5))]).await.unwrap();
    let result = page(&store, thread_id, newest(50)).await;
    assert_eq!(serde_json::to_value(&result.entries[1]).unwrap().get("feedback"), None);
    let result = page(&store, thread_id, with_feedback(50)).await;
    assert_eq!(serde_json::to_value(&result.entries[1]).unwrap()["feedback"]["user_id"], "local");
}

pub async fn b10_in_an_active_run_the_newest_answer_is_the_last(store: SharedStore) {
    let run = run(create(&*store).await, "one");
    let thread_id = run.thread_id;
    commit(&*store, vec![Write::AdmitRun(run.clone())]).await.unwrap();
    for number in 1..=3 {
        let events = [tool_calls(&["a"]), tool_result("a", "A")].map(|event| event.with_run(run.run_id));
        append(&*store, thread_id, events.to_vec()).await.unwrap();
        assert_eq!(
            feedback_ratings(&page(&store, thread_id, with_feedback(50)).await),
            [(number * 2 - 1, None)]
        );
    }
}

pub async fn b12_d8_a_copy_has_the_history_and_runs_but_no_feedback_of_its_source(store: SharedStore) {
    let source = create(&*store).await;
    let events = vec![human("one"), ai("two"), compaction_event((1, 1), Some(1), "S")];
    let rated_run = complete_run(&*store, source, events).await;
    commit(&*store, vec![Write::PutFeedback(feedback(&rated_run, Rating::Up, 5))]).await.unwrap();
    let fork = fork(&*store, source, None).await;
    complete_run(&*store, fork, vec![human("three"), ai("four")]).await;
    let result = page(&store, fork, with_feedback(50)).await;
    assert_eq!(feedback_ratings(&result), [(5, None)], "a run of another thread accepts no feedback here");
    let copied: Vec<Option<RunId>> = result.entries[..3].iter().map(|entry| entry.run_id).collect();
    assert_eq!(copied, [Some(rated_run.run_id); 3]);
    let original = page(&store, source, with_feedback(50)).await;
    assert_eq!(feedback_ratings(&original), [(2, Some(Rating::Up))]);
    let what =
        |page: &HistoryPage| page.entries[..3].iter().map(|entry| entry.item.clone()).collect::<Vec<_>>();
    assert_eq!(what(&result), what(&original));
    // Deleting the source does not change the copy.
    commit(&*store, vec![Write::DeleteThread { thread_id: source }]).await.unwrap();
    assert_eq!(page(&store, fork, with_feedback(50)).await, result);
}

pub async fn b4_an_entry_has_the_same_id_on_every_page(store: SharedStore) {
    let thread_id = create(&*store).await;
    let own = protocol::HumanMessage { id: Some("mine".to_owned()), content: Vec::new() };
    let own = NewEvent::from_message(&Message::Human(own), crate::conformance::fixtures::at(1)).unwrap();
    append(&*store, thread_id, vec![human("one"), own, compaction_event((1, 1), None, "S"), ai("two")])
        .await
        .unwrap();
    let expected = history(&all_events(&*store, thread_id, &[]).await);
    assert_eq!(expected[1].id, "mine");
    for limit in 1..=5 {
        assert_eq!(all_history(&*store, thread_id, limit).await, expected, "pages of {limit}");
    }
    let written = serde_json::to_string(&expected[1]).unwrap();
    assert_eq!(written.matches("mine").count(), 1, "an id is serialized once: {written}");
}

/// Returns an entry as clients receive it, without the fields that only pages add.
fn entry_json(entry: &HistoryEntry) -> Value {
    serde_json::to_value(HistoryEntry { call: None, ..entry.clone() }).unwrap()
}

/// Returns the entries as a client shows them: received in any order, sorted by seq, each once.
fn sorted_entries(mut received: Vec<&Value>) -> Vec<&Value> {
    received.sort_by_key(|entry| entry["seq"].as_u64());
    received.dedup_by_key(|entry| entry["seq"].as_u64());
    received
}

/// A client displays the same history for pages, a snapshot and live events that arrive in any order and overlap.
pub async fn b3_any_interleaving_sorts_to_the_same_history(store: SharedStore) {
    let shuffles: usize = test_counts::count(200, 10_000);
    let thread_id = create(&*store).await;
    for turn in 0..4 {
        let events = vec![
            human("go"),
            trace_event(turn),
            as_subagent_event(ai("beside")),
            tool_calls(&["a"]),
            tool_result("a", "A"),
            ai("done"),
        ];
        complete_run(&*store, thread_id, events).await;
        if turn % 2 == 1 {
            append(&*store, thread_id, vec![compaction_event((1, turn * 5), None, "S")]).await.unwrap();
        }
    }
    append(&*store, thread_id, vec![undo_event(26, Vec::new()), human("and?")]).await.unwrap();
    let events = all_events(&*store, thread_id, &[]).await;
    let expected: Vec<Value> = history(&events).iter().map(entry_json).collect();
    let mut pages: Vec<Vec<Value>> = Vec::new();
    for limit in 1..=5 {
        pages.push(all_history(&*store, thread_id, limit).await.iter().map(entry_json).collect());
    }
    // A frame carries the serialized event.
    let frame = |event: &Event| -> Vec<Value> {
        let event: Event = serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap();
        history(std::slice::from_ref(&event)).iter().map(entry_json).collect()
    };
    let live: Vec<Vec<Value>> = events.iter().map(frame).collect();
    let snapshots: Vec<Vec<Value>> =
        (0..=events.len()).map(|end| history(&events[..end]).iter().map(entry_json).collect()).collect();
    let most = 3 * expected.len();
    let orders = Just((0..most).collect::<Vec<_>>()).prop_shuffle();
    let cases = (0..pages.len(), 0..snapshots.len(), 0..=events.len(), orders);
    let mut runner = TestRunner::deterministic();
    for _ in 0..shuffles {
        let (page, snapshot, live_from, order) = cases.new_tree(&mut runner).unwrap().current();
        let (snapshot, live) = (&snapshots[snapshot], &live[live_from..]);
        let sent: Vec<&Value> = pages[page].iter().chain(snapshot).chain(live.iter().flatten()).collect();
        let received = order.into_iter().filter_map(|at| sent.get(at).copied()).collect();
        let shown = sorted_entries(received);
        assert!(shown.iter().copied().eq(&expected), "{shown:?}");
    }
}

pub async fn b15_reading_history_writes_nothing(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run: Run = complete_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
    append(&*store, thread_id, vec![compaction_event((1, 1), None, "S")]).await.unwrap();
    let before = (store.thread(thread_id).await.unwrap(), all_events(&*store, thread_id, &[]).await);
    let bytes = store.health(journal::HealthCheckDepth::Counts).await.unwrap();
    for _ in 0..2 {
        page(&store, thread_id, with_feedback(1)).await;
        store.run_events(thread_id, run.run_id, 0, 5).await.unwrap();
        store.feedback(thread_id, &[run.run_id], RunFeedback::LOCAL_USER).await.unwrap();
    }
    let after = (store.thread(thread_id).await.unwrap(), all_events(&*store, thread_id, &[]).await);
    assert_eq!(after, before);
    assert_eq!(store.health(journal::HealthCheckDepth::Counts).await.unwrap(), bytes);
}
