//! The body of a Messages request, from a legal conversation.
//!
//! Fields that stay the same in all requests of a conversation come first: tools, then instructions. The messages
//! are last, so that the provider's cache of common beginnings hits.

use protocol::ToolStatus;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::settings::Effort;
use crate::transcript::{CallArguments, Conversation, ConversationMessage, MessagePiece, PDF, Speaker};
use crate::wire::RequestTarget;
use crate::wire::encode::{Base64Bytes, group_by_side, is_model, serialize_body};
use crate::wire::schema::is_strict;

/// The limit of an answer in tokens if neither the request nor the table of models has one.
const OUTPUT_TOKENS: u64 = 8_192;

/// The highest limit of an answer in tokens unless the request has one. Older models refuse a request if the
/// answer might not fit into the window after it.
const OUTPUT_TOKENS_MAX: u64 = 32_000;

/// The smallest reasoning budget, in tokens, that the provider accepts.
const BUDGET_TOKENS_MIN: u64 = 1_024;

/// The number of messages of the user's side whose ends are marked for caching: the newest one, and the last one
/// of the previous request. Together with the last tool and the last stable instruction, these are the four marks
/// that the provider allows.
const CACHED_TURNS: usize = 2;

/// The way in which reasoning is requested from a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkingStyle {
    /// The model does not reason.
    Unsupported,
    /// The model gets a token budget.
    Budgeted,
    /// The model decides by itself, within an effort.
    Adaptive,
}

/// The body of a request.
#[derive(Serialize)]
struct AnthropicRequest<'r, 'a> {
    model: &'r str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<AnthropicThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'r RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<AnthropicBlock<'r>>,
    messages: AnthropicMessages<'r, 'a>,
}

/// The options of reasoning.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicThinking {
    Adaptive,
    Enabled { budget_tokens: u64 },
}

/// The options of the answer.
#[derive(Serialize)]
struct OutputConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<AnthropicAnswerFormat<'r>>,
}

/// The JSON schema that the answer must follow.
#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct AnthropicAnswerFormat<'r> {
    schema: &'r Value,
}

/// A tool that the model may call.
#[derive(Serialize)]
struct AnthropicTool<'r> {
    name: &'r str,
    description: &'r str,
    input_schema: &'r Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

/// A mark up to which the provider caches the request.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
struct CacheControl {}

/// A message of one role.
#[derive(Serialize)]
struct AnthropicMessage<'c> {
    role: &'static str,
    content: Vec<AnthropicBlock<'c>>,
}

/// A block of a message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlock<'c> {
    Text {
        text: &'c str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: AnthropicSource<'c>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Document {
        source: AnthropicSource<'c>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: &'c str,
        name: &'c str,
        input: CallArguments<'c>,
    },
    ToolResult {
        tool_use_id: &'c str,
        content: Vec<AnthropicBlock<'c>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    #[serde(untagged)]
    Raw(&'c Value),
}

/// The bytes of an image or a document.
#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
struct AnthropicSource<'c> {
    media_type: &'c str,
    data: Base64Bytes<'c>,
}

/// Returns the body of a request.
pub(in crate::wire) fn request_body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &RequestTarget<'_>,
) -> serde_json::Result<Vec<u8>> {
    let longest = target.output_tokens.unwrap_or(OUTPUT_TOKENS).min(OUTPUT_TOKENS_MAX);
    let max_tokens = request.max_output_tokens.unwrap_or(longest);
    let (thinking, effort) = thinking_options(target, max_tokens, conversation);
    let format = request.answer_schema.as_ref().filter(|schema| {
        is_strict(schema) && model_version(target.model).is_some_and(|version| version >= (4, 5))
    });
    let output_config =
        OutputConfig { effort, format: format.map(|schema| AnthropicAnswerFormat { schema }) };
    let messages: Vec<ConversationMessage<'_, '_>> = conversation.iter().collect();
    let body = AnthropicRequest {
        model: target.model,
        max_tokens,
        stream: true,
        thinking,
        output_config: (effort.is_some() || format.is_some()).then_some(output_config),
        tools: request.tools.serialized(Provider::Anthropic, tools)?,
        system: system(request),
        messages: AnthropicMessages(&messages),
    };
    serialize_body(&body, conversation)
}

/// Returns the tools in the format of the provider. The last one is marked for caching.
fn tools(tools: &[ToolSpec]) -> Vec<AnthropicTool<'_>> {
    let last = tools.len().saturating_sub(1);
    let tools = tools.iter().enumerate().map(|(index, tool)| AnthropicTool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
        cache_control: (index == last).then_some(CacheControl {}),
    });
    tools.collect()
}

/// Returns the instructions. The last stable one is marked for caching.
fn system(request: &ChatRequest) -> Vec<AnthropicBlock<'_>> {
    let stable = request.system.len().saturating_sub(request.system_volatile);
    let has_text = |text: &str| !text.trim().is_empty();
    let marked = request.system[..stable].iter().rposition(|text| has_text(text));
    let blocks = request.system.iter().enumerate().filter(|(_, text)| has_text(text));
    blocks
        .map(|(index, text)| AnthropicBlock::Text {
            text,
            cache_control: (Some(index) == marked).then_some(CacheControl {}),
        })
        .collect()
}

