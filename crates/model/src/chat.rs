//! The request, the stream and the trait every provider implements. It knows no wire format.

pub(crate) mod answer;
mod arguments;
pub(crate) mod limits;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use protocol::{AiMessage, Message};
use serde_json::Value;

pub use self::tools::{ToolSpec, Tools};
use crate::name::ModelName;
use crate::{Error, Result};

/// What a model is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// Instructions, one block each, in order; the stable ones first so that caches hit.
    pub system: Vec<String>,
    /// How many of the last blocks of `system` may read differently in the next request of the conversation.
    pub system_volatile: usize,
    /// The conversation. The adapter sends a legal form of it, whatever is here.
    pub messages: Arc<Vec<Message>>,
    /// The bytes of media to be sent, by their lowercase hex SHA-256; media without bytes here are named in a line of
    /// text.
    pub media: BTreeMap<String, Arc<[u8]>>,
    /// The tools the model may call.
    pub tools: Tools,
    /// What requests of one conversation share, such as its thread's id, so that the provider sends them where their
    /// beginning is cached; `None` leaves it to the provider.
    pub cache_key: Option<String>,
    /// The most tokens the answer may have; `None` leaves it to the provider's default for the model.
    pub max_output_tokens: Option<u64>,
    /// A JSON schema the answer must follow, for providers that can enforce one.
    pub answer_schema: Option<Value>,
}

/// What a model takes and gives at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of request and answer together, if known.
    pub context_tokens: Option<u64>,
    /// Tokens of the answer, if known.
    pub output_tokens: Option<u64>,
}

/// One piece of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// More text.
    Text(String),
    /// More reasoning; another block of it begins on a new line.
    Thinking(String),
    /// A tool call began; its arguments follow with the whole answer.
    ToolCall {
        /// The provider's id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// The whole answer, last. The text parts joined equal its text, and the reasoning parts its reasoning.
    Done(AiMessage),
}

/// A streamed answer: parts, then [`Part::Done`], or an error after which nothing follows.
pub type PartStream = BoxStream<'static, Result<Part>>;

/// A model that answers.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns `provider/name`.
    fn name(&self) -> &ModelName;

    /// Returns what the model takes and gives at most.
    fn limits(&self) -> Limits;

    /// Sends one request and returns its answer as it arrives. Transient failures before the first part are
    /// retried within the limits of the provider's settings. Dropping the stream cancels the request.
    async fn stream(&self, request: &ChatRequest) -> Result<PartStream>;

    /// Sends one request and returns the whole answer.
    async fn answer(&self, request: &ChatRequest) -> Result<AiMessage> {
        use futures::StreamExt;
        let mut parts = self.stream(request).await?;
        while let Some(part) = parts.next().await {
            match part? {
                Part::Done(message) => return Ok(message),
                Part::Text(_) | Part::Thinking(_) | Part::ToolCall { .. } => {}
            }
        }
        Err(Error::Broken {
            model: self.name().clone(),
            reason: "the stream ended without an answer".to_owned(),
        })
    }
}
