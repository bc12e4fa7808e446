//! What readers see: all of a run, once and in order; what is kept, what is lost, and who holds up whom.

use std::sync::Arc;

use agent::{Frame, Item, Position};
use protocol::{RunId, RunRequest, RunStatus, ThreadId, ThreadStatus};
use scheduler::{IfNotExists, Limits, Live, NewRun, StreamPosition, ThreadItem};
use test_model::{Reply, Script, Server};

use crate::world::{
    GATE, LOCAL, World, alice, answering, at_gate, begun, ended, frames, gated, gone, join, on, say, saying,
    status,
};

fn resumable(text: &str) -> RunRequest {
    RunRequest { stream_resumable: true, ..saying(text) }
}

/// Returns the items as text: equal texts are equal streams.
fn told(items: &[Item]) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

fn positions(items: &[Item]) -> Vec<Position> {
    let position = |item: &Item| match item {
        Item::Frame(position, _) => Some(*position),
        Item::Gap { .. } => None,
    };
    items.iter().filter_map(position).collect()
}

fn run_of(items: &[Item]) -> Option<RunId> {
    items.iter().find_map(|item| match item {
        Item::Frame(_, frame) => match **frame {
            Frame::RunStarted { run_id, .. } => Some(run_id),
            _ => None,
        },
        Item::Gap { .. } => None,
    })
}

#[tokio::test]
async fn i3_a_stream_ends_once_and_only_when_the_rows_are_final() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    for _ in 0..20 {
        let mut created = say(&dispatch, thread, "hello").await;
        assert_eq!(created.run.status, RunStatus::Running, "the thread is free once the stream has ended");
        let items = frames(&mut created.live).await;
        assert_eq!(ended(&items), [RunStatus::Success]);
        assert!(created.live.next().await.is_none(), "the end is the end");
        assert_eq!(status(&dispatch, &created).await, Some(RunStatus::Success));
        let row = dispatch.agent(&LOCAL).store().thread(thread).await.unwrap().unwrap();
        assert_eq!(row.status, ThreadStatus::Idle);
    }
}

#[tokio::test]
async fn i1_a_stream_that_is_kept_is_read_again_the_same_from_any_place() {
    let (world, server) = (World::new(), answering("yes, of course"));
    let dispatch = world.over(&server);
    let mut created = dispatch.create(&LOCAL, on(ThreadId::generate(), resumable("hello"))).await.unwrap();
    let all = frames(&mut created.live).await;
    let places = positions(&all);
    assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
    let run_id = created.run.run_id;
    let again = frames(&mut dispatch.live(run_id, None).unwrap()).await;
    assert_eq!(told(&again), told(&all));
    for (index, Position { seq, sub }) in places.into_iter().enumerate() {
        let after = Some(StreamPosition { seq, sub, n: 7 });
        let rest = frames(&mut dispatch.live(run_id, after).unwrap()).await;
        assert_eq!(told(&rest), told(&all[index..]), "from {seq}-{sub} on");
    }
}

#[tokio::test]
async fn i1_a_stream_that_is_not_kept_is_gone_with_its_run() {
    let (world, server) = (World::new(), gated("slow"));
    let dispatch = world.over(&server);
    let mut created = say(&dispatch, ThreadId::generate(), "slow").await;
    let run_id = created.run.run_id;
    let mut joined = dispatch.live(run_id, None).unwrap();
    server.open(GATE);
    let all = frames(&mut created.live).await;
    assert_eq!(told(&frames(&mut joined).await), told(&all), "whoever came while it worked sees all of it");
    assert!(dispatch.live(run_id, None).is_none());
    assert!(dispatch.live(RunId::generate(), None).is_none());
}

