//! Parses the run requests of the Agent Server protocol: `input`, and `command` with `resume`, `update` and `goto`.
//!
//! Parsing is pure. The admission of the run checks later if the request is possible in the thread's state, for
//! example if the answered interrupt is pending.

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

/// The key of the messages in an input, and in an update of the state.
const MESSAGES_KEY: &str = "messages";

/// Parses a request for a run on the thread. `received_at` becomes the creation time of the artifacts in its messages.
///
/// It is called when the run is admitted. Until then the request stays as the client sent it, so that any process can
/// start a queued run.
///
/// # Errors
/// The failure with which the run ends, of kind [`FailureKind::InvalidUpdate`]. It names the malformed field.
pub fn read_request(
    request: &RunRequest,
    thread_id: ThreadId,
    received_at: Timestamp,
) -> Result<RunInput, RunFailure> {
    read_input(request, Some(MessageDestination { thread_id, received_at }))
}

/// Checks a request as far as that is possible without a thread, so that a malformed request is refused before it is
/// queued.
///
/// # Errors
/// The failure that [`read_request`] would return, or that of a malformed step limit.
pub(crate) fn check_readable(request: &RunRequest) -> Result<(), RunFailure> {
    if !request.rehome {
        read_input(request, None)?;
    }
    requested_steps_max(request)?;
    Ok(())
}

/// Parses the request. A command takes precedence over the input, unless it is empty.
fn read_input(request: &RunRequest, to: Option<MessageDestination>) -> Result<RunInput, RunFailure> {
    if let Some(command) = &request.command
        && let Some(input) = read_command(command, to)?
    {
        return Ok(input);
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

/// Parses a command; returns `None` if it has no effect, because all of its fields are absent, `null` or an empty
/// `goto`.
///
/// Messages of `update` come before those of `goto`. A command with an update alone continues the thread.
fn read_command(
    command: &RunCommand,
    to: Option<MessageDestination>,
) -> Result<Option<RunInput>, RunFailure> {
    let mut messages = read_update(command.update.as_ref(), to)?;
    let target = match &command.goto {
        Some(goto) => read_goto(goto, to)?,
        None => None,
    };
    let answers = command.resume.as_ref().filter(|resume| !resume.is_null()).map(read_answers);
    let action = match (answers, target) {
        (Some(_), Some(_)) => {
            return Err(invalid_request("`command`: `resume` and `goto` cannot be combined"));
        }
        (Some(answers), None) => RunAction::Answer(answers),
        (None, Some((action, goto_messages))) => {
            messages.extend(goto_messages);
            action
        }
        (None, None) if command.update.as_ref().is_none_or(Value::is_null) => return Ok(None),
        (None, None) => RunAction::Continue,
    };
    Ok(Some(RunInput { action, messages }))
}

/// Parses the value of `resume`. An object whose keys are all interrupt ids has one answer per interrupt; everything
/// else is one answer to the only pending interrupt. An empty object is of the first kind.
fn read_answers(resume: &Value) -> InterruptAnswers {
    let named = |fields: &Map<String, Value>| -> Option<BTreeMap<InterruptId, ParsedAnswer>> {
        fields.iter().map(|(key, value)| Some((key.parse().ok()?, read_answer(value)))).collect()
    };
    match resume.as_object().and_then(named) {
        Some(named) => InterruptAnswers::Named(named),
        None => InterruptAnswers::Only(read_answer(resume)),
    }
}

/// Parses the value of `update`: an object, or a list of pairs of a key and a value. Only the key `messages` has an
/// effect, because clients cannot set other channels with a command.
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

/// Parses the messages of the channel `messages`; an absent channel has none.
fn read_channel_messages(
    messages: Option<&Value>,
    to: Option<MessageDestination>,
) -> Result<Vec<InputMessage>, RunFailure> {
    let Some(messages) = messages else { return Ok(Vec::new()) };
    read_messages(messages, to).map_err(|error| invalid_request(error.to_string()))
}

/// Parses the value of `goto`: the name of a node, an object `{node, input}` (a *Send*), or a list of these.
///
/// Returns the action and the messages of the input; `None` for `null` and an empty list. A list may repeat its first
/// target without messages. Other targets are refused, because the graph runs one node at a time.
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
        Value::Array(items) => {
            let mut targets = Vec::new();
            for goto in items {
                targets.extend(read_goto(goto, to)?);
            }
            let mut targets = targets.into_iter();
            let first = targets.next();
            for (action, messages) in targets {
                if first.as_ref().is_some_and(|(first, _)| *first != action) || !messages.is_empty() {
                    return Err(invalid_request("`command.goto`: this graph runs one node at a time"));
                }
            }
            Ok(first)
        }
        Value::Bool(_) | Value::Number(_) => {
            Err(invalid_request("`command.goto`: expected the name of a node"))
        }
    }
}

/// Returns the action that starts a run at the node; `__start__` and `__end__` stand for the two ends of the graph.
fn action_for_node(node: &str) -> RunAction {
    match node {
        END_NODE => RunAction::DiscardPending,
        START_NODE => RunAction::BeginTurn,
        node => RunAction::GoToNode(node.to_owned()),
    }
}

/// Returns the failure of a malformed request. `problem` names the field and the reason.
fn invalid_request(problem: impl AsRef<str>) -> RunFailure {
    RunFailure::new(FailureKind::InvalidUpdate, format!("failed to read {}", problem.as_ref()))
}

#[cfg(test)]
mod tests;
