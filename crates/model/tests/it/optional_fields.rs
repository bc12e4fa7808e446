//! Tests of servers of Chat Completions that refuse an optional field: the forms in which a request is sent, and the
//! form of the next one.

use model::{ChatRequest, Error, Provider, ProviderSettings, connect};
use serde_json::{Value, json};
use test_model::{RecordedRequest, ScriptedReply, ScriptedServer};

use super::{question, settings, start_server};

/// Returns the answer of DeepSeek to a format that it does not know.
fn refusal() -> ScriptedReply {
    let message = "This response_format type is unavailable now";
    ScriptedReply::status(
        400,
        json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string(),
    )
}

/// Returns a request whose answer must follow a schema.
fn question_with_schema() -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    ChatRequest { answer_schema: Some(schema), ..question() }
}

/// Sends a request with a new client for `model`, as another part of the program would.
async fn ask(server: &ScriptedServer, model: &str, request: &ChatRequest) -> Result<(), Error> {
    let name = format!("{}/{model}", Provider::OpenAiChat.as_str()).parse().expect("a name");
    let settings = ProviderSettings { retries_max: 1, ..settings(server) };
    connect(name, settings).expect("the settings can be used").answer(request).await.map(|_| ())
}

/// Returns the optional fields of a request, in short.
fn fields(request: &RecordedRequest) -> String {
    let format = request.body["response_format"]["type"].as_str().unwrap_or("plain").to_owned();
    let usage = if request.body.get("stream_options").is_some() { "+usage" } else { "" };
    format!("{format}{usage}")
}

/// Returns the optional fields of all requests in order.
fn all_fields(server: &ScriptedServer) -> Vec<String> {
    server.requests().iter().map(fields).collect()
}

#[tokio::test]
async fn a_refused_format_becomes_looser_and_the_next_request_begins_with_the_accepted_one() {
    let server = start_server([refusal(), ScriptedReply::text("{}").with_repeat()]);
    ask(&server, "object", &question_with_schema()).await.expect("it answers");
    ask(&server, "object", &question_with_schema()).await.expect("it answers");
    assert_eq!(all_fields(&server), ["json_schema+usage", "json_object+usage", "json_object+usage"]);
    ask(&server, "other", &question_with_schema()).await.expect("it answers");
    assert_eq!(all_fields(&server)[3], "json_schema+usage", "another model may accept the schema");
    let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies[0]["messages"], bodies[1]["messages"], "the rest of the request is the same");
}

#[tokio::test]
async fn a_server_without_formats_gets_plain_requests() {
    let server = start_server([refusal(), refusal(), ScriptedReply::text("{}").with_repeat()]);
    for _ in 0..2 {
        ask(&server, "plain", &question_with_schema()).await.expect("it answers");
    }
    assert_eq!(all_fields(&server), ["json_schema+usage", "json_object+usage", "plain+usage", "plain+usage"]);
}

#[tokio::test]
async fn a_server_that_refuses_stream_options_is_asked_without_and_keeps_the_format() {
    let unknown_field = ScriptedReply::status(422, r#"{"detail":"Extra inputs are not permitted"}"#);
    let server = start_server([unknown_field, ScriptedReply::text("{}").with_repeat()]);
    ask(&server, "no-usage", &question()).await.expect("it answers");
    ask(&server, "no-usage", &question_with_schema()).await.expect("it answers");
    assert_eq!(all_fields(&server), ["plain+usage", "plain", "json_schema"]);
    let server = start_server([refusal(), refusal(), refusal(), ScriptedReply::text("{}").with_repeat()]);
    for _ in 0..2 {
        ask(&server, "no-usage", &question_with_schema()).await.expect("it answers");
    }
    let forms = ["json_schema+usage", "json_object+usage", "plain+usage", "json_schema", "json_schema"];
    assert_eq!(all_fields(&server), forms);
}

#[tokio::test]
async fn a_request_that_is_refused_in_every_form_fails_with_the_first_refusal() {
    let other = ScriptedReply::status(400, r#"{"error":{"message":"another reason"}}"#).with_repeat();
    let server = start_server([refusal(), other]);
    let error = ask(&server, "refused", &question_with_schema()).await.expect_err("it is refused");
    assert!(
        matches!(&error, Error::Refused { status: 400, message, .. } if message.contains("unavailable")),
        "{error}"
    );
    assert_eq!(server.call_count(), 6, "one request for each form");
    let server = start_server([ScriptedReply::text("Hi."), refusal().with_repeat()]);
    ask(&server, "refused", &question()).await.expect("it answers");
    ask(&server, "refused", &question()).await.expect_err("it is refused");
    assert_eq!(server.call_count(), 2, "the server accepts the only optional field");
}

#[tokio::test]
async fn l11_a_transient_failure_in_between_is_retried_in_the_form_that_was_not_refused() {
    let server = start_server([refusal(), ScriptedReply::status(503, ""), ScriptedReply::text("{}")]);
    ask(&server, "busy", &question_with_schema()).await.expect("it answers");
    assert_eq!(all_fields(&server), ["json_schema+usage", "json_object+usage", "json_object+usage"]);
    let server = start_server([ScriptedReply::status(404, "{}").with_repeat()]);
    ask(&server, "missing", &question_with_schema()).await.expect_err("there is no such model");
    assert_eq!(server.call_count(), 1, "another status is no refusal of a field");
}
