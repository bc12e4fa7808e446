//! OpenAI Chat Completions, as a server speaks it.

use serde_json::{Value, json};

use super::{Event, Events, halves};
use crate::script::{Reply, Stop};

pub(super) fn events(reply: &Reply, number: usize) -> Events {
    let id = format!("chatcmpl-{number}");
    let choice = |delta: Value, reason: Option<&str>| {
        Event::unnamed(&json!({
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
        content.extend(halves(&call.args).map(|piece| {
            choice(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None)
        }));
    }
    let reason = match reply.stop_or_default() {
        Stop::EndTurn => "stop",
        Stop::ToolCalls => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
    };
    let tokens = reply.tokens_or_default();
    let usage = json!({
        "prompt_tokens": tokens.input, "completion_tokens": tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
    });
    let end = vec![
        choice(json!({}), Some(reason)),
        Event::unnamed(&json!({"id": id, "choices": [], "usage": usage})),
        Event { name: None, data: "[DONE]".to_owned() },
    ];
    Events { content, end }
}

pub(super) fn overloaded() -> Event {
    Event::unnamed(&json!({"error": {"message": "Overloaded", "type": "overloaded", "code": 503}}))
}
