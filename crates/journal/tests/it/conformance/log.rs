//! The event log: order of events, idempotency keys, exact content, atomic transactions, pages.

use std::sync::Arc;

use jiff::Timestamp;
use journal::{Error, EventQuery, FencingToken, PAGE_ROWS_MAX, Transaction, Write};
use protocol::{Category, NewEvent, RunId, ThreadId};
use serde_json::value::RawValue;

use super::SharedStore;
use super::fixtures::{
    ai, all_events, all_history, append, at, commit, complete_run, create, create_run, human, search_for,
    seqs, thread, trace_event,
};

pub async fn a1_seqs_of_concurrent_writers_have_no_gap(store: SharedStore) {
    const WRITERS: u64 = 50;
    const EVENTS: u64 = 200;
    let thread_id = create(&*store).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let mut seqs = Vec::new();
            for number in 0..EVENTS {
                seqs.extend(
                    append(&*store, thread_id, vec![trace_event(writer * EVENTS + number)]).await.unwrap(),
                );
            }
            assert!(seqs.is_sorted_by(|left, right| left < right), "a writer sees its own seqs grow");
            seqs
        }));
    }
    let mut assigned = Vec::new();
    for task in tasks {
        assigned.extend(task.await.unwrap());
    }
    assigned.sort_unstable();
    assert_eq!(assigned, (1..=WRITERS * EVENTS).collect::<Vec<_>>());
    assert_eq!(seqs(&all_events(&*store, thread_id, &[]).await), assigned);
}

pub async fn a1_seqs_of_threads_are_independent(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    assert_eq!(append(&*store, one, vec![trace_event(0), trace_event(1)]).await.unwrap(), [1, 2]);
    assert_eq!(append(&*store, two, vec![trace_event(0)]).await.unwrap(), [1]);
    assert_eq!(append(&*store, one, vec![trace_event(2)]).await.unwrap(), [3]);
    assert_eq!(all_events(&*store, two, &[]).await.len(), 1);
}

pub async fn a2_seq_is_never_reused(store: SharedStore) {
    let thread = thread();
    let thread_id = thread.thread_id;
    commit(&*store, vec![Write::CreateThread(thread.clone())]).await.unwrap();
    assert_eq!(append(&*store, thread_id, vec![trace_event(0), trace_event(1)]).await.unwrap(), [1, 2]);
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    assert_eq!(append(&*store, thread_id, vec![trace_event(2)]).await.unwrap(), [3]);
}

pub async fn a5_events_of_several_runs_keep_their_run(store: SharedStore) {
    let thread_id = create(&*store).await;
    let runs = [Some(RunId::generate()), None, Some(RunId::generate())];
    let events = runs.map(|run_id| NewEvent { run_id, ..trace_event(0) });
    let ids = events.each_ref().map(|event| event.event_id);
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    let stored = all_events(&*store, thread_id, &[]).await;
    assert_eq!(stored.iter().map(|event| event.run_id).collect::<Vec<_>>(), runs);
    assert_eq!(stored.iter().map(|event| event.event_id).collect::<Vec<_>>(), ids);
    assert!(stored.iter().all(|event| event.created_at == at(1) && event.thread_id == thread_id));
    // One batch of two runs and of none, interleaved.
    let one = complete_run(&*store, thread_id, Vec::new()).await.run_id;
    let two = complete_run(&*store, thread_id, Vec::new()).await.run_id;
    let batch = [Some(one), None, Some(two), Some(one), Some(two), None];
    let batch = batch.map(|run_id| NewEvent { run_id, ..trace_event(0) });
    assert_eq!(append(&*store, thread_id, batch.to_vec()).await.unwrap(), [4, 5, 6, 7, 8, 9]);
    for (run_id, expected) in [(one, [4, 7]), (two, [6, 8])] {
        let trace = store.run_events(thread_id, run_id, 0, 10).await.unwrap();
        assert_eq!(seqs(&trace), expected);
    }
}

