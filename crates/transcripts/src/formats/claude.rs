//! Claude Code session logs: one record per line and one content block per record. File order counts; the tree of
//! parents is kept as hints only, because walking it loses records.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{Author, EntryBody, EntryOrigin, EntryRole, EntryTrack, MediaReference};
use crate::error::Error;
use crate::formats::{PendingCalls, detect_author};
use crate::json::content::{ForeignContent, ForeignContentBlock, ForeignContentPart, parse_arguments};
use crate::json::{lines, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// The text before the path of the parent's log, in a plan that was handed to a new session.
const PARENT_LOG_PREFIX: &str = "read the full transcript at: ";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaudeRecord {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    subtype: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    uuid: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    parent_uuid: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    logical_parent_uuid: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    leaf_uuid: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    agent_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
    #[serde(deserialize_with = "loose::flag")]
    is_sidechain: bool,
    #[serde(deserialize_with = "loose::flag")]
    is_meta: bool,
    #[serde(deserialize_with = "loose::flag")]
    is_compact_summary: bool,
    #[serde(deserialize_with = "loose::text")]
    plan_content: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    custom_title: Option<String>,
    compact_metadata: Option<Value>,
    content: ForeignContent,
    message: Option<ClaudeMessage>,
    attachment: Option<ClaudeAttachment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeMessage {
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    content: ForeignContent,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeAttachment {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    prompt: ForeignContent,
}

/// The meaning of the text of a user record.
#[derive(Debug, Clone, Copy)]
enum UserTextOrigin {
    /// Part of the conversation.
    Typed,
    /// Marked as injected by the record.
    Injected,
}

/// Reads a session log.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    out.open_conversation(ConversationInfo::new(SessionFormat::Claude, source.name()))?;
    let mut calls = PendingCalls::default();
    lines::read_records(source, out, |mut record: ClaudeRecord, out| {
        update_conversation(&mut record, out);
        match record.kind.as_deref() {
            Some("system") => read_system(record, out),
            Some("summary") => {
                let mut origin =
                    EntryOrigin { native_id: record.leaf_uuid.take(), ..entry_origin(&mut record) };
                origin.parent = None;
                out.push_entry(
                    origin.note(EntryRole::Marker, format!("title: {}", record.summary.unwrap_or_default())),
                )
            }
            Some("attachment") => read_attachment(record, out),
            Some("user") => read_user(record, &mut calls, out),
            Some("assistant") => read_assistant(record, &mut calls, out),
            _ => Ok(()),
        }
    })
}

/// Adds what the record tells about the session.
fn update_conversation(record: &mut ClaudeRecord, out: &mut SinkWriter<'_>) {
    let Some(conversation) = out.conversation() else { return };
    if conversation.session_id.is_none() {
        // The log of a sub-agent carries the id of the session that started it.
        match (record.session_id.take(), record.agent_id.take()) {
            (Some(session), Some(agent)) if record.is_sidechain => {
                conversation.set_session_id(Some(format!("{session}/{agent}")));
                conversation.parent_session = Some(session);
            }
            (session, _) => conversation.set_session_id(session),
        }
    }
    if conversation.workspace.is_none() {
        conversation.workspace = record.cwd.take();
    }
    if let Some(title) = record.custom_title.take() {
        conversation.title = Some(title);
    }
    if conversation.model.is_none()
        && let Some(model) = record.message.as_mut().and_then(|message| message.model.take())
        && model != "<synthetic>"
    {
        conversation.model = Some(model);
    }
    if let Some(plan) = record.plan_content.take()
        && conversation.parent_session.is_none()
    {
        let text = match record.message.as_ref().map(|message| &message.content) {
            Some(ForeignContent::Text(text)) => text.as_str(),
            Some(ForeignContent::Absent | ForeignContent::Blocks(_) | ForeignContent::Object(_)) | None => {
                plan.as_str()
            }
        };
        conversation.parent_session = parent_session(text);
    }
}

/// Returns the session whose log a handed-over plan names.
fn parent_session(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once(PARENT_LOG_PREFIX)?;
    let path = rest.split_whitespace().next()?;
    let name = path.rsplit(['/', '\\']).next()?;
    let id = name.trim_end_matches(".jsonl");
    // A scrubbed path names nobody.
    (!id.is_empty() && !id.contains("REDACTED")).then(|| id.to_owned())
}

fn entry_origin(record: &mut ClaudeRecord) -> EntryOrigin {
    EntryOrigin {
        native_id: record.uuid.take(),
        parent: record.parent_uuid.take(),
        created_at: record.timestamp,
        track: if record.is_sidechain { EntryTrack::Side } else { EntryTrack::Main },
    }
}

/// Reads a record of the harness: compaction points and recaps count, timings do not.
fn read_system(mut record: ClaudeRecord, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let mut origin = entry_origin(&mut record);
    match record.subtype.as_deref() {
        Some(label @ "compact_boundary") => {
            origin.parent = record.logical_parent_uuid;
            out.push_entry(origin.boundary(label, &parse_arguments(record.compact_metadata)))
        }
        Some(label @ "microcompact_boundary") => out.push_entry(origin.note(EntryRole::Marker, label)),
        Some("away_summary") => {
            let text = format!("away_summary: {}", record.content.flatten().text);
            out.push_entry(origin.note(EntryRole::Marker, text))
        }
        _ => Ok(()),
    }
}

/// Reads an attachment: only a prompt typed while the agent was busy is part of the conversation.
fn read_attachment(mut record: ClaudeRecord, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let attachment = record.attachment.take().unwrap_or_default();
    if attachment.kind.as_deref() != Some("queued_command") {
        return Ok(());
    }
    let flat = attachment.prompt.flatten();
    let by = detect_author(&flat.text);
    out.push_entry(entry_origin(&mut record).build_entry(EntryBody::Text {
        author: by,
        text: flat.text,
        media: flat.media,
    }))
}

fn read_user(
    mut record: ClaudeRecord,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let origin = entry_origin(&mut record);
    let content = record.message.unwrap_or_default().content;
    if record.is_compact_summary {
        return out.push_entry(origin.summary(content.flatten().text));
    }
    let standing = if record.is_meta { UserTextOrigin::Injected } else { UserTextOrigin::Typed };
    match content {
        ForeignContent::Text(text) => {
            let command = text.starts_with("<command-") || text.starts_with("<local-command");
            let standing = if command { UserTextOrigin::Injected } else { standing };
            out.push_entry(origin.build_entry(user_text_body(text, standing, Vec::new())))
        }
        ForeignContent::Blocks(parts) => read_user_blocks(parts, standing, &origin, calls, out),
        ForeignContent::Absent | ForeignContent::Object(_) => Ok(()),
    }
}

/// Reads the blocks of a user record; its images go with the first text that the harness did not add.
fn read_user_blocks(
    mut parts: Vec<ForeignContentPart>,
    standing: UserTextOrigin,
    origin: &EntryOrigin,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let mut media: Vec<MediaReference> = parts.iter_mut().filter_map(image_reference).collect();
    for part in parts {
        let ForeignContentPart::Block(block) = part else { continue };
        match block.kind.as_deref() {
            Some("tool_result") => out.push_entry(origin.build_entry(tool_result_body(*block, calls)))?,
            Some("text") => {
                let text = block.text.unwrap_or_default();
                let images = match detect_author(&text) {
                    Author::Person | Author::Assistant => std::mem::take(&mut media),
                    Author::Harness => Vec::new(),
                };
                out.push_entry(origin.build_entry(user_text_body(text, standing, images)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn image_reference(part: &mut ForeignContentPart) -> Option<MediaReference> {
    match part {
        ForeignContentPart::Block(block) => block.media(),
        ForeignContentPart::Text(_) | ForeignContentPart::Other => None,
    }
}

fn user_text_body(text: String, standing: UserTextOrigin, media: Vec<MediaReference>) -> EntryBody {
    match standing {
        UserTextOrigin::Injected => EntryBody::Note { role: EntryRole::User, text },
        UserTextOrigin::Typed => EntryBody::Text { author: detect_author(&text), text, media },
    }
}

fn tool_result_body(block: ForeignContentBlock, calls: &mut PendingCalls) -> EntryBody {
    let flat = block.content.flatten();
    EntryBody::ToolResult {
        tool: calls.take_tool_name(block.tool_use_id.as_deref()),
        call_id: block.tool_use_id,
        text: flat.text,
        media: flat.media,
        status: if block.is_error { ToolStatus::Error } else { ToolStatus::Success },
    }
}

fn read_assistant(
    mut record: ClaudeRecord,
    calls: &mut PendingCalls,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let origin = entry_origin(&mut record);
    let parts = match record.message.unwrap_or_default().content {
        ForeignContent::Blocks(parts) => parts,
        ForeignContent::Text(text) => return out.push_entry(origin.assistant_text(text)),
        ForeignContent::Absent | ForeignContent::Object(_) => {
            return out.push_entry(origin.assistant_text(""));
        }
    };
    for part in parts {
        let ForeignContentPart::Block(block) = part else { continue };
        match block.kind.as_deref() {
            Some("text") => {
                let body = EntryBody::Text {
                    author: Author::Assistant,
                    text: block.text.unwrap_or_default(),
                    media: Vec::new(),
                };
                out.push_entry(origin.build_entry(body))?;
            }
            Some("thinking") => out.push_entry(origin.thinking(block.thinking.unwrap_or_default()))?,
            Some("tool_use" | "server_tool_use") => {
                calls.record_call(block.id.as_deref(), block.name.as_deref());
                out.push_entry(origin.tool_call(block.id, block.name, parse_arguments(block.input)))?;
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
    fn a_handed_over_plan_names_the_session_it_came_from() {
        for (text, expected) in [
            ("Plan … read the full transcript at: /h/.claude/projects/-p/ab-12.jsonl", Some("ab-12")),
            ("read the full transcript at: C:\\p\\ab-12.jsonl\nmore", Some("ab-12")),
            ("read the full transcript at: /h/.REDACTED.jsonl", None),
            ("read the full transcript at: ", None),
            ("a plan", None),
        ] {
            assert_eq!(parent_session(text).as_deref(), expected, "{text}");
        }
    }
}
