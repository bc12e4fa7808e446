//! Tests of subscriptions: every frame in order, one gap, one end, and no waiting for the sender.

use jiff::Timestamp;
use proptest::prelude::*;
use protocol::{Event, EventType, Message, NewEvent, RunId, RunStatus, ThreadId};

use super::*;

fn text(text: impl Into<String>) -> Frame {
    Frame::Text { message_id: "m".to_owned(), text: text.into() }
}

fn event(seq: Seq) -> Frame {
    let new = NewEvent::from_message(&Message::ai(format!("m{seq}")), Timestamp::UNIX_EPOCH).unwrap();
    Frame::Event(Box::new(Event::from_new(new, ThreadId::from_uuid(uuid()), seq)))
}

fn lifecycle(seq: Seq) -> Frame {
    let new = NewEvent::new(EventType::RunStarted, &(), Timestamp::UNIX_EPOCH).unwrap();
    Frame::Event(Box::new(Event::from_new(new, ThreadId::from_uuid(uuid()), seq)))
}

const fn uuid() -> uuid::Uuid {
    uuid::Uuid::nil()
}

fn end() -> Frame {
    Frame::RunEnded { run_id: RunId::from_uuid(uuid()), status: RunStatus::Success, failure: None }
}

/// Describes an item by its position and its content.
fn describe_item(item: &SubscriptionItem) -> String {
    match item {
        SubscriptionItem::Frame(FramePosition { seq, sub }, frame) => {
            let content = match &**frame {
                Frame::Text { text, .. } => text.clone(),
                Frame::Event(_) => "event".to_owned(),
                Frame::RunEnded { .. } => "end".to_owned(),
                other => format!("{other:?}"),
            };
            format!("{seq}.{sub} {content}")
        }
        SubscriptionItem::Gap { after } => format!("gap after {}.{}", after.seq, after.sub),
    }
}

async fn drain(mut subscription: FrameSubscription) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(item) = subscription.next().await {
        items.push(describe_item(&item));
    }
    items
}

#[tokio::test]
async fn frames_of_a_subagent_appear_in_the_stream_of_its_parent() {
    let (frames, subscription) = FrameSender::channel();
    frames.send(event(3));
    let thread_id = ThreadId::generate();
    let subagent_frames = frames.for_subagent("c1", thread_id);
    subagent_frames.advance_to(90);
    subagent_frames.send(event(91));
    drop(subagent_frames);
    frames.send(text("a"));
    drop(frames);
    let items = drain(subscription).await;
    assert!(items[1].starts_with("3.1 Subagent(") && items[1].contains(&thread_id.to_string()), "{items:?}");
    assert_eq!((items.len(), items[2].as_str()), (3, "3.2 a"));
}

#[tokio::test]
async fn i2_a_frames_position_is_the_journals_seq_and_a_counter() {
    let (frames, subscription) = FrameSender::channel();
    frames.advance_to(4);
    for frame in [text("a"), text("b"), event(5), text("c"), event(7), end()] {
        frames.send(frame);
    }
    drop(frames);
    assert_eq!(drain(subscription).await, ["4.1 a", "4.2 b", "5.0 event", "5.1 c", "7.0 event", "7.1 end"]);
}

#[tokio::test]
async fn i1_a_subscriber_continues_exactly_after_its_position() {
    let (frames, _all) = FrameSender::channel();
    for frame in [event(1), text("a"), text("b"), event(2), text("c")] {
        frames.send(frame);
    }
    let from = |seq, sub| frames.subscribe(Some(FramePosition { seq, sub })).unwrap();
    let subscriptions = [from(0, 0), from(1, 1), from(2, 1), from(9, 0)];
    drop(frames);
    let mut received = Vec::new();
    for subscription in subscriptions {
        received.push(drain(subscription).await.join(", "));
    }
    assert_eq!(received, ["1.0 event, 1.1 a, 1.2 b, 2.0 event, 2.1 c", "1.2 b, 2.0 event, 2.1 c", "", ""]);
}

#[tokio::test]
async fn i1_a_position_that_is_no_longer_kept_gives_one_gap_and_the_end() {
    let (frames, slow) = FrameSender::channel();
    frames.send(event(1));
    let mut read = frames.subscribe(None).unwrap();
    assert_eq!(describe_item(&read.next().await.unwrap()), "1.0 event");
    for index in 0..STREAM_FRAMES_MAX {
        frames.send(text(index.to_string()));
    }
    frames.send(event(2));
    assert_eq!(drain(slow).await, ["gap after 0.0"]);
    assert_eq!(drain(read).await, ["gap after 1.0"]);
    assert_eq!(
        drain(frames.subscribe(Some(FramePosition { seq: 1, sub: 0 })).unwrap()).await,
        ["gap after 1.0"]
    );
    let fresh = frames.subscribe(Some(FramePosition { seq: 2, sub: 0 })).unwrap();
    frames.send(end());
    drop(frames);
    assert_eq!(drain(fresh).await, ["2.1 end"]);
}

