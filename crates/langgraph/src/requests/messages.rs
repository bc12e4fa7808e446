//! Parses the messages of clients: plain strings, pairs of a role and a content, and objects with a `role` or a `type`.
//!
//! Parsing is pure. The effect of the messages on the thread is decided by the caller.

mod block_form;
mod content;

use agent::{CONTENT_FORMS, InputMessage, MessageChange, client_fields_block};
use jiff::Timestamp;
use protocol::{AiMessage, ContentBlock, HumanMessage, Message, ThreadId, ToolMessage, ToolStatus};
use serde_json::{Map, Value, json};

use self::block_form::BlockForm;
pub(crate) use self::block_form::client_content_blocks;
use self::content::ClientContent;

/// The fields other than the content that are stored with a message and returned unchanged. In addition, the type of a
/// system message is stored under `as`, because Segue stores system messages of clients as human messages.
const PRESERVED_FIELDS: [&str; 3] = ["name", "additional_kwargs", "artifact"];

/// The id in a message of type `remove` that removes all messages of the thread, as in LangGraph.
const REMOVE_ALL: &str = "__remove_all__";

/// Maximum number of messages in one request.
const MESSAGES_MAX: usize = 5_000;

/// Maximum length of a message's id in bytes.
const ID_BYTES_MAX: usize = 256;

/// Maximum size in bytes of the JSON of a message's fields other than its content, including the forms of its blocks.
const FIELDS_BYTES_MAX: usize = 64 << 10;

/// A malformed message of a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(crate) struct MessageError {
    /// The path of the malformed value, such as `messages[0].content`.
    pub(crate) path: String,
    /// The problem with the value.
    pub(crate) reason: String,
}

/// The thread to which messages belong. It owns the artifacts that are made from the bytes of images and files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageDestination {
    pub(crate) thread_id: ThreadId,
    /// The creation time of the artifacts.
    pub(crate) received_at: Timestamp,
}

/// Parses the messages of a client: `null`, one message, or a list of messages.
///
/// With a destination, the bytes of images and files become artifacts of its thread. Without one, the bytes are only
/// validated and the result lacks their blocks, so that it is useful for validation only.
///
/// # Errors
/// The first malformed message, or a list with more than [`MESSAGES_MAX`] messages.
pub(crate) fn read_messages(
    value: &Value,
    to: Option<MessageDestination>,
) -> Result<Vec<InputMessage>, MessageError> {
    let (items, is_list) = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => (items.as_slice(), true),
        Value::String(_) | Value::Object(_) => (std::slice::from_ref(value), false),
        Value::Bool(_) | Value::Number(_) => {
            return Err(message_error("messages", "expected a message or a list of messages"));
        }
    };
    if items.len() > MESSAGES_MAX {
        let reason = format!("{} messages exceed the maximum of {MESSAGES_MAX}", items.len());
        return Err(message_error("messages", reason));
    }
    let path = |index: usize| if is_list { format!("messages[{index}]") } else { "messages".to_owned() };
    let read = |(index, value)| MessageReader { path: path(index), destination: to }.read(value);
    items.iter().enumerate().map(read).collect()
}

/// Returns the error for the value at `path`.
fn message_error(path: impl Into<String>, reason: impl Into<String>) -> MessageError {
    MessageError { path: path.into(), reason: reason.into() }
}

/// The role of a client's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientRole {
    Human,
    System,
    Ai,
    Tool,
    /// A request to remove a message of the thread.
    Remove,
}

