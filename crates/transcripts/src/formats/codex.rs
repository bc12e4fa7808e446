//! Reader for rollout logs of Codex CLI.
//!
//! `response_item` records contain the model's input and output. `event_msg` records repeat them for the user interface
//! and are skipped. The summary of a compaction is encrypted in these files, so most boundaries have no summary.

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

/// Prefixes of user messages that the harness wrote.
const INJECTED_STARTS: [&str; 7] = [
    "# AGENTS.md",
    "<environment_context",
    "<user_instructions",
    "<turn_aborted",
    "<INSTRUCTIONS",
    "<skill",
    "<subagent_notification",
];

/// Length of the start of an output in which the exit code is searched, in characters. Later occurrences may be output
/// of the command itself.
const EXIT_CODE_CHARS_MAX: usize = 400;

/// One line of a log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexRecord {
    /// The record type, which determines the shape of `payload`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    /// The content, decoded only for the record types that are read.
    payload: Option<Box<RawValue>>,
}

/// The payload of a `session_meta` record: the header of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSessionMeta {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The session of which this one is a fork.
    #[serde(deserialize_with = "loose::text")]
    forked_from_id: Option<String>,
    /// The working folder.
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
    /// The start time.
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
}

/// The payload of a `compacted` record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexCompaction {
    /// The summary; usually empty.
    #[serde(deserialize_with = "loose::text")]
    message: Option<String>,
    /// The number of the context window that begins here.
    window_number: Option<Value>,
    /// The items that replace the history in the next request. Only their number is used.
    replacement_history: Option<Vec<IgnoredAny>>,
}

/// The payload of a `response_item` record: the union of the fields of all item types.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexItem {
    /// The item type, such as `message`, `reasoning` or `function_call`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    /// The role of a message.
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The id that links a call to its output.
    #[serde(deserialize_with = "loose::text")]
    call_id: Option<String>,
    /// The tool name of a call.
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    /// The content of a message, or the plain text of reasoning.
    content: ForeignContent,
    /// The readable summary of reasoning.
    summary: ForeignContent,
    /// The output of a call.
    output: ForeignContent,
    /// The arguments of a `function_call`, as JSON text.
    arguments: Option<Value>,
    /// The raw text input of a `custom_tool_call`.
    input: Option<Value>,
    /// The arguments of a call of a built-in tool.
    action: Option<Value>,
}

/// The fields of a `turn_context` or `thread_name_updated` payload that describe the session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSessionUpdate {
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    /// The title.
    #[serde(deserialize_with = "loose::text")]
    thread_name: Option<String>,
}

/// Reads a rollout log as one conversation.
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
                decode_one(payload, out).map_or(Ok(()), |record| read_compaction(record, &origin, out))
            }
            Some("response_item") => {
                decode_one(payload, out).map_or(Ok(()), |item| read_item(item, origin, &mut calls, out))
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

/// Fills in the model and the title of the conversation. The first model and the last title are used. A damaged payload
/// changes nothing.
fn update_conversation(payload: &[u8], out: &mut SinkWriter<'_>) {
    let update: CodexSessionUpdate = serde_json::from_slice(payload).unwrap_or_default();
    if let Some(conversation) = out.conversation() {
        conversation.model = conversation.model.take().or(update.model);
        conversation.title = update.thread_name.or_else(|| conversation.title.take());
    }
}

/// Reads a header. The first header describes the session, because a fork repeats the headers of its ancestors after
/// its own.
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

/// The details of a compaction boundary. The field names are part of the stored event.
#[derive(Serialize)]
struct CodexCompactionDetails {
    /// The number of the context window that begins at the boundary.
    window_number: Option<Value>,
    /// The number of items that replace the history.
    kept: usize,
}

/// Reads a compaction as a boundary and, if the record contains one, a summary.
fn read_compaction(
    compaction: CodexCompaction,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let kept = compaction.replacement_history.map_or(0, |items| items.len());
    let details = CodexCompactionDetails { window_number: compaction.window_number, kept };
    out.push_entry(origin.boundary("compacted", &details))?;
    match compaction.message {
        Some(message) if !message.trim().is_empty() => out.push_entry(origin.summary(message)),
        _ => Ok(()),
    }
}

/// Reads one item of the model's input or output. Unknown item types are skipped.
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

/// Reads a message. Injected user messages and developer messages become notes.
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

/// Returns the arguments of a call. Their field depends on the item type; raw text becomes `{"input": text}`.
fn call_arguments(item: &mut CodexItem) -> Value {
    match (item.arguments.take(), item.input.take()) {
        (Some(arguments), _) => parse_arguments(Some(arguments)),
        (None, Some(input)) => single_field_object("input", input),
        (None, None) => parse_arguments(item.action.take()),
    }
}

/// Returns the status of a command from the exit code at the start of its output. Without an exit code it is a success.
fn output_status(output: &str) -> ToolStatus {
    static EXIT_CODE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:exited with code|Exit code:)\s*(-?\d+)").expect("the pattern is fixed and valid")
    });
    let end = output.char_indices().nth(EXIT_CODE_CHARS_MAX).map_or(output.len(), |(index, _)| index);
    match EXIT_CODE.captures(&output[..end]) {
        Some(captures) if &captures[1] != "0" => ToolStatus::Error,
        _ => ToolStatus::Success,
    }
}
