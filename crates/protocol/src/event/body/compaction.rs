//! Bodies of events that remove messages from the model's context or restore them. The types are defined in
//! [`crate::compaction`] and [`crate::memory`].

pub use crate::compaction::{ClippedResult, Compaction, CompactionFailed, CompactionUndone};
pub use crate::memory::{TurnsArchived, TurnsRestored};
