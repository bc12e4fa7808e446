//! Searches while many messages are not indexed yet.

use journal::{IndexBacklog, RankQuery, ScopedStore, SearchQuery, Store, ThreadPrefix, Write};
use protocol::{AssistantId, Message, NewEvent, OwnerScope, Thread, ThreadId, UserId};
use serde_json::json;

use super::seqs;
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{append, at, commit, create, human, search_for, thread};

/// Number of messages that a search indexes before it answers.
const INDEXED_PER_SEARCH: u64 = 2_000;
/// Number of messages that a search leaves unindexed.
const LEFT: u64 = 1_000;
/// Number of messages of one append.
const APPENDED: u64 = 1_500;

/// Appends more messages than a search indexes, all at the same early time.
async fn append_many(store: &dyn Store, thread_id: ThreadId) {
    for _ in 0..(INDEXED_PER_SEARCH + LEFT) / APPENDED {
        let events = (0..APPENDED).map(|_| human("a heron")).collect();
        append(store, thread_id, events).await.unwrap();
    }
}

/// Creates a thread with one message that is later than those of [`append_many`].
async fn append_turn(store: &dyn Store) -> ThreadId {
    let thread_id = create(store).await;
    let event = NewEvent::from_message(&Message::human("a kingfisher"), at(100)).unwrap();
    append(store, thread_id, vec![event]).await.unwrap();
    thread_id
}

async fn backlog(store: &dyn Store, query: SearchQuery) -> IndexBacklog {
    store.search(query).await.unwrap().backlog
}

pub async fn a_large_backlog_is_indexed_step_by_step(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_many(&*store, thread_id).await;
    let total = IndexBacklog { messages: INDEXED_PER_SEARCH + LEFT, threads: 1 };
    assert_eq!(store.index_backlog(&OwnerScope::Everyone).await.unwrap(), total);
    let answer = store.search(search_for("heron")).await.unwrap();
    assert_eq!(answer.hits.len(), 50, "what is indexed is found");
    assert_eq!(answer.backlog, IndexBacklog { messages: LEFT, threads: 1 });
    assert!(!answer.backlog.is_empty());
    assert_eq!(backlog(&*store, search_for("heron")).await, IndexBacklog::default());
    let all = SearchQuery { limit: 5_000, ..search_for("heron") };
    assert_eq!(seqs(&store, all).await.len() as u64, INDEXED_PER_SEARCH + LEFT);
}

pub async fn the_last_turn_is_found_before_a_backlog_is_indexed(store: SharedStore) {
    let imported = create(&*store).await;
    append_many(&*store, imported).await;
    append_turn(&*store).await;
    let answer = store.search(search_for("kingfisher")).await.unwrap();
    assert_eq!(answer.hits.len(), 1);
    assert_eq!(answer.backlog, IndexBacklog { messages: LEFT + 1, threads: 1 });
}

pub async fn the_last_turn_is_ranked_before_a_backlog_is_indexed(store: SharedStore) {
    let parent = create(&*store).await;
    append_many(&*store, parent).await;
    let child = append_turn(&*store).await;
    let threads = [child, parent].map(|thread_id| ThreadPrefix { thread_id, before: None }).to_vec();
    let words = vec!["kingfisher".to_owned()];
    let answer =
        store.rank_messages(RankQuery { threads, words, limit: 5, ..RankQuery::default() }).await.unwrap();
    assert_eq!((answer.hits.len(), answer.backlog.messages), (1, LEFT + 1));
}

