//! The body of a `streamGenerateContent` request, from a legal conversation.
//!
//! Fields that stay the same in all requests of a conversation come first and the messages last, because the
//! provider caches common beginnings.

use std::borrow::Cow;

use protocol::ToolStatus;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::settings::Effort;
use crate::transcript::{
    CallArguments, Conversation, ConversationMessage, MediaBytes, MessagePiece, Speaker,
};
use crate::wire::RequestTarget;
use crate::wire::encode::{Base64Bytes, group_by_side, is_model, joined_text, media_pieces, serialize_body};

/// The signature that the provider documents for calls which another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The generation of a Gemini model, which decides how reasoning is requested and whether signatures are
/// required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeminiGeneration {
    /// Before 2.5: no reasoning.
    WithoutThinking,
    /// 2.5: reasoning with a token budget.
    Budgeted,
    /// 3 and later: reasoning with a level; calls have ids, and signatures are required.
    Leveled,
}

/// The body of a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequest<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[GeminiTools<'r>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'r>>,
    contents: Vec<GeminiContent<'r>>,
}

/// The options of the answer.
#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'r Value>,
}

/// The options of reasoning.
#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

/// The list of tools.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTools<'r> {
    function_declarations: &'r RawValue,
}

/// A tool that the model may call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'r> {
    name: &'r str,
    description: &'r str,
    parameters_json_schema: &'r Value,
}

/// The instructions.
#[derive(Serialize)]
struct SystemInstruction<'r> {
    parts: Vec<GeminiPart<'r>>,
}

/// A message of one role.
#[derive(Serialize)]
struct GeminiContent<'c> {
    role: &'static str,
    parts: Vec<GeminiPart<'c>>,
}

/// A part of a message, with its signature, or in the provider's own form.
#[derive(Serialize)]
#[serde(untagged)]
enum GeminiPart<'c> {
    Signed {
        #[serde(flatten)]
        data: GeminiPartData<'c>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<&'c str>,
    },
    Raw(&'c Value),
}

/// The content of a part.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum GeminiPartData<'c> {
    Text(&'c str),
    InlineData(InlineData<'c>),
    FunctionCall(GeminiFunctionCall<'c>),
    FunctionResponse(GeminiFunctionResponse<'c>),
}

/// An image or a document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'c> {
    mime_type: &'c str,
    data: Base64Bytes<'c>,
}

/// A tool call. Only generation 3 and later has ids.
#[derive(Serialize)]
struct GeminiFunctionCall<'c> {
    name: &'c str,
    args: CallArguments<'c>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'c str>,
}

/// The result of a tool call.
#[derive(Serialize)]
struct GeminiFunctionResponse<'c> {
    name: &'c str,
    response: GeminiFunctionOutput<'c>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'c str>,
}

/// The text of a result, by success or failure.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum GeminiFunctionOutput<'c> {
    Output(Cow<'c, str>),
    Error(Cow<'c, str>),
}

/// Returns the body of a request.
pub(in crate::wire) fn request_body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &RequestTarget<'_>,
) -> serde_json::Result<Vec<u8>> {
    let generation = generation(target.model);
    let system: Vec<GeminiPart<'_>> =
        request.system.iter().filter(|text| !text.trim().is_empty()).map(|text| text_part(text)).collect();
    let config = generation_config(request, target.effort, generation);
    let tool_declarations = request.tools.serialized(Provider::Gemini, declarations)?;
    let messages: Vec<ConversationMessage<'_, '_>> = conversation.iter().collect();
    let body = GeminiRequest {
        generation_config: (config != GenerationConfig::default()).then_some(config),
        tools: tool_declarations.map(|function_declarations| [GeminiTools { function_declarations }]),
        system_instruction: (!system.is_empty()).then_some(SystemInstruction { parts: system }),
        contents: group_by_side(&messages).map(|group| group_content(group, generation)).collect(),
    };
    serialize_body(&body, conversation)
}

/// Returns the tools in the format of the provider.
fn declarations(tools: &[ToolSpec]) -> Vec<FunctionDeclaration<'_>> {
    tools.iter().map(declaration).collect()
}

/// Returns a tool in the format of the provider.
fn declaration(tool: &ToolSpec) -> FunctionDeclaration<'_> {
    let ToolSpec { name, description, parameters } = tool;
    FunctionDeclaration { name, description, parameters_json_schema: parameters }
}

/// Returns the options of the answer.
fn generation_config(
    request: &ChatRequest,
    effort: Option<Effort>,
    generation: GeminiGeneration,
) -> GenerationConfig<'_> {
    let thinking_config = effort.and_then(|effort| match generation {
        GeminiGeneration::WithoutThinking => None,
        GeminiGeneration::Budgeted => Some(ThinkingConfig {
            include_thoughts: true,
            thinking_budget: Some(effort.budget_tokens()),
            thinking_level: None,
        }),
        // Not every model of this generation has a medium level.
        GeminiGeneration::Leveled => Some(ThinkingConfig {
            include_thoughts: true,
            thinking_budget: None,
            thinking_level: Some(if effort == Effort::Low { "low" } else { "high" }),
        }),
    });
    // Older models refuse a schema together with tools.
    let schema = request.answer_schema.as_ref().filter(|_| request.tools.is_empty());
    GenerationConfig {
        max_output_tokens: request.max_output_tokens,
        thinking_config,
        response_mime_type: schema.map(|_| "application/json"),
        response_json_schema: schema,
    }
}

