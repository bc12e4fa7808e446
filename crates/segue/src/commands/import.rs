//! `segue import`: imports sessions of other agents as threads. Damaged records are reported with file and line. The
//! crate `transcripts` reads the files.

use std::path::PathBuf;

use agent::{CancellationToken, FoundSession, FrameSender, ImportReport, ImportedThread, ScratchImport};
use serde_json::json;
use terminal::{ProgressUnit, WatchControl, WatchEvent, sanitize_line, sanitize_path, shorten, watch};

use crate::cli::{self, OutputFormat};
use crate::commands::agent_work::progress_display;
use crate::commands::{CommandContext, threads};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The most damaged records that are printed; the others are counted.
const PROBLEMS_SHOWN_MAX: usize = 20;
/// The most sessions of this machine that are listed. Each listed file is opened to read its title.
const TITLES_MAX: usize = 30;

/// Performs `segue import`.
///
/// # Errors
/// Fails if a file cannot be read, the journal cannot be written, or the user stops the import.
pub(crate) async fn run(context: &CommandContext, args: cli::ImportArgs) -> CommandResult {
    if args.discover {
        return show_discovered_sessions(context);
    }
    let report = import_sessions(context, &args.paths).await?;
    // If nothing could be imported, a script must not continue as if it had been.
    let has_no_session = report.threads.is_empty() && report.failed.is_empty();
    match context.format {
        OutputFormat::Json => context.print_json_with_names(&report)?,
        OutputFormat::Text if has_no_session => print_problems(context, &report),
        OutputFormat::Text => show_report(context, &report).await?,
    }
    match has_no_session {
        true => Err(no_session_failure(&args.paths, &report)),
        false if report.failed.is_empty() => Ok(ExitReason::Success),
        false => Ok(ExitReason::User),
    }
}

/// Returns the failure of an import that read all paths and found no session in them.
fn no_session_failure(paths: &[PathBuf], report: &ImportReport) -> CliFailure {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let verb = if paths.len() == 1 { "it contains" } else { "they contain" };
    let skipped = match report.skipped.len() {
        0 => String::new(),
        count => format!(" ({} skipped)", format_count(count as u64, "file")),
    };
    CliFailure::new(ExitReason::User, format!("import {}: {verb} no session{skipped}", names.join(", ")))
        .with_hint("`segue import --discover` lists the sessions of other agents on this machine")
}

/// Imports session files and shows a progress bar. Events that were already imported are recognised, so the same import
/// can be repeated.
///
/// # Errors
/// Fails if a file cannot be read, the journal cannot be written, or the user stops the import.
pub(crate) async fn import_sessions(
    context: &CommandContext,
    paths: &[PathBuf],
) -> Result<ImportReport, CliFailure> {
    let agent = &context.agent;
    let import = async |frames: &FrameSender, cancel: &CancellationToken| {
        agent.threads().import(paths, frames, cancel).await
    };
    read_with_progress(context, import).await?.ok_or_else(|| {
        CliFailure::cancelled("import everything")
            .with_hint("run the same command to continue where the import stopped")
    })
}

/// Reads session files into memory and shows a progress bar. Nothing is stored.
///
/// # Errors
/// Fails if a file cannot be read or is too large, or if the user stops the reading.
pub(crate) async fn read_sessions(
    context: &CommandContext,
    paths: &[PathBuf],
) -> Result<ScratchImport, CliFailure> {
    let agent = &context.agent;
    let read = async |frames: &FrameSender, cancel: &CancellationToken| {
        agent.threads().import_to_scratch(paths, frames, cancel).await
    };
    let stopped = || CliFailure::cancelled("read the session").with_hint("nothing was stored");
    read_with_progress(context, read).await?.ok_or_else(stopped)
}

/// Reads session files with a progress bar; `None` if the user stopped it.
async fn read_with_progress<T>(
    context: &CommandContext,
    read: impl AsyncFnOnce(&FrameSender, &CancellationToken) -> agent::Result<T>,
) -> Result<Option<T>, CliFailure> {
    let bar = progress_display(&context.screen, context.format, ProgressUnit::Bytes);
    let (output, is_stopped) = watch(
        async |frames, cancel| (read(&frames, &cancel).await, cancel.is_cancelled()),
        |event| {
            if let WatchEvent::Frame(_, frame) = event {
                bar.update(frame);
            }
            Ok(WatchControl::Continue)
        },
    )
    .await?;
    let output = output?;
    Ok((!is_stopped).then_some(output))
}

/// Returns the path of the newest session of another agent on this machine, and prints it as a notice.
///
/// # Errors
/// Fails if no session with messages is found.
pub(crate) fn newest_session(context: &CommandContext) -> Result<PathBuf, CliFailure> {
    let (sessions, _) = context.agent.threads().discover(TITLES_MAX);
    // A session without messages has no title, and nothing to hand off.
    let newest = sessions.into_iter().find(|session| session.title.is_some());
    if let Some(session) = &newest {
        context.print_notice(&format!("Newest session: {} ({})", session.path.display(), session.format));
    }
    newest.map(|session| session.path).ok_or_else(|| {
        CliFailure::new(ExitReason::User, "find a session of another agent on this machine")
            .with_hint("name the session's file: `segue handoff FILE`")
    })
}

