//! `segue memory show`, `edit`, `search` and `path`, and `segue remember`: the commands about agent.md, the file whose
//! text starts every conversation. The crate `memory` manages one block in it, and decides which texts must not be
//! stored in it.

use std::fs;
use std::path::Path;

use agent::{
    HandoffKeep, IndexHitKind, NotesScope, ProjectScope, ReadExtent, RememberedNote, RewriteOutcome,
    SearchRequest,
};
use serde::Serialize;
use serde_json::json;
use tempfile::TempPath;
use terminal::{
    Audience, KeyChoice, MarkdownRenderer, Screen, ask, editor, format_bytes, sanitize_line, sanitize_path,
    search_hits, shorten, wrap,
};

use crate::cli::OutputFormat;
use crate::cli::memory::{ProjectArgs, RememberArgs};
use crate::commands::history::search::{
    CommandSyntax, OTHER_PROJECTS_NOTE, check_words, hit_thread_names, navigation_hint, quote_query,
    search_report,
};
use crate::commands::import::format_count;
use crate::commands::memory::tiers::{self, redaction_text};
use crate::commands::memory::{facts, project_scope};
use crate::commands::{CommandContext, read_stdin};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// Returns the note about the managed block of agent.md: how long the thread that it was written for is sent its summary.
fn managed_block_note(keep: HandoffKeep) -> String {
    let duration = match keep {
        HandoffKeep::FirstTurn => "in its first complete turn only",
        HandoffKeep::UntilUsed => "until a turn has called a tool, and for at most five turns",
        HandoffKeep::Thread => "with every request",
    };
    format!(
        "Segue manages the text between <current_thread_summary> and </current_thread_summary>. Only the thread that it was \
         written for is sent this summary, {duration}; the block is emptied after that thread's first complete turn."
    )
}

/// A line of agent.md that matches a search.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct AgentMdLine<'a> {
    /// The number of the line, from 1.
    line: usize,
    /// The line without leading and trailing blanks.
    text: &'a str,
}

/// Performs `segue memory show`.
///
/// # Errors
/// Fails if agent.md or the journal cannot be read, or stdout cannot be written.
pub(crate) async fn show_memory(
    context: &CommandContext,
    projects: ProjectArgs,
    limit: usize,
) -> CommandResult {
    let summaries = context.agent.memory().recent_summaries(project_scope(context, projects), limit).await?;
    let facts_to_review =
        context.agent.memory().facts_to_review(project_scope(context, projects)).await?.len();
    if context.format == OutputFormat::Json {
        let (path, text) = (context.agent.memory().agent_md_path(), read_agent_md(context)?);
        let summaries = tiers::summary_reports(&summaries);
        context.print_json(
            &json!({"path": path, "text": text, "summaries": summaries, "facts_to_review": facts_to_review}),
        )?;
        return Ok(ExitReason::Success);
    }
    let (screen, style) = (&context.screen, context.screen.style);
    show_agent_md(context)?;
    if limit > 0 {
        screen.print_line("")?;
        screen.print_line(style.bold("Summaries of old messages"))?;
        tiers::show_summaries(context, &summaries, CommandSyntax::Shell).await?;
    }
    if let Some(text) = facts::to_review_text(facts_to_review as u64, CommandSyntax::Shell) {
        screen.print_line("")?;
        screen.print_line(style.dim(text))?;
    }
    Ok(ExitReason::Success)
}

/// Prints agent.md, with a note about its managed block.
///
/// # Errors
/// Fails if the file cannot be read or stdout cannot be written.
pub(crate) fn show_agent_md(context: &CommandContext) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    screen.print_line(style.dim(sanitize_path(&context.agent.memory().agent_md_path())))?;
    let Some(text) = read_agent_md(context)? else {
        return Ok(screen.print_line(style.dim("It is empty."))?);
    };
    let mut markdown = MarkdownRenderer::new(screen);
    screen.write(&(markdown.push(&text) + &markdown.finish()))?;
    if context.agent.memory().agent_md()?.block.is_some() {
        screen.print_line("")?;
        let note = managed_block_note(context.agent.handoffs().keep());
        screen.print_line(style.dim(wrap(&note, screen.text_columns(), "", "  ")))?;
    }
    Ok(())
}