pub async fn a6_content_is_read_byte_for_byte(store: SharedStore) {
    let thread_id = create(&*store).await;
    let line = format!("\"{}\"", "x".repeat(1 << 20));
    let escapes: String = (0..0x20).map(|code| format!("\\u{code:04x}")).collect();
    let texts = [
        "null".to_owned(),
        r#"{ "b" : 1.0e+5,  "a":[ ]   , "b" : 2 }"#.to_owned(),
        format!("\"{escapes}\""),
        "\"\u{85}\u{2028}\u{2029}\u{7f}\u{feff}\"".to_owned(),
        "\"日本語 👩‍👩‍👧‍👦 עברית\"".to_owned(),
        r#""\ud83d\ude00 \\ud83d""#.to_owned(),
        line,
    ];
    for json in &texts {
        let raw = RawValue::from_string(json.clone()).unwrap();
        let event = NewEvent { content: raw.clone(), metadata: Some(raw), ..human("") };
        append(&*store, thread_id, vec![event]).await.unwrap();
    }
    let stored = all_events(&*store, thread_id, &[]).await;
    assert_eq!(stored.len(), texts.len());
    for (event, json) in stored.iter().zip(&texts) {
        assert!(event.content.get() == json, "content of event {}", event.seq);
        assert!(
            event.metadata.as_ref().is_some_and(|raw| raw.get() == json),
            "metadata of event {}",
            event.seq
        );
    }
}

pub async fn a6_times_are_read_with_nanosecond_precision(store: SharedStore) {
    let thread_id = create(&*store).await;
    let times = [
        "-009999-01-02T01:59:59Z",
        "1677-01-01T00:00:00.000000001Z",
        "1969-12-31T23:59:59.999999999Z",
        "2262-04-11T23:47:16.854775807Z",
        "2262-04-11T23:47:16.854775808Z",
        "9999-12-30T22:00:00.999999999Z",
    ]
    .map(|time| time.parse::<Timestamp>().unwrap());
    let events = times.map(|created_at| NewEvent { created_at, ..trace_event(0) });
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    let stored = all_events(&*store, thread_id, &[]).await;
    assert_eq!(stored.iter().map(|event| event.created_at).collect::<Vec<_>>(), times);
}

pub async fn a6_half_a_surrogate_pair_is_refused(store: SharedStore) {
    let thread_id = create(&*store).await;
    let content = RawValue::from_string(r#"{"text":"\ud83d"}"#.to_owned()).unwrap();
    let refused =
        append(&*store, thread_id, vec![trace_event(0), NewEvent { content, ..trace_event(1) }]).await;
    assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{refused:?}");
    assert!(all_events(&*store, thread_id, &[]).await.is_empty());
}

pub async fn a7_a_repeated_key_stores_one_row(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run_id = RunId::generate();
    let keyed = |key: &str| trace_event(7).with_run(run_id).with_key(key);
    assert_eq!(append(&*store, thread_id, vec![trace_event(0), keyed("a")]).await.unwrap(), [1, 2]);
    let writes =
        vec![Write::Append { thread_id, events: vec![keyed("a"), keyed("b"), keyed("b"), keyed("a")] }];
    let committed = commit(&*store, writes).await.unwrap();
    assert_eq!((committed.seqs, committed.stored_events), (vec![vec![2, 3, 3, 2]], 1));
    // The key is unique per run and thread.
    assert_eq!(append(&*store, thread_id, vec![trace_event(0).with_key("a")]).await.unwrap(), [4]);
    assert_eq!(append(&*store, thread_id, vec![trace_event(0).with_key("a")]).await.unwrap(), [4]);
    let other = create(&*store).await;
    assert_eq!(append(&*store, other, vec![keyed("a")]).await.unwrap(), [1]);
    assert_eq!(store.seq_of_event_key(thread_id, "b").await.unwrap(), Some(3));
    assert_eq!(store.seq_of_event_key(other, "b").await.unwrap(), None);
    assert_eq!(store.seq_of_event_key(ThreadId::generate(), "a").await.unwrap(), None);
}

pub async fn a7_concurrent_appends_of_one_key_store_one_row(store: SharedStore) {
    const WRITERS: u64 = 16;
    let (thread_id, run_id) = (create(&*store).await, RunId::generate());
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let keyed = trace_event(writer).with_run(run_id).with_key("once");
            append(&*store, thread_id, vec![keyed, trace_event(WRITERS + writer)]).await.unwrap()
        }));
    }
    let mut assigned = Vec::new();
    for task in tasks {
        assigned.push(task.await.unwrap());
    }
    let first = assigned[0][0];
    assert!(assigned.iter().all(|seqs| seqs[0] == first), "every writer gets the first seq: {assigned:?}");
    let stored = all_events(&*store, thread_id, &[]).await;
    let numbers = |event: &protocol::Event| event.content_value()["number"].as_u64().unwrap();
    assert_eq!(stored.iter().filter(|event| numbers(event) < WRITERS).count(), 1);
    assert_eq!(seqs(&stored), (1..=WRITERS + 1).collect::<Vec<_>>(), "a repetition uses up no seq");
    assert_eq!(store.seq_of_event_key(thread_id, "once").await.unwrap(), Some(first));
}

