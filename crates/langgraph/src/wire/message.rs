//! Messages on the wire, in the JSON form of LangChain's message classes.
//!
//! Reasoning is in `additional_kwargs.reasoning_content`, where UIs look for it, and not in the content. The text of
//! an answer is therefore the same whether a client received it as deltas or as a whole (I4). A message of a client
//! keeps the form in which the client sent it.

use std::sync::Arc;

use agent::{CLIENT_PROVIDER, StateMessage, client_fields};
use protocol::{AiMessage, ContentBlock, Message, StopReason, ThreadId, ToolStatus, Usage};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::timestamp;
use crate::requests::messages::client_content_blocks;

/// A message on the wire.
#[derive(Debug, Serialize)]
struct WireMessage<'a> {
    /// The LangChain type: `human`, `system`, `ai` or `tool`.
    #[serde(rename = "type")]
    kind: &'a str,
    /// A string, or a list of blocks.
    content: Value,
    id: &'a str,
    name: Option<&'a str>,
    additional_kwargs: Map<String, Value>,
    /// The `seq`, the time and the run of the message; for an AI message also the model and the reason why it stopped.
    response_metadata: Map<String, Value>,
    #[serde(flatten)]
    role_fields: RoleFields<'a>,
}

/// The fields that only messages of one role have.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RoleFields<'a> {
    Human {},
    Ai { tool_calls: Vec<Value>, invalid_tool_calls: Vec<Value>, usage_metadata: Option<Value> },
    Tool { tool_call_id: &'a str, status: &'static str, artifact: Option<Value> },
}

/// Returns the message as JSON.
///
/// The JSON is rendered on the first call and cached in the message, so that the messages of a long thread are not
/// rendered again for each state.
pub(crate) fn render_message(thread_id: ThreadId, message: &StateMessage) -> &Arc<RawValue> {
    message.encoded_with(|message| {
        let json = serde_json::value::to_raw_value(&wire_message(thread_id, message));
        Arc::from(json.expect("a value with text keys is always JSON"))
    })
}

/// Converts a message.
fn wire_message(thread_id: ThreadId, message: &StateMessage) -> WireMessage<'_> {
    let mut response_metadata = Map::new();
    // Clients sort by `seq`, and pass it to the endpoints under `/api`.
    response_metadata.insert("seq".to_owned(), message.seq.into());
    response_metadata.insert("created_at".to_owned(), timestamp(message.created_at).into());
    if let Some(run_id) = message.run_id {
        response_metadata.insert("run_id".to_owned(), run_id.to_string().into());
    }
    let fields = client_fields(&message.message);
    let block = |block: &ContentBlock| wire_block(thread_id, message, block);
    let content = match client_content_blocks(message, block) {
        Some(blocks) => Value::Array(blocks),
        None => render_content(&message.message, fields, block),
    };
    let field = |name: &str| fields.and_then(|fields| fields.get(name));
    let (kind, name, role_fields) = match &message.message {
        Message::Human(_) => {
            (field("as").and_then(Value::as_str).unwrap_or("human"), None, RoleFields::Human {})
        }
        Message::Ai(ai) => {
            response_metadata.extend(ai_metadata(ai));
            let (tool_calls, invalid_tool_calls) = tool_calls(&ai.content);
            (
                "ai",
                None,
                RoleFields::Ai {
                    tool_calls,
                    invalid_tool_calls,
                    usage_metadata: ai.usage.as_ref().map(usage),
                },
            )
        }
        Message::Tool(tool) => {
            let status = match tool.status {
                ToolStatus::Success => "success",
                ToolStatus::Error => "error",
            };
            (
                "tool",
                tool.name.as_deref(),
                RoleFields::Tool {
                    tool_call_id: &tool.call_id,
                    status,
                    artifact: field("artifact").cloned(),
                },
            )
        }
    };
    let mut additional_kwargs = reasoning_kwargs(message.message.content());
    if let Some(Value::Object(client_kwargs)) = field("additional_kwargs") {
        additional_kwargs.extend(client_kwargs.clone());
    }
    let name = name.or_else(|| field("name").and_then(Value::as_str));
    WireMessage { kind, content, id: &message.id, name, additional_kwargs, response_metadata, role_fields }
}

/// Returns the reasoning of a message as `reasoning_content`, the name that UIs read; empty if there is none.
fn reasoning_kwargs(content: &[ContentBlock]) -> Map<String, Value> {
    let mut reasoning = String::new();
    for block in content {
        if let ContentBlock::Thinking { text, .. } = block {
            reasoning.push_str(text);
        }
    }
    let mut kwargs = Map::new();
    if !reasoning.is_empty() {
        kwargs.insert("reasoning_content".to_owned(), reasoning.into());
    }
    kwargs
}

