//! Which run works when: one a thread, in order; strategies; bounds; work that must not meet a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::{EventType, Multitask, RunRequest, RunStatus, ThreadId};
use scheduler::{Error, IfNotExists, Limits, NewRun};

use crate::world::{
    GATE, LOCAL, World, alice, answering, begun, ended, events, frames, gated, idle, is_busy, join, on,
    polled, row, said, say, saying, status,
};

fn with(text: &str, multitask_strategy: Multitask) -> RunRequest {
    RunRequest { multitask_strategy, ..saying(text) }
}

#[tokio::test]
async fn j1_fifty_runs_on_one_thread_work_one_after_the_other_in_order() {
    let (world, server) = (World::new(), gated("message 0"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut runs = Vec::new();
    for number in 0..50 {
        runs.push(say(&dispatch, thread, &format!("message {number}.")).await);
    }
    assert_eq!(runs[0].run.status, RunStatus::Running);
    assert!(runs[1..].iter().all(|created| created.run.status == RunStatus::Pending));
    assert_eq!(status(&dispatch, &runs[49]).await, Some(RunStatus::Pending));
    server.open(GATE);
    for created in &runs {
        assert_eq!(join(&dispatch, created).await.status, RunStatus::Success);
    }
    let people = said(&dispatch, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    let expected: Vec<String> = (0..50).map(|number| format!("U: message {number}.")).collect();
    assert_eq!(people.collect::<Vec<_>>(), expected);
    let mut working = None;
    for event in events(&dispatch, thread).await {
        if event.event_type == EventType::RunStarted.as_str() {
            assert_eq!(working, None, "a run began while another worked");
            working = event.run_id;
        } else if event.event_type == EventType::RunEnded.as_str() {
            assert_eq!(working.take(), event.run_id);
        }
    }
    idle(&dispatch).await;
}

#[tokio::test]
async fn a_thread_that_is_not_there_is_made_only_where_that_is_asked() {
    let (world, server) = (World::new(), answering("yes"));
    let dispatch = world.over(&server);
    let thread_id = Some(ThreadId::generate());
    let unknown = NewRun { thread_id, request: saying("hello"), if_not_exists: IfNotExists::Reject };
    let refused = dispatch.create(&LOCAL, unknown).await;
    assert!(
        matches!(refused, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{refused:?}"
    );
    let new = NewRun { thread_id: None, request: saying("hello"), if_not_exists: IfNotExists::Reject };
    let made = dispatch.create(&LOCAL, new).await.unwrap();
    assert_eq!(join(&dispatch, &made).await.status, RunStatus::Success);
    let foreign = NewRun {
        thread_id: Some(made.run.thread_id),
        request: saying("hello"),
        if_not_exists: IfNotExists::Reject,
    };
    let refused = dispatch.create(&alice(), foreign).await;
    assert!(
        matches!(refused, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_run_that_would_rather_be_refused_than_wait_is_refused() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let working = say(&dispatch, thread, "slow").await;
    let refused = dispatch.create(&LOCAL, on(thread, with("now", Multitask::Reject))).await;
    assert!(is_busy(&refused), "{refused:?}");
    let foreign = on(thread, with("now", Multitask::Reject));
    let foreign = NewRun { if_not_exists: IfNotExists::Reject, ..foreign };
    let foreign = dispatch.create(&alice(), foreign).await;
    assert!(
        matches!(foreign, Err(Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))))),
        "{foreign:?}"
    );
    server.open(GATE);
    join(&dispatch, &working).await;
    let taken = dispatch.create(&LOCAL, on(thread, with("now", Multitask::Reject))).await.unwrap();
    assert_eq!(join(&dispatch, &taken).await.status, RunStatus::Success);
}

#[tokio::test]
async fn a_run_that_interrupts_stops_what_works_and_goes_before_what_waits() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut working = say(&dispatch, thread, "slow").await;
    begun(&mut working.live).await;
    let waiting = say(&dispatch, thread, "second").await;
    let urgent = dispatch.create(&LOCAL, on(thread, with("urgent", Multitask::Interrupt))).await.unwrap();
    server.open(GATE);
    assert_eq!(join(&dispatch, &working).await.status, RunStatus::Cancelled);
    assert_eq!(join(&dispatch, &urgent).await.status, RunStatus::Success);
    assert_eq!(join(&dispatch, &waiting).await.status, RunStatus::Success);
    let people = said(&dispatch, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    assert_eq!(people.collect::<Vec<_>>(), ["U: slow", "U: urgent", "U: second"]);
}

#[tokio::test]
async fn a_run_that_rolls_back_takes_back_what_works() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    join(&dispatch, &say(&dispatch, thread, "first").await).await;
    let mut working = say(&dispatch, thread, "slow").await;
    begun(&mut working.live).await;
    let urgent = dispatch.create(&LOCAL, on(thread, with("instead", Multitask::Rollback))).await.unwrap();
    server.open(GATE);
    assert_eq!(join(&dispatch, &urgent).await.status, RunStatus::Success);
    assert!(row(&dispatch, working.run.run_id).await.is_none(), "it is forgotten");
    assert_eq!(said(&dispatch, thread).await, ["U: first", "A: done", "U: instead", "A: done"]);
    let items = frames(&mut working.live).await;
    assert_eq!(ended(&items), [RunStatus::Cancelled]);
}

#[tokio::test]
async fn runs_beyond_those_that_may_work_wait_and_begin_in_order() {
    let (world, server) = (World::new(), gated("thread 0"));
    world.configure(&server);
    let dispatch = world.dispatch(Limits { runs_max: 1, ..Limits::default() });
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(say(&dispatch, ThreadId::generate(), &format!("thread {number}.")).await);
    }
    let statuses: Vec<_> = runs.iter().map(|created| created.run.status).collect();
    assert_eq!(statuses, [RunStatus::Running, RunStatus::Pending, RunStatus::Pending, RunStatus::Pending]);
    server.open(GATE);
    for created in &runs {
        assert_eq!(join(&dispatch, created).await.status, RunStatus::Success);
    }
    let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
    let asked: Vec<_> = (0..4)
        .map(|number| bodies.iter().position(|body| body.contains(&format!("thread {number}."))))
        .collect();
    assert!(asked.is_sorted(), "{asked:?}");
}

#[tokio::test]
async fn a_queue_that_is_full_refuses_and_says_when_to_come_back() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let limits = Limits { queue_max: 3, queue_per_user_max: 2, ..Limits::default() };
    let (dispatch, thread) = (world.dispatch(limits), ThreadId::generate());
    let mut runs = vec![say(&dispatch, thread, "slow").await];
    for _ in 0..2 {
        runs.push(say(&dispatch, thread, "more").await);
    }
    let refused = dispatch.create(&LOCAL, on(thread, saying("too many"))).await;
    assert!(matches!(refused, Err(Error::Full { retry_after }) if !retry_after.is_zero()), "{refused:?}");
    let hers = ThreadId::generate();
    for _ in 0..2 {
        dispatch.create(&alice(), on(hers, saying("slow, too"))).await.unwrap();
    }
    let refused = dispatch.create(&alice(), on(hers, saying("too many in all"))).await;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    server.open(GATE);
    for created in &runs {
        assert_eq!(join(&dispatch, created).await.status, RunStatus::Success);
    }
    let people = said(&dispatch, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    assert_eq!(people.count(), 3, "what was refused left nothing");
}

#[tokio::test]
async fn j1_exclusive_work_meets_no_run() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let first = say(&dispatch, thread, "slow").await;
    let done = Arc::new(AtomicBool::new(false));
    let work = {
        let (dispatch, done) = (Arc::clone(&dispatch), Arc::clone(&done));
        let (inner, first) = (Arc::clone(&dispatch), first.run.run_id);
        async move {
            let work = move |_| async move {
                assert_eq!(row(&inner, first).await.unwrap().status, RunStatus::Success);
                tokio::task::yield_now().await;
                done.store(true, Ordering::SeqCst);
            };
            dispatch.exclusive(&LOCAL, thread, work).await
        }
    };
    let mut work = std::pin::pin!(work);
    // It is in the line once it was polled.
    assert!(polled(work.as_mut()).await.is_none());
    let mut behind = say(&dispatch, thread, "behind").await;
    assert_eq!(behind.run.status, RunStatus::Pending);
    server.open(GATE);
    work.await.unwrap();
    begun(&mut behind.live).await;
    assert!(done.load(Ordering::SeqCst));
    assert_eq!(join(&dispatch, &behind).await.status, RunStatus::Success);
}

