//! Messages in the form of OpenAI's chat completions: a bare list, result files of tau-bench and tau2-bench with many
//! conversations, and the trajectories of SWE-agent and mini-swe-agent.

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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiMessage {
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    content: ForeignContent,
    #[serde(deserialize_with = "loose::text")]
    thought: Option<String>,
    tool_calls: Option<Vec<OpenAiToolCall>>,
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    tool_call_ids: Option<Vec<Value>>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    #[serde(deserialize_with = "loose::flag")]
    error: bool,
    #[serde(deserialize_with = "loose::flag")]
    is_demo: bool,
}

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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiFunction {
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

/// The keys of a list element that tell its kind, and the title of a conversation in it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListElement {
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    task_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    trial: Option<String>,
    traj: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
}

/// One conversation while it is read.
#[derive(Default)]
struct ChatReadState {
    calls: PendingCalls,
    has_answer: bool,
}

/// Reads a result file, a trajectory or a list of messages.
pub(crate) fn read(
    source: &TranscriptSource,
    format: SessionFormat,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    // A trajectory may hold its messages twice; the history is the one that every tool of the family writes.
    let history = walker::has_elements(source, "history")?;
    let wants = |key: &str| match key {
        "history" if history => FieldSelector::Elements,
        "messages" if !history => FieldSelector::Elements,
        "simulations" => FieldSelector::Elements,
        _ => FieldSelector::Skip,
    };
    let mut reading: Option<ChatReadState> = None;
    walker::for_each_piece(source, out, wants, &mut |_, bytes, out| {
        let Some(element) = decode_one::<ListElement>(bytes, out) else { return Ok(()) };
        if element.role.is_none() && (element.traj.is_some() || element.messages.is_some()) {
            reading = None;
            return read_conversation(element, bytes, format, out);
        }
        if reading.is_none() {
            out.open_conversation(ConversationInfo::new(format, source.name()))?;
        }
        read_message(bytes, format, reading.get_or_insert_default(), out)
    })
}

/// Reads an element that holds a whole conversation.
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
    let wants = |name: &str| if name == key { FieldSelector::Elements } else { FieldSelector::Skip };
    let mut reading = ChatReadState::default();
    walker::for_each_piece_in(bytes, out, wants, &mut |_, bytes, out| {
        read_message(bytes, format, &mut reading, out)
    })
}

fn read_message(
    bytes: &[u8],
    format: SessionFormat,
    reading: &mut ChatReadState,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let Some(mut message) = decode_one::<OpenAiMessage>(bytes, out) else { return Ok(()) };
    let origin = EntryOrigin { native_id: message.id.clone(), ..EntryOrigin::default() };
    match message.role.as_deref() {
        Some("system" | "developer") => {
            out.push_entry(origin.note(EntryRole::System, message.content.flatten().text))
        }
        Some("user") => {
            // The observations of these agents stand in the user's place; only the task is a person's.
            let observed = format == SessionFormat::SweAgent && (reading.has_answer || message.is_demo);
            let flat = message.content.flatten();
            let by = if observed { Author::Harness } else { detect_author(&flat.text) };
            out.push_entry(origin.build_entry(EntryBody::Text {
                author: by,
                text: flat.text,
                media: flat.media,
            }))
        }
        Some("assistant") => {
            reading.has_answer = true;
            read_assistant(message, &origin, &mut reading.calls, out)
        }
        Some("tool") => {
            let first = message.tool_call_ids.take().and_then(|ids| ids.into_iter().next());
            let call_id = [message.tool_call_id, first.as_ref().and_then(Value::as_str).map(str::to_owned)]
                .into_iter()
                .flatten()
                .find(|id| !id.is_empty())
                .or(message.id);
            let known = reading.calls.take_tool_name(call_id.as_deref());
            let status = if message.error { ToolStatus::Error } else { ToolStatus::Success };
            // Agents that run commands store what these printed; only a plain list may hold printed blocks.
            let (flat, repaired) = match format == SessionFormat::OpenAi {
                true => result_repair::flatten_and_repair(message.content),
                false => (message.content.flatten(), None),
            };
            let entry = origin.tool_result(call_id, message.name.or(known), flat, status);
            out.push_entry(TranscriptEntry { repair: repaired, ..entry })
        }
        _ => Ok(()),
    }
}

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
