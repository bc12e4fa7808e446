//! Assembly: configuration, the one graph with its nodes in their one order, and the calls a front end makes: open,
//! import, send, hand off, decide, recover, list.
//!
//! The terminal and HTTP are faces of [`Agent`] and hold no rules. This room holds none of its own either: what a
//! handoff is, how a turn runs and what a message means is decided in the rooms below.

mod agent;
mod assembly;
mod error;
mod handoffs;
mod home;
mod import;
mod memories;
mod models;
mod reports;
mod threads;
mod turns;

pub use agent::{Agent, RunLimits, Settings};
pub use assembly::toolbox::ToolInfo;
pub use compaction::Keep;
pub use error::{Class, Error};
pub use handoffs::{
    Decided, Fullness, HandoffCost, HandoffRequest, HandoffReview, OpenHandoff, PendingHandoff,
};
pub use home::Home;
pub use home::config::Config;
pub use import::{FoundSession, ImportProblem, ImportReport, ImportedThread};
pub use memories::{AgentMdStats, MemoryStats, TurnStats};
pub use models::{ModelStatus, ProviderStatus};
pub use reports::doctor::{Check, Verdict};
pub use reports::{CondensedPart, ContextPart, ContextReport, CostReport, ModelCost};
pub use threads::ThreadNode;
pub use threads::compaction::{CompactionRequest, Condensed, Uncompacted};
pub use threads::export::export_markdown;
pub use threads::rewind::{Prompt, Rewound};
pub use turns::WORKSPACE_KEY;

pub use handoff::render::{heading as summary_heading, markdown as summary_markdown};
pub use handoff::{Counts as CoverageCounts, EXTRACTIVE, UNDECIDED, counts as coverage_counts};
pub use journal::view::{
    ArchiveMarker, BoundaryEntry, CallHeader, HistoryEntry, HistoryItem, SummaryMarker, UndoneEntry,
};
pub use journal::{
    EventQuery, FoundKind, HistoryPage, HistoryQuery, Order, Shown, StoredSummary, Superseded, ThreadFilter,
};
pub use mcp::{
    Answer as McpAnswer, Planned as McpServer, ServerState, ServerStatus, Source as McpSource, Standing,
};
pub use memory::{
    Beside, Extent, Found, ItemSearch, Items, Kept, NamespaceSearch, Passage, Recall, RecallQuery,
    Remembered, Rest, Rewritten, SearchHit, SearchRequest, SearchResults, Settled, Snapshot as AgentMd,
    Speaker, Tiering, Wanted,
};
pub use model::tokens::estimate as estimate_tokens;
pub use runtime::{Frame, Frames, Item, Mode, Position, RunEnd, Subscription};
pub use tokio_util::sync::CancellationToken;
pub use tools::permission::{Policy, Rule, Scope, looks_secret};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
