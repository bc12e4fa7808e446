//! OpenHands event streams: evaluation files with one trajectory per line, downloaded lists of events, and single
//! events in a folder. Events that only move the agent's state are not read.

use std::path::PathBuf;

use protocol::ToolStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::detect::{Format, head};
use crate::entry::{Author, Body, Origin, Role, Track};
use crate::error::Error;
use crate::formats::{OpenCalls, user_or_harness};
use crate::json::array::{self, Wanted};
use crate::json::content::{Content, arguments, into_text};
use crate::json::record::decode_one;
use crate::json::{lines, loose};
use crate::output::Output;
use crate::source::Source;

/// Fields of an event that are not arguments of its action.
const ENVELOPE: [&str; 8] =
    ["id", "timestamp", "source", "message", "cause", "action", "tool_call_metadata", "timeout"];

/// Actions and observations that say nothing of the conversation.
const SILENT: [&str; 4] = ["recall", "change_agent_state", "agent_state_changed", "null"];

type Event = Map<String, Value>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Trajectory {
    #[serde(deserialize_with = "loose::text")]
    instance_id: Option<String>,
}

/// One conversation while it is read.
#[derive(Default)]
struct Reading {
    calls: OpenCalls,
    begun: bool,
}

/// Reads an evaluation file, a list of events or a folder of events.
pub(crate) fn read(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    if source.path().is_dir() {
        return read_folder(source, out);
    }
    if array::has_elements(source, "history")? {
        return lines::read_raw(source, out, trajectory);
    }
    out.open(Conversation::new(Format::OpenHands, source.name()))?;
    let mut reading = Reading::default();
    if starts_with_array(source)? {
        return array::each(source, out, |_: &str| Wanted::Skip, &mut |_, bytes, out| {
            item(bytes, &mut reading, out)
        });
    }
    lines::read(source, out, |fields: Event, out| event(fields, &mut reading, out))
}

/// Returns whether the file is one list.
fn starts_with_array(source: &Source) -> Result<bool, Error> {
    let head = head(source)?;
    Ok(head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'['))
}

/// Reads one line of an evaluation file.
fn trajectory(bytes: &[u8], out: &mut Output<'_>) -> Result<(), Error> {
    let header: Trajectory = serde_json::from_slice(bytes).unwrap_or_default();
    let name = header.instance_id.unwrap_or_else(|| format!("line{}", out.line()));
    out.open(Conversation::new(Format::OpenHands, name))?;
    let mut reading = Reading::default();
    let wants = |key: &str| if key == "history" { Wanted::Elements } else { Wanted::Skip };
    array::each_in(bytes, out, wants, &mut |_, bytes, out| item(bytes, &mut reading, out))
}

/// Reads an event, or the pair of action and observation that old files hold.
fn item(bytes: &[u8], reading: &mut Reading, out: &mut Output<'_>) -> Result<(), Error> {
    match decode_one(bytes, out) {
        Some(Value::Object(fields)) => event(fields, reading, out),
        Some(Value::Array(pair)) => pair.into_iter().try_for_each(|half| match half {
            Value::Object(fields) => event(fields, reading, out),
            _ => Ok(()),
        }),
        _ => Ok(()),
    }
}

/// Reads the events `0.json`, `1.json`, … of a folder in the order of their numbers.
fn read_folder(source: &Source, out: &mut Output<'_>) -> Result<(), Error> {
    let entries = std::fs::read_dir(source.path()).map_err(|error| source.io(error))?;
    let mut files: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let number = path.file_stem()?.to_str()?.parse().ok()?;
            (path.extension()? == "json").then_some((number, path))
        })
        .collect();
    files.sort();
    // The folder is called `events`; the session is the folder around it.
    let session = source.path().parent().and_then(|parent| parent.file_name());
    let name = session.map_or_else(|| source.name(), |name| name.to_string_lossy().into_owned());
    out.open(Conversation::new(Format::OpenHands, name))?;
    let mut reading = Reading::default();
    for (_, path) in files {
        match std::fs::read(&path) {
            Ok(bytes) => item(&bytes, &mut reading, out)?,
            Err(error) => out.problem(format!("skipped {}: {error}", path.display())),
        }
    }
    Ok(())
}