/// Returns the response metadata of an AI message: provider, model and `finish_reason`, and `incomplete` if the
/// answer was cut off.
fn ai_metadata(ai: &AiMessage) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(model) = &ai.model {
        let (provider, name) = model.split_once('/').unwrap_or(("", model));
        metadata.insert("model_provider".to_owned(), provider.into());
        metadata.insert("model_name".to_owned(), name.into());
    }
    if let Some(stop) = ai.stop {
        let reason = match stop {
            StopReason::EndTurn => "stop",
            StopReason::ToolCalls => "tool_calls",
            StopReason::MaxTokens => "length",
            StopReason::Refusal => "refusal",
            StopReason::Other => "other",
        };
        metadata.insert("finish_reason".to_owned(), reason.into());
    }
    if ai.incomplete {
        metadata.insert("incomplete".to_owned(), true.into());
    }
    metadata
}

/// Returns the tool calls and the invalid tool calls. A call is invalid if its arguments are not a JSON object,
/// because the model wrote malformed JSON.
pub(crate) fn tool_calls(content: &[ContentBlock]) -> (Vec<Value>, Vec<Value>) {
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for block in content {
        let ContentBlock::ToolCall { id, name, args } = block else { continue };
        match args {
            Value::Object(_) => {
                valid.push(json!({"name": name, "args": args, "id": id, "type": "tool_call"}))
            }
            other => {
                let args = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
                let error = "the arguments are not a JSON object";
                invalid.push(json!({"name": name, "args": args, "id": id, "error": error, "type": "invalid_tool_call"}));
            }
        }
    }
    (valid, invalid)
}

/// Returns the token usage as LangChain's `usage_metadata`. The details of the cache are absent if it was not used.
pub(crate) fn usage(usage: &Usage) -> Value {
    let mut metadata = json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens(),
    });
    if usage.cache_read_tokens + usage.cache_write_tokens > 0 {
        metadata["input_token_details"] =
            json!({"cache_read": usage.cache_read_tokens, "cache_creation": usage.cache_write_tokens});
    }
    metadata
}

/// Returns the content: a string if it is text only, and a list of blocks otherwise.
///
/// The text blocks of an answer are concatenated, and those of a tool's result are joined with line breaks. A human
/// message with several text blocks stays a list. `client_fields` are the fields of the block that stores the
/// client's other fields; that block is left out, because its fields are fields of the message on the wire.
fn render_content(
    message: &Message,
    client_fields: Option<&Map<String, Value>>,
    render_block: impl Fn(&ContentBlock) -> Option<Value>,
) -> Value {
    let blocks = message.content();
    let shown = || {
        blocks.iter().filter(|block| !matches!(block, ContentBlock::Opaque { raw, .. } if raw.as_object().is_some_and(|raw| Some(raw) == client_fields)))
    };
    let is_text = shown().all(|block| !is_shown_as_block(block));
    match message {
        Message::Ai(_) if is_text => join_text(blocks, "").into(),
        Message::Tool(_) if is_text => join_text(blocks, "\n").into(),
        Message::Human(_) if is_text && text_block_count(blocks) < 2 => join_text(blocks, "").into(),
        Message::Human(_) | Message::Ai(_) | Message::Tool(_) => shown().filter_map(render_block).collect(),
    }
}

/// Returns the number of text blocks.
fn text_block_count(blocks: &[ContentBlock]) -> usize {
    blocks.iter().filter(|block| matches!(block, ContentBlock::Text { .. })).count()
}

/// Returns the text of all text blocks, joined with the separator.
fn join_text(blocks: &[ContentBlock], separator: &str) -> String {
    let mut joined = String::new();
    for block in blocks {
        if let ContentBlock::Text { text } = block {
            if !joined.is_empty() {
                joined.push_str(separator);
            }
            joined.push_str(text);
        }
    }
    joined
}

/// Returns whether a block needs a list of blocks as content, because it is neither text nor has a field of its own.
fn is_shown_as_block(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Media { .. } => true,
        ContentBlock::Opaque { provider, .. } => provider == CLIENT_PROVIDER,
        ContentBlock::Text { .. } | ContentBlock::Thinking { .. } | ContentBlock::ToolCall { .. } => false,
    }
}

