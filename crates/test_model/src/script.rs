//! The scripted replies of a server. A script can be read from JSON. `format` converts replies into a wire format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::WireFormat;

/// The replies of a server.
///
/// Each request gets the first reply that is not used up and whose matcher, if any, accepts the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The replies, in order.
    pub replies: Vec<ScriptedReply>,
    /// Number of the newest requests that are recorded; all if absent. Benchmarks limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_kept: Option<usize>,
    /// The embedding model of the server; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<ScriptedEmbeddings>,
}

/// An embedding model: texts with words of the same concept have similar vectors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedEmbeddings {
    /// The words of each concept, in lowercase. A vector has one dimension for each concept, and a small last one that is the same
    /// for all texts.
    pub concepts: Vec<Vec<String>>,
    /// Maximum words of a text. A request with a longer one is refused with status 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words_max: Option<usize>,
    /// A failure in place of every answer after the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScriptedFault>,
    /// Number of requests that are answered before the failure.
    #[serde(default)]
    pub answers_before_fault: usize,
}

impl ScriptedEmbeddings {
    /// Returns the vector of a text.
    pub(crate) fn vector(&self, text: &str) -> Vec<f32> {
        let text = text.to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let count = |concept: &Vec<String>| {
            words.iter().filter(|word| concept.iter().any(|known| known == *word)).count() as f32
        };
        self.concepts.iter().map(count).chain([0.2]).collect()
    }
}

/// One reply: an answer of the model, or a failure of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedReply {
    /// The requests that the reply answers; any request if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<RequestMatcher>,
    /// True to use the reply for every request that it accepts, not only once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Reasoning, one piece per event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
    /// Text, one piece per event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// Parallel tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// Token usage; 10 input and 5 output tokens if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ScriptedTokens>,
    /// The stop reason. If absent, it is tool calls if there are any, else the end of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<ScriptedStop>,
    /// Size in bytes of the pieces in which the body is sent. A piece may end inside a character or an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece_bytes: Option<usize>,
    /// The gate at which the reply waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// The failure of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScriptedFault>,
}

/// A gate at which a reply waits until the test opens it. A test controls the order of events with it, without a clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The name of the gate. Once opened, it stays open for every reply.
    pub name: String,
    /// The point at which the reply waits.
    #[serde(default)]
    pub at: GatePosition,
}

/// The point at which a reply waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePosition {
    /// Before anything is sent, including the status.
    #[default]
    Start,
    /// After the content, before the final events of the answer.
    End,
}

/// A filter of requests. A request must satisfy all fields that are present.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestMatcher {
    /// A text that the path must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A text that the body must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// A text that the user's last messages must contain. Earlier messages and reference data do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The number of the turn, from 1. Adjacent user messages count as one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// The number of the model call within its turn, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The call id. It may be empty, because some servers send no id.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// Token usage of one model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedTokens {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// The part of `input` that was read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// The part of `input` that was written to a cache. Only Anthropic's format reports it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

const fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// The reason for which the model stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedStop {
    /// The answer is complete.
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The answer reached the limit on output tokens.
    MaxTokens,
    /// The model declined, or a content filter stopped it.
    Refusal,
}

/// A failure of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedFault {
    /// A response with this status instead of a stream.
    Status {
        /// The status.
        status: u16,
        /// Headers, such as `retry-after`.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// The body, sent unchanged.
        #[serde(default)]
        body: String,
    },
    /// No response at all, not even a status, until the client disconnects.
    Hang,
    /// The content, then nothing until the client disconnects.
    Stall,
    /// The content, then the connection breaks without the final chunk that HTTP requires.
    Half,
    /// The content, then a regular end of the body without the final events of the answer.
    Cut,
    /// The content, then an event whose data is not valid JSON.
    BrokenJson,
    /// A stream without events.
    Empty,
    /// The content, then an event that reports the provider as overloaded.
    Overloaded,
    /// The whole answer, with each of its final events sent twice. Some proxies repeat the events with the stop reason and
    /// the usage.
    RepeatedEnd,
}

impl Script {
    /// Returns a script of these replies.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self { replies: replies.into_iter().collect(), requests_kept: None, embeddings: None }
    }

    /// Limits the recorded requests to the newest `requests`.
    #[must_use]
    pub fn with_requests_kept(mut self, requests: usize) -> Self {
        self.requests_kept = Some(requests);
        self
    }
}

