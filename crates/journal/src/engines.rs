//! What an engine does for the tables, and the journal's storage over any engine: each question is put to the tables once,
//! whatever stores the rows.

pub(crate) mod perform;
pub(crate) mod postgres;
pub(crate) mod sql;
pub(crate) mod sqlite;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointId, Event, Handoff, HandoffId, Interrupt, InterruptId, Item,
    LoggedTurn, Proposal, Run, RunFeedback, RunId, RunRequest, Scope, Seq, StepPoint, Thread, ThreadId,
    ThreadState,
};
use serde_json::{Map, Value};

use self::sql::Connection;
use crate::news::News;
use crate::news::commits::Commits;
use crate::tables::events::{self, rewinds};
use crate::tables::keyed::{self, keys};
use crate::tables::memory::{items, summaries, turns};
use crate::tables::runs::{self, claims, feedback, requests};
use crate::tables::{artifacts, checkpoints, handoffs, interrupts, replicas, search, threads};
use crate::{
    Artifact, CheckpointRef, Committed, EventQuery, FoundItem, HandoffFilter, Health, HealthDepth, Hit,
    ImportSource, ItemQuery, MemoryCounts, NamespaceQuery, OutboxItem, OutboxQuery, RankQuery, Ranked, Reach,
    Replica, Result, RunFilter, SearchQuery, Store, StoredSummary, SummaryQuery, Superseded, ThreadFilter,
    ThreadSize, Transaction, TurnQuery, Unclaimed,
};

/// How much a question reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// A few rows that an index finds: it takes less time to read them here and now than to hand the question to another
    /// thread.
    Few,
    /// Many, perhaps.
    Many,
}

impl Rows {
    /// The most rows that are few.
    const FEW_MAX: usize = 100;

    /// Returns how much a page of so many rows at most is.
    const fn up_to(limit: usize) -> Self {
        if limit <= Self::FEW_MAX { Self::Few } else { Self::Many }
    }

    /// Returns how much a question about one thread is, or about all.
    const fn of_thread(thread_id: Option<ThreadId>) -> Self {
        if thread_id.is_some() { Self::Few } else { Self::Many }
    }
}

/// What stores the rows.
pub(crate) trait Engine: Send + Sync {
    /// From where processes can work on it.
    const REACH: Reach;

    /// Performs the writes of a transaction together.
    fn perform(&self, transaction: Transaction) -> impl Future<Output = Result<Committed>> + Send;

    /// Answers a question about one moment. It may be put again when a connection breaks.
    fn read<T: Send + 'static>(
        &self,
        rows: Rows,
        question: impl Fn(&Connection<'_>) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Brings the search index up to date.
    fn catch_up(&self) -> impl Future<Output = Result<()>> + Send;

    /// Returns how the database is.
    fn checked(&self, depth: HealthDepth) -> impl Future<Output = Result<Health>> + Send;

    /// Returns where it is told what this process commits.
    fn own_commits(&self) -> &Commits;

    /// Returns where news of what other processes commit are heard.
    fn heard(&self) -> News;

    /// Returns the present by the clock that all go by.
    fn now(&self) -> impl Future<Output = Result<Timestamp>> + Send;
}

#[async_trait]
impl<E: Engine> Store for E {
    async fn commit(&self, transaction: Transaction) -> Result<Committed> {
        let threads = self.own_commits().appends(&transaction);
        let committed = self.perform(transaction).await?;
        self.own_commits().tell(&threads, &committed);
        Ok(committed)
    }

    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>> {
        self.read(Rows::Few, move |db| threads::find(db, thread_id)).await
    }

    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        self.read(Rows::Many, move |db| threads::list(db, &filter)).await
    }

    async fn thread_count(&self, filter: ThreadFilter) -> Result<u64> {
        self.read(Rows::Many, move |db| threads::count_of(db, &filter)).await
    }

    async fn thread_size(&self, thread_id: ThreadId) -> Result<ThreadSize> {
        self.read(Rows::Many, move |db| events::size(db, thread_id)).await
    }

    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>> {
        let thread_ids = thread_ids.to_vec();
        self.read(Rows::Many, move |db| runs::tokens(db, &thread_ids)).await
    }

