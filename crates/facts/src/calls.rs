//! What tool calls did: which files, which commands, how checks and tasks stand.

pub(crate) mod outcomes;
pub mod shell;
pub(crate) mod tasks;
pub mod tool_use;
