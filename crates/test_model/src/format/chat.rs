//! The server side of OpenAI's Chat Completions API, streamed.

use serde_json::{Value, json};

use super::{ReplyEvents, SseEvent, split_args};
use crate::script::{ScriptedReply, ScriptedStop};

/// Returns the events of a reply in this format.
pub(super) fn events(reply: &ScriptedReply, number: usize) -> ReplyEvents {
    let id = format!("chatcmpl-{number}");
    let choice = |delta: Value, reason: Option<&str>| {
        SseEvent::unnamed(&json!({
            "id": id, "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }))
    };
    let mut content = vec![choice(json!({"role": "assistant", "content": ""}), None)];
    content.extend(reply.thinking.iter().map(|text| choice(json!({"reasoning_content": text}), None)));
    content.extend(reply.text.iter().map(|text| choice(json!({"content": text}), None)));
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let begin = json!({"index": index, "id": call.id, "type": "function", "function": function});
        content.push(choice(json!({"tool_calls": [begin]}), None));
        content.extend(split_args(&call.args).map(|piece| {
            choice(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None)
        }));
    }
    let reason = match reply.stop_or_default() {
        ScriptedStop::EndTurn => "stop",
        ScriptedStop::ToolCalls => "tool_calls",
        ScriptedStop::MaxTokens => "length",
        ScriptedStop::Refusal => "content_filter",
    };
    let tokens = reply.tokens_or_default();
    let usage = json!({
        "prompt_tokens": tokens.input, "completion_tokens": tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
    });
    let end = vec![
        choice(json!({}), Some(reason)),
        SseEvent::unnamed(&json!({"id": id, "choices": [], "usage": usage})),
        SseEvent { name: None, data: "[DONE]".to_owned() },
    ];
    ReplyEvents { content, end }
}

/// Returns the event that reports an overload inside a stream.
pub(super) fn overloaded_event() -> SseEvent {
    SseEvent::unnamed(&json!({"error": {"message": "Overloaded", "type": "overloaded", "code": 503}}))
}
