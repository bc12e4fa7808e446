//! Queued runs, lists of runs, and the requests from which runs were created.

use std::sync::Arc;

use journal::{Error, PAGE_ROWS_MAX, Replica, RunFilter, RunPatch, ThreadPatch, Write};
use protocol::{
    Checkpoint, Interrupt, Rating, Run, RunFailure, RunId, RunRequest, RunStatus, ThreadId, ThreadStatus,
};
use serde_json::json;

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    all_events, append, at, checkpoint, commit, create, create_run, feedback, human, interrupt, rewind, run,
    trace_event,
};

fn queued_run(thread_id: ThreadId, second: i64) -> Run {
    Run {
        status: RunStatus::Pending,
        model: None,
        lease_owner: None,
        lease_until: None,
        created_at: at(second),
        updated_at: at(second),
        ..run(thread_id, "nobody")
    }
}

/// Returns the run in the state in which it is admitted.
fn started_run(run: &Run, owner: &str) -> Run {
    Run {
        status: RunStatus::Running,
        model: Some("scripted/two".to_owned()),
        lease_owner: Some(owner.to_owned()),
        lease_until: Some(at(90)),
        updated_at: at(30),
        ..run.clone()
    }
}

fn end_run_write(run_id: RunId, status: RunStatus) -> Write {
    Write::UpdateRun {
        run_id,
        patch: RunPatch { status: Some(status), at: Some(at(5)), ..RunPatch::default() },
    }
}

fn ids(runs: &[Run]) -> Vec<RunId> {
    runs.iter().map(|run| run.run_id).collect()
}

pub async fn j1_any_number_of_runs_can_be_queued_while_one_is_active(store: SharedStore) {
    let working = create_run(&*store, "one").await;
    let thread_id = working.thread_id;
    let queue: Vec<Run> = [3, 1, 2].map(|second| queued_run(thread_id, second)).into();
    for run in queue.iter().chain(&queue) {
        commit(&*store, vec![Write::QueueRun(run.clone())]).await.unwrap();
    }
    let elsewhere = queued_run(create(&*store).await, 0);
    commit(&*store, vec![Write::QueueRun(elsewhere.clone())]).await.unwrap();
    let in_order = [&queue[1], &queue[2], &queue[0]].map(Clone::clone);
    assert_eq!(store.queued_runs(Some(thread_id)).await.unwrap(), in_order);
    assert_eq!(ids(&store.queued_runs(None).await.unwrap())[0], elsewhere.run_id);
    assert_eq!(store.queued_runs(None).await.unwrap().len(), 4);
    assert_eq!(store.active_runs(None).await.unwrap(), std::slice::from_ref(&working));
    assert_eq!(
        store.newest_run(thread_id).await.unwrap(),
        Some(working.run_id),
        "a queued run is not the newest run"
    );
    let refused = commit(&*store, vec![Write::BeginRun(started_run(&queue[1], "one"))]).await;
    assert!(matches!(refused, Err(Error::Busy { run_id, .. }) if run_id == working.run_id), "{refused:?}");
    // A rewind does not wait for queued runs, because the scheduler and not the journal decides the order.
    commit(&*store, vec![end_run_write(working.run_id, RunStatus::Success)]).await.unwrap();
    rewind(&*store, thread_id, 0).await.unwrap();
    commit(&*store, vec![Write::BeginRun(started_run(&queue[1], "one"))]).await.unwrap();
    assert_eq!(ids(&store.queued_runs(Some(thread_id)).await.unwrap()), [queue[2].run_id, queue[0].run_id]);
    assert_eq!(store.newest_run(thread_id).await.unwrap(), Some(queue[1].run_id));
    let wrong = commit(&*store, vec![Write::QueueRun(run(thread_id, "one"))]).await;
    assert!(matches!(wrong, Err(Error::InvalidRequest { .. })), "an active run cannot be queued: {wrong:?}");
    let other = Run { created_at: at(99), ..queue[0].clone() };
    let other = commit(&*store, vec![Write::QueueRun(other)]).await;
    assert!(matches!(other, Err(Error::Conflict { what: "run", .. })), "{other:?}");
}

