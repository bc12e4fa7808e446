//! A connection pool, and the execution of closures ("work") on one of its connections. If a connection breaks, the
//! work is retried on another connection. The pool does not interpret the work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bb8::{ErrorSink, ManageConnection, PooledConnection, QueueStrategy, RunError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::{CommitOutcome, Connection};
use crate::{DatabaseTarget, Error, Result, Row, SqlValue};

/// Delay before the first retry of work that failed for a temporary reason. It doubles with each retry up to
/// [`RETRY_DELAY_MAX`].
const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
/// Maximum delay between two retries.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(500);
/// Minimum and maximum interval at which the pool looks for expired and unused connections.
const REAPER_INTERVAL_BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The size of a pool and the lifetime of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Minimum number of open connections, even if they are unused.
    pub min_idle: u32,
    /// Maximum number of connections.
    pub max: u32,
    /// Time after which an unused connection is closed, as long as more than `min_idle` connections exist. Zero means
    /// never.
    pub idle_timeout: Duration,
    /// Maximum age of a connection. Zero means no limit.
    pub max_lifetime: Duration,
    /// Maximum time to wait for a free connection, and total time for which failed work is retried.
    pub wait_timeout: Duration,
}

/// The current size of a pool, and counters since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Number of open connections.
    pub connections: u32,
    /// Number of open connections that are unused.
    pub idle: u32,
    /// Maximum number of connections.
    pub max: u32,
    /// Number of requests for a connection.
    pub checkouts: u64,
    /// Number of requests that had to wait for a connection.
    pub waits: u64,
    /// Number of requests that failed because the wait timeout elapsed.
    pub timeouts: u64,
    /// Total time that requests waited.
    pub total_wait: Duration,
    /// Number of connections that were opened.
    pub created: u64,
    /// Number of connections that were closed because they broke.
    pub broken: u64,
    /// Number of connections that were closed because they were too old or unused.
    pub expired: u64,
}

/// The advisory locks that a transaction acquires before its first statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionLocks {
    /// Lock keys in ascending order, in which they are acquired. All transactions use this order to avoid deadlocks.
    pub locks: Vec<i64>,
    /// Maximum time to wait for one of these locks, or for a row lock later in the transaction. `None` uses the
    /// session's lock timeout.
    pub lock_timeout: Option<Duration>,
}

impl TransactionLocks {
    /// Adds locks, so that all are in ascending order. Returns whether any of them is new.
    fn extend(&mut self, more: &[i64]) -> bool {
        let before = self.locks.len();
        self.locks.extend_from_slice(more);
        self.locks.sort_unstable();
        self.locks.dedup();
        self.locks.len() > before
    }
}

impl From<Vec<i64>> for TransactionLocks {
    fn from(locks: Vec<i64>) -> Self {
        Self { locks, lock_timeout: None }
    }
}

/// A pool of connections to one database. Clones share the connections.
#[derive(Clone)]
pub struct Pool {
    /// The connections.
    connections: bb8::Pool<ConnectionFactory>,
    /// The database that the pool connects to.
    target: Arc<DatabaseTarget>,
    /// The size and lifetimes of the pool.
    settings: PoolSettings,
    /// The failure of the most recent failed attempt to connect.
    connect_failure: watch::Receiver<Option<Error>>,
}

