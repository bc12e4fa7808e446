//! The server side of Anthropic's Messages API, streamed.

use serde_json::{Value, json};

use super::{ReplyEvents, SseEvent, split_args};
use crate::script::{ScriptedReply, ScriptedStop};

/// Returns the events of a reply in this format.
pub(super) fn events(reply: &ScriptedReply, number: usize) -> ReplyEvents {
    let tokens = reply.tokens_or_default();
    let id = format!("msg_{number}");
    // In this format, `input_tokens` excludes the tokens that were read from or written to the cache.
    let uncached = tokens.input.saturating_sub(tokens.cache_read + tokens.cache_write);
    let usage = json!({
        "input_tokens": uncached, "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write, "output_tokens": 1,
    });
    let mut content = vec![
        json!({"type": "message_start", "message": {"id": id, "role": "assistant", "content": [], "usage": usage}}),
        json!({"type": "ping"}),
    ];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        content.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        content.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        content.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !reply.thinking.is_empty() {
        let pieces = reply.thinking.iter().map(|text| json!({"type": "thinking_delta", "thinking": text}));
        let signature = json!({"type": "signature_delta", "signature": format!("signature-{number}")});
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            pieces.chain([signature]).collect(),
        );
    }
    if !reply.text.is_empty() {
        let pieces = reply.text.iter().map(|text| json!({"type": "text_delta", "text": text}));
        block(json!({"type": "text", "text": ""}), pieces.collect());
    }
    for call in &reply.calls {
        let pieces =
            split_args(&call.args).map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        block(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}), pieces.to_vec());
    }
    let content = content.iter().map(SseEvent::named_by_type).collect();
    ReplyEvents { content, end: end_events(reply).iter().map(SseEvent::named_by_type).collect() }
}

/// Returns the final events, with stop reason and usage.
fn end_events(reply: &ScriptedReply) -> [Value; 2] {
    let reason = match reply.stop_or_default() {
        ScriptedStop::EndTurn => "end_turn",
        ScriptedStop::ToolCalls => "tool_use",
        ScriptedStop::MaxTokens => "max_tokens",
        ScriptedStop::Refusal => "refusal",
    };
    let usage = json!({"output_tokens": reply.tokens_or_default().output});
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

/// Returns the event that reports an overload inside a stream.
pub(super) fn overloaded_event() -> SseEvent {
    SseEvent::named_by_type(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    )
}
