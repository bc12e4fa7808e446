//! Tool calls: parallel, in order, kept early when they could not be had again, and never taking the run down.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use protocol::{Message, RunStatus};
use runtime::{Admitted, Entry, Frame, Frames, Item, Repeat, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};
use test_model::{Reply, Script};
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use crate::world::{Counting, World, tool};

fn working<F, P>(name: &'static str, repeat: Repeat, work: F) -> Arc<dyn Tool>
where
    F: Fn(Value, ToolContext) -> P + Send + Sync + 'static,
    P: Future<Output = ToolOutput> + Send + 'static,
{
    Arc::new(Counting { name, repeat, calls: Arc::new(AtomicUsize::new(0)), work })
}

#[tokio::test]
async fn calls_of_one_answer_run_at_the_same_time_and_their_results_are_in_order() {
    let together = Arc::new(Barrier::new(3));
    let meet = move |args: Value, _| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            ToolOutput::success(args["name"].as_str().unwrap_or_default())
        }
    };
    let calls = Reply::call("c1", "meet", json!({"name": "one"}))
        .and_call("c2", "meet", json!({"name": "two"}))
        .and_call("c3", "meet", json!({"name": "three"}));
    let script = Script::new([calls, Reply::text("Done.")]);
    let world = World::new(script, vec![working("meet", Repeat::Safe, meet)], vec![]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
    assert_eq!(world.said().await[2..5], ["T#c1: one", "T#c2: two", "T#c3: three"]);
}

#[tokio::test]
async fn j2_a_result_that_cannot_be_had_again_is_durable_while_other_calls_still_run() {
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let slow = move |_, _| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            ToolOutput::success("slow")
        }
    };
    let calls = Reply::call("c1", "slow", json!({})).and_call("c2", "write", json!({}));
    let script = Script::new([calls, Reply::text("Done.")]);
    let (write, _) = tool("write", Repeat::Never);
    let world = World::new(script, vec![working("slow", Repeat::Safe, slow), write], vec![]).await;
    let point = world.admit("Go.").await;
    let (frames, mut stream) = Frames::channel();
    let cancel = CancellationToken::new();
    let run = world.driver.drive(Admitted::at(point.clone(), Entry::Fresh), &frames, &cancel);
    let watch = async {
        loop {
            let Some(Item::Frame(_, frame)) = stream.next().await else { unreachable!("the run waits") };
            let Frame::Event(event) = &*frame else { continue };
            if matches!(event.message(), Some(Message::Tool(_))) {
                break;
            }
        }
        let said = world.said().await;
        assert_eq!(said.last().unwrap(), "T#c2: write", "stored while the other call runs");
        go_on.notify_one();
    };
    let (end, ()) = tokio::join!(run, watch);
    assert_eq!(end.unwrap().status, RunStatus::Success);
    assert_eq!(world.said().await[2..], ["T#c2: write", "T#c1: slow", "A: Done."]);
}

#[tokio::test]
async fn a_tool_that_panics_or_is_not_there_gives_the_model_a_text() {
    let panics = |_: Value, _: ToolContext| async move { unreachable!("a defect of the tool") };
    let calls = Reply::call("c1", "breaks", json!({})).and_call("c2", "nothing", json!({}));
    let script = Script::new([calls, Reply::text("Done.")]);
    let world = World::new(script, vec![working("breaks", Repeat::Never, panics)], vec![]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
    let said = world.said().await;
    assert!(said[2].contains("broke off") && said[3].contains("There is no tool `nothing`"), "{said:?}");
}

#[tokio::test]
async fn a_stopped_call_returns_what_it_has() {
    let waits = |_: Value, context: ToolContext| async move {
        context.cancel.cancelled().await;
        ToolOutput::error("half of it")
    };
    let script = Script::new([Reply::call("c1", "waits", json!({}))]);
    let world = World::new(script, vec![working("waits", Repeat::Never, waits)], vec![]).await;
    let point = world.admit("Go.").await;
    let (frames, mut stream) = Frames::channel();
    let cancel = CancellationToken::new();
    let run = async {
        let end = world.driver.drive(Admitted::at(point.clone(), Entry::Fresh), &frames, &cancel).await;
        drop(frames);
        end
    };
    let stop = async {
        while let Some(Item::Frame(_, frame)) = stream.next().await {
            if matches!(&*frame, Frame::ToolStarted { .. }) {
                cancel.cancel();
            }
        }
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(world.said().await.last().unwrap(), "T#c1: half of it");
}

#[tokio::test]
async fn a_model_that_has_nothing_to_add_after_its_tools_ends_the_turn() {
    let (look, _) = tool("look", Repeat::Safe);
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("").tokens(7, 1)]);
    let world = World::new(script, vec![look], vec![]).await;
    let end = world.say("Go.").await;
    assert_eq!((end.status, end.usage.output_tokens), (RunStatus::Success, 6));
    assert_eq!(world.said().await.last().unwrap(), "T#c1: look");
    // Without a tool before it, it is no answer.
    let world = World::new(Script::new([Reply::text("")]), vec![], vec![]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Error);
}
