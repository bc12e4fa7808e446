//! The metadata of a conversation, and the sink trait through which readers report conversations. Entries are defined
//! in
//! [`crate::entry`].

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

use crate::detect::SessionFormat;
use crate::entry::TranscriptEntry;
use crate::error::SinkError;

/// The metadata of one conversation in a file.
///
/// A reader fills in fields as it finds them. All are final when [`TranscriptSink::end_conversation`] is called.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationInfo {
    /// The format of the source.
    pub format: SessionFormat,
    /// A name that is unique among the conversations of one file: the file's name, a benchmark task or a start time.
    pub name: String,
    /// The id that the other agent gave the session.
    pub session_id: Option<String>,
    /// The title that the other agent gave the session. Many formats write it only at the end of the file.
    pub title: Option<String>,
    /// The working folder of the session.
    pub workspace: Option<String>,
    /// The name of the first model that answered.
    pub model: Option<String>,
    /// The id of the session that this one continues, or of the session that started this one as a sub-agent.
    pub parent_session: Option<String>,
    /// The start time of the session, else the time of its first entry.
    pub started_at: Option<Timestamp>,
    /// The digest of the first text that the user wrote, in lowercase hex. Empty if the buffered first entries contain
    /// no such text.
    pub first_text_digest: String,
}

/// A damaged or unreadable part of a file. It is reported, then skipped or repaired; reading continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptProblem {
    /// The file or folder, as shown to the user.
    pub path: PathBuf,
    /// The line on which the damaged part begins, counted from 1; `None` for databases and folders.
    pub line: Option<u64>,
    /// The problem and its consequence, as a lowercase fragment such as `skipped a half-written record: …`.
    pub reason: String,
}

/// A receiver of conversations.
///
/// For each conversation the reader calls [`begin_conversation`](Self::begin_conversation), then
/// [`push_entry`](Self::push_entry) for each entry, then [`end_conversation`](Self::end_conversation). Conversations do
/// not overlap. A conversation without entries is not reported.
pub trait TranscriptSink {
    /// Starts a conversation. Its [`source_key`](ConversationInfo::source_key) is final. Title, model and parent may
    /// still change; they are final in [`end_conversation`](Self::end_conversation).
    ///
    /// # Errors
    /// Any error of the sink. Reading stops and returns it as [`Error::Sink`](crate::Error::Sink).
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError>;

    /// Receives the next entry of the conversation, in file order.
    ///
    /// # Errors
    /// Any error of the sink. Reading stops and returns it as [`Error::Sink`](crate::Error::Sink).
    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError>;

    /// Ends the conversation. All fields of `conversation` are final.
    ///
    /// # Errors
    /// Any error of the sink. Reading stops and returns it as [`Error::Sink`](crate::Error::Sink).
    fn end_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError>;

    /// Receives a damaged part of the file, which was skipped or repaired. The reader may call this between any two
    /// other calls.
    fn report_problem(&mut self, problem: TranscriptProblem);

    /// Receives the number of bytes of the source that have been read so far. The reader calls this about every 256 KiB
    /// and once at the end.
    fn report_progress(&mut self, bytes: u64);
}

impl ConversationInfo {
    /// Returns the metadata of a conversation of which only format and name are known.
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

    /// Returns the key that identifies this session in a later import of the same or a longer file.
    ///
    /// The key is `format:session_id` where the format's session ids are globally unique. Elsewhere the digest of the
    /// first text is appended, and the name replaces a missing id: `format:name:digest`.
    pub fn source_key(&self) -> String {
        let format = self.format.as_str();
        match &self.session_id {
            Some(id) if self.format.session_ids_are_unique() => format!("{format}:{id}"),
            Some(id) => format!("{format}:{id}:{}", self.first_text_digest),
            None => format!("{format}:{}:{}", self.name, self.first_text_digest),
        }
    }

    /// Returns whether [`source_key`](Self::source_key) depends on the digest of the first text.
    pub(crate) const fn needs_first_text(&self) -> bool {
        self.session_id.is_none() || !self.format.session_ids_are_unique()
    }

    /// Sets the session id, unless an id is set already or `id` is empty. `REDACTED` counts as empty: tools that remove
    /// secrets from logs write it in place of ids.
    pub(crate) fn set_session_id(&mut self, id: Option<String>) {
        if self.session_id.is_none() {
            self.session_id = id.filter(|id| !id.is_empty() && id != "REDACTED");
        }
    }
}

/// Returns the first 16 bytes of the SHA-256 of `text` as 32 lowercase hex digits.
pub(crate) fn text_digest(text: &str) -> String {
    protocol::hex(&Sha256::digest(text)[..16])
}
