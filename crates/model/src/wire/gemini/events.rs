//! The decoder for the events of a `streamGenerateContent` stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::wire::answer_builder::AnswerBuilder;
use crate::wire::fault::FailureReport;
use crate::wire::{AnswerDecoder, AnswerFault, AnswerProgress, text_field};

/// The decoder of one answer.
pub(in crate::wire) struct GeminiDecoder {
    /// The answer so far.
    answer: AnswerBuilder,
    /// The progress of the answer.
    progress: AnswerProgress,
    /// The kind of the block that is being streamed. The next part of this kind extends it.
    open: OpenPart,
    /// The number of blocks so far.
    blocks: u64,
}

/// The kind of block that is being streamed. The format does not number its blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenPart {
    /// No block can be extended.
    Nothing,
    /// A text.
    Text,
    /// Reasoning.
    Thinking,
}

impl GeminiDecoder {
    /// Returns a decoder that adds to `answer`.
    pub(in crate::wire) fn new(answer: AnswerBuilder) -> Self {
        Self { answer, progress: AnswerProgress::Incomplete, open: OpenPart::Nothing, blocks: 0 }
    }

    /// Returns the key for a part of this kind: that of the current block if it has the same kind, otherwise a
    /// new key.
    fn next_key(&mut self, kind: OpenPart) -> (u64, u64) {
        if self.open != kind || kind == OpenPart::Nothing {
            self.blocks += 1;
            self.open = kind;
        }
        (self.blocks, 0)
    }

    /// Adds a part of the answer.
    fn apply_part(&mut self, part: &Value) {
        let signature = part.get("thoughtSignature");
        if let Some(call) = part.get("functionCall") {
            self.sign_next(signature);
            let key = self.next_key(OpenPart::Nothing);
            self.answer.begin_call(key, text_field(call, "id"), text_field(call, "name"));
            self.answer.set_args(key, call["args"].clone());
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            if part["thought"] == true {
                self.push_thought(part, text);
            } else if text.is_empty() && signature.is_some() {
                let key = self.next_key(OpenPart::Nothing);
                self.answer.seal_thinking(key, part.clone());
            } else {
                self.sign_next(signature);
                let key = self.next_key(OpenPart::Text);
                self.answer.push_text(key, text);
            }
        } else if part.as_object().is_some_and(|fields| !fields.is_empty()) {
            let key = self.next_key(OpenPart::Nothing);
            self.answer.push_opaque(key, part.clone());
        }
    }

    /// Stores the signature of the part that follows, as a block of its own.
    fn sign_next(&mut self, signature: Option<&Value>) {
        if let Some(signature) = signature {
            let key = self.next_key(OpenPart::Nothing);
            self.answer.seal_thinking(key, json!({"thoughtSignature": signature}));
        }
    }

    /// Adds a thought. Thoughts are shown to people; only signed ones are sent back.
    fn push_thought(&mut self, part: &Value, text: &str) {
        let key = self.next_key(OpenPart::Thinking);
        self.answer.push_thinking(key, text);
        if let Some(signature) = part.get("thoughtSignature") {
            let text = self.answer.thinking_so_far(key).to_owned();
            let sealed = json!({"text": text, "thought": true, "thoughtSignature": signature});
            self.answer.seal_thinking(key, sealed);
            self.open = OpenPart::Nothing;
        }
    }
}

impl AnswerDecoder for GeminiDecoder {
    fn feed(&mut self, data: &str) -> Result<Vec<AnswerPart>, AnswerFault> {
        let event: Value =
            serde_json::from_str(data).map_err(|error| AnswerFault::unreadable(&error, data))?;
        if event.get("error").is_some() {
            return Err(AnswerFault::Reported(FailureReport::from_event(&event)));
        }
        if self.answer.id.is_none() {
            self.answer.id = event["responseId"].as_str().map(str::to_owned);
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            if self.answer.is_too_large() {
                break;
            }
            self.apply_part(part);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.progress = AnswerProgress::MayEnd;
            self.answer.stop = Some(stop_reason(reason));
        }
        if event["promptFeedback"]["blockReason"].is_string() {
            self.progress = AnswerProgress::MayEnd;
            self.answer.stop = Some(StopReason::Refusal);
        }
        if let Some(usage) = event.get("usageMetadata") {
            self.answer.usage = Some(read_usage(usage));
        }
        self.answer.take_parts()
    }

    fn progress(&self) -> AnswerProgress {
        self.progress
    }

    fn finish(self: Box<Self>) -> AiMessage {
        self.answer.finish()
    }
}

/// Returns the usage in this crate's terms.
fn read_usage(usage: &Value) -> Usage {
    let count = |field: &str| usage[field].as_u64().unwrap_or_default();
    Usage {
        input_tokens: count("promptTokenCount") + count("toolUsePromptTokenCount"),
        output_tokens: count("candidatesTokenCount") + count("thoughtsTokenCount"),
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
    }
}

/// Returns the stop reason for the format's finish reason.
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
