//! Bodies of what leaves a context and comes back. Their types stand with the subjects they belong to.

pub use crate::compaction::{ClippedResult, Compaction, CompactionFailed, CompactionUndone};
pub use crate::memory::{TurnsArchived, TurnsRestored};
