//! Reads what a client of the Agent Server protocol asks for: `input`, and `command` with `resume`, `update` and `goto`.
//! Pure: whether the thread can do it is looked at later.

mod answers;
pub(crate) mod messages;
pub(crate) mod state_update;

use std::collections::BTreeMap;

use agent::{InputMessage, InterruptAnswers, ParsedAnswer, RunAction, RunInput, requested_steps_max};
use jiff::Timestamp;
use protocol::{FailureKind, InterruptId, RunCommand, RunFailure, RunRequest, ThreadId};
use serde_json::{Map, Value};

use self::answers::read_answer;
use self::messages::{MessageDestination, read_messages};
use crate::wire::graph::{END_NODE, START_NODE};

/// The key of the messages, in what is put in and in changes of the state.
const MESSAGES_KEY: &str = "messages";

/// Reads a request for a run on the thread.
///
/// # Errors
/// The failure with which the run ends.
pub fn read_request(
    request: &RunRequest,
    thread_id: ThreadId,
    at: Timestamp,
) -> Result<RunInput, RunFailure> {
    read_input(request, Some(MessageDestination { thread_id, received_at: at }))
}

/// Checks what is asked, as far as it can be seen without a thread.
///
/// # Errors
/// What cannot be read, and where it stands.
pub(crate) fn check_readable(request: &RunRequest) -> Result<(), RunFailure> {
    if !request.rehome {
        read_input(request, None)?;
    }
    requested_steps_max(request)?;
    Ok(())
}

fn read_input(request: &RunRequest, to: Option<MessageDestination>) -> Result<RunInput, RunFailure> {
    if let Some(command) = &request.command
        && let Some(wanted) = read_command(command, to)?
    {
        return Ok(wanted);
    }
    match &request.input {
        None | Some(Value::Null) => Ok(RunInput { action: RunAction::Continue, messages: Vec::new() }),
        Some(Value::Object(input)) => Ok(RunInput {
            action: RunAction::BeginTurn,
            messages: read_channel_messages(input.get(MESSAGES_KEY), to)?,
        }),
        Some(Value::Array(_) | Value::String(_) | Value::Bool(_) | Value::Number(_)) => {
            Err(invalid_request("`input`: expected an object, such as {\"messages\": [\u{2026}]}"))
        }
    }
}

/// Reads a command; `None` for one that commands nothing.
fn read_command(
    command: &RunCommand,
    to: Option<MessageDestination>,
) -> Result<Option<RunInput>, RunFailure> {
    let mut messages = read_update(command.update.as_ref(), to)?;
    let go_to = match &command.goto {
        Some(goto) => read_goto(goto, to)?,
        None => None,
    };
    let answers = command.resume.as_ref().filter(|resume| !resume.is_null()).map(read_answers);
    let action = match (answers, go_to) {
        (Some(_), Some(_)) => {
            return Err(invalid_request(
                "`command`: it has both an answer (`resume`) and a place to go (`goto`)",
            ));
        }
        (Some(answers), None) => RunAction::Answer(answers),
        (None, Some((action, more))) => {
            messages.extend(more);
            action
        }
        (None, None) if command.update.as_ref().is_none_or(Value::is_null) => return Ok(None),
        (None, None) => RunAction::Continue,
    };
    Ok(Some(RunInput { action, messages }))
}

/// Reads an answer: an object whose keys are all ids of interrupts names what it answers, anything else is one answer.
fn read_answers(resume: &Value) -> InterruptAnswers {
    let named = |fields: &Map<String, Value>| -> Option<BTreeMap<InterruptId, ParsedAnswer>> {
        fields.iter().map(|(key, value)| Some((key.parse().ok()?, read_answer(value)))).collect()
    };
    match resume.as_object().and_then(named) {
        Some(named) => InterruptAnswers::Named(named),
        None => InterruptAnswers::Only(read_answer(resume)),
    }
}

/// Reads a change of the state: an object, or a list of pairs. Of its keys only the messages are a client's to change.
fn read_update(
    update: Option<&Value>,
    to: Option<MessageDestination>,
) -> Result<Vec<InputMessage>, RunFailure> {
    match update {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(fields)) => read_channel_messages(fields.get(MESSAGES_KEY), to),
        Some(Value::Array(pairs)) => {
            let mut messages = Vec::new();
            for pair in pairs {
                match pair.as_array().map(Vec::as_slice) {
                    Some([Value::String(key), value]) if key == MESSAGES_KEY => {
                        messages.extend(read_channel_messages(Some(value), to)?);
                    }
                    Some([Value::String(_), _]) => {}
                    Some(_) | None => {
                        return Err(invalid_request(
                            "`command.update`: expected an object or a list of pairs",
                        ));
                    }
                }
            }
            Ok(messages)
        }
        Some(Value::String(_) | Value::Bool(_) | Value::Number(_)) => {
            Err(invalid_request("`command.update`: expected an object or a list of pairs"))
        }
    }
}

fn read_channel_messages(
    messages: Option<&Value>,
    to: Option<MessageDestination>,
) -> Result<Vec<InputMessage>, RunFailure> {
    let Some(messages) = messages else { return Ok(Vec::new()) };
    read_messages(messages, to).map_err(|fault| invalid_request(fault.to_string()))
}

/// Reads a place to go: a node, a list with one, or `{node, input}`. An empty list is none.
fn read_goto(
    goto: &Value,
    to: Option<MessageDestination>,
) -> Result<Option<(RunAction, Vec<InputMessage>)>, RunFailure> {
    match goto {
        Value::Null => Ok(None),
        Value::String(node) => Ok(Some((action_for_node(node), Vec::new()))),
        Value::Object(send) => {
            let node = send.get("node").and_then(Value::as_str);
            let node = node.ok_or_else(|| invalid_request("`command.goto`: `node` is missing"))?;
            let input = send.get("input").and_then(Value::as_object);
            let messages = read_channel_messages(input.and_then(|input| input.get(MESSAGES_KEY)), to)?;
            Ok(Some((action_for_node(node), messages)))
        }
        Value::Array(places) => {
            let mut read = Vec::new();
            for goto in places {
                read.extend(read_goto(goto, to)?);
            }
            let mut read = read.into_iter();
            let first = read.next();
            for (action, more) in read {
                if first.as_ref().is_some_and(|(first, _)| *first != action) || !more.is_empty() {
                    return Err(invalid_request("`command.goto`: this graph goes to one node at a time"));
                }
            }
            Ok(first)
        }
        Value::Bool(_) | Value::Number(_) => {
            Err(invalid_request("`command.goto`: expected the name of a node"))
        }
    }
}

fn action_for_node(node: &str) -> RunAction {
    match node {
        END_NODE => RunAction::DiscardPending,
        START_NODE => RunAction::BeginTurn,
        node => RunAction::GoToNode(node.to_owned()),
    }
}

fn invalid_request(what: impl AsRef<str>) -> RunFailure {
    RunFailure::new(FailureKind::InvalidUpdate, format!("failed to read {}", what.as_ref()))
}

#[cfg(test)]
mod tests;
