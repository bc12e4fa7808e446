//! A safe environment for read-only git commands.
//!
//! A repository's configuration can make git start programs: pagers, external diffs, text converters, filters,
//! file-system monitors, signature checkers. The environment overrides these settings, and it makes git treat files
//! whose names suggest secrets as binary, so that diffs don't show them. Allowed sub-commands are listed in
//! [`super::read_only`].

use std::io::{self, Write};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::execute::{environment, read_only};
use crate::permission::SECRET_NAMES;
use crate::workspace::Workspace;

/// Settings that can name a program, each with a value that starts none.
const NEUTRAL_SETTINGS: &[(&str, &str)] = &[
    ("core.pager", "cat"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
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

/// Environment variables for git, with the temporary file that they refer to. It must live as long as git runs.
pub(super) struct GitEnvironment {
    /// Names and values of the variables.
    pub variables: Vec<(String, String)>,
    /// The attributes file, which is removed on drop.
    _attributes: NamedTempFile,
}

/// Builds the environment for git. It runs `git config` once to find the settings with a free part in their key.
///
/// # Errors
/// Returns the message for the model if the attributes file cannot be written or the configuration cannot be read.
pub(super) async fn safe_environment(workspace: &Workspace) -> Result<GitEnvironment, String> {
    let attributes =
        write_attributes_file().map_err(|error| format!("git attributes cannot be written: {error}"))?;
    let mut settings: Vec<(String, String)> =
        NEUTRAL_SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    settings.push(("core.attributesFile".to_owned(), attributes.path().display().to_string()));
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
    Ok(GitEnvironment { variables, _attributes: attributes })
}

/// Writes an attributes file that marks files of secrets as binary. A diff then reports that such a file changed, and
/// does not show its content.
fn write_attributes_file() -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    for name in SECRET_NAMES {
        writeln!(file, "{} -diff", read_only::case_insensitive_glob(name))?;
    }
    file.flush()?;
    Ok(file)
}

/// Returns git's arguments for `words`, with the forced options inserted. The first word must be an allowed
/// sub-command.
pub(super) fn safe_arguments(words: &[String]) -> Vec<String> {
    let sub_command = words.first().map_or("", String::as_str);
    let forced = forced_options(sub_command).iter().map(|word| (*word).to_owned());
    ["--no-pager", sub_command]
        .map(str::to_owned)
        .into_iter()
        .chain(forced)
        .chain(words[1..].to_vec())
        .collect()
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
