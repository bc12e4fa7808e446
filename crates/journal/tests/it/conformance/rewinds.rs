//! Rewinds: superseded events are hidden and stay in the log, and each value derived from them is updated.

use journal::{
    Error, EventQuery, HealthCheckDepth, RunPatch, SearchQuery, SupersededVisibility, ThreadPatch, Write,
};
use protocol::{Category, InterruptStatus, NewEvent, RunStatus, Seq, Thread, ThreadId, ThreadStatus};

use super::SharedStore;
use super::fixtures::{
    ai, all_events, append, at, commit, create, create_run, human, interrupt, messages, rewind, search_for,
    seqs, thread, trace_event,
};

/// Returns the seqs of the thread's visible events.
async fn visible_seqs(store: &SharedStore, thread_id: ThreadId) -> Vec<Seq> {
    seqs(&all_events(&**store, thread_id, &[]).await)
}

async fn read_thread(store: &SharedStore, thread_id: ThreadId) -> Thread {
    store.thread(thread_id).await.unwrap().unwrap()
}

pub async fn superseded_events_stay_in_the_log_and_are_hidden(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("one"), ai("two"), human("three"), ai("four")]).await.unwrap();
    let before = all_events(&*store, thread_id, &[]).await;
    assert_eq!(store.messages_after(thread_id, 2).await.unwrap(), 2);
    let seqs_given = rewind(&*store, thread_id, 2).await.unwrap();
    assert_eq!(seqs_given, [5], "the event of the rewind is not superseded");
    assert_eq!(visible_seqs(&store, thread_id).await, [1, 2, 5]);
    let all = EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(0, 9) };
    let all = store.events(thread_id, all).await.unwrap();
    assert_eq!(all[..4], before, "no event was changed or removed");
    assert_eq!(seqs(&all), [1, 2, 3, 4, 5]);
    let thread = read_thread(&store, thread_id).await;
    assert_eq!((thread.message_count, thread.last_seq), (2, 5));
    assert_eq!(append(&*store, thread_id, vec![human("again")]).await.unwrap(), [6], "a seq is never reused");
    assert_eq!(visible_seqs(&store, thread_id).await, [1, 2, 5, 6]);
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

pub async fn a_rewind_accepts_any_seq_to_keep(store: SharedStore) {
    // The number of events before each rewind, the last seq to keep, and the seqs that are visible after the rewind.
    type RewindCase = (u64, Seq, &'static [Seq]);
    let cases: [(&str, &[RewindCase]); 9] = [
        ("keep nothing", &[(3, 0, &[])]),
        ("keep all", &[(3, 3, &[1, 2, 3])]),
        ("keep more than all", &[(3, u64::MAX, &[1, 2, 3])]),
        ("an empty thread", &[(0, 0, &[])]),
        ("twice to the same point", &[(3, 1, &[1]), (2, 1, &[1])]),
        ("before an earlier rewind", &[(5, 4, &[1, 2, 3, 4]), (2, 2, &[1, 2])]),
        ("after an earlier rewind", &[(5, 2, &[1, 2]), (3, 7, &[1, 2, 6, 7])]),
        ("into a superseded part", &[(5, 2, &[1, 2]), (3, 4, &[1, 2])]),
        ("to the end of a superseded part", &[(5, 2, &[1, 2]), (3, 5, &[1, 2])]),
    ];
    for (case, steps) in cases {
        let thread_id = create(&*store).await;
        for (events, keep_seq, expected) in steps {
            append(&*store, thread_id, (0..*events).map(trace_event).collect()).await.unwrap();
            let write = Write::Rewind { thread_id, keep_seq: *keep_seq, at: at(3) };
            commit(&*store, vec![write]).await.unwrap();
            assert_eq!(visible_seqs(&store, thread_id).await, *expected, "{case}");
        }
    }
    let unknown = Write::Rewind { thread_id: ThreadId::generate(), keep_seq: 0, at: at(3) };
    let unknown = commit(&*store, vec![unknown]).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "thread", .. })), "{unknown:?}");
    assert_eq!(store.messages_after(ThreadId::generate(), 0).await.unwrap(), 0);
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

