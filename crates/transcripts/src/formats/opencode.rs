//! Reader for sessions of OpenCode.
//!
//! A session is an export in one JSON file, or a session file of OpenCode's own storage with one small file for each
//! message and part. A tool call and its result are one part in both and become two entries.

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

/// The metadata of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeSession {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The working folder.
    #[serde(deserialize_with = "loose::text")]
    directory: Option<String>,
    /// The session that started this one as a sub-agent.
    #[serde(rename = "parentID", deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    title: Option<String>,
    time: Option<OpenCodeTimes>,
}

/// The times of a session or message, in milliseconds in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeTimes {
    #[serde(deserialize_with = "loose::time")]
    created: Option<Timestamp>,
}

/// A message of an export.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeMessage {
    info: Option<OpenCodeMessageInfo>,
    parts: Option<Vec<OpenCodePart>>,
}

/// The metadata of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeMessageInfo {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(rename = "parentID", deserialize_with = "loose::text")]
    parent_id: Option<String>,
    /// `user` or `assistant`.
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    time: Option<OpenCodeTimes>,
    /// True if an assistant message is a compaction summary. User messages have an object here, which is read as false.
    #[serde(deserialize_with = "loose::flag")]
    summary: bool,
    #[serde(rename = "modelID", deserialize_with = "loose::text")]
    model_id: Option<String>,
}

/// One part of a message: the union of the fields of all part types.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodePart {
    /// The part type, such as `text`, `reasoning` or `tool`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    text: Option<String>,
    /// True for text that the harness injected.
    #[serde(deserialize_with = "loose::flag")]
    synthetic: bool,
    /// The tool name.
    #[serde(deserialize_with = "loose::text")]
    tool: Option<String>,
    #[serde(rename = "callID", deserialize_with = "loose::text")]
    call_id: Option<String>,
    state: Option<OpenCodeToolState>,
    /// The task of a sub-agent in a `subtask` part.
    #[serde(deserialize_with = "loose::text")]
    prompt: Option<String>,
}

/// The arguments, progress and result of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeToolState {
    /// `pending`, `running`, `completed` or `error`.
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
    input: Option<Value>,
    #[serde(deserialize_with = "loose::text")]
    output: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    error: Option<String>,
}

/// Reads an export, or a session file of OpenCode's storage with its message and part files.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    // `info` precedes the messages in all known exports, but JSON guarantees no order. It is read in a separate pass.
    let Some(session) = walker::read_member(source, "info")? else { return read_folder(source, out) };
    let session = decode_one(&session, out).unwrap_or_default();
    out.open_conversation(session_conversation(source, session))?;
    let select = |key: &str| if key == "messages" { FieldSelector::Elements } else { FieldSelector::Skip };
    walker::for_each_piece(source, out, select, &mut |_, bytes, out| match decode_one::<OpenCodeMessage>(
        bytes, out,
    ) {
        Some(record) => read_message(record.info.unwrap_or_default(), record.parts.unwrap_or_default(), out),
        None => Ok(()),
    })
}

/// Reads a session of OpenCode's storage. The source is the file `session/<project>/<id>.json`. Messages are in
/// `message/<id>/` and parts in `part/<message id>/` under the same root folder. Ids ascend with time, so the order of
/// the file names is the order of the conversation.
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

/// Returns whether an id from a file is safe as a file name: only ASCII letters, digits, `_` and `-`. This keeps a
/// crafted file from reading outside the storage folder.
fn is_file_name(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Returns the files of a folder, sorted by name. A missing folder is empty. An unreadable folder is reported and
/// empty.
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

/// Reads a file as one record. Returns `None` and reports a problem if that fails.
fn read_json<T: DeserializeOwned>(path: &Path, out: &mut SinkWriter<'_>) -> Option<T> {
    match std::fs::read(path) {
        Ok(bytes) => decode_one(&bytes, out),
        Err(error) => {
            out.report_problem(format!("skipped {}: {error}", path.display()));
            None
        }
    }
}

/// Returns the metadata of the conversation from the metadata of the session.
fn session_conversation(source: &TranscriptSource, session: OpenCodeSession) -> ConversationInfo {
    let mut conversation = ConversationInfo::new(SessionFormat::OpenCode, source.name());
    conversation.set_session_id(session.id);
    conversation.title = session.title;
    conversation.workspace = session.directory;
    conversation.parent_session = session.parent_id;
    conversation.started_at = session.time.and_then(|time| time.created);
    conversation
}

/// Reads a message as one entry for each part, and two for a tool part. A summary message begins with a boundary.
fn read_message(
    info: OpenCodeMessageInfo,
    parts: Vec<OpenCodePart>,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let is_assistant = info.role.as_deref() == Some("assistant");
    let is_summary = is_assistant && info.summary;
    let origin = EntryOrigin {
        native_id: info.id,
        parent: info.parent_id,
        created_at: info.time.and_then(|time| time.created),
        track: EntryTrack::Main,
    };
    if let Some(conversation) = out.conversation()
        && is_assistant
    {
        conversation.model = conversation.model.take().or(info.model_id);
    }
    if is_summary {
        out.push_entry(origin.boundary("opencode summary", &Map::new()))?;
    }
    let writer = match (is_assistant, is_summary) {
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
    /// The user, or the harness with the role `user`.
    User,
    /// The assistant.
    Assistant,
    /// The model call that wrote a compaction summary.
    Summariser,
}

/// Returns the entry for a text part. Injected text becomes a note.
fn text_entry(part: OpenCodePart, writer: &MessageWriter, origin: &EntryOrigin) -> TranscriptEntry {
    let text = part.text.unwrap_or_default();
    match writer {
        MessageWriter::Summariser => origin.summary(text),
        MessageWriter::Assistant if part.synthetic => origin.note(EntryRole::Assistant, text),
        MessageWriter::Assistant => origin.assistant_text(text),
        MessageWriter::User if part.synthetic => origin.note(EntryRole::User, text),
        MessageWriter::User => {
            let author = detect_author(&text);
            origin.build_entry(EntryBody::Text { author, text, media: Vec::new() })
        }
    }
}

/// Reads a tool call and, if the tool has finished, its result.
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
