//! The environment of a command: variables, search path and an empty standard input. It does not choose the command.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::workspace::Workspace;

/// Variables that hold the keys of model providers; no command gets them.
const PROVIDER_KEY_VARIABLES: &[&str] =
    &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// Variables that keep programs from asking, paging and colouring.
const NONINTERACTIVE_VARIABLES: &[(&str, &str)] = &[
    ("CI", "true"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
/// Variables that a command which only reads is given; none of them carries a secret or names a program.
const SAFE_VARIABLES: &[&str] = &["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER"];

/// Returns a shell that runs `script` with the variables of this process, but for those that are secret.
pub(super) fn inherited_shell(script: &str, workspace: &Workspace, secrets: &[String]) -> Command {
    let mut command = shell_command(script, workspace);
    for name in PROVIDER_KEY_VARIABLES.iter().copied().chain(secrets.iter().map(String::as_str)) {
        command.env_remove(name);
    }
    command.envs(NONINTERACTIVE_VARIABLES.iter().copied());
    command
}

/// Returns a shell that runs `script` with few variables, and no program from the workspace.
pub(super) fn restricted_shell(script: &str, workspace: &Workspace) -> Command {
    let mut command = shell_command(script, workspace);
    restrict(&mut command, workspace);
    command
}

/// Returns a program with few variables.
pub(super) fn restricted_program(path: &Path, workspace: &Workspace) -> Command {
    let mut command = command_in_workspace(path, workspace);
    restrict(&mut command, workspace);
    command
}

/// Returns the program of that name on the search path, folders inside the workspace left out.
pub(super) fn find_program(name: &str, workspace: &Workspace) -> Option<PathBuf> {
    search_path(workspace).into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn shell_command(script: &str, workspace: &Workspace) -> Command {
    let bash = Path::new("/bin/bash");
    let mut command =
        command_in_workspace(if bash.is_file() { bash } else { Path::new("/bin/sh") }, workspace);
    command.arg("-c").arg(script);
    command
}

fn command_in_workspace(program: &Path, workspace: &Workspace) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace.root()).stdin(Stdio::null()).kill_on_drop(true).process_group(0);
    command
}

fn restrict(command: &mut Command, workspace: &Workspace) {
    command
        .env_clear()
        .envs(SAFE_VARIABLES.iter().filter_map(|name| env::var_os(name).map(|value| (name, value))))
        .envs(NONINTERACTIVE_VARIABLES.iter().copied())
        .env("PATH", env::join_paths(search_path(workspace)).unwrap_or_default());
}

fn search_path(workspace: &Workspace) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .filter_map(|folder| folder.is_absolute().then(|| folder.canonicalize().ok())?)
        .filter(|folder| !folder.starts_with(workspace.root()))
        .collect()
}
