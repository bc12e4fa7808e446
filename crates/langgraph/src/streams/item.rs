//! The items of a run's stream, in no protocol's shape, and the encoder that each protocol has for them.

use std::sync::Arc;

use agent::{FramePosition, StateMessage, ThreadSnapshot};
use jiff::Timestamp;
use protocol::{Event, Interrupt, RunStatus};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::streams::journal_query::CheckpointStates;
use crate::streams::origin::{CurrentStep, RunOrigin};
use crate::streams::streamed_message::{SegmentChange, StreamedMessage};
use crate::streams::transcript::{RawMessages, StreamedState};
use crate::wire::failure::WireRunFailure;

/// One item of a run's stream.
#[derive(Debug)]
pub(crate) enum StreamItem<'a> {
    /// The run began.
    RunStarted,
    /// The run was found under way: its beginning was lost.
    RunJoined,
    /// A step does something. It is sent once per step, with the state that the step begins with.
    TaskStarted(StreamedState<'a>),
    /// A step failed.
    TaskFailed(&'a str),
    /// A piece of the message that the model streams.
    Delta(MessageDelta<'a>),
    /// The message that the model streams calls a tool. The arguments come with the stored message.
    ToolCall(ToolCallAnnouncement<'a>),
    /// A tool call begins to run.
    ToolStarted { call_id: &'a str, name: &'a str, args: &'a Value },
    /// Whatever a tool, a hook or a step tells clients.
    Custom { name: &'a str, payload: &'a Value },
    /// A message is stored.
    Message(StoredMessage<'a>),
    /// An event is stored. One that is a message follows its message.
    Stored(&'a Event),
    /// A step wrote something, and is over.
    Update(StepWrites<'a>),
    /// The state changed.
    Values(StreamedState<'a>),
    /// The points of the thread's past that a step wrote, as far as they were asked for.
    Checkpoints(Option<&'a CheckpointStates>),
    /// Frames were lost: the state from which on the stream is whole again.
    Snapshot(&'a ThreadSnapshot, StreamedState<'a>),
    /// The run asks something.
    Interrupted(&'a Interrupt),
    /// The run stopped: for the answers to what it asked, or, where it asked nothing, at a breakpoint.
    Paused(&'a [Interrupt], StreamedState<'a>),
    /// The run ended.
    RunEnded(RunStatus, Option<WireRunFailure>),
}

/// A piece of a message that is being streamed.
#[derive(Debug)]
pub(crate) struct MessageDelta<'a> {
    /// The message so far, with this piece.
    pub(crate) message: &'a StreamedMessage,
    pub(crate) text: &'a str,
    /// The segment that the delta belongs to.
    pub(crate) segment: SegmentChange,
    /// True if the message starts with it.
    pub(crate) opens_message: bool,
}

/// A tool call that a message announces.
#[derive(Debug)]
pub(crate) struct ToolCallAnnouncement<'a> {
    /// The message so far.
    pub(crate) message: &'a StreamedMessage,
    /// Which of the message's calls, from 0.
    pub(crate) index: usize,
    pub(crate) call_id: &'a str,
    pub(crate) name: &'a str,
    /// True if the message starts with it.
    pub(crate) opens_message: bool,
}

/// A message that is stored.
#[derive(Debug)]
pub(crate) struct StoredMessage<'a> {
    pub(crate) message: &'a StateMessage,
    /// The streamed part of the message.
    pub(crate) streamed: Option<StreamedMessage>,
    pub(crate) route: MessageRoute,
}

/// How a message comes to be in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageRoute {
    /// By its frame.
    Frame,
    /// By its frame, behind frames of the same step that were lost.
    FrameAfterLoss,
    /// From the journal, instead of its frame.
    Journal,
}

/// The update of a step.
#[derive(Debug)]
pub(crate) struct StepWrites<'a> {
    pub(crate) node: &'a str,
    pub(crate) messages: &'a [Arc<RawValue>],
    pub(crate) channels: &'a Map<String, Value>,
}

impl StepWrites<'_> {
    /// Returns them as one object, the messages first.
    pub(crate) fn to_object(&self) -> Map<String, Value> {
        let mut merged = self.channels.clone();
        if !self.messages.is_empty() {
            let messages = serde_json::to_value(RawMessages(self.messages)).unwrap_or_default();
            merged.shift_insert(0, "messages".to_owned(), messages);
        }
        merged
    }
}

/// The run, or the sub-agent's run, that an item comes from, and how far it is.
#[derive(Debug)]
pub(crate) struct ItemSource<'a> {
    pub(crate) origin: &'a RunOrigin,
    pub(crate) step: &'a CurrentStep,
    /// The newest moment that an event of the run told.
    pub(crate) clock: Timestamp,
    pub(crate) checkpoint: CheckpointMark,
}

/// The number and the time of a point of the thread's past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckpointMark {
    pub(crate) number: i64,
    pub(crate) created_at: Timestamp,
}

/// Items that an encoder needs in addition to those of the frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncoderNeeds {
    pub(crate) checkpoints: bool,
    pub(crate) messages: bool,
    /// True to pass the streamed part of a message.
    pub(crate) streamed_messages: bool,
    /// True to pass the events that were stored with the admission.
    pub(crate) admission: bool,
}

/// The encoder of one protocol: it writes the items that its client wants.
pub(crate) trait Encoder {
    /// Says which frame the next items come from.
    fn set_frame_position(&mut self, position: FramePosition);

    /// Says from where within the run the next items come; nothing is its root.
    fn enter_namespace(&mut self, namespace: &Arc<str>);

    /// Returns what the next items must come with.
    fn needs(&self) -> EncoderNeeds;

    /// Writes an item.
    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>);
}
