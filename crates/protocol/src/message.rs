//! Messages of users, models and tools, in the form that the journal stores. The form is independent of the provider;
//! the `model` crate translates it from and to each provider's wire format. Provider-specific blocks are preserved,
//! so that they can be replayed unchanged.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Message {
    /// A message of the user.
    Human(HumanMessage),
    /// A message of the model: text, thinking and tool calls, in the order in which the model produced them.
    Ai(AiMessage),
    /// The result of one tool call.
    Tool(ToolMessage),
}

/// A message of the user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HumanMessage {
    /// The message id that the client chose, if it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The content blocks, in order.
    pub content: Vec<ContentBlock>,
}

/// A message of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AiMessage {
    /// The message id: [`crate::RunId::message_id`] for a message of a Segue run, otherwise the id from the imported
    /// session, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The content blocks, in order.
    pub content: Vec<ContentBlock>,
    /// `provider/name` of the model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the model call, as reported by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The estimated input tokens of the request. Comparing them with `usage` calibrates the estimate for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_tokens: Option<u64>,
    /// True if the call was cancelled or its connection broke. The content is then the part that had arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The reason why the model stopped, if the provider reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
}

/// The reason why a model stopped generating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The response is complete.
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The response reached the limit of output tokens or of the context window.
    MaxTokens,
    /// The model or a filter of the provider refused to continue.
    Refusal,
    /// Any other reason, such as a stop sequence. Unknown reasons of later versions parse as this variant.
    #[serde(other)]
    Other,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The message id, if the message has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id of the answered tool call; empty if an imported session recorded none.
    pub call_id: String,
    /// The name of the tool, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The content blocks, in order.
    pub content: Vec<ContentBlock>,
    /// The outcome of the call.
    #[serde(default)]
    pub status: ToolStatus,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// The tool succeeded.
    #[default]
    Success,
    /// The tool failed. The content describes the error.
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
    /// Reasoning of the model. It is replayed only to the provider that produced it, as the block in `raw`.
    Thinking {
        /// The readable text; empty if the provider hides it.
        text: String,
        /// The provider that produced it (`anthropic`, `openai`, …), if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// The block as received from the provider, including its signature. It is replayed unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// A request to run a tool.
    ToolCall {
        /// The provider's id of the call. [`ToolMessage::call_id`] refers to it.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments: a JSON object, unless the provider produced a malformed call.
        args: Value,
    },
    /// An image or file, by reference; its bytes are not part of the message.
    Media {
        /// The media type, such as `image/png`; empty if unknown.
        media_type: String,
        /// Lowercase hex SHA-256 of the bytes, if they were available.
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
        /// The block as received from the provider.
        raw: Value,
    },
}

/// Token usage of one or more model calls, as reported by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, including cached tokens.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens of the response, including reasoning.
    #[serde(default)]
    pub output_tokens: u64,
    /// The part of `input_tokens` that was read from the provider's prompt cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// The part of `input_tokens` that was written to the provider's prompt cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Returns the sum of input and output tokens.
    pub const fn total_tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }

    /// Adds the usage of another call.
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
    /// Returns a message without an id that has one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { id: None, content: vec![ContentBlock::text(text)] }
    }
}

impl Message {
    /// Returns a message of the user with one text block.
    pub fn human(text: impl Into<String>) -> Self {
        Self::Human(HumanMessage::text(text))
    }

    /// Returns a message of the model with one text block.
    pub fn ai(text: impl Into<String>) -> Self {
        Self::Ai(AiMessage { content: vec![ContentBlock::text(text)], ..AiMessage::default() })
    }

    /// Returns the content blocks, in order.
    pub fn content(&self) -> &[ContentBlock] {
        match self {
            Self::Human(m) => &m.content,
            Self::Ai(m) => &m.content,
            Self::Tool(m) => &m.content,
        }
    }

    /// Returns the text blocks joined by newlines, without thinking and tool calls.
    pub fn text(&self) -> String {
        joined_text(self.content())
    }

    /// Returns the tool calls as `(id, name, args)`, in order. Only messages of the model have any.
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

/// Returns the text blocks of `content` joined by newlines; other blocks are skipped.
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
