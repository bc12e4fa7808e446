//! Tests of the pitfalls of Chat Completions, one test each. The fixtures are written by hand from the format's
//! documentation.

use std::sync::Arc;

use protocol::{ContentBlock, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::name::Provider;
use crate::settings::Effort;
use crate::wire::fixture::{body_json, decode_events, decode_fault, official_target, sample_request};
use crate::wire::{AnswerFault, AnswerFormat, Endpoint, OptionalFields, RequestTarget, UsageRequest};

fn request() -> crate::chat::ChatRequest {
    sample_request(Provider::OpenAiChat, json!({"reasoning_content": "Two files."}))
}

fn delta(delta: Value) -> String {
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn end(reason: &str) -> String {
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn calls(content: &[ContentBlock]) -> Vec<(&str, &str, String)> {
    content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolCall { id, name, args } => Some((id.as_str(), name.as_str(), args.to_string())),
            _ => None,
        })
        .collect()
}

#[test]
fn body_of_a_conversation() {
    insta::assert_json_snapshot!(body_json(Provider::OpenAiChat, &request(), &official_target("gpt-4.1")));
}

#[test]
fn the_longest_answer_has_two_names() {
    let mut request = request();
    request.max_output_tokens = Some(100);
    for (endpoint, name) in
        [(Endpoint::Official, "max_completion_tokens"), (Endpoint::Compatible, "max_tokens")]
    {
        let target = RequestTarget { endpoint, effort: Some(Effort::Low), ..official_target("m") };
        let body = body_json(Provider::OpenAiChat, &request, &target);
        assert_eq!(body[name], 100, "{endpoint:?}");
        assert_eq!(body["reasoning_effort"], "low");
    }
}

#[test]
fn each_form_of_the_optional_fields_is_sent() {
    let mut request = request();
    request.answer_schema = Some(json!({"type": "object", "properties": {"a": {}}}));
    for (answer_format, expected) in [
        (AnswerFormat::JsonSchema, json!("json_schema")),
        (AnswerFormat::JsonObject, json!("json_object")),
        (AnswerFormat::Plain, Value::Null),
    ] {
        for (usage_request, options) in
            [(UsageRequest::StreamOptions, json!({"include_usage": true})), (UsageRequest::None, Value::Null)]
        {
            let fields = OptionalFields { answer_format, usage_request };
            let target = RequestTarget { fields, ..official_target("m") };
            let body = body_json(Provider::OpenAiChat, &request, &target);
            assert_eq!(body["response_format"]["type"], expected, "{fields:?}");
            assert_eq!(body["stream_options"], options, "{fields:?}");
            assert_eq!(body.get("response_format").is_some(), !expected.is_null(), "{fields:?}");
            assert_eq!(body.get("stream_options").is_some(), !options.is_null(), "{fields:?}");
        }
    }
}

#[test]
fn a_schema_is_sent_and_marked_strict_only_if_it_is() {
    let mut request = request();
    request.answer_schema = Some(json!({"type": "object", "properties": {"a": {}}}));
    let format = &body_json(Provider::OpenAiChat, &request, &official_target("m"))["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["strict"]), (&json!("json_schema"), &json!(false)));
}

#[test]
fn reasoning_is_sent_back_inside_its_tool_loop_only() {
    let mut request = request();
    let sent = |request: &_| {
        body_json(Provider::OpenAiChat, request, &official_target("m"))["messages"][2]["reasoning_content"]
            .clone()
    };
    assert_eq!(sent(&request), json!(null));
    Arc::make_mut(&mut request.messages).pop();
    assert_eq!(sent(&request), json!("Two files."));
}

#[test]
fn text_is_streamed_and_done_ends_it() {
    let events =
        [delta(json!({"role": "assistant", "content": ""})), delta(json!({"content": "日本"})), end("stop")];
    let events: Vec<&str> = events.iter().map(String::as_str).chain(["[DONE]"]).collect();
    let (parts, message) = decode_events("openai-chat", &events).expect("it is read");
    assert_eq!(parts, [AnswerPart::Text("日本".into())]);
    assert_eq!((message.id.as_deref(), message.stop), (Some("chatcmpl-1"), Some(StopReason::EndTurn)));
}

#[test]
fn usage_comes_after_the_last_choice() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}"#;
    let (_, message) = decode_events("openai-chat", &[&end("stop"), usage, "[DONE]"]).expect("it is read");
    let expected = Usage { input_tokens: 12, output_tokens: 3, cache_read_tokens: 8, cache_write_tokens: 0 };
    assert_eq!(message.usage, Some(expected));
}

