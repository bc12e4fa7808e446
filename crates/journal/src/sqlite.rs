//! The journal in SQLite: one file, one thread that writes, a few connections that read. It holds no rule of its own;
//! `tables` says how each kind of row is kept, `writer` how transactions are grouped.

mod connect;
mod faults;
mod health;
mod readers;
mod schema;
mod tables;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use protocol::{
    AssistantId, Checkpoint, CheckpointId, Event, Handoff, HandoffId, Interrupt, InterruptId, Item,
    LoggedTurn, Proposal, Run, RunFeedback, RunId, Seq, StepPoint, Thread, ThreadId,
};
use rusqlite::Connection;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use self::faults::Place;
use self::readers::Readers;
use self::tables::events::{self, rewinds};
use self::tables::memory::{items, summaries, turns};
use self::tables::{artifacts, checkpoints, feedback, handoffs, interrupts, keyed, runs, search, threads};
use self::writer::{Job, QUEUE_MAX, Request, Writer};
use crate::{
    Artifact, CheckpointRef, Committed, Error, EventQuery, FoundItem, HandoffFilter, Health, HealthDepth,
    Hit, ImportSource, ItemQuery, MemoryCounts, NamespaceQuery, OutboxItem, RankQuery, Ranked, Result,
    SearchQuery, Store, StoredSummary, SummaryQuery, ThreadFilter, Transaction, TurnQuery,
};

