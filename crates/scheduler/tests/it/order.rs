//! Tests of the order of runs: one at a time on each thread, multitask strategies, limits, and exclusive work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::{EventType, MultitaskStrategy, RunRequest, RunStatus, ThreadId};
use scheduler::{Error, IfNotExists, NewRun, SchedulerLimits};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, alice, answering_model, end_statuses, events, gated_model, is_busy, join,
    new_run_on, poll_once, read_to_end, run_row, run_status, submit_message, transcript_lines, user_request,
    wait_for_first_step, wait_until_idle,
};

/// Returns a request with one message and that strategy for a busy thread.
fn request_with_strategy(text: &str, multitask_strategy: MultitaskStrategy) -> RunRequest {
    RunRequest { multitask_strategy, ..user_request(text) }
}

#[tokio::test]
async fn j1_fifty_runs_on_one_thread_execute_one_after_the_other_in_order() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("message 0"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut runs = Vec::new();
    for number in 0..50 {
        runs.push(submit_message(&scheduler, thread, &format!("message {number}.")).await);
    }
    assert_eq!(runs[0].run.status, RunStatus::Running);
    assert!(runs[1..].iter().all(|created| created.run.status == RunStatus::Pending));
    assert_eq!(run_status(&scheduler, &runs[49]).await, Some(RunStatus::Pending));
    server.open_gate(GATE);
    for created in &runs {
        assert_eq!(join(&scheduler, created).await.status, RunStatus::Success);
    }
    let user_lines =
        transcript_lines(&scheduler, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    let expected: Vec<String> = (0..50).map(|number| format!("U: message {number}.")).collect();
    assert_eq!(user_lines.collect::<Vec<_>>(), expected);
    let mut active = None;
    for event in events(&scheduler, thread).await {
        if event.event_type == EventType::RunStarted.as_str() {
            assert_eq!(active, None, "a run started while another was active");
            active = event.run_id;
        } else if event.event_type == EventType::RunEnded.as_str() {
            assert_eq!(active.take(), event.run_id);
        }
    }
    wait_until_idle(&scheduler).await;
}

#[tokio::test]
async fn a_missing_thread_is_created_only_if_requested() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let scheduler = fixture.scheduler_with_model(&server);
    let thread_id = Some(ThreadId::generate());
    let unknown = NewRun { thread_id, request: user_request("hello"), if_not_exists: IfNotExists::Reject };
    let refused = scheduler.create_run(&LOCAL, unknown).await;
    assert!(
        matches!(refused, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{refused:?}"
    );
    let new = NewRun { thread_id: None, request: user_request("hello"), if_not_exists: IfNotExists::Reject };
    let created = scheduler.create_run(&LOCAL, new).await.unwrap();
    assert_eq!(join(&scheduler, &created).await.status, RunStatus::Success);
    let foreign = NewRun {
        thread_id: Some(created.run.thread_id),
        request: user_request("hello"),
        if_not_exists: IfNotExists::Reject,
    };
    let refused = scheduler.create_run(&alice(), foreign).await;
    assert!(
        matches!(refused, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_run_with_the_strategy_reject_is_refused_on_a_busy_thread() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let active = submit_message(&scheduler, thread, "slow").await;
    let refused = scheduler
        .create_run(&LOCAL, new_run_on(thread, request_with_strategy("now", MultitaskStrategy::Reject)))
        .await;
    assert!(is_busy(&refused), "{refused:?}");
    let foreign = new_run_on(thread, request_with_strategy("now", MultitaskStrategy::Reject));
    let foreign = NewRun { if_not_exists: IfNotExists::Reject, ..foreign };
    let foreign = scheduler.create_run(&alice(), foreign).await;
    assert!(
        matches!(foreign, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{foreign:?}"
    );
    server.open_gate(GATE);
    join(&scheduler, &active).await;
    let accepted = scheduler
        .create_run(&LOCAL, new_run_on(thread, request_with_strategy("now", MultitaskStrategy::Reject)))
        .await
        .unwrap();
    assert_eq!(join(&scheduler, &accepted).await.status, RunStatus::Success);
}

#[tokio::test]
async fn a_run_that_interrupts_stops_the_active_run_and_starts_before_queued_runs() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut active = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut active.reader).await;
    let queued = submit_message(&scheduler, thread, "second").await;
    let urgent = scheduler
        .create_run(&LOCAL, new_run_on(thread, request_with_strategy("urgent", MultitaskStrategy::Interrupt)))
        .await
        .unwrap();
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &active).await.status, RunStatus::Cancelled);
    assert_eq!(join(&scheduler, &urgent).await.status, RunStatus::Success);
    assert_eq!(join(&scheduler, &queued).await.status, RunStatus::Success);
    let user_lines =
        transcript_lines(&scheduler, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    assert_eq!(user_lines.collect::<Vec<_>>(), ["U: slow", "U: urgent", "U: second"]);
}

#[tokio::test]
async fn a_run_that_rolls_back_undoes_the_active_run() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "first").await).await;
    let mut active = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut active.reader).await;
    let urgent = scheduler
        .create_run(&LOCAL, new_run_on(thread, request_with_strategy("instead", MultitaskStrategy::Rollback)))
        .await
        .unwrap();
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &urgent).await.status, RunStatus::Success);
    assert!(run_row(&scheduler, active.run.run_id).await.is_none(), "the run is deleted");
    assert_eq!(transcript_lines(&scheduler, thread).await, ["U: first", "A: done", "U: instead", "A: done"]);
    let items = read_to_end(&mut active.reader).await;
    assert_eq!(end_statuses(&items), [RunStatus::Cancelled]);
}

