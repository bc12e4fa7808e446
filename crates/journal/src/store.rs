//! The storage trait: transactions and queries. It names no database.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    ApiKey, AssistantId, Checkpoint, CheckpointEntry, CheckpointId, Event, FactId, Handoff, HandoffId,
    Interrupt, InterruptId, LoggedMessage, OwnerScope, Proposal, Run, RunFeedback, RunId, RunRequest, Seq,
    StoredItem, Thread, ThreadId, ThreadState,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::tables::threads::DeletionReceipt;
use crate::{
    Artifact, CheckpointRef, CommitFeed, EmbeddingCounts, EventQuery, EventVerification, FactQuery,
    HandoffFilter, HealthCheckDepth, ImportSource, IndexAnswer, IndexBacklog, IndexHit, ItemHit, ItemQuery,
    LocalCommitFeed, MemoryCounts, MemoryFact, NamespaceQuery, NotesRevision, NotesRevisionQuery, OutboxItem,
    OutboxQuery, QuestionEmbedder, RankQuery, RankedMessage, Replica, Result, RunFilter, SearchQuery,
    StoreHealth, StoredSummary, SummaryQuery, SupersededVisibility, ThreadFilter, TurnQuery,
    UnclaimedRunsQuery, UnembeddedBatch, VerificationPosition, Write,
};

/// Writes that are applied together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// If set, the transaction fails with [`crate::Error::Fenced`] unless this run is active and this owner holds its
    /// lease.
    pub fence: Option<FencingToken>,
    /// The writes, applied in order.
    pub writes: Vec<Write>,
}

/// A fencing token: it allows a process to write for a run as long as it holds the run's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencingToken {
    /// The run.
    pub run_id: RunId,
    /// The name of the process under which the run was admitted or reclaimed.
    pub owner: String,
}

/// The results of a committed transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommitReceipt {
    /// The seqs of the events of each [`Write::Append`], in order. A repeated event has the seq of its first
    /// occurrence.
    pub seqs: Vec<Vec<Seq>>,
    /// The range of newly assigned seqs of each [`Write::Append`]. `None` if all its events were repetitions.
    pub new_seqs: Vec<Option<RangeInclusive<Seq>>>,
    /// Number of events that were inserted. The others were repetitions.
    pub stored_events: u64,
    /// The runs that were claimed ([`Write::ClaimRuns`]), as they were before.
    pub claimed_runs: Vec<Run>,
    /// The result of the deletions of threads.
    pub(crate) deletions: DeletionReceipt,
}

/// The hosts from which processes can use a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreScope {
    /// Only this host, so a dead process can be detected locally.
    ThisHost,
    /// Any host, so a dead process can only be detected by its missing heartbeats.
    AnyHost,
}

/// The size of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ThreadSize {
    /// Number of events.
    pub events: u64,
    /// Size of the events and artifacts in bytes. Artifacts may be shared with other threads.
    pub bytes: u64,
}

/// The storage of a journal. All implementations pass the same conformance suite.
///
/// All methods are async and can be cancelled: a cancelled read has no effect, a cancelled commit may or may not be
/// applied.
#[async_trait]
pub trait Store: Send + Sync {
    /// Applies the writes of a transaction atomically, and returns once they would survive a power failure.
    ///
    /// # Errors
    /// See [`Write`] for the errors of each write. Nothing is written then, except after
    /// [`crate::Error::CommitUnknown`], where the outcome is not known.
    async fn commit(&self, transaction: Transaction) -> Result<CommitReceipt>;

    /// Returns the thread with this id, or `None`.
    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>>;

    /// Returns the thread with this id and its newest checkpoint, as of one point in time, or `None` if there is no such
    /// thread.
    async fn thread_with_checkpoint(
        &self,
        thread_id: ThreadId,
    ) -> Result<Option<(Thread, Option<Checkpoint>)>>;

    /// Returns a page of threads. No messages are read.
    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>>;

    /// Returns the number of threads that match a filter, regardless of its limit and offset. Stops at `maximum`, so that
    /// the time has a bound; a result that equals `maximum` therefore means "at least".
    async fn thread_count(&self, filter: ThreadFilter, maximum: Option<u64>) -> Result<u64>;

    /// Returns the size of a thread: its events, including superseded ones, and its artifacts. All of them are
    /// scanned. A thread that does not exist has size zero.
    async fn thread_size(&self, thread_id: ThreadId) -> Result<ThreadSize>;