fn event(mut fields: Event, reading: &mut Reading, out: &mut Output<'_>) -> Result<(), Error> {
    let origin = Origin {
        native_id: fields.get("id").and_then(scalar_text),
        parent: fields.get("cause").and_then(scalar_text),
        at: fields.get("timestamp").and_then(Value::as_str).and_then(loose::parse_time),
        track: Track::Main,
    };
    let named = |fields: &Event, name: &str| {
        fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match (named(&fields, "action"), named(&fields, "observation")) {
        (Some(action), _) if SILENT.contains(&action.as_str()) => Ok(()),
        (None, Some(observation)) if SILENT.contains(&observation.as_str()) || observation == "think" => {
            Ok(())
        }
        (None, None) => Ok(()),
        (Some(action), _) => {
            let first = !std::mem::replace(&mut reading.begun, true);
            if action == "message" {
                let source = named(&fields, "source");
                let user = source.as_deref().map_or(first, |source| source == "user");
                let author = if user { Author::Person } else { Author::Assistant };
                return out.push(origin.entry(message(&mut fields, author)));
            }
            act(&action, fields, &origin, reading, out)
        }
        (None, Some(observation)) => {
            reading.begun = true;
            out.push(origin.entry(observe(observation, fields, &origin, reading)))
        }
    }
}

fn message(fields: &mut Event, author: Author) -> Body {
    let mut args = take_args(fields);
    let text = take_text(&mut args, "content")
        .or_else(|| take_text(fields, "message"))
        .or_else(|| take_text(fields, "content"))
        .unwrap_or_default();
    let by = match author {
        Author::Person | Author::Harness => user_or_harness(&text),
        Author::Assistant => Author::Assistant,
    };
    Body::Text { by, text, media: Vec::new() }
}

/// The details of a condensation that are kept.
#[derive(Serialize)]
struct CondensationDetails {
    forgotten_event_ids: Value,
    forgotten_events_start_id: Value,
    forgotten_events_end_id: Value,
    summary_offset: Value,
}

fn act(
    action: &str,
    mut fields: Event,
    origin: &Origin,
    reading: &mut Reading,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    let mut args = take_args(&mut fields);
    match action {
        "system" => {
            let text = take_text(&mut args, "content").or_else(|| take_text(&mut fields, "message"));
            out.push(origin.note(Role::System, text.unwrap_or_default()))
        }
        "condensation" => {
            let summary = take_text(&mut args, "summary");
            let detail = |name: &str| args.get(name).cloned().unwrap_or_default();
            let details = CondensationDetails {
                forgotten_event_ids: detail("forgotten_event_ids"),
                forgotten_events_start_id: detail("forgotten_events_start_id"),
                forgotten_events_end_id: detail("forgotten_events_end_id"),
                summary_offset: detail("summary_offset"),
            };
            out.push(origin.boundary(action, &details))?;
            summary.map_or(Ok(()), |summary| out.push(origin.summary(summary)))
        }
        "think" => out.push(origin.thinking(take_text(&mut args, "thought").unwrap_or_default())),
        "finish" => {
            let text = take_text(&mut args, "final_thought").or_else(|| take_text(&mut args, "thought"));
            out.push(origin.assistant(text.unwrap_or_default()))
        }
        _ => {
            if let Some(thought) = take_text(&mut args, "thought") {
                out.push(origin.assistant(thought))?;
            }
            args.remove("thought");
            if args.is_empty() {
                // Files of 2024 keep the arguments beside the action.
                args = fields
                    .iter()
                    .filter(|(name, _)| !ENVELOPE.contains(&name.as_str()))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
            }
            let call_id = tool_call_id(&fields).or_else(|| origin.native_id.clone());
            reading.calls.called(origin.native_id.as_deref(), Some(action));
            out.push(origin.call(call_id, Some(action.to_owned()), Value::Object(args)))
        }
    }
}

fn observe(observation: String, mut fields: Event, origin: &Origin, reading: &mut Reading) -> Body {
    let exit_code = exit_code(&fields);
    let failed = exit_code.is_some_and(|code| code != 0 && code != -1) || observation == "error";
    let text = match fields.remove("content").and_then(|value| serde_json::from_value::<Content>(value).ok())
    {
        Some(content) if !content.is_empty() => content.flatten().text,
        _ => take_text(&mut fields, "message").unwrap_or_default(),
    };
    Body::ToolResult {
        call_id: tool_call_id(&fields).or_else(|| origin.parent.clone()),
        tool: reading.calls.returned(origin.parent.as_deref()).or(Some(observation)),
        text,
        media: Vec::new(),
        status: if failed { ToolStatus::Error } else { ToolStatus::Success },
    }
}

/// Returns the exit code, which builds kept in three places.
fn exit_code(fields: &Event) -> Option<i64> {
    let extras = fields.get("extras");
    let metadata = extras.and_then(|extras| extras.get("metadata"));
    let nested = [metadata, extras].into_iter().flatten().find_map(|place| place.get("exit_code"));
    nested.or_else(|| fields.get("exit_code")).and_then(Value::as_i64)
}

fn tool_call_id(fields: &Event) -> Option<String> {
    fields.get("tool_call_metadata")?.get("tool_call_id").and_then(scalar_text).filter(|id| !id.is_empty())
}

fn take_args(fields: &mut Event) -> Map<String, Value> {
    match arguments(fields.remove("args")) {
        Value::Object(args) => args,
        _ => Map::new(),
    }
}

/// Takes a text that is not empty.
fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    if fields.get(name)?.as_str()?.is_empty() {
        return None;
    }
    fields.remove(name).and_then(into_text)
}

/// Returns an id written as text or number.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
