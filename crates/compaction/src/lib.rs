//! Compaction: replacing the older part of a thread's context by a summary, in place. The steps are trigger, cut,
//! summarize.
//!
//! The result is one event, `middleware:summarize`, which names the range of the conversation that its summary
//! represents. No message is changed or removed, and [`undo_event`] reverts it.
//!
//! [`CompactionHook`] decides before each model call whether compaction is due, and reacts when the provider refuses a
//! request as too large; it routes the graph to [`CompactionNode`]. The user's `/compact` starts at that node. A
//! [`BeforeCompactionHook`] can veto a compaction before it is committed.
//!
//! Summaries for a child thread belong to the crate `handoff`, summaries for later recall to the crate `memory`.

mod before_hooks;
mod clip;
mod compactor;
mod cut;
mod node;
mod plan;
mod settings;
mod summary;
mod tool;
mod trigger;
mod undo;

pub use before_hooks::{BeforeCompactionHook, HookVerdict, PendingCompaction};
pub use compactor::{CompactionHook, Compactor, RequestSizes, postpone_compaction};
pub use node::{
    COMPACTION_NODE, CompactionNode, CompactionPreview, compaction_request_channels, is_compaction_only_run,
};
pub use plan::CompactionRequest;
pub use settings::CompactionSettings;
pub use tool::{COMPACT_CONVERSATION, CompactConversationTool};
pub use trigger::{KeepPolicy, TRIGGER_FRACTION, TriggerClause};
pub use undo::{NewestCompaction, find_newest_compaction, undo_event};
