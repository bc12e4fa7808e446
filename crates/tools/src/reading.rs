//! A tool that only reads, below one path of the workspace: what listing a folder, finding files and finding lines have in
//! common. What each looks for is its own matter.

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Repeat, Review, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::files::reading;
use crate::permission::{self, Hidden};
use crate::workspace::Workspace;
use crate::{arguments, blocking, output};

/// A tool that reads what its arguments `A` say.
pub(crate) struct ReadingTool<A> {
    pub name: &'static str,
    pub description: &'static str,
    /// Returns the path below which it reads; `None` is the workspace.
    pub path: fn(&A) -> Option<&str>,
    /// Reads; the error is what the model is told.
    pub read: fn(&Workspace, &A, Hidden, &CancellationToken) -> Result<String, String>,
}

#[async_trait]
impl<A: DeserializeOwned + JsonSchema + Send + Sync + 'static> Tool for ReadingTool<A> {
    fn spec(&self) -> ToolSpec {
        ToolSpec::taking::<A>(self.name, self.description)
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        arguments::<A>(args).map(drop)
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> Review {
        match arguments::<A>(args) {
            Ok(args) => reading(&context.workspace, (self.path)(&args).unwrap_or(".")),
            Err(_) => Review::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args: A = match arguments(args) {
            Ok(args) => args,
            Err(error) => return output(Err(error)),
        };
        let (root, cancel) = (context.workspace.clone(), context.cancel.clone());
        let (hidden, read) = (permission::hidden(self.name), self.read);
        blocking(move || read(&Workspace::open(&root)?, &args, hidden, &cancel)).await
    }
}
