//! A store wrapper that aborts the process before or after one of its commits. It can also run an operation of another
//! process right before a commit, delay commits forever, and shift the clock. It forwards every call to the wrapped store.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use journal::{
    Artifact, CheckpointRef, CommitReceipt, EventQuery, EventVerification, FactQuery, HandoffFilter,
    HealthCheckDepth, ImportSource, IndexAnswer, IndexBacklog, IndexHit, ItemHit, ItemQuery, MemoryCounts,
    MemoryFact, NamespaceQuery, NotesRevision, NotesRevisionQuery, OutboxItem, OutboxQuery, RankQuery,
    RankedMessage, RunFilter, SearchQuery, Store, StoreHealth, StoredSummary, SummaryQuery,
    SupersededVisibility, ThreadFilter, ThreadSize, Transaction, TurnQuery, VerificationPosition, Write,
};
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointEntry, CheckpointId, Event, EventType, FactId, Handoff,
    HandoffId, Interrupt, InterruptId, LoggedMessage, OwnerScope, Proposal, Run, RunFeedback, RunId,
    RunRequest, Seq, Thread, ThreadId, ThreadState,
};
use serde_json::{Map, Value};

/// A store that aborts the process before or after one of its commits.
pub struct CrashingStore {
    inner: Arc<dyn Store>,
    /// The number of commits that have started.
    commits: AtomicUsize,
    /// The number of lookups of an event by its key.
    lookups: AtomicUsize,
    /// The number of logged messages that were read.
    turns_read: AtomicUsize,
    /// The number of `turns_archived` events that were read.
    archived_events_read: AtomicUsize,
    /// The crash boundary, numbered as in [`CrashingStore::crash_at`].
    crash_boundary: usize,
    /// An operation of another process that runs right before the next commit.
    before_next_commit: Mutex<Option<BoxFuture<'static, ()>>>,
    /// The lead of the store's clock over the machine's clock.
    clock_offset: Mutex<jiff::SignedDuration>,
    /// True if commits never return.
    is_hanging: AtomicBool,
    /// True if the store reports that other hosts can reach it.
    is_remote: AtomicBool,
    /// True if the disk becomes full with the commit of the next new thread.
    fills_with_thread: AtomicBool,
    /// True if every commit fails, because the disk is full.
    is_full: AtomicBool,
}

impl CrashingStore {
    /// Returns a store that aborts the process at `boundary`. Commits are numbered from 0: an even boundary lies before
    /// the commit `boundary / 2`, an odd boundary after it.
    pub fn crash_at(inner: Arc<dyn Store>, boundary: usize) -> Arc<Self> {
        Arc::new(Self {
            inner,
            commits: AtomicUsize::new(0),
            lookups: AtomicUsize::new(0),
            turns_read: AtomicUsize::new(0),
            archived_events_read: AtomicUsize::new(0),
            crash_boundary: boundary,
            before_next_commit: Mutex::default(),
            clock_offset: Mutex::default(),
            is_hanging: AtomicBool::new(false),
            is_remote: AtomicBool::new(false),
            fills_with_thread: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
        })
    }

    /// Returns a store that never aborts the process.
    pub fn never_crash(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::crash_at(inner, usize::MAX)
    }

    /// Sets the lead of the store's clock over the machine's clock.
    pub fn advance_clock(&self, offset: jiff::SignedDuration) {
        *self.clock_offset.lock().unwrap() = offset;
    }

    /// Makes the store report that it is on another machine. Other hosts may then reach it while this host cannot.
    pub fn set_remote(&self) {
        self.is_remote.store(true, Ordering::SeqCst);
    }

    /// Sets whether commits that start after this call never return.
    pub fn set_hanging(&self, is_hanging: bool) {
        self.is_hanging.store(is_hanging, Ordering::SeqCst);
    }

    /// Makes all commits fail after the one that creates the next thread, as if it had filled the disk.
    pub fn fill_with_next_thread(&self) {
        self.fills_with_thread.store(true, Ordering::SeqCst);
    }

