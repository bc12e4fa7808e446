//! Stopping from another process, limits, and leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{EventQuery, Transaction, Write};
use protocol::{Checkpoint, EventType, Message, RunStatus};
use runtime::{
    Admitted, Breakpoints, Entry, Frame, Frames, Item, Lease, Limits, Nodes, Repeat, Start, Subscription,
    TOOLS_NODE, ToolContext, ToolOutput,
};
use serde_json::{Value, json};
use test_model::{Place, Reply, Script};
use tokio_util::sync::CancellationToken;

use crate::world::{Counting, OWNER, World, tool};

#[tokio::test]
async fn j4_a_run_is_stopped_by_an_event_that_another_process_writes() {
    let reply = Reply::pieces(["Half ", "an answer"]).gated("never", Place::Start);
    let world = World::new(Script::new([reply]), vec![], vec![]).await;
    let point = world.admit("Go.").await;
    let run = world.drive(&point, Entry::Fresh);
    let stop = async {
        let status = runtime::request_stop(&*world.store, point.run_id, Timestamp::now()).await.unwrap();
        assert_eq!(status, RunStatus::Running);
        // Asking again changes nothing.
        runtime::request_stop(&*world.store, point.run_id, Timestamp::now()).await.unwrap();
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.status, RunStatus::Cancelled);
    let events = world.store.events(world.thread_id, EventQuery::after(0, 100)).await.unwrap();
    let stops = events.iter().filter(|event| event.kind() == Some(EventType::RunStopRequested)).count();
    assert_eq!(stops, 1);
    let late = runtime::request_stop(&*world.store, point.run_id, Timestamp::now()).await.unwrap();
    assert_eq!(late, RunStatus::Cancelled, "a run that has ended stays as it is");
}

#[tokio::test]
async fn a_run_whose_time_is_up_keeps_what_had_arrived() {
    let reply = Reply::pieces(["Half ", "an answer"]).gated("never", Place::End);
    let mut world = World::new(Script::new([reply]), vec![], vec![]).await;
    world.driver.limits = Limits { time_max: Some(Duration::from_millis(400)), ..Limits::default() };
    let end = world.say("Go.").await;
    assert_eq!(end.status, RunStatus::Timeout);
    assert_eq!(world.said().await, ["U: Go.", "A: Half an answer"]);
}

#[tokio::test]
async fn j3_a_run_that_was_taken_over_writes_nothing_more() {
    let reply = Reply::pieces(["Half ", "an answer"]).gated("later", Place::End);
    let world = World::new(Script::new([reply]), vec![], vec![]).await;
    let point = world.admit("Go.").await;
    let (frames, mut stream) = Frames::channel();
    let cancel = CancellationToken::new();
    let run = world.driver.drive(Admitted::at(point.clone(), Entry::Fresh), &frames, &cancel);
    let take_over = async {
        while let Some(Item::Frame(_, frame)) = stream.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                break;
            }
        }
        let now = Timestamp::now() + SignedDuration::from_mins(5);
        let lease_until = now + SignedDuration::from_mins(1);
        let (run_id, owner) = (point.run_id, "another".to_owned());
        let reclaim = Write::ReclaimRun { run_id, owner, now, lease_until };
        world.store.commit(Transaction { fence: None, writes: vec![reclaim] }).await.unwrap();
        world.server.open("later");
    };
    let (end, ()) = tokio::join!(run, take_over);
    let error = end.unwrap_err();
    assert!(matches!(error, runtime::Error::Journal(journal::Error::Fenced { .. })), "{error:?}");
    assert_eq!(world.said().await, ["U: Go."]);
}

#[tokio::test]
async fn j4_a_run_of_many_short_steps_is_stopped_too() {
    let (look, _) = tool("look", Repeat::Safe);
    let script = Script::new([Reply::call("c", "look", json!({})).repeated()]);
    let mut world = World::new(script, vec![look], vec![]).await;
    world.driver.limits = Limits { steps_max: 1_000_000, ..Limits::default() };
    let point = world.admit("Go.").await;
    runtime::request_stop(&*world.store, point.run_id, Timestamp::now()).await.unwrap();
    assert_eq!(world.drive(&point, Entry::Fresh).await.status, RunStatus::Cancelled);
}

/// Returns the run as another process takes it over.
async fn taken_over(world: &World, point: &Checkpoint) -> Admitted {
    let run = world.store.run(point.run_id).await.unwrap().unwrap();
    let now = Timestamp::now() + SignedDuration::from_mins(5);
    runtime::reclaim(&*world.store, &run, &OWNER.into(), runtime::Taken::Ended(now)).await.unwrap()
}

