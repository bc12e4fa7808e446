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
mod workspace;

pub use agent::admin_error::AdminError;
pub use agent::services::{AdminService, HandoffService, MemoryService, RunService, ThreadService};
pub use agent::{Agent, RunLimits, Settings};
pub use assembly::models::{ModelStatus, ProviderStatus};
pub use assembly::toolbox::ToolInfo;
pub use compaction::Keep;
pub use error::{Class, Error};
pub use handoffs::error::HandoffError;
pub use handoffs::{
    Decided, Fullness, HandoffCost, HandoffRequest, HandoffReview, ListedHandoff, PendingHandoff,
};
pub use home::Home;
pub use home::config::{Config, UserTools};
pub use home::database::{Database, DatabaseConfig};
pub use home::error::HomeError;
pub use home::moving::backup_path;
pub use memories::error::MemoryError;
pub use memories::{AgentMdStats, MemoryStats, TurnStats};
pub use reports::doctor::{Check, Verdict};
pub use reports::{CondensedPart, ContextPart, ContextReport, CostReport, ModelCost};
pub use requests::action::{Answer, Answers, RequestReader, RunAction, RunInput, UnreadableAnswer};
pub use requests::error::RunError;
pub use requests::messages::{
    CLIENT, CONTENT_FORMS, Change, InputMessage, client_fields, fields_block, fields_of,
};
pub use requests::secrets::check_request;
pub use requests::{Begun, IfExists, NewThread, TEMPORARY_KEY, Webhook, Webhooks, steps_max};
pub use states::{
    Continuation, GraphEdge, GraphPlace, GraphShape, ModelWindow, State, StateChange, StateMessage,
    StateOrigin, has_media, shown_channels,
};
pub use threads::compaction::{CompactionRequest, Condensed, Uncompacted};
pub use threads::error::ThreadError;
pub use threads::export::{export_json, export_markdown};
pub use threads::import::{FoundSession, ImportProblem, ImportReport, ImportedThread};
pub use threads::lineage::{Lineage, LineageThread, SubagentThread, SubagentsOf};
pub use threads::pruning::{KeptThreads, Named, Prunable, PrunableThread, Pruned};
pub use threads::rewind::{Prompt, Rewound};
pub use threads::spans::Traced;
pub use threads::{ThreadNode, state_of};
pub use workspace::{WORKSPACE_KEY, is_in_place};

pub use facts::redact;
pub use handoff::mirror::{Delivered, MirrorReport, MirrorStatus, Rows as MirrorRows};
pub use handoff::render::{heading as summary_heading, markdown as summary_markdown};
pub use handoff::{
    Counts as CoverageCounts, EXTRACTIVE, Figures as HandoffFigures, Statistics as HandoffStatistics,
    UNDECIDED, counts as coverage_counts, name_assistant,
};
pub use journal::moving::{BackedUp, Copied, Migrated, Outcome as CopyOutcome, Step as MoveStep, TableSum};
pub use journal::view::{
    ArchiveMarker, BoundaryEntry, CallHeader, FailedEntry, HistoryEntry, HistoryItem, SummaryMarker,
    UndoneEntry, listed as history_entry,
};
pub use journal::{ARTIFACT_BYTES_MAX, Artifact, PoolFigures, ThreadSize};
pub use journal::{AnyNews, News, ThreadNews};
pub use journal::{
    Direction, EventQuery, FoundKind, HistoryPage, HistoryQuery, OutboxPlace, RunFilter, Shown, Sort, SortBy,
    StoredSummary, Subagents, Superseded, ThreadFilter,
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
pub use runtime::{
    Cut, Frame, Frames, Item, Mode, Position, Retelling, Retold, RunEnd, STEP_BITS, Subscription, Within,
};
pub use telemetry::{
    BOUNDS as DURATION_BOUNDS, Counts, Durations, Kind as SpanKind, Outcome as SpanOutcome, Span, SpanId,
    ToolCalled, TraceId, Traces,
};
pub use tokio_util::sync::CancellationToken;
pub use tools::permission::{Policy, Rule, Scope, looks_secret};
pub use user_hooks::{Hooks, Missed, Occasion, end_commands as end_hook_commands};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
