//! Shutting a server down during runs and starting it again: nothing is lost, and nothing is done twice.

use std::sync::Arc;
use std::time::Duration;

use agent::Frame;
use protocol::{RunStatus, ThreadId};
use scheduler::{Error, RecoveryReport, Scheduler, SchedulerLimits};
use serde_json::json;
use test_model::{Script, ScriptedCall, ScriptedReply, ScriptedServer};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, answering_model, drop_scheduler, end_statuses, events, gate_at_start,
    gated_model, join, new_run_on, read_to_end, run_row, submit_message, transcript_lines, user_request,
    wait_for_first_step,
};

const LONG_GRACE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn j5_a_run_that_ends_within_the_grace_period_succeeds_and_nothing_new_starts() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut created = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut created.reader).await;
    let queued = submit_message(&scheduler, thread, "second").await;
    let shutdown = {
        let scheduler = Arc::clone(&scheduler);
        tokio::spawn(async move { scheduler.shutdown(LONG_GRACE).await })
    };
    while !is_closed(&scheduler).await {
        tokio::task::yield_now().await;
    }
    server.open_gate(GATE);
    shutdown.await.unwrap();
    assert_eq!(run_row(&scheduler, created.run.run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(run_row(&scheduler, queued.run.run_id).await.unwrap().status, RunStatus::Pending);
    let refused = scheduler.create_run(&LOCAL, new_run_on(thread, user_request("late"))).await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    scheduler.shutdown(LONG_GRACE).await;
    drop_scheduler(scheduler).await;

    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let report = scheduler.recover().await.unwrap();
    assert_eq!(report, RecoveryReport { resumed: 0, queued: 1, remote: 0 });
    assert_eq!(join(&scheduler, &queued).await.status, RunStatus::Success);
    assert_eq!(transcript_lines(&scheduler, thread).await, ["U: slow", "A: late", "U: second", "A: late"]);
}

async fn is_closed(scheduler: &Arc<Scheduler>) -> bool {
    let refused = scheduler.run_exclusive(&LOCAL, ThreadId::generate(), |_| async {}).await;
    matches!(refused, Err(Error::ShuttingDown))
}

#[tokio::test]
async fn j5_a_run_that_exceeds_the_grace_period_stays_running_and_resumes_at_the_next_start() {
    let call =
        ScriptedCall { id: "c1".to_owned(), name: "write_todos".to_owned(), args: json!({"todos": []}) };
    let first = ScriptedReply { calls: vec![call], ..ScriptedReply::default() };
    let second = gate_at_start(ScriptedReply::text("finished"));
    let server = ScriptedServer::start(Script::new([first, second.clone(), second])).unwrap();
    let (fixture, thread) = (SchedulerFixture::new(), ThreadId::generate());
    let scheduler = fixture.scheduler_with_model(&server);
    let mut created = submit_message(&scheduler, thread, "work").await;
    let run_id = created.run.run_id;
    // After the third step has started, the tool has run, and the model is called again.
    let mut steps = 0;
    while steps < 3 {
        match created.reader.next().await {
            Some(agent::SubscriptionItem::Frame(_, frame)) if matches!(*frame, Frame::StepStarted { .. }) => {
                steps += 1
            }
            Some(_) => {}
            None => unreachable!("the run ended"),
        }
    }
    scheduler.shutdown(Duration::ZERO).await;
    let items = read_to_end(&mut created.reader).await;
    assert_eq!(end_statuses(&items), [], "no end was published");
    let event_count = events(&scheduler, thread).await.len();
    assert_eq!(run_row(&scheduler, run_id).await.unwrap().status, RunStatus::Running);
    server.open_gate(GATE);
    scheduler.shutdown(Duration::ZERO).await;
    assert_eq!(events(&scheduler, thread).await.len(), event_count, "nothing is written after the shutdown");
    drop_scheduler(scheduler).await;

    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    assert_eq!(scheduler.recover().await.unwrap().resumed, 1);
    assert_eq!(join(&scheduler, &created).await.status, RunStatus::Success);
    let lines = transcript_lines(&scheduler, thread).await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("T:")).count(), 1, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "A: finished");
}

#[tokio::test]
async fn j5_a_second_shutdown_without_grace_ends_the_wait_of_the_first() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut created = submit_message(&scheduler, thread, "slow").await;
    wait_for_first_step(&mut created.reader).await;
    let first_shutdown = {
        let scheduler = Arc::clone(&scheduler);
        tokio::spawn(async move { scheduler.shutdown(LONG_GRACE).await })
    };
    scheduler.shutdown(Duration::ZERO).await;
    first_shutdown.await.unwrap();
    assert_eq!(run_row(&scheduler, created.run.run_id).await.unwrap().status, RunStatus::Running);
    assert!(
        read_to_end(&mut created.reader)
            .await
            .iter()
            .all(|item| end_statuses(std::slice::from_ref(item)).is_empty())
    );
}

#[tokio::test]
async fn j5_a_shutdown_releases_readers_and_callers_that_wait() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let created = submit_message(&scheduler, thread, "slow").await;
    let mut reader = scheduler.thread_reader(&LOCAL, ThreadId::generate());
    let join = {
        let (scheduler, run_id) = (Arc::clone(&scheduler), created.run.run_id);
        tokio::spawn(async move { scheduler.join_run(&LOCAL, thread, run_id).await })
    };
    tokio::task::yield_now().await;
    scheduler.shutdown(Duration::ZERO).await;
    assert!(reader.next().await.is_none());
    assert!(matches!(join.await.unwrap(), Err(Error::ShuttingDown)));
}

#[tokio::test]
async fn j2_recovery_without_work_left_does_nothing() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let scheduler = fixture.scheduler_with_model(&server);
    assert_eq!(scheduler.recover().await.unwrap(), RecoveryReport::default());
    scheduler.shutdown(LONG_GRACE).await;
}
