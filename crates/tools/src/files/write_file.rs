//! The tool `write_file`: a new file, or new content for one that was read.

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Review, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments;
use crate::files::change::{Changes, Rewrite};
use crate::files::text;

/// The tool.
pub(crate) struct WriteFile {
    changes: Arc<Changes>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the workspace.
    path: String,
    /// All that the file shall hold.
    content: String,
}

impl WriteFile {
    /// Returns the tool.
    pub fn new(changes: Arc<Changes>) -> Self {
        Self { changes }
    }
}

impl Args {
    fn rewrite(self) -> (String, Arc<Rewrite>) {
        let Self { path, content } = self;
        let rewrite = move |old: Option<&str>| {
            Ok(old.map_or_else(|| content.clone(), |old| text::in_style_of(old, &content)))
        };
        (path, Arc::new(rewrite))
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec::taking::<Args>(
            "write_file",
            "Writes a whole text file of the workspace; missing folders are made. A file that exists \
                          must have been read before, and keeps its line ends. For a change of a part, edit_file is \
                          better.",
        )
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        arguments::<Args>(args).map(drop)
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> Review {
        match arguments::<Args>(args).map(Args::rewrite) {
            Ok((path, rewrite)) => self.changes.review(&path, rewrite, context).await,
            Err(_) => Review::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match arguments::<Args>(args).map(Args::rewrite) {
            Ok((path, rewrite)) => self.changes.make(&path, rewrite, context).await,
            Err(reason) => ToolOutput::error(reason),
        }
    }
}
