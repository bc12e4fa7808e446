//! Tests of several servers on one home folder: the work of a dead server is done exactly once, and data of a live one is left
//! alone.

use std::sync::Arc;
use std::time::Duration;

use protocol::{MultitaskStrategy, RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, IfNotExists, NewRun, Scheduler, SchedulerLimits, WebhookTargetPolicy};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, answering_model, drop_scheduler, end_statuses, gated_model, join,
    new_run_on, read_to_end, run_row, submit_message, transcript_lines, user_request, wait_for_first_step,
    wait_until_idle, wait_until_running,
};
use crate::webhooks::{GRACE, WebhookServer, reopen_scheduler};

/// Shuts a server down without grace and drops it, so that its process counts as dead.
async fn kill_scheduler(scheduler: Arc<Scheduler>) {
    scheduler.shutdown(Duration::ZERO).await;
    drop_scheduler(scheduler).await;
}

#[tokio::test]
async fn j8_the_runs_of_a_dead_server_are_executed_and_delivered_once_by_two_live_servers() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), gated_model("slow"), WebhookServer::start().await);
    fixture.configure(&server);
    let limits = SchedulerLimits {
        runs_max: 1,
        webhook_targets: WebhookTargetPolicy::Any,
        ..SchedulerLimits::default()
    };
    let first = fixture.new_scheduler(limits);
    let threads: Vec<ThreadId> = (0..5).map(|_| ThreadId::generate()).collect();
    let mut runs = Vec::new();
    for thread in &threads {
        let request = RunRequest { temporary: true, ..receiver.request_with_webhook("slow") };
        runs.push(first.create_run(&LOCAL, new_run_on(*thread, request)).await.unwrap().run);
    }
    assert_eq!(runs.iter().filter(|run| run.status == RunStatus::Pending).count(), 4);
    kill_scheduler(first).await;

    let servers = [reopen_scheduler(&fixture), reopen_scheduler(&fixture)];
    let (left, right) = tokio::join!(servers[0].recover(), servers[1].recover());
    assert!(left.unwrap().queued + right.unwrap().queued >= 4);
    for run in &runs {
        wait_until_running(&servers[0], run.run_id).await;
    }
    // A server that loses the race for a run notices it and delivers nothing.
    for server in &servers {
        while server.metrics().queued > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(receiver.requests.try_recv().is_err(), "the runs are still active");
    server.open_gate(GATE);
    let mut delivered = Vec::new();
    for _ in &runs {
        let request = receiver.requests.recv().await.unwrap();
        assert_eq!(request["status"], "success");
        delivered.push(request["run_id"].as_str().unwrap().to_owned());
    }
    for server in &servers {
        wait_until_idle(server).await;
    }
    for server in servers {
        server.shutdown(GRACE).await;
    }
    assert!(receiver.requests.try_recv().is_err(), "each webhook is delivered once");
    delivered.sort();
    let mut expected: Vec<String> = runs.iter().map(|run| run.run_id.to_string()).collect();
    expected.sort();
    assert_eq!(delivered, expected);
}

#[tokio::test]
async fn pending_webhooks_of_a_dead_server_are_delivered_once_by_two_live_servers() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), answering_model("yes"), WebhookServer::start().await);
    fixture.configure(&server);
    let first = fixture.new_scheduler(SchedulerLimits {
        webhook_targets: WebhookTargetPolicy::Any,
        ..SchedulerLimits::default()
    });
    for _ in 0..5 {
        let created = first
            .create_run(&LOCAL, new_run_on(ThreadId::generate(), receiver.request_with_webhook("hello")))
            .await
            .unwrap();
        join(&first, &created).await;
    }
    kill_scheduler(first).await;
    let servers = [reopen_scheduler(&fixture), reopen_scheduler(&fixture)];
    for _ in 0..5 {
        receiver.requests.recv().await.unwrap();
    }
    for server in servers {
        server.recover().await.unwrap();
        server.shutdown(GRACE).await;
    }
    assert!(receiver.requests.try_recv().is_err(), "each webhook is delivered once");
}

#[tokio::test]
async fn h8_a_temporary_thread_that_another_server_needs_is_kept() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let first = fixture.scheduler_with_model(&server);
    let request = RunRequest { temporary: true, stream_resumable: true, ..user_request("hello") };
    let new = NewRun { thread_id: None, request, if_not_exists: IfNotExists::Reject };
    let created = first.create_run(&LOCAL, new).await.unwrap();
    let thread = created.run.thread_id;
    join(&first, &created).await;
    drop(created);
    let second = fixture.new_scheduler(SchedulerLimits::default());
    second.recover().await.unwrap();
    // The cleanup in the background reads only a few rows, so this loop gives it enough time.
    let store = Arc::clone(second.agent(&LOCAL).store());
    for _ in 0..2_000 {
        assert!(store.thread(thread).await.unwrap().is_some(), "a reader may reconnect to the first server");
    }
}

#[tokio::test]
async fn i5_a_run_queued_on_another_server_is_cancelled_there_at_its_next_scan() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    let slow = submit_message(&remote, thread, "slow").await;
    let mut queued = submit_message(&remote, thread, "behind").await;
    local.cancel_run(&LOCAL, thread, queued.run.run_id, CancelAction::Interrupt).await.unwrap();
    remote.recover().await.unwrap();
    assert_eq!(end_statuses(&read_to_end(&mut queued.reader).await), [RunStatus::Cancelled]);
    assert_eq!(remote.metrics().queued, 0);
    server.open_gate(GATE);
    assert_eq!(join(&remote, &slow).await.status, RunStatus::Success);
}

#[tokio::test]
async fn j4_a_run_that_rolls_back_undoes_the_active_run_of_another_server() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    join(&remote, &submit_message(&remote, thread, "first").await).await;
    let mut slow = submit_message(&remote, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    // Another run is queued on this server already.
    let queued = submit_message(&local, thread, "behind").await;
    let rollback = RunRequest { multitask_strategy: MultitaskStrategy::Rollback, ..user_request("instead") };
    let rollback = local.create_run(&LOCAL, new_run_on(thread, rollback)).await.unwrap();
    assert_eq!(join(&local, &rollback).await.status, RunStatus::Success);
    assert_eq!(join(&local, &queued).await.status, RunStatus::Success);
    assert!(run_row(&local, slow.run.run_id).await.is_none());
    assert_eq!(
        transcript_lines(&local, thread).await,
        ["U: first", "A: done", "U: instead", "A: done", "U: behind", "A: done"]
    );
}

#[tokio::test]
async fn j4_a_run_that_interrupts_stops_the_active_run_of_another_server() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    let mut slow = submit_message(&remote, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let urgent = RunRequest { multitask_strategy: MultitaskStrategy::Interrupt, ..user_request("urgent") };
    let urgent = local.create_run(&LOCAL, new_run_on(thread, urgent)).await.unwrap();
    assert_eq!(join(&remote, &slow).await.status, RunStatus::Cancelled);
    // The urgent request contains the first message, so it waits at the gate too.
    server.open_gate(GATE);
    assert_eq!(join(&local, &urgent).await.status, RunStatus::Success);
}
