//! What subscribers receive: everything in order, a gap once, the end once, and nothing that costs the sender.

use jiff::Timestamp;
use proptest::prelude::*;
use protocol::{Event, EventType, Message, NewEvent, RunId, RunStatus, ThreadId};

use super::*;

fn text(text: impl Into<String>) -> Frame {
    Frame::Text { message_id: "m".to_owned(), text: text.into() }
}

fn event(seq: Seq) -> Frame {
    let new = NewEvent::message(&Message::ai(format!("m{seq}")), Timestamp::UNIX_EPOCH).unwrap();
    Frame::Event(Box::new(Event::stored(new, ThreadId::from_uuid(uuid()), seq)))
}

fn lifecycle(seq: Seq) -> Frame {
    let new = NewEvent::new(EventType::RunStarted, &(), Timestamp::UNIX_EPOCH).unwrap();
    Frame::Event(Box::new(Event::stored(new, ThreadId::from_uuid(uuid()), seq)))
}

const fn uuid() -> uuid::Uuid {
    uuid::Uuid::nil()
}

fn end() -> Frame {
    Frame::RunEnded { run_id: RunId::from_uuid(uuid()), status: RunStatus::Success, failure: None }
}

/// Returns an item as a word: its place and what it is.
fn told(item: &Item) -> String {
    match item {
        Item::Frame(Position { seq, sub }, frame) => {
            let what = match &**frame {
                Frame::Text { text, .. } => text.clone(),
                Frame::Event(_) => "event".to_owned(),
                Frame::RunEnded { .. } => "end".to_owned(),
                other => format!("{other:?}"),
            };
            format!("{seq}.{sub} {what}")
        }
        Item::Gap { after } => format!("gap after {}.{}", after.seq, after.sub),
    }
}

async fn all(mut subscription: Subscription) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(item) = subscription.next().await {
        items.push(told(&item));
    }
    items
}

#[tokio::test]
async fn what_a_subagent_sends_comes_among_the_frames_of_its_parent() {
    let (frames, subscription) = Frames::channel();
    frames.send(event(3));
    let thread_id = ThreadId::generate();
    let within = frames.within("c1", thread_id);
    within.at(90);
    within.send(event(91));
    drop(within);
    frames.send(text("a"));
    drop(frames);
    let items = all(subscription).await;
    assert!(items[1].starts_with("3.1 Within(") && items[1].contains(&thread_id.to_string()), "{items:?}");
    assert_eq!((items.len(), items[2].as_str()), (3, "3.2 a"));
}

#[tokio::test]
async fn i2_a_frames_place_is_the_journals_seq_and_a_count_behind_it() {
    let (frames, subscription) = Frames::channel();
    frames.at(4);
    for frame in [text("a"), text("b"), event(5), text("c"), event(7), end()] {
        frames.send(frame);
    }
    drop(frames);
    assert_eq!(all(subscription).await, ["4.1 a", "4.2 b", "5.0 event", "5.1 c", "7.0 event", "7.1 end"]);
}

#[tokio::test]
async fn i1_a_subscriber_goes_on_exactly_behind_the_place_it_names() {
    let (frames, _all) = Frames::channel();
    for frame in [event(1), text("a"), text("b"), event(2), text("c")] {
        frames.send(frame);
    }
    let from = |seq, sub| frames.subscribe(Some(Position { seq, sub })).unwrap();
    let subscriptions = [from(0, 0), from(1, 1), from(2, 1), from(9, 0)];
    drop(frames);
    let mut received = Vec::new();
    for subscription in subscriptions {
        received.push(all(subscription).await.join(", "));
    }
    assert_eq!(received, ["1.0 event, 1.1 a, 1.2 b, 2.0 event, 2.1 c", "1.2 b, 2.0 event, 2.1 c", "", ""]);
}

#[tokio::test]
async fn i1_a_place_that_is_no_longer_kept_is_one_gap_and_the_end() {
    let (frames, slow) = Frames::channel();
    frames.send(event(1));
    let mut read = frames.subscribe(None).unwrap();
    assert_eq!(told(&read.next().await.unwrap()), "1.0 event");
    for at in 0..STREAM_FRAMES_MAX {
        frames.send(text(at.to_string()));
    }
    frames.send(event(2));
    assert_eq!(all(slow).await, ["gap after 0.0"]);
    assert_eq!(all(read).await, ["gap after 1.0"]);
    assert_eq!(all(frames.subscribe(Some(Position { seq: 1, sub: 0 })).unwrap()).await, ["gap after 1.0"]);
    let fresh = frames.subscribe(Some(Position { seq: 2, sub: 0 })).unwrap();
    frames.send(end());
    drop(frames);
    assert_eq!(all(fresh).await, ["2.1 end"]);
}

