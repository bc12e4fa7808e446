//! Tests of reading contexts: which events are read from nothing, and which with a cached context.

mod archive;

use std::cell::RefCell;

use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use protocol::{AssistantId, EventType, NewEvent, Thread};
use serde_json::json;

use super::*;

fn empty_event(event_type: EventType) -> NewEvent {
    NewEvent::new(event_type, &json!({"text": "what was before"}), Timestamp::UNIX_EPOCH).unwrap()
}

fn messages(count: usize) -> impl Iterator<Item = NewEvent> {
    (0..count).map(|index| {
        NewEvent::from_message(&Message::human(format!("m{index}")), Timestamp::UNIX_EPOCH).unwrap()
    })
}

async fn journal_with(events: Vec<NewEvent>) -> (SqliteStore, ThreadId) {
    let store = SqliteStore::in_memory().unwrap();
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
    (store, thread_id)
}

/// Returns the message texts of the context of these events, and the sequence numbers that were read for it.
async fn read(events: Vec<NewEvent>) -> (Vec<String>, Vec<Seq>) {
    let (store, thread_id) = journal_with(events).await;
    let seqs = RefCell::new(Vec::new());
    let page = async |query: EventQuery| {
        let page = store.events(thread_id, query).await?;
        seqs.borrow_mut().extend(page.iter().map(|event| event.seq));
        Ok(page)
    };
    let context = build_context(page).await.unwrap();
    (context.messages.iter().map(Message::text).collect(), seqs.into_inner())
}

#[tokio::test]
async fn the_context_of_many_pages_is_in_order_and_read_once() {
    for count in [0, 1, CONTEXT_FIRST_ROWS, CONTEXT_PAGE_ROWS, CONTEXT_PAGE_ROWS * 2 + 7] {
        let (texts, mut seqs) = read(messages(count).collect()).await;
        assert_eq!(texts, (0..count).map(|index| format!("m{index}")).collect::<Vec<_>>());
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=count as Seq).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_part_of_an_answer_is_left_out_if_the_whole_answer_follows() {
    let part = |text: &str, incomplete| {
        let answer =
            AiMessage { content: vec![ContentBlock::text(text)], incomplete, ..AiMessage::default() };
        NewEvent::from_message(&Message::Ai(answer), Timestamp::UNIX_EPOCH).unwrap()
    };
    let human = |text: &str| NewEvent::from_message(&Message::human(text), Timestamp::UNIX_EPOCH).unwrap();
    let events = vec![
        human("go"),
        part("Let", true),
        part("Let me", true),
        part("Let me see.", false),
        human("stop"),
        part("I wi", true),
        human("go on"),
        part("Done.", false),
    ];
    let (store, thread_id) = journal_with(events.clone()).await;
    let whole = build_context(|query| store.events(thread_id, query)).await.unwrap();
    let texts: Vec<String> = whole.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["go", "Let me see.", "stop", "I wi", "go on", "Done."]);
    assert_eq!(*whole.seqs, [1, 4, 5, 6, 7, 8]);
    let tokens: u64 = whole.messages.iter().map(tokens::message_tokens).sum();
    assert_eq!(whole.tokens, tokens);
    for known in 1..events.len() {
        let (store, thread_id) = journal_with(events[..known].to_vec()).await;
        let cached = build_context(|query| store.events(thread_id, query)).await.unwrap();
        let append = Write::Append { thread_id, events: events[known..].to_vec() };
        store.commit(Transaction { fence: None, writes: vec![append] }).await.unwrap();
        let extended =
            extend_from_journal(cached, |query| store.events(thread_id, query)).await.unwrap().unwrap();
        assert_eq!((&extended.messages, &extended.seqs), (&whole.messages, &whole.seqs), "{known}");
        assert_eq!(extended.tokens, whole.tokens, "{known}");
    }
}