/// Prints the damaged records to stderr, at most [`PROBLEMS_SHOWN_MAX`].
pub(crate) fn print_problems(context: &CommandContext, report: &ImportReport) {
    for problem in report.problems.iter().take(PROBLEMS_SHOWN_MAX) {
        let line = problem.line.map(|line| format!("{line}:")).unwrap_or_default();
        let (path, reason) = (sanitize_path(&problem.path), sanitize_line(&problem.reason));
        context.screen.print_to_stderr(format!("{path}:{line} {reason}"));
    }
    if let Some(more) = report.problems.len().checked_sub(PROBLEMS_SHOWN_MAX).filter(|more| *more > 0) {
        context.screen.print_to_stderr(format!("… and {more} more damaged records"));
    }
}

/// Prints the imported threads and the totals.
async fn show_report(context: &CommandContext, report: &ImportReport) -> Result<(), CliFailure> {
    print_problems(context, report);
    let ids = threads::short_ids(report.threads.iter().map(|thread| thread.thread_id));
    for (thread, id) in report.threads.iter().zip(&ids) {
        let name = thread.name.as_deref().or(thread.first_prompt.as_deref()).unwrap_or("(no name)");
        let lead = format!("{id}  {:<16}  {:<11}  ", new_events_text(thread), thread.format);
        let columns = context.screen.columns.saturating_sub(lead.chars().count()).max(10);
        context.screen.print_line(format!(
            "{}{}",
            context.screen.style.dim(&lead),
            shorten(&sanitize_line(&agent::redact(name)), columns)
        ))?;
    }
    let new: u64 = report.threads.iter().map(|thread| thread.events_new).sum();
    let mut parts = vec![
        format_count(report.threads.len() as u64, "thread"),
        format!("{} new", format_count(new, "event")),
        format!("{} read", format_byte_size(report.bytes)),
    ];
    if !report.problems.is_empty() {
        parts.push(format_count(report.problems.len() as u64, "damaged record"));
    }
    if !report.skipped.is_empty() {
        parts
            .push(format!("{} skipped without a session", format_count(report.skipped.len() as u64, "file")));
    }
    context.screen.print_line(parts.join(" · "))?;
    for failed in &report.failed {
        context.screen.print_to_stderr(format!("segue: failed to {}", sanitize_line(&failed.reason)));
    }
    if let [thread] = report.threads.as_slice() {
        let id = context.short_id(thread.thread_id).await;
        context
            .screen
            .print_to_stderr(context.screen.style.dim(format!("Hand it off with `segue handoff {id}`.")));
    }
    Ok(())
}

/// Returns the number of events that an import added to a thread, as text.
fn new_events_text(thread: &ImportedThread) -> String {
    match (thread.is_new, thread.events_new) {
        (true, events) => format!("new, {}", format_count(events, "event")),
        (false, 0) => "nothing new".to_owned(),
        (false, events) => format!("{} new", format_count(events, "event")),
    }
}

/// Lists the sessions of other agents on this machine.
fn show_discovered_sessions(context: &CommandContext) -> CommandResult {
    let (sessions, problems) = context.agent.threads().discover(TITLES_MAX);
    if context.format == OutputFormat::Json {
        context.print_json_with_names(&json!({"sessions": sessions, "problems": problems}))?;
        return Ok(ExitReason::Success);
    }
    for problem in &problems {
        let (path, reason) = (sanitize_path(&problem.path), sanitize_line(&problem.reason));
        context.screen.print_to_stderr(format!("{path}: {reason}"));
    }
    if sessions.is_empty() {
        context.screen.print_line("No session of another agent was found in the usual folders.")?;
        return Ok(ExitReason::Success);
    }
    for session in sessions.iter().take(TITLES_MAX) {
        show_session(context, session)?;
    }
    if let Some(more) = sessions.len().checked_sub(TITLES_MAX).filter(|more| *more > 0) {
        context.screen.print_line(format!("… and {more} older sessions; `--json` lists all of them"))?;
    }
    let hint = "`segue import PATH` imports a session; `segue handoff --latest` hands off the newest.";
    context.screen.print_line(hint)?;
    Ok(ExitReason::Success)
}

/// Prints a session on two lines: its properties, and its path alone, so that a long path can be copied as a whole.
fn show_session(context: &CommandContext, session: &FoundSession) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let now = jiff::Timestamp::now();
    let age = session.modified.map(|time| threads::format_age(now, time)).unwrap_or_default();
    let properties = format!("{:<9} {:<11} {:>10}  ", session.format, age, format_byte_size(session.bytes));
    let title = sanitize_line(session.title.as_deref().unwrap_or("(no title)"));
    let columns = screen.columns.saturating_sub(properties.len()).max(10);
    screen.print_line(format!("{}{}", style.dim(&properties), shorten(&title, columns)))?;
    screen.print_line(format!("  {}", sanitize_path(&session.path)))?;
    Ok(())
}

/// Returns a count with its noun, which gets an `s` unless the count is 1.
pub(crate) fn format_count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns a size in binary units, such as `1.5 KiB`.
pub(crate) fn format_byte_size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
