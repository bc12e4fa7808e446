//! Tests of the stream of a turn: a client receives every stored event once and in order, and the deltas add up to the
//! stored text.

use std::collections::BTreeMap;

use agent::{
    ApprovalPolicy, CancellationToken, Frame, FrameMode, FramePosition, FrameSender, SubscriptionItem,
};
use protocol::{Message, RunStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::TestEnvironment;

/// Runs a turn with two model calls and parallel tool calls. Returns the frames that a subscriber received, the stored
/// events, and the sender.
async fn watch_turn() -> (Vec<(FramePosition, Frame)>, Vec<protocol::Event>, FrameSender) {
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", "one\n");
    let calls = ScriptedReply::from_pieces(["I ", "look é", "🦀."])
        .with_thinking(["Hm", "m."])
        .with_piece_bytes(7)
        .with_call("c1", "read_file", json!({"path": "notes.txt"}))
        .with_call("c2", "execute", json!({"command": "echo out"}))
        .with_call("c3", "ls", json!({}));
    let server =
        ScriptedServer::start(Script::new([calls, ScriptedReply::from_pieces(["It is ", "one."])])).unwrap();
    let agent = environment.agent_with_policy(&server, ("", ApprovalPolicy::Allow));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, mut subscription) = FrameSender::channel();
    let end = agent.runs().send_message(thread, "Look.", &frames, &CancellationToken::new()).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let mut received = Vec::new();
    while let Some(SubscriptionItem::Frame(position, frame)) = subscription.try_next() {
        received.push((position, (*frame).clone()));
    }
    (received, agent.threads().events(thread).await.unwrap(), frames)
}

#[tokio::test]
async fn i2_every_event_of_the_run_is_received_once_at_its_position_in_the_journal() {
    let (received, stored, _frames) = watch_turn().await;
    let positions: Vec<FramePosition> = received.iter().map(|(position, _)| *position).collect();
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{positions:?}");
    let admitted = stored.iter().position(|event| event.event_type == "run_started").unwrap();
    let events = received.iter().filter_map(|(position, frame)| match frame {
        Frame::Event(event) => Some((position.seq, (**event).clone())),
        _ => None,
    });
    let expected: Vec<_> = stored[admitted + 1..].iter().map(|event| (event.seq, event.clone())).collect();
    assert_eq!(events.collect::<Vec<_>>(), expected);
    assert!(matches!(received.first(), Some((_, Frame::RunStarted { .. }))));
    assert!(matches!(received.last(), Some((_, Frame::RunEnded { .. }))));
}

#[tokio::test]
async fn i4_the_deltas_of_each_answer_add_up_to_the_stored_text() {
    let (received, _, _frames) = watch_turn().await;
    let (mut text, mut answers, mut tools) =
        (String::new(), Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for (_, frame) in &received {
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
    assert_eq!(text, "", "all streamed text is stored");
    let once = vec!["started", "ended"];
    let expected = ["c1", "c2", "c3"].map(|call| (call.to_owned(), once.clone()));
    assert_eq!(tools, BTreeMap::from(expected));
}

#[tokio::test]
async fn i1_a_reconnected_subscriber_continues_after_its_position() {
    let (received, _, frames) = watch_turn().await;
    for (index, (position, _)) in received.iter().enumerate() {
        let mut again = frames.subscribe(Some(*position)).unwrap();
        let mut remaining = Vec::new();
        while let Some(SubscriptionItem::Frame(position, _)) = again.try_next() {
            remaining.push(position);
        }
        let expected: Vec<FramePosition> =
            received[index + 1..].iter().map(|(position, _)| *position).collect();
        assert_eq!(remaining, expected, "after {position:?}");
    }
    let mut messages = frames.subscribe(None).unwrap().with_modes([FrameMode::Messages]);
    while let Some(SubscriptionItem::Frame(_, frame)) = messages.try_next() {
        assert!(frame.mode().is_none_or(|mode| mode == FrameMode::Messages), "{frame:?}");
    }
}
