//! Builds the process of a command: its environment variables, search path, working directory, process group and an
//! empty standard input. It does not decide which command may run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::CommandShell;
use super::confinement::CommandLaunch;
use crate::shell;
use crate::workspace::Workspace;

/// The path of bash.
const BASH: &str = "/bin/bash";
/// The path of the system's POSIX shell, which starts in a fraction of the time of bash on many systems.
const SH: &str = "/bin/sh";
/// The beginning of the names of variables that change what bash does: exported functions, `BASH_ENV`.
const BASH_VARIABLE_PREFIX: &str = "BASH_";
/// Other variables that change what bash does.
const BASH_OPTION_VARIABLES: [&str; 2] = ["SHELLOPTS", "BASHOPTS"];

/// Variables that hold API keys of model providers. No command gets them.
const PROVIDER_KEY_VARIABLES: &[&str] =
    &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// Variables that turn off prompts, pagers and colors.
const NONINTERACTIVE_VARIABLES: &[(&str, &str)] = &[
    ("CI", "true"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
/// Variables that a read-only command inherits. None of them contains a secret or names a program.
const SAFE_VARIABLES: &[&str] = &["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER"];

/// The shell of a command, and the way in which it is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShellLaunch<'a> {
    /// The shell.
    pub shell: CommandShell,
    /// The start, in the sandbox or without it.
    pub launch: &'a CommandLaunch,
}

/// Returns a shell that runs `script` with the environment of this process, without provider keys and the variables
/// named in `secrets`.
pub(super) fn inherited_shell(
    script: &str,
    workspace: &Workspace,
    secrets: &[String],
    choice: ShellLaunch<'_>,
) -> Command {
    let mut command = shell_command(script, workspace, choice);
    for name in PROVIDER_KEY_VARIABLES.iter().copied().chain(secrets.iter().map(String::as_str)) {
        command.env_remove(name);
    }
    command.envs(NONINTERACTIVE_VARIABLES.iter().copied());
    choice.launch.apply_environment(&mut command);
    command
}

/// Returns a shell that runs `script` with [`SAFE_VARIABLES`] only. Folders inside the workspace are removed from its
/// search path, so that a project cannot substitute a program.
pub(super) fn restricted_shell(script: &str, workspace: &Workspace, choice: ShellLaunch<'_>) -> Command {
    let mut command = shell_command(script, workspace, choice);
    restrict(&mut command, workspace);
    choice.launch.apply_environment(&mut command);
    command
}

/// Returns a program with the same restricted environment as [`restricted_shell`].
pub(super) fn restricted_program(path: &Path, workspace: &Workspace) -> Command {
    let mut command = command_in_workspace(path, workspace, &CommandLaunch::default());
    restrict(&mut command, workspace);
    command
}

/// Returns the path of the program `name` on the search path, without folders inside the workspace.
pub(super) fn find_program(name: &str, workspace: &Workspace) -> Option<PathBuf> {
    search_path(workspace).into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the shell of the choice with the script as its argument. A shell that is not installed is replaced by `sh`.
fn shell_command(script: &str, workspace: &Workspace, choice: ShellLaunch<'_>) -> Command {
    let is_sh = match choice.shell {
        CommandShell::Auto => shell::is_portable(script) && !has_bash_variables(),
        CommandShell::Bash => false,
        CommandShell::Sh => true,
    };
    let path = Path::new(if !is_sh && Path::new(BASH).is_file() { BASH } else { SH });
    let mut command = command_in_workspace(path, workspace, choice.launch);
    command.arg("-c").arg(script);
    command
}

/// Returns whether the environment of this process has a variable that only bash understands or passes on: one that changes
/// what bash does, or one whose name is not an identifier, such as `spring.datasource.url`, which other shells remove.
fn has_bash_variables() -> bool {
    env::vars_os().any(|(name, _)| is_bash_variable(&name.to_string_lossy()))
}

/// Returns whether only bash understands or passes on a variable with this name, see [`has_bash_variables`].
fn is_bash_variable(name: &str) -> bool {
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    !is_identifier || name.starts_with(BASH_VARIABLE_PREFIX) || BASH_OPTION_VARIABLES.contains(&name)
}

/// Returns a program that runs in the workspace with an empty standard input, as the leader of its own process group,
/// so that it can be killed together with its children. A launcher becomes the program, so it has the same process.
fn command_in_workspace(program: &Path, workspace: &Workspace, launch: &CommandLaunch) -> Command {
    let mut command = match launch.prefix.split_first() {
        Some((launcher, args)) => {
            let mut command = Command::new(launcher);
            command.args(args).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.current_dir(workspace.root()).stdin(Stdio::null()).kill_on_drop(true).process_group(0);
    command
}

/// Replaces the command's environment by the restricted one.
fn restrict(command: &mut Command, workspace: &Workspace) {
    command
        .env_clear()
        .envs(SAFE_VARIABLES.iter().filter_map(|name| env::var_os(name).map(|value| (name, value))))
        .envs(NONINTERACTIVE_VARIABLES.iter().copied())
        .env("PATH", env::join_paths(search_path(workspace)).unwrap_or_default());
}

/// Returns the folders of `PATH` that are absolute, exist, and are outside the workspace, with links resolved.
fn search_path(workspace: &Workspace) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .filter_map(|folder| folder.is_absolute().then(|| folder.canonicalize().ok())?)
        .filter(|folder| !folder.starts_with(workspace.root()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portable_line_is_run_by_sh_and_every_other_one_by_bash() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let program = |line: &str, choice| {
            let launch = CommandLaunch::default();
            let command = shell_command(line, &workspace, ShellLaunch { shell: choice, launch: &launch });
            command.as_std().get_program().to_string_lossy().into_owned()
        };
        let bash = if Path::new(BASH).is_file() { BASH } else { SH };
        // The environment of the tests may change what bash does.
        let portable = if has_bash_variables() { bash } else { SH };
        assert_eq!(program("ls -l", CommandShell::Auto), portable);
        assert_eq!(program("ls *.rs", CommandShell::Auto), bash);
        assert_eq!(program("ls -l", CommandShell::Bash), bash);
        assert_eq!(program("ls *.rs", CommandShell::Sh), SH);
    }

    #[test]
    fn variables_that_only_bash_passes_on_are_recognized() {
        for name in ["BASH_ENV", "BASH_FUNC_f%%", "SHELLOPTS", "spring.datasource.url", "a-b", "1a"] {
            assert!(is_bash_variable(name), "{name}");
        }
        assert!(!is_bash_variable("PATH") && !is_bash_variable("_") && !is_bash_variable("LC_ALL"));
    }
}
