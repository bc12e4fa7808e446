//! Codex CLI rollouts. Only what the model saw is read; the events for the screen repeat it. The summary of a compaction
//! is encrypted in these files, so a boundary usually comes without one.

use std::sync::LazyLock;

use jiff::Timestamp;
use protocol::ToolStatus;
use regex::Regex;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{Author, EntryBody, EntryOrigin, EntryRole};
use crate::error::Error;
use crate::formats::{PendingCalls, detect_author};
use crate::json::content::{ForeignContent, parse_arguments, single_field_object};
use crate::json::record::decode_one;
use crate::json::{lines, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

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
struct CodexRecord {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    payload: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSessionMeta {
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
struct CodexCompaction {
    #[serde(deserialize_with = "loose::text")]
    message: Option<String>,
    window_number: Option<Value>,
    replacement_history: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexItem {
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
    content: ForeignContent,
    summary: ForeignContent,
    output: ForeignContent,
    arguments: Option<Value>,
    input: Option<Value>,
    action: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSessionUpdate {
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    thread_name: Option<String>,
}

/// Reads a rollout.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    out.open_conversation(ConversationInfo::new(SessionFormat::Codex, source.name()))?;
    let mut calls = PendingCalls::default();
    lines::read_records(source, out, |record: CodexRecord, out| {
        let origin = EntryOrigin { created_at: record.timestamp, ..EntryOrigin::default() };
        let Some(payload) = record.payload else { return Ok(()) };
        let payload = payload.get().as_bytes();
        match record.kind.as_deref() {
            Some("session_meta") => {
                decode_one(payload, out).map_or(Ok(()), |meta| start_session(meta, origin, out))
            }
            Some("compacted") => {
                decode_one(payload, out).map_or(Ok(()), |point| read_compaction(point, &origin, out))
            }
            Some("response_item") => {
                decode_one(payload, out).map_or(Ok(()), |part| read_item(part, origin, &mut calls, out))
            }
            Some("turn_context") => {
                update_conversation(payload, out);
                Ok(())
            }
            Some("event_msg") if payload.starts_with(br#"{"type":"thread_name_updated""#) => {
                update_conversation(payload, out);
                Ok(())
            }
            _ => Ok(()),
        }
    })
}

/// Adds the model and the name that a record tells; a damaged one tells nothing.
fn update_conversation(payload: &[u8], out: &mut SinkWriter<'_>) {
    let told: CodexSessionUpdate = serde_json::from_slice(payload).unwrap_or_default();
    if let Some(conversation) = out.conversation() {
        conversation.model = conversation.model.take().or(told.model);
        conversation.title = told.thread_name.or_else(|| conversation.title.take());
    }
}

/// Reads a header. A fork repeats those of its ancestors after its own, so the first one counts.
fn start_session(
    meta: CodexSessionMeta,
    mut origin: EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    if let Some(conversation) = out.conversation()
        && conversation.session_id.is_none()
    {
        conversation.set_session_id(meta.id.clone());
        conversation.workspace = meta.cwd;
        conversation.parent_session = meta.forked_from_id;
        conversation.started_at = meta.timestamp;
    }
    origin.native_id = meta.id;
    out.push_entry(origin.note(EntryRole::Marker, "session_meta"))
}

/// The details of a `compacted` record that are kept.
#[derive(Serialize)]
struct CodexCompactionDetails {
    window_number: Option<Value>,
    /// The number of items that replace the history.
    kept: usize,
}

fn read_compaction(
    point: CodexCompaction,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let kept = point.replacement_history.map_or(0, |items| items.len());
    let details = CodexCompactionDetails { window_number: point.window_number, kept };
    out.push_entry(origin.boundary("compacted", &details))?;
    match point.message {
        Some(message) if !message.trim().is_empty() => out.push_entry(origin.summary(message)),
        _ => Ok(()),
    }
}

/// Reads what the model saw or answered.
fn read_item(
    mut item: CodexItem,
    mut origin: EntryOrigin,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    match item.kind.as_deref() {
        Some("message") => read_message(item, origin, out),
        Some("reasoning") => {
            let summary = item.summary.flatten().text;
            let text = if summary.is_empty() { item.content.flatten().text } else { summary };
            if text.is_empty() { Ok(()) } else { out.push_entry(origin.thinking(text)) }
        }
        Some(
            "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call"
            | "web_search_call",
        ) => {
            origin.native_id = item.id.clone();
            let args = call_arguments(&mut item);
            let call_id = item.call_id.or(item.id);
            let tool = item.name.or(item.kind);
            calls.record_call(call_id.as_deref(), tool.as_deref());
            out.push_entry(origin.tool_call(call_id, tool, args))
        }
        Some("function_call_output" | "custom_tool_call_output" | "tool_search_output") => {
            let flat = item.output.flatten();
            out.push_entry(origin.build_entry(EntryBody::ToolResult {
                tool: calls.take_tool_name(item.call_id.as_deref()),
                call_id: item.call_id,
                status: output_status(&flat.text),
                text: flat.text,
                media: flat.media,
            }))
        }
        _ => Ok(()),
    }
}

fn read_message(item: CodexItem, mut origin: EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let flat = item.content.flatten();
    let (text, media) = (flat.text, flat.media);
    let body = match item.role.as_deref() {
        Some("assistant") => {
            origin.native_id = item.id;
            EntryBody::Text { author: Author::Assistant, text, media }
        }
        Some("user") if INJECTED_STARTS.iter().any(|start| text.starts_with(start)) => {
            EntryBody::Note { role: EntryRole::User, text }
        }
        Some("user") => EntryBody::Text { author: detect_author(&text), text, media },
        _ => EntryBody::Note { role: EntryRole::System, text },
    };
    out.push_entry(origin.build_entry(body))
}

/// Returns the arguments, which each kind of call keeps in another field.
fn call_arguments(item: &mut CodexItem) -> Value {
    match (item.arguments.take(), item.input.take()) {
        (Some(given), _) => parse_arguments(Some(given)),
        (None, Some(input)) => single_field_object("input", input),
        (None, None) => parse_arguments(item.action.take()),
    }
}

/// Returns whether the command behind an output succeeded, as far as its first lines tell.
fn output_status(output: &str) -> ToolStatus {
    static EXIT_CODE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:exited with code|Exit code:)\s*(-?\d+)").expect("the pattern is fixed and valid")
    });
    let end = output.char_indices().nth(EXIT_CODE_CHARS_MAX).map_or(output.len(), |(at, _)| at);
    match EXIT_CODE.captures(&output[..end]) {
        Some(found) if &found[1] != "0" => ToolStatus::Error,
        _ => ToolStatus::Success,
    }
}
