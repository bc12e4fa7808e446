//! What a request asks for, read from what the client sent. Pure: whether the thread can do it is looked at later.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::{Command, InterruptId, RunRequest, ThreadId};
use serde_json::{Map, Value};

use super::fault::{Fault, INVALID_UPDATE};
use super::messages::{InputMessage, messages_in};

/// The place behind the graph's last node.
const END: &str = "__end__";
/// The place before its first one.
const START: &str = "__start__";
/// The key of the messages, in what is put in and in changes of the state.
const MESSAGES: &str = "messages";

/// What a request asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// What is to happen.
    pub(super) go: Go,
    /// The messages that are put in first, or that change others.
    pub(super) messages: Vec<InputMessage>,
}

/// What is to happen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Go {
    /// A turn begins.
    Turn,
    /// The thread goes on where it stands.
    On,
    /// What waits is answered.
    Answer(Answers),
    /// The run begins at this node.
    At(String),
    /// What waits is dropped.
    End,
}

/// The answers to what waits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answers {
    /// One, to the only question.
    Only(Value),
    /// Each to the question it names.
    Named(BTreeMap<InterruptId, Value>),
}

impl Wanted {
    /// Reads the request for a run on the thread; see [`messages_in`] for `at`.
    ///
    /// # Errors
    /// The fault with which the run ends.
    pub(super) fn read(request: &RunRequest, at: Option<(ThreadId, Timestamp)>) -> Result<Self, Fault> {
        if let Some(command) = &request.command
            && let Some(wanted) = commanded(command, at)?
        {
            return Ok(wanted);
        }
        match &request.input {
            None | Some(Value::Null) => Ok(Self { go: Go::On, messages: Vec::new() }),
            Some(Value::Object(input)) => {
                Ok(Self { go: Go::Turn, messages: put_in(input.get(MESSAGES), at)? })
            }
            Some(Value::Array(_) | Value::String(_) | Value::Bool(_) | Value::Number(_)) => {
                Err(invalid("`input`: expected an object, such as {\"messages\": [\u{2026}]}"))
            }
        }
    }
}

/// Reads a command; `None` for one that commands nothing.
fn commanded(command: &Command, at: Option<(ThreadId, Timestamp)>) -> Result<Option<Wanted>, Fault> {
    let mut messages = updated(command.update.as_ref(), at)?;
    let go_to = match &command.goto {
        Some(goto) => place(goto, at)?,
        None => None,
    };
    let answers = command.resume.as_ref().filter(|resume| !resume.is_null()).map(answers);
    let go = match (answers, go_to) {
        (Some(_), Some(_)) => {
            return Err(invalid("`command`: it has both an answer (`resume`) and a place to go (`goto`)"));
        }
        (Some(answers), None) => Go::Answer(answers),
        (None, Some((go, more))) => {
            messages.extend(more);
            go
        }
        (None, None) if command.update.as_ref().is_none_or(Value::is_null) => return Ok(None),
        (None, None) => Go::On,
    };
    Ok(Some(Wanted { go, messages }))
}

/// Reads an answer: an object whose keys are all ids of interrupts names what it answers, anything else is one answer.
fn answers(resume: &Value) -> Answers {
    let named = |fields: &Map<String, Value>| -> Option<BTreeMap<InterruptId, Value>> {
        fields.iter().map(|(key, value)| Some((key.parse().ok()?, value.clone()))).collect()
    };
    match resume.as_object().and_then(named) {
        Some(named) => Answers::Named(named),
        None => Answers::Only(resume.clone()),
    }
}

/// Reads a change of the state: an object, or a list of pairs. Of its keys only the messages are a client's to change.
fn updated(update: Option<&Value>, at: Option<(ThreadId, Timestamp)>) -> Result<Vec<InputMessage>, Fault> {
    match update {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(fields)) => put_in(fields.get(MESSAGES), at),
        Some(Value::Array(pairs)) => {
            let mut messages = Vec::new();
            for pair in pairs {
                match pair.as_array().map(Vec::as_slice) {
                    Some([Value::String(key), value]) if key == MESSAGES => {
                        messages.extend(put_in(Some(value), at)?);
                    }
                    Some([Value::String(_), _]) => {}
                    Some(_) | None => {
                        return Err(invalid("`command.update`: expected an object or a list of pairs"));
                    }
                }
            }
            Ok(messages)
        }
        Some(Value::String(_) | Value::Bool(_) | Value::Number(_)) => {
            Err(invalid("`command.update`: expected an object or a list of pairs"))
        }
    }
}

fn put_in(messages: Option<&Value>, at: Option<(ThreadId, Timestamp)>) -> Result<Vec<InputMessage>, Fault> {
    let Some(messages) = messages else { return Ok(Vec::new()) };
    messages_in(messages, at).map_err(|fault| invalid(fault.to_string()))
}

/// Reads a place to go: a node, a list with one, or `{node, input}`. An empty list is none.
fn place(goto: &Value, at: Option<(ThreadId, Timestamp)>) -> Result<Option<(Go, Vec<InputMessage>)>, Fault> {
    match goto {
        Value::Null => Ok(None),
        Value::String(node) => Ok(Some((named(node), Vec::new()))),
        Value::Object(send) => {
            let node = send.get("node").and_then(Value::as_str);
            let node = node.ok_or_else(|| invalid("`command.goto`: `node` is missing"))?;
            let input = send.get("input").and_then(Value::as_object);
            let messages = put_in(input.and_then(|input| input.get(MESSAGES)), at)?;
            Ok(Some((named(node), messages)))
        }
        Value::Array(places) => {
            let mut read = Vec::new();
            for goto in places {
                read.extend(place(goto, at)?);
            }
            let mut read = read.into_iter();
            let first = read.next();
            for (go, more) in read {
                if first.as_ref().is_some_and(|(first, _)| *first != go) || !more.is_empty() {
                    return Err(invalid("`command.goto`: this graph goes to one node at a time"));
                }
            }
            Ok(first)
        }
        Value::Bool(_) | Value::Number(_) => Err(invalid("`command.goto`: expected the name of a node")),
    }
}

fn named(node: &str) -> Go {
    match node {
        END => Go::End,
        START => Go::Turn,
        node => Go::At(node.to_owned()),
    }
}

fn invalid(what: impl AsRef<str>) -> Fault {
    Fault::new(INVALID_UPDATE, format!("failed to read {}", what.as_ref()))
}

#[cfg(test)]
mod tests;
