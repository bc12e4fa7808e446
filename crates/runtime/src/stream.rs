//! The stream of a run: a bounded ring of frames that any number of subscribers read, each at its own pace. All
//! subscribers share the ring, so its size does not grow with their number. A subscriber that falls behind
//! receives one [`SubscriptionItem::Gap`] and ends. Frames are not stored: a subscriber that lost some continues
//! from the journal.

pub(crate) mod frame;
pub(crate) mod replay;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::{Seq, ThreadId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::stream::frame::{Frame, FrameMode, SubagentFrame};

/// The most frames that a stream keeps for subscribers that have not read them.
pub const STREAM_FRAMES_MAX: usize = 8_192;

/// The most bytes that the kept frames may occupy together, by estimate.
pub const STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The number of low bits of [`FramePosition::sub`] that count frames. The bits above them count the steps that
/// became durable since the event.
pub const FRAME_COUNT_BITS: u32 = 20;

/// The position of a frame in a stream: the journal's sequence number and a counter of the frames after that
/// event. Clients use it as `Last-Event-ID`; the sequence number alone says where in the journal to continue.
///
/// The frames of a durable step have the same positions in every process: in the one that drives the run, and in
/// one that replays it from the journal without knowing the frames in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FramePosition {
    /// The sequence number of the thread's newest event when the frame was sent.
    pub seq: Seq,
    /// The steps that became durable since that event, and in the low [`FRAME_COUNT_BITS`] bits the frames since
    /// the last of these steps, or since the event. The event itself has 0.
    pub sub: u32,
}

impl FramePosition {
    /// Returns the position of the next frame. The counter saturates.
    const fn next_frame(self) -> Self {
        Self { sub: self.sub.saturating_add(1), ..self }
    }

    /// Returns the position of the next durable step. The counter saturates.
    const fn next_step(self) -> Self {
        let steps = (self.sub >> FRAME_COUNT_BITS) + 1;
        Self {
            sub: if steps < 1 << (u32::BITS - FRAME_COUNT_BITS) {
                steps << FRAME_COUNT_BITS
            } else {
                u32::MAX
            },
            ..self
        }
    }
}

/// An item that a subscriber receives.
#[derive(Debug, Clone)]
pub enum SubscriptionItem {
    /// A frame and its position.
    Frame(FramePosition, Arc<Frame>),
    /// Frames were lost. This is always the last item; the durable frames after `after` are in the journal.
    Gap {
        /// The position of the last frame that this subscriber received.
        after: FramePosition,
    },
}

/// The sending end of a run's stream. Clones send to the same stream, and the stream ends when the last clone is
/// dropped. The default value drops all frames.
#[derive(Debug, Clone, Default)]
pub struct FrameSender {
    /// The stream; `None` drops all frames.
    shared: Option<Arc<SenderShared>>,
    /// The call and the thread of the sub-agent whose frames this sender wraps, if it belongs to one.
    subagent: Option<Arc<(String, ThreadId)>>,
}

/// One subscriber's reading end of a stream.
#[derive(Debug)]
pub struct FrameSubscription {
    /// The ring of frames, shared with the sender.
    ring: Arc<Mutex<FrameRing>>,
    /// Notifies about new frames and the end of the stream.
    changed: watch::Receiver<()>,
    /// The modes that the subscriber wants; `None` is all.
    modes: Option<HashSet<FrameMode>>,
    /// The number of the next frame to read, counted from the start of the stream.
    next: u64,
    /// The position of the last frame that was read.
    after: FramePosition,
    /// Set once a gap was returned.
    is_finished: bool,
}

/// The state that all clones of a sender share. Dropping it ends the stream.
#[derive(Debug)]
/// The ring of frames, shared with the subscribers.
struct SenderShared {
    /// The sender of notifications to the subscribers.
    ring: Arc<Mutex<FrameRing>>,
    changed: watch::Sender<()>,
}

