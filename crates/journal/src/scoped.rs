//! A store that is restricted to one owner scope, on top of an unrestricted store. Rows of other owners are treated
//! as missing. The scope of a caller is determined by authentication, not here.
//!
//! A thread belongs to the owner of its assistant. All other rows belong to a thread or name an assistant, except
//! rows that are stored under names of the owner ([`owner_prefix`]). Lists are filtered by scope in the query, so
//! that pages are full. Single rows are checked here, and positive results are cached, because the owner of a thread
//! or run never changes.

mod owner_prefix;
mod scope_cache;
mod write_check;
mod write_requirements;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointEntry, CheckpointId, Event, FactId, Handoff, HandoffId,
    Interrupt, InterruptId, LoggedMessage, OwnerScope, Proposal, Run, RunFeedback, RunId, RunRequest,
    RunStatus, Seq, StoredItem, Thread, ThreadId, ThreadState, UserId,
};
use serde_json::{Map, Value};

use self::owner_prefix::OwnerPrefix;
use self::scope_cache::ScopeCache;
use crate::{
    Artifact, CheckpointRef, CommitFeed, CommitReceipt, EmbeddingCounts, EventQuery, EventVerification,
    FactQuery, HandoffFilter, HealthCheckDepth, HitLocation, ImportSource, IndexAnswer, IndexBacklog,
    IndexHit, ItemHit, ItemQuery, LocalCommitFeed, MemoryCounts, MemoryFact, NamespaceQuery, NotesRevision,
    NotesRevisionQuery, OutboxItem, OutboxQuery, PAGE_ROWS_MAX, QuestionEmbedder, RankQuery, RankedMessage,
    Replica, Result, RunFilter, SearchQuery, Store, StoreHealth, StoreScope, StoredSummary, SummaryQuery,
    SupersededVisibility, ThreadFilter, ThreadSize, Transaction, TurnQuery, UnclaimedRunsQuery,
    UnembeddedBatch, VerificationPosition,
};

/// A store that shows and changes only rows of a scope. A thread of another owner is indistinguishable from a missing
/// one: reads return nothing, and writes fail with [`crate::Error::NotFound`].
pub struct ScopedStore {
    /// The unrestricted store.
    inner: Arc<dyn Store>,
    /// The scope.
    scope: OwnerScope,
    /// Adds and removes the owner's prefix of names.
    prefix: OwnerPrefix,
    /// Threads and runs that are known to be in the scope.
    cache: ScopeCache,
}

/// The relation of a row to the scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// The row is in the scope.
    Own,
    /// The row exists and is not in the scope.
    Foreign,
    /// The row does not exist.
    Missing,
}

impl ScopedStore {
    /// Restricts a store to a scope. [`OwnerScope::Everyone`] does not restrict it.
    pub fn new(store: Arc<dyn Store>, scope: OwnerScope) -> Self {
        let prefix = OwnerPrefix::for_scope(&scope);
        Self { inner: store, scope, prefix, cache: ScopeCache::default() }
    }

    /// Returns whether a thread is in the scope, foreign or missing.
    async fn thread_ownership(&self, thread_id: ThreadId) -> Result<Ownership> {
        if self.scope == OwnerScope::Everyone || self.cache.has_thread(thread_id) {
            return Ok(Ownership::Own);
        }
        Ok(match self.inner.thread(thread_id).await? {
            None => Ownership::Missing,
            Some(thread) if self.scope.can_access(&thread.assistant_id) => {
                self.cache.add_thread(thread_id);
                Ownership::Own
            }
            Some(_) => Ownership::Foreign,
        })
    }

    /// Returns whether a thread is in the scope.
    async fn has_thread(&self, thread_id: ThreadId) -> Result<bool> {
        Ok(self.thread_ownership(thread_id).await? == Ownership::Own)
    }

    /// Returns the thread id if the thread is in the scope, and [`NO_THREAD`] otherwise.
    async fn thread_in_scope(&self, thread_id: ThreadId) -> Result<ThreadId> {
        Ok(if self.has_thread(thread_id).await? { thread_id } else { NO_THREAD })
    }

