//! The only thread of this process that writes to a SQLite database. It takes transactions from a bounded queue, commits
//! many of them at once (group commit), and sends each result only after the commit. It does not validate transactions.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::errors::DatabasePath;
use super::index_purge::PurgeSchedule;
use super::wal::mark::LogMark;
use super::wal::{self, LogCheckpoint, OpenFiles};
use crate::engines::apply::apply_transaction;
use crate::engines::sql;
use crate::tables::search::{self, IndexBatchResult, IndexPass, IndexScope, PurgeState, ScopeIndexState};
use crate::tables::threads::purges;
use crate::{CommitReceipt, Error, Result, Transaction};

/// Maximum number of transactions in one commit.
pub(crate) const GROUP_MAX: usize = 256;
/// Maximum number of queued transactions. When the queue is full, callers wait.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// Maximum time that a commit waits for more transactions, until it has as many as recent commits had. The wait is short
/// compared to a sync to disk, which takes several times as long.
const GATHER_WAIT_MAX: Duration = Duration::from_micros(100);
/// Delay between two attempts to begin a transaction while another process writes. SQLite's own busy handler tries
/// ten times a second and misses the gaps between the transactions of a process that writes continuously.
const BEGIN_RETRY_DELAY: Duration = Duration::from_millis(1);
/// Maximum time that this process writes continuously. Then it pauses for [`YIELD_PAUSE`], because other processes
/// could not begin a transaction otherwise.
const WRITE_BURST_MAX: Duration = Duration::from_millis(100);
/// Duration of a pause for other processes. It is long enough for several of their attempts to begin a transaction.
const YIELD_PAUSE: Duration = Duration::from_millis(5);

/// Decay of the expected group size: a commit with fewer transactions than expected reduces the expectation by this
/// fraction of itself, one eighth.
const EXPECTED_DECAY: usize = 8;

/// Maximum number of purge steps before the writer ends. The rest of a very large index is purged by a later process.
const CLOSING_PURGE_STEPS_MAX: usize = 32;

/// Maximum time that the writer waits for a job at once if the file is damaged. There is no other work then.
const DAMAGED_IDLE_WAIT: Duration = Duration::from_secs(60);

/// The outcome of each transaction of a group.
type GroupOutcomes = rusqlite::Result<Vec<Result<CommitReceipt>>>;

/// The writer's connection. Between two jobs, others may execute short queries on it.
pub(crate) type SharedConnection = Arc<Mutex<Connection>>;

/// A query that is executed on the writer's own connection. It sends its result itself.
pub(crate) type WriterQuery = Box<dyn FnOnce(&Connection) + Send>;

/// A job for the writer.
pub(crate) enum WriterJob {
    /// Commit a transaction.
    Commit(CommitRequest),
    /// Update the search index, and report when it is complete.
    Index(oneshot::Sender<Result<()>>),
    /// Index one batch of the scope of a search.
    IndexScope(IndexScopeRequest),
    /// Remove a part of the rows of a deleted thread.
    Purge(PurgeRequest),
    /// Update the search index while the queue is empty, until it is complete or the queue is closed.
    IndexInBackground,
    /// Execute a query on the writer's connection. An in-memory database has no other connection.
    Query(WriterQuery),
}

/// A transaction to commit, and the channel of its result.
pub(crate) struct CommitRequest {
    /// The transaction.
    pub(crate) transaction: Transaction,
    /// Receives the result after the commit.
    pub(crate) reply: oneshot::Sender<Result<CommitReceipt>>,
}

/// A scope of which one batch is to be indexed, and the channel of the result.
pub(crate) struct IndexScopeRequest {
    /// The scope.
    pub(crate) scope: Arc<IndexScope>,
    /// Receives the state of the scope after the commit.
    pub(crate) reply: oneshot::Sender<Result<ScopeIndexState>>,
}

/// A deleted thread of which a part is to be purged, and the channel of the result.
pub(crate) struct PurgeRequest {
    /// The key of the thread.
    pub(crate) thread_key: i64,
    /// Receives the state of the purge after the commit.
    pub(crate) reply: oneshot::Sender<Result<PurgeState>>,
}

