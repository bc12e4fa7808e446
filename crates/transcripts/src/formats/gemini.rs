//! Gemini CLI chats: one JSON object, or in later builds a log of messages in which a message may be written again and
//! the chat may be rewound. The log is read twice, so that only the messages that stayed become entries.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufReader, Seek, SeekFrom};

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::Conversation;
use crate::detect::shape::Shape;
use crate::detect::{Format, head};
use crate::entry::{Body, Origin, Role, Track};
use crate::error::Error;
use crate::formats::user_or_harness;
use crate::json::array::{self, Wanted};
use crate::json::content::{Content, arguments, into_text};
use crate::json::lines::{Line, Lines};
use crate::json::record::{decode_one, is_blank};
use crate::json::{READ_BUFFER_BYTES, lines, loose};
use crate::output::Output;
use crate::source::Source;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    timestamp: Option<Timestamp>,
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    content: Content,
    #[serde(deserialize_with = "loose::text")]
    model: Option<String>,
    thoughts: Option<Vec<Thought>>,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Thought {
    #[serde(deserialize_with = "loose::text")]
    subject: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolCall {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(deserialize_with = "loose::text")]
    name: Option<String>,
    args: Option<Value>,
    result: Option<Value>,
    #[serde(deserialize_with = "loose::text")]
    status: Option<String>,
}

/// What a record of a log tells before it is decoded as a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LogRecord {
    #[serde(deserialize_with = "loose::text")]
    id: Option<String>,
    #[serde(rename = "type", deserialize_with = "loose::text")]
    kind: Option<String>,
    #[serde(rename = "$rewindTo", deserialize_with = "loose::text")]
    rewind_to: Option<String>,
    #[serde(rename = "$set")]
    set: Option<Header>,
    #[serde(flatten)]
    header: Header,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Header {
    #[serde(deserialize_with = "loose::text")]
    session_id: Option<String>,
    #[serde(deserialize_with = "loose::time")]
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "loose::text")]
    summary: Option<String>,
}

/// Reads a chat in either form.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    if Shape::of(&head(source)?).has(1, "messages") {
        read_object(source, out)
    } else {
        read_log(source, out)
    }
}

/// Reads a chat kept as one JSON object.
fn read_object(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    let text = |key: &str| -> Result<Option<String>, Error> {
        let bytes = array::member(source, key)?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).ok().and_then(into_text))
    };
    let mut conversation = Conversation::new(Format::Gemini, source.name());
    conversation.identify(text("sessionId")?);
    conversation.started_at = text("startTime")?.as_deref().and_then(loose::parse_time);
    out.open(conversation)?;
    let wants = |key: &str| match key {
        "messages" => Wanted::Elements,
        "summary" => Wanted::Whole,
        _ => Wanted::Skip,
    };
    array::each(source, out, wants, &mut |key, bytes, out| {
        if key == "summary" {
            let title = serde_json::from_slice(bytes).ok().and_then(into_text);
            if let Some(conversation) = out.conversation() {
                conversation.title = title;
            }
            return Ok(());
        }
        decode_one(bytes, out).map_or(Ok(()), |record| message(record, out))
    })
}

/// Reads a chat kept as a log.
fn read_log(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    let (header, kept) = survey(source)?;
    let mut conversation = Conversation::new(Format::Gemini, source.name());
    conversation.identify(header.session_id);
    conversation.started_at = header.start_time;
    conversation.title = header.summary;
    out.open(conversation)?;
    let mut file = BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?);
    for place in kept {
        file.seek(SeekFrom::Start(place.offset)).map_err(|error| source.io(error))?;
        let mut lines = Lines::new(&mut file);
        out.at_line(place.line);
        match lines.next().map_err(|error| source.io(error))? {
            Line::Whole(line) if !is_blank(&line) => {
                if let Some(record) = decode_one(&line, out) {
                    message(record, out)?;
                }
            }
            Line::TooLong { bytes } => out.problem(lines::too_long(bytes)),
            Line::Whole(_) | Line::End => {}
        }
        out.progress(place.offset);
    }
    Ok(())
}

/// Where a message that stayed begins.
struct Place {
    key: u64,
    offset: u64,
    line: u64,
}

/// Reads the log once and returns what it says about the chat, and where the last version of each message is.
fn survey(source: &Source) -> Result<(Header, Vec<Place>), Error> {
    let mut header = Header::default();
    let mut kept: Vec<Place> = Vec::new();
    let mut index: HashMap<u64, usize> = HashMap::new();
    let hasher = RandomState::new();
    let mut lines = Lines::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?));
    loop {
        let offset = lines.bytes;
        let line = match lines.next().map_err(|error| source.io(error))? {
            Line::End => return Ok((header, kept)),
            Line::TooLong { .. } => continue,
            Line::Whole(line) => line,
        };
        // A damaged line is reported when its place is read again.
        let record: LogRecord = serde_json::from_slice(&line).unwrap_or_default();
        let unread = !is_blank(&line) && serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_err();
        lines.give_back(line);
        merge(&mut header, record.header);
        merge(&mut header, record.set.unwrap_or_default());
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
                    kept.push(Place { key, offset, line: lines.number });
                }
            }
        }
    }
}

/// Takes over what `later` says.
fn merge(header: &mut Header, later: Header) {
    header.session_id = header.session_id.take().or(later.session_id);
    header.start_time = header.start_time.or(later.start_time);
    header.summary = later.summary.or_else(|| header.summary.take());
}

fn message(message: Message, out: &mut Output<'_>) -> Result<(), Error> {
    let origin = Origin { native_id: message.id, parent: None, at: message.timestamp, track: Track::Main };
    match message.kind.as_deref() {
        Some("user") => {
            let flat = message.content.flatten();
            let by = user_or_harness(&flat.text);
            out.push(origin.entry(Body::Text { by, text: flat.text, media: flat.media }))
        }
        Some("gemini") => {
            if let Some(conversation) = out.conversation() {
                conversation.model = conversation.model.take().or(message.model);
            }
            for thought in message.thoughts.unwrap_or_default() {
                let subject = thought.subject.unwrap_or_default();
                let description = thought.description.unwrap_or_default();
                out.push(origin.thinking(format!("{subject}: {description}")))?;
            }
            if !message.content.is_empty() {
                out.push(origin.assistant(message.content.flatten().text))?;
            }
            message.tool_calls.unwrap_or_default().into_iter().try_for_each(|call| tool(call, &origin, out))
        }
        kind => {
            let kind = kind.unwrap_or("note");
            let text = format!("{kind}: {}", message.content.flatten().text);
            out.push(origin.note(Role::Marker, text))
        }
    }
}

/// Reads a call with its result, which are one object in the file.
fn tool(call: ToolCall, origin: &Origin, out: &mut Output<'_>) -> Result<(), Error> {
    out.push(origin.call(call.id.clone(), call.name.clone(), arguments(call.args)))?;
    let text = match call.result {
        Some(Value::Array(parts)) => parts.iter().filter_map(response).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    out.push(origin.entry(Body::ToolResult {
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
fn response(part: &Value) -> Option<String> {
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
