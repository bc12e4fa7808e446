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
mod memories;
mod reports;
mod requests;
mod states;
mod threads;
mod turns;

pub use agent::{Agent, RunLimits, Settings};
pub use assembly::models::{ModelStatus, ProviderStatus};
pub use assembly::toolbox::ToolInfo;
pub use compaction::Keep;
pub use error::{Class, Error, TraceError};
pub use handoffs::{
    Decided, Fullness, HandoffCost, HandoffRequest, HandoffReview, ListedHandoff, PendingHandoff,
};
pub use home::Home;
pub use home::config::{Config, UserTools};
pub use home::database::{Database, DatabaseConfig};
pub use home::moving::backup_path;
pub use memories::{AgentMdStats, MemoryStats, TurnStats};
pub use reports::doctor::{Check, Verdict};
pub use reports::{CondensedPart, ContextPart, ContextReport, CostReport, ModelCost};
pub use requests::check::check_readable;
pub use requests::fault::Fault;
pub use requests::messages::{
    CLIENT, Change, InputMessage, MessageFault, client_content, client_fields, messages_in,
};
pub use requests::secrets::check_request;
pub use requests::{Begun, IfExists, NewThread, TEMPORARY_KEY, Webhook, Webhooks};
pub use states::{
    GraphEdge, GraphShape, ModelWindow, State, StateChange, StateMessage, has_media, shown_channels, task_id,
};
pub use threads::ThreadNode;
pub use threads::compaction::{CompactionRequest, Condensed, Uncompacted};
pub use threads::export::{export_json, export_markdown};
pub use threads::import::{FoundSession, ImportProblem, ImportReport, ImportedThread};
pub use threads::lineage::{Lineage, LineageThread, SubagentThread, SubagentsOf};
pub use threads::pruning::{KeptThreads, Named, Prunable, PrunableThread, Pruned};
pub use threads::rewind::{Prompt, Rewound};
pub use threads::spans::Traced;
pub use turns::WORKSPACE_KEY;

pub use handoff::mirror::{Delivered, MirrorReport, MirrorStatus, Rows as MirrorRows};
pub use handoff::render::{heading as summary_heading, markdown as summary_markdown};
pub use handoff::{
    Counts as CoverageCounts, EXTRACTIVE, Figures as HandoffFigures, Statistics as HandoffStatistics,
    UNDECIDED, counts as coverage_counts, name_assistant,
};
pub use hooks::{Hooks, Missed, Occasion, end_commands as end_hook_commands};
pub use journal::moving::{BackedUp, Copied, Migrated, Outcome as CopyOutcome, Step as MoveStep, TableSum};
pub use journal::view::{
    ArchiveMarker, BoundaryEntry, CallHeader, FailedEntry, HistoryEntry, HistoryItem, SummaryMarker,
    UndoneEntry, listed as history_entry,
};
pub use journal::{AnyNews, News, ThreadNews};
pub use journal::{
    Direction, EventQuery, FoundKind, HistoryPage, HistoryQuery, OutboxPlace, RunFilter, Shown, Sort, SortBy,
    StoredSummary, Subagents, Superseded, ThreadFilter,
};
pub use journal::{PoolFigures, ThreadSize};
pub use ledger::redact;
pub use mcp::{
    Answer as McpAnswer, Planned as McpServer, ServerState, ServerStatus, Source as McpSource, Standing,
};
pub use memory::{
    Beside, Extent, Found, ItemSearch, Items, Kept, NamespaceSearch, Passage, Recall, RecallQuery,
    Remembered, Rest, Rewritten, SearchHit, SearchRequest, SearchResults, Settled, Snapshot as AgentMd,
    Speaker, Tiering, Wanted,
};
pub use model::tokens::estimate as estimate_tokens;
pub use runtime::{
    Cut, Frame, Frames, Item, Mode, Position, Retelling, Retold, RunEnd, STEP_BITS, Subscription, Within,
};
pub use telemetry::{
    BOUNDS as DURATION_BOUNDS, Counts, Durations, Kind as SpanKind, Outcome as SpanOutcome, Span, SpanId,
    ToolCalled, TraceId, Traces,
};
pub use tokio_util::sync::CancellationToken;
pub use tools::permission::{Policy, Rule, Scope, looks_secret};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