pub async fn a15_an_answer_that_is_committed_twice_is_one_message_and_is_counted_once(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    let request = || human("question").with_run(run.run_id).with_key("request");
    let answer = || ai("answer").with_run(run.run_id).with_key("answer");
    append(&*store, thread_id, vec![request(), answer()]).await.unwrap();
    let before = store.thread(thread_id).await.unwrap().unwrap();
    // The same events again: alone, together, and twice in one batch.
    for repeated in [vec![answer()], vec![request(), answer()], vec![answer(), answer()]] {
        append(&*store, thread_id, repeated).await.unwrap();
        assert_eq!(store.thread(thread_id).await.unwrap().as_ref(), Some(&before));
    }
    let messages = all_events(&*store, thread_id, &[Category::Message]).await;
    assert_eq!((seqs(&messages), before.message_count), (vec![1, 2], 2));
    assert_eq!(all_history(&*store, thread_id, 10).await.len(), 2);
}

pub async fn a8_a_failing_transaction_affects_none_that_is_committed_with_it(store: SharedStore) {
    const TRANSACTIONS: usize = 80;
    let mut threads = Vec::new();
    for _ in 0..TRANSACTIONS {
        let thread_id = create(&*store).await;
        append(&*store, thread_id, vec![trace_event(0).with_key("first")]).await.unwrap();
        threads.push(thread_id);
    }
    let mut tasks = Vec::new();
    for (number, thread_id) in threads.into_iter().enumerate() {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let event = match number % 4 {
                // The unique index refuses the event, if it was not looked up before.
                1 => trace_event(0).with_key("first"),
                _ => trace_event(1),
            };
            let fence = (number % 4 == 2)
                .then(|| FencingToken { run_id: RunId::generate(), owner: "nobody".to_owned() });
            let writes = vec![Write::Append { thread_id, events: vec![event] }];
            let outcome = store.commit(Transaction { fence, writes }).await;
            let stored = seqs(&all_events(&*store, thread_id, &[]).await);
            (number, outcome.map(|receipt| receipt.seqs), stored)
        }));
    }
    for task in tasks {
        let (number, outcome, stored) = task.await.unwrap();
        match number % 4 {
            1 => assert_eq!((outcome.unwrap(), stored), (vec![vec![1]], vec![1]), "{number}"),
            2 => {
                let is_refused = matches!(outcome, Err(Error::NotFound { what: "run", .. }));
                assert!(is_refused && stored == [1], "{number}: {outcome:?} {stored:?}");
            }
            _ => assert_eq!((outcome.unwrap(), stored), (vec![vec![2]], vec![1, 2]), "{number}"),
        }
    }
}

pub async fn a8_a_failed_transaction_leaves_nothing(store: SharedStore) {
    let thread_id = create(&*store).await;
    let first =
        || Write::Append { thread_id, events: vec![trace_event(0).with_key("first"), human("hello")] };
    let unknown = Write::Append { thread_id: ThreadId::generate(), events: vec![trace_event(1)] };
    let before = store.thread(thread_id).await.unwrap();
    let failed = commit(&*store, vec![first(), unknown]).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "thread", .. })), "{failed:?}");
    assert!(all_events(&*store, thread_id, &[]).await.is_empty());
    assert_eq!(store.thread(thread_id).await.unwrap(), before);
    let retried = commit(&*store, vec![first()]).await.unwrap();
    assert_eq!((retried.seqs, retried.stored_events), (vec![vec![1, 2]], 2));
}

pub async fn a8_a_failure_does_not_affect_other_transactions_of_the_batch(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut tasks = Vec::new();
    for number in 0..100_u64 {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let good = Write::Append { thread_id, events: vec![trace_event(number)] };
            let bad = Write::DeleteThread { thread_id: ThreadId::generate() };
            let writes = if number % 3 == 0 { vec![good, bad] } else { vec![good] };
            commit(&*store, writes).await.is_ok()
        }));
    }
    let mut stored = 0;
    for task in tasks {
        stored += u64::from(task.await.unwrap());
    }
    assert_eq!(stored, 66);
    let events = all_events(&*store, thread_id, &[]).await;
    assert_eq!(seqs(&events), (1..=stored).collect::<Vec<_>>());
    assert!(events.iter().all(|event| event.content_value()["number"].as_u64().unwrap() % 3 != 0));
}

