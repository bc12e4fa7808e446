//! Some connections that many share, and work that is done on one of them: again on another one when it breaks. What the
//! work is, is the caller's matter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bb8::{ErrorSink, ManageConnection, PooledConnection, QueueStrategy, RunError};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::{Connection, Ended};
use crate::{Error, Result, Row, Target, Value};

/// Between the first attempts at what failed in passing; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The shortest and the longest time between two looks for connections that are old or unused.
const REAPED_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// How many connections there are, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Connections that are kept open though nobody uses them.
    pub min_idle: u32,
    /// The most connections.
    pub max: u32,
    /// How long one may be unused before it is closed, as long as there are more than `min_idle`; zero is for ever.
    pub idle: Duration,
    /// How long one lives; zero is for ever.
    pub lifetime: Duration,
    /// How long to wait for a free one, and how long work that broke or met a conflict is tried again.
    pub patience: Duration,
}

/// How a pool is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Connections there are.
    pub connections: u32,
    /// Those of them that nobody uses.
    pub idle: u32,
    /// The most there may be.
    pub max: u32,
    /// How many times one was asked for.
    pub gets: u64,
    /// How many of these had to wait.
    pub waited: u64,
    /// How many of these gave up.
    pub timed_out: u64,
    /// How long all waited together.
    pub wait: Duration,
    /// Connections that were made.
    pub created: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Connections that were closed because they were old or unused.
    pub expired: u64,
}

/// What a transaction takes before anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taking {
    /// The locks, in the order in which all take theirs.
    pub locks: Vec<i64>,
    /// How long it waits for one of them, or of those it meets later; `None` means as long as anybody may.
    pub wait: Option<Duration>,
}

impl From<Vec<i64>> for Taking {
    fn from(locks: Vec<i64>) -> Self {
        Self { locks, wait: None }
    }
}

/// Connections to one database.
#[derive(Clone)]
pub struct Pool {
    connections: bb8::Pool<Maker>,
    target: Arc<Target>,
    settings: PoolSettings,
    /// What came of the last attempt to connect that failed.
    failed: watch::Receiver<Option<Error>>,
}

impl Pool {
    /// Returns a pool; nothing is connected before it is needed, except that `min_idle` connections are opened behind this
    /// call.
    pub async fn open(target: Target, settings: PoolSettings) -> Self {
        let target = Arc::new(target);
        let (failures, failed) = watch::channel(None);
        let limit = |limit: Duration| (!limit.is_zero()).then_some(limit);
        let [shortest, longest] = REAPED_EVERY;
        let connections = bb8::Pool::builder()
            .max_size(settings.max.max(1))
            .min_idle(Some(settings.min_idle.min(settings.max)))
            .idle_timeout(limit(settings.idle))
            .max_lifetime(limit(settings.lifetime))
            .reaper_rate(settings.idle.min(settings.lifetime).clamp(shortest, longest))
            .connection_timeout(settings.patience.max(PAUSE_MIN))
            // Those used last are used first: what is left over grows old and goes.
            .queue_strategy(QueueStrategy::Lifo)
            // What fails is told to who waits, and tried again here.
            .retry_connection(false)
            .error_sink(Box::new(Failures(Arc::new(failures))))
            // A connection that broke while nobody used it tells so with the first statement; asking it each time would
            // cost every question a second one.
            .test_on_check_out(false)
            .build_unchecked(Maker { target: Arc::clone(&target) });
        Self { connections, target, settings, failed }
    }

    /// Returns where the database is, without the password.
    pub fn location(&self) -> String {
        self.target.to_string()
    }

    /// Returns the address, for a [`crate::Listener`].
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns how it is used.
    pub fn figures(&self) -> Figures {
        let state = self.connections.state();
        let counted = state.statistics;
        Figures {
            connections: state.connections,
            idle: state.idle_connections,
            max: self.settings.max,
            gets: counted.get_started,
            waited: counted.get_waited,
            timed_out: counted.get_timed_out,
            wait: counted.get_wait_time,
            created: counted.connections_created,
            broken: counted.connections_closed_broken + counted.connections_closed_invalid,
            expired: counted.connections_closed_max_lifetime + counted.connections_closed_idle_timeout,
        }
    }

