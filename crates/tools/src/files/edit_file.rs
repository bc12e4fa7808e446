//! The tool `edit_file`: exact text replacements in one file, applied all or not at all. Matching is the task of
//! [`text_replacement`], reading and writing that of [`FileChanges`].

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{CallReview, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::files::file_change::{FileChanges, TextRewrite};
use crate::files::text_replacement::{self, TextReplacement};
use crate::parse_args;

/// Maximum number of replacements in one call.
const EDITS_MAX: usize = 200;

/// The tool `edit_file`.
pub(crate) struct EditFileTool {
    /// State shared with `write_file` and `read_file`.
    changes: Arc<FileChanges>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFileArgs {
    /// The file, relative to the workspace.
    path: String,
    /// The text as it is in the file, without line numbers; unique unless replace_all.
    #[serde(default)]
    old_string: Option<String>,
    /// The replacement text.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every occurrence. Default: false.
    #[serde(default)]
    replace_all: Option<bool>,
    /// Several replacements, instead of old_string and new_string.
    #[serde(default)]
    edits: Vec<TextReplacement>,
}

impl EditFileTool {
    /// Returns the tool. It applies its edits through `changes`.
    pub fn new(changes: Arc<FileChanges>) -> Self {
        Self { changes }
    }
}

impl EditFileArgs {
    /// Parses the arguments into the path and the function that computes the file's new text.
    ///
    /// # Errors
    /// Returns the message for the model if the arguments are malformed, or the number of edits is 0 or above the limit.
    fn parse(args: &Value) -> Result<(String, Arc<TextRewrite>), String> {
        let Self { path, old_string, new_string, replace_all, mut edits } = parse_args(args)?;
        match (old_string, new_string) {
            (Some(old_string), Some(new_string)) => {
                let replace_all = replace_all.unwrap_or_default();
                edits.insert(0, TextReplacement { old_string, new_string, replace_all });
            }
            (None, None) if replace_all.is_none() => {}
            _ => return Err("bad arguments: old_string and new_string belong together".to_owned()),
        }
        if edits.is_empty() || edits.len() > EDITS_MAX {
            return Err(format!("bad arguments: give 1 to {EDITS_MAX} edits"));
        }
        let displayed_path = path.clone();
        let rewrite = move |old: Option<&str>| match old {
            Some(old) => text_replacement::apply_replacements(old, &edits).map(|(text, _)| text),
            None => {
                Err(format!("there is no {displayed_path:?} in the workspace; write_file makes a new file"))
            }
        };
        Ok((path, Arc::new(rewrite)))
    }
}

#[async_trait]
impl Tool for EditFileTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<EditFileArgs>(
            "edit_file",
            "Replaces text of one file of the workspace that was read before. The text must match \
                          exactly, blanks included. Several edits of one call apply one after the other, all or none.",
        )
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        EditFileArgs::parse(args).map(drop)
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        match EditFileArgs::parse(args) {
            Ok((path, rewrite)) => self.changes.review_change(&path, rewrite, context).await,
            Err(_) => CallReview::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match EditFileArgs::parse(args) {
            Ok((path, rewrite)) => self.changes.apply_change(&path, rewrite, context).await,
            Err(reason) => ToolOutput::error(reason),
        }
    }
}
