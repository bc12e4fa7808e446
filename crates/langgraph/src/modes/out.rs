//! The sending end of a stream of one run: events are written as bytes, one behind the other, those nobody asked for and
//! those a client has had already left out. Each kind of event has a fixed number within what one frame becomes, so that
//! ids are the same for every reader, whatever it asked for. What an event says is not decided here.

use std::fmt::{self, Display};
use std::sync::Arc;

use agent::Position;
use bytes::{Bytes, BytesMut};
use protocol::RunId;
use serde::Serialize;
use serde_json::json;

use crate::modes::cursor::EventId;
use crate::modes::mode::{Mode, Modes};
use crate::sse;
use crate::streams::follow::StreamWriter;

/// The kinds of event that one frame can become, in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// The run began.
    Begin,
    /// A step began.
    TaskBegan,
    /// The same, in its envelope.
    TaskBeganDebug,
    /// What was said, as a chunk.
    Chunk,
    /// Who says it.
    MessageMetadata,
    /// What was said so far.
    Message,
    /// What a tool or step tells.
    Custom,
    /// What a step wrote.
    Update,
    /// A step ended.
    TaskEnded,
    /// The same, in its envelope.
    TaskEndedDebug,
    /// The state.
    Values,
    /// The point before anything was put in.
    InputPoint,
    /// The same, in its envelope.
    InputPointDebug,
    /// The point behind the step.
    Point,
    /// The same, in its envelope.
    PointDebug,
    /// The run failed.
    Failure,
    /// The run's stream is over, on one that goes on over runs.
    Done,
}

impl Slot {
    const fn mode(self) -> Mode {
        match self {
            Self::Begin | Self::Failure | Self::Done => Mode::Always,
            Self::TaskBegan | Self::TaskEnded => Mode::Tasks,
            Self::Chunk => Mode::Tuple,
            Self::MessageMetadata | Self::Message => Mode::Messages,
            Self::Custom => Mode::Custom,
            Self::Update => Mode::Updates,
            Self::Values => Mode::Values,
            Self::InputPoint | Self::Point => Mode::Checkpoints,
            Self::TaskBeganDebug | Self::TaskEndedDebug | Self::InputPointDebug | Self::PointDebug => {
                Mode::Debug
            }
        }
    }
}

/// Returns the id behind everything that the frame at `at` can become but the run's end, which may have been told by none.
pub(crate) const fn all_at(at: Position) -> EventId {
    EventId { at, n: Slot::PointDebug as u32 }
}

/// Whether events carry ids: only on a stream one can come back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    Sent,
    LeftOut,
}

/// The events of one run, as they are written for one reader.
#[derive(Debug)]
pub(crate) struct ModeWriter {
    bytes: BytesMut,
    modes: Modes,
    ids: Ids,
    /// The last event the reader has had.
    after: Option<EventId>,
    /// The last event that was written, or that the reader came too late for.
    written: EventId,
    at: Position,
    /// Where within the run the next events come from; nothing is its root.
    within: Arc<str>,
}

impl ModeWriter {
    pub(crate) fn new(modes: Modes, ids: Ids) -> Self {
        let (at, within) = (Position::default(), "".into());
        Self { bytes: BytesMut::new(), modes, ids, after: None, written: EventId { at, n: 0 }, at, within }
    }

    /// Says which frame the next events come of.
    pub(crate) const fn set_position(&mut self, position: Position) {
        self.at = position;
    }

    /// Returns the place of the frame that is told.
    pub(crate) const fn place(&self) -> Position {
        self.at
    }

    /// Returns what the reader wants to see.
    pub(crate) const fn modes(&self) -> Modes {
        self.modes
    }

    /// Returns whether the reader gets an event of this kind here; whoever asks spares the work of making it.
    pub(crate) fn wants(&self, slot: Slot) -> bool {
        let is_new = self.after.is_none_or(|after| self.id(slot) > after);
        is_new && self.modes.has(slot.mode())
    }

    /// Writes an event, if the reader gets it.
    pub(crate) fn send(&mut self, slot: Slot, name: impl Display, data: &impl Serialize) {
        if self.wants(slot) {
            self.written = self.written.max(self.id(slot));
            let id = (self.ids == Ids::Sent).then(|| self.id(slot));
            sse::write(&mut self.bytes, Named(name, &self.within), data, id);
        }
    }

    /// Says from where within the run the next events come.
    pub(crate) fn set_namespace(&mut self, namespace: &Arc<str>) {
        self.within = Arc::clone(namespace);
    }

    /// Writes that the run's stream is over, on one that goes on.
    pub(crate) fn done(&mut self, run_id: RunId) {
        self.send(Slot::Done, "metadata", &json!({"status": "run_done", "run_id": run_id}));
    }

    /// Writes that events are missing between two places.
    pub(crate) fn gap(&mut self, run_id: Option<RunId>, requested: EventId, latest: EventId) {
        let (requested, latest) = (requested.to_string(), latest.to_string());
        let mut told = json!({
            "code": "stream_replay_gap", "requested_event_id": requested,
            "earliest_available_event_id": latest, "latest_available_event_id": latest,
            "recovery": "reload_state",
        });
        if let Some(run_id) = run_id {
            told["run_id"] = json!(run_id);
        }
        self.tell("gap", &told);
    }

    /// Writes an event that is told to everybody and has no place of its own.
    pub(crate) fn tell(&mut self, name: &str, data: &impl Serialize) {
        sse::write(&mut self.bytes, name, data, None::<&str>);
    }

    /// Notes that the reader has had everything up to `last`.
    pub(crate) fn had(&mut self, last: EventId) {
        self.after = self.after.max(Some(last));
    }

    /// Returns the last event that the reader has had; the beginning when nothing is known of that.
    pub(crate) fn cursor(&self) -> EventId {
        self.after.unwrap_or(EventId { at: Position::default(), n: 0 })
    }

    /// Returns the last event that the reader has had, here or before it came.
    pub(crate) fn last(&self) -> EventId {
        self.cursor().max(self.written)
    }

    /// Notes that what was told so far was not for this reader.
    pub(crate) fn passed(&mut self) {
        self.written = all_at(self.at);
    }

    /// Leaves out everything until the cursor is forgotten.
    pub(crate) const fn pass_over(&mut self) {
        self.after = Some(EventId { at: Position { seq: u64::MAX, sub: u32::MAX }, n: u32::MAX });
    }

    /// Forgets what the reader has had: what comes from here on is new to it.
    pub(crate) const fn forget_cursor(&mut self) {
        self.after = None;
    }

    fn id(&self, slot: Slot) -> EventId {
        EventId { at: self.at, n: slot as u32 }
    }
}

impl StreamWriter for ModeWriter {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// The name of an event, with where within the run it comes from; at the root it has no suffix.
struct Named<'a, T>(T, &'a str);

impl<T: Display> Display for Named<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            "" => self.0.fmt(f),
            namespace => write!(f, "{}|{namespace}", self.0),
        }
    }
}
