//! Classification of a provider's failures into this crate's errors, by statuses, codes and texts. Connections
//! are handled elsewhere.

mod overflow;

use std::time::Duration;

use serde_json::Value;

use crate::error::Error;
use crate::name::ModelName;

/// The most characters that are kept of a provider's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// A fault of an answer that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerFault {
    /// The provider reports a failure.
    Reported(FailureReport),
    /// The data cannot be read. The text says why.
    Unreadable(String),
    /// The answer has more blocks or values than an answer can have.
    TooLarge,
}

impl AnswerFault {
    /// Returns the fault for an event that does not follow its format.
    pub(crate) fn unreadable(error: &serde_json::Error, event: &str) -> Self {
        // The parser's message about the escape would not explain the cause.
        Self::Unreadable(match protocol::lone_surrogate(event) {
            Some(_) => format!("the text contains half a surrogate pair: {error}"),
            None => error.to_string(),
        })
    }
}

/// A failure as the provider reports it, by an HTTP status or inside a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailureReport {
    /// The HTTP status, or the status that the reported kind stands for.
    pub(crate) status: u16,
    /// The provider's code or type of the failure; may be empty.
    pub(crate) kind: String,
    /// The provider's message.
    pub(crate) message: String,
    /// The provider's id of the request.
    pub(crate) request_id: Option<String>,
    /// The time that the provider asks to wait, if it does.
    pub(crate) retry_after: Option<Duration>,
}

impl FailureReport {
    /// Parses the error object of a response. All providers send one, in several dialects: `{"error": {"message",
    /// "type", "code", "status"}}`, the same without the outer field, or `{"error": "text"}`.
    pub(crate) fn from_body(status: u16, body: &Value) -> Option<Self> {
        let error = match body {
            Value::Array(items) => items.first()?.get("error")?,
            Value::Object(fields) => fields.get("error").filter(|error| !error.is_null()).unwrap_or(body),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        let text = |field: &str| error.get(field).and_then(Value::as_str);
        let message = error.as_str().or_else(|| text("message")).or_else(|| text("detail"))?;
        let kinds: Vec<&str> = ["code", "type", "status"].into_iter().filter_map(text).collect();
        let mut report =
            Self { status, kind: kinds.join(" "), message: message.to_owned(), ..Self::default() };
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            report.add_upstream(raw);
        }
        Some(report)
    }

    /// Adds the failure of the provider behind a gateway: an error object, or any text.
    fn add_upstream(&mut self, raw: &str) {
        let upstream = serde_json::from_str(raw).ok().and_then(|body| Self::from_body(self.status, &body));
        let (kind, message) = match upstream {
            Some(upstream) => (upstream.kind, upstream.message),
            None => (String::new(), raw.to_owned()),
        };
        self.kind = format!("{} {kind}", self.kind).trim().to_owned();
        self.message = format!("{}: {message}", self.message);
    }

    /// Returns the failure that an event inside a stream reports, with the status that it would have had as a
    /// response.
    pub(crate) fn from_event(event: &Value) -> Self {
        let mut report = Self::from_body(0, event).unwrap_or_else(|| Self {
            message: "the provider reported an error without a message".to_owned(),
            ..Self::default()
        });
        let error = event.get("error").unwrap_or(event);
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        report.status =
            code.filter(|code| (400..600).contains(code)).unwrap_or_else(|| report.status_of_kind());
        report
    }

    /// Returns the status that the reported kind stands for. Used for failures in a response with status 200.
    pub(crate) fn status_of_kind(&self) -> u16 {
        status_for_kind(&self.kind)
    }
}

/// Returns the status that a reported kind stands for, or 500 for an unknown one.
fn status_for_kind(kind: &str) -> u16 {
    let table: [(&[&str], u16); 6] = [
        (&["overloaded", "unavailable"], 529),
        (&["rate_limit", "resource_exhausted", "insufficient_quota"], 429),
        (&["authentication", "unauthenticated", "invalid_api_key"], 401),
        (&["permission"], 403),
        (&["request_too_large"], 413),
        (&["invalid", "not_found", "billing", "unsupported"], 400),
    ];
    if overflow::is_overflow_code(kind) {
        return 413;
    }
    let kind = kind.to_ascii_lowercase();
    table
        .iter()
        .find(|(words, _)| words.iter().any(|word| kind.contains(word)))
        .map_or(500, |(_, status)| *status)
}

