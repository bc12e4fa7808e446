//! The wire formats the server speaks: a reply becomes the data of events. Faults of the connection are the server's.

mod anthropic;
mod chat;
mod gemini;
mod position;
mod responses;

use serde_json::Value;

use crate::script::ScriptedReply;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFormat {
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SseEvent {
    /// Its name, in formats that name their events.
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// The events of an answer: those that bring content, and those that end it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReplyEvents {
    /// They bring content.
    pub(crate) content: Vec<SseEvent>,
    /// They end the answer; faults replace them.
    pub(crate) end: Vec<SseEvent>,
}

impl WireFormat {
    /// Returns the format that is spoken under a path.
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

    /// Returns the events of a reply; `number` tells the answers of one server apart.
    pub(crate) fn events(self, reply: &ScriptedReply, number: usize) -> ReplyEvents {
        match self {
            Self::Anthropic => anthropic::events(reply, number),
            Self::Chat => chat::events(reply, number),
            Self::Responses => responses::events(reply, number),
            Self::Gemini => gemini::events(reply, number),
        }
    }

    /// Returns the event with which the provider reports inside a stream that it is overloaded.
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
    /// Returns an event that is named as its data says in `type`.
    fn named_by_type(data: &Value) -> Self {
        Self { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    fn unnamed(data: &Value) -> Self {
        Self { name: None, data: data.to_string() }
    }

    /// Returns the event's bytes.
    pub(crate) fn to_wire(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data)
    }
}

/// Returns the arguments as JSON text in two pieces, cut at a character.
fn split_args(args: &Value) -> [String; 2] {
    let text = args.to_string();
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    [text[..middle].to_owned(), text[middle..].to_owned()]
}
