//! The types of a model call: the request, the streamed answer, and the trait that every provider implements.
//! Wire formats are in `wire`.

pub(crate) mod answer_check;
mod argument_schema;
pub(crate) mod known_limits;
mod tool_specs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use protocol::{AiMessage, Message};
use serde_json::Value;

pub use self::tool_specs::{ToolSpec, ToolSpecs};
use crate::name::ModelName;
use crate::{Error, Result};

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// Instructions, one block each, in order. Stable blocks come first, so that provider caches hit.
    pub system: Vec<String>,
    /// The number of blocks at the end of `system` whose text may change in the next request of the conversation.
    pub system_volatile: usize,
    /// The conversation. It may break a provider's rules: the adapter sends a legal form of it.
    pub messages: Arc<Vec<Message>>,
    /// The bytes of the media to send, by their lowercase hex SHA-256. Media of the conversation without bytes
    /// here are replaced by a line of text.
    pub media: BTreeMap<String, Arc<[u8]>>,
    /// The tools the model may call.
    pub tools: ToolSpecs,
    /// A key that all requests of one conversation share, for example the thread's id. The provider uses it to
    /// route requests to the machine that has their beginning in its cache. `None` leaves the routing to the
    /// provider.
    pub cache_key: Option<String>,
    /// The most tokens of the answer; `None` leaves the limit to the provider's default for the model.
    pub max_output_tokens: Option<u64>,
    /// A JSON schema that the answer must follow. Only some providers can enforce one.
    pub answer_schema: Option<Value>,
}

/// The size limits of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// The context window: the most tokens of request and answer together, if known.
    pub context_tokens: Option<u64>,
    /// The most tokens of an answer, if known.
    pub output_tokens: Option<u64>,
}

/// One part of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerPart {
    /// More text to append to the answer.
    Text(String),
    /// More reasoning to append. A further block of reasoning begins on a new line.
    Thinking(String),
    /// A tool call has started. Its arguments follow with the complete answer.
    ToolCall {
        /// The provider's id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// The attempt failed, and the request is sent again after a wait. The parts before this one belong to the
    /// failed attempt: the answer begins anew after it, and calls of the failed attempt must not be made.
    Retry(RetryNotice),
    /// The complete answer; always the last part. Its text equals the concatenated text parts since the last retry,
    /// and its reasoning the concatenated reasoning parts.
    Done(AiMessage),
}

/// The announcement of another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNotice {
    /// The error of the failed attempt, one line.
    pub reason: String,
    /// The time until the next attempt.
    pub wait: Duration,
}

/// A streamed answer: parts that end with [`AnswerPart::Done`], or with an error. Nothing follows either of them.
pub type AnswerStream = BoxStream<'static, Result<AnswerPart>>;

/// A model that answers requests.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns the model's `provider/name`.
    fn name(&self) -> &ModelName;

    /// Returns the size limits of the model.
    fn limits(&self) -> ModelLimits;

    /// Sends one request and returns the stream of its answer. Transient failures are
    /// retried within the limits of the provider's settings, also in the middle of an answer without a schema; each retry is
    /// announced by [`AnswerPart::Retry`]. Dropping the stream cancels the request.
    ///
    /// # Errors
    /// Returns the [`Error`] of a first attempt that is not retried. Later errors are items of the stream.
    async fn stream(&self, request: &ChatRequest) -> Result<AnswerStream>;

    /// Sends one request and returns the complete answer.
    ///
    /// # Errors
    /// As [`Self::stream`]; also when the stream fails or ends without an answer.
    async fn answer(&self, request: &ChatRequest) -> Result<AiMessage> {
        use futures::StreamExt;
        let mut parts = self.stream(request).await?;
        while let Some(part) = parts.next().await {
            match part? {
                AnswerPart::Done(message) => return Ok(message),
                AnswerPart::Text(_)
                | AnswerPart::Thinking(_)
                | AnswerPart::ToolCall { .. }
                | AnswerPart::Retry(_) => {}
            }
        }
        Err(Error::MalformedAnswer {
            model: self.name().clone(),
            reason: "the stream ended without an answer".to_owned(),
        })
    }
}
