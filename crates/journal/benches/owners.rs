//! Benchmarks of a search by one of 500 owners in a journal of 10,000 threads with 20 messages each. 2 % of the messages
//! contain the word. The last owner has as many threads as a quarter of all other owners together. The threads of all owners
//! are interleaved on disk.
//!
//! `cargo bench -p segue-journal --bench owners` prints the table; it takes a few minutes, most of them for writing the journal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use journal::{PoolSettings, PostgresStore, SearchQuery, SqliteStore, Store, Transaction, Write};
use protocol::{AssistantId, Message, NewEvent, OwnerScope, Thread, ThreadId, UserId};
use test_postgres::Cluster;

/// Number of owners.
const OWNERS: usize = 500;
/// Number of threads of all owners.
const THREADS: usize = 10_000;
/// Messages in each thread.
const MESSAGES: usize = 20;
/// One message in this number contains the word.
const RARE: usize = 50;
/// One thread in this number belongs to the last owner.
const SHARE: usize = 5;
/// Threads created in one transaction.
const BATCH: usize = 50;
/// Number of measurements of each search.
const ROUNDS: usize = 21;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let sqlite = SqliteStore::open(&folder.path().join("segue.db")).expect("the folder is empty");
        measure_searches("SQLite", Arc::new(sqlite)).await;
        let server = Cluster::start().expect("PostgreSQL is installed");
        let database = server.create_database().expect("the server runs");
        let pool = PoolSettings {
            min_idle: 1,
            max: 4,
            idle_timeout: Duration::from_secs(300),
            max_lifetime: Duration::from_secs(3_600),
            wait_timeout: Duration::from_secs(30),
        };
        let store = PostgresStore::open(&database.socket_url(), pool).await.expect("an empty database");
        measure_searches("PostgreSQL", Arc::new(store)).await;
        drop(database);
    });
}

async fn measure_searches(what: &str, store: Arc<dyn Store>) {
    fill(&*store).await;
    store.update_search_index().await.expect("the index is updated");
    for (owner_kind, owner) in
        [("one of many", Some(7)), ("the largest", Some(OWNERS - 1)), ("everyone", None)]
    {
        let scope = owner.map(|owner| OwnerScope::Owner(Some(user(owner))));
        let query =
            SearchQuery { words: vec!["heron".to_owned()], limit: 10, scope, ..SearchQuery::default() };
        let mut times = Vec::with_capacity(ROUNDS);
        let mut hits = 0;
        for _ in 0..ROUNDS {
            let started_at = Instant::now();
            hits = store.search(query.clone()).await.expect("the search succeeds").hits.len();
            times.push(started_at.elapsed());
        }
        times.sort_unstable();
        println!(
            "{what:>10} {owner_kind:>12}: {:>8.2} ms, {hits} hits",
            times[ROUNDS / 2].as_secs_f64() * 1_000.0
        );
    }
}

async fn fill(store: &dyn Store) {
    for batch in 0..THREADS / BATCH {
        let threads = (0..BATCH).flat_map(|at| thread(batch * BATCH + at));
        let transaction = Transaction { fence: None, writes: threads.collect() };
        store.commit(transaction).await.expect("the commit succeeds");
    }
}

fn user(number: usize) -> UserId {
    format!("user{number}").parse().expect("a name")
}

fn thread(number: usize) -> [Write; 2] {
    let owner = if number.is_multiple_of(SHARE) { OWNERS - 1 } else { number % (OWNERS - 1) };
    let assistant: AssistantId = format!("agent@{}", user(owner)).parse().expect("a name");
    let (thread_id, now) = (ThreadId::generate(), Timestamp::now());
    let message = |at: usize| {
        let mixed = (number * MESSAGES + at).wrapping_mul(0x9e37_79b1) >> 8;
        let word = if mixed.is_multiple_of(RARE) { "heron" } else { "duck" };
        let text = format!("{number} {at} {word} {}", "a sentence of some length ".repeat(8));
        NewEvent::from_message(&Message::human(text), now).expect("text is JSON")
    };
    let events = (0..MESSAGES).map(message).collect();
    [Write::CreateThread(Thread::blank(thread_id, assistant, now)), Write::Append { thread_id, events }]
}
