//! Tests of panics in hooks and tools, and of tool calls and stop requests that a shutdown interrupted.

use std::sync::Arc;
use std::time::Duration;

use agent::Frame;
use async_trait::async_trait;
use model::ToolSpec;
use protocol::{AiMessage, ContentBlock, RunStatus, ThreadId};
use runtime::{GraphUpdate, Hook, RepeatSafety, StepContext, StepFailure, Tool, ToolContext, ToolOutput};
use scheduler::{Scheduler, SchedulerLimits};
use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, drop_scheduler, end_statuses, gate_at_start, join, new_run_on,
    read_to_end, run_row, submit_message, transcript_lines, user_request, wait_for_first_step,
    wait_until_idle,
};

/// A tool whose calls must not be repeated.
struct UnrepeatableTool;

#[async_trait]
impl Tool for UnrepeatableTool {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"panic": {"type": "boolean"}}});
        ToolSpec { name: "once".to_owned(), description: "Does something.".to_owned(), parameters }
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Unsafe
    }

    async fn call(&self, args: &Value, _: &ToolContext) -> ToolOutput {
        assert_ne!(args["panic"], json!(true), "on purpose");
        ToolOutput::success("it is done")
    }
}

fn scheduler_with_tool(fixture: &SchedulerFixture) -> Arc<Scheduler> {
    Scheduler::new(fixture.agent().with_tool(Arc::new(UnrepeatableTool)), SchedulerLimits::default())
}

/// A hook that panics when the model calls a tool.
struct FaultyHook;

#[async_trait]
impl Hook for FaultyHook {
    fn name(&self) -> &'static str {
        "faulty"
    }

    async fn after_model(&self, _: &StepContext<'_>, answer: &AiMessage) -> Result<GraphUpdate, StepFailure> {
        assert!(
            !answer.content.iter().any(|block| matches!(block, ContentBlock::ToolCall { .. })),
            "on purpose"
        );
        Ok(GraphUpdate::default())
    }
}

