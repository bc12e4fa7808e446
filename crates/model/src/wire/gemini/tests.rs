//! Tests of the pitfalls of Gemini, one test each. The fixtures are written by hand from the format's
//! documentation.

use protocol::{AiMessage, ContentBlock, Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::{AnswerPart, ChatRequest};
use crate::name::Provider;
use crate::settings::Effort;
use crate::wire::fixture::{body_json, decode_events, decode_fault, official_target, sample_request};
use crate::wire::{AnswerFault, RequestTarget};

fn request() -> ChatRequest {
    sample_request(
        Provider::Gemini,
        json!({"text": "Two files.", "thought": true, "thoughtSignature": "c2ln"}),
    )
}

fn event(parts: Value) -> String {
    json!({"responseId": "r1", "candidates": [{"content": {"role": "model", "parts": parts}}]}).to_string()
}

fn end(reason: &str) -> String {
    json!({"candidates": [{"content": {"parts": []}, "finishReason": reason}]}).to_string()
}

#[test]
fn body_of_a_conversation() {
    insta::assert_json_snapshot!(body_json(Provider::Gemini, &request(), &official_target("gemini-2.5-pro")));
}

#[test]
fn thinking_is_asked_for_in_the_models_own_way() {
    let thinking_config = |model| {
        let target = RequestTarget { effort: Some(Effort::Medium), ..official_target(model) };
        body_json(Provider::Gemini, &request(), &target)["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(thinking_config("gemini-2.0-flash"), json!(null));
    assert_eq!(thinking_config("gemini-2.5-pro"), json!({"includeThoughts": true, "thinkingBudget": 8192}));
    assert_eq!(thinking_config("gemini-3-pro"), json!({"includeThoughts": true, "thinkingLevel": "high"}));
}

#[test]
fn a_schema_is_enforced_unless_there_are_tools() {
    let mut request = request();
    request.answer_schema = Some(json!({"type": "object"}));
    assert!(
        body_json(Provider::Gemini, &request, &official_target("gemini-2.5-pro"))
            .get("generationConfig")
            .is_none()
    );
    request.tools = crate::ToolSpecs::default();
    let body = body_json(Provider::Gemini, &request, &official_target("gemini-2.5-pro"));
    assert_eq!(body["generationConfig"]["responseJsonSchema"], json!({"type": "object"}));
}

#[test]
fn calls_of_other_models_are_marked_for_gemini_3() {
    let body = body_json(Provider::Gemini, &request(), &official_target("gemini-3-pro"));
    let parts = &body["contents"][1]["parts"];
    assert_eq!(parts[2]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[2]["functionCall"]["id"], "call_a");
    assert_eq!(parts[3].get("thoughtSignature"), None);
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["id"], "call_a");
}

#[test]
fn signatures_return_to_their_parts() {
    let sent = json!([
        {"text": "Hm.", "thought": true, "thoughtSignature": "c2ln"},
        {"text": "Reading."},
        {"functionCall": {"name": "read", "args": {"path": "a"}, "id": "f1"}, "thoughtSignature": "YQ=="},
        {"functionCall": {"name": "read", "args": {}, "id": "f2"}},
        {"text": "", "thoughtSignature": "Yg=="},
    ]);
    let (_, message) = decode_events("gemini", &[&event(sent.clone()), &end("STOP")]).expect("it is read");
    let request = ChatRequest {
        messages: vec![Message::human("x"), Message::Ai(message)].into(),
        ..ChatRequest::default()
    };
    let body = body_json(Provider::Gemini, &request, &official_target("gemini-3-pro"));
    assert_eq!(body["contents"][1]["parts"], sent);
}

#[test]
fn text_thinking_and_usage_are_streamed() {
    let usage = json!({
        "candidates": [{"content": {"parts": [{"text": "ört"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 12, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 5},
    });
    let (parts, message) = decode_events(
        "gemini",
        &[
            &event(json!([{"text": "Hm", "thought": true}])),
            &event(json!([{"text": ", so.", "thought": true}])),
            &event(json!([{"text": "W"}])),
            &usage.to_string(),
        ],
    )
    .expect("it is read");
    assert_eq!(
        parts,
        [
            AnswerPart::Thinking("Hm".into()),
            AnswerPart::Thinking(", so.".into()),
            AnswerPart::Text("W".into()),
            AnswerPart::Text("ört".into()),
        ]
    );
    let thinking =
        ContentBlock::Thinking { text: "Hm, so.".into(), provider: Some("gemini".into()), raw: None };
    let AiMessage { id, content, usage, stop, .. } = message;
    assert_eq!(content, [thinking, ContentBlock::text("Wört")]);
    assert_eq!((id.as_deref(), stop), (Some("r1"), Some(StopReason::EndTurn)));
    let expected = Usage { input_tokens: 12, output_tokens: 8, cache_read_tokens: 4, cache_write_tokens: 0 };
    assert_eq!(usage, Some(expected));
}

#[test]
fn calls_without_ids_get_unique_ones() {
    let call = json!({"functionCall": {"name": "read", "args": {"path": "a"}}});
    let (parts, message) =
        decode_events("gemini", &[&event(json!([call, call])), &end("STOP")]).expect("it is read");
    assert_eq!(
        parts,
        [
            AnswerPart::ToolCall { id: "call_x1".into(), name: "read".into() },
            AnswerPart::ToolCall { id: "call_x2".into(), name: "read".into() },
        ]
    );
    assert_eq!(message.stop, Some(StopReason::ToolCalls));
    assert!(
        matches!(&message.content[0], ContentBlock::ToolCall { args, .. } if args == &json!({"path": "a"}))
    );
}

#[test]
fn parts_of_another_kind_are_stored_unchanged() {
    let raw = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let (_, message) = decode_events("gemini", &[&event(json!([raw])), &end("STOP")]).expect("it is read");
    assert_eq!(message.content, [ContentBlock::Opaque { provider: "gemini".into(), raw }]);
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let (parts, message) =
        decode_events("gemini", &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]).expect("it is read");
    assert_eq!((parts, message.stop), (vec![], Some(StopReason::Refusal)));
}

#[test]
fn every_reason_to_stop_is_known() {
    for (reason, expected) in [
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("MALFORMED_FUNCTION_CALL", StopReason::Other),
    ] {
        let (_, message) = decode_events("gemini", &[&end(reason)]).expect("it is read");
        assert_eq!(message.stop, Some(expected), "{reason}");
    }
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    let event = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert!(
        matches!(decode_fault("gemini", &[event]), AnswerFault::Reported(report) if report.status == 503)
    );
}
