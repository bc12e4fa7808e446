//! What outlives a context: agent.md, the managed block in it, how the file reaches a model, and finding again what was
//! said before.
//!
//! [`block`] knows the text, [`AgentFile`] the file, [`prompt_section`] the prompt. [`AgentMdHook`] is the middleware,
//! [`EditMemory`] the agent's own way to change its notes. [`recall()`] finds original messages of a thread and those it
//! came from, [`RecallTool`] lets the agent do so; [`search()`] looks through everything. [`SummarizationHandoff`] makes
//! summaries of old turns, [`Tiering`] when that is due, and [`TieredMemoryHook`] shows them. [`remember()`] keeps a line in
//! agent.md, and [`Items`] what has a name. Deliberately absent: deciding when a handoff happens, and which
//! thread a summary belongs to; both come in from the journal's rows.

pub mod block;
mod edit;
mod error;
mod file;
mod hook;
mod inject;
mod items;
mod recall;
mod replace;
mod search;
mod tiers;

pub use edit::EDITED_BYTES_MAX;
pub use edit::remember::{Remembered, remember};
pub use edit::tool::{EDIT_MEMORY, EditMemory};
pub use error::{Error, Result};
pub use file::{AGENT_MD_BYTES_MAX, AgentFile, Extent, Outcome, Repair, Rewritten, Snapshot, Written};
pub use hook::AgentMdHook;
pub use inject::{HandedOver, Section, Source, prompt_section};
pub use items::{
    FilterFault, ITEM_BYTES_MAX, ItemError, ItemSearch, Items, Kept, LABELS_MAX, NAME_BYTES_MAX,
    NamespaceSearch, STORE, StoreTool,
};
pub use recall::{
    Note, Passage, RECALL, RECALL_TOKENS_MAX, Recall, RecallError, RecallQuery, RecallScope, RecallTool,
    Rest, Source as NoteSource, Speaker, Wanted, recall,
};
pub use search::{Beside, Found, SearchHit, SearchRequest, SearchResults, search};
pub use tiers::{
    NoSummary, Settings, Settled, SummarizationError, SummarizationHandoff, TRANSFER_DUE, TieredMemoryHook,
    Tiering, TurnWindow, not_due, transfer_due,
};
