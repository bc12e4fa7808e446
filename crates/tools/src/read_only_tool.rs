//! A generic tool that only reads below one path of the workspace. `ls`, `glob` and `grep` are instances of it; each
//! supplies its arguments and its read function.

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{CallReview, RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::files::review_read;
use crate::permission::{self, HiddenPaths};
use crate::workspace::Workspace;
use crate::{parse_args, run_blocking, to_output};

/// A read-only tool with arguments of type `A`.
pub(crate) struct ReadOnlyTool<A> {
    /// The tool's name.
    pub name: &'static str,
    /// The tool's description for the model.
    pub description: &'static str,
    /// Returns the path below which the tool reads, relative to the workspace. `None` stands for the workspace.
    pub path: fn(&A) -> Option<&str>,
    /// Does the work, with blocking I/O. The error is the message for the model.
    pub read: fn(&Workspace, &A, HiddenPaths, &CancellationToken) -> Result<String, String>,
}

#[async_trait]
impl<A: DeserializeOwned + JsonSchema + Send + Sync + 'static> Tool for ReadOnlyTool<A> {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<A>(self.name, self.description)
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args::<A>(args).map(drop)
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        match parse_args::<A>(args) {
            Ok(args) => review_read(&context.workspace, (self.path)(&args).unwrap_or(".")),
            Err(_) => CallReview::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args: A = match parse_args(args) {
            Ok(args) => args,
            Err(error) => return to_output(Err(error)),
        };
        let (root, cancel) = (context.workspace.clone(), context.cancel.clone());
        let (hidden, read) = (permission::hidden_paths(self.name), self.read);
        run_blocking(move || read(&Workspace::open(&root)?, &args, hidden, &cancel)).await
    }
}