/// Converts a content block; returns `None` for a block that is not part of the content on the wire.
///
/// An image or file has its bytes inline if they are loaded, and otherwise the URL of the artifact.
fn wire_block(thread_id: ThreadId, message: &StateMessage, block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => Some(json!({"type": "text", "text": text})),
        ContentBlock::Media { media_type, sha256, bytes } => {
            let top_level = media_type.split('/').next().unwrap_or_default();
            let known = ["image", "audio", "video"].into_iter().find(|kind| *kind == top_level);
            let kind = known.unwrap_or("file");
            if let Some(base64) = sha256.as_deref().and_then(|sha256| message.base64_of(sha256)) {
                // The client library of Python reads `mime_type`, that of JavaScript `mimeType`.
                return Some(json!({
                    "type": kind, "source_type": "base64", "mime_type": media_type, "mimeType": media_type,
                    "data": base64,
                }));
            }
            let url = sha256.as_ref().map(|sha256| format!("/api/threads/{thread_id}/artifacts/{sha256}"));
            Some(json!({"type": kind, "url": url, "mime_type": media_type, "sha256": sha256, "bytes": bytes}))
        }
        ContentBlock::Opaque { provider, raw } if provider == CLIENT_PROVIDER => Some(raw.clone()),
        // Reasoning and calls have fields of their own, and the opaque blocks of a provider are only sent to that
        // provider.
        ContentBlock::Opaque { .. } | ContentBlock::Thinking { .. } | ContentBlock::ToolCall { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{Event, HumanMessage, NewEvent, RunId, ToolMessage};
    use uuid::Uuid;

    use super::*;

    fn check(message: Message, expected: Value) {
        let (thread_id, run_id) = (ThreadId::from_uuid(Uuid::nil()), RunId::from_uuid(Uuid::nil()));
        let event = NewEvent::from_message(&message, Timestamp::UNIX_EPOCH).unwrap().with_run(run_id);
        let message = StateMessage::from_event(&Event::from_new(event, thread_id, 7)).unwrap();
        let mut wire: Value = serde_json::from_str(render_message(thread_id, &message).get()).unwrap();
        assert_eq!(std::mem::replace(&mut wire["id"], json!("m-1")), json!(message.id));
        let metadata = wire["response_metadata"].as_object_mut().unwrap();
        assert_eq!(metadata.shift_remove("seq"), Some(7.into()));
        assert_eq!(metadata.shift_remove("run_id"), Some(Uuid::nil().to_string().into()));
        assert_eq!(metadata.shift_remove("created_at"), Some("1970-01-01T00:00:00.000000+00:00".into()));
        assert_eq!(wire, expected);
    }

    fn human(content: Vec<ContentBlock>) -> Message {
        Message::Human(HumanMessage { id: None, content })
    }

    #[test]
    fn the_content_of_a_human_message_is_a_string_or_blocks() {
        let wire = |content: Value| json!({"type": "human", "content": content, "id": "m-1", "name": null, "additional_kwargs": {}, "response_metadata": {}});
        check(Message::human("hello"), wire("hello".into()));
        check(human(vec![]), wire("".into()));
        let media =
            ContentBlock::Media { media_type: "image/png".into(), sha256: Some("ab".into()), bytes: Some(3) };
        let url = format!("/api/threads/{}/artifacts/ab", Uuid::nil());
        check(
            human(vec![ContentBlock::text("see"), media]),
            wire(json!([
                {"type": "text", "text": "see"},
                {"type": "image", "url": url, "mime_type": "image/png", "sha256": "ab", "bytes": 3},
            ])),
        );
        let custom = json!({"type": "custom", "x": [1]});
        check(
            human(vec![ContentBlock::Opaque { provider: CLIENT_PROVIDER.into(), raw: custom.clone() }]),
            wire(json!([custom])),
        );
    }

    #[test]
    fn i4_the_text_of_an_answer_equals_its_deltas() {
        let content = vec![
            ContentBlock::Thinking {
                text: "hm".into(),
                provider: None,
                raw: Some(json!({"signature": "s"})),
            },
            ContentBlock::text("I will "),
            ContentBlock::text("look."),
            ContentBlock::ToolCall { id: "c1".into(), name: "read".into(), args: json!({"path": "a"}) },
            ContentBlock::ToolCall { id: "c2".into(), name: "read".into(), args: json!("{bad") },
            ContentBlock::Opaque { provider: "anthropic".into(), raw: json!({"secret": 1}) },
        ];
        let usage = Usage { input_tokens: 5, output_tokens: 2, cache_read_tokens: 4, cache_write_tokens: 0 };
        let ai = AiMessage {
            content,
            model: Some("scripted/one".into()),
            usage: Some(usage),
            stop: Some(StopReason::ToolCalls),
            ..AiMessage::default()
        };
        check(
            Message::Ai(ai),
            json!({
                "type": "ai", "content": "I will look.", "id": "m-1", "name": null,
                "additional_kwargs": {"reasoning_content": "hm"},
                "response_metadata": {"model_provider": "scripted", "model_name": "one", "finish_reason": "tool_calls"},
                "tool_calls": [{"name": "read", "args": {"path": "a"}, "id": "c1", "type": "tool_call"}],
                "invalid_tool_calls": [{"name": "read", "args": "{bad", "id": "c2", "error": "the arguments are not a JSON object", "type": "invalid_tool_call"}],
                "usage_metadata": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7, "input_token_details": {"cache_read": 4, "cache_creation": 0}},
            }),
        );
    }

    #[test]
    fn a_tool_message_names_its_call() {
        let tool = ToolMessage {
            id: None,
            call_id: "c1".into(),
            name: Some("read".into()),
            content: vec![ContentBlock::text("a"), ContentBlock::text("b")],
            status: ToolStatus::Error,
        };
        check(
            Message::Tool(tool),
            json!({
                "type": "tool", "content": "a\nb", "id": "m-1", "name": "read", "additional_kwargs": {}, "response_metadata": {},
                "tool_call_id": "c1", "status": "error", "artifact": null,
            }),
        );
    }
}
