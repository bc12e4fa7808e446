//! Several servers that live on one database: what waits begins in the order in which it was asked for, whoever was asked;
//! what one leaves another takes, and only one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use journal::{Replica, Transaction, Write};
use protocol::{Multitask, RunRequest, RunStatus, Scope, ThreadId};
use scheduler::{CancelAction, Dispatch, Limits, Recovered};

use crate::webhooks::GRACE;
use crate::world::{
    GATE, LOCAL, World, begun, ended, frames, gated, gone, idle, is_busy, join, on, row, said, say, saying,
    status,
};

fn of(strategy: Multitask, text: &str) -> RunRequest {
    RunRequest { multitask_strategy: strategy, ..saying(text) }
}

async fn asked(dispatch: &Arc<Dispatch>, thread: ThreadId) -> Vec<String> {
    let said = said(dispatch, thread).await;
    said.into_iter().filter_map(|line| line.strip_prefix("U: ").map(str::to_owned)).collect()
}

#[tokio::test]
async fn h5_runs_of_a_thread_begin_in_the_order_in_which_they_were_asked_for_whichever_server_was_asked() {
    let (world, server) = (World::new(), gated("slow"));
    let servers = [world.over(&server), world.over(&server), world.over(&server)];
    let thread = ThreadId::generate();
    let mut slow = say(&servers[0], thread, "slow").await;
    begun(&mut slow.live).await;
    let mut runs = Vec::new();
    for number in 1..=9 {
        let dispatch = &servers[number % 3];
        runs.push((dispatch, say(dispatch, thread, &format!("number {number}")).await));
    }
    server.open(GATE);
    for (dispatch, created) in &runs {
        assert_eq!(join(dispatch, created).await.status, RunStatus::Success);
    }
    let expected: Vec<String> =
        ["slow".to_owned()].into_iter().chain((1..=9).map(|number| format!("number {number}"))).collect();
    assert_eq!(asked(&servers[1], thread).await, expected);
}

#[tokio::test]
async fn h5_a_run_that_displaces_what_works_goes_before_those_that_wait_in_another_server() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    let mut slow = say(&there, thread, "slow").await;
    begun(&mut slow.live).await;
    let behind = say(&there, thread, "behind").await;
    let urgent = here.create(&LOCAL, on(thread, of(Multitask::Interrupt, "urgent"))).await.unwrap();
    assert_eq!(ended(&frames(&mut slow.live).await), [RunStatus::Cancelled]);
    server.open(GATE);
    for (dispatch, created) in [(&there, &behind), (&here, &urgent)] {
        assert_eq!(join(dispatch, created).await.status, RunStatus::Success);
    }
    assert_eq!(status(&here, &slow).await, Some(RunStatus::Cancelled));
    assert_eq!(asked(&here, thread).await, ["slow", "urgent", "behind"]);
}

#[tokio::test]
async fn h5_a_run_that_would_rather_not_wait_is_refused_where_another_waits_in_another_server() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let there = world.dispatch(Limits { runs_max: 1, ..Limits::default() });
    let here = world.dispatch(Limits::default());
    let slow = say(&there, ThreadId::generate(), "slow").await;
    let thread = ThreadId::generate();
    let waits = say(&there, thread, "waits").await;
    assert_eq!(waits.run.status, RunStatus::Pending, "no other may work there");
    assert!(is_busy(&here.create(&LOCAL, on(thread, of(Multitask::Reject, "now"))).await));
    let behind = say(&here, thread, "behind").await;
    server.open(GATE);
    for (dispatch, created) in [(&there, &slow), (&there, &waits), (&here, &behind)] {
        assert_eq!(join(dispatch, created).await.status, RunStatus::Success);
    }
    assert_eq!(asked(&here, thread).await, ["waits", "behind"]);
}

#[tokio::test]
async fn j3_what_a_dead_server_left_is_taken_by_one_of_those_that_live() {
    const RUNS: usize = 20;
    let (world, server) = (World::new(), gated("slow"));
    let there = world.over(&server);
    let mut threads = Vec::new();
    for _ in 0..RUNS {
        let thread = ThreadId::generate();
        let mut slow = say(&there, thread, "slow").await;
        begun(&mut slow.live).await;
        let waits = say(&there, thread, "waits").await;
        threads.push((thread, slow.run.run_id, waits.run.run_id));
    }
    there.shutdown(Duration::ZERO).await;
    gone(there).await;
    let servers = [(); 3].map(|()| world.dispatch(Limits::default()));
    let recovered = futures::future::join_all(servers.iter().map(|server| server.recover())).await;
    assert!(recovered.iter().all(Result::is_ok), "{recovered:?}");
    server.open(GATE);
    for (thread, slow, waits) in &threads {
        for run_id in [slow, waits] {
            let run = servers[0].join(&LOCAL, *thread, *run_id).await.unwrap();
            assert_eq!(run.status, RunStatus::Success, "{run:?}");
        }
        assert_eq!(said(&servers[0], *thread).await, ["U: slow", "A: late", "U: waits", "A: late"]);
    }
    let figures = servers.each_ref().map(|server| server.figures());
    assert_eq!(figures.iter().map(|figures| figures.taken_over).sum::<usize>(), RUNS, "{figures:?}");
    assert_eq!(figures.iter().map(|figures| figures.lost).sum::<usize>(), 0, "{figures:?}");
}

