//! Reader for event streams of OpenHands.
//!
//! The input is an evaluation file with one trajectory per line, a JSON array of events, JSON Lines of events, or a
//! folder with one file per event. Events that only change the state of the agent are skipped.

use std::path::PathBuf;

use protocol::ToolStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conversation::ConversationInfo;
use crate::detect::{SessionFormat, read_head};
use crate::entry::{Author, EntryBody, EntryOrigin, EntryRole, EntryTrack};
use crate::error::Error;
use crate::formats::{PendingCalls, detect_author};
use crate::json::content::{ForeignContent, into_text, parse_arguments};
use crate::json::record::decode_one;
use crate::json::walker::{self, FieldSelector};
use crate::json::{lines, loose};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// Fields of an event that are not arguments of its action, for files that have no `args` object.
const ENVELOPE_FIELDS: [&str; 8] =
    ["id", "timestamp", "source", "message", "cause", "action", "tool_call_metadata", "timeout"];

/// Actions and observations that are not part of the conversation.
const SKIPPED_EVENTS: [&str; 4] = ["recall", "change_agent_state", "agent_state_changed", "null"];

/// An event: an action with arguments, or an observation with content. Its fields vary by version, so it is not typed.
type OpenHandsEvent = Map<String, Value>;

/// The metadata of a trajectory in an evaluation file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsTrajectory {
    /// The benchmark task.
    #[serde(deserialize_with = "loose::text")]
    instance_id: Option<String>,
}

/// The state of one conversation while it is read.
#[derive(Default)]
struct OpenHandsReadState {
    /// Tool names by event id.
    calls: PendingCalls,
    /// True after the first event. In files without a `source`, only the first message is the user's.
    has_started: bool,
}

/// Reads an evaluation file, a list of events or a folder of events. Each trajectory is one conversation.
pub(crate) fn read(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    if source.path().is_dir() {
        return read_folder(source, out);
    }
    if walker::has_elements(source, "history")? {
        return lines::read_lines(source, out, read_trajectory);
    }
    out.open_conversation(ConversationInfo::new(SessionFormat::OpenHands, source.name()))?;
    let mut state = OpenHandsReadState::default();
    if starts_with_array(source)? {
        return walker::for_each_piece(source, out, |_: &str| FieldSelector::Skip, &mut |_, bytes, out| {
            read_item(bytes, &mut state, out)
        });
    }
    lines::read_records(source, out, |fields: OpenHandsEvent, out| read_event(fields, &mut state, out))
}

/// Returns whether the file is a JSON array.
fn starts_with_array(source: &TranscriptSource) -> Result<bool, Error> {
    let head = read_head(source)?;
    Ok(head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'['))
}

/// Reads one line of an evaluation file as a conversation. The task, else the line number, is its name.
fn read_trajectory(bytes: &[u8], out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let header: OpenHandsTrajectory = serde_json::from_slice(bytes).unwrap_or_default();
    let name = header.instance_id.unwrap_or_else(|| format!("line{}", out.line()));
    out.open_conversation(ConversationInfo::new(SessionFormat::OpenHands, name))?;
    let mut state = OpenHandsReadState::default();
    let select = |key: &str| if key == "history" { FieldSelector::Elements } else { FieldSelector::Skip };
    walker::for_each_piece_in(bytes, out, select, &mut |_, bytes, out| read_item(bytes, &mut state, out))
}

/// Reads an event, or a pair of action and observation as in old files.
fn read_item(bytes: &[u8], state: &mut OpenHandsReadState, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    match decode_one(bytes, out) {
        Some(Value::Object(fields)) => read_event(fields, state, out),
        Some(Value::Array(pair)) => pair.into_iter().try_for_each(|half| match half {
            Value::Object(fields) => read_event(fields, state, out),
            _ => Ok(()),
        }),
        _ => Ok(()),
    }
}

/// Reads the event files `0.json`, `1.json`, … of a folder in the order of their numbers. Other files are ignored.
fn read_folder(source: &TranscriptSource, out: &mut SinkWriter<'_>) -> Result<(), Error> {
    let entries = std::fs::read_dir(source.path()).map_err(|error| source.io_error(error))?;
    let mut files: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let number = path.file_stem()?.to_str()?.parse().ok()?;
            (path.extension()? == "json").then_some((number, path))
        })
        .collect();
    files.sort();
    // The folder of the events is named `events`. Its parent folder is named after the session.
    let session = source.path().parent().and_then(|parent| parent.file_name());
    let name = session.map_or_else(|| source.name(), |name| name.to_string_lossy().into_owned());
    out.open_conversation(ConversationInfo::new(SessionFormat::OpenHands, name))?;
    let mut state = OpenHandsReadState::default();
    for (_, path) in files {
        match std::fs::read(&path) {
            Ok(bytes) => read_item(&bytes, &mut state, out)?,
            Err(error) => out.report_problem(format!("skipped {}: {error}", path.display())),
        }
    }
    Ok(())
}

