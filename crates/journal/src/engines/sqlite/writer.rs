//! The one thread that writes: it takes transactions from a bounded queue, commits many at once, and answers each
//! only after the commit returned. It decides nothing about their content.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::faults::Place;
use crate::engines::perform::perform;
use crate::engines::sql;
use crate::tables::search::{self, CatchUp, Pass};
use crate::{Committed, Error, Result, Transaction};

/// Transactions one commit takes together.
pub(crate) const GROUP_MAX: usize = 256;
/// Transactions that may wait; more make their senders wait.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// How long a commit waits for as many transactions as recent ones had. A sync takes several times as long.
const GATHER_MAX: Duration = Duration::from_micros(100);

/// How often a transaction is begun anew while another process writes. The engine's own waiting tries ten times a second, and
/// misses the moments between the transactions of one that writes without rest.
const BEGIN_RETRY: Duration = Duration::from_millis(1);
/// How long this process writes without rest. Then it leaves [`REST`] to the others, who would wait in vain otherwise.
const WRITING_MAX: Duration = Duration::from_millis(100);
/// A few tries of another process.
const REST: Duration = Duration::from_millis(5);

/// What part of the transactions expected is given up with each commit that had fewer.
const EXPECTED_DECAY: usize = 8;

/// A question that is to be answered on the writer's own connection.
pub(crate) type Question = Box<dyn FnOnce(&Connection) + Send>;

/// What the writer is asked to do.
pub(crate) enum Job {
    Commit(Request),
    Index(oneshot::Sender<Result<()>>),
    /// Answer a question (a database in memory has no other connection).
    Ask(Question),
}

/// A transaction and where its answer goes.
pub(crate) struct Request {
    pub(crate) transaction: Transaction,
    pub(crate) reply: oneshot::Sender<Result<Committed>>,
}

/// The writer's state; it lives on its own thread until the queue is closed and empty.
pub(crate) struct Writer {
    connection: Connection,
    place: Arc<Place>,
    jobs: mpsc::Receiver<Job>,
    /// A job that was taken from the queue while a group was gathered, and does not belong to it.
    held: Option<Job>,
    /// Who waits for the search index.
    index_waiters: Vec<oneshot::Sender<Result<()>>>,
    /// Transactions that recent commits had.
    expected: usize,
    /// How long another process is waited for.
    lock_wait: Duration,
    /// Since when this one writes without rest, and when it was last at work.
    writing: (Instant, Instant),
}

impl Writer {
    /// Returns a writer for `connection`, fed by `jobs`, that waits so long for other processes.
    pub(crate) fn new(
        connection: Connection,
        place: Arc<Place>,
        jobs: mpsc::Receiver<Job>,
        lock_wait: Duration,
    ) -> Self {
        let (index_waiters, writing) = (Vec::new(), (Instant::now(), Instant::now()));
        Self { connection, place, jobs, held: None, index_waiters, expected: 0, lock_wait, writing }
    }

    /// Works until the queue is closed and everything in it is done.
    pub(crate) fn run(mut self) {
        while let Some(job) = self.next() {
            self.rest();
            match job {
                Some(Job::Commit(first)) => {
                    let group = self.gather(first);
                    self.expected = group.len().max(self.expected - self.expected.div_ceil(EXPECTED_DECAY));
                    self.commit_group(group);
                }
                Some(Job::Index(waiter)) => self.index_waiters.push(waiter),
                Some(Job::Ask(question)) => question(&self.connection),
                None => {}
            }
            self.catch_up();
            self.writing.1 = Instant::now();
        }
    }

    /// Lets other processes begin what they have to write, if this one has written for long.
    fn rest(&mut self) {
        let (since, last) = self.writing;
        if last.elapsed() < REST {
            if since.elapsed() < WRITING_MAX {
                return;
            }
            std::thread::sleep(REST);
        }
        self.writing.0 = Instant::now();
    }

    /// Begins a transaction once no other process is in the middle of one.
    fn begin(&self) -> rusqlite::Result<()> {
        let deadline = Instant::now() + self.lock_wait;
        self.connection.busy_timeout(Duration::ZERO)?;
        let begun = loop {
            match run(&self.connection, "BEGIN IMMEDIATE") {
                Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(BEGIN_RETRY),
                outcome => break outcome,
            }
        };
        self.connection.busy_timeout(self.lock_wait)?;
        begun
    }

    /// Returns the next job; `Some(None)` when there is none but the index is behind, `None` at the end.
    fn next(&mut self) -> Option<Option<Job>> {
        if let Some(job) = self.held.take() {
            return Some(Some(job));
        }
        if self.index_waiters.is_empty() {
            return self.jobs.blocking_recv().map(Some);
        }
        Some(self.jobs.try_recv().ok())
    }

