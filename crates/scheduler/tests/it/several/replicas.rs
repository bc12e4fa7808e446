//! Tests of several live servers on one database: runs start in the order of their creation, whichever server accepted them, and
//! the runs of a server that stops are taken over by exactly one other server.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use journal::{Replica, Transaction, Write};
use protocol::{MultitaskStrategy, OwnerScope, RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, RecoveryReport, Scheduler, SchedulerLimits};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, drop_scheduler, end_statuses, gated_model, is_busy, join, new_run_on,
    read_to_end, run_row, run_status, submit_message, transcript_lines, user_request, wait_for_first_step,
    wait_until_idle,
};
use crate::webhooks::GRACE;

/// Returns a request with one message and that strategy for a busy thread.
fn request_with_strategy(strategy: MultitaskStrategy, text: &str) -> RunRequest {
    RunRequest { multitask_strategy: strategy, ..user_request(text) }
}

/// Returns the users' messages of a thread, in order.
async fn user_lines(scheduler: &Arc<Scheduler>, thread: ThreadId) -> Vec<String> {
    let lines = transcript_lines(scheduler, thread).await;
    lines.into_iter().filter_map(|line| line.strip_prefix("U: ").map(str::to_owned)).collect()
}

#[tokio::test]
async fn h5_runs_of_a_thread_start_in_the_order_of_their_creation_whichever_server_accepted_them() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let servers = [
        fixture.scheduler_with_model(&server),
        fixture.scheduler_with_model(&server),
        fixture.scheduler_with_model(&server),
    ];
    let thread = ThreadId::generate();
    let mut slow = submit_message(&servers[0], thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let mut runs = Vec::new();
    for number in 1..=9 {
        let scheduler = &servers[number % 3];
        runs.push((scheduler, submit_message(scheduler, thread, &format!("number {number}")).await));
    }
    server.open_gate(GATE);
    for (scheduler, created) in &runs {
        assert_eq!(join(scheduler, created).await.status, RunStatus::Success);
    }
    let expected: Vec<String> =
        ["slow".to_owned()].into_iter().chain((1..=9).map(|number| format!("number {number}"))).collect();
    assert_eq!(user_lines(&servers[1], thread).await, expected);
}

#[tokio::test]
async fn h5_a_run_that_displaces_the_active_one_starts_before_runs_queued_on_another_server() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    let mut slow = submit_message(&remote, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let later = submit_message(&remote, thread, "behind").await;
    let urgent = local
        .create_run(&LOCAL, new_run_on(thread, request_with_strategy(MultitaskStrategy::Interrupt, "urgent")))
        .await
        .unwrap();
    assert_eq!(end_statuses(&read_to_end(&mut slow.reader).await), [RunStatus::Cancelled]);
    server.open_gate(GATE);
    for (scheduler, created) in [(&remote, &later), (&local, &urgent)] {
        assert_eq!(join(scheduler, created).await.status, RunStatus::Success);
    }
    assert_eq!(run_status(&local, &slow).await, Some(RunStatus::Cancelled));
    assert_eq!(user_lines(&local, thread).await, ["slow", "urgent", "behind"]);
}

#[tokio::test]
async fn h5_a_run_with_the_strategy_reject_is_refused_while_a_run_is_queued_on_another_server() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let remote = fixture.new_scheduler(SchedulerLimits { runs_max: 1, ..SchedulerLimits::default() });
    let local = fixture.new_scheduler(SchedulerLimits::default());
    let slow = submit_message(&remote, ThreadId::generate(), "slow").await;
    let thread = ThreadId::generate();
    let queued = submit_message(&remote, thread, "waits").await;
    assert_eq!(queued.run.status, RunStatus::Pending, "the server has reached its limit of active runs");
    assert!(is_busy(
        &local
            .create_run(&LOCAL, new_run_on(thread, request_with_strategy(MultitaskStrategy::Reject, "now")))
            .await
    ));
    let later = submit_message(&local, thread, "behind").await;
    server.open_gate(GATE);
    for (scheduler, created) in [(&remote, &slow), (&remote, &queued), (&local, &later)] {
        assert_eq!(join(scheduler, created).await.status, RunStatus::Success);
    }
    assert_eq!(user_lines(&local, thread).await, ["waits", "behind"]);
}

