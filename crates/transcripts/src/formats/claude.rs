//! Reader for session logs of Claude Code: one record per line, and one content block per record.
//!
//! Entries are in file order. Parent ids are stored as hints only: after a resumed session parents are missing in the
//! file, so a walk along the parents would lose records.

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

/// The text before the path of the parent's log, in a plan with which Claude Code starts a new session.
const PARENT_LOG_PREFIX: &str = "read the full transcript at: ";

/// One line of a log. Fields that this reader does not use are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaudeRecord {
    /// The record type, such as `user`, `assistant`, `system` or `summary`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    /// The type of a `system` record, such as `compact_boundary`.
    #[serde(deserialize_with = "loose::text")]
    subtype: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    uuid: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    parent_uuid: Option<String>,
    /// The parent of a compaction boundary, whose `parentUuid` is null. It may be missing in the file.
    #[serde(deserialize_with = "loose::text")]
    logical_parent_uuid: Option<String>,
    /// The last record of the branch to which a `summary` record gives a title.
    #[serde(deserialize_with = "loose::text")]
    leaf_uuid: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    /// The id of the sub-agent that wrote the log.
    #[serde(deserialize_with = "loose::text")]
    agent_id: Option<String>,
    /// The working folder.
    #[serde(deserialize_with = "loose::text")]
    cwd: Option<String>,
    /// True for records of a sub-agent.
    #[serde(deserialize_with = "loose::flag")]
    is_sidechain: bool,
    /// True for text that the harness injected.
    #[serde(deserialize_with = "loose::flag")]
    is_meta: bool,
    /// True for the user record that contains a compaction summary.
    #[serde(deserialize_with = "loose::flag")]
    is_compact_summary: bool,
    /// The plan with which a session in plan mode started this one.
    #[serde(deserialize_with = "loose::text")]
    plan_content: Option<String>,
    /// The title in a `summary` record. It belongs to another branch.
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
    /// The title that the user gave the session.
    #[serde(deserialize_with = "loose::text")]
    custom_title: Option<String>,
    /// Trigger and token counts of a compaction.
    compact_metadata: Option<Value>,
    /// The text of a `system` record.
    content: ForeignContent,
    /// The message of a `user` or `assistant` record.
    message: Option<ClaudeMessage>,
    attachment: Option<ClaudeAttachment>,
}

/// A message in the form of Anthropic's Messages API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeMessage {
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    content: ForeignContent,
}

/// An attachment. Only queued commands are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeAttachment {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    /// The text that the user typed.
    prompt: ForeignContent,
}

/// The origin of the text of a user record.
#[derive(Debug, Clone, Copy)]
enum UserTextOrigin {
    /// The text is part of the conversation.
    Typed,
    /// The record marks the text as injected, or the text is the output of a local command.
    Injected,
}

/// Reads a session log as one conversation.
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

/// Fills in the metadata of the conversation from a record. Takes the fields that it uses.
fn update_conversation(record: &mut ClaudeRecord, out: &mut SinkWriter<'_>) {
    let Some(conversation) = out.conversation() else { return };
    if conversation.session_id.is_none() {
        // The log of a sub-agent has the session id of its parent, so the sub-agent's id is appended.
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

/// Returns the id of the parent session from the log path at the end of a plan.
fn parent_session(text: &str) -> Option<String> {
    let (_, after_prefix) = text.rsplit_once(PARENT_LOG_PREFIX)?;
    let path = after_prefix.split_whitespace().next()?;
    let name = path.rsplit(['/', '\\']).next()?;
    let id = name.trim_end_matches(".jsonl");
    // A redacted path contains no session id.
    (!id.is_empty() && !id.contains("REDACTED")).then(|| id.to_owned())
}

/// Returns the origin of the entries of a record. Takes the ids of the record.
fn entry_origin(record: &mut ClaudeRecord) -> EntryOrigin {
    EntryOrigin {
        native_id: record.uuid.take(),
        parent: record.parent_uuid.take(),
        created_at: record.timestamp,
        track: if record.is_sidechain { EntryTrack::Side } else { EntryTrack::Main },
    }
}

/// Reads a record of the harness. Compaction boundaries and recaps become entries; timings and errors are skipped.
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

/// Reads an attachment. Only a message that the user typed while the agent was busy is part of the conversation.
fn read_attachment(mut record: ClaudeRecord, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let attachment = record.attachment.take().unwrap_or_default();
    if attachment.kind.as_deref() != Some("queued_command") {
        return Ok(());
    }
    let flat = attachment.prompt.flatten();
    let author = detect_author(&flat.text);
    out.push_entry(entry_origin(&mut record).build_entry(EntryBody::Text {
        author,
        text: flat.text,
        media: flat.media,
    }))
}

/// Reads a user record: text, tool results, or a compaction summary.
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
    let text_origin = if record.is_meta { UserTextOrigin::Injected } else { UserTextOrigin::Typed };
    match content {
        ForeignContent::Text(text) => {
            let is_command = text.starts_with("<command-") || text.starts_with("<local-command");
            let text_origin = if is_command { UserTextOrigin::Injected } else { text_origin };
            out.push_entry(origin.build_entry(user_text_body(text, text_origin, Vec::new())))
        }
        ForeignContent::Blocks(parts) => read_user_blocks(parts, text_origin, &origin, calls, out),
        ForeignContent::Absent | ForeignContent::Object(_) => Ok(()),
    }
}

/// Reads the blocks of a user record. Its images are attached to the first text that the user wrote.
fn read_user_blocks(
    mut parts: Vec<ForeignContentPart>,
    text_origin: UserTextOrigin,
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
                out.push_entry(origin.build_entry(user_text_body(text, text_origin, images)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the image in a content part, if it is an image block.
fn image_reference(part: &mut ForeignContentPart) -> Option<MediaReference> {
    match part {
        ForeignContentPart::Block(block) => block.media(),
        ForeignContentPart::Text(_) | ForeignContentPart::Other => None,
    }
}

/// Returns the body for text of a user record: a note if the record marks it as injected.
fn user_text_body(text: String, text_origin: UserTextOrigin, media: Vec<MediaReference>) -> EntryBody {
    match text_origin {
        UserTextOrigin::Injected => EntryBody::Note { role: EntryRole::User, text },
        UserTextOrigin::Typed => EntryBody::Text { author: detect_author(&text), text, media },
    }
}

/// Returns the body for a tool result block, with the tool name of its call.
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

/// Reads an assistant record, which normally has one block.
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
    fn the_parent_session_of_a_plan_is_the_name_of_its_log() {
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
