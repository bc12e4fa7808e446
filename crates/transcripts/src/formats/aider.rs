//! Reader for aider's chat history: one Markdown file with all sessions of a project.
//!
//! A line that begins with `# aider chat started at` opens a session, `#### ` marks the user's input and `>` the output
//! of the program. All other lines are the assistant's answer. The file has no ids, and no times except session starts.

use std::io::BufReader;
use std::sync::LazyLock;

use protocol::ToolStatus;
use regex::Regex;

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{Author, EntryBody, EntryOrigin, EntryRole};
use crate::error::Error;
use crate::formats::detect_author;
use crate::json::lines::{JsonLineReader, LineReadOutcome, record_too_long_text};
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// The prefix of the first line of a session. The start time follows it, without a time zone.
pub(crate) const SESSION_START: &str = "# aider chat started at ";

/// Slash commands whose argument is a request to the model. All other commands control the program.
const PROMPT_COMMANDS: [&str; 3] = ["ask", "code", "architect"];

/// The author of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineAuthor {
    /// The user typed the line.
    User,
    /// aider, or a command that it ran, printed the line.
    Program,
    /// The model wrote the line.
    Assistant,
}

/// Consecutive lines of one author. They become one entry.
#[derive(Default)]
struct AuthorPassage {
    /// The author; `None` before the first line of a session.
    author: Option<LineAuthor>,
    /// The lines without their markers.
    text: String,
}

/// Reads a chat history, with one conversation for each session.
///
/// Text before the first session start becomes a conversation named `preamble`.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let file = BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?);
    let mut lines = JsonLineReader::new(file);
    let mut passage = AuthorPassage::default();
    let mut origin = EntryOrigin::default();
    loop {
        let bytes = match lines.next_line().map_err(|error| source.io_error(error))? {
            LineReadOutcome::End => return flush_passage(&mut passage, &origin, out),
            LineReadOutcome::TooLong { bytes } => {
                out.set_line(lines.number);
                out.report_problem(record_too_long_text(bytes));
                continue;
            }
            LineReadOutcome::Whole(bytes) => bytes,
        };
        out.set_line(lines.number);
        let text = String::from_utf8_lossy(&bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            out.report_problem("replaced bytes that are not UTF-8 by U+FFFD");
        }
        // Progress bars of captured programs use `\r` to overwrite their line. Each state is read as a line.
        for line in text.strip_suffix('\r').unwrap_or(&text).split('\r') {
            match line.strip_prefix(SESSION_START) {
                Some(started) => {
                    flush_passage(&mut passage, &origin, out)?;
                    passage = AuthorPassage::default();
                    let mut conversation = ConversationInfo::new(SessionFormat::Aider, started.trim());
                    conversation.started_at = loose::parse_time(started);
                    origin.created_at = conversation.started_at;
                    out.open_conversation(conversation)?;
                }
                None => add_line(line, &mut passage, &origin, out)?,
            }
        }
        drop(text);
        lines.recycle_buffer(bytes);
        out.report_progress(lines.bytes);
    }
}

/// Adds a line to the passage, or starts the next one with it.
fn add_line(
    line: &str,
    passage: &mut AuthorPassage,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let (author, text) = if let Some(typed) = line.strip_prefix("#### ") {
        (LineAuthor::User, typed.trim_end())
    } else if let Some(printed) = line.strip_prefix('>') {
        (LineAuthor::Program, printed.trim())
    } else {
        (LineAuthor::Assistant, line)
    };
    let is_blank = author == LineAuthor::Assistant && line.trim().is_empty();
    // A blank line between two inputs or outputs does not begin an answer.
    if is_blank && matches!(passage.author, Some(LineAuthor::User | LineAuthor::Program)) {
        return Ok(());
    }
    if passage.author == Some(author) && passage.text.len() < RECORD_BYTES_MAX {
        passage.text.push('\n');
    } else {
        flush_passage(passage, origin, out)?;
        passage.author = Some(author);
    }
    passage.text.push_str(text);
    Ok(())
}

/// Writes the passage as an entry, unless it is empty, and clears it.
fn flush_passage(
    passage: &mut AuthorPassage,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let AuthorPassage { author, text } = std::mem::take(passage);
    let text = text.trim();
    let (Some(author), false) = (author, text.is_empty()) else { return Ok(()) };
    if out.conversation().is_none() {
        out.open_conversation(ConversationInfo::new(SessionFormat::Aider, "preamble"))?;
    }
    let body = match author {
        LineAuthor::User if is_command(text) => {
            EntryBody::Note { role: EntryRole::User, text: text.to_owned() }
        }
        LineAuthor::User => {
            EntryBody::Text { author: detect_author(text), text: text.to_owned(), media: Vec::new() }
        }
        LineAuthor::Assistant => {
            EntryBody::Text { author: Author::Assistant, text: text.to_owned(), media: Vec::new() }
        }
        LineAuthor::Program => EntryBody::ToolResult {
            call_id: None,
            tool: None,
            text: text.to_owned(),
            media: Vec::new(),
            status: output_status(text),
        },
    };
    out.push_entry(origin.build_entry(body))
}

/// Returns whether an input is a command that controls the program, such as `/add file`.
fn is_command(text: &str) -> bool {
    let Some(command) = text.strip_prefix('/') else { return false };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let name = command.split(|c: char| !is_word(c) && c != '-').next().unwrap_or_default();
    name.starts_with(is_word) && !PROMPT_COMMANDS.contains(&name)
}

/// Returns the status of a program output. The file has no exit codes, so words such as `error` decide.
fn output_status(text: &str) -> ToolStatus {
    static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(error|failed|traceback)\b").expect("the pattern is fixed and valid")
    });
    if FAILURE.is_match(text) { ToolStatus::Error } else { ToolStatus::Success }
}
