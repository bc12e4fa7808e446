//! Frames: the live view of a run that clients receive. Everything that lasts is in the journal. Delivery is in
//! [`crate::stream`].

use protocol::{CheckpointId, Event, FailureKind, Interrupt, RunFailure, RunId, RunStatus, Seq, ThreadId};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::step::Channels;

/// A category of frames that a client can subscribe to. The start and end of runs and steps, and interrupts,
/// belong to every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameMode {
    /// Messages of people, models and tools: the streamed parts and the stored events.
    Messages,
    /// The changes of each step.
    Updates,
    /// The state after each step.
    Values,
    /// Additional output of tools and steps: live output, progress and notices.
    Custom,
}

/// One item of a run's live view.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum Frame {
    /// A run started or resumed.
    RunStarted {
        /// The thread of the run.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
    },
    /// A step started.
    StepStarted {
        /// The node of the step.
        node: String,
        /// The number of the step within the run.
        step: u64,
    },
    /// More text of the model's answer.
    Text {
        /// The id under which the answer is stored.
        message_id: String,
        /// The text to append.
        text: String,
    },
    /// More of the model's reasoning.
    Thinking {
        /// The id under which the answer is stored.
        message_id: String,
        /// The text to append.
        text: String,
    },
    /// The model's answer contains a tool call. The arguments follow with the complete answer.
    ToolCall {
        /// The id under which the answer is stored.
        message_id: String,
        /// The index of the call among the calls of the answer, from 0.
        index: usize,
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        name: String,
    },
    /// A tool call started to run.
    ToolStarted {
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// The arguments of the call.
        args: Value,
    },
    /// A tool call ended.
    ToolEnded {
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// True if the call failed.
        failed: bool,
    },
    /// More output of a running tool.
    ToolOutput {
        /// The id of the call.
        call_id: String,
        /// The text to append.
        text: String,
    },
    /// A custom frame of a tool or hook.
    Custom {
        /// The kind of frame.
        name: String,
        /// The content; its shape depends on the kind.
        value: Value,
    },
    /// A frame of a sub-agent.
    #[serde(rename = "custom")]
    Subagent(SubagentFrame),
    /// The changes of a step that is now durable. The step's events precede this frame as frames of their own.
    Updates {
        /// The node of the step.
        node: String,
        /// The channels that the step set; a `null` removed the channel. Private channels are left out.
        channels: Channels,
    },
    /// The state after a step that is now durable, or at the start of a run. The thread's messages are those of
    /// the journal up to `head_seq`.
    Values {
        /// The run.
        run_id: RunId,
        /// The number of steps of the run so far; 0 is the admission.
        step: u64,
        /// The checkpoint that holds the state.
        checkpoint_id: CheckpointId,
        /// The sequence number of the thread's newest event.
        head_seq: Seq,
        /// The node that runs next.
        next: Option<String>,
        /// The channels of the state. Private channels are left out.
        channels: Channels,
    },
    /// The progress of a long step.
    Progress {
        /// The operation, including the unit of the numbers.
        what: String,
        /// The amount that is done, in that unit.
        done: u64,
        /// The total amount in that unit, if it is known.
        total: Option<u64>,
    },
    /// Information for a person that is no failure.
    Notice {
        /// The text, one line.
        text: String,
    },
    /// An attempt at a model call failed, for which the outcome of the step reports the failure too. Serialized
    /// as a notice.
    #[serde(rename = "notice")]
    AttemptFailed {
        /// The reason, one line.
        text: String,
    },
    /// A stored event, with its sequence number.
    Event(Box<Event>),
    /// The run stopped with a question.
    Interrupted(Box<Interrupt>),
    /// The run ended. This is the last frame of the run; frames of other runs may follow on the same stream. If
    /// another process took the run over or the journal failed, this frame is missing and the stream just ends.
    RunEnded {
        /// The run.
        run_id: RunId,
        /// The final status of the run.
        status: RunStatus,
        /// The reason why the run did not succeed, if it did not.
        #[serde(flatten, serialize_with = "flat_failure")]
        failure: Option<RunFailure>,
    },
}

/// Serializes a failure as the flat fields `kind`, `error` and `hint`. Missing values are `null`.
fn flat_failure<S: Serializer>(
    failure: &Option<RunFailure>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct FailureFields<'a> {
        kind: Option<&'a FailureKind>,
        error: Option<&'a str>,
        hint: Option<&'a str>,
    }
    let failure = failure.as_ref();
    let fields = FailureFields {
        kind: failure.map(|failure| &failure.kind),
        error: failure.map(|failure| failure.message.as_str()),
        hint: failure.and_then(|failure| failure.hint.as_deref()),
    };
    fields.serialize(serializer)
}

