//! The body of a Chat Completions request. It expects a legal conversation.
//!
//! What does not change between the requests of a conversation comes first, the messages at the very end of the body.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::transcript::{Args, Conversation, Media, Own, Piece, Said, Speaker};
use crate::wire::encode::{DataUrl, JsonText, joined_text, media_of, written};
use crate::wire::schema::is_strict;
use crate::wire::{CACHE_KEY_CHARS_MAX, Endpoint, Target};

/// What is said for a result that is only an image.
const IMAGE_FOLLOWS: &str = "(The image follows.)";

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'r RawValue>,
    messages: Vec<Turn<'r>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct ResponseFormat<'r> {
    json_schema: AnswerFormat<'r>,
}

#[derive(Serialize)]
struct AnswerFormat<'r> {
    name: &'static str,
    schema: &'r Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'r> {
    function: Function<'r>,
}

#[derive(Serialize)]
struct Function<'r> {
    name: &'r str,
    description: &'r str,
    parameters: &'r Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Turn<'c> {
    System {
        content: String,
    },
    User {
        content: Content<'c>,
    },
    Tool {
        tool_call_id: &'c str,
        content: Cow<'c, str>,
    },
    #[serde(untagged)]
    Assistant(Assistant<'c>),
}

/// What a person says: a text, or texts and images.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'c> {
    Text(Cow<'c, str>),
    Parts(Vec<Part<'c>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'c> {
    Text { text: &'c str },
    ImageUrl { image_url: ImageUrl<'c> },
}

#[derive(Serialize)]
struct ImageUrl<'c> {
    url: DataUrl<'c>,
}

#[derive(Serialize)]
struct Assistant<'c> {
    role: &'static str,
    content: Option<Cow<'c, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'c>>,
    /// Its reasoning under the names it came with, where it is wanted back.
    #[serde(flatten)]
    reasoning: BTreeMap<&'c str, Cow<'c, str>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Call<'c> {
    id: &'c str,
    function: Called<'c>,
}

#[derive(Serialize)]
struct Called<'c> {
    name: &'c str,
    arguments: JsonText<Args<'c>>,
}

/// Returns the body of a request.
pub(in crate::wire) fn body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
) -> serde_json::Result<Vec<u8>> {
    let is_official = target.endpoint == Endpoint::Official;
    let max = request.max_output_tokens;
    let key = request.cache_key.as_deref().filter(|key| is_official && key.len() <= CACHE_KEY_CHARS_MAX);
    let body = Body {
        model: target.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_completion_tokens: max.filter(|_| is_official),
        max_tokens: max.filter(|_| !is_official),
        reasoning_effort: target.effort.map(crate::Effort::as_str),
        prompt_cache_key: key,
        response_format: request.answer_schema.as_ref().map(|schema| ResponseFormat {
            json_schema: AnswerFormat { name: "answer", schema, strict: is_strict(schema) },
        }),
        tools: request.tools.written(Provider::OpenAiChat, tools)?,
        messages: turns(request, conversation),
    };
    written(&body, conversation)
}

fn tools(tools: &[ToolSpec]) -> Vec<Tool<'_>> {
    tools.iter().map(tool).collect()
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    let ToolSpec { name, description, parameters } = tool;
    Tool { function: Function { name, description, parameters } }
}

fn turns<'c>(request: &'c ChatRequest, conversation: &'c Conversation<'_>) -> Vec<Turn<'c>> {
    let mut turns = Vec::with_capacity(conversation.len() + 1);
    // Many templates of local models take one system message only.
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        turns.push(Turn::System { content: system.join("\n\n") });
    }
    let last_words =
        conversation.iter().rposition(|said| matches!(said.speaker, Speaker::Human)).unwrap_or(0);
    // Results hold text alone, so the user's side shows the images of a batch behind it.
    let mut images = Vec::new();
    for (index, said) in conversation.iter().enumerate() {
        match said.speaker {
            Speaker::Tool { call_id, .. } => {
                turns.push(Turn::Tool { tool_call_id: call_id, content: result_text(said) });
                images.extend(media_of(said).map(image));
            }
            Speaker::Human => {
                turns.push(Turn::User { content: human(std::mem::take(&mut images), said) });
            }
            Speaker::Model => {
                turns.extend(shown(&mut images));
                let mut turn = assistant(said);
                if index > last_words {
                    turn.reasoning = reasoning(said);
                }
                turns.push(Turn::Assistant(turn));
            }
        }
    }
    turns.extend(shown(&mut images));
    turns
}

/// Returns the user's turn that shows images, if there are some.
fn shown<'c>(images: &mut Vec<Part<'c>>) -> Option<Turn<'c>> {
    (!images.is_empty()).then(|| Turn::User { content: Content::Parts(std::mem::take(images)) })
}

fn human<'c>(images: Vec<Part<'c>>, said: Said<'c, '_>) -> Content<'c> {
    if images.is_empty() && media_of(said).next().is_none() {
        return Content::Text(joined_text(said));
    }
    let mut parts = images;
    parts.extend(said.pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(Part::Text { text }),
        Piece::Media(media) => Some(image(media)),
        Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => None,
    }));
    Content::Parts(parts)
}

/// Returns a result's text; one that is only an image says where it is.
fn result_text<'c>(said: Said<'c, '_>) -> Cow<'c, str> {
    let text = joined_text(said);
    if text.is_empty() { Cow::Borrowed(IMAGE_FOLLOWS) } else { text }
}

const fn image<'c>(media: &'c Media<'_>) -> Part<'c> {
    Part::ImageUrl { image_url: ImageUrl { url: DataUrl(*media) } }
}

/// Returns a message of the model without its reasoning.
fn assistant<'c>(said: Said<'c, '_>) -> Assistant<'c> {
    let text = joined_text(said);
    let calls = said.pieces.iter().filter_map(|piece| match piece {
        Piece::Call { id, name, args } => {
            Some(Call { id, function: Called { name, arguments: JsonText(*args) } })
        }
        Piece::Text(_) | Piece::Media(_) | Piece::Thinking(_) | Piece::Opaque(_) => None,
    });
    Assistant {
        role: "assistant",
        content: (!text.is_empty()).then_some(text),
        tool_calls: calls.collect(),
        reasoning: BTreeMap::new(),
    }
}

/// Returns the reasoning under the names it came with.
fn reasoning<'c>(said: Said<'c, '_>) -> BTreeMap<&'c str, Cow<'c, str>> {
    let mut fields: BTreeMap<&str, Cow<'_, str>> = BTreeMap::new();
    for piece in said.pieces {
        let Piece::Thinking(Own { raw: Value::Object(raw), .. }) = piece else { continue };
        for (name, value) in raw {
            if let Value::String(text) = value {
                fields.entry(name).and_modify(|before| before.to_mut().push_str(text)).or_insert(text.into());
            }
        }
    }
    fields
}
