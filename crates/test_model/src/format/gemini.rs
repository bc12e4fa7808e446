//! Gemini `streamGenerateContent`, as a server speaks it.

use serde_json::{Value, json};

use super::{Event, Events};
use crate::script::{Reply, Stop};

pub(super) fn events(reply: &Reply, number: usize) -> Events {
    let id = format!("response-{number}");
    let event = |part: Value| {
        Event::unnamed(
            &json!({"responseId": id, "candidates": [{"content": {"role": "model", "parts": [part]}}]}),
        )
    };
    let mut content: Vec<Event> =
        reply.thinking.iter().map(|text| event(json!({"text": text, "thought": true}))).collect();
    content.extend(reply.text.iter().map(|text| event(json!({"text": text}))));
    content.extend(reply.calls.iter().map(|call| {
        let mut function = json!({"name": call.name, "args": call.args});
        if !call.id.is_empty() {
            function["id"] = json!(call.id);
        }
        event(json!({"functionCall": function, "thoughtSignature": format!("signature-{number}")}))
    }));
    let reason = match reply.stop_or_default() {
        Stop::EndTurn | Stop::ToolCalls => "STOP",
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    let tokens = reply.tokens_or_default();
    let end = json!({
        "responseId": id,
        "candidates": [{"content": {"role": "model", "parts": []}, "finishReason": reason}],
        "usageMetadata": {
            "promptTokenCount": tokens.input, "candidatesTokenCount": tokens.output,
            "cachedContentTokenCount": tokens.cache_read,
        },
    });
    Events { content, end: vec![Event::unnamed(&end)] }
}

pub(super) fn overloaded() -> Event {
    Event::unnamed(&json!({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}))
}
