//! The SQLite engine: one file, one thread that writes, and a few connections that read. The rules about rows are in
//! `tables`; `writer` groups transactions.

mod change_poll;
mod connect;
mod copy_connection;
mod errors;
mod health;
mod index_purge;
mod reader_pool;
mod schema;
mod sql_functions;
#[cfg(test)]
mod turn_cost;
mod wal;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::copy_connection::{SqliteCopyConnection, schema_version};
use self::errors::DatabasePath;
pub(crate) use self::errors::prepare_error;
use self::reader_pool::ReaderPool;
pub(crate) use self::schema::checksum;
use self::wal::OpenFiles;
use self::writer::{
    CommitRequest, IndexScopeRequest, PurgeRequest, QUEUE_MAX, SharedConnection, SqliteWriter, WriterJob,
};
use crate::commit_feed::CommitFeed;
use crate::commit_feed::local::LocalCommitFeed;
use crate::copy::check_copy_complete;
use crate::engines::sql::SqlConnection;
use crate::engines::{EmbedderCell, Engine, ErasedQuery, ErasedResult, ReadSize};
use crate::tables::search::{IndexScope, PurgeState, ScopeIndexState};
use crate::{CommitReceipt, Error, HealthCheckDepth, Result, StoreHealth, StoreScope, Transaction};

/// Maximum number of large reads of a process on the writer's connection. It exceeds the number that a command makes.
const WRITER_LARGE_READS_MAX: u32 = 16;

/// Options for opening a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOpenOptions {
    /// Maximum time that a read or write waits for another process before it fails with [`Error::Locked`].
    pub lock_wait: Duration,
}

impl Default for SqliteOpenOptions {
    fn default() -> Self {
        Self { lock_wait: Duration::from_secs(5) }
    }
}

