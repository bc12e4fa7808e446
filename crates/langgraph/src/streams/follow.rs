//! The parts that the streams of all wire formats share: [`RunFollower`] passes the frames of one run through its
//! translator into a writer, and [`ThreadRuns`] returns the runs of a thread one after another.
//!
//! The handling of lost frames and of the end of a run differs between the formats, and is in
//! [`crate::modes::follow`] and [`crate::events`].

use std::collections::HashSet;

use agent::{Agent, CancellationToken, FramePosition, SubscriptionItem, ThreadSnapshot};
use axum::body::Bytes;
use futures::{Stream, stream};
use protocol::RunId;
use scheduler::{RunReader, StreamPosition, ThreadItem, ThreadReader};
use tokio::time::Interval;

use crate::caller::{Caller, OpenStreamGuard};
use crate::sse::{self, CHUNK_BYTES, HEARTBEAT};
use crate::streams::item::Encoder;
use crate::streams::journal_query::JournalQuery;
use crate::streams::translate::RunTranslator;

/// A position after all frames of a run. A reader that starts there receives only new frames.
pub(crate) const STREAM_END: StreamPosition = StreamPosition { seq: u64::MAX, sub: u32::MAX, index: 0 };

/// An encoder that writes into a buffer of bytes.
pub(crate) trait StreamWriter: Encoder {
    /// Returns the number of bytes that were written and not taken yet.
    fn len(&self) -> usize;

    /// Takes the written bytes out of the buffer.
    fn take_bytes(&mut self) -> Bytes;

    /// Appends bytes that are not made from a frame, such as a heartbeat.
    fn write_raw(&mut self, bytes: &[u8]);
}

/// The body of an event stream, as chunks of bytes.
pub(crate) trait ChunkStream: Sized + Send + 'static {
    /// Waits for the next chunk; returns `None` at the end of the stream.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Returns the chunks as a stream. Dropping it drops `self`, which is the client's disconnect.
    fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, async |mut source| {
            let chunk = source.next_chunk().await?;
            Some((chunk, source))
        })
    }
}

/// The reader and the translator of one run. Frames are not buffered here: a client that reads too slowly lags behind
/// in the run's ring of frames.
pub(crate) struct RunFollower {
    /// The frames of the run, in whatever process it is active; `None` if no frames follow.
    pub(crate) reader: Option<RunReader>,
    pub(crate) translator: RunTranslator,
    /// True if a `gap` was written since the last frame, so that it is not written twice.
    pub(crate) has_sent_gap: bool,
}

/// The reason why a follower stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadProgress {
    /// A chunk is full, or no more frames are available yet.
    Pending,
    /// The frames after this position are lost.
    Lost(FramePosition),
    /// The reader has returned its last frame.
    Ended,
}

impl RunFollower {
    /// Returns a follower of the reader's frames.
    pub(crate) const fn new(reader: Option<RunReader>, translator: RunTranslator) -> Self {
        Self { reader, translator, has_sent_gap: false }
    }

    /// Returns the id of the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.translator.run_id()
    }

    /// Waits for the next frame and writes it with the frames that are available, or writes a heartbeat if that is
    /// due first.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn advance(
        &mut self,
        agent: &Agent,
        heartbeat: &mut Interval,
        out: &mut impl StreamWriter,
    ) -> agent::Result<ReadProgress> {
        let Some(reader) = &mut self.reader else { return Ok(ReadProgress::Ended) };
        let item = tokio::select! {
            biased;
            _ = heartbeat.tick() => {
                out.write_raw(HEARTBEAT);
                return Ok(ReadProgress::Pending);
            }
            item = reader.next() => item,
        };
        self.write_available(agent, item, out).await
    }

    /// Writes the item and the frames that are available, until the chunk is full. `None` is the end of the reader.
    ///
    /// Data that the translator needs from the journal is fetched before each frame.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn write_available(
        &mut self,
        agent: &Agent,
        mut item: Option<SubscriptionItem>,
        out: &mut impl StreamWriter,
    ) -> agent::Result<ReadProgress> {
        loop {
            match item {
                Some(SubscriptionItem::Frame(position, frame)) => {
                    self.has_sent_gap = false;
                    let query = self.translator.query_for_frame(position, &frame, out);
                    if query != JournalQuery::Nothing {
                        self.translator.supply(&frame, query.fetch(agent).await?);
                    }
                    self.translator.translate_frame(position, &frame, out);
                }
                Some(SubscriptionItem::Gap { after }) => return Ok(ReadProgress::Lost(after)),
                None => return Ok(ReadProgress::Ended),
            }
            let Some(reader) = self.reader.as_mut().filter(|_| out.len() < CHUNK_BYTES) else {
                return Ok(ReadProgress::Pending);
            };
            item = match reader.try_next() {
                None => return Ok(ReadProgress::Pending),
                item => item,
            };
        }
    }
}

/// The runs of a thread, one after another, and the heartbeat of the stream. The stream is counted as open until this
/// is dropped.
pub(crate) struct ThreadRuns {
    pub(crate) reader: ThreadReader,
    pub(crate) heartbeat: Interval,
    /// Ended runs of which the client has received all events, live or from the journal. They are not returned again.
    completed_runs: HashSet<RunId>,
    closing: CancellationToken,
    _open_guard: OpenStreamGuard,
}

/// The next event of a thread.
pub(crate) enum ThreadEvent {
    /// A heartbeat is due.
    Heartbeat,
    /// A run, from its first available frame.
    Run(RunReader),
    /// Runs have started and ended, and their frames are not available.
    Gap,
}

impl ThreadRuns {
    /// Returns the runs of the reader: those whose frames are available, and those that start later.
    pub(crate) fn new(caller: &Caller, reader: ThreadReader) -> Self {
        Self {
            reader,
            heartbeat: sse::heartbeat_interval(),
            completed_runs: HashSet::new(),
            closing: caller.server.closing.clone(),
            _open_guard: caller.server.open_streams.open(),
        }
    }

    /// Records runs of which the client has received all events.
    pub(crate) fn mark_completed(&mut self, runs: impl IntoIterator<Item = RunId>) {
        self.completed_runs.extend(runs);
    }

    /// Waits for the next event; returns `None` when the server shuts down.
    pub(crate) async fn next(&mut self) -> Option<ThreadEvent> {
        loop {
            let item = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                _ = self.heartbeat.tick() => return Some(ThreadEvent::Heartbeat),
                item = self.reader.next() => item?,
            };
            match item {
                ThreadItem::Run(reader) if self.completed_runs.contains(&reader.run_id) => {}
                ThreadItem::Run(reader) => return Some(ThreadEvent::Run(reader)),
                ThreadItem::Gap => return Some(ThreadEvent::Gap),
            }
        }
    }
}

/// Returns the position of the newest message of a state, but at least `minimum`.
pub(crate) fn head_position(state: Option<&ThreadSnapshot>, minimum: FramePosition) -> FramePosition {
    let newest = state.and_then(|state| state.messages.iter().map(|message| message.seq).max());
    newest.map_or(minimum, |seq| FramePosition { seq, sub: 0 }).max(minimum)
}
