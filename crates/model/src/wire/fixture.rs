//! Fixtures for the tests of all providers: one conversation with every kind of content, and functions that feed
//! a decoder.

use std::sync::Arc;

use protocol::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::{
    AnswerDecoder, AnswerFault, AnswerProgress, CallIds, Endpoint, OptionalFields, RequestTarget,
    new_decoder, request_body,
};
use crate::chat::{AnswerPart, ChatRequest, ToolSpec};
use crate::name::{ModelName, Provider};
use crate::transcript::{ProviderProfile, legalize};

/// Returns a request with instructions, a parallel batch, reasoning, a failed result and a tool.
pub(crate) fn sample_request(provider: Provider, thinking: Value) -> ChatRequest {
    let call = |id: &str, path: &str| ContentBlock::ToolCall {
        id: id.into(),
        name: "read".into(),
        args: json!({"path": path}),
    };
    let result = |id: &str, text: &str, status| {
        let content = vec![ContentBlock::text(text)];
        Message::Tool(ToolMessage { id: None, call_id: id.into(), name: None, content, status })
    };
    let provider_name = provider.as_str().to_owned();
    ChatRequest {
        system: vec!["You are an agent.".into(), "Rules.".into()],
        messages: Arc::new(vec![
            Message::human("Read both."),
            Message::Ai(AiMessage {
                content: vec![
                    ContentBlock::Thinking { text: "Two files.".into(), provider: Some(provider_name), raw: Some(thinking) },
                    ContentBlock::text("Reading."),
                    call("call_a", "a.rs"),
                    call("call_b", "b.rs"),
                ],
                ..AiMessage::default()
            }),
            result("call_b", "no such file", ToolStatus::Error),
            result("call_a", "fn a() {}", ToolStatus::Success),
            Message::human("And now?"),
        ]),
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        }]
        .into(),
        ..ChatRequest::default()
    }
}

/// Returns a target at the provider's own endpoint, without an effort.
pub(crate) fn official_target(model: &str) -> RequestTarget<'_> {
    RequestTarget {
        model,
        effort: None,
        output_tokens: None,
        endpoint: Endpoint::Official,
        fields: OptionalFields::default(),
    }
}

/// Returns the body of a request as JSON, after making its conversation legal.
pub(crate) fn body_json(provider: Provider, request: &ChatRequest, target: &RequestTarget<'_>) -> Value {
    serde_json::from_slice(&body_bytes(provider, request, target)).expect("the body is JSON")
}

/// Returns the bytes of a request's body, after making its conversation legal.
pub(crate) fn body_bytes(provider: Provider, request: &ChatRequest, target: &RequestTarget<'_>) -> Vec<u8> {
    let conversation = legalize(&request.messages, &request.media, &ProviderProfile::for_provider(provider));
    request_body(provider, request, &conversation, target).expect("the body is written")
}

/// Feeds the events to a new decoder and returns the parts and the answer. Checks that the parts add up to the
/// answer.
pub(crate) fn decode_events(
    provider: &str,
    events: &[&str],
) -> Result<(Vec<AnswerPart>, AiMessage), AnswerFault> {
    let model: ModelName = format!("{provider}/m").parse().expect("a provider's name");
    let mut decoder = new_decoder(&model, CallIds::for_conversation(Arc::default(), "x".into()));
    let mut parts = Vec::new();
    for event in events {
        parts.extend(decoder.feed(event)?);
    }
    assert_ne!(decoder.progress(), AnswerProgress::Incomplete, "the fixture ends");
    let message = decoder.finish();
    assert_eq!(
        parts_text(&parts),
        Message::Ai(message.clone()).text(),
        "the text parts joined equal the whole text"
    );
    assert_eq!(
        parts_thinking(&parts),
        message_thinking(&message),
        "and the reasoning parts the whole reasoning"
    );
    Ok((parts, message))
}

/// Returns the fault with which the events end.
pub(crate) fn decode_fault(provider: &str, events: &[&str]) -> AnswerFault {
    let model: ModelName = format!("{provider}/m").parse().expect("a provider's name");
    let mut decoder: Box<dyn AnswerDecoder> =
        new_decoder(&model, CallIds::for_conversation(Arc::default(), "x".into()));
    events.iter().find_map(|event| decoder.feed(event).err()).expect("the events end in a fault")
}

/// Returns the concatenated texts of the parts.
fn parts_text(parts: &[AnswerPart]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            AnswerPart::Text(text) => Some(text.as_str()),
            AnswerPart::Thinking(_)
            | AnswerPart::ToolCall { .. }
            | AnswerPart::Retry(_)
            | AnswerPart::Done(_) => None,
        })
        .collect()
}

/// Returns the concatenated reasoning of the parts.
fn parts_thinking(parts: &[AnswerPart]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            AnswerPart::Thinking(text) => Some(text.as_str()),
            AnswerPart::Text(_)
            | AnswerPart::ToolCall { .. }
            | AnswerPart::Retry(_)
            | AnswerPart::Done(_) => None,
        })
        .collect()
}

/// Returns the reasoning of a message, one block per line.
fn message_thinking(message: &AiMessage) -> String {
    let texts: Vec<&str> = message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Thinking { text, .. } if !text.is_empty() => Some(text.as_str()),
            ContentBlock::Thinking { .. }
            | ContentBlock::Text { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        })
        .collect();
    texts.join("\n")
}