#[tokio::test]
async fn i6_one_who_reads_slowly_is_told_of_one_gap_and_holds_nobody_up() {
    let pieces = Reply { text: (0..9_000).map(|n| format!("{n} ")).collect(), ..Reply::default() };
    let (world, server) = (World::new(), Server::start(Script::new([at_gate(pieces)])).unwrap());
    let dispatch = world.over(&server);
    let mut created = dispatch.create(&LOCAL, on(ThreadId::generate(), resumable("much"))).await.unwrap();
    begun(&mut created.live).await;
    let mut slow = dispatch.live(created.run.run_id, None).unwrap();
    assert!(matches!(slow.next().await, Some(Item::Frame(..))));
    let readers: Vec<_> = (0..100)
        .map(|_| {
            let mut live = dispatch.live(created.run.run_id, None).unwrap();
            tokio::spawn(async move { frames(&mut live).await.len() })
        })
        .collect();
    server.open(GATE);
    let all = frames(&mut created.live).await;
    assert_eq!(ended(&all), [RunStatus::Success], "who keeps up loses nothing");
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert!(matches!(slow.next().await, Some(Item::Gap { .. })));
    assert!(slow.next().await.is_none(), "a gap is told once");
    let mut late = dispatch.live(created.run.run_id, None).unwrap();
    assert!(matches!(late.next().await, Some(Item::Gap { .. })), "its beginning is lost, and that is said");
}

#[tokio::test]
async fn i6_streams_that_are_kept_are_bounded_in_bytes() {
    let (world, server) = (World::new(), answering(&"x".repeat(20_000)));
    world.configure(&server);
    let dispatch = world.dispatch(Limits { retained_bytes_max: 100_000, ..Limits::default() });
    let mut runs = Vec::new();
    for _ in 0..8 {
        let thread = ThreadId::generate();
        let mut created = dispatch.create(&LOCAL, on(thread, resumable("hello"))).await.unwrap();
        frames(&mut created.live).await;
        runs.push(created.run.run_id);
    }
    let kept = runs.iter().filter(|run_id| dispatch.live(**run_id, None).is_some()).count();
    assert!((1..5).contains(&kept), "{kept} are kept");
    assert!(dispatch.live(runs[7], None).is_some(), "the newest is");
}