pub async fn a_thread_with_an_active_run_is_not_rewound(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    append(&*store, thread_id, vec![human("one"), ai("two")]).await.unwrap();
    for keep_seq in [0, 1, 2] {
        let busy = commit(&*store, vec![Write::Rewind { thread_id, keep_seq, at: at(3) }]).await;
        assert!(matches!(busy, Err(Error::Busy { run_id, .. }) if run_id == run.run_id), "{busy:?}");
    }
    assert_eq!(visible_seqs(&store, thread_id).await, [1, 2]);
    let patch = RunPatch { status: Some(RunStatus::Cancelled), ..RunPatch::default() };
    commit(&*store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
    rewind(&*store, thread_id, 0).await.unwrap();
    assert_eq!(visible_seqs(&store, thread_id).await, [3]);
}

pub async fn a8_a_failed_transaction_supersedes_nothing(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("one"), ai("two")]).await.unwrap();
    let before = read_thread(&store, thread_id).await;
    let unknown = Write::Append { thread_id: ThreadId::generate(), events: vec![trace_event(1)] };
    let failed = commit(&*store, vec![Write::Rewind { thread_id, keep_seq: 0, at: at(3) }, unknown]).await;
    assert!(matches!(failed, Err(Error::NotFound { .. })), "{failed:?}");
    assert_eq!(visible_seqs(&store, thread_id).await, [1, 2]);
    assert_eq!(read_thread(&store, thread_id).await, before);
}

pub async fn a10_superseded_rows_do_not_count_against_the_page_limit(store: SharedStore) {
    let thread_id = create(&*store).await;
    // Every third message stays; the seqs from 5 on are superseded a few thousand at a time.
    let mut expected = Vec::new();
    for round in 0..5 {
        let retained = append(&*store, thread_id, vec![human("kept"), trace_event(round)]).await.unwrap();
        let superseded =
            (0..2_000).map(|number| if number % 2 == 0 { human("gone") } else { trace_event(number) });
        append(&*store, thread_id, superseded.collect()).await.unwrap();
        expected.extend(&retained);
        expected.extend(rewind(&*store, thread_id, retained[1]).await.unwrap());
    }
    for limit in [1, 4, 14, 15, 16] {
        let mut forwards: Vec<Seq> = Vec::new();
        let mut backwards: Vec<Seq> = Vec::new();
        loop {
            let query = EventQuery::after(forwards.last().copied().unwrap_or(0), limit);
            let page = seqs(&store.events(thread_id, query).await.unwrap());
            assert_eq!(page.len(), limit.min(expected.len() - forwards.len()), "limit {limit}");
            forwards.extend(&page);
            let before = backwards.first().copied();
            let query = EventQuery { before, limit, ..EventQuery::default() };
            let earlier = seqs(&store.events(thread_id, query).await.unwrap());
            assert_eq!(earlier.len(), page.len());
            backwards.splice(0..0, earlier);
            if page.is_empty() {
                break;
            }
        }
        assert_eq!((&forwards, &backwards), (&expected, &expected), "limit {limit}");
    }
    let messages = seqs(&all_events(&*store, thread_id, &[Category::Message]).await);
    assert_eq!(messages, expected.iter().copied().step_by(3).collect::<Vec<_>>());
    let between = EventQuery { before: Some(expected[6]), ..EventQuery::after(expected[1], 9) };
    assert_eq!(seqs(&store.events(thread_id, between).await.unwrap()), expected[2..6]);
    assert_eq!(read_thread(&store, thread_id).await.message_count, 5);
}

pub async fn superseded_messages_are_not_found(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("a word"), ai("a word again")]).await.unwrap();
    assert_eq!(messages(&*store, "word").await.len(), 2);
    append(&*store, thread_id, vec![human("a word not yet indexed")]).await.unwrap();
    rewind(&*store, thread_id, 1).await.unwrap();
    append(&*store, thread_id, vec![human("another word")]).await.unwrap();
    let mut hit_seqs: Vec<Seq> = messages(&*store, "word").await.into_iter().map(|(_, seq)| seq).collect();
    hit_seqs.sort_unstable();
    assert_eq!(hit_seqs, [1, 5]);
    let one = SearchQuery { limit: 1, ..search_for("word") };
    assert_eq!(
        store.search(one).await.unwrap().hits.len(),
        1,
        "hidden messages do not count against the limit"
    );
}

