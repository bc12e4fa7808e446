//! The body of a Responses request, from a legal conversation.
//!
//! Fields that stay the same in all requests of a conversation come first and the messages last, so that the
//! provider's cache of common beginnings hits.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::transcript::{
    CallArguments, Conversation, ConversationMessage, MediaBytes, MessagePiece, PDF, Speaker,
};
use crate::wire::encode::{DataUrl, JsonText, file_name, joined_text, media_pieces, serialize_body};
use crate::wire::schema::is_strict;
use crate::wire::{CACHE_KEY_CHARS_MAX, Endpoint, RequestTarget};

/// The lowest limit of an answer, in tokens, that the provider accepts.
const OUTPUT_TOKENS_MIN: u64 = 16;

/// The body of a request.
#[derive(Serialize)]
struct ResponsesRequest<'r> {
    model: &'r str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ResponsesReasoning>,
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
    input: Vec<ResponsesItem<'r>>,
}

/// The options of reasoning.
#[derive(Serialize)]
struct ResponsesReasoning {
    effort: &'static str,
    summary: &'static str,
}

/// The options of the text.
#[derive(Serialize)]
struct TextFormat<'r> {
    format: ResponsesAnswerFormat<'r>,
}

/// The JSON schema that the answer must follow.
#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct ResponsesAnswerFormat<'r> {
    name: &'static str,
    schema: &'r Value,
    strict: bool,
}

/// A tool that the model may call.
#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct ResponsesTool<'r> {
    name: &'r str,
    description: &'r str,
    parameters: &'r Value,
    strict: bool,
}

/// An item of the conversation.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponsesItem<'c> {
    Message {
        role: &'static str,
        content: Vec<ResponsesPart<'c>>,
    },
    FunctionCall {
        call_id: &'c str,
        name: &'c str,
        arguments: JsonText<CallArguments<'c>>,
    },
    FunctionCallOutput {
        call_id: &'c str,
        output: ResponsesToolOutput<'c>,
    },
    #[serde(untagged)]
    Raw(&'c Value),
}

/// The output of a tool: a text, or several texts and files.
#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesToolOutput<'c> {
    Text(Cow<'c, str>),
    Parts(Vec<ResponsesPart<'c>>),
}

/// A part of a message or of a tool's output.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponsesPart<'c> {
    InputText { text: &'c str },
    OutputText { text: &'c str },
    InputImage { image_url: DataUrl<'c> },
    InputFile { filename: String, file_data: DataUrl<'c> },
}

/// Returns the body of a request.
pub(in crate::wire) fn request_body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &RequestTarget<'_>,
) -> serde_json::Result<Vec<u8>> {
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    let is_official = target.endpoint == Endpoint::Official;
    let cache_key = request
        .cache_key
        .as_deref()
        .filter(|cache_key| is_official && cache_key.len() <= CACHE_KEY_CHARS_MAX);
    let body = ResponsesRequest {
        model: target.model,
        stream: true,
        store: false,
        include: is_reasoning_model(target.model).then_some(["reasoning.encrypted_content"]),
        reasoning: target
            .effort
            .map(|effort| ResponsesReasoning { effort: effort.as_str(), summary: "auto" }),
        max_output_tokens: request.max_output_tokens.map(|max| max.max(OUTPUT_TOKENS_MIN)),
        prompt_cache_key: cache_key,
        text: request.answer_schema.as_ref().map(|schema| TextFormat {
            format: ResponsesAnswerFormat { name: "answer", schema, strict: is_strict(schema) },
        }),
        tools: request.tools.serialized(Provider::OpenAi, tools)?,
        instructions: (!system.is_empty()).then(|| system.join("\n\n")),
        input: input_items(conversation),
    };
    serialize_body(&body, conversation)
}

/// Returns the tools in the format of the provider.
fn tools(tools: &[ToolSpec]) -> Vec<ResponsesTool<'_>> {
    tools.iter().map(to_tool).collect()
}

/// Returns a tool in the format of the provider.
fn to_tool(tool: &ToolSpec) -> ResponsesTool<'_> {
    let ToolSpec { name, description, parameters } = tool;
    ResponsesTool { name, description, parameters, strict: false }
}

/// Returns whether the model of that name can reason.
fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_o_series =
        name.strip_prefix('o').is_some_and(|suffix| suffix.starts_with(|c: char| c.is_ascii_digit()));
    is_o_series
        || (name.starts_with("gpt-5") && !name.starts_with("gpt-5-chat"))
        || ["codex", "gpt-oss"].iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the conversation as items.
fn input_items<'c>(conversation: &'c Conversation<'_>) -> Vec<ResponsesItem<'c>> {
    let mut items = Vec::with_capacity(conversation.len() + conversation.len() / 2);
    for message in conversation.iter() {
        match message.speaker {
            Speaker::Human => {
                items.push(ResponsesItem::Message { role: "user", content: content_parts(message) })
            }
            Speaker::Tool { call_id, .. } => {
                let has_media = media_pieces(message).next().is_some();
                let output = if has_media {
                    ResponsesToolOutput::Parts(content_parts(message))
                } else {
                    ResponsesToolOutput::Text(joined_text(message))
                };
                items.push(ResponsesItem::FunctionCallOutput { call_id, output });
            }
            Speaker::Model => items.extend(message.pieces.iter().filter_map(to_item)),
        }
    }
    items
}

/// Returns the content of a person's message or a tool's result.
fn content_parts<'c>(message: ConversationMessage<'c, '_>) -> Vec<ResponsesPart<'c>> {
    message
        .pieces
        .iter()
        .filter_map(|piece| match piece {
            MessagePiece::Text(text) => Some(ResponsesPart::InputText { text }),
            MessagePiece::Media(media) => Some(file_part(media)),
            MessagePiece::Call { .. } | MessagePiece::Thinking(_) | MessagePiece::Opaque(_) => None,
        })
        .collect()
}

/// Returns an image or a document as a part.
fn file_part<'c>(media: &'c MediaBytes<'_>) -> ResponsesPart<'c> {
    match media.media_type {
        PDF => ResponsesPart::InputFile { filename: file_name(media), file_data: DataUrl(*media) },
        _ => ResponsesPart::InputImage { image_url: DataUrl(*media) },
    }
}

/// Returns a piece of a model's message as an item; `None` for media, which models do not send.
fn to_item<'c>(piece: &'c MessagePiece<'_>) -> Option<ResponsesItem<'c>> {
    match piece {
        MessagePiece::Text(text) => Some(ResponsesItem::Message {
            role: "assistant",
            content: vec![ResponsesPart::OutputText { text }],
        }),
        MessagePiece::Call { id, name, args } => {
            Some(ResponsesItem::FunctionCall { call_id: id, name, arguments: JsonText(*args) })
        }
        MessagePiece::Thinking(block) | MessagePiece::Opaque(block) => Some(ResponsesItem::Raw(block.raw)),
        MessagePiece::Media(_) => None,
    }
}
