//! Several servers on one home folder: what one that died left is done once, and what another one still needs is left to it.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Multitask, RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, Dispatch, IfNotExists, Limits, NewRun, WebhookTargets};

use crate::webhooks::{GRACE, Receiver, again};
use crate::world::{
    GATE, LOCAL, World, answering, begun, ended, frames, gated, gone, idle, join, on, row, said, say, saying,
    working,
};

/// Stops a server so that its process counts as gone, with all that worked and waited.
async fn dies(dispatch: Arc<Dispatch>) {
    dispatch.shutdown(Duration::ZERO).await;
    gone(dispatch).await;
}

#[tokio::test]
async fn j8_what_a_dead_server_left_is_done_and_told_once_by_two_that_live() {
    let (world, server, mut receiver) = (World::new(), gated("slow"), Receiver::start().await);
    world.configure(&server);
    let limits = Limits { runs_max: 1, webhook_targets: WebhookTargets::Any, ..Limits::default() };
    let first = world.dispatch(limits);
    let threads: Vec<ThreadId> = (0..5).map(|_| ThreadId::generate()).collect();
    let mut runs = Vec::new();
    for thread in &threads {
        let request = RunRequest { temporary: true, ..receiver.asked("slow") };
        runs.push(first.create(&LOCAL, on(*thread, request)).await.unwrap().run);
    }
    assert_eq!(runs.iter().filter(|run| run.status == RunStatus::Pending).count(), 4);
    dies(first).await;

    let servers = [again(&world), again(&world)];
    let (left, right) = tokio::join!(servers[0].recover(), servers[1].recover());
    assert!(left.unwrap().waiting + right.unwrap().waiting >= 4);
    for run in &runs {
        working(&servers[0], run.run_id).await;
    }
    // Whoever is second at one sees that, and tells nobody.
    for server in &servers {
        while server.figures().waiting > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(receiver.told.try_recv().is_err(), "they work");
    server.open(GATE);
    let mut told = Vec::new();
    for _ in &runs {
        let one = receiver.told.recv().await.unwrap();
        assert_eq!(one["status"], "success");
        told.push(one["run_id"].as_str().unwrap().to_owned());
    }
    for server in &servers {
        idle(server).await;
    }
    for server in servers {
        server.shutdown(GRACE).await;
    }
    assert!(receiver.told.try_recv().is_err(), "each is told of once");
    told.sort();
    let mut expected: Vec<String> = runs.iter().map(|run| run.run_id.to_string()).collect();
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn j10_what_a_dead_server_owed_is_told_by_one_of_two_that_live() {
    let (world, server, mut receiver) = (World::new(), answering("yes"), Receiver::start().await);
    world.configure(&server);
    let first = world.dispatch(Limits { webhook_targets: WebhookTargets::Any, ..Limits::default() });
    for _ in 0..5 {
        let created = first.create(&LOCAL, on(ThreadId::generate(), receiver.asked("hello"))).await.unwrap();
        join(&first, &created).await;
    }
    dies(first).await;
    let servers = [again(&world), again(&world)];
    for _ in 0..5 {
        receiver.told.recv().await.unwrap();
    }
    for server in servers {
        server.recover().await.unwrap();
        server.shutdown(GRACE).await;
    }
    assert!(receiver.told.try_recv().is_err(), "each is told of once");
}

#[tokio::test]
async fn h8_a_thread_that_another_server_still_needs_stays() {
    let (world, server) = (World::new(), answering("yes"));
    let first = world.over(&server);
    let request = RunRequest { temporary: true, stream_resumable: true, ..saying("hello") };
    let new = NewRun { thread_id: None, request, if_not_exists: IfNotExists::Reject };
    let created = first.create(&LOCAL, new).await.unwrap();
    let thread = created.run.thread_id;
    join(&first, &created).await;
    drop(created);
    let second = world.dispatch(Limits::default());
    second.recover().await.unwrap();
    // What it does behind that reads a few rows.
    let store = Arc::clone(second.agent(&LOCAL).store());
    for _ in 0..2_000 {
        assert!(store.thread(thread).await.unwrap().is_some(), "somebody may come back to the first one");
    }
}

#[tokio::test]
async fn i5_a_run_that_waits_in_another_server_is_stopped_there_at_its_next_look() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    let slow = say(&there, thread, "slow").await;
    let mut waits = say(&there, thread, "behind").await;
    here.cancel(&LOCAL, thread, waits.run.run_id, CancelAction::Interrupt).await.unwrap();
    there.recover().await.unwrap();
    assert_eq!(ended(&frames(&mut waits.live).await), [RunStatus::Cancelled]);
    assert_eq!(there.figures().waiting, 0);
    server.open(GATE);
    assert_eq!(join(&there, &slow).await.status, RunStatus::Success);
}

#[tokio::test]
async fn j4_a_run_that_rolls_back_takes_back_what_another_server_works_on() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    join(&there, &say(&there, thread, "first").await).await;
    let mut slow = say(&there, thread, "slow").await;
    begun(&mut slow.live).await;
    // Somebody waits for it here already.
    let behind = say(&here, thread, "behind").await;
    let rolling = RunRequest { multitask_strategy: Multitask::Rollback, ..saying("instead") };
    let rolling = here.create(&LOCAL, on(thread, rolling)).await.unwrap();
    assert_eq!(join(&here, &rolling).await.status, RunStatus::Success);
    assert_eq!(join(&here, &behind).await.status, RunStatus::Success);
    assert!(row(&here, slow.run.run_id).await.is_none());
    assert_eq!(
        said(&here, thread).await,
        ["U: first", "A: done", "U: instead", "A: done", "U: behind", "A: done"]
    );
}

#[tokio::test]
async fn j4_a_run_that_interrupts_stops_what_another_server_works_on() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    let mut slow = say(&there, thread, "slow").await;
    begun(&mut slow.live).await;
    let urgent = RunRequest { multitask_strategy: Multitask::Interrupt, ..saying("urgent") };
    let urgent = here.create(&LOCAL, on(thread, urgent)).await.unwrap();
    assert_eq!(join(&there, &slow).await.status, RunStatus::Cancelled);
    // What was asked first is asked with it.
    server.open(GATE);
    assert_eq!(join(&here, &urgent).await.status, RunStatus::Success);
}