#[tokio::test]
async fn j9_a_panic_of_a_hook_ends_only_its_own_run() {
    let call = ScriptedReply::call("c1", "once", json!({}));
    let server =
        ScriptedServer::start(Script::new([call, ScriptedReply::text("fine").with_repeat()])).unwrap();
    let (fixture, thread) = (SchedulerFixture::new(), ThreadId::generate());
    fixture.configure(&server);
    let scheduler =
        Scheduler::new(fixture.agent().with_hook(Arc::new(FaultyHook)), SchedulerLimits::default());
    let mut first = submit_message(&scheduler, thread, "do it").await;
    let second = submit_message(&scheduler, thread, "hello").await;
    assert_eq!(end_statuses(&read_to_end(&mut first.reader).await), [RunStatus::Error]);
    let failed = run_row(&scheduler, first.run.run_id).await.unwrap();
    assert_eq!(failed.status, RunStatus::Error);
    assert!(failed.failure.unwrap().message.contains("panicked"));
    assert_eq!(join(&scheduler, &second).await.status, RunStatus::Success);
    let other =
        scheduler.create_run(&LOCAL, new_run_on(ThreadId::generate(), user_request("hi"))).await.unwrap();
    assert_eq!(join(&scheduler, &other).await.status, RunStatus::Success);
    scheduler.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn j9_a_panic_of_a_tool_fails_only_its_own_call() {
    let call = ScriptedReply::call("c1", "once", json!({"panic": true}));
    let server =
        ScriptedServer::start(Script::new([call, ScriptedReply::text("fine").with_repeat()])).unwrap();
    let (fixture, thread) = (SchedulerFixture::new(), ThreadId::generate());
    fixture.configure(&server);
    let scheduler = scheduler_with_tool(&fixture);
    let created = submit_message(&scheduler, thread, "do it").await;
    assert_eq!(join(&scheduler, &created).await.status, RunStatus::Success);
    scheduler.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn j5_a_tool_call_that_a_shutdown_prevented_is_executed_after_the_restart() {
    let call = gate_at_start(ScriptedReply::call("c1", "once", json!({})));
    let server =
        ScriptedServer::start(Script::new([call, ScriptedReply::text("fine").with_repeat()])).unwrap();
    let (fixture, thread) = (SchedulerFixture::new(), ThreadId::generate());
    fixture.configure(&server);
    let first_server = scheduler_with_tool(&fixture);
    let mut created = submit_message(&first_server, thread, "do it").await;
    wait_for_first_step(&mut created.reader).await;
    let shutdown = {
        let first_server = Arc::clone(&first_server);
        tokio::spawn(async move { first_server.shutdown(Duration::from_secs(60)).await })
    };
    while !matches!(
        first_server.run_exclusive(&LOCAL, ThreadId::generate(), |_| async {}).await,
        Err(scheduler::Error::ShuttingDown)
    ) {
        tokio::task::yield_now().await;
    }
    server.open_gate(GATE);
    shutdown.await.unwrap();
    assert_eq!(run_row(&first_server, created.run.run_id).await.unwrap().status, RunStatus::Running);
    assert_eq!(end_statuses(&read_to_end(&mut created.reader).await), []);
    drop_scheduler(first_server).await;

    let next_server = scheduler_with_tool(&fixture);
    assert_eq!(next_server.recover().await.unwrap().resumed, 1);
    assert_eq!(join(&next_server, &created).await.status, RunStatus::Success);
    let lines = transcript_lines(&next_server, thread).await;
    assert!(lines.contains(&"T: it is done".to_owned()), "{lines:?}");
    next_server.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn i5_a_stop_request_before_a_crash_also_stops_the_sub_agent() {
    let call = ScriptedReply::call("c1", "task", json!({"description": "count", "prompt": "Hens."}));
    let script = Script::new([
        call,
        ScriptedReply::fault(ScriptedFault::Hang),
        ScriptedReply::text("never").with_repeat(),
    ]);
    let server = ScriptedServer::start(script).unwrap();
    let (fixture, thread) = (SchedulerFixture::new(), ThreadId::generate());
    let first_server = fixture.scheduler_with_model(&server);
    let created = submit_message(&first_server, thread, "count").await;
    server.wait_for_calls(2).await;
    first_server.agent(&LOCAL).runs().stop_run(created.run.run_id).await.unwrap();
    first_server.shutdown(Duration::ZERO).await;
    drop_scheduler(first_server).await;

    let next_server = fixture.new_scheduler(SchedulerLimits::default());
    assert_eq!(next_server.recover().await.unwrap().resumed, 1, "the parent resumes its sub-agent");
    assert_eq!(join(&next_server, &created).await.status, RunStatus::Cancelled);
    wait_until_idle(&next_server).await;
    next_server.recover().await.unwrap();
    assert_eq!(next_server.agent(&LOCAL).store().active_runs(None).await.unwrap(), []);
    assert_eq!(server.requests().len(), 2, "no model is called after the stop");
    next_server.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn i1_readers_of_the_thread_see_the_runs_of_exclusive_work() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("fine").with_repeat()])).unwrap();
    let (fixture, thread) = (SchedulerFixture::new(), ThreadId::generate());
    let scheduler = fixture.scheduler_with_model(&server);
    let first = submit_message(&scheduler, thread, "hello").await;
    join(&scheduler, &first).await;
    let mut reader = scheduler.thread_reader(&LOCAL, thread).skip_ended();
    let agent = scheduler.agent(&LOCAL);
    let work = move |context: scheduler::ExclusiveContext| async move {
        agent.runs().send_message(thread, "again", &context.frames, &context.cancel).await.unwrap().run_id
    };
    let run_id = scheduler.run_exclusive(&LOCAL, thread, work).await.unwrap();
    let Some(scheduler::ThreadItem::Run(mut run_reader)) = reader.next().await else {
        unreachable!("the run has started")
    };
    assert_eq!(run_reader.run_id, run_id);
    let items = read_to_end(&mut run_reader).await;
    assert_eq!(end_statuses(&items), [RunStatus::Success]);
    let is_text = |item: &agent::SubscriptionItem| matches!(item, agent::SubscriptionItem::Frame(_, frame) if matches!(**frame, Frame::Text { .. }));
    assert!(items.iter().any(is_text));
    scheduler.shutdown(Duration::from_secs(60)).await;
}
