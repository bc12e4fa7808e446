//! What is read of a thread before the model is asked, at first and once more.

mod archived;

use std::cell::RefCell;

use jiff::Timestamp;
use journal::{Sqlite, Store, Transaction, Write};
use protocol::{AssistantId, EventType, NewEvent, Thread};
use serde_json::json;

use super::*;

fn fact(event_type: EventType) -> NewEvent {
    NewEvent::new(event_type, &json!({"text": "what was before"}), Timestamp::UNIX_EPOCH).unwrap()
}

fn messages(count: usize) -> impl Iterator<Item = NewEvent> {
    (0..count).map(|at| NewEvent::message(&Message::human(format!("m{at}")), Timestamp::UNIX_EPOCH).unwrap())
}

async fn journal_of(events: Vec<NewEvent>) -> (Sqlite, ThreadId) {
    let store = Sqlite::in_memory().unwrap();
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
    (store, thread_id)
}

/// Returns the texts of the context of these events, and the seqs that were read for it.
async fn read(events: Vec<NewEvent>) -> (Vec<String>, Vec<Seq>) {
    let (store, thread_id) = journal_of(events).await;
    let seqs = RefCell::new(Vec::new());
    let page = async |query: EventQuery| {
        let page = store.events(thread_id, query).await?;
        seqs.borrow_mut().extend(page.iter().map(|event| event.seq));
        Ok(page)
    };
    let context = whole(page).await.unwrap();
    (context.messages.iter().map(Message::text).collect(), seqs.into_inner())
}

