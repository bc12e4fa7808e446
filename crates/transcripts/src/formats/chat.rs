//! Reader for messages in the form of OpenAI's chat completions API.
//!
//! The file is a bare list of messages, a result file of tau-bench or tau2-bench with many conversations, or a
//! trajectory of SWE-agent or mini-swe-agent. The messages have no times.

use protocol::ToolStatus;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{Author, EntryBody, EntryOrigin, EntryRole, TranscriptEntry};
use crate::error::Error;
use crate::formats::{PendingCalls, detect_author};
use crate::json::content::{ForeignContent, parse_arguments};
use crate::json::record::decode_one;
use crate::json::walker::{self, FieldSelector};
use crate::json::{loose, result_repair};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// One message, with the fields of all file types that this reader accepts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    content: ForeignContent,
    /// The reasoning of an assistant message in a SWE-agent trajectory. It is used only if `content` is empty.
    #[serde(deserialize_with = "loose::text")]
    thought: Option<String>,
    tool_calls: Option<Vec<OpenAiToolCall>>,
    /// The id of the call that a tool message answers.
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    /// SWE-agent's form of `tool_call_id`. The first id is used.
    tool_call_ids: Option<Vec<Value>>,
    /// The message id. A tool message of tau2-bench has the id of its call here.
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The tool name of a tool message.
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    /// True if the tool failed.
    #[serde(deserialize_with = "loose::flag")]
    error: bool,
    /// True if the message belongs to SWE-agent's demonstration, which precedes the task.
    #[serde(deserialize_with = "loose::flag")]
    is_demo: bool,
}

/// A tool call. Name and arguments are in `function`, or directly in the call (tau2-bench).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    function: Option<OpenAiFunction>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

/// The function of a tool call. Its arguments are JSON text or an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiFunction {
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

/// The fields of a list element that distinguish a message from a whole conversation, and the name of the conversation.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListElement {
    /// Present if the element is a message.
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    /// The id of a tau2-bench simulation.
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The benchmark task.
    #[serde(deserialize_with = "loose::text")]
    task_id: Option<String>,
    /// The number of the attempt at the task.
    #[serde(deserialize_with = "loose::text")]
    trial: Option<String>,
    /// Present if the element is a tau-bench result: its messages.
    traj: Option<IgnoredAny>,
    /// Present if the element is a tau2-bench simulation: its messages.
    messages: Option<IgnoredAny>,
}

/// The state of one conversation while it is read.
#[derive(Default)]
struct ChatReadState {
    calls: PendingCalls,
    /// True after the first assistant message.
    has_answer: bool,
}

/// Reads a result file, a trajectory or a list of messages. `format` is [`SessionFormat::SweAgent`] or
/// [`SessionFormat::OpenAi`].
pub(crate) fn read(
    source: &TranscriptSource,
    format: SessionFormat,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    // A trajectory may contain its messages twice. `history` is preferred, because all SWE-agent versions write it.
    let has_history = walker::has_elements(source, "history")?;
    let select = |key: &str| match key {
        "history" if has_history => FieldSelector::Elements,
        "messages" if !has_history => FieldSelector::Elements,
        "simulations" => FieldSelector::Elements,
        _ => FieldSelector::Skip,
    };
    let mut state: Option<ChatReadState> = None;
    walker::for_each_piece(source, out, select, &mut |_, bytes, out| {
        let Some(element) = decode_one::<ListElement>(bytes, out) else { return Ok(()) };
        if element.role.is_none() && (element.traj.is_some() || element.messages.is_some()) {
            state = None;
            return read_conversation(element, bytes, format, out);
        }
        if state.is_none() {
            out.open_conversation(ConversationInfo::new(format, source.name()))?;
        }
        read_message(bytes, format, state.get_or_insert_default(), out)
    })
}

/// Reads an element that contains a whole conversation. `bytes` is the element as in the file.
fn read_conversation(
    element: ListElement,
    bytes: &[u8],
    format: SessionFormat,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let task = element.task_id.as_deref().unwrap_or("None");
    let trial = element.trial.as_deref().unwrap_or("None");
    let mut conversation = ConversationInfo::new(format, format!("task{task}-trial{trial}"));
    conversation.set_session_id(element.id);
    out.open_conversation(conversation)?;
    let key = if element.traj.is_some() { "traj" } else { "messages" };
    let select = |name: &str| if name == key { FieldSelector::Elements } else { FieldSelector::Skip };
    let mut state = ChatReadState::default();
    walker::for_each_piece_in(bytes, out, select, &mut |_, bytes, out| {
        read_message(bytes, format, &mut state, out)
    })
}

/// Reads one message as one or more entries. Unknown roles are skipped.
fn read_message(
    bytes: &[u8],
    format: SessionFormat,
    state: &mut ChatReadState,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let Some(mut message) = decode_one::<OpenAiMessage>(bytes, out) else { return Ok(()) };
    let origin = EntryOrigin { native_id: message.id.clone(), ..EntryOrigin::default() };
    match message.role.as_deref() {
        Some("system" | "developer") => {
            out.push_entry(origin.note(EntryRole::System, message.content.flatten().text))
        }
        Some("user") => {
            // SWE-agents write tool output with the role `user`. Only the task before the first answer is the user's
            // text.
            let is_observation = format == SessionFormat::SweAgent && (state.has_answer || message.is_demo);
            let flat = message.content.flatten();
            let author = if is_observation { Author::Harness } else { detect_author(&flat.text) };
            out.push_entry(origin.build_entry(EntryBody::Text { author, text: flat.text, media: flat.media }))
        }
        Some("assistant") => {
            state.has_answer = true;
            read_assistant(message, &origin, &mut state.calls, out)
        }
        Some("tool") => {
            let first_id = message.tool_call_ids.take().and_then(|ids| ids.into_iter().next());
            let call_id =
                [message.tool_call_id, first_id.as_ref().and_then(Value::as_str).map(str::to_owned)]
                    .into_iter()
                    .flatten()
                    .find(|id| !id.is_empty())
                    .or(message.id);
            let tool_of_call = state.calls.take_tool_name(call_id.as_deref());
            let status = if message.error { ToolStatus::Error } else { ToolStatus::Success };
            // In trajectories of SWE-agents JSON in a result is the output of a command, so only results of the OpenAI
            // format are repaired.
            let (flat, repair) = match format == SessionFormat::OpenAi {
                true => result_repair::flatten_and_repair(message.content),
                false => (message.content.flatten(), None),
            };
            let entry = origin.tool_result(call_id, message.name.or(tool_of_call), flat, status);
            out.push_entry(TranscriptEntry { repair, ..entry })
        }
        _ => Ok(()),
    }
}

/// Reads an assistant message: its text, or its thought if it has no text, then its tool calls.
fn read_assistant(
    message: OpenAiMessage,
    origin: &EntryOrigin,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    if message.content.is_empty() {
        if let Some(thought) = message.thought.filter(|thought| !thought.is_empty()) {
            out.push_entry(origin.thinking(thought))?;
        }
    } else {
        out.push_entry(origin.assistant_text(message.content.flatten().text))?;
    }
    for call in message.tool_calls.unwrap_or_default() {
        let (name, args) = match call.function {
            Some(function) => (function.name, function.arguments),
            None => (call.name, call.arguments),
        };
        calls.record_call(call.id.as_deref(), name.as_deref());
        out.push_entry(origin.tool_call(call.id, name, parse_arguments(args)))?;
    }
    Ok(())
}
