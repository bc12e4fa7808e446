//! A journal whose process dies before or after one of its commits, or is outrun by another one right before it, and
//! otherwise does what the journal under it does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use journal::{
    Artifact, CheckpointRef, Committed, EventQuery, FoundItem, HandoffFilter, Health, HealthDepth, Hit,
    ImportSource, ItemQuery, MemoryCounts, NamespaceQuery, OutboxItem, OutboxQuery, RankQuery, Ranked,
    RunFilter, SearchQuery, Store, StoredSummary, SummaryQuery, Superseded, ThreadFilter, ThreadSize,
    Transaction, TurnQuery,
};
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointId, Event, Handoff, HandoffId, Interrupt, InterruptId,
    LoggedTurn, Proposal, Run, RunFeedback, RunId, RunRequest, Scope, Seq, StepPoint, Thread, ThreadId,
    ThreadState,
};
use serde_json::{Map, Value};

/// A journal whose process dies before or after one of its commits.
pub struct Dying {
    inner: Arc<dyn Store>,
    commits: AtomicUsize,
    lookups: AtomicUsize,
    boundary: usize,
    meanwhile: Mutex<Option<BoxFuture<'static, ()>>>,
    ahead: Mutex<jiff::SignedDuration>,
    hangs: AtomicBool,
    is_far: AtomicBool,
}

impl Dying {
    /// Dies at `boundary`: an even one lies before the commit number `boundary / 2`, an odd one after it.
    pub fn at(inner: Arc<dyn Store>, boundary: usize) -> Arc<Self> {
        let (commits, lookups) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (meanwhile, ahead) = (Mutex::default(), Mutex::default());
        let (hangs, is_far) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { inner, commits, lookups, boundary, meanwhile, ahead, hangs, is_far })
    }

    /// Lives on.
    pub fn never(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::at(inner, usize::MAX)
    }

    /// Has the journal's clock be so far ahead of the machine's.
    pub fn goes_ahead(&self, by: jiff::SignedDuration) {
        *self.ahead.lock().unwrap() = by;
    }

    /// Is taken for a journal on another machine, which others may reach when this one cannot.
    pub fn is_far(&self) {
        self.is_far.store(true, Ordering::SeqCst);
    }

    /// Says whether no commit is answered that is begun from here on.
    pub fn hangs(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Has another process do something right before the next commit.
    pub fn before_next_commit(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::pin(work));
    }

    pub fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns how often an event was looked up by its key.
    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for Dying {
    async fn commit(&self, transaction: Transaction) -> journal::Result<Committed> {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(work) = meanwhile {
            work.await;
        }
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let number = self.commits.fetch_add(1, Ordering::SeqCst);
        if self.boundary == number * 2 {
            std::process::abort();
        }
        let done = self.inner.commit(transaction).await;
        if self.boundary == number * 2 + 1 {
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
    async fn runs_by_prefix(&self, prefix: &str, scope: &Scope) -> journal::Result<Vec<RunId>> {
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
    async fn threads_by_prefix(&self, prefix: &str, scope: &Scope) -> journal::Result<Vec<ThreadId>> {
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
        superseded: Superseded,
    ) -> journal::Result<Vec<StepPoint>> {
        self.inner.checkpoints(thread_id, before, limit, superseded).await
    }
    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
        superseded: Superseded,
    ) -> journal::Result<Option<(StepPoint, Map<String, Value>)>> {
        self.inner.checkpoint_at(thread_id, point, superseded).await
    }
    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> journal::Result<Option<Artifact>> {
        self.inner.artifact(thread_id, sha256).await
    }
    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> journal::Result<Option<Seq>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.inner.seq_of_key(thread_id, event_key).await
    }
    async fn search(&self, query: SearchQuery) -> journal::Result<Vec<Hit>> {
        self.inner.search(query).await
    }
    async fn rank(&self, query: RankQuery) -> journal::Result<Vec<Ranked>> {
        self.inner.rank(query).await
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
    async fn outbox_waiting(
        &self,
        kind: &str,
        scope: Option<Scope>,
    ) -> journal::Result<(u64, Option<jiff::Timestamp>)> {
        self.inner.outbox_waiting(kind, scope).await
    }
    async fn outbox_item(&self, kind: &str, key: &str) -> journal::Result<Option<OutboxItem>> {
        self.inner.outbox_item(kind, key).await
    }
    async fn turns(&self, query: TurnQuery) -> journal::Result<Vec<LoggedTurn>> {
        self.inner.turns(query).await
    }
    async fn summaries(&self, query: SummaryQuery) -> journal::Result<Vec<StoredSummary>> {
        self.inner.summaries(query).await
    }
    async fn memory_counts(&self, agent_id: &AssistantId) -> journal::Result<MemoryCounts> {
        self.inner.memory_counts(agent_id).await
    }
    async fn item(&self, namespace: &[String], key: &str) -> journal::Result<Option<protocol::Item>> {
        self.inner.item(namespace, key).await
    }
    async fn items(&self, query: ItemQuery) -> journal::Result<Vec<FoundItem>> {
        self.inner.items(query).await
    }
    async fn namespaces(&self, query: NamespaceQuery) -> journal::Result<Vec<Vec<String>>> {
        self.inner.namespaces(query).await
    }
    async fn index(&self) -> journal::Result<()> {
        self.inner.index().await
    }
    async fn import_source(&self, source_key: &str) -> journal::Result<Option<ImportSource>> {
        self.inner.import_source(source_key).await
    }
    async fn keys(&self) -> journal::Result<Vec<ApiKey>> {
        self.inner.keys().await
    }
    async fn key(&self, key_id: &str) -> journal::Result<Option<ApiKey>> {
        self.inner.key(key_id).await
    }
    async fn unclaimed(&self, query: journal::Unclaimed) -> journal::Result<Vec<Run>> {
        self.inner.unclaimed(query).await
    }
    async fn replicas(&self) -> journal::Result<Vec<journal::Replica>> {
        self.inner.replicas().await
    }
    async fn clock(&self) -> journal::Result<jiff::Timestamp> {
        Ok(self.inner.clock().await? + *self.ahead.lock().unwrap())
    }
    fn reach(&self) -> journal::Reach {
        match self.is_far.load(Ordering::SeqCst) {
            true => journal::Reach::Network,
            false => self.inner.reach(),
        }
    }
    fn news(&self) -> journal::News {
        self.inner.news()
    }
    fn commits(&self) -> journal::Commits {
        self.inner.commits()
    }
    async fn health(&self, depth: HealthDepth) -> journal::Result<Health> {
        self.inner.health(depth).await
    }
}