#[tokio::test]
async fn the_context_of_many_pages_is_in_order_and_read_once() {
    for count in [0, 1, CONTEXT_FIRST_ROWS, CONTEXT_PAGE_ROWS, CONTEXT_PAGE_ROWS * 2 + 7] {
        let (texts, mut seqs) = read(messages(count).collect()).await;
        assert_eq!(texts, (0..count).map(|at| format!("m{at}")).collect::<Vec<_>>());
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=count as Seq).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_a_harness_said_is_known_when_it_is_read_and_when_it_is_followed() {
    let said = |text: &str| NewEvent::message(&Message::human(text), Timestamp::UNIX_EPOCH).unwrap();
    let flagged = |is_injected: bool| {
        said("a reminder").with_metadata(&json!({"injected": is_injected, "about": "injected"})).unwrap()
    };
    let (store, thread_id) = journal_of(vec![said("one"), flagged(true), flagged(false)]).await;
    let contexts = Contexts::default();
    let before = contexts.read(&store, thread_id).await.unwrap();
    assert_eq!(Vec::from_iter(before.injected.iter().copied()), [2]);
    let events = vec![said("two"), flagged(true)];
    let writes = vec![Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
    let followed = contexts.read(&store, thread_id).await.unwrap();
    let anew = Contexts::default().read(&store, thread_id).await.unwrap();
    assert_eq!(Vec::from_iter(followed.injected.iter().copied()), [2, 5]);
    assert_eq!(followed, anew);
}

#[tokio::test]
async fn pages_before_the_last_boundary_are_never_read() {
    let mut events: Vec<NewEvent> = messages(CONTEXT_PAGE_ROWS * 3).collect();
    events.push(fact(EventType::ImportedBoundary));
    events.push(fact(EventType::ImportedSummary));
    events.extend(messages(CONTEXT_PAGE_ROWS + 10));
    let (texts, seqs) = read(events).await;
    assert_eq!(texts.len(), CONTEXT_PAGE_ROWS + 11);
    assert!(texts[0].contains("what was before"), "{}", texts[0]);
    assert_eq!(texts[1], "m0");
    assert_eq!(
        seqs.len(),
        CONTEXT_FIRST_ROWS + CONTEXT_PAGE_ROWS,
        "the newest page and the one with the boundary"
    );
}

#[tokio::test]
async fn a_sub_agents_boundary_does_not_end_the_reading() {
    let mut events: Vec<NewEvent> = messages(CONTEXT_PAGE_ROWS).collect();
    events.push(fact(EventType::ImportedBoundary).with_metadata(&json!({"side": true})).unwrap());
    events.extend(messages(CONTEXT_PAGE_ROWS));
    assert_eq!(read(events).await.0.len(), CONTEXT_PAGE_ROWS * 2);
}

#[tokio::test]
async fn what_explains_a_run_is_not_read() {
    let mut events: Vec<NewEvent> = (0..CONTEXT_PAGE_ROWS * 2).map(|_| fact(EventType::RunStarted)).collect();
    events.extend(messages(3));
    assert_eq!(read(events).await.1.len(), 3);
}

/// Returns the texts that `contexts` gives for the thread, and checks them against a fresh reading.
async fn texts(contexts: &Contexts, store: &Sqlite, thread_id: ThreadId) -> Vec<String> {
    let kept = contexts.read(store, thread_id).await.unwrap();
    let fresh = Contexts::default().read(store, thread_id).await.unwrap();
    assert_eq!(kept, fresh);
    kept.messages.iter().map(Message::text).collect()
}

async fn add(store: &Sqlite, thread_id: ThreadId, events: Vec<NewEvent>) {
    let writes = vec![Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
}

#[tokio::test]
async fn a_kept_context_is_what_a_fresh_reading_gives() {
    let (store, thread_id) = journal_of(messages(3).collect()).await;
    let contexts = Contexts::default();
    assert_eq!(texts(&contexts, &store, thread_id).await.len(), 3);
    add(&store, thread_id, vec![fact(EventType::RunStarted)]).await;
    add(&store, thread_id, messages(CONTEXT_PAGE_ROWS * 2 + 1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await.len(), CONTEXT_PAGE_ROWS * 2 + 4);
    let rewind = Write::Rewind { thread_id, keep_seq: 2, at: Timestamp::UNIX_EPOCH };
    store.commit(Transaction { fence: None, writes: vec![rewind] }).await.unwrap();
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m0", "m1"]);
    add(&store, thread_id, messages(1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m0", "m1", "m0"]);
    add(&store, thread_id, vec![fact(EventType::ImportedBoundary)]).await;
    add(&store, thread_id, messages(1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m0"]);
}

#[tokio::test]
async fn a_kept_context_reads_only_what_is_new() {
    let (store, thread_id) = journal_of(messages(CONTEXT_PAGE_ROWS).collect()).await;
    let first = whole(|query| store.events(thread_id, query)).await.unwrap();
    add(&store, thread_id, messages(2).collect()).await;
    let read = RefCell::new(0);
    let page = async |query: EventQuery| {
        let page = store.events(thread_id, query).await?;
        *read.borrow_mut() += page.len();
        Ok(page)
    };
    let second = follow(first, page).await.unwrap().unwrap();
    assert_eq!((second.messages.len(), read.into_inner()), (CONTEXT_PAGE_ROWS + 2, 3));
}

#[test]
fn little_media_is_kept_and_none_of_the_newest_context_is_let_go() {
    let contexts = Contexts::default();
    let kept = |megabytes: usize| {
        let bytes: Arc<[u8]> = vec![0; megabytes << 20].into();
        let media = BTreeMap::from([("hash".to_owned(), bytes)]);
        Kept { thread_id: ThreadId::generate(), context: Context { media, ..Context::default() } }
    };
    for (megabytes, expected) in
        [(20, vec![20]), (10, vec![20, 10]), (20, vec![0, 10, 20]), (40, vec![0, 0, 0, 40])]
    {
        contexts.keep(kept(megabytes));
        let all = contexts.kept.lock();
        let all: Vec<usize> =
            all.iter().map(|kept| kept.context.media.values().map(|bytes| bytes.len() >> 20).sum()).collect();
        assert_eq!(all, expected);
    }
}

#[tokio::test]
async fn no_more_contexts_are_kept_than_the_limit() {
    let contexts = Contexts::default();
    for _ in 0..CONTEXTS_MAX + 3 {
        let (store, thread_id) = journal_of(messages(1).collect()).await;
        contexts.read(&store, thread_id).await.unwrap();
    }
    assert_eq!(contexts.kept.lock().len(), CONTEXTS_MAX);
}

#[test]
fn h4_more_threads_that_take_turns_than_are_kept_do_not_all_lose_their_contexts() {
    let (contexts, threads): (_, Vec<_>) =
        (Contexts::default(), (0..70).map(|_| ThreadId::generate()).collect());
    let tokens = CONTEXT_TOKENS_MAX / 64;
    let mut found = 0;
    for _ in 0..10 {
        for thread_id in threads.iter().copied() {
            found += usize::from(contexts.take(thread_id).is_some());
            contexts.keep(Kept { thread_id, context: Context { tokens, ..Context::default() } });
        }
    }
    assert!(found > 700 / 2, "{found} of 700");
}

fn answered(counted: u64, estimated: u64) -> NewEvent {
    let answer = AiMessage {
        content: vec![Block::text("done")],
        model: Some("test/model".to_owned()),
        usage: Some(protocol::Usage { input_tokens: counted, ..protocol::Usage::default() }),
        estimated_tokens: Some(estimated),
        ..AiMessage::default()
    };
    NewEvent::message(&Message::Ai(answer), Timestamp::UNIX_EPOCH).unwrap()
}

#[tokio::test]
async fn b18_what_a_model_counted_for_what_was_sent_is_the_measure_of_the_next_request() {
    for (counted, estimated, times) in
        [(1_500, 1_000, 1.5), (700, 1_000, 0.7), (90_000, 1_000, TIMES_MAX), (10, 1_000, TIMES_MIN)]
    {
        let (store, thread_id) =
            journal_of(messages(3).chain([answered(counted, estimated)]).collect()).await;
        let context = Contexts::default().read(&store, thread_id).await.unwrap();
        assert_eq!(context.times("test/model"), times, "{counted} of {estimated}");
        assert_eq!(context.times("test/other"), 1.0, "another model counts otherwise");
        let whole = ((context.tokens + 200) as f64 * times) as u64;
        assert_eq!(context.request_tokens("test/model", 200), whole);
    }
}

#[tokio::test]
async fn l11_a_cut_changes_what_is_counted_and_not_how() {
    let (store, thread_id) = journal_of(messages(3).chain([answered(2_000, 1_000)]).collect()).await;
    let contexts = Contexts::default();
    assert_eq!(contexts.read(&store, thread_id).await.unwrap().times("test/model"), 2.0);
    add(&store, thread_id, vec![fact(EventType::ImportedBoundary)]).await;
    add(&store, thread_id, messages(1).collect()).await;
    let context = contexts.read(&store, thread_id).await.unwrap();
    assert_eq!((context.messages.len(), context.times("test/model")), (1, 2.0));
    assert_eq!(context.request_tokens("test/model", 0), context.tokens * 2);
}
