//! Claude Code session logs: one record per line and one content block per record. File order counts; the tree of
//! parents is kept as hints only, because walking it loses records.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Author, Body, Media, Origin, Role, Track};
use crate::error::Error;
use crate::formats::{OpenCalls, user_or_harness};
use crate::json::content::{Block, Content, Part, arguments};
use crate::json::{lines, loose};
use crate::output::Output;
use crate::source::Source;

/// What precedes the path of the parent's log in a plan handed to a fresh session.
const PARENT_LOG: &str = "read the full transcript at: ";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Record {
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
    content: Content,
    message: Option<Message>,
    attachment: Option<Attachment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    content: Content,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Attachment {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    prompt: Content,
}

/// What the text of a user record is.
#[derive(Debug, Clone, Copy)]
enum Standing {
    /// Part of the conversation.
    Said,
    /// Marked as injected by the record.
    Injected,
}

/// Reads a session log.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    out.open(Conversation::new(Format::Claude, source.name()))?;
    let mut calls = OpenCalls::default();
    lines::read(source, out, |mut record: Record, out| {
        learn(&mut record, out);
        match record.kind.as_deref() {
            Some("system") => system(record, out),
            Some("summary") => {
                let mut origin = Origin { native_id: record.leaf_uuid.take(), ..origin(&mut record) };
                origin.parent = None;
                out.push(origin.note(Role::Marker, format!("title: {}", record.summary.unwrap_or_default())))
            }
            Some("attachment") => attachment(record, out),
            Some("user") => user(record, &mut calls, out),
            Some("assistant") => assistant(record, &mut calls, out),
            _ => Ok(()),
        }
    })
}

/// Adds what the record tells about the session.
fn learn(record: &mut Record, out: &mut Output<'_>) {
    let Some(conversation) = out.conversation() else { return };
    if conversation.session_id.is_none() {
        // The log of a sub-agent carries the id of the session that started it.
        match (record.session_id.take(), record.agent_id.take()) {
            (Some(session), Some(agent)) if record.is_sidechain => {
                conversation.identify(Some(format!("{session}/{agent}")));
                conversation.parent_session = Some(session);
            }
            (session, _) => conversation.identify(session),
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
            Some(Content::Text(text)) => text.as_str(),
            Some(Content::Absent | Content::Blocks(_) | Content::Object(_)) | None => plan.as_str(),
        };
        conversation.parent_session = parent_session(text);
    }
}

/// Returns the session whose log a handed-over plan names.
fn parent_session(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once(PARENT_LOG)?;
    let path = rest.split_whitespace().next()?;
    let name = path.rsplit(['/', '\\']).next()?;
    let id = name.trim_end_matches(".jsonl");
    // A scrubbed path names nobody.
    (!id.is_empty() && !id.contains("REDACTED")).then(|| id.to_owned())
}

fn origin(record: &mut Record) -> Origin {
    Origin {
        native_id: record.uuid.take(),
        parent: record.parent_uuid.take(),
        at: record.timestamp,
        track: if record.is_sidechain { Track::Side } else { Track::Main },
    }
}

/// Reads a record of the harness: compaction points and recaps count, timings do not.
fn system(mut record: Record, out: &mut Output<'_>) -> Result<(), Error> {
    let mut origin = origin(&mut record);
    match record.subtype.as_deref() {
        Some(label @ "compact_boundary") => {
            origin.parent = record.logical_parent_uuid;
            out.push(origin.boundary(label, &arguments(record.compact_metadata)))
        }
        Some(label @ "microcompact_boundary") => out.push(origin.note(Role::Marker, label)),
        Some("away_summary") => {
            let text = format!("away_summary: {}", record.content.flatten().text);
            out.push(origin.note(Role::Marker, text))
        }
        _ => Ok(()),
    }
}

/// Reads an attachment: only a prompt typed while the agent was busy is part of the conversation.
fn attachment(mut record: Record, out: &mut Output<'_>) -> Result<(), Error> {
    let attachment = record.attachment.take().unwrap_or_default();
    if attachment.kind.as_deref() != Some("queued_command") {
        return Ok(());
    }
    let flat = attachment.prompt.flatten();
    let by = user_or_harness(&flat.text);
    out.push(origin(&mut record).entry(Body::Text { by, text: flat.text, media: flat.media }))
}

fn user(mut record: Record, calls: &mut OpenCalls, out: &mut Output<'_>) -> Result<(), Error> {
    let origin = origin(&mut record);
    let content = record.message.unwrap_or_default().content;
    if record.is_compact_summary {
        return out.push(origin.summary(content.flatten().text));
    }
    let standing = if record.is_meta { Standing::Injected } else { Standing::Said };
    match content {
        Content::Text(text) => {
            let command = text.starts_with("<command-") || text.starts_with("<local-command");
            let standing = if command { Standing::Injected } else { standing };
            out.push(origin.entry(user_text(text, standing, Vec::new())))
        }
        Content::Blocks(parts) => user_blocks(parts, standing, &origin, calls, out),
        Content::Absent | Content::Object(_) => Ok(()),
    }
}

/// Reads the blocks of a user record; its images go with the first text that the harness did not add.
fn user_blocks(
    mut parts: Vec<Part>,
    standing: Standing,
    origin: &Origin,
    calls: &mut OpenCalls,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    let mut media: Vec<Media> = parts.iter_mut().filter_map(image).collect();
    for part in parts {
        let Part::Block(block) = part else { continue };
        match block.kind.as_deref() {
            Some("tool_result") => out.push(origin.entry(tool_result(*block, calls)))?,
            Some("text") => {
                let text = block.text.unwrap_or_default();
                let images = match user_or_harness(&text) {
                    Author::Person | Author::Assistant => std::mem::take(&mut media),
                    Author::Harness => Vec::new(),
                };
                out.push(origin.entry(user_text(text, standing, images)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn image(part: &mut Part) -> Option<Media> {
    match part {
        Part::Block(block) => block.media(),
        Part::Text(_) | Part::Other => None,
    }
}

fn user_text(text: String, standing: Standing, media: Vec<Media>) -> Body {
    match standing {
        Standing::Injected => Body::Note { role: Role::User, text },
        Standing::Said => Body::Text { by: user_or_harness(&text), text, media },
    }
}

fn tool_result(block: Block, calls: &mut OpenCalls) -> Body {
    let flat = block.content.flatten();
    Body::ToolResult {
        tool: calls.returned(block.tool_use_id.as_deref()),
        call_id: block.tool_use_id,
        text: flat.text,
        media: flat.media,
        status: if block.is_error { ToolStatus::Error } else { ToolStatus::Success },
    }
}

fn assistant(mut record: Record, calls: &mut OpenCalls, out: &mut Output<'_>) -> Result<(), Error> {
    let origin = origin(&mut record);
    let parts = match record.message.unwrap_or_default().content {
        Content::Blocks(parts) => parts,
        Content::Text(text) => return out.push(origin.assistant(text)),
        Content::Absent | Content::Object(_) => return out.push(origin.assistant("")),
    };
    for part in parts {
        let Part::Block(block) = part else { continue };
        match block.kind.as_deref() {
            Some("text") => {
                let body = Body::Text {
                    by: Author::Assistant,
                    text: block.text.unwrap_or_default(),
                    media: Vec::new(),
                };
                out.push(origin.entry(body))?;
            }
            Some("thinking") => out.push(origin.thinking(block.thinking.unwrap_or_default()))?,
            Some("tool_use" | "server_tool_use") => {
                calls.called(block.id.as_deref(), block.name.as_deref());
                out.push(origin.call(block.id, block.name, arguments(block.input)))?;
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