#[test]
fn reasoning_has_two_names() {
    for field in ["reasoning_content", "reasoning"] {
        let events =
            [delta(json!({field: "Two "})), delta(json!({field: "files."})), delta(json!({"content": "ok"}))];
        let (parts, message) =
            decode_events("openai-chat", &[&events[0], &events[1], &events[2], &end("stop")])
                .expect("it is read");
        assert_eq!(parts[0], AnswerPart::Thinking("Two ".into()));
        let raw = Some(json!({field: "Two files."}));
        let provider = Some("openai-chat".to_owned());
        assert_eq!(message.content[0], ContentBlock::Thinking { text: "Two files.".into(), provider, raw });
    }
}

#[test]
fn parallel_calls_with_pieces_of_arguments() {
    let piece = |index: u64, arguments: &str| {
        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let begin = |index: u64, id: &str| {
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": "read", "arguments": ""}}]}),
        )
    };
    let events = [
        begin(0, "a"),
        piece(0, "{\"path\":"),
        begin(1, "b"),
        piece(1, "{}"),
        piece(0, "\"é\"}"),
        end("tool_calls"),
    ];
    let (parts, message) =
        decode_events("openai-chat", &events.each_ref().map(String::as_str)).expect("it is read");
    assert_eq!(parts.len(), 2);
    assert_eq!(
        calls(&message.content),
        [("a", "read", r#"{"path":"é"}"#.into()), ("b", "read", "{}".into())]
    );
}

#[test]
fn missing_and_repeated_ids_become_unique() {
    let call = |index: u64, id: Value| {
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "function": {"name": "read", "arguments": "{}"}}]}),
        )
    };
    let events =
        [call(0, json!("0")), call(1, json!("0")), call(2, json!(null)), call(3, json!("")), end("stop")];
    let (_, message) =
        decode_events("openai-chat", &events.each_ref().map(String::as_str)).expect("it is read");
    let ids: Vec<&str> = calls(&message.content).into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(ids, ["0", "call_x1", "call_x2", "call_x3"]);
    assert_eq!(message.stop, Some(StopReason::ToolCalls));
}

#[test]
fn calls_without_an_index_of_their_own() {
    let call = |call: Value| delta(json!({"tool_calls": [call]}));
    let events = [
        call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}})),
        call(json!({"index": 0, "id": "b", "function": {"name": "list", "arguments": {"dir": "x"}}})),
        call(json!({"id": "c", "function": {"name": "read", "arguments": "{\"p\":"}})),
        call(json!({"function": {"arguments": "1}"}})),
        call(json!({"function": {"name": "list"}})),
        end("tool_calls"),
    ];
    let (_, message) =
        decode_events("openai-chat", &events.each_ref().map(String::as_str)).expect("it is read");
    assert_eq!(
        calls(&message.content),
        [
            ("a", "read", "{}".into()),
            ("b", "list", r#"{"dir":"x"}"#.into()),
            ("c", "read", r#"{"p":1}"#.into()),
            ("call_x1", "list", "{}".into()),
        ]
    );
}

#[test]
fn a_repeated_name_is_one_name() {
    let piece = |arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read", "arguments": arguments}}]}),
        )
    };
    let (_, message) = decode_events("openai-chat", &[&piece("{\"p\""), &piece(":1}"), &end("tool_calls")])
        .expect("it is read");
    assert_eq!(calls(&message.content), [("a", "read", r#"{"p":1}"#.into())]);
}

#[test]
fn done_may_be_missing() {
    let (parts, _) =
        decode_events("openai-chat", &[&delta(json!({"content": "x"})), &end("length")]).expect("it is read");
    assert_eq!(parts, [AnswerPart::Text("x".into())]);
}

#[test]
fn every_reason_to_stop_is_known() {
    for (reason, expected) in [
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("tool_calls", StopReason::EndTurn),
        ("eos", StopReason::Other),
    ] {
        let (_, message) = decode_events("openai-chat", &[&end(reason)]).expect("it is read");
        assert_eq!(message.stop, Some(expected), "{reason}");
    }
    let (_, message) =
        decode_events("openai-chat", &[&delta(json!({"refusal": "No."})), &end("stop")]).expect("it is read");
    assert_eq!((message.stop, message.content), (Some(StopReason::Refusal), vec![ContentBlock::text("No.")]));
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    let event = r#"{"error":{"message":"overloaded","type":"server_error","code":503}}"#;
    assert!(
        matches!(decode_fault("openai-chat", &[event]), AnswerFault::Reported(report) if report.status == 503)
    );
    assert!(matches!(decode_fault("openai-chat", &["<html>"]), AnswerFault::Unreadable(_)));
}
