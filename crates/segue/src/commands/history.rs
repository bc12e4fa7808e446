//! `segue history`: what was said in a thread, a page at a time, whatever was condensed since.

pub(crate) mod recall;

use agent::{EventQuery, HistoryEntry, HistoryItem};
use protocol::{Block, Category, Message, Seq, ThreadId};
use serde::Serialize;

use crate::cli::{self, Format};
use crate::commands::Context;
use crate::commands::chat::message::FILE_BLOCK;
use crate::commands::import::count;
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::screen::Screen;
use crate::terminal::show::calls::title;
use crate::terminal::show::markdown::Markdown;
use crate::terminal::text::safe::{one_line, safe};
use crate::terminal::text::wrap::{shorten, size};

/// Events that are shown of a turn whose display fell behind.
const CATCH_UP_EVENTS: usize = 200;
/// Lines of a tool's result that are shown.
const RESULT_LINES_MAX: usize = 6;

/// The page `--json` prints.
#[derive(Serialize)]
struct Page<'a> {
    thread_id: ThreadId,
    entries: &'a [HistoryEntry],
    first_seq: Option<Seq>,
    last_seq: Option<Seq>,
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::History) -> Outcome {
    let thread = context.agent.find_thread(&args.thread).await?;
    let query = page(args.after, args.before, args.limit as usize);
    let entries = context.agent.history_page(thread.thread_id, query).await?;
    let (first_seq, last_seq) =
        (entries.first().map(|entry| entry.seq), entries.last().map(|entry| entry.seq));
    if context.format == Format::Json {
        context.json(&Page { thread_id: thread.thread_id, entries: &entries, first_seq, last_seq })?;
        return Ok(Code::Done);
    }
    for entry in &entries {
        show(&context.screen, entry, usize::MAX)?;
    }
    if let Some(first) = first_seq.filter(|_| args.after.is_none())
        && !context.agent.history_page(thread.thread_id, page(None, Some(first), 1)).await?.is_empty()
    {
        let earlier = format!("Earlier: `segue history {} --before {first}`", args.thread);
        context.screen.note(context.screen.style.dim(earlier));
    }
    Ok(Code::Done)
}

/// Shows what was said in a thread after an event, the first page of it.
///
/// # Errors
/// When the journal or stdout fails.
pub(crate) async fn show_after(context: &Context, thread_id: ThreadId, seq: Seq) -> Result<(), Failure> {
    for entry in context.agent.history_page(thread_id, page(Some(seq), None, CATCH_UP_EVENTS)).await? {
        show(&context.screen, &entry, usize::MAX)?;
    }
    Ok(())
}

/// Returns a query for what people are shown of a thread.
fn page(after: Option<Seq>, before: Option<Seq>, limit: usize) -> EventQuery {
    EventQuery {
        after,
        before,
        categories: vec![Category::Message, Category::Middleware],
        limit,
        ..EventQuery::default()
    }
}

/// Shows one entry under a line that says who, where and when, and at most `lines_max` lines of its text.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn show(screen: &Screen, entry: &HistoryEntry, lines_max: usize) -> Result<(), Failure> {
    let style = screen.style;
    let at = entry.created_at.strftime("%Y-%m-%d %H:%M");
    match &entry.what {
        // Reasoning alone is not shown, so neither is a heading for it.
        HistoryItem::Message(message) if is_hidden(message) => {}
        HistoryItem::Message(message) => {
            let who = match message {
                Message::Human(_) => style.good("you"),
                Message::Ai(_) => style.bold("assistant"),
                Message::Tool(_) => "tool".to_owned(),
            };
            screen.line(format!("{who} {}", style.dim(format!("#{} {at}", entry.seq))))?;
            show_message(screen, message, lines_max)?;
        }
        HistoryItem::Boundary(boundary) => {
            let head = match boundary.kind {
                "imported_summary" => "the original agent's own summary",
                _ => "earlier messages condensed by the original agent",
            };
            screen.line(style.warn(format!("── {head} #{} {at}", entry.seq)))?;
            show_text(screen, &boundary.text, lines_max)?;
        }
    }
    screen.line("")?;
    Ok(())
}

fn is_hidden(message: &Message) -> bool {
    let hidden = |block: &Block| matches!(block, Block::Thinking { .. } | Block::Opaque { .. });
    !message.content().is_empty() && message.content().iter().all(hidden)
}

fn show_message(screen: &Screen, message: &Message, lines_max: usize) -> Result<(), Failure> {
    if let Message::Tool(result) = message {
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
    for line in lines.by_ref().take(lines_max) {
        screen.line(line)?;
    }
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