    /// Frees the disk again.
    pub fn free_disk(&self) {
        self.is_full.store(false, Ordering::SeqCst);
    }

    /// Runs `operation`, which stands for another process, right before the next commit.
    pub fn before_next_commit(&self, operation: impl Future<Output = ()> + Send + 'static) {
        *self.before_next_commit.lock().unwrap() = Some(Box::pin(operation));
    }

    /// Returns the number of commits that have started.
    pub fn commit_count(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns the number of logged messages that were read.
    pub fn turns_read(&self) -> usize {
        self.turns_read.load(Ordering::SeqCst)
    }

    /// Returns the number of `turns_archived` events that were read.
    pub fn archived_events_read(&self) -> usize {
        self.archived_events_read.load(Ordering::SeqCst)
    }

    /// Returns the number of lookups of an event by its key.
    pub fn lookup_count(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for CrashingStore {
    async fn commit(&self, transaction: Transaction) -> journal::Result<CommitReceipt> {
        let operation = self.before_next_commit.lock().unwrap().take();
        if let Some(operation) = operation {
            operation.await;
        }
        if self.is_hanging.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.is_full.load(Ordering::SeqCst) {
            return Err(journal::Error::DiskFull { path: "/full/segue.db".into() });
        }
        let creates_thread = transaction.writes.iter().any(|write| matches!(write, Write::CreateThread(_)));
        if creates_thread && self.fills_with_thread.swap(false, Ordering::SeqCst) {
            self.is_full.store(true, Ordering::SeqCst);
        }
        let number = self.commits.fetch_add(1, Ordering::SeqCst);
        if self.crash_boundary == number * 2 {
            std::process::abort();
        }
        let receipt = self.inner.commit(transaction).await;
        if self.crash_boundary == number * 2 + 1 {
            std::process::abort();
        }
        receipt
    }
    async fn fact(&self, fact_id: FactId) -> journal::Result<Option<MemoryFact>> {
        self.inner.fact(fact_id).await
    }
    async fn facts(&self, query: FactQuery) -> journal::Result<Vec<MemoryFact>> {
        self.inner.facts(query).await
    }
    async fn notes_revisions(&self, query: NotesRevisionQuery) -> journal::Result<Vec<NotesRevision>> {
        self.inner.notes_revisions(query).await
    }
    async fn thread(&self, thread_id: ThreadId) -> journal::Result<Option<Thread>> {
        self.inner.thread(thread_id).await
    }
    async fn threads(&self, filter: ThreadFilter) -> journal::Result<Vec<Thread>> {
        self.inner.threads(filter).await
    }
    async fn thread_count(&self, filter: ThreadFilter, maximum: Option<u64>) -> journal::Result<u64> {
        self.inner.thread_count(filter, maximum).await
    }
    async fn thread_size(&self, thread_id: ThreadId) -> journal::Result<ThreadSize> {
        self.inner.thread_size(thread_id).await
    }
    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> journal::Result<Vec<(ThreadId, u64)>> {
        self.inner.thread_tokens(thread_ids).await
    }
    async fn thread_states(&self, thread_ids: &[ThreadId]) -> journal::Result<Vec<(ThreadId, ThreadState)>> {
        self.inner.thread_states(thread_ids).await
    }
    async fn runs_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> journal::Result<Vec<RunId>> {
        self.inner.runs_by_prefix(prefix, scope).await
    }
    async fn runs(&self, filter: RunFilter) -> journal::Result<Vec<Run>> {
        self.inner.runs(filter).await
    }
    async fn run_requests(&self, run_ids: &[RunId]) -> journal::Result<Vec<(RunId, RunRequest)>> {
        self.inner.run_requests(run_ids).await
    }
    async fn run_metadata(&self, run_ids: &[RunId]) -> journal::Result<Vec<(RunId, Map<String, Value>)>> {
        self.inner.run_metadata(run_ids).await
    }
    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> journal::Result<Vec<Run>> {
        self.inner.queued_runs(thread_id).await
    }
    async fn newest_run(&self, thread_id: ThreadId) -> journal::Result<Option<RunId>> {
        self.inner.newest_run(thread_id).await
    }
    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> journal::Result<Vec<Event>> {
        self.inner.run_events(thread_id, run_id, after, limit).await
    }
    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> journal::Result<Vec<RunFeedback>> {
        self.inner.feedback(thread_id, run_ids, user_id).await
    }
    async fn threads_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> journal::Result<Vec<ThreadId>> {
        self.inner.threads_by_prefix(prefix, scope).await
    }
    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> journal::Result<Vec<Event>> {
        let events = self.inner.events(thread_id, query).await?;
        let archived = events.iter().filter(|event| event.kind() == Some(EventType::TurnsArchived));
        self.archived_events_read.fetch_add(archived.count(), Ordering::SeqCst);
        Ok(events)
    }
    async fn verify_events(
        &self,
        position: VerificationPosition,
        limit: usize,
    ) -> journal::Result<EventVerification> {
        self.inner.verify_events(position, limit).await
    }
    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> journal::Result<u64> {
        self.inner.messages_after(thread_id, seq).await
    }
    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: SupersededVisibility,
    ) -> journal::Result<Vec<CheckpointEntry>> {
        self.inner.checkpoints(thread_id, before, limit, superseded).await
    }
    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
        superseded: SupersededVisibility,
    ) -> journal::Result<Option<(CheckpointEntry, Map<String, Value>)>> {
        self.inner.checkpoint_at(thread_id, point, superseded).await
    }
    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> journal::Result<Option<Artifact>> {
        self.inner.artifact(thread_id, sha256).await
    }
    async fn seq_of_event_key(&self, thread_id: ThreadId, event_key: &str) -> journal::Result<Option<Seq>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.inner.seq_of_event_key(thread_id, event_key).await
    }
    async fn search(&self, query: SearchQuery) -> journal::Result<IndexAnswer<IndexHit>> {
        self.inner.search(query).await
    }
    async fn rank_messages(&self, query: RankQuery) -> journal::Result<IndexAnswer<RankedMessage>> {
        self.inner.rank_messages(query).await
    }
    async fn run(&self, run_id: RunId) -> journal::Result<Option<Run>> {
        self.inner.run(run_id).await
    }
    async fn active_runs(&self, thread_id: Option<ThreadId>) -> journal::Result<Vec<Run>> {
        self.inner.active_runs(thread_id).await
    }
    async fn thread_with_checkpoint(
        &self,
        thread_id: ThreadId,
    ) -> journal::Result<Option<(Thread, Option<Checkpoint>)>> {
        self.inner.thread_with_checkpoint(thread_id).await
    }
    async fn checkpoint(&self, thread_id: ThreadId) -> journal::Result<Option<Checkpoint>> {
        self.inner.checkpoint(thread_id).await
    }
    async fn unfinished_checkpoints(&self) -> journal::Result<Vec<Checkpoint>> {
        self.inner.unfinished_checkpoints().await
    }
    async fn interrupt(&self, interrupt_id: InterruptId) -> journal::Result<Option<Interrupt>> {
        self.inner.interrupt(interrupt_id).await
    }
    async fn pending_interrupts(&self, thread_id: ThreadId) -> journal::Result<Vec<Interrupt>> {
        self.inner.pending_interrupts(thread_id).await
    }
    async fn last_decided_interrupt(&self, thread_id: ThreadId) -> journal::Result<Option<Interrupt>> {
        self.inner.last_decided_interrupt(thread_id).await
    }
    async fn handoff(&self, handoff_id: HandoffId) -> journal::Result<Option<Handoff>> {
        self.inner.handoff(handoff_id).await
    }
    async fn handoffs(&self, filter: HandoffFilter) -> journal::Result<Vec<Handoff>> {
        self.inner.handoffs(filter).await
    }
    async fn proposals(&self, handoff_id: HandoffId) -> journal::Result<Vec<Proposal>> {
        self.inner.proposals(handoff_id).await
    }
    async fn outbox(&self, query: OutboxQuery) -> journal::Result<Vec<OutboxItem>> {
        self.inner.outbox(query).await
    }
    async fn outbox_backlog(
        &self,
        kind: &str,
        scope: Option<OwnerScope>,
    ) -> journal::Result<(u64, Option<jiff::Timestamp>)> {
        self.inner.outbox_backlog(kind, scope).await
    }
    async fn outbox_item(&self, kind: &str, key: &str) -> journal::Result<Option<OutboxItem>> {
        self.inner.outbox_item(kind, key).await
    }
    async fn turns(&self, query: TurnQuery) -> journal::Result<Vec<LoggedMessage>> {
        let turns = self.inner.turns(query).await?;
        self.turns_read.fetch_add(turns.len(), Ordering::SeqCst);
        Ok(turns)
    }
    async fn summaries(&self, query: SummaryQuery) -> journal::Result<Vec<StoredSummary>> {
        self.inner.summaries(query).await
    }
    async fn memory_counts(&self, agent_id: &AssistantId) -> journal::Result<MemoryCounts> {
        self.inner.memory_counts(agent_id).await
    }
    async fn item(&self, namespace: &[String], key: &str) -> journal::Result<Option<protocol::StoredItem>> {
        self.inner.item(namespace, key).await
    }
    async fn items(&self, query: ItemQuery) -> journal::Result<Vec<ItemHit>> {
        self.inner.items(query).await
    }
    async fn namespaces(&self, query: NamespaceQuery) -> journal::Result<Vec<Vec<String>>> {
        self.inner.namespaces(query).await
    }
    async fn update_search_index(&self) -> journal::Result<()> {
        self.inner.update_search_index().await
    }

