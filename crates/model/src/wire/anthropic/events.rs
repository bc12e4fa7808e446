//! The decoder for the events of a Messages stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::wire::answer_builder::{AnswerBuilder, BlockKey};
use crate::wire::fault::FailureReport;
use crate::wire::{AnswerDecoder, AnswerFault, AnswerProgress, text_field};

/// The decoder of one answer.
pub(in crate::wire) struct AnthropicDecoder {
    /// The answer so far.
    answer: AnswerBuilder,
    /// The progress of the answer.
    progress: AnswerProgress,
    /// The block that is being streamed.
    open_block: Option<OpenBlock>,
    /// The tokens of the request.
    input_tokens: InputTokenCounts,
    /// The tokens of the answer.
    output_tokens: u64,
}

/// A block that is being streamed.
struct OpenBlock {
    /// The block as its first event had it.
    raw: Value,
    /// The JSON text of the input so far.
    json: String,
    /// The signature so far.
    signature: String,
}

/// The tokens of a request. The provider counts cached ones separately.
#[derive(Default)]
struct InputTokenCounts {
    /// Tokens that are neither read from nor written to the cache.
    uncached: u64,
    /// Tokens read from the cache.
    cache_read: u64,
    /// Tokens written to the cache.
    cache_written: u64,
}

impl AnthropicDecoder {
    /// Returns a decoder that adds to `answer`.
    pub(in crate::wire) fn new(answer: AnswerBuilder) -> Self {
        Self {
            answer,
            progress: AnswerProgress::Incomplete,
            open_block: None,
            input_tokens: InputTokenCounts::default(),
            output_tokens: 0,
        }
    }

    /// Starts a block.
    fn start_block(&mut self, key: BlockKey, block: &Value) {
        match text_field(block, "type") {
            "text" => self.answer.push_text(key, text_field(block, "text")),
            "thinking" => self.answer.push_thinking(key, text_field(block, "thinking")),
            "redacted_thinking" => self.answer.seal_thinking(key, block.clone()),
            "tool_use" => self.answer.begin_call(key, text_field(block, "id"), text_field(block, "name")),
            _ => {}
        }
        let signature = text_field(block, "signature").to_owned();
        self.open_block = Some(OpenBlock { raw: block.clone(), json: String::new(), signature });
    }

    /// Appends a delta to the current block.
    fn apply_delta(&mut self, key: BlockKey, delta: &Value) {
        match text_field(delta, "type") {
            "text_delta" => self.answer.push_text(key, text_field(delta, "text")),
            "thinking_delta" => self.answer.push_thinking(key, text_field(delta, "thinking")),
            "signature_delta" => {
                if let Some(open) = &mut self.open_block {
                    open.signature.push_str(text_field(delta, "signature"));
                }
            }
            "input_json_delta" => {
                let json = text_field(delta, "partial_json");
                self.answer.push_args(key, json);
                if let Some(open) = &mut self.open_block {
                    open.json.push_str(json);
                }
            }
            _ => {}
        }
    }

    /// Completes the current block.
    fn finish_block(&mut self, key: BlockKey) {
        let Some(mut open) = self.open_block.take() else { return };
        match text_field(&open.raw, "type") {
            "text" | "redacted_thinking" => {}
            "thinking" if open.signature.is_empty() => {}
            "thinking" => {
                let thinking = self.answer.thinking_so_far(key).to_owned();
                let sealed = json!({"type": "thinking", "thinking": thinking, "signature": open.signature});
                self.answer.seal_thinking(key, sealed);
            }
            "tool_use" => self.answer.set_args_if_empty(key, &open.raw["input"]),
            // A tool that the provider runs itself, or its result. The block is stored unchanged, with the input
            // that was streamed.
            _ => {
                if let Ok(input) = serde_json::from_str(&open.json) {
                    open.raw["input"] = input;
                }
                self.answer.push_opaque(key, open.raw);
            }
        }
    }

    /// Updates the usage from a usage object. Counts that it does not contain stay.
    fn update_usage(&mut self, usage: &Value) {
        let set = |field: &str, count: &mut u64| {
            if let Some(reported) = usage.get(field).and_then(Value::as_u64) {
                *count = reported;
            }
        };
        set("input_tokens", &mut self.input_tokens.uncached);
        set("cache_read_input_tokens", &mut self.input_tokens.cache_read);
        set("cache_creation_input_tokens", &mut self.input_tokens.cache_written);
        set("output_tokens", &mut self.output_tokens);
        if usage.is_object() {
            let InputTokenCounts { uncached, cache_read, cache_written } = self.input_tokens;
            self.answer.usage = Some(Usage {
                input_tokens: uncached + cache_read + cache_written,
                output_tokens: self.output_tokens,
                cache_read_tokens: cache_read,
                cache_write_tokens: cache_written,
            });
        }
    }
}

impl AnswerDecoder for AnthropicDecoder {
    fn feed(&mut self, data: &str) -> Result<Vec<AnswerPart>, AnswerFault> {
        let event: Value =
            serde_json::from_str(data).map_err(|error| AnswerFault::unreadable(&error, data))?;
        let key = (event["index"].as_u64().unwrap_or_default(), 0);
        match text_field(&event, "type") {
            "message_start" => {
                let message = &event["message"];
                self.answer.id = message["id"].as_str().map(str::to_owned);
                self.update_usage(&message["usage"]);
            }
            "content_block_start" => self.start_block(key, &event["content_block"]),
            "content_block_delta" => self.apply_delta(key, &event["delta"]),
            "content_block_stop" => self.finish_block(key),
            "message_delta" => {
                self.answer.stop =
                    event["delta"]["stop_reason"].as_str().map(stop_reason).or(self.answer.stop);
                self.update_usage(&event["usage"]);
            }
            "message_stop" => self.progress = AnswerProgress::Complete,
            "error" => return Err(AnswerFault::Reported(FailureReport::from_event(&event))),
            _ => {}
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

/// Returns the stop reason for the format's reason.
fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other,
    }
}
