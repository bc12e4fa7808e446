//! Pages of history: exact by what is visible, whole in both directions, each understandable alone.

use std::collections::BTreeMap;

use journal::view::{HistoryEntry, HistoryItem, history};
use journal::{Error, HistoryPage, HistoryQuery, PAGE_ROWS_MAX, Superseded, Write, history_page};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::{EventType, Message, NewEvent, Rating, Run, RunFeedback, RunId, Seq, ThreadId};
use serde_json::json;

use crate::conformance::Subject;
use crate::conformance::fixtures::{
    ai, all_events, all_history, append, calls, commit, compacted, copy, create, fact, feedback, human,
    result, rewind, run, trace, undone, whole_run,
};

async fn page(store: &Subject, thread_id: ThreadId, query: HistoryQuery) -> HistoryPage {
    history_page(&**store, thread_id, &query).await.unwrap()
}

fn seqs(entries: &[HistoryEntry]) -> Vec<Seq> {
    entries.iter().map(|entry| entry.seq).collect()
}

fn newest(limit: usize) -> HistoryQuery {
    HistoryQuery { limit, ..HistoryQuery::default() }
}

/// A query that asks for what the local person thinks.
fn rated(limit: usize) -> HistoryQuery {
    HistoryQuery { feedback: Some(RunFeedback::LOCAL.to_owned()), ..newest(limit) }
}

fn side(event: NewEvent) -> NewEvent {
    event.with_metadata(&json!({"side": true})).unwrap()
}

pub async fn a9_history_pages_honour_their_bounds(store: Subject) {
    let thread_id = create(&*store).await;
    // Visible are 1, 4, 5, 8, 9, …: of every four events the first and the last.
    let events = (0..20).map(|n| if n % 4 == 1 || n % 4 == 2 { trace(n) } else { human("text") });
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
        let found = page(&store, thread_id, query).await;
        let told = (seqs(&found.entries), (found.has_more_before, found.has_more_after));
        assert_eq!(told, (expected, more), "after {after_seq:?} before {before_seq:?} limit {limit}");
        assert_eq!((found.thread_id, found.source), (thread_id, "journal"));
    }
    for limit in [0, PAGE_ROWS_MAX + 1, usize::MAX] {
        let refused = history_page(&*store, thread_id, &newest(limit)).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{limit}");
    }
    let unknown = page(&store, ThreadId::generate(), rated(PAGE_ROWS_MAX)).await;
    assert!(unknown.entries.is_empty() && !unknown.has_more_before && !unknown.has_more_after);
}

