//! Running a turn.
mod tool;

pub use tool::{Tool, ToolContext, ToolOutput};
