//! Between our words and the wire: for each provider, where a request goes, what it looks like, and how its events are
//! read. Everything here is a pure function or an incremental decoder; sending is done elsewhere.

mod answer;
mod anthropic;
mod chat;
mod encode;
mod fault;
mod gemini;
mod responses;
mod schema;

use protocol::AiMessage;
use serde_json::Value;

use crate::chat::{ChatRequest, Part};
use crate::name::{ModelName, Provider};
use crate::settings::Effort;
use crate::transcript::Conversation;

pub(crate) use answer::CallIds;
pub(crate) use fault::{Fault, Report, classify, describe};

/// What a request is shaped for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The provider's own name of the model.
    pub(crate) model: &'a str,
    /// How much it shall reason.
    pub(crate) effort: Option<Effort>,
    /// The longest answer it can give, if known.
    pub(crate) output_tokens: Option<u64>,
    /// Who listens at the other end.
    pub(crate) endpoint: Endpoint,
}

/// Who listens at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The provider itself.
    Official,
    /// Something that speaks like it.
    Compatible,
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More must follow.
    Open,
    /// It may end here; what follows are notes such as the usage.
    MayEnd,
    /// It is over; nothing more is read.
    Over,
}

/// Reads the events of one answer as they arrive.
pub(crate) trait Decoder: Send {
    /// Takes the data of one event and returns what it adds.
    fn feed(&mut self, data: &str) -> Result<Vec<Part>, Fault>;

    /// Returns how far the answer has come.
    fn progress(&self) -> Progress;

    /// Returns the whole answer as far as it has come.
    fn finish(self: Box<Self>) -> AiMessage;
}

/// Returns the decoder for one answer.
pub(crate) fn decoder(model: &ModelName, ids: CallIds) -> Box<dyn Decoder> {
    let answer = answer::Answer::new(model, ids);
    match model.provider {
        Provider::Anthropic => Box::new(anthropic::Events::new(answer)),
        Provider::OpenAi => Box::new(responses::Events::new(answer)),
        Provider::OpenAiChat => Box::new(chat::Events::new(answer)),
        Provider::Gemini => Box::new(gemini::Events::new(answer)),
    }
}

/// Characters of a cache's key at most that OpenAI takes.
const CACHE_KEY_CHARS_MAX: usize = 64;

/// Returns the request's body; `conversation` is the legal form of the request's own.
///
/// # Errors
/// When a value cannot be written as JSON, which no value of a request is.
pub(crate) fn body(
    provider: Provider,
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
) -> serde_json::Result<Vec<u8>> {
    match provider {
        Provider::Anthropic => anthropic::body(request, conversation, target),
        Provider::OpenAi => responses::body(request, conversation, target),
        Provider::OpenAiChat => chat::body(request, conversation, target),
        Provider::Gemini => gemini::body(request, conversation, target),
    }
}

/// Returns the path that requests go to, below `base_path`, which may end in the version or not.
pub(crate) fn path(provider: Provider, base_path: &str, model: &str) -> String {
    let base = base_path.trim_end_matches('/');
    match provider {
        Provider::Anthropic => format!("{}/messages", versioned(base, "/v1")),
        // A base URL of OpenAI's kind names its version itself, unless it has no path at all.
        Provider::OpenAi | Provider::OpenAiChat => {
            let base = if base.is_empty() { "/v1" } else { base };
            let method = if provider == Provider::OpenAi { "responses" } else { "chat/completions" };
            format!("{base}/{method}")
        }
        Provider::Gemini => {
            let model = model.strip_prefix("models/").unwrap_or(model);
            format!("{}/models/{model}:streamGenerateContent", versioned(base, "/v1beta"))
        }
    }
}

fn versioned(base: &str, version: &str) -> String {
    let last = base.rsplit('/').next().unwrap_or_default();
    let has_version =
        last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if has_version { base.to_owned() } else { format!("{base}{version}") }
}

/// Returns the query that requests carry.
pub(crate) const fn query(provider: Provider) -> Option<(&'static str, &'static str)> {
    match provider {
        Provider::Anthropic | Provider::OpenAi | Provider::OpenAiChat => None,
        // Without it the answer is one JSON array instead of events.
        Provider::Gemini => Some(("alt", "sse")),
    }
}

/// Returns the headers that requests carry beside the key's.
pub(crate) const fn headers(provider: Provider) -> &'static [(&'static str, &'static str)] {
    match provider {
        Provider::Anthropic => &[("anthropic-version", "2023-06-01")],
        Provider::OpenAi | Provider::OpenAiChat | Provider::Gemini => &[],
    }
}

/// Returns the header that carries the key, and what precedes the key in it. Never the URL.
pub(crate) const fn key_header(provider: Provider) -> (&'static str, &'static str) {
    match provider {
        Provider::Anthropic => ("x-api-key", ""),
        Provider::OpenAi | Provider::OpenAiChat => ("authorization", "Bearer "),
        Provider::Gemini => ("x-goog-api-key", ""),
    }
}

/// Returns the text in a field of an event; empty if there is none.
fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod bodies;
#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests {
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
            assert_eq!(path(provider, base, "m"), expected, "{provider:?} {base}");
        }
        assert_eq!(path(Provider::Gemini, "", "models/m"), "/v1beta/models/m:streamGenerateContent");
    }

    /// A half can neither be stored nor sent on.
    #[test]
    fn l9_half_a_surrogate_pair_in_an_answer_is_an_error_that_says_so() {
        for (provider, event) in [
            (
                "anthropic",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \ud83d"}}"#,
            ),
            ("openai", r#"{"type":"response.output_text.delta","delta":"a \ude00"}"#),
            ("openai-chat", r#"{"choices":[{"index":0,"delta":{"content":"a \ud83d b"}}]}"#),
            ("gemini", r#"{"candidates":[{"content":{"parts":[{"text":"\ud83d\ud83d"}]}}]}"#),
        ] {
            let found = fixture::fault(provider, &[event]);
            let says =
                matches!(&found, Fault::Unreadable(reason) if reason.contains("half a surrogate pair"));
            assert!(says, "{provider}: {found:?}");
        }
    }

    #[test]
    fn k4_no_provider_puts_the_key_into_the_url() {
        for provider in Provider::ALL {
            assert!(query(provider).is_none_or(|(field, _)| field != "key"));
            assert!(!key_header(provider).0.is_empty());
        }
    }
}
