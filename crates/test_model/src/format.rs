//! The wire formats of the server: converts a reply into server-sent events. `server` implements faults of the connection.

mod anthropic;
mod chat;
mod gemini;
mod position;
mod responses;

use serde_json::Value;

use crate::script::ScriptedReply;

/// A provider's wire format. The path of a request selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFormat {
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SseEvent {
    /// The event name, in formats that name their events.
    pub(crate) name: Option<String>,
    /// The data, one line.
    pub(crate) data: String,
}

/// The events of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReplyEvents {
    /// Events with content.
    pub(crate) content: Vec<SseEvent>,
    /// Final events, such as stop reason and usage. A fault replaces them.
    pub(crate) end: Vec<SseEvent>,
}

impl WireFormat {
    /// Returns the format for a path, or `None` for an unknown path.
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        match path {
            _ if path.ends_with("/v1/messages") => Some(Self::Anthropic),
            _ if path.ends_with("/v1/chat/completions") => Some(Self::Chat),
            _ if path.ends_with("/v1/responses") => Some(Self::Responses),
            _ if path.contains("/v1beta/models/") && path.ends_with(":streamGenerateContent") => {
                Some(Self::Gemini)
            }
            _ => None,
        }
    }

    /// Returns the events of a reply. `number` makes the ids in it unique within the server.
    pub(crate) fn events(self, reply: &ScriptedReply, number: usize) -> ReplyEvents {
        match self {
            Self::Anthropic => anthropic::events(reply, number),
            Self::Chat => chat::events(reply, number),
            Self::Responses => responses::events(reply, number),
            Self::Gemini => gemini::events(reply, number),
        }
    }

    /// Returns the event by which the provider reports an overload inside a stream.
    pub(crate) fn overloaded_event(self) -> SseEvent {
        match self {
            Self::Anthropic => anthropic::overloaded_event(),
            Self::Chat => chat::overloaded_event(),
            Self::Responses => responses::overloaded_event(),
            Self::Gemini => gemini::overloaded_event(),
        }
    }
}

impl SseEvent {
    /// Returns an event whose name is the field `type` of its data.
    fn named_by_type(data: &Value) -> Self {
        Self { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    /// Returns an event without a name.
    fn unnamed(data: &Value) -> Self {
        Self { name: None, data: data.to_string() }
    }

    /// Returns the event as it is sent.
    pub(crate) fn to_wire(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data)
    }
}

/// Returns the arguments as JSON text in two pieces, so that clients must join them. The cut is between characters.
fn split_args(args: &Value) -> [String; 2] {
    let text = args.to_string();
    let middle =
        (text.len() / 2..=text.len()).find(|index| text.is_char_boundary(*index)).unwrap_or(text.len());
    [text[..middle].to_owned(), text[middle..].to_owned()]
}
