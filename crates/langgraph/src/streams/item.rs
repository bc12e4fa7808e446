//! The items of a run's stream, in no protocol's shape, and the encoder that each protocol has for them.

use std::sync::Arc;

use agent::{Position, State, StateMessage};
use jiff::Timestamp;
use protocol::{Event, Interrupt, RunStatus};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::streams::about::{About, Step};
use crate::streams::need::Points;
use crate::streams::speech::{Segment, Speech};
use crate::streams::transcript::{Raws, StreamedState};
use crate::wire::failure::RunFault;

/// One item of a run's stream.
#[derive(Debug)]
pub(crate) enum StreamItem<'a> {
    /// The run began.
    RunStarted,
    /// The run was found under way: its beginning was lost.
    RunFound,
    /// A step does something. It is sent once per step, with the state that the step begins with.
    TaskStarted(StreamedState<'a>),
    /// A step failed.
    TaskFailed(&'a str),
    /// A piece of the message that the model streams.
    Delta(Delta<'a>),
    /// The message that the model streams calls a tool. The arguments come with the stored message.
    ToolCall(ToolCall<'a>),
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
    Points(Option<&'a Points>),
    /// Frames were lost: the state from which on the stream is whole again.
    CaughtUp(&'a State, StreamedState<'a>),
    /// The run asks something.
    Interrupted(&'a Interrupt),
    /// The run stopped: for the answers to what it asked, or, where it asked nothing, at a breakpoint.
    Paused(&'a [Interrupt], StreamedState<'a>),
    /// The run ended.
    RunEnded(RunStatus, Option<RunFault>),
}

/// A piece of a message that is being streamed.
#[derive(Debug)]
pub(crate) struct Delta<'a> {
    /// The message so far, with this piece.
    pub(crate) speech: &'a Speech,
    pub(crate) text: &'a str,
    /// Whether it is in a segment of its own.
    pub(crate) segment: Segment,
    /// Whether the message begins with it.
    pub(crate) opens_message: bool,
}

/// A tool call that a message announces.
#[derive(Debug)]
pub(crate) struct ToolCall<'a> {
    /// The message so far.
    pub(crate) speech: &'a Speech,
    /// Which of the message's calls, from 0.
    pub(crate) index: usize,
    pub(crate) call_id: &'a str,
    pub(crate) name: &'a str,
    /// Whether the message begins with it.
    pub(crate) opens_message: bool,
}

/// A message that is stored.
#[derive(Debug)]
pub(crate) struct StoredMessage<'a> {
    pub(crate) message: &'a StateMessage,
    /// What was streamed of it.
    pub(crate) speech: Option<Speech>,
    pub(crate) route: Route,
}

/// How a message comes to be in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// By its frame.
    Frame,
    /// By its frame, behind frames of the same step that were lost.
    FrameAfterLoss,
    /// From the journal, instead of its frame.
    Journal,
}

/// What a step wrote.
#[derive(Debug)]
pub(crate) struct StepWrites<'a> {
    pub(crate) node: &'a str,
    pub(crate) messages: &'a [Arc<RawValue>],
    pub(crate) channels: &'a Map<String, Value>,
}

impl StepWrites<'_> {
    /// Returns them as one object, the messages first.
    pub(crate) fn merged(&self) -> Map<String, Value> {
        let mut merged = self.channels.clone();
        if !self.messages.is_empty() {
            let messages = serde_json::to_value(Raws(self.messages)).unwrap_or_default();
            merged.shift_insert(0, "messages".to_owned(), messages);
        }
        merged
    }
}

/// The run, or the sub-agent's run, that an item comes from, and how far it is.
#[derive(Debug)]
pub(crate) struct ItemSource<'a> {
    pub(crate) about: &'a About,
    pub(crate) step: &'a Step,
    /// The newest moment that an event of the run told.
    pub(crate) clock: Timestamp,
    pub(crate) point: PointMark,
}

/// The number and the time of a point of the thread's past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointMark {
    pub(crate) number: i64,
    pub(crate) created_at: Timestamp,
}

/// What an encoder needs of the translator, beyond what frames hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) points: bool,
    pub(crate) messages: bool,
    /// What was streamed of a message so far.
    pub(crate) speech: bool,
    /// What was stored as the run was admitted.
    pub(crate) admission: bool,
}

/// The encoder of one protocol: it writes the items that its client wants.
pub(crate) trait Encoder {
    /// Says which frame the next items come from.
    fn at(&mut self, position: Position);

    /// Says from where within the run the next items come; nothing is its root.
    fn enter(&mut self, namespace: &Arc<str>);

    /// Returns what the next items must come with.
    fn needs(&self) -> Needs;

    /// Writes an item.
    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>);
}