pub async fn j1_of_concurrent_starts_one_succeeds(store: SharedStore) {
    let thread_id = create(&*store).await;
    let queue: Vec<Run> = (0..20).map(|second| queued_run(thread_id, second)).collect();
    commit(&*store, queue.iter().cloned().map(Write::QueueRun).collect()).await.unwrap();
    let mut tasks = Vec::new();
    for run in queue {
        let store = Arc::clone(&store);
        let run = started_run(&run, &run.run_id.to_string());
        tasks.push(tokio::spawn(async move { commit(&*store, vec![Write::BeginRun(run)]).await.is_ok() }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += u32::from(task.await.unwrap());
    }
    let running = store.active_runs(Some(thread_id)).await.unwrap().len();
    assert_eq!((admitted, running, store.queued_runs(Some(thread_id)).await.unwrap().len()), (1, 1, 19));
}

pub async fn j3_a_queued_run_starts_once(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![trace_event(0)]).await.unwrap();
    let queued = queued_run(thread_id, 1);
    commit(&*store, vec![Write::QueueRun(queued.clone())]).await.unwrap();
    append(&*store, thread_id, vec![trace_event(1).with_run(queued.run_id)]).await.unwrap();
    let admitted = started_run(&queued, "one");
    for _ in 0..2 {
        commit(&*store, vec![Write::BeginRun(admitted.clone())]).await.unwrap();
    }
    assert_eq!(store.run(queued.run_id).await.unwrap(), Some(admitted.clone()));
    append(&*store, thread_id, vec![trace_event(2).with_run(queued.run_id)]).await.unwrap();
    let events = store.run_events(thread_id, queued.run_id, 0, 9).await.unwrap();
    assert_eq!(
        events.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [3],
        "its events follow its beginning"
    );
    let twice = commit(&*store, vec![Write::BeginRun(started_run(&queued, "two"))]).await;
    assert!(matches!(&twice, Err(Error::Fenced { owner, .. }) if owner == "one"), "{twice:?}");
    commit(&*store, vec![end_run_write(queued.run_id, RunStatus::Success)]).await.unwrap();
    let late = commit(&*store, vec![Write::BeginRun(admitted)]).await;
    assert!(matches!(late, Err(Error::Fenced { status: RunStatus::Success, .. })), "{late:?}");
    let elsewhere = Run { thread_id: create(&*store).await, ..started_run(&queued, "one") };
    let elsewhere = commit(&*store, vec![Write::BeginRun(elsewhere)]).await;
    assert!(matches!(elsewhere, Err(Error::Conflict { what: "run", .. })), "{elsewhere:?}");
}

pub async fn a_queued_run_can_end_without_starting(store: SharedStore) {
    let thread_id = create(&*store).await;
    let queued = queued_run(thread_id, 1);
    commit(&*store, vec![Write::QueueRun(queued.clone())]).await.unwrap();
    let run_id = queued.run_id;
    let renewed = RunPatch { lease_until: Some(at(99)), ..RunPatch::default() };
    let reclaim =
        Write::ReclaimRun { run_id, owner: "one".to_owned(), now: at(1_000), lease_until: at(1_060) };
    let renewal = Write::UpdateRun { run_id, patch: renewed };
    for write in [
        end_run_write(run_id, RunStatus::Running),
        end_run_write(run_id, RunStatus::Cancelled),
        renewal,
        reclaim,
    ] {
        let refused = commit(&*store, vec![write]).await;
        assert!(matches!(refused, Err(Error::Fenced { status: RunStatus::Pending, .. })), "{refused:?}");
    }
    let fence = journal::FencingToken { run_id, owner: String::new() };
    let fenced = store.commit(journal::Transaction { fence: Some(fence), writes: Vec::new() }).await;
    assert!(matches!(fenced, Err(Error::Fenced { .. })), "{fenced:?}");
    let working = run(thread_id, "one");
    commit(&*store, vec![Write::AdmitRun(working.clone())]).await.unwrap();
    let stopped = Run { status: RunStatus::Cancelled, updated_at: at(5), ..queued.clone() };
    commit(&*store, vec![Write::BeginRun(stopped.clone())]).await.unwrap();
    append(&*store, thread_id, vec![trace_event(1).with_run(run_id)]).await.unwrap();
    let failure = RunFailure::from_stored_text(RunStatus::Cancelled, None);
    assert!(failure.is_some(), "a cancelled run has a failure although none was stored");
    assert_eq!(store.run(run_id).await.unwrap(), Some(Run { failure, ..stopped }));
    assert_eq!(
        store.newest_run(thread_id).await.unwrap(),
        Some(working.run_id),
        "the queued run did not start"
    );
    assert_eq!(store.queued_runs(None).await.unwrap(), []);
    let late = commit(&*store, vec![Write::BeginRun(started_run(&queued, "one"))]).await;
    assert!(matches!(late, Err(Error::Fenced { status: RunStatus::Cancelled, .. })), "{late:?}");
    let refused = commit(&*store, vec![end_run_write(run_id, RunStatus::Pending)]).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
}

pub async fn runs_are_listed_newest_first_in_pages(store: SharedStore) {
    let (thread_id, other) = (create(&*store).await, create(&*store).await);
    let statuses = [
        RunStatus::Success,
        RunStatus::Error,
        RunStatus::Success,
        RunStatus::Interrupted,
        RunStatus::Cancelled,
        RunStatus::Running,
    ];
    let mut expected = Vec::new();
    for (number, status) in statuses.into_iter().enumerate() {
        let (here, elsewhere) = (run(thread_id, "one"), run(other, "one"));
        for run in [&here, &elsewhere] {
            let mut writes = vec![Write::AdmitRun(run.clone())];
            writes.extend((number < 5).then(|| end_run_write(run.run_id, status)));
            commit(&*store, writes).await.unwrap();
        }
        expected.insert(0, here.run_id);
    }
    let queued = queued_run(thread_id, 1);
    commit(&*store, vec![Write::QueueRun(queued.clone())]).await.unwrap();
    expected.insert(0, queued.run_id);
    let page =
        |offset, limit| RunFilter { thread_id: Some(thread_id), offset, limit, ..RunFilter::default() };
    let mut read = Vec::new();
    for offset in [0, 3, 6, 9] {
        read.extend(ids(&store.runs(page(offset, 3)).await.unwrap()));
    }
    assert_eq!(read, expected);
    for (statuses, count) in [
        (vec![RunStatus::Success], 2),
        (vec![RunStatus::Pending, RunStatus::Running], 2),
        (vec![RunStatus::Timeout], 0),
        (RunStatus::ALL.to_vec(), 7),
    ] {
        let runs = store.runs(RunFilter { statuses: statuses.clone(), ..page(0, 50) }).await.unwrap();
        assert_eq!(runs.len(), count, "{statuses:?}");
    }
    let all = store.runs(RunFilter { limit: 50, ..RunFilter::default() }).await.unwrap();
    assert!(all.len() == 13 && ids(&all).is_sorted_by(|a, b| a > b));
    let unknown = RunFilter { thread_id: Some(ThreadId::generate()), ..page(0, 5) };
    assert_eq!(store.runs(unknown).await.unwrap(), []);
    for limit in [0, PAGE_ROWS_MAX + 1] {
        assert!(matches!(store.runs(page(0, limit)).await, Err(Error::InvalidRequest { .. })), "{limit}");
    }
}

pub async fn the_request_of_a_run_is_stored_in_its_own_row(store: SharedStore) {
    let thread_id = create(&*store).await;
    let (with_request, without_request) = (queued_run(thread_id, 1), queued_run(thread_id, 2));
    let request = |text: &str| RunRequest {
        input: Some(json!({"messages": [{"role": "user", "content": text}]})),
        stream_mode: vec!["values".to_owned()],
        metadata: json!({"note": text}).as_object().cloned().unwrap(),
        ..RunRequest::default()
    };
    let put = |run: &Run, thread_id, text: &str| Write::PutRunRequest {
        run_id: run.run_id,
        thread_id,
        request: Box::new(request(text)),
    };
    // The position of the request within the transaction is irrelevant.
    commit(&*store, vec![put(&with_request, thread_id, "one"), Write::QueueRun(with_request.clone())])
        .await
        .unwrap();
    commit(&*store, vec![Write::QueueRun(without_request.clone())]).await.unwrap();
    let read_requests = || store.run_requests(&[]);
    assert_eq!(read_requests().await.unwrap(), []);
    let run_ids = [without_request.run_id, with_request.run_id, RunId::generate()];
    assert_eq!(store.run_requests(&run_ids).await.unwrap(), [(with_request.run_id, request("one"))]);
    for text in ["one", "two"] {
        commit(&*store, vec![put(&with_request, thread_id, text)]).await.unwrap();
        assert_eq!(store.run_requests(&run_ids).await.unwrap(), [(with_request.run_id, request(text))]);
    }
    commit(&*store, vec![put(&without_request, thread_id, "three")]).await.unwrap();
    let both = [(without_request.run_id, request("three")), (with_request.run_id, request("two"))];
    assert_eq!(store.run_requests(&run_ids).await.unwrap(), both);
    let noted = both.map(|(run_id, request)| (run_id, request.metadata));
    assert_eq!(store.run_metadata(&run_ids).await.unwrap(), noted);
    let too_many = vec![with_request.run_id; PAGE_ROWS_MAX + 1];
    assert!(matches!(store.run_requests(&too_many).await, Err(Error::InvalidRequest { .. })));
    let other = create(&*store).await;
    for refused in [put(&with_request, other, "x"), put(&queued_run(thread_id, 3), thread_id, "x")] {
        let refused = commit(&*store, vec![refused]).await;
        assert!(matches!(refused, Err(Error::UnknownRun { .. })), "{refused:?}");
    }
}

pub async fn deleting_a_run_keeps_its_events(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let (run_id, thread_id) = (run.run_id, run.thread_id);
    let request = Write::PutRunRequest { run_id, thread_id, request: Box::default() };
    append(&*store, thread_id, vec![human("hello").with_run(run_id)]).await.unwrap();
    let thumb = Write::PutFeedback(feedback(&run, Rating::Up, 1));
    commit(&*store, vec![request, thumb]).await.unwrap();
    let forget = || vec![Write::DeleteRun { run_id }];
    let busy = commit(&*store, forget()).await;
    assert!(matches!(busy, Err(Error::Busy { run_id: by, .. }) if by == run_id), "{busy:?}");
    commit(&*store, vec![end_run_write(run_id, RunStatus::Cancelled)]).await.unwrap();
    commit(&*store, forget()).await.unwrap();
    assert_eq!(store.run(run_id).await.unwrap(), None);
    assert_eq!(store.run_requests(&[run_id]).await.unwrap(), []);
    assert_eq!(store.newest_run(thread_id).await.unwrap(), None);
    let user_id = protocol::RunFeedback::LOCAL_USER;
    assert_eq!(store.feedback(thread_id, &[run_id], user_id).await.unwrap(), []);
    let remaining = all_events(&*store, thread_id, &[]).await;
    assert_eq!(remaining.iter().map(|event| event.run_id).collect::<Vec<_>>(), [Some(run_id)]);
    let again = commit(&*store, forget()).await;
    assert!(matches!(again, Err(Error::NotFound { what: "run", .. })), "{again:?}");
    let problems = store.health(journal::HealthCheckDepth::Integrity).await.unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
}

pub async fn j1_a_deleted_run_cannot_be_admitted_again(store: SharedStore) {
    let queued = queued_run(create(&*store).await, 1);
    let run_id = queued.run_id;
    commit(&*store, vec![Write::QueueRun(queued.clone())]).await.unwrap();
    let as_new = commit(&*store, vec![Write::AdmitRun(started_run(&queued, "one"))]).await;
    assert!(matches!(as_new, Err(Error::Conflict { what: "run", .. })), "the run is queued: {as_new:?}");
    let stopped = Run { status: RunStatus::Cancelled, ..queued.clone() };
    commit(&*store, vec![Write::BeginRun(stopped.clone())]).await.unwrap();
    commit(&*store, vec![Write::DeleteRun { run_id }]).await.unwrap();
    for late in [stopped, started_run(&queued, "two")] {
        let late = commit(&*store, vec![Write::BeginRun(late)]).await;
        assert!(matches!(late, Err(Error::NotFound { what: "run", .. })), "{late:?}");
    }
    assert_eq!((store.run(run_id).await.unwrap(), store.active_runs(None).await.unwrap()), (None, vec![]));
}

/// The status does not depend on writes during the run or on the order in which runs ended.
pub async fn a_settled_thread_gets_its_status_from_the_newest_checkpoint(store: SharedStore) {
    let end = |run_id, status| vec![end_run_write(run_id, status)];
    let settled_status = async |with: Vec<Write>, next: Option<&str>, status| {
        let run = create_run(&*store, "one").await;
        let thread_id = run.thread_id;
        let busy = ThreadPatch { status: Some(ThreadStatus::Busy), ..ThreadPatch::default() };
        let busy = Write::UpdateThread { thread_id, patch: busy };
        let settle = || Write::SettleThread { thread_id };
        let point = Checkpoint { next: next.map(str::to_owned), ..checkpoint(&run, 0) };
        commit(&*store, vec![busy, Write::PutCheckpoint(point), settle()]).await.unwrap();
        let status_now = async || store.thread(thread_id).await.unwrap().unwrap().status;
        assert_eq!(status_now().await, ThreadStatus::Busy, "a run is active");
        let queued = queued_run(thread_id, 1);
        let mut writes = vec![Write::QueueRun(queued.clone())];
        writes.extend(end(run.run_id, status));
        writes.extend(with.into_iter().map(|write| match write {
            Write::RaiseInterrupt(pending_interrupt) => {
                Write::RaiseInterrupt(Interrupt { thread_id, ..pending_interrupt })
            }
            other => other,
        }));
        writes.push(settle());
        commit(&*store, writes).await.unwrap();
        assert_eq!(status_now().await, ThreadStatus::Busy, "a run is queued");
        let stopped = Run { status: RunStatus::Cancelled, ..queued };
        commit(&*store, vec![Write::BeginRun(stopped), settle(), settle()]).await.unwrap();
        status_now().await
    };
    let pending_interrupt =
        || vec![Write::RaiseInterrupt(interrupt(&run(ThreadId::generate(), "one"), "tools", 1))];
    for (with, next, status, expected) in [
        (vec![], None, RunStatus::Success, ThreadStatus::Idle),
        (vec![], None, RunStatus::Error, ThreadStatus::Error),
        (vec![], Some("model"), RunStatus::Timeout, ThreadStatus::Error),
        (vec![], Some("model"), RunStatus::Cancelled, ThreadStatus::Interrupted),
        (pending_interrupt(), None, RunStatus::Error, ThreadStatus::Interrupted),
        (pending_interrupt(), Some("tools"), RunStatus::Interrupted, ThreadStatus::Interrupted),
    ] {
        assert_eq!(settled_status(with, next, status).await, expected, "{next:?} {status:?}");
    }
    let idle = create(&*store).await;
    commit(&*store, vec![Write::SettleThread { thread_id: idle }]).await.unwrap();
    assert_eq!(store.thread(idle).await.unwrap().unwrap().status, ThreadStatus::Idle);
}

pub async fn a_decision_of_an_interrupt_that_is_not_pending_is_refused(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let raised = interrupt(&run, "tools", 1);
    let interrupt_id = raised.interrupt_id;
    commit(&*store, vec![Write::RaiseInterrupt(raised)]).await.unwrap();
    commit(&*store, vec![Write::ExpectPendingInterrupt { interrupt_id }]).await.unwrap();
    let withdrawn = Write::ResolveInterrupt { interrupt_id, decisions: None, at: at(2) };
    let refused = commit(&*store, vec![withdrawn, Write::ExpectPendingInterrupt { interrupt_id }]).await;
    assert!(
        matches!(refused, Err(Error::AlreadyDecided { interrupt_id: decided }) if decided == interrupt_id),
        "{refused:?}"
    );
    assert_eq!(store.pending_interrupts(run.thread_id).await.unwrap().len(), 1, "nothing was written");
}

pub async fn j2_a_replica_without_a_heartbeat_for_a_day_is_removed(store: SharedStore) {
    const DAY: i64 = 86_400;
    let send_heartbeat = async |owner: &str, second: i64| {
        let replica =
            Replica { owner: owner.to_owned(), machine: "here".to_owned(), alive_until: at(second + 30) };
        commit(&*store, vec![Write::RecordHeartbeat { replica, now: at(second) }]).await.unwrap();
        let known = store.replicas().await.unwrap();
        known.into_iter().map(|replica| replica.owner).collect::<Vec<_>>()
    };
    send_heartbeat("killed", 0).await;
    assert_eq!(send_heartbeat("living", DAY + 30).await, ["killed", "living"]);
    assert_eq!(send_heartbeat("living", DAY + 31).await, ["living"]);
    assert_eq!(send_heartbeat("killed", 2 * DAY).await, ["killed", "living"], "the replica was suspended");
}

pub async fn h3_deleting_a_thread_deletes_its_queued_runs(store: SharedStore) {
    let queued = queued_run(create(&*store).await, 1);
    let (run_id, thread_id) = (queued.run_id, queued.thread_id);
    let request = Write::PutRunRequest { run_id, thread_id, request: Box::default() };
    commit(&*store, vec![Write::QueueRun(queued), request]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    assert_eq!((store.run(run_id).await.unwrap(), store.queued_runs(None).await.unwrap()), (None, vec![]));
    assert_eq!(store.run_requests(&[run_id]).await.unwrap(), []);
    let problems = store.health(journal::HealthCheckDepth::Integrity).await.unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
}
