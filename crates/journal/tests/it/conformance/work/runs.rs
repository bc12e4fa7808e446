//! Runs: admission, leases, checkpoints, interrupts.

use std::sync::Arc;

use journal::{Error, FencingToken, RunPatch, SupersededVisibility, Transaction, Write};
use protocol::{Decision, Decisions, InterruptStatus, PendingActivity, RunId, RunStatus, ThreadId, Usage};
use serde_json::json;

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    all_events, at, checkpoint, commit, create, create_run, interrupt, run, trace_event,
};

fn end_run_write(run_id: RunId, status: RunStatus) -> Write {
    Write::UpdateRun {
        run_id,
        patch: RunPatch { status: Some(status), at: Some(at(5)), ..RunPatch::default() },
    }
}

fn approval() -> Decisions {
    Decisions { decisions: vec![Decision::Approve { args: None, summary_sha256: None }] }
}

pub async fn j1_a_thread_has_one_active_run(store: SharedStore) {
    let first = create_run(&*store, "one").await;
    // An admission that is repeated because its response was lost is not a conflict. Neither is a run of another thread.
    commit(&*store, vec![Write::AdmitRun(first.clone())]).await.unwrap();
    create_run(&*store, "one").await;
    let second = run(first.thread_id, "two");
    for _ in 0..2 {
        let refused = commit(&*store, vec![Write::AdmitRun(second.clone())]).await;
        assert!(matches!(refused, Err(Error::Busy { run_id, .. }) if run_id == first.run_id), "{refused:?}");
    }
    assert_eq!(store.active_runs(Some(first.thread_id)).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(store.active_runs(None).await.unwrap().len(), 2);
    commit(&*store, vec![end_run_write(first.run_id, RunStatus::Interrupted)]).await.unwrap();
    commit(&*store, vec![Write::AdmitRun(second.clone())]).await.unwrap();
    assert_eq!(store.newest_run(first.thread_id).await.unwrap(), Some(second.run_id));
    assert_eq!(store.newest_run(protocol::ThreadId::generate()).await.unwrap(), None);
    assert_eq!(store.active_runs(Some(first.thread_id)).await.unwrap(), [second]);
}

pub async fn j1_of_concurrent_admissions_one_wins(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut tasks = Vec::new();
    for number in 0..20 {
        let store = Arc::clone(&store);
        let run = run(thread_id, &number.to_string());
        tasks.push(tokio::spawn(async move { commit(&*store, vec![Write::AdmitRun(run)]).await.is_ok() }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += u32::from(task.await.unwrap());
    }
    assert_eq!((admitted, store.active_runs(Some(thread_id)).await.unwrap().len()), (1, 1));
}

pub async fn j3_a_lost_lease_writes_nothing(store: SharedStore) {
    let run = create_run(&*store, "old").await;
    let append_as = |owner: &str| Transaction {
        fence: Some(FencingToken { run_id: run.run_id, owner: owner.to_owned() }),
        writes: vec![Write::Append { thread_id: run.thread_id, events: vec![trace_event(0)] }],
    };
    store.commit(append_as("old")).await.unwrap();
    let reclaim =
        Write::ReclaimRun { run_id: run.run_id, owner: "new".to_owned(), now: at(61), lease_until: at(121) };
    commit(&*store, vec![reclaim]).await.unwrap();
    let fenced = store.commit(append_as("old")).await;
    assert!(matches!(&fenced, Err(Error::Fenced { owner, .. }) if owner == "new"), "{fenced:?}");
    store.commit(append_as("new")).await.unwrap();
    commit(&*store, vec![end_run_write(run.run_id, RunStatus::Cancelled)]).await.unwrap();
    let over = store.commit(append_as("new")).await;
    assert!(matches!(over, Err(Error::Fenced { status: RunStatus::Cancelled, .. })), "{over:?}");
    assert_eq!(all_events(&*store, run.thread_id, &[]).await.len(), 2);
    let unknown = FencingToken { run_id: RunId::generate(), owner: "new".to_owned() };
    let unknown = store.commit(Transaction { fence: Some(unknown), writes: Vec::new() }).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "run", .. })), "{unknown:?}");
}