impl ClientRole {
    /// Returns the role of that name: a role of OpenAI's API, a type of LangChain, or the name of a LangChain class.
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

/// The parser of one message.
struct MessageReader {
    /// The path of the message, for error messages.
    path: String,
    destination: Option<MessageDestination>,
}

impl MessageReader {
    /// Parses a message in any of its forms.
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
                // The serialized form of a message class of LangChain: `id` is the path of the class.
                (Some("constructor"), Some(Value::Object(kwargs))) => {
                    let class = fields.get("id").and_then(Value::as_array).and_then(|path| path.last());
                    let class = class.and_then(Value::as_str).unwrap_or_default();
                    self.read_fields(self.parse_role(class)?, kwargs)
                }
                (type_name, _) => match text_field(fields, "role").or(type_name) {
                    Some(role) => self.read_fields(self.parse_role(role)?, fields),
                    None => Err(message_error(&self.path, "has neither `role` nor `type`")),
                },
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                Err(message_error(&self.path, "expected a string, a pair or an object"))
            }
        }
    }

    /// Parses the role; an unknown one is refused with at most 40 of its characters.
    fn parse_role(&self, name: &str) -> Result<ClientRole, MessageError> {
        let unknown = || {
            let shown: String = name.chars().take(40).collect();
            message_error(&self.path, format!("unknown message type `{shown}`"))
        };
        ClientRole::from_name(name).ok_or_else(unknown)
    }

    /// Parses the fields of a message object.
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
                None => Err(message_error(&self.path, "`id` is required to remove a message")),
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
                        message_error(format!("{}.tool_call_id", self.path), "required in a tool message")
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

    /// Parses the id of the message; returns `None` for a missing, empty or `null` one.
    fn read_id(&self, fields: &Map<String, Value>) -> Result<Option<String>, MessageError> {
        let path = || format!("{}.id", self.path);
        match fields.get("id") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) if id.is_empty() => Ok(None),
            Some(Value::String(id)) if id.len() > ID_BYTES_MAX => {
                let reason = format!("{} bytes exceed the maximum of {ID_BYTES_MAX}", id.len());
                Err(message_error(path(), reason))
            }
            Some(Value::String(id)) if id.chars().any(char::is_control) => {
                Err(message_error(path(), "must not contain control characters"))
            }
            Some(Value::String(id)) => Ok(Some(id.clone())),
            // The path of a LangChain class, which a serialized message has in place of an id.
            Some(Value::Array(_)) => Ok(None),
            Some(_) => Err(message_error(path(), "expected a string")),
        }
    }

    /// Parses the tool calls of an AI message. If `tool_calls` is missing or empty, returns the calls in the content,
    /// which are given by `content_calls`.
    fn read_tool_calls(
        &self,
        fields: &Map<String, Value>,
        content_calls: &[ContentBlock],
    ) -> Result<Vec<ContentBlock>, MessageError> {
        let path = |index: usize| format!("{}.tool_calls[{index}]", self.path);
        let calls = match fields.get("tool_calls") {
            None | Some(Value::Null) => return Ok(content_calls.to_vec()),
            Some(Value::Array(calls)) if calls.is_empty() => return Ok(content_calls.to_vec()),
            Some(Value::Array(calls)) => calls,
            Some(_) => return Err(message_error(format!("{}.tool_calls", self.path), "expected a list")),
        };
        let read = |(index, call): (usize, &Value)| {
            // OpenAI's API wraps name and arguments in `function`, and encodes the arguments as a JSON string.
            let inner = call.get("function").unwrap_or(call);
            let name = inner.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| message_error(path(index), "`name` is required"))?;
            let args = inner.get("args").or_else(|| inner.get("arguments")).cloned().unwrap_or_default();
            let args = match args {
                Value::String(json) => serde_json::from_str(&json).unwrap_or(Value::String(json)),
                Value::Null => Value::Object(Map::new()),
                args => args,
            };
            let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| message_error(path(index), "`id` is required"))?;
            Ok(ContentBlock::ToolCall { id: id.to_owned(), name: name.to_owned(), args })
        };
        calls.iter().enumerate().map(read).collect()
    }

    /// Returns the block that stores the fields other than the content, and the forms in which the client wrote the
    /// blocks of the content. Returns `None` if there is nothing to store.
    fn preserved_fields_block(
        &self,
        role: ClientRole,
        fields: &Map<String, Value>,
        forms: Option<&[Option<BlockForm>]>,
    ) -> Result<Option<ContentBlock>, MessageError> {
        let mut raw = Map::new();
        for key in PRESERVED_FIELDS {
            // The name of a tool message is a field of `ToolMessage`.
            let is_stored_here = !(role == ClientRole::Tool && key == "name");
            let value = fields.get(key).filter(|value| is_stored_here && !is_empty_value(value));
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
            let reason = format!(
                "the fields other than `content` have {bytes} bytes; the maximum is {FIELDS_BYTES_MAX}"
            );
            return Err(message_error(&self.path, reason));
        }
        Ok(Some(client_fields_block(raw)))
    }
}

/// Returns the input that adds the message under an id that the server assigns.
fn put_message(message: Message) -> InputMessage {
    InputMessage { id: None, change: MessageChange::Put(message), artifacts: Vec::new() }
}

/// Returns the field if it is a string.
fn text_field<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// Returns whether the value is `null`, an empty string or an empty object, as clients send for a field that is not
/// set.
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
