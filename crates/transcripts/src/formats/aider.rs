//! aider's chat history, a Markdown file with all sessions of a project. It has no ids and no times within a session.

use std::io::BufReader;
use std::sync::LazyLock;

use protocol::ToolStatus;
use regex::Regex;

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Author, Body, Origin, Role};
use crate::error::Error;
use crate::formats::user_or_harness;
use crate::json::lines::{Line, Lines, too_long};
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX, loose};
use crate::output::Output;
use crate::source::Source;

/// What the first line of a session starts with; the rest of it is the time.
pub(crate) const SESSION_START: &str = "# aider chat started at ";

/// Commands whose argument is a request and not an order to the program.
const ASKING_COMMANDS: [&str; 3] = ["ask", "code", "architect"];

/// Who wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    User,
    Program,
    Assistant,
}

/// Lines of one voice that belong together.
#[derive(Default)]
struct Passage {
    voice: Option<Voice>,
    text: String,
}

/// Reads a history.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    let file = BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?);
    let mut lines = Lines::new(file);
    let mut passage = Passage::default();
    let mut origin = Origin::default();
    loop {
        let bytes = match lines.next().map_err(|error| source.io(error))? {
            Line::End => return flush(&mut passage, &origin, out),
            Line::TooLong { bytes } => {
                out.at_line(lines.number);
                out.problem(too_long(bytes));
                continue;
            }
            Line::Whole(bytes) => bytes,
        };
        out.at_line(lines.number);
        let text = String::from_utf8_lossy(&bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            out.problem("replaced bytes that are not UTF-8 by U+FFFD");
        }
        // Progress bars of captured programs return to the start of the line: each state is a line.
        for line in text.strip_suffix('\r').unwrap_or(&text).split('\r') {
            match line.strip_prefix(SESSION_START) {
                Some(started) => {
                    flush(&mut passage, &origin, out)?;
                    passage = Passage::default();
                    let mut conversation = Conversation::new(Format::Aider, started.trim());
                    conversation.started_at = loose::parse_time(started);
                    origin.at = conversation.started_at;
                    out.open(conversation)?;
                }
                None => add(line, &mut passage, &origin, out)?,
            }
        }
        drop(text);
        lines.give_back(bytes);
        out.progress(lines.bytes);
    }
}

/// Adds a line to the passage, or starts the next one with it.
fn add(line: &str, passage: &mut Passage, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let (voice, text) = if let Some(typed) = line.strip_prefix("#### ") {
        (Voice::User, typed.trim_end())
    } else if let Some(printed) = line.strip_prefix('>') {
        (Voice::Program, printed.trim())
    } else {
        (Voice::Assistant, line)
    };
    let gap = voice == Voice::Assistant && line.trim().is_empty();
    if gap && matches!(passage.voice, Some(Voice::User | Voice::Program)) {
        return Ok(());
    }
    if passage.voice == Some(voice) && passage.text.len() < RECORD_BYTES_MAX {
        passage.text.push('\n');
    } else {
        flush(passage, origin, out)?;
        passage.voice = Some(voice);
    }
    passage.text.push_str(text);
    Ok(())
}

/// Turns the passage into an entry, if it holds anything.
fn flush(passage: &mut Passage, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let Passage { voice, text } = std::mem::take(passage);
    let text = text.trim();
    let (Some(voice), false) = (voice, text.is_empty()) else { return Ok(()) };
    if out.conversation().is_none() {
        out.open(Conversation::new(Format::Aider, "preamble"))?;
    }
    let body = match voice {
        Voice::User if is_command(text) => Body::Note { role: Role::User, text: text.to_owned() },
        Voice::User => Body::Text { by: user_or_harness(text), text: text.to_owned(), media: Vec::new() },
        Voice::Assistant => Body::Text { by: Author::Assistant, text: text.to_owned(), media: Vec::new() },
        Voice::Program => Body::ToolResult {
            call_id: None,
            tool: None,
            text: text.to_owned(),
            media: Vec::new(),
            status: status(text),
        },
    };
    out.push(origin.entry(body))
}

/// Returns whether an input is an order to the program, such as `/add file`.
fn is_command(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('/') else { return false };
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let name = rest.split(|c: char| !word(c) && c != '-').next().unwrap_or_default();
    name.starts_with(word) && !ASKING_COMMANDS.contains(&name)
}

/// Returns whether the program seems to report a failure; it has no exit codes.
fn status(text: &str) -> ToolStatus {
    static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(error|failed|traceback)\b").expect("the pattern is fixed and valid")
    });
    if FAILURE.is_match(text) { ToolStatus::Error } else { ToolStatus::Success }
}
