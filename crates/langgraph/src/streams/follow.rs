//! Following runs for one client: the frames of one run through its translator into the writer of a protocol, and the runs of
//! a thread one after another. Instead of lost frames, and at its end, each protocol sends something of its own.

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

/// Behind everything a run has told.
pub(crate) const STREAM_END: StreamPosition = StreamPosition { seq: u64::MAX, sub: u32::MAX, index: 0 };

/// The encoder of one protocol with the bytes that it has written.
pub(crate) trait StreamWriter: Encoder {
    /// Returns how much is written and not yet taken.
    fn len(&self) -> usize;

    /// Takes what is written.
    fn take_bytes(&mut self) -> Bytes;

    /// Puts in bytes that are no event of a frame.
    fn write_raw(&mut self, bytes: &[u8]);
}

/// A stream of one client.
pub(crate) trait ChunkStream: Sized + Send + 'static {
    /// Returns the next bytes; `None` when the stream is over.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Returns what is sent, as it comes.
    fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, async |mut follower| {
            let chunk = follower.next_chunk().await?;
            Some((chunk, follower))
        })
    }
}

/// One run that is followed. It holds what is not sent yet and nothing else: a client that does not read falls behind in the
/// run's one ring.
pub(crate) struct RunFollower {
    /// The run's frames, wherever it works; `None` when nothing follows.
    pub(crate) reader: Option<RunReader>,
    pub(crate) translator: RunTranslator,
    /// True if the client was told that frames are missing before the next one.
    pub(crate) has_sent_gap: bool,
}

/// Where a follower stands once it has written what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadProgress {
    /// Enough is written, or nothing more is there at the moment.
    Pending,
    /// Frames behind this position are lost.
    Lost(FramePosition),
    /// The run's frames are over.
    Ended,
}

impl RunFollower {
    pub(crate) const fn new(reader: Option<RunReader>, translator: RunTranslator) -> Self {
        Self { reader, translator, has_sent_gap: false }
    }

    /// Returns the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.translator.run_id()
    }

    /// Waits for the next item and writes it with those that are there already, or a heartbeat.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn advance(
        &mut self,
        agent: &Agent,
        heartbeat: &mut Interval,
        out: &mut impl StreamWriter,
    ) -> agent::Result<ReadProgress> {
        let Some(live) = &mut self.reader else { return Ok(ReadProgress::Ended) };
        let item = tokio::select! {
            biased;
            _ = heartbeat.tick() => {
                out.write_raw(HEARTBEAT);
                return Ok(ReadProgress::Pending);
            }
            item = live.next() => item,
        };
        self.write_available(agent, item, out).await
    }

    /// Writes an item, and those that are there already.
    ///
    /// # Errors
    /// When the journal fails.
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
                    let need = self.translator.query_for_frame(position, &frame, out);
                    if need != JournalQuery::Nothing {
                        self.translator.supply(&frame, need.fetch(agent).await?);
                    }
                    self.translator.translate_frame(position, &frame, out);
                }
                Some(SubscriptionItem::Gap { after }) => return Ok(ReadProgress::Lost(after)),
                None => return Ok(ReadProgress::Ended),
            }
            let Some(live) = self.reader.as_mut().filter(|_| out.len() < CHUNK_BYTES) else {
                return Ok(ReadProgress::Pending);
            };
            item = match live.try_next() {
                None => return Ok(ReadProgress::Pending),
                some => some,
            };
        }
    }
}

/// The runs of a thread, one after another, for as long as the client stays.
pub(crate) struct ThreadRuns {
    pub(crate) reader: ThreadReader,
    pub(crate) heartbeat: Interval,
    /// Runs that had ended when others had passed unseen: the client has had them, or was told of them then.
    completed_runs: HashSet<RunId>,
    closing: CancellationToken,
    _open_guard: OpenStreamGuard,
}

/// The next event of a thread.
pub(crate) enum ThreadEvent {
    /// A heartbeat is due.
    Heartbeat,
    /// A run begins.
    Run(RunReader),
    /// Runs came and went unseen.
    Gap,
}

impl ThreadRuns {
    /// Returns the runs that `live` has, and those to come.
    pub(crate) fn new(caller: &Caller, reader: ThreadReader) -> Self {
        Self {
            reader,
            heartbeat: sse::heartbeat_interval(),
            completed_runs: HashSet::new(),
            closing: caller.server.closing.clone(),
            _open_guard: caller.server.open_streams.open(),
        }
    }

    /// Notes runs that the client has had to their ends.
    pub(crate) fn mark_completed(&mut self, runs: impl IntoIterator<Item = RunId>) {
        self.completed_runs.extend(runs);
    }

    /// Waits for what comes next; `None` when the server goes.
    pub(crate) async fn next(&mut self) -> Option<ThreadEvent> {
        loop {
            let item = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                _ = self.heartbeat.tick() => return Some(ThreadEvent::Heartbeat),
                item = self.reader.next() => item?,
            };
            match item {
                ThreadItem::Run(live) if self.completed_runs.contains(&live.run_id) => {}
                ThreadItem::Run(live) => return Some(ThreadEvent::Run(live)),
                ThreadItem::Gap => return Some(ThreadEvent::Gap),
            }
        }
    }
}

/// Returns the place of the newest message of a state.
pub(crate) fn head_position(state: Option<&ThreadSnapshot>, or: FramePosition) -> FramePosition {
    let newest = state.and_then(|state| state.messages.iter().map(|message| message.seq).max());
    newest.map_or(or, |seq| FramePosition { seq, sub: 0 }).max(or)
}
