//! Feedback on runs, with one rating for each user and run, and traces, which have every event of a run.

use std::sync::Arc;

use journal::{Error, HealthCheckDepth, PAGE_ROWS_MAX, Write};
use protocol::{Rating, RunFeedback, RunId, Seq, ThreadId};

use super::SharedStore;
use super::fixtures::{
    ai, all_events, append, at, commit, compaction_event, complete_run, create, feedback, fork, human,
    rewind, run, seqs, thread, tool_calls, tool_result, trace_event,
};

async fn put_and_read(store: &SharedStore, feedback: &RunFeedback) -> Option<RunFeedback> {
    let mut stored = store.feedback(feedback.thread_id, &[feedback.run_id], &feedback.user_id).await.unwrap();
    assert!(stored.len() <= 1);
    stored.pop()
}

async fn put(store: &SharedStore, feedback: &RunFeedback) -> journal::Result<()> {
    commit(&**store, vec![Write::PutFeedback(feedback.clone())]).await.map(|_| ())
}

pub async fn d2_a_user_has_one_rating_per_run(store: SharedStore) {
    let run = complete_run(&*store, create(&*store).await, vec![human("one"), ai("two")]).await;
    let first =
        RunFeedback { comment: Some("👍 \u{0} 日本".to_owned()), ..feedback(&run, Rating::Up, 5) };
    assert!(put_and_read(&store, &first).await.is_none());
    for _ in 0..2 {
        put(&store, &first).await.unwrap();
        assert_eq!(put_and_read(&store, &first).await, Some(first.clone()));
    }
    let second = feedback(&run, Rating::Down, 9);
    put(&store, &second).await.unwrap();
    let expected = RunFeedback { created_at: at(5), updated_at: at(9), ..second.clone() };
    assert_eq!(put_and_read(&store, &second).await, Some(expected.clone()));
    let other = RunFeedback { user_id: "somebody".to_owned(), ..feedback(&run, Rating::Up, 7) };
    put(&store, &other).await.unwrap();
    assert_eq!(put_and_read(&store, &second).await, Some(expected));
    assert_eq!(put_and_read(&store, &other).await, Some(other.clone()));
    let remove = || {
        let (thread_id, run_id, user_id) = (run.thread_id, run.run_id, RunFeedback::LOCAL_USER.to_owned());
        vec![Write::RemoveFeedback { thread_id, run_id, user_id }]
    };
    for _ in 0..2 {
        commit(&*store, remove()).await.unwrap();
        assert!(put_and_read(&store, &second).await.is_none());
    }
    assert_eq!(put_and_read(&store, &other).await, Some(other));
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

pub async fn d3_concurrent_ratings_leave_one_row(store: SharedStore) {
    let run = complete_run(&*store, create(&*store).await, vec![human("one"), ai("two")]).await;
    let mut tasks = Vec::new();
    for second in 0..50 {
        let store = Arc::clone(&store);
        let feedback = feedback(&run, if second % 2 == 0 { Rating::Up } else { Rating::Down }, second);
        tasks.push(tokio::spawn(async move { put(&store, &feedback).await }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(put_and_read(&store, &feedback(&run, Rating::Up, 0)).await.is_some());
}

pub async fn d4_only_a_run_of_the_thread_takes_feedback(store: SharedStore) {
    let own = complete_run(&*store, create(&*store).await, vec![human("one"), ai("two")]).await;
    let other = create(&*store).await;
    for wrong in [
        RunFeedback { thread_id: other, ..feedback(&own, Rating::Up, 1) },
        RunFeedback { run_id: RunId::generate(), ..feedback(&own, Rating::Up, 1) },
    ] {
        let writes =
            vec![Write::PutFeedback(feedback(&own, Rating::Up, 1)), Write::PutFeedback(wrong.clone())];
        let refused = commit(&*store, writes).await;
        let is_told = |thread_id, run_id| (thread_id, run_id) == (wrong.thread_id, wrong.run_id);
        assert!(
            matches!(&refused, Err(Error::UnknownRun { thread_id, run_id }) if is_told(*thread_id, *run_id)),
            "{refused:?}"
        );
        assert!(put_and_read(&store, &wrong).await.is_none());
    }
    assert!(put_and_read(&store, &feedback(&own, Rating::Up, 1)).await.is_none(), "A8: all or nothing");
    let unknown = RunFeedback { thread_id: ThreadId::generate(), ..feedback(&own, Rating::Up, 1) };
    let refused = put(&store, &unknown).await;
    assert!(matches!(refused, Err(Error::NotFound { what: "thread", .. })), "{refused:?}");
    assert!(put_and_read(&store, &unknown).await.is_none());
}

pub async fn d5_feedback_is_returned_only_for_the_requested_runs(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        let run = complete_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
        put(&store, &feedback(&run, Rating::Up, 1)).await.unwrap();
        runs.push(run.run_id);
    }
    let run_ids = [runs[3], RunId::generate(), runs[1]];
    let stored = store.feedback(thread_id, &run_ids, RunFeedback::LOCAL_USER).await.unwrap();
    assert_eq!(stored.iter().map(|feedback| feedback.run_id).collect::<Vec<_>>(), [runs[3], runs[1]]);
    assert!(store.feedback(thread_id, &[], RunFeedback::LOCAL_USER).await.unwrap().is_empty());
}

pub async fn d8_feedback_is_deleted_with_its_thread_and_only_then(store: SharedStore) {
    let thread = thread();
    let thread_id = thread.thread_id;
    commit(&*store, vec![Write::CreateThread(thread.clone())]).await.unwrap();
    let run = complete_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
    let feedback = feedback(&run, Rating::Down, 1);
    put(&store, &feedback).await.unwrap();
    append(&*store, thread_id, vec![compaction_event((1, 2), Some(1), "S")]).await.unwrap();
    assert_eq!(put_and_read(&store, &feedback).await, Some(feedback.clone()));
    rewind(&*store, thread_id, 0).await.unwrap();
    assert_eq!(put_and_read(&store, &feedback).await, Some(feedback.clone()));
    commit(&*store, vec![Write::DeleteThread { thread_id }, Write::CreateThread(thread)]).await.unwrap();
    assert!(put_and_read(&store, &feedback).await.is_none());
    let refused = put(&store, &feedback).await;
    assert!(matches!(refused, Err(Error::UnknownRun { .. })), "{refused:?}");
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

pub async fn a5_a_trace_is_every_event_of_its_run_and_no_other(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("imported"), trace_event(0)]).await.unwrap();
    let events = vec![human("go"), tool_calls(&["a"]), tool_result("a", "A"), trace_event(1), ai("done")];
    let one = complete_run(&*store, thread_id, events).await;
    append(&*store, thread_id, vec![trace_event(2)]).await.unwrap();
    let two = complete_run(
        &*store,
        thread_id,
        vec![human("and?"), compaction_event((3, 7), Some(3), "S"), ai("yes")],
    )
    .await;
    // Events of a run that are appended after another run started belong to the first run's trace, too.
    append(
        &*store,
        thread_id,
        vec![trace_event(3).with_run(one.run_id), trace_event(4).with_run(two.run_id)],
    )
    .await
    .unwrap();
    let before = all_events(&*store, thread_id, &[]).await;
    rewind(&*store, thread_id, 4).await.unwrap();
    for (run, expected) in [(&one, vec![3, 4, 5, 6, 7, 12]), (&two, vec![9, 10, 11, 13])] {
        let events = store.run_events(thread_id, run.run_id, 0, 50).await.unwrap();
        assert_eq!(seqs(&events), expected);
        assert!(events.iter().all(|event| *event == before[event.seq as usize - 1]), "events are unchanged");
        for limit in 1..=7 {
            let mut paged: Vec<Seq> = Vec::new();
            loop {
                let after = paged.last().copied().unwrap_or(0);
                let page = store.run_events(thread_id, run.run_id, after, limit).await.unwrap();
                assert_eq!(page.len(), limit.min(expected.len() - paged.len()));
                paged.extend(seqs(&page));
                if page.len() < limit {
                    break;
                }
            }
            assert_eq!(paged, expected, "pages of {limit}");
        }
        assert!(store.run_events(thread_id, run.run_id, u64::MAX, 5).await.unwrap().is_empty());
    }
    for limit in [0, PAGE_ROWS_MAX + 1] {
        let refused = store.run_events(thread_id, one.run_id, 0, limit).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{limit}");
    }
}

pub async fn b17_a_run_is_traced_in_its_own_thread_only(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run = complete_run(&*store, thread_id, vec![human("one"), ai("two")]).await;
    let fork = fork(&*store, thread_id, None).await;
    for (thread_id, run_id) in [
        (fork, run.run_id),
        (create(&*store).await, run.run_id),
        (ThreadId::generate(), run.run_id),
        (thread_id, RunId::generate()),
    ] {
        assert!(store.run_events(thread_id, run_id, 0, 5).await.unwrap().is_empty());
    }
}

pub async fn a_run_without_events_has_an_empty_trace(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("one")]).await.unwrap();
    let run = run(thread_id, "one");
    commit(&*store, vec![Write::AdmitRun(run.clone())]).await.unwrap();
    assert!(store.run_events(thread_id, run.run_id, 0, 5).await.unwrap().is_empty());
    append(&*store, thread_id, vec![trace_event(0).with_run(run.run_id)]).await.unwrap();
    assert_eq!(seqs(&store.run_events(thread_id, run.run_id, 0, 5).await.unwrap()), [2]);
}
