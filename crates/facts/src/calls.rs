//! Interprets tool calls and their results: files, shell commands, checks, errors and tasks.

pub(crate) mod arguments;
pub(crate) mod files;
pub(crate) mod outcomes;
pub mod shell;
pub(crate) mod tasks;
pub mod tool_use;
