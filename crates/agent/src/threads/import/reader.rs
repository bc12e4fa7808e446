//! The reading side of an import: a blocking task that reads a session file and sends its entries in batches. It
//! does not access the journal; the importer stores the entries.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::{Category, NewEvent};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transcripts::{
    ConversationInfo, DigestChain, SinkError, TranscriptEntry, TranscriptProblem, TranscriptSink,
    TranscriptSource,
};

use crate::Result;

/// The most events of one batch. A batch is stored in one transaction, so a crash loses at most the current
/// batch.
const BATCH_EVENTS_MAX: usize = 2_048;
/// The most bytes of content in one batch.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// The most batches in the channel between the reader and the importer.
const QUEUED_BATCHES_MAX: usize = 4;

/// An entry of a session, converted to an event. The key of the event is the digest of all entries of the session up
/// to and including this one.
pub(super) struct KeyedEvent {
    /// The digest, which is also the key of the event.
    pub(super) chain: String,
    /// The event.
    pub(super) event: NewEvent,
}

impl KeyedEvent {
    /// Returns true if the event is a message.
    pub(super) fn is_message(&self) -> bool {
        self.event.event_type.category() == Category::Message
    }
}

/// The next entries of a conversation.
pub(super) struct EntryBatch {
    /// The entries; never empty.
    pub(super) entries: Vec<KeyedEvent>,
    /// The position of the entries in the conversation.
    pub(super) position: BatchPosition,
}

/// The position of a batch in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchPosition {
    /// Further entries follow.
    Inner,
    /// It ends the conversation.
    Last,
}

/// A message from the reader to the importer.
pub(super) enum ReaderEvent {
    /// A conversation begins.
    Begin(Box<ConversationInfo>),
    /// The next entries of the conversation.
    Batch(EntryBatch),
    /// The conversation is complete. The info is updated with what the entries contained.
    End(Box<ConversationInfo>),
    /// A part of the file is damaged.
    Problem(TranscriptProblem),
    /// The number of bytes read so far.
    Progress(u64),
}

/// A source that is being read on a blocking thread.
pub(super) struct SourceReader {
    /// The channel from the blocking task.
    events: mpsc::Receiver<ReaderEvent>,
    /// The blocking task that reads.
    read_task: JoinHandle<std::result::Result<transcripts::ReadReport, transcripts::Error>>,
}

impl SourceReader {
    /// Starts to read `source` on a blocking thread. The task stops at the end of the source, when `cancel` is
    /// cancelled, or when this value is dropped.
    pub(super) fn start(source: Arc<TranscriptSource>, cancel: CancellationToken) -> Self {
        let (sender, events) = mpsc::channel(QUEUED_BATCHES_MAX);
        let read_task = tokio::task::spawn_blocking(move || {
            let format = transcripts::detect_format(&source)?;
            let mut sink = ReaderSink {
                sender,
                cancel,
                format,
                chain: DigestChain::default(),
                batch: Vec::new(),
                batch_bytes: 0,
                fallback_time: modified_time(&source),
            };
            transcripts::read_conversations(&source, format, &mut sink)
        });
        Self { events, read_task }
    }

    /// Returns the next message; `None` when the task has stopped. Cancel-safe, because it only receives from a
    /// channel.
    pub(super) async fn next_event(&mut self) -> Option<ReaderEvent> {
        self.events.recv().await
    }

    /// Waits until the task has stopped and returns its result.
    ///
    /// # Errors
    /// Fails if the source could not be read to its end.
    pub(super) async fn finish(self) -> Result<()> {
        self.read_task.await??;
        Ok(())
    }
}

/// Returns the time of the last write to the file, which is used for entries without a time. If it is
/// unknown, returns the current time.
pub(super) fn modified_time(source: &TranscriptSource) -> Timestamp {
    let modified = source.path().metadata().and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_else(Timestamp::now)
}

/// The sink that runs on the reading thread and sends events to the importer.
struct ReaderSink {
    /// The channel to the importer.
    sender: mpsc::Sender<ReaderEvent>,
    /// Stops the reading at the next event.
    cancel: CancellationToken,
    /// The format of the current conversation.
    format: transcripts::SessionFormat,
    /// The digest of the current conversation so far.
    chain: DigestChain,
    /// Entries that are not sent yet.
    batch: Vec<KeyedEvent>,
    /// The bytes of content in `batch`.
    batch_bytes: usize,
    /// The time for entries that have none: that of the previous entry, or of the conversation or file.
    fallback_time: Timestamp,
}

impl ReaderSink {
    /// Sends an event; blocks while the channel is full. Fails if the import was cancelled or dropped.
    fn send_event(&self, event: ReaderEvent) -> std::result::Result<(), SinkError> {
        if self.cancel.is_cancelled() {
            return Err("it was stopped".into());
        }
        self.sender.blocking_send(event).map_err(|_| "the importer stopped".into())
    }

    /// Sends the current batch, if it is not empty.
    fn flush(&mut self, position: BatchPosition) -> std::result::Result<(), SinkError> {
        self.batch_bytes = 0;
        let entries = std::mem::take(&mut self.batch);
        if entries.is_empty() {
            return Ok(());
        }
        self.send_event(ReaderEvent::Batch(EntryBatch { entries, position }))
    }
}

impl TranscriptSink for ReaderSink {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> std::result::Result<(), SinkError> {
        self.chain = DigestChain::default();
        self.format = conversation.format;
        self.fallback_time = conversation.started_at.unwrap_or(self.fallback_time);
        self.send_event(ReaderEvent::Begin(Box::new(conversation.clone())))
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> std::result::Result<(), SinkError> {
        // A full batch is sent with the entry after it, so that the last batch of a conversation is known as such.
        if self.batch.len() >= BATCH_EVENTS_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
            self.flush(BatchPosition::Inner)?;
        }
        let chain = self.chain.push(&entry);
        let event = entry.into_event(self.format, self.fallback_time)?;
        self.fallback_time = event.created_at;
        self.batch_bytes += event.content.get().len();
        self.batch.push(KeyedEvent { event: event.with_key(chain.clone()), chain });
        Ok(())
    }

    fn end_conversation(&mut self, conversation: &ConversationInfo) -> std::result::Result<(), SinkError> {
        self.flush(BatchPosition::Last)?;
        self.send_event(ReaderEvent::End(Box::new(conversation.clone())))
    }

    fn report_problem(&mut self, problem: TranscriptProblem) {
        // The send fails only if the import was cancelled or dropped. The report is not needed in that case.
        let _ = self.send_event(ReaderEvent::Problem(problem));
    }

    fn report_progress(&mut self, bytes: u64) {
        let _ = self.send_event(ReaderEvent::Progress(bytes));
    }
}
