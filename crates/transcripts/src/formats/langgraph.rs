//! Reader for LangGraph checkpoints in a SQLite database (`SqliteSaver`).
//!
//! Each checkpoint contains all messages of the thread's state. The conversation is the union over all checkpoints of a
//! thread, in the order in which messages first appear. Messages that a later checkpoint lacks were removed from the
//! context; they are reported as a compaction boundary. Only the root graph is read, because subgraphs have their own
//! checkpoint namespaces.

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

/// The start of the human message into which LangChain's summarization middleware puts its summary.
const SUMMARY_START: &str = "Here is a summary of the conversation";

/// The suffix of SQLite's write-ahead log, which contains commits that are not in the database file yet.
const WAL_SUFFIX: &str = "-wal";

/// A LangChain message. [`message_ids`] hashes its `Debug` output, so a renamed field changes the ids of messages
/// without an id.
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

/// A tool call of an AI message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CheckpointToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    args: Option<Value>,
}

/// A database that is open for reading.
struct CheckpointDatabase {
    connection: Connection,
    /// The folder of the temporary copy, if the database has a write-ahead log. It is deleted on drop.
    _copy: Option<TempDir>,
}

/// Reads every thread of a database as one conversation.
///
/// A checkpoint that cannot be decoded is reported and skipped. One checkpoint is in memory at a time.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let failed = |error| Error::Database { path: source.display_name().to_owned(), source: error };
    let database = open_database(source)?;
    let mut bytes = 0;
    for thread in thread_ids(&database.connection).map_err(failed)? {
        let mut conversation = ConversationInfo::new(SessionFormat::LangGraph, &thread);
        conversation.set_session_id(Some(thread.clone()));
        out.open_conversation(conversation)?;
        let mut reader = CheckpointReader::default();
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
                Ok(checkpoint) => reader.read_checkpoint(&id, checkpoint, out)?,
                Err(reason) => {
                    out.report_problem(format!("skipped checkpoint {id} of thread {thread}: {reason}"))
                }
            }
            out.report_progress(bytes.min(source.bytes()));
        }
    }
    Ok(())
}

/// Returns the ids of all threads, sorted as text.
fn thread_ids(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT DISTINCT CAST(thread_id AS TEXT) FROM checkpoints ORDER BY 1")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// Opens the database without creating files in its folder.
///
/// A plain read-only connection to a database in WAL mode creates `-wal` and `-shm` files. Opening it as immutable
/// avoids that.
fn open_database(source: &TranscriptSource) -> Result<CheckpointDatabase, Error> {
    let failed = |error| Error::Database { path: source.display_name().to_owned(), source: error };
    let wal = with_suffix(source.path(), WAL_SUFFIX);
    if !wal.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        let uri = format!("file:{}?mode=ro&immutable=1", escape_uri_path(source.path()));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri, flags).map_err(failed)?;
        return Ok(CheckpointDatabase { connection, _copy: None });
    }
    // SQLite ignores the write-ahead log of an immutable database, so the newest messages would be missing. A copy of
    // both files is read instead.
    let io = |error| source.io_error(error);
    let folder = tempfile::tempdir().map_err(io)?;
    let copy = folder.path().join("checkpoints.db");
    std::fs::copy(source.path(), &copy).map_err(io)?;
    std::fs::copy(&wal, with_suffix(&copy, WAL_SUFFIX)).map_err(io)?;
    let connection = Connection::open(&copy).map_err(failed)?;
    Ok(CheckpointDatabase { connection, _copy: Some(folder) })
}

