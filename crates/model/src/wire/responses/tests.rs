//! Tests of the pitfalls of Responses, one test each. The fixtures are written by hand from the format's
//! documentation.

use protocol::{ContentBlock, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::name::Provider;
use crate::settings::Effort;
use crate::wire::fixture::{body_json, decode_events, decode_fault, official_target, sample_request};
use crate::wire::{AnswerFault, RequestTarget};

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Two files."}],"encrypted_content":"Z2E="}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":4},"output_tokens":3}}}"#;

fn raw() -> Value {
    serde_json::from_str(REASONING).expect("it is JSON")
}

#[test]
fn body_of_a_conversation() {
    let target = RequestTarget { effort: Some(Effort::High), ..official_target("gpt-5") };
    insta::assert_json_snapshot!(body_json(
        Provider::OpenAi,
        &sample_request(Provider::OpenAi, raw()),
        &target
    ));
}

#[test]
fn encrypted_reasoning_is_asked_of_models_that_reason() {
    let request = sample_request(Provider::OpenAi, raw());
    for (model, is_requested) in [
        ("gpt-5.1-codex", true),
        ("o4-mini", true),
        ("codex-mini-latest", true),
        ("gpt-5-chat-latest", false),
        ("gpt-4.1", false),
        ("omni-moderation", false),
    ] {
        assert_eq!(
            body_json(Provider::OpenAi, &request, &official_target(model)).get("include").is_some(),
            is_requested,
            "{model}"
        );
    }
}

#[test]
fn reasoning_that_cannot_be_sent_back_is_not() {
    let request = sample_request(Provider::OpenAi, json!({"id": "rs_1", "type": "reasoning", "summary": []}));
    let body = body_json(Provider::OpenAi, &request, &official_target("gpt-5"));
    assert!(
        body["input"].as_array().is_some_and(|items| items.iter().all(|item| item["type"] != "reasoning"))
    );
}

#[test]
fn the_shortest_limit_is_sixteen_tokens() {
    let mut request = sample_request(Provider::OpenAi, raw());
    for (requested, sent) in [(5, 16), (100, 100)] {
        request.max_output_tokens = Some(requested);
        assert_eq!(
            body_json(Provider::OpenAi, &request, &official_target("gpt-5"))["max_output_tokens"],
            sent
        );
    }
}

#[test]
fn reasoning_and_text_are_streamed_and_the_item_is_stored_unchanged() {
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{REASONING}}}"#);
    let (parts, message) = decode_events("openai", &[
        r#"{"type":"response.created","response":{"id":"resp_1"}}"#,
        r#"{"type":"response.in_progress","response":{"id":"resp_1"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Two "}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"files."}"#,
        &done,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","content":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Fé"}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":1,"delta":"rtig"}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Fé"},{"type":"output_text","text":"rtig"}]}}"#,
        COMPLETED,
    ])
    .expect("it is read");
    assert_eq!(
        parts,
        [
            AnswerPart::Thinking("Two ".into()),
            AnswerPart::Thinking("files.".into()),
            AnswerPart::Text("Fé".into()),
            AnswerPart::Text("\nrtig".into()),
        ]
    );
    let thinking = ContentBlock::Thinking {
        text: "Two files.".into(),
        provider: Some("openai".into()),
        raw: Some(raw()),
    };
    assert_eq!(message.content, [thinking, ContentBlock::text("Fé"), ContentBlock::text("rtig")]);
    assert_eq!((message.id.as_deref(), message.stop), (Some("resp_1"), Some(StopReason::EndTurn)));
    let expected = Usage { input_tokens: 12, output_tokens: 3, cache_read_tokens: 4, cache_write_tokens: 0 };
    assert_eq!(message.usage, Some(expected));
}

#[test]
fn parallel_calls_with_pieces_of_arguments() {
    let (_, message) = decode_events("openai", &[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":""}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_2","type":"function_call","call_id":"call_2","name":"list","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"path\":"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"\"a\"}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"path\":\"a\"}"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\"}"}}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"call_2","name":"list","arguments":"{\"dir\":\".\"}"}}"#,
        COMPLETED,
    ])
    .expect("it is read");
    assert_eq!(
        message.content,
        [
            ContentBlock::ToolCall { id: "call_1".into(), name: "read".into(), args: json!({"path": "a"}) },
            ContentBlock::ToolCall { id: "call_2".into(), name: "list".into(), args: json!({"dir": "."}) },
        ]
    );
    assert_eq!(message.stop, Some(StopReason::ToolCalls));
}

#[test]
fn a_finished_item_fills_in_what_was_not_streamed() {
    let reasoning = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{REASONING}}}"#);
    let (parts, message) = decode_events("openai", &[
        &reasoning,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"web_search_call","id":"ws_1"}}"#,
        COMPLETED,
        "[DONE]",
    ])
    .expect("it is read");
    assert_eq!(parts, [AnswerPart::Thinking("Two files.".into()), AnswerPart::Text("Hi".into())]);
    assert_eq!(message.content.len(), 3);
    assert!(matches!(&message.content[2], ContentBlock::Opaque { provider, .. } if provider == "openai"));
}

#[test]
fn every_reason_to_stop_is_known() {
    for (reason, expected) in [
        ("max_output_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("other", StopReason::Other),
    ] {
        let event =
            json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}})
                .to_string();
        let (_, message) = decode_events("openai", &[&event]).expect("it is read");
        assert_eq!(message.stop, Some(expected), "{reason}");
    }
    let refusal = r#"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"No."}"#;
    let (_, message) = decode_events("openai", &[refusal, COMPLETED]).expect("it is read");
    assert_eq!((message.stop, message.content), (Some(StopReason::Refusal), vec![ContentBlock::text("No.")]));
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    for (event, status) in [
        (
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}"#,
            429,
        ),
        (r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#, 500),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"x"}}}"#,
            413,
        ),
        (r#"{"type":"error","code":"server_error","message":"x"}"#, 500),
    ] {
        assert!(
            matches!(decode_fault("openai", &[event]), AnswerFault::Reported(report) if report.status == status),
            "{event}"
        );
    }
}
