//! Messages as clients send them: texts, pairs of a role and a text, objects with a role or a type. Reading them is pure;
//! what becomes of the thread by them is decided by whoever asked.

mod block_form;
mod content;

use agent::{CONTENT_FORMS, InputMessage, MessageChange, client_fields_block};
use jiff::Timestamp;
use protocol::{AiMessage, ContentBlock, HumanMessage, Message, ThreadId, ToolMessage, ToolStatus};
use serde_json::{Map, Value, json};

use self::block_form::BlockForm;
pub(crate) use self::block_form::client_content_blocks;
use self::content::ClientContent;

/// The fields of a message beside its content that are stored with it; a message type that Segue does not have is stored
/// under `as`.
const PRESERVED_FIELDS: [&str; 3] = ["name", "additional_kwargs", "artifact"];

/// The id that removes every message.
const REMOVE_ALL: &str = "__remove_all__";

/// The most messages that are taken at once.
const MESSAGES_MAX: usize = 5_000;

/// The most bytes of a message's id.
const ID_BYTES_MAX: usize = 256;

/// The most bytes of what a message has beside its content.
const FIELDS_BYTES_MAX: usize = 64 << 10;

/// A problem with a client's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {reason}")]
pub(crate) struct MessageError {
    /// Where, such as `messages[0].content`.
    pub(crate) at: String,
    /// The problem.
    pub(crate) reason: String,
}

/// The thread that messages are put into, and when they came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageDestination {
    pub(crate) thread_id: ThreadId,
    pub(crate) received_at: Timestamp,
}

/// Reads the messages a client sent: one, or several. `to` is where the bytes in them belong; without it the bytes are
/// looked at and left out.
///
/// # Errors
/// Which of them cannot be read, and why.
pub(crate) fn read_messages(
    value: &Value,
    to: Option<MessageDestination>,
) -> Result<Vec<InputMessage>, MessageError> {
    let one = std::slice::from_ref(value);
    let (given, is_list) = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(several) => (several.as_slice(), true),
        Value::String(_) | Value::Object(_) => (one, false),
        Value::Bool(_) | Value::Number(_) => {
            return Err(message_error("messages", "expected a message or a list of messages"));
        }
    };
    if given.len() > MESSAGES_MAX {
        return Err(message_error(
            "messages",
            format!("{} messages, the most is {MESSAGES_MAX}", given.len()),
        ));
    }
    let at = |index: usize| if is_list { format!("messages[{index}]") } else { "messages".to_owned() };
    let read = |(index, value)| MessageReader { path: at(index), destination: to }.read(value);
    given.iter().enumerate().map(read).collect()
}

fn message_error(at: impl Into<String>, reason: impl Into<String>) -> MessageError {
    MessageError { at: at.into(), reason: reason.into() }
}

/// The role of a client's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientRole {
    Human,
    System,
    Ai,
    Tool,
    Remove,
}

impl ClientRole {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "human" | "user" | "HumanMessage" | "HumanMessageChunk" => Some(Self::Human),
            "system" | "developer" | "SystemMessage" | "SystemMessageChunk" => Some(Self::System),
            "ai" | "assistant" | "AIMessage" | "AIMessageChunk" => Some(Self::Ai),
            "tool" | "ToolMessage" | "ToolMessageChunk" => Some(Self::Tool),
            "remove" | "RemoveMessage" => Some(Self::Remove),
            _ => None,
        }
    }
}

/// Reads one message.
struct MessageReader {
    path: String,
    destination: Option<MessageDestination>,
}

