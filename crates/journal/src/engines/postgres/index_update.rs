//! Updates of the search index before a search and in the background. Only one process updates the index at a time, and
//! only one task of that process. Tasks that wait for another update hold no connection.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use postgres::Pool;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::{PostgresInner, locks};
use crate::engines::sql::SqlConnection;
use crate::tables::search::{self, IndexBatchResult, IndexPass, IndexScope, PurgeState, ScopeIndexState};
use crate::tables::threads::{ThreadHeadCache, purges};
use crate::{Error, Result};

/// Interval at which a waiting process checks whether another process has released the index. It is shorter than
/// [`YIELD_PAUSE`], so that a search gets its turn between two batches of another process.
const PEER_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Pause after a batch of a pass over all threads, for searches of other processes.
const YIELD_PAUSE: Duration = Duration::from_millis(15);
/// Maximum time that a search waits for the index while others update it. Then it answers from what is indexed.
const SEARCH_WAIT_MAX: Duration = Duration::from_millis(500);

/// Coordinates the index updates of one process.
#[derive(Default)]
pub(super) struct IndexUpdater {
    /// Number of updates that were requested so far. A request is identified by its number.
    requested: AtomicU64,
    /// The results of finished passes. Its lock is held by the task that runs a pass.
    progress: Mutex<IndexPassProgress>,
    /// Held while this process indexes a batch. Waiting tasks get it in order, so a search waits for one batch of a
    /// pass.
    batch: Mutex<()>,
    /// The update in the background that was started last.
    background: parking_lot::Mutex<Option<JoinHandle<()>>>,
    /// `true` if this process has completed the deletions that earlier processes left incomplete.
    has_completed_purges: AtomicBool,
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
        // Most updates find an index that is up to date, and must not wait for an update in progress.
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
        let result = self.run_pass(pool).await;
        match &result {
            Ok(()) => progress.completed = served,
            Err(Error::Postgres(failure)) => progress.failure = Some((served, failure.clone())),
            Err(_) => {}
        }
        result
    }

    /// Indexes one batch of a scope. The scope is incomplete if others keep the index locked for [`SEARCH_WAIT_MAX`].
    pub(super) async fn index_scope_batch(
        &self,
        pool: &Pool,
        scope: Arc<IndexScope>,
    ) -> Result<ScopeIndexState> {
        let deadline = Instant::now() + SEARCH_WAIT_MAX;
        let Ok(_turn) = tokio::time::timeout(SEARCH_WAIT_MAX, self.batch.lock()).await else {
            return Ok(ScopeIndexState::Incomplete);
        };
        loop {
            let scope = Arc::clone(&scope);
            let batch =
                with_index_lock(pool, move |tables| search::index_scope_batch(tables, &scope)).await?;
            match batch {
                Some(state) => return Ok(state),
                None if Instant::now() >= deadline => return Ok(ScopeIndexState::Incomplete),
                None => tokio::time::sleep(PEER_POLL_INTERVAL).await,
            }
        }
    }

    /// Starts a task that runs a pass, unless one is running. It ends when the last owner of the store is dropped. The first
    /// task of a process also completes deletions that earlier processes left incomplete.
    pub(super) fn start_background(&self, store: Weak<PostgresInner>) {
        let mut background = self.background.lock();
        if background.as_ref().is_none_or(JoinHandle::is_finished) {
            *background = Some(tokio::spawn(async move {
                if let Err(error) = run_pass_in_background(&store).await {
                    tracing::warn!(%error, "failed to update the search index in the background");
                }
                if let Err(error) = complete_purges(&store).await {
                    tracing::warn!(%error, "failed to remove all rows of deleted threads");
                }
            }));
        }
    }

    /// Runs one pass over all threads, batch by batch. If another process holds the lock, waits until the index is up to
    /// date or the lock is free.
    async fn run_pass(&self, pool: &Pool) -> Result<()> {
        let mut pass = IndexPass::default();
        while let IndexBatchResult::Unfinished(next) = self.continue_pass(pool, pass).await? {
            pass = next;
        }
        Ok(())
    }

    /// Indexes one batch of a pass, or waits for another process that has the lock.
    async fn continue_pass(&self, pool: &Pool, pass: IndexPass) -> Result<IndexBatchResult> {
        let batch = {
            let _turn = self.batch.lock().await;
            with_index_lock(pool, move |tables| search::index_batch(tables, pass)).await?
        };
        match batch {
            Some(IndexBatchResult::Finished) => Ok(IndexBatchResult::Finished),
            Some(unfinished) => {
                tokio::time::sleep(YIELD_PAUSE).await;
                Ok(unfinished)
            }
            None => {
                tokio::time::sleep(PEER_POLL_INTERVAL).await;
                Ok(match is_behind(pool, pass).await? {
                    true => IndexBatchResult::Unfinished(pass),
                    false => IndexBatchResult::Finished,
                })
            }
        }
    }
}