pub async fn j3_only_an_ended_lease_is_reclaimed(store: SharedStore) {
    let run = create_run(&*store, "old").await;
    let reclaim = |second| Write::ReclaimRun {
        run_id: run.run_id,
        owner: "new".to_owned(),
        now: at(second),
        lease_until: at(second + 60),
    };
    for second in [0, 59, 60] {
        let refused = commit(&*store, vec![reclaim(second)]).await;
        assert!(matches!(refused, Err(Error::Fenced { .. })), "{second}");
    }
    let renewed = RunPatch { lease_until: Some(at(80)), ..RunPatch::default() };
    commit(&*store, vec![Write::UpdateRun { run_id: run.run_id, patch: renewed }]).await.unwrap();
    assert!(commit(&*store, vec![reclaim(70)]).await.is_err());
    commit(&*store, vec![reclaim(81)]).await.unwrap();
    let stored = store.run(run.run_id).await.unwrap().unwrap();
    assert_eq!((stored.lease_owner.as_deref(), stored.lease_until), (Some("new"), Some(at(141))));
    commit(&*store, vec![end_run_write(run.run_id, RunStatus::Error)]).await.unwrap();
    assert!(commit(&*store, vec![reclaim(1_000)]).await.is_err(), "an ended run cannot be reclaimed");
}

