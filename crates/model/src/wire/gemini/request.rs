//! The body of a `streamGenerateContent` request. It expects a legal conversation.

use protocol::{Block, Message, ToolMessage, ToolStatus};
use serde_json::{Map, Value, json};

use crate::chat::ChatRequest;
use crate::settings::Effort;
use crate::wire::Target;

/// What the provider documents for calls that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// How far a model's signatures are demanded and how it is asked to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// Before 2.5: no reasoning.
    Plain,
    /// 2.5: reasoning by a budget.
    Budgeted,
    /// 3 and later: reasoning by a level, ids of calls, signatures demanded.
    Leveled,
}

/// Returns the body of a request.
pub(in crate::wire) fn body(request: &ChatRequest, messages: &[Message], target: &Target<'_>) -> Value {
    let generation = generation(target.model);
    let mut body = Map::new();
    let system: Vec<Value> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| json!({"text": text}))
        .collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    body.insert("contents".into(), Value::Array(contents(messages, generation)));
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
            })
            .collect();
        body.insert("tools".into(), json!([{"functionDeclarations": tools}]));
    }
    let config = generation_config(request, target.effort, generation);
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
    Value::Object(body)
}

fn generation_config(
    request: &ChatRequest,
    effort: Option<Effort>,
    generation: Generation,
) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(max) = request.max_output_tokens {
        config.insert("maxOutputTokens".into(), json!(max));
    }
    let thinking = effort.and_then(|effort| match generation {
        Generation::Plain => None,
        Generation::Budgeted => {
            Some(json!({"includeThoughts": true, "thinkingBudget": effort.budget_tokens()}))
        }
        // Not every model of the generation has a level between the two.
        Generation::Leveled => {
            let level = if effort == Effort::Low { "low" } else { "high" };
            Some(json!({"includeThoughts": true, "thinkingLevel": level}))
        }
    });
    config.extend(thinking.map(|thinking| ("thinkingConfig".to_owned(), thinking)));
    // Older models refuse a schema beside tools.
    if let Some(schema) = &request.answer_schema
        && request.tools.is_empty()
    {
        config.insert("responseMimeType".into(), json!("application/json"));
        config.insert("responseJsonSchema".into(), schema.clone());
    }
    config
}

fn generation(model: &str) -> Generation {
    let version = model.split_once("gemini-").map_or("", |(_, version)| version);
    match version.split('-').next().unwrap_or_default() {
        "2.5" => Generation::Budgeted,
        version if version.starts_with(|c: char| ('3'..='9').contains(&c)) => Generation::Leveled,
        _ => Generation::Plain,
    }
}

fn contents(messages: &[Message], generation: Generation) -> Vec<Value> {
    let mut contents: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, parts) = match message {
            Message::Human(_) => ("user", parts(message.content(), generation)),
            Message::Ai(_) => ("model", parts(message.content(), generation)),
            Message::Tool(tool) => ("user", vec![response(tool, message.text(), generation)]),
        };
        match contents.last_mut() {
            Some((before, content)) if *before == role => content.extend(parts),
            Some(_) | None => contents.push((role, parts)),
        }
    }
    contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

fn parts(content: &[Block], generation: Generation) -> Vec<Value> {
    let mut parts = Vec::with_capacity(content.len());
    let mut signature: Option<&Value> = None;
    let mut is_first_call = true;
    for block in content {
        let mut part = match block {
            Block::Text { text } => json!({"text": text}),
            Block::Thinking { raw: Some(raw), .. } => {
                match raw.get("text") {
                    Some(_) => parts.push(raw.clone()),
                    None => signature = raw.get("thoughtSignature"),
                }
                continue;
            }
            Block::ToolCall { id, name, args } => {
                let mut call = json!({"name": name, "args": args});
                if generation == Generation::Leveled {
                    call["id"] = json!(id);
                }
                let mut part = json!({"functionCall": call});
                // Only the first call of a batch is signed, and only the newer models insist.
                if generation == Generation::Leveled && is_first_call && signature.is_none() {
                    part["thoughtSignature"] = json!(FOREIGN_SIGNATURE);
                }
                is_first_call = false;
                part
            }
            Block::Opaque { raw, .. } => raw.clone(),
            Block::Thinking { raw: None, .. } | Block::Media { .. } => continue,
        };
        if let Some(signature) = signature.take() {
            part["thoughtSignature"] = signature.clone();
        }
        parts.push(part);
    }
    parts
}

fn response(tool: &ToolMessage, text: String, generation: Generation) -> Value {
    let field = match tool.status {
        ToolStatus::Success => "output",
        ToolStatus::Error => "error",
    };
    let mut response = json!({"name": tool.name, "response": {field: text}});
    if generation == Generation::Leveled {
        response["id"] = json!(tool.call_id);
    }
    json!({"functionResponse": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_generation() {
        for (model, expected) in [
            ("gemini-1.5-pro", Generation::Plain),
            ("gemini-2.0-flash", Generation::Plain),
            ("gemini-2.5-flash-lite", Generation::Budgeted),
            ("models/gemini-3-pro-preview", Generation::Leveled),
            ("gemini-3.1-flash", Generation::Leveled),
            ("gemma-3", Generation::Plain),
        ] {
            assert_eq!(generation(model), expected, "{model}");
        }
    }
}
