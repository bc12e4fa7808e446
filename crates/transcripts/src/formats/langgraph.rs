//! LangGraph checkpoints in SQLite. Every checkpoint holds all messages of its time; the conversation is the union over
//! a thread's checkpoints, and messages that vanish mark a compaction. Subgraphs are not read.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use protocol::ToolStatus;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::conversation::{ConversationInfo, text_digest};
use crate::detect::SessionFormat;
use crate::entry::{EntryBody, EntryOrigin, EntryRole, TranscriptEntry};
use crate::error::Error;
use crate::formats::{detect_author, msgpack};
use crate::json::content::{ForeignContent, parse_arguments};
use crate::json::{loose, result_repair};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// How the message starts in which LangChain's middleware puts its summary.
const SUMMARY_START: &str = "Here is a summary of the conversation";

/// The parts of the database file that another program may not have merged yet.
const WAL_SUFFIX: &str = "-wal";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CheckpointMessage {
    content: ForeignContent,
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    tool_calls: Option<Vec<CheckpointToolCall>>,
    #[serde(deserialize_with = "loose::text")]
    tool_call_id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CheckpointToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    args: Option<Value>,
}

/// A database opened for reading, with the copy it may have needed.
struct CheckpointDatabase {
    connection: Connection,
    _copy: Option<TempDir>,
}

/// Reads every thread of a database.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let failed = |error| Error::Database { path: source.display_name().to_owned(), source: error };
    let database = open_database(source)?;
    let mut bytes = 0;
    for thread in thread_ids(&database.connection).map_err(failed)? {
        let mut conversation = ConversationInfo::new(SessionFormat::LangGraph, &thread);
        conversation.set_session_id(Some(thread.clone()));
        out.open_conversation(conversation)?;
        let mut reading = CheckpointReader::default();
        let mut statement = database
            .connection
            .prepare_cached(
                "SELECT checkpoint_id, type, checkpoint FROM checkpoints
                 WHERE thread_id = ?1 AND checkpoint_ns = '' ORDER BY checkpoint_id",
            )
            .map_err(failed)?;
        let mut rows = statement.query([&thread]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let id: String = row.get(0).map_err(failed)?;
            let encoding: Option<String> = row.get(1).map_err(failed)?;
            let blob = match row.get_ref(2).map_err(failed)? {
                ValueRef::Blob(blob) | ValueRef::Text(blob) => blob,
                ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => continue,
            };
            bytes += blob.len() as u64;
            match decode_checkpoint(encoding.as_deref(), blob) {
                Ok(checkpoint) => reading.read_checkpoint(&id, checkpoint, out)?,
                Err(reason) => {
                    out.report_problem(format!("skipped checkpoint {id} of thread {thread}: {reason}"))
                }
            }
            out.report_progress(bytes.min(source.bytes()));
        }
    }
    Ok(())
}

/// Returns the ids of all threads.
fn thread_ids(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT DISTINCT CAST(thread_id AS TEXT) FROM checkpoints ORDER BY 1")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// Opens the database without leaving files beside it.
fn open_database(source: &TranscriptSource) -> Result<CheckpointDatabase, Error> {
    let failed = |error| Error::Database { path: source.display_name().to_owned(), source: error };
    let log = with_suffix(source.path(), WAL_SUFFIX);
    if !log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        let uri = format!("file:{}?mode=ro&immutable=1", escape_uri_path(source.path()));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri, flags).map_err(failed)?;
        return Ok(CheckpointDatabase { connection, _copy: None });
    }
    // An immutable database is read without its log, so the newest messages would be missing: read a copy with it.
    let io = |error| source.io_error(error);
    let folder = tempfile::tempdir().map_err(io)?;
    let copy = folder.path().join("checkpoints.db");
    std::fs::copy(source.path(), &copy).map_err(io)?;
    std::fs::copy(&log, with_suffix(&copy, WAL_SUFFIX)).map_err(io)?;
    let connection = Connection::open(&copy).map_err(failed)?;
    Ok(CheckpointDatabase { connection, _copy: Some(folder) })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns a path in which nothing ends the path part of a URI.
