//! The writer of a run's events for one client: it serializes events as server-sent events, and drops those that the
//! client did not request or has already received.
//!
//! Each kind of event has a fixed index within its frame ([`EventSlot`]). The id of an event is therefore the same
//! for every client, independent of the requested modes. The payloads are made in [`crate::modes::encode`].

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

/// The kinds of events that can be made from one frame, in the order in which they are sent.
///
/// The discriminant is the last part of the event id, which clients keep and send back. Inserting a variant in the
/// middle changes the ids of existing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventSlot {
    /// The start of the run.
    RunStarted,
    /// The start of a step.
    TaskStarted,
    /// The start of a step, in the envelope of `debug`.
    TaskStartedDebug,
    /// A message chunk.
    Chunk,
    /// The metadata of a message.
    MessageMetadata,
    /// A message, complete or with the text so far.
    Message,
    /// A custom event of a tool, hook or step.
    Custom,
    /// The changes of a step, or the pending interrupts.
    Update,
    /// The end of a step.
    TaskEnded,
    /// The end of a step, in the envelope of `debug`.
    TaskEndedDebug,
    /// The complete state.
    Values,
    /// The checkpoint before the input of the run.
    InputCheckpoint,
    /// The checkpoint before the input of the run, in the envelope of `debug`.
    InputCheckpointDebug,
    /// The checkpoint after the step.
    Checkpoint,
    /// The checkpoint after the step, in the envelope of `debug`.
    CheckpointDebug,
    /// The failure of the run.
    RunFailed,
    /// The end of the run, in a stream that continues with the thread's next run.
    RunDone,
}

impl EventSlot {
    /// Returns the mode in which the event is sent.
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

/// Returns the id of the last possible event of the frame at `position`, apart from the events of the run's end. The
/// latter are excluded, because a client that has received everything else may still need them.
pub(crate) const fn last_event_at(position: FramePosition) -> EventId {
    EventId { position, index: EventSlot::CheckpointDebug as u32 }
}

/// Selects whether events have ids. Only the events of resumable streams have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventIds {
    Sent,
    Omitted,
}

/// The writer of one run's events for one client.
#[derive(Debug)]
pub(crate) struct ModeWriter {
    /// The serialized events that were not taken yet.
    bytes: BytesMut,
    modes: StreamModes,
    event_ids: EventIds,
    /// The last event that the client has received: events up to it are dropped. `None` drops nothing.
    last_received: Option<EventId>,
    /// The last event that was written, or that was skipped because the client joined later.
    last_written: EventId,
    /// The position of the current frame.
    position: FramePosition,
    /// The namespace of the sub-agent from which the next events come; empty for the run itself.
    namespace: Arc<str>,
}

impl ModeWriter {
    /// Returns a writer at the beginning of a run, for a client that has received nothing.
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

    /// Sets the position of the frame from which the next events are made.
    pub(crate) const fn set_position(&mut self, position: FramePosition) {
        self.position = position;
    }

    /// Returns the position of the current frame.
    pub(crate) const fn position(&self) -> FramePosition {
        self.position
    }

    /// Returns the modes that the client requested.
    pub(crate) const fn modes(&self) -> StreamModes {
        self.modes
    }

    /// Returns whether the client gets an event of this kind for the current frame. Check it before building an
    /// expensive payload.
    pub(crate) fn wants(&self, slot: EventSlot) -> bool {
        let is_new = self.last_received.is_none_or(|after| self.event_id(slot) > after);
        is_new && self.modes.has(slot.mode())
    }

    /// Writes an event of the current frame, if the client gets it.
    pub(crate) fn send(&mut self, slot: EventSlot, name: impl Display, data: &impl Serialize) {
        if self.wants(slot) {
            self.last_written = self.last_written.max(self.event_id(slot));
            let id = (self.event_ids == EventIds::Sent).then(|| self.event_id(slot));
            sse::write_event(&mut self.bytes, NamespacedName(name, &self.namespace), data, id);
        }
    }

    /// Sets the namespace of the next events.
    pub(crate) fn set_namespace(&mut self, namespace: &Arc<str>) {
        self.namespace = Arc::clone(namespace);
    }

    /// Writes the event that the run is done, in a stream that continues with the thread's next run.
    pub(crate) fn write_run_done(&mut self, run_id: RunId) {
        self.send(EventSlot::RunDone, "metadata", &json!({"status": "run_done", "run_id": run_id}));
    }

    /// Writes that the events between the two ids are missing. The client should reload the state. `run_id` is `None`
    /// if the missing events belong to several runs.
    pub(crate) fn write_gap(&mut self, run_id: Option<RunId>, requested: EventId, latest: EventId) {
        let (requested, latest) = (requested.to_string(), latest.to_string());
        let mut gap = json!({
            "code": "stream_replay_gap", "requested_event_id": requested,
            "earliest_available_event_id": latest, "latest_available_event_id": latest,
            "recovery": "reload_state",
        });
        if let Some(run_id) = run_id {
            gap["run_id"] = json!(run_id);
        }
        self.write_without_id("gap", &gap);
    }

    /// Writes an event without an id. Every client gets it, because it has no position that a client may have received.
    pub(crate) fn write_without_id(&mut self, name: &str, data: &impl Serialize) {
        sse::write_event(&mut self.bytes, name, data, None::<&str>);
    }

    /// Records that the client has received all events up to `last`. An earlier id has no effect.
    pub(crate) fn mark_received(&mut self, last: EventId) {
        self.last_received = self.last_received.max(Some(last));
    }

    /// Returns the last event that the client has received before this stream; the first possible id if that is
    /// unknown.
    pub(crate) fn cursor(&self) -> EventId {
        self.last_received.unwrap_or(EventId { position: FramePosition::default(), index: 0 })
    }

    /// Returns the last event that the client has received, before this stream or from this writer.
    pub(crate) fn last_event(&self) -> EventId {
        self.cursor().max(self.last_written)
    }

    /// Records that everything up to the current frame was skipped: the client joined after it.
    pub(crate) fn mark_skipped(&mut self) {
        self.last_written = last_event_at(self.position);
    }

    /// Drops all events until [`Self::forget_cursor`] is called.
    pub(crate) const fn skip_all(&mut self) {
        self.last_received =
            Some(EventId { position: FramePosition { seq: u64::MAX, sub: u32::MAX }, index: u32::MAX });
    }

    /// Forgets which events the client has received. All further events are written.
    pub(crate) const fn forget_cursor(&mut self) {
        self.last_received = None;
    }

    /// Returns the id of an event of the current frame.
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

/// Displays an event name with its namespace: `values|tools:c9`, or `values` for an empty namespace.
struct NamespacedName<'a, T>(T, &'a str);

impl<T: Display> Display for NamespacedName<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            "" => self.0.fmt(f),
            namespace => write!(f, "{}|{namespace}", self.0),
        }
    }
}
