//! What clients send along and is shown again wherever threads and runs are listed: it may hold no secret. What people say
//! is looked at elsewhere, where it leaves the thread.

use protocol::{Command, RunRequest};
use serde_json::{Map, Value};

use crate::{Result, RunError};

/// Checks what is kept of a request for a run beside what it puts in and answers. The address that is told of the run's end
/// may hold a key: it is not kept once the run has begun.
///
/// # Errors
/// [`RunError::SecretInRequest`] when a field holds what looks like a key, a token or a password.
pub fn check_request(request: &RunRequest) -> Result<()> {
    match place_in_request(request) {
        Some(field) => Err(RunError::SecretInRequest(field).into()),
        None => Ok(()),
    }
}

/// Returns the field that holds a secret. What is put in is looked at alone, the rest where it stands: it may be large.
fn place_in_request(request: &RunRequest) -> Option<String> {
    let RunRequest { config, context, metadata, .. } = request;
    let command = request.command.as_ref().map(Command::beside_messages).unwrap_or_default();
    let texts = [
        ("interrupt_before", request.interrupt_before.as_slice()),
        ("interrupt_after", &request.interrupt_after),
        ("stream_mode", &request.stream_mode),
        ("durability", request.durability.as_slice()),
    ];
    let named = |field: &str, value: Option<&Value>| Some(format!("{field}{}", place(value?)?));
    let among = |field: &str, fields: &Map<String, Value>| {
        fields.iter().find_map(|(key, value)| Some(format!("{field}.{key}{}", place(value)?)))
    };
    among("metadata", metadata)
        .or_else(|| among("config", config))
        .or_else(|| named("context", context.as_ref()))
        .or_else(|| named("input", request.input_beside_messages().as_ref()))
        .or_else(|| named("command.update", command.update.as_ref()))
        .or_else(|| named("command.goto", command.goto.as_ref()))
        .or_else(|| request.webhook_place().filter(|place| is_secret(place)).map(|_| "webhook".to_owned()))
        .or_else(|| {
            let held = texts.iter().find(|(_, texts)| texts.iter().any(|text| is_secret(text)));
            held.map(|(field, _)| (*field).to_owned())
        })
}

fn is_secret(text: &str) -> bool {
    facts::withhold(text).1 > 0
}

/// Returns whether the value holds what looks like a secret.
pub(super) fn holds_secret(value: &Value) -> bool {
    place(value).is_some()
}

/// Returns where in the value the first secret is, as the end of a path.
fn place(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_secret(text).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| place(item).map(|inner| format!("[{index}]{inner}"))),
        Value::Object(fields) => {
            fields.iter().find_map(|(key, value)| place(value).map(|inner| format!(".{key}{inner}")))
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
            let found = match check_request(&request) {
                Err(crate::Error::Run(RunError::SecretInRequest(field))) => Some(field),
                Err(other) => Some(other.to_string()),
                Ok(()) => None,
            };
            assert_eq!(found.as_deref(), field);
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
        let said = json!([{"role": "user", "content": secret}]);
        let put_in = |input| RunRequest { input: Some(input), ..harmless.clone() };
        check(put_in(json!({"messages": said, "colour": "red"})), None);
        check(put_in(json!({"messages": said, "colour": secret})), Some("input.colour"));
        let commanding = |command: Value| RunRequest {
            command: serde_json::from_value(command).unwrap(),
            ..harmless.clone()
        };
        check(commanding(json!({"resume": secret, "update": [["messages", said]]})), None);
        check(commanding(json!({"update": {"colour": secret}})), Some("command.update.colour"));
        let goto = json!({"goto": [{"node": "model", "input": {"messages": said, "colour": [secret]}}]});
        check(commanding(goto), Some("command.goto[0].input.colour[0]"));
        let webhook = Some(format!("https://example.com/?token={secret}"));
        check(RunRequest { webhook, ..harmless }, None);
    }
}
