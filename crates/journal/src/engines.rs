//! The interface of a storage engine, and the [`Store`] implementation on top of it. Each method of the store is
//! implemented once, as a query on the tables, and works with every engine.

pub(crate) mod apply;
pub(crate) mod postgres;
pub(crate) mod sql;
pub(crate) mod sqlite;

use std::any::Any;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointEntry, CheckpointId, Event, FactId, Handoff, HandoffId,
    Interrupt, InterruptId, LoggedMessage, OwnerScope, Proposal, Run, RunFeedback, RunId, RunRequest, Seq,
    StoredItem, Thread, ThreadId, ThreadState,
};
use serde_json::{Map, Value};

use self::sql::SqlConnection;
use crate::commit_feed::CommitFeed;
use crate::commit_feed::local::LocalCommitFeed;
use crate::tables::events::{self, rewinds, verification};
use crate::tables::keyed_rows::{self, api_keys};
use crate::tables::memory::{facts, items, revisions, summaries, turns};
use crate::tables::runs::{self, claims, feedback, requests};
use crate::tables::search::{IndexScope, ScopeIndexState};
use crate::tables::{artifacts, checkpoints, handoffs, interrupts, replicas, search, threads};
use crate::{
    Artifact, CheckpointRef, CommitReceipt, EmbeddingCounts, EmbeddingFailure, Error, EventQuery,
    EventVerification, FactQuery, HandoffFilter, HealthCheckDepth, ImportSource, IndexAnswer, IndexBacklog,
    IndexHit, ItemHit, ItemQuery, MeaningComparison, MemoryCounts, MemoryFact, NamespaceQuery, NotesRevision,
    NotesRevisionQuery, OTHER_DIMENSIONS, OutboxItem, OutboxQuery, QuestionEmbedder, QuestionMeaning,
    RankQuery, RankedMessage, Replica, Result, RunFilter, SearchQuery, Store, StoreHealth, StoreScope,
    StoredSummary, SummaryQuery, SupersededVisibility, ThreadFilter, ThreadSize, Transaction, TurnQuery,
    UnclaimedRunsQuery, UnembeddedBatch, VerificationPosition, WordMatchMode,
};

/// Maximum number of batches that a search adds to the index before it answers. A batch has at most 500 messages, so four
/// have room for the messages of any turn. On a laptop they take about 100 ms, so a search on a machine that is five times
/// slower still answers within a second.
const SEARCH_BATCHES_MAX: usize = 4;

/// The expected size of a read. An engine uses it to choose the thread on which it executes the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadSize {
    /// A few rows that an index finds. Reading them on the current thread takes less time than passing the query to
    /// another thread.
    Small,
    /// Possibly many rows, or a scan.
    Large,
    /// Possibly many rows, or a scan, which one statement reads.
    LargeStatement,
    /// A few rows, which one statement reads. It needs no transaction, because a statement sees one snapshot.
    OneStatement,
}

impl ReadSize {
    /// Maximum number of rows that counts as small.
    const SMALL_ROWS_MAX: usize = 100;

    /// Returns the size of a page with a row limit.
    const fn for_limit(limit: usize) -> Self {
        if limit <= Self::SMALL_ROWS_MAX { Self::Small } else { Self::Large }
    }

    /// Returns the size of a query with one statement that concerns one thread, or all threads if `thread_id` is `None`.
    const fn for_statement(thread_id: Option<ThreadId>) -> Self {
        if thread_id.is_some() { Self::OneStatement } else { Self::LargeStatement }
    }
}

/// The result of a query, without its type.
pub(crate) type ErasedResult = Box<dyn Any + Send>;

