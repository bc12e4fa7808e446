//! The storage trait: what is written together, and what can be asked. It names no database.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointId, Event, Handoff, HandoffId, Interrupt, InterruptId, Item,
    LoggedTurn, Proposal, Run, RunFeedback, RunId, RunRequest, Scope, Seq, StepPoint, Thread, ThreadId,
    ThreadState,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Artifact, CheckpointRef, Commits, EventQuery, FoundItem, HandoffFilter, Health, HealthDepth, Hit,
    ImportSource, ItemQuery, MemoryCounts, NamespaceQuery, News, OutboxItem, OutboxQuery, RankQuery, Ranked,
    Replica, Result, RunFilter, SearchQuery, StoredSummary, SummaryQuery, Superseded, ThreadFilter,
    TurnQuery, Unclaimed, Write,
};

/// Writes that take effect together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// When set, nothing is written unless this run is active and its lease belongs to this owner.
    pub fence: Option<Fence>,
    /// The writes, performed in order.
    pub writes: Vec<Write>,
}

/// The proof that a process may still write for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// The name under which the run was admitted or reclaimed.
    pub owner: String,
}

/// What a transaction did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Committed {
    /// The seqs of each [`Write::Append`], in order; a repeated `event_key` gives the first row's seq.
    pub seqs: Vec<Vec<Seq>>,
    /// The seqs that were handed out for each [`Write::Append`]; none when all of it was a repetition.
    pub new: Vec<Option<RangeInclusive<Seq>>>,
    /// How many of the appended events were stored (the others were repetitions).
    pub stored: u64,
    /// The runs that were taken ([`Write::ClaimRuns`]), as they were before.
    pub claimed: Vec<Run>,
}

/// From where processes can work on a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// From one machine: that a process is gone can be seen there.
    Machine,
    /// From anywhere: only what processes say of themselves tells.
    Network,
}

/// How much a thread holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ThreadSize {
    /// Its events.
    pub events: u64,
    /// Bytes of these and of its artifacts, which it may share with other threads.
    pub bytes: u64,
}

/// A journal's storage. One conformance suite holds for every implementation.
#[async_trait]
pub trait Store: Send + Sync {
    /// Performs the writes of `transaction` together and returns once they would survive a power cut.
    async fn commit(&self, transaction: Transaction) -> Result<Committed>;

    /// Returns the thread, or `None`.
    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>>;

    /// Returns a page of threads, without reading any message.
    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>>;

    /// Returns how many threads match, wherever a page of them would begin or end.
    async fn thread_count(&self, filter: ThreadFilter) -> Result<u64>;

    /// Returns how much a thread holds: its events, superseded ones too, and its artifacts. All of it is looked at. One that is
    /// not there holds nothing.
    async fn thread_size(&self, thread_id: ThreadId) -> Result<ThreadSize>;

    /// Returns the tokens that the runs of each of the threads took together; a thread without runs is left out.
    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>>;