/// Returns `path` with `suffix` appended to its file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns `path` with the characters escaped that end the path of a URI or begin an escape.
fn escape_uri_path(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Decodes a checkpoint to a JSON object.
///
/// # Errors
/// If the encoding is unknown, the blob cannot be decoded, or the result is no object; as text for a problem report.
fn decode_checkpoint(encoding: Option<&str>, blob: &[u8]) -> Result<Value, String> {
    let value = match encoding {
        Some("msgpack") => msgpack::read(blob).map_err(|error| error.to_string())?,
        Some("json") | None => serde_json::from_slice(blob).map_err(|error| error.to_string())?,
        Some(other) => return Err(format!("unknown encoding {other}")),
    };
    if value.is_object() { Ok(value) } else { Err("it is not an object".to_owned()) }
}

/// The state of one thread while it is read.
#[derive(Default)]
struct CheckpointReader {
    /// The ids of all messages written so far.
    seen_ids: HashSet<String>,
    /// The ids of the messages in the previous checkpoint.
    previous_ids: Vec<String>,
}

/// The details of the boundary at a checkpoint from which messages were removed. The field name is part of the stored
/// event.
#[derive(Serialize)]
struct CheckpointTruncationDetails {
    /// Number of messages of the previous checkpoint that this checkpoint lacks.
    messages_removed: usize,
}

impl CheckpointReader {
    /// Writes the messages that no earlier checkpoint contains, preceded by a boundary if messages were removed.
    fn read_checkpoint(
        &mut self,
        id: &str,
        mut checkpoint: Value,
        out: &mut SinkWriter<'_>,
    ) -> Result<(), Error> {
        let created_at = checkpoint.get("ts").and_then(Value::as_str).and_then(loose::parse_time);
        let messages = match checkpoint.pointer_mut("/channel_values/messages").map(Value::take) {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        };
        let messages: Vec<CheckpointMessage> = messages.into_iter().filter_map(unwrap_message).collect();
        let ids = message_ids(&messages);
        let present: HashSet<&String> = ids.iter().collect();
        let removed = self.previous_ids.iter().filter(|id| !present.contains(id)).count();
        if removed > 0 {
            let origin = EntryOrigin { native_id: Some(id.to_owned()), created_at, ..EntryOrigin::default() };
            let label = format!("messages removed: {removed}");
            out.push_entry(
                origin.boundary(&label, &CheckpointTruncationDetails { messages_removed: removed }),
            )?;
        }
        for (message, id) in messages.into_iter().zip(&ids) {
            if self.seen_ids.insert(id.clone()) {
                let origin =
                    EntryOrigin { native_id: message.id.clone(), created_at, ..EntryOrigin::default() };
                push_message(message, &origin, out)?;
            }
        }
        self.previous_ids = ids;
        Ok(())
    }
}

/// Returns the message in a serialized LangChain object: the JSON form with `lc` and `kwargs`, the MessagePack form
/// with `__class__`, or plain fields. Returns `None` for any other value. A missing type is derived from the class
/// name.
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

/// Returns an id for each message: its own, else a digest of its content with a counter. The counter distinguishes
/// messages with equal content, so that both are written.
fn message_ids(messages: &[CheckpointMessage]) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut derived_id = |message: &CheckpointMessage| {
        let digest = text_digest(&format!("{message:?}"));
        let count = counts.entry(digest.clone()).or_default();
        *count += 1;
        format!("{digest}:{count}")
    };
    let own_id = |message: &CheckpointMessage| message.id.clone().filter(|id| !id.is_empty());
    messages.iter().map(|message| own_id(message).unwrap_or_else(|| derived_id(message))).collect()
}

/// Writes a message as one or more entries. Unknown message types are skipped.
fn push_message(
    message: CheckpointMessage,
    origin: &EntryOrigin,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let kind = message.kind.unwrap_or_default();
    let (flat, repair) = match kind.as_str() {
        "tool" => result_repair::flatten_and_repair(message.content),
        _ => (message.content.flatten(), None),
    };
    match kind.as_str() {
        "human" | "user" if flat.text.starts_with(SUMMARY_START) => out.push_entry(origin.summary(flat.text)),
        "human" | "user" => {
            let author = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text { author, text: flat.text, media: flat.media }))
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
            out.push_entry(TranscriptEntry { repair, ..entry })
        }
        "system" => out.push_entry(origin.note(EntryRole::System, flat.text)),
        _ => Ok(()),
    }
}
