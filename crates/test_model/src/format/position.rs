//! When in a conversation a request comes: its turn and the model's call in that turn, told alike in every format.

use serde_json::Value;

use super::WireFormat;

/// When a request comes; both count from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestPosition {
    /// How often a person has spoken.
    pub(crate) turn: usize,
    /// Which call of the model since then it is.
    pub(crate) step: usize,
}

/// The speaker of a message or item of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageSender {
    Person,
    Tool,
    Model,
    /// Instructions, or nobody.
    Nobody,
}

impl WireFormat {
    /// Returns when in its conversation a request comes.
    pub(crate) fn request_position(self, body: &Value) -> RequestPosition {
        let mut when = RequestPosition::default();
        let mut before = MessageSender::Nobody;
        for message in self.messages(body) {
            let who = self.message_sender(message, before);
            match who {
                MessageSender::Person if before != MessageSender::Person => {
                    when = RequestPosition { turn: when.turn + 1, step: 0 }
                }
                MessageSender::Model if before != MessageSender::Model => when.step += 1,
                MessageSender::Person
                | MessageSender::Model
                | MessageSender::Tool
                | MessageSender::Nobody => {}
            }
            before = who;
        }
        RequestPosition { step: when.step + 1, ..when }
    }

    /// Returns what a person said last, which may be several messages.
    pub(crate) fn last_human_messages(self, body: &Value) -> &[Value] {
        let messages = self.messages(body);
        let (mut said, mut before) = (0..0, MessageSender::Nobody);
        for (at, message) in messages.iter().enumerate() {
            let who = self.message_sender(message, before);
            if who == MessageSender::Person {
                let begin = if before == MessageSender::Person { said.start } else { at };
                said = begin..at + 1;
            }
            before = who;
        }
        &messages[said]
    }

    fn messages(self, body: &Value) -> &[Value] {
        let field = match self {
            Self::Anthropic | Self::Chat => "messages",
            Self::Responses => "input",
            Self::Gemini => "contents",
        };
        body[field].as_array().map_or(&[], Vec::as_slice)
    }

    fn message_sender(self, message: &Value, before: MessageSender) -> MessageSender {
        let has = |list: &str, is: &dyn Fn(&Value) -> bool| {
            message[list].as_array().is_some_and(|list| list.iter().any(is))
        };
        match (self, message["role"].as_str()) {
            (_, Some("assistant" | "model")) => MessageSender::Model,
            (_, Some("system" | "developer")) => MessageSender::Nobody,
            (_, Some("tool")) => MessageSender::Tool,
            (Self::Anthropic, _) if has("content", &|block| block["type"] == "tool_result") => {
                if has("content", &|block| block["type"] == "text") {
                    MessageSender::Person
                } else {
                    MessageSender::Tool
                }
            }
            (Self::Gemini, _) if has("parts", &|part| part.get("functionResponse").is_some()) => {
                if has("parts", &|part| part.get("text").is_some()) {
                    MessageSender::Person
                } else {
                    MessageSender::Tool
                }
            }
            // Images of a batch come as a message of the user's without a word.
            (Self::Chat, _) if before == MessageSender::Tool && message["content"].is_array() => {
                if has("content", &|part| part["type"] == "text") {
                    MessageSender::Person
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
            (Self::Anthropic | Self::Chat | Self::Gemini | Self::Responses, _) => MessageSender::Person,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_comes_at_the_same_time_in_every_format() {
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
