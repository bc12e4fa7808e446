//! The messages of a model as LangChain's `AIMessageChunk`s: one chunk for each delta, and a last chunk that
//! completes the message. Clients add up the chunks of a message; the sum equals the stored message (I4). The
//! translator decides when a message starts and ends.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::item::ToolCallAnnouncement;
use crate::streams::streamed_message::{SegmentKind, StreamedMessage, unstreamed_rest};

/// A chunk with one delta of a message. One is serialized for each token; the types of its constant fields therefore
/// need no allocation.
#[derive(Debug, Serialize)]
pub(crate) struct DeltaChunk<'a> {
    content: &'a str,
    additional_kwargs: ReasoningKwargs<'a>,
    response_metadata: EmptyObject,
    #[serde(rename = "type")]
    kind: &'static str,
    name: Option<&'static str>,
    id: &'a str,
    tool_calls: [u8; 0],
    invalid_tool_calls: [u8; 0],
    /// Always `null`: the usage is in the last chunk, because clients add it up as well.
    usage_metadata: Option<u8>,
    tool_call_chunks: [u8; 0],
    /// Always `null`; the last chunk has `last`.
    chunk_position: Option<&'static str>,
}

/// The `additional_kwargs` of a delta.
#[derive(Debug, Default, Serialize)]
struct ReasoningKwargs<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
}

/// Serializes as `{}`.
#[derive(Debug, Serialize)]
struct EmptyObject {}

impl<'a> DeltaChunk<'a> {
    /// Returns the chunk that appends `text` to the text or the reasoning of the message `id`.
    pub(crate) fn new(id: &'a str, kind: SegmentKind, text: &'a str) -> Self {
        let (content, reasoning_content) = match kind {
            SegmentKind::Text => (text, None),
            SegmentKind::Reasoning => ("", Some(text)),
        };
        Self {
            content,
            additional_kwargs: ReasoningKwargs { reasoning_content },
            response_metadata: EmptyObject {},
            kind: "AIMessageChunk",
            name: None,
            id,
            tool_calls: [],
            invalid_tool_calls: [],
            usage_metadata: None,
            tool_call_chunks: [],
            chunk_position: None,
        }
    }
}

/// Returns the chunk that announces a tool call: its name and id with empty arguments, which follow in the last chunk.
pub(super) fn tool_call_announcement(call: &ToolCallAnnouncement<'_>) -> Value {
    let ToolCallAnnouncement { message: streamed, index, call_id, name, .. } = call;
    let chunk = json!({"name": name, "args": "", "id": call_id, "index": index, "type": "tool_call_chunk"});
    let mut message = partial_message(streamed);
    message["content"] = "".into();
    message["additional_kwargs"] = json!({});
    message["type"] = "AIMessageChunk".into();
    message["tool_call_chunks"] = json!([chunk]);
    message["chunk_position"] = Value::Null;
    message
}

/// Returns the message with everything that was streamed so far.
pub(super) fn partial_message(streamed: &StreamedMessage) -> Value {
    let mut kwargs = Map::new();
    let reasoning = streamed.text_of(SegmentKind::Reasoning);
    if !reasoning.is_empty() {
        kwargs.insert("reasoning_content".to_owned(), reasoning.into());
    }
    json!({
        "content": streamed.text_of(SegmentKind::Text), "additional_kwargs": kwargs, "response_metadata": {}, "type": "ai",
        "name": null, "id": streamed.id, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null,
    })
}

/// Returns the chunk that completes the stored message: the content that was not streamed, the arguments of the tool
/// calls, and the fields that are known only at the end, such as the usage. `streamed` is `None` if nothing was
/// streamed; the chunk then contains the complete message.
pub(super) fn last_chunk(streamed: Option<&StreamedMessage>, message: &RawValue) -> Value {
    let streamed_text = |kind| streamed.map(|streamed| streamed.text_of(kind)).unwrap_or_default();
    let (text, reasoning) = (streamed_text(SegmentKind::Text), streamed_text(SegmentKind::Reasoning));
    let announced = streamed.map_or(&[][..], |streamed| &streamed.announced_calls);
    let mut chunk: Value = serde_json::from_str(message.get()).unwrap_or_default();
    chunk["type"] = "AIMessageChunk".into();
    chunk["chunk_position"] = "last".into();
    chunk["tool_call_chunks"] = tool_call_chunks(announced, &chunk["tool_calls"]);
    chunk["content"] = unstreamed_content(chunk["content"].take(), &text, &reasoning);
    if let Some(whole) = chunk["additional_kwargs"]["reasoning_content"].as_str() {
        let remaining = unstreamed_rest(whole, &reasoning).to_owned();
        if let Some(kwargs) = chunk["additional_kwargs"].as_object_mut() {
            match remaining.is_empty() {
                true => kwargs.shift_remove("reasoning_content"),
                false => kwargs.insert("reasoning_content".to_owned(), remaining.into()),
            };
        }
    }
    chunk
}

/// Returns the part of the content that earlier chunks did not contain. `text` and `reasoning` are what was streamed.
///
/// A string loses its streamed prefix. A list of blocks loses all text blocks if any text was streamed, and all
/// reasoning blocks if any reasoning was streamed.
fn unstreamed_content(content: Value, text: &str, reasoning: &str) -> Value {
    match content {
        Value::String(whole) => Value::from(unstreamed_rest(&whole, text)),
        Value::Array(blocks) if !text.is_empty() || !reasoning.is_empty() => {
            let was_streamed = |block: &Value| {
                let kind = block["type"].as_str().unwrap_or_default();
                (kind == "text" && !text.is_empty())
                    || (["thinking", "reasoning"].contains(&kind) && !reasoning.is_empty())
            };
            let remaining: Vec<Value> = blocks.into_iter().filter(|block| !was_streamed(block)).collect();
            if remaining.is_empty() { Value::from("") } else { Value::Array(remaining) }
        }
        other => other,
    }
}

