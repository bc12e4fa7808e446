//! Tests of the pitfalls of Anthropic Messages, one test each. The fixtures are written by hand from the format's
//! documentation.

use std::sync::Arc;

use protocol::{ContentBlock, Message, StopReason, Usage};
use serde_json::json;

use crate::chat::AnswerPart;
use crate::name::Provider;
use crate::settings::Effort;
use crate::wire::fixture::{body_json, decode_events, decode_fault, official_target, sample_request};
use crate::wire::{AnswerFault, RequestTarget};

const SIGNED: &str = r#"{"type":"thinking","thinking":"Two files.","signature":"c2ln"}"#;

fn signed() -> serde_json::Value {
    serde_json::from_str(SIGNED).expect("it is JSON")
}

#[test]
fn body_of_a_conversation() {
    let request = sample_request(Provider::Anthropic, signed());
    let target = RequestTarget { output_tokens: Some(64_000), ..official_target("claude-sonnet-4-5") };
    insta::assert_json_snapshot!(body_json(Provider::Anthropic, &request, &target));
}

#[test]
fn thinking_is_asked_for_in_the_models_own_way() {
    let request = sample_request(Provider::Anthropic, signed());
    let thinking_options = |model| {
        let body = body_json(
            Provider::Anthropic,
            &request,
            &RequestTarget { effort: Some(Effort::Medium), ..official_target(model) },
        );
        (body.get("thinking").cloned(), body.get("output_config").cloned())
    };
    assert_eq!(thinking_options("claude-3-5-haiku-latest"), (None, None));
    assert_eq!(
        thinking_options("claude-sonnet-4-5"),
        (Some(json!({"type": "enabled", "budget_tokens": 4096})), None)
    );
    assert_eq!(
        thinking_options("claude-opus-4-6"),
        (Some(json!({"type": "adaptive"})), Some(json!({"effort": "medium"})))
    );
}

#[test]
fn a_budget_leaves_room_for_the_answer() {
    let mut request = sample_request(Provider::Anthropic, signed());
    let target = RequestTarget { effort: Some(Effort::High), ..official_target("claude-sonnet-4-5") };
    for (max, budget) in [(100_000, Some(24_576)), (4_096, Some(2_048)), (2_000, None)] {
        request.max_output_tokens = Some(max);
        let body = body_json(Provider::Anthropic, &request, &target);
        assert_eq!(body["thinking"]["budget_tokens"].as_u64(), budget, "{max}");
    }
}

#[test]
fn a_tool_loop_started_without_thinking_continues_without_it() {
    let mut request = sample_request(Provider::Anthropic, signed());
    Arc::make_mut(&mut request.messages).pop();
    let target = RequestTarget { effort: Some(Effort::Low), ..official_target("claude-sonnet-4-5") };
    assert!(body_json(Provider::Anthropic, &request, &target).get("thinking").is_some());
    if let Message::Ai(ai) = &mut Arc::make_mut(&mut request.messages)[1] {
        ai.content.remove(0);
    }
    assert!(body_json(Provider::Anthropic, &request, &target).get("thinking").is_none());
}

#[test]
fn a_strict_schema_is_enforced_where_the_model_can() {
    let mut request = sample_request(Provider::Anthropic, signed());
    request.answer_schema = Some(
        json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": false}),
    );
    let format = |model| {
        body_json(Provider::Anthropic, &request, &official_target(model))["output_config"]["format"]["type"]
            .clone()
    };
    assert_eq!(format("claude-sonnet-4-5"), json!("json_schema"));
    assert_eq!(format("claude-3-5-haiku-latest"), json!(null));
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn end(reason: &str, output: u64) -> String {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}})
        .to_string()
}

