//! One entry of a thread's history on the screen: who said it, where and when, and what; a marker as its card. Which
//! entries there are is not its business.

use agent::{CallHeader, HistoryEntry, HistoryItem};
use protocol::{Block, Message, Rating, RunFeedback, RunId, Seq};
use terminal::calls::title;
use terminal::marker::{Fold, archive_card, card, taken_back};
use terminal::{Markdown, Screen, minute, one_line, safe, shorten, size, wrap};

use super::marks::Marks;
use crate::commands::LASTING_ID;
use crate::commands::chat::message::FILE_BLOCK;
use crate::commands::import::count;
use crate::exit::Failure;

/// Lines of a tool's result that are shown.
const RESULT_LINES_MAX: usize = 6;

/// What is told of an entry that a rewind took out of sight.
const SUPERSEDED: &str = "out of sight: the thread went back to before it";

/// What is told of the entry that was asked for.
const SOUGHT: &str = " · asked for";

/// How much of entries is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    /// Lines of each that are shown at most.
    pub(crate) lines_max: usize,
    /// Whether markers are opened; then each message says in which it was condensed.
    pub(crate) fold: Fold,
    /// The markers around them.
    pub(crate) marks: &'a Marks,
    /// The event that was asked for.
    pub(crate) sought: Option<Seq>,
}

/// Shows one entry under a line that says who, where and when.
pub(crate) fn show(screen: &Screen, entry: &HistoryEntry, look: Look<'_>) -> Result<(), Failure> {
    let style = screen.style;
    let at = minute(entry.created_at);
    match &entry.what {
        // Reasoning alone is not shown, so neither is a heading for it.
        HistoryItem::Message(message) if is_hidden(message) => {}
        HistoryItem::Message(message) => {
            let who = match message {
                Message::Human(_) => style.good("you"),
                Message::Ai(_) => style.bold("assistant"),
                Message::Tool(_) => "tool".to_owned(),
            };
            let place = format!("#{} {at}{}", entry.seq, condensed(entry, look));
            let place = if entry.is_superseded { format!("{place} · out of sight") } else { place };
            let sought = if look.sought == Some(entry.seq) { style.bold(SOUGHT) } else { String::new() };
            screen.line(format!("{who} {}{sought}", style.dim(place)))?;
            show_message(screen, entry, message, look.lines_max)?;
        }
        HistoryItem::Boundary(boundary) => {
            let head = match boundary.kind {
                "imported_summary" => "the original agent's own summary",
                _ => "earlier messages condensed by the original agent",
            };
            screen.line(style.warn(format!("── {head} #{} {at}", entry.seq)))?;
            show_text(screen, &boundary.text, look.lines_max)?;
        }
        HistoryItem::Marker(marker) => {
            let standing = look.marks.standing(entry.seq);
            screen.lines(card(screen, marker, Some(entry.created_at), standing, look.fold))?;
        }
        HistoryItem::Undone(undone) => screen.line(taken_back(screen, undone.marker_seq))?,
        HistoryItem::Failed(failed) => {
            let told = format!("── nothing was condensed #{} {at}: {}", entry.seq, failed.reason);
            screen.line(style.dim(wrap(&told, screen.text_columns(), "", "   ")))?;
        }
        HistoryItem::Archived(marker) => {
            screen.lines(archive_card(screen, marker, entry.seq, entry.created_at, look.fold))?;
        }
    }
    if entry.is_superseded && entry.message().is_none() {
        screen.line(style.dim(wrap(SUPERSEDED, screen.text_columns(), "   ", "   ")))?;
    }
    if let (Some(feedback), Some(run_id)) = (&entry.feedback, entry.run_id) {
        let text = thumb(screen, run_id, feedback.as_ref());
        screen.line(style.dim(wrap(&text, screen.text_columns(), "", "  ")))?;
    }
    screen.line("")?;
    Ok(())
}