pub async fn b5_a_long_thread_pages_completely(store: Subject) {
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

pub async fn b6_pages_are_filled_whatever_is_hidden_between(store: Subject) {
    const HIDDEN: u64 = 10_000;
    let thread_id = create(&*store).await;
    let hidden = || (0..HIDDEN).map(|n| if n % 2 == 0 { side(ai("side")) } else { trace(n) });
    append(&*store, thread_id, vec![human("one"), ai("two")]).await.unwrap();
    append(&*store, thread_id, hidden().collect()).await.unwrap();
    append(&*store, thread_id, vec![human("three")]).await.unwrap();
    append(&*store, thread_id, hidden().collect()).await.unwrap();
    let found = page(&store, thread_id, newest(2)).await;
    assert_eq!((seqs(&found.entries), found.has_more_before), (vec![2, HIDDEN + 3], true));
    let found = page(&store, thread_id, HistoryQuery { after_seq: Some(1), ..newest(5) }).await;
    assert_eq!((seqs(&found.entries), found.has_more_after), (vec![2, HIDDEN + 3], false));
    let found = page(&store, thread_id, HistoryQuery { before_seq: Some(HIDDEN), ..newest(2) }).await;
    assert_eq!((seqs(&found.entries), found.has_more_after), (vec![1, 2], true));
    let nothing = page(&store, thread_id, HistoryQuery { after_seq: Some(HIDDEN + 3), ..newest(1) }).await;
    assert!(nothing.entries.is_empty() && nothing.has_more_before && !nothing.has_more_after);
}

pub async fn a10_c4_markers_are_counted_like_messages_and_what_explains_them_is_not(store: Subject) {
    let thread_id = create(&*store).await;
    let failed = fact(EventType::CompactionFailed, &json!({"trigger": "auto", "reason": "blank"}));
    let events = vec![
        human("one"),
        ai("two"),
        trace(1),
        failed,
        compacted((1, 2), Some(1), "S"),
        crate::conformance::fixtures::clipped(2, "t"),
        human("three"),
        undone(5, vec![6]),
        fact(EventType::HandoffRequested, &json!({})),
        ai("four"),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let entries = all_history(&*store, thread_id, 2).await;
    assert_eq!(seqs(&entries), [1, 2, 5, 7, 8, 10]);
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!((ids[2], ids[4]), ("summary-marker-5", "summary-undone-8"));
    // The originals of a marker are a page like any other.
    let HistoryItem::Marker(marker) = &entries[2].what else { panic!("{entries:?}") };
    let query = HistoryQuery {
        after_seq: Some(marker.first_seq - 1),
        before_seq: Some(marker.last_seq + 1),
        ..newest(50)
    };
    assert_eq!(page(&store, thread_id, query).await.entries, entries[..2]);
}

pub async fn b8_a_result_without_its_call_on_the_page_is_told_with_it(store: Subject) {
    let thread_id = create(&*store).await;
    let events = vec![
        human("go"),
        calls(&["a", "b"]),
        result("a", "A"),
        trace(0),
        side(calls(&["b"])),
        result("b", "B"),
        result("b", "B again"),
        result("", "of no call"),
        result("lost", "of a call that is nowhere"),
        calls(&["a"]),
        result("a", "A of the second call"),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let told = |page: &HistoryPage| -> Vec<(Seq, Option<(Seq, String)>)> {
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
        let found = page(&store, thread_id, HistoryQuery { before_seq, ..newest(limit) }).await;
        let calls: Vec<_> = told(&found).into_iter().map(|(_, call)| call).collect();
        assert_eq!(calls, expected, "before {before_seq:?} limit {limit}");
    }
    let found = page(&store, thread_id, HistoryQuery { after_seq: Some(2), ..newest(1) }).await;
    let written = serde_json::to_value(&found.entries[0]).unwrap();
    let expected = json!({"seq": 2, "id": "a", "name": "read_file", "args": {"path": "a"}});
    assert_eq!(written["call"], expected);
}

pub async fn b8_a_call_far_before_its_result_is_found(store: Subject) {
    let thread_id = create(&*store).await;
    let mut events = vec![calls(&["far"])];
    events.extend((0..300).map(|_| ai("between")));
    events.push(result("far", "at last"));
    append(&*store, thread_id, events).await.unwrap();
    let found = page(&store, thread_id, newest(1)).await;
    assert_eq!(found.entries[0].call.as_ref().map(|call| call.seq), Some(1));
}

pub async fn b9_what_was_taken_back_is_shown_only_to_who_asks(store: Subject) {
    let thread_id = create(&*store).await;
    whole_run(&*store, thread_id, vec![human("one"), ai("first try")]).await;
    rewind(&*store, thread_id, 1).await.unwrap();
    let kept = whole_run(&*store, thread_id, vec![ai("second try")]).await;
    assert_eq!(seqs(&page(&store, thread_id, rated(9)).await.entries), [1, 4]);
    let all = HistoryQuery { superseded: Superseded::Shown, ..rated(9) };
    let found = page(&store, thread_id, all.clone()).await;
    assert_eq!(seqs(&found.entries), [1, 2, 4]);
    assert!(found.entries[1].feedback.is_some() && found.entries[2].feedback.is_some());
    let between = HistoryQuery { before_seq: Some(4), ..all };
    let found = page(&store, thread_id, between).await;
    assert_eq!((seqs(&found.entries), found.has_more_after), (vec![1, 2], true));
    // A replacement that is taken back leaves what was there before it.
    rewind(&*store, thread_id, 0).await.unwrap();
    assert!(page(&store, thread_id, rated(9)).await.entries.is_empty());
    assert_eq!(store.run_events(thread_id, kept.run_id, 0, 9).await.unwrap().len(), 1);
}

/// Returns the seqs at which feedback is told, with the thumbs given there.
fn thumbs(page: &HistoryPage) -> Vec<(Seq, Option<Rating>)> {
    let told = page.entries.iter().filter_map(|entry| Some((entry.seq, entry.feedback.as_ref()?)));
    told.map(|(seq, given)| (seq, given.as_ref().map(|feedback| feedback.rating))).collect()
}

pub async fn b10_d6_feedback_is_at_the_last_answer_of_a_run_and_nowhere_else(store: Subject) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("imported"), ai("of no run")]).await.unwrap();
    let long = vec![human("go"), calls(&["a"]), result("a", "A"), ai("done"), trace(0), side(ai("side"))];
    let long = whole_run(&*store, thread_id, long).await;
    let marker = compacted((1, 6), Some(3), "S");
    let short = whole_run(&*store, thread_id, vec![human("and?"), marker, ai("yes")]).await;
    let failed = whole_run(&*store, thread_id, vec![human("no answer")]).await;
    for (run, rating) in [(&long, Rating::Up), (&failed, Rating::Down)] {
        commit(&*store, vec![Write::PutFeedback(feedback(run, rating, 5))]).await.unwrap();
    }
    let all = page(&store, thread_id, rated(50)).await;
    assert_eq!(thumbs(&all), [(6, Some(Rating::Up)), (11, None)]);
    assert_eq!(serde_json::to_value(&all.entries[9]).unwrap().get("feedback"), None, "a person's");
    let unrated = serde_json::to_value(&all.entries[8]).unwrap();
    assert_eq!((&unrated["seq"], &unrated["feedback"]), (&json!(11), &json!(null)));
    let rated_entry = serde_json::to_value(&all.entries[5]).unwrap();
    assert_eq!(rated_entry["feedback"]["rating"], 1);
    // Whatever the page, an answer that is not the last of its run has none.
    for before_seq in 1..=13 {
        for limit in 1..=4 {
            let query = HistoryQuery { before_seq: Some(before_seq), ..rated(limit) };
            let found = page(&store, thread_id, query).await;
            let expected: Vec<_> =
                thumbs(&all).into_iter().filter(|(seq, _)| seqs(&found.entries).contains(seq)).collect();
            assert_eq!(thumbs(&found), expected, "before {before_seq} limit {limit}");
        }
    }
    let other = HistoryQuery { feedback: Some("somebody".to_owned()), ..newest(50) };
    assert_eq!(thumbs(&page(&store, thread_id, other).await), [(6, None), (11, None)]);
    // An answer that a rewind took out of sight gives its place to the one before it.
    rewind(&*store, thread_id, 4).await.unwrap();
    assert_eq!(thumbs(&page(&store, thread_id, rated(50)).await), [(4, Some(Rating::Up))]);
    assert!(store.run(short.run_id).await.unwrap().is_some());
}

