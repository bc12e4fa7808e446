//! The tools of the agent: reading and changing files, running commands and keeping a task list; and the permission rules
//! that decide which calls are allowed ([`permission`], [`ToolApproval`]).
//!
//! Every tool that opens files itself stays inside the workspace, bounds its output, and answers a bad call with a text
//! the model can act on. Deliberately absent: any policy about context, and a sandbox for commands.

mod approval;
mod execute;
mod files;
pub mod permission;
mod read_only_tool;
mod search;
mod shell;
mod skills;
mod todos;
mod truncation;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;

use runtime::{Tool, ToolOutput};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use approval::ToolApproval;
pub use skills::{Skill, SkillCatalog, Skills};
pub use todos::{TODOS_CHANNEL, Todo};

/// How many bytes at the beginning of a file are searched for a zero byte, which makes it binary.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// The settings of the tools.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// Folders and files that no tool writes to, wherever they are.
    pub protected: Vec<PathBuf>,
    /// Environment variables that commands are not given, beside those that hold the keys of known providers.
    pub secrets: Vec<String>,
}

/// Returns the agent's own tools. They remember together which files were read: make them once a process, not once a
/// run.
pub fn builtin_tools(settings: ToolSettings) -> Vec<Arc<dyn Tool>> {
    let protected = settings.protected.iter();
    let protected = protected.map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    let changes =
        Arc::new(files::file_change::FileChanges { protected, ..files::file_change::FileChanges::default() });
    vec![
        Arc::new(files::ls::LS),
        Arc::new(files::read_file::ReadFileTool::new(Arc::clone(&changes.read_tracker))),
        Arc::new(search::glob::GLOB),
        Arc::new(search::grep::GREP),
        Arc::new(files::write_file::WriteFileTool::new(Arc::clone(&changes))),
        Arc::new(files::edit_file::EditFileTool::new(changes)),
        Arc::new(execute::ExecuteTool::new(settings.secrets)),
        Arc::new(todos::WriteTodosTool),
    ]
}

/// Returns those of the agent's own tools that touch nothing of this machine.
pub fn tools_without_workspace() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(todos::WriteTodosTool)]
}

/// Reads a call's arguments; the error is what the model is told.
fn parse_args<T: DeserializeOwned>(args: &Value) -> Result<T, String> {
    let args = if args.is_null() { &Value::Object(serde_json::Map::new()) } else { args };
    serde::Deserialize::deserialize(args).map_err(|error| format!("bad arguments: {error}"))
}

/// Runs work that reads files away from the async threads.
async fn run_blocking(work: impl FnOnce() -> Result<String, String> + Send + 'static) -> ToolOutput {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => to_output(result),
        Err(_) => ToolOutput::error("the tool broke off; the call may be repeated with narrower arguments"),
    }
}

fn to_output(result: Result<String, String>) -> ToolOutput {
    match result {
        Ok(text) => ToolOutput::success(text),
        Err(text) => ToolOutput::error(text),
    }
}
