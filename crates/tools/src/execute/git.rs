//! Git without what a repository's configuration could make it start: pagers, external diffs, text converters,
//! filters, file-system monitors, signature checkers; and without what files of secrets hold. Which sub-commands are allowed is not decided here.

use std::io::{self, Write};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::execute::{environment, read_only};
use crate::permission::SECRET_NAMES;
use crate::workspace::Workspace;

/// Settings that name programs, with values that name none.
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
/// Settings with a name in the middle that name programs.
const PROGRAM_SETTINGS_PATTERN: &str =
    r"^(filter\..*\.(clean|smudge|process|required)|diff\..*\.(command|textconv))$";
/// Variables that keep git from writing and asking.
const QUIET_VARIABLES: &[(&str, &str)] =
    &[("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_LAZY_FETCH", "1")];
/// How long reading the configuration may take.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(5);

/// Environment variables and files for git that last as long as it runs.
pub(super) struct GitEnvironment {
    pub variables: Vec<(String, String)>,
    _attributes: NamedTempFile,
}

/// Returns what keeps git from starting any of them, and from showing what changed in files of secrets.
pub(super) async fn safe_environment(workspace: &Workspace) -> Result<GitEnvironment, String> {
    let attributes =
        write_attributes_file().map_err(|error| format!("git cannot be kept from secrets: {error}"))?;
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

/// Returns attributes that make files of secrets count as binary: a change of one is told, and not shown.
fn write_attributes_file() -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    for name in SECRET_NAMES {
        writeln!(file, "{} -diff", read_only::case_insensitive_glob(name))?;
    }
    file.flush()?;
    Ok(file)
}

/// Returns the arguments of git for `words`, whose first is an allowed sub-command.
pub(super) fn safe_arguments(words: &[String]) -> Vec<String> {
    let sub_command = words.first().map_or("", String::as_str);
    let fixed = forced_options(sub_command).iter().map(|word| (*word).to_owned());
    ["--no-pager", sub_command]
        .map(str::to_owned)
        .into_iter()
        .chain(fixed)
        .chain(words[1..].to_vec())
        .collect()
}

/// Returns what a sub-command is always given first.
fn forced_options(sub_command: &str) -> &'static [&'static str] {
    match sub_command {
        // The workspace may be a folder of a larger repository.
        "log" | "show" | "diff" => {
            &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--relative"]
        }
        "blame" => &["--no-textconv"],
        "status" => &["--ignore-submodules=all"],
        // Without it a name would create a branch.
        "branch" => &["--list"],
        _ => &[],
    }
}

/// Returns the settings of this repository that match [`NAMED`].
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
        // 1 means that no setting matches.
        Ok(Ok(ran)) if matches!(ran.status.code(), Some(0 | 1)) => {
            Ok(String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect())
        }
        Ok(Ok(ran)) => Err(failed(String::from_utf8_lossy(&ran.stderr).into_owned())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it takes too long".to_owned())),
    }
}
