//! OpenCode sessions: the export in one file, and the folder of small files that OpenCode keeps itself. A call and its
//! result are one part there and two entries here.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::detect::Format;
use crate::entry::{Author, Body, Entry, Origin, Role, Track};
use crate::error::Error;
use crate::formats::user_or_harness;
use crate::json::array::{self, Wanted};
use crate::json::content::arguments;
use crate::json::loose;
use crate::json::record::decode_one;
use crate::output::Output;
use crate::source::Source;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Session {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    directory: Option<String>,
    #[serde(rename = "parentID", deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    title: Option<String>,
    time: Option<Times>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    #[serde(deserialize_with = "loose::time")]
    created: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    info: Option<MessageInfo>,
    parts: Option<Vec<Part>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MessageInfo {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(rename = "parentID", deserialize_with = "loose::text")]
    parent_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    role: Option<String>,
    time: Option<Times>,
    /// True on an assistant message that is a summary; on user messages an object that counts as false.
    #[serde(deserialize_with = "loose::flag")]
    summary: bool,
    #[serde(rename = "modelID", deserialize_with = "loose::text")]
    model_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
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
    state: Option<State>,
    #[serde(deserialize_with = "loose::text")]
    prompt: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
    input: Option<Value>,
    #[serde(deserialize_with = "loose::text")]
    output: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    error: Option<String>,
}

/// Reads an export, or the folder around a session's own file.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    // The session comes first in every export seen, but JSON promises no order.
    let Some(session) = array::member(source, "info")? else { return read_folder(source, out) };
    let session = decode_one(&session, out).unwrap_or_default();
    out.open(conversation(source, session))?;
    let wants = |key: &str| if key == "messages" { Wanted::Elements } else { Wanted::Skip };
    array::each(source, out, wants, &mut |_, bytes, out| match decode_one::<Message>(bytes, out) {
        Some(record) => message(record.info.unwrap_or_default(), record.parts.unwrap_or_default(), out),
        None => Ok(()),
    })
}

/// Reads the session whose own file is the source: `session/<project>/<id>.json`, with the messages in `message/<id>/`
/// and their parts in `part/<message>/` beside it. Ids ascend with time.
fn read_folder(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    let Some(session) = read_json::<Session>(source.path(), out) else { return Ok(()) };
    let Some(root) = source.path().ancestors().nth(3) else { return Ok(()) };
    let Some(id) = session.id.clone().filter(|id| is_file_name(id)) else { return Ok(()) };
    out.open(conversation(source, session))?;
    for path in files(&root.join("message").join(id), out) {
        let Some(info) = read_json::<MessageInfo>(&path, out) else { continue };
        let parts = match info.id.as_deref().filter(|id| is_file_name(id)) {
            Some(id) => files(&root.join("part").join(id), out)
                .iter()
                .filter_map(|path| read_json::<Part>(path, out))
                .collect(),
            None => Vec::new(),
        };
        message(info, parts, out)?;
    }
    Ok(())
}

/// Returns whether an id from a file may become part of a path.
fn is_file_name(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Returns the files of a folder by name; none, with a report, when it cannot be read.
fn files(folder: &Path, out: &mut Output<'_>) -> Vec<PathBuf> {
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            out.problem(format!("skipped the folder {}: {error}", folder.display()));
            Vec::new()
        }
    }
}

/// Returns the record in a small file; `None`, with a report, when it cannot be read.
fn read_json<T: DeserializeOwned>(path: &Path, out: &mut Output<'_>) -> Option<T> {
    match std::fs::read(path) {
        Ok(bytes) => decode_one(&bytes, out),
        Err(error) => {
            out.problem(format!("skipped {}: {error}", path.display()));
            None
        }
    }
}

fn conversation(source: &Source, session: Session) -> Conversation {
    let mut conversation = Conversation::new(Format::OpenCode, source.name());
    conversation.identify(session.id);
    conversation.title = session.title;
    conversation.workspace = session.directory;
    conversation.parent_session = session.parent_id;
    conversation.started_at = session.time.and_then(|time| time.created);
    conversation
}

fn message(info: MessageInfo, parts: Vec<Part>, out: &mut Output<'_>) -> Result<(), Error> {
    let assistant = info.role.as_deref() == Some("assistant");
    let summary = assistant && info.summary;
    let origin = Origin {
        native_id: info.id,
        parent: info.parent_id,
        at: info.time.and_then(|time| time.created),
        track: Track::Main,
    };
    if let Some(conversation) = out.conversation()
        && assistant
    {
        conversation.model = conversation.model.take().or(info.model_id);
    }
    if summary {
        out.push(origin.boundary("opencode summary", &Map::new()))?;
    }
    let writer = match (assistant, summary) {
        (true, true) => Writer::Summariser,
        (true, false) => Writer::Assistant,
        (false, _) => Writer::User,
    };
    for part in parts {
        match part.kind.as_deref() {
            Some("text") => out.push(text(part, &writer, &origin))?,
            Some("reasoning") => out.push(origin.thinking(part.text.unwrap_or_default()))?,
            Some("tool") => tool(part, &origin, out)?,
            Some(label @ "compaction") => {
                out.push(origin.boundary(label, &Map::new()))?;
            }
            Some("subtask") => {
                let mut entry = origin.entry(Body::Text {
                    by: Author::Person,
                    text: part.prompt.unwrap_or_default(),
                    media: Vec::new(),
                });
                entry.track = Track::Side;
                out.push(entry)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Who wrote a message.
enum Writer {
    User,
    Assistant,
    Summariser,
}

fn text(part: Part, writer: &Writer, origin: &Origin) -> Entry {
    let text = part.text.unwrap_or_default();
    match writer {
        Writer::Summariser => origin.summary(text),
        Writer::Assistant if part.synthetic => origin.note(Role::Assistant, text),
        Writer::Assistant => origin.assistant(text),
        Writer::User if part.synthetic => origin.note(Role::User, text),
        Writer::User => {
            let by = user_or_harness(&text);
            origin.entry(Body::Text { by, text, media: Vec::new() })
        }
    }
}

/// Reads a call and, when the tool has finished, its result.
fn tool(part: Part, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    let state = part.state.unwrap_or_default();
    out.push(origin.call(part.call_id.clone(), part.tool.clone(), arguments(state.input)))?;
    let status = match state.status.as_deref() {
        Some("completed") => ToolStatus::Success,
        Some("error") => ToolStatus::Error,
        _ => return Ok(()),
    };
    let text = state.output.filter(|text| !text.is_empty()).or(state.error).unwrap_or_default();
    out.push(origin.entry(Body::ToolResult {
        call_id: part.call_id,
        tool: part.tool,
        text,
        media: Vec::new(),
        status,
    }))
}