/// The most events that are read here and now: it takes less time than to hand the question to another thread.
const LOOK_ROWS_MAX: usize = 100;

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
        let readers = Arc::new(Readers::new(Arc::clone(&place), options.lock_wait));
        Self::start(connection, place, Some(readers))
    }

    /// Opens an empty database that ends when it is dropped.
    ///
    /// # Errors
    /// When the engine cannot start.
    pub fn in_memory() -> Result<Self> {
        let place = Arc::new(Place(PathBuf::from(":memory:")));
        let connection = connect::memory(&place)?;
        Self::start(connection, place, None)
    }

    fn start(connection: Connection, place: Arc<Place>, readers: Option<Arc<Readers>>) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let writer = Writer::new(connection, Arc::clone(&place), receiver);
        let thread = std::thread::Builder::new()
            .name("journal-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| Error::Io { path: place.0.clone(), source })?;
        Ok(Self { place, jobs: Some(sender), readers, writer: Some(thread) })
    }

    async fn send<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T> {
        let jobs = self.jobs.as_ref().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        jobs.send(job(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)
    }

    /// Answers a question that may read many rows.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = match &self.readers {
            Some(readers) => readers.ask(of_one_moment(question)).await,
            None => self.ask_writer(question).await?,
        };
        answer.map_err(|error| self.place.explain(error))
    }

    /// Answers a question about a few rows that an index finds.
    async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = match &self.readers {
            Some(readers) => readers.look(of_one_moment(question)).await,
            None => self.ask_writer(question).await?,
        };
        answer.map_err(|error| self.place.explain(error))
    }

    async fn ask_writer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
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
    question: impl FnOnce(&Connection) -> Result<T>,
) -> impl FnOnce(&Connection) -> Result<T> {
    move |connection| {
        let snapshot = connection.unchecked_transaction()?;
        let answer = question(&snapshot)?;
        // The answer was read; that a damaged database cannot even end a snapshot changes nothing of it.
        let _ = snapshot.commit();
        Ok(answer)
    }
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

#[async_trait]
impl Store for Sqlite {
    async fn commit(&self, transaction: Transaction) -> Result<Committed> {
        self.send(|reply| Job::Commit(Request { transaction, reply })).await?
    }

    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>> {
        self.look(move |db| threads::find(db, thread_id)).await
    }

    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        self.ask(move |db| threads::list(db, &filter)).await
    }

    async fn threads_by_prefix(&self, prefix: &str) -> Result<Vec<ThreadId>> {
        let prefix = prefix.to_owned();
        self.ask(move |db| threads::by_prefix(db, &prefix)).await
    }

    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>> {
        let is_small = query.limit <= LOOK_ROWS_MAX;
        let question = move |db: &Connection| events::page(db, thread_id, &query);
        if is_small { self.look(question).await } else { self.ask(question).await }
    }

    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64> {
        self.ask(move |db| rewinds::messages_after(db, thread_id, seq)).await
    }

    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>> {
        let event_key = event_key.to_owned();
        self.look(move |db| events::seq_of_key(db, thread_id, &event_key)).await
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        self.send(Job::Index).await??;
        self.ask(move |db| search::find(db, &query)).await
    }

    async fn rank(&self, query: RankQuery) -> Result<Vec<Ranked>> {
        self.send(Job::Index).await??;
        self.ask(move |db| search::rank(db, &query)).await
    }

    async fn run(&self, run_id: RunId) -> Result<Option<Run>> {
        self.look(move |db| runs::find(db, run_id)).await
    }

    async fn runs_by_prefix(&self, prefix: &str) -> Result<Vec<RunId>> {
        let prefix = prefix.to_owned();
        self.look(move |db| runs::by_prefix(db, &prefix)).await
    }

    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>> {
        self.look(move |db| runs::newest(db, thread_id)).await
    }

    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        self.look(move |db| runs::active(db, thread_id)).await
    }

    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>> {
        let question = move |db: &Connection| events::page_of_run(db, (thread_id, run_id), (after, limit));
        if limit <= LOOK_ROWS_MAX { self.look(question).await } else { self.ask(question).await }
    }

    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>> {
        let (run_ids, user_id) = (run_ids.to_vec(), user_id.to_owned());
        self.look(move |db| feedback::list(db, (thread_id, &run_ids), &user_id)).await
    }

    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
        self.look(move |db| checkpoints::newest(db, thread_id)).await
    }

    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<StepPoint>> {
        self.ask(move |db| checkpoints::list(db, thread_id, (before, limit))).await
    }

    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
    ) -> Result<Option<(StepPoint, Map<String, Value>)>> {
        self.ask(move |db| checkpoints::at(db, thread_id, point)).await
    }

    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>> {
        let sha256 = sha256.to_owned();
        self.ask(move |db| artifacts::find(db, thread_id, &sha256)).await
    }

    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.look(checkpoints::unfinished).await
    }

    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
        self.look(move |db| interrupts::find(db, interrupt_id)).await
    }

    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        self.look(move |db| interrupts::pending(db, thread_id)).await
    }

    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>> {
        self.look(move |db| handoffs::find(db, handoff_id)).await
    }

    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>> {
        match filter.limit {
            Some(_) => self.look(move |db| handoffs::list(db, &filter)).await,
            None => self.ask(move |db| handoffs::list(db, &filter)).await,
        }
    }

    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
        self.look(move |db| handoffs::proposals(db, handoff_id)).await
    }

    async fn outbox(&self, kind: &str) -> Result<Vec<OutboxItem>> {
        let kind = kind.to_owned();
        self.ask(move |db| keyed::outbox(db, &kind)).await
    }

    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedTurn>> {
        self.ask(move |db| turns::page(db, &query)).await
    }

    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>> {
        self.ask(move |db| summaries::list(db, &query)).await
    }

    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts> {
        let agent_id = agent_id.clone();
        self.ask(move |db| summaries::counts(db, agent_id.as_str())).await
    }

    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<Item>> {
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.look(move |db| items::find(db, &namespace, &key)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<FoundItem>> {
        self.ask(move |db| items::list(db, &query)).await
    }

    async fn namespaces(&self, query: NamespaceQuery) -> Result<Vec<Vec<String>>> {
        self.ask(move |db| items::namespaces(db, &query)).await
    }

    async fn index(&self) -> Result<()> {
        self.send(Job::Index).await?
    }

    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>> {
        let source_key = source_key.to_owned();
        self.look(move |db| keyed::import_source(db, &source_key)).await
    }

    async fn health(&self, depth: HealthDepth) -> Result<Health> {
        let place = Arc::clone(&self.place);
        self.ask(move |db| health::check(db, &place, depth)).await
    }
}
