//! pi session logs, with and without entry ids. All branches are read in file order; which one was shown last is not
//! decided here.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{EntryBody, EntryOrigin, EntryRole, EntryTrack};
use crate::error::Error;
use crate::formats::detect_author;
use crate::json::content::{ForeignContent, ForeignContentPart, parse_arguments};
use crate::json::{lines, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PiRecord {
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
    message: Option<PiMessage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PiMessage {
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    content: ForeignContent,
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
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    out.open_conversation(ConversationInfo::new(SessionFormat::Pi, source.name()))?;
    lines::read_records(source, out, |mut record: PiRecord, out| {
        let origin = EntryOrigin {
            native_id: record.id.take(),
            parent: record.parent_id.take(),
            created_at: record.timestamp,
            track: EntryTrack::Main,
        };
        match record.kind.as_deref() {
            Some("session") => start_session(record, &origin, out),
            Some("session_info") => {
                if let (Some(conversation), Some(name)) = (out.conversation(), record.name) {
                    conversation.title = Some(name);
                }
                Ok(())
            }
            Some(label @ ("model_change" | "thinking_level_change")) => {
                out.push_entry(origin.note(EntryRole::Marker, label))
            }
            Some("compaction") => read_compaction(record, &origin, out),
            Some("branch_summary") => {
                let text = format!("branch_summary: {}", record.summary.unwrap_or_default());
                out.push_entry(origin.note(EntryRole::Marker, text))
            }
            Some("message") => read_message(record.message.unwrap_or_default(), &origin, out),
            _ => Ok(()),
        }
    })
}

fn start_session(record: PiRecord, origin: &EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    if let Some(conversation) = out.conversation()
        && conversation.session_id.is_none()
    {
        conversation.set_session_id(origin.native_id.clone());
        conversation.workspace = record.cwd;
        conversation.parent_session =
            record.parent_session.or(record.branched_from).map(|path| session_id_from_path(&path));
        conversation.started_at = origin.created_at;
    }
    out.push_entry(origin.note(EntryRole::Marker, "session"))
}

/// Returns the session id in the path of a log, `<time>_<id>.jsonl`; the text itself when it is no such path.
fn session_id_from_path(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    name.rsplit_once('_').map_or(name, |(_, id)| id).to_owned()
}

fn read_compaction(record: PiRecord, origin: &EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let details: Map<String, Value> = [
        ("firstKeptEntryIndex", record.first_kept_entry_index),
        ("firstKeptEntryId", record.first_kept_entry_id),
        ("tokensBefore", record.tokens_before),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    out.push_entry(origin.boundary("compaction", &details))?;
    out.push_entry(origin.summary(record.summary.unwrap_or_default()))
}

fn read_message(message: PiMessage, origin: &EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    match message.role.as_deref() {
        Some("user") => {
            let flat = message.content.flatten();
            let by = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text {
                author: by,
                text: flat.text,
                media: flat.media,
            }))
        }
        Some("assistant") => {
            if let Some(conversation) = out.conversation() {
                conversation.model = conversation.model.take().or(message.model);
            }
            read_assistant(message.content, origin, out)
        }
        Some("toolResult") => {
            let status = if message.is_error { ToolStatus::Error } else { ToolStatus::Success };
            let output = message.content.flatten();
            out.push_entry(origin.tool_result(message.tool_call_id, message.tool_name, output, status))
        }
        Some("bashExecution") => {
            let command = message.command.unwrap_or_default();
            let text = format!("!{command}\n{}", message.output.unwrap_or_default());
            out.push_entry(origin.note(EntryRole::User, text))
        }
        _ => Ok(()),
    }
}

fn read_assistant(
    content: ForeignContent,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let parts = match content {
        ForeignContent::Blocks(parts) => parts,
        ForeignContent::Text(text) => return out.push_entry(origin.assistant_text(text)),
        ForeignContent::Absent | ForeignContent::Object(_) => return Ok(()),
    };
    for part in parts {
        let ForeignContentPart::Block(block) = part else { continue };
        match block.kind.as_deref() {
            Some("text") => out.push_entry(origin.assistant_text(block.text.unwrap_or_default()))?,
            Some("thinking") => out.push_entry(origin.thinking(block.thinking.unwrap_or_default()))?,
            Some("toolCall") => {
                out.push_entry(origin.tool_call(block.id, block.name, parse_arguments(block.arguments)))?
            }
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
        assert_eq!(
            session_id_from_path("/h/.pi/agent/sessions/--p--/2026-01-02T03-04-05-000Z_ab-12.jsonl"),
            "ab-12"
        );
        assert_eq!(session_id_from_path("ab-12"), "ab-12");
    }
}
