//! Messages of a model as chunks: deltas while it streams and a last chunk that completes the message, so that the chunks
//! together equal the stored message. The translator decides when a message starts and ends.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::item::ToolCallAnnouncement;
use crate::streams::streamed_message::{SegmentKind, StreamedMessage, unstreamed_rest};

/// One more piece of an answer.
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
    usage_metadata: Option<u8>,
    tool_call_chunks: [u8; 0],
    chunk_position: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
struct ReasoningKwargs<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct EmptyObject {}

impl<'a> DeltaChunk<'a> {
    /// Returns the chunk that adds `text` to the message `id`.
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

/// Returns the chunk that announces a call, whose arguments come at the end.
pub(super) fn tool_call_announcement(call: &ToolCallAnnouncement<'_>) -> Value {
    let ToolCallAnnouncement { message: speech, index, call_id, name, .. } = call;
    let chunk = json!({"name": name, "args": "", "id": call_id, "index": index, "type": "tool_call_chunk"});
    let mut message = partial_message(speech);
    message["content"] = "".into();
    message["additional_kwargs"] = json!({});
    message["type"] = "AIMessageChunk".into();
    message["tool_call_chunks"] = json!([chunk]);
    message["chunk_position"] = Value::Null;
    message
}

/// Returns the message as far as it was streamed.
pub(super) fn partial_message(speech: &StreamedMessage) -> Value {
    let mut extra = Map::new();
    let thought = speech.text_of(SegmentKind::Reasoning);
    if !thought.is_empty() {
        extra.insert("reasoning_content".to_owned(), thought.into());
    }
    json!({
        "content": speech.text_of(SegmentKind::Text), "additional_kwargs": extra, "response_metadata": {}, "type": "ai",
        "name": null, "id": speech.id, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null,
    })
}

/// Returns the chunk that completes the message: what was not streamed yet, and what is known at the end only.
pub(super) fn last_chunk(speech: Option<&StreamedMessage>, message: &RawValue) -> Value {
    let all = |kind| speech.map(|speech| speech.text_of(kind)).unwrap_or_default();
    let (text, thought) = (all(SegmentKind::Text), all(SegmentKind::Reasoning));
    let announced = speech.map_or(&[][..], |speech| &speech.announced_calls);
    let mut chunk: Value = serde_json::from_str(message.get()).unwrap_or_default();
    chunk["type"] = "AIMessageChunk".into();
    chunk["chunk_position"] = "last".into();
    chunk["tool_call_chunks"] = tool_call_chunks(announced, &chunk["tool_calls"]);
    chunk["content"] = unstreamed_content(chunk["content"].take(), &text, &thought);
    if let Some(whole) = chunk["additional_kwargs"]["reasoning_content"].as_str() {
        let rest = unstreamed_rest(whole, &thought).to_owned();
        if let Some(extra) = chunk["additional_kwargs"].as_object_mut() {
            match rest.is_empty() {
                true => extra.shift_remove("reasoning_content"),
                false => extra.insert("reasoning_content".to_owned(), rest.into()),
            };
        }
    }
    chunk
}

/// Returns what of the content the chunks before did not hold.
fn unstreamed_content(content: Value, text: &str, thought: &str) -> Value {
    match content {
        Value::String(whole) => Value::from(unstreamed_rest(&whole, text)),
        Value::Array(blocks) if !text.is_empty() || !thought.is_empty() => {
            let was_said = |block: &Value| {
                let kind = block["type"].as_str().unwrap_or_default();
                (kind == "text" && !text.is_empty())
                    || (["thinking", "reasoning"].contains(&kind) && !thought.is_empty())
            };
            let left: Vec<Value> = blocks.into_iter().filter(|block| !was_said(block)).collect();
            if left.is_empty() { Value::from("") } else { Value::Array(left) }
        }
        other => other,
    }
}

/// Returns the calls as chunks, each with all of its arguments. Name and id are told once: clients add chunks up.
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
    fn i4_the_chunks_together_are_the_stored_message_however_they_were_cut() {
        let whole = "a 🦀é\u{301} z";
        for cut in whole.char_indices().map(|(at, _)| at) {
            let (first, second) = whole.split_at(cut);
            let mut speaking = StreamedMessage::new("m1");
            let mut got = String::new();
            for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
                speaking.append(SegmentKind::Text, piece);
                let delta = serde_json::to_value(DeltaChunk::new("m1", SegmentKind::Text, piece)).unwrap();
                got.push_str(delta["content"].as_str().unwrap());
                assert_eq!(delta["id"], "m1");
                assert_eq!(delta["usage_metadata"], Value::Null, "usage is counted once");
            }
            let last = last_chunk(Some(&speaking), &raw(&message(&json!(format!("{whole}!")))));
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
        let mut said = StreamedMessage::new("m1");
        said.append(SegmentKind::Text, "Hello");
        assert_eq!(last_chunk(Some(&said), &raw(&message(&content)))["content"], json!([content[1].clone()]));
    }

    #[test]
    fn a_call_is_one_chunk_with_its_name_its_id_and_its_place() {
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
    fn a_call_that_was_announced_keeps_its_name_and_gets_its_arguments() {
        let mut speaking = StreamedMessage::new("m1");
        speaking.announced_calls.push(0);
        let (call_id, name, opens_message) = ("c1", "read_file", true);
        let first = tool_call_announcement(&ToolCallAnnouncement {
            message: &speaking,
            index: 0,
            call_id,
            name,
            opens_message,
        });
        assert_eq!(first["tool_call_chunks"][0]["name"], "read_file");
        assert_eq!(first["tool_call_chunks"][0]["args"], "");
        let mut whole = message(&json!(""));
        whole["tool_calls"] = json!([{"name": "read_file", "args": {}, "id": "c1", "type": "tool_call"}]);
        let last = last_chunk(Some(&speaking), &raw(&whole));
        let rest = json!({"name": null, "args": "{}", "id": null, "index": 0, "type": "tool_call_chunk"});
        assert_eq!(last["tool_call_chunks"], json!([rest]));
    }

    #[test]
    fn reasoning_is_told_beside_the_text_and_only_once() {
        let mut speaking = StreamedMessage::new("m1");
        speaking.append(SegmentKind::Reasoning, "hm");
        let delta = serde_json::to_value(DeltaChunk::new("m1", SegmentKind::Reasoning, "hm")).unwrap();
        assert_eq!(delta["additional_kwargs"]["reasoning_content"], "hm");
        assert_eq!(delta["content"], "");
        let mut whole = message(&json!("yes"));
        whole["additional_kwargs"]["reasoning_content"] = "hm".into();
        let last = last_chunk(Some(&speaking), &raw(&whole));
        assert_eq!(last["additional_kwargs"], json!({}));
        assert_eq!(last["content"], "yes");
    }
}