#[tokio::test]
async fn j5_a_server_that_ends_gives_its_runs_to_one_that_lives_at_once() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    here.recover().await.unwrap();
    let thread = ThreadId::generate();
    let mut slow = say(&there, thread, "slow").await;
    begun(&mut slow.live).await;
    let waits = say(&there, thread, "waits").await;
    // It lives still, and its leases would last for long.
    there.shutdown(Duration::ZERO).await;
    server.open(GATE);
    // What was cut off in the middle of a step waits for the end of its lease, unless its process is gone.
    gone(there).await;
    for created in [&slow, &waits] {
        assert_eq!(join(&here, created).await.status, RunStatus::Success);
    }
    assert_eq!(said(&here, thread).await, ["U: slow", "A: late", "U: waits", "A: late"]);
}

#[tokio::test]
async fn j5_what_waits_in_a_server_that_ends_begins_in_another_before_that_has_ended() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let there = world.dispatch(Limits { runs_max: 1, ..Limits::default() });
    let here = world.dispatch(Limits::default());
    here.recover().await.unwrap();
    let mut slow = say(&there, ThreadId::generate(), "slow").await;
    begun(&mut slow.live).await;
    let waits = say(&there, ThreadId::generate(), "waits").await;
    let ending = tokio::spawn({
        let there = Arc::clone(&there);
        async move { there.shutdown(GRACE).await }
    });
    assert_eq!(join(&here, &waits).await.status, RunStatus::Success);
    assert_eq!(status(&here, &slow).await, Some(RunStatus::Running), "it is in the middle of a step");
    server.open(GATE);
    ending.await.unwrap();
    drop((slow, waits));
    gone(there).await;
    idle(&here).await;
}

#[tokio::test]
async fn j4_of_several_servers_that_stop_a_run_all_are_answered() {
    let (world, server) = (World::new(), gated("slow"));
    let servers = [world.over(&server), world.over(&server), world.over(&server)];
    let thread = ThreadId::generate();
    let mut slow = say(&servers[0], thread, "slow").await;
    begun(&mut slow.live).await;
    // Each has read once, so that none is still connecting when another's stop has had its effect: that run had ended before.
    for dispatch in &servers {
        assert_eq!(status(dispatch, &slow).await, Some(RunStatus::Running));
    }
    let stop = |dispatch: &Arc<Dispatch>| {
        let dispatch = Arc::clone(dispatch);
        let run_id = slow.run.run_id;
        async move { dispatch.cancel(&LOCAL, thread, run_id, CancelAction::Interrupt).await }
    };
    for stopped in futures::future::join_all(servers.iter().map(stop)).await {
        stopped.unwrap();
    }
    assert_eq!(ended(&frames(&mut slow.live).await), [RunStatus::Cancelled]);
    assert_eq!(row(&servers[2], slow.run.run_id).await.unwrap().status, RunStatus::Cancelled);
}

#[tokio::test]
async fn j2_a_server_that_was_late_to_say_that_it_lives_takes_nothing_from_itself() {
    let (world, server) = (World::new(), gated("slow"));
    let dispatch = world.over(&server);
    let thread = ThreadId::generate();
    let mut slow = say(&dispatch, thread, "slow").await;
    begun(&mut slow.live).await;
    let mut behind = say(&dispatch, thread, "behind").await;
    let agent = dispatch.agent(&Scope::Everyone);
    let store = agent.store();
    let replica = store.replicas().await.unwrap().pop().unwrap();
    let now = replica.alive_until;
    let late = Replica { alive_until: Timestamp::UNIX_EPOCH, ..replica };
    store
        .commit(Transaction { fence: None, writes: vec![Write::Announce { replica: late, now }] })
        .await
        .unwrap();
    let nothing = Recovered::default();
    assert_eq!(dispatch.recover().await.unwrap(), nothing);
    server.open(GATE);
    for created in [&mut slow, &mut behind] {
        assert_eq!(ended(&frames(&mut created.live).await), [RunStatus::Success]);
    }
}