/// The state of the update of the search index for which no caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackgroundIndexing {
    /// It indexes one batch after each job, and while there is no job.
    Running,
    /// It was not started since the index was complete.
    Stopped,
}

/// The writer. It runs on its own thread until the queue is closed and empty.
pub(crate) struct SqliteWriter {
    /// The only connection that writes. It is locked while a job is executed.
    connection: SharedConnection,
    /// The path of the database, named in errors.
    path: Arc<DatabasePath>,
    /// The files of the database; `None` for a database in memory.
    files: Option<Arc<OpenFiles>>,
    /// The mark of the write-ahead log; `None` for a database in memory.
    log_mark: Option<LogMark>,
    /// The queue.
    jobs: mpsc::Receiver<WriterJob>,
    /// A job that was taken from the queue while a group was gathered, and that is not a commit. It is executed next.
    deferred_job: Option<WriterJob>,
    /// Callers that wait for the search index to be complete.
    index_waiters: Vec<oneshot::Sender<Result<()>>>,
    /// The state of the update of the index for which no caller waits.
    background_indexing: BackgroundIndexing,
    /// The schedule of the purge of deleted texts.
    purge: PurgeSchedule,
    /// Number of transactions that the next commit is expected to have, estimated from recent commits.
    expected_group: usize,
    /// Maximum time to wait for the lock of another process.
    lock_wait: Duration,
    /// Start of the current burst of continuous writing.
    burst_start: Instant,
    /// End of the last job.
    last_job_end: Instant,
}

