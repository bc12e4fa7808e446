//! The body of a `streamGenerateContent` request. It expects a legal conversation.
//!
//! What does not change between the requests of a conversation comes first, the messages at the very end of the body:
//! the provider caches common beginnings by itself.

use std::borrow::Cow;

use protocol::ToolStatus;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::settings::Effort;
use crate::transcript::{Args, Conversation, Media, Piece, Said, Speaker};
use crate::wire::Target;
use crate::wire::encode::{Base64, is_model, joined_text, media_of, sides, written};

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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Config<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'r>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'r>>,
    contents: Vec<Content<'r>>,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'r Value>,
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'r> {
    function_declarations: &'r RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'r> {
    name: &'r str,
    description: &'r str,
    parameters_json_schema: &'r Value,
}

#[derive(Serialize)]
struct Instruction<'r> {
    parts: Vec<Part<'r>>,
}

#[derive(Serialize)]
struct Content<'c> {
    role: &'static str,
    parts: Vec<Part<'c>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'c> {
    Signed {
        #[serde(flatten)]
        what: What<'c>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<&'c str>,
    },
    Raw(&'c Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum What<'c> {
    Text(&'c str),
    InlineData(InlineData<'c>),
    FunctionCall(Call<'c>),
    FunctionResponse(Response<'c>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'c> {
    mime_type: &'c str,
    data: Base64<'c>,
}

#[derive(Serialize)]
struct Call<'c> {
    name: &'c str,
    args: Args<'c>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'c str>,
}

#[derive(Serialize)]
struct Response<'c> {
    name: &'c str,
    response: Outcome<'c>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'c str>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'c> {
    Output(Cow<'c, str>),
    Error(Cow<'c, str>),
}

/// Returns the body of a request.
pub(in crate::wire) fn body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
) -> serde_json::Result<Vec<u8>> {
    let generation = generation(target.model);
    let system: Vec<Part<'_>> =
        request.system.iter().filter(|text| !text.trim().is_empty()).map(|text| text_part(text)).collect();
    let config = generation_config(request, target.effort, generation);
    let declared = request.tools.written(Provider::Gemini, declarations)?;
    let messages: Vec<Said<'_, '_>> = conversation.iter().collect();
    let body = Body {
        generation_config: (config != Config::default()).then_some(config),
        tools: declared.map(|function_declarations| [Tools { function_declarations }]),
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        contents: sides(&messages).map(|turn| content(turn, generation)).collect(),
    };
    written(&body, conversation)
}

fn declarations(tools: &[ToolSpec]) -> Vec<Declaration<'_>> {
    tools.iter().map(declaration).collect()
}

fn declaration(tool: &ToolSpec) -> Declaration<'_> {
    let ToolSpec { name, description, parameters } = tool;
    Declaration { name, description, parameters_json_schema: parameters }
}

fn generation_config(request: &ChatRequest, effort: Option<Effort>, generation: Generation) -> Config<'_> {
    let thinking_config = effort.and_then(|effort| match generation {
        Generation::Plain => None,
        Generation::Budgeted => Some(ThinkingConfig {
            include_thoughts: true,
            thinking_budget: Some(effort.budget_tokens()),
            thinking_level: None,
        }),
        // Not every model of the generation has a level between the two.
        Generation::Leveled => Some(ThinkingConfig {
            include_thoughts: true,
            thinking_budget: None,
            thinking_level: Some(if effort == Effort::Low { "low" } else { "high" }),
        }),
    });
    // Older models refuse a schema beside tools.
    let schema = request.answer_schema.as_ref().filter(|_| request.tools.is_empty());
    Config {
        max_output_tokens: request.max_output_tokens,
        thinking_config,
        response_mime_type: schema.map(|_| "application/json"),
        response_json_schema: schema,
    }
}

fn generation(model: &str) -> Generation {
    let version = model.split_once("gemini-").map_or("", |(_, version)| version);
    match version.split('-').next().unwrap_or_default() {
        "2.5" => Generation::Budgeted,
        version if version.starts_with(|c: char| ('3'..='9').contains(&c)) => Generation::Leveled,
        _ => Generation::Plain,
    }
}

/// Returns one side's turn. What a batch shows comes behind its last response, because as many responses as calls must
/// be together.
fn content<'c>(turn: &'c [Said<'c, '_>], generation: Generation) -> Content<'c> {
    if turn.iter().any(is_model) {
        let parts = turn.iter().flat_map(|said| model_parts(said.pieces, generation)).collect();
        return Content { role: "model", parts };
    }
    let words = turn.iter().position(|said| matches!(said.speaker, Speaker::Human)).unwrap_or(turn.len());
    let (results, words) = turn.split_at(words);
    let mut parts: Vec<Part<'c>> = results.iter().filter_map(|said| response(*said, generation)).collect();
    parts.extend(results.iter().flat_map(|said| media_of(*said)).map(inline));
    parts.extend(words.iter().flat_map(|said| said.pieces).filter_map(|piece| match piece {
        Piece::Text(text) => Some(text_part(text)),
        Piece::Media(media) => Some(inline(media)),
        Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => None,
    }));
    Content { role: "user", parts }
}

fn model_parts<'c>(pieces: &'c [Piece<'_>], generation: Generation) -> Vec<Part<'c>> {
    let mut parts = Vec::with_capacity(pieces.len());
    let mut signature: Option<&str> = None;
    let mut is_first_call = true;
    for piece in pieces {
        let what = match piece {
            Piece::Thinking(own) if own.raw.get("text").is_some() => {
                parts.push(Part::Raw(own.raw));
                continue;
            }
            Piece::Thinking(own) => {
                signature = own.raw["thoughtSignature"].as_str();
                continue;
            }
            Piece::Opaque(own) => {
                parts.push(Part::Raw(own.raw));
                continue;
            }
            Piece::Text(text) => What::Text(text),
            Piece::Media(media) => What::InlineData(inline_data(media)),
            Piece::Call { id, name, args } => {
                // Only the first call of a batch is signed, and only the newer models insist.
                if generation == Generation::Leveled && is_first_call {
                    signature = signature.or(Some(FOREIGN_SIGNATURE));
                }
                is_first_call = false;
                let id = (generation == Generation::Leveled).then_some(id.as_ref());
                What::FunctionCall(Call { name, args: *args, id })
            }
        };
        parts.push(Part::Signed { what, signature: signature.take() });
    }
    parts
}

const fn text_part(text: &str) -> Part<'_> {
    Part::Signed { what: What::Text(text), signature: None }
}

const fn inline<'c>(media: &'c Media<'_>) -> Part<'c> {
    Part::Signed { what: What::InlineData(inline_data(media)), signature: None }
}

const fn inline_data<'c>(media: &'c Media<'_>) -> InlineData<'c> {
    InlineData { mime_type: media.media_type, data: Base64(media.bytes) }
}

fn response<'c>(said: Said<'c, '_>, generation: Generation) -> Option<Part<'c>> {
    let Speaker::Tool { call_id, name, status } = said.speaker else { return None };
    let text = joined_text(said);
    let response = match status {
        ToolStatus::Success => Outcome::Output(text),
        ToolStatus::Error => Outcome::Error(text),
    };
    let id = (generation == Generation::Leveled).then_some(call_id.as_ref());
    Some(Part::Signed { what: What::FunctionResponse(Response { name, response, id }), signature: None })
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
