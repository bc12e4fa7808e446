//! The tool `execute`: runs a command line with the shell in the workspace.
//!
//! [`read_only`] recognizes command lines that only read. Such a line runs with a minimal environment, and git runs
//! without the programs that a repository's configuration could start. Whether a command line may run at all is decided
//! in [`crate::permission`]. [`confinement`] puts the commands into a sandbox.

mod ansi;
pub(crate) mod confinement;
mod denial;
mod environment;
mod git;
mod output;
mod process;
mod read_only;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::ToolSpec;
use protocol::ToolStatus;
use runtime::{
    CallReview, CallSubject, Confinement, GraphUpdate, ReviewDetail, Tool, ToolContext, ToolOutput,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;

use crate::parse_args;
use crate::workspace::Workspace;
use confinement::{CommandLaunch, CommandSandbox, SandboxConfig, SandboxMode, SandboxStatus};
use environment::ShellLaunch;
use git::ExpectedObjects;
use output::ShellOutput;
use process::CommandExit;

/// Default time limit of a command in seconds.
const TIMEOUT_SECONDS: u64 = 120;
/// Longest time limit in seconds that a call can request.
const TIMEOUT_SECONDS_MAX: u64 = 600;
/// Maximum length of a command line in bytes.
const COMMAND_BYTES_MAX: usize = 100_000;

/// The shell that runs command lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandShell {
    /// `sh` for a line that means the same to every shell, because it starts in less time; otherwise bash.
    #[default]
    Auto,
    /// Bash, or `sh` if bash is not installed.
    Bash,
    /// `sh`.
    Sh,
}

/// The tool `execute`.
pub(crate) struct ExecuteTool {
    /// Names of environment variables that commands don't get.
    secrets: Vec<String>,
    /// The shell that runs the lines.
    shell: CommandShell,
    sandbox: Arc<CommandSandbox>,
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
    #[serde(default)]
    description: Option<String>,
    /// Run outside the sandbox, such as for the network. A person is asked; `description` must give the reason.
    #[serde(default)]
    outside_sandbox: bool,
}

impl ExecuteTool {
    /// Returns the tool. `secrets` are the names of environment variables that commands don't get, in addition to those
    /// of the known model providers. Commands in the sandbox cannot open the files and folders in `protected`.
    pub fn new(
        secrets: Vec<String>,
        shell: CommandShell,
        sandbox: SandboxConfig,
        protected: Vec<PathBuf>,
    ) -> Self {
        Self { secrets, shell, sandbox: Arc::new(CommandSandbox::new(sandbox, protected)) }
    }

    /// Returns the confinement of a call with these arguments.
    async fn confinement(&self, args: &ExecuteArgs) -> Confinement {
        let sandbox = Arc::clone(&self.sandbox);
        let status = tokio::task::spawn_blocking(move || sandbox.status()).await;
        match status.unwrap_or(SandboxStatus::Off) {
            SandboxStatus::Off => Confinement::None,
            SandboxStatus::Active(_) if !args.outside_sandbox => Confinement::Sandboxed,
            SandboxStatus::Active(_) => Confinement::Declined,
            SandboxStatus::Unsupported(_)
                if args.outside_sandbox && self.sandbox.mode() == SandboxMode::Require =>
            {
                Confinement::Declined
            }
            SandboxStatus::Unsupported(_) => Confinement::None,
        }
    }

