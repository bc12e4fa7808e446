//! Prints one history entry: its speaker, number, time and content. A marker is printed as a card. The caller selects
//! the entries.

use agent::{HistoryEntry, HistoryItem, ToolCallHeader};
use protocol::{ContentBlock, EventType, Message, Rating, RunFeedback, RunId, Seq};
use terminal::marker::{CardFold, archive_card, compaction_card, revert_notice};
use terminal::tool_calls::title;
use terminal::{
    MarkdownRenderer, Screen, format_bytes, format_minute, sanitize, sanitize_line, shorten, wrap,
};

use super::markers::CompactionMarkers;
use crate::commands::DURABLE_ID_CHARS;
use crate::commands::chat::message_draft::FILE_BLOCK;
use crate::commands::import::format_count;
use crate::exit::CliFailure;

/// The most lines shown of a tool's result.
const RESULT_LINES_MAX: usize = 6;

/// The note below an entry that a rewind has hidden.
const SUPERSEDED_NOTE: &str = "hidden: the thread was rewound to before it";

/// The label of the event that was requested with `--around`.
const REQUESTED_LABEL: &str = " · requested";

/// The way in which history entries are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryDisplay<'a> {
    /// The most lines shown of each text; more lines are counted.
    pub(crate) lines_max: usize,
    /// Selects whether markers are opened. If they are, each message names the marker that covers it.
    pub(crate) fold: CardFold,
    /// The markers around the entries.
    pub(crate) markers: &'a CompactionMarkers,
    /// The event that was requested with `--around`.
    pub(crate) requested_seq: Option<Seq>,
}

/// Prints one entry with a heading of its speaker, number and time.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn show_entry(
    screen: &Screen,
    entry: &HistoryEntry,
    display: EntryDisplay<'_>,
) -> Result<(), CliFailure> {
    let style = screen.style;
    let time = format_minute(entry.created_at);
    match &entry.item {
        // A message that contains only reasoning is not shown, so it gets no heading either.
        HistoryItem::Message(message) if is_hidden(message) => {}
        HistoryItem::Message(message) => {
            let speaker = match message {
                Message::Human(_) => style.good("you"),
                Message::Ai(_) => style.bold("assistant"),
                Message::Tool(_) => "tool".to_owned(),
            };
            let position = format!("#{} {time}{}", entry.seq, compaction_suffix(entry, display));
            let position = if entry.is_superseded { format!("{position} · hidden") } else { position };
            let is_requested = display.requested_seq == Some(entry.seq);
            let requested = if is_requested { style.bold(REQUESTED_LABEL) } else { String::new() };
            screen.print_line(format!("{speaker} {}{requested}", style.dim(position)))?;
            show_message(screen, entry, message, display.lines_max)?;
        }
        HistoryItem::Boundary(boundary) => {
            let heading = match boundary.kind {
                "imported_summary" => "the original agent's own summary",
                _ => "earlier messages, compacted by the original agent",
            };
            screen.print_line(style.warn(format!("── {heading} #{} {time}", entry.seq)))?;
            show_text(screen, &boundary.text, display.lines_max)?;
        }
        HistoryItem::Marker(marker) => {
            let status = display.markers.status_of(entry.seq);
            screen.print_lines(compaction_card(
                screen,
                marker,
                Some(entry.created_at),
                status,
                display.fold,
            ))?;
        }
        HistoryItem::Undone(undone) => screen.print_line(revert_notice(screen, undone.marker_seq))?,
        HistoryItem::Failed(failed) => {
            let text = format!("── nothing was compacted #{} {time}: {}", entry.seq, failed.reason);
            screen.print_line(style.dim(wrap(&text, screen.text_columns(), "", "   ")))?;
        }
        HistoryItem::Archived(marker) => {
            screen.print_lines(archive_card(screen, marker, entry.seq, entry.created_at, display.fold))?;
        }
        HistoryItem::Audit(audit) => {
            let text = format!("── {} #{} {time}", sanitize_line(&audit.text), entry.seq);
            let line = wrap(&text, screen.text_columns(), "", "   ");
            let is_failure = matches!(audit.event_type, EventType::RunFailed | EventType::HandoffFailed);
            screen.print_line(if is_failure { style.bad(line) } else { style.dim(line) })?;
        }
        HistoryItem::Damaged(damaged) => {
            let text = format!("── {}; `segue doctor` lists all damage", damaged.text);
            screen.print_line(style.bad(wrap(&text, screen.text_columns(), "", "   ")))?;
        }
    }
    if entry.is_superseded && entry.message().is_none() {
        screen.print_line(style.dim(wrap(SUPERSEDED_NOTE, screen.text_columns(), "   ", "   ")))?;
    }
    if let (Some(feedback), Some(run_id)) = (&entry.feedback, entry.run_id) {
        let text = feedback_line(screen, run_id, feedback.as_ref());
        screen.print_line(style.dim(wrap(&text, screen.text_columns(), "", "  ")))?;
    }
    screen.print_line("")?;
    Ok(())
}