impl SqliteWriter {
    /// Returns a writer that takes its jobs from `jobs` and waits for other processes for at most `lock_wait`.
    pub(crate) fn new(
        connection: SharedConnection,
        path: Arc<DatabasePath>,
        files: Option<Arc<OpenFiles>>,
        jobs: mpsc::Receiver<WriterJob>,
        lock_wait: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            connection,
            log_mark: files.as_ref().map(|_| LogMark::new(&path)),
            path,
            files,
            jobs,
            deferred_job: None,
            index_waiters: Vec::new(),
            background_indexing: BackgroundIndexing::Stopped,
            purge: PurgeSchedule::new(now),
            expected_group: 0,
            lock_wait,
            burst_start: now,
            last_job_end: now,
        }
    }

    /// Executes jobs until the queue is closed and empty, and then closes the connection.
    pub(crate) fn run(mut self) {
        while let Some(job) = self.next_job() {
            self.yield_to_others();
            let has_job = job.is_some();
            match job {
                Some(WriterJob::Commit(first)) => {
                    let group = self.gather_group(first);
                    self.expected_group =
                        group.len().max(self.expected_group - self.expected_group.div_ceil(EXPECTED_DECAY));
                    self.commit_group(group);
                }
                Some(WriterJob::Index(waiter)) => self.index_waiters.push(waiter),
                Some(WriterJob::IndexScope(request)) => self.index_scope(request),
                Some(WriterJob::Purge(request)) => self.purge_thread(request),
                Some(WriterJob::IndexInBackground) => self.background_indexing = BackgroundIndexing::Running,
                Some(WriterJob::Query(query)) => query(&self.connection.lock()),
                None => {}
            }
            self.update_index();
            let now = Instant::now();
            if has_job {
                self.purge.postpone(now);
            }
            let is_undamaged = self.path.check_undamaged().is_ok();
            if is_undamaged && self.purge.next_step() <= now {
                self.purge_in_background();
            }
            if is_undamaged && self.purge.next_checkpoint().is_some_and(|checkpoint| checkpoint <= now) {
                self.empty_log();
            }
            self.last_job_end = Instant::now();
        }
        if self.path.check_undamaged().is_err() {
            // A checkpoint would write to the damaged file. If it cannot be prevented, it writes only what was committed.
            let _ = wal::keep(&self.connection.lock());
            return;
        }
        self.purge_before_close();
        if self.purge.has_logged_deletions() {
            // Closing empties the log, which may contain what was deleted.
            return;
        }
        if let Err(error) = wal::keep_if_short(&self.connection.lock(), &self.path) {
            // Closing then checkpoints the log, which only takes longer.
            tracing::debug!(%error, "failed to keep the write-ahead log");
        }
    }

    /// Pauses for other processes if this process has been writing continuously for [`WRITE_BURST_MAX`].
    fn yield_to_others(&mut self) {
        if self.last_job_end.elapsed() < YIELD_PAUSE {
            if self.burst_start.elapsed() < WRITE_BURST_MAX {
                return;
            }
            std::thread::sleep(YIELD_PAUSE);
        }
        self.burst_start = Instant::now();
    }

    /// Locks the connection and calls `work` with it.
    fn with_session<T>(&self, work: impl FnOnce(WriteSession<'_>) -> T) -> T {
        let connection = &self.connection.lock();
        work(WriteSession { connection, lock_wait: self.lock_wait })
    }

    /// Returns the next job. `Some(None)` means that the queue is empty but the index is incomplete, or a step of its
    /// purge is due; `None` means that the queue is closed.
    fn next_job(&mut self) -> Option<Option<WriterJob>> {
        if let Some(job) = self.deferred_job.take() {
            return Some(Some(job));
        }
        if !self.is_indexing() {
            let is_undamaged = self.path.check_undamaged().is_ok();
            let purge_time = is_undamaged.then(|| self.purge.next_time());
            return self.next_job_until(purge_time.unwrap_or_else(|| Instant::now() + DAMAGED_IDLE_WAIT));
        }
        match self.jobs.try_recv() {
            Ok(job) => Some(Some(job)),
            Err(TryRecvError::Empty) => Some(None),
            // The store is dropped. A process that ends does not wait for the index.
            Err(TryRecvError::Disconnected) => None,
        }
    }

    /// Waits for the next job until a deadline. Returns `Some(None)` at the deadline, and `None` if the queue is closed.
    fn next_job_until(&mut self, deadline: Instant) -> Option<Option<WriterJob>> {
        let waker = Waker::from(Arc::new(WriterWaker(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(job) = self.jobs.poll_recv(&mut context) {
                return job.map(Some);
            }
            match deadline.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Some(None),
                wait => std::thread::park_timeout(wait),
            }
        }
    }

    /// Returns whether the index is being updated.
    fn is_indexing(&self) -> bool {
        !self.index_waiters.is_empty() || self.background_indexing == BackgroundIndexing::Running
    }

    /// Returns `first` together with further queued commits. Waits for them for up to [`GATHER_WAIT_MAX`], because
    /// callers that just received a result need a moment to send their next transaction, and a smaller group costs the
    /// same sync to disk.
    fn gather_group(&mut self, first: CommitRequest) -> Vec<CommitRequest> {
        let mut group = vec![first];
        let deadline = Instant::now() + GATHER_WAIT_MAX;
        while group.len() < GROUP_MAX {
            match self.jobs.try_recv() {
                Ok(WriterJob::Commit(request)) => group.push(request),
                Ok(other) => {
                    self.deferred_job = Some(other);
                    break;
                }
                Err(_) if group.len() < self.expected_group && Instant::now() < deadline => {
                    std::thread::yield_now()
                }
                Err(_) => break,
            }
        }
        group
    }

    /// Commits a group and sends the results. The connection is free again before, so that a caller can read with it at
    /// once.
    fn commit_group(&mut self, group: Vec<CommitRequest>) {
        let (transactions, replies): (Vec<_>, Vec<_>) =
            group.into_iter().map(|request| (request.transaction, request.reply)).unzip();
        if self.path.check_undamaged().is_err() {
            self.refuse_all(replies);
            return;
        }
        if transactions.iter().any(deletes_texts) {
            self.purge.request(Instant::now());
        }
        let (performed, check) = self.perform_and_mark(&transactions);
        let outcomes = match performed {
            Ok(outcomes) => outcomes,
            Err(error) => replies.iter().map(|_| Err(self.path.convert_error(&error))).collect(),
        };
        let outcomes: Vec<_> = match check {
            Err(Error::FileReplaced { path }) => {
                replies.iter().map(|_| Err(Error::FileReplaced { path: path.clone() })).collect()
            }
            Err(Error::FileTruncated { path, length }) => {
                self.path.record_truncation();
                replies.iter().map(|_| Err(Error::FileTruncated { path: path.clone(), length })).collect()
            }
            // A file that cannot be inspected at this moment is still open.
            Ok(()) | Err(_) => outcomes,
        };
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // The send fails if the caller was dropped. The result is not needed in that case.
            let _ = reply.send(outcome.map_err(|error| self.path.classify_error(error)));
        }
    }

    /// Commits transactions, and updates the mark of the log. Also returns the result of checking the files. They are checked
    /// after the commit, because they can be replaced at any time before. What is in other files is not acknowledged.
    fn perform_and_mark(&mut self, transactions: &[Transaction]) -> (GroupOutcomes, Result<()>) {
        let (files, mut log_mark) = (self.files.clone(), self.log_mark.take());
        let result = self.with_session(|session| {
            let outcomes = session.perform_group(transactions);
            let check = files.map_or(Ok(()), |files| files.check());
            if let (Ok(_), Ok(()), Some(mark)) = (&outcomes, &check, &mut log_mark) {
                mark.update(session.connection);
            }
            (outcomes, check)
        });
        self.log_mark = log_mark;
        result
    }

    /// Refuses commits because the file is damaged. That it was truncated or replaced is the more exact reason.
    fn refuse_all(&self, replies: Vec<oneshot::Sender<Result<CommitReceipt>>>) {
        for reply in replies {
            let check = self.files.as_ref().map_or(Ok(()), |files| files.check());
            if let Err(error) = check.and_then(|()| self.path.check_undamaged()) {
                // The send fails if the caller was dropped. The result is not needed in that case.
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Indexes one batch of a scope and sends the result. The connection is free again before.
    fn index_scope(&self, request: IndexScopeRequest) {
        let outcome = self.path.check_undamaged().and_then(|()| {
            let outcome = self.with_session(|session| session.index_scope_batch(&request.scope));
            outcome.map_err(|error| self.path.convert_error(&error))
        });
        // The send fails if the caller was dropped. The result is not needed in that case.
        let _ = request.reply.send(outcome);
    }

    /// Removes a part of the rows of a deleted thread and sends the result. The connection is free again before.
    fn purge_thread(&mut self, request: PurgeRequest) {
        // The words of these rows are purged from the index afterwards.
        self.purge.request(Instant::now());
        let outcome = self.path.check_undamaged().and_then(|()| {
            let outcome = self.with_session(|session| session.purge_thread_part(request.thread_key));
            outcome.map_err(|error| self.path.convert_error(&error))
        });
        // The send fails if the caller was dropped. The rest is purged in the background then.
        let _ = request.reply.send(outcome);
    }

    /// Indexes one batch if the index is being updated. If it is complete, or the batch failed, sends the result to all
    /// waiting callers. Callers that do not wait any more are forgotten.
    fn update_index(&mut self) {
        self.index_waiters.retain(|waiter| !waiter.is_closed());
        if self.path.check_undamaged().is_err() {
            self.background_indexing = BackgroundIndexing::Stopped;
            for waiter in self.index_waiters.drain(..) {
                let _ = waiter.send(self.path.check_undamaged());
            }
        }
        if !self.is_indexing() {
            return;
        }
        let outcome = self.with_session(|session| session.index_batch());
        if matches!(outcome, Ok(IndexBatchResult::Unfinished(_))) {
            return;
        }
        self.background_indexing = BackgroundIndexing::Stopped;
        if self.index_waiters.is_empty() {
            if let Err(error) = outcome {
                tracing::warn!(%error, path = %self.path.0.display(), "failed to update the search index in the background");
            }
            return;
        }
        let failure = outcome.err();
        for waiter in self.index_waiters.drain(..) {
            let _ = waiter.send(failure.as_ref().map_or(Ok(()), |error| Err(self.path.convert_error(error))));
        }
    }

    /// Performs one step of the purge of deleted texts.
    fn purge_deleted(&mut self) -> rusqlite::Result<()> {
        let start = Instant::now();
        let state = self.with_session(|session| session.purge_step())?;
        self.purge.finish_step(state, start.elapsed(), Instant::now());
        Ok(())
    }

    /// Performs one step of the purge for which no caller waits. After a failure, it is repeated later.
    fn purge_in_background(&mut self) {
        if let Err(error) = self.purge_deleted() {
            tracing::warn!(%error, path = %self.path.0.display(), "failed to purge deleted texts");
            self.purge.retry_step(Instant::now());
        }
    }

    /// Removes deleted texts from the write-ahead log. If it is in use, or after a failure, this is repeated later.
    fn empty_log(&mut self) {
        let outcome = wal::checkpoint_without_waiting(&self.connection.lock(), self.lock_wait);
        let outcome = outcome.unwrap_or_else(|error| {
            tracing::warn!(%error, path = %self.path.0.display(), "failed to empty the write-ahead log");
            LogCheckpoint::InUse
        });
        self.purge.finish_checkpoint(outcome, Instant::now());
    }

    /// Purges what this process has deleted, before the writer ends. A command that deletes a thread ends before it is idle.
    fn purge_before_close(&mut self) {
        for _ in 0..CLOSING_PURGE_STEPS_MAX {
            if !self.purge.has_deletions() {
                return;
            }
            if let Err(error) = self.purge_deleted() {
                // A later process purges the rest.
                tracing::debug!(%error, "failed to purge deleted texts");
                return;
            }
        }
    }
}

/// Returns whether a transaction deletes texts that may be in the search index.
fn deletes_texts(transaction: &Transaction) -> bool {
    transaction.writes.iter().any(|write| write.effects().deletes_texts)
}

/// Wakes the writer's thread when a job arrives.
struct WriterWaker(Thread);

impl Wake for WriterWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The locked connection, with which one job is executed.
#[derive(Clone, Copy)]
struct WriteSession<'a> {
    /// The only connection that writes.
    connection: &'a Connection,
    /// Maximum time to wait for the lock of another process.
    lock_wait: Duration,
}

impl WriteSession<'_> {
    /// Begins a transaction. Waits for at most `lock_wait` while another process has a write transaction open.
    fn begin_transaction(&self) -> rusqlite::Result<()> {
        let deadline = Instant::now() + self.lock_wait;
        self.connection.busy_timeout(Duration::ZERO)?;
        let result = loop {
            match execute_sql(self.connection, "BEGIN IMMEDIATE") {
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(BEGIN_RETRY_DELAY)
                }
                outcome => break outcome,
            }
        };
        self.connection.busy_timeout(self.lock_wait)?;
        result
    }

    /// Executes all transactions of a group in one SQLite transaction. If one of them fails, all are executed again
    /// with a savepoint each, so that one failure does not affect the others. Savepoints are not used in the first
    /// attempt because SQLite copies every page that changes after a savepoint.
    fn perform_group(&self, group: &[Transaction]) -> rusqlite::Result<Vec<Result<CommitReceipt>>> {
        let combined = self.in_transaction(|| {
            Ok(group
                .iter()
                .map(|transaction| {
                    apply_transaction(&sql::SqlConnection::Sqlite(self.connection), transaction)
                })
                .collect::<Result<Vec<_>>>())
        })?;
        match (combined, group) {
            (Ok(receipts), _) => Ok(receipts.into_iter().map(Ok).collect()),
            (Err(error), [_]) => Ok(vec![Err(error)]),
            (Err(_), _) => self
                .in_transaction(|| {
                    let results = group.iter().map(|transaction| self.perform_alone(transaction));
                    Ok(Ok(results.collect::<rusqlite::Result<Vec<_>>>()?))
                })?
                .map_err(to_engine_error),
        }
    }

    /// Runs `work` in a SQLite transaction. Commits if `work` returns `Ok(Ok(..))`, and rolls back otherwise. The
    /// outer error comes from SQLite, the inner error from `work`.
    fn in_transaction<T>(
        &self,
        work: impl FnOnce() -> rusqlite::Result<Result<T>>,
    ) -> rusqlite::Result<Result<T>> {
        self.begin_transaction()?;
        let outcome = match work() {
            Ok(Ok(value)) => execute_sql(self.connection, "COMMIT").map(|()| Ok(value)),
            failed => failed,
        };
        if !matches!(outcome, Ok(Ok(_))) && !self.connection.is_autocommit() {
            execute_sql(self.connection, "ROLLBACK")?;
        }
        outcome
    }

    /// Executes a transaction with a savepoint, and rolls back to the savepoint if it fails.
    fn perform_alone(&self, transaction: &Transaction) -> rusqlite::Result<Result<CommitReceipt>> {
        execute_sql(self.connection, "SAVEPOINT request")?;
        let outcome = apply_transaction(&sql::SqlConnection::Sqlite(self.connection), transaction);
        if self.connection.is_autocommit() {
            // SQLite rolled back the whole transaction, as it does when the disk is full. The other transactions of
            // the group have failed too.
            return Err(outcome.err().map_or(rusqlite::Error::InvalidQuery, to_engine_error));
        }
        if outcome.is_err() {
            execute_sql(self.connection, "ROLLBACK TO request")?;
        }
        execute_sql(self.connection, "RELEASE request")?;
        Ok(outcome)
    }

    /// Indexes one batch of a scope in a transaction.
    fn index_scope_batch(&self, scope: &IndexScope) -> rusqlite::Result<ScopeIndexState> {
        self.in_transaction(|| {
            Ok(search::index_scope_batch(&sql::SqlConnection::Sqlite(self.connection), scope))
        })?
        .map_err(to_engine_error)
    }

    /// Removes a part of the rows of a deleted thread in a transaction.
    fn purge_thread_part(&self, thread_key: i64) -> rusqlite::Result<PurgeState> {
        self.in_transaction(|| {
            Ok(purges::purge_part(&sql::SqlConnection::Sqlite(self.connection), thread_key))
        })?
        .map_err(to_engine_error)
    }

    /// Performs one step of a purge in a transaction: of a deleted thread whose purge was not completed, or else of the
    /// index. Begins none if there is nothing to purge.
    fn purge_step(&self) -> rusqlite::Result<PurgeState> {
        let connection = &sql::SqlConnection::Sqlite(self.connection);
        if let Some(thread_key) = purges::next_purge(connection).map_err(to_engine_error)? {
            return self.purge_thread_part(thread_key).map(|_| PurgeState::Incomplete);
        }
        if !search::needs_purge(connection).map_err(to_engine_error)? {
            return Ok(PurgeState::Complete);
        }
        self.in_transaction(|| Ok(search::purge_step(&sql::SqlConnection::Sqlite(self.connection))))?
            .map_err(to_engine_error)
    }

    /// Indexes one batch of rows in a transaction.
    fn index_batch(&self) -> rusqlite::Result<IndexBatchResult> {
        // Each batch starts its search for unindexed rows at the first thread. A caller may have joined after the
        // previous batch, and all waiting callers receive the same result.
        self.in_transaction(|| {
            Ok(search::index_batch(&sql::SqlConnection::Sqlite(self.connection), IndexPass::default()))
        })?
        .map_err(to_engine_error)
    }
}

/// Returns the SQLite error of a failure. An error of another kind is wrapped, so that its message is kept.
fn to_engine_error(error: Error) -> rusqlite::Error {
    match error {
        Error::Sqlite(error) => error,
        other => rusqlite::Error::ToSqlConversionFailure(Box::new(other)),
    }
}

/// Returns whether another process holds a lock.
fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Executes a cached statement without parameters.
fn execute_sql(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