impl Pool {
    /// Opens a pool. Returns without waiting for a connection: the pool opens `min_idle` connections in the
    /// background and others on demand.
    pub async fn open(target: DatabaseTarget, settings: PoolSettings) -> Self {
        let target = Arc::new(target);
        let (failure_sender, failure) = watch::channel(None);
        let limit = |limit: Duration| (!limit.is_zero()).then_some(limit);
        let [interval_min, interval_max] = REAPER_INTERVAL_BOUNDS;
        let connections = bb8::Pool::builder()
            .max_size(settings.max.max(1))
            .min_idle(Some(settings.min_idle.min(settings.max)))
            .idle_timeout(limit(settings.idle_timeout))
            .max_lifetime(limit(settings.max_lifetime))
            .reaper_rate(settings.idle_timeout.min(settings.max_lifetime).clamp(interval_min, interval_max))
            .connection_timeout(settings.wait_timeout.max(RETRY_DELAY_MIN))
            // The most recently used connection is reused first, so that surplus connections become idle and expire.
            .queue_strategy(QueueStrategy::Lifo)
            // A failure to connect is returned to the waiting caller, and `Pool` retries it.
            .retry_connection(false)
            .error_sink(Box::new(ConnectFailureSink(Arc::new(failure_sender))))
            // A connection that broke while it was unused reports it with its first statement. Testing a
            // connection at each checkout would cost a second round trip per request.
            .test_on_check_out(false)
            .build_unchecked(ConnectionFactory { target: Arc::clone(&target) });
        Self { connections, target, settings, connect_failure: failure }
    }

    /// Returns the address of the database without the password, for display.
    pub fn location(&self) -> String {
        self.target.to_string()
    }

    /// Returns the address of the database, to open a [`crate::NotificationListener`].
    pub fn target(&self) -> &DatabaseTarget {
        &self.target
    }

    /// Returns the current size and counters of the pool.
    pub fn statistics(&self) -> PoolStatistics {
        let state = self.connections.state();
        let counters = state.statistics;
        PoolStatistics {
            connections: state.connections,
            idle: state.idle_connections,
            max: self.settings.max,
            checkouts: counters.get_started,
            waits: counters.get_waited,
            timeouts: counters.get_timed_out,
            total_wait: counters.get_wait_time,
            created: counters.connections_created,
            broken: counters.connections_closed_broken + counters.connections_closed_invalid,
            expired: counters.connections_closed_max_lifetime + counters.connections_closed_idle_timeout,
        }
    }

