//! Handoffs: continuing the work of a parent thread in a new, blank child thread that starts with a reviewed summary.
//!
//! The stages of a handoff, each with its module:
//!
//! 1. **Request** (`request`): a person or the agent requests a handoff; its row and its events are written.
//! 2. **Draft** (`draft`): the thread is read from the journal, a transcript is selected within a token budget, and a
//!    model drafts the summary. Without a model, or when it fails, the offline summary takes its place.
//! 3. **Ground** (`summary::ground`): names in the summary that the covered messages do not contain mark their item as
//!    unverified.
//! 4. **Review** (`review`): the stored proposal is shown to a person, who accepts, edits, refines or declines it.
//! 5. **Probe** (`review::probe`): before the acceptance, questions about the conversation are answered from the summary alone.
//! 6. **Accept** (`accept`): the child thread is created and the managed block in `agent.md` is written.
//! 7. **Clean up** (`cleanup`): the block is cleared after the child's first complete turn.
//! 8. **Export** ([`mirror`]): accepted summaries are copied to a PostgreSQL table.
//!
//! `state` holds the state machine of the parent thread's graph, `lifecycle` the one of the handoff's row.
//!
//! This crate has no terminal or HTTP code, and it does not summarize a thread in place: that is compaction.

mod accept;
mod cleanup;
mod draft;
mod lifecycle;
pub mod limits;
pub mod mirror;
mod request;
mod review;
mod state;
mod summary;
mod transcript;

pub use accept::{
    Acceptance, AgentFiles, UNDECIDED_NOTE, child_deletion_writes, expiry_writes, rewind_writes,
};
pub use cleanup::{
    ClearBlockActivity, HandoffCleanup, MarkFirstTurn, route_after_turn, should_cleanup_handoff,
    turn_channels,
};
pub use draft::parts::estimate::{PartsEstimate, PriceUsage};
pub use draft::preview::HandoffPreview;
pub use draft::summarization::{
    DraftSettings, HandoffSummarization, OpenModel, route_after_decision, route_after_draft, route_entry,
};
pub use draft::window::scan_cache::ThreadScanCache;
pub use request::propose::{ProposalTiming, proposal_timing};
pub use request::tool::{
    HandoffResult, HandoffTool, REQUEST_HANDOFF, find_pending_handoff, is_requested_by_agent,
    route_after_result, unresolved_call_result,
};
pub use request::{
    GoalTooLong, HandoffOptions, PreparedHandoffRequest, handoff_run_restart, handoff_run_start, is_blank,
    normalize_goal, requested_key,
};
pub use review::approval::{APPROVAL_NODE, HandoffApproval, dismiss_handoff};
pub use review::edit::edited_markdown;
pub use review::edit_preview::{EditPreview, add_rule};
pub use review::probe::{ContinuityCheck, ContinuityResult};
pub use review::staleness::{PackageLine, StaleLine, StaleReason, StalenessCheck, update_package};
pub use summary::coverage::{CoverageBuilder, CoverageClass, CoverageCounts, count_coverage};
pub use summary::ground::GroundingCheck;
pub use summary::message_use::{MessageUse, MessageUseCounts, count_message_uses};
pub use summary::offline_summary::{OfflineSummary, build_offline_summary};
pub use summary::render::{self, fit_summary, render_summary};
pub use summary::select::{TranscriptSelection, TranscriptSelector};
pub use summary::statistics::{HandoffSample, HandoffStatistics, OutcomeStatistics};
pub use summary::suggestion::suggested_message;
pub use transcript::{QUESTION_EVENT_TYPES, editable_args, handoff_messages, show_assistant_name};
