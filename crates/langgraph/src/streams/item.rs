//! The items of a run's stream, independent of a wire format, and the trait of the encoders that write them. The
//! translator makes the items from frames.

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
    /// The start of the run.
    RunStarted,
    /// The first item of a run whose start was lost.
    RunJoined,
    /// The start of a step, with the state at which the step starts. It is sent with the first effect of the step.
    TaskStarted(StreamedState<'a>),
    /// The failure of a step, with its message.
    TaskFailed(&'a str),
    /// A delta of the message that the model streams.
    Delta(MessageDelta<'a>),
    /// A tool call in the message that the model streams. The arguments follow with the stored message.
    ToolCall(ToolCallAnnouncement<'a>),
    /// The start of a tool's execution.
    ToolStarted { call_id: &'a str, name: &'a str, args: &'a Value },
    /// A custom event of a tool, a hook or a step.
    Custom { name: &'a str, payload: &'a Value },
    /// A message that is now stored.
    Message(StoredMessage<'a>),
    /// An event that is now stored. For the event of a message, this item follows [`Self::Message`].
    Stored(&'a Event),
    /// The changes of a step, which has ended.
    Update(StepWrites<'a>),
    /// The state after a change.
    Values(StreamedState<'a>),
    /// The checkpoints that a step wrote; `None` if the encoder does not need them.
    Checkpoints(Option<&'a CheckpointStates>),
    /// The state in the journal after lost frames. The stream is complete again from here on.
    Snapshot(&'a ThreadSnapshot, StreamedState<'a>),
    /// An interrupt that the run raised.
    Interrupted(&'a Interrupt),
    /// The stop of the run with its pending interrupts, or with none at a breakpoint.
    Paused(&'a [Interrupt], StreamedState<'a>),
    /// The end of the run, with the failure of a failed run.
    RunEnded(RunStatus, Option<WireRunFailure>),
}

/// A delta of a message that is being streamed.
#[derive(Debug)]
pub(crate) struct MessageDelta<'a> {
    /// The message so far, including this delta.
    pub(crate) message: &'a StreamedMessage,
    /// The text to append.
    pub(crate) text: &'a str,
    /// The effect of the delta on the segments of the message.
    pub(crate) segment: SegmentChange,
    /// True if this is the first item of the message.
    pub(crate) opens_message: bool,
}

/// A tool call that a message announces.
#[derive(Debug)]
pub(crate) struct ToolCallAnnouncement<'a> {
    /// The message so far.
    pub(crate) message: &'a StreamedMessage,
    /// The index of the call among the calls of the message, from 0.
    pub(crate) index: usize,
    pub(crate) call_id: &'a str,
    /// The name of the tool.
    pub(crate) name: &'a str,
    /// True if this is the first item of the message.
    pub(crate) opens_message: bool,
}

/// A message that is stored.
#[derive(Debug)]
pub(crate) struct StoredMessage<'a> {
    pub(crate) message: &'a StateMessage,
    /// The part of the message that was streamed; `None` if nothing was, or if the encoder does not need it.
    pub(crate) streamed: Option<StreamedMessage>,
    pub(crate) route: MessageRoute,
}

/// The source from which a stored message entered the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageRoute {
    /// Its frame.
    Frame,
    /// Its frame, after frames of the same step were lost.
    FrameAfterLoss,
    /// The journal, because its frame was lost.
    Journal,
}

/// The changes of a step.
#[derive(Debug)]
pub(crate) struct StepWrites<'a> {
    pub(crate) node: &'a str,
    /// The messages that the step stored, as JSON.
    pub(crate) messages: &'a [Arc<RawValue>],
    /// The other channels that the step set and clients may see.
    pub(crate) channels: &'a Map<String, Value>,
}

impl StepWrites<'_> {
    /// Returns the changes as one object, with the key `messages` first.
    pub(crate) fn to_object(&self) -> Map<String, Value> {
        let mut merged = self.channels.clone();
        if !self.messages.is_empty() {
            let messages = serde_json::to_value(RawMessages(self.messages)).unwrap_or_default();
            merged.shift_insert(0, "messages".to_owned(), messages);
        }
        merged
    }
}

/// The run or sub-agent from which an item comes, and its progress.
#[derive(Debug)]
pub(crate) struct ItemSource<'a> {
    pub(crate) origin: &'a RunOrigin,
    pub(crate) step: &'a CurrentStep,
    /// The time of the newest event of the run. Items have no time of their own, so that a replay gives the same
    /// events.
    pub(crate) clock: Timestamp,
    /// The newest checkpoint that was read from the journal.
    pub(crate) checkpoint: CheckpointMark,
}

/// The number and the creation time of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckpointMark {
    /// The number along the branch; see [`ThreadSnapshot::number`].
    pub(crate) number: i64,
    pub(crate) created_at: Timestamp,
}

/// The data that an encoder needs in addition to the frames. Data that the client did not request is not read from the
/// journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncoderNeeds {
    /// True to read the checkpoints that each step wrote.
    pub(crate) checkpoints: bool,
    /// True to read the messages of the thread, for complete states.
    pub(crate) messages: bool,
    /// True to send deltas, and to pass the streamed part of a message with the stored message.
    pub(crate) streamed_messages: bool,
    /// True to send the events that were stored with the run's admission, of which there are no frames.
    pub(crate) admission: bool,
}

/// The encoder of one wire format. It writes the items that its client requested, and drops the others.
pub(crate) trait Encoder {
    /// Sets the position of the frame from which the next items are made.
    fn set_frame_position(&mut self, position: FramePosition);

    /// Sets the namespace of the next items; an empty one is the run itself.
    fn enter_namespace(&mut self, namespace: &Arc<str>);

    /// Returns the data that the encoder needs for the current frame. It may differ between frames, because data for
    /// events that the client has already received is not needed.
    fn needs(&self) -> EncoderNeeds;

    /// Writes an item.
    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>);
}