pub async fn the_first_terminal_status_stays(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let patch = RunPatch {
        status: Some(RunStatus::Cancelled),
        failure: Some(protocol::RunFailure::new(protocol::FailureKind::Cancelled, "stopped")),
        at: Some(at(5)),
        ..RunPatch::default()
    };
    commit(&*store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
    let expected = protocol::Run {
        status: RunStatus::Cancelled,
        failure: Some(protocol::RunFailure::new(protocol::FailureKind::Cancelled, "stopped")),
        lease_owner: None,
        lease_until: None,
        updated_at: at(5),
        ..run.clone()
    };
    assert_eq!(store.run(run.run_id).await.unwrap(), Some(expected.clone()));
    let renewal = RunPatch { lease_until: Some(at(99)), ..RunPatch::default() };
    for late in [
        end_run_write(run.run_id, RunStatus::Success),
        end_run_write(run.run_id, RunStatus::Running),
        Write::UpdateRun { run_id: run.run_id, patch: renewal },
    ] {
        let refused = commit(&*store, vec![late]).await;
        assert!(matches!(refused, Err(Error::Fenced { status: RunStatus::Cancelled, .. })), "{refused:?}");
    }
    commit(&*store, vec![end_run_write(run.run_id, RunStatus::Cancelled)]).await.unwrap();
    assert_eq!(store.run(run.run_id).await.unwrap(), Some(expected));
    let unknown = commit(&*store, vec![end_run_write(RunId::generate(), RunStatus::Success)]).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}

pub async fn usage_adds_up(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let usage = Usage { input_tokens: 10, output_tokens: 3, cache_read_tokens: 4, cache_write_tokens: 1 };
    for _ in 0..3 {
        let patch = RunPatch { add_usage: Some(usage), ..RunPatch::default() };
        commit(&*store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
    }
    let expected = Usage { input_tokens: 30, output_tokens: 9, cache_read_tokens: 12, cache_write_tokens: 3 };
    assert_eq!(store.run(run.run_id).await.unwrap().unwrap().usage, expected);
}

pub async fn a_checkpoint_knows_the_last_seq(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    assert_eq!(store.checkpoint(run.thread_id).await.unwrap(), None);
    let thread = store.thread(run.thread_id).await.unwrap().unwrap();
    assert_eq!(store.thread_with_checkpoint(run.thread_id).await.unwrap(), Some((thread, None)));
    assert_eq!(store.thread_with_checkpoint(ThreadId::generate()).await.unwrap(), None);
    let point = checkpoint(&run, 0);
    let appended = |number| Write::Append { thread_id: run.thread_id, events: vec![trace_event(number)] };
    let first = checkpoint(&run, 0);
    let writes = vec![
        appended(0),
        Write::PutCheckpoint(first.clone()),
        appended(1),
        Write::PutCheckpoint(point.clone()),
        appended(2),
    ];
    commit(&*store, writes).await.unwrap();
    let stored = store.checkpoint(run.thread_id).await.unwrap();
    assert_eq!(stored, Some(protocol::Checkpoint { head_seq: 2, ..point.clone() }));
    let points = store.checkpoints(run.thread_id, None, 9, SupersededVisibility::Hidden).await.unwrap();
    let points: Vec<_> = points.iter().map(|point| (point.checkpoint_id, point.head_seq)).collect();
    let expected = [(point.checkpoint_id, 2), (first.checkpoint_id, 1)];
    assert_eq!(points, expected, "each point follows the events appended before it");
    let next = protocol::Checkpoint { next: None, ..checkpoint(&run, 1) };
    for _ in 0..2 {
        commit(&*store, vec![Write::PutCheckpoint(next.clone())]).await.unwrap();
    }
    let stored = store.checkpoint(run.thread_id).await.unwrap();
    assert_eq!(stored, Some(protocol::Checkpoint { head_seq: 3, ..next }));
    let thread = store.thread(run.thread_id).await.unwrap().unwrap();
    assert_eq!(store.thread_with_checkpoint(run.thread_id).await.unwrap(), Some((thread, stored)));
}

pub async fn unfinished_activities_are_found(store: SharedStore) {
    let activity = PendingActivity { name: "accept_handoff".to_owned(), args: json!({"n": 1}) };
    let (one, two) = (create_run(&*store, "one").await, create_run(&*store, "two").await);
    let unfinished = protocol::Checkpoint { activities: vec![activity], ..checkpoint(&one, 1) };
    let writes = [unfinished.clone(), checkpoint(&two, 1)].map(Write::PutCheckpoint);
    commit(&*store, writes.to_vec()).await.unwrap();
    assert_eq!(store.unfinished_checkpoints().await.unwrap(), std::slice::from_ref(&unfinished));
    commit(&*store, vec![Write::PutCheckpoint(checkpoint(&one, 2))]).await.unwrap();
    assert!(store.unfinished_checkpoints().await.unwrap().is_empty());
}

pub async fn j7_pending_interrupts_are_listed_in_order(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let (late, early) = (interrupt(&run, "late", 2), interrupt(&run, "early", 1));
    let writes = [&late, &early, &late].map(|interrupt| Write::RaiseInterrupt(interrupt.clone()));
    commit(&*store, writes.to_vec()).await.unwrap();
    assert_eq!(store.pending_interrupts(run.thread_id).await.unwrap(), [early.clone(), late.clone()]);
    assert_eq!(store.last_decided_interrupt(run.thread_id).await.unwrap(), None);
    assert_eq!(store.interrupt(late.interrupt_id).await.unwrap(), Some(late.clone()));
    let withdraw = Write::ResolveInterrupt { interrupt_id: early.interrupt_id, decisions: None, at: at(3) };
    commit(&*store, vec![withdraw]).await.unwrap();
    assert_eq!(store.pending_interrupts(run.thread_id).await.unwrap(), [late]);
    let stored = store.interrupt(early.interrupt_id).await.unwrap().unwrap();
    assert_eq!((stored.status, stored.resolved_at), (InterruptStatus::Withdrawn, Some(at(3))));
    assert_eq!(store.last_decided_interrupt(run.thread_id).await.unwrap(), Some(stored));
    // Raising an interrupt again, as a replayed step does, adds no second interrupt.
    commit(&*store, vec![Write::RaiseInterrupt(early.clone())]).await.unwrap();
    assert_eq!(
        store.interrupt(early.interrupt_id).await.unwrap().unwrap().status,
        InterruptStatus::Withdrawn
    );
}

pub async fn g20_the_first_decision_wins(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let raised = interrupt(&run, "approval", 1);
    commit(&*store, vec![Write::RaiseInterrupt(raised.clone())]).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..10 {
        let store = Arc::clone(&store);
        let decisions = match number % 2 {
            0 => approval(),
            _ => Decisions { decisions: vec![Decision::Reject { message: Some(number.to_string()) }] },
        };
        let resolve = Write::ResolveInterrupt {
            interrupt_id: raised.interrupt_id,
            decisions: Some(decisions.clone()),
            at: at(number),
        };
        tasks.push(tokio::spawn(async move { (commit(&*store, vec![resolve]).await, decisions) }));
    }
    let mut winners = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            (Ok(_), decisions) => winners.push(decisions),
            (Err(Error::AlreadyDecided { .. }), _) => {}
            (Err(other), _) => panic!("{other:?}"),
        }
    }
    let stored = store.interrupt(raised.interrupt_id).await.unwrap().unwrap();
    assert_eq!((winners.len(), stored.status), (1, InterruptStatus::Resolved));
    assert_eq!(stored.decisions, winners.pop());
    let unknown = Write::ResolveInterrupt {
        interrupt_id: interrupt(&run, "unknown", 1).interrupt_id,
        decisions: None,
        at: at(0),
    };
    assert!(matches!(commit(&*store, vec![unknown]).await, Err(Error::NotFound { .. })));
}
