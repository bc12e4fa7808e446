//! The traps of Gemini, one test each; the fixtures are written by hand after the format's description.

use protocol::{AiMessage, Block, Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::{ChatRequest, Part};
use crate::name::Provider;
use crate::settings::Effort;
use crate::wire::fixture::{built, conversation, fault, read, target};
use crate::wire::{Fault, Target};

fn request() -> ChatRequest {
    conversation(Provider::Gemini, json!({"text": "Two files.", "thought": true, "thoughtSignature": "c2ln"}))
}

fn event(parts: Value) -> String {
    json!({"responseId": "r1", "candidates": [{"content": {"role": "model", "parts": parts}}]}).to_string()
}

fn end(reason: &str) -> String {
    json!({"candidates": [{"content": {"parts": []}, "finishReason": reason}]}).to_string()
}

#[test]
fn body_of_a_conversation() {
    insta::assert_json_snapshot!(built(Provider::Gemini, &request(), &target("gemini-2.5-pro")));
}

#[test]
fn thinking_is_asked_for_in_the_models_own_way() {
    let asked = |model| {
        let target = Target { effort: Some(Effort::Medium), ..target(model) };
        built(Provider::Gemini, &request(), &target)["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(asked("gemini-2.0-flash"), json!(null));
    assert_eq!(asked("gemini-2.5-pro"), json!({"includeThoughts": true, "thinkingBudget": 8192}));
    assert_eq!(asked("gemini-3-pro"), json!({"includeThoughts": true, "thinkingLevel": "high"}));
}

#[test]
fn a_schema_is_enforced_unless_there_are_tools() {
    let mut request = request();
    request.answer_schema = Some(json!({"type": "object"}));
    assert!(built(Provider::Gemini, &request, &target("gemini-2.5-pro")).get("generationConfig").is_none());
    request.tools = crate::Tools::default();
    let body = built(Provider::Gemini, &request, &target("gemini-2.5-pro"));
    assert_eq!(body["generationConfig"]["responseJsonSchema"], json!({"type": "object"}));
}

#[test]
fn calls_of_other_models_are_marked_for_gemini_3() {
    let body = built(Provider::Gemini, &request(), &target("gemini-3-pro"));
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
    let (_, message) = read("gemini", &[&event(sent.clone()), &end("STOP")]).expect("it is read");
    let request = ChatRequest {
        messages: vec![Message::human("x"), Message::Ai(message)].into(),
        ..ChatRequest::default()
    };
    let body = built(Provider::Gemini, &request, &target("gemini-3-pro"));
    assert_eq!(body["contents"][1]["parts"], sent);
}

#[test]
fn text_thinking_and_usage_are_streamed() {
    let usage = json!({
        "candidates": [{"content": {"parts": [{"text": "ört"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 12, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 5},
    });
    let (parts, message) = read(
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
            Part::Thinking("Hm".into()),
            Part::Thinking(", so.".into()),
            Part::Text("W".into()),
            Part::Text("ört".into()),
        ]
    );
    let thinking = Block::Thinking { text: "Hm, so.".into(), provider: Some("gemini".into()), raw: None };
    let AiMessage { id, content, usage, stop, .. } = message;
    assert_eq!(content, [thinking, Block::text("Wört")]);
    assert_eq!((id.as_deref(), stop), (Some("r1"), Some(StopReason::EndTurn)));
    let expected = Usage { input_tokens: 12, output_tokens: 8, cache_read_tokens: 4, cache_write_tokens: 0 };
    assert_eq!(usage, Some(expected));
}

#[test]
fn calls_without_ids_get_unique_ones() {
    let call = json!({"functionCall": {"name": "read", "args": {"path": "a"}}});
    let (parts, message) = read("gemini", &[&event(json!([call, call])), &end("STOP")]).expect("it is read");
    assert_eq!(
        parts,
        [
            Part::ToolCall { id: "call_x1".into(), name: "read".into() },
            Part::ToolCall { id: "call_x2".into(), name: "read".into() },
        ]
    );
    assert_eq!(message.stop, Some(StopReason::ToolCalls));
    assert!(matches!(&message.content[0], Block::ToolCall { args, .. } if args == &json!({"path": "a"})));
}

#[test]
fn parts_of_another_kind_are_kept_as_they_came() {
    let raw = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let (_, message) = read("gemini", &[&event(json!([raw])), &end("STOP")]).expect("it is read");
    assert_eq!(message.content, [Block::Opaque { provider: "gemini".into(), raw }]);
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let (parts, message) =
        read("gemini", &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]).expect("it is read");
    assert_eq!((parts, message.stop), (vec![], Some(StopReason::Refusal)));
}

#[test]
fn every_reason_to_stop_is_known() {
    for (reason, expected) in [
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("MALFORMED_FUNCTION_CALL", StopReason::Other),
    ] {
        let (_, message) = read("gemini", &[&end(reason)]).expect("it is read");
        assert_eq!(message.stop, Some(expected), "{reason}");
    }
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    let event = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert!(matches!(fault("gemini", &[event]), Fault::Reported(report) if report.status == 503));
}
