//! The check for secrets in the fields of a client's request that are shown wherever threads and runs are
//! listed. Messages are not checked here; they are redacted where they leave the thread.

use protocol::{RunCommand, RunRequest};
use serde_json::{Map, Value};

use crate::{Result, RunError};

/// Checks the stored fields of a request for a run, without its messages and answers. The webhook's query may
/// contain a key, because the URL is not kept once the run has started.
///
/// # Errors
/// [`RunError::SecretInRequest`] if a field contains what looks like a key, a token or a password.
pub fn check_request(request: &RunRequest) -> Result<()> {
    match secret_field_of_request(request) {
        Some(field) => Err(RunError::SecretInRequest(field).into()),
        None => Ok(()),
    }
}

/// Returns the path of the first field that contains a secret; `None` if there is none. The input is copied
/// without its messages. The other fields are checked in place, because they can be large.
fn secret_field_of_request(request: &RunRequest) -> Option<String> {
    let RunRequest { config, context, metadata, .. } = request;
    let command = request.command.as_ref().map(RunCommand::without_messages_and_resume).unwrap_or_default();
    let texts = [
        ("interrupt_before", request.interrupt_before.as_slice()),
        ("interrupt_after", &request.interrupt_after),
        ("stream_mode", &request.stream_mode),
        ("durability", request.durability.as_slice()),
    ];
    let in_value = |field: &str, value: Option<&Value>| Some(format!("{field}{}", secret_path(value?)?));
    let in_fields = |field: &str, fields: &Map<String, Value>| {
        fields.iter().find_map(|(key, value)| Some(format!("{field}.{key}{}", secret_path(value)?)))
    };
    in_fields("metadata", metadata)
        .or_else(|| in_fields("config", config))
        .or_else(|| in_value("context", context.as_ref()))
        .or_else(|| in_value("input", request.input_without_messages().as_ref()))
        .or_else(|| in_value("command.update", command.update.as_ref()))
        .or_else(|| in_value("command.goto", command.goto.as_ref()))
        .or_else(|| {
            request.webhook_url_without_query().filter(|url| is_secret(url)).map(|_| "webhook".to_owned())
        })
        .or_else(|| {
            let secret_field = texts.iter().find(|(_, texts)| texts.iter().any(|text| is_secret(text)));
            secret_field.map(|(field, _)| (*field).to_owned())
        })
}

/// Returns whether the text contains what looks like a secret.
fn is_secret(text: &str) -> bool {
    secrets::redact_and_count(text).1 > 0
}

/// Returns whether the value contains what looks like a secret, at any depth.
pub(in crate::runs) fn has_secret(value: &Value) -> bool {
    secret_path(value).is_some()
}

/// Returns the path from the value to its first secret, such as `.a[1]`; empty if the value itself is the
/// secret.
fn secret_path(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_secret(text).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| secret_path(item).map(|inner| format!("[{index}]{inner}"))),
        Value::Object(fields) => {
            fields.iter().find_map(|(key, value)| secret_path(value).map(|inner| format!(".{key}{inner}")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn k4_a_request_that_holds_a_secret_is_refused_with_its_field() {
        let secret = "sk-ant-REDACTED AKIAIOSFODNN7EXAMPLE";
        let map = |value: Value| -> Map<String, Value> { serde_json::from_value(value).unwrap() };
        let plain = map(json!({"user": "ada", "n": 1, "deep": ["x", {"y": null}]}));
        let check = |request: RunRequest, field: Option<&str>| {
            let refused_field = match check_request(&request) {
                Err(crate::Error::Run(RunError::SecretInRequest(field))) => Some(field),
                Err(other) => Some(other.to_string()),
                Ok(()) => None,
            };
            assert_eq!(refused_field.as_deref(), field);
        };
        let harmless = RunRequest {
            metadata: plain.clone(),
            config: plain.clone(),
            context: Some(plain.into()),
            ..RunRequest::default()
        };
        check(harmless.clone(), None);
        let metadata = map(json!({"a": {"b": ["x", secret]}}));
        check(RunRequest { metadata, ..harmless.clone() }, Some("metadata.a.b[1]"));
        let config = map(json!({"configurable": {"key": secret}}));
        check(RunRequest { config, ..harmless.clone() }, Some("config.configurable.key"));
        check(RunRequest { context: Some(json!({"key": secret})), ..harmless.clone() }, Some("context.key"));
        let messages = json!([{"role": "user", "content": secret}]);
        let with_input = |input| RunRequest { input: Some(input), ..harmless.clone() };
        check(with_input(json!({"messages": messages, "colour": "red"})), None);
        check(with_input(json!({"messages": messages, "colour": secret})), Some("input.colour"));
        let with_command = |command: Value| RunRequest {
            command: serde_json::from_value(command).unwrap(),
            ..harmless.clone()
        };
        check(with_command(json!({"resume": secret, "update": [["messages", messages]]})), None);
        check(with_command(json!({"update": {"colour": secret}})), Some("command.update.colour"));
        let goto = json!({"goto": [{"node": "model", "input": {"messages": messages, "colour": [secret]}}]});
        check(with_command(goto), Some("command.goto[0].input.colour[0]"));
        let webhook = Some(format!("https://example.com/?token={secret}"));
        check(RunRequest { webhook, ..harmless }, None);
    }
}