#[tokio::test]
async fn i1_a_subscriber_from_the_present_that_falls_behind_gets_its_starting_position() {
    let (frames, _all) = FrameSender::channel();
    frames.send(event(3));
    frames.send(text("a"));
    let slow = frames.subscribe(Some(FramePosition { seq: Seq::MAX, sub: u32::MAX })).unwrap();
    for index in 0..=STREAM_FRAMES_MAX {
        frames.send(text(index.to_string()));
    }
    assert_eq!(drain(slow).await, ["gap after 3.1"]);
}

#[tokio::test]
async fn i6_memory_is_bounded_by_bytes_too() {
    let (frames, _slow) = FrameSender::channel();
    let large = "x".repeat(STREAM_BYTES_MAX / 4);
    for _ in 0..20 {
        frames.send(text(large.clone()));
    }
    let ring = frames.shared.as_ref().unwrap().ring.lock();
    assert!(ring.bytes <= STREAM_BYTES_MAX && ring.frames.len() == 3, "{} frames", ring.frames.len());
}

#[tokio::test]
async fn i8_a_mode_excludes_the_others_and_never_the_end() {
    let (frames, _all) = FrameSender::channel();
    let only = |modes: &[FrameMode]| frames.subscribe(None).unwrap().with_modes(modes.iter().copied());
    let (messages, custom) = (only(&[FrameMode::Messages]), only(&[FrameMode::Custom]));
    let updates = only(&[FrameMode::Updates]);
    let notice = Frame::Notice { text: "note".to_owned() };
    for frame in [text("a"), event(1), lifecycle(2), notice, end()] {
        frames.send(frame);
    }
    drop(frames);
    assert_eq!(drain(messages).await, ["0.1 a", "1.0 event", "2.2 end"]);
    assert_eq!(drain(updates).await, ["2.0 event", "2.2 end"]);
    assert_eq!(drain(custom).await.len(), 2);
}

#[tokio::test]
async fn i3_waiting_subscribers_get_the_end_when_the_sender_is_dropped() {
    let (frames, mut subscription) = FrameSender::channel();
    let waiter = tokio::spawn(async move { subscription.next().await.map(|item| describe_item(&item)) });
    tokio::task::yield_now().await;
    drop(frames);
    assert_eq!(waiter.await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i6_a_thousand_subscribers_receive_everything_and_the_slow_ones_one_gap() {
    const SUBSCRIBERS: usize = 1_000;
    const HALF: usize = STREAM_FRAMES_MAX / 2;
    let (frames, slow) = FrameSender::channel();
    let halfway = Arc::new(tokio::sync::Barrier::new(SUBSCRIBERS + 1));
    let readers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let (mut subscription, halfway) = (frames.subscribe(None).unwrap(), Arc::clone(&halfway));
            tokio::spawn(async move {
                let mut received = 0;
                while let Some(SubscriptionItem::Frame(..)) = subscription.next().await {
                    received += 1;
                    if received == HALF {
                        halfway.wait().await;
                    }
                }
                received
            })
        })
        .collect();
    for index in 0..HALF {
        frames.send(text(index.to_string()));
    }
    halfway.wait().await;
    for index in 0..HALF {
        frames.send(text(index.to_string()));
    }
    frames.send(end());
    drop(frames);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 2 * HALF + 1);
    }
    assert_eq!(drain(slow).await, ["gap after 0.0"]);
}

proptest! {
    /// However sending and reading interleave, a subscriber receives a prefix of all frames, then at most one
    /// gap, and nothing after it.
    #[test]
    fn i1_a_reader_never_skips_a_frame_silently(steps in prop::collection::vec((0usize..4000, 0usize..3000), 1..8)) {
        let (frames, mut subscription) = FrameSender::channel();
        let (mut sent, mut read) = (0usize, 0usize);
        let mut has_gap = false;
        for (send, take) in steps {
            for _ in 0..send {
                frames.send(text(sent.to_string()));
                sent += 1;
            }
            for _ in 0..take {
                match subscription.try_next() {
                    Some(SubscriptionItem::Frame(_, frame)) => {
                        prop_assert!(!has_gap);
                        let Frame::Text { text, .. } = &*frame else { unreachable!("only texts are sent") };
                        prop_assert_eq!(text, &read.to_string());
                        read += 1;
                    }
                    Some(SubscriptionItem::Gap { .. }) => {
                        prop_assert!(!has_gap && sent - read > STREAM_FRAMES_MAX);
                        has_gap = true;
                    }
                    None => prop_assert!(has_gap || read == sent),
                }
            }
        }
    }
}
