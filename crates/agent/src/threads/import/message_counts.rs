//! The number of messages of each conversation of a source, which the mark of an incomplete import names. The source is
//! read once more for it, and only if a conversation does not fit into one batch.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use transcripts::{
    ConversationInfo, SinkError, TranscriptEntry, TranscriptProblem, TranscriptSink, TranscriptSource,
};

use super::source_import::session_key;

/// The message counts of the conversations of one source.
pub(super) struct MessageCounts {
    /// The source to read.
    source: Arc<TranscriptSource>,
    /// Stops the reading.
    cancel: CancellationToken,
    /// The counts by the key of the session; `None` until the first request.
    by_session: Option<HashMap<String, u64>>,
}

impl MessageCounts {
    /// Creates the counts of a source. Reads nothing yet.
    pub(super) const fn new(source: Arc<TranscriptSource>, cancel: CancellationToken) -> Self {
        Self { source, cancel, by_session: None }
    }

    /// Returns the number of messages of a session. The first call reads the source. Returns `None` if the source
    /// cannot be read to its end; the import reports the reason when it gets there.
    pub(super) async fn total(&mut self, session: &str) -> Option<u64> {
        if self.by_session.is_none() {
            let (source, cancel) = (Arc::clone(&self.source), self.cancel.clone());
            let counted = tokio::task::spawn_blocking(move || count_messages(&source, cancel)).await;
            self.by_session = Some(counted.ok().and_then(Result::ok).unwrap_or_default());
        }
        self.by_session.as_ref()?.get(session).copied()
    }
}

/// Returns the number of messages of each conversation of the source, by the key of its session.
fn count_messages(
    source: &TranscriptSource,
    cancel: CancellationToken,
) -> Result<HashMap<String, u64>, transcripts::Error> {
    let format = transcripts::detect_format(source)?;
    let mut sink = CountingSink {
        cancel,
        key_counts: HashMap::new(),
        session: String::new(),
        messages: 0,
        by_session: HashMap::new(),
    };
    transcripts::read_conversations(source, format, &mut sink)?;
    Ok(sink.by_session)
}

/// The sink that counts the messages of each conversation.
struct CountingSink {
    /// Stops the reading at the next entry.
    cancel: CancellationToken,
    /// The number of conversations by the key without an ordinal.
    key_counts: HashMap<String, u64>,
    /// The key of the current session.
    session: String,
    /// The number of messages of the current session so far.
    messages: u64,
    /// The counts of the sessions that were read to their end.
    by_session: HashMap<String, u64>,
}

impl TranscriptSink for CountingSink {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.session = session_key(conversation, &mut self.key_counts);
        self.messages = 0;
        Ok(())
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        if self.cancel.is_cancelled() {
            return Err("it was stopped".into());
        }
        self.messages += u64::from(entry.is_message());
        Ok(())
    }

    fn end_conversation(&mut self, _conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.by_session.insert(std::mem::take(&mut self.session), self.messages);
        Ok(())
    }

    // The import itself reports damaged parts and its progress.
    fn report_problem(&mut self, _problem: TranscriptProblem) {}

    fn report_progress(&mut self, _bytes: u64) {}
}
