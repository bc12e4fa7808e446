//! The position of a request in its conversation: the turn, and the model call within the turn. One script can therefore
//! select requests in any wire format.

use serde_json::Value;

use super::WireFormat;

/// The position of a request. Both numbers count from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestPosition {
    /// The number of the turn. Adjacent user messages count as one turn; 0 if there is no user message.
    pub(crate) turn: usize,
    /// The number of the model call in the turn.
    pub(crate) step: usize,
}

/// The sender of a message or item of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageSender {
    User,
    Tool,
    Model,
    /// Instructions, or no message.
    System,
}

impl WireFormat {
    /// Returns the position of a request in its conversation.
    pub(crate) fn request_position(self, body: &Value) -> RequestPosition {
        let mut position = RequestPosition::default();
        let mut previous = MessageSender::System;
        for message in self.messages(body) {
            let sender = self.message_sender(message, previous);
            match sender {
                MessageSender::User if previous != MessageSender::User => {
                    position = RequestPosition { turn: position.turn + 1, step: 0 }
                }
                MessageSender::Model if previous != MessageSender::Model => position.step += 1,
                MessageSender::User | MessageSender::Model | MessageSender::Tool | MessageSender::System => {}
            }
            previous = sender;
        }
        RequestPosition { step: position.step + 1, ..position }
    }

    /// Returns the last group of adjacent user messages.
    pub(crate) fn last_human_messages(self, body: &Value) -> &[Value] {
        let messages = self.messages(body);
        let (mut range, mut previous) = (0..0, MessageSender::System);
        for (index, message) in messages.iter().enumerate() {
            let sender = self.message_sender(message, previous);
            if sender == MessageSender::User {
                let start = if previous == MessageSender::User { range.start } else { index };
                range = start..index + 1;
            }
            previous = sender;
        }
        &messages[range]
    }

    /// Returns the messages or items of a request.
    fn messages(self, body: &Value) -> &[Value] {
        let field = match self {
            Self::Anthropic | Self::Chat => "messages",
            Self::Responses => "input",
            Self::Gemini => "contents",
        };
        body[field].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the sender of a message. `previous` is the sender of the message before, on which the sender can depend.
    fn message_sender(self, message: &Value, previous: MessageSender) -> MessageSender {
        let has = |list: &str, predicate: &dyn Fn(&Value) -> bool| {
            message[list].as_array().is_some_and(|list| list.iter().any(predicate))
        };
        match (self, message["role"].as_str()) {
            (_, Some("assistant" | "model")) => MessageSender::Model,
            (_, Some("system" | "developer")) => MessageSender::System,
            (_, Some("tool")) => MessageSender::Tool,
            (Self::Anthropic, _) if has("content", &|block| block["type"] == "tool_result") => {
                if has("content", &|block| block["type"] == "text") {
                    MessageSender::User
                } else {
                    MessageSender::Tool
                }
            }
            (Self::Gemini, _) if has("parts", &|part| part.get("functionResponse").is_some()) => {
                if has("parts", &|part| part.get("text").is_some()) {
                    MessageSender::User
                } else {
                    MessageSender::Tool
                }
            }
            // Images in tool results are sent as a user message without text.
            (Self::Chat, _) if previous == MessageSender::Tool && message["content"].is_array() => {
                if has("content", &|part| part["type"] == "text") {
                    MessageSender::User
                } else {
                    MessageSender::Tool
                }
            }
            (Self::Responses, None) => {
                if message["type"] == "function_call_output" {
                    MessageSender::Tool
                } else {
                    MessageSender::Model
                }
            }
            (Self::Anthropic | Self::Chat | Self::Gemini | Self::Responses, _) => MessageSender::User,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_has_the_same_position_in_every_format() {
        let anthropic = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"role": "user", "content": [{"type": "tool_result"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"role": "user", "content": [{"type": "tool_result"}]},
        ]});
        let chat = json!({"messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "a"},
            {"role": "assistant", "tool_calls": [{}]},
            {"role": "tool", "content": "r"},
            {"role": "user", "content": [{"type": "text", "text": "b"}]},
            {"role": "assistant", "tool_calls": [{}, {}]},
            {"role": "tool", "content": "r"},
            {"role": "tool", "content": "r"},
            {"role": "user", "content": [{"type": "image_url"}]},
        ]});
        let responses = json!({"input": [
            {"type": "message", "role": "user"},
            {"type": "reasoning"},
            {"type": "function_call"},
            {"type": "function_call_output"},
            {"type": "message", "role": "user"},
            {"type": "message", "role": "assistant"},
            {"type": "function_call"},
            {"type": "function_call_output"},
        ]});
        let gemini = json!({"contents": [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"functionCall": {}}]},
            {"role": "user", "parts": [{"functionResponse": {}}, {"text": "b"}]},
            {"role": "model", "parts": [{"functionCall": {}}]},
            {"role": "user", "parts": [{"functionResponse": {}}, {"inlineData": {}}]},
        ]});
        for (format, body) in [
            (WireFormat::Anthropic, anthropic),
            (WireFormat::Chat, chat),
            (WireFormat::Responses, responses),
            (WireFormat::Gemini, gemini),
        ] {
            assert_eq!(format.request_position(&body), RequestPosition { turn: 2, step: 2 }, "{format:?}");
            assert_eq!(format.last_human_messages(&body).len(), 1, "{format:?}");
            assert!(format.last_human_messages(&json!({})).is_empty(), "{format:?}");
            assert_eq!(
                format.request_position(&json!({})),
                RequestPosition { turn: 0, step: 1 },
                "{format:?}"
            );
        }
    }
}
