//! Reader for session logs of pi, with entry ids (versions 2 and 3) and without (version 1).
//!
//! All branches of a session are read in file order. The last active branch is not determined.

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

/// One line of a log: the union of the fields of all record types that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PiRecord {
    /// The record type, such as `session`, `message` or `compaction`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    /// The id of the entry, or of the session in a `session` record.
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    /// The working folder.
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
    /// The path of the log from which this session was forked.
    #[serde(deserialize_with = "loose::text")]
    parent_session: Option<String>,
    /// The form of `parent_session` in version 1.
    #[serde(deserialize_with = "loose::text")]
    branched_from: Option<String>,
    /// The title of the session.
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    /// The summary of a compaction or of another branch.
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
    /// The first entry that stays in the context after a compaction, by index (version 1).
    first_kept_entry_index: Option<Value>,
    /// The first entry that stays in the context after a compaction, by id.
    first_kept_entry_id: Option<Value>,
    /// The size of the context before a compaction, in tokens.
    tokens_before: Option<Value>,
    message: Option<PiMessage>,
}

/// A message: the union of the fields of all roles.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PiMessage {
    /// `user`, `assistant`, `toolResult` or `bashExecution`; other roles are skipped.
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    content: ForeignContent,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    /// The call that a tool result answers.
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    tool_name: Option<String>,
    /// True if a tool result reports a failure.
    #[serde(deserialize_with = "loose::flag")]
    is_error: bool,
    /// The shell command that the user ran.
    #[serde(deserialize_with = "loose::text")]
    command: Option<String>,
    /// The output of the shell command.
    #[serde(deserialize_with = "loose::text")]
    output: Option<String>,
}

/// Reads a session log as one conversation.
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

/// Reads a session header. Only the first header of a file sets the metadata of the conversation.
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

/// Returns the session id in the path of a log, `<time>_<id>.jsonl`. A text of any other form is returned unchanged.
fn session_id_from_path(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    name.rsplit_once('_').map_or(name, |(_, id)| id).to_owned()
}

/// Reads a compaction as a boundary, with pi's own key names in the details, and its summary.
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

/// Reads one message. A shell command that the user ran becomes a note. Other roles are skipped.
fn read_message(message: PiMessage, origin: &EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    match message.role.as_deref() {
        Some("user") => {
            let flat = message.content.flatten();
            let author = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text { author, text: flat.text, media: flat.media }))
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

/// Reads the content of an assistant message, one entry for each block.
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
    fn the_parent_session_is_the_id_in_the_path_of_its_log() {
        assert_eq!(
            session_id_from_path("/h/.pi/agent/sessions/--p--/2026-01-02T03-04-05-000Z_ab-12.jsonl"),
            "ab-12"
        );
        assert_eq!(session_id_from_path("ab-12"), "ab-12");
    }
}
