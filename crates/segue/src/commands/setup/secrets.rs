//! `segue doctor --secrets FILE`: shows what is redacted in a text, and why. The secrets themselves are masked.

use std::io::{self, Read};
use std::path::Path;

use agent::SecretReport;
use terminal::{sanitize_line, wrap};

use crate::cli::{GlobalArgs, OutputFormat};
use crate::commands::{AgentOptions, agent_settings, print_json};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The maximum size of the text, in bytes. The rules need the whole text, because a secret can span lines.
const TEXT_BYTES_MAX: u64 = TEXT_GIB_MAX << 30;
/// The maximum size of the text, in GiB.
const TEXT_GIB_MAX: u64 = 1;

/// Prints the secrets of a file, or of standard input for `-`. If there are any, the result is
/// [`ExitReason::SecretsFound`], also when the reader closes the output before the end.
///
/// # Errors
/// Fails if the file cannot be read or is too large, a setting is invalid, or stdout cannot be written.
pub(crate) fn show_secrets(global: &GlobalArgs, file: &Path) -> CommandResult {
    let text = read_text(file)?;
    let reports = agent_settings(global, AgentOptions::default())?.find_secrets(&text)?;
    match (print_reports(global, file, &reports), reports.is_empty()) {
        (Ok(()) | Err(CliFailure::OutputClosed), false) => Ok(ExitReason::SecretsFound),
        (printed, _) => printed.map(|()| ExitReason::Success),
    }
}

/// Prints all secrets and their number.
///
/// # Errors
/// Fails if stdout cannot be written.
fn print_reports(global: &GlobalArgs, file: &Path, reports: &[SecretReport]) -> Result<(), CliFailure> {
    let screen = global.screen();
    if global.format() == OutputFormat::Json {
        return print_json(&reports);
    }
    for report in reports {
        print_report(global, report)?;
    }
    let count = match reports.len() {
        0 => "no secrets".to_owned(),
        1 => "1 secret".to_owned(),
        count => format!("{count} secrets"),
    };
    Ok(screen.print_line(format!("{count} in {}", sanitize_line(&file.display().to_string())))?)
}

/// Prints one secret: its position, kind and masked value, then its rule and the reason.
///
/// # Errors
/// Fails if stdout cannot be written.
fn print_report(global: &GlobalArgs, report: &SecretReport) -> Result<(), CliFailure> {
    let screen = global.screen();
    let position = format!("{}:{}", report.line, report.column);
    let lead = format!("{position:<10}  ");
    let text = format!("{}  {}", report.kind, report.masked);
    screen.print_line(wrap(&sanitize_line(&text), screen.columns, &lead, &" ".repeat(lead.len())))?;
    let reason = sanitize_line(&format!("{} ({})", report.reason, report.rule));
    let indent = " ".repeat(12);
    screen.print_line(screen.style.dim(wrap(&reason, screen.columns, &indent, &indent)))?;
    Ok(())
}

/// Reads a file, or standard input for `-`. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// Fails if the file cannot be read or is too large.
fn read_text(file: &Path) -> Result<String, CliFailure> {
    let failure = |reason: String| {
        let problem = format!("read {}: {reason}", file.display());
        CliFailure::new(ExitReason::User, problem)
            .with_hint("give the path of a text file, or `-` for standard input")
    };
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().lock().take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes),
        false => {
            std::fs::File::open(file).and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes))
        }
    };
    read.map_err(|error| failure(error.to_string()))?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let reason = format!("it is larger than {TEXT_GIB_MAX} GiB, the limit of one search");
        return Err(failure(reason).with_hint("split the text between two lines, and check each part"));
    }
    // Only a text that is not UTF-8 is copied.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
