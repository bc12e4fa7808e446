//! The agent: configuration, assembly of the graph of a turn, and the services that front ends call to manage
//! threads, runs, handoffs, memory and administration.
//!
//! The terminal and the HTTP crates are front ends of [`Agent`] and hold no rules. This crate holds no
//! feature rules either: the crates below it decide how a handoff works, how a turn runs and what a message
//! means. It also knows no wire protocol.

mod admin;
mod agent;
mod assembly;
mod error;
mod handoffs;
mod home;
mod memories;
mod project;
mod runs;
mod threads;
mod workspace;

pub use admin::AdminService;
pub use admin::doctor::{CheckStatus, DoctorCheck};
pub use admin::error::AdminError;
pub use admin::graph_shape::{GraphEdge, GraphShape, GraphVertex};
pub use admin::maintenance::{backup_path, salvage_database};
pub use admin::tools::ToolInfo;
pub use agent::{Agent, AgentSettings, EnvironmentAccess, RunLimitOverrides};
pub use assembly::models::{ModelStatus, ProviderStatus};
pub use compaction::KeepPolicy;
pub use error::{Error, ErrorClass};
pub use handoffs::HandoffService;
pub use handoffs::error::HandoffError;
pub use handoffs::{
    ChildPackage, ContextUsage, HandoffCost, HandoffOrigin, HandoffOutcome, HandoffRequestOptions,
    HandoffReview, LineUpdate, ListedHandoff, MergedParent, PendingHandoff, ProbeMethod, StaleLine,
    StaleReason,
};
pub use home::HomeFolder;
pub use home::config::{ConfigFile, HandoffKeep, UserTools};
pub use home::database::{DatabaseAddress, DatabaseConfig};
pub use home::error::HomeError;
pub use memories::MemoryService;
pub use memories::embeddings::EmbeddingStatus;
pub use memories::error::MemoryError;
pub use memories::facts::FactListRequest;
pub use memories::{AgentMdStats, MemoryStats, MessageStats};
pub use runs::RunService;
pub use runs::error::RunError;
pub use runs::request::action::{
    InterruptAnswers, ParsedAnswer, RequestReader, RunAction, RunInput, UnreadableAnswer,
};
pub use runs::request::messages::{
    CLIENT_PROVIDER, CONTENT_FORMS, InputMessage, MessageChange, client_fields, client_fields_block,
    client_fields_of_block,
};
pub use runs::request::secret_check::check_request;
pub use runs::spans::TraceSubject;
pub use runs::{IfExists, NewThread, PendingWebhook, PendingWebhookPage, StartedRun, requested_steps_max};
pub use threads::compaction::{CompactionParameters, ThreadCompaction, ThreadCompactionUndo};
pub use threads::error::ThreadError;
pub use threads::export::{ThreadExport, TranscriptFormat};
pub use threads::import::incomplete::incomplete_import_notice;
pub use threads::import::scratch::ScratchImport;
pub use threads::import::{FoundSession, ImportReport, ImportedThread, SessionImportProblem};
pub use threads::lineage::{LineageThread, SubagentList, SubagentThread, ThreadLineage};
pub use threads::pruning::{KeptThreadCounts, NamedThreadPolicy, PrunableThread, PrunePlan, PruneReport};
pub use threads::reports::{CompactedPart, ContextPart, ContextReport, CostReport, ModelCost};
pub use threads::rewind::{RewindResult, UserPrompt};
pub use threads::states::{
    Continuation, ModelWindow, StateChange, StateMessage, StateOrigin, ThreadSnapshot, client_channels,
    has_media,
};
pub use threads::{ThreadNode, ThreadService, display_state};
pub use workspace::{WORKSPACE_KEY, is_canonical_folder};

pub use handoff::mirror::{MirrorDelivery, MirrorReport, MirrorRowCounts, MirrorStatus};
pub use handoff::render::{
    facts_markdown, heading as summary_heading, is_summary_heading, render_markdown as summary_markdown,
};
pub use handoff::{
    CoverageCounts, HandoffStatistics, MessageUse, MessageUseCounts, OutcomeStatistics, PartsEstimate,
    UNDECIDED_NOTE, add_rule, count_coverage, count_message_uses, edited_markdown, show_assistant_name,
};
pub use journal::copy::{
    BackupReport, CopyOutcome, CopyPhase, CopyReport, LostEvents, LostRows, SalvageReport, SchemaMigration,
    TableChecksum,
};
pub use journal::view::{
    ArchiveMarker, AuditEntry, CompactionFailedEntry, CompactionUndoneEntry, DamagedEntry, HistoryEntry,
    HistoryItem, ImportedBoundaryEntry, SummaryMarker, ToolCallHeader, page_entry,
};
pub use journal::{ARTIFACT_BYTES_MAX, Artifact, PoolStatistics, ThreadSize, box_future};
pub use journal::{AllThreadsSubscription, CommitFeed, ThreadSubscription};
pub use journal::{
    EmbeddingCounts, EventQuery, FactKind, FactState, HistoryFilter, HistoryPage, HistoryQuery, IndexBacklog,
    IndexHitKind, MeaningComparison, MemoryFact, NotesRevision, OutboxCursor, ProjectScope, RevisionCause,
    RunFilter, SearchUnit, SortDirection, StoredSummary, SubagentVisibility, SummaryProject,
    SupersededVisibility, ThreadFilter, ThreadSort, ThreadSortKey, VerificationPosition,
};
pub use mcp::{
    ConfigOrigin, ConsentDecision, McpServerState, McpServerStatus, PlannedServer, ServerReadiness,
};
pub use memory::{
    AdjacentMessage, AgentFileSnapshot, EmbeddingOutcome, FactError, FactReceipt, FactVerdict, HistoryError,
    ItemSearch, ItemStore, MatchBasis, MemoryScope, MessageFilter, NamespaceSearch, NoteReplacement,
    NotesScope, PIN_CHARS_MAX, PINS_MAX, PinError, PinReceipt, PinRequest, PutReceipt, ReadExtent,
    RecallQuery, RecallResult, RecalledMessage, Remaining, RememberedNote, RestoreOutcome, RevisionEntry,
    RewriteOutcome, SearchHit, SearchHitSource, SearchRequest, SearchResults, Speaker, SummarizationWorker,
    SummarizedTurns, UnpinReceipt,
};
pub use model::tokens::estimate_tokens;
pub use protocol::OFFLINE_SUMMARY_MODEL;
pub use runtime::{
    FRAME_COUNT_BITS, Frame, FrameMode, FramePosition, FrameSender, FrameSubscription, Replay, ReplayStatus,
    RunEnd, SubagentFrame, SubscriptionItem, TakeoverGap,
};
pub use secrets::{SecretReport, redact};
pub use telemetry::{
    DURATION_BOUNDS, DurationHistogram, SpanId, SpanOutcome, TelemetryTotals, ToolCallRef, TraceExport,
    TraceId, TraceSpan, TraceSpanKind,
};
pub use tokio_util::sync::CancellationToken;
pub use tools::permission::{ApprovalPolicy, PermissionRule, RuleScope, looks_secret};
pub use tools::quote_shell_word;
pub use user_hooks::{HookDispatcher, HookEvent, MissedHookCall, kill_commands as end_hook_commands};

/// The result of a call that can fail with an [`Error`] of this crate.
pub type Result<T> = std::result::Result<T, Error>;