#[tokio::test]
async fn work_that_panics_or_that_nobody_waits_for_holds_nobody_up() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let panicked = dispatch.exclusive(&LOCAL, thread, |_| async { assert_eq!(1, 2, "on purpose") }).await;
    assert!(matches!(panicked, Err(Error::CutOff)), "{panicked:?}");
    let working = say(&dispatch, thread, "slow").await;
    {
        let never = dispatch.exclusive(&LOCAL, thread, |_| async { unreachable!("nobody waits for it") });
        let mut never = std::pin::pin!(never);
        assert!(polled(never.as_mut()).await.is_none());
    }
    let behind = say(&dispatch, thread, "behind").await;
    server.open(GATE);
    assert_eq!(join(&dispatch, &working).await.status, RunStatus::Success);
    assert_eq!(join(&dispatch, &behind).await.status, RunStatus::Success);
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_a_run_that_goes_on() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    {
        let create = dispatch.create(&LOCAL, on(thread, saying("hello")));
        let mut create = std::pin::pin!(create);
        assert!(polled(create.as_mut()).await.is_none());
    }
    // Its task goes its own way; the line knows of it sooner or later.
    while said(&dispatch, thread).await != ["U: hello", "A: yes"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(join(&dispatch, &say(&dispatch, thread, "again").await).await.status, RunStatus::Success);
}
