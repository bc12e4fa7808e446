//! One tool of one server, as the runtime knows it.

mod arguments;
pub(crate) mod names;
pub(crate) mod result;
pub(crate) mod schema;
pub(crate) mod spec;

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Repeat, Tool, ToolContext, ToolOutput};
use serde_json::Value;

use crate::server::Server;

/// A tool of a server. That the server says it only reads lets a cut-off call be repeated; it allows nothing.
pub(crate) struct ServerTool {
    /// How models know it.
    pub spec: ToolSpec,
    /// How the server knows it.
    pub name: String,
    /// Whether a cut-off call may be made again.
    pub repeat: Repeat,
    pub server: Arc<Server>,
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn repeat(&self) -> Repeat {
        self.repeat
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        arguments::check(&self.spec.parameters, args)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args = match args {
            Value::Object(args) => args.clone(),
            Value::Null => serde_json::Map::new(),
            _ => return ToolOutput::error("bad arguments: they must be an object"),
        };
        self.server.call(&self.name, args, context).await
    }
}