/// Performs `segue memory path`.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn print_path(context: &CommandContext) -> CommandResult {
    let path = context.agent.memory().agent_md_path();
    match context.format {
        OutputFormat::Json => context.print_json(&json!({"path": path}))?,
        OutputFormat::Text => context.screen.print_line(path.display())?,
    }
    Ok(ExitReason::Success)
}

/// Performs `segue memory search`.
///
/// # Errors
/// Fails if the query contains no word, agent.md or the journal cannot be read, or stdout cannot be written.
pub(crate) async fn search_memory(
    context: &CommandContext,
    words: &str,
    projects: ProjectArgs,
    limit: usize,
) -> CommandResult {
    check_words(words)?;
    let request = SearchRequest {
        kinds: vec![IndexHitKind::Summary, IndexHitKind::Item],
        assistant_id: Some(context.agent.assistant_id().clone()),
        project: project_scope(context, projects),
        limit,
        ..SearchRequest::new(words)
    };
    let results = context.agent.memory().search(&request).await?;
    let text = context.agent.memory().agent_md()?.visible_lines(&notes_scope(context, projects));
    let lines = matching_lines(&text, &results.words, limit);
    if context.format == OutputFormat::Json {
        let mut report = serde_json::to_value(search_report(&results, &request.project))?;
        report["agent_md"] = json!(lines);
        context.print_json(&report)?;
        return Ok(ExitReason::Success);
    }
    let screen = &context.screen;
    if lines.is_empty() && results.hits.is_empty() {
        let note = match request.project {
            ProjectScope::Any => String::new(),
            ProjectScope::Project(_) | ProjectScope::Personal | ProjectScope::OfThread(_) => {
                format!(" {OTHER_PROJECTS_NOTE}")
            }
        };
        let text = format!("No matches for {}; `segue search` searches messages.{note}", quote_query(words));
        screen.print_line(wrap(&text, screen.text_columns(), "", "  "))?;
    }
    for line in &lines {
        let position = format!("agent.md:{}", line.line);
        let columns = screen.text_columns().saturating_sub(position.len() + 2);
        let text = sanitize_line(line.text);
        screen.print_line(format!("{}  {}", screen.style.code(&position), shorten(&text, columns)))?;
    }
    let names = hit_thread_names(context, &results.hits).await?;
    for (index, hit) in results.hits.iter().enumerate() {
        if index > 0 || !lines.is_empty() {
            screen.print_line("")?;
        }
        screen.print_lines(search_hits::render_hit(screen, hit, &names))?;
    }
    if !results.hits.is_empty() {
        let hint = navigation_hint(&results.hits, &names, CommandSyntax::Shell);
        screen.print_to_stderr(screen.style.dim(wrap(&hint, screen.text_columns(), "", "  ")));
    }
    Ok(ExitReason::Success)
}

/// Returns at most `limit` lines that contain any of the words, ignoring case. Lines that contain more of the words
/// come first.
fn matching_lines<'a>(text: &'a str, words: &[String], limit: usize) -> Vec<AgentMdLine<'a>> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let count_words = |text: &str| {
        let text = text.to_lowercase();
        words.iter().filter(|word| text.contains(word.as_str())).count()
    };
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, text)| (count_words(text), AgentMdLine { line: index + 1, text: text.trim() }));
    let mut lines: Vec<(usize, AgentMdLine<'_>)> = lines.filter(|(count, _)| *count > 0).collect();
    lines.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    lines.into_iter().take(limit).map(|(_, line)| line).collect()
}

/// Performs `segue remember`. The text `-` is read from standard input.
///
/// # Errors
/// Fails like [`remember_sentence`], or if stdin or stdout cannot be used.
pub(crate) async fn run_remember(context: &CommandContext, args: RememberArgs) -> CommandResult {
    let text = match args.text.as_slice() {
        [only] if only == "-" => read_stdin("the sentence")?,
        words => words.join(" "),
    };
    let note =
        remember_sentence(context, notes_scope(context, ProjectArgs { everywhere: args.everywhere }), &text)
            .await?;
    match context.format {
        OutputFormat::Json => context.print_json(&json!({
            "path": note.path, "project": note.project, "line": note.line, "was_known": note.was_already_noted, "withheld": note.redacted_secrets,
            "bytes": note.bytes, "bytes_max": note.bytes_max,
        }))?,
        OutputFormat::Text => print_receipt(&context.screen, &note)?,
    }
    Ok(ExitReason::Success)
}

