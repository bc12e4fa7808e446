//! What a provider says went wrong, sorted into this room's errors. It sees statuses and texts, not connections.

mod overflow;

use std::time::Duration;

use serde_json::Value;

use crate::error::Error;
use crate::name::ModelName;

/// Characters of a provider's words that are kept.
const MESSAGE_CHARS_MAX: usize = 300;

/// What can be wrong with an answer while it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The provider reports a failure in its own words.
    Reported(Report),
    /// What arrived cannot be read.
    Unreadable(String),
}

impl Fault {
    /// Returns what is wrong with an event that is not what its format says.
    pub(crate) fn unreadable(error: &serde_json::Error, event: &str) -> Self {
        // What the parser says of the escape would not tell anybody what it is.
        Self::Unreadable(match protocol::lone_surrogate(event) {
            Some(_) => format!("the text holds half a surrogate pair: {error}"),
            None => error.to_string(),
        })
    }
}

/// A failure as a provider reports it, by status or inside a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The HTTP status, or the one that the reported kind stands for.
    pub(crate) status: u16,
    /// The provider's code or type of the failure; may be empty.
    pub(crate) kind: String,
    pub(crate) message: String,
    /// The provider's id of the request.
    pub(crate) request_id: Option<String>,
    /// How long the provider asks to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Report {
    /// Reads the error object that all providers answer with, in its several dialects: `{"error": {"message", "type",
    /// "code", "status"}}`, the same without the outer field, or `{"error": "text"}`.
    pub(crate) fn read(status: u16, body: &Value) -> Option<Self> {
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
            report.add(raw);
        }
        Some(report)
    }

    /// Adds what the provider behind a gateway answered: an error object, or any text.
    fn add(&mut self, raw: &str) {
        let behind = serde_json::from_str(raw).ok().and_then(|body| Self::read(self.status, &body));
        let (kind, message) = match behind {
            Some(behind) => (behind.kind, behind.message),
            None => (String::new(), raw.to_owned()),
        };
        self.kind = format!("{} {kind}", self.kind).trim().to_owned();
        self.message = format!("{}: {message}", self.message);
    }

    /// Returns the failure that an event inside a stream reports, with the status it would have had.
    pub(crate) fn in_stream(event: &Value) -> Self {
        let mut report = Self::read(0, event).unwrap_or_else(|| Self {
            message: "the provider reported an error without words".to_owned(),
            ..Self::default()
        });
        let error = event.get("error").unwrap_or(event);
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        report.status =
            code.filter(|code| (400..600).contains(code)).unwrap_or_else(|| report.status_of_kind());
        report
    }

    /// Returns the status that the reported kind stands for, for a failure that came with 200.
    pub(crate) fn status_of_kind(&self) -> u16 {
        status_of(&self.kind)
    }
}

/// Returns the status that a reported kind stands for; 500 for an unknown one.
fn status_of(kind: &str) -> u16 {
    let table: [(&[&str], u16); 6] = [
        (&["overloaded", "unavailable"], 529),
        (&["rate_limit", "resource_exhausted", "insufficient_quota"], 429),
        (&["authentication", "unauthenticated", "invalid_api_key"], 401),
        (&["permission"], 403),
        (&["request_too_large"], 413),
        (&["invalid", "not_found", "billing", "unsupported"], 400),
    ];
    if overflow::is_code(kind) {
        return 413;
    }
    let kind = kind.to_ascii_lowercase();
    table
        .iter()
        .find(|(words, _)| words.iter().any(|word| kind.contains(word)))
        .map_or(500, |(_, status)| *status)
}

/// Returns the error a caller sees, and whether trying again may help without anyone changing anything. `shown` makes
/// the provider's words fit for a person; they are judged whole.
pub(crate) fn classify(
    model: &ModelName,
    report: Report,
    shown: impl FnOnce(&str) -> String,
) -> (Error, bool) {
    let model = model.clone();
    let Report { status, kind, message: words, request_id, retry_after } = report;
    let message = shown(&words);
    match status {
        401 | 403 => (Error::Unauthorized { model, status, message }, false),
        // An account without credit answers like one that is too fast, but waiting does not fill it.
        429 if kind.contains("insufficient_quota") => {
            (Error::Refused { model, status, message, request_id }, false)
        }
        429 | 503 | 529 => (Error::Limited { model, status, retry_after }, true),
        // Some count a single request against the limit of a minute: no waiting makes it smaller.
        413 => (Error::Overflow { model, message }, false),
        // What an account may not pay for is no matter of the window.
        402 => (Error::Refused { model, status, message, request_id }, false),
        400..=499 if overflow::is_rate_code(&kind) => (Error::Limited { model, status, retry_after }, true),
        // One server reports its full window as a failure of its own.
        400..=599 if overflow::is_code(&kind) => (Error::Overflow { model, message }, false),
        400..=499 if overflow::is_said(&words) => (Error::Overflow { model, message }, false),
        500..=599 => (Error::Failed { model, status, message, request_id }, true),
        _ => (Error::Refused { model, status, message, request_id }, false),
    }
}

