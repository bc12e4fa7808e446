//! The journal: the append-only event log, and the rows derived from it (threads, runs, checkpoints, interrupts,
//! handoffs, proposals, artifacts, feedback, outbox, logged messages, summaries, facts, revisions of
//! agent.md, items).
//!
//! A [`Transaction`] is a list of [`Write`]s that are applied together or not at all. A [`Store`] executes it, and
//! answers queries. This crate calls no model, knows no prompts, and has no rules that decide which event to write.
//!
//! Nothing in this crate changes or removes an event. A rewind ([`Write::Rewind`]) only marks events as superseded,
//! so that reads leave them out. The one exception is the deletion of a thread: its events are removed, and events of
//! other threads that contain text about it are emptied.

mod commit_feed;
pub mod copy;
mod engines;
mod error;
mod ownership;
mod query;
mod scoped;
mod store;
mod tables;
pub mod view;
mod write;

use futures::future::BoxFuture;
use protocol::AssistantId;

pub use commit_feed::local::{CommitDetail, CommittedEvents, LocalCommitFeed, LocalCommitSubscription};
pub use commit_feed::{AllThreadsSubscription, CommitFeed, ThreadSubscription};
pub use engines::postgres::{PoolSettings, PoolStatistics, PostgresStore};
pub use engines::sqlite::{SqliteOpenOptions, SqliteStore};
pub use error::Error;
pub(crate) use query::embeddings::QuestionMeaning;
pub use query::embeddings::{
    DailyTokens, EMBEDDED_PARTS_MAX, Embedding, EmbeddingCounts, EmbeddingFailure, MeaningComparison,
    MessageEmbeddings, OTHER_DIMENSIONS, QuestionEmbedder, UnembeddedBatch, UnembeddedMessages,
};
pub use query::items::{FieldComparison, FieldCondition, ItemHit, ItemQuery, NamespaceQuery};
pub use query::memory::{FactQuery, MemoryFact, NotesRevision, NotesRevisionQuery};
pub use query::outbox::{OutboxCursor, OutboxQuery};
pub use query::verification::{
    DamageHandling, DamageReport, DamagedEvent, EventVerification, VerificationPosition, is_damaged,
};
pub use query::{
    CheckpointRef, EventQuery, HandoffFilter, HealthCheckDepth, HitLocation, IndexAnswer, IndexBacklog,
    IndexHit, IndexHitKind, MemoryCounts, PartialDate, ProjectScope, RankQuery, RankedMessage, RunFilter,
    SearchQuery, SearchUnit, SortDirection, StoreHealth, StoredSummary, SubagentVisibility, SummaryProject,
    SummaryQuery, SupersededVisibility, ThreadFilter, ThreadPrefix, ThreadSort, ThreadSortKey, TurnQuery,
    UnclaimedRunsQuery, WordMatchMode,
};
pub use scoped::ScopedStore;
pub use store::{CommitReceipt, FencingToken, Store, StoreScope, ThreadSize, Transaction};
pub use view::page::{HistoryFilter, HistoryPage, HistoryQuery, history_page};
pub use write::memory::{
    FactDecision, FactKind, FactProposal, FactScope, FactSource, FactState, NOTES_REVISIONS_MAX,
    NotesRevisionRecord, RevisionCause, comparison_key,
};
pub use write::{
    Artifact, HandoffPatch, ImportProgress, ImportSource, OutboxItem, Replica, RunClaim, RunPatch,
    ThreadPatch, ThreadVersion, TurnSummarization, Write,
};

/// Boxes the future of a public operation, so that its state machine is compiled once, in the crate that defines it.
///
/// The state machine of an `async fn` is compiled in each crate that awaits it. `Box::pin(async move { … })` alone
/// does not prevent that: the compiler inlines a function that contains only this expression into its callers, and
/// compiles the state machine there again. It does not inline a function that calls another one.
#[inline(never)]
pub fn box_future<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Maximum size of an artifact in bytes: 64 MiB.
pub const ARTIFACT_BYTES_MAX: usize = 64 << 20;

/// Maximum number of rows of a page. A larger limit, or a limit of zero, is an error; it is never reduced silently.
pub const PAGE_ROWS_MAX: usize = 5_000;

/// Maximum number of words of a search.
pub const QUERY_WORDS_MAX: usize = 32;

/// The first label of the namespaces that belong to assistants. The second label is an [`assistant_label`].
pub const AGENT_NAMESPACE_LABEL: &str = "agents";

/// Returns the second label of the namespaces of an assistant's items: its id, and for items of one project also a hash
/// of the project's path.
///
/// The hash replaces the path because a label has a maximum length and no periods. No namespace of one project is below
/// that of another, or below that of the items without a project.
pub fn assistant_label(assistant_id: &AssistantId, project: Option<&str>) -> String {
    match project {
        None => assistant_id.to_string(),
        Some(path) => format!("{assistant_id}/{}", project_hash(path)),
    }
}

/// Returns the hash of a project's path, in the form of a UUID.
pub(crate) fn project_hash(path: &str) -> String {
    let digest = protocol::sha256_hex(path);
    [&digest[..8], &digest[8..12], &digest[12..16], &digest[16..20], &digest[20..32]].join("-")
}
