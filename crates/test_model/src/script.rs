//! The scripted answers of a server, in order; readable from JSON. Their wire format is not decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::WireFormat;

/// The answers of a server.
///
/// Each request gets the first reply that is not used up and whose matcher, if it has one, accepts the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The replies, in order.
    pub replies: Vec<ScriptedReply>,
    /// How many of the newest requests are kept to be looked at; all if absent. A bench keeps few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_kept: Option<usize>,
}

/// One answer: what the model says, or how the server fails.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedReply {
    /// Which requests it answers; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<RequestMatcher>,
    /// True to use the answer for every request that it accepts, not only once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Reasoning, one piece per event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
    /// Text, one piece per event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// Tool calls of one batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// Tokens; 10 and 5 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ScriptedTokens>,
    /// Why the model stops; its calls if it makes some, else the end of its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<ScriptedStop>,
    /// The size of the pieces in which the bytes are sent; a piece may end in the middle of a character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece_bytes: Option<usize>,
    /// A gate that it waits at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// How it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScriptedFault>,
}

/// A place where a reply waits until it is let through, so that a test decides the order of things without a clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The gate's name; once open it stays so, for every reply.
    pub name: String,
    /// Where the reply waits.
    #[serde(default)]
    pub at: GatePosition,
}

/// Where a reply waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePosition {
    /// Before anything is sent, the status included.
    #[default]
    Start,
    /// When everything but the answer's own end is sent.
    End,
}

/// Which requests a reply answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestMatcher {
    /// A text that the path must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A text that the body must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// A text that the last message of a person must contain. Earlier messages and reference data do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Which turn it must be: how often a person has spoken, what they say in one go counting once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// Which call of the model in its turn it must be, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The id; may be empty, as some servers have it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// Tokens of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedTokens {
    /// Of the request.
    pub input: u64,
    /// Of the answer.
    pub output: u64,
    /// Part of `input` that was read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Part of `input` that was written to a cache; only Anthropic's format tells it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

const fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// Why the model stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedStop {
    /// It has said everything.
    EndTurn,
    /// It waits for results.
    ToolCalls,
    /// It reached its limit.
    MaxTokens,
    /// It declines.
    Refusal,
}

/// How an answer fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedFault {
    /// An answer with this status instead of a stream.
    Status {
        /// The status.
        status: u16,
        /// Headers, such as `retry-after`.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// The body, sent as it is.
        #[serde(default)]
        body: String,
    },
    /// Nothing, not even a status, until the client gives up.
    Hang,
    /// The text, then nothing until the client gives up.
    Stall,
    /// The text, then the connection is closed without the end that the protocol demands.
    Half,
    /// The text, then a clean end of the body without the answer's own end.
    Cut,
    /// An event whose data is no JSON.
    BrokenJson,
    /// A stream without a single event.
    Empty,
    /// The text, then an event that reports the provider as overloaded.
    Overloaded,
}

impl Script {
    /// Returns a script of these replies.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self { replies: replies.into_iter().collect(), requests_kept: None }
    }

    /// Sets how many of the newest requests are kept.
    #[must_use]
    pub fn with_requests_kept(mut self, requests: usize) -> Self {
        self.requests_kept = Some(requests);
        self
    }
}

impl ScriptedReply {
    /// Returns a reply that says `text` in one piece.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_pieces([text.into()])
    }

    /// Returns a reply that says its text in these pieces.
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

    /// Returns a reply of this status that asks to be tried again at once, so that no test waits.
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

    /// Sets how many tokens of the request were read from a cache and written to one.
    #[must_use]
    pub fn with_cached_tokens(mut self, read: u64, written: u64) -> Self {
        self.tokens =
            Some(ScriptedTokens { cache_read: read, cache_write: written, ..self.tokens_or_default() });
        self
    }

    /// Makes it wait at the gate of that name until the server opens it.
    #[must_use]
    pub fn with_gate(mut self, name: impl Into<String>, at: GatePosition) -> Self {
        self.gate = Some(Gate { name: name.into(), at });
        self
    }

    /// Makes it answer only the model's call of that number, in the turn of that number, both from 1.
    #[must_use]
    pub fn when_turn_is(mut self, turn: usize, step: usize) -> Self {
        let when = self.when.get_or_insert_default();
        (when.turn, when.step) = (Some(turn), Some(step));
        self
    }

    /// Sets why the model stops.
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

    /// Makes the reply fail after its text.
    #[must_use]
    pub fn with_fault(mut self, fault: ScriptedFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Makes it answer only requests with this text in their body.
    #[must_use]
    pub fn when_body_contains(mut self, text: impl Into<String>) -> Self {
        self.when.get_or_insert_default().contains = Some(text.into());
        self
    }

    /// Makes it answer only requests with this text in their path.
    #[must_use]
    pub fn when_path_contains(mut self, text: impl Into<String>) -> Self {
        self.when.get_or_insert_default().path = Some(text.into());
        self
    }

    /// Makes it answer every request it accepts instead of one.
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
    /// Returns whether a request is accepted; its body is read only by a matcher that asks about it.
    pub(crate) fn accepts<'b>(&self, path: &str, format: WireFormat, body: impl Fn() -> &'b Value) -> bool {
        let when = || format.request_position(body());
        self.path.as_deref().is_none_or(|part| path.contains(part))
            && self.contains.as_deref().is_none_or(|part| contains_text(body(), part))
            && self.said.as_deref().is_none_or(|part| {
                format.last_human_messages(body()).iter().any(|said| contains_text(said, part))
            })
            && self.turn.is_none_or(|turn| when().turn == turn)
            && self.step.is_none_or(|step| when().step == step)
    }
}

/// Returns whether some text of the value contains `part`.
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
    fn a_script_reads_as_it_is_written() {
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
    fn a_short_script_is_enough_and_a_misspelt_one_is_refused() {
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
