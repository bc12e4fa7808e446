//! A store of one scope over a store of everybody's: what belongs to others is as if it were not there. It decides nothing
//! but that; who has which scope is known at the door.
//!
//! Threads say whose they are by their assistant, and everything else hangs on a thread or names an assistant. What hangs on
//! neither is kept under a name of the owner's own ([`roots`]). Lists are cut to the scope where they are read, so that a
//! page is full; the rest is looked up here, and remembered: whose a thread or a run is never changes.

mod admission;
mod claims;
mod known;
mod roots;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointId, Event, Handoff, HandoffId, Interrupt, InterruptId, Item,
    LoggedTurn, Proposal, Run, RunFeedback, RunId, RunRequest, RunStatus, Scope, Seq, StepPoint, Thread,
    ThreadId, ThreadState, UserId,
};
use serde_json::{Map, Value};

use self::known::Known;
use self::roots::Root;
use crate::{
    Artifact, CheckpointRef, Commits, Committed, EventQuery, FoundItem, HandoffFilter, Health, HealthDepth,
    Hit, ImportSource, ItemQuery, MemoryCounts, NamespaceQuery, News, OutboxItem, OutboxQuery, PAGE_ROWS_MAX,
    Place, RankQuery, Ranked, Reach, Replica, Result, RunFilter, SearchQuery, Store, StoredSummary,
    SummaryQuery, Superseded, ThreadFilter, ThreadSize, Transaction, TurnQuery, Unclaimed,
};

/// A store that shows and changes only what belongs to a scope. A thread of somebody else is not told from one that does not
/// exist: reads find nothing, and writes fail with [`crate::Error::NotFound`].
pub struct Scoped {
    inner: Arc<dyn Store>,
    scope: Scope,
    root: Root,
    known: Known,
}

/// Whose something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// It is in the scope.
    Own,
    /// It is not.
    Foreign,
    /// It does not exist.
    Nobodys,
}

impl Scoped {
    /// Returns the part of `store` that belongs to `scope`; of [`Scope::Everyone`] that is all of it.
    pub fn new(store: Arc<dyn Store>, scope: Scope) -> Self {
        let root = Root::of(&scope);
        Self { inner: store, scope, root, known: Known::default() }
    }

    async fn whose_thread(&self, thread_id: ThreadId) -> Result<Whose> {
        if self.scope == Scope::Everyone || self.known.has_thread(thread_id) {
            return Ok(Whose::Own);
        }
        Ok(match self.inner.thread(thread_id).await? {
            None => Whose::Nobodys,
            Some(thread) if self.scope.admits(&thread.assistant_id) => {
                self.known.add_thread(thread_id);
                Whose::Own
            }
            Some(_) => Whose::Foreign,
        })
    }

    async fn has_thread(&self, thread_id: ThreadId) -> Result<bool> {
        Ok(self.whose_thread(thread_id).await? == Whose::Own)
    }

    /// Returns the thread, or the id of no thread where it is not in the scope.
    async fn own(&self, thread_id: ThreadId) -> Result<ThreadId> {
        Ok(if self.has_thread(thread_id).await? { thread_id } else { NO_THREAD })
    }

    async fn has_run(&self, run_id: RunId) -> Result<bool> {
        if self.scope == Scope::Everyone || self.known.has_run(run_id) {
            return Ok(true);
        }
        Ok(self.run(run_id).await?.is_some())
    }

    async fn own_threads(&self, thread_ids: &[ThreadId]) -> Result<Vec<ThreadId>> {
        let mut own = Vec::with_capacity(thread_ids.len());
        for thread_id in thread_ids {
            if self.has_thread(*thread_id).await? {
                own.push(*thread_id);
            }
        }
        Ok(own)
    }

    async fn own_ids(&self, run_ids: &[RunId]) -> Result<Vec<RunId>> {
        let mut own = Vec::with_capacity(run_ids.len());
        for run_id in run_ids {
            if self.has_run(*run_id).await? {
                own.push(*run_id);
            }
        }
        Ok(own)
    }

    /// Returns all runs of the scope at a status, oldest first.
    async fn runs_at(&self, status: RunStatus) -> Result<Vec<Run>> {
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
        Ok(self.own_runs(runs))
    }

    /// Keeps those of the runs that are in the scope.
    fn own_runs(&self, mut runs: Vec<Run>) -> Vec<Run> {
        runs.retain(|run| self.scope.admits(&run.assistant_id));
        for run in &runs {
            self.known.add_run(run.run_id);
        }
        runs
    }
}

#[async_trait]
impl Store for Scoped {
    async fn commit(&self, transaction: Transaction) -> Result<Committed> {
        if self.scope == Scope::Everyone {
            return self.inner.commit(transaction).await;
        }
        self.commit_own(transaction).await
    }

    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>> {
        let thread = self.inner.thread(thread_id).await?;
        let own = thread.filter(|thread| self.scope.admits(&thread.assistant_id));
        if own.is_some() {
            self.known.add_thread(thread_id);
        }
        Ok(own)
    }

    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>> {
        self.inner.threads(ThreadFilter { scope: self.narrowed(filter.scope), ..filter }).await
    }