    /// Returns whether a run is in the scope.
    async fn has_run(&self, run_id: RunId) -> Result<bool> {
        if self.scope == OwnerScope::Everyone || self.cache.has_run(run_id) {
            return Ok(true);
        }
        Ok(self.run(run_id).await?.is_some())
    }

    /// Returns whether a handoff is in the scope.
    async fn has_handoff(&self, handoff_id: HandoffId) -> Result<bool> {
        if self.scope == OwnerScope::Everyone || self.cache.has_handoff(handoff_id) {
            return Ok(true);
        }
        Ok(self.handoff(handoff_id).await?.is_some())
    }

    /// Returns those of the threads that are in the scope.
    async fn threads_in_scope(&self, thread_ids: &[ThreadId]) -> Result<Vec<ThreadId>> {
        let mut in_scope = Vec::with_capacity(thread_ids.len());
        for thread_id in thread_ids {
            if self.has_thread(*thread_id).await? {
                in_scope.push(*thread_id);
            }
        }
        Ok(in_scope)
    }

    /// Returns those of the runs that are in the scope.
    async fn run_ids_in_scope(&self, run_ids: &[RunId]) -> Result<Vec<RunId>> {
        let mut in_scope = Vec::with_capacity(run_ids.len());
        for run_id in run_ids {
            if self.has_run(*run_id).await? {
                in_scope.push(*run_id);
            }
        }
        Ok(in_scope)
    }

    /// Returns all runs of the scope with a status, oldest first.
    async fn runs_with_status(&self, status: RunStatus) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        loop {
            let (scope, statuses) = (Some(self.scope.clone()), vec![status]);
            let page =
                RunFilter { scope, statuses, offset: runs.len(), limit: PAGE_ROWS_MAX, thread_id: None };
            let page = self.inner.runs(page).await?;
            let is_last = page.len() < PAGE_ROWS_MAX;
            runs.extend(page);
            if is_last {
                break;
            }
        }
        runs.sort_by_key(|run| (run.created_at, run.run_id));
        Ok(self.retain_runs_in_scope(runs))
    }

    /// Returns those of the runs that are in the scope, and caches them.
    fn retain_runs_in_scope(&self, mut runs: Vec<Run>) -> Vec<Run> {
        runs.retain(|run| self.scope.can_access(&run.assistant_id));
        for run in &runs {
            self.cache.add_run(run.run_id);
        }
        runs
    }
}

#[async_trait]
impl Store for ScopedStore {
    async fn commit(&self, transaction: Transaction) -> Result<CommitReceipt> {
        if self.scope == OwnerScope::Everyone {
            return self.inner.commit(transaction).await;
        }
        self.commit_in_scope(transaction).await
    }

    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>> {
        let thread = self.inner.thread(thread_id).await?;
        let in_scope = thread.filter(|thread| self.scope.can_access(&thread.assistant_id));
        if in_scope.is_some() {
            self.cache.add_thread(thread_id);
        }
        Ok(in_scope)
    }

