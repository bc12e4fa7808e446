//! Tests of cancelling queued, active, ended and foreign runs: once, twice, and because their client disconnected.

use std::sync::Arc;

use protocol::{DisconnectMode, EventType, RunId, RunRequest, RunStatus, ThreadId, ThreadStatus};
use scheduler::{CancelAction, CreatedRun, Error, Scheduler};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, alice, answering_model, end_statuses, events, gated_model, join,
    new_run_on, read_to_end, run_row, run_status, submit_message, transcript_lines, user_request,
    wait_for_first_step, wait_until_idle,
};

/// Cancels a run and waits until it has stopped.
async fn cancel_created(
    scheduler: &Arc<Scheduler>,
    created: &CreatedRun,
    action: CancelAction,
) -> scheduler::Result<()> {
    scheduler.cancel_run(&LOCAL, created.run.thread_id, created.run.run_id, action).await
}

/// Returns the status of a thread.
async fn thread_status(scheduler: &Arc<Scheduler>, thread_id: ThreadId) -> ThreadStatus {
    scheduler.agent(&LOCAL).store().thread(thread_id).await.unwrap().unwrap().status
}

#[tokio::test]
async fn i5_an_active_run_has_stopped_when_the_call_returns_and_its_events_are_kept() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut active = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut active.reader).await;
    cancel_created(&scheduler, &active, CancelAction::Interrupt).await.unwrap();
    assert_eq!(run_status(&scheduler, &active).await, Some(RunStatus::Cancelled));
    assert_eq!(end_statuses(&read_to_end(&mut active.reader).await), [RunStatus::Cancelled]);
    wait_until_idle(&scheduler).await;
    assert_eq!(transcript_lines(&scheduler, thread).await[0], "U: slow");
    let second_result = cancel_created(&scheduler, &active, CancelAction::Interrupt).await;
    assert!(
        matches!(second_result, Err(Error::Ended { status: RunStatus::Cancelled, .. })),
        "{second_result:?}"
    );
}

#[tokio::test]
async fn i5_a_run_that_is_rolled_back_does_not_exist_any_more() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "first").await).await;
    let mut active = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut active.reader).await;
    cancel_created(&scheduler, &active, CancelAction::Rollback).await.unwrap();
    assert!(run_row(&scheduler, active.run.run_id).await.is_none());
    assert_eq!(transcript_lines(&scheduler, thread).await, ["U: first", "A: done"]);
    assert_eq!(thread_status(&scheduler, thread).await, ThreadStatus::Idle);
    let second_result = cancel_created(&scheduler, &active, CancelAction::Rollback).await;
    assert!(matches!(second_result, Err(Error::UnknownRun { .. })), "{second_result:?}");
}

#[tokio::test]
async fn i5_a_cancelled_queued_run_ends_without_having_started() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let active = submit_message(&scheduler, thread, "slow").await;
    let (mut interrupted, rolled_back) = (
        submit_message(&scheduler, thread, "second").await,
        submit_message(&scheduler, thread, "third").await,
    );
    let last = submit_message(&scheduler, thread, "fourth").await;
    cancel_created(&scheduler, &interrupted, CancelAction::Interrupt).await.unwrap();
    cancel_created(&scheduler, &rolled_back, CancelAction::Rollback).await.unwrap();
    assert_eq!(run_status(&scheduler, &interrupted).await, Some(RunStatus::Cancelled));
    assert_eq!(end_statuses(&read_to_end(&mut interrupted.reader).await), [RunStatus::Cancelled]);
    assert_eq!(run_status(&scheduler, &rolled_back).await, None);
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &active).await.status, RunStatus::Success);
    assert_eq!(join(&scheduler, &last).await.status, RunStatus::Success);
    assert_eq!(transcript_lines(&scheduler, thread).await, ["U: slow", "A: late", "U: fourth", "A: late"]);
    assert_eq!(thread_status(&scheduler, thread).await, ThreadStatus::Idle);
}

#[tokio::test]
async fn i5_two_callers_that_cancel_one_run_both_succeed() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut active = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut active.reader).await;
    let both = tokio::join!(
        cancel_created(&scheduler, &active, CancelAction::Interrupt),
        cancel_created(&scheduler, &active, CancelAction::Interrupt)
    );
    assert!(matches!(both, (Ok(()), Ok(()))), "{both:?}");
    assert_eq!(run_status(&scheduler, &active).await, Some(RunStatus::Cancelled));
}

