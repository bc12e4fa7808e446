//! Tests of stop requests from other processes, limits, and leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{EventQuery, Transaction, Write};
use protocol::{Checkpoint, EventType, Message, RunStatus};
use runtime::{
    AdmittedRun, Breakpoints, DriverLimits, Frame, FrameSender, FrameSubscription, LeaseHolder, NodeSet,
    RepeatSafety, RunStart, StepEntry, SubscriptionItem, TOOLS_NODE, ToolContext, ToolOutput,
};
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply};
use tokio_util::sync::CancellationToken;

use crate::harness::{CountingTool, OWNER, RuntimeHarness, counting_tool};

#[tokio::test]
async fn j4_a_run_is_stopped_by_an_event_that_another_process_writes() {
    let reply = ScriptedReply::from_pieces(["Half ", "an answer"]).with_gate("never", GatePosition::Start);
    let harness = RuntimeHarness::new(Script::new([reply]), vec![], vec![]).await;
    let checkpoint = harness.admit_message("Go.").await;
    let run = harness.drive(&checkpoint, StepEntry::Fresh);
    let stop = async {
        let status =
            runtime::request_stop(&*harness.store, checkpoint.run_id, Timestamp::now()).await.unwrap();
        assert_eq!(status, RunStatus::Running);
        // A repeated request changes nothing.
        runtime::request_stop(&*harness.store, checkpoint.run_id, Timestamp::now()).await.unwrap();
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.status, RunStatus::Cancelled);
    let events = harness.store.events(harness.thread_id, EventQuery::after(0, 100)).await.unwrap();
    let stops = events.iter().filter(|event| event.kind() == Some(EventType::RunStopRequested)).count();
    assert_eq!(stops, 1);
    let late = runtime::request_stop(&*harness.store, checkpoint.run_id, Timestamp::now()).await.unwrap();
    assert_eq!(late, RunStatus::Cancelled, "a run that has ended stays as it is");
}

#[tokio::test]
async fn a_run_that_exceeds_its_time_keeps_the_text_that_had_arrived() {
    let reply = ScriptedReply::from_pieces(["Half ", "an answer"]).with_gate("never", GatePosition::End);
    let mut harness = RuntimeHarness::new(Script::new([reply]), vec![], vec![]).await;
    harness.driver.limits =
        DriverLimits { time_max: Some(Duration::from_millis(400)), ..DriverLimits::default() };
    let end = harness.send_message("Go.").await;
    assert_eq!(end.status, RunStatus::Timeout);
    let hint = end.failure.and_then(|failure| failure.hint).unwrap();
    assert!(hint.contains("raise the time limit"), "{hint}");
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: Half an answer"]);
}

#[tokio::test]
async fn j3_a_process_that_lost_its_run_writes_nothing_more() {
    let reply = ScriptedReply::from_pieces(["Half ", "an answer"]).with_gate("later", GatePosition::End);
    let harness = RuntimeHarness::new(Script::new([reply]), vec![], vec![]).await;
    let checkpoint = harness.admit_message("Go.").await;
    let (frames, mut stream) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let run = harness.driver.drive(AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh), &frames, &cancel);
    let take_over = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                break;
            }
        }
        let now = Timestamp::now() + SignedDuration::from_mins(5);
        let lease_until = now + SignedDuration::from_mins(1);
        let (run_id, owner) = (checkpoint.run_id, "another".to_owned());
        let reclaim = Write::ReclaimRun { run_id, owner, now, lease_until };
        harness.store.commit(Transaction { fence: None, writes: vec![reclaim] }).await.unwrap();
        harness.server.open_gate("later");
    };
    let (end, ()) = tokio::join!(run, take_over);
    let error = end.unwrap_err();
    assert!(matches!(error, runtime::Error::Journal(journal::Error::Fenced { .. })), "{error:?}");
    assert_eq!(harness.message_lines().await, ["U: Go."]);
}

