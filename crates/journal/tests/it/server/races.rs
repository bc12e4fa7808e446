//! Several processes on one PostgreSQL database, each simulated by a store with its own pool. Concurrent transactions are
//! serializable, and a transaction fails only with a specific error.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use journal::{
    Error, FencingToken, HealthCheckDepth, ImportProgress, ImportSource, ItemQuery, OutboxItem,
    PostgresStore, Replica, Result, RunClaim, RunPatch, Store, Transaction, Write,
};
use protocol::{
    ApiKey, Decision, Decisions, HandoffStatus, InterruptStatus, RunStatus, StoredItem, Thread, ThreadId,
};
use serde_json::{Map, json};
use tokio::task::JoinHandle;

use crate::backends::POOL;
use crate::conformance::fixtures::{
    all_events, append, at, commit, create, create_run, handoff, interrupt, run, seqs, thread, trace_event,
};

/// Creates a database and opens `number` stores on it, one for each simulated process.
pub async fn open_processes(number: usize) -> (test_postgres::TestDatabase, Vec<Arc<PostgresStore>>) {
    let database = test_postgres::TestDatabase::create().unwrap();
    let mut stores = Vec::new();
    for _ in 0..number {
        stores.push(Arc::new(PostgresStore::open(&database.socket_url(), POOL).await.unwrap()));
    }
    (database, stores)
}

/// Asserts that the integrity check of the database reports no problem.
pub async fn check_consistency(store: &PostgresStore) {
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!(health.problems, Vec::<String>::new());
}

