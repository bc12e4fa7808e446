//! Tools that misbehave, and tools that were about to be called when the server stopped.

use std::sync::Arc;
use std::time::Duration;

use agent::Frame;
use async_trait::async_trait;
use model::ToolSpec;
use protocol::{AiMessage, Block, RunStatus, ThreadId};
use runtime::{Failure, Hook, Repeat, StepContext, Tool, ToolContext, ToolOutput, Update};
use scheduler::{Dispatch, Limits};
use serde_json::{Value, json};
use test_model::{Fault, Reply, Script, Server};

use crate::world::{
    GATE, LOCAL, World, at_gate, begun, ended, frames, gone, idle, join, on, row, said, say, saying,
};

/// A tool that must not be called twice.
struct Once;

#[async_trait]
impl Tool for Once {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"panic": {"type": "boolean"}}});
        ToolSpec { name: "once".to_owned(), description: "Does something.".to_owned(), parameters }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Never
    }

    async fn call(&self, args: &Value, _: &ToolContext) -> ToolOutput {
        assert_ne!(args["panic"], json!(true), "on purpose");
        ToolOutput::success("it is done")
    }
}

fn dispatch(world: &World) -> Arc<Dispatch> {
    Dispatch::new(world.agent().with_tool(Arc::new(Once)), Limits::default())
}

/// A part of a turn that has a fault.
struct Faulty;

#[async_trait]
impl Hook for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    async fn after_model(&self, _: &StepContext<'_>, answer: &AiMessage) -> Result<Update, Failure> {
        assert!(!answer.content.iter().any(|block| matches!(block, Block::ToolCall { .. })), "on purpose");
        Ok(Update::default())
    }
}

#[tokio::test]
async fn j9_what_panics_fails_its_run_alone_and_at_once() {
    let call = Reply::call("c1", "once", json!({}));
    let server = Server::start(Script::new([call, Reply::text("fine").repeated()])).unwrap();
    let (world, thread) = (World::new(), ThreadId::generate());
    world.configure(&server);
    let dispatch = Dispatch::new(world.agent().with_hook(Arc::new(Faulty)), Limits::default());
    let mut first = say(&dispatch, thread, "do it").await;
    let second = say(&dispatch, thread, "hello").await;
    assert_eq!(ended(&frames(&mut first.live).await), [RunStatus::Error]);
    let failed = row(&dispatch, first.run.run_id).await.unwrap();
    assert_eq!(failed.status, RunStatus::Error);
    assert!(failed.failure.unwrap().message.contains("panicked"));
    assert_eq!(join(&dispatch, &second).await.status, RunStatus::Success);
    let other = dispatch.create(&LOCAL, on(ThreadId::generate(), saying("hi"))).await.unwrap();
    assert_eq!(join(&dispatch, &other).await.status, RunStatus::Success);
    dispatch.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn j9_a_tool_that_panics_fails_its_call_alone() {
    let call = Reply::call("c1", "once", json!({"panic": true}));
    let server = Server::start(Script::new([call, Reply::text("fine").repeated()])).unwrap();
    let (world, thread) = (World::new(), ThreadId::generate());
    world.configure(&server);
    let dispatch = dispatch(&world);
    let created = say(&dispatch, thread, "do it").await;
    assert_eq!(join(&dispatch, &created).await.status, RunStatus::Success);
    dispatch.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn j5_a_tool_that_was_about_to_be_called_when_the_server_stopped_is_called_at_the_next_start() {
    let call = at_gate(Reply::call("c1", "once", json!({})));
    let server = Server::start(Script::new([call, Reply::text("fine").repeated()])).unwrap();
    let (world, thread) = (World::new(), ThreadId::generate());
    world.configure(&server);
    let before = dispatch(&world);
    let mut created = say(&before, thread, "do it").await;
    begun(&mut created.live).await;
    let stopping = {
        let before = Arc::clone(&before);
        tokio::spawn(async move { before.shutdown(Duration::from_secs(60)).await })
    };
    while !matches!(
        before.exclusive(&LOCAL, ThreadId::generate(), |_| async {}).await,
        Err(scheduler::Error::ShuttingDown)
    ) {
        tokio::task::yield_now().await;
    }
    server.open(GATE);
    stopping.await.unwrap();
    assert_eq!(row(&before, created.run.run_id).await.unwrap().status, RunStatus::Running);
    assert_eq!(ended(&frames(&mut created.live).await), []);
    gone(before).await;

    let after = dispatch(&world);
    assert_eq!(after.recover().await.unwrap().resumed, 1);
    assert_eq!(join(&after, &created).await.status, RunStatus::Success);
    let lines = said(&after, thread).await;
    assert!(lines.contains(&"T: it is done".to_owned()), "{lines:?}");
    after.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn i5_a_stop_that_a_crash_cut_off_reaches_the_sub_agent_too() {
    let call = Reply::call("c1", "task", json!({"description": "count", "prompt": "Hens."}));
    let script = Script::new([call, Reply::fault(Fault::Hang), Reply::text("never").repeated()]);
    let server = Server::start(script).unwrap();
    let (world, thread) = (World::new(), ThreadId::generate());
    let before = world.over(&server);
    let created = say(&before, thread, "count").await;
    server.called(2).await;
    before.agent(&LOCAL).runs().stop_run(created.run.run_id).await.unwrap();
    before.shutdown(Duration::ZERO).await;
    gone(before).await;

    let after = world.dispatch(Limits::default());
    assert_eq!(after.recover().await.unwrap().resumed, 1, "the sub-agent is its parent's to go on with");
    assert_eq!(join(&after, &created).await.status, RunStatus::Cancelled);
    idle(&after).await;
    after.recover().await.unwrap();
    assert_eq!(after.agent(&LOCAL).store().active_runs(None).await.unwrap(), []);
    assert_eq!(server.requests().len(), 2, "nobody is asked after the stop");
    after.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn i9_the_runs_of_exclusive_work_are_seen_by_those_who_follow_the_thread() {
    let server = Server::start(Script::new([Reply::text("fine").repeated()])).unwrap();
    let (world, thread) = (World::new(), ThreadId::generate());
    let dispatch = world.over(&server);
    let first = say(&dispatch, thread, "hello").await;
    join(&dispatch, &first).await;
    let mut reader = dispatch.thread_live(&LOCAL, thread).from_now();
    let agent = dispatch.agent(&LOCAL);
    let work = move |alone: scheduler::Alone| async move {
        agent.runs().send(thread, "again", &alone.frames, &alone.cancel).await.unwrap().run_id
    };
    let run_id = dispatch.exclusive(&LOCAL, thread, work).await.unwrap();
    let Some(scheduler::ThreadItem::Run(mut live)) = reader.next().await else {
        unreachable!("it has begun")
    };
    assert_eq!(live.run_id, run_id);
    let items = frames(&mut live).await;
    assert_eq!(ended(&items), [RunStatus::Success]);
    let is_text = |item: &agent::Item| matches!(item, agent::Item::Frame(_, frame) if matches!(**frame, Frame::Text { .. }));
    assert!(items.iter().any(is_text));
    dispatch.shutdown(Duration::from_secs(60)).await;
}
