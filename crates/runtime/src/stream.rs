//! The stream of a run: one bounded ring of frames that any number of subscribers read at their own pace. The ring bounds
//! what is kept, however many subscribers there are; one that falls behind is told so once and dropped. Nothing is stored: a
//! subscriber that lost frames continues from the journal.

pub(crate) mod frame;
pub(crate) mod retold;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::{Seq, ThreadId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::stream::frame::{Frame, Mode, Within};

/// The most frames a stream keeps for those who read later.
pub const STREAM_FRAMES_MAX: usize = 8_192;

/// The most bytes of text they may hold together.
pub const STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bits of a [`Position::sub`] that count frames; those above count the steps that became durable since the event.
pub const STEP_BITS: u32 = 20;

/// A place in a stream: the journal's seq, and a count of what came since that event. It is a client's
/// `Last-Event-ID`, and the seq alone says where in the journal to go on.
///
/// What is told of a durable step has the same place whoever tells it: the process that drives the run, or another one that
/// reads of it in the journal and knows nothing of the frames between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The newest event when the frame was sent.
    pub seq: Seq,
    /// Steps that became durable since that event, and behind [`STEP_BITS`] the frames since the last of them, or since the
    /// event; 0 is the event itself.
    pub sub: u32,
}

impl Position {
    /// Returns the place of the next frame.
    const fn next(self) -> Self {
        Self { sub: self.sub.saturating_add(1), ..self }
    }

    /// Returns the place of the next step that becomes durable.
    const fn step(self) -> Self {
        let steps = (self.sub >> STEP_BITS) + 1;
        Self { sub: if steps < 1 << (u32::BITS - STEP_BITS) { steps << STEP_BITS } else { u32::MAX }, ..self }
    }
}

/// What a subscriber receives.
#[derive(Debug, Clone)]
pub enum Item {
    /// A frame and its place.
    Frame(Position, Arc<Frame>),
    /// Frames were lost; always the last item. What is durable is in the journal after `after`.
    Gap {
        /// The last place this subscriber knows.
        after: Position,
    },
}

/// Where a run's frames go. The default goes nowhere. When the last clone is dropped the stream has ended.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    end: Option<Arc<SendingEnd>>,
    /// The call and the thread of the sub-agent that sends them, if one does.
    of: Option<Arc<(String, ThreadId)>>,
}

/// One reader of a stream.
#[derive(Debug)]
pub struct Subscription {
    ring: Arc<Mutex<Ring>>,
    changed: watch::Receiver<()>,
    modes: Option<HashSet<Mode>>,
    /// The number of the next frame.
    next: u64,
    after: Position,
    is_over: bool,
}

#[derive(Debug)]
struct SendingEnd {
    ring: Arc<Mutex<Ring>>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Ring {
    frames: VecDeque<(Position, Arc<Frame>)>,
    /// The number of the oldest frame that is kept.
    first: u64,
    bytes: usize,
    position: Position,
    is_ended: bool,
}

impl Frames {
    /// Returns a stream and a subscription to all of it.
    pub fn channel() -> (Self, Subscription) {
        let ring = Arc::new(Mutex::new(Ring::default()));
        let changed = watch::Sender::new(());
        let subscription = Subscription::new(&ring, changed.subscribe());
        (Self { end: Some(Arc::new(SendingEnd { ring, changed })), of: None }, subscription)
    }

    /// Returns where the sub-agent of a call sends its frames: among these, each as [`Frame::Within`]. They have no place in
    /// the journal of this thread.
    #[must_use]
    pub fn within(&self, call_id: &str, thread_id: ThreadId) -> Self {
        Self { end: self.end.clone(), of: Some(Arc::new((call_id.to_owned(), thread_id))) }
    }

    /// Sends a frame to whoever listens. It never waits.
    pub fn send(&self, frame: Frame) {
        if let Some(end) = &self.end {
            let frame = match self.of.as_deref() {
                None => frame,
                Some((call_id, thread_id)) => Frame::Within(Within {
                    call_id: call_id.clone(),
                    thread_id: *thread_id,
                    frame: Box::new(frame),
                }),
            };
            end.ring.lock().push(frame);
            end.changed.send_replace(());
        }
    }

    /// Says where the journal stands, so that what is sent before the next event has its place.
    pub fn at(&self, seq: Seq) {
        if let Some(end) = self.end.as_ref().filter(|_| self.of.is_none()) {
            let mut ring = end.ring.lock();
            ring.position = ring.position.max(Position { seq, sub: 0 });
        }
    }

    /// Returns the place of the newest frame; the beginning for a stream that goes nowhere.
    pub fn position(&self) -> Position {
        self.end.as_ref().map(|end| end.ring.lock().position).unwrap_or_default()
    }

    /// Returns whether frames go anywhere.
    pub fn is_open(&self) -> bool {
        self.end.is_some()
    }

    /// Returns about how many bytes it keeps for those who read later; none when it goes nowhere.
    pub fn bytes(&self) -> usize {
        self.end.as_ref().map_or(0, |end| end.ring.lock().bytes)
    }