    async fn thread_with_checkpoint(
        &self,
        thread_id: ThreadId,
    ) -> Result<Option<(Thread, Option<Checkpoint>)>> {
        let found = self.inner.thread_with_checkpoint(thread_id).await?;
        let in_scope = found.filter(|(thread, _)| self.scope.can_access(&thread.assistant_id));
        if in_scope.is_some() {
            self.cache.add_thread(thread_id);
        }
        Ok(in_scope)
    }

    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        self.inner.threads(ThreadFilter { scope: self.narrow_optional_scope(filter.scope), ..filter }).await
    }

    async fn thread_count(&self, filter: ThreadFilter, maximum: Option<u64>) -> Result<u64> {
        self.inner
            .thread_count(ThreadFilter { scope: self.narrow_optional_scope(filter.scope), ..filter }, maximum)
            .await
    }

    async fn thread_size(&self, thread_id: ThreadId) -> Result<ThreadSize> {
        self.inner.thread_size(self.thread_in_scope(thread_id).await?).await
    }

    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>> {
        let in_scope = self.threads_in_scope(thread_ids).await?;
        self.inner.thread_tokens(&in_scope).await
    }

    async fn thread_states(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>> {
        let in_scope = self.threads_in_scope(thread_ids).await?;
        self.inner.thread_states(&in_scope).await
    }

    async fn threads_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> Result<Vec<ThreadId>> {
        self.inner.threads_by_prefix(prefix, self.narrow_scope(scope)).await
    }

    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>> {
        self.inner.events(self.thread_in_scope(thread_id).await?, query).await
    }

    async fn verify_events(
        &self,
        _position: VerificationPosition,
        _limit: usize,
    ) -> Result<EventVerification> {
        Ok(EventVerification::default())
    }

    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64> {
        self.inner.messages_after(self.thread_in_scope(thread_id).await?, seq).await
    }

    async fn seq_of_event_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>> {
        self.inner.seq_of_event_key(self.thread_in_scope(thread_id).await?, event_key).await
    }

    async fn search(&self, query: SearchQuery) -> Result<IndexAnswer<IndexHit>> {
        let mut answer = self
            .inner
            .search(SearchQuery { scope: self.narrow_optional_scope(query.scope), ..query })
            .await?;
        for hit in &mut answer.hits {
            if let HitLocation::Item { namespace, .. } = &mut hit.location {
                self.prefix.strip(namespace);
            }
        }
        Ok(answer)
    }

    async fn rank_messages(&self, mut query: RankQuery) -> Result<IndexAnswer<RankedMessage>> {
        let mut in_scope = Vec::with_capacity(query.threads.len());
        for thread in query.threads {
            if self.has_thread(thread.thread_id).await? {
                in_scope.push(thread);
            }
        }
        query.threads = in_scope;
        self.inner.rank_messages(query).await
    }

    async fn run(&self, run_id: RunId) -> Result<Option<Run>> {
        let run = self.inner.run(run_id).await?.filter(|run| self.scope.can_access(&run.assistant_id));
        if run.is_some() {
            self.cache.add_run(run_id);
        }
        Ok(run)
    }

    async fn runs_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> Result<Vec<RunId>> {
        self.inner.runs_by_prefix(prefix, self.narrow_scope(scope)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>> {
        let runs =
            self.inner.runs(RunFilter { scope: self.narrow_optional_scope(filter.scope), ..filter }).await?;
        Ok(self.retain_runs_in_scope(runs))
    }

    async fn run_requests(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
        self.inner.run_requests(&self.run_ids_in_scope(run_ids).await?).await
    }

    async fn run_metadata(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>> {
        self.inner.run_metadata(&self.run_ids_in_scope(run_ids).await?).await
    }

    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>> {
        self.inner.newest_run(self.thread_in_scope(thread_id).await?).await
    }

    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        match thread_id {
            Some(_) => Ok(self.retain_runs_in_scope(self.inner.queued_runs(thread_id).await?)),
            None => self.runs_with_status(RunStatus::Pending).await,
        }
    }

    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        match thread_id {
            Some(_) => Ok(self.retain_runs_in_scope(self.inner.active_runs(thread_id).await?)),
            None => self.runs_with_status(RunStatus::Running).await,
        }
    }

    async fn unclaimed_runs(&self, query: UnclaimedRunsQuery) -> Result<Vec<Run>> {
        let runs = self.inner.unclaimed_runs(query).await?;
        Ok(self.retain_runs_in_scope(runs))
    }

    async fn unresolved_folders(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn replicas(&self) -> Result<Vec<Replica>> {
        self.inner.replicas().await
    }

    async fn current_time(&self) -> Result<Timestamp> {
        self.inner.current_time().await
    }

    fn store_scope(&self) -> StoreScope {
        self.inner.store_scope()
    }

    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.inner.run_events(self.thread_in_scope(thread_id).await?, run_id, after, limit).await
    }

    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>> {
        self.inner.feedback(self.thread_in_scope(thread_id).await?, run_ids, user_id).await
    }

    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
        self.inner.checkpoint(self.thread_in_scope(thread_id).await?).await
    }

    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: SupersededVisibility,
    ) -> Result<Vec<CheckpointEntry>> {
        self.inner.checkpoints(self.thread_in_scope(thread_id).await?, before, limit, superseded).await
    }

    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        reference: CheckpointRef,
        superseded: SupersededVisibility,
    ) -> Result<Option<(CheckpointEntry, Map<String, Value>)>> {
        self.inner.checkpoint_at(self.thread_in_scope(thread_id).await?, reference, superseded).await
    }

    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>> {
        self.inner.artifact(self.thread_in_scope(thread_id).await?, sha256).await
    }

    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let mut in_scope = Vec::new();
        for checkpoint in self.inner.unfinished_checkpoints().await? {
            if self.has_thread(checkpoint.thread_id).await? {
                in_scope.push(checkpoint);
            }
        }
        Ok(in_scope)
    }

    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
        match self.inner.interrupt(interrupt_id).await? {
            Some(interrupt) if self.has_thread(interrupt.thread_id).await? => Ok(Some(interrupt)),
            Some(_) | None => Ok(None),
        }
    }

    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        self.inner.pending_interrupts(self.thread_in_scope(thread_id).await?).await
    }

    async fn last_decided_interrupt(&self, thread_id: ThreadId) -> Result<Option<Interrupt>> {
        self.inner.last_decided_interrupt(self.thread_in_scope(thread_id).await?).await
    }

    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>> {
        let handoff = self.inner.handoff(handoff_id).await?;
        let in_scope = handoff.filter(|handoff| self.scope.can_access(&handoff.assistant_id));
        if in_scope.is_some() {
            self.cache.add_handoff(handoff_id);
        }
        Ok(in_scope)
    }

    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>> {
        self.inner.handoffs(HandoffFilter { scope: self.narrow_optional_scope(filter.scope), ..filter }).await
    }

    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
        match self.has_handoff(handoff_id).await? {
            true => self.inner.proposals(handoff_id).await,
            false => Ok(Vec::new()),
        }
    }

    async fn outbox(&self, mut query: OutboxQuery) -> Result<Vec<OutboxItem>> {
        query.scope = self.narrow_optional_scope(query.scope);
        if let Some(after) = &mut query.after
            && let Some(stored_key) = self.prefix.stored_key(&after.key)
        {
            after.key = stored_key.into_owned();
        }
        let items = self.inner.outbox(query).await?.into_iter();
        Ok(items
            .filter_map(|item| Some(OutboxItem { key: self.prefix.visible_key(&item.key)?, ..item }))
            .collect())
    }

    async fn outbox_backlog(
        &self,
        kind: &str,
        scope: Option<OwnerScope>,
    ) -> Result<(u64, Option<Timestamp>)> {
        self.inner.outbox_backlog(kind, self.narrow_optional_scope(scope)).await
    }

    async fn outbox_item(&self, kind: &str, key: &str) -> Result<Option<OutboxItem>> {
        let Some(stored_key) = self.prefix.stored_key(key) else { return Ok(None) };
        let item = self.inner.outbox_item(kind, &stored_key).await?;
        Ok(item.map(|item| OutboxItem { key: key.to_owned(), ..item }))
    }

    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedMessage>> {
        match self.scope.can_access(&query.agent_id) {
            true => self.inner.turns(query).await,
            false => Ok(Vec::new()),
        }
    }

    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>> {
        match self.scope.can_access(&query.agent_id) {
            true => self.inner.summaries(query).await,
            false => Ok(Vec::new()),
        }
    }

    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts> {
        match self.scope.can_access(agent_id) {
            true => self.inner.memory_counts(agent_id).await,
            false => Ok(MemoryCounts::default()),
        }
    }

    async fn fact(&self, fact_id: FactId) -> Result<Option<MemoryFact>> {
        let fact = self.inner.fact(fact_id).await?;
        Ok(fact.filter(|fact| self.scope.can_access(&fact.agent_id)))
    }

    async fn facts(&self, query: FactQuery) -> Result<Vec<MemoryFact>> {
        match self.scope.can_access(&query.agent_id) {
            true => self.inner.facts(query).await,
            false => Ok(Vec::new()),
        }
    }

    async fn notes_revisions(&self, query: NotesRevisionQuery) -> Result<Vec<NotesRevision>> {
        match self.scope.can_access(&query.agent_id) {
            true => self.inner.notes_revisions(query).await,
            false => Ok(Vec::new()),
        }
    }

    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<StoredItem>> {
        let Some(stored_namespace) = self.prefix.stored_namespace(namespace) else { return Ok(None) };
        let item = self.inner.item(&stored_namespace, key).await?;
        Ok(item.map(|item| StoredItem { namespace: namespace.to_owned(), ..item }))
    }

    async fn items(&self, mut query: ItemQuery) -> Result<Vec<ItemHit>> {
        query.scope = self.narrow_optional_scope(query.scope);
        self.prefix.prepend(&mut query.prefix);
        let mut hits = self.inner.items(query).await?;
        for hit in &mut hits {
            self.prefix.strip(&mut hit.item.namespace);
        }
        Ok(hits)
    }

    async fn namespaces(&self, mut query: NamespaceQuery) -> Result<Vec<Vec<String>>> {
        query.scope = self.narrow_optional_scope(query.scope);
        self.prefix.prepend_to_namespaces(&mut query);
        let mut namespaces = self.inner.namespaces(query).await?;
        for namespace in &mut namespaces {
            self.prefix.strip(namespace);
        }
        Ok(namespaces)
    }

    fn set_embedder(&self, embedder: Arc<dyn QuestionEmbedder>) {
        self.inner.set_embedder(embedder);
    }

    async fn unembedded_messages(&self, _: &str, _: usize) -> Result<UnembeddedBatch> {
        Ok(UnembeddedBatch::default())
    }

    async fn embedding_counts(&self, model: &str, scope: &OwnerScope) -> Result<EmbeddingCounts> {
        self.inner.embedding_counts(model, self.narrow_scope(scope)).await
    }

    async fn update_search_index(&self) -> Result<()> {
        self.inner.update_search_index().await
    }

    fn start_index_update(&self) {
        self.inner.start_index_update();
    }

    async fn index_backlog(&self, scope: &OwnerScope) -> Result<IndexBacklog> {
        self.inner.index_backlog(self.narrow_scope(scope)).await
    }

    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>> {
        let Some(stored_key) = self.prefix.stored_key(source_key) else { return Ok(None) };
        let source = self.inner.import_source(&stored_key).await?;
        Ok(source.map(|source| ImportSource { source_key: source_key.to_owned(), ..source }))
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        let mut keys = self.inner.api_keys().await?;
        keys.retain(|key| self.can_access_keys_of(&key.user_id));
        Ok(keys)
    }

    async fn api_key(&self, key_id: &str) -> Result<Option<ApiKey>> {
        Ok(self.inner.api_key(key_id).await?.filter(|key| self.can_access_keys_of(&key.user_id)))
    }

    fn check_database(&self) -> Result<()> {
        self.inner.check_database()
    }

    async fn health(&self, depth: HealthCheckDepth) -> Result<StoreHealth> {
        self.inner.health(depth).await
    }

    fn commit_feed(&self) -> CommitFeed {
        self.inner.commit_feed()
    }

    fn local_commits(&self) -> LocalCommitFeed {
        self.inner.local_commits()
    }
}

