//! A conversation as a reader reports it, and the sink that receives the report. It holds no entries.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

use crate::detect::SessionFormat;
use crate::entry::TranscriptEntry;
use crate::error::SinkError;

/// The metadata of one conversation in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationInfo {
    /// The format it was read from.
    pub format: SessionFormat,
    /// A name that tells it from the others of its file: the file's name, a task, a start time.
    pub name: String,
    /// The id the other agent gave the session.
    pub session_id: Option<String>,
    /// Its title, if the other agent gave it one; at the beginning often not yet known.
    pub title: Option<String>,
    /// The folder it worked in.
    pub workspace: Option<String>,
    /// The first model that answered.
    pub model: Option<String>,
    /// The session it continues or was started by.
    pub parent_session: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// Digest of its first text by a person; empty when there was none among the first entries.
    pub first_text_digest: String,
}

/// A damaged or unreadable part of a file: reported and skipped, never fatal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptProblem {
    /// The file.
    pub path: PathBuf,
    /// The line it begins on, counted from 1, where lines mean something.
    pub line: Option<u64>,
    /// The problem and its consequence, as a lowercase fragment.
    pub reason: String,
}

/// Receives conversations one after the other: `begin`, its entries, `end`.
pub trait TranscriptSink {
    /// A conversation starts. Its [`source_key`](ConversationInfo::source_key) is final; title, model and parent may still
    /// be learned and are complete at [`end`](Self::end_conversation).
    ///
    /// # Errors
    /// When it cannot be taken; reading stops.
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError>;

    /// The next entry of the conversation, in file order.
    ///
    /// # Errors
    /// When it cannot be taken; reading stops.
    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError>;

    /// The conversation is complete; `conversation` holds all that was learned about it.
    ///
    /// # Errors
    /// When it cannot be completed; reading stops.
    fn end_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError>;

    /// A part of the file was damaged and skipped or repaired. May come between any two other calls.
    fn report_problem(&mut self, problem: TranscriptProblem);

    /// `bytes` of the source have been read so far. Called every few hundred kilobytes.
    fn report_progress(&mut self, bytes: u64);
}

impl ConversationInfo {
    /// Returns a conversation of which only the name is known.
    pub(crate) fn new(format: SessionFormat, name: impl Into<String>) -> Self {
        Self {
            format,
            name: name.into(),
            session_id: None,
            title: None,
            workspace: None,
            model: None,
            parent_session: None,
            started_at: None,
            first_text_digest: String::new(),
        }
    }

    /// Returns the key that a later import of the same session has too.
    ///
    /// It is the session's own id where that is unique in the world, else name (or id) and first text.
    pub fn source_key(&self) -> String {
        let format = self.format.as_str();
        match &self.session_id {
            Some(id) if self.format.session_ids_are_unique() => format!("{format}:{id}"),
            Some(id) => format!("{format}:{id}:{}", self.first_text_digest),
            None => format!("{format}:{}:{}", self.name, self.first_text_digest),
        }
    }

    /// Returns whether the key needs the first text.
    pub(crate) const fn needs_first_text(&self) -> bool {
        self.session_id.is_none() || !self.format.session_ids_are_unique()
    }

    /// Sets the session id unless one is known or `id` is a placeholder that a scrubber left.
    pub(crate) fn set_session_id(&mut self, id: Option<String>) {
        if self.session_id.is_none() {
            self.session_id = id.filter(|id| !id.is_empty() && id != "REDACTED");
        }
    }
}

/// Returns the digest that stands for a first text.
pub(crate) fn text_digest(text: &str) -> String {
    protocol::hex(&Sha256::digest(text)[..16])
}
