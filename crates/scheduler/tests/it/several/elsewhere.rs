//! Runs that another server drives, followed here: the same frames at the same places, but for what is not stored.

use std::sync::Arc;

use agent::{Frame, Item, Position};
use protocol::{RunRequest, RunStatus, ThreadId};
use scheduler::{Dispatch, Live, StreamPosition, ThreadItem};
use serde_json::{Value, json};
use test_model::{Reply, Script, Server};

use crate::world::{
    GATE, LOCAL, World, at_gate, begun, ended, frames, gated, join, on, row, said, say, saying,
};

/// What is stored of a run, as it was told: the place of each thing, and what it is.
fn stored(items: &[Item]) -> Vec<(Position, Value)> {
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
    let told = items.iter().filter_map(|item| match item {
        Item::Frame(at, frame) if is_stored(frame) => {
            let mut told = serde_json::to_value(&**frame).unwrap();
            if let (Frame::Updates { .. }, Some(told)) = (&**frame, told.as_object_mut()) {
                // The journal does not know that something was set to what it was.
                told.remove("channels");
            }
            Some((*at, told))
        }
        Item::Frame(..) => None,
        Item::Gap { after } => Some((*after, json!("gap"))),
    });
    told.collect()
}

/// A model that looks at a folder, waits at the gate, and answers.
fn looking() -> Server {
    let looks = Reply::text("I look.").and_call("c1", "ls", json!({"path": "."})).when_turn_is(1, 1);
    let answers = at_gate(Reply::pieces(["It is ", "empty."])).when_turn_is(1, 2);
    Server::start(Script::new([looks.repeated(), answers.repeated()])).unwrap()
}

async fn follow(dispatch: &Arc<Dispatch>, there: &Live, after: Option<StreamPosition>) -> Option<Live> {
    let run = row(dispatch, there.run_id).await.unwrap();
    dispatch.follow(&LOCAL, &run, after).await.unwrap()
}

/// Reads until a tool has been called.
async fn looked(live: &mut Live) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some(item) = live.next().await {
        let is_it = matches!(&item, Item::Frame(_, frame) if matches!(&**frame, Frame::Updates { node, .. } if node == "tools"));
        items.push(item);
        if is_it {
            return items;
        }
    }
    unreachable!("the run ended before it called a tool");
}

#[tokio::test]
async fn i1_what_is_stored_of_a_run_of_another_server_has_the_places_it_has_there() {
    let (world, server) = (World::new(), looking());
    let (there, here) = (world.over(&server), world.over(&server));
    let request = RunRequest { stream_resumable: true, ..saying("look") };
    let mut created = there.create(&LOCAL, on(ThreadId::generate(), request)).await.unwrap();
    let mut there_told = looked(&mut created.live).await;
    let mut live = follow(&here, &created.live, None).await.unwrap();
    let mut here_told = looked(&mut live).await;
    server.open(GATE);
    there_told.extend(frames(&mut created.live).await);
    here_told.extend(frames(&mut live).await);
    assert_eq!(stored(&here_told), stored(&there_told));
    assert_eq!(ended(&here_told), [RunStatus::Success]);
    assert!(follow(&here, &created.live, None).await.is_none(), "nobody keeps it here");
}

#[tokio::test]
async fn i1_a_place_of_one_server_is_one_of_another() {
    let (world, server) = (World::new(), looking());
    let (there, here) = (world.over(&server), world.over(&server));
    let mut created = say(&there, ThreadId::generate(), "look").await;
    let told = stored(&looked(&mut created.live).await);
    for (index, (at, _)) in told.iter().enumerate() {
        let after = StreamPosition { seq: at.seq, sub: at.sub, n: 0 };
        let mut live = follow(&here, &created.live, Some(after)).await.unwrap();
        let mut again = Vec::new();
        while let Some(item) = live.try_next() {
            again.push(item);
        }
        // The frame at the place is told again.
        let again = stored(&again);
        assert!(again.len() > told.len() - index, "{at:?}");
        assert_eq!(again[..told.len() - index], told[index..], "{at:?}");
    }
    server.open(GATE);
    join(&there, &created).await;
}

#[tokio::test]
async fn i1_who_follows_a_thread_sees_the_runs_of_another_server_and_of_this_one_once() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    join(&there, &say(&there, thread, "before").await).await;
    let mut slow = say(&there, thread, "slow").await;
    begun(&mut slow.live).await;
    let mut thread_live = here.thread_live(&LOCAL, thread);
    let mut seen = Vec::new();
    for text in ["first", "second", "third"] {
        let Some(ThreadItem::Run(mut live)) = thread_live.next().await else { panic!("a run") };
        server.open(GATE);
        assert_eq!(ended(&frames(&mut live).await), [RunStatus::Success]);
        seen.push(live.run_id);
        let dispatch = if text == "second" { &here } else { &there };
        join(dispatch, &say(dispatch, thread, text).await).await;
    }
    let Some(ThreadItem::Run(live)) = thread_live.next().await else { panic!("a run") };
    seen.push(live.run_id);
    let mut runs = std::collections::HashSet::from([slow.run.run_id]);
    assert!(seen.contains(&slow.run.run_id));
    assert!(seen.iter().all(|run_id| runs.insert(*run_id) || *run_id == slow.run.run_id));
    assert_eq!((seen.len(), runs.len()), (4, 4));
    assert_eq!(said(&here, thread).await.len(), 10);
}

#[tokio::test]
async fn i3_a_run_that_waits_in_another_server_is_followed_from_its_beginning() {
    let (world, server) = (World::new(), gated("slow"));
    let (there, here) = (world.over(&server), world.over(&server));
    let thread = ThreadId::generate();
    let mut slow = say(&there, thread, "slow").await;
    begun(&mut slow.live).await;
    let mut behind = say(&there, thread, "behind").await;
    let mut live = follow(&here, &behind.live, None).await.unwrap();
    assert!(live.try_next().is_none(), "it waits");
    server.open(GATE);
    let told = frames(&mut live).await;
    assert_eq!(stored(&told), stored(&frames(&mut behind.live).await));
}