impl ScriptedReply {
    /// Returns a reply with `text` in one piece.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_pieces([text.into()])
    }

    /// Returns a reply with a text in these pieces.
    pub fn from_pieces(pieces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { text: pieces.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns a reply that calls one tool.
    pub fn call(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        Self::default().with_call(id, name, args)
    }

    /// Returns a reply that fails.
    pub fn fault(fault: ScriptedFault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// Returns a reply with this status and `retry-after: 0`, so that a client retries without a wait.
    pub fn status(status: u16, body: impl Into<String>) -> Self {
        let headers = BTreeMap::from([("retry-after".to_owned(), "0".to_owned())]);
        Self::fault(ScriptedFault::Status { status, headers, body: body.into() })
    }

    /// Adds a tool call.
    #[must_use]
    pub fn with_call(mut self, id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        self.calls.push(ScriptedCall { id: id.into(), name: name.into(), args });
        self
    }

    /// Sets the reasoning before the text.
    #[must_use]
    pub fn with_thinking(mut self, pieces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.thinking = pieces.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tokens.
    #[must_use]
    pub fn with_tokens(mut self, input: u64, output: u64) -> Self {
        self.tokens = Some(ScriptedTokens { input, output, ..ScriptedTokens::default() });
        self
    }

    /// Sets the tokens of the request that were read from a cache and written to one.
    #[must_use]
    pub fn with_cached_tokens(mut self, read: u64, written: u64) -> Self {
        self.tokens =
            Some(ScriptedTokens { cache_read: read, cache_write: written, ..self.tokens_or_default() });
        self
    }

    /// Makes the reply wait at the gate `name` until it is opened.
    #[must_use]
    pub fn with_gate(mut self, name: impl Into<String>, at: GatePosition) -> Self {
        self.gate = Some(Gate { name: name.into(), at });
        self
    }

    /// Limits the reply to the model call number `step` in turn number `turn`, both from 1.
    #[must_use]
    pub fn when_turn_is(mut self, turn: usize, step: usize) -> Self {
        let when = self.when.get_or_insert_default();
        (when.turn, when.step) = (Some(turn), Some(step));
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn with_stop(mut self, stop: ScriptedStop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets the size of the pieces in which the bytes are sent.
    #[must_use]
    pub fn with_piece_bytes(mut self, bytes: usize) -> Self {
        self.piece_bytes = Some(bytes);
        self
    }

    /// Makes the reply fail, for most faults after its content.
    #[must_use]
    pub fn with_fault(mut self, fault: ScriptedFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Limits the reply to requests with this text in their body.
    #[must_use]
    pub fn when_body_contains(mut self, text: impl Into<String>) -> Self {
        self.when.get_or_insert_default().contains = Some(text.into());
        self
    }

    /// Limits the reply to requests with this text in their path.
    #[must_use]
    pub fn when_path_contains(mut self, text: impl Into<String>) -> Self {
        self.when.get_or_insert_default().path = Some(text.into());
        self
    }

    /// Makes the reply answer every request that it accepts instead of only one.
    #[must_use]
    pub fn with_repeat(mut self) -> Self {
        self.always = true;
        self
    }

    pub(crate) fn tokens_or_default(&self) -> ScriptedTokens {
        self.tokens.unwrap_or(ScriptedTokens { input: 10, output: 5, ..ScriptedTokens::default() })
    }

    pub(crate) fn stop_or_default(&self) -> ScriptedStop {
        self.stop.unwrap_or(if self.calls.is_empty() {
            ScriptedStop::EndTurn
        } else {
            ScriptedStop::ToolCalls
        })
    }
}

impl RequestMatcher {
    /// Returns whether the filter accepts a request. `body` parses the body and is called only if a field needs it.
    pub(crate) fn accepts<'b>(&self, path: &str, format: WireFormat, body: impl Fn() -> &'b Value) -> bool {
        let position = || format.request_position(body());
        self.path.as_deref().is_none_or(|part| path.contains(part))
            && self.contains.as_deref().is_none_or(|part| contains_text(body(), part))
            && self.said.as_deref().is_none_or(|part| {
                format.last_human_messages(body()).iter().any(|message| contains_text(message, part))
            })
            && self.turn.is_none_or(|turn| position().turn == turn)
            && self.step.is_none_or(|step| position().step == step)
    }
}

/// Returns whether any string in the value contains `part`.
fn contains_text(value: &Value, part: &str) -> bool {
    match value {
        Value::String(text) => text.contains(part),
        Value::Array(items) => items.iter().any(|item| contains_text(item, part)),
        Value::Object(fields) => fields.values().any(|item| contains_text(item, part)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_survives_serialization() {
        let script = Script::new([
            ScriptedReply::from_pieces(["a", "b"])
                .with_thinking(["hm"])
                .with_tokens(1, 2)
                .with_stop(ScriptedStop::MaxTokens)
                .with_piece_bytes(1),
            ScriptedReply::call("c1", "read", json!({"path": "x"}))
                .when_body_contains("x")
                .when_path_contains("/v1"),
            ScriptedReply::status(429, "slow"),
            ScriptedReply::text("a").with_fault(ScriptedFault::Half).with_repeat().with_cached_tokens(3, 4),
            ScriptedReply::text("a").with_gate("g", GatePosition::End).when_turn_is(2, 1),
        ]);
        let text = serde_json::to_string(&script).expect("it is written");
        assert_eq!(serde_json::from_str::<Script>(&text).expect("it is read"), script);
    }

    #[test]
    fn most_fields_are_optional_and_unknown_fields_are_refused() {
        let read = |text: &str| serde_json::from_str::<Script>(text);
        assert_eq!(
            read(r#"{"replies":[{"text":["hi"]}]}"#).expect("it is read"),
            Script::new([ScriptedReply::text("hi")])
        );
        let hang = read(r#"{"replies":[{"fault":"hang"}]}"#).expect("it is read");
        assert_eq!(hang, Script::new([ScriptedReply::fault(ScriptedFault::Hang)]));
        assert!(read(r#"{"replies":[{"txet":["hi"]}]}"#).is_err());
    }
}