pub async fn the_first_prompt_is_the_first_visible_message(store: SharedStore) {
    let thread_id = create(&*store).await;
    let prompt = async || read_thread(&store, thread_id).await.first_prompt;
    append(&*store, thread_id, vec![ai("hello"), human("first"), human("second")]).await.unwrap();
    rewind(&*store, thread_id, 2).await.unwrap();
    assert_eq!(prompt().await.as_deref(), Some("first"));
    rewind(&*store, thread_id, 1).await.unwrap();
    assert_eq!(prompt().await, None);
    append(&*store, thread_id, vec![human("third"), human("fourth")]).await.unwrap();
    assert_eq!(prompt().await.as_deref(), Some("third"));
}

pub async fn a_superseded_question_is_withdrawn(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    append(&*store, thread_id, vec![human("one")]).await.unwrap();
    let (retained, superseded) = (interrupt(&run, "early", 1), interrupt(&run, "late", 2));
    commit(&*store, vec![Write::RaiseInterrupt(retained.clone())]).await.unwrap();
    let asks = Write::Append { thread_id, events: vec![ai("may I?")] };
    let interrupted = RunPatch { status: Some(RunStatus::Interrupted), ..RunPatch::default() };
    let waits = ThreadPatch { status: Some(ThreadStatus::Interrupted), ..ThreadPatch::default() };
    let writes = vec![
        asks,
        Write::RaiseInterrupt(superseded.clone()),
        Write::UpdateRun { run_id: run.run_id, patch: interrupted },
        Write::UpdateThread { thread_id, patch: waits },
    ];
    commit(&*store, writes).await.unwrap();
    rewind(&*store, thread_id, 2).await.unwrap();
    assert_eq!(store.pending_interrupts(thread_id).await.unwrap(), [retained.clone(), superseded.clone()]);
    rewind(&*store, thread_id, 1).await.unwrap();
    assert_eq!(store.pending_interrupts(thread_id).await.unwrap(), [retained]);
    let withdrawn = store.interrupt(superseded.interrupt_id).await.unwrap().unwrap();
    assert_eq!((withdrawn.status, withdrawn.resolved_at), (InterruptStatus::Withdrawn, Some(at(3))));
    assert_eq!(
        read_thread(&store, thread_id).await.status,
        ThreadStatus::Interrupted,
        "one interrupt is still pending"
    );
    rewind(&*store, thread_id, 0).await.unwrap();
    assert!(store.pending_interrupts(thread_id).await.unwrap().is_empty());
    assert_eq!(read_thread(&store, thread_id).await.status, ThreadStatus::Idle);
}

pub async fn h3_a_reused_thread_id_has_no_superseded_events(store: SharedStore) {
    let before = thread();
    let thread_id = before.thread_id;
    commit(&*store, vec![Write::CreateThread(before.clone())]).await.unwrap();
    append(&*store, thread_id, vec![trace_event(0), trace_event(1)]).await.unwrap();
    commit(&*store, vec![Write::Rewind { thread_id, keep_seq: 0, at: at(3) }]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id }, Write::CreateThread(before)]).await.unwrap();
    append(&*store, thread_id, vec![trace_event(2), trace_event(3)]).await.unwrap();
    assert_eq!(visible_seqs(&store, thread_id).await, [3, 4]);
    rewind(&*store, thread_id, 3).await.unwrap();
    assert_eq!(visible_seqs(&store, thread_id).await, [3, 5]);
}

pub async fn an_event_with_a_superseded_key_is_not_stored_again(store: SharedStore) {
    let thread_id = create(&*store).await;
    let keyed = || NewEvent { event_key: Some("k".to_owned()), ..human("one") };
    append(&*store, thread_id, vec![keyed()]).await.unwrap();
    rewind(&*store, thread_id, 0).await.unwrap();
    assert_eq!(append(&*store, thread_id, vec![keyed()]).await.unwrap(), [1]);
    assert_eq!(store.seq_of_event_key(thread_id, "k").await.unwrap(), Some(1));
    assert_eq!(visible_seqs(&store, thread_id).await, [2]);
}
