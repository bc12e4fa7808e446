//! The server side of Gemini's `streamGenerateContent`.

use serde_json::{Value, json};

use super::{ReplyEvents, SseEvent};
use crate::script::{ScriptedReply, ScriptedStop};

/// Returns the events of a reply in this format.
pub(super) fn events(reply: &ScriptedReply, number: usize) -> ReplyEvents {
    let id = format!("response-{number}");
    let event = |part: Value| {
        SseEvent::unnamed(
            &json!({"responseId": id, "candidates": [{"content": {"role": "model", "parts": [part]}}]}),
        )
    };
    let mut content: Vec<SseEvent> =
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
        ScriptedStop::EndTurn | ScriptedStop::ToolCalls => "STOP",
        ScriptedStop::MaxTokens => "MAX_TOKENS",
        ScriptedStop::Refusal => "SAFETY",
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
    ReplyEvents { content, end: vec![SseEvent::unnamed(&end)] }
}

/// Returns the event that reports an overload inside a stream.
pub(super) fn overloaded_event() -> SseEvent {
    SseEvent::unnamed(&json!({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}))
}
