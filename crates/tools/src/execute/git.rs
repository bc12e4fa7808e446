//! A safe environment for read-only git commands.
//!
//! A repository's configuration can make git start programs: pagers, external diffs, text converters, filters,
//! file-system monitors, signature checkers. The environment overrides these settings. Allowed sub-commands are listed
//! in [`super::read_only`], and [`super::read_only::change_command`] leaves files of secrets out of diffs.

use std::time::Duration;

use crate::execute::environment;
use crate::workspace::Workspace;

/// Settings that can name a program, or a file with settings that do, each with a value that starts none.
const NEUTRAL_SETTINGS: &[(&str, &str)] = &[
    ("core.pager", "cat"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("status.submoduleSummary", "false"),
    ("protocol.allow", "never"),
];
/// Pattern of settings that can name a program and have a free part in their key, such as `filter.<name>.clean`. They
/// must be looked up before they can be overridden.
const PROGRAM_SETTINGS_PATTERN: &str =
    r"^(filter\..*\.(clean|smudge|process|required)|diff\..*\.(command|textconv))$";
/// Environment variables that keep git from writing to the repository, prompting, and fetching objects over the
/// network.
const QUIET_VARIABLES: &[(&str, &str)] =
    &[("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_LAZY_FETCH", "1")];
/// Time limit for reading the repository's configuration.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for looking up the objects that a command names.
const REVISION_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds the environment variables for git. It runs `git config` once to find the settings with a free part in their
/// key.
///
/// # Errors
/// Returns the message for the model if the configuration cannot be read.
pub(super) async fn safe_environment(workspace: &Workspace) -> Result<Vec<(String, String)>, String> {
    let mut settings: Vec<(String, String)> =
        NEUTRAL_SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for name in program_settings(workspace).await? {
        let value = if name.ends_with(".required") { "false" } else { "" };
        settings.push((name, value.to_owned()));
    }
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
    for (index, (name, value)) in settings.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}"), name));
        variables.push((format!("GIT_CONFIG_VALUE_{index}"), value));
    }
    variables.extend(QUIET_VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Ok(variables)
}

/// Returns git's arguments: the sub-command with its forced options, and then `words`. The sub-command must be an
/// allowed one.
pub(super) fn safe_arguments(sub_command: &str, words: &[String]) -> Vec<String> {
    let forced = forced_options(sub_command).iter().map(|word| (*word).to_owned());
    ["--no-pager", sub_command].map(str::to_owned).into_iter().chain(forced).chain(words.to_vec()).collect()
}

/// Returns the options that a sub-command always gets, before the call's own arguments.
fn forced_options(sub_command: &str) -> &'static [&'static str] {
    match sub_command {
        // The workspace may be a sub-folder of a larger repository; `--relative` leaves out the rest of it.
        "log" | "show" | "diff" => {
            &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--relative"]
        }
        "blame" => &["--no-textconv"],
        "status" => &["--ignore-submodules=all"],
        // Without `--list`, an operand would create a branch.
        "branch" => &["--list"],
        _ => &[],
    }
}

/// The kinds of objects that the operands of a command name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ExpectedObjects {
    /// Operands that must name commits, or ranges of commits. The content of a file or a folder would be shown without
    /// its path, so no rule could judge it.
    pub commits: Vec<String>,
    /// Operands that must name files.
    pub files: Vec<String>,
}

/// Returns whether each operand names an object of the expected kind, or none at all. Without git, or in doubt, the
/// result is false if there are operands.
pub(super) async fn has_expected_objects(workspace: &Workspace, expected: &ExpectedObjects) -> bool {
    names_only(workspace, &expected.commits, "commit").await
        && names_only(workspace, &expected.files, "blob").await
}

/// Returns whether all objects that `operands` name are of `kind`, or are tags of such an object.
async fn names_only(workspace: &Workspace, operands: &[String], kind: &str) -> bool {
    if operands.is_empty() {
        return true;
    }
    let Some(ids) = parse_revisions(workspace, operands).await else { return false };
    let typed: Vec<String> =
        ids.iter().map(|id| format!("{}^{{{kind}}}", id.trim_start_matches('^'))).collect();
    typed.is_empty() || parse_revisions(workspace, &typed).await.is_some_and(|ids| ids.len() == typed.len())
}

/// Returns the id of every object that `operands` name, with `^` before the id of an excluded end of a range. Operands
/// that name no object are skipped. Returns `None` if git fails.
async fn parse_revisions(workspace: &Workspace, operands: &[String]) -> Option<Vec<String>> {
    let git = environment::find_program("git", workspace)?;
    let mut command = environment::restricted_program(&git, workspace);
    command.envs(QUIET_VARIABLES.iter().copied());
    command.args(["-c", "core.fsmonitor=false", "rev-parse", "--revs-only"]).args(operands);
    let output = tokio::time::timeout(REVISION_TIMEOUT, command.output()).await.ok()?.ok()?;
    let ids = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| ids.lines().map(str::to_owned).collect())
}

/// Returns the keys of this repository's settings that match [`PROGRAM_SETTINGS_PATTERN`]. Without git on the search
/// path there are none.
async fn program_settings(workspace: &Workspace) -> Result<Vec<String>, String> {
    let Some(git) = environment::find_program("git", workspace) else { return Ok(Vec::new()) };
    let mut command = environment::restricted_program(&git, workspace);
    command.envs(QUIET_VARIABLES.iter().copied()).args([
        "config",
        "--includes",
        "--name-only",
        "--get-regexp",
        PROGRAM_SETTINGS_PATTERN,
    ]);
    let failed = |reason: String| format!("git cannot read its configuration: {reason}");
    match tokio::time::timeout(CONFIG_TIMEOUT, command.output()).await {
        // `git config` exits with status 1 if no setting matches.
        Ok(Ok(output)) if matches!(output.status.code(), Some(0 | 1)) => {
            Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
        }
        Ok(Ok(output)) => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it takes too long".to_owned())),
    }
}
