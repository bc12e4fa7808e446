//! The events that hold the pins of a thread: the newest visible one counts, over rewinds and copies, and a change that is
//! based on another one is refused.

use journal::{Error, EventQuery, HealthCheckDepth, Write};
use protocol::{EventType, MessageRole, NewEvent, Pin, PinChange, PinsChanged, Seq, ThreadId};

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{ai, append, at, commit, create, fork, human, rewind};

/// Returns the event that holds these pins, numbered from 1.
fn pins_changed(texts: &[&str]) -> NewEvent {
    let pins = (1..).zip(texts).map(|(number, text)| Pin {
        number,
        text: (*text).to_owned(),
        author: MessageRole::User,
        message_seq: None,
        pinned_at: at(1),
    });
    let (number, next_number) = (texts.len() as u64, texts.len() as u64 + 1);
    let change = PinsChanged { change: PinChange::Added { number }, pins: pins.collect(), next_number };
    NewEvent::from_body(&change, at(1)).unwrap()
}

/// Returns the seq of the newest visible change, and the pinned texts.
async fn newest_pins(store: &SharedStore, thread_id: ThreadId) -> Option<(Seq, Vec<String>)> {
    let query = EventQuery { types: vec![EventType::PinsChanged], limit: 1, ..EventQuery::default() };
    let event = store.events(thread_id, query).await.unwrap().pop()?;
    let changed: PinsChanged = event.body().unwrap();
    Some((event.seq, changed.pins.into_iter().map(|pin| pin.text).collect()))
}

pub async fn pins_follow_rewinds_and_copies(store: SharedStore) {
    let thread_id = create(&*store).await;
    assert_eq!(newest_pins(&store, thread_id).await, None);
    let events =
        vec![human("one"), pins_changed(&["a"]), ai("two"), pins_changed(&["a", "b"]), human("three")];
    append(&*store, thread_id, events).await.unwrap();
    let both = Some((4, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(newest_pins(&store, thread_id).await, both);
    let copied = fork(&*store, thread_id, None).await;
    let earlier = fork(&*store, thread_id, Some(3)).await;
    rewind(&*store, thread_id, 3).await.unwrap();
    let first = Some((2, vec!["a".to_owned()]));
    assert_eq!(newest_pins(&store, thread_id).await, first, "a rewind restores the pins of that point");
    assert_eq!(newest_pins(&store, earlier).await, first);
    assert_eq!(newest_pins(&store, copied).await, both, "a copy keeps its pins");
    rewind(&*store, thread_id, 0).await.unwrap();
    assert_eq!(newest_pins(&store, thread_id).await, None);
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    assert_eq!(newest_pins(&store, copied).await, both, "a copy outlives its source");
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

pub async fn a_change_of_pins_fails_after_another_change(store: SharedStore) {
    let thread_id = create(&*store).await;
    let change = |last_change: Option<Seq>, texts: &[&str]| {
        let events = vec![pins_changed(texts)];
        vec![Write::ExpectPins { thread_id, last_change }, Write::Append { thread_id, events }]
    };
    append(&*store, thread_id, vec![human("one")]).await.unwrap();
    commit(&*store, change(None, &["a"])).await.unwrap();
    let refused = commit(&*store, change(None, &["b"])).await;
    assert!(matches!(refused, Err(Error::Conflict { what: "pins of the thread", .. })), "{refused:?}");
    append(&*store, thread_id, vec![ai("two"), human("three")]).await.unwrap();
    commit(&*store, change(Some(2), &["a", "b"])).await.unwrap();
    rewind(&*store, thread_id, 3).await.unwrap();
    let refused = commit(&*store, change(Some(5), &["c"])).await;
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "a superseded change counts no more: {refused:?}"
    );
    commit(&*store, change(Some(2), &["a", "c"])).await.unwrap();
    let missing = Write::ExpectPins { thread_id: ThreadId::generate(), last_change: None };
    assert!(matches!(commit(&*store, vec![missing]).await, Err(Error::NotFound { .. })));
}