impl MessageReader {
    fn read(&self, value: &Value) -> Result<InputMessage, MessageError> {
        match value {
            Value::String(text) => Ok(put_message(Message::human(text.clone()))),
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(role), content] => {
                    let fields = Map::from_iter([("content".to_owned(), content.clone())]);
                    self.read_fields(self.parse_role(role)?, &fields)
                }
                _ => Err(message_error(&self.path, "expected a pair of a role and a content")),
            },
            Value::Object(fields) => match (text_field(fields, "type"), fields.get("kwargs")) {
                // A message object of a client library, as it writes itself down.
                (Some("constructor"), Some(Value::Object(kwargs))) => {
                    let class = fields.get("id").and_then(Value::as_array).and_then(|path| path.last());
                    let class = class.and_then(Value::as_str).unwrap_or_default();
                    self.read_fields(self.parse_role(class)?, kwargs)
                }
                (named, _) => match text_field(fields, "role").or(named) {
                    Some(role) => self.read_fields(self.parse_role(role)?, fields),
                    None => Err(message_error(&self.path, "it has neither `role` nor `type`")),
                },
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                Err(message_error(&self.path, "expected a text, a pair or an object"))
            }
        }
    }

    fn parse_role(&self, name: &str) -> Result<ClientRole, MessageError> {
        let unknown = || {
            let shown: String = name.chars().take(40).collect();
            message_error(&self.path, format!("`{shown}` is no type of message"))
        };
        ClientRole::from_name(name).ok_or_else(unknown)
    }

    fn read_fields(
        &self,
        role: ClientRole,
        fields: &Map<String, Value>,
    ) -> Result<InputMessage, MessageError> {
        let id = self.read_id(fields)?;
        if role == ClientRole::Remove {
            return match id {
                Some(id) if id == REMOVE_ALL => {
                    Ok(InputMessage { id: None, change: MessageChange::RemoveAll, artifacts: Vec::new() })
                }
                Some(id) => {
                    Ok(InputMessage { id: Some(id), change: MessageChange::Remove, artifacts: Vec::new() })
                }
                None => {
                    Err(message_error(&self.path, "it removes a message and names none: `id` is missing"))
                }
            };
        }
        let mut content = ClientContent::read(fields.get("content"), &self.path, self.destination)?;
        let artifacts = std::mem::take(&mut content.artifacts);
        let mut blocks = content.blocks;
        if role == ClientRole::Ai {
            blocks.extend(self.read_tool_calls(fields, &content.tool_calls)?);
        }
        blocks.extend(self.preserved_fields_block(role, fields, content.forms.as_deref())?);
        let message = match role {
            ClientRole::Human | ClientRole::System | ClientRole::Remove => {
                Message::Human(HumanMessage { id: id.clone(), content: blocks })
            }
            ClientRole::Ai => {
                Message::Ai(AiMessage { id: id.clone(), content: blocks, ..AiMessage::default() })
            }
            ClientRole::Tool => Message::Tool(ToolMessage {
                id: id.clone(),
                call_id: text_field(fields, "tool_call_id")
                    .filter(|id| !id.is_empty())
                    .map(str::to_owned)
                    .ok_or_else(|| {
                        message_error(
                            format!("{}.tool_call_id", self.path),
                            "a result names the call it is of",
                        )
                    })?,
                name: text_field(fields, "name").map(str::to_owned),
                content: blocks,
                status: match text_field(fields, "status") {
                    Some("error") => ToolStatus::Error,
                    Some(_) | None => ToolStatus::Success,
                },
            }),
        };
        Ok(InputMessage { id, change: MessageChange::Put(message), artifacts })
    }

    fn read_id(&self, fields: &Map<String, Value>) -> Result<Option<String>, MessageError> {
        let at = || format!("{}.id", self.path);
        match fields.get("id") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) if id.is_empty() => Ok(None),
            Some(Value::String(id)) if id.len() > ID_BYTES_MAX => {
                Err(message_error(at(), format!("{} bytes, the most is {ID_BYTES_MAX}", id.len())))
            }
            Some(Value::String(id)) if id.chars().any(char::is_control) => {
                Err(message_error(at(), "it has control characters"))
            }
            Some(Value::String(id)) => Ok(Some(id.clone())),
            // What wrote itself down as a path of classes names no message.
            Some(Value::Array(_)) => Ok(None),
            Some(_) => Err(message_error(at(), "expected a text")),
        }
    }

    /// Returns the calls of an answer: those of `tool_calls`, or else those among its content.
    fn read_tool_calls(
        &self,
        fields: &Map<String, Value>,
        among_content: &[ContentBlock],
    ) -> Result<Vec<ContentBlock>, MessageError> {
        let at = |index: usize| format!("{}.tool_calls[{index}]", self.path);
        let given = match fields.get("tool_calls") {
            None | Some(Value::Null) => return Ok(among_content.to_vec()),
            Some(Value::Array(calls)) if calls.is_empty() => return Ok(among_content.to_vec()),
            Some(Value::Array(calls)) => calls,
            Some(_) => return Err(message_error(format!("{}.tool_calls", self.path), "expected a list")),
        };
        let read = |(index, call): (usize, &Value)| {
            // Providers wrap name and arguments in `function`, and send the arguments as a text of JSON.
            let inner = call.get("function").unwrap_or(call);
            let name = inner.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| message_error(at(index), "a call has a `name`"))?;
            let args = inner.get("args").or_else(|| inner.get("arguments")).cloned().unwrap_or_default();
            let args = match args {
                Value::String(json) => serde_json::from_str(&json).unwrap_or(Value::String(json)),
                Value::Null => Value::Object(Map::new()),
                args => args,
            };
            let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| message_error(at(index), "a call has an `id`"))?;
            Ok(ContentBlock::ToolCall { id: id.to_owned(), name: name.to_owned(), args })
        };
        given.iter().enumerate().map(read).collect()
    }

    /// Returns the block that keeps what the message has beside its content, and how that was written.
    fn preserved_fields_block(
        &self,
        role: ClientRole,
        fields: &Map<String, Value>,
        forms: Option<&[Option<BlockForm>]>,
    ) -> Result<Option<ContentBlock>, MessageError> {
        let mut raw = Map::new();
        for key in PRESERVED_FIELDS {
            // A result's name has a place of its own.
            let is_kept = !(role == ClientRole::Tool && key == "name");
            let value = fields.get(key).filter(|value| is_kept && !is_empty_value(value));
            raw.extend(value.map(|value| (key.to_owned(), value.clone())));
        }
        if role == ClientRole::System {
            raw.insert("as".to_owned(), "system".into());
        }
        raw.extend(forms.map(|forms| (CONTENT_FORMS.to_owned(), json!(forms))));
        if raw.is_empty() {
            return Ok(None);
        }
        let bytes = Value::Object(raw.clone()).to_string().len();
        if bytes > FIELDS_BYTES_MAX {
            let reason = format!("{bytes} bytes beside its content, the most is {FIELDS_BYTES_MAX}");
            return Err(message_error(&self.path, reason));
        }
        Ok(Some(client_fields_block(raw)))
    }
}

fn put_message(message: Message) -> InputMessage {
    InputMessage { id: None, change: MessageChange::Put(message), artifacts: Vec::new() }
}

fn text_field<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
