//! Tools: what a model may ask the agent to do. The tools themselves live in the `tools` room.

use std::path::PathBuf;

use async_trait::async_trait;
use model::ToolSpec;
use protocol::{Block, ToolStatus};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a tool is given beside its arguments.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The folder the agent works in; no tool reaches outside it.
    pub workspace: PathBuf,
    /// Cancelled when the run is; a tool that waits must stop waiting then.
    pub cancel: CancellationToken,
}

/// What a tool returns to the model. A failure is an output too: the model reads it and goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// Whether the tool did what it was asked.
    pub status: ToolStatus,
    /// What the model reads.
    pub content: Vec<Block>,
}

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool as it is described to a model.
    fn spec(&self) -> ToolSpec;

    /// Runs one call.
    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput;
}

impl ToolOutput {
    /// Returns a success with one text block.
    pub fn success(text: impl Into<String>) -> Self {
        Self { status: ToolStatus::Success, content: vec![Block::text(text)] }
    }

    /// Returns a failure with one text block that says what was wrong and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { status: ToolStatus::Error, content: vec![Block::text(text)] }
    }
}
