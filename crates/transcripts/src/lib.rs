//! Other agents' session files, read into one vocabulary.
//!
//! [`detect_format`] detects which agent wrote a [`TranscriptSource`], [`read_conversations`] passes its conversations to a [`TranscriptSink`] entry by entry, and
//! [`discover`](discover::discover_sessions) finds the sessions of agents installed on this machine. Reading is streaming: memory
//! grows with the longest record, not with the file. A damaged record is a [`TranscriptProblem`] and never the end.
//!
//! Deliberately absent: storage, models, and any rule about what to do with a conversation.

mod conversation;
mod detect;
mod digest_chain;
pub mod discover;
mod entry;
mod error;
mod event;
mod formats;
mod json;
mod sink_writer;
mod source;

pub use conversation::{ConversationInfo, TranscriptProblem, TranscriptSink};
pub use detect::{SessionFormat, detect_format};
pub use digest_chain::DigestChain;
pub use entry::{Author, EntryBody, EntryKind, EntryRole, EntryTrack, MediaReference, TranscriptEntry};
pub use error::{Error, SinkError};
pub use json::result_repair::{RepairKind, RepairRecord};
pub use sink_writer::ReadReport;
pub use source::TranscriptSource;

use crate::sink_writer::SinkWriter;

/// Reads all conversations of `source` and gives them to `sink`.
///
/// Damaged records are reported to the sink and skipped.
///
/// # Errors
/// When the source cannot be read at all, or the sink gives up.
pub fn read_conversations(
    source: &TranscriptSource,
    format: SessionFormat,
    sink: &mut dyn TranscriptSink,
) -> Result<ReadReport, Error> {
    let mut output = SinkWriter::new(sink, source.display_name().to_owned());
    let out = &mut output;
    match format {
        SessionFormat::Claude => formats::claude::read(source, out)?,
        SessionFormat::Codex => formats::codex::read(source, out)?,
        SessionFormat::OpenCode => formats::opencode::read(source, out)?,
        SessionFormat::Pi => formats::pi::read(source, out)?,
        SessionFormat::Gemini => formats::gemini::read(source, out)?,
        SessionFormat::Copilot => formats::copilot::read(source, out)?,
        SessionFormat::Aider => formats::aider::read(source, out)?,
        SessionFormat::OpenHands => formats::openhands::read(source, out)?,
        SessionFormat::SweAgent | SessionFormat::OpenAi => formats::chat::read(source, format, out)?,
        SessionFormat::LangGraph => formats::langgraph::read(source, out)?,
    }
    output.finish(source.bytes())
}
