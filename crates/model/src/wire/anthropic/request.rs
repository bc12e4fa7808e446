//! The body of a Messages request. It expects a legal conversation.

use protocol::{Block, Message, ToolMessage, ToolStatus};
use serde_json::{Map, Value, json};

use crate::chat::ChatRequest;
use crate::settings::Effort;
use crate::wire::Target;
use crate::wire::schema::is_strict;

/// Tokens of an answer when neither the request nor the table of models says.
const OUTPUT_TOKENS: u64 = 8_192;

/// Tokens of an answer at most unless the request asks for more: older models refuse a request whose answer could
/// not fit behind it.
const OUTPUT_TOKENS_MAX: u64 = 32_000;

/// The least budget of reasoning the provider takes.
const BUDGET_TOKENS_MIN: u64 = 1_024;

/// How a model is asked to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// It cannot.
    Absent,
    /// It is given a budget of tokens.
    Budgeted,
    /// It decides itself, given an effort.
    Adaptive,
}

/// Returns the body of a request.
pub(in crate::wire) fn body(request: &ChatRequest, messages: &[Message], target: &Target<'_>) -> Value {
    let longest = target.output_tokens.unwrap_or(OUTPUT_TOKENS).min(OUTPUT_TOKENS_MAX);
    let max_tokens = request.max_output_tokens.unwrap_or(longest);
    let mut body = Map::new();
    body.insert("model".into(), json!(target.model));
    body.insert("max_tokens".into(), json!(max_tokens));
    body.insert("stream".into(), json!(true));
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}))
        .collect();
    let mut system: Vec<Value> =
        request.system.iter().filter(|text| !text.trim().is_empty()).map(|text| text_block(text)).collect();
    // Tools come before the instructions in the provider's cache, so one mark behind both is enough.
    mark_cached(system.last_mut().or(tools.last_mut()));
    if !system.is_empty() {
        body.insert("system".into(), Value::Array(system));
    }
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    body.insert("messages".into(), Value::Array(turns(messages)));
    let style = style(target.model);
    add_thinking(&mut body, style, target.effort, max_tokens, messages);
    if let Some(schema) = &request.answer_schema
        && is_strict(schema)
        && version(target.model).is_some_and(|version| version >= (4, 5))
    {
        output_config(&mut body).insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    }
    Value::Object(body)
}

fn output_config(body: &mut Map<String, Value>) -> &mut Map<String, Value> {
    body.entry("output_config")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .expect("the only value ever put there is an object")
}

fn add_thinking(
    body: &mut Map<String, Value>,
    style: Style,
    effort: Option<Effort>,
    max_tokens: u64,
    messages: &[Message],
) {
    let Some(effort) = effort else { return };
    match style {
        Style::Absent => {}
        Style::Adaptive => {
            body.insert("thinking".into(), json!({"type": "adaptive"}));
            output_config(body).insert("effort".into(), json!(effort.as_str()));
        }
        Style::Budgeted => {
            let budget = effort.budget_tokens().min(max_tokens / 2);
            if budget >= BUDGET_TOKENS_MIN && !in_loop_without_thinking(messages) {
                body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
            }
        }
    }
}

/// Returns how the model of that name is asked to reason. Names that are not the provider's own belong to others
/// that speak like it, and those know budgets.
fn style(model: &str) -> Style {
    match version(model) {
        None => Style::Budgeted,
        Some(version) if version < (3, 7) => Style::Absent,
        Some(version) if version < (4, 6) => Style::Budgeted,
        Some(_) => Style::Adaptive,
    }
}

/// Returns the version in a name such as `claude-3-7-sonnet-…` or `claude-opus-4-6`; dates are no versions.
fn version(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude-")?..];
    let mut numbers = name
        .split(['-', '.'])
        .skip_while(|part| part.parse::<u32>().is_err())
        .map_while(|part| part.parse::<u32>().ok())
        .filter(|number| *number < 100);
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

/// Returns whether the conversation is inside a tool loop whose last message of the model has no reasoning: the
/// provider refuses to reason from there on.
fn in_loop_without_thinking(messages: &[Message]) -> bool {
    let in_loop = matches!(messages.last(), Some(Message::Tool(_)));
    let last = messages.iter().rev().find(|message| matches!(message, Message::Ai(_)));
    in_loop && !last.is_some_and(|last| matches!(last.content().first(), Some(Block::Thinking { .. })))
}

/// Returns the conversation as the provider's two roles; tool results are the user's, before their words.
fn turns(messages: &[Message]) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, content) = match message {
            Message::Human(_) => ("user", blocks(message.content())),
            Message::Ai(_) => ("assistant", blocks(message.content())),
            Message::Tool(tool) => ("user", vec![tool_result(tool)]),
        };
        match turns.last_mut() {
            Some((before, turn)) if *before == role => turn.extend(content),
            Some(_) | None => turns.push((role, content)),
        }
    }
    let last = turns.last_mut().and_then(|(_, content)| content.last_mut());
    mark_cached(last);
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn blocks(content: &[Block]) -> Vec<Value> {
    content
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text_block(text)),
            Block::Thinking { raw, .. } => raw.clone(),
            Block::ToolCall { id, name, args } => {
                Some(json!({"type": "tool_use", "id": id, "name": name, "input": args}))
            }
            Block::Opaque { raw, .. } => Some(raw.clone()),
            Block::Media { .. } => None,
        })
        .collect()
}

fn tool_result(tool: &ToolMessage) -> Value {
    let mut result =
        json!({"type": "tool_result", "tool_use_id": tool.call_id, "content": blocks(&tool.content)});
    if tool.status == ToolStatus::Error {
        result["is_error"] = json!(true);
    }
    result
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn mark_cached(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_a_model_reasons() {
        for (model, expected) in [
            ("claude-3-haiku-20240307", Style::Absent),
            ("claude-3-5-sonnet-20241022", Style::Absent),
            ("claude-3-7-sonnet-20250219", Style::Budgeted),
            ("claude-sonnet-4-20250514", Style::Budgeted),
            ("claude-opus-4-1", Style::Budgeted),
            ("anthropic/claude-sonnet-4.5", Style::Budgeted),
            ("claude-opus-4-6", Style::Adaptive),
            ("claude-sonnet-5-20270101", Style::Adaptive),
            ("kimi-k2", Style::Budgeted),
        ] {
            assert_eq!(style(model), expected, "{model}");
        }
    }
}
