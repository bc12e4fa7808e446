//! The body of a Messages request. It expects a legal conversation.
//!
//! What does not change between the requests of a conversation comes first: tools, instructions, then the messages, at
//! the very end of the body.

use protocol::ToolStatus;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::settings::Effort;
use crate::transcript::{Args, Conversation, PDF, Piece, Said, Speaker};
use crate::wire::Target;
use crate::wire::encode::{Base64, is_model, sides, written};
use crate::wire::schema::is_strict;

/// Tokens of an answer when neither the request nor the table of models says.
const OUTPUT_TOKENS: u64 = 8_192;

/// Tokens of an answer at most unless the request asks for more: older models refuse a request whose answer could
/// not fit behind it.
const OUTPUT_TOKENS_MAX: u64 = 32_000;

/// The least budget of reasoning the provider takes.
const BUDGET_TOKENS_MIN: u64 = 1_024;

/// Turns of the user's side whose end is marked: the newest, and the one that the request before ended with. With the
/// last tool and the last stable instruction these are the four marks the provider allows.
const MARKED_TURNS: usize = 2;

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

#[derive(Serialize)]
struct Body<'r, 'a> {
    model: &'r str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'r RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'r>>,
    messages: Turns<'r, 'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive,
    Enabled { budget_tokens: u64 },
}

#[derive(Serialize)]
struct OutputConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<AnswerFormat<'r>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct AnswerFormat<'r> {
    schema: &'r Value,
}

#[derive(Serialize)]
struct Tool<'r> {
    name: &'r str,
    description: &'r str,
    input_schema: &'r Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

/// Where the provider shall cache what came so far.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
struct Mark {}

#[derive(Serialize)]
struct Turn<'c> {
    role: &'static str,
    content: Vec<Block<'c>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'c> {
    Text {
        text: &'c str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Image {
        source: Source<'c>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Document {
        source: Source<'c>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolUse {
        id: &'c str,
        name: &'c str,
        input: Args<'c>,
    },
    ToolResult {
        tool_use_id: &'c str,
        content: Vec<Block<'c>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    #[serde(untagged)]
    Raw(&'c Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
struct Source<'c> {
    media_type: &'c str,
    data: Base64<'c>,
}

/// Returns the body of a request.
pub(in crate::wire) fn body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
) -> serde_json::Result<Vec<u8>> {
    let longest = target.output_tokens.unwrap_or(OUTPUT_TOKENS).min(OUTPUT_TOKENS_MAX);
    let max_tokens = request.max_output_tokens.unwrap_or(longest);
    let (thinking, effort) = thinking(target, max_tokens, conversation);
    let format = request
        .answer_schema
        .as_ref()
        .filter(|schema| is_strict(schema) && version(target.model).is_some_and(|version| version >= (4, 5)));
    let output_config = OutputConfig { effort, format: format.map(|schema| AnswerFormat { schema }) };
    let messages: Vec<Said<'_, '_>> = conversation.iter().collect();
    let body = Body {
        model: target.model,
        max_tokens,
        stream: true,
        thinking,
        output_config: (effort.is_some() || format.is_some()).then_some(output_config),
        tools: request.tools.written(Provider::Anthropic, tools)?,
        system: system(request),
        messages: Turns(&messages),
    };
    written(&body, conversation)
}

fn tools(tools: &[ToolSpec]) -> Vec<Tool<'_>> {
    let last = tools.len().saturating_sub(1);
    let tools = tools.iter().enumerate().map(|(index, tool)| Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
        cache_control: (index == last).then_some(Mark {}),
    });
    tools.collect()
}

fn system(request: &ChatRequest) -> Vec<Block<'_>> {
    let stable = request.system.len().saturating_sub(request.system_volatile);
    let is_said = |text: &str| !text.trim().is_empty();
    let marked = request.system[..stable].iter().rposition(|text| is_said(text));
    let blocks = request.system.iter().enumerate().filter(|(_, text)| is_said(text));
    blocks
        .map(|(index, text)| Block::Text { text, cache_control: (Some(index) == marked).then_some(Mark {}) })
        .collect()
}

/// Returns how the model is asked to reason, and how much.
fn thinking(
    target: &Target<'_>,
    max_tokens: u64,
    conversation: &Conversation<'_>,
) -> (Option<Thinking>, Option<&'static str>) {
    let Some(effort) = target.effort else { return (None, None) };
    match style(target.model) {
        Style::Absent => (None, None),
        Style::Adaptive => (Some(Thinking::Adaptive), Some(effort.as_str())),
        Style::Budgeted => {
            let budget_tokens = Effort::budget_tokens(effort).min(max_tokens / 2);
            let thinks = budget_tokens >= BUDGET_TOKENS_MIN && !in_loop_without_thinking(conversation);
            (thinks.then_some(Thinking::Enabled { budget_tokens }), None)
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
fn in_loop_without_thinking(conversation: &Conversation<'_>) -> bool {
    let in_loop =
        matches!(conversation.iter().next_back(), Some(last) if matches!(last.speaker, Speaker::Tool { .. }));
    let last = conversation.iter().rev().find(is_model);
    in_loop && !last.is_some_and(|last| matches!(last.pieces.first(), Some(Piece::Thinking(_))))
}

/// The conversation as the provider's two roles; tool results are the user's, before their words.
struct Turns<'c, 'a>(&'c [Said<'c, 'a>]);

impl Serialize for Turns<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_user = |turn: &[Said<'_, '_>]| !turn.iter().any(is_model);
        let mut users_left = sides(self.0).filter(|turn| is_user(turn)).count();
        serializer.collect_seq(sides(self.0).map(|turn| {
            if !is_user(turn) {
                return Turn { role: "assistant", content: content(turn, None) };
            }
            users_left -= 1;
            let mark = (users_left < MARKED_TURNS).then_some(Mark {});
            Turn { role: "user", content: content(turn, mark) }
        }))
    }
}

/// Returns the blocks of one side's turn, the last one marked.
fn content<'c>(turn: &'c [Said<'c, '_>], mark: Option<Mark>) -> Vec<Block<'c>> {
    let mut blocks = Vec::with_capacity(turn.iter().map(|said| said.pieces.len()).sum());
    for said in turn {
        match said.speaker {
            Speaker::Human | Speaker::Model => blocks.extend(said.pieces.iter().map(block)),
            Speaker::Tool { call_id, status, .. } => blocks.push(Block::ToolResult {
                tool_use_id: call_id,
                content: said.pieces.iter().map(block).collect(),
                is_error: *status == ToolStatus::Error,
                cache_control: None,
            }),
        }
    }
    match blocks.last_mut() {
        Some(
            Block::Text { cache_control, .. }
            | Block::Image { cache_control, .. }
            | Block::Document { cache_control, .. }
            | Block::ToolResult { cache_control, .. },
        ) => *cache_control = mark,
        // The model's own blocks, which are not marked.
        Some(Block::ToolUse { .. } | Block::Raw(_)) | None => {}
    }
    blocks
}

fn block<'c>(piece: &'c Piece<'_>) -> Block<'c> {
    match piece {
        Piece::Text(text) => Block::Text { text, cache_control: None },
        Piece::Media(media) => {
            let source = Source { media_type: media.media_type, data: Base64(media.bytes) };
            match media.media_type {
                PDF => Block::Document { source, cache_control: None },
                _ => Block::Image { source, cache_control: None },
            }
        }
        Piece::Call { id, name, args } => Block::ToolUse { id, name, input: *args },
        Piece::Thinking(own) | Piece::Opaque(own) => Block::Raw(own.raw),
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
