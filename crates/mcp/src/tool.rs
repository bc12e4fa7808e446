//! One tool of one server, as a tool of the runtime. Its submodules check arguments and convert names, descriptions,
//! schemas and results.

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

/// A tool of a server. The server's claim that a tool only reads makes an interrupted call repeatable, but it grants no
/// permission.
pub(crate) struct ServerTool {
    /// The qualified name, description and schema for models.
    pub spec: ToolSpec,
    /// The server's own name for the tool.
    pub name: String,
    /// The repeat policy for a call that a crash interrupted.
    pub repeat: RepeatSafety,
    /// The server that makes the calls.
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