/// Runs `count` concurrent tasks, distributed over the stores, and returns their results.
async fn run_concurrently<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    stores: &[Arc<PostgresStore>],
    count: usize,
    task: impl Fn(Arc<PostgresStore>, usize) -> F,
) -> Vec<T> {
    let tasks =
        (0..count).map(|number| tokio::spawn(task(Arc::clone(&stores[number % stores.len()]), number)));
    let tasks: Vec<JoinHandle<T>> = tasks.collect();
    let mut results = Vec::with_capacity(count);
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// Asserts that exactly one task succeeded and that each other one failed with an expected error.
#[track_caller]
fn assert_one_succeeded<T: std::fmt::Debug>(results: &[Result<T>], is_refusal: fn(&Error) -> bool) {
    let failed: Vec<&Error> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.iter().all(|error| is_refusal(error)), "{failed:?}");
    assert_eq!(results.len() - failed.len(), 1, "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_fifty_writers_of_four_processes_leave_no_gap_and_get_no_error() {
    const WRITERS: usize = 50;
    const EVENTS: u64 = 200;
    let (_database, stores) = open_processes(4).await;
    let mut threads = Vec::new();
    for _ in 0..5 {
        threads.push(create(&*stores[0]).await);
    }
    let threads: Arc<[ThreadId]> = threads.into();
    let assigned = run_concurrently(&stores, WRITERS, |store, writer| {
        let threads = Arc::clone(&threads);
        async move {
            let mut assigned = Vec::new();
            let mut remaining = EVENTS;
            while remaining > 0 {
                let thread_id = threads[(writer + remaining as usize) % threads.len()];
                let batch = remaining.min(1 + remaining % 4);
                let seqs = append(&*store, thread_id, (0..batch).map(trace_event).collect()).await.unwrap();
                assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seqs:?}");
                assigned.extend(seqs.into_iter().map(|seq| (thread_id, seq)));
                remaining -= batch;
            }
            assigned
        }
    })
    .await
    .concat();
    for thread_id in threads.iter() {
        let stored = seqs(&all_events(&*stores[1], *thread_id, &[]).await);
        let assigned: BTreeSet<u64> = assigned
            .iter()
            .filter(|(writer_thread, _)| writer_thread == thread_id)
            .map(|(_, seq)| *seq)
            .collect();
        assert_eq!(stored, assigned.into_iter().collect::<Vec<_>>());
        assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>());
    }
    assert_eq!(assigned.len() as u64, WRITERS as u64 * EVENTS);
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a26_a_thread_deleted_and_created_again_during_writes_reuses_no_seq() {
    let (_database, stores) = open_processes(4).await;
    let thread = Thread::blank(ThreadId::generate(), Default::default(), at(0));
    commit(&*stores[0], vec![Write::CreateThread(thread.clone())]).await.unwrap();
    let assigned = run_concurrently(&stores, 16, |store, number| {
        let thread = thread.clone();
        async move {
            let mut assigned = Vec::new();
            for round in 0..20 {
                let thread_id = thread.thread_id;
                if (number, round % 4) == (number % 4, 0) {
                    let deleted = commit(&*store, vec![Write::DeleteThread { thread_id }]).await;
                    assert!(matches!(deleted, Ok(_) | Err(Error::NotFound { .. })), "{deleted:?}");
                    commit(&*store, vec![Write::CreateThread(thread.clone())]).await.unwrap();
                }
                match append(&*store, thread_id, vec![trace_event(1), trace_event(2)]).await {
                    Ok(seqs) => assigned.extend(seqs),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assigned
        }
    })
    .await
    .concat();
    let distinct: BTreeSet<u64> = assigned.iter().copied().collect();
    assert_eq!(distinct.len(), assigned.len(), "no seq is assigned twice");
    let left = seqs(&all_events(&*stores[0], thread.thread_id, &[]).await);
    assert!(left.iter().all(|seq| distinct.contains(seq)));
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_of_admissions_in_several_processes_one_wins() {
    let (_database, stores) = open_processes(4).await;
    let thread_id = create(&*stores[0]).await;
    for round in 0..15 {
        let runs: Vec<_> = (0..8).map(|_| run(thread_id, "one")).collect();
        let waits = round % 2 == 1;
        if waits {
            for run in &runs {
                let waiting = protocol::Run { status: RunStatus::Pending, lease_until: None, ..run.clone() };
                commit(&*stores[0], vec![Write::QueueRun(waiting)]).await.unwrap();
            }
        }
        let admitted = run_concurrently(&stores, runs.len(), |store, number| {
            let run = runs[number].clone();
            async move {
                let write = if waits { Write::BeginRun(run.clone()) } else { Write::AdmitRun(run.clone()) };
                commit(
                    &*store,
                    vec![
                        write,
                        Write::Append { thread_id, events: vec![trace_event(1).with_run(run.run_id)] },
                    ],
                )
                .await
            }
        })
        .await;
        assert_one_succeeded(&admitted, |error| matches!(error, Error::Busy { .. }));
        let active = stores[1].active_runs(Some(thread_id)).await.unwrap();
        assert_eq!(active.len(), 1);
        let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
        commit(&*stores[0], vec![Write::UpdateRun { run_id: active[0].run_id, patch }]).await.unwrap();
        for run in stores[0].queued_runs(Some(thread_id)).await.unwrap() {
            commit(&*stores[0], vec![Write::DeleteRun { run_id: run.run_id }]).await.unwrap();
        }
    }
    assert_eq!(all_events(&*stores[0], thread_id, &[]).await.len(), 15);
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_of_concurrent_reclaims_one_wins_and_the_old_owner_writes_nothing_afterwards() {
    let (_database, stores) = open_processes(4).await;
    for _ in 0..8 {
        let run = create_run(&*stores[0], "old").await;
        let (run_id, thread_id) = (run.run_id, run.thread_id);
        let fence = move |owner: &str| Some(FencingToken { run_id, owner: owner.to_owned() });
        let write = move |number| {
            vec![Write::Append { thread_id, events: vec![trace_event(number).with_run(run_id)] }]
        };
        let old = fence("old");
        let writer = {
            let store = Arc::clone(&stores[0]);
            tokio::spawn(async move {
                let mut last = 0;
                loop {
                    match store.commit(Transaction { fence: old.clone(), writes: write(0) }).await {
                        Ok(committed) => last = committed.seqs[0][0],
                        Err(Error::Fenced { .. }) => return last,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        };
        let reclaimed = run_concurrently(&stores, 6, |store, number| async move {
            let owner = format!("new {number}");
            let reclaim =
                Write::ReclaimRun { run_id, owner: owner.clone(), now: at(100), lease_until: at(200) };
            commit(&*store, vec![reclaim]).await?;
            let fence = Some(FencingToken { run_id, owner });
            let first = Write::Append { thread_id, events: vec![trace_event(1).with_run(run_id)] };
            store
                .commit(Transaction { fence, writes: vec![first] })
                .await
                .map(|committed| committed.seqs[0][0])
        })
        .await;
        assert_one_succeeded(&reclaimed, |error| matches!(error, Error::Fenced { .. }));
        let first = *reclaimed.iter().find_map(|done| done.as_ref().ok()).unwrap();
        let last = writer.await.unwrap();
        assert!(last < first, "written under the old lease at {last}, under the new at {first}");
    }
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_each_run_is_claimed_by_one_process() {
    let (_database, stores) = open_processes(4).await;
    let mut runs = Vec::new();
    for number in 0..24 {
        let mut abandoned = run(create(&*stores[0]).await, "gone");
        let write = match number % 2 {
            0 => Write::AdmitRun(abandoned.clone()),
            _ => {
                (abandoned.status, abandoned.lease_until) = (RunStatus::Pending, None);
                Write::QueueRun(abandoned.clone())
            }
        };
        commit(&*stores[0], vec![write]).await.unwrap();
        runs.push(abandoned.run_id);
    }
    let claimed = run_concurrently(&stores, 8, |store, number| {
        let run_ids = runs.clone();
        async move {
            let (now, lease_until) = (at(100), at(200));
            let claim =
                RunClaim { run_ids, owner: number.to_string(), now, lease_until, dead_owners: Vec::new() };
            // The heartbeat keeps this owner alive until 200, so that no other claim takes its runs.
            let replica =
                Replica { owner: number.to_string(), machine: "m".to_owned(), alive_until: at(200) };
            let writes = vec![Write::RecordHeartbeat { replica, now }, Write::ClaimRuns(claim)];
            commit(&*store, writes).await.unwrap().claimed_runs
        }
    })
    .await
    .concat();
    let claimed: Vec<_> = claimed.into_iter().map(|run| run.run_id).collect();
    assert_eq!(claimed.len(), claimed.iter().collect::<BTreeSet<_>>().len(), "no run is claimed twice");
    for run_id in claimed {
        let owner = stores[0].run(run_id).await.unwrap().unwrap().lease_owner;
        assert_ne!(owner.as_deref(), Some("gone"));
    }
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g20_of_concurrent_decisions_and_withdrawals_the_first_wins() {
    let (_database, stores) = open_processes(4).await;
    for round in 0..12 {
        let run = create_run(&*stores[0], "one").await;
        let thread_id = run.thread_id;
        let raised = interrupt(&run, "approval", 1);
        let interrupt_id = raised.interrupt_id;
        let patch = RunPatch { status: Some(RunStatus::Interrupted), ..RunPatch::default() };
        let events = vec![trace_event(1).with_run(run.run_id)];
        let ended = Write::UpdateRun { run_id: run.run_id, patch };
        commit(&*stores[0], vec![Write::Append { thread_id, events }, Write::RaiseInterrupt(raised), ended])
            .await
            .unwrap();
        let answered = run_concurrently(&stores, 7, |store, number| async move {
            let decisions =
                Decisions { decisions: vec![Decision::Reject { message: Some(number.to_string()) }] };
            let answer = Write::ResolveInterrupt { interrupt_id, decisions: Some(decisions), at: at(5) };
            let withdraw = Write::ResolveInterrupt { interrupt_id, decisions: None, at: at(5) };
            let write = match (number, round % 3) {
                (0, 0) => Write::Rewind { thread_id, keep_seq: 0, at: at(6) },
                (0, 1) => withdraw,
                _ => answer,
            };
            (
                number != 0 || round % 3 == 2,
                commit(&*store, vec![Write::ExpectPendingInterrupt { interrupt_id }, write]).await,
            )
        })
        .await;
        assert_one_succeeded(
            &answered
                .iter()
                .map(|(_, done)| done.as_ref().map(|_| ()).map_err(clone_error))
                .collect::<Vec<_>>(),
            |error| matches!(error, Error::AlreadyDecided { .. }),
        );
        let is_answer = answered.iter().any(|(is_answer, done)| *is_answer && done.is_ok());
        let status = stores[0].interrupt(interrupt_id).await.unwrap().unwrap().status;
        assert_eq!(status == InterruptStatus::Resolved, is_answer, "{status:?}");
    }
    check_consistency(&stores[0]).await;
}

/// Returns an error of the same kind. Errors are not `Clone`, and the test compares only their kinds.
fn clone_error(error: &Error) -> Error {
    match error {
        Error::AlreadyDecided { interrupt_id } => Error::AlreadyDecided { interrupt_id: *interrupt_id },
        other => Error::Malformed(other.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_handoff_requests_of_one_parent_one_is_pending() {
    let (_database, stores) = open_processes(4).await;
    let parent = create(&*stores[0]).await;
    let failed = handoff(parent, 1);
    commit(&*stores[0], vec![Write::CreateHandoff(failed.clone())]).await.unwrap();
    let transition = |from, to| Write::TransitionHandoff {
        handoff_id: failed.handoff_id,
        from,
        to,
        patch: Default::default(),
        at: at(9),
    };
    commit(&*stores[0], vec![transition(HandoffStatus::Requested, HandoffStatus::Failed)]).await.unwrap();
    for _ in 0..12 {
        let again = transition(HandoffStatus::Failed, HandoffStatus::Drafting);
        let requested = run_concurrently(&stores, 8, |store, number| {
            // One request retries the failed handoff. Its transition does not name the parent thread.
            let write = if number == 0 { again.clone() } else { Write::CreateHandoff(handoff(parent, 2)) };
            async move { commit(&*store, vec![write]).await }
        })
        .await;
        assert_one_succeeded(&requested, |error| matches!(error, Error::HandoffPending { .. }));
        let filter = journal::HandoffFilter { parent_thread_id: Some(parent), ..Default::default() };
        let pending = stores[0].handoffs(filter).await.unwrap();
        for handoff in pending.into_iter().filter(|handoff| handoff.status.is_pending()) {
            let (handoff_id, from) = (handoff.handoff_id, handoff.status);
            let to = HandoffStatus::Failed;
            let back =
                Write::TransitionHandoff { handoff_id, from, to, patch: Default::default(), at: at(9) };
            commit(&*stores[0], vec![back]).await.unwrap();
        }
    }
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_imports_of_one_session_one_wins() {
    let (_database, stores) = open_processes(4).await;
    let thread_id = create(&*stores[0]).await;
    let mut expected = None;
    for entries in 1..=10 {
        let imported = run_concurrently(&stores, 6, |store, number| async move {
            let chain = format!("{entries} {number}");
            let source_key = "format:session".to_owned();
            let source = ImportSource { source_key, thread_id, entries, chain, updated_at: at(1) };
            let writes = vec![
                Write::PutImport { source, expected },
                Write::Append { thread_id, events: vec![trace_event(entries)] },
            ];
            commit(&*store, writes).await
        })
        .await;
        assert_one_succeeded(&imported, |error| matches!(error, Error::Conflict { what: "import", .. }));
        expected = Some(ImportProgress { entries, last_seq: entries });
    }
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_of_keyed_rows_are_serialized() {
    let (_database, stores) = open_processes(4).await;
    let key = ApiKey {
        key_id: "k".to_owned(),
        user_id: "ada".parse().unwrap(),
        label: None,
        sha256: String::new(),
        created_at: at(1),
        revoked_at: None,
    };
    let stored = run_concurrently(&stores, 8, |store, number| {
        let key = ApiKey { sha256: format!("{number:064x}"), ..key.clone() };
        async move { commit(&*store, vec![Write::PutApiKey(key)]).await }
    });
    assert_one_succeeded(&stored.await, |error| matches!(error, Error::Conflict { what: "key", .. }));
    let sent = |payload, attempts| OutboxItem {
        kind: "k".to_owned(),
        key: "o".to_owned(),
        payload,
        attempts,
        created_at: at(1),
    };
    commit(&*stores[0], vec![Write::PutOutboxItem(sent(json!(0), 0))]).await.unwrap();
    let changes = Arc::new(AtomicU64::new(0));
    run_concurrently(&stores, 8, |store, number| {
        let changes = Arc::clone(&changes);
        async move {
            for _ in 0..20 {
                let was = store.outbox_item("k", "o").await.unwrap().unwrap();
                let attempts = was.attempts + 1;
                match commit(
                    &*store,
                    vec![Write::UpdateOutboxItem { expected: was, payload: json!(number), attempts }],
                )
                .await
                {
                    Ok(_) => drop(changes.fetch_add(1, Ordering::SeqCst)),
                    Err(Error::Conflict { what: "outbox item", .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                let namespace = vec!["n".to_owned()];
                let value = Map::from_iter([("word".to_owned(), json!(format!("heron {number}")))]);
                let item = StoredItem {
                    namespace: namespace.clone(),
                    key: "i".to_owned(),
                    value,
                    created_at: at(1),
                    updated_at: at(2),
                };
                commit(&*store, vec![Write::PutItem(item)]).await.unwrap();
                if number == 0 {
                    commit(&*store, vec![Write::DeleteItem { namespace, key: "i".to_owned() }])
                        .await
                        .unwrap();
                }
            }
        }
    })
    .await;
    let stored_item = stores[0].outbox_item("k", "o").await.unwrap().unwrap();
    assert_eq!(u64::from(stored_item.attempts), changes.load(Ordering::SeqCst));
    let item = stores[0].item(&["n".to_owned()], "i").await.unwrap();
    let query = ItemQuery { words: vec!["heron".to_owned()], limit: 10, ..ItemQuery::default() };
    let found = stores[0].items(query).await.unwrap();
    assert_eq!(found.into_iter().map(|found| found.item).collect::<Vec<_>>(), Vec::from_iter(item));
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_run_during_ratings_leaves_no_feedback() {
    let (_database, stores) = open_processes(4).await;
    for _ in 0..25 {
        let run = create_run(&*stores[0], "one").await;
        let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
        commit(&*stores[0], vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
        let feedback = crate::conformance::fixtures::feedback(&run, protocol::Rating::Up, 1);
        let done = run_concurrently(&stores, 4, |store, number| {
            let rated = protocol::RunFeedback { user_id: number.to_string(), ..feedback.clone() };
            let write =
                if number == 2 { Write::DeleteRun { run_id: run.run_id } } else { Write::PutFeedback(rated) };
            async move { commit(&*store, vec![write]).await }
        })
        .await;
        assert!(done.iter().all(|done| matches!(done, Ok(_) | Err(Error::UnknownRun { .. }))), "{done:?}");
    }
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_eight_processes_may_open_a_new_database_at_once() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let url = database.socket_url();
    let opened = (0..8).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { create(&PostgresStore::open(&url, POOL).await.unwrap()).await })
    });
    for task in opened.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let health =
        PostgresStore::open(&url, POOL).await.unwrap().health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.threads, health.problems), (8, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_do_not_block_appends_and_find_committed_messages() {
    let (_database, stores) = open_processes(3).await;
    let thread_id = create(&*stores[0]).await;
    let rounds = run_concurrently(&stores, 6, |store, number| async move {
        for round in 0..25 {
            let word = format!("heron{number}x{round}");
            let event = crate::conformance::fixtures::human(&word);
            tokio::time::timeout(Duration::from_secs(10), append(&*store, thread_id, vec![event]))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(crate::conformance::fixtures::messages(&*store, &word).await.len(), 1, "{word}");
        }
    });
    rounds.await;
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_keeps_its_project_while_the_last_thread_of_the_project_is_deleted() {
    let (_database, stores) = open_processes(2).await;
    let in_project = || Thread { project: Some("/app".to_owned()), ..thread() };
    for _ in 0..40 {
        let last = in_project();
        commit(&*stores[0], vec![Write::CreateThread(last.clone())]).await.unwrap();
        let next = in_project();
        let (deleted, created) = tokio::join!(
            commit(&*stores[0], vec![Write::DeleteThread { thread_id: last.thread_id }]),
            commit(&*stores[1], vec![Write::CreateThread(next.clone())])
        );
        deleted.unwrap();
        created.unwrap();
        let stored = stores[1].thread(next.thread_id).await.unwrap().unwrap();
        assert_eq!(stored.project.as_deref(), Some("/app"));
        commit(&*stores[1], vec![Write::DeleteThread { thread_id: next.thread_id }]).await.unwrap();
    }
}