fn escape_uri_path(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Returns a checkpoint as JSON.
fn decode_checkpoint(encoding: Option<&str>, blob: &[u8]) -> Result<Value, String> {
    let value = match encoding {
        Some("msgpack") => msgpack::read(blob).map_err(|error| error.to_string())?,
        Some("json") | None => serde_json::from_slice(blob).map_err(|error| error.to_string())?,
        Some(other) => return Err(format!("its encoding {other} is not known")),
    };
    if value.is_object() { Ok(value) } else { Err("it holds no object".to_owned()) }
}

/// One thread while it is read.
#[derive(Default)]
struct CheckpointReader {
    seen_ids: HashSet<String>,
    previous_ids: Vec<String>,
}

/// The details of a checkpoint that holds fewer messages than the one before.
#[derive(Serialize)]
struct CheckpointTruncationDetails {
    messages_removed: usize,
}

impl CheckpointReader {
    /// Reads the messages that a checkpoint adds, after a boundary when it lost some.
    fn read_checkpoint(
        &mut self,
        id: &str,
        mut checkpoint: Value,
        out: &mut SinkWriter<'_>,
    ) -> Result<(), Error> {
        let at = checkpoint.get("ts").and_then(Value::as_str).and_then(loose::parse_time);
        let messages = match checkpoint.pointer_mut("/channel_values/messages").map(Value::take) {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        };
        let messages: Vec<CheckpointMessage> = messages.into_iter().filter_map(unwrap_message).collect();
        let ids = message_ids(&messages);
        let present: HashSet<&String> = ids.iter().collect();
        let removed = self.previous_ids.iter().filter(|id| !present.contains(id)).count();
        if removed > 0 {
            let origin =
                EntryOrigin { native_id: Some(id.to_owned()), created_at: at, ..EntryOrigin::default() };
            let label = format!("messages removed: {removed}");
            out.push_entry(
                origin.boundary(&label, &CheckpointTruncationDetails { messages_removed: removed }),
            )?;
        }
        for (message, id) in messages.into_iter().zip(&ids) {
            if self.seen_ids.insert(id.clone()) {
                let origin =
                    EntryOrigin { native_id: message.id.clone(), created_at: at, ..EntryOrigin::default() };
                push_message(message, &origin, out)?;
            }
        }
        self.previous_ids = ids;
        Ok(())
    }
}

/// Returns the message inside the wrapping of its encoding; `None` when it is none.
fn unwrap_message(value: Value) -> Option<CheckpointMessage> {
    let Value::Object(mut fields) = value else { return None };
    let (class, arguments) = if fields.contains_key("lc") {
        let class = fields.get("id").and_then(Value::as_array).and_then(|path| path.last()).cloned();
        (class, fields.remove("kwargs").unwrap_or_default())
    } else if fields.contains_key("__class__") {
        (fields.remove("__class__"), fields.remove("value").unwrap_or_default())
    } else if fields.contains_key("type") && fields.contains_key("content") {
        (None, Value::Object(fields))
    } else {
        return None;
    };
    let arguments = if arguments.is_object() { arguments } else { Value::Object(Map::new()) };
    let mut message: CheckpointMessage = serde_json::from_value(arguments).ok()?;
    if message.kind.as_deref().unwrap_or_default().is_empty() {
        message.kind = class.and_then(|class| Some(class.as_str()?.replace("Message", "").to_lowercase()));
    }
    Some(message)
}

/// Returns the ids of messages; one made from what it holds for each that has none. Those that hold the same are told
/// apart by their number, so that none is taken for the other.
fn message_ids(messages: &[CheckpointMessage]) -> Vec<String> {
    let mut alike: HashMap<String, usize> = HashMap::new();
    let mut made = |message: &CheckpointMessage| {
        let digest = text_digest(&format!("{message:?}"));
        let number = alike.entry(digest.clone()).or_default();
        *number += 1;
        format!("{digest}:{number}")
    };
    let given = |message: &CheckpointMessage| message.id.clone().filter(|id| !id.is_empty());
    messages.iter().map(|message| given(message).unwrap_or_else(|| made(message))).collect()
}

fn push_message(
    message: CheckpointMessage,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let kind = message.kind.unwrap_or_default();
    let (flat, repaired) = match kind.as_str() {
        "tool" => result_repair::flatten_and_repair(message.content),
        _ => (message.content.flatten(), None),
    };
    match kind.as_str() {
        "human" | "user" if flat.text.starts_with(SUMMARY_START) => out.push_entry(origin.summary(flat.text)),
        "human" | "user" => {
            let by = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text {
                author: by,
                text: flat.text,
                media: flat.media,
            }))
        }
        "ai" | "assistant" => {
            if !flat.text.is_empty() {
                out.push_entry(origin.assistant_text(flat.text))?;
            }
            message.tool_calls.unwrap_or_default().into_iter().try_for_each(|call| {
                out.push_entry(origin.tool_call(call.id, call.name, parse_arguments(call.args)))
            })
        }
        "tool" => {
            let status = match message.status.as_deref() {
                Some("error") => ToolStatus::Error,
                _ => ToolStatus::Success,
            };
            let entry = origin.tool_result(message.tool_call_id, message.name, flat, status);
            out.push_entry(TranscriptEntry { repair: repaired, ..entry })
        }
        "system" => out.push_entry(origin.note(EntryRole::System, flat.text)),
        _ => Ok(()),
    }
}
