//! Tests of exclusive work, the strategy `reject`, concurrent submissions, and runs whose folder was deleted.

use std::sync::Arc;

use agent::{CancellationToken, RunFilter};
use protocol::{DisconnectMode, MultitaskStrategy, RunId, RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, Error, ExclusiveContext, IfNotExists, NewRun, Scheduler, ThreadItem};
use test_model::ScriptedServer;

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, alice, answering_model, end_statuses, gated_model, is_busy, join,
    new_run_on, poll_once, read_to_end, run_row, submit_message, transcript_lines, user_request,
    wait_until_idle, wait_until_running,
};

/// Returns a request that is refused on a busy thread.
fn rejecting_request(text: &str) -> RunRequest {
    RunRequest { multitask_strategy: MultitaskStrategy::Reject, ..user_request(text) }
}

/// Starts a turn as exclusive work; returns its run once the run is active.
async fn run_exclusive_turn(scheduler: &Arc<Scheduler>, thread: ThreadId, text: &'static str) -> RunId {
    let mut reader = scheduler.thread_reader(&LOCAL, thread).skip_ended();
    let (inner, agent) = (Arc::clone(scheduler), scheduler.agent(&LOCAL));
    tokio::spawn(async move {
        let work = move |context: ExclusiveContext| async move {
            drop(agent.runs().send_message(thread, text, &context.frames, &context.cancel).await);
        };
        inner.run_exclusive(&LOCAL, thread, work).await
    });
    let Some(ThreadItem::Run(run_reader)) = reader.next().await else { unreachable!("the run starts") };
    run_reader.run_id
}

/// Occupies the thread with exclusive work until the returned token is cancelled.
async fn hold_thread(scheduler: &Arc<Scheduler>, thread: ThreadId) -> CancellationToken {
    let (inner, release) = (Arc::clone(scheduler), CancellationToken::new());
    let released = release.clone();
    tokio::spawn(async move {
        let work = move |_| async move { released.cancelled().await };
        inner.run_exclusive(&LOCAL, thread, work).await.unwrap();
    });
    while scheduler.metrics().busy_threads == 0 {
        tokio::task::yield_now().await;
    }
    release
}

#[tokio::test]
async fn i5_the_run_of_exclusive_work_is_cancelled_like_any_other() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    let run_id = run_exclusive_turn(&scheduler, thread, "slow").await;
    scheduler.cancel_run(&LOCAL, thread, run_id, CancelAction::Interrupt).await.unwrap();
    assert_eq!(run_row(&scheduler, run_id).await.unwrap().status, RunStatus::Cancelled);
    let run_id = run_exclusive_turn(&scheduler, thread, "slow again").await;
    let run = run_row(&scheduler, run_id).await.unwrap();
    let mut run_reader = scheduler.run_reader(run_id, None).unwrap();
    scheduler.stop_run(&LOCAL, &run, CancelAction::Interrupt).await.unwrap();
    assert_eq!(end_statuses(&read_to_end(&mut run_reader).await), [RunStatus::Cancelled]);
    wait_until_idle(&scheduler).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_free_as_soon_as_the_caller_of_exclusive_work_has_its_result() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    for number in 0..20 {
        scheduler.run_exclusive(&LOCAL, thread, |_| async {}).await.unwrap();
        let accepted =
            scheduler.create_run(&LOCAL, new_run_on(thread, rejecting_request("now"))).await.unwrap();
        assert_eq!(accepted.run.status, RunStatus::Running, "{number}");
        join(&scheduler, &accepted).await;
    }
}

#[tokio::test]
async fn a_run_with_the_strategy_reject_waits_for_exclusive_work() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    let release = hold_thread(&scheduler, thread).await;
    let foreign = NewRun {
        thread_id: Some(thread),
        request: rejecting_request("mine"),
        if_not_exists: IfNotExists::Reject,
    };
    let refused = scheduler.create_run(&alice(), foreign).await;
    assert!(
        matches!(refused, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{refused:?}"
    );
    let accepted = scheduler.create_run(&LOCAL, new_run_on(thread, rejecting_request("now"))).await.unwrap();
    assert_eq!(accepted.run.status, RunStatus::Pending);
    assert!(
        is_busy(&scheduler.create_run(&LOCAL, new_run_on(thread, rejecting_request("too late"))).await),
        "a run is queued"
    );
    release.cancel();
    assert_eq!(join(&scheduler, &accepted).await.status, RunStatus::Success);
    run_exclusive_turn(&scheduler, thread, "slow").await;
    assert!(
        is_busy(&scheduler.create_run(&LOCAL, new_run_on(thread, rejecting_request("too late"))).await),
        "a run is active"
    );
    server.open_gate(GATE);
    wait_until_idle(&scheduler).await;
    assert!(!transcript_lines(&scheduler, thread).await.contains(&"U: too late".to_owned()));
}

#[tokio::test]
async fn of_two_concurrent_runs_with_the_strategy_reject_one_is_accepted() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    let release = hold_thread(&scheduler, thread).await;
    let click = || scheduler.create_run(&LOCAL, new_run_on(thread, rejecting_request("click")));
    let (left, right) = tokio::join!(click(), click());
    assert_ne!(is_busy(&left), is_busy(&right), "{left:?} {right:?}");
    release.cancel();
    wait_until_idle(&scheduler).await;
    let lines = transcript_lines(&scheduler, thread).await;
    assert_eq!(lines.iter().filter(|line| *line == "U: click").count(), 1, "{lines:?}");
    assert_eq!(scheduler.agent(&LOCAL).store().queued_runs(None).await.unwrap(), []);
}

