//! Following runs for one client: the frames of one run through its translator into the writer of a protocol, and the runs of
//! a thread one after another. Instead of lost frames, and at its end, each protocol sends something of its own.

use std::collections::HashSet;

use agent::{Agent, CancellationToken, Item, Position, State};
use axum::body::Bytes;
use futures::{Stream, stream};
use protocol::RunId;
use scheduler::{Live, StreamPosition, ThreadItem, ThreadLive};
use tokio::time::Interval;

use crate::caller::{Caller, OpenStream};
use crate::sse::{self, CHUNK_BYTES, HEARTBEAT};
use crate::streams::item::Encoder;
use crate::streams::need::Need;
use crate::streams::translate::Translator;

/// Behind everything a run has told.
pub(crate) const NOW: StreamPosition = StreamPosition { seq: u64::MAX, sub: u32::MAX, n: 0 };

/// The encoder of one protocol with the bytes that it has written.
pub(crate) trait StreamWriter: Encoder {
    /// Returns how much is written and not yet taken.
    fn len(&self) -> usize;

    /// Takes what is written.
    fn take(&mut self) -> Bytes;

    /// Puts in bytes that are no event of a frame.
    fn raw(&mut self, bytes: &[u8]);
}

/// A stream of one client.
pub(crate) trait Follower: Sized + Send + 'static {
    /// Returns the next bytes; `None` when the stream is over.
    fn chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Returns what is sent, as it comes.
    fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, async |mut follower| {
            let chunk = follower.chunk().await?;
            Some((chunk, follower))
        })
    }
}

/// One run that is followed. It holds what is not sent yet and nothing else: a client that does not read falls behind in the
/// run's one ring.
pub(crate) struct RunFollower {
    /// The run's frames, wherever it works; `None` when nothing follows.
    pub(crate) live: Option<Live>,
    pub(crate) translator: Translator,
    /// Whether the client was told that frames are missing before the next one.
    pub(crate) is_told_of_gap: bool,
}

/// Where a follower stands once it has written what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Enough is written, or nothing more is there at the moment.
    Paused,
    /// Frames behind this position are lost.
    Lost(Position),
    /// The run's frames are over.
    Over,
}

impl RunFollower {
    pub(crate) const fn new(live: Option<Live>, translator: Translator) -> Self {
        Self { live, translator, is_told_of_gap: false }
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
    ) -> agent::Result<Progress> {
        let Some(live) = &mut self.live else { return Ok(Progress::Over) };
        let item = tokio::select! {
            biased;
            _ = heartbeat.tick() => {
                out.raw(HEARTBEAT);
                return Ok(Progress::Paused);
            }
            item = live.next() => item,
        };
        self.gather(agent, item, out).await
    }

    /// Writes an item, and those that are there already.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn gather(
        &mut self,
        agent: &Agent,
        mut item: Option<Item>,
        out: &mut impl StreamWriter,
    ) -> agent::Result<Progress> {
        loop {
            match item {
                Some(Item::Frame(position, frame)) => {
                    self.is_told_of_gap = false;
                    let need = self.translator.need(position, &frame, out);
                    if need != Need::Nothing {
                        self.translator.give(&frame, need.read(agent).await?);
                    }
                    self.translator.frame(position, &frame, out);
                }
                Some(Item::Gap { after }) => return Ok(Progress::Lost(after)),
                None => return Ok(Progress::Over),
            }
            let Some(live) = self.live.as_mut().filter(|_| out.len() < CHUNK_BYTES) else {
                return Ok(Progress::Paused);
            };
            item = match live.try_next() {
                None => return Ok(Progress::Paused),
                some => some,
            };
        }
    }
}

/// The runs of a thread, one after another, for as long as the client stays.
pub(crate) struct ThreadRuns {
    pub(crate) live: ThreadLive,
    pub(crate) heartbeat: Interval,
    /// Runs that had ended when others had passed unseen: the client has had them, or was told of them then.
    had_whole: HashSet<RunId>,
    closing: CancellationToken,
    _counted: OpenStream,
}

/// What comes next on a thread.
pub(crate) enum ThreadEvent {
    /// A heartbeat is due.
    Heartbeat,
    /// A run begins.
    Run(Live),
    /// Runs came and went unseen.
    Gap,
}

impl ThreadRuns {
    /// Returns the runs that `live` has, and those to come.
    pub(crate) fn new(caller: &Caller, live: ThreadLive) -> Self {
        Self {
            live,
            heartbeat: sse::heartbeat(),
            had_whole: HashSet::new(),
            closing: caller.server.closing.clone(),
            _counted: caller.server.streams.open(),
        }
    }

    /// Notes runs that the client has had to their ends.
    pub(crate) fn note_whole(&mut self, runs: impl IntoIterator<Item = RunId>) {
        self.had_whole.extend(runs);
    }

    /// Waits for what comes next; `None` when the server goes.
    pub(crate) async fn next(&mut self) -> Option<ThreadEvent> {
        loop {
            let item = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                _ = self.heartbeat.tick() => return Some(ThreadEvent::Heartbeat),
                item = self.live.next() => item?,
            };
            match item {
                ThreadItem::Run(live) if self.had_whole.contains(&live.run_id) => {}
                ThreadItem::Run(live) => return Some(ThreadEvent::Run(live)),
                ThreadItem::Gap => return Some(ThreadEvent::Gap),
            }
        }
    }
}

/// Returns the place of the newest message of a state.
pub(crate) fn head(state: Option<&State>, or: Position) -> Position {
    let newest = state.and_then(|state| state.messages.iter().map(|message| message.seq).max());
    newest.map_or(or, |seq| Position { seq, sub: 0 }).max(or)
}
