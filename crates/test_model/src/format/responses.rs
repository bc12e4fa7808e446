//! The server side of OpenAI's Responses API, streamed.

use serde_json::{Value, json};

use super::{ReplyEvents, SseEvent, split_args};
use crate::script::{ScriptedCall, ScriptedReply, ScriptedStop};

/// Returns the events of a reply in this format.
pub(super) fn events(reply: &ScriptedReply, number: usize) -> ReplyEvents {
    let id = format!("resp_{number}");
    let mut content =
        vec![json!({"type": "response.created", "response": {"id": id, "status": "in_progress"}})];
    let mut items = 0;
    if !reply.thinking.is_empty() {
        content.extend(reasoning_events(&reply.thinking, items, number));
        items += 1;
    }
    if !reply.text.is_empty() {
        content.extend(message_events(&reply.text, items, number));
        items += 1;
    }
    for call in &reply.calls {
        content.extend(function_call_events(call, items));
        items += 1;
    }
    let tokens = reply.tokens_or_default();
    let usage = json!({
        "input_tokens": tokens.input, "output_tokens": tokens.output,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
    });
    let incomplete = |reason: &str| {
        let response = json!({"id": id, "status": "incomplete", "incomplete_details": {"reason": reason}, "usage": usage});
        json!({"type": "response.incomplete", "response": response})
    };
    let end = match reply.stop_or_default() {
        ScriptedStop::EndTurn | ScriptedStop::ToolCalls => {
            json!({"type": "response.completed", "response": {"id": id, "status": "completed", "usage": usage}})
        }
        ScriptedStop::MaxTokens => incomplete("max_output_tokens"),
        ScriptedStop::Refusal => incomplete("content_filter"),
    };
    ReplyEvents {
        content: content.iter().map(SseEvent::named_by_type).collect(),
        end: vec![SseEvent::named_by_type(&end)],
    }
}

fn item_added_event(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn item_done_event(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn reasoning_events(pieces: &[String], index: u64, number: usize) -> Vec<Value> {
    let id = format!("rs_{number}");
    let mut events = vec![
        item_added_event(index, &json!({"id": id, "type": "reasoning", "summary": []})),
        json!({"type": "response.reasoning_summary_part.added", "output_index": index, "summary_index": 0}),
    ];
    events.extend(pieces.iter().map(|text| {
        json!({"type": "response.reasoning_summary_text.delta", "output_index": index, "summary_index": 0, "delta": text})
    }));
    let summary = json!([{"type": "summary_text", "text": pieces.concat()}]);
    let encrypted = format!("encrypted-{number}");
    let item = json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted});
    events.push(item_done_event(index, &item));
    events
}

fn message_events(pieces: &[String], index: u64, number: usize) -> Vec<Value> {
    let id = format!("item_{number}");
    let mut events = vec![item_added_event(
        index,
        &json!({"id": id, "type": "message", "role": "assistant", "content": []}),
    )];
    events.extend(pieces.iter().map(|text| {
        json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": text})
    }));
    let content = json!([{"type": "output_text", "text": pieces.concat()}]);
    events.push(item_done_event(
        index,
        &json!({"id": id, "type": "message", "role": "assistant", "content": content}),
    ));
    events
}

fn function_call_events(call: &ScriptedCall, index: u64) -> Vec<Value> {
    let item = |arguments: String| {
        json!({"id": format!("fc_{index}"), "type": "function_call", "call_id": call.id, "name": call.name,
               "arguments": arguments})
    };
    let mut events = vec![item_added_event(index, &item(String::new()))];
    events.extend(split_args(&call.args).map(|piece| {
        json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece})
    }));
    events.push(item_done_event(index, &item(call.args.to_string())));
    events
}

/// Returns the event that reports an overload inside a stream.
pub(super) fn overloaded_event() -> SseEvent {
    let error = json!({"code": "server_is_overloaded", "message": "Overloaded"});
    SseEvent::named_by_type(
        &json!({"type": "response.failed", "response": {"status": "failed", "error": error}}),
    )
}
