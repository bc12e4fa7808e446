//! OpenCode sessions: the export in one file, and the folder of small files that OpenCode keeps itself. A call and its
//! result are one part there and two entries here.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::conversation::ConversationInfo;
use crate::detect::SessionFormat;
use crate::entry::{Author, EntryBody, EntryOrigin, EntryRole, EntryTrack, TranscriptEntry};
use crate::error::Error;
use crate::formats::detect_author;
use crate::json::content::parse_arguments;
use crate::json::loose;
use crate::json::record::decode_one;
use crate::json::walker::{self, FieldSelector};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeSession {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    directory: Option<String>,
    #[serde(rename = "parentID", deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    title: Option<String>,
    time: Option<OpenCodeTimes>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeTimes {
    #[serde(deserialize_with = "loose::time")]
    created: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeMessage {
    info: Option<OpenCodeMessageInfo>,
    parts: Option<Vec<OpenCodePart>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeMessageInfo {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(rename = "parentID", deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    time: Option<OpenCodeTimes>,
    /// True on an assistant message that is a summary; on user messages an object that counts as false.
    #[serde(deserialize_with = "loose::flag")]
    summary: bool,
    #[serde(rename = "modelID", deserialize_with = "loose::text")]
    model_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodePart {
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    text: Option<String>,
    #[serde(deserialize_with = "loose::flag")]
    synthetic: bool,
    #[serde(deserialize_with = "loose::text")]
    tool: Option<String>,
    #[serde(rename = "callID", deserialize_with = "loose::text")]
    call_id: Option<String>,
    state: Option<OpenCodeToolState>,
    #[serde(deserialize_with = "loose::text")]
    prompt: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeToolState {
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
    input: Option<Value>,
    #[serde(deserialize_with = "loose::text")]
    output: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    error: Option<String>,
}

/// Reads an export, or the folder around a session's own file.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    // The session comes first in every export seen, but JSON promises no order.
    let Some(session) = walker::read_member(source, "info")? else { return read_folder(source, out) };
    let session = decode_one(&session, out).unwrap_or_default();
    out.open_conversation(session_conversation(source, session))?;
    let wants = |key: &str| if key == "messages" { FieldSelector::Elements } else { FieldSelector::Skip };
    walker::for_each_piece(source, out, wants, &mut |_, bytes, out| match decode_one::<OpenCodeMessage>(
        bytes, out,
    ) {
        Some(record) => read_message(record.info.unwrap_or_default(), record.parts.unwrap_or_default(), out),
        None => Ok(()),
    })
}

/// Reads the session whose own file is the source: `session/<project>/<id>.json`, with the messages in `message/<id>/`
/// and their parts in `part/<message>/` beside it. Ids ascend with time.
fn read_folder(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let Some(session) = read_json::<OpenCodeSession>(source.path(), out) else { return Ok(()) };
    let Some(root) = source.path().ancestors().nth(3) else { return Ok(()) };
    let Some(id) = session.id.clone().filter(|id| is_file_name(id)) else { return Ok(()) };
    out.open_conversation(session_conversation(source, session))?;
    for path in list_files(&root.join("message").join(id), out) {
        let Some(info) = read_json::<OpenCodeMessageInfo>(&path, out) else { continue };
        let parts = match info.id.as_deref().filter(|id| is_file_name(id)) {
            Some(id) => list_files(&root.join("part").join(id), out)
                .iter()
                .filter_map(|path| read_json::<OpenCodePart>(path, out))
                .collect(),
            None => Vec::new(),
        };
        read_message(info, parts, out)?;
    }
    Ok(())
}

/// Returns whether an id from a file may become part of a path.
fn is_file_name(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Returns the files of a folder by name; none, with a report, when it cannot be read.
fn list_files(folder: &Path, out: &mut SinkWriter<'_>) -> Vec<PathBuf> {
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            out.report_problem(format!("skipped the folder {}: {error}", folder.display()));
            Vec::new()
        }
    }
}

/// Returns the record in a small file; `None`, with a report, when it cannot be read.
fn read_json<T: DeserializeOwned>(path: &Path, out: &mut SinkWriter<'_>) -> Option<T> {
    match std::fs::read(path) {
        Ok(bytes) => decode_one(&bytes, out),
        Err(error) => {
            out.report_problem(format!("skipped {}: {error}", path.display()));
            None
        }
    }
}

fn session_conversation(source: &TranscriptSource, session: OpenCodeSession) -> ConversationInfo {
    let mut conversation = ConversationInfo::new(SessionFormat::OpenCode, source.name());
    conversation.set_session_id(session.id);
    conversation.title = session.title;
    conversation.workspace = session.directory;
    conversation.parent_session = session.parent_id;
    conversation.started_at = session.time.and_then(|time| time.created);
    conversation
}

fn read_message(
    info: OpenCodeMessageInfo,
    parts: Vec<OpenCodePart>,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let assistant = info.role.as_deref() == Some("assistant");
    let summary = assistant && info.summary;
    let origin = EntryOrigin {
        native_id: info.id,
        parent: info.parent_id,
        created_at: info.time.and_then(|time| time.created),
        track: EntryTrack::Main,
    };
    if let Some(conversation) = out.conversation()
        && assistant
    {
        conversation.model = conversation.model.take().or(info.model_id);
    }
    if summary {
        out.push_entry(origin.boundary("opencode summary", &Map::new()))?;
    }
    let writer = match (assistant, summary) {
        (true, true) => MessageWriter::Summariser,
        (true, false) => MessageWriter::Assistant,
        (false, _) => MessageWriter::User,
    };
    for part in parts {
        match part.kind.as_deref() {
            Some("text") => out.push_entry(text_entry(part, &writer, &origin))?,
            Some("reasoning") => out.push_entry(origin.thinking(part.text.unwrap_or_default()))?,
            Some("tool") => read_tool_call(part, &origin, out)?,
            Some(label @ "compaction") => {
                out.push_entry(origin.boundary(label, &Map::new()))?;
            }
            Some("subtask") => {
                let mut entry = origin.build_entry(EntryBody::Text {
                    author: Author::Person,
                    text: part.prompt.unwrap_or_default(),
                    media: Vec::new(),
                });
                entry.track = EntryTrack::Side;
                out.push_entry(entry)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The author of a message.
enum MessageWriter {
    User,
    Assistant,
    Summariser,
}

fn text_entry(part: OpenCodePart, writer: &MessageWriter, origin: &EntryOrigin) -> TranscriptEntry {
    let text = part.text.unwrap_or_default();
    match writer {
        MessageWriter::Summariser => origin.summary(text),
        MessageWriter::Assistant if part.synthetic => origin.note(EntryRole::Assistant, text),
        MessageWriter::Assistant => origin.assistant_text(text),
        MessageWriter::User if part.synthetic => origin.note(EntryRole::User, text),
        MessageWriter::User => {
            let by = detect_author(&text);
            origin.build_entry(EntryBody::Text { author: by, text, media: Vec::new() })
        }
    }
}

/// Reads a call and, when the tool has finished, its result.
fn read_tool_call(part: OpenCodePart, origin: &EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let state = part.state.unwrap_or_default();
    out.push_entry(origin.tool_call(part.call_id.clone(), part.tool.clone(), parse_arguments(state.input)))?;
    let status = match state.status.as_deref() {
        Some("completed") => ToolStatus::Success,
        Some("error") => ToolStatus::Error,
        _ => return Ok(()),
    };
    let text = state.output.filter(|text| !text.is_empty()).or(state.error).unwrap_or_default();
    out.push_entry(origin.build_entry(EntryBody::ToolResult {
        call_id: part.call_id,
        tool: part.tool,
        text,
        media: Vec::new(),
        status,
    }))
}
