//! What a person sees when a thread is opened: its title, what was carried over into it, and the last of what was said.
//! It asks and changes nothing.

use agent::{HistoryEntry, HistoryItem, HistoryQuery};
use protocol::{Message, Proposal, Thread, ThreadId};
use terminal::marker::Fold;
use terminal::{shorten, summary};

use crate::commands::history::entry::{Look, show as show_entry};
use crate::commands::history::marks::Marks;
use crate::commands::history::show_end;
use crate::commands::{Context, threads};
use crate::exit::Failure;

/// Entries that are read for the last messages.
const ENTRIES_READ_MAX: usize = 40;
const LINES_SHOWN_MAX: usize = 8;
/// Messages that are shown again.
const MESSAGES_SHOWN_MAX: usize = 4;
/// What is said where the last run did not succeed.
const NOT_ANSWERED: &str = "Your last message was not answered. It is kept: write “try again” to retry.";

/// Shows where the conversation stands.
pub(super) async fn show(context: &Context, thread: Option<&Thread>) -> Result<(), Failure> {
    let Some(thread) = thread else { return Ok(()) };
    let (screen, style) = (&context.screen, context.screen.style);
    let id = context.short_id(thread.thread_id).await;
    let title = threads::title(thread);
    screen.line("")?;
    screen.line(format!(
        "{} {}",
        style.bold(shorten(&title, screen.columns.saturating_sub(id.len() + 1))),
        style.dim(&id)
    ))?;
    match carried_over(context, thread).await? {
        Some(proposal) => {
            screen.line(style.dim("Carried over into the first turn, once:"))?;
            screen.line("")?;
            screen.line(summary::body(screen, &proposal.summary_json))?;
            screen.line("")?;
        }
        None => last_messages(context, thread.thread_id).await?,
    }
    Ok(())
}

/// Returns the summary the thread's first turn will be given, if that turn is still to come.
async fn carried_over(context: &Context, thread: &Thread) -> Result<Option<Proposal>, Failure> {
    let Some(mark) = thread.handoff() else { return Ok(None) };
    match mark.pending && mark.child_thread_id == thread.thread_id {
        // The newest proposal is the accepted one: nothing is drafted after an acceptance.
        true => Ok(context.agent.handoffs().review(mark.handoff_id).await?.proposals.pop()),
        false => Ok(None),
    }
}

async fn last_messages(context: &Context, thread_id: ThreadId) -> Result<(), Failure> {
    let query = HistoryQuery { limit: ENTRIES_READ_MAX, ..HistoryQuery::default() };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let marks = Marks::around(context, &page, Fold::Closed, query.superseded).await?;
    let is_said = |entry: &HistoryEntry| match entry.message() {
        Some(message @ (Message::Human(_) | Message::Ai(_))) => !message.text().trim().is_empty(),
        Some(Message::Tool(_)) | None => false,
    };
    let said = page.entries.iter().rev().filter(|entry| is_said(entry));
    let first = said.take(MESSAGES_SHOWN_MAX).last().map_or(0, |entry| entry.seq);
    // A marker is no message, but says what became of them.
    let is_shown = |entry: &HistoryEntry| match &entry.what {
        HistoryItem::Marker(_)
        | HistoryItem::Undone(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Archived(_) => true,
        HistoryItem::Message(_) | HistoryItem::Boundary(_) => is_said(entry),
    };
    let look = Look { lines_max: LINES_SHOWN_MAX, fold: Fold::Closed, marks: &marks, sought: None };
    context.screen.line("")?;
    let mut is_unanswered = false;
    for entry in page.entries.iter().filter(|entry| entry.seq >= first) {
        if is_shown(entry) {
            show_entry(&context.screen, entry, look)?;
        }
        is_unanswered = show_end(context, &page, entry).await?;
    }
    if is_unanswered {
        context.screen.line(context.screen.style.warn(NOT_ANSWERED))?;
    }
    Ok(())
}