    /// Runs `work` on one snapshot of the database (REPEATABLE READ, read only). `work` runs on a blocking thread,
    /// and runs again on another connection if its connection breaks, so it must have no other effects. Cancelling
    /// the call stops retries, but not a statement that is being executed.
    ///
    /// # Errors
    /// Returns the errors of `work`, and those of reaching the server.
    pub async fn read<T, E>(
        &self,
        work: impl Fn(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + RetryPolicy + Send + 'static,
    {
        let pool = self.clone();
        let snapshot =
            move |connection: &Connection| connection.read_snapshot(&work).map(CommitOutcome::Committed);
        run_on_own_task(async move { pool.run_with_retries(snapshot).await }).await
    }

    /// Runs `work`, which executes one query, outside of a transaction ([`Connection::read_statement`]). If the connection
    /// breaks, the work is retried, so it must have no other effects.
    ///
    /// # Errors
    /// Returns the errors of `work`, and those of reaching the server.
    pub async fn read_statement<T, E>(
        &self,
        work: impl Fn(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + RetryPolicy + Send + 'static,
    {
        let pool = self.clone();
        let statement =
            move |connection: &Connection| connection.read_statement(&work).map(CommitOutcome::Committed);
        run_on_own_task(async move { pool.run_with_retries(statement).await }).await
    }

    /// Runs `work` in one transaction that is applied exactly once or not at all. It acquires the locks first;
    /// transactions that need the same lock run one after another.
    ///
    /// The whole transaction is retried after a conflict with a concurrent transaction, and if the connection breaks
    /// before the commit. A retry first acquires the locks that the failed attempt requested
    /// ([`Connection::acquire_locks`]). If the connection breaks during the commit, the server is asked for the outcome. `work` can
    /// run several times, so it must have no other effects.
    ///
    /// # Errors
    /// Returns the errors of `work`, and those of reaching the server. Nothing is written then, except after
    /// [`Error::CommitUnknown`], after which the outcome is unknown.
    pub async fn write<T, E>(
        &self,
        locks: impl Into<TransactionLocks>,
        work: impl Fn(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + RetryPolicy + Send + 'static,
    {
        let (pool, locks) = (self.clone(), Mutex::new(locks.into()));
        let transaction = move |connection: &Connection| {
            let mut locks = locks.lock();
            let outcome = connection.transaction(&locks, &work);
            // The next attempt acquires in order what this one discovered, and waits for it.
            match (outcome, connection.take_refused_locks()) {
                (Err(_), Some(refused)) if locks.extend(&refused) => Ok(CommitOutcome::LocksRefused),
                (outcome, _) => outcome,
            }
        };
        run_on_own_task(async move { pool.run_with_retries(transaction).await }).await
    }

    /// Runs `work` once on a connection, without a transaction and without retries. Use it for statements that cannot
    /// run in a transaction, or that manage their own.
    ///
    /// # Errors
    /// Returns the errors of `work`, and those of reaching the server.
    pub async fn with_connection<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let pool = self.clone();
        run_on_own_task(async move {
            let connection = pool.acquire().await?;
            run_blocking(move || run_on_connection(&connection, work)).await
        })
        .await
    }

    /// Runs `work` on a connection and retries temporary failures with growing delays, until the wait timeout has
    /// elapsed.
    async fn run_with_retries<T, E>(
        &self,
        work: impl Fn(&Connection) -> Result<CommitOutcome<T>, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + RetryPolicy + Send + 'static,
    {
        let deadline = Instant::now() + self.settings.wait_timeout;
        let mut delay = RETRY_DELAY_MIN;
        let mut failures = 0;
        // A restarted server leaves up to `max` dead connections in the pool, and each retry detects one of them.
        // These retries need no delay.
        let mut immediate_retries = self.settings.max;
        let mut work = work;
        loop {
            let mut was_lost = false;
            let failure = match self.acquire().await {
                Ok(connection) => {
                    let (outcome, incarnation, is_lost, returned) = run_blocking(move || {
                        let outcome = run_on_connection(&connection, &work);
                        Ok::<_, Error>((outcome, connection.server_incarnation(), connection.is_lost(), work))
                    })
                    .await?;
                    (work, was_lost) = (returned, is_lost);
                    match outcome {
                        Ok(CommitOutcome::Committed(value)) => return Ok(value),
                        // The locks of a transaction only become more, so these attempts end.
                        Ok(CommitOutcome::LocksRefused) => continue,
                        Ok(CommitOutcome::Unknown(value, id)) => {
                            match self.is_committed(id, &incarnation).await? {
                                true => return Ok(value),
                                false => E::from(Error::Unreachable("the connection was lost".to_owned())),
                            }
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => E::from(error),
            };
            failures += 1;
            if !failure.should_retry(failures) || Instant::now() + delay >= deadline {
                return Err(failure);
            }
            if was_lost && immediate_retries > 0 {
                immediate_retries -= 1;
                continue;
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    /// Asks the server whether the transaction with this id was committed. Used when the response to the commit was
    /// lost.
    ///
    /// It waits while the transaction is still in progress, because executing the work twice is worse than waiting.
    ///
    /// # Errors
    /// [`Error::CommitUnknown`] if the server no longer knows the transaction, or if it crashed in between: it may
    /// have given the id to another transaction.
    async fn is_committed(&self, transaction_id: String, incarnation: &str) -> Result<bool> {
        let deadline = Instant::now() + self.settings.wait_timeout * 2;
        loop {
            let values = vec![SqlValue::from(transaction_id.clone())];
            let response = match self.acquire().await {
                Ok(connection) => {
                    run_blocking(move || {
                        let rows = run_on_connection(&connection, |connection| {
                            connection.query("SELECT pg_xact_status($1::text::xid8)", &values)
                        });
                        let status = rows?.first().map_or(Ok(None), |row: &Row| row.text(0))?;
                        Ok::<_, Error>((status, connection.server_incarnation()))
                    })
                    .await
                }
                Err(error) => Err(error),
            };
            let reason = match response {
                Ok((_, current)) if *current != *incarnation => {
                    let reason = "the server crashed, or it is a different server".to_owned();
                    return Err(Error::CommitUnknown(reason));
                }
                Ok((Some(status), _)) if status == "committed" => return Ok(true),
                Ok((Some(status), _)) if status == "aborted" => return Ok(false),
                Ok((Some(status), _)) => format!("the transaction is still {status}"),
                Ok((None, _)) => {
                    let reason = "the server no longer knows the transaction".to_owned();
                    return Err(Error::CommitUnknown(reason));
                }
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                return Err(Error::CommitUnknown(reason));
            }
            tokio::time::sleep(RETRY_DELAY_MAX).await;
        }
    }

    /// Returns a connection for exclusive use, and waits for one if necessary. If no connection exists and opening one
    /// fails, the failure is returned immediately. If connections exist, a failure to open another one is ignored,
    /// because one of them will become free.
    async fn acquire(&self) -> Result<PooledConnection<'static, ConnectionFactory>> {
        let mut failures = self.connect_failure.clone();
        failures.mark_unchanged();
        let mut checkout = std::pin::pin!(self.connections.get_owned());
        loop {
            tokio::select! {
                biased;
                result = &mut checkout => return result.map_err(|error| match error {
                    RunError::User(error) => error,
                    RunError::TimedOut => Error::Exhausted,
                }),
                Ok(()) = failures.changed() => {
                    let failure = failures.borrow_and_update().clone();
                    if let Some(failure) = failure.filter(|_| self.connections.state().connections == 0) {
                        return Err(failure);
                    }
                }
            }
        }
    }
}

/// An error type that decides whether a failed operation is retried.
pub trait RetryPolicy {
    /// Returns whether the operation may succeed if it is retried after this number of failures.
    fn should_retry(&self, failures: u32) -> bool;
}

impl RetryPolicy for Error {
    fn should_retry(&self, failures: u32) -> bool {
        self.is_transient(failures)
    }
}

/// Runs `work` on a connection. If it panics, the connection stays marked as in use, and the pool discards it.
fn run_on_connection<T>(connection: &Connection, work: impl FnOnce(&Connection) -> T) -> T {
    connection.mark_in_use();
    let result = work(connection);
    connection.mark_unused();
    result
}

/// Receives the failures of opening connections. The pool opens connections in background tasks, so that the caller
/// that needs one does not see the failure otherwise.
#[derive(Debug, Clone)]
struct ConnectFailureSink(Arc<watch::Sender<Option<Error>>>);

impl ErrorSink<Error> for ConnectFailureSink {
    fn sink(&self, error: Error) {
        self.0.send_replace(Some(error));
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<Error>> {
        Box::new(self.clone())
    }
}

/// Runs `work` on its own task, which is aborted when the caller is dropped.
///
/// Without a task of its own, a caller could be handed a connection while it is not polled, for example because it
/// waits for another future that needs a connection. The connection would then be unused, and both would wait.
async fn run_on_own_task<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(work)).await.unwrap_or_else(|error| Err(task_failure(&error).into()))
}

/// Runs blocking work on a blocking thread.
async fn run_blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(task_failure(&error).into()))
}

/// Returns the error for a task that panicked or was cancelled.
fn task_failure(error: &JoinError) -> Error {
    Error::Unreachable(format!("the database task stopped: {error}"))
}

/// Opens and checks the connections of a [`Pool`].
struct ConnectionFactory {
    /// The database to connect to.
    target: Arc<DatabaseTarget>,
}

impl ManageConnection for ConnectionFactory {
    type Connection = Connection;
    type Error = Error;

    async fn connect(&self) -> Result<Connection> {
        let target = Arc::clone(&self.target);
        run_blocking(move || Connection::open(&target)).await
    }

    async fn is_valid(&self, _: &mut Connection) -> Result<()> {
        Ok(())
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_broken()
    }
}
