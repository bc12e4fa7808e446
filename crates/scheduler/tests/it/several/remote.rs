//! Tests of following runs of another server: the same stored frames at the same positions. Frames that are not stored may
//! differ.

use std::sync::Arc;

use agent::{Frame, FramePosition, SubscriptionItem};
use protocol::{RunRequest, RunStatus, ThreadId};
use scheduler::{RunReader, Scheduler, StreamPosition, ThreadItem};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, end_statuses, gate_at_start, gated_model, join, new_run_on, read_to_end,
    run_row, submit_message, transcript_lines, user_request, wait_for_first_step,
};

/// Returns the stored frames of a stream with their positions.
fn stored_frames(items: &[SubscriptionItem]) -> Vec<(FramePosition, Value)> {
    let is_stored = |frame: &Frame| {
        matches!(
            frame,
            Frame::RunStarted { .. }
                | Frame::Event(_)
                | Frame::Updates { .. }
                | Frame::Values { .. }
                | Frame::Interrupted(_)
                | Frame::RunEnded { .. }
        )
    };
    let frames = items.iter().filter_map(|item| match item {
        SubscriptionItem::Frame(position, frame) if is_stored(frame) => {
            let mut json = serde_json::to_value(&**frame).unwrap();
            if let (Frame::Updates { .. }, Some(json)) = (&**frame, json.as_object_mut()) {
                // The journal does not contain channels that were set to the value they had.
                json.remove("channels");
            }
            Some((*position, json))
        }
        SubscriptionItem::Frame(..) => None,
        SubscriptionItem::Gap { after } => Some((*after, json!("gap"))),
    });
    frames.collect()
}

/// A model that calls a tool, waits at the gate, and answers.
fn tool_calling_model() -> ScriptedServer {
    let tool_call =
        ScriptedReply::text("I look.").with_call("c1", "ls", json!({"path": "."})).when_turn_is(1, 1);
    let answer = gate_at_start(ScriptedReply::from_pieces(["It is ", "empty."])).when_turn_is(1, 2);
    ScriptedServer::start(Script::new([tool_call.with_repeat(), answer.with_repeat()])).unwrap()
}

async fn follow(
    scheduler: &Arc<Scheduler>,
    remote: &RunReader,
    after: Option<StreamPosition>,
) -> Option<RunReader> {
    let run = run_row(scheduler, remote.run_id).await.unwrap();
    scheduler.follow_run(&LOCAL, &run, after).await.unwrap()
}

/// Reads until a tool has been called.
async fn read_until_tool_call(run_reader: &mut RunReader) -> Vec<SubscriptionItem> {
    let mut items = Vec::new();
    while let Some(item) = run_reader.next().await {
        let is_tool_step = matches!(&item, SubscriptionItem::Frame(_, frame) if matches!(&**frame, Frame::Updates { node, .. } if node == "tools"));
        items.push(item);
        if is_tool_step {
            return items;
        }
    }
    unreachable!("the run ended before it called a tool");
}

#[tokio::test]
async fn i1_the_stored_frames_of_another_servers_run_have_the_same_positions_here() {
    let (fixture, server) = (SchedulerFixture::new(), tool_calling_model());
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let request = RunRequest { stream_resumable: true, ..user_request("look") };
    let mut created = remote.create_run(&LOCAL, new_run_on(ThreadId::generate(), request)).await.unwrap();
    let mut remote_items = read_until_tool_call(&mut created.reader).await;
    let mut run_reader = follow(&local, &created.reader, None).await.unwrap();
    let mut local_items = read_until_tool_call(&mut run_reader).await;
    server.open_gate(GATE);
    remote_items.extend(read_to_end(&mut created.reader).await);
    local_items.extend(read_to_end(&mut run_reader).await);
    assert_eq!(stored_frames(&local_items), stored_frames(&remote_items));
    assert_eq!(end_statuses(&local_items), [RunStatus::Success]);
    assert!(follow(&local, &created.reader, None).await.is_none(), "this server does not retain the stream");
}

#[tokio::test]
async fn i1_a_position_of_one_server_is_valid_on_another() {
    let (fixture, server) = (SchedulerFixture::new(), tool_calling_model());
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let mut created = submit_message(&remote, ThreadId::generate(), "look").await;
    let expected = stored_frames(&read_until_tool_call(&mut created.reader).await);
    for (index, (position, _)) in expected.iter().enumerate() {
        let after = StreamPosition { seq: position.seq, sub: position.sub, index: 0 };
        let mut run_reader = follow(&local, &created.reader, Some(after)).await.unwrap();
        let mut repeated = Vec::new();
        while let Some(item) = run_reader.try_next() {
            repeated.push(item);
        }
        // The frame at the position is repeated.
        let repeated = stored_frames(&repeated);
        assert!(repeated.len() > expected.len() - index, "{position:?}");
        assert_eq!(repeated[..expected.len() - index], expected[index..], "{position:?}");
    }
    server.open_gate(GATE);
    join(&remote, &created).await;
}

#[tokio::test]
async fn i1_a_reader_of_a_thread_sees_the_runs_of_all_servers_once() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    join(&remote, &submit_message(&remote, thread, "before").await).await;
    let mut slow = submit_message(&remote, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let mut thread_reader = local.thread_reader(&LOCAL, thread);
    let mut received = Vec::new();
    for text in ["first", "second", "third"] {
        let Some(ThreadItem::Run(mut run_reader)) = thread_reader.next().await else { panic!("a run") };
        server.open_gate(GATE);
        assert_eq!(end_statuses(&read_to_end(&mut run_reader).await), [RunStatus::Success]);
        received.push(run_reader.run_id);
        let scheduler = if text == "second" { &local } else { &remote };
        join(scheduler, &submit_message(scheduler, thread, text).await).await;
    }
    let Some(ThreadItem::Run(run_reader)) = thread_reader.next().await else { panic!("a run") };
    received.push(run_reader.run_id);
    let mut runs = std::collections::HashSet::from([slow.run.run_id]);
    assert!(received.contains(&slow.run.run_id));
    assert!(received.iter().all(|run_id| runs.insert(*run_id) || *run_id == slow.run.run_id));
    assert_eq!((received.len(), runs.len()), (4, 4));
    assert_eq!(transcript_lines(&local, thread).await.len(), 10);
}

#[tokio::test]
async fn i3_a_run_queued_on_another_server_is_followed_from_its_beginning() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
    let thread = ThreadId::generate();
    let mut slow = submit_message(&remote, thread, "slow").await;
    wait_for_first_step(&mut slow.reader).await;
    let mut queued = submit_message(&remote, thread, "behind").await;
    let mut run_reader = follow(&local, &queued.reader, None).await.unwrap();
    assert!(run_reader.try_next().is_none(), "the run is queued");
    server.open_gate(GATE);
    let items = read_to_end(&mut run_reader).await;
    assert_eq!(stored_frames(&items), stored_frames(&read_to_end(&mut queued.reader).await));
}
