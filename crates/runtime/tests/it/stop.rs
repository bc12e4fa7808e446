//! Stopping from another process, limits, and leases.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{EventQuery, Transaction, Write};
use protocol::{EventType, RunStatus};
use runtime::{Admitted, Entry, Frame, Frames, Item, Limits, Repeat};
use scripted::{Place, Reply, Script};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{World, tool};

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
