//! The reading side of an import: a source is read on a thread of its own and told in batches. It stores nothing and
//! knows no thread.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::NewEvent;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transcripts::{Chain, Conversation, Entry, Problem, Sink, SinkError, Source};

use crate::Result;

/// Events of one batch, which is one transaction; a crash loses at most the batch under way.
const BATCH_EVENTS_MAX: usize = 2_048;
/// Bytes of content of one batch.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Batches that may wait between the reader and the journal.
const BATCHES_WAITING_MAX: usize = 4;

/// An entry of a session as an event, stored under the digest of the session up to it.
pub(super) struct Keyed {
    /// The digest; also the event's key.
    pub(super) chain: String,
    /// The event.
    pub(super) event: NewEvent,
}

/// What the reader tells the importer.
pub(super) enum Told {
    /// A conversation starts.
    Begin(Box<Conversation>),
    /// Its next entries, never none.
    Batch(Vec<Keyed>),
    /// It is complete, and this is all that was learned about it.
    End(Box<Conversation>),
    /// A part of the file was damaged.
    Problem(Problem),
    /// So many bytes were read.
    Progress(u64),
}

/// One reading of a source.
pub(super) struct Reader {
    told: mpsc::Receiver<Told>,
    reading: JoinHandle<std::result::Result<transcripts::Report, transcripts::Error>>,
}

impl Reader {
    /// Starts to read `source`, until its end or until `cancel`.
    pub(super) fn start(source: Arc<Source>, cancel: CancellationToken) -> Self {
        let (sender, told) = mpsc::channel(BATCHES_WAITING_MAX);
        let reading = tokio::task::spawn_blocking(move || {
            let format = transcripts::detect(&source)?;
            let mut teller = Teller {
                sender,
                cancel,
                format,
                chain: Chain::default(),
                batch: Vec::new(),
                batch_bytes: 0,
                fallback: written_at(&source),
            };
            transcripts::read(&source, format, &mut teller)
        });
        Self { told, reading }
    }

    /// Returns what comes next; `None` when the reading ended.
    pub(super) async fn next(&mut self) -> Option<Told> {
        self.told.recv().await
    }

    /// Returns how the reading ended.
    ///
    /// # Errors
    /// When the source could not be read to its end.
    pub(super) async fn finish(self) -> Result<()> {
        self.reading.await??;
        Ok(())
    }
}

/// Returns when the file was last written: the time of entries that have none.
pub(super) fn written_at(source: &Source) -> Timestamp {
    let modified = source.path().metadata().and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_else(Timestamp::now)
}

/// The sink that runs on the reading thread.
struct Teller {
    sender: mpsc::Sender<Told>,
    cancel: CancellationToken,
    format: transcripts::Format,
    chain: Chain,
    batch: Vec<Keyed>,
    batch_bytes: usize,
    fallback: Timestamp,
}

impl Teller {
    fn tell(&self, told: Told) -> std::result::Result<(), SinkError> {
        if self.cancel.is_cancelled() {
            return Err("it was stopped".into());
        }
        self.sender.blocking_send(told).map_err(|_| "the importer stopped".into())
    }

    fn flush(&mut self) -> std::result::Result<(), SinkError> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() { Ok(()) } else { self.tell(Told::Batch(batch)) }
    }
}

impl Sink for Teller {
    fn begin(&mut self, conversation: &Conversation) -> std::result::Result<(), SinkError> {
        self.chain = Chain::default();
        self.format = conversation.format;
        self.fallback = conversation.started_at.unwrap_or(self.fallback);
        self.tell(Told::Begin(Box::new(conversation.clone())))
    }

    fn entry(&mut self, entry: Entry) -> std::result::Result<(), SinkError> {
        let chain = self.chain.push(&entry);
        let event = entry.into_event(self.format, self.fallback)?;
        self.fallback = event.created_at;
        self.batch_bytes += event.content.get().len();
        self.batch.push(Keyed { event: event.keyed(chain.clone()), chain });
        if self.batch.len() >= BATCH_EVENTS_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn end(&mut self, conversation: &Conversation) -> std::result::Result<(), SinkError> {
        self.flush()?;
        self.tell(Told::End(Box::new(conversation.clone())))
    }

    fn problem(&mut self, problem: Problem) {
        // A cancelled import has nobody to tell.
        let _ = self.tell(Told::Problem(problem));
    }

    fn progress(&mut self, bytes: u64) {
        let _ = self.tell(Told::Progress(bytes));
    }
}
