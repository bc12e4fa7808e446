//! Stopping runs: waiting, working, ended, foreign; once, twice, and because their client went away.

use std::sync::Arc;

use protocol::{EventType, OnDisconnect, RunId, RunRequest, RunStatus, ThreadId, ThreadStatus};
use scheduler::{CancelAction, Created, Dispatch, Error};

use crate::world::{
    GATE, LOCAL, World, alice, answering, begun, ended, events, frames, gated, idle, join, on, row, said,
    say, saying, status,
};

async fn cancel(dispatch: &Arc<Dispatch>, created: &Created, action: CancelAction) -> scheduler::Result<()> {
    dispatch.cancel(&LOCAL, created.run.thread_id, created.run.run_id, action).await
}

async fn thread_status(dispatch: &Arc<Dispatch>, thread_id: ThreadId) -> ThreadStatus {
    dispatch.agent(&LOCAL).store().thread(thread_id).await.unwrap().unwrap().status
}

#[tokio::test]
async fn i5_a_run_that_works_has_stopped_when_the_call_returns_and_what_it_did_stays() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut working = say(&dispatch, thread, "slow").await;
    begun(&mut working.live).await;
    cancel(&dispatch, &working, CancelAction::Interrupt).await.unwrap();
    assert_eq!(status(&dispatch, &working).await, Some(RunStatus::Cancelled));
    assert_eq!(ended(&frames(&mut working.live).await), [RunStatus::Cancelled]);
    idle(&dispatch).await;
    assert_eq!(said(&dispatch, thread).await[0], "U: slow");
    let again = cancel(&dispatch, &working, CancelAction::Interrupt).await;
    assert!(matches!(again, Err(Error::Ended { status: RunStatus::Cancelled, .. })), "{again:?}");
}

#[tokio::test]
async fn i5_a_run_that_is_taken_back_is_not_there_any_more() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "first").await).await;
    let mut working = say(&dispatch, thread, "slow").await;
    begun(&mut working.live).await;
    cancel(&dispatch, &working, CancelAction::Rollback).await.unwrap();
    assert!(row(&dispatch, working.run.run_id).await.is_none());
    assert_eq!(said(&dispatch, thread).await, ["U: first", "A: done"]);
    assert_eq!(thread_status(&dispatch, thread).await, ThreadStatus::Idle);
    let again = cancel(&dispatch, &working, CancelAction::Rollback).await;
    assert!(matches!(again, Err(Error::UnknownRun { .. })), "{again:?}");
}

#[tokio::test]
async fn i5_a_run_that_waits_ends_without_having_begun() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let working = say(&dispatch, thread, "slow").await;
    let (mut kept, gone) = (say(&dispatch, thread, "second").await, say(&dispatch, thread, "third").await);
    let last = say(&dispatch, thread, "fourth").await;
    cancel(&dispatch, &kept, CancelAction::Interrupt).await.unwrap();
    cancel(&dispatch, &gone, CancelAction::Rollback).await.unwrap();
    assert_eq!(status(&dispatch, &kept).await, Some(RunStatus::Cancelled));
    assert_eq!(ended(&frames(&mut kept.live).await), [RunStatus::Cancelled]);
    assert_eq!(status(&dispatch, &gone).await, None);
    server.open(GATE);
    assert_eq!(join(&dispatch, &working).await.status, RunStatus::Success);
    assert_eq!(join(&dispatch, &last).await.status, RunStatus::Success);
    assert_eq!(said(&dispatch, thread).await, ["U: slow", "A: late", "U: fourth", "A: late"]);
    assert_eq!(thread_status(&dispatch, thread).await, ThreadStatus::Idle);
}

#[tokio::test]
async fn i5_whoever_stops_a_run_twice_is_answered_twice() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut working = say(&dispatch, thread, "slow").await;
    begun(&mut working.live).await;
    let both = tokio::join!(
        cancel(&dispatch, &working, CancelAction::Interrupt),
        cancel(&dispatch, &working, CancelAction::Interrupt)
    );
    assert!(matches!(both, (Ok(()), Ok(()))), "{both:?}");
}

