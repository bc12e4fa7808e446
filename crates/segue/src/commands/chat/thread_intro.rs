//! The introduction of a thread that is opened in a chat: its title, followed by the summary that its first turn will
//! get, or by its last messages. It asks nothing and changes nothing.

use agent::{HistoryEntry, HistoryItem, HistoryQuery};
use protocol::{Message, Proposal, Thread, ThreadId};
use terminal::marker::CardFold;
use terminal::{facts, sanitize_line, shorten, summary, wrap};

use crate::commands::history::entry::{EntryDisplay, show_entry};
use crate::commands::history::markers::CompactionMarkers;
use crate::commands::history::show_run_end;
use crate::commands::{CommandContext, threads};
use crate::exit::CliFailure;

/// The number of history entries that are read to find the last messages.
const ENTRIES_READ_MAX: usize = 40;
/// The most lines that are shown of each message.
const LINES_SHOWN_MAX: usize = 8;
/// The most messages that are shown.
const MESSAGES_SHOWN_MAX: usize = 4;
/// The notice if the last run did not succeed.
const NOT_ANSWERED: &str = "Your last message was not answered. It is kept: write “try again” to retry.";

/// Prints the introduction of a thread. Prints nothing if `thread` is `None`.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(super) async fn show_thread_intro(
    context: &CommandContext,
    thread: Option<&Thread>,
) -> Result<(), CliFailure> {
    let Some(thread) = thread else { return Ok(()) };
    let (screen, style) = (&context.screen, context.screen.style);
    let id = context.short_id(thread.thread_id).await;
    let title = threads::thread_title(thread);
    screen.print_line("")?;
    screen.print_line(format!(
        "{} {}",
        style.bold(shorten(&title, screen.columns.saturating_sub(id.len() + 1))),
        style.dim(&id)
    ))?;
    threads::warn_of_incomplete_import(context, thread);
    let proposals = carried_over_proposals(context, thread).await?;
    if proposals.is_empty() {
        return show_last_messages(context, thread.thread_id).await;
    }
    for proposal in &proposals {
        screen.print_line(style.dim("This thread continues with this summary:"))?;
        if proposals.len() > 1 {
            screen.print_line(style.bold(sanitize_line(&proposal.summary_json.title)))?;
        }
        screen.print_line("")?;
        screen.print_line(summary::render_body(screen, &proposal.summary_json))?;
        screen.print_lines(facts::render_folded(screen, proposal))?;
        screen.print_line("")?;
    }
    let models = context.agent.model_status();
    match (models.default, models.problem, proposals.last()) {
        (Some(_), None, _) | (_, _, None) => Ok(()),
        (_, _, Some(newest)) => {
            let text = format!(
                "No model can answer here. To continue in another agent, give it this summary: `segue handoff --show {} --json \
                 | jq -r '.proposals[-1].package_md'` prints it whole.",
                newest.handoff_id
            );
            Ok(screen.print_line(style.dim(wrap(&text, screen.text_columns(), "", "  ")))?)
        }
    }
}

/// Returns the summaries that were handed to the thread, as they are now, if the thread's first turn has not ended yet.
async fn carried_over_proposals(
    context: &CommandContext,
    thread: &Thread,
) -> Result<Vec<Proposal>, CliFailure> {
    let is_waiting =
        thread.handoff_mark().is_some_and(|mark| mark.pending && mark.child_thread_id == thread.thread_id);
    if !is_waiting {
        return Ok(Vec::new());
    }
    let origins = context.agent.handoffs().origins(thread).await?;
    Ok(origins.into_iter().map(|origin| origin.updated.unwrap_or(origin.proposal)).collect())
}

/// Prints the last messages, with the compaction markers between them, and a notice if the last message was not
/// answered.
/// At most [`MESSAGES_SHOWN_MAX`] messages are printed, each with at most [`LINES_SHOWN_MAX`] lines.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
async fn show_last_messages(context: &CommandContext, thread_id: ThreadId) -> Result<(), CliFailure> {
    let query = HistoryQuery { limit: ENTRIES_READ_MAX, ..HistoryQuery::default() };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let markers = CompactionMarkers::load_around(context, &page, CardFold::Closed, query.superseded).await?;
    let has_text = |entry: &HistoryEntry| match entry.message() {
        Some(message @ (Message::Human(_) | Message::Ai(_))) => !message.text().trim().is_empty(),
        Some(Message::Tool(_)) | None => false,
    };
    let messages = page.entries.iter().rev().filter(|entry| has_text(entry));
    let first_seq = messages.take(MESSAGES_SHOWN_MAX).last().map_or(0, |entry| entry.seq);
    // Markers are not counted as messages, but they explain what happened to the messages around them.
    let is_shown = |entry: &HistoryEntry| match &entry.item {
        HistoryItem::Marker(_)
        | HistoryItem::Undone(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Archived(_)
        | HistoryItem::Audit(_)
        | HistoryItem::Damaged(_) => true,
        HistoryItem::Message(_) | HistoryItem::Boundary(_) => has_text(entry),
    };
    let display = EntryDisplay {
        lines_max: LINES_SHOWN_MAX,
        fold: CardFold::Closed,
        markers: &markers,
        requested_seq: None,
    };
    context.screen.print_line("")?;
    let mut is_unanswered = false;
    for entry in page.entries.iter().filter(|entry| entry.seq >= first_seq) {
        if is_shown(entry) {
            show_entry(&context.screen, entry, display)?;
        }
        is_unanswered = show_run_end(context, &page, entry).await?;
    }
    if is_unanswered {
        context.screen.print_line(context.screen.style.warn(NOT_ANSWERED))?;
    }
    Ok(())
}
