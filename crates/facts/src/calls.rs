//! Interprets tool calls: files, commands, and the state of checks and tasks.

pub(crate) mod outcomes;
pub mod shell;
pub(crate) mod tasks;
pub mod tool_use;