    /// Lets go of all that it keeps. Who has not read it is told of a gap.
    pub fn clear(&self) {
        if let Some(end) = &self.end {
            end.ring.lock().clear();
            end.changed.send_replace(());
        }
    }

    /// Returns a subscription to what follows `after`, or to all that is kept; `None` for a stream that goes nowhere.
    /// A place that the stream no longer keeps gives a gap.
    pub fn subscribe(&self, after: Option<Position>) -> Option<Subscription> {
        let end = self.end.as_ref()?;
        let mut subscription = Subscription::new(&end.ring, end.changed.subscribe());
        if let Some(after) = after {
            let ring = end.ring.lock();
            subscription.next = ring.number_after(after);
            subscription.after = after.min(ring.position);
        }
        Some(subscription)
    }
}

impl Drop for SendingEnd {
    fn drop(&mut self) {
        self.ring.lock().is_ended = true;
        self.changed.send_replace(());
    }
}

impl Ring {
    fn push(&mut self, frame: Frame) {
        self.position = match &frame {
            Frame::Event(event) => Position { seq: event.seq, sub: 0 },
            Frame::Updates { .. } => self.position.step(),
            Frame::RunStarted { .. }
            | Frame::StepStarted { .. }
            | Frame::Text { .. }
            | Frame::Thinking { .. }
            | Frame::ToolCall { .. }
            | Frame::ToolStarted { .. }
            | Frame::ToolEnded { .. }
            | Frame::ToolOutput { .. }
            | Frame::Custom { .. }
            | Frame::Values { .. }
            | Frame::Progress { .. }
            | Frame::Notice { .. }
            | Frame::AttemptFailed { .. }
            | Frame::RunEnded { .. }
            | Frame::Within(_)
            | Frame::Interrupted(_) => self.position.next(),
        };
        self.bytes += frame.bytes();
        self.frames.push_back((self.position, Arc::new(frame)));
        while self.frames.len() > STREAM_FRAMES_MAX || self.bytes > STREAM_BYTES_MAX {
            let Some((_, oldest)) = self.frames.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.first += 1;
        }
    }

    fn clear(&mut self) {
        self.first += self.frames.len() as u64;
        self.frames.clear();
        self.bytes = 0;
    }

    /// Returns the number of the first frame behind `after`. One that cannot be told from a lost one counts as lost:
    /// it lies before the oldest frame that is kept.
    fn number_after(&self, after: Position) -> u64 {
        let behind = self.frames.partition_point(|(position, _)| *position <= after) as u64;
        // A frame larger than the ring leaves nothing behind; whoever is past it has lost nothing.
        let is_past = self.frames.is_empty() && self.position <= after;
        let is_known = behind > 0 || self.first == 0 || is_past;
        if is_known { self.first + behind } else { self.first.saturating_sub(1) }
    }

    fn get(&self, number: u64) -> Option<&(Position, Arc<Frame>)> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.frames.get(at)
    }
}

impl Subscription {
    fn new(ring: &Arc<Mutex<Ring>>, changed: watch::Receiver<()>) -> Self {
        let kept = ring.lock();
        let (next, after) = (kept.first, Position::default());
        drop(kept);
        Self { ring: Arc::clone(ring), changed, modes: None, next, after, is_over: false }
    }

    /// Keeps only the frames of `modes`, and those that belong to every mode.
    #[must_use]
    pub fn only(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.modes = Some(modes.into_iter().collect());
        self
    }

    /// Returns the next item; `None` when the stream has ended and everything was read, or a gap was told.
    pub async fn next(&mut self) -> Option<Item> {
        loop {
            // Whatever changes from here on is noticed by the wait below.
            self.changed.mark_unchanged();
            match self.take() {
                Taken::Item(item) => return Some(item),
                Taken::Over => return None,
                // An error says that the sending end is gone; what it left is taken first.
                Taken::Nothing => drop(self.changed.changed().await),
            }
        }
    }

    /// Returns the next item if there is one already.
    pub fn try_next(&mut self) -> Option<Item> {
        match self.take() {
            Taken::Item(item) => Some(item),
            Taken::Nothing | Taken::Over => None,
        }
    }

    fn take(&mut self) -> Taken {
        let ring = self.ring.lock();
        while !self.is_over {
            if self.next < ring.first {
                self.is_over = true;
                return Taken::Item(Item::Gap { after: self.after });
            }
            let Some((position, frame)) = ring.get(self.next) else {
                return if ring.is_ended { Taken::Over } else { Taken::Nothing };
            };
            self.next += 1;
            self.after = *position;
            let wanted = |mode| self.modes.as_ref().is_none_or(|modes| modes.contains(&mode));
            if frame.mode().is_none_or(wanted) {
                return Taken::Item(Item::Frame(*position, Arc::clone(frame)));
            }
        }
        Taken::Over
    }
}

enum Taken {
    Item(Item),
    Nothing,
    Over,
}

#[cfg(test)]
mod tests;