/// Returns the numbers of the markers that cover an entry, if markers are opened: the marker of a compaction, and the
/// marker of a memory summary.
fn compaction_suffix(entry: &HistoryEntry, display: EntryDisplay<'_>) -> String {
    if display.fold == CardFold::Closed || entry.is_superseded {
        return String::new();
    }
    let compacted = display.markers.compacted_in(entry.seq).map(|seq| format!(" · compacted in #{seq}"));
    let archived = display.markers.archived_in(entry.seq).map(|seq| format!(" · summarized in #{seq}"));
    [compacted, archived].into_iter().flatten().collect()
}

/// Returns the id of the run that ended with an answer, and its rating.
/// Screen readers get words in place of the emoji.
fn feedback_line(screen: &Screen, run_id: RunId, feedback: Option<&RunFeedback>) -> String {
    let run_id = run_id.to_string();
    let run = format!("run {}", &run_id[..DURABLE_ID_CHARS]);
    let Some(feedback) = feedback else { return run };
    let thumb = match (feedback.rating, screen.is_plain()) {
        (Rating::Up, true) => "rated up",
        (Rating::Down, true) => "rated down",
        (Rating::Up, false) => "👍",
        (Rating::Down, false) => "👎",
    };
    let comment = feedback.comment.as_deref().map(sanitize_line).filter(|comment| !comment.is_empty());
    let comment = comment.map(|comment| format!(" “{comment}”")).unwrap_or_default();
    format!("{run} · {thumb}{comment}")
}

/// Returns whether a message contains only reasoning and opaque blocks, which are not shown.
fn is_hidden(message: &Message) -> bool {
    let hidden =
        |block: &ContentBlock| matches!(block, ContentBlock::Thinking { .. } | ContentBlock::Opaque { .. });
    !message.content().is_empty() && message.content().iter().all(hidden)
}

/// Prints the content of a message: text as Markdown; tool calls, attachments and results on one or a few lines.
/// A text block that begins with [`FILE_BLOCK`] is an attached file, of which only the label is printed. Reasoning is
/// not printed.
///
/// # Errors
/// Fails if stdout cannot be written.
fn show_message(
    screen: &Screen,
    entry: &HistoryEntry,
    message: &Message,
    lines_max: usize,
) -> Result<(), CliFailure> {
    if let Message::Tool(result) = message {
        if let Some(ToolCallHeader { seq, name, args, .. }) = &entry.call {
            let line = format!("→ {} (#{seq})", title(name, args));
            screen.print_line(screen.style.dim(shorten(&line, screen.columns)))?;
        }
        let text = protocol::message::joined_text(&result.content);
        return show_result(screen, &text);
    }
    for block in message.content() {
        match block {
            ContentBlock::Text { text } if text.starts_with(FILE_BLOCK) => {
                let first_line = text.lines().next().unwrap_or_default();
                let label = sanitize_line(first_line.trim_matches(['<', '>']));
                screen.print_line(screen.style.dim(format!("[{label}]")))?;
            }
            ContentBlock::Text { text } => show_text(screen, text, lines_max)?,
            ContentBlock::ToolCall { name, args, .. } => {
                let line = title(name, args);
                screen.print_line(
                    screen.style.dim(format!("→ {}", shorten(&line, screen.columns.saturating_sub(2)))),
                )?;
            }
            ContentBlock::Media { media_type, bytes, .. } => {
                let size = bytes.map(|bytes| format!(" {}", format_bytes(bytes))).unwrap_or_default();
                screen.print_line(screen.style.dim(format!("[{}{size}]", sanitize_line(media_type))))?;
            }
            ContentBlock::Thinking { .. } | ContentBlock::Opaque { .. } => {}
        }
    }
    Ok(())
}

/// Prints up to `lines_max` lines of a text as Markdown.
///
/// # Errors
/// Fails if stdout cannot be written.
fn show_text(screen: &Screen, text: &str, lines_max: usize) -> Result<(), CliFailure> {
    let mut markdown = MarkdownRenderer::new(screen);
    let rendered = markdown.push(text) + &markdown.finish();
    let mut lines = rendered.lines();
    screen.print_lines(lines.by_ref().take(lines_max))?;
    print_omitted_lines(screen, lines.count())
}

/// Prints the number of lines that are not shown, if it is not 0.
fn print_omitted_lines(screen: &Screen, lines: usize) -> Result<(), CliFailure> {
    match lines {
        0 => Ok(()),
        lines => {
            Ok(screen
                .print_line(screen.style.dim(format!("… {} more", format_count(lines as u64, "line"))))?)
        }
    }
}

/// Prints up to [`RESULT_LINES_MAX`] lines of a tool's result.
fn show_result(screen: &Screen, text: &str) -> Result<(), CliFailure> {
    let text = sanitize(text);
    let mut lines = text.lines();
    for line in lines.by_ref().take(RESULT_LINES_MAX) {
        screen.print_line(screen.style.dim(shorten(line, screen.columns)))?;
    }
    print_omitted_lines(screen, lines.count())
}