    /// Returns the total number of tokens of the runs of each thread. Threads without runs are left out.
    async fn thread_tokens(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>>;

    /// Returns the state of each of the given threads, at most [`crate::PAGE_ROWS_MAX`]. Threads that do not exist
    /// are left out.
    async fn thread_states(&self, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>>;

    /// Returns up to ten ids of threads of a scope that begin with `prefix`, including threads of sub-agents. Hyphens
    /// and case are ignored. A [`crate::ScopedStore`] replaces `scope` by its own.
    async fn threads_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> Result<Vec<ThreadId>>;

    /// Returns a page of events in ascending order. With `after`, these are the first events after it; otherwise, the
    /// last events before `before`, or the last of all. Both bounds can be combined. A thread that does not exist has
    /// no events.
    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>>;

    /// Compares events of all threads with their checksums: at most `limit` from `position` on, in its direction. A
    /// [`crate::ScopedStore`] verifies none.
    async fn verify_events(&self, position: VerificationPosition, limit: usize) -> Result<EventVerification>;

    /// Returns the number of visible messages that a rewind to `seq` would supersede.
    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64>;

    /// Returns the lowest seq of the events with this key in a thread, of any run, superseded or not.
    async fn seq_of_event_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>>;

    /// Returns documents that contain the words of a query or, with [`Self::set_embedder`], are close to its meaning, best first. Superseded messages are left out. Messages
    /// copied by forks, and tool results with identical text, are returned once.
    ///
    /// Before it answers, a search adds a bounded number of messages of its scope to the index, those of the most
    /// recently changed threads first. The answer tells what the index does not contain then. The process indexes the
    /// rest in the background for as long as the store exists, and further searches continue too.
    async fn search(&self, query: SearchQuery) -> Result<IndexAnswer<IndexHit>>;

    /// Returns messages of given threads that contain any of the query's words, best first. Of equally good messages
    /// of a thread, the later one comes first. Superseded messages are left out. Words are compared as in
    /// [`Self::search`], and the index is updated in the same way.
    async fn rank_messages(&self, query: RankQuery) -> Result<IndexAnswer<RankedMessage>>;

    /// Returns the run with this id, or `None`.
    async fn run(&self, run_id: RunId) -> Result<Option<Run>>;

    /// Returns up to ten ids of runs of a scope that begin with `prefix`. Hyphens and case are ignored. A
    /// [`crate::ScopedStore`] replaces `scope` by its own.
    async fn runs_by_prefix(&self, prefix: &str, scope: &OwnerScope) -> Result<Vec<RunId>>;

    /// Returns a page of runs, newest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>>;

    /// Returns the client requests of the given runs, at most [`crate::PAGE_ROWS_MAX`], in the order of `run_ids`.
    /// Runs without a stored request, such as those started in the terminal, are left out. A request can be as large
    /// as the client's input.
    async fn run_requests(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>>;

    /// Returns the metadata of the requests that [`Self::run_requests`] returns, without reading their other content.
    async fn run_metadata(&self, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>>;

    /// Returns the run that was started last on the thread, or `None`. Queued runs, and runs that ended without being
    /// started, are ignored.
    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>>;

    /// Returns the queued runs of one thread or of all threads, in the order in which they were queued.
    async fn queued_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>>;

    /// Returns the running runs of one thread or of all threads.
    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>>;

    /// Returns unowned runs, oldest first, without those in threads of sub-agents.
    async fn unclaimed_runs(&self, query: UnclaimedRunsQuery) -> Result<Vec<Run>>;

    /// Returns the folders that an earlier version of the schema recorded for threads, and whose projects are not known
    /// yet ([`crate::Write::ResolveFolder`]). A [`crate::ScopedStore`] returns none.
    async fn unresolved_folders(&self) -> Result<Vec<String>>;

    /// Returns the replicas that work on the journal, including expired ones.
    async fn replicas(&self) -> Result<Vec<Replica>>;

    /// Returns the current time of the clock that all processes of this journal share.
    async fn current_time(&self) -> Result<Timestamp>;

    /// Returns the hosts from which processes can use this journal.
    fn store_scope(&self) -> StoreScope;

    /// Returns a page of the events of a run that was admitted on the thread, in ascending order, starting after the
    /// seq `after`. Superseded and compacted events are included. A run of another thread has no events here. Events
    /// of other runs are not read.
    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>>;

    /// Returns a person's feedback on the given runs. Runs without feedback are left out.
    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>>;

    /// Returns the newest checkpoint of a thread, or `None`.
    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>>;

    /// Returns a page of the checkpoints of a thread, newest first: those before `before`, or the newest of all.
    /// Checkpoints with source [`protocol::CheckpointSource::Rewind`], which a thread cannot be rewound to, are
    /// included.
    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
        superseded: SupersededVisibility,
    ) -> Result<Vec<CheckpointEntry>>;

    /// Returns a checkpoint of a thread, and its public channels (whose names do not begin with `_`). `None` if it
    /// does not exist, or if it is superseded and `superseded` hides it.
    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        reference: CheckpointRef,
        superseded: SupersededVisibility,
    ) -> Result<Option<(CheckpointEntry, Map<String, Value>)>>;

    /// Returns the artifact of a thread whose hash begins with `sha256` (at least 8 hex digits), or `None`. Fails
    /// with [`crate::Error::InvalidRequest`] if several do.
    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>>;

    /// Returns the newest checkpoint of each thread that lists activities to be performed.
    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>>;

    /// Returns the interrupt with this id, or `None`.
    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>>;

    /// Returns the pending interrupts of a thread, oldest first.
    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>>;

    /// Returns the interrupt of a thread that was answered or withdrawn last, or `None`.
    async fn last_decided_interrupt(&self, thread_id: ThreadId) -> Result<Option<Interrupt>>;

    /// Returns the handoff with this id, or `None`.
    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>>;

    /// Returns the handoffs that match a filter, newest first.
    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>>;

    /// Returns the proposals of a handoff in the order of their iterations.
    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>>;

    /// Returns a page of the outbox items of a kind.
    ///
    /// In an unrestricted store, the key of an owner's item begins with `@`, the owner's id and a slash. So one
    /// worker can process the items of all owners: it finds the scope of the work ([`protocol::OwnerScope::Owner`])
    /// in the key, and removes the item under this key. A [`crate::ScopedStore`] returns its own items under their
    /// original keys.
    async fn outbox(&self, query: OutboxQuery) -> Result<Vec<OutboxItem>>;

    /// Returns the number of outbox items of a kind, and the time at which the oldest was added. `None` covers all
    /// scopes. A [`crate::ScopedStore`] counts its own items.
    async fn outbox_backlog(&self, kind: &str, scope: Option<OwnerScope>)
    -> Result<(u64, Option<Timestamp>)>;

    /// Returns the outbox item with this key, in the form that [`Self::outbox`] returns, or `None`.
    async fn outbox_item(&self, kind: &str, key: &str) -> Result<Option<OutboxItem>>;

    /// Returns a page of logged messages in ascending order of their indexes. Archived messages are included unless
    /// the query excludes them.
    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedMessage>>;

    /// Returns a page of the summaries of an agent, newest first. Of summaries stored at the same time, the one with
    /// the higher id comes first. A limit of 0 returns none.
    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>>;

    /// Returns the number of rows in each memory tier of an agent.
    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts>;

    /// Returns the fact with this id, or `None`.
    async fn fact(&self, fact_id: FactId) -> Result<Option<MemoryFact>>;

    /// Returns a page of the facts of an agent, oldest first.
    async fn facts(&self, query: FactQuery) -> Result<Vec<MemoryFact>>;

    /// Returns a page of the revisions of an agent's notes in agent.md, newest first.
    async fn notes_revisions(&self, query: NotesRevisionQuery) -> Result<Vec<NotesRevision>>;

    /// Returns the item with this namespace and key, or `None`.
    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<StoredItem>>;

    /// Returns a page of items: the best matches of the query's words first, or without words the most recently
    /// updated first.
    async fn items(&self, query: ItemQuery) -> Result<Vec<ItemHit>>;

    /// Returns a page of the namespaces in use, in ascending order.
    async fn namespaces(&self, query: NamespaceQuery) -> Result<Vec<Vec<String>>>;

    /// Gives the store the model that represents questions for searches, which then compare the meaning of messages too. Only the
    /// first call of a process has an effect. A [`crate::ScopedStore`] gives it to the store of all owners.
    fn set_embedder(&self, embedder: Arc<dyn QuestionEmbedder>);

    /// Returns messages that have no embedding of a model, at most `limit` and a megabyte, those of the most recently changed
    /// threads first. A thread can be listed without a text: then its embeddings are
    /// complete, and [`Write::PutEmbeddings`] has to record that. A [`crate::ScopedStore`] returns none.
    async fn unembedded_messages(&self, model: &str, limit: usize) -> Result<UnembeddedBatch>;

    /// Returns the numbers of messages with and without embeddings of a model. A [`crate::ScopedStore`] replaces `scope` by its own.
    async fn embedding_counts(&self, model: &str, scope: &OwnerScope) -> Result<EmbeddingCounts>;

    /// Adds to the search index everything that was committed before this call, and returns then.
    async fn update_search_index(&self) -> Result<()>;

    /// Starts to add to the search index, in the background, everything that is missing there, and returns at once.
    /// Dropping the store stops it.
    fn start_index_update(&self);

    /// Returns the messages of a scope that the search index does not contain. A [`crate::ScopedStore`] replaces `scope`
    /// by its own.
    async fn index_backlog(&self, scope: &OwnerScope) -> Result<IndexBacklog>;

    /// Returns the import of a session, or `None`.
    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>>;

    /// Returns all API keys, oldest first, including revoked ones.
    async fn api_keys(&self) -> Result<Vec<ApiKey>>;

    /// Returns the API key with this id, which is its public part, or `None`.
    async fn api_key(&self, key_id: &str) -> Result<Option<ApiKey>>;

    /// Checks that the database is still the one that was opened, and not truncated. It costs two system calls, and nothing on
    /// a server.
    ///
    /// # Errors
    /// [`crate::Error::FileReplaced`] and [`crate::Error::FileTruncated`].
    fn check_database(&self) -> Result<()>;

    /// Returns counts and, at the other depths than [`HealthCheckDepth::Counts`], the problems that a check found.
    async fn health(&self, depth: HealthCheckDepth) -> Result<StoreHealth>;

    /// Returns the feed of commits of other processes. Must be called on an async runtime, on which it receives
    /// notifications.
    fn commit_feed(&self) -> CommitFeed;

    /// Returns the feed of commits of this process.
    fn local_commits(&self) -> LocalCommitFeed;
}
