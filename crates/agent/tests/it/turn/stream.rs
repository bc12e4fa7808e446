//! What a client sees of a turn: every stored event once, in order, and deltas that add up to what is stored.

use std::collections::BTreeMap;

use agent::{CancellationToken, Frame, Frames, Item, Mode, Policy, Position};
use protocol::{Message, RunStatus};
use serde_json::json;
use test_model::{Reply, Script, Server};

use crate::world::World;

/// Returns what a subscriber receives of a turn with two steps and parallel calls, and what is stored.
async fn watched() -> (Vec<(Position, Frame)>, Vec<protocol::Event>, Frames) {
    let world = World::new();
    world.put("notes.txt", "one\n");
    let calls = Reply::pieces(["I ", "look é", "🦀."])
        .thinking(["Hm", "m."])
        .in_pieces_of(7)
        .and_call("c1", "read_file", json!({"path": "notes.txt"}))
        .and_call("c2", "execute", json!({"command": "echo out"}))
        .and_call("c3", "ls", json!({}));
    let server = Server::start(Script::new([calls, Reply::pieces(["It is ", "one."])])).unwrap();
    let agent = world.agent_under(&server, ("", Policy::Allow));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, mut subscription) = Frames::channel();
    let end = agent.runs().send(thread, "Look.", &frames, &CancellationToken::new()).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let mut seen = Vec::new();
    while let Some(Item::Frame(position, frame)) = subscription.try_next() {
        seen.push((position, (*frame).clone()));
    }
    (seen, agent.threads().events(thread).await.unwrap(), frames)
}

#[tokio::test]
async fn i2_every_event_of_the_run_is_seen_once_at_its_place_in_the_journal() {
    let (seen, stored, _frames) = watched().await;
    let places: Vec<Position> = seen.iter().map(|(position, _)| *position).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
    let admitted = stored.iter().position(|event| event.event_type == "run_started").unwrap();
    let events = seen.iter().filter_map(|(position, frame)| match frame {
        Frame::Event(event) => Some((position.seq, (**event).clone())),
        _ => None,
    });
    let expected: Vec<_> = stored[admitted + 1..].iter().map(|event| (event.seq, event.clone())).collect();
    assert_eq!(events.collect::<Vec<_>>(), expected);
    assert!(matches!(seen.first(), Some((_, Frame::RunStarted { .. }))));
    assert!(matches!(seen.last(), Some((_, Frame::RunEnded { .. }))));
}

#[tokio::test]
async fn i4_the_deltas_of_each_answer_add_up_to_what_is_stored() {
    let (seen, _, _frames) = watched().await;
    let (mut text, mut answers, mut tools) =
        (String::new(), Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for (_, frame) in &seen {
        match frame {
            Frame::Text { text: more, .. } => text.push_str(more),
            Frame::ToolStarted { call_id, .. } => tools.entry(call_id.clone()).or_default().push("started"),
            Frame::ToolEnded { call_id, .. } => tools.entry(call_id.clone()).or_default().push("ended"),
            Frame::Event(event) => {
                if let Some(message @ Message::Ai(_)) = event.message() {
                    answers.push(message.text());
                    assert_eq!(answers.last(), Some(&text), "i4");
                    text.clear();
                }
            }
            _ => {}
        }
    }
    assert_eq!(answers, ["I look é🦀.", "It is one."]);
    assert_eq!(text, "", "nothing is streamed that is not stored");
    let once = vec!["started", "ended"];
    let expected = ["c1", "c2", "c3"].map(|call| (call.to_owned(), once.clone()));
    assert_eq!(tools, BTreeMap::from(expected));
}

#[tokio::test]
async fn i1_who_comes_back_goes_on_behind_the_place_it_knows() {
    let (seen, _, frames) = watched().await;
    for (at, (position, _)) in seen.iter().enumerate() {
        let mut again = frames.subscribe(Some(*position)).unwrap();
        let mut rest = Vec::new();
        while let Some(Item::Frame(position, _)) = again.try_next() {
            rest.push(position);
        }
        let expected: Vec<Position> = seen[at + 1..].iter().map(|(position, _)| *position).collect();
        assert_eq!(rest, expected, "after {position:?}");
    }
    let mut messages = frames.subscribe(None).unwrap().only([Mode::Messages]);
    while let Some(Item::Frame(_, frame)) = messages.try_next() {
        assert!(frame.mode().is_none_or(|mode| mode == Mode::Messages), "{frame:?}");
    }
}