#[tokio::test]
async fn i5_what_has_ended_or_is_not_there_is_told_apart() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let done = say(&dispatch, thread, "hello").await;
    join(&dispatch, &done).await;
    let run_id = done.run.run_id;
    let ended = cancel(&dispatch, &done, CancelAction::Interrupt).await;
    assert!(matches!(ended, Err(Error::Ended { status: RunStatus::Success, .. })), "{ended:?}");
    for (scope, thread_id, run_id) in [
        (LOCAL.clone(), thread, RunId::generate()),
        (LOCAL.clone(), ThreadId::generate(), run_id),
        (alice(), thread, run_id),
    ] {
        let unknown = dispatch.cancel(&scope, thread_id, run_id, CancelAction::Interrupt).await;
        assert!(matches!(unknown, Err(Error::UnknownRun { .. })), "{unknown:?}");
        let unknown = dispatch.join(&scope, thread_id, run_id).await;
        assert!(matches!(unknown, Err(Error::UnknownRun { .. })), "{unknown:?}");
    }
}

#[tokio::test]
async fn i5_a_client_who_goes_away_stops_its_run_only_if_that_was_asked() {
    let (world, server) = (World::new(), gated("slow"));
    let dispatch = world.over(&server);
    let cancelling = || RunRequest { on_disconnect: OnDisconnect::Cancel, ..saying("slow") };
    let mut going = dispatch.create(&LOCAL, on(ThreadId::generate(), cancelling())).await.unwrap();
    begun(&mut going.live).await;
    let left = dispatch.create(&LOCAL, on(ThreadId::generate(), cancelling())).await.unwrap();
    let staying = say(&dispatch, ThreadId::generate(), "slow").await;
    let rejoined = say(&dispatch, ThreadId::generate(), "slow").await;
    let (ids, others) = (
        (going.run.thread_id, going.run.run_id),
        [&left, &staying].map(|created| (created.run.thread_id, created.run.run_id)),
    );
    drop(going);
    assert_eq!(dispatch.join(&LOCAL, ids.0, ids.1).await.unwrap().status, RunStatus::Cancelled);
    drop(dispatch.live(rejoined.run.run_id, None).unwrap().cancel_on_drop());
    assert_eq!(join(&dispatch, &rejoined).await.status, RunStatus::Cancelled);
    left.live.leave();
    drop(staying);
    server.open(GATE);
    for (thread_id, run_id) in others {
        let run = dispatch.join(&LOCAL, thread_id, run_id).await.unwrap();
        assert_eq!(run.status, RunStatus::Success);
    }
}

#[tokio::test]
async fn i5_a_client_who_goes_away_stops_a_run_that_waits() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let working = say(&dispatch, thread, "slow").await;
    let request = RunRequest { on_disconnect: OnDisconnect::Cancel, ..saying("second") };
    let waiting = dispatch.create(&LOCAL, on(thread, request)).await.unwrap();
    let run_id = waiting.run.run_id;
    drop(waiting);
    assert_eq!(dispatch.join(&LOCAL, thread, run_id).await.unwrap().status, RunStatus::Cancelled);
    server.open(GATE);
    assert_eq!(join(&dispatch, &working).await.status, RunStatus::Success);
    assert_eq!(said(&dispatch, thread).await, ["U: slow", "A: late"]);
}

#[tokio::test]
async fn i5_whoever_is_answered_that_a_run_is_stopped_finds_it_stopped_after_a_crash() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut working = say(&dispatch, thread, "slow").await;
    begun(&mut working.live).await;
    dispatch.stop(&LOCAL, &working.run, CancelAction::Interrupt).await.unwrap();
    let asked = EventType::RunStopRequested;
    let written =
        events(&dispatch, thread).await.into_iter().filter(|event| event.event_type == asked.as_str());
    assert_eq!(written.map(|event| event.run_id).collect::<Vec<_>>(), [Some(working.run.run_id)]);
    assert_eq!(join(&dispatch, &working).await.status, RunStatus::Cancelled);
}