#[tokio::test]
async fn j4_a_run_of_many_short_steps_is_stopped_too() {
    let (look_tool, _) = counting_tool("look", RepeatSafety::Safe);
    let script = Script::new([ScriptedReply::call("c", "look", json!({})).with_repeat()]);
    let mut harness = RuntimeHarness::new(script, vec![look_tool], vec![]).await;
    harness.driver.limits = DriverLimits { steps_max: 1_000_000, ..DriverLimits::default() };
    let checkpoint = harness.admit_message("Go.").await;
    runtime::request_stop(&*harness.store, checkpoint.run_id, Timestamp::now()).await.unwrap();
    assert_eq!(harness.drive(&checkpoint, StepEntry::Fresh).await.status, RunStatus::Cancelled);
}

/// Takes the run over as another process would.
async fn take_over(harness: &RuntimeHarness, checkpoint: &Checkpoint) -> AdmittedRun {
    let run = harness.store.run(checkpoint.run_id).await.unwrap().unwrap();
    let now = Timestamp::now() + SignedDuration::from_mins(5);
    runtime::take_over_run(&*harness.store, &run, &OWNER.into(), runtime::TakeoverReason::LeaseExpired(now))
        .await
        .unwrap()
}

#[tokio::test]
async fn j4_a_stop_request_still_holds_after_a_takeover() {
    let harness =
        RuntimeHarness::new(Script::new([ScriptedReply::text("Not said.").with_repeat()]), vec![], vec![])
            .await;
    let checkpoint = harness.admit_message("Go.").await;
    runtime::request_stop(&*harness.store, checkpoint.run_id, Timestamp::now()).await.unwrap();
    let admitted = take_over(&harness, &checkpoint).await;
    let end =
        harness.driver.drive(admitted, &FrameSender::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!((end.status, harness.server.call_count()), (RunStatus::Cancelled, 0));
    assert_eq!(harness.message_lines().await, ["U: Go."]);
}

#[tokio::test]
async fn b3_an_answer_that_is_repeated_after_a_takeover_has_another_message_id() {
    let half = ScriptedReply::from_pieces(["Half ", "an answer"]).with_gate("never", GatePosition::End);
    let harness =
        RuntimeHarness::new(Script::new([half, ScriptedReply::text("Whole.")]), vec![], vec![]).await;
    let checkpoint = harness.admit_message("Go.").await;
    let (frames, mut stream) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let mut streamed_ids = Vec::new();
    tokio::select! {
        end = harness.driver.drive(AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh), &frames, &cancel) => panic!("{end:?}"),
        id = streamed_message_id(&mut stream) => streamed_ids.push(id),
    }
    let admitted = take_over(&harness, &checkpoint).await;
    let (end, id) = tokio::join!(harness.driver.drive(admitted, &frames, &cancel), async {
        loop {
            let id = streamed_message_id(&mut stream).await;
            if id != streamed_ids[0] {
                break id;
            }
        }
    });
    assert_eq!(end.unwrap().status, RunStatus::Success);
    let stored = harness.events().await.iter().rev().find_map(protocol::Event::message).unwrap();
    let Message::Ai(answer) = stored else { panic!("{stored:?}") };
    assert_eq!(answer.id, Some(id));
}

/// Returns the message id of the next text frame.
async fn streamed_message_id(stream: &mut FrameSubscription) -> String {
    while let Some(item) = stream.next().await {
        if let SubscriptionItem::Frame(_, frame) = item
            && let Frame::Text { message_id, .. } = &*frame
        {
            return message_id.clone();
        }
    }
    panic!("the stream ended without another text")
}

