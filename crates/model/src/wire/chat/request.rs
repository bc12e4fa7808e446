//! The body of a Chat Completions request, from a legal conversation.
//!
//! Fields that stay the same in all requests of a conversation come first and the messages last, so that the
//! provider's cache of common beginnings hits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::{ChatRequest, ToolSpec};
use crate::name::Provider;
use crate::transcript::{
    CallArguments, Conversation, ConversationMessage, MediaBytes, MessagePiece, ProviderBlock, Speaker,
};
use crate::wire::encode::{DataUrl, JsonText, joined_text, media_pieces, serialize_body};
use crate::wire::schema::is_strict;
use crate::wire::{AnswerFormat, CACHE_KEY_CHARS_MAX, Endpoint, RequestTarget, UsageRequest};

/// The text of a result that is only an image.
const IMAGE_FOLLOWS: &str = "(The image follows.)";

/// The body of a request.
#[derive(Serialize)]
struct ChatCompletionsRequest<'r> {
    model: &'r str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
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
    messages: Vec<ChatMessage<'r>>,
}

/// The options of the stream.
#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The format that the answer must have.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'r> {
    JsonSchema { json_schema: ChatAnswerFormat<'r> },
    JsonObject,
}

/// The JSON schema that the answer must follow.
#[derive(Serialize)]
struct ChatAnswerFormat<'r> {
    name: &'static str,
    schema: &'r Value,
    strict: bool,
}

/// A tool that the model may call.
#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct ChatTool<'r> {
    function: ChatFunction<'r>,
}

/// The name, description and schema of a tool.
#[derive(Serialize)]
struct ChatFunction<'r> {
    name: &'r str,
    description: &'r str,
    parameters: &'r Value,
}

/// A message of the conversation.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum ChatMessage<'c> {
    System {
        content: String,
    },
    User {
        content: ChatContent<'c>,
    },
    Tool {
        tool_call_id: &'c str,
        content: Cow<'c, str>,
    },
    #[serde(untagged)]
    Assistant(AssistantMessage<'c>),
}

/// The content of a person's message: a text, or several texts and images.
#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'c> {
    Text(Cow<'c, str>),
    Parts(Vec<ChatContentPart<'c>>),
}

/// A part of a person's message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatContentPart<'c> {
    Text { text: &'c str },
    ImageUrl { image_url: ImageUrl<'c> },
}

/// An image.
#[derive(Serialize)]
struct ImageUrl<'c> {
    url: DataUrl<'c>,
}

/// A message of the model.
#[derive(Serialize)]
struct AssistantMessage<'c> {
    role: &'static str,
    content: Option<Cow<'c, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatToolCall<'c>>,
    /// The reasoning, under the names with which it arrived. Empty where it must not be sent back.
    #[serde(flatten)]
    reasoning: BTreeMap<&'c str, Cow<'c, str>>,
}

/// A tool call of the model.
#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct ChatToolCall<'c> {
    id: &'c str,
    function: ChatFunctionCall<'c>,
}

/// The name and the arguments of a call.
#[derive(Serialize)]
struct ChatFunctionCall<'c> {
    name: &'c str,
    arguments: JsonText<CallArguments<'c>>,
}

/// Returns the body of a request.
pub(in crate::wire) fn request_body(
    request: &ChatRequest,
    conversation: &Conversation<'_>,
    target: &RequestTarget<'_>,
) -> serde_json::Result<Vec<u8>> {
    let is_official = target.endpoint == Endpoint::Official;
    let tokens_max = request.max_output_tokens;
    let cache_key = request
        .cache_key
        .as_deref()
        .filter(|cache_key| is_official && cache_key.len() <= CACHE_KEY_CHARS_MAX);
    let body = ChatCompletionsRequest {
        model: target.model,
        stream: true,
        stream_options: match target.fields.usage_request {
            UsageRequest::StreamOptions => Some(StreamOptions { include_usage: true }),
            UsageRequest::None => None,
        },
        max_completion_tokens: tokens_max.filter(|_| is_official),
        max_tokens: tokens_max.filter(|_| !is_official),
        reasoning_effort: target.effort.map(crate::Effort::as_str),
        prompt_cache_key: cache_key,
        response_format: request
            .answer_schema
            .as_ref()
            .and_then(|schema| response_format(schema, target.fields.answer_format)),
        tools: request.tools.serialized(Provider::OpenAiChat, tools)?,
        messages: chat_messages(request, conversation),
    };
    serialize_body(&body, conversation)
}

/// Returns the field that asks for an answer that follows the schema, if the request has one.
fn response_format(schema: &Value, format: AnswerFormat) -> Option<ResponseFormat<'_>> {
    match format {
        AnswerFormat::JsonSchema => Some(ResponseFormat::JsonSchema {
            json_schema: ChatAnswerFormat { name: "answer", schema, strict: is_strict(schema) },
        }),
        AnswerFormat::JsonObject => Some(ResponseFormat::JsonObject),
        AnswerFormat::Plain => None,
    }
}

