//! Reads the events of a `streamGenerateContent` stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::Part;
use crate::wire::answer::Answer;
use crate::wire::fault::Report;
use crate::wire::{Decoder, Fault, Progress, text_of};

/// The events of one answer.
pub(in crate::wire) struct Events {
    answer: Answer,
    progress: Progress,
    /// The block that the next piece of its kind is added to.
    open: Open,
    blocks: u64,
}

/// What is being streamed; the format does not number its blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Thinking,
}

impl Events {
    pub(in crate::wire) fn new(answer: Answer) -> Self {
        Self { answer, progress: Progress::Open, open: Open::Nothing, blocks: 0 }
    }

    /// Returns the key for a piece of this kind: the open block's if it is of the kind, else another one.
    fn key(&mut self, kind: Open) -> (u64, u64) {
        if self.open != kind || kind == Open::Nothing {
            self.blocks += 1;
            self.open = kind;
        }
        (self.blocks, 0)
    }

    fn part(&mut self, part: &Value) {
        let signature = part.get("thoughtSignature");
        if let Some(call) = part.get("functionCall") {
            self.sign_next(signature);
            let key = self.key(Open::Nothing);
            self.answer.call(key, text_of(call, "id"), text_of(call, "name"));
            self.answer.whole_args(key, call["args"].clone());
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            if part["thought"] == true {
                self.thought(part, text);
            } else if text.is_empty() && signature.is_some() {
                let key = self.key(Open::Nothing);
                self.answer.seal_thinking(key, part.clone());
            } else {
                self.sign_next(signature);
                let key = self.key(Open::Text);
                self.answer.text(key, text);
            }
        } else if part.as_object().is_some_and(|fields| !fields.is_empty()) {
            let key = self.key(Open::Nothing);
            self.answer.opaque(key, part.clone());
        }
    }

    /// Keeps the signature of the part that follows.
    fn sign_next(&mut self, signature: Option<&Value>) {
        if let Some(signature) = signature {
            let key = self.key(Open::Nothing);
            self.answer.seal_thinking(key, json!({"thoughtSignature": signature}));
        }
    }

    /// Thoughts are read by people; only a signed one is sent back.
    fn thought(&mut self, part: &Value, text: &str) {
        let key = self.key(Open::Thinking);
        self.answer.thinking(key, text);
        if let Some(signature) = part.get("thoughtSignature") {
            let text = self.answer.thinking_so_far(key).to_owned();
            let sealed = json!({"text": text, "thought": true, "thoughtSignature": signature});
            self.answer.seal_thinking(key, sealed);
            self.open = Open::Nothing;
        }
    }
}

impl Decoder for Events {
    fn feed(&mut self, data: &str) -> Result<Vec<Part>, Fault> {
        let event: Value = serde_json::from_str(data).map_err(|error| Fault::unreadable(&error, data))?;
        if event.get("error").is_some() {
            return Err(Fault::Reported(Report::in_stream(&event)));
        }
        if self.answer.id.is_none() {
            self.answer.id = event["responseId"].as_str().map(str::to_owned);
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.progress = Progress::MayEnd;
            self.answer.stop = Some(stop_reason(reason));
        }
        if event["promptFeedback"]["blockReason"].is_string() {
            self.progress = Progress::MayEnd;
            self.answer.stop = Some(StopReason::Refusal);
        }
        if let Some(usage) = event.get("usageMetadata") {
            self.answer.usage = Some(read_usage(usage));
        }
        Ok(self.answer.take_parts())
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn finish(self: Box<Self>) -> AiMessage {
        self.answer.finish()
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |field: &str| usage[field].as_u64().unwrap_or_default();
    Usage {
        input_tokens: count("promptTokenCount") + count("toolUsePromptTokenCount"),
        output_tokens: count("candidatesTokenCount") + count("thoughtsTokenCount"),
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            StopReason::Refusal
        }
        _ => StopReason::Other,
    }
}