pub async fn a_search_of_a_thread_does_not_wait_for_others(store: SharedStore) {
    let imported = create(&*store).await;
    append_many(&*store, imported).await;
    let own = append_turn(&*store).await;
    let words = vec!["kingfisher".to_owned()];
    // A thread that is named twice is indexed once.
    let threads = vec![ThreadPrefix { thread_id: own, before: None }; 2];
    let query = RankQuery { threads, words, limit: 5, ..RankQuery::default() };
    let answer = store.rank_messages(query).await.unwrap();
    assert_eq!((answer.hits.len(), answer.backlog), (1, IndexBacklog::default()));
    let of_thread = SearchQuery { thread_id: Some(own), ..search_for("kingfisher") };
    assert_eq!(backlog(&*store, of_thread).await, IndexBacklog::default());
    let unindexed = store.index_backlog(&OwnerScope::Everyone).await.unwrap();
    assert_eq!(unindexed, IndexBacklog { messages: INDEXED_PER_SEARCH + LEFT, threads: 1 });
    let threads = vec![ThreadPrefix { thread_id: imported, before: None }];
    let query = RankQuery { threads, words: vec!["heron".to_owned()], limit: 5, ..RankQuery::default() };
    let answer = store.rank_messages(query).await.unwrap();
    assert_eq!((answer.hits.len(), answer.backlog.messages), (5, LEFT));
}

pub async fn a_temporary_thread_is_indexed_only_for_its_own_searches(store: SharedStore) {
    let mut temporary = thread();
    temporary.metadata.insert(Thread::TEMPORARY_KEY.to_owned(), json!({"run_id": "any"}));
    let thread_id = temporary.thread_id;
    commit(&*store, vec![Write::CreateThread(temporary)]).await.unwrap();
    append(&*store, thread_id, vec![human("a heron")]).await.unwrap();
    store.update_search_index().await.unwrap();
    assert_eq!(store.index_backlog(&OwnerScope::Everyone).await.unwrap(), IndexBacklog::default());
    let answer = store.search(search_for("heron")).await.unwrap();
    assert_eq!((answer.hits, answer.backlog), (Vec::new(), IndexBacklog::default()));
    assert!(store.unembedded_messages("any model", 10).await.unwrap().threads.is_empty());
    // The run of the thread can recall its own messages.
    let threads = vec![ThreadPrefix { thread_id, before: None }];
    let query = RankQuery { threads, words: vec!["heron".to_owned()], limit: 5, ..RankQuery::default() };
    assert_eq!(store.rank_messages(query).await.unwrap().hits.len(), 1);
    let of_thread = SearchQuery { thread_id: Some(thread_id), ..search_for("heron") };
    assert_eq!(seqs(&store, of_thread.clone()).await, [1]);
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    assert!(seqs(&store, of_thread).await.is_empty());
}

pub async fn an_update_in_the_background_indexes_everything(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_many(&*store, thread_id).await;
    store.start_index_update();
    while !store.index_backlog(&OwnerScope::Everyone).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

pub async fn k1_messages_of_other_owners_are_not_counted(store: SharedStore) {
    let owned = |name: &str| {
        let owner: UserId = name.parse().unwrap();
        let own = ScopedStore::new(store.clone(), OwnerScope::Owner(Some(owner.clone())));
        (own, AssistantId::default().with_owner(Some(&owner)))
    };
    let (alice, assistant_id) = owned("alice");
    let (al, _) = owned("al");
    let own = Thread { assistant_id, ..thread() };
    let thread_id = own.thread_id;
    commit(&alice, vec![Write::CreateThread(own)]).await.unwrap();
    append_many(&alice, thread_id).await;
    for scope in [OwnerScope::Everyone, OwnerScope::Owner(Some("alice".parse().unwrap()))] {
        assert_eq!(al.index_backlog(&scope).await.unwrap(), IndexBacklog::default());
        let query = SearchQuery { scope: Some(scope), ..search_for("heron") };
        assert_eq!(backlog(&al, query).await, IndexBacklog::default());
    }
    let threads = vec![ThreadPrefix { thread_id, before: None }];
    let query = RankQuery { threads, words: vec!["heron".to_owned()], limit: 5, ..RankQuery::default() };
    let answer = al.rank_messages(query).await.unwrap();
    assert_eq!((answer.hits.len(), answer.backlog), (0, IndexBacklog::default()));
    assert_eq!(alice.index_backlog(&OwnerScope::Everyone).await.unwrap().messages, INDEXED_PER_SEARCH + LEFT);
    assert_eq!(backlog(&alice, search_for("heron")).await, IndexBacklog { messages: LEFT, threads: 1 });
}
