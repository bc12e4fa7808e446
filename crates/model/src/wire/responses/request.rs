//! The body of a Responses request. It expects a legal conversation.
//!
//! What does not change between the requests of a conversation comes first, the messages at the very end of the body.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::transcript::{Args, Conversation, Media, PDF, Piece, Said, Speaker};
use crate::wire::encode::{DataUrl, JsonText, file_name, joined_text, media_of, written};
use crate::wire::schema::is_strict;
use crate::wire::{CACHE_KEY_CHARS_MAX, Endpoint, Target};

/// The least limit of an answer the provider takes.
const OUTPUT_TOKENS_MIN: u64 = 16;

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextFormat<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'r RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Vec<Item<'r>>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
    summary: &'static str,
}

#[derive(Serialize)]
struct TextFormat<'r> {
    format: AnswerFormat<'r>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct AnswerFormat<'r> {
    name: &'static str,
    schema: &'r Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'r> {
    name: &'r str,
    description: &'r str,
    parameters: &'r Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'c> {
    Message {
        role: &'static str,
        content: Vec<Part<'c>>,
    },
    FunctionCall {
        call_id: &'c str,
        name: &'c str,
        arguments: JsonText<Args<'c>>,
    },
    FunctionCallOutput {
        call_id: &'c str,
        output: Output<'c>,
    },
    #[serde(untagged)]
    Raw(&'c Value),
}

/// What a tool returned: a text, or texts and files.
#[derive(Serialize)]
#[serde(untagged)]
enum Output<'c> {
    Text(Cow<'c, str>),
    Parts(Vec<Part<'c>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'c> {
    InputText { text: &'c str },
    OutputText { text: &'c str },
    InputImage { image_url: DataUrl<'c> },
    InputFile { filename: String, file_data: DataUrl<'c> },
}

/// Returns the body of a request.
pub(in crate::wire) fn body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
) -> serde_json::Result<Vec<u8>> {
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    let is_official = target.endpoint == Endpoint::Official;
    let key = request.cache_key.as_deref().filter(|key| is_official && key.len() <= CACHE_KEY_CHARS_MAX);
    let body = Body {
        model: target.model,
        stream: true,
        store: false,
        include: reasons(target.model).then_some(["reasoning.encrypted_content"]),
        reasoning: target.effort.map(|effort| Reasoning { effort: effort.as_str(), summary: "auto" }),
        max_output_tokens: request.max_output_tokens.map(|max| max.max(OUTPUT_TOKENS_MIN)),
        prompt_cache_key: key,
        text: request.answer_schema.as_ref().map(|schema| TextFormat {
            format: AnswerFormat { name: "answer", schema, strict: is_strict(schema) },
        }),
        tools: request.tools.written(Provider::OpenAi, tools)?,
        instructions: (!system.is_empty()).then(|| system.join("\n\n")),
        input: items(conversation),
    };
    written(&body, conversation)
}

fn tools(tools: &[ToolSpec]) -> Vec<Tool<'_>> {
    tools.iter().map(tool).collect()
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    let ToolSpec { name, description, parameters } = tool;
    Tool { name, description, parameters, strict: false }
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

fn items<'c>(conversation: &'c Conversation<'_>) -> Vec<Item<'c>> {
    let mut items = Vec::with_capacity(conversation.len() + conversation.len() / 2);
    for said in conversation.iter() {
        match said.speaker {
            Speaker::Human => items.push(Item::Message { role: "user", content: parts(said) }),
            Speaker::Tool { call_id, .. } => {
                let has_media = media_of(said).next().is_some();
                let output =
                    if has_media { Output::Parts(parts(said)) } else { Output::Text(joined_text(said)) };
                items.push(Item::FunctionCallOutput { call_id, output });
            }
            Speaker::Model => items.extend(said.pieces.iter().filter_map(item)),
        }
    }
    items
}

/// Returns what a person or a tool gives.
fn parts<'c>(said: Said<'c, '_>) -> Vec<Part<'c>> {
    said.pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(Part::InputText { text }),
            Piece::Media(media) => Some(file(media)),
            Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => None,
        })
        .collect()
}

fn file<'c>(media: &'c Media<'_>) -> Part<'c> {
    match media.media_type {
        PDF => Part::InputFile { filename: file_name(media), file_data: DataUrl(*media) },
        _ => Part::InputImage { image_url: DataUrl(*media) },
    }
}

/// Returns what the model says, one item for each piece.
fn item<'c>(piece: &'c Piece<'_>) -> Option<Item<'c>> {
    match piece {
        Piece::Text(text) => {
            Some(Item::Message { role: "assistant", content: vec![Part::OutputText { text }] })
        }
        Piece::Call { id, name, args } => {
            Some(Item::FunctionCall { call_id: id, name, arguments: JsonText(*args) })
        }
        Piece::Thinking(own) | Piece::Opaque(own) => Some(Item::Raw(own.raw)),
        Piece::Media(_) => None,
    }
}
