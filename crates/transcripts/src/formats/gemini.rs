//! Reader for chats of Gemini CLI.
//!
//! Older versions write one JSON object. Newer versions write a log with one message per line, in which a later line
//! may replace a message or rewind the chat. The log is read twice: first to find the last version of each remaining
//! message, then to read these messages. Memory use depends on the number of messages and on the longest message.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufReader, Seek, SeekFrom};

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::ConversationInfo;
use crate::detect::outline::JsonOutline;
use crate::detect::{SessionFormat, read_head};
use crate::entry::{EntryBody, EntryOrigin, EntryRole, EntryTrack};
use crate::error::Error;
use crate::formats::detect_author;
use crate::json::content::{ForeignContent, into_text, parse_arguments};
use crate::json::lines::{JsonLineReader, LineReadOutcome};
use crate::json::record::{decode_one, is_blank};
use crate::json::walker::{self, FieldSelector};
use crate::json::{READ_BUFFER_BYTES, lines, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// One message of a chat.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiMessage {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    /// `user` or `gemini`; `info`, `error` and `warning` are messages of the program.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    content: ForeignContent,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    /// The readable reasoning.
    thoughts: Option<Vec<GeminiThought>>,
    tool_calls: Option<Vec<GeminiToolCall>>,
}

/// One step of the model's reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiThought {
    #[serde(deserialize_with = "loose::text")]
    subject: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    description: Option<String>,
}

/// A tool call together with its result.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    args: Option<Value>,
    /// A list of parts with a `functionResponse`.
    result: Option<Value>,
    /// `success`; any other value is a failure.
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
}

/// The fields of a log line that the first pass needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiLogRecord {
    /// The id of a message.
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    /// The type of a message; `None` if the line is no message.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    /// The id of the first message that a rewind removes.
    #[serde(rename = "$rewindTo", deserialize_with = "loose::text")]
    rewind_to: Option<String>,
    /// An update of the chat's metadata.
    #[serde(rename = "$set")]
    set: Option<GeminiHeader>,
    /// The metadata in the first line of the log.
    #[serde(flatten)]
    header: GeminiHeader,
}

/// The metadata of a chat.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiHeader {
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    start_time: Option<Timestamp>,
    /// A one-line summary of the chat, used as its title.
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
}

/// Reads a chat in either form as one conversation.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    if JsonOutline::from_bytes(&read_head(source)?).has_member(1, "messages") {
        read_object(source, out)
    } else {
        read_log(source, out)
    }
}

/// Reads a chat that is one JSON object. Id and start time are read first, because they may follow the messages.
fn read_object(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let text = |key: &str| -> Result<Option<String>, Error> {
        let bytes = walker::read_member(source, key)?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).ok().and_then(into_text))
    };
    let mut conversation = ConversationInfo::new(SessionFormat::Gemini, source.name());
    conversation.set_session_id(text("sessionId")?);
    conversation.started_at = text("startTime")?.as_deref().and_then(loose::parse_time);
    out.open_conversation(conversation)?;
    let select = |key: &str| match key {
        "messages" => FieldSelector::Elements,
        "summary" => FieldSelector::Whole,
        _ => FieldSelector::Skip,
    };
    walker::for_each_piece(source, out, select, &mut |key, bytes, out| {
        if key == "summary" {
            let title = serde_json::from_slice(bytes).ok().and_then(into_text);
            if let Some(conversation) = out.conversation() {
                conversation.title = title;
            }
            return Ok(());
        }
        decode_one(bytes, out).map_or(Ok(()), |record| read_message(record, out))
    })
}

/// Reads a chat that is a log: builds the index, then reads the indexed messages in order.
fn read_log(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let (header, positions) = index_log(source)?;
    let mut conversation = ConversationInfo::new(SessionFormat::Gemini, source.name());
    conversation.set_session_id(header.session_id);
    conversation.started_at = header.start_time;
    conversation.title = header.summary;
    out.open_conversation(conversation)?;
    let mut file = BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?);
    for position in positions {
        file.seek(SeekFrom::Start(position.offset)).map_err(|error| source.io_error(error))?;
        let mut lines = JsonLineReader::new(&mut file);
        out.set_line(position.line);
        match lines.next_line().map_err(|error| source.io_error(error))? {
            LineReadOutcome::Whole(line) if !is_blank(&line) => {
                if let Some(record) = decode_one(&line, out) {
                    read_message(record, out)?;
                }
            }
            LineReadOutcome::TooLong { bytes } => out.report_problem(lines::record_too_long_text(bytes)),
            LineReadOutcome::Whole(_) | LineReadOutcome::End => {}
        }
        out.report_progress(position.offset);
    }
    Ok(())
}

/// The position of the last version of a message.
struct MessagePosition {
    /// A hash of the message id, else the offset of the line.
    key: u64,
    /// The offset of the line in the file, in bytes.
    offset: u64,
    /// The number of the line, counted from 1.
    line: u64,
}

