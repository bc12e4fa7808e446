//! Work that is done alone on a thread, and runs that would rather be refused than wait; several runs at once.

use std::sync::Arc;

use agent::{CancellationToken, RunFilter};
use protocol::{Multitask, OnDisconnect, RunId, RunRequest, RunStatus, ThreadId};
use scheduler::{Alone, CancelAction, Dispatch, Error, IfNotExists, NewRun, ThreadItem};
use test_model::Server;

use crate::world::{
    GATE, LOCAL, World, alice, answering, ended, frames, gated, idle, is_busy, join, on, polled, row, said,
    say, saying, working,
};

fn rejecting(text: &str) -> RunRequest {
    RunRequest { multitask_strategy: Multitask::Reject, ..saying(text) }
}

/// Begins a turn as exclusive work; returns its run once it works.
async fn turn_alone(dispatch: &Arc<Dispatch>, thread: ThreadId, text: &'static str) -> RunId {
    let mut reader = dispatch.thread_live(&LOCAL, thread).from_now();
    let (inner, agent) = (Arc::clone(dispatch), dispatch.agent(&LOCAL));
    tokio::spawn(async move {
        let work = move |alone: Alone| async move {
            drop(agent.runs().send(thread, text, &alone.frames, &alone.cancel).await);
        };
        inner.exclusive(&LOCAL, thread, work).await
    });
    let Some(ThreadItem::Run(live)) = reader.next().await else { unreachable!("it begins") };
    live.run_id
}

/// Holds the thread with work that is no run until it is let go.
async fn held(dispatch: &Arc<Dispatch>, thread: ThreadId) -> CancellationToken {
    let (inner, hold) = (Arc::clone(dispatch), CancellationToken::new());
    let held = hold.clone();
    tokio::spawn(async move {
        let work = move |_| async move { held.cancelled().await };
        inner.exclusive(&LOCAL, thread, work).await.unwrap();
    });
    while dispatch.figures().working == 0 {
        tokio::task::yield_now().await;
    }
    hold
}

#[tokio::test]
async fn i5_the_run_of_exclusive_work_is_stopped_like_any_other() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "hello").await).await;
    let run_id = turn_alone(&dispatch, thread, "slow").await;
    dispatch.cancel(&LOCAL, thread, run_id, CancelAction::Interrupt).await.unwrap();
    assert_eq!(row(&dispatch, run_id).await.unwrap().status, RunStatus::Cancelled);
    let run_id = turn_alone(&dispatch, thread, "slow again").await;
    let run = row(&dispatch, run_id).await.unwrap();
    let mut live = dispatch.live(run_id, None).unwrap();
    dispatch.stop(&LOCAL, &run, CancelAction::Interrupt).await.unwrap();
    assert_eq!(ended(&frames(&mut live).await), [RunStatus::Cancelled]);
    idle(&dispatch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_free_once_whoever_worked_alone_on_it_is_answered() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "hello").await).await;
    for number in 0..20 {
        dispatch.exclusive(&LOCAL, thread, |_| async {}).await.unwrap();
        let taken = dispatch.create(&LOCAL, on(thread, rejecting("now"))).await.unwrap();
        assert_eq!(taken.run.status, RunStatus::Running, "{number}");
        join(&dispatch, &taken).await;
    }
}

#[tokio::test]
async fn a_run_that_would_rather_be_refused_waits_for_work_that_is_no_run() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "hello").await).await;
    let hold = held(&dispatch, thread).await;
    let stranger =
        NewRun { thread_id: Some(thread), request: rejecting("mine"), if_not_exists: IfNotExists::Reject };
    let refused = dispatch.create(&alice(), stranger).await;
    assert!(
        matches!(refused, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{refused:?}"
    );
    let taken = dispatch.create(&LOCAL, on(thread, rejecting("now"))).await.unwrap();
    assert_eq!(taken.run.status, RunStatus::Pending);
    assert!(is_busy(&dispatch.create(&LOCAL, on(thread, rejecting("too late"))).await), "a run waits");
    hold.cancel();
    assert_eq!(join(&dispatch, &taken).await.status, RunStatus::Success);
    turn_alone(&dispatch, thread, "slow").await;
    assert!(is_busy(&dispatch.create(&LOCAL, on(thread, rejecting("too late"))).await), "a run works");
    server.open(GATE);
    idle(&dispatch).await;
    assert!(!said(&dispatch, thread).await.contains(&"U: too late".to_owned()));
}

