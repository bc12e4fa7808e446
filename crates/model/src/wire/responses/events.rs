//! The decoder for the events of a Responses stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::Value;

use crate::chat::AnswerPart;
use crate::wire::answer_builder::{AnswerBuilder, BlockKey};
use crate::wire::fault::FailureReport;
use crate::wire::{AnswerDecoder, AnswerFault, AnswerProgress, text_field};

/// The decoder of one answer.
pub(in crate::wire) struct ResponsesDecoder {
    /// The answer so far.
    answer: AnswerBuilder,
    /// The progress of the answer.
    progress: AnswerProgress,
    /// Set once the model refused a part of the answer.
    refused: bool,
}

impl ResponsesDecoder {
    /// Returns a decoder that adds to `answer`.
    pub(in crate::wire) fn new(answer: AnswerBuilder) -> Self {
        Self { answer, progress: AnswerProgress::Incomplete, refused: false }
    }

    /// Starts an item of the answer.
    fn start_item(&mut self, key: BlockKey, item: &Value) {
        match text_field(item, "type") {
            "function_call" => {
                self.answer.begin_call(key, text_field(item, "call_id"), text_field(item, "name"))
            }
            "reasoning" => self.answer.push_thinking(key, ""),
            _ => {}
        }
    }

    /// Completes an item, and fills in content for which no deltas arrived.
    fn finish_item(&mut self, output: u64, item: &Value) {
        let key = (output, 0);
        match text_field(item, "type") {
            "message" => {
                for (index, content) in item["content"].as_array().into_iter().flatten().enumerate() {
                    if self.answer.is_too_large() {
                        break;
                    }
                    let key = (output, index as u64);
                    if !self.answer.has_text(key) {
                        self.answer.push_text(key, text_field(content, "text"));
                        self.answer.push_text(key, text_field(content, "refusal"));
                    }
                    self.refused |= content["type"] == "refusal";
                }
            }
            "function_call" => {
                self.answer.set_args_if_empty(key, &parse_arguments(item));
            }
            "reasoning" => {
                if self.answer.thinking_so_far(key).is_empty() {
                    let summary = item["summary"].as_array().into_iter().flatten();
                    let texts: Vec<&str> = summary.map(|part| text_field(part, "text")).collect();
                    self.answer.push_thinking(key, &texts.join("\n\n"));
                }
                self.answer.seal_thinking(key, item.clone());
            }
            _ => self.answer.push_opaque(key, item.clone()),
        }
    }

    /// Completes the answer with its usage and stop reason.
    fn finish_response(&mut self, response: &Value, stop: StopReason) {
        self.progress = AnswerProgress::Complete;
        self.answer.stop = Some(if self.refused { StopReason::Refusal } else { stop });
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.answer.usage = Some(read_usage(usage));
        }
    }

    /// Applies one event.
    fn apply_event(&mut self, event: &Value) -> Result<(), AnswerFault> {
        let output = event["output_index"].as_u64().unwrap_or_default();
        let key = (output, event["content_index"].as_u64().unwrap_or_default());
        match text_field(event, "type") {
            "response.created" => self.answer.id = event["response"]["id"].as_str().map(str::to_owned),
            "response.output_item.added" => self.start_item(key, &event["item"]),
            "response.output_item.done" => self.finish_item(output, &event["item"]),
            "response.output_text.delta" => self.answer.push_text(key, text_field(event, "delta")),
            "response.refusal.delta" => {
                self.refused = true;
                self.answer.push_text(key, text_field(event, "delta"));
            }
            "response.reasoning_summary_part.added" => {
                let is_first = self.answer.thinking_so_far((output, 0)).is_empty();
                self.answer.push_thinking((output, 0), if is_first { "" } else { "\n\n" });
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.answer.push_thinking((output, 0), text_field(event, "delta"));
            }
            "response.function_call_arguments.delta" => {
                self.answer.push_args(key, text_field(event, "delta"))
            }
            "response.completed" => self.finish_response(&event["response"], StopReason::EndTurn),
            "response.incomplete" => {
                let response = &event["response"];
                let stop = match text_field(&response["incomplete_details"], "reason") {
                    "max_output_tokens" => StopReason::MaxTokens,
                    "content_filter" => StopReason::Refusal,
                    _ => StopReason::Other,
                };
                self.finish_response(response, stop);
            }
            "response.failed" => {
                return Err(AnswerFault::Reported(FailureReport::from_event(&event["response"])));
            }
            "error" => return Err(AnswerFault::Reported(FailureReport::from_event(event))),
            _ => {}
        }
        Ok(())
    }
}

impl AnswerDecoder for ResponsesDecoder {
    fn feed(&mut self, data: &str) -> Result<Vec<AnswerPart>, AnswerFault> {
        // Proxies end every stream in the way of Chat Completions.
        if data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let event: Value =
            serde_json::from_str(data).map_err(|error| AnswerFault::unreadable(&error, data))?;
        self.apply_event(&event)?;
        self.answer.take_parts()
    }

    fn progress(&self) -> AnswerProgress {
        self.progress
    }

    fn finish(self: Box<Self>) -> AiMessage {
        self.answer.finish()
    }
}

/// Returns the arguments of a completed call. Text that is not JSON is kept as a string.
fn parse_arguments(item: &Value) -> Value {
    let text = text_field(item, "arguments");
    if text.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Returns the usage in this crate's terms.
fn read_usage(usage: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    Usage {
        input_tokens: count(&usage["input_tokens"]),
        output_tokens: count(&usage["output_tokens"]),
        cache_read_tokens: count(&usage["input_tokens_details"]["cached_tokens"]),
        cache_write_tokens: 0,
    }
}