pub async fn d7_feedback_that_is_not_asked_for_is_not_told(store: Subject) {
    let thread_id = create(&*store).await;
    let run = whole_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
    commit(&*store, vec![Write::PutFeedback(feedback(&run, Rating::Up, 5))]).await.unwrap();
    let found = page(&store, thread_id, newest(50)).await;
    assert_eq!(serde_json::to_value(&found.entries[1]).unwrap().get("feedback"), None);
    let found = page(&store, thread_id, rated(50)).await;
    assert_eq!(serde_json::to_value(&found.entries[1]).unwrap()["feedback"]["user_id"], "local");
}

pub async fn b10_in_a_run_that_goes_on_the_newest_answer_is_its_last(store: Subject) {
    let run = run(create(&*store).await, "one");
    let thread_id = run.thread_id;
    commit(&*store, vec![Write::AdmitRun(run.clone())]).await.unwrap();
    for number in 1..=3 {
        let said = [calls(&["a"]), result("a", "A")].map(|event| event.in_run(run.run_id));
        append(&*store, thread_id, said.to_vec()).await.unwrap();
        assert_eq!(thumbs(&page(&store, thread_id, rated(50)).await), [(number * 2 - 1, None)]);
    }
}

pub async fn b12_d8_a_copy_has_the_history_and_its_runs_and_no_feedback_of_its_source(store: Subject) {
    let source = create(&*store).await;
    let said = vec![human("one"), ai("two"), compacted((1, 1), Some(1), "S")];
    let rated_run = whole_run(&*store, source, said).await;
    commit(&*store, vec![Write::PutFeedback(feedback(&rated_run, Rating::Up, 5))]).await.unwrap();
    let fork = copy(&*store, source, None).await;
    whole_run(&*store, fork, vec![human("three"), ai("four")]).await;
    let found = page(&store, fork, rated(50)).await;
    assert_eq!(thumbs(&found), [(5, None)], "a run of another thread takes no feedback here");
    let copied: Vec<Option<RunId>> = found.entries[..3].iter().map(|entry| entry.run_id).collect();
    assert_eq!(copied, [Some(rated_run.run_id); 3]);
    let original = page(&store, source, rated(50)).await;
    assert_eq!(thumbs(&original), [(2, Some(Rating::Up))]);
    let what =
        |page: &HistoryPage| page.entries[..3].iter().map(|entry| entry.what.clone()).collect::<Vec<_>>();
    assert_eq!(what(&found), what(&original));
    // The source is deleted: what was copied stays as it is.
    commit(&*store, vec![Write::DeleteThread { thread_id: source }]).await.unwrap();
    assert_eq!(page(&store, fork, rated(50)).await, found);
}