/// Returns in which marker the entry was condensed, and with which it went to memory, where that is told.
fn condensed(entry: &HistoryEntry, look: Look<'_>) -> String {
    if look.fold == Fold::Closed || entry.is_superseded {
        return String::new();
    }
    let condensed = look.marks.condensed_in(entry.seq).map(|seq| format!(" · condensed in #{seq}"));
    let archived = look.marks.archived_in(entry.seq).map(|seq| format!(" · in memory since #{seq}"));
    [condensed, archived].into_iter().flatten().collect()
}

/// Returns the run that an answer was the end of, and what a person thinks of it.
fn thumb(screen: &Screen, run_id: RunId, feedback: Option<&RunFeedback>) -> String {
    let run_id = run_id.to_string();
    let run = format!("run {}", &run_id[..LASTING_ID]);
    let Some(feedback) = feedback else { return run };
    let thumb = match (feedback.rating, screen.is_plain()) {
        (Rating::Up, true) => "rated up",
        (Rating::Down, true) => "rated down",
        (Rating::Up, false) => "👍",
        (Rating::Down, false) => "👎",
    };
    let comment = feedback.comment.as_deref().map(one_line).filter(|comment| !comment.is_empty());
    let comment = comment.map(|comment| format!(" “{comment}”")).unwrap_or_default();
    format!("{run} · {thumb}{comment}")
}

fn is_hidden(message: &Message) -> bool {
    let hidden = |block: &Block| matches!(block, Block::Thinking { .. } | Block::Opaque { .. });
    !message.content().is_empty() && message.content().iter().all(hidden)
}

fn show_message(
    screen: &Screen,
    entry: &HistoryEntry,
    message: &Message,
    lines_max: usize,
) -> Result<(), Failure> {
    if let Message::Tool(result) = message {
        if let Some(CallHeader { seq, name, args, .. }) = &entry.call {
            let line = format!("→ {} (#{seq})", title(name, args));
            screen.line(screen.style.dim(shorten(&line, screen.columns)))?;
        }
        let text = protocol::message::joined_text(&result.content);
        return show_result(screen, &text);
    }
    for block in message.content() {
        match block {
            Block::Text { text } if text.starts_with(FILE_BLOCK) => {
                let head = text.lines().next().unwrap_or_default();
                screen.line(screen.style.dim(format!("[{}]", one_line(head.trim_matches(['<', '>'])))))?;
            }
            Block::Text { text } => show_text(screen, text, lines_max)?,
            Block::ToolCall { name, args, .. } => {
                let line = title(name, args);
                screen.line(
                    screen.style.dim(format!("→ {}", shorten(&line, screen.columns.saturating_sub(2)))),
                )?;
            }
            Block::Media { media_type, bytes, .. } => {
                let size = bytes.map(|bytes| format!(" {}", size(bytes))).unwrap_or_default();
                screen.line(screen.style.dim(format!("[{}{size}]", one_line(media_type))))?;
            }
            Block::Thinking { .. } | Block::Opaque { .. } => {}
        }
    }
    Ok(())
}

fn show_text(screen: &Screen, text: &str, lines_max: usize) -> Result<(), Failure> {
    let mut markdown = Markdown::new(screen);
    let rendered = markdown.push(text) + &markdown.finish();
    let mut lines = rendered.lines();
    screen.lines(lines.by_ref().take(lines_max))?;
    more(screen, lines.count())
}

fn more(screen: &Screen, lines: usize) -> Result<(), Failure> {
    match lines {
        0 => Ok(()),
        lines => Ok(screen.line(screen.style.dim(format!("… {} more", count(lines as u64, "line"))))?),
    }
}

fn show_result(screen: &Screen, text: &str) -> Result<(), Failure> {
    let text = safe(text);
    let mut lines = text.lines();
    for line in lines.by_ref().take(RESULT_LINES_MAX) {
        screen.line(screen.style.dim(shorten(line, screen.columns)))?;
    }
    more(screen, lines.count())
}