#[tokio::test]
async fn j4_after_a_stop_the_next_run_does_not_repeat_a_call_that_may_have_been_made() {
    let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
    let script = Script::new([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::text("Done.").with_repeat(),
    ]);
    let mut harness = RuntimeHarness::new(script, vec![look_tool], vec![]).await;
    let before = NodeSet::Named([TOOLS_NODE.to_owned()].into());
    harness.driver.breakpoints = Breakpoints { before, ..Breakpoints::default() };
    harness.send_message("Go.").await;
    harness.driver.breakpoints = Breakpoints::default();
    let admit = async || {
        let start = RunStart { node: Some(TOOLS_NODE.to_owned()), ..RunStart::default() };
        runtime::admit_run(&*harness.store, &harness.driver.graph, &harness.admission(), start).await.unwrap()
    };
    // The process that started the call has exited, and may have made the call.
    let checkpoint = admit().await.checkpoint;
    runtime::request_stop(&*harness.store, checkpoint.run_id, Timestamp::now()).await.unwrap();
    let admitted = take_over(&harness, &checkpoint).await;
    let end =
        harness.driver.drive(admitted, &FrameSender::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
    let admitted = admit().await;
    let end =
        harness.driver.drive(admitted, &FrameSender::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!((end.status, look_calls.load(Ordering::SeqCst)), (RunStatus::Success, 0));
    let lines = harness.message_lines().await;
    assert!(lines[2].starts_with("T#c1: The call was interrupted"), "{lines:?}");
}

#[tokio::test]
async fn j2_a_released_run_keeps_the_information_that_its_step_may_have_been_started() {
    for is_takeover in [false, true] {
        let harness = RuntimeHarness::new(Script::new([]), vec![], vec![]).await;
        harness.driver.shutdown.cancel();
        let checkpoint = harness.admit_message("Go.").await;
        let admitted = match is_takeover {
            true => take_over(&harness, &checkpoint).await,
            false => AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh),
        };
        let result = harness.driver.drive(admitted, &FrameSender::default(), &CancellationToken::new()).await;
        assert!(matches!(result, Err(runtime::Error::ShuttingDown)), "{result:?}");
        let expected = if is_takeover { StepEntry::Recovered } else { StepEntry::Fresh };
        assert_eq!(take_over(&harness, &checkpoint).await.entry, expected);
    }
}

#[tokio::test]
async fn j3_a_run_that_another_process_took_over_is_cancelled_in_the_middle_of_its_step() {
    let blocked_reply = ScriptedReply::text("Never said.").with_gate("never", GatePosition::Start);
    let mut harness = RuntimeHarness::new(Script::new([blocked_reply]), vec![], vec![]).await;
    harness.driver.lease = LeaseHolder::new(OWNER, Duration::from_millis(60));
    let checkpoint = harness.admit_message("Go.").await;
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let result =
        harness.driver.drive(AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh), &frames, &cancel);
    let (result, ()) = tokio::join!(result, async {
        let run = harness.store.run(checkpoint.run_id).await.unwrap().unwrap();
        let reason = runtime::TakeoverReason::LeaseExpired(Timestamp::now() + SignedDuration::from_mins(5));
        runtime::take_over_run(&*harness.store, &run, &"another".into(), reason).await.unwrap();
    });
    let error = result.unwrap_err();
    assert!(
        matches!(&error, runtime::Error::Journal(journal::Error::Fenced { owner, .. }) if owner == "another")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j3_a_step_that_blocks_its_thread_keeps_its_lease() {
    let renewed = Arc::new(AtomicBool::new(false));
    let is_renewed = Arc::clone(&renewed);
    let call_result = move |_: Value, _: ToolContext| {
        while !is_renewed.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        async { ToolOutput::success("at last") }
    };
    let busy = Arc::new(CountingTool {
        name: "busy",
        repeat: RepeatSafety::Safe,
        calls: Arc::default(),
        call_result,
    });
    let script = Script::new([ScriptedReply::call("c1", "busy", json!({})), ScriptedReply::text("Done.")]);
    let mut harness = RuntimeHarness::new(script, vec![busy], vec![]).await;
    harness.driver.lease = LeaseHolder::new(OWNER, Duration::from_millis(90));
    let checkpoint = harness.admit_message("Go.").await;
    let (store, run_id) = (Arc::clone(&harness.store), checkpoint.run_id);
    let watcher = tokio::spawn(async move {
        let read_lease_end = async || store.run(run_id).await.unwrap().unwrap().lease_until;
        // The steps before the tool's step renew the lease as well.
        for _ in 0..6 {
            let before = read_lease_end().await;
            while read_lease_end().await == before {
                tokio::task::yield_now().await;
            }
        }
        renewed.store(true, Ordering::Release);
    });
    assert_eq!(harness.drive(&checkpoint, StepEntry::Fresh).await.status, RunStatus::Success);
    watcher.await.unwrap();
}