#[tokio::test]
async fn j3_each_run_of_a_dead_server_is_taken_over_by_one_live_server() {
    const RUNS: usize = 20;
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let remote = fixture.scheduler_with_model(&server);
    let mut threads = Vec::new();
    for _ in 0..RUNS {
        let thread = ThreadId::generate();
        let mut slow = submit_message(&remote, thread, "slow").await;
        wait_for_first_step(&mut slow.reader).await;
        let queued = submit_message(&remote, thread, "waits").await;
        threads.push((thread, slow.run.run_id, queued.run.run_id));
    }
    remote.shutdown(Duration::ZERO).await;
    drop_scheduler(remote).await;
    let servers = [(); 3].map(|()| fixture.new_scheduler(SchedulerLimits::default()));
    let reports = futures::future::join_all(servers.iter().map(|server| server.recover())).await;
    assert!(reports.iter().all(Result::is_ok), "{reports:?}");
    server.open_gate(GATE);
    for (thread, slow, queued) in &threads {
        for run_id in [slow, queued] {
            let run = servers[0].join_run(&LOCAL, *thread, *run_id).await.unwrap();
            assert_eq!(run.status, RunStatus::Success, "{run:?}");
        }
        assert_eq!(
            transcript_lines(&servers[0], *thread).await,
            ["U: slow", "A: late", "U: waits", "A: late"]
        );
    }
    let metrics = servers.each_ref().map(|server| server.metrics());
    assert_eq!(metrics.iter().map(|metrics| metrics.taken_over).sum::<usize>(), RUNS, "{metrics:?}");
    assert_eq!(metrics.iter().map(|metrics| metrics.lost_runs).sum::<usize>(), 0, "{metrics:?}");
}

#[tokio::test]
async fn j5_a_server_that_shuts_down_passes_its_runs_to_a_live_server_at_once() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    local.recover().await.unwrap();
    let thread = ThreadId::generate();
    let mut slow = submit_message(&remote, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let queued = submit_message(&remote, thread, "waits").await;
    // The first server is still alive, and its leases would last for a long time.
    remote.shutdown(Duration::ZERO).await;
    server.open_gate(GATE);
    // A run that was stopped in the middle of a step waits for the end of its lease, unless its process has exited.
    drop_scheduler(remote).await;
    for created in [&slow, &queued] {
        assert_eq!(join(&local, created).await.status, RunStatus::Success);
    }
    assert_eq!(transcript_lines(&local, thread).await, ["U: slow", "A: late", "U: waits", "A: late"]);
}

#[tokio::test]
async fn j5_runs_queued_on_a_server_that_shuts_down_start_on_another_before_the_first_has_stopped() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let remote = fixture.new_scheduler(SchedulerLimits { runs_max: 1, ..SchedulerLimits::default() });
    let local = fixture.new_scheduler(SchedulerLimits::default());
    local.recover().await.unwrap();
    let mut slow = submit_message(&remote, ThreadId::generate(), "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let queued = submit_message(&remote, ThreadId::generate(), "waits").await;
    let shutdown = tokio::spawn({
        let remote = Arc::clone(&remote);
        async move { remote.shutdown(GRACE).await }
    });
    assert_eq!(join(&local, &queued).await.status, RunStatus::Success);
    assert_eq!(
        run_status(&local, &slow).await,
        Some(RunStatus::Running),
        "the run is in the middle of a step"
    );
    server.open_gate(GATE);
    shutdown.await.unwrap();
    drop((slow, queued));
    drop_scheduler(remote).await;
    wait_until_idle(&local).await;
}

#[tokio::test]
async fn j4_all_servers_that_cancel_one_run_get_a_response() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let servers = [
        fixture.scheduler_with_model(&server),
        fixture.scheduler_with_model(&server),
        fixture.scheduler_with_model(&server),
    ];
    let thread = ThreadId::generate();
    let mut slow = submit_message(&servers[0], thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    // Each server reads once before the cancellation. Otherwise the run could end while a server is still connecting.
    for scheduler in &servers {
        assert_eq!(run_status(scheduler, &slow).await, Some(RunStatus::Running));
    }
    let stop = |scheduler: &Arc<Scheduler>| {
        let scheduler = Arc::clone(scheduler);
        let run_id = slow.run.run_id;
        async move { scheduler.cancel_run(&LOCAL, thread, run_id, CancelAction::Interrupt).await }
    };
    for result in futures::future::join_all(servers.iter().map(stop)).await {
        result.unwrap();
    }
    assert_eq!(end_statuses(&read_to_end(&mut slow.reader).await), [RunStatus::Cancelled]);
    assert_eq!(run_row(&servers[2], slow.run.run_id).await.unwrap().status, RunStatus::Cancelled);
}

#[tokio::test]
async fn j2_a_server_with_a_late_heartbeat_does_not_take_over_its_own_runs() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let scheduler = fixture.scheduler_with_model(&server);
    let thread = ThreadId::generate();
    let mut slow = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let mut later = submit_message(&scheduler, thread, "behind").await;
    let agent = scheduler.agent(&OwnerScope::Everyone);
    let store = agent.store();
    let replica = store.replicas().await.unwrap().pop().unwrap();
    let now = replica.alive_until;
    let late = Replica { alive_until: Timestamp::UNIX_EPOCH, ..replica };
    store
        .commit(Transaction { fence: None, writes: vec![Write::RecordHeartbeat { replica: late, now }] })
        .await
        .unwrap();
    let empty_report = RecoveryReport::default();
    assert_eq!(scheduler.recover().await.unwrap(), empty_report);
    server.open_gate(GATE);
    for created in [&mut slow, &mut later] {
        assert_eq!(end_statuses(&read_to_end(&mut created.reader).await), [RunStatus::Success]);
    }
}
