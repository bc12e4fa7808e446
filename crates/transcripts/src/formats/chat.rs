//! Messages in the form of OpenAI's chat completions: a bare list, result files of tau-bench and tau2-bench with many
//! conversations, and the trajectories of SWE-agent and mini-swe-agent.

use protocol::ToolStatus;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Author, Body, Entry, Origin, Role};
use crate::error::Error;
use crate::formats::{OpenCalls, user_or_harness};
use crate::json::array::{self, Wanted};
use crate::json::content::{Content, arguments};
use crate::json::record::decode_one;
use crate::json::{legacy, loose};
use crate::output::Output;
use crate::source::Source;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    content: Content,
    #[serde(deserialize_with = "loose::text")]
    thought: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
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
struct ToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    function: Option<Function>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

/// What an element of a list is, and what a conversation in it is called.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Element {
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
struct Reading {
    calls: OpenCalls,
    answered: bool,
}

/// Reads a result file, a trajectory or a list of messages.
pub(crate) fn read(source: &Source, format: Format, out: &mut Output<'_>) -> Result<(), Error> {
    // A trajectory may hold its messages twice; the history is the one that every tool of the family writes.
    let history = array::has_elements(source, "history")?;
    let wants = |key: &str| match key {
        "history" if history => Wanted::Elements,
        "messages" if !history => Wanted::Elements,
        "simulations" => Wanted::Elements,
        _ => Wanted::Skip,
    };
    let mut reading: Option<Reading> = None;
    array::each(source, out, wants, &mut |_, bytes, out| {
        let Some(element) = decode_one::<Element>(bytes, out) else { return Ok(()) };
        if element.role.is_none() && (element.traj.is_some() || element.messages.is_some()) {
            reading = None;
            return conversation(element, bytes, format, out);
        }
        if reading.is_none() {
            out.open(Conversation::new(format, source.name()))?;
        }
        message(bytes, format, reading.get_or_insert_default(), out)
    })
}

/// Reads an element that holds a whole conversation.
fn conversation(element: Element, bytes: &[u8], format: Format, out: &mut Output<'_>) -> Result<(), Error> {
    let task = element.task_id.as_deref().unwrap_or("None");
    let trial = element.trial.as_deref().unwrap_or("None");
    let mut conversation = Conversation::new(format, format!("task{task}-trial{trial}"));
    conversation.identify(element.id);
    out.open(conversation)?;
    let key = if element.traj.is_some() { "traj" } else { "messages" };
    let wants = |name: &str| if name == key { Wanted::Elements } else { Wanted::Skip };
    let mut reading = Reading::default();
    array::each_in(bytes, out, wants, &mut |_, bytes, out| message(bytes, format, &mut reading, out))
}

fn message(bytes: &[u8], format: Format, reading: &mut Reading, out: &mut Output<'_>) -> Result<(), Error> {
    let Some(mut message) = decode_one::<Message>(bytes, out) else { return Ok(()) };
    let origin = Origin { native_id: message.id.clone(), ..Origin::default() };
    match message.role.as_deref() {
        Some("system" | "developer") => out.push(origin.note(Role::System, message.content.flatten().text)),
        Some("user") => {
            // The observations of these agents stand in the user's place; only the task is a person's.
            let observed = format == Format::SweAgent && (reading.answered || message.is_demo);
            let flat = message.content.flatten();
            let by = if observed { Author::Harness } else { user_or_harness(&flat.text) };
            out.push(origin.entry(Body::Text { by, text: flat.text, media: flat.media }))
        }
        Some("assistant") => {
            reading.answered = true;
            assistant(message, &origin, &mut reading.calls, out)
        }
        Some("tool") => {
            let first = message.tool_call_ids.take().and_then(|ids| ids.into_iter().next());
            let call_id = [message.tool_call_id, first.as_ref().and_then(Value::as_str).map(str::to_owned)]
                .into_iter()
                .flatten()
                .find(|id| !id.is_empty())
                .or(message.id);
            let known = reading.calls.returned(call_id.as_deref());
            let status = if message.error { ToolStatus::Error } else { ToolStatus::Success };
            // Agents that run commands store what these printed; only a plain list may hold printed blocks.
            let (flat, repaired) = match format == Format::OpenAi {
                true => legacy::flatten(message.content),
                false => (message.content.flatten(), None),
            };
            let entry = origin.result(call_id, message.name.or(known), flat, status);
            out.push(Entry { repaired, ..entry })
        }
        _ => Ok(()),
    }
}

fn assistant(
    message: Message,
    origin: &Origin,
    calls: &mut OpenCalls,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    if message.content.is_empty() {
        if let Some(thought) = message.thought.filter(|thought| !thought.is_empty()) {
            out.push(origin.thinking(thought))?;
        }
    } else {
        out.push(origin.assistant(message.content.flatten().text))?;
    }
    for call in message.tool_calls.unwrap_or_default() {
        let (name, args) = match call.function {
            Some(function) => (function.name, function.arguments),
            None => (call.name, call.arguments),
        };
        calls.called(call.id.as_deref(), name.as_deref());
        out.push(origin.call(call.id, name, arguments(args)))?;
    }
    Ok(())
}
