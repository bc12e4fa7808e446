//! One tool of one server, as the runtime knows it.

mod arguments;
pub(crate) mod listed_tool;
pub(crate) mod qualified_names;
pub(crate) mod result;
pub(crate) mod schema;

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{RepeatSafety, Tool, ToolContext, ToolOutput};
use serde_json::Value;

use crate::server::McpServer;

/// A tool of a server. That the server says it only reads lets a cut-off call be repeated; it allows nothing.
pub(crate) struct ServerTool {
    /// How models know it.
    pub spec: ToolSpec,
    /// How the server knows it.
    pub name: String,
    /// The repeat policy for a call that was cut off.
    pub repeat: RepeatSafety,
    pub server: Arc<McpServer>,
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn repeat_safety(&self) -> RepeatSafety {
        self.repeat
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        arguments::check_arguments(&self.spec.parameters, args)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args = match args {
            Value::Object(args) => args.clone(),
            Value::Null => serde_json::Map::new(),
            _ => return ToolOutput::error("bad arguments: they must be an object"),
        };
        self.server.call_tool(&self.name, args, context).await
    }
}