/// Returns the notes that conversations see, or those of all projects.
pub(crate) fn notes_scope(context: &CommandContext, projects: ProjectArgs) -> NotesScope {
    match projects.everywhere {
        true => NotesScope::AllProjects,
        false => context.agent.notes_scope(),
    }
}

/// Adds a sentence to the notes of this scope in agent.md.
///
/// # Errors
/// Fails if the text is empty, if agent.md would exceed its size limit, or if it cannot be written.
pub(crate) async fn remember_sentence(
    context: &CommandContext,
    scope: NotesScope,
    text: &str,
) -> Result<RememberedNote, CliFailure> {
    match text.trim() {
        "" => Err(CliFailure::new(ExitReason::User, "remember: no words were given")
            .with_hint("write the sentence to remember")),
        text => Ok(context.agent.memory().remember(scope, text).await?),
    }
}

/// Prints the line that was added to agent.md, the file's size, and a warning about redacted secrets.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn print_receipt(screen: &Screen, note: &RememberedNote) -> Result<(), CliFailure> {
    let lead = if note.was_already_noted { "Already in" } else { "Added to" };
    let (path, bytes, bytes_max) =
        (sanitize_path(&note.path), format_bytes(note.bytes), format_bytes(note.bytes_max));
    let project =
        note.project.as_deref().map(|project| format!(" for the project {}", sanitize_line(project)));
    let heading = format!("{lead} {path}{} ({bytes} of {bytes_max}):", project.unwrap_or_default());
    screen.print_line(screen.style.dim(wrap(&heading, screen.text_columns(), "", "  ")))?;
    screen.print_line(wrap(&sanitize_line(&note.line), screen.text_columns(), "  ", "    "))?;
    if let Some(text) = redaction_text(note.redacted_secrets) {
        screen.print_line(screen.style.warn(text))?;
    }
    Ok(())
}

/// Performs `segue memory edit`.
///
/// # Errors
/// Fails like [`edit_interactively`].
pub(crate) async fn run_edit(context: &CommandContext) -> CommandResult {
    let edit = edit_interactively(context).await?;
    match context.format {
        OutputFormat::Json => {
            context.print_json(
                &json!({"path": context.agent.memory().agent_md_path(), "changed": edit == AgentMdEdit::Applied}),
            )?;
        }
        OutputFormat::Text => context.screen.print_line(edit_result_text(edit))?,
    }
    Ok(ExitReason::Success)
}

/// The result of an edit of agent.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentMdEdit {
    /// The edited text was stored.
    Applied,
    /// The user changed nothing.
    Unchanged,
}

/// Returns a sentence about the result of an edit.
pub(crate) const fn edit_result_text(edit: AgentMdEdit) -> &'static str {
    match edit {
        AgentMdEdit::Applied => "Changed. Your next message uses the new text.",
        AgentMdEdit::Unchanged => "Nothing was changed.",
    }
}

/// Opens agent.md in the user's editor and stores the result. A refused text is not lost: the user can edit it again,
/// and otherwise it stays in a file that the failure's hint names.
///
/// # Errors
/// Fails if agent.md is too large to edit, if no editor can be started, or if the edited text is refused.
pub(crate) async fn edit_interactively(context: &CommandContext) -> Result<AgentMdEdit, CliFailure> {
    let agent = &context.agent;
    let shown = agent.memory().agent_md()?;
    if shown.extent == ReadExtent::Beginning {
        let problem = format!("edit {}: it is too large", sanitize_path(&agent.memory().agent_md_path()));
        return Err(CliFailure::new(ExitReason::User, problem)
            .with_hint("shorten the file directly; `segue memory path` prints its path"));
    }
    let path = editor::create_temp_file(agent.home().root(), &shown.bytes)?;
    loop {
        match edit_once(context, &shown.bytes, &path).await {
            Ok(Some(edit)) => return Ok(edit),
            Ok(None) => {}
            Err(failure) => return Err(keep_rejected_text(failure, path, &shown.bytes)),
        }
    }
}