#[tokio::test]
async fn injected_messages_are_known_in_a_new_and_in_an_extended_context() {
    let human_event =
        |text: &str| NewEvent::from_message(&Message::human(text), Timestamp::UNIX_EPOCH).unwrap();
    let event_with_flag = |is_injected: bool| {
        human_event("a reminder")
            .with_metadata(&json!({"injected": is_injected, "about": "injected"}))
            .unwrap()
    };
    let (store, thread_id) =
        journal_with(vec![human_event("one"), event_with_flag(true), event_with_flag(false)]).await;
    let contexts = ContextCache::default();
    let first = contexts.read_context(&store, thread_id).await.unwrap();
    assert_eq!(Vec::from_iter(first.injected_seqs.iter().copied()), [2]);
    let events = vec![human_event("two"), event_with_flag(true)];
    let writes = vec![Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
    let extended = contexts.read_context(&store, thread_id).await.unwrap();
    let fresh = ContextCache::default().read_context(&store, thread_id).await.unwrap();
    assert_eq!(Vec::from_iter(extended.injected_seqs.iter().copied()), [2, 5]);
    assert_eq!(extended, fresh);
}

#[tokio::test]
async fn pages_before_the_last_boundary_are_never_read() {
    let mut events: Vec<NewEvent> = messages(CONTEXT_PAGE_ROWS * 3).collect();
    events.push(empty_event(EventType::ImportedBoundary));
    events.push(empty_event(EventType::ImportedSummary));
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
async fn a_boundary_of_a_sub_agent_does_not_start_the_context() {
    let mut events: Vec<NewEvent> = messages(CONTEXT_PAGE_ROWS).collect();
    events.push(empty_event(EventType::ImportedBoundary).with_metadata(&json!({"side": true})).unwrap());
    events.extend(messages(CONTEXT_PAGE_ROWS));
    assert_eq!(read(events).await.0.len(), CONTEXT_PAGE_ROWS * 2);
}

#[tokio::test]
async fn lifecycle_events_are_not_read() {
    let mut events: Vec<NewEvent> =
        (0..CONTEXT_PAGE_ROWS * 2).map(|_| empty_event(EventType::RunStarted)).collect();
    events.extend(messages(3));
    assert_eq!(read(events).await.1.len(), 3);
}

/// Returns the message texts of the thread's context in `contexts`, after comparing it with a context read from
/// nothing.
async fn texts(contexts: &ContextCache, store: &SqliteStore, thread_id: ThreadId) -> Vec<String> {
    let cached = contexts.read_context(store, thread_id).await.unwrap();
    let fresh = ContextCache::default().read_context(store, thread_id).await.unwrap();
    assert_eq!(cached, fresh);
    cached.messages.iter().map(Message::text).collect()
}

async fn append_events(store: &SqliteStore, thread_id: ThreadId, events: Vec<NewEvent>) {
    let writes = vec![Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.unwrap();
}

#[tokio::test]
async fn a_cached_context_equals_one_read_from_nothing() {
    let (store, thread_id) = journal_with(messages(3).collect()).await;
    let contexts = ContextCache::default();
    assert_eq!(texts(&contexts, &store, thread_id).await.len(), 3);
    append_events(&store, thread_id, vec![empty_event(EventType::RunStarted)]).await;
    append_events(&store, thread_id, messages(CONTEXT_PAGE_ROWS * 2 + 1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await.len(), CONTEXT_PAGE_ROWS * 2 + 4);
    let rewind = Write::Rewind { thread_id, keep_seq: 2, at: Timestamp::UNIX_EPOCH };
    store.commit(Transaction { fence: None, writes: vec![rewind] }).await.unwrap();
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m0", "m1"]);
    append_events(&store, thread_id, messages(1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m0", "m1", "m0"]);
    append_events(&store, thread_id, vec![empty_event(EventType::ImportedBoundary)]).await;
    append_events(&store, thread_id, messages(1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m0"]);
}

#[tokio::test]
async fn a_cached_context_reads_only_new_events() {
    let (store, thread_id) = journal_with(messages(CONTEXT_PAGE_ROWS).collect()).await;
    let first = build_context(|query| store.events(thread_id, query)).await.unwrap();
    append_events(&store, thread_id, messages(2).collect()).await;
    let read = RefCell::new(0);
    let page = async |query: EventQuery| {
        let page = store.events(thread_id, query).await?;
        *read.borrow_mut() += page.len();
        Ok(page)
    };
    let second = extend_from_journal(first, page).await.unwrap().unwrap();
    assert_eq!((second.messages.len(), read.into_inner()), (CONTEXT_PAGE_ROWS + 2, 3));
}

#[test]
fn cached_media_are_limited_and_the_newest_context_keeps_its_own() {
    let contexts = ContextCache::default();
    let context_with_media = |megabytes: usize| {
        let bytes: Arc<[u8]> = vec![0; megabytes << 20].into();
        let media = BTreeMap::from([("hash".to_owned(), bytes)]);
        CachedContext {
            thread_id: ThreadId::generate(),
            context: ModelContext { media, ..ModelContext::default() },
        }
    };
    for (megabytes, expected) in
        [(20, vec![20]), (10, vec![20, 10]), (20, vec![0, 10, 20]), (40, vec![0, 0, 0, 40])]
    {
        contexts.insert_cached(context_with_media(megabytes));
        let entries = contexts.entries.lock();
        let media_sizes: Vec<usize> = entries
            .iter()
            .map(|entry| entry.context.media.values().map(|bytes| bytes.len() >> 20).sum())
            .collect();
        assert_eq!(media_sizes, expected);
    }
}

#[tokio::test]
async fn the_number_of_cached_contexts_is_limited() {
    let contexts = ContextCache::default();
    for _ in 0..CONTEXTS_MAX + 3 {
        let (store, thread_id) = journal_with(messages(1).collect()).await;
        contexts.read_context(&store, thread_id).await.unwrap();
    }
    assert_eq!(contexts.entries.lock().len(), CONTEXTS_MAX);
}

#[test]
fn h4_with_more_active_threads_than_cached_contexts_most_lookups_still_hit() {
    let (contexts, threads): (_, Vec<_>) =
        (ContextCache::default(), (0..70).map(|_| ThreadId::generate()).collect());
    let tokens = CONTEXT_TOKENS_MAX / 64;
    let mut hits = 0;
    for _ in 0..10 {
        for thread_id in threads.iter().copied() {
            hits += usize::from(contexts.take_cached(thread_id).is_some());
            contexts.insert_cached(CachedContext {
                thread_id,
                context: ModelContext { tokens, ..ModelContext::default() },
            });
        }
    }
    assert!(hits > 700 / 2, "{hits} of 700");
}

fn answer_with_usage(reported: u64, estimated: u64) -> NewEvent {
    let answer = AiMessage {
        content: vec![ContentBlock::text("done")],
        model: Some("test/model".to_owned()),
        usage: Some(protocol::Usage { input_tokens: reported, ..protocol::Usage::default() }),
        estimated_tokens: Some(estimated),
        ..AiMessage::default()
    };
    NewEvent::from_message(&Message::Ai(answer), Timestamp::UNIX_EPOCH).unwrap()
}

#[tokio::test]
async fn b18_the_reported_token_count_calibrates_the_next_request() {
    for (reported, estimated, factor) in [
        (1_500, 1_000, 1.5),
        (700, 1_000, 0.7),
        (90_000, 1_000, CALIBRATION_FACTOR_MAX),
        (10, 1_000, CALIBRATION_FACTOR_MIN),
    ] {
        let (store, thread_id) =
            journal_with(messages(3).chain([answer_with_usage(reported, estimated)]).collect()).await;
        let context = ContextCache::default().read_context(&store, thread_id).await.unwrap();
        assert_eq!(context.calibration_factor("test/model"), factor, "{reported} of {estimated}");
        assert_eq!(context.calibration_factor("test/other"), 1.0, "another model counts otherwise");
        let whole = ((context.tokens + 200) as f64 * factor) as u64;
        assert_eq!(context.request_tokens("test/model", 200), whole);
    }
}

#[tokio::test]
async fn l11_a_boundary_keeps_the_calibration() {
    let (store, thread_id) =
        journal_with(messages(3).chain([answer_with_usage(2_000, 1_000)]).collect()).await;
    let contexts = ContextCache::default();
    assert_eq!(contexts.read_context(&store, thread_id).await.unwrap().calibration_factor("test/model"), 2.0);
    append_events(&store, thread_id, vec![empty_event(EventType::ImportedBoundary)]).await;
    append_events(&store, thread_id, messages(1).collect()).await;
    let context = contexts.read_context(&store, thread_id).await.unwrap();
    assert_eq!((context.messages.len(), context.calibration_factor("test/model")), (1, 2.0));
    assert_eq!(context.request_tokens("test/model", 0), context.tokens * 2);
    // Another process, which has not read the thread before, gets the same context.
    assert_eq!(ContextCache::default().read_context(&store, thread_id).await.unwrap(), context);
}

#[tokio::test]
async fn b18_a_rewind_before_an_answer_takes_back_its_calibration_in_every_process() {
    let (store, thread_id) =
        journal_with(messages(3).chain([answer_with_usage(2_000, 1_000)]).collect()).await;
    let contexts = ContextCache::default();
    assert_eq!(contexts.read_context(&store, thread_id).await.unwrap().calibration_factor("test/model"), 2.0);
    let rewind = Write::Rewind { thread_id, keep_seq: 2, at: Timestamp::UNIX_EPOCH };
    store.commit(Transaction { fence: None, writes: vec![rewind] }).await.unwrap();
    let context = contexts.read_context(&store, thread_id).await.unwrap();
    assert_eq!((context.messages.len(), context.calibration_factor("test/model")), (2, 1.0));
    assert_eq!(ContextCache::default().read_context(&store, thread_id).await.unwrap(), context);
}