/// Returns a provider's words as one short line in which no secret can be read.
pub(crate) fn describe<'a>(words: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for word in words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
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
        let report = Report::read(status, &body).unwrap_or_else(|| Report { status, ..Report::default() });
        let (error, transient) = classify(&model, report, str::to_owned);
        let name = format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        assert_eq!(format!("{name} {transient}"), expected, "{status} {body}");
    }

    #[test]
    fn l11_each_answer_of_a_provider_is_the_error_a_caller_acts_on() {
        let error = |message: &str| json!({"error": {"message": message, "type": "invalid_request_error"}});
        check(401, error("invalid x-api-key"), "Unauthorized false");
        check(403, json!({}), "Unauthorized false");
        check(429, error("slow down"), "Limited true");
        check(429, error("Request too large for the context window per minute"), "Limited true");
        check(429, json!({"error": {"message": "pay", "code": "insufficient_quota"}}), "Refused false");
        check(503, json!({}), "Limited true");
        check(529, json!({}), "Limited true");
        check(500, error("prompt is too long"), "Failed true");
        check(413, json!({}), "Overflow false");
        check(400, error("prompt is too long: 210000 tokens > 200000 maximum"), "Overflow false");
        check(400, error("This model's maximum context length is 128000 tokens."), "Overflow false");
        check(400, json!({"error": {"message": "no", "code": "context_length_exceeded"}}), "Overflow false");
        check(400, error("the request exceeds the available context size"), "Overflow false");
        check(
            400,
            error("The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            "Overflow false",
        );
        check(400, error("input length and `max_tokens` exceed context limit: 1 + 2 > 2"), "Overflow false");
        check(400, error("max_tokens must be positive"), "Refused false");
        check(
            500,
            json!({"error": {"message": "full", "type": "exceed_context_size_error"}}),
            "Overflow false",
        );
        check(
            400,
            json!({"error": {"message": "too many tokens", "code": "rate_limit_exceeded"}}),
            "Limited true",
        );
        check(400, error("Too many tokens, please wait before trying again."), "Refused false");
        check(402, error("Prompt tokens limit exceeded: reduce the context window"), "Refused false");
        check(413, error("Request too large on tokens per minute (TPM): Limit 6000"), "Overflow false");
        check(422, error("`inputs` tokens + `max_new_tokens` must be <= 32768"), "Overflow false");
        check(404, error("no such model"), "Refused false");
        check(302, json!({}), "Refused false");
    }

    #[test]
    fn l11_what_the_provider_behind_a_gateway_says_counts_too() {
        let behind = |raw: String| {
            json!({"error": {"message": "Provider returned error", "code": 400,
                             "metadata": {"raw": raw, "provider_name": "P"}}})
        };
        let error =
            |message: &str| json!({"type": "error", "error": {"type": "x", "message": message}}).to_string();
        check(400, behind(error("prompt is too long: 9 tokens > 8 maximum")), "Overflow false");
        check(400, behind("This model's maximum context length is 8 tokens.".to_owned()), "Overflow false");
        check(
            400,
            behind(json!({"error": {"code": "context_length_exceeded", "message": ""}}).to_string()),
            "Overflow false",
        );
        check(400, behind(error("tools.0: bad")), "Refused false");
        let report = Report::read(400, &behind(error("tools.0: bad"))).expect("it is read");
        assert_eq!(report.message, "Provider returned error: tools.0: bad");
    }

    #[test]
    fn l11_words_that_are_not_shown_count_too() {
        let model: ModelName = "openai-chat/m".parse().expect("a name");
        let message = format!("{} prompt is too long", "x ".repeat(MESSAGE_CHARS_MAX));
        let report = Report { status: 400, message, ..Report::default() };
        let (error, _) = classify(&model, report, |words| describe(words, [].into_iter()));
        assert!(matches!(&error, Error::Overflow { message, .. } if !message.contains("prompt")), "{error}");
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
            let report = Report::read(400, &body).expect("it is read");
            assert_eq!((report.kind.as_str(), report.message.as_str()), (kind, message), "{body}");
        }
        assert_eq!(Report::read(400, &json!("text")), None);
        assert_eq!(Report::read(400, &json!({"unrelated": 1})), None);
    }

    #[test]
    fn a_failure_inside_a_stream_has_the_status_it_would_have_had() {
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
            assert_eq!(Report::in_stream(&event).status, status, "{event}");
        }
    }

    #[test]
    fn m16_a_providers_words_are_one_short_line_without_the_key() {
        let words = describe("Incorrect API key:\n  sk-1234 \u{7}given", ["sk-1234", ""].into_iter());
        assert_eq!(words, "Incorrect API key: [secret] given");
        assert_eq!(describe(&"wort ".repeat(500), [].into_iter()).chars().count(), MESSAGE_CHARS_MAX);
    }
}