#[tokio::test]
async fn i1_who_listens_from_now_on_and_falls_behind_is_told_where_now_was() {
    let (frames, _all) = Frames::channel();
    frames.send(event(3));
    frames.send(text("a"));
    let slow = frames.subscribe(Some(Position { seq: Seq::MAX, sub: u32::MAX })).unwrap();
    for at in 0..=STREAM_FRAMES_MAX {
        frames.send(text(at.to_string()));
    }
    assert_eq!(all(slow).await, ["gap after 3.1"]);
}

#[tokio::test]
async fn i6_memory_is_bounded_by_bytes_too() {
    let (frames, _slow) = Frames::channel();
    let large = "x".repeat(STREAM_BYTES_MAX / 4);
    for _ in 0..20 {
        frames.send(text(large.clone()));
    }
    let kept = frames.end.as_ref().unwrap().ring.lock();
    assert!(kept.bytes <= STREAM_BYTES_MAX && kept.frames.len() == 3, "{} frames", kept.frames.len());
}

#[tokio::test]
async fn i8_a_mode_leaves_out_the_others_and_never_the_end() {
    let (frames, _all) = Frames::channel();
    let only = |modes: &[Mode]| frames.subscribe(None).unwrap().only(modes.iter().copied());
    let (messages, custom) = (only(&[Mode::Messages]), only(&[Mode::Custom]));
    let updates = only(&[Mode::Updates]);
    let notice = Frame::Notice { text: "note".to_owned() };
    for frame in [text("a"), event(1), lifecycle(2), notice, end()] {
        frames.send(frame);
    }
    drop(frames);
    assert_eq!(all(messages).await, ["0.1 a", "1.0 event", "2.2 end"]);
    assert_eq!(all(updates).await, ["2.0 event", "2.2 end"]);
    assert_eq!(all(custom).await.len(), 2);
}

#[tokio::test]
async fn i3_a_stream_whose_sender_is_gone_ends_for_those_who_wait() {
    let (frames, mut subscription) = Frames::channel();
    let waiting = tokio::spawn(async move { subscription.next().await.map(|item| told(&item)) });
    tokio::task::yield_now().await;
    drop(frames);
    assert_eq!(waiting.await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i6_a_thousand_subscribers_receive_everything_and_the_slow_ones_one_gap() {
    const SUBSCRIBERS: usize = 1_000;
    const HALF: usize = STREAM_FRAMES_MAX / 2;
    let (frames, slow) = Frames::channel();
    let halfway = Arc::new(tokio::sync::Barrier::new(SUBSCRIBERS + 1));
    let readers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let (mut subscription, halfway) = (frames.subscribe(None).unwrap(), Arc::clone(&halfway));
            tokio::spawn(async move {
                let mut received = 0;
                while let Some(Item::Frame(..)) = subscription.next().await {
                    received += 1;
                    if received == HALF {
                        halfway.wait().await;
                    }
                }
                received
            })
        })
        .collect();
    for at in 0..HALF {
        frames.send(text(at.to_string()));
    }
    halfway.wait().await;
    for at in 0..HALF {
        frames.send(text(at.to_string()));
    }
    frames.send(end());
    drop(frames);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 2 * HALF + 1);
    }
    assert_eq!(all(slow).await, ["gap after 0.0"]);
}

proptest! {
    /// Whatever is sent and however reading and sending interleave, a reader has a prefix of the whole, then at most
    /// one gap, and nothing behind it.
    #[test]
    fn i1_a_reader_never_skips_a_frame_silently(steps in prop::collection::vec((0usize..4000, 0usize..3000), 1..8)) {
        let (frames, mut subscription) = Frames::channel();
        let (mut sent, mut read) = (0usize, 0usize);
        let mut has_gap = false;
        for (send, take) in steps {
            for _ in 0..send {
                frames.send(text(sent.to_string()));
                sent += 1;
            }
            for _ in 0..take {
                match subscription.try_next() {
                    Some(Item::Frame(_, frame)) => {
                        prop_assert!(!has_gap);
                        let Frame::Text { text, .. } = &*frame else { unreachable!("only texts are sent") };
                        prop_assert_eq!(text, &read.to_string());
                        read += 1;
                    }
                    Some(Item::Gap { .. }) => {
                        prop_assert!(!has_gap && sent - read > STREAM_FRAMES_MAX);
                        has_gap = true;
                    }
                    None => prop_assert!(has_gap || read == sent),
                }
            }
        }
    }
}