/// The kept frames of a stream.
#[derive(Debug, Default)]
struct FrameRing {
    /// The kept frames with their positions, oldest first.
    frames: VecDeque<(FramePosition, Arc<Frame>)>,
    /// The number of the oldest kept frame, counted from the start of the stream.
    first: u64,
    /// The estimated size of the kept frames in bytes.
    bytes: usize,
    /// The position of the newest frame.
    position: FramePosition,
    /// Set when the last sender was dropped.
    is_ended: bool,
}

impl FrameSender {
    /// Creates a stream and a subscription to all of its frames.
    pub fn channel() -> (Self, FrameSubscription) {
        let ring = Arc::new(Mutex::new(FrameRing::default()));
        let changed = watch::Sender::new(());
        let subscription = FrameSubscription::new(&ring, changed.subscribe());
        (Self { shared: Some(Arc::new(SenderShared { ring, changed })), subagent: None }, subscription)
    }

    /// Returns a sender for the sub-agent that works for a call. It sends to the same stream, and each frame is
    /// wrapped as [`Frame::Subagent`]. The positions of these frames refer to the journal of this thread, not to
    /// that of the sub-agent's thread.
    #[must_use]
    pub fn for_subagent(&self, call_id: &str, thread_id: ThreadId) -> Self {
        Self { shared: self.shared.clone(), subagent: Some(Arc::new((call_id.to_owned(), thread_id))) }
    }

    /// Sends a frame to the subscribers. Never waits; frames over the limits of the ring push out the oldest
    /// ones.
    pub fn send(&self, frame: Frame) {
        if let Some(shared) = &self.shared {
            let frame = match self.subagent.as_deref() {
                None => frame,
                Some((call_id, thread_id)) => Frame::Subagent(SubagentFrame {
                    call_id: call_id.clone(),
                    thread_id: *thread_id,
                    frame: Box::new(frame),
                }),
            };
            shared.ring.lock().push(frame);
            shared.changed.send_replace(());
        }
    }

    /// Sets the sequence number of the thread's newest event, so that the frames sent before the next event get
    /// positions after it. Has no effect for a sub-agent's sender.
    pub fn advance_to(&self, seq: Seq) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.subagent.is_none()) {
            let mut ring = shared.ring.lock();
            ring.position = ring.position.max(FramePosition { seq, sub: 0 });
        }
    }

    /// Returns the position of the newest frame; the start position for a sender that drops its frames.
    pub fn position(&self) -> FramePosition {
        self.shared.as_ref().map(|shared| shared.ring.lock().position).unwrap_or_default()
    }

    /// Returns whether the frames go to a stream.
    pub fn is_open(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the estimated number of bytes that the stream keeps; 0 for a sender that drops its frames.
    pub fn buffered_bytes(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.ring.lock().bytes)
    }

    /// Removes all kept frames. Subscribers that have not read them receive a gap.
    pub fn clear(&self) {
        if let Some(shared) = &self.shared {
            shared.ring.lock().clear();
            shared.changed.send_replace(());
        }
    }

    /// Subscribes to the frames after the position `after`, or to all kept frames. A position that the stream no
    /// longer keeps results in a gap. Returns `None` for a sender that drops its frames.
    pub fn subscribe(&self, after: Option<FramePosition>) -> Option<FrameSubscription> {
        let shared = self.shared.as_ref()?;
        let mut subscription = FrameSubscription::new(&shared.ring, shared.changed.subscribe());
        if let Some(after) = after {
            let ring = shared.ring.lock();
            subscription.next = ring.number_after(after);
            subscription.after = after.min(ring.position);
        }
        Some(subscription)
    }
}

impl Drop for SenderShared {
    fn drop(&mut self) {
        self.ring.lock().is_ended = true;
        self.changed.send_replace(());
    }
}

impl FrameRing {
    /// Adds a frame at the next position, and removes the oldest frames while a limit is exceeded.
    fn push(&mut self, frame: Frame) {
        self.position = match &frame {
            Frame::Event(event) => FramePosition { seq: event.seq, sub: 0 },
            Frame::Updates { .. } => self.position.next_step(),
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
            | Frame::Subagent(_)
            | Frame::Interrupted(_) => self.position.next_frame(),
        };
        self.bytes += frame.size_in_bytes();
        self.frames.push_back((self.position, Arc::new(frame)));
        while self.frames.len() > STREAM_FRAMES_MAX || self.bytes > STREAM_BYTES_MAX {
            let Some((_, oldest)) = self.frames.pop_front() else { break };
            self.bytes -= oldest.size_in_bytes();
            self.first += 1;
        }
    }