/// Returns the error for the caller, and whether a retry may succeed without any change. `redact` prepares the
/// provider's message for display; the classification uses the full message.
pub(crate) fn classify_failure(
    model: &ModelName,
    report: FailureReport,
    redact: impl FnOnce(&str) -> String,
) -> (Error, bool) {
    let model = model.clone();
    let FailureReport { status, kind, message: raw_message, request_id, retry_after } = report;
    let message = redact(&raw_message);
    match status {
        401 | 403 => (Error::Unauthorized { model, status, message }, false),
        // An account without credit reports the same status as too many requests, but waiting does not help.
        429 if kind.contains("insufficient_quota") => {
            (Error::Refused { model, status, message, request_id }, false)
        }
        429 | 503 | 529 => (Error::RateLimited { model, status, retry_after }, true),
        // Some providers also count a single request against the limit per minute. Waiting does not make the
        // request smaller.
        413 => (Error::ContextOverflow { model, message }, false),
        // An account that lacks credit has no problem with the window.
        402 => (Error::Refused { model, status, message, request_id }, false),
        400..=499 if overflow::is_rate_code(&kind) => {
            (Error::RateLimited { model, status, retry_after }, true)
        }
        // One server reports a full window with a status of 5xx.
        400..=599 if overflow::is_overflow_code(&kind) => (Error::ContextOverflow { model, message }, false),
        400..=499 if overflow::is_overflow_message(&raw_message) => {
            (Error::ContextOverflow { model, message }, false)
        }
        500..=599 => (Error::Failed { model, status, message, request_id }, true),
        _ => (Error::Refused { model, status, message, request_id }, false),
    }
}