/// A journal in a SQLite database.
///
/// Dropping the store blocks until all queued transactions are written; nothing is written afterwards. Several
/// stores, in one process or in many, may have the same file open.
pub struct SqliteStore {
    /// The file.
    path: Arc<DatabasePath>,
    /// The queue of the writer. `None` only while the store is dropped.
    jobs: Option<mpsc::Sender<WriterJob>>,
    /// The connection of the writer, for short queries while it is idle. `None` only while the store is dropped.
    writer_connection: Option<SharedConnection>,
    /// Number of large reads on the writer's connection.
    writer_large_reads: AtomicU32,
    /// The reading connections. `None` for a database in memory, which has only the writer's connection.
    readers: Option<Arc<ReaderPool>>,
    /// The writer's thread. `None` only while the store is dropped.
    writer: Option<JoinHandle<()>>,
    /// Commits of other processes.
    feed: CommitFeed,
    /// Commits of this process.
    local_feed: LocalCommitFeed,
    /// The model that represents questions for searches.
    embedder: EmbedderCell,
    /// The task that polls for commits of other processes. It is started with the first subscription.
    poller: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the database at `path`. A missing file is created with mode 0600 and a missing folder with mode 0700; an
    /// older schema is migrated.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NewerSchema`], [`Error::PermissionDenied`], [`Error::Locked`],
    /// [`Error::DiskFull`] and [`Error::Io`]. Each is returned before anything is written.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, SqliteOpenOptions::default())
    }

    /// Opens the database at `path` with options.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(path: &Path, options: SqliteOpenOptions) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let database = Arc::new(DatabasePath::new(path));
        let connection = connect::open_writer(&database, options.lock_wait)
            .map_err(|error| database.classify_error(error))?;
        check_copy_complete(&SqlConnection::Sqlite(&connection), &database.0.display().to_string())
            .map_err(|error| database.classify_error(error))?;
        let files = Arc::new(OpenFiles::identify(&database)?);
        let readers = Arc::new(ReaderPool::new(Arc::clone(&database), files, options.lock_wait));
        Self::start(connection, options.lock_wait, database, Some(readers))
    }

    /// Opens an empty database in memory. It is deleted when the store is dropped.
    ///
    /// # Errors
    /// Fails if SQLite cannot be started.
    pub fn in_memory() -> Result<Self> {
        let database = Arc::new(DatabasePath::new(PathBuf::from(":memory:")));
        let connection = connect::open_in_memory(&database)?;
        Self::start(connection, SqliteOpenOptions::default().lock_wait, database, None)
    }

    /// Starts the writer's thread and returns the store.
    fn start(
        connection: rusqlite::Connection,
        lock_wait: Duration,
        path: Arc<DatabasePath>,
        readers: Option<Arc<ReaderPool>>,
    ) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let connection = Arc::new(Mutex::new(connection));
        let files = readers.as_ref().map(|readers| readers.files());
        let writer =
            SqliteWriter::new(Arc::clone(&connection), Arc::clone(&path), files, receiver, lock_wait);
        let thread = std::thread::Builder::new()
            .name("journal-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| Error::Io { path: path.0.clone(), source })?;
        Ok(Self {
            path,
            jobs: Some(sender),
            writer_connection: Some(connection),
            writer_large_reads: AtomicU32::new(0),
            readers,
            writer: Some(thread),
            feed: CommitFeed::default(),
            local_feed: LocalCommitFeed::default(),
            embedder: EmbedderCell::new(),
            poller: Mutex::default(),
        })
    }

    /// Sends a job to the writer and waits for its result.
    ///
    /// # Errors
    /// [`Error::Closed`] if the writer has stopped.
    async fn submit_job<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> WriterJob) -> Result<T> {
        let jobs = self.jobs.as_ref().ok_or(Error::Closed)?;
        let (reply, result) = oneshot::channel();
        jobs.send(job(reply)).await.map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)
    }

    /// Executes a query that needs the connection of the SQLite library itself.
    async fn query_engine<T: Send + 'static>(
        &self,
        query: impl Fn(&rusqlite::Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let query = move |connection: &SqlConnection<'_>| match connection {
            SqlConnection::Sqlite(connection) => query(connection),
            SqlConnection::Postgres(..) => Err(Error::Closed),
        };
        let result = match &self.readers {
            Some(readers) => readers.query(in_snapshot(query)).await,
            None => self.query_writer(query).await?,
        };
        result.map_err(|error| self.path.classify_error(error))
    }

    /// Converts the error of a read. If the file is damaged because it was truncated or replaced, the error says so.
    fn explain_error(&self, error: Error) -> Error {
        match (self.path.classify_error(error), self.check_files()) {
            (
                Error::Corrupt { .. },
                Err(lost @ (Error::FileReplaced { .. } | Error::FileTruncated { .. })),
            ) => lost,
            (error, _) => error,
        }
    }

    /// Executes a query on the current thread and on the writer's connection, if the writer is idle and no reading
    /// connection is open. Opening one would take several times as long: it reads the whole schema. A process that
    /// performs one command often needs none. Large reads would delay the commits of others, so only the first
    /// [`WRITER_LARGE_READS_MAX`] are executed.
    fn query_idle_writer<T>(
        &self,
        readers: &ReaderPool,
        rows: ReadSize,
        query: &impl Fn(&SqlConnection<'_>) -> Result<T>,
    ) -> Option<Result<T>> {
        let connection = self.writer_connection.as_ref().filter(|_| !readers.has_connection())?.try_lock()?;
        if matches!(rows, ReadSize::Large | ReadSize::LargeStatement)
            && self.writer_large_reads.fetch_add(1, Ordering::Relaxed) >= WRITER_LARGE_READS_MAX
        {
            return None;
        }
        Some(in_snapshot(query)(&connection))
    }

    /// Executes a query on the writer's thread.
    async fn query_writer<T: Send + 'static>(
        &self,
        query: impl FnOnce(&SqlConnection<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Result<T>> {
        let query = in_snapshot(query);
        self.submit_job(|reply| {
            WriterJob::Query(Box::new(move |connection| {
                // The send fails if the caller was dropped. Then nobody needs the result.
                let _ = reply.send(query(connection));
            }))
        })
        .await
    }
}

/// Wraps a query so that all its statements see one snapshot.
fn in_snapshot<T>(
    query: impl FnOnce(&SqlConnection<'_>) -> Result<T>,
) -> impl FnOnce(&rusqlite::Connection) -> Result<T> {
    move |connection| {
        let snapshot = connection.unchecked_transaction()?;
        let result = query(&SqlConnection::Sqlite(&snapshot))?;
        // All rows have been read. A damaged database that cannot even end the snapshot does not change the result.
        let _ = snapshot.commit();
        Ok(result)
    }
}

/// Returns a connection to an empty database in memory, which is deleted when the connection is closed.
#[cfg(test)]
pub(crate) fn open_in_memory() -> Result<rusqlite::Connection> {
    connect::open_in_memory(&DatabasePath::new(PathBuf::from(":memory:")))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The last connection to close copies a long write-ahead log into the database file. Only the writer's
        // connection can do that, so the readers are closed first.
        self.readers = None;
        self.writer_connection = None;
        self.jobs = None;
        if let Some(Err(_)) = self.writer.take().map(JoinHandle::join) {
            tracing::error!(path = %self.path.0.display(), "the journal's writer panicked");
        }
    }
}

impl Engine for SqliteStore {
    const STORE_SCOPE: StoreScope = StoreScope::ThisHost;

    async fn database_time(&self) -> Result<Timestamp> {
        Ok(Timestamp::now())
    }

    async fn perform_transaction(&self, transaction: Transaction) -> Result<CommitReceipt> {
        self.submit_job(|reply| WriterJob::Commit(CommitRequest { transaction, reply })).await?
    }

    async fn purge_threads(&self, thread_keys: Vec<i64>) -> Result<()> {
        for thread_key in thread_keys {
            // Each part is a job of its own, so that the jobs of others get their turn in between.
            loop {
                let job = |reply| WriterJob::Purge(PurgeRequest { thread_key, reply });
                if self.submit_job(job).await?? == PurgeState::Complete {
                    break;
                }
            }
        }
        Ok(())
    }

    fn read_erased(&self, rows: ReadSize, query: ErasedQuery) -> BoxFuture<'_, Result<ErasedResult>> {
        let result_on_writer =
            self.readers.as_ref().and_then(|readers| self.query_idle_writer(readers, rows, &query));
        Box::pin(async move {
            let result = match (result_on_writer, &self.readers, rows) {
                (Some(result), ..) => result,
                (None, Some(readers), ReadSize::Small | ReadSize::OneStatement) => {
                    readers.query_inline(in_snapshot(query)).await
                }
                (None, Some(readers), ReadSize::Large | ReadSize::LargeStatement) => {
                    readers.query(in_snapshot(query)).await
                }
                (None, None, _) => self.query_writer(query).await?,
            };
            result.map_err(|error| self.explain_error(error))
        })
    }

    async fn update_index(&self) -> Result<()> {
        self.submit_job(WriterJob::Index).await?
    }

    async fn index_scope_batch(&self, scope: Arc<IndexScope>) -> Result<ScopeIndexState> {
        self.submit_job(|reply| WriterJob::IndexScope(IndexScopeRequest { scope, reply })).await?
    }

    fn update_index_in_background(&self) {
        if let Some(jobs) = &self.jobs {
            // If the queue is full, the next search starts the update.
            let _ = jobs.try_send(WriterJob::IndexInBackground);
        }
    }

    fn check_files(&self) -> Result<()> {
        let check = self.readers.as_ref().map_or(Ok(()), |readers| readers.files().check());
        if let Err(Error::FileTruncated { .. }) = &check {
            self.path.record_truncation();
        }
        check
    }

    async fn check_health(&self, depth: HealthCheckDepth) -> Result<StoreHealth> {
        let path = Arc::clone(&self.path);
        self.query_engine(move |connection| health::check_health(connection, &path, depth)).await
    }

    fn embedder(&self) -> &EmbedderCell {
        &self.embedder
    }

    fn local_feed(&self) -> &LocalCommitFeed {
        &self.local_feed
    }

    fn remote_feed(&self) -> CommitFeed {
        let mut poller = self.poller.lock();
        let is_running = poller.as_ref().is_some_and(|poller| !poller.is_finished());
        // No other process can use a database in memory, and without a runtime there can be no subscriber.
        if let (false, true, Some(jobs), Ok(runtime)) =
            (is_running, self.readers.is_some(), &self.jobs, tokio::runtime::Handle::try_current())
        {
            *poller = Some(runtime.spawn(change_poll::poll_changes(self.feed.clone(), jobs.downgrade())));
        }
        self.feed.clone()
    }
}