#[tokio::test]
async fn i5_ended_and_unknown_runs_have_different_errors() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let done = submit_message(&scheduler, thread, "hello").await;
    join(&scheduler, &done).await;
    let run_id = done.run.run_id;
    let ended = cancel_created(&scheduler, &done, CancelAction::Interrupt).await;
    assert!(matches!(ended, Err(Error::Ended { status: RunStatus::Success, .. })), "{ended:?}");
    for (scope, thread_id, run_id) in [
        (LOCAL.clone(), thread, RunId::generate()),
        (LOCAL.clone(), ThreadId::generate(), run_id),
        (alice(), thread, run_id),
    ] {
        let unknown = scheduler.cancel_run(&scope, thread_id, run_id, CancelAction::Interrupt).await;
        assert!(matches!(unknown, Err(Error::UnknownRun { .. })), "{unknown:?}");
        let unknown = scheduler.join_run(&scope, thread_id, run_id).await;
        assert!(matches!(unknown, Err(Error::UnknownRun { .. })), "{unknown:?}");
    }
}

#[tokio::test]
async fn i5_a_disconnected_client_cancels_its_run_only_if_requested() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let scheduler = fixture.scheduler_with_model(&server);
    let cancelling = || RunRequest { on_disconnect: DisconnectMode::Cancel, ..user_request("slow") };
    let mut disconnected =
        scheduler.create_run(&LOCAL, new_run_on(ThreadId::generate(), cancelling())).await.unwrap();
    wait_for_first_step(&mut disconnected.reader).await;
    let detached =
        scheduler.create_run(&LOCAL, new_run_on(ThreadId::generate(), cancelling())).await.unwrap();
    let continuing = submit_message(&scheduler, ThreadId::generate(), "slow").await;
    let rejoined = submit_message(&scheduler, ThreadId::generate(), "slow").await;
    let (ids, others) = (
        (disconnected.run.thread_id, disconnected.run.run_id),
        [&detached, &continuing].map(|created| (created.run.thread_id, created.run.run_id)),
    );
    drop(disconnected);
    assert_eq!(scheduler.join_run(&LOCAL, ids.0, ids.1).await.unwrap().status, RunStatus::Cancelled);
    drop(scheduler.run_reader(rejoined.run.run_id, None).unwrap().cancel_on_drop());
    assert_eq!(join(&scheduler, &rejoined).await.status, RunStatus::Cancelled);
    detached.reader.detach();
    drop(continuing);
    server.open_gate(GATE);
    for (thread_id, run_id) in others {
        let run = scheduler.join_run(&LOCAL, thread_id, run_id).await.unwrap();
        assert_eq!(run.status, RunStatus::Success);
    }
}

#[tokio::test]
async fn i5_a_disconnected_client_cancels_its_queued_run() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let active = submit_message(&scheduler, thread, "slow").await;
    let request = RunRequest { on_disconnect: DisconnectMode::Cancel, ..user_request("second") };
    let queued = scheduler.create_run(&LOCAL, new_run_on(thread, request)).await.unwrap();
    let run_id = queued.run.run_id;
    drop(queued);
    assert_eq!(scheduler.join_run(&LOCAL, thread, run_id).await.unwrap().status, RunStatus::Cancelled);
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &active).await.status, RunStatus::Success);
    assert_eq!(transcript_lines(&scheduler, thread).await, ["U: slow", "A: late"]);
}

#[tokio::test]
async fn i5_a_stop_is_durable_before_its_caller_gets_the_response() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut active = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut active.reader).await;
    scheduler.stop_run(&LOCAL, &active.run, CancelAction::Interrupt).await.unwrap();
    let event_type = EventType::RunStopRequested;
    let requests =
        events(&scheduler, thread).await.into_iter().filter(|event| event.event_type == event_type.as_str());
    assert_eq!(requests.map(|event| event.run_id).collect::<Vec<_>>(), [Some(active.run.run_id)]);
    assert_eq!(join(&scheduler, &active).await.status, RunStatus::Cancelled);
}
