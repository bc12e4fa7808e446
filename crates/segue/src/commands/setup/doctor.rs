//! `segue doctor`: checks the installation and prints a hint for each problem. The command only reads.

use agent::{Agent, CheckStatus, DoctorCheck};
use terminal::{ProgressUnit, sanitize_line, wrap};

use crate::cli::doctor::DoctorArgs;
use crate::cli::{GlobalArgs, OutputFormat};
use crate::commands::agent_work::{progress_display, run_with_bar};
use crate::commands::setup::secrets;
use crate::commands::{AgentOptions, agent_settings, print_json};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// Performs `segue doctor`. A home folder or database that cannot be opened is a failed check, not a failure of the command.
///
/// The exit code is the code of the failure that prevented opening the agent, else that of a storage failure if a check
/// failed, else 0. Warnings do not change the exit code.
///
/// # Errors
/// Fails if the arguments are invalid, the user stops the checks, or stdout cannot be written.
pub(crate) async fn run(global: &GlobalArgs, args: &DoctorArgs) -> CommandResult {
    if let Some(file) = &args.secrets {
        return secrets::show_secrets(global, file);
    }
    let (checks, code) = match Agent::open(agent_settings(global, AgentOptions::default())?).await {
        Ok(agent) => {
            let bar = progress_display(&global.screen(), global.format(), ProgressUnit::Steps);
            let checks =
                run_with_bar(bar, async |frames, cancel| agent.admin().run_doctor(&frames, &cancel).await)
                    .await?
                    .ok_or_else(|| {
                        CliFailure::cancelled("check everything").with_hint("nothing was changed")
                    })?;
            let has_failure = checks.iter().any(|check| check.verdict == CheckStatus::Fail);
            (checks, if has_failure { ExitReason::Store } else { ExitReason::Success })
        }
        Err(error) => {
            let (code, hint) = (ExitReason::from(error.class()), error.hint());
            let check = DoctorCheck::new(
                "open",
                CheckStatus::Fail,
                format!("failed to {}", crate::exit::error_chain(&error)),
            );
            (vec![DoctorCheck { hint, ..check }], code)
        }
    };
    show_checks(global, &checks)?;
    Ok(code)
}

/// Prints the checks, each with its status, detail and hint.
///
/// # Errors
/// Fails if stdout cannot be written.
fn show_checks(global: &GlobalArgs, checks: &[DoctorCheck]) -> Result<(), CliFailure> {
    let screen = global.screen();
    if global.format() == OutputFormat::Json {
        return print_json(&checks);
    }
    for check in checks {
        let style = screen.style;
        let mark = match check.verdict {
            CheckStatus::Ok => style.good("ok  "),
            CheckStatus::Warn => style.warn("warn"),
            CheckStatus::Fail => style.bad("fail"),
        };
        let lead = format!("{mark}  {:<9} ", check.name);
        let indent = " ".repeat(16);
        screen.print_line(wrap(&sanitize_line(&check.detail), screen.columns, &lead, &indent))?;
        if let Some(hint) = &check.hint {
            screen.print_line(style.dim(wrap(
                &format!("hint: {}", sanitize_line(hint)),
                screen.columns,
                &indent,
                &indent,
            )))?;
        }
    }
    Ok(())
}