#[tokio::test]
async fn j4_a_stop_that_was_asked_of_a_process_that_is_gone_holds() {
    let world = World::new(Script::new([Reply::text("Not said.").repeated()]), vec![], vec![]).await;
    let point = world.admit("Go.").await;
    runtime::request_stop(&*world.store, point.run_id, Timestamp::now()).await.unwrap();
    let admitted = taken_over(&world, &point).await;
    let end = world.driver.drive(admitted, &Frames::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!((end.status, world.server.calls()), (RunStatus::Cancelled, 0));
    assert_eq!(world.said().await, ["U: Go."]);
}

#[tokio::test]
async fn b3_an_answer_that_is_begun_again_is_another_message_than_the_one_that_was_cut_off() {
    let half = Reply::pieces(["Half ", "an answer"]).gated("never", Place::End);
    let world = World::new(Script::new([half, Reply::text("Whole.")]), vec![], vec![]).await;
    let point = world.admit("Go.").await;
    let (frames, mut stream) = Frames::channel();
    let cancel = CancellationToken::new();
    let mut told = Vec::new();
    tokio::select! {
        end = world.driver.drive(Admitted::at(point.clone(), Entry::Fresh), &frames, &cancel) => panic!("{end:?}"),
        id = said_under(&mut stream) => told.push(id),
    }
    let admitted = taken_over(&world, &point).await;
    let (end, id) = tokio::join!(world.driver.drive(admitted, &frames, &cancel), async {
        loop {
            let id = said_under(&mut stream).await;
            if id != told[0] {
                break id;
            }
        }
    });
    assert_eq!(end.unwrap().status, RunStatus::Success);
    let stored = world.events().await.iter().rev().find_map(protocol::Event::message).unwrap();
    let Message::Ai(answer) = stored else { panic!("{stored:?}") };
    assert_eq!(answer.id, Some(id));
}

/// Returns the id under which text is told next.
async fn said_under(stream: &mut Subscription) -> String {
    while let Some(item) = stream.next().await {
        if let Item::Frame(_, frame) = item
            && let Frame::Text { message_id, .. } = &*frame
        {
            return message_id.clone();
        }
    }
    panic!("nothing more is told")
}

#[tokio::test]
async fn j4_a_call_that_may_have_been_made_is_not_made_again_by_who_goes_on_behind_a_stop() {
    let (look, looks) = tool("look", Repeat::Never);
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.").repeated()]);
    let mut world = World::new(script, vec![look], vec![]).await;
    let before = Nodes::These([TOOLS_NODE.to_owned()].into());
    world.driver.breakpoints = Breakpoints { before, ..Breakpoints::default() };
    world.say("Go.").await;
    world.driver.breakpoints = Breakpoints::default();
    let begin = async || {
        let start = Start { node: Some(TOOLS_NODE.to_owned()), ..Start::default() };
        runtime::admit(&*world.store, &world.driver.graph, &world.admission(), start).await.unwrap()
    };
    // The process that was to make the call is gone, and may have made it.
    let point = begin().await.checkpoint;
    runtime::request_stop(&*world.store, point.run_id, Timestamp::now()).await.unwrap();
    let admitted = taken_over(&world, &point).await;
    let end = world.driver.drive(admitted, &Frames::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
    let admitted = begin().await;
    let end = world.driver.drive(admitted, &Frames::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!((end.status, looks.load(Ordering::SeqCst)), (RunStatus::Success, 0));
    let said = world.said().await;
    assert!(said[2].starts_with("T#c1: The call was interrupted"), "{said:?}");
}

#[tokio::test]
async fn j2_what_may_have_been_begun_is_known_behind_a_process_that_left_before_it_looked() {
    for was_cut_off in [false, true] {
        let world = World::new(Script::new([]), vec![], vec![]).await;
        world.driver.halt.cancel();
        let point = world.admit("Go.").await;
        let admitted = match was_cut_off {
            true => taken_over(&world, &point).await,
            false => Admitted::at(point.clone(), Entry::Fresh),
        };
        let left = world.driver.drive(admitted, &Frames::default(), &CancellationToken::new()).await;
        assert!(matches!(left, Err(runtime::Error::Halted)), "{left:?}");
        let expected = if was_cut_off { Entry::Recovered } else { Entry::Fresh };
        assert_eq!(taken_over(&world, &point).await.entry, expected);
    }
}

#[tokio::test]
async fn j3_a_run_that_another_process_took_over_ends_here_in_the_middle_of_its_step() {
    let held = Reply::text("Never said.").gated("never", Place::Start);
    let mut world = World::new(Script::new([held]), vec![], vec![]).await;
    world.driver.lease = Lease::new(OWNER, Duration::from_millis(60));
    let point = world.admit("Go.").await;
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let driven = world.driver.drive(Admitted::at(point.clone(), Entry::Fresh), &frames, &cancel);
    let (driven, ()) = tokio::join!(driven, async {
        let run = world.store.run(point.run_id).await.unwrap().unwrap();
        let taken = runtime::Taken::Ended(Timestamp::now() + SignedDuration::from_mins(5));
        runtime::reclaim(&*world.store, &run, &"another".into(), taken).await.unwrap();
    });
    let lost = driven.unwrap_err();
    assert!(
        matches!(&lost, runtime::Error::Journal(journal::Error::Fenced { owner, .. }) if owner == "another")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j3_a_step_that_lets_nothing_else_happen_keeps_its_lease() {
    let renewed = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&renewed);
    let work = move |_: Value, _: ToolContext| {
        while !until.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        async { ToolOutput::success("at last") }
    };
    let busy = Arc::new(Counting { name: "busy", repeat: Repeat::Safe, calls: Arc::default(), work });
    let script = Script::new([Reply::call("c1", "busy", json!({})), Reply::text("Done.")]);
    let mut world = World::new(script, vec![busy], vec![]).await;
    world.driver.lease = Lease::new(OWNER, Duration::from_millis(90));
    let point = world.admit("Go.").await;
    let (store, run_id) = (Arc::clone(&world.store), point.run_id);
    let watching = tokio::spawn(async move {
        let until = async || store.run(run_id).await.unwrap().unwrap().lease_until;
        // The steps before the tool's renew it as well.
        for _ in 0..6 {
            let before = until().await;
            while until().await == before {
                tokio::task::yield_now().await;
            }
        }
        renewed.store(true, Ordering::Release);
    });
    assert_eq!(world.drive(&point, Entry::Fresh).await.status, RunStatus::Success);
    watching.await.unwrap();
}
