//! The wire formats: for each provider, the URL and headers of a request, its body, and the decoder of its
//! events. Everything here is a pure function or an incremental decoder; sending is done in `connect`.

mod answer_builder;
mod anthropic;
mod chat;
mod encode;
mod fault;
mod gemini;
mod optional_fields;
mod responses;
mod schema;

use protocol::AiMessage;
use serde_json::Value;

use crate::chat::{AnswerPart, ChatRequest};
use crate::name::{ModelName, Provider};
use crate::settings::Effort;
use crate::transcript::Conversation;

pub(crate) use answer_builder::CallIds;
pub(crate) use fault::{AnswerFault, FailureReport, classify_failure, redact_message};
pub(crate) use optional_fields::{AnswerConstraint, AnswerFormat, KnownFields, OptionalFields, UsageRequest};

/// The parameters of a request body besides the request itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTarget<'a> {
    /// The name of the model at the provider.
    pub(crate) model: &'a str,
    /// The reasoning effort, if one is set.
    pub(crate) effort: Option<Effort>,
    /// The most tokens that the model can answer with, if known.
    pub(crate) output_tokens: Option<u64>,
    /// The kind of endpoint.
    pub(crate) endpoint: Endpoint,
    /// The form of the optional fields. Only the format of Chat Completions has several.
    pub(crate) fields: OptionalFields,
}

/// The kind of endpoint that receives a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The provider's own endpoint.
    Official,
    /// Another server with the same API.
    Compatible,
}

/// The progress of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerProgress {
    /// More events must follow.
    Incomplete,
    /// The answer may end here. Further events only add information such as the usage.
    MayEnd,
    /// The answer is complete. No further event is read.
    Complete,
}

/// A decoder for the events of one answer.
pub(crate) trait AnswerDecoder: Send {
    /// Takes the data of one event and returns the parts that it adds.
    ///
    /// # Errors
    /// Returns a fault when the event cannot be read or reports a failure.
    fn feed(&mut self, data: &str) -> Result<Vec<AnswerPart>, AnswerFault>;

    /// Returns the progress of the answer.
    fn progress(&self) -> AnswerProgress;

    /// Returns the answer with everything that has arrived.
    fn finish(self: Box<Self>) -> AiMessage;
}

/// Returns the decoder for one answer of the model.
pub(crate) fn new_decoder(model: &ModelName, ids: CallIds) -> Box<dyn AnswerDecoder> {
    let answer = answer_builder::AnswerBuilder::new(model, ids);
    match model.provider {
        Provider::Anthropic => Box::new(anthropic::AnthropicDecoder::new(answer)),
        Provider::OpenAi => Box::new(responses::ResponsesDecoder::new(answer)),
        Provider::OpenAiChat => Box::new(chat::ChatDecoder::new(answer)),
        Provider::Gemini => Box::new(gemini::GeminiDecoder::new(answer)),
    }
}

/// The most characters of a cache key that OpenAI accepts.
const CACHE_KEY_CHARS_MAX: usize = 64;

/// Returns the body of a request. `conversation` is the legal form of the request's messages.
///
/// # Errors
/// Fails when a value cannot be serialized as JSON. No value of a request can cause this.
pub(crate) fn request_body(
    provider: Provider,
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &RequestTarget<'_>,
) -> serde_json::Result<Vec<u8>> {
    match provider {
        Provider::Anthropic => anthropic::request_body(request, conversation, target),
        Provider::OpenAi => responses::request_body(request, conversation, target),
        Provider::OpenAiChat => chat::request_body(request, conversation, target),
        Provider::Gemini => gemini::request_body(request, conversation, target),
    }
}

/// Returns the path of the request's URL. `base_path` may or may not end with the API version.
pub(crate) fn request_path(provider: Provider, base_path: &str, model: &str) -> String {
    let base = base_path.trim_end_matches('/');
    match provider {
        Provider::Anthropic => format!("{}/messages", with_version(base, "/v1")),
        // Base URLs of OpenAI's API contain the version, unless they have no path at all.
        Provider::OpenAi | Provider::OpenAiChat => {
            let base = if base.is_empty() { "/v1" } else { base };
            let method = if provider == Provider::OpenAi { "responses" } else { "chat/completions" };
            format!("{base}/{method}")
        }
        Provider::Gemini => {
            let model = model.strip_prefix("models/").unwrap_or(model);
            format!("{}/models/{model}:streamGenerateContent", with_version(base, "/v1beta"))
        }
    }
}

