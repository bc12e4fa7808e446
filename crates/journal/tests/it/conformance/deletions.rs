//! Deletions of long threads, whose rows are removed in several transactions.

use std::task::Poll;

use futures::future::BoxFuture;
use journal::{
    CommitReceipt, Error, EventQuery, HealthCheckDepth, Result, Store, ThreadSize, TurnQuery, Write,
};
use protocol::{AssistantId, Thread, ThreadId};

use super::SharedStore;
use super::fixtures::{
    all_events, append, commit, complete_run, create, human, messages, thread, trace_event,
};

/// Number of events of a long thread. One transaction removes fewer.
const LONG: u64 = 1_300;

/// Creates a long thread that is in the search index.
pub async fn create_long(store: &dyn Store) -> ThreadId {
    let thread_id = create(store).await;
    let events = (0..LONG).map(|number| human(&format!("heron {number}")));
    complete_run(store, thread_id, events.collect()).await;
    store.update_search_index().await.unwrap();
    thread_id
}

/// Begins to delete a long thread. Returns the deletion, which has not removed all rows, when the thread does not exist any more.
pub async fn begin_deletion(store: &dyn Store, thread_id: ThreadId) -> BoxFuture<'_, Result<CommitReceipt>> {
    let mut deletion: BoxFuture<'_, Result<CommitReceipt>> =
        Box::pin(commit(store, vec![Write::DeleteThread { thread_id }]));
    while store.thread(thread_id).await.unwrap().is_some() {
        let state = std::future::poll_fn(|context| Poll::Ready(deletion.as_mut().poll(context))).await;
        assert!(state.is_pending(), "the rows of a long thread are removed in several transactions");
    }
    deletion
}

/// Asserts that no read finds anything of a deleted thread, and that one thread with one message is left.
async fn check_absent(store: &dyn Store, thread_id: ThreadId) {
    assert_eq!(store.thread(thread_id).await.unwrap(), None);
    assert!(store.events(thread_id, EventQuery::after(0, 9)).await.unwrap().is_empty());
    assert_eq!(store.seq_of_event_key(thread_id, "key").await.unwrap(), None);
    assert_eq!(store.thread_size(thread_id).await.unwrap(), ThreadSize::default());
    assert!(messages(store, "heron").await.is_empty());
    let turns = store.turns(TurnQuery::for_agent(AssistantId::default())).await.unwrap();
    assert_eq!(turns.iter().map(|turn| turn.content.as_str()).collect::<Vec<_>>(), ["a wren"]);
    let counts = store.memory_counts(&AssistantId::default()).await.unwrap();
    assert_eq!(counts.active_turns, 1);
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.threads, health.events, health.problems), (1, 1, vec![]));
}

pub async fn a26_nothing_of_a_long_thread_is_found_while_and_after_it_is_deleted(store: SharedStore) {
    let thread_id = create_long(&*store).await;
    append(&*store, thread_id, vec![trace_event(0).with_key("key")]).await.unwrap();
    let other = create(&*store).await;
    let deletion = begin_deletion(&*store, thread_id).await;
    // Others write while the rows are removed.
    append(&*store, other, vec![human("a wren")]).await.unwrap();
    check_absent(&*store, thread_id).await;
    deletion.await.unwrap();
    check_absent(&*store, thread_id).await;
    let again = commit(&*store, vec![Write::DeleteThread { thread_id }]).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
}

pub async fn h3_the_id_of_a_thread_whose_deletion_was_cancelled_can_be_used_again(store: SharedStore) {
    let thread_id = create_long(&*store).await;
    drop(begin_deletion(&*store, thread_id).await);
    let again = Thread { thread_id, ..thread() };
    commit(&*store, vec![Write::CreateThread(again)]).await.unwrap();
    assert!(all_events(&*store, thread_id, &[]).await.is_empty());
    assert_eq!(append(&*store, thread_id, vec![human("a wren")]).await.unwrap(), [LONG + 1]);
    assert!(messages(&*store, "heron").await.is_empty());
    assert_eq!(messages(&*store, "wren").await, [(thread_id, LONG + 1)]);
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.threads, health.events, health.problems), (1, 1, vec![]));
}
