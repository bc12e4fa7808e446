//! Readers for the session files of other agents (Claude Code, Codex, OpenCode and more), with one entry type for all.
//!
//! - [`detect_format`] returns which agent wrote a [`TranscriptSource`].
//! - [`read_conversations`] reads the source and passes its conversations to a [`TranscriptSink`], entry by entry.
//! - [`discover_sessions`](discover::discover_sessions) lists the sessions of agents that are installed on this
//!   machine.
//!
//! Reading is streaming: memory use depends on the longest record, not on the size of the file. A damaged record is
//! reported as a [`TranscriptProblem`]; reading continues after it.
//!
//! Deliberately absent: storage, model calls, and any rule about the use of a conversation.

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

/// Reads all conversations of `source` and passes them to `sink`, in file order.
///
/// Damaged records are reported to the sink and skipped. The call blocks on file reads; run it on a blocking thread
/// inside an async program. Cost is linear in the size of the source. Some readers read the file twice, because
/// metadata may follow the messages or a later record may replace an earlier one.
///
/// # Errors
/// [`Error::Missing`], [`Error::Folder`], [`Error::Io`] or [`Error::Database`] if the source cannot be read at all;
/// [`Error::Sink`] if the sink returns an error.
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