/// Returns the path with the API version at the end.
fn with_version(base: &str, version: &str) -> String {
    let last_segment = base.rsplit('/').next().unwrap_or_default();
    let has_version =
        last_segment.strip_prefix('v').is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()));
    if has_version { base.to_owned() } else { format!("{base}{version}") }
}

/// Returns the query parameter of requests, if the provider needs one.
pub(crate) const fn request_query(provider: Provider) -> Option<(&'static str, &'static str)> {
    match provider {
        Provider::Anthropic | Provider::OpenAi | Provider::OpenAiChat => None,
        // Without this parameter the answer is one JSON array instead of an event stream.
        Provider::Gemini => Some(("alt", "sse")),
    }
}

/// Returns the headers of requests except the one with the key.
pub(crate) const fn provider_headers(provider: Provider) -> &'static [(&'static str, &'static str)] {
    match provider {
        Provider::Anthropic => &[("anthropic-version", "2023-06-01")],
        Provider::OpenAi | Provider::OpenAiChat | Provider::Gemini => &[],
    }
}

/// Returns the header that carries the key, and the text before the key in it. Keys are never put into the URL.
pub(crate) const fn key_header(provider: Provider) -> (&'static str, &'static str) {
    match provider {
        Provider::Anthropic => ("x-api-key", ""),
        Provider::OpenAi | Provider::OpenAiChat => ("authorization", "Bearer "),
        Provider::Gemini => ("x-goog-api-key", ""),
    }
}

