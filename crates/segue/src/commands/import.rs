//! `segue import`: sessions of other agents into threads, with what was damaged told by file and line.

use std::path::PathBuf;

use agent::{FoundSession, ImportReport, ImportedThread};
use serde_json::json;
use terminal::{Seen, Then, Unit, one_line, shorten, shown_path, watch};

use crate::cli::{self, Format};
use crate::commands::work::progress;
use crate::commands::{Context, threads};
use crate::exit::{Code, Failure, Outcome};

/// How many damaged records are told one by one.
const PROBLEMS_SHOWN_MAX: usize = 20;
/// How many sessions of this machine are shown with their titles, which takes a look into each.
const TITLES_MAX: usize = 30;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Import) -> Outcome {
    if args.discover {
        return discover(context);
    }
    let report = import(context, &args.paths).await?;
    match context.format {
        Format::Json => context.json(&report)?,
        Format::Text => show(context, &report).await?,
    }
    // Where nothing could be read, a script must not go on as if something had been.
    let nothing = report.threads.is_empty() && !report.problems.is_empty();
    Ok(if nothing || !report.failed.is_empty() { Code::User } else { Code::Done })
}

/// Imports with a progress bar.
///
/// # Errors
/// When a named file cannot be read, the journal fails, or the person stopped it.
pub(crate) async fn import(context: &Context, paths: &[PathBuf]) -> Result<ImportReport, Failure> {
    let bar = progress(&context.screen, context.format, Unit::Bytes);
    let agent = &context.agent;
    let (report, stopped) = watch(
        async |frames, cancel| (agent.threads().import(paths, &frames, &cancel).await, cancel.is_cancelled()),
        |seen| {
            if let Seen::Frame(_, frame) = seen {
                bar.show(frame);
            }
            Ok(Then::GoOn)
        },
    )
    .await?;
    let report = report?;
    match stopped {
        true => Err(Failure::cancelled("import everything")
            .with_hint("import again: it goes on where this one stopped")),
        false => Ok(report),
    }
}

/// Returns the newest session of an agent on this machine.
///
/// # Errors
/// When there is none.
pub(crate) fn newest(context: &Context) -> Result<PathBuf, Failure> {
    let (found, _) = context.agent.threads().discover(TITLES_MAX);
    // A file nobody said anything in has no title; there is nothing to hand off in it.
    let newest = found.into_iter().find(|session| session.title.is_some());
    if let Some(session) = &newest {
        context.notice(&format!("The newest session: {} ({})", session.path.display(), session.format));
    }
    newest.map(|session| session.path).ok_or_else(|| {
        Failure::new(Code::User, "find a session of an agent on this machine")
            .with_hint("name the session's file: `segue handoff FILE`")
    })
}

/// Tells on stderr what was damaged.
pub(crate) fn note_problems(context: &Context, report: &ImportReport) {
    for problem in report.problems.iter().take(PROBLEMS_SHOWN_MAX) {
        let line = problem.line.map(|line| format!("{line}:")).unwrap_or_default();
        context.screen.note(format!("{}:{line} {}", shown_path(&problem.path), one_line(&problem.reason)));
    }
    if let Some(more) = report.problems.len().checked_sub(PROBLEMS_SHOWN_MAX).filter(|more| *more > 0) {
        context.screen.note(format!("… and {more} more damaged records"));
    }
}

async fn show(context: &Context, report: &ImportReport) -> Result<(), Failure> {
    note_problems(context, report);
    let ids = threads::short_ids(report.threads.iter().map(|thread| thread.thread_id));
    for (thread, id) in report.threads.iter().zip(&ids) {
        let name = thread.name.as_deref().or(thread.first_prompt.as_deref()).unwrap_or("(no name)");
        let lead = format!("{id}  {:<16}  {:<11}  ", news(thread), thread.format);
        let columns = context.screen.columns.saturating_sub(lead.chars().count()).max(10);
        context.screen.line(format!(
            "{}{}",
            context.screen.style.dim(&lead),
            shorten(&one_line(name), columns)
        ))?;
    }
    let new: u64 = report.threads.iter().map(|thread| thread.events_new).sum();
    let mut parts = vec![
        count(report.threads.len() as u64, "thread"),
        format!("{} new", count(new, "event")),
        format!("{} read", bytes(report.bytes)),
    ];
    if !report.problems.is_empty() {
        parts.push(count(report.problems.len() as u64, "damaged record"));
    }
    if !report.skipped.is_empty() {
        parts.push(format!("{} skipped: no session in them", count(report.skipped.len() as u64, "file")));
    }
    context.screen.line(parts.join(" · "))?;
    for failed in &report.failed {
        context.screen.note(format!("segue: failed to {}", one_line(&failed.reason)));
    }
    Ok(())
}

fn news(thread: &ImportedThread) -> String {
    match (thread.is_new, thread.events_new) {
        (true, events) => format!("new, {}", count(events, "event")),
        (false, 0) => "nothing new".to_owned(),
        (false, events) => format!("{} new", count(events, "event")),
    }
}

fn discover(context: &Context) -> Outcome {
    let (sessions, problems) = context.agent.threads().discover(TITLES_MAX);
    if context.format == Format::Json {
        context.json(&json!({"sessions": sessions, "problems": problems}))?;
        return Ok(Code::Done);
    }
    for problem in &problems {
        context.screen.note(format!("{}: {}", shown_path(&problem.path), one_line(&problem.reason)));
    }
    if sessions.is_empty() {
        context.screen.line("No session of an agent was found in the usual places.")?;
        return Ok(Code::Done);
    }
    for session in sessions.iter().take(TITLES_MAX) {
        show_session(context, session)?;
    }
    if let Some(more) = sessions.len().checked_sub(TITLES_MAX).filter(|more| *more > 0) {
        context.screen.line(format!("… and {more} older ones; `--json` lists them all"))?;
    }
    context.screen.line("Import one with `segue import PATH`; `segue handoff --latest` takes the newest.")?;
    Ok(Code::Done)
}

/// Two lines a session: paths are long, and must stay whole to be copied.
fn show_session(context: &Context, session: &FoundSession) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let now = jiff::Timestamp::now();
    let when = session.modified.map(|at| threads::ago(now, at)).unwrap_or_default();
    let facts = format!("{:<9} {:<11} {:>10}  ", session.format, when, bytes(session.bytes));
    let title = one_line(session.title.as_deref().unwrap_or("(no title)"));
    let columns = screen.columns.saturating_sub(facts.len()).max(10);
    screen.line(format!("{}{}", style.dim(&facts), shorten(&title, columns)))?;
    screen.line(format!("  {}", shown_path(&session.path)))?;
    Ok(())
}

/// Returns a number with its noun in the right form.
pub(crate) fn count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns a size for people.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
