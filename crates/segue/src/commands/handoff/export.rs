//! `segue handoff export`: shows the status of the export of accepted handoffs to PostgreSQL, and sends its pending
//! rows. On the wire and in the configuration, the export is called mirror.

use agent::{MirrorDelivery, MirrorReport, MirrorRowCounts, MirrorStatus};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use terminal::{sanitize_line, wrap};

use crate::cli::OutputFormat;
use crate::cli::handoff::HandoffExportCommand;
use crate::commands::CommandContext;
use crate::commands::import::format_count;
use crate::commands::threads::format_age;
use crate::exit::{CliFailure, CommandResult, ExitReason, error_chain};

/// The hint when no sink is configured.
const NO_SINK_HINT: &str =
    "set `[mirror] url = \"postgres://USER:PASSWORD@HOST/DATABASE\"` in config.toml, or SEGUE_MIRROR_URL";

/// The width of the property names in the text report, in columns.
const NAME_COLUMNS: usize = 13;

/// The output of `status --json`.
#[derive(Serialize)]
struct ExportStatusReport<'a> {
    /// True if a sink is configured.
    configured: bool,
    /// The state of the outbox, which needs no connection to the sink.
    #[serde(flatten)]
    report: &'a MirrorReport,
    /// True if the sink's database can be reached and used now; `null` if no sink is configured.
    reachable: Option<bool>,
    /// The reason why the sink's database cannot be used.
    problem: Option<String>,
    /// The number of rows in the sink, if it can be reached.
    rows: Option<MirrorRowCounts>,
}

/// Performs `segue handoff export`, and the same command under its former name `segue mirror`.
///
/// # Errors
/// Fails if the journal cannot be read, or if rows cannot be sent.
pub(crate) async fn run(context: &CommandContext, command: HandoffExportCommand) -> CommandResult {
    match command {
        HandoffExportCommand::Status => show_status(context).await,
        HandoffExportCommand::Flush => flush_export(context).await,
    }
}

/// Shows the status. A sink that cannot be reached is part of the status, not a failure of the command.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
async fn show_status(context: &CommandContext) -> CommandResult {
    let report = context.agent.handoffs().mirror_report().await?;
    let configured = report.status != MirrorStatus::Off;
    let (rows, problem) = match context.agent.handoffs().mirror_rows().await {
        Ok(rows) => (rows, None),
        Err(error) => (None, Some((format!("failed to {}", error_chain(&error)), error.hint()))),
    };
    if context.format == OutputFormat::Json {
        let reachable = configured.then_some(problem.is_none());
        let problem = problem.map(|(message, _)| message);
        context.print_json(&ExportStatusReport { configured, report: &report, reachable, problem, rows })?;
        return Ok(ExitReason::Success);
    }
    if !configured {
        context.screen.print_line(no_sink_text(&report))?;
        context.screen.print_to_stderr(context.screen.style.dim(wrap(
            &format!("hint: {NO_SINK_HINT}"),
            context.screen.text_columns(),
            "",
            "  ",
        )));
        return Ok(ExitReason::Success);
    }
    show_report(context, &report, rows, problem.as_ref().map(|(message, _)| message.as_str()))?;
    let hint = problem.and_then(|(_, hint)| hint).or(report.hint.filter(|_| report.waiting > 0));
    if let Some(hint) = hint {
        let hint = wrap(&format!("hint: {}", sanitize_line(&hint)), context.screen.text_columns(), "", "  ");
        context.screen.print_to_stderr(context.screen.style.dim(hint));
    }
    Ok(ExitReason::Success)
}

/// Returns the text that is shown if no sink is configured. Accepted handoffs stay pending until a sink is configured.
fn no_sink_text(report: &MirrorReport) -> String {
    match report.waiting {
        0 => "No export is configured.".to_owned(),
        pending => {
            let verb = if pending == 1 { "is" } else { "are" };
            format!(
                "No export is configured; {} {verb} pending until one is.",
                format_count(pending, "accepted handoff")
            )
        }
    }
}

/// Prints the status as text, one property on each line. `problem` is the reason why the sink's database cannot be
/// used.
fn show_report(
    context: &CommandContext,
    report: &MirrorReport,
    rows: Option<MirrorRowCounts>,
    problem: Option<&str>,
) -> Result<(), CliFailure> {
    let (screen, style, now) = (&context.screen, context.screen.style, Timestamp::now());
    let print_property = |name: &str, text: &str| {
        let (first, other) = (format!("{name:<NAME_COLUMNS$}"), " ".repeat(NAME_COLUMNS));
        screen.print_line(wrap(&sanitize_line(text), screen.text_columns(), &first, &other))
    };
    let status = match report.status {
        MirrorStatus::Degraded => style.bad(report.status.as_str()),
        MirrorStatus::Ok | MirrorStatus::Off => style.good(report.status.as_str()),
    };
    // The status is styled, so it must not be sanitized.
    screen.print_line(format!("{:<NAME_COLUMNS$}{status}", "status"))?;
    print_property("database", report.location.as_deref().unwrap_or_default())?;
    print_property("reachable", problem.unwrap_or("yes"))?;
    if let Some(rows) = rows {
        let deleted = match rows.deleted {
            0 => String::new(),
            deleted => format!(", and {deleted} whose handoff was deleted"),
        };
        print_property("rows", &format!("{}{deleted}", rows.summaries))?;
    }
    let since = report.oldest.map(|oldest| format!(", the oldest since {}", format_age(now, oldest)));
    print_property("pending", &format!("{}{}", report.waiting, since.unwrap_or_default()))?;
    if let Some(time) = report.last_success {
        print_property("last success", &format_age(now, time))?;
    }
    if let (Some(error), Some(time)) = (&report.last_error, report.last_error_at) {
        print_property("last error", &format!("{}: failed to {error}", format_age(now, time)))?;
    }
    if let Some(rejected) = &report.rejected {
        print_property("rejected", &format!("handoff {}: {}", rejected.key, rejected.reason))?;
    }
    Ok(())
}

/// Sends the pending rows of all owners, and reports the progress after each batch.
///
/// # Errors
/// Fails if no sink is configured or it cannot be reached. Rows that the sink rejects stay pending and also make the
/// command fail.
async fn flush_export(context: &CommandContext) -> CommandResult {
    let before = context.agent.handoffs().mirror_report().await?;
    if before.status == MirrorStatus::Off {
        return Err(CliFailure::new(ExitReason::Config, "flush the export: none is configured")
            .with_hint(NO_SINK_HINT));
    }
    let screen = &context.screen;
    let mut report_progress = |sent: u64| {
        if context.format == OutputFormat::Text && sent < before.waiting {
            screen.print_to_stderr(screen.style.dim(format!("{sent} of {} sent", before.waiting)));
        }
    };
    let MirrorDelivery { sent, rejected } =
        context.agent.handoffs().flush_mirror(&mut report_progress).await?;
    let waiting = context.agent.handoffs().mirror_report().await?.waiting;
    if context.format == OutputFormat::Json {
        context.print_json(&json!({"sent": sent, "rejected": rejected, "waiting": waiting}))?;
    } else {
        screen.print_line(match sent {
            0 => "Nothing was pending.".to_owned(),
            sent => format!("{} exported.", format_count(sent, "handoff")),
        })?;
    }
    match rejected {
        0 => Ok(ExitReason::Success),
        rejected => {
            let problem =
                format!("export {}: the database rejects the content", format_count(rejected, "handoff"));
            let hint = "rejected rows stay pending; SEGUE_LOG=warn shows the reason";
            Err(CliFailure::new(ExitReason::Store, problem).with_hint(hint))
        }
    }
}