pub async fn b4_an_entry_has_the_same_id_on_every_page(store: Subject) {
    let thread_id = create(&*store).await;
    let own = protocol::HumanMessage { id: Some("mine".to_owned()), content: Vec::new() };
    let own = NewEvent::message(&Message::Human(own), crate::conformance::fixtures::at(1)).unwrap();
    append(&*store, thread_id, vec![human("one"), own, compacted((1, 1), None, "S"), ai("two")])
        .await
        .unwrap();
    let expected = history(&all_events(&*store, thread_id, &[]).await);
    assert_eq!(expected[1].id, "mine");
    for limit in 1..=5 {
        assert_eq!(all_history(&*store, thread_id, limit).await, expected, "pages of {limit}");
    }
    let written = serde_json::to_string(&expected[1]).unwrap();
    assert_eq!(written.matches("mine").count(), 1, "an id is told once: {written}");
}

/// A client that sorts by seq shows the same, in whatever order pages, a snapshot and live frames reach it.
pub async fn b3_any_interleaving_sorts_to_the_same_history(store: Subject) {
    const SHUFFLES: usize = 10_000;
    let thread_id = create(&*store).await;
    for turn in 0..8 {
        let said = vec![human("go"), trace(turn), calls(&["a"]), result("a", "A"), ai("done")];
        whole_run(&*store, thread_id, said).await;
        if turn % 3 == 2 {
            append(&*store, thread_id, vec![compacted((1, turn * 5), None, "S")]).await.unwrap();
        }
    }
    let events = all_events(&*store, thread_id, &[]).await;
    let expected = history(&events);
    let mut frames: Vec<HistoryEntry> = Vec::new();
    for limit in [3, 7, 50] {
        frames.extend(all_history(&*store, thread_id, limit).await);
    }
    frames.extend(history(&events[..events.len() / 2]));
    frames.extend(events.iter().flat_map(|event| history(std::slice::from_ref(event))));
    let orders = Just((0..frames.len()).collect::<Vec<_>>()).prop_shuffle();
    let mut runner = TestRunner::deterministic();
    for _ in 0..SHUFFLES {
        let order = orders.new_tree(&mut runner).unwrap().current();
        let mut shown: BTreeMap<Seq, &HistoryEntry> = BTreeMap::new();
        for at in order {
            let frame = &frames[at];
            // The same entry again, whichever way it came, is the same entry.
            let known = shown.entry(frame.seq).or_insert(frame);
            assert_eq!(known.id, frame.id);
        }
        assert!(shown.values().map(|entry| &entry.id).eq(expected.iter().map(|entry| &entry.id)));
    }
    for frame in &frames {
        let of_history = expected.iter().find(|entry| entry.seq == frame.seq).unwrap();
        assert_eq!((&frame.what, frame.run_id), (&of_history.what, of_history.run_id));
    }
}

pub async fn b15_reading_history_writes_nothing(store: Subject) {
    let thread_id = create(&*store).await;
    let run: Run = whole_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
    append(&*store, thread_id, vec![compacted((1, 1), None, "S")]).await.unwrap();
    let before = (store.thread(thread_id).await.unwrap(), all_events(&*store, thread_id, &[]).await);
    let bytes = store.health(journal::HealthDepth::Counts).await.unwrap();
    for _ in 0..2 {
        page(&store, thread_id, rated(1)).await;
        store.run_events(thread_id, run.run_id, 0, 5).await.unwrap();
        store.feedback(thread_id, &[run.run_id], RunFeedback::LOCAL).await.unwrap();
    }
    let after = (store.thread(thread_id).await.unwrap(), all_events(&*store, thread_id, &[]).await);
    assert_eq!(after, before);
    assert_eq!(store.health(journal::HealthDepth::Counts).await.unwrap(), bytes);
}
