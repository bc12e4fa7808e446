//! Interprets tool calls and their results: files, shell commands, checks, errors, tasks, and the state of the last request.

pub(crate) mod arguments;
pub(crate) mod commits;
pub(crate) mod delegations;
pub(crate) mod files;
pub(crate) mod outcomes;
pub(crate) mod request_state;
pub mod shell;
pub(crate) mod tasks;
pub mod tool_use;