    async fn thread_count(&self, filter: ThreadFilter) -> Result<u64> {
        self.inner.thread_count(ThreadFilter { scope: self.narrowed(filter.scope), ..filter }).await
    }

    async fn thread_size(&self, thread_id: ThreadId) -> Result<ThreadSize> {
        self.inner.thread_size(self.own(thread_id).await?).await
    }

    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>> {
        let own = self.own_threads(thread_ids).await?;
        self.inner.thread_tokens(&own).await
    }

    async fn thread_states(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>> {
        let own = self.own_threads(thread_ids).await?;
        self.inner.thread_states(&own).await
    }

    async fn threads_by_prefix(&self, prefix: &str, scope: &Scope) -> Result<Vec<ThreadId>> {
        self.inner.threads_by_prefix(prefix, self.narrower(scope)).await
    }

    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>> {
        self.inner.events(self.own(thread_id).await?, query).await
    }

    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64> {
        self.inner.messages_after(self.own(thread_id).await?, seq).await
    }

    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>> {
        self.inner.seq_of_key(self.own(thread_id).await?, event_key).await
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        let mut hits = self.inner.search(SearchQuery { scope: self.narrowed(query.scope), ..query }).await?;
        for hit in &mut hits {
            if let Place::Item { namespace, .. } = &mut hit.place {
                self.root.strip(namespace);
            }
        }
        Ok(hits)
    }

    async fn rank(&self, mut query: RankQuery) -> Result<Vec<Ranked>> {
        let mut own = Vec::with_capacity(query.threads.len());
        for part in query.threads {
            if self.has_thread(part.thread_id).await? {
                own.push(part);
            }
        }
        query.threads = own;
        self.inner.rank(query).await
    }

    async fn run(&self, run_id: RunId) -> Result<Option<Run>> {
        let run = self.inner.run(run_id).await?.filter(|run| self.scope.admits(&run.assistant_id));
        if run.is_some() {
            self.known.add_run(run_id);
        }
        Ok(run)
    }

    async fn runs_by_prefix(&self, prefix: &str, scope: &Scope) -> Result<Vec<RunId>> {
        self.inner.runs_by_prefix(prefix, self.narrower(scope)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>> {
        let runs = self.inner.runs(RunFilter { scope: self.narrowed(filter.scope), ..filter }).await?;
        Ok(self.own_runs(runs))
    }

    async fn run_requests(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
        self.inner.run_requests(&self.own_ids(run_ids).await?).await
    }

    async fn run_metadata(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>> {
        self.inner.run_metadata(&self.own_ids(run_ids).await?).await
    }

    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>> {
        self.inner.newest_run(self.own(thread_id).await?).await
    }

    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        match thread_id {
            Some(_) => Ok(self.own_runs(self.inner.queued_runs(thread_id).await?)),
            None => self.runs_at(RunStatus::Pending).await,
        }
    }

    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        match thread_id {
            Some(_) => Ok(self.own_runs(self.inner.active_runs(thread_id).await?)),
            None => self.runs_at(RunStatus::Running).await,
        }
    }

    async fn unclaimed(&self, query: Unclaimed) -> Result<Vec<Run>> {
        let runs = self.inner.unclaimed(query).await?;
        Ok(self.own_runs(runs))
    }

    async fn replicas(&self) -> Result<Vec<Replica>> {
        self.inner.replicas().await
    }

    async fn clock(&self) -> Result<Timestamp> {
        self.inner.clock().await
    }

    fn reach(&self) -> Reach {
        self.inner.reach()
    }

    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.inner.run_events(self.own(thread_id).await?, run_id, after, limit).await
    }

    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>> {
        self.inner.feedback(self.own(thread_id).await?, run_ids, user_id).await
    }

    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
        self.inner.checkpoint(self.own(thread_id).await?).await
    }

    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: Superseded,
    ) -> Result<Vec<StepPoint>> {
        self.inner.checkpoints(self.own(thread_id).await?, before, limit, superseded).await
    }

    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
        superseded: Superseded,
    ) -> Result<Option<(StepPoint, Map<String, Value>)>> {
        self.inner.checkpoint_at(self.own(thread_id).await?, point, superseded).await
    }

    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>> {
        self.inner.artifact(self.own(thread_id).await?, sha256).await
    }

    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let mut own = Vec::new();
        for point in self.inner.unfinished_checkpoints().await? {
            if self.has_thread(point.thread_id).await? {
                own.push(point);
            }
        }
        Ok(own)
    }

    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
        match self.inner.interrupt(interrupt_id).await? {
            Some(interrupt) if self.has_thread(interrupt.thread_id).await? => Ok(Some(interrupt)),
            Some(_) | None => Ok(None),
        }
    }

    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        self.inner.pending_interrupts(self.own(thread_id).await?).await
    }

    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>> {
        let handoff = self.inner.handoff(handoff_id).await?;
        Ok(handoff.filter(|handoff| self.scope.admits(&handoff.assistant_id)))
    }

    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>> {
        self.inner.handoffs(HandoffFilter { scope: self.narrowed(filter.scope), ..filter }).await
    }

    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
        match self.handoff(handoff_id).await? {
            Some(_) => self.inner.proposals(handoff_id).await,
            None => Ok(Vec::new()),
        }
    }

    async fn outbox(&self, mut query: OutboxQuery) -> Result<Vec<OutboxItem>> {
        query.scope = self.narrowed(query.scope);
        if let Some(after) = &mut query.after
            && let Some(rooted) = self.root.key(&after.key)
        {
            after.key = rooted.into_owned();
        }
        let items = self.inner.outbox(query).await?.into_iter();
        Ok(items.filter_map(|item| Some(OutboxItem { key: self.root.own_key(&item.key)?, ..item })).collect())
    }

    async fn outbox_waiting(&self, kind: &str, scope: Option<Scope>) -> Result<(u64, Option<Timestamp>)> {
        self.inner.outbox_waiting(kind, self.narrowed(scope)).await
    }

    async fn outbox_item(&self, kind: &str, key: &str) -> Result<Option<OutboxItem>> {
        let Some(rooted) = self.root.key(key) else { return Ok(None) };
        let item = self.inner.outbox_item(kind, &rooted).await?;
        Ok(item.map(|item| OutboxItem { key: key.to_owned(), ..item }))
    }

    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedTurn>> {
        match self.scope.admits(&query.agent_id) {
            true => self.inner.turns(query).await,
            false => Ok(Vec::new()),
        }
    }

    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>> {
        match self.scope.admits(&query.agent_id) {
            true => self.inner.summaries(query).await,
            false => Ok(Vec::new()),
        }
    }

    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts> {
        match self.scope.admits(agent_id) {
            true => self.inner.memory_counts(agent_id).await,
            false => Ok(MemoryCounts::default()),
        }
    }

    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<Item>> {
        let Some(rooted) = self.root.namespace(namespace) else { return Ok(None) };
        let item = self.inner.item(&rooted, key).await?;
        Ok(item.map(|item| Item { namespace: namespace.to_owned(), ..item }))
    }

    async fn items(&self, mut query: ItemQuery) -> Result<Vec<FoundItem>> {
        query.scope = self.narrowed(query.scope);
        self.root.prepend(&mut query.prefix);
        let mut found = self.inner.items(query).await?;
        for found in &mut found {
            self.root.strip(&mut found.item.namespace);
        }
        Ok(found)
    }

    async fn namespaces(&self, mut query: NamespaceQuery) -> Result<Vec<Vec<String>>> {
        query.scope = self.narrowed(query.scope);
        self.root.prepend_to_namespaces(&mut query);
        let mut namespaces = self.inner.namespaces(query).await?;
        for namespace in &mut namespaces {
            self.root.strip(namespace);
        }
        Ok(namespaces)
    }

    async fn index(&self) -> Result<()> {
        self.inner.index().await
    }

    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>> {
        let Some(rooted) = self.root.key(source_key) else { return Ok(None) };
        let source = self.inner.import_source(&rooted).await?;
        Ok(source.map(|source| ImportSource { source_key: source_key.to_owned(), ..source }))
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        let mut keys = self.inner.keys().await?;
        keys.retain(|key| self.has_key_of(&key.user_id));
        Ok(keys)
    }

    async fn key(&self, key_id: &str) -> Result<Option<ApiKey>> {
        Ok(self.inner.key(key_id).await?.filter(|key| self.has_key_of(&key.user_id)))
    }

    async fn health(&self, depth: HealthDepth) -> Result<Health> {
        self.inner.health(depth).await
    }

    fn news(&self) -> News {
        self.inner.news()
    }

    fn commits(&self) -> Commits {
        self.inner.commits()
    }
}

/// The id of no thread: what is asked about it finds nothing, and a question that no store answers is refused.
const NO_THREAD: ThreadId = ThreadId::from_uuid(uuid::Uuid::nil());

impl Scoped {
    /// Returns the scope to ask for where `asked` was asked for.
    fn narrowed(&self, asked: Option<Scope>) -> Option<Scope> {
        match self.scope {
            Scope::Everyone => asked,
            Scope::Owner(_) => Some(self.scope.clone()),
        }
    }

    const fn narrower<'a>(&'a self, asked: &'a Scope) -> &'a Scope {
        match self.scope {
            Scope::Everyone => asked,
            Scope::Owner(_) => &self.scope,
        }
    }

    /// Returns whether the keys of that person may be seen: the person at the machine gives keys to others.
    fn has_key_of(&self, user_id: &UserId) -> bool {
        match &self.scope {
            Scope::Everyone | Scope::Owner(None) => true,
            Scope::Owner(Some(owner)) => user_id == owner,
        }
    }
}
