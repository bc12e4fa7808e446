//! The journal in SQLite: one file, one thread that writes, a few connections that read. It holds no rule of its own;
//! `tables` says how each kind of row is kept, `writer` how transactions are grouped.

mod connect;
mod faults;
mod health;
mod news;
mod plain;
mod portable;
mod readers;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use self::faults::Place;
pub(crate) use self::faults::of_preparing;
pub(crate) use self::plain::{Plain, version as plain_version};
use self::readers::Readers;
pub(crate) use self::schema::checksum;
use self::writer::{Job, QUEUE_MAX, Request, Writer};
use crate::engines::sql::Connection;
use crate::engines::{Engine, Rows};
use crate::moving::check_whole;
use crate::news::News;
use crate::news::commits::Commits;
use crate::{Committed, Error, Health, HealthDepth, Reach, Result, Transaction};

/// How a database is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// How long a read or write waits for another process before it fails with [`Error::Locked`].
    pub lock_wait: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { lock_wait: Duration::from_secs(5) }
    }
}

/// A journal in a SQLite database.
///
/// Dropping it waits until everything that was queued is written; nothing is written after that. Several of them, in
/// one process or many, may have the same file open.
pub struct Sqlite {
    place: Arc<Place>,
    /// `None` only while it is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    /// `None` for a database in memory, which has one connection only: the writer's.
    readers: Option<Arc<Readers>>,
    writer: Option<JoinHandle<()>>,
    news: News,
    commits: Commits,
    /// Who looks for news.
    looker: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Sqlite {
    /// Opens the database at `path`. A missing file is created (mode 0600), and so is its folder (0700); an older
    /// schema is migrated.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NewerSchema`], [`Error::Denied`], [`Error::Locked`], [`Error::DiskFull`] and
    /// [`Error::Io`], each before anything is written.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, OpenOptions::default())
    }

    /// Opens the database at `path` as `options` say.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(path: &Path, options: OpenOptions) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let place = Arc::new(Place(path));
        let connection = connect::writer(&place, options.lock_wait).map_err(|error| place.explain(error))?;
        check_whole(&Connection::Sqlite(&connection), &place.0.display().to_string())
            .map_err(|error| place.explain(error))?;
        let readers = Arc::new(Readers::new(Arc::clone(&place), options.lock_wait));
        Self::start(connection, options.lock_wait, place, Some(readers))
    }

    /// Opens an empty database that ends when it is dropped.
    ///
    /// # Errors
    /// When the engine cannot start.
    pub fn in_memory() -> Result<Self> {
        let place = Arc::new(Place(PathBuf::from(":memory:")));
        let connection = connect::memory(&place)?;
        Self::start(connection, OpenOptions::default().lock_wait, place, None)
    }

    fn start(
        connection: rusqlite::Connection,
        lock_wait: Duration,
        place: Arc<Place>,
        readers: Option<Arc<Readers>>,
    ) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let writer = Writer::new(connection, Arc::clone(&place), receiver, lock_wait);
        let thread = std::thread::Builder::new()
            .name("journal-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| Error::Io { path: place.0.clone(), source })?;
        let (news, commits, looker) = (News::default(), Commits::default(), Mutex::default());
        Ok(Self { place, jobs: Some(sender), readers, writer: Some(thread), news, commits, looker })
    }

    async fn send<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T> {
        let jobs = self.jobs.as_ref().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        jobs.send(job(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)
    }

    async fn ask_engine<T: Send + 'static>(
        &self,
        question: impl Fn(&rusqlite::Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.read(Rows::Many, move |connection| match connection {
            Connection::Sqlite(connection) => question(connection),
            Connection::Postgres(..) => Err(Error::Closed),
        })
        .await
    }

    async fn ask_writer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Result<T>> {
        let question = of_one_moment(question);
        self.send(|reply| {
            Job::Ask(Box::new(move |connection| {
                // Whoever does not wait any longer does not need the answer.
                let _ = reply.send(question(connection));
            }))
        })
        .await
    }
}

/// Returns the question about one moment, though it may take several statements.
fn of_one_moment<T>(
    question: impl FnOnce(&Connection<'_>) -> Result<T>,
) -> impl FnOnce(&rusqlite::Connection) -> Result<T> {
    move |connection| {
        let snapshot = connection.unchecked_transaction()?;
        let answer = question(&Connection::Sqlite(&snapshot))?;
        // The answer was read; that a damaged database cannot even end a snapshot changes nothing of it.
        let _ = snapshot.commit();
        Ok(answer)
    }
}

/// Returns the connection of an empty database that ends when it is dropped.
#[cfg(test)]
pub(crate) fn memory() -> Result<rusqlite::Connection> {
    connect::memory(&Place(PathBuf::from(":memory:")))
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The last connection to close copies the log into the database, which only the writer's can.
        self.readers = None;
        self.jobs = None;
        if let Some(Err(_)) = self.writer.take().map(JoinHandle::join) {
            tracing::error!(path = %self.place.0.display(), "the journal's writer panicked");
        }
    }
}

impl Engine for Sqlite {
    const REACH: Reach = Reach::Machine;

    async fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::now())
    }

    async fn perform(&self, transaction: Transaction) -> Result<Committed> {
        self.send(|reply| Job::Commit(Request { transaction, reply })).await?
    }

    async fn read<T: Send + 'static>(
        &self,
        rows: Rows,
        question: impl Fn(&Connection<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = match (&self.readers, rows) {
            (Some(readers), Rows::Few) => readers.look(of_one_moment(question)).await,
            (Some(readers), Rows::Many) => readers.ask(of_one_moment(question)).await,
            (None, _) => self.ask_writer(question).await?,
        };
        answer.map_err(|error| self.place.explain(error))
    }

    async fn catch_up(&self) -> Result<()> {
        self.send(Job::Index).await?
    }

    async fn checked(&self, depth: HealthDepth) -> Result<Health> {
        let place = Arc::clone(&self.place);
        self.ask_engine(move |connection| health::check(connection, &place, depth)).await
    }

    fn own_commits(&self) -> &Commits {
        &self.commits
    }

    fn heard(&self) -> News {
        let mut looker = self.looker.lock();
        let is_looked_for = looker.as_ref().is_some_and(|looker| !looker.is_finished());
        // A database in memory is nobody else's, and without a runtime nobody can listen.
        if let (false, true, Some(jobs), Ok(runtime)) =
            (is_looked_for, self.readers.is_some(), &self.jobs, tokio::runtime::Handle::try_current())
        {
            *looker = Some(runtime.spawn(news::look(self.news.clone(), jobs.downgrade())));
        }
        self.news.clone()
    }
}