/// A query without its result type. The code that executes queries is then compiled once for each engine instead of
/// once for each query: retries, tasks and blocking threads for a hundred queries took a megabyte of the program.
pub(crate) type ErasedQuery = Box<dyn Fn(&SqlConnection<'_>) -> Result<ErasedResult> + Send>;

/// A storage engine: it executes transactions and reads, and publishes commits. It has no rules about the rows.
pub(crate) trait Engine: Send + Sync {
    /// Where the processes that share this database can run.
    const STORE_SCOPE: StoreScope;

    /// Applies the writes of a transaction atomically and returns once they are durable.
    fn perform_transaction(
        &self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<CommitReceipt>> + Send;

    /// Removes the rows of deleted threads that their deletion left, in transactions of limited size. If the call is
    /// cancelled or fails, they are removed in the background.
    fn purge_threads(&self, thread_keys: Vec<i64>) -> impl Future<Output = Result<()>> + Send;

    /// Executes a query on one snapshot of the database. The query may be executed again when a connection breaks, so
    /// it must have no other effect.
    fn read_erased(&self, rows: ReadSize, query: ErasedQuery) -> BoxFuture<'_, Result<ErasedResult>>;

    /// Like [`Self::read_erased`], with the result type of the query.
    fn read<T: Send + 'static>(
        &self,
        rows: ReadSize,
        query: impl Fn(&SqlConnection<'_>) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send {
        let query = move |db: &SqlConnection<'_>| query(db).map(|result| Box::new(result) as ErasedResult);
        let result = self.read_erased(rows, Box::new(query));
        async { Ok(*result.await?.downcast().expect("the query returns a boxed `T`")) }
    }

    /// Adds to the search index everything that was committed before this call.
    fn update_index(&self) -> impl Future<Output = Result<()>> + Send;

    /// Adds one batch of a scope to the search index. The scope is incomplete if the batch is full, or if another
    /// process keeps the index locked.
    fn index_scope_batch(
        &self,
        scope: Arc<IndexScope>,
    ) -> impl Future<Output = Result<ScopeIndexState>> + Send;

    /// Starts to add everything to the search index in the background, unless that is in progress. It stops when the
    /// store is dropped. A failure is logged.
    fn update_index_in_background(&self);

    /// Checks that the files of the database are those that were opened, and not truncated.
    fn check_files(&self) -> Result<()>;

    /// Returns the state of the database: counts and, at the other depths than [`HealthCheckDepth::Counts`], the problems
    /// found.
    fn check_health(&self, depth: HealthCheckDepth) -> impl Future<Output = Result<StoreHealth>> + Send;

    /// Returns the model that represents questions for searches.
    fn embedder(&self) -> &EmbedderCell;

    /// Returns the feed of the commits of this process.
    fn local_feed(&self) -> &LocalCommitFeed;

    /// Returns the feed of commits of other processes.
    fn remote_feed(&self) -> CommitFeed;

    /// Returns the current time of the clock that all processes of this database share.
    fn database_time(&self) -> impl Future<Output = Result<Timestamp>> + Send;
}

/// Adds the scope to the index as far as [`SEARCH_BATCHES_MAX`] and the space on the disk allow, and executes a query on
/// the index. If a part of the scope is missing, the index is completed in the background.
async fn query_index<E: Engine, T: Send + 'static>(
    engine: &E,
    scope: IndexScope,
    question: &str,
    query: impl Fn(&SqlConnection<'_>, Option<&QuestionMeaning>) -> Result<Vec<T>> + Send + 'static,
) -> Result<IndexAnswer<T>> {
    let scope = Arc::new(scope);
    let (state, meaning) =
        tokio::join!(index_for_search(engine, &scope), embed_question(engine.embedder(), question));
    let state = state?;
    let answer = engine
        .read(ReadSize::Large, move |db| {
            let backlog = match state {
                // Messages that were stored after the search began are not its concern.
                ScopeIndexState::Complete => IndexBacklog::default(),
                ScopeIndexState::Incomplete => search::scope_backlog(db, &scope)?,
            };
            let (meaning, comparison) = match &meaning {
                None => (None, MeaningComparison::Off),
                Some(Err(failure)) => {
                    (None, MeaningComparison::Unavailable { reason: failure.reason.clone() })
                }
                Some(Ok(meaning)) if search::embeddings::has_other_dimensions(db, meaning)? => (
                    None,
                    MeaningComparison::Unavailable {
                        reason: format!("failed to use the embedding model: {OTHER_DIMENSIONS}"),
                    },
                ),
                Some(Ok(meaning)) => {
                    let missing = search::missing_embeddings(db, &meaning.model, &scope)?;
                    (Some(meaning), MeaningComparison::Compared { missing })
                }
            };
            Ok(IndexAnswer { hits: query(db, meaning)?, backlog, meaning: comparison })
        })
        .await?;
    if state == ScopeIndexState::Incomplete {
        // It starts after the answer, because it would compete with the query.
        engine.update_index_in_background();
    }
    Ok(answer)
}

/// Returns a question whose meaning is compared, or an empty text: a single word is looked for as such.
fn question_with_meaning(words: &[String], question: &str) -> String {
    if words.len() < search::MEANING_WORDS_MIN { String::new() } else { question.to_owned() }
}

/// The model that represents questions for searches, once it is set.
pub(crate) type EmbedderCell = OnceLock<Arc<dyn QuestionEmbedder>>;

/// Returns the meaning of a question. `None` without a model, or without a question.
async fn embed_question(
    embedder: &EmbedderCell,
    question: &str,
) -> Option<std::result::Result<QuestionMeaning, EmbeddingFailure>> {
    let embedder = embedder.get().filter(|_| !question.is_empty())?;
    let embedding = embedder.embed_question(question).await;
    Some(embedding.map(|embedding| QuestionMeaning { model: embedder.model().to_owned(), embedding }))
}

/// Adds the scope to the index as far as [`SEARCH_BATCHES_MAX`] and the space on the disk allow.
async fn index_for_search<E: Engine>(engine: &E, scope: &Arc<IndexScope>) -> Result<ScopeIndexState> {
    // Most searches find the index up to date. They must not wait for a writer.
    let checked = Arc::clone(scope);
    if !engine.read(ReadSize::Small, move |db| search::is_scope_behind(db, &checked)).await? {
        return Ok(ScopeIndexState::Complete);
    }
    for _ in 0..SEARCH_BATCHES_MAX {
        match engine.index_scope_batch(Arc::clone(scope)).await {
            Ok(ScopeIndexState::Incomplete) => {}
            // What is indexed can be searched, and the answer tells how much is not. The update in the background logs the
            // failure.
            Err(Error::DiskFull { .. }) => break,
            outcome => return outcome,
        }
    }
    Ok(ScopeIndexState::Incomplete)
}

#[async_trait]
impl<E: Engine> Store for E {
    async fn commit(&self, transaction: Transaction) -> Result<CommitReceipt> {
        let appended = self.local_feed().appended_events(&transaction);
        let mut committed = self.perform_transaction(transaction).await?;
        self.local_feed().publish(appended, &committed);
        let unpurged = std::mem::take(&mut committed.deletions.unpurged_threads);
        if !unpurged.is_empty()
            && let Err(error) = self.purge_threads(unpurged).await
        {
            // The deletion is durable, and no read finds the rows that are left.
            tracing::warn!(%error, "failed to remove all rows of a deleted thread; they are removed later");
        }
        Ok(committed)
    }

    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>> {
        self.read(ReadSize::OneStatement, move |db| threads::find(db, thread_id)).await
    }

    async fn thread_with_checkpoint(
        &self,
        thread_id: ThreadId,
    ) -> Result<Option<(Thread, Option<Checkpoint>)>> {
        self.read(ReadSize::OneStatement, move |db| checkpoints::thread_with_checkpoint(db, thread_id)).await
    }

    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        self.read(ReadSize::Large, move |db| threads::list_threads(db, &filter)).await
    }

    async fn thread_count(&self, filter: ThreadFilter, maximum: Option<u64>) -> Result<u64> {
        self.read(ReadSize::Large, move |db| threads::count_threads(db, &filter, maximum)).await
    }

    async fn thread_size(&self, thread_id: ThreadId) -> Result<ThreadSize> {
        self.read(ReadSize::Large, move |db| events::thread_size(db, thread_id)).await
    }

    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>> {
        let thread_ids = thread_ids.to_vec();
        self.read(ReadSize::Large, move |db| runs::thread_tokens(db, &thread_ids)).await
    }

    async fn thread_states(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>> {
        let thread_ids = thread_ids.to_vec();
        self.read(ReadSize::Large, move |db| threads::thread_states(db, &thread_ids)).await
    }

    async fn threads_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> Result<Vec<ThreadId>> {
        let (prefix, scope) = (prefix.to_owned(), scope.clone());
        self.read(ReadSize::Large, move |db| threads::ids_by_prefix(db, &prefix, &scope)).await
    }

    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>> {
        if Self::STORE_SCOPE == StoreScope::AnyHost {
            // A statement is a round trip. Few threads were rewound, so the first one suffices for most pages.
            let first = query.clone();
            let read_page = move |db: &SqlConnection<'_>| events::unrewound_page(db, thread_id, &first);
            if let Some(page) = self.read(ReadSize::OneStatement, read_page).await? {
                return Ok(page);
            }
        }
        self.read(ReadSize::for_limit(query.limit), move |db| events::thread_page(db, thread_id, &query))
            .await
    }

    async fn verify_events(&self, position: VerificationPosition, limit: usize) -> Result<EventVerification> {
        self.read(ReadSize::LargeStatement, move |db| verification::verify_batch(db, position, limit)).await
    }

    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64> {
        self.read(ReadSize::Large, move |db| rewinds::message_count_after(db, thread_id, seq)).await
    }

    async fn seq_of_event_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>> {
        let event_key = event_key.to_owned();
        self.read(ReadSize::Small, move |db| events::seq_of_event_key(db, thread_id, &event_key)).await
    }

    async fn search(&self, query: SearchQuery) -> Result<IndexAnswer<IndexHit>> {
        let scope = IndexScope::Search(query.clone());
        // Only messages have embeddings, and a phrase is looked for as such.
        let question = match query.match_mode == WordMatchMode::Any && scope.includes_messages() {
            true => question_with_meaning(&query.words, &query.question),
            false => String::new(),
        };
        query_index(self, scope, &question, move |db, meaning| search::search(db, &query, meaning)).await
    }

    async fn rank_messages(&self, query: RankQuery) -> Result<IndexAnswer<RankedMessage>> {
        let scope = IndexScope::Threads(query.threads.iter().map(|thread| thread.thread_id).collect());
        let question = question_with_meaning(&query.words, &query.question);
        query_index(self, scope, &question, move |db, meaning| search::rank_messages(db, &query, meaning))
            .await
    }

    async fn run(&self, run_id: RunId) -> Result<Option<Run>> {
        self.read(ReadSize::OneStatement, move |db| runs::find(db, run_id)).await
    }

    async fn runs_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> Result<Vec<RunId>> {
        let (prefix, scope) = (prefix.to_owned(), scope.clone());
        self.read(ReadSize::Small, move |db| runs::ids_by_prefix(db, &prefix, &scope)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>> {
        self.read(ReadSize::Large, move |db| runs::list(db, &filter)).await
    }

    async fn run_requests(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
        let run_ids = run_ids.to_vec();
        self.read(ReadSize::Large, move |db| requests::list(db, &run_ids)).await
    }

    async fn run_metadata(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>> {
        let run_ids = run_ids.to_vec();
        self.read(ReadSize::Small, move |db| requests::list_metadata(db, &run_ids)).await
    }

    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>> {
        self.read(ReadSize::OneStatement, move |db| runs::newest_run_id(db, thread_id)).await
    }

    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        self.read(ReadSize::for_statement(thread_id), move |db| runs::list_queued(db, thread_id)).await
    }

    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        self.read(ReadSize::for_statement(thread_id), move |db| runs::list_active(db, thread_id)).await
    }

    async fn unclaimed_runs(&self, query: UnclaimedRunsQuery) -> Result<Vec<Run>> {
        self.read(ReadSize::LargeStatement, move |db| claims::list_unclaimed(db, &query)).await
    }

    async fn unresolved_folders(&self) -> Result<Vec<String>> {
        self.read(ReadSize::Small, threads::projects::unresolved_folders).await
    }

    async fn replicas(&self) -> Result<Vec<Replica>> {
        self.read(ReadSize::OneStatement, replicas::list).await
    }

    async fn current_time(&self) -> Result<Timestamp> {
        self.database_time().await
    }

    fn store_scope(&self) -> StoreScope {
        Self::STORE_SCOPE
    }

    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>> {
        let read_page = move |db: &SqlConnection<'_>| events::run_page(db, thread_id, run_id, after, limit);
        self.read(ReadSize::for_limit(limit), read_page).await
    }

    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>> {
        let (run_ids, user_id) = (run_ids.to_vec(), user_id.to_owned());
        self.read(ReadSize::Small, move |db| feedback::list(db, thread_id, &run_ids, &user_id)).await
    }

    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
        self.read(ReadSize::OneStatement, move |db| checkpoints::newest_checkpoint(db, thread_id)).await
    }

    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: SupersededVisibility,
    ) -> Result<Vec<CheckpointEntry>> {
        self.read(ReadSize::Large, move |db| {
            checkpoints::list_points(db, thread_id, before, limit, superseded)
        })
        .await
    }

    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        reference: CheckpointRef,
        superseded: SupersededVisibility,
    ) -> Result<Option<(CheckpointEntry, Map<String, Value>)>> {
        self.read(ReadSize::Large, move |db| checkpoints::find_point(db, thread_id, reference, superseded))
            .await
    }

    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>> {
        let sha256 = sha256.to_owned();
        self.read(ReadSize::Large, move |db| artifacts::find(db, thread_id, &sha256)).await
    }

    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.read(ReadSize::Large, checkpoints::unfinished_checkpoints).await
    }

    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
        self.read(ReadSize::OneStatement, move |db| interrupts::find(db, interrupt_id)).await
    }

    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        self.read(ReadSize::OneStatement, move |db| interrupts::pending_interrupts(db, thread_id)).await
    }

    async fn last_decided_interrupt(&self, thread_id: ThreadId) -> Result<Option<Interrupt>> {
        self.read(ReadSize::OneStatement, move |db| interrupts::last_decided_interrupt(db, thread_id)).await
    }

    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>> {
        self.read(ReadSize::OneStatement, move |db| handoffs::find(db, handoff_id)).await
    }

    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>> {
        let rows = if filter.limit.is_some() { ReadSize::Small } else { ReadSize::Large };
        self.read(rows, move |db| handoffs::list(db, &filter)).await
    }

    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
        self.read(ReadSize::Small, move |db| handoffs::proposals(db, handoff_id)).await
    }

    async fn outbox(&self, query: OutboxQuery) -> Result<Vec<OutboxItem>> {
        self.read(ReadSize::for_limit(query.limit), move |db| keyed_rows::list_outbox(db, &query)).await
    }

    async fn outbox_backlog(
        &self,
        kind: &str,
        scope: Option<OwnerScope>,
    ) -> Result<(u64, Option<Timestamp>)> {
        let kind = kind.to_owned();
        self.read(ReadSize::Large, move |db| keyed_rows::outbox_backlog(db, &kind, scope.as_ref())).await
    }

    async fn outbox_item(&self, kind: &str, key: &str) -> Result<Option<OutboxItem>> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.read(ReadSize::OneStatement, move |db| keyed_rows::outbox_item(db, &kind, &key)).await
    }

    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedMessage>> {
        self.read(ReadSize::Large, move |db| turns::turn_page(db, &query)).await
    }

    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>> {
        let rows = match (query.offset, ReadSize::for_limit(query.limit)) {
            (0, ReadSize::Small) if query.adjacent_thread().is_some() => ReadSize::OneStatement,
            (0, rows) => rows,
            _ => ReadSize::Large,
        };
        self.read(rows, move |db| summaries::list(db, &query)).await
    }

    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts> {
        let agent_id = agent_id.clone();
        self.read(ReadSize::Large, move |db| summaries::memory_counts(db, agent_id.as_str())).await
    }

    async fn fact(&self, fact_id: FactId) -> Result<Option<MemoryFact>> {
        self.read(ReadSize::OneStatement, move |db| facts::find(db, fact_id)).await
    }

    async fn facts(&self, query: FactQuery) -> Result<Vec<MemoryFact>> {
        self.read(ReadSize::Large, move |db| facts::list(db, &query)).await
    }

    async fn notes_revisions(&self, query: NotesRevisionQuery) -> Result<Vec<NotesRevision>> {
        self.read(ReadSize::Large, move |db| revisions::list(db, &query)).await
    }

    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<StoredItem>> {
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.read(ReadSize::Small, move |db| items::find(db, &namespace, &key)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<ItemHit>> {
        self.read(ReadSize::Large, move |db| items::list(db, &query)).await
    }

    async fn namespaces(&self, query: NamespaceQuery) -> Result<Vec<Vec<String>>> {
        self.read(ReadSize::Large, move |db| items::namespaces(db, &query)).await
    }

    fn set_embedder(&self, embedder: Arc<dyn QuestionEmbedder>) {
        // Later calls have no effect.
        let _ = self.embedder().set(embedder);
    }

    async fn unembedded_messages(&self, model: &str, limit: usize) -> Result<UnembeddedBatch> {
        let model = model.to_owned();
        self.read(ReadSize::Large, move |db| search::embeddings::list_unembedded(db, &model, limit)).await
    }

    async fn embedding_counts(&self, model: &str, scope: &OwnerScope) -> Result<EmbeddingCounts> {
        let (model, scope) = (model.to_owned(), scope.clone());
        self.read(ReadSize::Large, move |db| search::embeddings::count_embeddings(db, &model, &scope)).await
    }

    async fn update_search_index(&self) -> Result<()> {
        self.update_index().await
    }

    fn start_index_update(&self) {
        self.update_index_in_background();
    }

    async fn index_backlog(&self, scope: &OwnerScope) -> Result<IndexBacklog> {
        let query = SearchQuery { scope: Some(scope.clone()), ..SearchQuery::default() };
        let scope = IndexScope::Search(query);
        self.read(ReadSize::Large, move |db| search::scope_backlog(db, &scope)).await
    }

    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>> {
        let source_key = source_key.to_owned();
        self.read(ReadSize::OneStatement, move |db| keyed_rows::import_source(db, &source_key)).await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        self.read(ReadSize::Large, api_keys::list).await
    }

    async fn api_key(&self, key_id: &str) -> Result<Option<ApiKey>> {
        let key_id = key_id.to_owned();
        self.read(ReadSize::OneStatement, move |db| api_keys::find(db, &key_id)).await
    }

    fn check_database(&self) -> Result<()> {
        self.check_files()
    }

    async fn health(&self, depth: HealthCheckDepth) -> Result<StoreHealth> {
        self.check_health(depth).await
    }

    fn commit_feed(&self) -> CommitFeed {
        self.remote_feed()
    }

    fn local_commits(&self) -> LocalCommitFeed {
        self.local_feed().clone()
    }
}
