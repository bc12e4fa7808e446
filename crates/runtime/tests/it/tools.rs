//! Tests of tool calls: they run concurrently, their results are in order, unrepeatable results are committed
//! early, and no failure of a tool ends the run.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use protocol::{Message, RunStatus};
use runtime::{
    AdmittedRun, Frame, FrameSender, RepeatSafety, StepEntry, SubscriptionItem, Tool, ToolContext, ToolOutput,
};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply};
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use crate::harness::{CountingTool, RuntimeHarness, counting_tool};

/// Returns a tool that produces its output with `call_result`.
fn tool_with_result<F, P>(name: &'static str, repeat: RepeatSafety, call_result: F) -> Arc<dyn Tool>
where
    F: Fn(Value, ToolContext) -> P + Send + Sync + 'static,
    P: Future<Output = ToolOutput> + Send + 'static,
{
    Arc::new(CountingTool { name, repeat, calls: Arc::new(AtomicUsize::new(0)), call_result })
}

#[tokio::test]
async fn calls_of_one_answer_run_concurrently_and_their_results_are_in_order() {
    let together = Arc::new(Barrier::new(3));
    let meet = move |args: Value, _| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            ToolOutput::success(args["name"].as_str().unwrap_or_default())
        }
    };
    let calls = ScriptedReply::call("c1", "meet", json!({"name": "one"}))
        .with_call("c2", "meet", json!({"name": "two"}))
        .with_call("c3", "meet", json!({"name": "three"}));
    let script = Script::new([calls, ScriptedReply::text("Done.")]);
    let harness =
        RuntimeHarness::new(script, vec![tool_with_result("meet", RepeatSafety::Safe, meet)], vec![]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await[2..5], ["T#c1: one", "T#c2: two", "T#c3: three"]);
}

#[tokio::test]
async fn j2_the_result_of_an_unrepeatable_call_is_durable_while_other_calls_still_run() {
    let resume = Arc::new(Notify::new());
    let wait = Arc::clone(&resume);
    let slow = move |_, _| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            ToolOutput::success("slow")
        }
    };
    let calls = ScriptedReply::call("c1", "slow", json!({})).with_call("c2", "write", json!({}));
    let script = Script::new([calls, ScriptedReply::text("Done.")]);
    let (write, _) = counting_tool("write", RepeatSafety::Unsafe);
    let harness =
        RuntimeHarness::new(script, vec![tool_with_result("slow", RepeatSafety::Safe, slow), write], vec![])
            .await;
    let checkpoint = harness.admit_message("Go.").await;
    let (frames, mut stream) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let run = harness.driver.drive(AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh), &frames, &cancel);
    let watch = async {
        loop {
            let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await else {
                unreachable!("the run waits")
            };
            let Frame::Event(event) = &*frame else { continue };
            if matches!(event.message(), Some(Message::Tool(_))) {
                break;
            }
        }
        let lines = harness.message_lines().await;
        assert_eq!(lines.last().unwrap(), "T#c2: write", "the result is stored while the other call runs");
        resume.notify_one();
    };
    let (end, ()) = tokio::join!(run, watch);
    assert_eq!(end.unwrap().status, RunStatus::Success);
    assert_eq!(harness.message_lines().await[2..], ["T#c2: write", "T#c1: slow", "A: Done."]);
}

#[tokio::test]
async fn a16_a_panicking_or_unknown_tool_gives_the_model_an_error_text() {
    let panics = |_: Value, _: ToolContext| async move { unreachable!("a defect of the tool") };
    let calls = ScriptedReply::call("c1", "breaks", json!({})).with_call("c2", "nothing", json!({}));
    let script = Script::new([calls, ScriptedReply::text("Done.")]);
    let harness =
        RuntimeHarness::new(script, vec![tool_with_result("breaks", RepeatSafety::Unsafe, panics)], vec![])
            .await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    let lines = harness.message_lines().await;
    assert!(
        lines[2].contains("failed because of an internal error")
            && lines[3].contains("There is no tool `nothing`"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_stopped_call_returns_its_partial_output() {
    let wait_for_cancel = |_: Value, context: ToolContext| async move {
        context.cancel.cancelled().await;
        ToolOutput::error("half of it")
    };
    let script = Script::new([ScriptedReply::call("c1", "waits", json!({}))]);
    let harness = RuntimeHarness::new(
        script,
        vec![tool_with_result("waits", RepeatSafety::Unsafe, wait_for_cancel)],
        vec![],
    )
    .await;
    let checkpoint = harness.admit_message("Go.").await;
    let (frames, mut stream) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let run = async {
        let end = harness
            .driver
            .drive(AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh), &frames, &cancel)
            .await;
        drop(frames);
        end
    };
    let stop = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
            if matches!(&*frame, Frame::ToolStarted { .. }) {
                cancel.cancel();
            }
        }
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(harness.message_lines().await.last().unwrap(), "T#c1: half of it");
}

#[tokio::test]
async fn a_model_that_has_nothing_to_add_after_its_tools_ends_the_turn() {
    let (look, _) = counting_tool("look", RepeatSafety::Safe);
    let script = Script::new([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::text("").with_tokens(7, 1),
    ]);
    let harness = RuntimeHarness::new(script, vec![look], vec![]).await;
    let end = harness.send_message("Go.").await;
    assert_eq!((end.status, end.usage.output_tokens), (RunStatus::Success, 6));
    assert_eq!(harness.message_lines().await.last().unwrap(), "T#c1: look");
    // Without a tool call before it, an empty answer is a failure.
    let harness = RuntimeHarness::new(Script::new([ScriptedReply::text("")]), vec![], vec![]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Error);
}