    /// Runs the command and returns its output. A status other than 0, a timeout and a cancellation are error outputs.
    /// Dropping the future kills the command's process group.
    ///
    /// # Errors
    /// Returns the message for the model if the command cannot be started.
    async fn run(&self, args: &ExecuteArgs, context: &ToolContext) -> Result<ToolOutput, String> {
        let workspace = Workspace::open(&context.workspace)?;
        let seconds = args.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).clamp(1, TIMEOUT_SECONDS_MAX);
        let (command, launch) = self.build_command(args, &workspace).await?;
        let mut output = ShellOutput::for_call(context);
        let exit = process::run_command(command, Duration::from_secs(seconds), &context.cancel, &mut output)
            .await
            .map_err(|error| format!("the command cannot be started: {error}"))?;
        let finished = output.finish(context);
        let text = if finished.text.is_empty() { "(no output)" } else { &finished.text };
        let exit_note = match exit {
            CommandExit::Exited(Some(0)) => None,
            CommandExit::Exited(Some(code)) => Some(format!("[exit status {code}]")),
            CommandExit::Exited(None) => Some("[ended by a signal]".to_owned()),
            CommandExit::TimedOut => Some(format!("[stopped after {seconds} s]")),
            CommandExit::Cancelled => Some("[cancelled]".to_owned()),
        };
        let output = match exit_note {
            None => ToolOutput::success(text),
            Some(note) => {
                let hint =
                    launch.is_sandboxed().then(|| denial::hint(text, self.sandbox.network())).flatten();
                let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
                let text = format!("{}{note}{hint}", crate::truncation::with_final_newline(text));
                ToolOutput { status: ToolStatus::Error, ..ToolOutput::success(text) }
            }
        };
        let writes = finished.write.into_iter().collect();
        Ok(output.with_update(GraphUpdate { writes, ..GraphUpdate::default() }))
    }

    /// Builds the shell command for a line, and returns it with the way in which it is started.
    ///
    /// # Errors
    /// Returns the message for the model if git cannot be configured safely, or the sandbox cannot be used.
    async fn build_command(
        &self,
        args: &ExecuteArgs,
        workspace: &Workspace,
    ) -> Result<(Command, CommandLaunch), String> {
        let line = &args.command;
        let Some(read_only) = read_only::parse_read_only(line) else {
            let launch = self.launch(args, workspace, Vec::new()).await?;
            let command = environment::inherited_shell(
                line,
                workspace,
                &self.secrets,
                ShellLaunch { shell: self.shell, launch: &launch },
            );
            return Ok((command, launch));
        };
        // A file of secrets that the line names was judged by the rules, or approved by a person.
        let launch = self.launch(args, workspace, read_only.paths(workspace).unwrap_or_default()).await?;
        let script = read_only.script(workspace);
        let mut command = environment::restricted_shell(
            &script,
            workspace,
            ShellLaunch { shell: self.shell, launch: &launch },
        );
        if read_only.uses_git {
            command.envs(git::safe_environment(workspace).await?);
        }
        Ok((command, launch))
    }

    /// Returns the way in which a command is started: in the sandbox, unless the call declines it. `approved` are
    /// files that the command may read although they may contain secrets.
    ///
    /// # Errors
    /// Returns the message for the model if the sandbox cannot be used.
    async fn launch(
        &self,
        args: &ExecuteArgs,
        workspace: &Workspace,
        approved: Vec<PathBuf>,
    ) -> Result<CommandLaunch, String> {
        if args.outside_sandbox {
            return Ok(CommandLaunch::default());
        }
        let (sandbox, workspace) = (Arc::clone(&self.sandbox), workspace.clone());
        let launch = tokio::task::spawn_blocking(move || sandbox.launch(&workspace, &approved)).await;
        launch.unwrap_or_else(|_| Err("the sandbox cannot be prepared".to_owned()))
    }
}

impl ExecuteArgs {
    /// Parses and checks the arguments.
    ///
    /// # Errors
    /// Returns the message for the model if they are malformed or the command line is empty or too long.
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
            _ if args.outside_sandbox
                && args.description.as_deref().unwrap_or_default().trim().is_empty() =>
            {
                Err("bad arguments: outside_sandbox needs the reason in `description`".to_owned())
            }
            _ => Ok(args),
        }
    }
}

/// The files and objects that a read-only line reads.
struct ReadAccess {
    workspace: Workspace,
    /// Paths relative to the workspace.
    paths: Vec<PathBuf>,
    /// Objects of git that the line must name, so that `paths` is complete.
    objects: ExpectedObjects,
}

impl ReadAccess {
    /// Returns what `line` reads, or `None` if it may do more than read, or may read outside the workspace.
    fn of_line(line: &str, root: &Path) -> Option<Self> {
        let workspace = Workspace::open(root).ok()?;
        let command = read_only::parse_read_only(line)?;
        let paths = command.paths(&workspace)?;
        let objects = command.expected_objects(&workspace);
        Some(Self { workspace, paths, objects })
    }
}

/// Returns whether a line only reads and walks folders, so that its output may include files that it does not name.
pub(crate) fn is_search_command(line: &str) -> bool {
    read_only::parse_read_only(line).is_some_and(|command| command.is_search)
}

#[async_trait]
impl Tool for ExecuteTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<ExecuteArgs>(
            "execute",
            "Runs a command line in the workspace with the shell and returns its output and exit status. \
                          There is no input. A command that goes on in the background is not listened to: send its \
                          output to a file. For files, read_file, edit_file, glob and grep are better. Where the \
                          variable SEGUE_SANDBOX is set, commands run in a sandbox: they write only to the \
                          workspace and temporary files, and may have no network.",
        )
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        ExecuteArgs::parse(args).map(drop)
    }

    /// Reviews the call. The command line is always a subject. If the line only reads, and only inside the workspace,
    /// the paths that it reads are subjects too.
    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        let Ok(args) = ExecuteArgs::parse(args) else { return CallReview::default() };
        let confinement = self.confinement(&args).await;
        let command = args.command;
        let root = context.workspace.clone();
        let line = command.clone();
        let access = tokio::task::spawn_blocking(move || ReadAccess::of_line(&line, &root));
        // A review without a subject means that the call has no effect, so a failed review must have one.
        let Ok(access) = access.await else {
            return CallReview {
                subjects: vec![CallSubject::Command(String::new())],
                detail: ReviewDetail::Arguments,
                confinement,
            };
        };
        let mut subjects = vec![CallSubject::Command(command.clone())];
        if let Some(access) = access
            && git::has_expected_objects(&access.workspace, &access.objects).await
        {
            subjects.extend(access.paths.into_iter().map(CallSubject::Path));
        }
        CallReview { subjects, detail: ReviewDetail::Command(command), confinement }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match ExecuteArgs::parse(args) {
            Ok(args) => self.run(&args, context).await.unwrap_or_else(ToolOutput::error),
            Err(reason) => ToolOutput::error(reason),
        }
    }
}
