//! When a context is too big: trigger, cut, summarise. What comes of it is one event that says which stretch of the
//! conversation its summary stands for; no message is changed or removed.
//!
//! [`CompactionHook`] notices before each model call that it is time, or that the provider refused a request as too
//! large, and leads the graph to [`CompactionNode`]; a person's `/compact` begins there. A [`BeforeCompaction`] has its say
//! before one takes effect. Handoffs are another room's.

mod before;
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

pub use before::{BeforeCompaction, DueCompaction, Ruling};
pub use compactor::{CompactionHook, Compactor, Sizes, put_off};
pub use node::{COMPACTION_NODE, CompactionNode, Previewed, is_whole_run, wanted_channels};
pub use plan::Wanted;
pub use settings::Settings;
pub use summary::EXTRACTIVE;
pub use tool::{COMPACT_CONVERSATION, CompactTool};
pub use trigger::{Clause, Keep, TRIGGER_FRACTION};
pub use undo::{NewestMarker, newest_marker, undone};
