//! The body of a Chat Completions request. It expects a legal conversation.

use protocol::message::joined_text;
use protocol::{AiMessage, Block, Message};
use serde_json::{Map, Value, json};

use crate::chat::ChatRequest;
use crate::wire::schema::is_strict;
use crate::wire::{Endpoint, Target};

/// Returns the body of a request.
pub(in crate::wire) fn body(request: &ChatRequest, messages: &[Message], target: &Target<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(target.model));
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if let Some(max) = request.max_output_tokens {
        let name = match target.endpoint {
            Endpoint::Official => "max_completion_tokens",
            Endpoint::Compatible => "max_tokens",
        };
        body.insert(name.into(), json!(max));
    }
    if let Some(effort) = target.effort {
        body.insert("reasoning_effort".into(), json!(effort.as_str()));
    }
    body.insert("messages".into(), Value::Array(turns(&request.system, messages)));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".into(), tools.collect());
    }
    if let Some(schema) = &request.answer_schema {
        let format = json!({"name": "answer", "schema": schema, "strict": is_strict(schema)});
        body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": format}));
    }
    Value::Object(body)
}

fn turns(system: &[String], messages: &[Message]) -> Vec<Value> {
    let mut turns = Vec::with_capacity(messages.len() + 1);
    // Many templates of local models take one system message only.
    let system: Vec<&str> =
        system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        turns.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    let loop_start = messages.iter().rposition(|message| matches!(message, Message::Human(_))).unwrap_or(0);
    for (index, message) in messages.iter().enumerate() {
        turns.push(match message {
            Message::Human(_) => json!({"role": "user", "content": message.text()}),
            Message::Tool(tool) => {
                json!({"role": "tool", "tool_call_id": tool.call_id, "content": message.text()})
            }
            Message::Ai(ai) if index > loop_start => with_reasoning(assistant(ai), &ai.content),
            Message::Ai(ai) => assistant(ai),
        });
    }
    turns
}

/// Returns a message of the model without its reasoning.
fn assistant(ai: &AiMessage) -> Value {
    let text = joined_text(&ai.content);
    let mut turn =
        json!({"role": "assistant", "content": if text.is_empty() { Value::Null } else { json!(text) }});
    let calls: Vec<Value> = ai.content.iter().filter_map(call).collect();
    if !calls.is_empty() {
        turn["tool_calls"] = Value::Array(calls);
    }
    turn
}

fn call(block: &Block) -> Option<Value> {
    match block {
        Block::ToolCall { id, name, args } => {
            let function = json!({"name": name, "arguments": args.to_string()});
            Some(json!({"id": id, "type": "function", "function": function}))
        }
        Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => None,
    }
}

/// Adds the reasoning under the name it came with.
fn with_reasoning(mut turn: Value, content: &[Block]) -> Value {
    for block in content {
        if let Block::Thinking { raw: Some(Value::Object(fields)), .. } = block {
            for (name, value) in fields {
                turn[name] = value.clone();
            }
        }
    }
    turn
}