#[tokio::test]
async fn i1_a_reader_of_a_thread_sees_run_after_run() {
    let (world, server) = (World::new(), gated("slow"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut readers = [dispatch.thread_live(&LOCAL, thread), dispatch.thread_live(&LOCAL, thread)];
    let mut foreign = dispatch.thread_live(&alice(), thread);
    let mut runs = Vec::new();
    for text in ["first", "second", "third"] {
        let mut created = say(&dispatch, thread, text).await;
        runs.push((created.run.run_id, told(&frames(&mut created.live).await)));
    }
    readers[1] = dispatch.thread_live(&LOCAL, thread);
    for reader in &mut readers {
        for (run_id, expected) in &runs {
            let Some(ThreadItem::Run(mut live)) = reader.next().await else { unreachable!("there is a run") };
            assert_eq!(live.run_id, *run_id);
            let items = frames(&mut live).await;
            assert_eq!((run_of(&items), told(&items)), (Some(*run_id), expected.clone()));
        }
        assert!(reader.try_next().is_none());
    }
    let mut late = dispatch.thread_live(&LOCAL, thread).from_now();
    assert!(late.try_next().is_none());
    let created = say(&dispatch, thread, "slow").await;
    let Some(ThreadItem::Run(live)) = late.next().await else { unreachable!("there is a run") };
    assert_eq!(live.run_id, created.run.run_id);
    let working = dispatch.thread_live(&LOCAL, thread).from_now().try_next();
    assert!(matches!(working, Some(ThreadItem::Run(live)) if live.run_id == created.run.run_id));
    assert!(foreign.try_next().is_none());
    server.open(GATE);
    join(&dispatch, &created).await;
}

#[tokio::test]
async fn i1_a_reader_of_a_thread_who_lies_far_behind_is_told_of_a_gap() {
    let (world, server) = (World::new(), answering("yes"));
    let (dispatch, thread) = (world.over(&server), ThreadId::generate());
    let mut reader = dispatch.thread_live(&LOCAL, thread);
    let mut last = None;
    for _ in 0..40 {
        let mut created = say(&dispatch, thread, "hello").await;
        frames(&mut created.live).await;
        last = Some(created.run.run_id);
    }
    assert!(matches!(reader.next().await, Some(ThreadItem::Gap)));
    let mut seen = None;
    while let Some(item) = reader.try_next() {
        match item {
            ThreadItem::Run(live) => seen = Some(live.run_id),
            ThreadItem::Gap => unreachable!("a gap is told once"),
        }
    }
    assert_eq!(seen, last);
}

#[tokio::test]
async fn a_thread_that_is_to_last_one_run_goes_when_its_last_reader_has_gone() {
    let (world, server) = (World::new(), answering("yes"));
    let dispatch = world.over(&server);
    let request = RunRequest { temporary: true, ..saying("hello") };
    let new = scheduler::NewRun { thread_id: None, request, if_not_exists: scheduler::IfNotExists::Create };
    let mut created = dispatch.create(&LOCAL, new).await.unwrap();
    let thread = created.run.thread_id;
    frames(&mut created.live).await;
    let store = Arc::clone(dispatch.agent(&LOCAL).store());
    assert!(store.thread(thread).await.unwrap().is_some(), "what it came to can be read");
    drop(created);
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i6_a_thousand_readers_of_one_run_all_see_all_of_it() {
    let pieces = Reply { text: (0..200).map(|n| format!("{n} ")).collect(), ..Reply::default() };
    let (world, server) = (World::new(), Server::start(Script::new([at_gate(pieces)])).unwrap());
    let dispatch = world.over(&server);
    let mut created = say(&dispatch, ThreadId::generate(), "much").await;
    begun(&mut created.live).await;
    let run_id = created.run.run_id;
    let readers: Vec<_> = (0..1_000)
        .map(|_| {
            let live: Live = dispatch.live(run_id, None).unwrap();
            tokio::spawn(async move {
                let mut live = live;
                positions(&frames(&mut live).await)
            })
        })
        .collect();
    server.open(GATE);
    frames(&mut created.live).await;
    let mut all = std::collections::HashSet::new();
    for reader in readers {
        all.insert(reader.await.unwrap());
    }
    assert_eq!(all.len(), 1, "every reader saw the same");
}

#[tokio::test]
async fn a_thread_that_is_to_last_one_run_stays_as_long_as_its_stream_is_kept() {
    let (world, server) = (World::new(), answering("yes"));
    world.configure(&server);
    let dispatch = world.dispatch(Limits { retained_bytes_max: 0, ..Limits::default() });
    let kept = RunRequest { temporary: true, ..resumable("hello") };
    let alone = |request| NewRun { thread_id: None, request, if_not_exists: IfNotExists::Create };
    let mut first = dispatch.create(&LOCAL, alone(kept.clone())).await.unwrap();
    let thread = first.run.thread_id;
    frames(&mut first.live).await;
    let store = Arc::clone(dispatch.agent(&LOCAL).store());
    assert!(store.thread(thread).await.unwrap().is_some(), "its stream had to go, but it is read");
    drop(first);
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    gone(dispatch).await;
    let dispatch = world.dispatch(Limits::default());
    let mut second = dispatch.create(&LOCAL, alone(kept)).await.unwrap();
    let thread = second.run.thread_id;
    frames(&mut second.live).await;
    let run_id = second.run.run_id;
    drop(second);
    assert!(dispatch.live(run_id, None).is_some(), "somebody may come back");
    assert!(store.thread(thread).await.unwrap().is_some());
    gone(dispatch).await;
    let dispatch = world.dispatch(Limits::default());
    dispatch.recover().await.unwrap();
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
}
