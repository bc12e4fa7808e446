//! The tool `write_file`: creates a file, or replaces the whole content of a file that was read before. Reading and
//! writing is the task of [`FileChanges`].

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{CallReview, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::files::file_change::{FileChanges, TextRewrite};
use crate::files::text_replacement;
use crate::parse_args;

/// The tool `write_file`.
pub(crate) struct WriteFileTool {
    /// State shared with `edit_file` and `read_file`.
    changes: Arc<FileChanges>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFileArgs {
    /// The file, relative to the workspace.
    path: String,
    /// The whole content of the file.
    content: String,
}

impl WriteFileTool {
    /// Returns the tool. It writes through `changes`.
    pub fn new(changes: Arc<FileChanges>) -> Self {
        Self { changes }
    }
}

impl WriteFileArgs {
    /// Returns the path and the function that computes the file's new text. An existing file keeps its line endings and
    /// its byte order mark.
    fn into_rewrite(self) -> (String, Arc<TextRewrite>) {
        let Self { path, content } = self;
        let rewrite = move |old: Option<&str>| {
            Ok(old.map_or_else(|| content.clone(), |old| text_replacement::match_style(old, &content)))
        };
        (path, Arc::new(rewrite))
    }
}

#[async_trait]
impl Tool for WriteFileTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<WriteFileArgs>(
            "write_file",
            "Writes a whole text file of the workspace; missing folders are made. A file that exists \
                          must have been read before, and keeps its line ends. For a change of a part, edit_file is \
                          better.",
        )
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args::<WriteFileArgs>(args).map(drop)
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        match parse_args::<WriteFileArgs>(args).map(WriteFileArgs::into_rewrite) {
            Ok((path, rewrite)) => self.changes.review_change(&path, rewrite, context).await,
            Err(_) => CallReview::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match parse_args::<WriteFileArgs>(args).map(WriteFileArgs::into_rewrite) {
            Ok((path, rewrite)) => self.changes.apply_change(&path, rewrite, context).await,
            Err(reason) => ToolOutput::error(reason),
        }
    }
}