#[cfg(test)]
mod tests {
    use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};

    use super::*;
    use crate::{SearchQuery, Store, Write};

    async fn append(store: &SqliteStore, thread_id: ThreadId, texts: impl Iterator<Item = String>) {
        let now = Timestamp::now();
        let events = texts.map(|text| NewEvent::from_message(&Message::human(text), now).unwrap()).collect();
        let writes = vec![Write::Append { thread_id, events }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    #[tokio::test]
    async fn a_search_on_a_full_disk_finds_what_is_indexed() {
        let store = SqliteStore::in_memory().unwrap();
        let thread_id = ThreadId::generate();
        let thread = Thread::blank(thread_id, AssistantId::default(), Timestamp::now());
        let writes = vec![Write::CreateThread(thread)];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        append(&store, thread_id, std::iter::once("a heron".to_owned())).await;
        let query = || SearchQuery { words: vec!["heron".to_owned()], limit: 10, ..SearchQuery::default() };
        let answer = store.search(query()).await.unwrap();
        assert_eq!((answer.hits.len(), answer.backlog.is_empty()), (1, true));
        let word = |message: u32, number: u32| format!("heron{message}x{number}");
        let text = |message| (0..200).map(|number| word(message, number)).collect::<Vec<_>>().join(" ");
        append(&store, thread_id, (0..200).map(text)).await;
        // The limit cannot be below the present size, so it becomes the present size.
        store
            .query_engine(|connection| {
                let limit = connection.query_row("PRAGMA max_page_count = 1", [], |_| Ok(()));
                limit.map_err(Error::from)
            })
            .await
            .unwrap();
        assert!(matches!(store.update_search_index().await, Err(Error::DiskFull { .. })));
        let answer = store.search(query()).await.unwrap();
        assert_eq!(answer.hits.len(), 1);
        assert!(answer.backlog.messages > 0);
    }
}
