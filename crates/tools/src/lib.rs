//! The agent's built-in tools and the permission rules for tool calls.
//!
//! [`builtin_tools`] returns the tools: they read and change files, search the workspace, run shell commands and keep a
//! task list. [`Skills`] adds the tool `load_skill`. [`permission`] decides whether a call is allowed, denied or needs
//! approval, and the hook [`ToolApproval`] enforces that decision and asks the user.
//!
//! Every tool that opens files itself stays inside the workspace, bounds its output, and reports a bad call with an
//! error text that the model can act on. Commands run in a sandbox where the system has one. Deliberately absent: any
//! policy about context.

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
pub use execute::CommandShell;
pub use execute::confinement::program::sandbox_for_program;
pub use execute::confinement::{SandboxConfig, SandboxMode, SandboxNetwork, SandboxStatus, sandbox_status};
#[cfg(feature = "fuzzing")]
pub use shell::fuzzing;
pub use shell::quote as quote_shell_word;
pub use skills::{Skill, SkillCatalog, Skills};
pub use todos::{TODOS_CHANNEL, Todo};

/// Bytes at the beginning of a file that are searched for a zero byte. A file with a zero byte there counts as binary.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// Settings of the built-in tools.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// Folders and files that the file tools never write to, inside or outside the workspace, and that commands in the
    /// sandbox cannot open. A folder covers everything below it.
    pub protected: Vec<PathBuf>,
    /// Names of environment variables that are removed from the environment of commands, in addition to the variables
    /// that hold API keys of the known model providers.
    pub secrets: Vec<String>,
    /// The shell that runs the command lines of the tool `execute`.
    pub shell: CommandShell,
    /// The sandbox of commands. Only a program whose `main` begins with `sandbox::run_launcher` has one.
    pub sandbox: SandboxConfig,
}

/// Returns the agent's built-in tools.
///
/// The file tools share one record of the files that were read, and a file can be changed only after it was read. Build
/// the tools once per process, not once per run: a second set starts with an empty record.
pub fn builtin_tools(settings: ToolSettings) -> Vec<Arc<dyn Tool>> {
    let protected = settings.protected.iter();
    let protected: Vec<PathBuf> =
        protected.map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    let changes = Arc::new(files::file_change::FileChanges {
        protected: protected.clone(),
        ..files::file_change::FileChanges::default()
    });
    let execute = execute::ExecuteTool::new(settings.secrets, settings.shell, settings.sandbox, protected);
    vec![
        Arc::new(files::ls::LS),
        Arc::new(files::read_file::ReadFileTool::new(Arc::clone(&changes.read_tracker))),
        Arc::new(search::glob::GLOB),
        Arc::new(search::grep::GREP),
        Arc::new(files::write_file::WriteFileTool::new(Arc::clone(&changes))),
        Arc::new(files::edit_file::EditFileTool::new(changes)),
        Arc::new(execute),
        Arc::new(todos::WriteTodosTool),
    ]
}

/// Returns the built-in tools that access neither files nor processes. An agent without a workspace gets only these.
pub fn tools_without_workspace() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(todos::WriteTodosTool)]
}

/// Parses a call's arguments. `null` counts as an empty object.
///
/// # Errors
/// Returns the message for the model when the arguments do not match `T`.
fn parse_args<T: DeserializeOwned>(args: &Value) -> Result<T, String> {
    let args = if args.is_null() { &Value::Object(serde_json::Map::new()) } else { args };
    serde::Deserialize::deserialize(args).map_err(|error| format!("bad arguments: {error}"))
}

/// Runs `work`, which does blocking I/O, on Tokio's blocking thread pool. A panic in `work` becomes an error output.
///
/// Dropping the future does not stop work that has started. Long work therefore checks the call's cancellation token.
async fn run_blocking(work: impl FnOnce() -> Result<String, String> + Send + 'static) -> ToolOutput {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => to_output(result),
        Err(_) => ToolOutput::error(
            "the tool failed unexpectedly; the call may be repeated with narrower arguments",
        ),
    }
}

/// Converts a text or an error message into a tool's output.
fn to_output(result: Result<String, String>) -> ToolOutput {
    match result {
        Ok(text) => ToolOutput::success(text),
        Err(text) => ToolOutput::error(text),
    }
}
