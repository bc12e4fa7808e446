//! What the model says, as chunks: deltas while it speaks, and a last one that completes the message, so that the chunks
//! together are the message that is stored. When a message begins and ends is decided by the translator.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// A message that is being said.
#[derive(Debug, Default)]
pub(crate) struct Speaking {
    pub(crate) id: String,
    /// The text so far.
    pub(crate) text: String,
    /// The reasoning so far.
    pub(crate) thought: String,
    /// Which of its calls were announced.
    announced: Vec<usize>,
}

/// One more piece of an answer.
#[derive(Debug, Serialize)]
pub(crate) struct Delta<'a> {
    content: &'a str,
    additional_kwargs: Extra<'a>,
    response_metadata: Nothing,
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
struct Extra<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Nothing {}

/// What a piece is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Text,
    Reasoning,
}

impl<'a> Delta<'a> {
    /// Returns the chunk that adds `text` to the message `id`.
    pub(crate) fn new(id: &'a str, voice: Voice, text: &'a str) -> Self {
        let (content, reasoning_content) = match voice {
            Voice::Text => (text, None),
            Voice::Reasoning => ("", Some(text)),
        };
        Self {
            content,
            additional_kwargs: Extra { reasoning_content },
            response_metadata: Nothing {},
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

impl Speaking {
    pub(crate) fn of(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, voice: Voice, text: &str) {
        match voice {
            Voice::Text => self.text.push_str(text),
            Voice::Reasoning => self.thought.push_str(text),
        }
    }

    /// Returns the chunk that announces a call, whose arguments come at the end.
    pub(crate) fn announce(&mut self, (index, call_id, name): (usize, &str, &str)) -> Value {
        self.announced.push(index);
        let chunk =
            json!({"name": name, "args": "", "id": call_id, "index": index, "type": "tool_call_chunk"});
        let mut message = self.so_far();
        message["content"] = "".into();
        message["additional_kwargs"] = json!({});
        message["type"] = "AIMessageChunk".into();
        message["tool_call_chunks"] = json!([chunk]);
        message["chunk_position"] = Value::Null;
        message
    }

    /// Returns the message as far as it was said.
    pub(crate) fn so_far(&self) -> Value {
        let mut extra = Map::new();
        if !self.thought.is_empty() {
            extra.insert("reasoning_content".to_owned(), self.thought.as_str().into());
        }
        json!({
            "content": self.text, "additional_kwargs": extra, "response_metadata": {}, "type": "ai",
            "name": null, "id": self.id, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null,
        })
    }

    /// Returns the chunk that completes the message: what was not said yet, and what is known at the end only.
    pub(crate) fn last_chunk(&self, message: &RawValue) -> Value {
        let mut chunk: Value = serde_json::from_str(message.get()).unwrap_or_default();
        chunk["type"] = "AIMessageChunk".into();
        chunk["chunk_position"] = "last".into();
        chunk["tool_call_chunks"] = self.call_chunks(&chunk["tool_calls"]);
        chunk["content"] = self.unsaid(chunk["content"].take());
        if let Some(thought) = chunk["additional_kwargs"]["reasoning_content"].as_str() {
            let rest = rest(thought, &self.thought).to_owned();
            let extra = chunk["additional_kwargs"].as_object_mut();
            if let Some(extra) = extra {
                match rest.is_empty() {
                    true => extra.shift_remove("reasoning_content"),
                    false => extra.insert("reasoning_content".to_owned(), rest.into()),
                };
            }
        }
        chunk
    }

    /// Returns what of the content the chunks before did not say.
    fn unsaid(&self, content: Value) -> Value {
        match content {
            Value::String(whole) => Value::from(rest(&whole, &self.text)),
            Value::Array(blocks) if !self.text.is_empty() || !self.thought.is_empty() => {
                let was_said = |block: &Value| {
                    let kind = block["type"].as_str().unwrap_or_default();
                    (kind == "text" && !self.text.is_empty())
                        || (["thinking", "reasoning"].contains(&kind) && !self.thought.is_empty())
                };
                let left: Vec<Value> = blocks.into_iter().filter(|block| !was_said(block)).collect();
                if left.is_empty() { Value::from("") } else { Value::Array(left) }
            }
            other => other,
        }
    }
}

impl Speaking {
    /// Returns the calls as chunks, each with all of its arguments. Name and id are told once: clients add chunks up.
    fn call_chunks(&self, calls: &Value) -> Value {
        let chunks = calls.as_array().into_iter().flatten().enumerate().map(|(index, call)| {
            let is_new = !self.announced.contains(&index);
            json!({
                "name": call["name"].as_str().filter(|_| is_new), "args": call["args"].to_string(),
                "id": call["id"].as_str().filter(|_| is_new), "index": index, "type": "tool_call_chunk",
            })
        });
        Value::Array(chunks.collect())
    }
}

/// Returns what of `whole` follows `said`; nothing when it is another text, which is in the state whole.
fn rest<'a>(whole: &'a str, said: &str) -> &'a str {
    whole.strip_prefix(said).unwrap_or_default()
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
            let mut speaking = Speaking::of("m1");
            let mut got = String::new();
            for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
                speaking.add(Voice::Text, piece);
                let delta = serde_json::to_value(Delta::new("m1", Voice::Text, piece)).unwrap();
                got.push_str(delta["content"].as_str().unwrap());
                assert_eq!(delta["id"], "m1");
                assert_eq!(delta["usage_metadata"], Value::Null, "usage is counted once");
            }
            let last = speaking.last_chunk(&raw(&message(&json!(format!("{whole}!")))));
            got.push_str(last["content"].as_str().unwrap());
            assert_eq!(got, format!("{whole}!"));
            assert_eq!((&last["id"], &last["chunk_position"]), (&json!("m1"), &json!("last")));
            assert_eq!(last["usage_metadata"]["total_tokens"], 7);
        }
    }

    #[test]
    fn a_message_that_was_not_streamed_is_one_whole_chunk() {
        let content = json!([{"type": "text", "text": "Hello"}, {"type": "image", "url": "x"}]);
        let chunk = Speaking::of("m1").last_chunk(&raw(&message(&content)));
        assert_eq!(chunk["content"], content);
        let mut said = Speaking::of("m1");
        said.add(Voice::Text, "Hello");
        assert_eq!(said.last_chunk(&raw(&message(&content)))["content"], json!([content[1].clone()]));
    }

    #[test]
    fn a_call_is_one_chunk_with_its_name_its_id_and_its_place() {
        let mut whole = message(&json!(""));
        whole["tool_calls"] = json!([
            {"name": "read_file", "args": {"path": "a"}, "id": "c1", "type": "tool_call"},
            {"name": "read_file", "args": {"path": "b"}, "id": "c2", "type": "tool_call"},
        ]);
        let chunk = Speaking::of("m1").last_chunk(&raw(&whole));
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
        let mut speaking = Speaking::of("m1");
        let first = speaking.announce((0, "c1", "read_file"));
        assert_eq!(first["tool_call_chunks"][0]["name"], "read_file");
        assert_eq!(first["tool_call_chunks"][0]["args"], "");
        let mut whole = message(&json!(""));
        whole["tool_calls"] = json!([{"name": "read_file", "args": {}, "id": "c1", "type": "tool_call"}]);
        let last = speaking.last_chunk(&raw(&whole));
        let rest = json!({"name": null, "args": "{}", "id": null, "index": 0, "type": "tool_call_chunk"});
        assert_eq!(last["tool_call_chunks"], json!([rest]));
    }

    #[test]
    fn reasoning_is_told_beside_the_text_and_only_once() {
        let mut speaking = Speaking::of("m1");
        speaking.add(Voice::Reasoning, "hm");
        let delta = serde_json::to_value(Delta::new("m1", Voice::Reasoning, "hm")).unwrap();
        assert_eq!(delta["additional_kwargs"]["reasoning_content"], "hm");
        assert_eq!(delta["content"], "");
        let mut whole = message(&json!("yes"));
        whole["additional_kwargs"]["reasoning_content"] = "hm".into();
        let last = speaking.last_chunk(&raw(&whole));
        assert_eq!(last["additional_kwargs"], json!({}));
        assert_eq!(last["content"], "yes");
    }
}