/// The id of a thread that does not exist. A read with this id returns nothing, but still fails if the query itself
/// is invalid.
const NO_THREAD: ThreadId = ThreadId::from_uuid(uuid::Uuid::nil());

impl ScopedStore {
    /// Returns the scope to use for a request: the store's own scope if it is restricted, the requested scope
    /// otherwise.
    fn narrow_optional_scope(&self, requested: Option<OwnerScope>) -> Option<OwnerScope> {
        match self.scope {
            OwnerScope::Everyone => requested,
            OwnerScope::Owner(_) => Some(self.scope.clone()),
        }
    }

    /// Returns the scope to use for a request, like [`Self::narrow_optional_scope`].
    const fn narrow_scope<'a>(&'a self, requested: &'a OwnerScope) -> &'a OwnerScope {
        match self.scope {
            OwnerScope::Everyone => requested,
            OwnerScope::Owner(_) => &self.scope,
        }
    }

    /// Returns whether the API keys of a person may be read and changed. The person at the machine manages the keys
    /// of everyone.
    fn can_access_keys_of(&self, user_id: &UserId) -> bool {
        match &self.scope {
            OwnerScope::Everyone | OwnerScope::Owner(None) => true,
            OwnerScope::Owner(Some(owner)) => user_id == owner,
        }
    }
}
