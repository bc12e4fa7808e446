//! The text of a summary, made and checked without a model: what is selected, the offline extract, the one rendering,
//! grounding, redaction and the ledger of what is covered. Nothing here reads or writes anything.

pub(crate) mod coverage;
pub(crate) mod extract;
pub(crate) mod files;
pub(crate) mod ground;
pub mod render;
pub(crate) mod select;
pub(crate) mod statistics;