#[test]
fn thinking_and_its_signature_are_stored_unchanged() {
    let (parts, message) = decode_events("anthropic", &[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Two "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"files."}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"ln"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"b3Bx"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Grüße "}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"🦀"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        &end("end_turn", 9),
        STOP,
    ])
    .expect("it is read");
    assert_eq!(
        parts[..3],
        [
            AnswerPart::Thinking("Two ".into()),
            AnswerPart::Thinking("files.".into()),
            AnswerPart::Text("Grüße ".into())
        ]
    );
    let raws: Vec<String> = message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Thinking { raw: Some(raw), .. } => Some(raw.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(raws, [SIGNED, r#"{"type":"redacted_thinking","data":"b3Bx"}"#]);
    assert_eq!(message.id.as_deref(), Some("msg_1"));
    assert_eq!(message.model.as_deref(), Some("anthropic/m"));
    assert_eq!(message.stop, Some(StopReason::EndTurn));
}

#[test]
fn parallel_calls_with_pieces_of_arguments() {
    let (parts, message) = decode_events("anthropic", &[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"list","input":{}}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        &end("tool_use", 9),
        STOP,
    ])
    .expect("it is read");
    assert_eq!(
        parts,
        [
            AnswerPart::ToolCall { id: "toolu_1".into(), name: "read".into() },
            AnswerPart::ToolCall { id: "call_x1".into(), name: "list".into() },
        ]
    );
    assert_eq!(
        message.content,
        [
            ContentBlock::ToolCall { id: "toolu_1".into(), name: "read".into(), args: json!({"path": "a"}) },
            ContentBlock::ToolCall { id: "call_x1".into(), name: "list".into(), args: json!({}) },
        ]
    );
    assert_eq!(message.stop, Some(StopReason::ToolCalls));
}

#[test]
fn input_may_come_whole() {
    let (_, message) = decode_events("anthropic", &[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"read","input":{"path":"a"}}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        STOP,
    ])
    .expect("it is read");
    assert_eq!(
        message.content,
        [ContentBlock::ToolCall { id: "1".into(), name: "read".into(), args: json!({"path": "a"}) }]
    );
}

#[test]
fn a_truncated_call_keeps_the_text_of_its_arguments() {
    let (_, message) = decode_events("anthropic", &[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"pa"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        &end("max_tokens", 9),
        STOP,
    ])
    .expect("it is read");
    assert_eq!(
        message.content,
        [ContentBlock::ToolCall { id: "1".into(), name: "read".into(), args: json!("{\"pa") }]
    );
    assert_eq!(message.stop, Some(StopReason::MaxTokens));
}

#[test]
fn blocks_of_the_providers_own_tools_are_stored_unchanged() {
    let (_, message) = decode_events("anthropic", &[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        STOP,
    ])
    .expect("it is read");
    let raw = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}});
    assert_eq!(message.content, [ContentBlock::Opaque { provider: "anthropic".into(), raw }]);
}

#[test]
fn usage_is_cumulative() {
    let (_, message) = decode_events("anthropic", &[START, &end("end_turn", 4), &end("end_turn", 9), STOP])
        .expect("it is read");
    let expected = Usage { input_tokens: 17, output_tokens: 9, cache_read_tokens: 5, cache_write_tokens: 2 };
    assert_eq!(message.usage, Some(expected));
    assert_eq!(message.content, []);
}

#[test]
fn pings_and_unknown_events_add_nothing() {
    let (parts, message) =
        decode_events("anthropic", &[r#"{"type":"ping"}"#, r#"{"type":"from_the_future","x":1}"#, STOP])
            .expect("it is read");
    assert_eq!((parts, message.content), (vec![], vec![]));
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    let event = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert!(
        matches!(decode_fault("anthropic", &[START, event]), AnswerFault::Reported(report) if report.status == 529)
    );
    assert!(matches!(decode_fault("anthropic", &["{\"type\":"]), AnswerFault::Unreadable(_)));
}

#[test]
fn every_reason_to_stop_is_known() {
    for (reason, expected) in [
        ("refusal", StopReason::Refusal),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("stop_sequence", StopReason::Other),
        ("pause_turn", StopReason::Other),
    ] {
        let (_, message) = decode_events("anthropic", &[&end(reason, 1), STOP]).expect("it is read");
        assert_eq!(message.stop, Some(expected), "{reason}");
    }
}
