//! Stopping a server in the middle, and starting it again: nothing is lost, nothing is done twice.

use std::sync::Arc;
use std::time::Duration;

use agent::Frame;
use protocol::{RunStatus, ThreadId};
use scheduler::{Dispatch, Error, Limits, Recovered};
use serde_json::json;
use test_model::{Call, Reply, Script, Server};

use crate::world::{
    GATE, LOCAL, World, answering, at_gate, begun, ended, events, frames, gated, gone, join, on, row, said,
    say, saying,
};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn j5_a_run_that_ends_in_time_keeps_its_end_and_nothing_new_begins() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut created = say(&dispatch, thread, "slow").await;
    begun(&mut created.live).await;
    let waiting = say(&dispatch, thread, "second").await;
    let stopping = {
        let dispatch = Arc::clone(&dispatch);
        tokio::spawn(async move { dispatch.shutdown(LONG).await })
    };
    while !is_closed(&dispatch).await {
        tokio::task::yield_now().await;
    }
    server.open(GATE);
    stopping.await.unwrap();
    assert_eq!(row(&dispatch, created.run.run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(row(&dispatch, waiting.run.run_id).await.unwrap().status, RunStatus::Pending);
    let refused = dispatch.create(&LOCAL, on(thread, saying("late"))).await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    dispatch.shutdown(LONG).await;
    gone(dispatch).await;

    let dispatch = world.dispatch(Limits::default());
    let recovered = dispatch.recover().await.unwrap();
    assert_eq!(recovered, Recovered { resumed: 0, waiting: 1, elsewhere: 0 });
    assert_eq!(join(&dispatch, &waiting).await.status, RunStatus::Success);
    assert_eq!(said(&dispatch, thread).await, ["U: slow", "A: late", "U: second", "A: late"]);
}

async fn is_closed(dispatch: &Arc<Dispatch>) -> bool {
    let refused = dispatch.exclusive(&LOCAL, ThreadId::generate(), |_| async {}).await;
    matches!(refused, Err(Error::ShuttingDown))
}

#[tokio::test]
async fn j5_a_run_that_does_not_end_in_time_is_left_as_it_is_and_goes_on_at_the_next_start() {
    let call = Call { id: "c1".to_owned(), name: "write_todos".to_owned(), args: json!({"todos": []}) };
    let first = Reply { calls: vec![call], ..Reply::default() };
    let second = at_gate(Reply::text("finished"));
    let server = Server::start(Script::new([first, second.clone(), second])).unwrap();
    let (world, thread) = (World::new(), ThreadId::generate());
    let dispatch = world.over(&server);
    let mut created = say(&dispatch, thread, "work").await;
    let run_id = created.run.run_id;
    // The tool has run, and the model is asked again.
    let mut steps = 0;
    while steps < 3 {
        match created.live.next().await {
            Some(agent::Item::Frame(_, frame)) if matches!(*frame, Frame::StepStarted { .. }) => steps += 1,
            Some(_) => {}
            None => unreachable!("the run ended"),
        }
    }
    dispatch.shutdown(Duration::ZERO).await;
    let items = frames(&mut created.live).await;
    assert_eq!(ended(&items), [], "nobody was told that it ended");
    let left = events(&dispatch, thread).await.len();
    assert_eq!(row(&dispatch, run_id).await.unwrap().status, RunStatus::Running);
    server.open(GATE);
    dispatch.shutdown(Duration::ZERO).await;
    assert_eq!(events(&dispatch, thread).await.len(), left, "nothing is written afterwards");
    gone(dispatch).await;

    let dispatch = world.dispatch(Limits::default());
    assert_eq!(dispatch.recover().await.unwrap().resumed, 1);
    assert_eq!(join(&dispatch, &created).await.status, RunStatus::Success);
    let lines = said(&dispatch, thread).await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("T:")).count(), 1, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "A: finished");
}

#[tokio::test]
async fn j5_a_second_signal_ends_the_wait() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut created = say(&dispatch, thread, "slow").await;
    begun(&mut created.live).await;
    let patient = {
        let dispatch = Arc::clone(&dispatch);
        tokio::spawn(async move { dispatch.shutdown(LONG).await })
    };
    dispatch.shutdown(Duration::ZERO).await;
    patient.await.unwrap();
    assert_eq!(row(&dispatch, created.run.run_id).await.unwrap().status, RunStatus::Running);
    assert!(frames(&mut created.live).await.iter().all(|item| ended(std::slice::from_ref(item)).is_empty()));
}

#[tokio::test]
async fn j5_readers_and_waiters_are_let_go() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let created = say(&dispatch, thread, "slow").await;
    let mut reader = dispatch.thread_live(&LOCAL, ThreadId::generate());
    let joining = {
        let (dispatch, run_id) = (Arc::clone(&dispatch), created.run.run_id);
        tokio::spawn(async move { dispatch.join(&LOCAL, thread, run_id).await })
    };
    tokio::task::yield_now().await;
    dispatch.shutdown(Duration::ZERO).await;
    assert!(reader.next().await.is_none());
    assert!(matches!(joining.await.unwrap(), Err(Error::ShuttingDown)));
}

#[tokio::test]
async fn j2_a_start_with_nothing_left_does_nothing() {
    let (world, server) = (World::new(), answering("yes"));
    let dispatch = world.over(&server);
    assert_eq!(dispatch.recover().await.unwrap(), Recovered::default());
    dispatch.shutdown(LONG).await;
}