    /// Returns the state of each of the threads, at most [`crate::PAGE_ROWS_MAX`]; one that does not exist is left out.
    async fn thread_states(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>>;

    /// Returns up to ten ids of threads of a scope that begin with `prefix` (hyphens and case are ignored), sub-agents
    /// included. A [`crate::Scoped`] store puts its own in place of `scope`.
    async fn threads_by_prefix(&self, prefix: &str, scope: &Scope) -> Result<Vec<ThreadId>>;

    /// Returns a page of events in ascending order: with `after` the first ones after it, otherwise the newest
    /// ones before `before` (or of all). Both bounds together are honoured. An unknown thread has no events.
    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>>;

    /// Returns how many messages a rewind that keeps `seq` would take out of sight.
    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64>;

    /// Returns the seq of the event with that key in the thread, of whatever run and whether or not it is superseded:
    /// a key is never stored twice.
    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>>;

    /// Returns what holds the query's words, best first; no superseded message. What forks copied is found once, and so are
    /// results of tools in the same words.
    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>>;

    /// Returns the messages that hold any of the query's words, best first and of equally good ones the later of a
    /// thread first; none that are superseded. Words are compared as [`Self::search`] does.
    async fn rank(&self, query: RankQuery) -> Result<Vec<Ranked>>;

    /// Returns the run, or `None`.
    async fn run(&self, run_id: RunId) -> Result<Option<Run>>;

    /// Returns up to ten ids of runs on threads of a scope that begin with `prefix`; hyphens and case are ignored. A
    /// [`crate::Scoped`] store puts its own in place of `scope`.
    async fn runs_by_prefix(&self, prefix: &str, scope: &Scope) -> Result<Vec<RunId>>;

    /// Returns a page of runs, newest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>>;

    /// Returns what clients asked those of the runs for that are kept, in the order of `run_ids`, at most
    /// [`crate::PAGE_ROWS_MAX`]; a run of the terminal has nothing here. Each can be as long as what was put in.
    async fn run_requests(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>>;

    /// Returns the metadata of what [`Self::run_requests`] returns, and reads nothing else of it.
    async fn run_metadata(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>>;

    /// Returns the run that was admitted last on the thread, or `None`; one that waits, or ended without having begun, is
    /// none.
    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>>;

    /// Returns the runs that wait for their turn, of one thread or of all, in the order in which they came.
    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>>;

    /// Returns the runs that are running, of one thread or of all.
    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>>;

    /// Returns runs that nobody works on, oldest first; none in the threads of sub-agents.
    async fn unclaimed(&self, query: Unclaimed) -> Result<Vec<Run>>;

    /// Returns the processes that look after runs, and those of which nothing was heard any more.
    async fn replicas(&self) -> Result<Vec<Replica>>;

    /// Returns the present by the clock that all who share the journal go by.
    async fn clock(&self) -> Result<Timestamp>;

    /// Returns from where processes can work on this journal.
    fn reach(&self) -> Reach;

    /// Returns a page of the events of a run that was admitted on the thread, in ascending order from the first one
    /// after `after`: superseded ones too, and those that a compaction condensed. A run of another thread has none here.
    /// The rest of the thread is not read.
    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>>;

    /// Returns what a person thinks of those of the runs that they said something of.
    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>>;

    /// Returns the thread's newest checkpoint, or `None`.
    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>>;

    /// Returns points of the thread's past, newest first: those before `before`, or the newest of all. Those of
    /// [`protocol::CheckpointSource::Rewind`], which are no points one can go back to, are among them.
    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: Superseded,
    ) -> Result<Vec<StepPoint>>;

    /// Returns a point of the thread's past with the public channels of that time (keys that do not begin with `_`).
    /// `None` when there is no such point, or it is superseded and those are not asked for.
    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
        superseded: Superseded,
    ) -> Result<Option<(StepPoint, Map<String, Value>)>>;

    /// Returns the artifact of the thread whose name begins with `sha256`, at least 8 hex digits, or `None`. Fails with
    /// [`crate::Error::Invalid`] when several do.
    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>>;

    /// Returns the newest checkpoints that have activities to perform, one a thread.
    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>>;

    /// Returns the interrupt, or `None`.
    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>>;

    /// Returns the thread's pending interrupts, oldest first.
    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>>;

    /// Returns the handoff, or `None`.
    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>>;

    /// Returns the handoffs that match, newest first.
    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>>;

    /// Returns the handoff's proposals in order of iteration.
    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>>;

    /// Returns a page of the items of a kind in the outbox. Seen by everybody's store, the key of what a person put there
    /// begins with `@`, their id and a slash, so that one worker can do the work of all: it removes an item under that key,
    /// and finds in it whose scope ([`protocol::Scope::Owner`]) the work is done in. A [`crate::Scoped`] store shows its own
    /// items, under the keys they were put under.
    async fn outbox(&self, query: OutboxQuery) -> Result<Vec<OutboxItem>>;

    /// Returns how many items of a kind are in the outbox, and when the oldest was added; those of a scope, or `None` for
    /// everybody's. A [`crate::Scoped`] store counts its own.
    async fn outbox_waiting(&self, kind: &str, scope: Option<Scope>) -> Result<(u64, Option<Timestamp>)>;

    /// Returns the item of the outbox under a key, or `None`. The key is as [`Self::outbox`] shows it.
    async fn outbox_item(&self, kind: &str, key: &str) -> Result<Option<OutboxItem>>;

    /// Returns a page of turns in ascending order of their indexes, archived ones too unless the query says otherwise.
    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedTurn>>;

    /// Returns the summaries of an agent's old turns, newest first; of those stored at the same time the one with the
    /// higher id first. A limit of 0 gives none.
    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>>;

    /// Returns how much there is in each tier of an agent's memory.
    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts>;

    /// Returns what is kept under a name, or `None`.
    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<Item>>;

    /// Returns a page of what is kept: with words the best matches first, otherwise what was put last.
    async fn items(&self, query: ItemQuery) -> Result<Vec<FoundItem>>;

    /// Returns namespaces in use, in order.
    async fn namespaces(&self, query: NamespaceQuery) -> Result<Vec<Vec<String>>>;

    /// Brings the search index up to date. A search does so itself; done in time, none has to wait for it.
    async fn index(&self) -> Result<()>;

    /// Returns where a session was imported, or `None`.
    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>>;

    /// Returns all keys, oldest first, revoked ones included.
    async fn keys(&self) -> Result<Vec<ApiKey>>;

    /// Returns the key with that public part, or `None`.
    async fn key(&self, key_id: &str) -> Result<Option<ApiKey>>;

    /// Returns counts and, at [`HealthDepth::Integrity`], what a check of every page found.
    async fn health(&self, depth: HealthDepth) -> Result<Health>;

    /// Returns where one hears that other processes committed something; called on an async runtime, it listens there.
    fn news(&self) -> News;

    /// Returns where one follows what this process commits.
    fn commits(&self) -> Commits;
}