#[tokio::test]
async fn runs_above_the_limit_of_active_runs_are_queued_and_start_in_order() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("thread 0"));
    fixture.configure(&server);
    let scheduler = fixture.new_scheduler(SchedulerLimits { runs_max: 1, ..SchedulerLimits::default() });
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(submit_message(&scheduler, ThreadId::generate(), &format!("thread {number}.")).await);
    }
    let statuses: Vec<_> = runs.iter().map(|created| created.run.status).collect();
    assert_eq!(statuses, [RunStatus::Running, RunStatus::Pending, RunStatus::Pending, RunStatus::Pending]);
    server.open_gate(GATE);
    for created in &runs {
        assert_eq!(join(&scheduler, created).await.status, RunStatus::Success);
    }
    let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
    let order: Vec<_> = (0..4)
        .map(|number| bodies.iter().position(|body| body.contains(&format!("thread {number}."))))
        .collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn a_full_queue_refuses_runs_with_a_time_to_retry() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let limits = SchedulerLimits { queue_max: 3, queue_per_user_max: 2, ..SchedulerLimits::default() };
    let (scheduler, thread) = (fixture.new_scheduler(limits), ThreadId::generate());
    let mut runs = vec![submit_message(&scheduler, thread, "slow").await];
    for _ in 0..2 {
        runs.push(submit_message(&scheduler, thread, "more").await);
    }
    let refused = scheduler.create_run(&LOCAL, new_run_on(thread, user_request("too many"))).await;
    assert!(
        matches!(refused, Err(Error::QueueFull { retry_after }) if !retry_after.is_zero()),
        "{refused:?}"
    );
    let alices_thread = ThreadId::generate();
    for _ in 0..2 {
        scheduler.create_run(&alice(), new_run_on(alices_thread, user_request("slow, too"))).await.unwrap();
    }
    let refused =
        scheduler.create_run(&alice(), new_run_on(alices_thread, user_request("too many in all"))).await;
    assert!(matches!(refused, Err(Error::QueueFull { .. })), "{refused:?}");
    server.open_gate(GATE);
    for created in &runs {
        assert_eq!(join(&scheduler, created).await.status, RunStatus::Success);
    }
    let user_lines =
        transcript_lines(&scheduler, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    assert_eq!(user_lines.count(), 3, "the refused runs left no messages");
}

#[tokio::test]
async fn j1_exclusive_work_never_overlaps_with_a_run() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let first = submit_message(&scheduler, thread, "slow").await;
    let done = Arc::new(AtomicBool::new(false));
    let work = {
        let (scheduler, done) = (Arc::clone(&scheduler), Arc::clone(&done));
        let (inner, first) = (Arc::clone(&scheduler), first.run.run_id);
        async move {
            let work = move |_| async move {
                assert_eq!(run_row(&inner, first).await.unwrap().status, RunStatus::Success);
                tokio::task::yield_now().await;
                done.store(true, Ordering::SeqCst);
            };
            scheduler.run_exclusive(&LOCAL, thread, work).await
        }
    };
    let mut work = std::pin::pin!(work);
    // The work is in the queue after its first poll.
    assert!(poll_once(work.as_mut()).await.is_none());
    let mut next = submit_message(&scheduler, thread, "behind").await;
    assert_eq!(next.run.status, RunStatus::Pending);
    server.open_gate(GATE);
    work.await.unwrap();
    wait_for_first_step(&mut next.reader).await;
    assert!(done.load(Ordering::SeqCst));
    assert_eq!(join(&scheduler, &next).await.status, RunStatus::Success);
}

#[tokio::test]
async fn work_that_panics_or_lost_its_caller_does_not_block_the_queue() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let panicked =
        scheduler.run_exclusive(&LOCAL, thread, |_| async { assert_eq!(1, 2, "on purpose") }).await;
    assert!(matches!(panicked, Err(Error::Aborted)), "{panicked:?}");
    let active = submit_message(&scheduler, thread, "slow").await;
    {
        let abandoned = scheduler
            .run_exclusive(&LOCAL, thread, |_| async { unreachable!("its caller has disconnected") });
        let mut abandoned = std::pin::pin!(abandoned);
        assert!(poll_once(abandoned.as_mut()).await.is_none());
    }
    let next = submit_message(&scheduler, thread, "behind").await;
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &active).await.status, RunStatus::Success);
    assert_eq!(join(&scheduler, &next).await.status, RunStatus::Success);
}

#[tokio::test]
async fn a_run_continues_after_its_caller_disconnected() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    {
        let create = scheduler.create_run(&LOCAL, new_run_on(thread, user_request("hello")));
        let mut create = std::pin::pin!(create);
        assert!(poll_once(create.as_mut()).await.is_none());
    }
    // The run continues in a task of its own.
    while transcript_lines(&scheduler, thread).await != ["U: hello", "A: yes"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        join(&scheduler, &submit_message(&scheduler, thread, "again").await).await.status,
        RunStatus::Success
    );
}
