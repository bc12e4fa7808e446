//! Memory that outlives a context: agent.md with its managed block, pins, recall of earlier messages, search,
//! summaries of old messages, and named items.
//!
//! [`managed_block`] handles the block as text, [`AgentFile`] the file, and [`build_prompt_section`] the prompt.
//! [`AgentMdHook`] adds the file to model requests. [`EditMemoryTool`] lets the agent edit its notes, and
//! [`remember()`] adds a note for the user, and [`FactReview`] decides on facts that a model proposed. [`NotesHistory`]
//! records, shows and restores earlier states of the notes. [`recall()`] finds original messages of a thread and its ancestors,
//! [`RecallTool`] gives it to the agent, and [`search()`] covers everything. [`SummarizationHandoff`] summarizes
//! old messages, [`SummarizationWorker`] decides when that is due, and [`TieredMemoryHook`] shows the summaries to
//! the model. [`pin()`] and [`unpin()`] change the pins of a thread, and [`PinsHook`] adds them to model requests.
//! [`ItemStore`] keeps named items. [`EmbeddingWorker`] embeds messages for searches by meaning. Deliberately absent: deciding when a handoff happens and which
//! thread a summary belongs to. The journal's rows decide both.

mod edit;
mod error;
mod file;
mod hook;
mod items;
pub mod managed_block;
mod pins;
mod prompt;
mod recall;
mod search;
mod tiers;

pub use edit::EDITED_BYTES_MAX;
pub use edit::fact_review::{FactError, FactReceipt, FactReview, FactVerdict};
pub use edit::remember::{NOTE_CHARS_MAX, NoteReplacement, RememberedNote, remember};
pub use edit::tool::{EDIT_MEMORY, EditMemoryTool};
pub use error::{Error, Result};
pub use file::history::{HistoryError, NotesHistory, RestoreOutcome, RevisionEntry};
pub use file::project_notes::{NoteOwner, NotesScope};
pub use file::{
    AGENT_MD_BYTES_MAX, AgentFile, AgentFileGuard, AgentFileSnapshot, BlockWrite, BlockWriteOutcome,
    MarkerRepair, ReadExtent, RewriteOutcome,
};
pub use hook::AgentMdHook;
pub use hook::inherited_summary::{SummaryRetention, UNUSED_TURNS_MAX};
pub use items::{
    FilterError, ITEM_BYTES_MAX, ItemError, ItemSearch, ItemStore, NAME_BYTES_MAX, NAMESPACE_LABELS_MAX,
    NamespaceSearch, PutReceipt, STORE, StoreTool,
};
pub use pins::hook::PinsHook;
pub use pins::{
    PIN_CHARS_MAX, PINS_CHARS_MAX, PINS_MAX, PinError, PinReceipt, PinRequest, ThreadPins, UnpinReceipt, pin,
    unpin,
};
pub use prompt::{InheritedSummary, PromptSection, PromptSource, build_prompt_section};
pub use recall::{
    MessageFilter, NoteSource, RECALL, RECALL_TOKENS_MAX, RecallError, RecallNote, RecallQuery, RecallResult,
    RecallScope, RecallTool, RecalledMessage, Remaining, Speaker, recall,
};
pub use search::embeddings::{
    EmbeddingConfig, EmbeddingModel, EmbeddingOutcome, EmbeddingWorkError, EmbeddingWorker, SearchSettings,
};
pub use search::{
    AdjacentMessage, MatchBasis, SearchHit, SearchHitSource, SearchRequest, SearchResults, search,
};
pub use tiers::{
    AgentFileLookup, MemoryScope, MemorySettings, NoSummaryReason, SummarizationError, SummarizationHandoff,
    SummarizationWorker, SummarizedTurns, TRANSFER_OUTBOX_KIND, TieredMemoryHook, TurnWindow,
    build_transfer_item, dequeue_writes,
};