    async fn thread_states(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>> {
        let thread_ids = thread_ids.to_vec();
        self.read(Rows::Many, move |db| threads::states(db, &thread_ids)).await
    }

    async fn threads_by_prefix(&self, prefix: &str, scope: &Scope) -> Result<Vec<ThreadId>> {
        let (prefix, scope) = (prefix.to_owned(), scope.clone());
        self.read(Rows::Many, move |db| threads::by_prefix(db, &prefix, &scope)).await
    }

    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>> {
        self.read(Rows::up_to(query.limit), move |db| events::page(db, thread_id, &query)).await
    }

    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64> {
        self.read(Rows::Many, move |db| rewinds::messages_after(db, thread_id, seq)).await
    }

    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>> {
        let event_key = event_key.to_owned();
        self.read(Rows::Few, move |db| events::seq_of_key(db, thread_id, &event_key)).await
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        self.catch_up().await?;
        self.read(Rows::Many, move |db| search::find(db, &query)).await
    }

    async fn rank(&self, query: RankQuery) -> Result<Vec<Ranked>> {
        self.catch_up().await?;
        self.read(Rows::Many, move |db| search::rank(db, &query)).await
    }

    async fn run(&self, run_id: RunId) -> Result<Option<Run>> {
        self.read(Rows::Few, move |db| runs::find(db, run_id)).await
    }

    async fn runs_by_prefix(&self, prefix: &str, scope: &Scope) -> Result<Vec<RunId>> {
        let (prefix, scope) = (prefix.to_owned(), scope.clone());
        self.read(Rows::Few, move |db| runs::by_prefix(db, &prefix, &scope)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>> {
        self.read(Rows::Many, move |db| runs::list(db, &filter)).await
    }

    async fn run_requests(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
        let run_ids = run_ids.to_vec();
        self.read(Rows::Many, move |db| requests::list(db, &run_ids)).await
    }

    async fn run_metadata(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>> {
        let run_ids = run_ids.to_vec();
        self.read(Rows::Few, move |db| requests::notes(db, &run_ids)).await
    }

    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>> {
        self.read(Rows::Few, move |db| runs::newest(db, thread_id)).await
    }

    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        self.read(Rows::of_thread(thread_id), move |db| runs::queued(db, thread_id)).await
    }

    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        self.read(Rows::of_thread(thread_id), move |db| runs::active(db, thread_id)).await
    }

    async fn unclaimed(&self, query: Unclaimed) -> Result<Vec<Run>> {
        self.read(Rows::Many, move |db| claims::unclaimed(db, &query)).await
    }

    async fn replicas(&self) -> Result<Vec<Replica>> {
        self.read(Rows::Few, replicas::list).await
    }

    async fn clock(&self) -> Result<Timestamp> {
        self.now().await
    }

    fn reach(&self) -> Reach {
        Self::REACH
    }

    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>> {
        let question = move |db: &Connection<'_>| events::page_of_run(db, thread_id, run_id, after, limit);
        self.read(Rows::up_to(limit), question).await
    }

    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>> {
        let (run_ids, user_id) = (run_ids.to_vec(), user_id.to_owned());
        self.read(Rows::Few, move |db| feedback::list(db, thread_id, &run_ids, &user_id)).await
    }

    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
        self.read(Rows::Few, move |db| checkpoints::newest(db, thread_id)).await
    }

    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: Superseded,
    ) -> Result<Vec<StepPoint>> {
        self.read(Rows::Many, move |db| checkpoints::list(db, thread_id, before, limit, superseded)).await
    }

    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
        superseded: Superseded,
    ) -> Result<Option<(StepPoint, Map<String, Value>)>> {
        self.read(Rows::Many, move |db| checkpoints::at(db, thread_id, point, superseded)).await
    }

    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>> {
        let sha256 = sha256.to_owned();
        self.read(Rows::Many, move |db| artifacts::find(db, thread_id, &sha256)).await
    }

    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.read(Rows::Many, checkpoints::unfinished).await
    }

    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
        self.read(Rows::Few, move |db| interrupts::find(db, interrupt_id)).await
    }

    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        self.read(Rows::Few, move |db| interrupts::pending(db, thread_id)).await
    }

    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>> {
        self.read(Rows::Few, move |db| handoffs::find(db, handoff_id)).await
    }

    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>> {
        let rows = if filter.limit.is_some() { Rows::Few } else { Rows::Many };
        self.read(rows, move |db| handoffs::list(db, &filter)).await
    }

    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
        self.read(Rows::Few, move |db| handoffs::proposals(db, handoff_id)).await
    }

    async fn outbox(&self, query: OutboxQuery) -> Result<Vec<OutboxItem>> {
        self.read(Rows::up_to(query.limit), move |db| keyed::outbox(db, &query)).await
    }

    async fn outbox_waiting(&self, kind: &str, scope: Option<Scope>) -> Result<(u64, Option<Timestamp>)> {
        let kind = kind.to_owned();
        self.read(Rows::Many, move |db| keyed::outbox_waiting(db, &kind, scope.as_ref())).await
    }

    async fn outbox_item(&self, kind: &str, key: &str) -> Result<Option<OutboxItem>> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.read(Rows::Few, move |db| keyed::outbox_item(db, &kind, &key)).await
    }

    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedTurn>> {
        self.read(Rows::Many, move |db| turns::page(db, &query)).await
    }

    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>> {
        let rows = if query.offset == 0 { Rows::up_to(query.limit) } else { Rows::Many };
        self.read(rows, move |db| summaries::list(db, &query)).await
    }

    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts> {
        let agent_id = agent_id.clone();
        self.read(Rows::Many, move |db| summaries::counts(db, agent_id.as_str())).await
    }

    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<Item>> {
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.read(Rows::Few, move |db| items::find(db, &namespace, &key)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<FoundItem>> {
        self.read(Rows::Many, move |db| items::list(db, &query)).await
    }

    async fn namespaces(&self, query: NamespaceQuery) -> Result<Vec<Vec<String>>> {
        self.read(Rows::Many, move |db| items::namespaces(db, &query)).await
    }

    async fn index(&self) -> Result<()> {
        self.catch_up().await
    }

    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>> {
        let source_key = source_key.to_owned();
        self.read(Rows::Few, move |db| keyed::import_source(db, &source_key)).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        self.read(Rows::Many, keys::list).await
    }

    async fn key(&self, key_id: &str) -> Result<Option<ApiKey>> {
        let key_id = key_id.to_owned();
        self.read(Rows::Few, move |db| keys::find(db, &key_id)).await
    }

    async fn health(&self, depth: HealthDepth) -> Result<Health> {
        self.checked(depth).await
    }

    fn news(&self) -> News {
        self.heard()
    }

    fn commits(&self) -> Commits {
        self.own_commits().clone()
    }
}
