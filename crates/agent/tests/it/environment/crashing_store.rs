//! A journal whose process dies before or after one of its commits, or is outrun by another one right before it, and
//! otherwise does what the journal under it does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use journal::{
    Artifact, CheckpointRef, CommitReceipt, EventQuery, HandoffFilter, HealthCheckDepth, ImportSource,
    IndexHit, ItemHit, ItemQuery, MemoryCounts, NamespaceQuery, OutboxItem, OutboxQuery, RankQuery,
    RankedMessage, RunFilter, SearchQuery, Store, StoreHealth, StoredSummary, SummaryQuery,
    SupersededVisibility, ThreadFilter, ThreadSize, Transaction, TurnQuery,
};
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointEntry, CheckpointId, Event, Handoff, HandoffId, Interrupt,
    InterruptId, LoggedMessage, OwnerScope, Proposal, Run, RunFeedback, RunId, RunRequest, Seq, Thread,
    ThreadId, ThreadState,
};
use serde_json::{Map, Value};

/// A journal whose process dies before or after one of its commits.
pub struct CrashingStore {
    inner: Arc<dyn Store>,
    commits: AtomicUsize,
    lookups: AtomicUsize,
    crash_boundary: usize,
    before_next_commit: Mutex<Option<BoxFuture<'static, ()>>>,
    clock_offset: Mutex<jiff::SignedDuration>,
    is_hanging: AtomicBool,
    is_remote: AtomicBool,
}

impl CrashingStore {
    /// Dies at `boundary`: an even one lies before the commit number `boundary / 2`, an odd one after it.
    pub fn crash_at(inner: Arc<dyn Store>, boundary: usize) -> Arc<Self> {
        let (commits, lookups) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (meanwhile, ahead) = (Mutex::default(), Mutex::default());
        let (hangs, is_far) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self {
            inner,
            commits,
            lookups,
            crash_boundary: boundary,
            before_next_commit: meanwhile,
            clock_offset: ahead,
            is_hanging: hangs,
            is_remote: is_far,
        })
    }

    /// Lives on.
    pub fn never_crash(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::crash_at(inner, usize::MAX)
    }

    /// Has the journal's clock be so far ahead of the machine's.
    pub fn advance_clock(&self, by: jiff::SignedDuration) {
        *self.clock_offset.lock().unwrap() = by;
    }

    /// Is taken for a journal on another machine, which others may reach when this one cannot.
    pub fn set_remote(&self) {
        self.is_remote.store(true, Ordering::SeqCst);
    }

    /// Says whether no commit is answered that is begun from here on.
    pub fn set_hanging(&self, hangs: bool) {
        self.is_hanging.store(hangs, Ordering::SeqCst);
    }

    /// Has another process do something right before the next commit.
    pub fn before_next_commit(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.before_next_commit.lock().unwrap() = Some(Box::pin(work));
    }

    pub fn commit_count(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns how often an event was looked up by its key.
    pub fn lookup_count(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for CrashingStore {
    async fn commit(&self, transaction: Transaction) -> journal::Result<CommitReceipt> {
        let meanwhile = self.before_next_commit.lock().unwrap().take();
        if let Some(work) = meanwhile {
            work.await;
        }
        if self.is_hanging.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let number = self.commits.fetch_add(1, Ordering::SeqCst);
        if self.crash_boundary == number * 2 {
            std::process::abort();
        }
        let done = self.inner.commit(transaction).await;
        if self.crash_boundary == number * 2 + 1 {
            std::process::abort();
        }
        done
    }
    async fn thread(&self, thread_id: ThreadId) -> journal::Result<Option<Thread>> {
        self.inner.thread(thread_id).await
    }
    async fn threads(&self, filter: ThreadFilter) -> journal::Result<Vec<Thread>> {
        self.inner.threads(filter).await
    }
    async fn thread_count(&self, filter: ThreadFilter) -> journal::Result<u64> {
        self.inner.thread_count(filter).await
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
        self.inner.events(thread_id, query).await
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
    async fn search(&self, query: SearchQuery) -> journal::Result<Vec<IndexHit>> {
        self.inner.search(query).await
    }
    async fn rank_messages(&self, query: RankQuery) -> journal::Result<Vec<RankedMessage>> {
        self.inner.rank_messages(query).await
    }
    async fn run(&self, run_id: RunId) -> journal::Result<Option<Run>> {
        self.inner.run(run_id).await
    }
    async fn active_runs(&self, thread_id: Option<ThreadId>) -> journal::Result<Vec<Run>> {
        self.inner.active_runs(thread_id).await
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
        self.inner.turns(query).await
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
    async fn health(&self, depth: HealthCheckDepth) -> journal::Result<StoreHealth> {
        self.inner.health(depth).await
    }
}
