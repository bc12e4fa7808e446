//! A reader of one run: it returns the run's frames, and applies the disconnect policy when it is dropped.
//!
//! The frames come from the run's bounded ring. A reader that lags behind the ring, or whose position lies in an
//! abandoned step, receives one gap as its last item and continues with the events in the journal. Readers never slow
//! the run down.

use std::sync::{Arc, Weak};

use agent::{Frame, FramePosition, FrameSubscription, SubscriptionItem};
use protocol::{DisconnectMode, RunId, Seq, ThreadId};

use crate::cancel::CancelAction;
use crate::scheduler::Scheduler;
use crate::streams::stream::RunStream;

/// A position in the event stream of a run: a frame, and the index of one of the wire events made from it. Clients send
/// it as `Last-Event-ID`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPosition {
    /// The `seq` of the thread's newest event when the frame was sent.
    pub seq: Seq,
    /// Number of frames sent since that event.
    pub sub: u32,
    /// Index of the wire event among those made from the frame.
    pub index: u32,
}

/// A reader of one run.
///
/// If the reader of a [`crate::CreatedRun`] is dropped before the run has ended, a run whose request has
/// [`DisconnectMode::Cancel`] is cancelled. [`Self::detach`] drops a reader without that.
#[derive(Debug)]
pub struct RunReader {
    /// The run that is read.
    pub run_id: RunId,
    /// The thread of the run.
    pub thread_id: ThreadId,
    stream: Arc<RunStream>,
    subscription: FrameSubscription,
    scheduler: Weak<Scheduler>,
    /// The effect of dropping this reader on the run.
    on_drop: DisconnectMode,
    sync: ReaderSync,
    /// Set after the last item.
    is_finished: bool,
}

/// How a reader's start position relates to the stream.
#[derive(Debug, Clone, Copy)]
enum ReaderSync {
    /// The stream contains everything after the position.
    InSync,
    /// The position lies in a step that was abandoned: the first item is a gap.
    Lost(FramePosition),
    /// The position is ahead of the stored events, in a step of another process. If that step is started again instead
    /// of completed, the frames that the reader knows are void, and the first item is a gap.
    Ahead(FramePosition),
}

impl RunReader {
    /// Opens a reader that starts with the frame at `after`, or with the first one. Returns `None` if the stream has no
    /// ring of frames.
    pub(crate) fn open(
        stream: Arc<RunStream>,
        after: Option<StreamPosition>,
        scheduler: Weak<Scheduler>,
    ) -> Option<Self> {
        let position =
            after.map(|after| FramePosition { seq: after.seq, sub: after.sub }).unwrap_or_default();
        let sync = match () {
            () if stream.has_lost_frames(position) => ReaderSync::Lost(position),
            // `Seq::MAX` stands for the end of the stream and is not a position of its own.
            () if after.is_some() && position.seq < Seq::MAX && stream.is_ahead_of_replay(position) => {
                ReaderSync::Ahead(position)
            }
            () => ReaderSync::InSync,
        };
        // Subscribed with a position even for the beginning, so that frames which the ring dropped are reported as a
        // gap.
        let subscription = stream.frames.subscribe(Some(position_before(position)))?;
        stream.add_reader();
        Some(Self {
            run_id: stream.run_id,
            thread_id: stream.thread_id,
            stream,
            subscription,
            scheduler,
            on_drop: DisconnectMode::Continue,
            sync,
            is_finished: false,
        })
    }

    /// Waits for the next frame. A gap is the last item of a reader: read the events after its position from the
    /// journal. Cancel safe.
    ///
    /// Returns `None` at the end. If the last frame was [`agent::Frame::RunEnded`], the rows of the run and its thread
    /// are final. Otherwise the server shuts down, or another process continues the run.
    pub async fn next(&mut self) -> Option<SubscriptionItem> {
        if let Some(initial) = self.initial_item() {
            return initial;
        }
        let item = tokio::select! {
            biased;
            item = self.subscription.next() => item,
            () = self.stream.closed.cancelled() => self.subscription.try_next(),
        };
        self.is_finished = item.is_none();
        item.map(|item| self.check_for_gap(item))
    }