/// Returns the tool calls as chunks, each with its complete arguments. A call at one of the indices `announced` has
/// no name and no id, because clients concatenate the names and ids of chunks.
fn tool_call_chunks(announced: &[usize], calls: &Value) -> Value {
    let chunks = calls.as_array().into_iter().flatten().enumerate().map(|(index, call)| {
        let is_new = !announced.contains(&index);
        json!({
            "name": call["name"].as_str().filter(|_| is_new), "args": call["args"].to_string(),
            "id": call["id"].as_str().filter(|_| is_new), "index": index, "type": "tool_call_chunk",
        })
    });
    Value::Array(chunks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn message(content: &Value) -> Value {
        json!({
            "type": "ai", "id": "m1", "content": content, "additional_kwargs": {}, "response_metadata": {},
            "tool_calls": [], "usage_metadata": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
        })
    }

    #[test]
    fn i4_the_chunks_add_up_to_the_stored_message_wherever_it_is_split() {
        let whole = "a 🦀é\u{301} z";
        for cut in whole.char_indices().map(|(index, _)| index) {
            let (first, second) = whole.split_at(cut);
            let mut streamed = StreamedMessage::new("m1");
            let mut got = String::new();
            for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
                streamed.append(SegmentKind::Text, piece);
                let delta = serde_json::to_value(DeltaChunk::new("m1", SegmentKind::Text, piece)).unwrap();
                got.push_str(delta["content"].as_str().unwrap());
                assert_eq!(delta["id"], "m1");
                assert_eq!(delta["usage_metadata"], Value::Null, "usage is counted once");
            }
            let last = last_chunk(Some(&streamed), &raw(&message(&json!(format!("{whole}!")))));
            got.push_str(last["content"].as_str().unwrap());
            assert_eq!(got, format!("{whole}!"));
            assert_eq!((&last["id"], &last["chunk_position"]), (&json!("m1"), &json!("last")));
            assert_eq!(last["usage_metadata"]["total_tokens"], 7);
        }
    }

    #[test]
    fn a_message_that_was_not_streamed_is_one_whole_chunk() {
        let content = json!([{"type": "text", "text": "Hello"}, {"type": "image", "url": "x"}]);
        let chunk = last_chunk(None, &raw(&message(&content)));
        assert_eq!(chunk["content"], content);
        let mut streamed = StreamedMessage::new("m1");
        streamed.append(SegmentKind::Text, "Hello");
        assert_eq!(
            last_chunk(Some(&streamed), &raw(&message(&content)))["content"],
            json!([content[1].clone()])
        );
    }

    #[test]
    fn a_call_that_was_not_announced_is_one_chunk_with_name_id_and_index() {
        let mut whole = message(&json!(""));
        whole["tool_calls"] = json!([
            {"name": "read_file", "args": {"path": "a"}, "id": "c1", "type": "tool_call"},
            {"name": "read_file", "args": {"path": "b"}, "id": "c2", "type": "tool_call"},
        ]);
        let chunk = last_chunk(None, &raw(&whole));
        assert_eq!(
            chunk["tool_call_chunks"],
            json!([
                {"name": "read_file", "args": "{\"path\":\"a\"}", "id": "c1", "index": 0, "type": "tool_call_chunk"},
                {"name": "read_file", "args": "{\"path\":\"b\"}", "id": "c2", "index": 1, "type": "tool_call_chunk"},
            ])
        );
    }

    #[test]
    fn an_announced_call_gets_its_arguments_in_the_last_chunk_without_a_second_name() {
        let mut streamed = StreamedMessage::new("m1");
        streamed.announced_calls.push(0);
        let (call_id, name, opens_message) = ("c1", "read_file", true);
        let first = tool_call_announcement(&ToolCallAnnouncement {
            message: &streamed,
            index: 0,
            call_id,
            name,
            opens_message,
        });
        assert_eq!(first["tool_call_chunks"][0]["name"], "read_file");
        assert_eq!(first["tool_call_chunks"][0]["args"], "");
        let mut whole = message(&json!(""));
        whole["tool_calls"] = json!([{"name": "read_file", "args": {}, "id": "c1", "type": "tool_call"}]);
        let last = last_chunk(Some(&streamed), &raw(&whole));
        let remaining =
            json!({"name": null, "args": "{}", "id": null, "index": 0, "type": "tool_call_chunk"});
        assert_eq!(last["tool_call_chunks"], json!([remaining]));
    }

    #[test]
    fn reasoning_is_sent_outside_of_the_text_and_only_once() {
        let mut streamed = StreamedMessage::new("m1");
        streamed.append(SegmentKind::Reasoning, "hm");
        let delta = serde_json::to_value(DeltaChunk::new("m1", SegmentKind::Reasoning, "hm")).unwrap();
        assert_eq!(delta["additional_kwargs"]["reasoning_content"], "hm");
        assert_eq!(delta["content"], "");
        let mut whole = message(&json!("yes"));
        whole["additional_kwargs"]["reasoning_content"] = "hm".into();
        let last = last_chunk(Some(&streamed), &raw(&whole));
        assert_eq!(last["additional_kwargs"], json!({}));
        assert_eq!(last["content"], "yes");
    }
}