    fn set_embedder(&self, embedder: Arc<dyn journal::QuestionEmbedder>) {
        self.inner.set_embedder(embedder);
    }

    async fn unembedded_messages(
        &self,
        model: &str,
        limit: usize,
    ) -> journal::Result<journal::UnembeddedBatch> {
        self.inner.unembedded_messages(model, limit).await
    }

    async fn embedding_counts(
        &self,
        model: &str,
        scope: &OwnerScope,
    ) -> journal::Result<journal::EmbeddingCounts> {
        self.inner.embedding_counts(model, scope).await
    }

    fn start_index_update(&self) {
        self.inner.start_index_update();
    }

    async fn index_backlog(&self, scope: &OwnerScope) -> journal::Result<IndexBacklog> {
        self.inner.index_backlog(scope).await
    }
    async fn import_source(&self, source_key: &str) -> journal::Result<Option<ImportSource>> {
        self.inner.import_source(source_key).await
    }
    async fn api_keys(&self) -> journal::Result<Vec<ApiKey>> {
        self.inner.api_keys().await
    }
    async fn api_key(&self, key_id: &str) -> journal::Result<Option<ApiKey>> {
        self.inner.api_key(key_id).await
    }
    async fn unclaimed_runs(&self, query: journal::UnclaimedRunsQuery) -> journal::Result<Vec<Run>> {
        self.inner.unclaimed_runs(query).await
    }
    async fn unresolved_folders(&self) -> journal::Result<Vec<String>> {
        self.inner.unresolved_folders().await
    }
    async fn replicas(&self) -> journal::Result<Vec<journal::Replica>> {
        self.inner.replicas().await
    }
    async fn current_time(&self) -> journal::Result<jiff::Timestamp> {
        Ok(self.inner.current_time().await? + *self.clock_offset.lock().unwrap())
    }
    fn store_scope(&self) -> journal::StoreScope {
        match self.is_remote.load(Ordering::SeqCst) {
            true => journal::StoreScope::AnyHost,
            false => self.inner.store_scope(),
        }
    }
    fn commit_feed(&self) -> journal::CommitFeed {
        self.inner.commit_feed()
    }
    fn local_commits(&self) -> journal::LocalCommitFeed {
        self.inner.local_commits()
    }
    fn check_database(&self) -> journal::Result<()> {
        self.inner.check_database()
    }
    async fn health(&self, depth: HealthCheckDepth) -> journal::Result<StoreHealth> {
        self.inner.health(depth).await
    }
}
