//! What outlives a context: agent.md, the managed block in it, how the file reaches a model, and finding again what was
//! said before.
//!
//! [`block`] knows the text, [`AgentFile`] the file, [`prompt_section`] the prompt. [`AgentMdHook`] is the middleware,
//! [`EditMemory`] the agent's own way to change its notes. [`recall()`] finds original messages of a thread and those it
//! came from, [`RecallTool`] lets the agent do so; [`search()`] looks through everything. [`SummarizationHandoff`] makes
//! summaries of old turns, [`Tiering`] when that is due, and [`TieredMemoryHook`] shows them. [`remember()`] keeps a line in
//! agent.md, and [`Items`] what has a name. Deliberately absent: deciding when a handoff happens, and which
//! thread a summary belongs to; both come in from the journal's rows.

mod atomic_replace;
mod edit;
mod error;
mod file;
mod hook;
mod items;
pub mod managed_block;
mod prompt;
mod recall;
mod search;
mod tiers;

pub use edit::EDITED_BYTES_MAX;
pub use edit::remember::{RememberedNote, remember};
pub use edit::tool::{EDIT_MEMORY, EditMemoryTool};
pub use error::{Error, Result};
pub use file::{
    AGENT_MD_BYTES_MAX, AgentFile, AgentFileSnapshot, BlockWrite, BlockWriteOutcome, MarkerRepair,
    ReadExtent, RewriteOutcome,
};
pub use hook::AgentMdHook;
pub use items::{
    FilterError, ITEM_BYTES_MAX, ItemError, ItemSearch, ItemStore, NAME_BYTES_MAX, NAMESPACE_LABELS_MAX,
    NamespaceSearch, PutReceipt, STORE, StoreTool,
};
pub use prompt::{InheritedSummary, PromptSection, PromptSource, build_prompt_section};
pub use recall::{
    MessageFilter, NoteSource, RECALL, RECALL_TOKENS_MAX, RecallError, RecallNote, RecallQuery, RecallResult,
    RecallScope, RecallTool, RecalledMessage, Remaining, Speaker, recall,
};
pub use search::{AdjacentMessage, SearchHit, SearchHitSource, SearchRequest, SearchResults, search};
pub use tiers::{
    MemorySettings, NoSummaryReason, SummarizationError, SummarizationHandoff, SummarizationWorker,
    SummarizedTurns, TRANSFER_OUTBOX_KIND, TieredMemoryHook, TurnWindow, build_transfer_item, dequeue_writes,
};