#[tokio::test]
async fn of_two_runs_at_once_that_would_rather_be_refused_one_is_taken() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "hello").await).await;
    let hold = held(&dispatch, thread).await;
    let click = || dispatch.create(&LOCAL, on(thread, rejecting("click")));
    let (one, other) = tokio::join!(click(), click());
    assert_ne!(is_busy(&one), is_busy(&other), "{one:?} {other:?}");
    hold.cancel();
    idle(&dispatch).await;
    let said = said(&dispatch, thread).await;
    assert_eq!(said.iter().filter(|line| *line == "U: click").count(), 1, "{said:?}");
    assert_eq!(dispatch.agent(&LOCAL).store().queued_runs(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_run_elsewhere_is_stopped_although_something_else_is_done_here_alone() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    let slow = say(&there, thread, "slow").await;
    let hold = held(&here, thread).await;
    let stopping = {
        let (here, run_id) = (Arc::clone(&here), slow.run.run_id);
        tokio::spawn(async move { here.cancel(&LOCAL, thread, run_id, CancelAction::Interrupt).await })
    };
    assert_eq!(join(&there, &slow).await.status, RunStatus::Cancelled);
    assert!(!hold.is_cancelled());
    hold.cancel();
    stopping.await.unwrap().unwrap();
}

#[tokio::test]
async fn several_runs_are_taken_though_the_caller_goes_away_and_go_on_though_nobody_reads() {
    let (world, server) = (World::new(), answering("yes"));
    let dispatch = world.over(&server);
    let new = || NewRun {
        thread_id: None,
        request: RunRequest { on_disconnect: OnDisconnect::Cancel, ..saying("hello") },
        if_not_exists: IfNotExists::Reject,
    };
    {
        let create = dispatch.create_all(&LOCAL, (0..5).map(|_| new()).collect());
        let mut create = std::pin::pin!(create);
        assert!(polled(create.as_mut()).await.is_none());
    }
    let store = Arc::clone(dispatch.agent(&LOCAL).store());
    let runs = || async { store.runs(RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap() };
    while runs().await.iter().filter(|run| !run.status.is_active()).count() < 5 {
        tokio::task::yield_now().await;
    }
    assert!(runs().await.iter().all(|run| run.status == RunStatus::Success), "{:?}", runs().await);
}

#[tokio::test]
async fn of_several_runs_all_are_taken_or_none() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let slow = say(&dispatch, thread, "slow").await;
    let first = NewRun { thread_id: None, request: saying("slow, too"), if_not_exists: IfNotExists::Reject };
    let refused = dispatch.create_all(&LOCAL, vec![first, on(thread, rejecting("now"))]).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    let store = Arc::clone(dispatch.agent(&LOCAL).store());
    let runs = || async { store.runs(RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap() };
    while runs().await.len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(runs().await[0].run_id, slow.run.run_id);
    server.open(GATE);
    assert_eq!(join(&dispatch, &slow).await.status, RunStatus::Success);
}

#[tokio::test]
async fn j9_a_run_that_this_process_lost_sight_of_begins_at_the_next_look() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "hello").await).await;
    let (agent, run_id) = (dispatch.agent(&LOCAL), RunId::generate());
    agent.runs().queue(run_id, thread, &saying("lost")).await.unwrap();
    assert_eq!(dispatch.recover().await.unwrap().waiting, 1);
    assert_eq!(dispatch.join(&LOCAL, thread, run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(said(&dispatch, thread).await.len(), 4);
}

/// Leaves a run that its process did not end, and returns its id.
async fn leave_run(world: &World, server: &Server, thread: ThreadId) -> RunId {
    let before = world.over(server);
    let slow = say(&before, thread, "slow").await;
    let run_id = slow.run.run_id;
    working(&before, run_id).await;
    before.shutdown(std::time::Duration::ZERO).await;
    drop(slow);
    crate::world::gone(before).await;
    run_id
}

#[tokio::test]
async fn h7_a_run_whose_folder_is_gone_is_left_alone_until_it_is_in_the_way() {
    let (world, server) = (World::new(), gated("slow"));
    let thread = ThreadId::generate();
    let run_id = leave_run(&world, &server, thread).await;
    std::fs::remove_dir_all(world.folder().join("workspace")).unwrap();
    let dispatch = Dispatch::new(world.agent_in("elsewhere"), scheduler::Limits::default());
    dispatch.recover().await.unwrap();
    idle(&dispatch).await;
    assert_eq!(row(&dispatch, run_id).await.unwrap().status, RunStatus::Running);
    server.open(GATE);
    let own = say(&dispatch, thread, "hello").await;
    assert_eq!(join(&dispatch, &own).await.status, RunStatus::Success);
    assert_eq!(row(&dispatch, run_id).await.unwrap().status, RunStatus::Error);
}

#[tokio::test]
async fn h7_a_run_that_was_begun_in_another_folder_is_resumed_in_its_own() {
    let (world, server) = (World::new(), gated("slow"));
    let thread = ThreadId::generate();
    let run_id = leave_run(&world, &server, thread).await;
    let dispatch = Dispatch::new(world.agent_in("elsewhere"), scheduler::Limits::default());
    assert_eq!(dispatch.recover().await.unwrap().resumed, 1);
    server.open(GATE);
    idle(&dispatch).await;
    assert_eq!(row(&dispatch, run_id).await.unwrap().status, RunStatus::Success);
}
