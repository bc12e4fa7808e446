//! The tool `execute`: a command line, run by the shell in the workspace. [`reads`] says which lines only read; those
//! run with few variables and without what a repository could make them start. Who may run the others is decided in
//! [`crate::permission`].

mod ansi;
mod environment;
mod git;
mod output;
mod process;
mod read_only;

use std::time::Duration;

use async_trait::async_trait;
use model::ToolSpec;
use protocol::ToolStatus;
use runtime::{CallReview, CallSubject, GraphUpdate, ReviewDetail, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use crate::parse_args;
use crate::workspace::Workspace;
use output::ShellOutput;
use process::CommandExit;

/// How long a command may run when the call does not say.
const TIMEOUT_SECONDS: u64 = 120;
/// The longest that a call may ask for.
const TIMEOUT_SECONDS_MAX: u64 = 600;
/// The most bytes of a command line.
const COMMAND_BYTES_MAX: usize = 100_000;

/// The tool.
pub(crate) struct ExecuteTool {
    secrets: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecuteArgs {
    /// The command line.
    command: String,
    #[serde(default)]
    #[schemars(range(min = 1, max = TIMEOUT_SECONDS_MAX))]
    #[schemars(description = format!("The longest time it may run. Default: {TIMEOUT_SECONDS}."))]
    timeout_seconds: Option<u64>,
    /// The purpose of the command in a few words, for the person who approves it.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

impl ExecuteTool {
    /// Returns the tool; commands are not given the variables named `secrets`.
    pub const fn new(secrets: Vec<String>) -> Self {
        Self { secrets }
    }

    async fn run(&self, args: &ExecuteArgs, context: &ToolContext) -> Result<ToolOutput, String> {
        let workspace = Workspace::open(&context.workspace)?;
        let seconds = args.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).clamp(1, TIMEOUT_SECONDS_MAX);
        let (command, _guard) = self.build_command(&args.command, &workspace).await?;
        let mut output = ShellOutput::for_call(context);
        let ended = process::run_command(command, Duration::from_secs(seconds), &context.cancel, &mut output)
            .await
            .map_err(|error| format!("the command cannot be started: {error}"))?;
        let shown = output.finish(context);
        let text = if shown.text.is_empty() { "(no output)" } else { &shown.text };
        let how = match ended {
            CommandExit::Exited(Some(0)) => None,
            CommandExit::Exited(Some(code)) => Some(format!("[exit status {code}]")),
            CommandExit::Exited(None) => Some("[ended by a signal]".to_owned()),
            CommandExit::TimedOut => Some(format!("[stopped after {seconds} s]")),
            CommandExit::Cancelled => Some("[cancelled]".to_owned()),
        };
        let output = match how {
            None => ToolOutput::success(text),
            Some(how) => ToolOutput {
                status: ToolStatus::Error,
                ..ToolOutput::success(format!("{}{how}", crate::truncation::with_final_newline(text)))
            },
        };
        Ok(output
            .with_update(GraphUpdate { writes: shown.write.into_iter().collect(), ..GraphUpdate::default() }))
    }

    /// Returns the command, and what must be there while it runs.
    async fn build_command(
        &self,
        line: &str,
        workspace: &Workspace,
    ) -> Result<(Command, Option<git::GitEnvironment>), String> {
        let Some(reading) = read_only::parse_read_only(line) else {
            return Ok((environment::inherited_shell(line, workspace, &self.secrets), None));
        };
        let mut command = environment::restricted_shell(&reading.script, workspace);
        if !reading.uses_git {
            return Ok((command, None));
        }
        let guard = git::safe_environment(workspace).await?;
        command.envs(guard.variables.iter().map(|(name, value)| (name, value)));
        Ok((command, Some(guard)))
    }
}

impl ExecuteArgs {
    fn parse(args: &Value) -> Result<Self, String> {
        let args: Self = parse_args(args)?;
        match &args.command {
            command if command.trim().is_empty() => Err("bad arguments: the command is empty".to_owned()),
            command if command.contains('\0') => {
                Err("bad arguments: the command holds a zero byte".to_owned())
            }
            command if command.len() > COMMAND_BYTES_MAX => Err(format!(
                "bad arguments: the command has more than {COMMAND_BYTES_MAX} bytes; use a script"
            )),
            _ => Ok(args),
        }
    }
}

/// Returns whether a line that only reads shows more of the workspace than it names.
pub(crate) fn is_search_command(line: &str) -> bool {
    read_only::parse_read_only(line).is_some_and(|reading| reading.is_search)
}

#[async_trait]
impl Tool for ExecuteTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<ExecuteArgs>(
            "execute",
            "Runs a command line in the workspace with the shell and returns its output and exit status. \
                          There is no input. A command that goes on in the background is not listened to: send its \
                          output to a file. For files, read_file, edit_file, glob and grep are better.",
        )
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        ExecuteArgs::parse(args).map(drop)
    }

    /// A line that only reads, and only inside the workspace, has what it reads as subjects beside the command; any other has the command alone.
    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        let Ok(ExecuteArgs { command, .. }) = ExecuteArgs::parse(args) else { return CallReview::default() };
        let root = context.workspace.clone();
        let reviewed = tokio::task::spawn_blocking(move || {
            let workspace = Workspace::open(&root).ok();
            let paths =
                workspace.and_then(|workspace| read_only::parse_read_only(&command)?.paths(&workspace));
            let mut subjects = vec![CallSubject::Command(command.clone())];
            subjects.extend(paths.into_iter().flatten().map(CallSubject::Path));
            CallReview { subjects, detail: ReviewDetail::Command(command) }
        });
        // Without a subject the call would count as one that does nothing.
        reviewed.await.unwrap_or_else(|_| CallReview {
            subjects: vec![CallSubject::Command(String::new())],
            detail: ReviewDetail::Arguments,
        })
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match ExecuteArgs::parse(args) {
            Ok(args) => self.run(&args, context).await.unwrap_or_else(ToolOutput::error),
            Err(reason) => ToolOutput::error(reason),
        }
    }
}