#[tokio::test]
async fn of_two_concurrent_runs_on_a_new_thread_with_the_strategy_reject_the_second_finds_it_busy() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let click = || scheduler.create_run(&LOCAL, new_run_on(thread, rejecting_request("slow")));
    let (left, right) = tokio::join!(click(), click());
    assert_ne!(is_busy(&left), is_busy(&right), "{left:?} {right:?}");
    assert!(left.is_ok() || right.is_ok(), "{left:?} {right:?}");
    server.open_gate(GATE);
    wait_until_idle(&scheduler).await;
    let lines = transcript_lines(&scheduler, thread).await;
    assert_eq!(lines.iter().filter(|line| *line == "U: slow").count(), 1, "{lines:?}");
}

#[tokio::test]
async fn a_run_of_another_server_can_be_cancelled_while_exclusive_work_occupies_the_thread_here() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    let slow = submit_message(&remote, thread, "slow").await;
    let release = hold_thread(&local, thread).await;
    let cancelling = {
        let (local, run_id) = (Arc::clone(&local), slow.run.run_id);
        tokio::spawn(async move { local.cancel_run(&LOCAL, thread, run_id, CancelAction::Interrupt).await })
    };
    assert_eq!(join(&remote, &slow).await.status, RunStatus::Cancelled);
    assert!(!release.is_cancelled());
    release.cancel();
    cancelling.await.unwrap().unwrap();
}

#[tokio::test]
async fn several_runs_are_created_and_continue_after_their_caller_disconnected() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let scheduler = fixture.scheduler_with_model(&server);
    let new = || NewRun {
        thread_id: None,
        request: RunRequest { on_disconnect: DisconnectMode::Cancel, ..user_request("hello") },
        if_not_exists: IfNotExists::Reject,
    };
    {
        let create = scheduler.create_runs(&LOCAL, (0..5).map(|_| new()).collect());
        let mut create = std::pin::pin!(create);
        assert!(poll_once(create.as_mut()).await.is_none());
    }
    let store = Arc::clone(scheduler.agent(&LOCAL).store());
    let runs = || async { store.runs(RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap() };
    while runs().await.iter().filter(|run| !run.status.is_active()).count() < 5 {
        tokio::task::yield_now().await;
    }
    assert!(runs().await.iter().all(|run| run.status == RunStatus::Success), "{:?}", runs().await);
}

#[tokio::test]
async fn several_runs_are_created_together_or_not_at_all() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let slow = submit_message(&scheduler, thread, "slow").await;
    let first =
        NewRun { thread_id: None, request: user_request("slow, too"), if_not_exists: IfNotExists::Reject };
    let refused =
        scheduler.create_runs(&LOCAL, vec![first, new_run_on(thread, rejecting_request("now"))]).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    let store = Arc::clone(scheduler.agent(&LOCAL).store());
    let runs = || async { store.runs(RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap() };
    while runs().await.len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(runs().await[0].run_id, slow.run.run_id);
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &slow).await.status, RunStatus::Success);
}

#[tokio::test]
async fn j9_a_pending_run_without_a_queue_entry_starts_after_the_next_scan() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    let (agent, run_id) = (scheduler.agent(&LOCAL), RunId::generate());
    agent.runs().enqueue(run_id, thread, &user_request("lost")).await.unwrap();
    assert_eq!(scheduler.recover().await.unwrap().queued, 1);
    assert_eq!(scheduler.join_run(&LOCAL, thread, run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(transcript_lines(&scheduler, thread).await.len(), 4);
}

/// Leaves an unfinished run of a server that was shut down, and returns its id.
async fn leave_unfinished_run(
    fixture: &SchedulerFixture,
    server: &ScriptedServer,
    thread: ThreadId,
) -> RunId {
    let scheduler = fixture.scheduler_with_model(server);
    let slow = submit_message(&scheduler, thread, "slow").await;
    let run_id = slow.run.run_id;
    wait_until_running(&scheduler, run_id).await;
    scheduler.shutdown(std::time::Duration::ZERO).await;
    drop(slow);
    crate::fixture::drop_scheduler(scheduler).await;
    run_id
}

#[tokio::test]
async fn h7_a_run_with_a_deleted_folder_is_ignored_until_it_blocks_the_queue() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let thread = ThreadId::generate();
    let run_id = leave_unfinished_run(&fixture, &server, thread).await;
    std::fs::remove_dir_all(fixture.folder().join("workspace")).unwrap();
    let scheduler = Scheduler::new(fixture.agent_in("elsewhere"), scheduler::SchedulerLimits::default());
    scheduler.recover().await.unwrap();
    wait_until_idle(&scheduler).await;
    assert_eq!(run_row(&scheduler, run_id).await.unwrap().status, RunStatus::Running);
    server.open_gate(GATE);
    let own_run = submit_message(&scheduler, thread, "hello").await;
    assert_eq!(join(&scheduler, &own_run).await.status, RunStatus::Success);
    assert_eq!(run_row(&scheduler, run_id).await.unwrap().status, RunStatus::Error);
}

#[tokio::test]
async fn h7_a_run_that_started_in_another_folder_resumes_in_its_own_folder() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let thread = ThreadId::generate();
    let run_id = leave_unfinished_run(&fixture, &server, thread).await;
    let scheduler = Scheduler::new(fixture.agent_in("elsewhere"), scheduler::SchedulerLimits::default());
    assert_eq!(scheduler.recover().await.unwrap().resumed, 1);
    server.open_gate(GATE);
    wait_until_idle(&scheduler).await;
    assert_eq!(run_row(&scheduler, run_id).await.unwrap().status, RunStatus::Success);
}