    /// Answers questions about one moment. It blocks no async thread, and asks again on another connection when one breaks.
    ///
    /// # Errors
    /// Those of `work`, and of the way to the server.
    pub async fn read<T, E>(
        &self,
        work: impl Fn(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Passing + Send + 'static,
    {
        let pool = self.clone();
        let snapshot = move |connection: &Connection| connection.snapshot(&work).map(Ended::Committed);
        aside(async move { pool.again_and_again(snapshot).await }).await
    }

    /// Performs what `work` does together, or nothing of it, and once: after taking these locks, and all of it again when
    /// another transaction was in the way or the connection broke before it was committed. Whoever takes the same locks in
    /// the same order waits.
    ///
    /// # Errors
    /// Those of `work`, and of the way to the server: then nothing is done.
    pub async fn write<T, E>(
        &self,
        taking: impl Into<Taking>,
        work: impl Fn(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Passing + Send + 'static,
    {
        let (pool, taking) = (self.clone(), taking.into());
        let transaction = move |connection: &Connection| connection.transaction(&taking, &work);
        aside(async move { pool.again_and_again(transaction).await }).await
    }

    /// Performs statements that are no transaction of ours, or bring their own, once.
    ///
    /// # Errors
    /// Those of `work`, and of the way to the server.
    pub async fn with<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let pool = self.clone();
        aside(async move {
            let connection = pool.connection().await?;
            blocking(move || used(&connection, work)).await
        })
        .await
    }

    async fn again_and_again<T, E>(
        &self,
        work: impl Fn(&Connection) -> Result<Ended<T>, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Passing + Send + 'static,
    {
        let give_up = Instant::now() + self.settings.patience;
        let mut pause = PAUSE_MIN;
        let mut failures = 0;
        // Connections that a server ended while nobody used them are found one by one.
        let mut dead = self.settings.max;
        let mut work = work;
        loop {
            let mut was_dead = false;
            let failure = match self.connection().await {
                Ok(connection) => {
                    let (outcome, server, is_lost, same) = blocking(move || {
                        let outcome = used(&connection, &work);
                        Ok::<_, Error>((outcome, connection.server(), connection.is_lost(), work))
                    })
                    .await?;
                    (work, was_dead) = (same, is_lost);
                    match outcome {
                        Ok(Ended::Committed(done)) => return Ok(done),
                        Ok(Ended::Unknown(done, number)) => match self.is_committed(number, &server).await? {
                            true => return Ok(done),
                            false => E::from(Error::Unreachable("the connection was lost".to_owned())),
                        },
                        Err(error) => error,
                    }
                }
                Err(error) => E::from(error),
            };
            failures += 1;
            if !failure.is_passing(failures) || Instant::now() + pause >= give_up {
                return Err(failure);
            }
            if was_dead && dead > 0 {
                dead -= 1;
                continue;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Returns whether the transaction with that number, whose end nobody saw, was committed. Nothing is told before the
    /// server knows: what is done twice is worse than what takes long. A server that crashed since may have given the number
    /// to another transaction: it does not know.
    async fn is_committed(&self, number: String, server: &str) -> Result<bool> {
        let give_up = Instant::now() + self.settings.patience * 2;
        loop {
            let values = vec![Value::from(number.clone())];
            let asked = match self.connection().await {
                Ok(connection) => {
                    blocking(move || {
                        let rows = used(&connection, |connection| {
                            connection.query("SELECT pg_xact_status($1::text::xid8)", &values)
                        });
                        let status = rows?.first().map_or(Ok(None), |row: &Row| row.text(0))?;
                        Ok::<_, Error>((status, connection.server()))
                    })
                    .await
                }
                Err(error) => Err(error),
            };
            let unsettled = match asked {
                Ok((_, asked)) if *asked != *server => {
                    let reason = "the server crashed, or it is another one".to_owned();
                    return Err(Error::Unsettled(reason));
                }
                Ok((Some(status), _)) if status == "committed" => return Ok(true),
                Ok((Some(status), _)) if status == "aborted" => return Ok(false),
                Ok((Some(status), _)) => format!("it is still {status}"),
                Ok((None, _)) => return Err(Error::Unsettled("the server has forgotten it".to_owned())),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= give_up {
                return Err(Error::Unsettled(unsettled));
            }
            tokio::time::sleep(PAUSE_MAX).await;
        }
    }

    /// Returns a connection that nobody else uses. Who waits is told why none can be made; while there are some, one of them
    /// comes free.
    async fn connection(&self) -> Result<PooledConnection<'static, Maker>> {
        let mut failed = self.failed.clone();
        failed.mark_unchanged();
        let mut got = std::pin::pin!(self.connections.get_owned());
        loop {
            tokio::select! {
                biased;
                got = &mut got => return got.map_err(|error| match error {
                    RunError::User(error) => error,
                    RunError::TimedOut => Error::Exhausted,
                }),
                Ok(()) = failed.changed() => {
                    let failure = failed.borrow_and_update().clone();
                    if let Some(failure) = failure.filter(|_| self.connections.state().connections == 0) {
                        return Err(failure);
                    }
                }
            }
        }
    }
}

/// Whether a failure may be gone when the same is tried again.
pub trait Passing {
    /// Returns whether it may, after so many failures.
    fn is_passing(&self, failures: u32) -> bool;
}

impl Passing for Error {
    fn is_passing(&self, failures: u32) -> bool {
        self.is_passing_now(failures)
    }
}

/// Does something on a connection. One on which something was begun that panicked is not used again.
fn used<T>(connection: &Connection, work: impl FnOnce(&Connection) -> T) -> T {
    connection.begin_use();
    let done = work(connection);
    connection.end_use();
    done
}

/// Where failures to connect are told: the one who needs a connection is not the one who makes it.
#[derive(Debug, Clone)]
struct Failures(Arc<watch::Sender<Option<Error>>>);

impl ErrorSink<Error> for Failures {
    fn sink(&self, error: Error) {
        self.0.send_replace(Some(error));
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<Error>> {
        Box::new(self.clone())
    }
}

/// Does work on a task of its own, as long as the caller waits for it: a connection that is given to a caller who is not polled
/// for a while, because it waits for something else that needs one, would be nobody's.
async fn aside<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(work)).await.unwrap_or_else(|error| Err(ended(&error).into()))
}

/// Does what blocks where it may.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ended(&error).into()))
}

fn ended(error: &JoinError) -> Error {
    Error::Unreachable(format!("the work on a connection ended: {error}"))
}

/// Makes connections.
struct Maker {
    target: Arc<Target>,
}

impl ManageConnection for Maker {
    type Connection = Connection;
    type Error = Error;

    async fn connect(&self) -> Result<Connection> {
        let target = Arc::clone(&self.target);
        blocking(move || Connection::open(&target)).await
    }

    async fn is_valid(&self, _: &mut Connection) -> Result<()> {
        Ok(())
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_broken()
    }
}