    /// Returns the next frame if there is one already.
    pub fn try_next(&mut self) -> Option<SubscriptionItem> {
        match self.initial_item() {
            Some(initial) => initial,
            None => {
                let item = self.subscription.try_next();
                item.map(|item| self.check_for_gap(item))
            }
        }
    }

    /// Returns the item, or a gap if the frames that the reader knows ahead of the stream are void.
    fn check_for_gap(&mut self, item: SubscriptionItem) -> SubscriptionItem {
        let is_restart =
            matches!(&item, SubscriptionItem::Frame(_, frame) if matches!(**frame, Frame::RunStarted { .. }));
        let item = match std::mem::replace(&mut self.sync, ReaderSync::InSync) {
            ReaderSync::Ahead(after) if is_restart => SubscriptionItem::Gap { after },
            ReaderSync::Ahead(_) | ReaderSync::Lost(_) | ReaderSync::InSync => item,
        };
        self.is_finished = matches!(item, SubscriptionItem::Gap { .. });
        item
    }

    /// Returns another reader of the same stream that starts with the frame at `after`.
    pub fn reopen(&self, after: StreamPosition) -> Option<Self> {
        Self::open(Arc::clone(&self.stream), Some(after), Weak::clone(&self.scheduler))
    }

    /// Returns whether the first item is a gap, because the start position lies in an abandoned step.
    pub const fn has_initial_gap(&self) -> bool {
        matches!(self.sync, ReaderSync::Lost(_))
    }

    /// Returns the item that precedes every frame: the initial gap, or `Some(None)` for a finished reader.
    fn initial_item(&mut self) -> Option<Option<SubscriptionItem>> {
        if self.is_finished {
            return Some(None);
        }
        let ReaderSync::Lost(after) = self.sync else { return None };
        self.is_finished = true;
        Some(Some(SubscriptionItem::Gap { after }))
    }

    /// Returns whether no frame will be added to those that can be read already.
    pub fn is_closed(&self) -> bool {
        self.stream.closed.is_cancelled()
    }

    /// Makes dropping this reader before the run's end cancel the run.
    #[must_use]
    pub const fn cancel_on_drop(mut self) -> Self {
        self.on_drop = DisconnectMode::Cancel;
        self
    }

    /// Applies the request's disconnect mode to this reader.
    pub(crate) fn with_disconnect_policy(self) -> Self {
        let on_disconnect = self.stream.on_disconnect;
        match on_disconnect {
            DisconnectMode::Cancel => self.cancel_on_drop(),
            DisconnectMode::Continue => self,
        }
    }

    /// Drops the reader without cancelling the run.
    pub fn detach(self) {
        drop(self.continue_on_drop());
    }

    /// Makes dropping this reader leave the run alone.
    pub(crate) fn continue_on_drop(mut self) -> Self {
        self.on_drop = DisconnectMode::Continue;
        self
    }
}

impl Drop for RunReader {
    fn drop(&mut self) {
        self.stream.remove_reader();
        let wants_cancel = self.on_drop == DisconnectMode::Cancel && !self.stream.closed.is_cancelled();
        if !wants_cancel && !self.stream.is_thread_disposable() {
            return;
        }
        let Some(scheduler) = self.scheduler.upgrade() else { return };
        if wants_cancel {
            scheduler.cancel_detached(&self.stream, CancelAction::Interrupt);
        } else {
            scheduler.remove_temporary_thread(&self.stream);
        }
    }
}

/// Returns the position right before `position`, so that the frame at `position` is read again.
const fn position_before(position: FramePosition) -> FramePosition {
    match position {
        FramePosition { seq: 0, sub: 0 } => position,
        FramePosition { seq, sub: 0 } => FramePosition { seq: seq - 1, sub: u32::MAX },
        FramePosition { seq, sub } => FramePosition { seq, sub: sub - 1 },
    }
}