/// Returns the text in a field, or an empty text if there is none.
fn text_field<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod bodies;
#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base_urls_work_with_and_without_the_version() {
        for (provider, base, expected) in [
            (Provider::Anthropic, "", "/v1/messages"),
            (Provider::Anthropic, "/", "/v1/messages"),
            (Provider::Anthropic, "/v1/", "/v1/messages"),
            (Provider::Anthropic, "/proxy/anthropic", "/proxy/anthropic/v1/messages"),
            (Provider::OpenAi, "", "/v1/responses"),
            (Provider::OpenAi, "/v1", "/v1/responses"),
            (Provider::OpenAiChat, "", "/v1/chat/completions"),
            (Provider::OpenAiChat, "/api/v4", "/api/v4/chat/completions"),
            (Provider::Gemini, "", "/v1beta/models/m:streamGenerateContent"),
            (Provider::Gemini, "/v1beta", "/v1beta/models/m:streamGenerateContent"),
            (Provider::Gemini, "/vendor", "/vendor/v1beta/models/m:streamGenerateContent"),
        ] {
            assert_eq!(request_path(provider, base, "m"), expected, "{provider:?} {base}");
        }
        assert_eq!(request_path(Provider::Gemini, "", "models/m"), "/v1beta/models/m:streamGenerateContent");
    }

    /// A lone surrogate can neither be stored nor sent.
    #[test]
    fn l9_half_a_surrogate_pair_in_an_answer_is_reported() {
        for (provider, event) in [
            (
                "anthropic",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \ud83d"}}"#,
            ),
            ("openai", r#"{"type":"response.output_text.delta","delta":"a \ude00"}"#),
            ("openai-chat", r#"{"choices":[{"index":0,"delta":{"content":"a \ud83d b"}}]}"#),
            ("gemini", r#"{"candidates":[{"content":{"parts":[{"text":"\ud83d\ud83d"}]}}]}"#),
        ] {
            let fault = fixture::decode_fault(provider, &[event]);
            let names_the_surrogate =
                matches!(&fault, AnswerFault::Unreadable(reason) if reason.contains("half a surrogate pair"));
            assert!(names_the_surrogate, "{provider}: {fault:?}");
        }
    }

    /// Returns a decoder of that provider's events.
    fn decoder(provider: &str) -> Box<dyn AnswerDecoder> {
        let model: ModelName = format!("{provider}/m").parse().expect("a provider's name");
        new_decoder(&model, CallIds::for_conversation(std::sync::Arc::default(), "x".into()))
    }

    /// Returns the number of events that are decoded before the first fault, and the fault. `event` returns the event of
    /// that number.
    fn feed_until_fault(provider: &str, event: impl Fn(usize) -> String) -> (usize, AnswerFault) {
        let mut decoder = decoder(provider);
        let faults = (0..).map(|number| decoder.feed(&event(number)).err());
        let fault = faults.enumerate().find_map(|(number, fault)| Some((number, fault?)));
        fault.expect("the events have no end")
    }

    #[test]
    fn an_answer_with_too_many_blocks_is_refused() {
        let anthropic = |number: usize| {
            let block = json!({"type": "tool_use", "id": number.to_string(), "name": "x"});
            json!({"type": "content_block_start", "index": number, "content_block": block})
        };
        let responses = |number: usize| {
            let item = json!({"type": "function_call", "call_id": number.to_string(), "name": "x"});
            json!({"type": "response.output_item.added", "output_index": number, "item": item})
        };
        let chat = |number: usize| {
            let call = json!({"index": number, "id": number.to_string(), "function": {"name": "x"}});
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        };
        let gemini = |number: usize| {
            let text = json!({"text": "a", "thought": number.is_multiple_of(2)});
            json!({"candidates": [{"content": {"parts": [text]}}]})
        };
        let events: [(&str, &dyn Fn(usize) -> Value); 4] =
            [("anthropic", &anthropic), ("openai", &responses), ("openai-chat", &chat), ("gemini", &gemini)];
        for (provider, event) in events {
            let (count, fault) = feed_until_fault(provider, |number| event(number).to_string());
            assert_eq!((count, fault), (answer_builder::BLOCKS_MAX, AnswerFault::TooLarge), "{provider}");
        }
    }

    #[test]
    fn an_event_with_too_many_blocks_is_refused() {
        let calls = vec![json!({"function": {"name": "x"}}); answer_builder::BLOCKS_MAX + 1];
        let parts = vec![json!({"text": "a"}); answer_builder::BLOCKS_MAX + 1];
        for (provider, event) in [
            ("openai-chat", json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})),
            ("gemini", json!({"candidates": [{"content": {"parts": parts}}]})),
        ] {
            assert_eq!(decoder(provider).feed(&event.to_string()), Err(AnswerFault::TooLarge), "{provider}");
        }
    }

    #[test]
    fn an_answer_with_too_many_values_is_refused() {
        let text = "[".repeat(1 << 10);
        let start = json!({"type": "tool_use", "id": "a", "name": "x"});
        let item = json!({"type": "function_call", "call_id": "a", "name": "x"});
        let call = |id: &str, name: &str| {
            let call = json!({"index": 0, "id": id, "function": {"name": name, "arguments": text}});
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        };
        let delta = json!({"type": "input_json_delta", "partial_json": text});
        let opaque = json!({"executableCode": vec![0; (1 << 10) - 2]});
        for (provider, first, next) in [
            (
                "anthropic",
                json!({"type": "content_block_start", "index": 0, "content_block": start}),
                json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            ),
            (
                "openai",
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text}),
            ),
            ("openai-chat", json!({"choices": []}), call("a", "x")),
            ("gemini", json!({}), json!({"candidates": [{"content": {"parts": [opaque]}}]})),
        ] {
            let next = |number: usize| match number {
                0 => first.to_string(),
                _ => next.to_string(),
            };
            let (count, fault) = feed_until_fault(provider, next);
            let expected = 1 + answer_builder::VALUES_MAX / (1 << 10);
            assert_eq!((count, fault), (expected, AnswerFault::TooLarge), "{provider}");
        }
    }

    #[test]
    fn k4_no_provider_puts_the_key_into_the_url() {
        for provider in Provider::ALL {
            assert!(request_query(provider).is_none_or(|(field, _)| field != "key"));
            assert!(!key_header(provider).0.is_empty());
        }
    }
}