/// Returns the tools in the format of the provider.
fn tools(tools: &[ToolSpec]) -> Vec<ChatTool<'_>> {
    tools.iter().map(to_tool).collect()
}

/// Returns a tool in the format of the provider.
fn to_tool(tool: &ToolSpec) -> ChatTool<'_> {
    let ToolSpec { name, description, parameters } = tool;
    ChatTool { function: ChatFunction { name, description, parameters } }
}

/// Returns the instructions and the conversation as messages.
fn chat_messages<'c>(request: &'c ChatRequest, conversation: &'c Conversation<'_>) -> Vec<ChatMessage<'c>> {
    let mut messages = Vec::with_capacity(conversation.len() + 1);
    // Templates of many local models accept only one system message.
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        messages.push(ChatMessage::System { content: system.join("\n\n") });
    }
    let last_human =
        conversation.iter().rposition(|spoken| matches!(spoken.speaker, Speaker::Human)).unwrap_or(0);
    // Results can hold only text, so a message of the user after the batch has the images.
    let mut images = Vec::new();
    for (index, spoken) in conversation.iter().enumerate() {
        match spoken.speaker {
            Speaker::Tool { call_id, .. } => {
                messages.push(ChatMessage::Tool { tool_call_id: call_id, content: result_text(spoken) });
                images.extend(media_pieces(spoken).map(image_part));
            }
            Speaker::Human => {
                messages
                    .push(ChatMessage::User { content: human_content(std::mem::take(&mut images), spoken) });
            }
            Speaker::Model => {
                messages.extend(image_message(&mut images));
                let mut message = assistant_message(spoken);
                if index > last_human {
                    message.reasoning = reasoning_fields(spoken);
                }
                messages.push(ChatMessage::Assistant(message));
            }
        }
    }
    messages.extend(image_message(&mut images));
    messages
}

/// Returns a message of the user with the images, if there are any.
fn image_message<'c>(images: &mut Vec<ChatContentPart<'c>>) -> Option<ChatMessage<'c>> {
    (!images.is_empty()).then(|| ChatMessage::User { content: ChatContent::Parts(std::mem::take(images)) })
}

/// Returns the content of a person's message, preceded by the images of results.
fn human_content<'c>(
    images: Vec<ChatContentPart<'c>>,
    message: ConversationMessage<'c, '_>,
) -> ChatContent<'c> {
    if images.is_empty() && media_pieces(message).next().is_none() {
        return ChatContent::Text(joined_text(message));
    }
    let mut parts = images;
    parts.extend(message.pieces.iter().filter_map(|piece| match piece {
        MessagePiece::Text(text) => Some(ChatContentPart::Text { text }),
        MessagePiece::Media(media) => Some(image_part(media)),
        MessagePiece::Call { .. } | MessagePiece::Thinking(_) | MessagePiece::Opaque(_) => None,
    }));
    ChatContent::Parts(parts)
}

/// Returns the text of a result. A result that is only an image gets a text that says so.
fn result_text<'c>(message: ConversationMessage<'c, '_>) -> Cow<'c, str> {
    let text = joined_text(message);
    if text.is_empty() { Cow::Borrowed(IMAGE_FOLLOWS) } else { text }
}

/// Returns an image as a part of a message.
const fn image_part<'c>(media: &'c MediaBytes<'_>) -> ChatContentPart<'c> {
    ChatContentPart::ImageUrl { image_url: ImageUrl { url: DataUrl(*media) } }
}

/// Returns a message of the model without its reasoning.
fn assistant_message<'c>(message: ConversationMessage<'c, '_>) -> AssistantMessage<'c> {
    let text = joined_text(message);
    let calls = message.pieces.iter().filter_map(|piece| match piece {
        MessagePiece::Call { id, name, args } => {
            Some(ChatToolCall { id, function: ChatFunctionCall { name, arguments: JsonText(*args) } })
        }
        MessagePiece::Text(_)
        | MessagePiece::Media(_)
        | MessagePiece::Thinking(_)
        | MessagePiece::Opaque(_) => None,
    });
    AssistantMessage {
        role: "assistant",
        content: (!text.is_empty()).then_some(text),
        tool_calls: calls.collect(),
        reasoning: BTreeMap::new(),
    }
}

/// Returns the reasoning of a message, under the names with which it arrived.
fn reasoning_fields<'c>(message: ConversationMessage<'c, '_>) -> BTreeMap<&'c str, Cow<'c, str>> {
    let mut fields: BTreeMap<&str, Cow<'_, str>> = BTreeMap::new();
    for piece in message.pieces {
        let MessagePiece::Thinking(ProviderBlock { raw: Value::Object(raw), .. }) = piece else { continue };
        for (name, value) in raw {
            if let Value::String(text) = value {
                fields
                    .entry(name)
                    .and_modify(|previous| previous.to_mut().push_str(text))
                    .or_insert(text.into());
            }
        }
    }
    fields
}
