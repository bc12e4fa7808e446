//! Gemini CLI chats: one JSON object, or in later builds a log of messages in which a message may be written again and
//! the chat may be rewound. The log is read twice, so that only the messages that stayed become entries.

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

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiMessage {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    content: ForeignContent,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    thoughts: Option<Vec<GeminiThought>>,
    tool_calls: Option<Vec<GeminiToolCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiThought {
    #[serde(deserialize_with = "loose::text")]
    subject: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    args: Option<Value>,
    result: Option<Value>,
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
}

/// The keys of a log record that are read before it is decoded as a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiLogRecord {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(rename = "$rewindTo", deserialize_with = "loose::text")]
    rewind_to: Option<String>,
    #[serde(rename = "$set")]
    set: Option<GeminiHeader>,
    #[serde(flatten)]
    header: GeminiHeader,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiHeader {
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
}

/// Reads a chat in either form.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    if JsonOutline::from_bytes(&read_head(source)?).has_member(1, "messages") {
        read_object(source, out)
    } else {
        read_log(source, out)
    }
}

/// Reads a chat kept as one JSON object.
fn read_object(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let text = |key: &str| -> Result<Option<String>, Error> {
        let bytes = walker::read_member(source, key)?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).ok().and_then(into_text))
    };
    let mut conversation = ConversationInfo::new(SessionFormat::Gemini, source.name());
    conversation.set_session_id(text("sessionId")?);
    conversation.started_at = text("startTime")?.as_deref().and_then(loose::parse_time);
    out.open_conversation(conversation)?;
    let wants = |key: &str| match key {
        "messages" => FieldSelector::Elements,
        "summary" => FieldSelector::Whole,
        _ => FieldSelector::Skip,
    };
    walker::for_each_piece(source, out, wants, &mut |key, bytes, out| {
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

/// Reads a chat kept as a log.
fn read_log(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let (header, kept) = index_log(source)?;
    let mut conversation = ConversationInfo::new(SessionFormat::Gemini, source.name());
    conversation.set_session_id(header.session_id);
    conversation.started_at = header.start_time;
    conversation.title = header.summary;
    out.open_conversation(conversation)?;
    let mut file = BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?);
    for place in kept {
        file.seek(SeekFrom::Start(place.offset)).map_err(|error| source.io_error(error))?;
        let mut lines = JsonLineReader::new(&mut file);
        out.set_line(place.line);
        match lines.next_line().map_err(|error| source.io_error(error))? {
            LineReadOutcome::Whole(line) if !is_blank(&line) => {
                if let Some(record) = decode_one(&line, out) {
                    read_message(record, out)?;
                }
            }
            LineReadOutcome::TooLong { bytes } => out.report_problem(lines::record_too_long_text(bytes)),
            LineReadOutcome::Whole(_) | LineReadOutcome::End => {}
        }
        out.report_progress(place.offset);
    }
    Ok(())
}

/// Where a message that stayed begins.
struct MessagePosition {
    key: u64,
    offset: u64,
    line: u64,
}

/// Reads the log once and returns what it says about the chat, and where the last version of each message is.
fn index_log(source: &TranscriptSource) -> Result<(GeminiHeader, Vec<MessagePosition>), Error> {
    let mut header = GeminiHeader::default();
    let mut kept: Vec<MessagePosition> = Vec::new();
    let mut index: HashMap<u64, usize> = HashMap::new();
    let hasher = RandomState::new();
    let mut lines = JsonLineReader::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?));
    loop {
        let offset = lines.bytes;
        let line = match lines.next_line().map_err(|error| source.io_error(error))? {
            LineReadOutcome::End => return Ok((header, kept)),
            LineReadOutcome::TooLong { .. } => continue,
            LineReadOutcome::Whole(line) => line,
        };
        // A damaged line is reported when its place is read again.
        let record: GeminiLogRecord = serde_json::from_slice(&line).unwrap_or_default();
        let unread = !is_blank(&line) && serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_err();
        lines.recycle_buffer(line);
        merge_header(&mut header, record.header);
        merge_header(&mut header, record.set.unwrap_or_default());
        if let Some(target) = record.rewind_to {
            if let Some(position) = index.get(&hasher.hash_one(&target)).copied() {
                kept.drain(position..).for_each(|place| {
                    index.remove(&place.key);
                });
            }
        } else if record.kind.is_some() || unread {
            let key = record.id.as_ref().map_or(offset, |id| hasher.hash_one(id));
            match index.get(&key) {
                Some(position) => {
                    kept[*position].offset = offset;
                    kept[*position].line = lines.number;
                }
                None => {
                    index.insert(key, kept.len());
                    kept.push(MessagePosition { key, offset, line: lines.number });
                }
            }
        }
    }
}

/// Takes over what `later` says.
fn merge_header(header: &mut GeminiHeader, later: GeminiHeader) {
    header.session_id = header.session_id.take().or(later.session_id);
    header.start_time = header.start_time.or(later.start_time);
    header.summary = later.summary.or_else(|| header.summary.take());
}

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
            let by = detect_author(&flat.text);
            out.push_entry(origin.build_entry(EntryBody::Text {
                author: by,
                text: flat.text,
                media: flat.media,
            }))
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

/// Reads a call with its result, which are one object in the file.
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

/// Returns the output or the error of one part of a result.
fn response_text(part: &Value) -> Option<String> {
    let fields = part.as_object()?;
    let response = fields.get("functionResponse").and_then(|response| response.get("response"));
    let told = ["output", "error"]
        .iter()
        .find_map(|name| response.and_then(|response| response.get(name)).filter(|value| !value.is_null()));
    Some(told.map_or_else(String::new, |value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }))
}
