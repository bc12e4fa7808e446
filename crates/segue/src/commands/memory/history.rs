//! `segue memory history` and `restore`: the recorded states of the notes in agent.md.

use std::io::{self, Write};

use agent::{NotesRevision, RestoreOutcome, RevisionCause, RevisionEntry};
use serde::Serialize;
use serde_json::json;
use terminal::{Audience, MarkdownRenderer, TableColumn, diff, format_minute, sanitize, table};

use crate::cli::OutputFormat;
use crate::commands::CommandContext;
use crate::exit::{CommandResult, ExitReason};

/// A revision in a list in the form of `--json`.
#[derive(Serialize)]
struct RevisionReport<'a> {
    revision: u64,
    created_at: jiff::Timestamp,
    cause: RevisionCause,
    sha256: &'a str,
    /// Number of lines that were added since the revision before it.
    added: usize,
    /// Number of lines that were removed since the revision before it.
    removed: usize,
}

impl<'a> From<&'a RevisionEntry> for RevisionReport<'a> {
    fn from(entry: &'a RevisionEntry) -> Self {
        Self {
            revision: entry.number,
            created_at: entry.created_at,
            cause: entry.cause,
            sha256: &entry.sha256,
            added: entry.added_lines,
            removed: entry.removed_lines,
        }
    }
}

/// Performs `segue memory history` without a number.
///
/// # Errors
/// Fails if agent.md or the journal cannot be read, or stdout cannot be written.
pub(crate) async fn list_revisions(context: &CommandContext, limit: usize) -> CommandResult {
    let revisions = context.agent.memory().notes_revisions(None, limit).await?;
    if context.format == OutputFormat::Json {
        let reports: Vec<RevisionReport<'_>> = revisions.iter().map(RevisionReport::from).collect();
        context.print_json(&json!({"revisions": reports}))?;
        return Ok(ExitReason::Success);
    }
    let screen = &context.screen;
    if revisions.is_empty() {
        screen.print_line("agent.md has no notes and no history yet.")?;
        return Ok(ExitReason::Success);
    }
    let row = |entry: &RevisionEntry| {
        vec![
            entry.number.to_string(),
            format_minute(entry.created_at),
            cause_text(entry.cause).to_owned(),
            format!("+{} −{}", entry.added_lines, entry.removed_lines),
        ]
    };
    let rows: Vec<Vec<String>> = revisions.iter().map(row).collect();
    let columns = [
        TableColumn::Right("REVISION"),
        TableColumn::Left("TIME"),
        TableColumn::Flexible("CAUSE"),
        TableColumn::Right("LINES"),
    ];
    screen.print_lines(table(screen, &columns, &rows))?;
    if revisions.len() == limit {
        let hint = format!("These are the newest {limit}; `--limit N` shows more.");
        screen.print_to_stderr(screen.style.dim(hint));
    }
    Ok(ExitReason::Success)
}

/// Performs `segue memory history N`: prints the notes of the revision, to a program byte for byte.
///
/// # Errors
/// Fails if there is no such revision, if the journal cannot be read, or if stdout cannot be written.
pub(crate) async fn show_revision(context: &CommandContext, number: u64) -> CommandResult {
    let revision = context.agent.memory().notes_revision(number).await?;
    let screen = &context.screen;
    match (context.format, screen.audience) {
        (OutputFormat::Json, _) => context.print_json(&json!({
            "revision": revision.number,
            "created_at": revision.created_at,
            "cause": revision.cause,
            "sha256": revision.sha256,
            "text": text_of(&revision),
        }))?,
        (OutputFormat::Text, Audience::Program) => io::stdout().lock().write_all(&revision.notes)?,
        (OutputFormat::Text, Audience::Person) => {
            let mut markdown = MarkdownRenderer::new(screen);
            screen.write(&(markdown.push(&text_of(&revision)) + &markdown.finish()))?;
        }
    }
    Ok(ExitReason::Success)
}

/// Performs `segue memory history N --diff`: prints the changes since the revision before it.
///
/// # Errors
/// Fails if there is no such revision, if the journal cannot be read, or if stdout cannot be written.
pub(crate) async fn show_change(context: &CommandContext, number: u64) -> CommandResult {
    let change = context.agent.memory().notes_diff(number).await?;
    let screen = &context.screen;
    match (context.format, screen.audience) {
        (OutputFormat::Json, _) => context.print_json(&json!({"revision": number, "diff": change}))?,
        (OutputFormat::Text, Audience::Program) => io::stdout().lock().write_all(change.as_bytes())?,
        (OutputFormat::Text, Audience::Person) => {
            screen.print_lines(diff::render_unified(screen, &sanitize(&change)))?;
        }
    }
    Ok(ExitReason::Success)
}

/// Performs `segue memory restore`.
///
/// # Errors
/// Fails if there is no such revision, or if agent.md or the journal cannot be changed.
pub(crate) async fn restore_revision(context: &CommandContext, number: u64) -> CommandResult {
    let outcome = context.agent.memory().restore_notes(number).await?;
    let text = match outcome {
        RestoreOutcome::Restored => format!("agent.md has the notes of revision {number} again."),
        RestoreOutcome::Unchanged => format!("agent.md has the notes of revision {number} already."),
    };
    match context.format {
        OutputFormat::Json => context
            .print_json(&json!({"revision": number, "changed": outcome == RestoreOutcome::Restored}))?,
        OutputFormat::Text => context.screen.print_line(text)?,
    }
    Ok(ExitReason::Success)
}

/// Returns the notes of a revision as text.
fn text_of(revision: &NotesRevision) -> String {
    String::from_utf8_lossy(&revision.notes).into_owned()
}

/// Returns the cause of a revision in words.
const fn cause_text(cause: RevisionCause) -> &'static str {
    match cause {
        RevisionCause::Outside => "another program or an editor",
        RevisionCause::Remember => "a note was remembered",
        RevisionCause::Tool => "the agent edited its notes",
        RevisionCause::Edit => "edited by a person",
        RevisionCause::Fact => "a proposed fact was accepted",
        RevisionCause::Restore => "a revision was restored",
    }
}
