//! What is read of a thread before the model is asked, and which answers count as one.

use std::cell::RefCell;

use journal::{Sqlite, Store, Transaction, Write};
use protocol::{AssistantId, EventType, Seq, Thread, ThreadId, ThreadStatus};
use serde_json::{Map, json};

use super::*;

fn fact(event_type: EventType) -> NewEvent {
    NewEvent::new(event_type, &json!({"text": "what was before"}), Timestamp::UNIX_EPOCH).unwrap()
}

fn messages(count: usize) -> impl Iterator<Item = NewEvent> {
    (0..count).map(|at| NewEvent::message(&Message::human(format!("m{at}")), Timestamp::UNIX_EPOCH).unwrap())
}

async fn journal_of(events: Vec<NewEvent>) -> (Sqlite, ThreadId) {
    let store = Sqlite::in_memory().unwrap();
    let thread = Thread {
        thread_id: ThreadId::generate(),
        assistant_id: AssistantId::default(),
        parent_id: None,
        parent_kind: None,
        name: None,
        status: ThreadStatus::Idle,
        metadata: Map::new(),
        first_prompt: None,
        message_count: 0,
        last_seq: 0,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
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
    let context = context(page).await.unwrap();
    (context.iter().map(Message::text).collect(), seqs.into_inner())
}

#[tokio::test]
async fn the_context_of_many_pages_is_in_order_and_read_once() {
    for count in [0, 1, CONTEXT_PAGE_ROWS, CONTEXT_PAGE_ROWS * 2 + 7] {
        let (texts, mut seqs) = read(messages(count).collect()).await;
        assert_eq!(texts, (0..count).map(|at| format!("m{at}")).collect::<Vec<_>>());
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=count as Seq).collect::<Vec<_>>());
    }
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
    assert_eq!(seqs.len(), CONTEXT_PAGE_ROWS * 2, "the newest page and the one with the boundary");
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

#[test]
fn an_answer_without_anything_to_read_or_run_is_empty() {
    let thought = Block::Thinking { text: "hm".to_owned(), provider: None, raw: None };
    let call = Block::ToolCall { id: "1".to_owned(), name: "ls".to_owned(), args: json!("{\"pa") };
    let end = Some(StopReason::EndTurn);
    for (content, stop, expected) in [
        (vec![], end, Some("it is empty")),
        (vec![], None, Some("it is empty")),
        (vec![Block::text(" \n")], end, Some("it is empty")),
        (vec![thought.clone()], end, Some("it is empty")),
        (vec![thought], Some(StopReason::MaxTokens), Some("it reached its limit before it said anything")),
        (vec![], Some(StopReason::Refusal), Some("the model declined to answer")),
        (vec![Block::text("I can't.")], Some(StopReason::Refusal), None),
        (vec![Block::text("One two")], Some(StopReason::MaxTokens), None),
        (vec![call], Some(StopReason::MaxTokens), None),
    ] {
        let answer = AiMessage { content, stop, ..AiMessage::default() };
        assert_eq!(emptiness(&answer), expected, "{answer:?}");
    }
}
