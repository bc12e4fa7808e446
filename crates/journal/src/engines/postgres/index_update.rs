//! Updates of the search index before a search. Only one process updates the index at a time, and only one task of
//! that process. Callers that wait for another update hold no connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postgres::Pool;
use tokio::sync::Mutex;

use super::locks;
use crate::engines::sql::SqlConnection;
use crate::tables::search::{self, IndexBatchResult, IndexPass};
use crate::tables::threads::ThreadHeadCache;
use crate::{Error, Result};

/// Interval at which a waiting process checks whether another process has finished the update.
const PEER_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Coordinates the index updates of one process.
#[derive(Default)]
pub(super) struct IndexUpdater {
    /// Number of updates that were requested so far. A request is identified by its number.
    requested: AtomicU64,
    /// The results of finished passes. Its lock is held by the task that runs a pass.
    progress: Mutex<IndexPassProgress>,
}

/// The results of the passes of this process.
#[derive(Default)]
struct IndexPassProgress {
    /// The index contains everything that was committed before the request with this number.
    completed: u64,
    /// The most recent failed pass: the last request that it served, and its error.
    failure: Option<(u64, postgres::Error)>,
}

impl IndexUpdater {
    /// Updates the index so that it contains everything committed before this call. Concurrent callers share a pass.
    pub(super) async fn update_index(&self, pool: &Pool) -> Result<()> {
        // Most searches find an index that is up to date, and must not wait for an update in progress.
        if !is_behind(pool, IndexPass::default()).await? {
            return Ok(());
        }
        let number = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        let mut progress = self.progress.lock().await;
        if progress.completed >= number {
            return Ok(());
        }
        if let Some((_, failure)) = progress.failure.as_ref().filter(|(served, _)| *served >= number) {
            return Err(failure.clone().into());
        }
        // A pass that starts after these requests sees everything that they need.
        let served = self.requested.load(Ordering::SeqCst);
        let result = run_pass(pool).await;
        match &result {
            Ok(()) => progress.completed = served,
            Err(Error::Postgres(failure)) => progress.failure = Some((served, failure.clone())),
            Err(_) => {}
        }
        result
    }
}

/// Runs one pass over all threads, batch by batch. If another process holds the lock, waits until the index is up to
/// date or the lock is free.
async fn run_pass(pool: &Pool) -> Result<()> {
    let mut pass = IndexPass::default();
    loop {
        let batch = pool.write(Vec::new(), move |connection| {
            let heads = ThreadHeadCache::default();
            let tables = SqlConnection::Postgres(connection, &heads);
            match locks::try_index_lock(&tables)? {
                true => search::index_batch(&tables, pass).map(Some),
                false => Ok(None),
            }
        });
        match batch.await? {
            Some(IndexBatchResult::Finished) => return Ok(()),
            Some(IndexBatchResult::Unfinished(next)) => pass = next,
            None => {
                tokio::time::sleep(PEER_POLL_INTERVAL).await;
                if !is_behind(pool, pass).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns whether rows that the pass has not reached yet are missing in the index.
async fn is_behind(pool: &Pool, pass: IndexPass) -> Result<bool> {
    pool.read(move |connection| {
        search::is_behind(&SqlConnection::Postgres(connection, &ThreadHeadCache::default()), pass)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use jiff::Timestamp;
    use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};

    use super::super::{PoolSettings, PostgresCopyConnection, PostgresStore};
    use super::*;
    use crate::{SearchQuery, Store, Transaction, Write};

    const POOL: PoolSettings = PoolSettings {
        min_idle: 0,
        max: 2,
        idle_timeout: Duration::from_secs(60),
        max_lifetime: Duration::from_secs(600),
        wait_timeout: Duration::from_secs(5),
    };
    const SEARCHES: u64 = 8;

    /// Acquires the index lock on a connection of its own and returns. The lock is released when the sender is
    /// dropped or used.
    fn hold_index_lock(url: String) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
        let (acquired_sender, acquired) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let copy_connection = PostgresCopyConnection::open(&url).unwrap();
            copy_connection
                .connection
                .query("SELECT pg_advisory_lock($1)::text", &[locks::INDEX_LOCK.into()])
                .unwrap();
            acquired_sender.send(()).unwrap();
            // The thread also ends when the sender is dropped.
            let _ = released.recv();
        });
        acquired.recv().unwrap();
        (release, holder)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn searches_that_wait_for_the_index_do_not_occupy_connections() {
        let database = test_postgres::TestDatabase::create().unwrap();
        let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        let thread_id = ThreadId::generate();
        let now = Timestamp::now();
        let thread = Thread::blank(thread_id, AssistantId::default(), now);
        let event = NewEvent::from_message(&Message::human("a heron"), now).unwrap();
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events: vec![event] }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        let (release, holder) = hold_index_lock(database.socket_url());
        let before = store.pool_statistics().checkouts;
        let searches: Vec<_> = (0..SEARCHES)
            .map(|_| {
                let store = store.clone();
                let query =
                    SearchQuery { words: vec!["heron".to_owned()], limit: 10, ..SearchQuery::default() };
                tokio::spawn(async move { store.search(query).await })
            })
            .collect();
        // Wait until every search has checked the index, and one of them has started the update.
        while store.pool_statistics().checkouts < before + SEARCHES + 1 {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            assert!(store.thread(thread_id).await.unwrap().is_some());
        }
        drop(release);
        holder.join().unwrap();
        for search in searches {
            assert_eq!(search.await.unwrap().unwrap().len(), 1);
        }
    }
}
