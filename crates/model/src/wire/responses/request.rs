//! The body of a Responses request. It expects a legal conversation.

use protocol::{Block, Message};
use serde_json::{Map, Value, json};

use crate::chat::ChatRequest;
use crate::wire::Target;
use crate::wire::schema::is_strict;

/// The least limit of an answer the provider takes.
const OUTPUT_TOKENS_MIN: u64 = 16;

/// Returns the body of a request.
pub(in crate::wire) fn body(request: &ChatRequest, messages: &[Message], target: &Target<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(target.model));
    body.insert("stream".into(), json!(true));
    body.insert("store".into(), json!(false));
    if reasons(target.model) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    if let Some(effort) = target.effort {
        body.insert("reasoning".into(), json!({"effort": effort.as_str(), "summary": "auto"}));
    }
    if let Some(max) = request.max_output_tokens {
        body.insert("max_output_tokens".into(), json!(max.max(OUTPUT_TOKENS_MIN)));
    }
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        body.insert("instructions".into(), json!(system.join("\n\n")));
    }
    body.insert("input".into(), messages.iter().flat_map(items).collect());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description,
                   "parameters": tool.parameters, "strict": false})
        });
        body.insert("tools".into(), tools.collect());
    }
    if let Some(schema) = &request.answer_schema {
        let format =
            json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict(schema)});
        body.insert("text".into(), json!({"format": format}));
    }
    Value::Object(body)
}

/// Returns whether the model of that name reasons.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_o_series =
        name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_o_series
        || (name.starts_with("gpt-5") && !name.starts_with("gpt-5-chat"))
        || ["codex", "gpt-oss"].iter().any(|beginning| name.starts_with(beginning))
}

fn items(message: &Message) -> Vec<Value> {
    match message {
        Message::Human(human) => {
            let content: Vec<Value> = texts(&human.content, "input_text").collect();
            vec![json!({"type": "message", "role": "user", "content": content})]
        }
        Message::Tool(tool) => {
            vec![json!({"type": "function_call_output", "call_id": tool.call_id, "output": message.text()})]
        }
        Message::Ai(ai) => ai.content.iter().filter_map(item).collect(),
    }
}

fn texts<'a>(content: &'a [Block], kind: &'a str) -> impl Iterator<Item = Value> + 'a {
    content.iter().filter_map(move |block| match block {
        Block::Text { text } => Some(json!({"type": kind, "text": text})),
        Block::Thinking { .. } | Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => None,
    })
}

fn item(block: &Block) -> Option<Value> {
    match block {
        Block::Text { .. } => {
            let content: Vec<Value> = texts(std::slice::from_ref(block), "output_text").collect();
            Some(json!({"type": "message", "role": "assistant", "content": content}))
        }
        // Without its encrypted content the provider looks the item up by id, and it was never stored.
        Block::Thinking { raw, .. } => {
            raw.as_ref().filter(|raw| raw["encrypted_content"].is_string()).cloned()
        }
        Block::ToolCall { id, name, args } => {
            Some(json!({"type": "function_call", "call_id": id, "name": name, "arguments": args.to_string()}))
        }
        Block::Opaque { raw, .. } => Some(raw.clone()),
        Block::Media { .. } => None,
    }
}
