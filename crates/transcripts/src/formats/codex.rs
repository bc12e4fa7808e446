//! Codex CLI rollouts. Only what the model saw is read; the events for the screen repeat it. The summary of a compaction
//! is encrypted in these files, so a boundary usually comes without one.

use std::sync::LazyLock;

use jiff::Timestamp;
use protocol::ToolStatus;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::Value;

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Author, Body, Origin, Role};
use crate::error::Error;
use crate::formats::{OpenCalls, user_or_harness};
use crate::json::content::{Content, arguments, single};
use crate::json::record::decode_one;
use crate::json::{lines, loose};
use crate::output::Output;
use crate::source::Source;

/// Starts of user messages that the harness wrote.
const INJECTED_STARTS: [&str; 7] = [
    "# AGENTS.md",
    "<environment_context",
    "<user_instructions",
    "<turn_aborted",
    "<INSTRUCTIONS",
    "<skill",
    "<subagent_notification",
];

/// In how many characters from its start an output tells the exit code.
const EXIT_CODE_CHARS_MAX: usize = 400;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    payload: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SessionMeta {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    forked_from_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Compacted {
    #[serde(deserialize_with = "loose::text")]
    message: Option<String>,
    window_number: Option<Value>,
    replacement_history: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    call_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    content: Content,
    summary: Content,
    output: Content,
    arguments: Option<Value>,
    input: Option<Value>,
    action: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Told {
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    thread_name: Option<String>,
}

/// Reads a rollout.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    out.open(Conversation::new(Format::Codex, source.name()))?;
    let mut calls = OpenCalls::default();
    lines::read(source, out, |record: Record, out| {
        let origin = Origin { at: record.timestamp, ..Origin::default() };
        let Some(payload) = record.payload else { return Ok(()) };
        let payload = payload.get().as_bytes();
        match record.kind.as_deref() {
            Some("session_meta") => {
                decode_one(payload, out).map_or(Ok(()), |meta| session(meta, origin, out))
            }
            Some("compacted") => {
                decode_one(payload, out).map_or(Ok(()), |point| compacted(point, &origin, out))
            }
            Some("response_item") => {
                decode_one(payload, out).map_or(Ok(()), |part| item(part, origin, &mut calls, out))
            }
            Some("turn_context") => {
                learn(payload, out);
                Ok(())
            }
            Some("event_msg") if payload.starts_with(br#"{"type":"thread_name_updated""#) => {
                learn(payload, out);
                Ok(())
            }
            _ => Ok(()),
        }
    })
}

/// Adds the model and the name that a record tells; a damaged one tells nothing.
fn learn(payload: &[u8], out: &mut Output<'_>) {
    let told: Told = serde_json::from_slice(payload).unwrap_or_default();
    if let Some(conversation) = out.conversation() {
        conversation.model = conversation.model.take().or(told.model);
        conversation.title = told.thread_name.or_else(|| conversation.title.take());
    }
}

/// Reads a header. A fork repeats those of its ancestors after its own, so the first one counts.
fn session(meta: SessionMeta, mut origin: Origin, out: &mut Output<'_>) -> Result<(), Error> {
    if let Some(conversation) = out.conversation()
        && conversation.session_id.is_none()
    {
        conversation.identify(meta.id.clone());
        conversation.workspace = meta.cwd;
        conversation.parent_session = meta.forked_from_id;
        conversation.started_at = meta.timestamp;
    }
    origin.native_id = meta.id;
    out.push(origin.note(Role::Marker, "session_meta"))
}

/// The details of a `compacted` record that are kept.
#[derive(Serialize)]
struct CompactedDetails {
    window_number: Option<Value>,
    /// The number of items that replace the history.
    kept: usize,
}

fn compacted(point: Compacted, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let kept = point.replacement_history.map_or(0, |items| items.len());
    let details = CompactedDetails { window_number: point.window_number, kept };
    out.push(origin.boundary("compacted", &details))?;
    match point.message {
        Some(message) if !message.trim().is_empty() => out.push(origin.summary(message)),
        _ => Ok(()),
    }
}

/// Reads what the model saw or answered.
fn item(
    mut item: Item,
    mut origin: Origin,
    calls: &mut OpenCalls,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    match item.kind.as_deref() {
        Some("message") => message(item, origin, out),
        Some("reasoning") => {
            let summary = item.summary.flatten().text;
            let text = if summary.is_empty() { item.content.flatten().text } else { summary };
            if text.is_empty() { Ok(()) } else { out.push(origin.thinking(text)) }
        }
        Some(
            "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call"
            | "web_search_call",
        ) => {
            origin.native_id = item.id.clone();
            let args = call_arguments(&mut item);
            let call_id = item.call_id.or(item.id);
            let tool = item.name.or(item.kind);
            calls.called(call_id.as_deref(), tool.as_deref());
            out.push(origin.call(call_id, tool, args))
        }
        Some("function_call_output" | "custom_tool_call_output" | "tool_search_output") => {
            let flat = item.output.flatten();
            out.push(origin.entry(Body::ToolResult {
                tool: calls.returned(item.call_id.as_deref()),
                call_id: item.call_id,
                status: status(&flat.text),
                text: flat.text,
                media: flat.media,
            }))
        }
        _ => Ok(()),
    }
}

fn message(item: Item, mut origin: Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let flat = item.content.flatten();
    let (text, media) = (flat.text, flat.media);
    let body = match item.role.as_deref() {
        Some("assistant") => {
            origin.native_id = item.id;
            Body::Text { by: Author::Assistant, text, media }
        }
        Some("user") if INJECTED_STARTS.iter().any(|start| text.starts_with(start)) => {
            Body::Note { role: Role::User, text }
        }
        Some("user") => Body::Text { by: user_or_harness(&text), text, media },
        _ => Body::Note { role: Role::System, text },
    };
    out.push(origin.entry(body))
}

/// Returns the arguments, which each kind of call keeps in another field.
fn call_arguments(item: &mut Item) -> Value {
    match (item.arguments.take(), item.input.take()) {
        (Some(given), _) => arguments(Some(given)),
        (None, Some(input)) => single("input", input),
        (None, None) => arguments(item.action.take()),
    }
}

/// Returns whether the command behind an output succeeded, as far as its first lines tell.
fn status(output: &str) -> ToolStatus {
    static EXIT_CODE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:exited with code|Exit code:)\s*(-?\d+)").expect("the pattern is fixed and valid")
    });
    let end = output.char_indices().nth(EXIT_CODE_CHARS_MAX).map_or(output.len(), |(at, _)| at);
    match EXIT_CODE.captures(&output[..end]) {
        Some(found) if &found[1] != "0" => ToolStatus::Error,
        _ => ToolStatus::Success,
    }
}
