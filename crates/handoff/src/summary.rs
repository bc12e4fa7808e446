//! The parts of a summary that need no model: transcript selection, the offline summary, rendering to Markdown,
//! grounding, the coverage ledger and the statistics.
//!
//! Everything here is synchronous and pure, except [`files`], which inspects files on disk.

pub(crate) mod coverage;
pub(crate) mod files;
pub(crate) mod ground;
pub(crate) mod message_use;
pub(crate) mod offline_summary;
pub(crate) mod outline;
pub(crate) mod redaction;
pub mod render;
pub(crate) mod rules;
pub(crate) mod select;
pub(crate) mod statistics;
pub(crate) mod suggestion;