/// A frame of a sub-agent in the stream of the run whose tool call it works for. It is serialized as a custom
/// frame named `subagent`.
#[derive(Debug, Clone)]
pub struct SubagentFrame {
    /// The id of the call that the sub-agent works for.
    pub call_id: String,
    /// The thread of the sub-agent.
    pub thread_id: ThreadId,
    /// The sub-agent's frame.
    pub frame: Box<Frame>,
}

impl Serialize for SubagentFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct SubagentFrameValue<'a> {
            call_id: &'a str,
            thread_id: ThreadId,
            frame: &'a Frame,
        }
        let Self { call_id, thread_id, frame } = self;
        let mut custom = serializer.serialize_struct("Within", 2)?;
        custom.serialize_field("name", "subagent")?;
        custom.serialize_field("value", &SubagentFrameValue { call_id, thread_id: *thread_id, frame })?;
        custom.end()
    }
}

impl Frame {
    /// Returns the mode that the frame belongs to; `None` means every mode.
    pub fn mode(&self) -> Option<FrameMode> {
        match self {
            Self::Text { .. }
            | Self::Thinking { .. }
            | Self::ToolCall { .. }
            | Self::ToolStarted { .. }
            | Self::ToolEnded { .. } => Some(FrameMode::Messages),
            Self::Event(event) => match event.category.as_str() {
                "message" => Some(FrameMode::Messages),
                _ => Some(FrameMode::Updates),
            },
            Self::Updates { .. } => Some(FrameMode::Updates),
            Self::Values { .. } => Some(FrameMode::Values),
            Self::Subagent(subagent) => subagent.frame.mode().or(Some(FrameMode::Custom)),
            Self::ToolOutput { .. }
            | Self::Custom { .. }
            | Self::Progress { .. }
            | Self::Notice { .. }
            | Self::AttemptFailed { .. } => Some(FrameMode::Custom),
            Self::RunStarted { .. }
            | Self::StepStarted { .. }
            | Self::Interrupted(_)
            | Self::RunEnded { .. } => None,
        }
    }

    /// Returns the estimated size of the frame in bytes.
    pub(crate) fn size_in_bytes(&self) -> usize {
        /// The estimated overhead of an allocation and of its entry in a collection, in bytes.
        const ALLOCATION_OVERHEAD: usize = 128;
        size_of::<Self>()
            + ALLOCATION_OVERHEAD
            + match self {
                Self::Text { text, .. }
                | Self::Thinking { text, .. }
                | Self::ToolOutput { text, .. }
                | Self::Notice { text }
                | Self::AttemptFailed { text } => text.len(),
                Self::Event(event) => size_of_val(&**event) + ALLOCATION_OVERHEAD + event.content.get().len(),
                Self::ToolCall { call_id, name, .. } | Self::ToolEnded { call_id, name, .. } => {
                    call_id.len() + name.len()
                }
                Self::ToolStarted { call_id, name, args } => call_id.len() + name.len() + json_size(args),
                Self::Subagent(subagent) => subagent.call_id.len() + subagent.frame.size_in_bytes(),
                Self::Custom { name, value } => name.len() + json_size(value),
                Self::Updates { channels, .. } | Self::Values { channels, .. } => {
                    channels.values().map(json_size).sum()
                }
                Self::Interrupted(interrupt) => {
                    interrupt.payload.action_requests.iter().map(|request| json_size(&request.args)).sum()
                }
                Self::RunStarted { .. }
                | Self::StepStarted { .. }
                | Self::Progress { .. }
                | Self::RunEnded { .. } => 0,
            }
    }
}

/// Returns the estimated size of a JSON value in bytes.
fn json_size(value: &Value) -> usize {
    /// The estimated size of a value with its entry in a collection, in bytes.
    const VALUE_SIZE: usize = 64;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE_SIZE,
        Value::String(text) => VALUE_SIZE + text.len(),
        Value::Array(items) => VALUE_SIZE + items.iter().map(json_size).sum::<usize>(),
        Value::Object(fields) => {
            VALUE_SIZE + fields.iter().map(|(key, value)| key.len() + json_size(value)).sum::<usize>()
        }
    }
}

/// Returns the channels without the private ones, whose keys begin with `_`.
pub(crate) fn public_channels(channels: &Channels) -> Channels {
    let public = channels.iter().filter(|(key, _)| !key.starts_with('_'));
    public.map(|(key, value)| (key.clone(), value.clone())).collect()
}
