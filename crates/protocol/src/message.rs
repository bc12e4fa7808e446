//! Messages: what a person, a model or a tool said, in the form the journal stores. They are not tied to one
//! provider's wire format; the `model` room translates, and the content blocks replay byte for byte.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Message {
    /// A message of a person.
    Human(HumanMessage),
    /// A message of a model: text, thinking and tool calls in the order in which it produced them.
    Ai(AiMessage),
    /// The result of one tool call.
    Tool(ToolMessage),
}

/// A message of a person.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HumanMessage {
    /// The client's id, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The content, in order.
    pub content: Vec<ContentBlock>,
}

/// A message of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AiMessage {
    /// Its id: for what a run of ours says [`crate::RunId::message_id`], otherwise the source's, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The content, in order.
    pub content: Vec<ContentBlock>,
    /// `provider/name` of the model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens the provider reported for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The estimated input tokens of the request. Comparing them with `usage` calibrates the estimate for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_tokens: Option<u64>,
    /// True when the call was cancelled or broke off: what is here is what had arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Why the model stopped, if the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// It reached the limit of the answer or of its window.
    MaxTokens,
    /// It, or a filter of the provider, declined to go on.
    Refusal,
    /// Anything else, such as a stop word.
    #[serde(other)]
    Other,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The stored id, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id of the call this answers; empty when the source recorded none.
    pub call_id: String,
    /// The tool's name, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The content, in order.
    pub content: Vec<ContentBlock>,
    /// The outcome of the call.
    #[serde(default)]
    pub status: ToolStatus,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// The tool did what it was asked.
    #[default]
    Success,
    /// The tool failed; the content says how.
    Error,
}

/// One piece of a message's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A model's reasoning. It is sent back only to the provider that produced it, as the bytes in `raw`.
    Thinking {
        /// The readable part; may be empty when the provider hides it.
        text: String,
        /// The provider that produced it (`anthropic`, `openai`, …), if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// The provider's own block, signature included, to be replayed unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// A request to run a tool.
    ToolCall {
        /// The provider's id of the call; links the result.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments; an object for every call that a provider produced correctly.
        args: Value,
    },
    /// An image or file, by reference; its bytes are not part of the message.
    Media {
        /// The media type, such as `image/png`; empty when the source did not say.
        media_type: String,
        /// Lowercase hex SHA-256 of the bytes, if they were seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        /// Size in bytes, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// A provider's block that Segue does not interpret, replayed unchanged to the same provider.
    Opaque {
        /// The provider that produced it.
        provider: String,
        /// The block as received.
        raw: Value,
    },
}

/// Tokens of one model call, as the provider reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens of the answer, reasoning included.
    #[serde(default)]
    pub output_tokens: u64,
    /// Part of `input_tokens` that was read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Part of `input_tokens` that was written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Returns input and output together.
    pub const fn total_tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }

    /// Adds the tokens of another call.
    pub const fn add(&mut self, more: Self) {
        self.input_tokens += more.input_tokens;
        self.output_tokens += more.output_tokens;
        self.cache_read_tokens += more.cache_read_tokens;
        self.cache_write_tokens += more.cache_write_tokens;
    }
}

impl ContentBlock {
    /// Returns a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl From<&str> for HumanMessage {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl HumanMessage {
    /// Returns a message of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { id: None, content: vec![ContentBlock::text(text)] }
    }
}

impl Message {
    /// Returns a human message with one text block.
    pub fn human(text: impl Into<String>) -> Self {
        Self::Human(HumanMessage::text(text))
    }

    /// Returns an AI message with one text block.
    pub fn ai(text: impl Into<String>) -> Self {
        Self::Ai(AiMessage { content: vec![ContentBlock::text(text)], ..AiMessage::default() })
    }

    /// Returns the message's content blocks in order.
    pub fn content(&self) -> &[ContentBlock] {
        match self {
            Self::Human(m) => &m.content,
            Self::Ai(m) => &m.content,
            Self::Tool(m) => &m.content,
        }
    }

    /// Returns the text blocks joined by newlines; thinking and tool calls are left out.
    pub fn text(&self) -> String {
        joined_text(self.content())
    }

    /// Returns the tool calls of an AI message as `(id, name, args)`, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.content().iter().filter_map(|block| match block {
            ContentBlock::ToolCall { id, name, args } => Some((id.as_str(), name.as_str(), args)),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        })
    }
}

/// Returns the text blocks of `content` joined by newlines.
pub fn joined_text(content: &[ContentBlock]) -> String {
    let mut text = String::new();
    for block in content {
        if let ContentBlock::Text { text: part } = block {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        }
    }
    text
}