pub async fn a9_pages_honour_their_bounds(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, (0..10).map(trace_event).collect()).await.unwrap();
    for (after, before, limit, expected) in [
        (None, None, 3, vec![8, 9, 10]),
        (None, None, 10, (1..=10).collect()),
        (None, None, 11, (1..=10).collect()),
        (None, Some(4), 2, vec![2, 3]),
        (None, Some(1), 2, vec![]),
        (None, Some(u64::MAX), 1, vec![10]),
        (Some(0), None, 2, vec![1, 2]),
        (Some(4), None, 2, vec![5, 6]),
        (Some(10), None, 2, vec![]),
        (Some(u64::MAX), None, 2, vec![]),
        (Some(2), Some(6), 10, vec![3, 4, 5]),
        (Some(2), Some(6), 2, vec![3, 4]),
        (Some(6), Some(3), 2, vec![]),
    ] {
        let query = EventQuery { after, before, categories: Vec::new(), limit, ..EventQuery::default() };
        let page = store.events(thread_id, query).await.unwrap();
        assert_eq!(seqs(&page), expected, "after {after:?} before {before:?} limit {limit}");
    }
    for limit in [0, PAGE_ROWS_MAX + 1, usize::MAX] {
        let refused = store.events(thread_id, EventQuery::after(0, limit)).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{limit}");
    }
    assert!(store.events(ThreadId::generate(), EventQuery::after(0, 5)).await.unwrap().is_empty());
}

pub async fn a10_other_categories_do_not_count_against_the_page_limit(store: SharedStore) {
    const MESSAGES: u64 = 60;
    let thread_id = create(&*store).await;
    let events =
        (0..MESSAGES * 11).map(|n| if n % 11 == 10 { human(&n.to_string()) } else { trace_event(n) });
    append(&*store, thread_id, events.collect()).await.unwrap();
    let expected: Vec<u64> = (1..=MESSAGES).map(|n| n * 11).collect();
    assert_eq!(seqs(&all_events(&*store, thread_id, &[Category::Message]).await), expected);

    let mut backwards = Vec::new();
    while backwards.len() < expected.len() {
        let before = backwards.last().copied();
        let query = EventQuery {
            after: None,
            before,
            categories: vec![Category::Message],
            limit: 7,
            ..EventQuery::default()
        };
        let page = store.events(thread_id, query).await.unwrap();
        assert_eq!(page.len(), 7.min(expected.len() - backwards.len()));
        backwards.extend(seqs(&page).into_iter().rev());
    }
    backwards.reverse();
    assert_eq!(backwards, expected);
    let both = [Category::Trace, Category::Message, Category::Trace];
    assert_eq!(all_events(&*store, thread_id, &both).await.len() as u64, MESSAGES * 11);
    assert!(all_events(&*store, thread_id, &[Category::Error]).await.is_empty());
}

pub async fn a10_many_hidden_rows_do_not_hide_visible_rows(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut events = vec![human("first")];
    events.extend((0..10_000).map(trace_event));
    events.push(human("last"));
    append(&*store, thread_id, events).await.unwrap();
    let query = EventQuery {
        after: None,
        before: None,
        categories: vec![Category::Message],
        limit: 2,
        ..EventQuery::default()
    };
    assert_eq!(seqs(&store.events(thread_id, query).await.unwrap()), [1, 10_002]);
}

pub async fn b15_reading_writes_nothing(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("hello there"), trace_event(0)]).await.unwrap();
    let before = store.thread(thread_id).await.unwrap();
    let events = all_events(&*store, thread_id, &[]).await;
    for _ in 0..2 {
        store.search(search_for("hello")).await.unwrap();
        store.events(thread_id, EventQuery::after(0, 5)).await.unwrap();
        store.threads_by_prefix("", &protocol::OwnerScope::Everyone).await.unwrap();
        store.health(journal::HealthCheckDepth::Integrity).await.unwrap();
    }
    assert_eq!(store.thread(thread_id).await.unwrap(), before);
    assert_eq!(all_events(&*store, thread_id, &[]).await, events);
}