    /// Removes all frames.
    fn clear(&mut self) {
        self.first += self.frames.len() as u64;
        self.frames.clear();
        self.bytes = 0;
    }

    /// Returns the number of the first frame after `after`. If it is unknown whether frames after `after` were
    /// lost, they count as lost: the returned number then precedes the oldest kept frame.
    fn number_after(&self, after: FramePosition) -> u64 {
        let preceding = self.frames.partition_point(|(position, _)| *position <= after) as u64;
        // A frame larger than the ring is removed at once. A subscriber that is past its position has lost
        // nothing.
        let is_past = self.frames.is_empty() && self.position <= after;
        let is_known = preceding > 0 || self.first == 0 || is_past;
        if is_known { self.first + preceding } else { self.first.saturating_sub(1) }
    }

    /// Returns the frame of that number, if it is kept.
    fn get(&self, number: u64) -> Option<&(FramePosition, Arc<Frame>)> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.frames.get(index)
    }
}

impl FrameSubscription {
    /// Returns a subscription that starts at the oldest kept frame.
    fn new(ring: &Arc<Mutex<FrameRing>>, changed: watch::Receiver<()>) -> Self {
        let frames = ring.lock();
        let (next, after) = (frames.first, FramePosition::default());
        drop(frames);
        Self { ring: Arc::clone(ring), changed, modes: None, next, after, is_finished: false }
    }

    /// Restricts the subscription to the frames of `modes` and those that belong to every mode.
    #[must_use]
    pub fn with_modes(mut self, modes: impl IntoIterator<Item = FrameMode>) -> Self {
        self.modes = Some(modes.into_iter().collect());
        self
    }

    /// Waits for the next item. Returns `None` after the last frame of an ended stream, and after a gap.
    ///
    /// Cancellation safe: dropping the future loses no frame.
    pub async fn next(&mut self) -> Option<SubscriptionItem> {
        loop {
            // A change after this line ends the wait below, so no frame is missed.
            self.changed.mark_unchanged();
            match self.poll_item() {
                SubscriptionPoll::Item(item) => return Some(item),
                SubscriptionPoll::Ended => return None,
                // An error means that the sender is gone. The next poll returns its remaining frames first.
                SubscriptionPoll::Pending => drop(self.changed.changed().await),
            }
        }
    }

    /// Returns the next item if one is available, without waiting.
    pub fn try_next(&mut self) -> Option<SubscriptionItem> {
        match self.poll_item() {
            SubscriptionPoll::Item(item) => Some(item),
            SubscriptionPoll::Pending | SubscriptionPoll::Ended => None,
        }
    }

    /// Returns the next item that the subscriber wants, or the state of the stream if there is none.
    fn poll_item(&mut self) -> SubscriptionPoll {
        let ring = self.ring.lock();
        while !self.is_finished {
            if self.next < ring.first {
                self.is_finished = true;
                return SubscriptionPoll::Item(SubscriptionItem::Gap { after: self.after });
            }
            let Some((position, frame)) = ring.get(self.next) else {
                return if ring.is_ended { SubscriptionPoll::Ended } else { SubscriptionPoll::Pending };
            };
            self.next += 1;
            self.after = *position;
            let is_wanted = |mode| self.modes.as_ref().is_none_or(|modes| modes.contains(&mode));
            if frame.mode().is_none_or(is_wanted) {
                return SubscriptionPoll::Item(SubscriptionItem::Frame(*position, Arc::clone(frame)));
            }
        }
        SubscriptionPoll::Ended
    }
}

/// The result of polling a subscription.
enum SubscriptionPoll {
    /// An item is available.
    Item(SubscriptionItem),
    /// No item is available yet.
    Pending,
    /// The stream has ended and everything was read, or a gap was returned.
    Ended,
}

#[cfg(test)]
mod tests;
