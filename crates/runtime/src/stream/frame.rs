//! Frames: what a client sees while a run works. They are a view; what lasts is in the journal. How they travel is
//! in [`crate::stream`].

use protocol::{CheckpointId, Event, FailureKind, Interrupt, RunFailure, RunId, RunStatus, Seq, ThreadId};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::step::Channels;

/// A part of what a run tells; a client subscribes to some. Beginnings, ends and questions belong to every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// What people, models and tools say, as it is said and as it is stored.
    Messages,
    /// What each step changed.
    Updates,
    /// The state after each step.
    Values,
    /// What tools and steps tell beside that: live output, progress, notices.
    Custom,
}

/// One thing a client may show.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum Frame {
    /// A run began or resumed.
    RunStarted {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
    },
    /// A node began.
    StepStarted {
        /// The node.
        node: String,
        /// The number of the step within the run.
        step: u64,
    },
    /// More text of the model's answer.
    Text {
        /// The id under which the answer is stored.
        message_id: String,
        /// The text.
        text: String,
    },
    /// More of the model's reasoning.
    Thinking {
        /// The id under which the answer is stored.
        message_id: String,
        /// The text.
        text: String,
    },
    /// The model's answer calls a tool; the arguments come with the whole answer.
    ToolCall {
        /// The id under which the answer is stored.
        message_id: String,
        /// Which of the answer's calls, from 0.
        index: usize,
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
    },
    /// A tool call begins to run.
    ToolStarted {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// The arguments.
        args: Value,
    },
    /// A tool call ended.
    ToolEnded {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// Whether it failed.
        failed: bool,
    },
    /// More output of a tool that still runs.
    ToolOutput {
        /// The call.
        call_id: String,
        /// The text.
        text: String,
    },
    /// Anything a tool or hook wants to tell a client.
    Custom {
        /// What it is.
        name: String,
        /// The matter.
        value: Value,
    },
    /// What a sub-agent does.
    #[serde(rename = "custom")]
    Within(Within),
    /// A step is durable: what it changed. Its events are frames of their own, before this one.
    Updates {
        /// The node.
        node: String,
        /// The channels it set; a `null` removed one. Private ones are left out.
        channels: Channels,
    },
    /// A step is durable: the state after it; or a run began, and this is what it begins with. The messages are the
    /// journal's up to `head_seq`.
    Values {
        /// The run.
        run_id: RunId,
        /// Its steps so far; 0 is the admission.
        step: u64,
        /// The checkpoint.
        checkpoint_id: CheckpointId,
        /// The journal's position.
        head_seq: Seq,
        /// The node that comes next.
        next: Option<String>,
        /// The channels; private ones are left out.
        channels: Channels,
    },
    /// A long step is under way.
    Progress {
        /// What is being done.
        what: String,
        /// How far, in the unit `what` names.
        done: u64,
        /// How much there is, if known.
        total: Option<u64>,
    },
    /// Something a person should know that fails nothing.
    Notice {
        /// One line.
        text: String,
    },
    /// A model's attempt at a step failed, and the outcome of the step says so again. To programs it is a notice.
    #[serde(rename = "notice")]
    AttemptFailed {
        /// Why, in one line.
        text: String,
    },
    /// A stored event, with its seq.
    Event(Box<Event>),
    /// The run stopped to ask.
    Interrupted(Box<Interrupt>),
    /// The run ended, and this is its last frame; others may follow on the same stream. A run that another process
    /// took over, or whose journal failed, ends here without one: its stream is closed.
    RunEnded {
        /// The run.
        run_id: RunId,
        /// How it ended.
        status: RunStatus,
        /// Why, when it did not succeed.
        #[serde(flatten, serialize_with = "flat_failure")]
        failure: Option<RunFailure>,
    },
}

/// Writes a failure as the fields `kind`, `error` and `hint`, which are `null` where there is none.
fn flat_failure<S: Serializer>(
    failure: &Option<RunFailure>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields<'a> {
        kind: Option<&'a FailureKind>,
        error: Option<&'a str>,
        hint: Option<&'a str>,
    }
    let failure = failure.as_ref();
    let fields = Fields {
        kind: failure.map(|failure| &failure.kind),
        error: failure.map(|failure| failure.message.as_str()),
        hint: failure.and_then(|failure| failure.hint.as_deref()),
    };
    fields.serialize(serializer)
}