/// Returns the generation of a model, by the version in its name.
fn generation(model: &str) -> GeminiGeneration {
    let version = model.split_once("gemini-").map_or("", |(_, version)| version);
    match version.split('-').next().unwrap_or_default() {
        "2.5" => GeminiGeneration::Budgeted,
        version if version.starts_with(|c: char| ('3'..='9').contains(&c)) => GeminiGeneration::Leveled,
        _ => GeminiGeneration::WithoutThinking,
    }
}

/// Returns the message for adjacent messages of one side. Media of a batch come after its last response, because
/// the responses must be together and as many as the calls.
fn group_content<'c>(
    group: &'c [ConversationMessage<'c, '_>],
    generation: GeminiGeneration,
) -> GeminiContent<'c> {
    if group.iter().any(is_model) {
        let parts = group.iter().flat_map(|message| model_parts(message.pieces, generation)).collect();
        return GeminiContent { role: "model", parts };
    }
    let human_start =
        group.iter().position(|message| matches!(message.speaker, Speaker::Human)).unwrap_or(group.len());
    let (results, human_messages) = group.split_at(human_start);
    let mut parts: Vec<GeminiPart<'c>> =
        results.iter().filter_map(|message| response_part(*message, generation)).collect();
    parts.extend(results.iter().flat_map(|message| media_pieces(*message)).map(inline_part));
    parts.extend(human_messages.iter().flat_map(|message| message.pieces).filter_map(|piece| match piece {
        MessagePiece::Text(text) => Some(text_part(text)),
        MessagePiece::Media(media) => Some(inline_part(media)),
        MessagePiece::Call { .. } | MessagePiece::Thinking(_) | MessagePiece::Opaque(_) => None,
    }));
    GeminiContent { role: "user", parts }
}

/// Returns the parts of a model's message, with each signature on its part.
fn model_parts<'c>(pieces: &'c [MessagePiece<'_>], generation: GeminiGeneration) -> Vec<GeminiPart<'c>> {
    let mut parts = Vec::with_capacity(pieces.len());
    let mut signature: Option<&str> = None;
    let mut is_first_call = true;
    for piece in pieces {
        let data = match piece {
            MessagePiece::Thinking(block) if block.raw.get("text").is_some() => {
                parts.push(GeminiPart::Raw(block.raw));
                continue;
            }
            MessagePiece::Thinking(block) => {
                signature = block.raw["thoughtSignature"].as_str();
                continue;
            }
            MessagePiece::Opaque(block) => {
                parts.push(GeminiPart::Raw(block.raw));
                continue;
            }
            MessagePiece::Text(text) => GeminiPartData::Text(text),
            MessagePiece::Media(media) => GeminiPartData::InlineData(inline_data(media)),
            MessagePiece::Call { id, name, args } => {
                // Only the first call of a batch carries a signature, and only newer models require one.
                if generation == GeminiGeneration::Leveled && is_first_call {
                    signature = signature.or(Some(FOREIGN_SIGNATURE));
                }
                is_first_call = false;
                let id = (generation == GeminiGeneration::Leveled).then_some(id.as_ref());
                GeminiPartData::FunctionCall(GeminiFunctionCall { name, args: *args, id })
            }
        };
        parts.push(GeminiPart::Signed { data, signature: signature.take() });
    }
    parts
}

/// Returns a text as a part without a signature.
const fn text_part(text: &str) -> GeminiPart<'_> {
    GeminiPart::Signed { data: GeminiPartData::Text(text), signature: None }
}

/// Returns an image or a document as a part without a signature.
const fn inline_part<'c>(media: &'c MediaBytes<'_>) -> GeminiPart<'c> {
    GeminiPart::Signed { data: GeminiPartData::InlineData(inline_data(media)), signature: None }
}

/// Returns an image or a document in the format of the provider.
const fn inline_data<'c>(media: &'c MediaBytes<'_>) -> InlineData<'c> {
    InlineData { mime_type: media.media_type, data: Base64Bytes(media.bytes) }
}

/// Returns a result as a part; `None` for other messages.
fn response_part<'c>(
    message: ConversationMessage<'c, '_>,
    generation: GeminiGeneration,
) -> Option<GeminiPart<'c>> {
    let Speaker::Tool { call_id, name, status } = message.speaker else { return None };
    let text = joined_text(message);
    let response = match status {
        ToolStatus::Success => GeminiFunctionOutput::Output(text),
        ToolStatus::Error => GeminiFunctionOutput::Error(text),
    };
    let id = (generation == GeminiGeneration::Leveled).then_some(call_id.as_ref());
    Some(GeminiPart::Signed {
        data: GeminiPartData::FunctionResponse(GeminiFunctionResponse { name, response, id }),
        signature: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_read_from_the_models_name() {
        for (model, expected) in [
            ("gemini-1.5-pro", GeminiGeneration::WithoutThinking),
            ("gemini-2.0-flash", GeminiGeneration::WithoutThinking),
            ("gemini-2.5-flash-lite", GeminiGeneration::Budgeted),
            ("models/gemini-3-pro-preview", GeminiGeneration::Leveled),
            ("gemini-3.1-flash", GeminiGeneration::Leveled),
            ("gemma-3", GeminiGeneration::WithoutThinking),
        ] {
            assert_eq!(generation(model), expected, "{model}");
        }
    }
}
