//! The sending end of a stream of one run: events are written as bytes, one behind the other, those nobody asked for and
//! those a client has had already left out. Each kind of event has a fixed number within what one frame becomes, so that
//! ids are the same for every reader, whatever it asked for. What an event says is not decided here.

use std::fmt::{self, Display};
use std::sync::Arc;

use agent::FramePosition;
use bytes::{Bytes, BytesMut};
use protocol::RunId;
use serde::Serialize;
use serde_json::json;

use crate::modes::cursor::EventId;
use crate::modes::mode::{StreamMode, StreamModes};
use crate::sse;
use crate::streams::follow::StreamWriter;

/// The kinds of event that one frame can become, in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventSlot {
    /// The run began.
    RunStarted,
    /// A step began.
    TaskStarted,
    /// The same, in its envelope.
    TaskStartedDebug,
    /// A message chunk.
    Chunk,
    /// The metadata of a message.
    MessageMetadata,
    /// The message so far.
    Message,
    /// A custom event of a tool or step.
    Custom,
    /// The update of a step.
    Update,
    /// A step ended.
    TaskEnded,
    /// The same, in its envelope.
    TaskEndedDebug,
    /// The state.
    Values,
    /// The point before anything was put in.
    InputCheckpoint,
    /// The same, in its envelope.
    InputCheckpointDebug,
    /// The point behind the step.
    Checkpoint,
    /// The same, in its envelope.
    CheckpointDebug,
    /// The run failed.
    RunFailed,
    /// The run's stream is over, on one that goes on over runs.
    RunDone,
}

impl EventSlot {
    const fn mode(self) -> StreamMode {
        match self {
            Self::RunStarted | Self::RunFailed | Self::RunDone => StreamMode::Always,
            Self::TaskStarted | Self::TaskEnded => StreamMode::Tasks,
            Self::Chunk => StreamMode::MessagesTuple,
            Self::MessageMetadata | Self::Message => StreamMode::Messages,
            Self::Custom => StreamMode::Custom,
            Self::Update => StreamMode::Updates,
            Self::Values => StreamMode::Values,
            Self::InputCheckpoint | Self::Checkpoint => StreamMode::Checkpoints,
            Self::TaskStartedDebug
            | Self::TaskEndedDebug
            | Self::InputCheckpointDebug
            | Self::CheckpointDebug => StreamMode::Debug,
        }
    }
}

/// Returns the id behind everything that the frame at `at` can become but the run's end, which may have been told by none.
pub(crate) const fn last_event_at(at: FramePosition) -> EventId {
    EventId { position: at, index: EventSlot::CheckpointDebug as u32 }
}

/// Selects whether events carry ids. Only resumable streams have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventIds {
    Sent,
    Omitted,
}

/// The events of one run, as they are written for one reader.
#[derive(Debug)]
pub(crate) struct ModeWriter {
    bytes: BytesMut,
    modes: StreamModes,
    event_ids: EventIds,
    /// The last event the reader has had.
    last_received: Option<EventId>,
    /// The last event that was written, or that the reader came too late for.
    last_written: EventId,
    position: FramePosition,
    /// Where within the run the next events come from; nothing is its root.
    namespace: Arc<str>,
}

impl ModeWriter {
    pub(crate) fn new(modes: StreamModes, event_ids: EventIds) -> Self {
        let (position, namespace) = (FramePosition::default(), "".into());
        Self {
            bytes: BytesMut::new(),
            modes,
            event_ids,
            last_received: None,
            last_written: EventId { position, index: 0 },
            position,
            namespace,
        }
    }

    /// Says which frame the next events come of.
    pub(crate) const fn set_position(&mut self, position: FramePosition) {
        self.position = position;
    }

    /// Returns the place of the frame that is told.
    pub(crate) const fn position(&self) -> FramePosition {
        self.position
    }

    /// Returns what the reader wants to see.
    pub(crate) const fn modes(&self) -> StreamModes {
        self.modes
    }

    /// Returns whether the reader gets an event of this kind here; whoever asks spares the work of making it.
    pub(crate) fn wants(&self, slot: EventSlot) -> bool {
        let is_new = self.last_received.is_none_or(|after| self.event_id(slot) > after);
        is_new && self.modes.has(slot.mode())
    }

    /// Writes an event, if the reader gets it.
    pub(crate) fn send(&mut self, slot: EventSlot, name: impl Display, data: &impl Serialize) {
        if self.wants(slot) {
            self.last_written = self.last_written.max(self.event_id(slot));
            let id = (self.event_ids == EventIds::Sent).then(|| self.event_id(slot));
            sse::write_event(&mut self.bytes, NamespacedName(name, &self.namespace), data, id);
        }
    }

    /// Says from where within the run the next events come.
    pub(crate) fn set_namespace(&mut self, namespace: &Arc<str>) {
        self.namespace = Arc::clone(namespace);
    }

    /// Writes that the run's stream is over, on one that goes on.
    pub(crate) fn write_run_done(&mut self, run_id: RunId) {
        self.send(EventSlot::RunDone, "metadata", &json!({"status": "run_done", "run_id": run_id}));
    }

    /// Writes that events are missing between two places.
    pub(crate) fn write_gap(&mut self, run_id: Option<RunId>, requested: EventId, latest: EventId) {
        let (requested, latest) = (requested.to_string(), latest.to_string());
        let mut told = json!({
            "code": "stream_replay_gap", "requested_event_id": requested,
            "earliest_available_event_id": latest, "latest_available_event_id": latest,
            "recovery": "reload_state",
        });
        if let Some(run_id) = run_id {
            told["run_id"] = json!(run_id);
        }
        self.write_without_id("gap", &told);
    }

    /// Writes an event that is told to everybody and has no place of its own.
    pub(crate) fn write_without_id(&mut self, name: &str, data: &impl Serialize) {
        sse::write_event(&mut self.bytes, name, data, None::<&str>);
    }

    /// Notes that the reader has had everything up to `last`.
    pub(crate) fn mark_received(&mut self, last: EventId) {
        self.last_received = self.last_received.max(Some(last));
    }

    /// Returns the last event that the reader has had; the beginning when nothing is known of that.
    pub(crate) fn cursor(&self) -> EventId {
        self.last_received.unwrap_or(EventId { position: FramePosition::default(), index: 0 })
    }

    /// Returns the last event that the reader has had, here or before it came.
    pub(crate) fn last_event(&self) -> EventId {
        self.cursor().max(self.last_written)
    }

    /// Notes that what was told so far was not for this reader.
    pub(crate) fn mark_skipped(&mut self) {
        self.last_written = last_event_at(self.position);
    }

    /// Leaves out everything until the cursor is forgotten.
    pub(crate) const fn skip_all(&mut self) {
        self.last_received =
            Some(EventId { position: FramePosition { seq: u64::MAX, sub: u32::MAX }, index: u32::MAX });
    }

    /// Forgets what the reader has had: what comes from here on is new to it.
    pub(crate) const fn forget_cursor(&mut self) {
        self.last_received = None;
    }

    fn event_id(&self, slot: EventSlot) -> EventId {
        EventId { position: self.position, index: slot as u32 }
    }
}

impl StreamWriter for ModeWriter {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn take_bytes(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    fn write_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// The name of an event, with where within the run it comes from; at the root it has no suffix.
struct NamespacedName<'a, T>(T, &'a str);

impl<T: Display> Display for NamespacedName<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            "" => self.0.fmt(f),
            namespace => write!(f, "{}|{namespace}", self.0),
        }
    }
}
