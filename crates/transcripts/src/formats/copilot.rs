//! Reader for event logs of GitHub Copilot CLI: one event per line.
//!
//! Hook and permission events are skipped, because they repeat the arguments and results of tool calls.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{EntryBody, EntryOrigin, EntryRole, EntryTrack};
use crate::error::Error;
use crate::formats::{PendingCalls, detect_author};
use crate::json::content::{ForeignContent, parse_arguments};
use crate::json::record::decode_one;
use crate::json::{lines, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// One line of a log.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CopilotRecord {
    /// The event type, such as `user.message` or `tool.execution_complete`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The id of the event before this one.
    #[serde(deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    /// The content, decoded only for the event types that are read.
    data: Option<Box<RawValue>>,
}

/// The content of an event: the union of the fields of all event types that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CopilotData {
    /// The text of a message.
    content: ForeignContent,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    /// The readable reasoning of an assistant message.
    #[serde(deserialize_with = "loose::text")]
    reasoning_text: Option<String>,
    /// The tool calls of an assistant message.
    tool_requests: Option<Vec<CopilotToolRequest>>,
    /// The id of the call that a tool execution answers.
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    /// `false` if a tool execution failed.
    success: Option<Value>,
    /// The output of a tool execution.
    result: ForeignContent,
    /// The error of a failed tool execution.
    error: ForeignContent,
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    start_time: Option<Timestamp>,
    context: Option<CopilotContext>,
}

/// A tool call in an assistant message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CopilotToolRequest {
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

/// The environment of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CopilotContext {
    /// The working folder.
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
}

/// Reads an event log as one conversation.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    out.open_conversation(ConversationInfo::new(SessionFormat::Copilot, source.name()))?;
    let mut calls = PendingCalls::default();
    lines::read_records(source, out, |mut record: CopilotRecord, out| {
        let origin = EntryOrigin {
            native_id: record.id.take(),
            parent: record.parent_id.take(),
            created_at: record.timestamp,
            track: EntryTrack::Main,
        };
        let kind = record.kind.unwrap_or_default();
        let data = record.data.as_ref().map_or("{}", |data| data.get()).as_bytes();
        match kind.as_str() {
            "user.message"
            | "system.message"
            | "assistant.message"
            | "tool.execution_complete"
            | "session.start" => match decode_one(data, out) {
                Some(data) => read_event(&kind, data, &origin, &mut calls, out),
                None => Ok(()),
            },
            "abort" | "session.model_change" => out.push_entry(origin.note(EntryRole::Marker, kind)),
            _ if kind.contains("compaction") => {
                if kind.ends_with("complete") {
                    let details: Value = decode_one(data, out).unwrap_or_default();
                    out.push_entry(origin.boundary(&kind, &details))
                } else {
                    out.push_entry(origin.note(EntryRole::Marker, kind))
                }
            }
            _ => Ok(()),
        }
    })
}

/// Reads an event of one of the types that `read` decodes. Every type that is no message or session start is a tool
/// execution.
fn read_event(
    kind: &str,
    data: CopilotData,
    origin: &EntryOrigin,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    match kind {
        "session.start" => {
            if let Some(conversation) = out.conversation() {
                conversation.set_session_id(data.session_id);
                conversation.workspace = data.context.and_then(|context| context.cwd);
                conversation.started_at = data.start_time;
            }
            out.push_entry(origin.note(EntryRole::Marker, kind))
        }
        "system.message" => out.push_entry(origin.note(EntryRole::System, data.content.flatten().text)),
        "user.message" => {
            let flat = data.content.flatten();
            let author = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text { author, text: flat.text, media: flat.media }))
        }
        "assistant.message" => read_assistant(data, origin, calls, out),
        _ => out.push_entry(origin.build_entry(tool_result_body(data, calls))),
    }
}

/// Reads an assistant message: reasoning, then text, then tool calls.
fn read_assistant(
    data: CopilotData,
    origin: &EntryOrigin,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    if let Some(conversation) = out.conversation() {
        conversation.model = conversation.model.take().or(data.model);
    }
    if let Some(reasoning) = data.reasoning_text.filter(|text| !text.is_empty()) {
        out.push_entry(origin.thinking(reasoning))?;
    }
    if !data.content.is_empty() {
        out.push_entry(origin.assistant_text(data.content.flatten().text))?;
    }
    for request in data.tool_requests.unwrap_or_default() {
        calls.record_call(request.tool_call_id.as_deref(), request.name.as_deref());
        out.push_entry(origin.tool_call(
            request.tool_call_id,
            request.name,
            parse_arguments(request.arguments),
        ))?;
    }
    Ok(())
}

/// Returns the body for a tool execution: its output, or its error if the output is empty.
fn tool_result_body(data: CopilotData, calls: &mut PendingCalls) -> EntryBody {
    let flat = data.result.flatten();
    let text = if flat.text.is_empty() { error_text(data.error) } else { flat.text };
    EntryBody::ToolResult {
        tool: calls.take_tool_name(data.tool_call_id.as_deref()),
        call_id: data.tool_call_id,
        text,
        media: flat.media,
        status: match data.success {
            Some(Value::Bool(false)) => ToolStatus::Error,
            _ => ToolStatus::Success,
        },
    }
}

/// Returns the text of an error, which is an object with a `message` in most versions and a string in the others.
fn error_text(error: ForeignContent) -> String {
    match error {
        ForeignContent::Object(fields) => {
            fields.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        other => other.flatten().text,
    }
}
