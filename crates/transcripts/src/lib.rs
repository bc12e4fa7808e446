//! Other agents' session files, read into one vocabulary.
//!
//! [`detect`] says which agent wrote a [`Source`], [`read`] gives its conversations to a [`Sink`] entry by entry, and
//! [`discover`](discover::discover) finds the sessions of agents installed on this machine. Reading is streaming: memory
//! grows with the longest record, not with the file. A damaged record is a [`Problem`] and never the end.
//!
//! Deliberately absent: storage, models, and any rule about what to do with a conversation.

mod chain;
mod conversation;
mod detect;
pub mod discover;
mod entry;
mod error;
mod event;
mod formats;
mod json;
mod output;
mod source;

pub use chain::Chain;
pub use conversation::{Conversation, Problem, Sink};
pub use detect::{Format, detect};
pub use entry::{Author, Body, Entry, EntryKind, Media, Role, Track};
pub use error::{Error, SinkError};
pub use json::legacy::{Repair, Repaired};
pub use output::Report;
pub use source::Source;

use crate::output::Output;

/// Reads all conversations of `source` and gives them to `sink`.
///
/// Damaged records are reported to the sink and skipped.
///
/// # Errors
/// When the source cannot be read at all, or the sink gives up.
pub fn read(source: &Source, format: Format, sink: &mut dyn Sink) -> Result<Report, Error> {
    let mut output = Output::new(sink, source.shown_as().to_owned());
    let out = &mut output;
    match format {
        Format::Claude => formats::claude::read(source, out)?,
        Format::Codex => formats::codex::read(source, out)?,
        Format::OpenCode => formats::opencode::read(source, out)?,
        Format::Pi => formats::pi::read(source, out)?,
        Format::Gemini => formats::gemini::read(source, out)?,
        Format::Copilot => formats::copilot::read(source, out)?,
        Format::Aider => formats::aider::read(source, out)?,
        Format::OpenHands => formats::openhands::read(source, out)?,
        Format::SweAgent | Format::OpenAi => formats::chat::read(source, format, out)?,
        Format::LangGraph => formats::langgraph::read(source, out)?,
    }
    output.finish(source.bytes())
}