/// Runs one pass over all threads while the store exists.
async fn run_pass_in_background(store: &Weak<PostgresInner>) -> Result<()> {
    let mut pass = IndexPass::default();
    while let Some(inner) = store.upgrade()
        && let IndexBatchResult::Unfinished(next) =
            inner.index_updater.continue_pass(&inner.pool, pass).await?
    {
        pass = next;
    }
    Ok(())
}

/// Completes the purges of deleted threads that are pending, once in a process, while the store exists.
async fn complete_purges(store: &Weak<PostgresInner>) -> Result<()> {
    while let Some(inner) = store.upgrade()
        && !inner.index_updater.has_completed_purges.load(Ordering::Relaxed)
    {
        let purged = inner.pool.write(Vec::new(), |connection| {
            purges::purge_next_part(&SqlConnection::Postgres(connection, &ThreadHeadCache::default()))
        });
        if purged.await? == PurgeState::Complete {
            inner.index_updater.has_completed_purges.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Executes `work` in a transaction that holds the index lock. Returns `None` if another process holds it.
async fn with_index_lock<T: Send + 'static>(
    pool: &Pool,
    work: impl Fn(&SqlConnection<'_>) -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    pool.write(Vec::new(), move |connection| {
        let heads = ThreadHeadCache::default();
        let tables = SqlConnection::Postgres(connection, &heads);
        match locks::try_index_lock(&tables)? {
            true => work(&tables).map(Some),
            false => Ok(None),
        }
    })
    .await
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
    use postgres::Connection;
    use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};
    use tokio::task::block_in_place;

    use super::super::{PoolSettings, PostgresCopyConnection, PostgresStore};
    use super::*;
    use crate::tables::threads;
    use crate::{HealthCheckDepth, SearchQuery, Store, Transaction, Write};

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

    /// Creates a thread with one message.
    async fn create_thread(store: &PostgresStore, text: &str) -> ThreadId {
        let (thread_id, now) = (ThreadId::generate(), Timestamp::now());
        let thread = Thread::blank(thread_id, AssistantId::default(), now);
        let event = NewEvent::from_message(&Message::human(text), now).unwrap();
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events: vec![event] }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        thread_id
    }

    /// Returns the ids of the rows of the index.
    fn indexed_rows(database: &test_postgres::TestDatabase) -> Vec<String> {
        database.query_texts("SELECT rowid >> 32 FROM search_index ORDER BY 1").unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_deletion_does_not_wait_for_an_index_update() {
        let database = test_postgres::TestDatabase::create().unwrap();
        let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        let thread_id = create_thread(&store, "a heron").await;
        let (release, holder) = hold_index_lock(database.socket_url());
        let writes = vec![Write::DeleteThread { thread_id }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        drop(release);
        holder.join().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn k9_a_thread_that_is_deleted_while_it_is_indexed_leaves_nothing_in_the_index() {
        const IS_UPDATE_WAITING: &str = "SELECT 1 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let database = test_postgres::TestDatabase::create().unwrap();
        let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        let first = create_thread(&store, "a heron").await;
        let deleted = create_thread(&store, "another heron").await;
        create_thread(&store, "the last heron").await;
        let deleter = block_in_place(|| {
            let deleter = Connection::open(&database.socket_url().parse().unwrap()).unwrap();
            deleter.batch_execute("SET idle_in_transaction_session_timeout = 0; BEGIN").unwrap();
            let heads = ThreadHeadCache::default();
            let mut receipt = threads::DeletionReceipt::default();
            threads::delete_thread(&SqlConnection::Postgres(&deleter, &heads), deleted, &mut receipt)
                .unwrap();
            deleter
        });
        let update = tokio::spawn({
            let store = store.clone();
            async move { store.update_search_index().await }
        });
        // The update has indexed the messages, which it still sees, and waits for the head.
        while database.query_texts(IS_UPDATE_WAITING).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        block_in_place(|| deleter.batch_execute("COMMIT")).unwrap();
        update.await.unwrap().unwrap();
        assert_eq!(indexed_rows(&database), ["1", "3"]);
        assert!(!is_behind(&store.0.pool, IndexPass::default()).await.unwrap());
        let writes = vec![Write::DeleteThread { thread_id: first }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        assert_eq!(indexed_rows(&database), ["3"]);
        let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
        assert_eq!(health.problems, Vec::<String>::new());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn searches_that_wait_for_the_index_do_not_occupy_connections() {
        let database = test_postgres::TestDatabase::create().unwrap();
        let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        let thread_id = create_thread(&store, "a heron").await;
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
            let answer = search.await.unwrap().unwrap();
            // A search that had to wait for too long has answered without the message, and says so.
            assert_eq!(answer.hits.len() as u64 + answer.backlog.messages, 1);
        }
    }
}