/// Returns a provider's message as one short line without secrets.
pub(crate) fn redact_message<'a>(message: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for word in message.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MESSAGE_CHARS_MAX * 8 {
            break;
        }
    }
    for secret in secrets.filter(|secret| !secret.is_empty()) {
        line = line.replace(secret, "[secret]");
    }
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(MESSAGE_CHARS_MAX - 1).collect();
            format!("{kept}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(status: u16, body: Value, expected: &str) {
        let model: ModelName = "anthropic/m".parse().expect("a name");
        let report = FailureReport::from_body(status, &body)
            .unwrap_or_else(|| FailureReport { status, ..FailureReport::default() });
        let (error, is_transient) = classify_failure(&model, report, str::to_owned);
        let name = format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        assert_eq!(format!("{name} {is_transient}"), expected, "{status} {body}");
    }

    #[test]
    fn l11_each_failure_of_a_provider_becomes_the_error_that_a_caller_acts_on() {
        let error = |message: &str| json!({"error": {"message": message, "type": "invalid_request_error"}});
        check(401, error("invalid x-api-key"), "Unauthorized false");
        check(403, json!({}), "Unauthorized false");
        check(429, error("slow down"), "RateLimited true");
        check(429, error("Request too large for the context window per minute"), "RateLimited true");
        check(429, json!({"error": {"message": "pay", "code": "insufficient_quota"}}), "Refused false");
        check(503, json!({}), "RateLimited true");
        check(529, json!({}), "RateLimited true");
        check(500, error("prompt is too long"), "Failed true");
        check(413, json!({}), "ContextOverflow false");
        check(400, error("prompt is too long: 210000 tokens > 200000 maximum"), "ContextOverflow false");
        check(400, error("This model's maximum context length is 128000 tokens."), "ContextOverflow false");
        check(
            400,
            json!({"error": {"message": "no", "code": "context_length_exceeded"}}),
            "ContextOverflow false",
        );
        check(400, error("the request exceeds the available context size"), "ContextOverflow false");
        check(
            400,
            error("The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            "ContextOverflow false",
        );
        check(
            400,
            error("input length and `max_tokens` exceed context limit: 1 + 2 > 2"),
            "ContextOverflow false",
        );
        check(400, error("max_tokens must be positive"), "Refused false");
        check(
            500,
            json!({"error": {"message": "full", "type": "exceed_context_size_error"}}),
            "ContextOverflow false",
        );
        check(
            400,
            json!({"error": {"message": "too many tokens", "code": "rate_limit_exceeded"}}),
            "RateLimited true",
        );
        check(400, error("Too many tokens, please wait before trying again."), "Refused false");
        check(402, error("Prompt tokens limit exceeded: reduce the context window"), "Refused false");
        check(
            413,
            error("Request too large on tokens per minute (TPM): Limit 6000"),
            "ContextOverflow false",
        );
        check(422, error("`inputs` tokens + `max_new_tokens` must be <= 32768"), "ContextOverflow false");
        check(404, error("no such model"), "Refused false");
        check(302, json!({}), "Refused false");
    }

    #[test]
    fn l11_the_failure_of_a_provider_behind_a_gateway_is_classified_too() {
        let upstream = |raw: String| {
            json!({"error": {"message": "Provider returned error", "code": 400,
                             "metadata": {"raw": raw, "provider_name": "P"}}})
        };
        let error =
            |message: &str| json!({"type": "error", "error": {"type": "x", "message": message}}).to_string();
        check(400, upstream(error("prompt is too long: 9 tokens > 8 maximum")), "ContextOverflow false");
        check(
            400,
            upstream("This model's maximum context length is 8 tokens.".to_owned()),
            "ContextOverflow false",
        );
        check(
            400,
            upstream(json!({"error": {"code": "context_length_exceeded", "message": ""}}).to_string()),
            "ContextOverflow false",
        );
        check(400, upstream(error("tools.0: bad")), "Refused false");
        let report = FailureReport::from_body(400, &upstream(error("tools.0: bad"))).expect("it is read");
        assert_eq!(report.message, "Provider returned error: tools.0: bad");
    }

    #[test]
    fn l11_the_whole_message_is_classified_even_if_it_is_shortened_for_display() {
        let model: ModelName = "openai-chat/m".parse().expect("a name");
        let message = format!("{} prompt is too long", "x ".repeat(MESSAGE_CHARS_MAX));
        let report = FailureReport { status: 400, message, ..FailureReport::default() };
        let (error, _) = classify_failure(&model, report, |message| redact_message(message, [].into_iter()));
        assert!(
            matches!(&error, Error::ContextOverflow { message, .. } if !message.contains("prompt")),
            "{error}"
        );
    }

    #[test]
    fn every_dialect_of_an_error_is_read() {
        for (body, kind, message) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}),
                "overloaded_error",
                "Busy",
            ),
            (
                json!({"error": {"code": 429, "message": "Slow", "status": "RESOURCE_EXHAUSTED"}}),
                "RESOURCE_EXHAUSTED",
                "Slow",
            ),
            (json!([{"error": {"code": 400, "message": "Bad"}}]), "", "Bad"),
            (json!({"error": "model not found"}), "", "model not found"),
            (
                json!({"object": "error", "message": "vLLM says no", "type": "BadRequest"}),
                "BadRequest",
                "vLLM says no",
            ),
            (json!({"detail": "Not Found"}), "", "Not Found"),
        ] {
            let report = FailureReport::from_body(400, &body).expect("it is read");
            assert_eq!((report.kind.as_str(), report.message.as_str()), (kind, message), "{body}");
        }
        assert_eq!(FailureReport::from_body(400, &json!("text")), None);
        assert_eq!(FailureReport::from_body(400, &json!({"unrelated": 1})), None);
    }

    #[test]
    fn a_failure_inside_a_stream_has_the_status_of_its_kind() {
        for (event, status) in [
            (json!({"error": {"type": "overloaded_error", "message": "x"}}), 529),
            (json!({"error": {"type": "rate_limit_error", "message": "x"}}), 429),
            (json!({"error": {"type": "invalid_request_error", "message": "x"}}), 400),
            (json!({"error": {"type": "authentication_error", "message": "x"}}), 401),
            (json!({"error": {"code": "server_error", "message": "x"}}), 500),
            (json!({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}), 503),
            (json!({"error": {"code": "context_length_exceeded", "message": "x"}}), 413),
            (json!({"error": {"type": "exceed_context_size_error", "message": "x"}}), 413),
            (json!({"error": {}}), 500),
        ] {
            assert_eq!(FailureReport::from_event(&event).status, status, "{event}");
        }
    }

    #[test]
    fn m16_a_providers_message_becomes_one_short_line_without_the_key() {
        let message = redact_message("Incorrect API key:\n  sk-1234 \u{7}given", ["sk-1234", ""].into_iter());
        assert_eq!(message, "Incorrect API key: [secret] given");
        assert_eq!(redact_message(&"wort ".repeat(500), [].into_iter()).chars().count(), MESSAGE_CHARS_MAX);
    }
}