/// A frame of a sub-agent, among those of the run that made the call it works for. To programs it is a custom frame
/// `subagent`.
#[derive(Debug, Clone)]
pub struct Within {
    /// The call.
    pub call_id: String,
    /// The thread the sub-agent works in.
    pub thread_id: ThreadId,
    /// What it tells.
    pub frame: Box<Frame>,
}

impl Serialize for Within {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Told<'a> {
            call_id: &'a str,
            thread_id: ThreadId,
            frame: &'a Frame,
        }
        let Self { call_id, thread_id, frame } = self;
        let mut custom = serializer.serialize_struct("Within", 2)?;
        custom.serialize_field("name", "subagent")?;
        custom.serialize_field("value", &Told { call_id, thread_id: *thread_id, frame })?;
        custom.end()
    }
}

impl Frame {
    /// Returns the mode it belongs to; `None` belongs to every mode.
    pub fn mode(&self) -> Option<Mode> {
        match self {
            Self::Text { .. }
            | Self::Thinking { .. }
            | Self::ToolCall { .. }
            | Self::ToolStarted { .. }
            | Self::ToolEnded { .. } => Some(Mode::Messages),
            Self::Event(event) => match event.category.as_str() {
                "message" => Some(Mode::Messages),
                _ => Some(Mode::Updates),
            },
            Self::Updates { .. } => Some(Mode::Updates),
            Self::Values { .. } => Some(Mode::Values),
            Self::Within(within) => within.frame.mode().or(Some(Mode::Custom)),
            Self::ToolOutput { .. }
            | Self::Custom { .. }
            | Self::Progress { .. }
            | Self::Notice { .. }
            | Self::AttemptFailed { .. } => Some(Mode::Custom),
            Self::RunStarted { .. }
            | Self::StepStarted { .. }
            | Self::Interrupted(_)
            | Self::RunEnded { .. } => None,
        }
    }

    /// Returns about how many bytes it occupies.
    pub(crate) fn bytes(&self) -> usize {
        /// What allocations and their places in collections take beside what they hold, roughly.
        const AROUND: usize = 128;
        size_of::<Self>()
            + AROUND
            + match self {
                Self::Text { text, .. }
                | Self::Thinking { text, .. }
                | Self::ToolOutput { text, .. }
                | Self::Notice { text }
                | Self::AttemptFailed { text } => text.len(),
                Self::Event(event) => size_of_val(&**event) + AROUND + event.content.get().len(),
                Self::ToolCall { call_id, name, .. } | Self::ToolEnded { call_id, name, .. } => {
                    call_id.len() + name.len()
                }
                Self::ToolStarted { call_id, name, args } => call_id.len() + name.len() + weight(args),
                Self::Within(within) => within.call_id.len() + within.frame.bytes(),
                Self::Custom { name, value } => name.len() + weight(value),
                Self::Updates { channels, .. } | Self::Values { channels, .. } => {
                    channels.values().map(weight).sum()
                }
                Self::Interrupted(interrupt) => {
                    interrupt.payload.action_requests.iter().map(|request| weight(&request.args)).sum()
                }
                Self::RunStarted { .. }
                | Self::StepStarted { .. }
                | Self::Progress { .. }
                | Self::RunEnded { .. } => 0,
            }
    }
}

fn weight(value: &Value) -> usize {
    /// A value with its place in a collection, roughly.
    const SCALAR: usize = 64;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR,
        Value::String(text) => SCALAR + text.len(),
        Value::Array(items) => SCALAR + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => {
            SCALAR + fields.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
    }
}

/// Returns the channels a client may see.
pub(crate) fn public(channels: &Channels) -> Channels {
    let public = channels.iter().filter(|(key, _)| !key.starts_with('_'));
    public.map(|(key, value)| (key.clone(), value.clone())).collect()
}
