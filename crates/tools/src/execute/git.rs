//! Git without what a repository's configuration could make it start: pagers, external diffs, text converters,
//! filters, file-system monitors, signature checkers. Which sub-commands are allowed is not decided here.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::process::{self, Ended};
use crate::workspace::Workspace;

/// Settings that name programs, with values that name none.
const SETTINGS: &[(&str, &str)] = &[
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
const NAMED: &str = r"^(filter\..*\.(clean|smudge|process|required)|diff\..*\.(command|textconv))$";
/// How long reading the configuration may take.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the command for `words`, whose first is an allowed sub-command.
pub(super) async fn command(
    program: &Path,
    words: &[String],
    workspace: &Workspace,
) -> Result<Command, String> {
    let mut settings: Vec<(String, &str)> =
        SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    for name in named_programs(program, workspace).await? {
        let value = if name.ends_with(".required") { "false" } else { "" };
        settings.push((name, value));
    }
    let mut command = base(program, workspace);
    command.env("GIT_CONFIG_COUNT", settings.len().to_string());
    for (index, (name, value)) in settings.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{index}"), name).env(format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    let sub_command = words.first().map_or("", String::as_str);
    command.arg("--no-pager").arg(sub_command).args(fixed(sub_command)).args(&words[1..]);
    Ok(command)
}

/// Returns what a sub-command is always given first.
fn fixed(sub_command: &str) -> &'static [&'static str] {
    match sub_command {
        "log" | "show" | "diff" => &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"],
        "blame" => &["--no-textconv"],
        "status" => &["--ignore-submodules=all"],
        // Without it a name would create a branch.
        "branch" => &["--list"],
        _ => &[],
    }
}

/// Returns the settings of this repository that match [`NAMED`].
async fn named_programs(program: &Path, workspace: &Workspace) -> Result<Vec<String>, String> {
    let mut command = base(program, workspace);
    command.args(["config", "--includes", "--name-only", "--get-regexp", NAMED]);
    let ran = process::run(command, CONFIG_TIMEOUT, &CancellationToken::new()).await?;
    match ran.ended {
        // 1 means that no setting matches.
        Ended::Exited(Some(0 | 1)) => Ok(ran.text.lines().map(str::to_owned).collect()),
        Ended::Exited(_) | Ended::TooLong | Ended::TooMuch | Ended::Cancelled => {
            Err(format!("git cannot read its configuration: {}", ran.text))
        }
    }
}

fn base(program: &Path, workspace: &Workspace) -> Command {
    let mut command = process::command(program, workspace);
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_PAGER", "cat");
    command
}