/// Reads one event. An event with neither action nor observation is skipped, and so is the observation of a `think`
/// action, because the action contains the thought.
fn read_event(
    mut fields: OpenHandsEvent,
    state: &mut OpenHandsReadState,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let origin = EntryOrigin {
        native_id: fields.get("id").and_then(scalar_text),
        parent: fields.get("cause").and_then(scalar_text),
        created_at: fields.get("timestamp").and_then(Value::as_str).and_then(loose::parse_time),
        track: EntryTrack::Main,
    };
    let named = |fields: &OpenHandsEvent, name: &str| {
        fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match (named(&fields, "action"), named(&fields, "observation")) {
        (Some(action), _) if SKIPPED_EVENTS.contains(&action.as_str()) => Ok(()),
        (None, Some(observation))
            if SKIPPED_EVENTS.contains(&observation.as_str()) || observation == "think" =>
        {
            Ok(())
        }
        (None, None) => Ok(()),
        (Some(action), _) => {
            let is_first = !std::mem::replace(&mut state.has_started, true);
            if action == "message" {
                let source = named(&fields, "source");
                let is_user = source.as_deref().map_or(is_first, |source| source == "user");
                let author = if is_user { Author::Person } else { Author::Assistant };
                return out.push_entry(origin.build_entry(message_body(&mut fields, author)));
            }
            read_action(&action, fields, &origin, state, out)
        }
        (None, Some(observation)) => {
            state.has_started = true;
            out.push_entry(origin.build_entry(observation_body(observation, fields, &origin, state)))
        }
    }
}

/// Returns the body for a message of `author`. The text is in one of three fields, depending on the version.
fn message_body(fields: &mut OpenHandsEvent, author: Author) -> EntryBody {
    let mut args = take_args(fields);
    let text = take_text(&mut args, "content")
        .or_else(|| take_text(fields, "message"))
        .or_else(|| take_text(fields, "content"))
        .unwrap_or_default();
    let author = match author {
        Author::Person | Author::Harness => detect_author(&text),
        Author::Assistant => Author::Assistant,
    };
    EntryBody::Text { author, text, media: Vec::new() }
}

/// The details of a compaction boundary. OpenHands calls a compaction a condensation. The field names are part of the
/// stored event.
#[derive(Serialize)]
struct CondensationDetails {
    forgotten_event_ids: Value,
    forgotten_events_start_id: Value,
    forgotten_events_end_id: Value,
    summary_offset: Value,
}

/// Reads an action: a system prompt, compaction, thought, final answer, or in all other cases a tool call.
fn read_action(
    action: &str,
    mut fields: OpenHandsEvent,
    origin: &EntryOrigin,
    state: &mut OpenHandsReadState,
    out: &mut SinkWriter<'_>,
) -> Result<(), Error> {
    let mut args = take_args(&mut fields);
    match action {
        "system" => {
            let text = take_text(&mut args, "content").or_else(|| take_text(&mut fields, "message"));
            out.push_entry(origin.note(EntryRole::System, text.unwrap_or_default()))
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
            out.push_entry(origin.boundary(action, &details))?;
            summary.map_or(Ok(()), |summary| out.push_entry(origin.summary(summary)))
        }
        "think" => out.push_entry(origin.thinking(take_text(&mut args, "thought").unwrap_or_default())),
        "finish" => {
            // Files of 2024 have the arguments as fields of the event.
            let text = take_text(&mut args, "final_thought")
                .or_else(|| take_text(&mut args, "thought"))
                .or_else(|| take_text(&mut fields, "thought"));
            out.push_entry(origin.assistant_text(text.unwrap_or_default()))
        }
        _ => {
            if let Some(thought) = take_text(&mut args, "thought") {
                out.push_entry(origin.assistant_text(thought))?;
            }
            args.remove("thought");
            if args.is_empty() {
                // Files of 2024 have the arguments as fields of the event.
                args = fields
                    .iter()
                    .filter(|(name, _)| !ENVELOPE_FIELDS.contains(&name.as_str()))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
            }
            let call_id = tool_call_id(&fields).or_else(|| origin.native_id.clone());
            state.calls.record_call(origin.native_id.as_deref(), Some(action));
            out.push_entry(origin.tool_call(call_id, Some(action.to_owned()), Value::Object(args)))
        }
    }
}

/// Returns the body for an observation. An exit code of -1 counts as success, because it means that OpenHands does not
/// know the exit code.
fn observation_body(
    observation: String,
    mut fields: OpenHandsEvent,
    origin: &EntryOrigin,
    state: &mut OpenHandsReadState,
) -> EntryBody {
    let exit_code = exit_code(&fields);
    let failed = exit_code.is_some_and(|code| code != 0 && code != -1) || observation == "error";
    let text =
        match fields.remove("content").and_then(|value| serde_json::from_value::<ForeignContent>(value).ok())
        {
            Some(content) if !content.is_empty() => content.flatten().text,
            _ => take_text(&mut fields, "message").unwrap_or_default(),
        };
    EntryBody::ToolResult {
        call_id: tool_call_id(&fields).or_else(|| origin.parent.clone()),
        tool: state.calls.take_tool_name(origin.parent.as_deref()).or(Some(observation)),
        text,
        media: Vec::new(),
        status: if failed { ToolStatus::Error } else { ToolStatus::Success },
    }
}

/// Returns the exit code of a command. Its position depends on the version: `extras.metadata`, `extras` or the event.
fn exit_code(fields: &OpenHandsEvent) -> Option<i64> {
    let extras = fields.get("extras");
    let metadata = extras.and_then(|extras| extras.get("metadata"));
    let nested = [metadata, extras].into_iter().flatten().find_map(|object| object.get("exit_code"));
    nested.or_else(|| fields.get("exit_code")).and_then(Value::as_i64)
}

/// Returns the provider's id of the tool call, if the event has one.
fn tool_call_id(fields: &OpenHandsEvent) -> Option<String> {
    fields.get("tool_call_metadata")?.get("tool_call_id").and_then(scalar_text).filter(|id| !id.is_empty())
}

/// Removes and returns the arguments of an event; an empty object if they are missing.
fn take_args(fields: &mut OpenHandsEvent) -> Map<String, Value> {
    match parse_arguments(fields.remove("args")) {
        Value::Object(args) => args,
        _ => Map::new(),
    }
}

/// Removes and returns the string field `name` if it is not empty.
fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    if fields.get(name)?.as_str()?.is_empty() {
        return None;
    }
    fields.remove(name).and_then(into_text)
}

/// Returns an id that is a string or a number, as text.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