/// Opens the file in the editor once and stores the result; `None` if the result was refused and the user wants to edit
/// it again. `shown` is the content of agent.md when the edit began.
async fn edit_once(
    context: &CommandContext,
    shown: &[u8],
    path: &Path,
) -> Result<Option<AgentMdEdit>, CliFailure> {
    let edited = editor::edit_file(path)?;
    let refused = match context.agent.memory().edit_agent_md(shown.to_vec(), edited).await? {
        RewriteOutcome::Replaced => return Ok(Some(AgentMdEdit::Applied)),
        RewriteOutcome::Unchanged => return Ok(Some(AgentMdEdit::Unchanged)),
        refused @ (RewriteOutcome::BlockChanged
        | RewriteOutcome::Conflict
        | RewriteOutcome::NewSecrets { .. }) => refused,
    };
    // After a conflict the edited text lacks the changes of the other program, so storing it would delete them.
    if refused == RewriteOutcome::Conflict || !ask_to_edit_again(context, &refused)? {
        return Err(CliFailure::new(
            ExitReason::User,
            format!("change agent.md: {}", rejection_reason(&refused)),
        ));
    }
    Ok(None)
}

/// Prints the reason why an edit was refused, and asks whether the user wants to edit the text again. Returns `false`
/// without asking if no user is at a terminal.
fn ask_to_edit_again(context: &CommandContext, refused: &RewriteOutcome) -> Result<bool, CliFailure> {
    if context.screen.audience == Audience::Program || context.format == OutputFormat::Json {
        return Ok(false);
    }
    context.print_notice(&format!("Not stored: {}.", rejection_reason(refused)));
    let choices = [KeyChoice { key: 'e', label: "Edit again", answer: () }];
    Ok(ask(&context.screen, &choices, "Leave it")?.is_some())
}

/// Returns the reason why an edit was refused.
fn rejection_reason(refused: &RewriteOutcome) -> String {
    match refused {
        RewriteOutcome::BlockChanged => {
            "it changes the text between <current_thread_summary> and </current_thread_summary>, which Segue manages"
                .to_owned()
        }
        RewriteOutcome::Conflict => "another program has changed the file meanwhile".to_owned(),
        RewriteOutcome::NewSecrets { count } => {
            format!("it seems to contain {}, which must not be stored in memory", format_count(*count, "secret"))
        }
        RewriteOutcome::Replaced | RewriteOutcome::Unchanged => "it was accepted".to_owned(),
    }
}

/// Preserves the temporary file with a refused text, unless the text is unchanged, and adds its path to the failure's
/// hint.
fn keep_rejected_text(failure: CliFailure, path: TempPath, shown: &[u8]) -> CliFailure {
    if fs::read(&path).is_ok_and(|text| text == shown) {
        return failure;
    }
    match path.keep() {
        Ok(path) => {
            failure.with_hint(format!("agent.md was not changed; your text is in {}", sanitize_path(&path)))
        }
        Err(_) => failure.with_hint("agent.md was not changed"),
    }
}

/// Returns the text of agent.md; `None` if it is empty or does not exist.
fn read_agent_md(context: &CommandContext) -> Result<Option<String>, CliFailure> {
    let shown = context.agent.memory().agent_md()?;
    let text = String::from_utf8_lossy(&shown.bytes).into_owned();
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_with_the_most_words_come_first() {
        let text = "# Notes\n- the kettle leaks\n- Kettle: descale weekly\n- tea\n";
        let search = |words: &[&str], limit| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            matching_lines(text, &words, limit).iter().map(|line| line.line).collect::<Vec<_>>()
        };
        assert_eq!(search(&["kettle", "descale"], 10), [3, 2]);
        assert_eq!(search(&["kettle", "descale"], 1), [3]);
        assert_eq!(search(&["coffee"], 10), Vec::<usize>::new());
    }
}
