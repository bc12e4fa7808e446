//! When in a conversation a request comes: its turn and the model's call in that turn, told alike in every format.

use serde_json::Value;

use super::Format;

/// When a request comes; both count from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct When {
    /// How often a person has spoken.
    pub(crate) turn: usize,
    /// Which call of the model since then it is.
    pub(crate) step: usize,
}

/// Who speaks in one message or item of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Person,
    Tool,
    Model,
    /// Instructions, or nobody.
    Nobody,
}

impl Format {
    /// Returns when in its conversation a request comes.
    pub(crate) fn when(self, body: &Value) -> When {
        let mut when = When::default();
        let mut before = Who::Nobody;
        for message in self.messages(body) {
            let who = self.who(message, before);
            match who {
                Who::Person if before != Who::Person => when = When { turn: when.turn + 1, step: 0 },
                Who::Model if before != Who::Model => when.step += 1,
                Who::Person | Who::Model | Who::Tool | Who::Nobody => {}
            }
            before = who;
        }
        When { step: when.step + 1, ..when }
    }

    /// Returns what a person said last, which may be several messages.
    pub(crate) fn said(self, body: &Value) -> &[Value] {
        let messages = self.messages(body);
        let (mut said, mut before) = (0..0, Who::Nobody);
        for (at, message) in messages.iter().enumerate() {
            let who = self.who(message, before);
            if who == Who::Person {
                let begin = if before == Who::Person { said.start } else { at };
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

    fn who(self, message: &Value, before: Who) -> Who {
        let has = |list: &str, is: &dyn Fn(&Value) -> bool| {
            message[list].as_array().is_some_and(|list| list.iter().any(is))
        };
        match (self, message["role"].as_str()) {
            (_, Some("assistant" | "model")) => Who::Model,
            (_, Some("system" | "developer")) => Who::Nobody,
            (_, Some("tool")) => Who::Tool,
            (Self::Anthropic, _) if has("content", &|block| block["type"] == "tool_result") => {
                if has("content", &|block| block["type"] == "text") { Who::Person } else { Who::Tool }
            }
            (Self::Gemini, _) if has("parts", &|part| part.get("functionResponse").is_some()) => {
                if has("parts", &|part| part.get("text").is_some()) { Who::Person } else { Who::Tool }
            }
            // Images of a batch come as a message of the user's without a word.
            (Self::Chat, _) if before == Who::Tool && message["content"].is_array() => {
                if has("content", &|part| part["type"] == "text") { Who::Person } else { Who::Tool }
            }
            (Self::Responses, None) => {
                if message["type"] == "function_call_output" {
                    Who::Tool
                } else {
                    Who::Model
                }
            }
            (Self::Anthropic | Self::Chat | Self::Gemini | Self::Responses, _) => Who::Person,
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
            (Format::Anthropic, anthropic),
            (Format::Chat, chat),
            (Format::Responses, responses),
            (Format::Gemini, gemini),
        ] {
            assert_eq!(format.when(&body), When { turn: 2, step: 2 }, "{format:?}");
            assert_eq!(format.said(&body).len(), 1, "{format:?}");
            assert!(format.said(&json!({})).is_empty(), "{format:?}");
            assert_eq!(format.when(&json!({})), When { turn: 0, step: 1 }, "{format:?}");
        }
    }
}
