//! pi session logs, with and without entry ids. All branches are read in file order; which one was shown last is not
//! decided here.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Body, Origin, Role, Track};
use crate::error::Error;
use crate::formats::user_or_harness;
use crate::json::content::{Content, Part, arguments};
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
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    parent_session: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    branched_from: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
    first_kept_entry_index: Option<Value>,
    first_kept_entry_id: Option<Value>,
    tokens_before: Option<Value>,
    message: Option<Message>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message {
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    content: Content,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    tool_name: Option<String>,
    #[serde(deserialize_with = "loose::flag")]
    is_error: bool,
    #[serde(deserialize_with = "loose::text")]
    command: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    output: Option<String>,
}

/// Reads a session log.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    out.open(Conversation::new(Format::Pi, source.name()))?;
    lines::read(source, out, |mut record: Record, out| {
        let origin = Origin {
            native_id: record.id.take(),
            parent: record.parent_id.take(),
            at: record.timestamp,
            track: Track::Main,
        };
        match record.kind.as_deref() {
            Some("session") => session(record, &origin, out),
            Some("session_info") => {
                if let (Some(conversation), Some(name)) = (out.conversation(), record.name) {
                    conversation.title = Some(name);
                }
                Ok(())
            }
            Some(label @ ("model_change" | "thinking_level_change")) => {
                out.push(origin.note(Role::Marker, label))
            }
            Some("compaction") => compaction(record, &origin, out),
            Some("branch_summary") => {
                let text = format!("branch_summary: {}", record.summary.unwrap_or_default());
                out.push(origin.note(Role::Marker, text))
            }
            Some("message") => message(record.message.unwrap_or_default(), &origin, out),
            _ => Ok(()),
        }
    })
}

fn session(record: Record, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    if let Some(conversation) = out.conversation()
        && conversation.session_id.is_none()
    {
        conversation.identify(origin.native_id.clone());
        conversation.workspace = record.cwd;
        conversation.parent_session = record.parent_session.or(record.branched_from).map(|path| id_of(&path));
        conversation.started_at = origin.at;
    }
    out.push(origin.note(Role::Marker, "session"))
}

/// Returns the session id in the path of a log, `<time>_<id>.jsonl`; the text itself when it is no such path.
fn id_of(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    name.rsplit_once('_').map_or(name, |(_, id)| id).to_owned()
}

fn compaction(record: Record, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let details: Map<String, Value> = [
        ("firstKeptEntryIndex", record.first_kept_entry_index),
        ("firstKeptEntryId", record.first_kept_entry_id),
        ("tokensBefore", record.tokens_before),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    out.push(origin.boundary("compaction", &details))?;
    out.push(origin.summary(record.summary.unwrap_or_default()))
}

fn message(message: Message, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    match message.role.as_deref() {
        Some("user") => {
            let flat = message.content.flatten();
            let by = user_or_harness(&flat.text);
            out.push(origin.entry(Body::Text { by, text: flat.text, media: flat.media }))
        }
        Some("assistant") => {
            if let Some(conversation) = out.conversation() {
                conversation.model = conversation.model.take().or(message.model);
            }
            assistant(message.content, origin, out)
        }
        Some("toolResult") => {
            let status = if message.is_error { ToolStatus::Error } else { ToolStatus::Success };
            let output = message.content.flatten();
            out.push(origin.result(message.tool_call_id, message.tool_name, output, status))
        }
        Some("bashExecution") => {
            let command = message.command.unwrap_or_default();
            let text = format!("!{command}\n{}", message.output.unwrap_or_default());
            out.push(origin.note(Role::User, text))
        }
        _ => Ok(()),
    }
}

fn assistant(content: Content, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let parts = match content {
        Content::Blocks(parts) => parts,
        Content::Text(text) => return out.push(origin.assistant(text)),
        Content::Absent | Content::Object(_) => return Ok(()),
    };
    for part in parts {
        let Part::Block(block) = part else { continue };
        match block.kind.as_deref() {
            Some("text") => out.push(origin.assistant(block.text.unwrap_or_default()))?,
            Some("thinking") => out.push(origin.thinking(block.thinking.unwrap_or_default()))?,
            Some("toolCall") => out.push(origin.call(block.id, block.name, arguments(block.arguments)))?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_named_by_its_id() {
        assert_eq!(id_of("/h/.pi/agent/sessions/--p--/2026-01-02T03-04-05-000Z_ab-12.jsonl"), "ab-12");
        assert_eq!(id_of("ab-12"), "ab-12");
    }
}