/// Returns the options of reasoning and the effort for this model.
fn thinking_options(
    target: &RequestTarget<'_>,
    max_tokens: u64,
    conversation: &Conversation<'_>,
) -> (Option<AnthropicThinking>, Option<&'static str>) {
    let Some(effort) = target.effort else { return (None, None) };
    match thinking_style(target.model) {
        ThinkingStyle::Unsupported => (None, None),
        ThinkingStyle::Adaptive => (Some(AnthropicThinking::Adaptive), Some(effort.as_str())),
        ThinkingStyle::Budgeted => {
            let budget_tokens = Effort::budget_tokens(effort).min(max_tokens / 2);
            let is_enabled = budget_tokens >= BUDGET_TOKENS_MIN && !is_loop_without_thinking(conversation);
            (is_enabled.then_some(AnthropicThinking::Enabled { budget_tokens }), None)
        }
    }
}

/// Returns how reasoning is requested from the model of that name. Names that are not the provider's own belong
/// to compatible servers, which know token budgets.
fn thinking_style(model: &str) -> ThinkingStyle {
    match model_version(model) {
        None => ThinkingStyle::Budgeted,
        Some(version) if version < (3, 7) => ThinkingStyle::Unsupported,
        Some(version) if version < (4, 6) => ThinkingStyle::Budgeted,
        Some(_) => ThinkingStyle::Adaptive,
    }
}

/// Returns the version in a name such as `claude-3-7-sonnet-…` or `claude-opus-4-6`. Dates do not count as
/// versions.
fn model_version(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude-")?..];
    let mut numbers = name
        .split(['-', '.'])
        .skip_while(|part| part.parse::<u32>().is_err())
        .map_while(|part| part.parse::<u32>().ok())
        .filter(|number| *number < 100);
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

/// Returns whether the conversation ends inside a tool loop in which the model's last message has no reasoning.
/// The provider refuses to enable reasoning there.
fn is_loop_without_thinking(conversation: &Conversation<'_>) -> bool {
    let in_loop =
        matches!(conversation.iter().next_back(), Some(last) if matches!(last.speaker, Speaker::Tool { .. }));
    let last = conversation.iter().rev().find(is_model);
    in_loop && !last.is_some_and(|last| matches!(last.pieces.first(), Some(MessagePiece::Thinking(_))))
}

/// The conversation grouped into the provider's two roles. Tool results belong to the user and come before the
/// person's message.
struct AnthropicMessages<'c, 'a>(&'c [ConversationMessage<'c, 'a>]);

impl Serialize for AnthropicMessages<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_user = |group: &[ConversationMessage<'_, '_>]| !group.iter().any(is_model);
        let mut user_groups_left = group_by_side(self.0).filter(|group| is_user(group)).count();
        serializer.collect_seq(group_by_side(self.0).map(|group| {
            if !is_user(group) {
                return AnthropicMessage { role: "assistant", content: group_blocks(group, None) };
            }
            user_groups_left -= 1;
            let mark = (user_groups_left < CACHED_TURNS).then_some(CacheControl {});
            AnthropicMessage { role: "user", content: group_blocks(group, mark) }
        }))
    }
}

/// Returns the blocks of adjacent messages of one side. The last block gets the mark.
fn group_blocks<'c>(
    group: &'c [ConversationMessage<'c, '_>],
    mark: Option<CacheControl>,
) -> Vec<AnthropicBlock<'c>> {
    let mut blocks = Vec::with_capacity(group.iter().map(|message| message.pieces.len()).sum());
    for message in group {
        match message.speaker {
            Speaker::Human | Speaker::Model => blocks.extend(message.pieces.iter().map(to_block)),
            Speaker::Tool { call_id, status, .. } => blocks.push(AnthropicBlock::ToolResult {
                tool_use_id: call_id,
                content: message.pieces.iter().map(to_block).collect(),
                is_error: *status == ToolStatus::Error,
                cache_control: None,
            }),
        }
    }
    match blocks.last_mut() {
        Some(
            AnthropicBlock::Text { cache_control, .. }
            | AnthropicBlock::Image { cache_control, .. }
            | AnthropicBlock::Document { cache_control, .. }
            | AnthropicBlock::ToolResult { cache_control, .. },
        ) => *cache_control = mark,
        // The model's own blocks are never marked.
        Some(AnthropicBlock::ToolUse { .. } | AnthropicBlock::Raw(_)) | None => {}
    }
    blocks
}

/// Returns a piece as a block in the format of the provider.
fn to_block<'c>(piece: &'c MessagePiece<'_>) -> AnthropicBlock<'c> {
    match piece {
        MessagePiece::Text(text) => AnthropicBlock::Text { text, cache_control: None },
        MessagePiece::Media(media) => {
            let source = AnthropicSource { media_type: media.media_type, data: Base64Bytes(media.bytes) };
            match media.media_type {
                PDF => AnthropicBlock::Document { source, cache_control: None },
                _ => AnthropicBlock::Image { source, cache_control: None },
            }
        }
        MessagePiece::Call { id, name, args } => AnthropicBlock::ToolUse { id, name, input: *args },
        MessagePiece::Thinking(block) | MessagePiece::Opaque(block) => AnthropicBlock::Raw(block.raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thinking_style_is_read_from_the_models_name() {
        for (model, expected) in [
            ("claude-3-haiku-20240307", ThinkingStyle::Unsupported),
            ("claude-3-5-sonnet-20241022", ThinkingStyle::Unsupported),
            ("claude-3-7-sonnet-20250219", ThinkingStyle::Budgeted),
            ("claude-sonnet-4-20250514", ThinkingStyle::Budgeted),
            ("claude-opus-4-1", ThinkingStyle::Budgeted),
            ("anthropic/claude-sonnet-4.5", ThinkingStyle::Budgeted),
            ("claude-opus-4-6", ThinkingStyle::Adaptive),
            ("claude-sonnet-5-20270101", ThinkingStyle::Adaptive),
            ("kimi-k2", ThinkingStyle::Budgeted),
        ] {
            assert_eq!(thinking_style(model), expected, "{model}");
        }
    }
}
