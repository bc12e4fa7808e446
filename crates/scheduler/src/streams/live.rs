//! One reader of one run: frames as they come, and what it means for the run when the reader goes away.

use std::sync::{Arc, Weak};

use agent::{Frame, Item, Position, Subscription};
use protocol::{OnDisconnect, RunId, Seq, ThreadId};

use crate::cancel::CancelAction;
use crate::dispatch::Dispatch;
use crate::streams::stream::Stream;

/// A place in what a client is sent of a run: a frame, and how many events it became before. It is the client's
/// `Last-Event-ID`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPosition {
    /// The newest event of the thread when the frame was sent.
    pub seq: Seq,
    /// Frames sent since that event.
    pub sub: u32,
    /// Which of the things that the frame became on the wire.
    pub n: u32,
}

/// A reader of one run.
///
/// When the one that came with [`crate::Created`] is dropped before the run has ended, a run that was asked for with
/// [`OnDisconnect::Cancel`] is stopped; [`Self::leave`] goes away without that.
#[derive(Debug)]
pub struct Live {
    /// The run.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: ThreadId,
    stream: Arc<Stream>,
    subscription: Subscription,
    dispatch: Weak<Dispatch>,
    when_dropped: OnDisconnect,
    knows: Knows,
    is_over: bool,
}

/// What a reader knows when it comes.
#[derive(Debug, Clone, Copy)]
enum Knows {
    /// What the stream tells up to its place.
    Same,
    /// Something that is lost: that is told before anything else.
    Lost(Position),
    /// More than is stored: if that is not completed but begun anew, it is lost.
    Ahead(Position),
}

impl Live {
    /// Returns a reader of what follows, the frame at `after` included; of all there is without one. `None` when the stream
    /// goes nowhere.
    pub(crate) fn of(
        stream: Arc<Stream>,
        after: Option<StreamPosition>,
        dispatch: Weak<Dispatch>,
    ) -> Option<Self> {
        let position = after.map(|after| Position { seq: after.seq, sub: after.sub }).unwrap_or_default();
        let knows = match () {
            () if stream.has_lost(position) => Knows::Lost(position),
            // Behind everything is no place of its own.
            () if after.is_some() && position.seq < Seq::MAX && stream.is_ahead(position) => {
                Knows::Ahead(position)
            }
            () => Knows::Same,
        };
        // From the beginning is a place too: frames that the ring no longer keeps are told as lost.
        let subscription = stream.frames.subscribe(Some(before(position)))?;
        stream.enter();
        Some(Self {
            run_id: stream.run_id,
            thread_id: stream.thread_id,
            stream,
            subscription,
            dispatch,
            when_dropped: OnDisconnect::Continue,
            knows,
            is_over: false,
        })
    }

    /// Returns the next frame. A gap is the last item of a reader: what is durable after its place is in the journal.
    ///
    /// `None` when nothing follows. If the last frame was [`agent::Frame::RunEnded`], the rows of the run and its thread are
    /// final; if there was none, the server stops or another process went on with the run.
    pub async fn next(&mut self) -> Option<Item> {
        if let Some(over) = self.told_before() {
            return over;
        }
        let item = tokio::select! {
            biased;
            item = self.subscription.next() => item,
            () = self.stream.closed.cancelled() => self.subscription.try_next(),
        };
        self.is_over = item.is_none();
        item.map(|item| self.told(item))
    }

    /// Returns the next frame if there is one already.
    pub fn try_next(&mut self) -> Option<Item> {
        match self.told_before() {
            Some(over) => over,
            None => {
                let item = self.subscription.try_next();
                item.map(|item| self.told(item))
            }
        }
    }

    /// Returns what the reader is told: the item, or that what it knows ahead of it is lost.
    fn told(&mut self, item: Item) -> Item {
        let begins_anew =
            matches!(&item, Item::Frame(_, frame) if matches!(**frame, Frame::RunStarted { .. }));
        let item = match std::mem::replace(&mut self.knows, Knows::Same) {
            Knows::Ahead(after) if begins_anew => Item::Gap { after },
            Knows::Ahead(_) | Knows::Lost(_) | Knows::Same => item,
        };
        self.is_over = matches!(item, Item::Gap { .. });
        item
    }

    /// Returns another reader of the same stream, from the frame at `after` on.
    pub fn again(&self, after: StreamPosition) -> Option<Self> {
        Self::of(Arc::clone(&self.stream), Some(after), Weak::clone(&self.dispatch))
    }

    /// Returns whether its place is in the middle of a step that was given up: the first item is a gap.
    pub const fn is_cut(&self) -> bool {
        matches!(self.knows, Knows::Lost(_))
    }

    fn told_before(&mut self) -> Option<Option<Item>> {
        if self.is_over {
            return Some(None);
        }
        let Knows::Lost(after) = self.knows else { return None };
        self.is_over = true;
        Some(Some(Item::Gap { after }))
    }

    /// Returns whether nothing follows what can be read already.
    pub fn is_closed(&self) -> bool {
        self.stream.closed.is_cancelled()
    }

    /// Has the run stopped when this reader goes away before its end.
    #[must_use]
    pub const fn cancel_on_drop(mut self) -> Self {
        self.when_dropped = OnDisconnect::Cancel;
        self
    }

    /// Does what the request wants when the one who asked for the run goes away.
    pub(crate) fn of_creator(self) -> Self {
        let when_dropped = self.stream.on_disconnect;
        match when_dropped {
            OnDisconnect::Cancel => self.cancel_on_drop(),
            OnDisconnect::Continue => self,
        }
    }

    /// Goes away; the run goes on.
    pub fn leave(self) {
        drop(self.idle());
    }

    /// Has the run go on when this reader goes away.
    pub(crate) fn idle(mut self) -> Self {
        self.when_dropped = OnDisconnect::Continue;
        self
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stream.leave();
        let wants_cancel = self.when_dropped == OnDisconnect::Cancel && !self.stream.closed.is_cancelled();
        if !wants_cancel && !self.stream.is_spent() {
            return;
        }
        let Some(dispatch) = self.dispatch.upgrade() else { return };
        if wants_cancel {
            dispatch.cancel_behind(&self.stream, CancelAction::Interrupt);
        } else {
            dispatch.remove_spent(&self.stream);
        }
    }
}

/// Returns the place right before `position`, so that the frame there is read again.
const fn before(position: Position) -> Position {
    match position {
        Position { seq: 0, sub: 0 } => position,
        Position { seq, sub: 0 } => Position { seq: seq - 1, sub: u32::MAX },
        Position { seq, sub } => Position { seq, sub: sub - 1 },
    }
}