    /// Returns `first` and what else waits. Senders that were just answered need a moment to send again, and a
    /// group of half the size costs as long a sync.
    fn gather(&mut self, first: Request) -> Vec<Request> {
        let mut group = vec![first];
        let deadline = Instant::now() + GATHER_MAX;
        while group.len() < GROUP_MAX {
            match self.jobs.try_recv() {
                Ok(Job::Commit(request)) => group.push(request),
                Ok(other) => {
                    self.held = Some(other);
                    break;
                }
                Err(_) if group.len() < self.expected && Instant::now() < deadline => {
                    std::thread::yield_now()
                }
                Err(_) => break,
            }
        }
        group
    }

    fn commit_group(&self, group: Vec<Request>) {
        let (transactions, replies): (Vec<_>, Vec<_>) =
            group.into_iter().map(|request| (request.transaction, request.reply)).unzip();
        let outcomes = match self.perform_group(&transactions) {
            Ok(outcomes) => outcomes,
            Err(engine) => replies.iter().map(|_| Err(self.place.fault(&engine))).collect(),
        };
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // Whoever does not wait any longer does not need the answer.
            let _ = reply.send(outcome.map_err(|error| self.place.explain(error)));
        }
    }

    /// Performs the transactions in one of the engine's. When one of them fails, all are performed once more, each
    /// able to fail alone: the savepoints this takes copy every page that changes, too much for the usual case.
    fn perform_group(&self, group: &[Transaction]) -> rusqlite::Result<Vec<Result<Committed>>> {
        let together = self.in_transaction(|| {
            Ok(group
                .iter()
                .map(|transaction| perform(&sql::Connection::Sqlite(&self.connection), transaction))
                .collect::<Result<Vec<_>>>())
        })?;
        match (together, group) {
            (Ok(committed), _) => Ok(committed.into_iter().map(Ok).collect()),
            (Err(error), [_]) => Ok(vec![Err(error)]),
            (Err(_), _) => self
                .in_transaction(|| {
                    let alone = group.iter().map(|transaction| self.perform_alone(transaction));
                    Ok(Ok(alone.collect::<rusqlite::Result<Vec<_>>>()?))
                })?
                .map_err(engine_failure),
        }
    }

    /// Commits what `work` does if it returns `Ok(Ok(..))`, and undoes it otherwise.
    fn in_transaction<T>(
        &self,
        work: impl FnOnce() -> rusqlite::Result<Result<T>>,
    ) -> rusqlite::Result<Result<T>> {
        self.begin()?;
        let outcome = match work() {
            Ok(Ok(done)) => run(&self.connection, "COMMIT").map(|()| Ok(done)),
            failed => failed,
        };
        if !matches!(outcome, Ok(Ok(_))) && !self.connection.is_autocommit() {
            run(&self.connection, "ROLLBACK")?;
        }
        outcome
    }

    fn perform_alone(&self, transaction: &Transaction) -> rusqlite::Result<Result<Committed>> {
        run(&self.connection, "SAVEPOINT request")?;
        let outcome = perform(&sql::Connection::Sqlite(&self.connection), transaction);
        if self.connection.is_autocommit() {
            // The engine gave up everything, as it does when the disk is full: the others of the group failed too.
            return Err(outcome.err().map_or(rusqlite::Error::InvalidQuery, engine_failure));
        }
        if outcome.is_err() {
            run(&self.connection, "ROLLBACK TO request")?;
        }
        run(&self.connection, "RELEASE request")?;
        Ok(outcome)
    }

    /// Indexes one batch, and answers who waits when nothing is left or it failed.
    fn catch_up(&mut self) {
        if self.index_waiters.is_empty() {
            return;
        }
        let outcome = self.index_batch();
        if matches!(outcome, Ok(CatchUp::Unfinished(_))) {
            return;
        }
        let failure = outcome.err();
        for waiter in self.index_waiters.drain(..) {
            let _ = waiter.send(failure.as_ref().map_or(Ok(()), |engine| Err(self.place.fault(engine))));
        }
    }

    fn index_batch(&self) -> rusqlite::Result<CatchUp> {
        // Whoever came to wait meanwhile is answered with the others, so that it begins at the first thread each time.
        self.in_transaction(|| {
            Ok(search::index_batch(&sql::Connection::Sqlite(&self.connection), Pass::default()))
        })?
        .map_err(engine_failure)
    }
}

/// Returns what the engine reported, or a stand-in that keeps the message of a failure of another kind.
fn engine_failure(error: Error) -> rusqlite::Error {
    match error {
        Error::Sqlite(engine) => engine,
        other => rusqlite::Error::ToSqlConversionFailure(Box::new(other)),
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
