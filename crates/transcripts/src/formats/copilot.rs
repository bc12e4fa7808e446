//! GitHub Copilot CLI event logs. Hooks and permission requests repeat what calls and results say and are not read.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Body, Origin, Role, Track};
use crate::error::Error;
use crate::formats::{OpenCalls, user_or_harness};
use crate::json::content::{Content, arguments};
use crate::json::record::decode_one;
use crate::json::{lines, loose};
use crate::output::Output;
use crate::source::Source;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Record {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    data: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Data {
    content: Content,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    reasoning_text: Option<String>,
    tool_requests: Option<Vec<ToolRequest>>,
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    success: Option<Value>,
    result: Content,
    error: Content,
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    start_time: Option<Timestamp>,
    context: Option<Context>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ToolRequest {
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
}

/// Reads an event log.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    out.open(Conversation::new(Format::Copilot, source.name()))?;
    let mut calls = OpenCalls::default();
    lines::read(source, out, |mut record: Record, out| {
        let origin = Origin {
            native_id: record.id.take(),
            parent: record.parent_id.take(),
            at: record.timestamp,
            track: Track::Main,
        };
        let kind = record.kind.unwrap_or_default();
        let data = record.data.as_ref().map_or("{}", |data| data.get()).as_bytes();
        match kind.as_str() {
            "user.message"
            | "system.message"
            | "assistant.message"
            | "tool.execution_complete"
            | "session.start" => match decode_one(data, out) {
                Some(data) => event(&kind, data, &origin, &mut calls, out),
                None => Ok(()),
            },
            "abort" | "session.model_change" => out.push(origin.note(Role::Marker, kind)),
            _ if kind.contains("compaction") => {
                if kind.ends_with("complete") {
                    let details: Value = decode_one(data, out).unwrap_or_default();
                    out.push(origin.boundary(&kind, &details))
                } else {
                    out.push(origin.note(Role::Marker, kind))
                }
            }
            _ => Ok(()),
        }
    })
}

fn event(
    kind: &str,
    data: Data,
    origin: &Origin,
    calls: &mut OpenCalls,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    match kind {
        "session.start" => {
            if let Some(conversation) = out.conversation() {
                conversation.identify(data.session_id);
                conversation.workspace = data.context.and_then(|context| context.cwd);
                conversation.started_at = data.start_time;
            }
            out.push(origin.note(Role::Marker, kind))
        }
        "system.message" => out.push(origin.note(Role::System, data.content.flatten().text)),
        "user.message" => {
            let flat = data.content.flatten();
            let by = user_or_harness(&flat.text);
            out.push(origin.entry(Body::Text { by, text: flat.text, media: flat.media }))
        }
        "assistant.message" => assistant(data, origin, calls, out),
        _ => out.push(origin.entry(tool_result(data, calls))),
    }
}

fn assistant(data: Data, origin: &Origin, calls: &mut OpenCalls, out: &mut Output<'_>) -> Result<(), Error> {
    if let Some(conversation) = out.conversation() {
        conversation.model = conversation.model.take().or(data.model);
    }
    if let Some(reasoning) = data.reasoning_text.filter(|text| !text.is_empty()) {
        out.push(origin.thinking(reasoning))?;
    }
    if !data.content.is_empty() {
        out.push(origin.assistant(data.content.flatten().text))?;
    }
    for request in data.tool_requests.unwrap_or_default() {
        calls.called(request.tool_call_id.as_deref(), request.name.as_deref());
        out.push(origin.call(request.tool_call_id, request.name, arguments(request.arguments)))?;
    }
    Ok(())
}

fn tool_result(data: Data, calls: &mut OpenCalls) -> Body {
    let flat = data.result.flatten();
    let text = if flat.text.is_empty() { error_text(data.error) } else { flat.text };
    Body::ToolResult {
        tool: calls.returned(data.tool_call_id.as_deref()),
        call_id: data.tool_call_id,
        text,
        media: flat.media,
        status: match data.success {
            Some(Value::Bool(false)) => ToolStatus::Error,
            _ => ToolStatus::Success,
        },
    }
}

/// Returns the message of an error, which is an object in most builds.
fn error_text(error: Content) -> String {
    match error {
        Content::Object(fields) => {
            fields.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        other => other.flatten().text,
    }
}
