//! What the providers' tests share: one conversation with everything in it, and a way to feed a decoder.

use std::sync::Arc;

use protocol::{AiMessage, Block, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::{CallIds, Decoder, Endpoint, Fault, Progress, Target, body, decoder};
use crate::chat::{ChatRequest, Part, ToolSpec};
use crate::name::{ModelName, Provider};
use crate::transcript::{Profile, legal};

/// Returns a request with instructions, a parallel batch, reasoning, a failed result and a tool.
pub(crate) fn conversation(provider: Provider, thinking: Value) -> ChatRequest {
    let call = |id: &str, path: &str| Block::ToolCall {
        id: id.into(),
        name: "read".into(),
        args: json!({"path": path}),
    };
    let result = |id: &str, text: &str, status| {
        let content = vec![Block::text(text)];
        Message::Tool(ToolMessage { id: None, call_id: id.into(), name: None, content, status })
    };
    let own = provider.as_str().to_owned();
    ChatRequest {
        system: vec!["You are an agent.".into(), "Rules.".into()],
        messages: Arc::new(vec![
            Message::human("Read both."),
            Message::Ai(AiMessage {
                content: vec![
                    Block::Thinking { text: "Two files.".into(), provider: Some(own), raw: Some(thinking) },
                    Block::text("Reading."),
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

/// Returns a target without effort, at the provider itself.
pub(crate) fn target(model: &str) -> Target<'_> {
    Target { model, effort: None, output_tokens: None, endpoint: Endpoint::Official }
}

/// Returns the body of a request, its conversation made legal first.
pub(crate) fn built(provider: Provider, request: &ChatRequest, target: &Target<'_>) -> Value {
    serde_json::from_slice(&written(provider, request, target)).expect("the body is JSON")
}

/// Returns the bytes of a request's body, its conversation made legal first.
pub(crate) fn written(provider: Provider, request: &ChatRequest, target: &Target<'_>) -> Vec<u8> {
    let conversation = legal(&request.messages, &request.media, &Profile::of(provider));
    body(provider, request, &conversation, target).expect("the body is written")
}

/// Feeds events to a fresh decoder; whitespace between the events does not matter.
pub(crate) fn read(provider: &str, events: &[&str]) -> Result<(Vec<Part>, AiMessage), Fault> {
    let model: ModelName = format!("{provider}/m").parse().expect("a provider's name");
    let mut decoder = decoder(&model, CallIds::of(Arc::default(), "x".into()));
    let mut parts = Vec::new();
    for event in events {
        parts.extend(decoder.feed(event)?);
    }
    assert_ne!(decoder.progress(), Progress::Open, "the fixture ends");
    let message = decoder.finish();
    assert_eq!(
        text_of(&parts),
        Message::Ai(message.clone()).text(),
        "the text parts joined equal the whole text"
    );
    assert_eq!(thinking_of(&parts), thinking_in(&message), "and the reasoning parts the whole reasoning");
    Ok((parts, message))
}

/// Returns the fault that the events end in.
pub(crate) fn fault(provider: &str, events: &[&str]) -> Fault {
    let model: ModelName = format!("{provider}/m").parse().expect("a provider's name");
    let mut decoder: Box<dyn Decoder> = decoder(&model, CallIds::of(Arc::default(), "x".into()));
    events.iter().find_map(|event| decoder.feed(event).err()).expect("the events end in a fault")
}

fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Thinking(_) | Part::ToolCall { .. } | Part::Done(_) => None,
        })
        .collect()
}

fn thinking_of(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Thinking(text) => Some(text.as_str()),
            Part::Text(_) | Part::ToolCall { .. } | Part::Done(_) => None,
        })
        .collect()
}

fn thinking_in(message: &AiMessage) -> String {
    let texts: Vec<&str> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Thinking { text, .. } if !text.is_empty() => Some(text.as_str()),
            Block::Thinking { .. }
            | Block::Text { .. }
            | Block::ToolCall { .. }
            | Block::Media { .. }
            | Block::Opaque { .. } => None,
        })
        .collect();
    texts.join("\n")
}
