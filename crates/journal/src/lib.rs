//! What happened: the append-only event log, and the rows derived from it (threads, runs, checkpoints, interrupts,
//! handoffs, proposals, artifacts, feedback, outbox, turns, summaries of turns, items).
//!
//! A [`Transaction`] is a list of [`Write`]s that take effect together or not at all; a [`Store`] performs it and
//! answers questions. No model is called here, no prompt is known, and no rule decides which event to write.
//! Nothing in this room changes or removes an event, except the deletion of a whole thread, which takes the words about
//! it that memory had told other threads along: a rewind
//! ([`Write::Rewind`]) only says which events reads leave out.

mod engines;
mod error;
pub mod moving;
mod news;
mod owned;
mod query;
mod scoped;
mod store;
mod tables;
pub mod view;
mod write;

pub use engines::postgres::{PoolFigures, PoolSettings, Postgres};
pub use engines::sqlite::{OpenOptions, Sqlite};
pub use error::Error;
pub use news::commits::{Commits, Following};
pub use news::{AnyNews, News, ThreadNews};
pub use query::items::{Comparison, Condition, FoundItem, ItemQuery, NamespaceQuery};
pub use query::outbox::{OutboxPlace, OutboxQuery};
pub use query::{
    CheckpointRef, Direction, EventQuery, FoundKind, HandoffFilter, Health, HealthDepth, Hit, MemoryCounts,
    NamedDate, Place, RankQuery, Ranked, Require, RunFilter, SearchQuery, Sort, SortBy, StoredSummary,
    Subagents, SummaryQuery, Superseded, ThreadFilter, ThreadPart, TurnQuery, Unclaimed,
};
pub use scoped::Scoped;
pub use store::{Committed, Fence, Reach, Store, ThreadSize, Transaction};
pub use view::page::{HistoryPage, HistoryQuery, Shown, history_page};
pub use write::{
    Artifact, Claim, HandoffPatch, ImportSource, ImportedSoFar, OutboxItem, Planned, Replica, RunPatch,
    ThreadPatch, Transfer, Write,
};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// The most bytes of one artifact: 64 MiB.
pub const ARTIFACT_BYTES_MAX: usize = 64 << 20;

/// The most rows one page holds; a larger or zero limit is an error, never a silent cut.
pub const PAGE_ROWS_MAX: usize = 5_000;

/// The most words one search looks for.
pub const QUERY_WORDS_MAX: usize = 32;

/// The first label of the namespaces that belong to assistants; the second is the id of one.
pub const AGENT_ITEMS: &str = "agents";