/// Reads the log once and returns the chat's metadata and the positions of all messages that later lines did not
/// remove.
///
/// A replaced message keeps its place in the order and gets the position of its last version. Ids are stored as 64-bit
/// hashes, so that memory use does not depend on their length.
fn index_log(source: &TranscriptSource) -> Result<(GeminiHeader, Vec<MessagePosition>), Error> {
    let mut header = GeminiHeader::default();
    let mut positions: Vec<MessagePosition> = Vec::new();
    let mut index_by_key: HashMap<u64, usize> = HashMap::new();
    let hasher = RandomState::new();
    let mut lines = JsonLineReader::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?));
    loop {
        let offset = lines.bytes;
        let line = match lines.next_line().map_err(|error| source.io_error(error))? {
            LineReadOutcome::End => return Ok((header, positions)),
            LineReadOutcome::TooLong { .. } => continue,
            LineReadOutcome::Whole(line) => line,
        };
        // A damaged line is indexed too, so that the second pass repairs or reports it.
        let record: GeminiLogRecord = serde_json::from_slice(&line).unwrap_or_default();
        let is_damaged = !is_blank(&line) && serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_err();
        lines.recycle_buffer(line);
        merge_header(&mut header, record.header);
        merge_header(&mut header, record.set.unwrap_or_default());
        if let Some(target) = record.rewind_to {
            if let Some(first_removed) = index_by_key.get(&hasher.hash_one(&target)).copied() {
                positions.drain(first_removed..).for_each(|removed| {
                    index_by_key.remove(&removed.key);
                });
            }
        } else if record.kind.is_some() || is_damaged {
            let key = record.id.as_ref().map_or(offset, |id| hasher.hash_one(id));
            match index_by_key.get(&key) {
                Some(index) => {
                    positions[*index].offset = offset;
                    positions[*index].line = lines.number;
                }
                None => {
                    index_by_key.insert(key, positions.len());
                    positions.push(MessagePosition { key, offset, line: lines.number });
                }
            }
        }
    }
}

/// Merges `later` into `header`. The first id and start time and the last summary are used.
fn merge_header(header: &mut GeminiHeader, later: GeminiHeader) {
    header.session_id = header.session_id.take().or(later.session_id);
    header.start_time = header.start_time.or(later.start_time);
    header.summary = later.summary.or_else(|| header.summary.take());
}

/// Reads one message. Messages of the program become notes.
fn read_message(message: GeminiMessage, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let origin = EntryOrigin {
        native_id: message.id,
        parent: None,
        created_at: message.timestamp,
        track: EntryTrack::Main,
    };
    match message.kind.as_deref() {
        Some("user") => {
            let flat = message.content.flatten();
            let author = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text { author, text: flat.text, media: flat.media }))
        }
        Some("gemini") => {
            if let Some(conversation) = out.conversation() {
                conversation.model = conversation.model.take().or(message.model);
            }
            for thought in message.thoughts.unwrap_or_default() {
                let subject = thought.subject.unwrap_or_default();
                let description = thought.description.unwrap_or_default();
                out.push_entry(origin.thinking(format!("{subject}: {description}")))?;
            }
            if !message.content.is_empty() {
                out.push_entry(origin.assistant_text(message.content.flatten().text))?;
            }
            message
                .tool_calls
                .unwrap_or_default()
                .into_iter()
                .try_for_each(|call| read_tool_call(call, &origin, out))
        }
        kind => {
            let kind = kind.unwrap_or("note");
            let text = format!("{kind}: {}", message.content.flatten().text);
            out.push_entry(origin.note(EntryRole::Marker, text))
        }
    }
}

/// Reads a tool call and its result, which are one object in the file, as two entries.
fn read_tool_call(call: GeminiToolCall, origin: &EntryOrigin, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    out.push_entry(origin.tool_call(call.id.clone(), call.name.clone(), parse_arguments(call.args)))?;
    let text = match call.result {
        Some(Value::Array(parts)) => parts.iter().filter_map(response_text).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    out.push_entry(origin.build_entry(EntryBody::ToolResult {
        call_id: call.id,
        tool: call.name,
        text,
        media: Vec::new(),
        status: match call.status.as_deref() {
            None | Some("success") => ToolStatus::Success,
            Some(_) => ToolStatus::Error,
        },
    }))
}

/// Returns the output or the error in one part of a result; the empty string if it has neither. Output that is no
/// string is returned as JSON.
fn response_text(part: &Value) -> Option<String> {
    let fields = part.as_object()?;
    let response = fields.get("functionResponse").and_then(|response| response.get("response"));
    let output = ["output", "error"]
        .iter()
        .find_map(|name| response.and_then(|response| response.get(name)).filter(|value| !value.is_null()));
    Some(output.map_or_else(String::new, |value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }))
}
