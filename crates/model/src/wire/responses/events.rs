//! Reads the events of a Responses stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::Value;

use crate::chat::Part;
use crate::wire::answer::{Answer, Key};
use crate::wire::fault::Report;
use crate::wire::{Decoder, Fault, Progress, text_of};

/// The events of one answer.
pub(in crate::wire) struct Events {
    answer: Answer,
    progress: Progress,
    refused: bool,
}

impl Events {
    pub(in crate::wire) fn new(answer: Answer) -> Self {
        Self { answer, progress: Progress::Open, refused: false }
    }

    fn item_added(&mut self, key: Key, item: &Value) {
        match text_of(item, "type") {
            "function_call" => self.answer.call(key, text_of(item, "call_id"), text_of(item, "name")),
            "reasoning" => self.answer.thinking(key, ""),
            _ => {}
        }
    }

    fn item_done(&mut self, output: u64, item: &Value) {
        let key = (output, 0);
        match text_of(item, "type") {
            "message" => {
                for (index, content) in item["content"].as_array().into_iter().flatten().enumerate() {
                    let key = (output, index as u64);
                    if !self.answer.has_text(key) {
                        self.answer.text(key, text_of(content, "text"));
                        self.answer.text(key, text_of(content, "refusal"));
                    }
                    self.refused |= content["type"] == "refusal";
                }
            }
            "function_call" => {
                self.answer.args_unless_pieces(key, &arguments(item));
            }
            "reasoning" => {
                if self.answer.thinking_so_far(key).is_empty() {
                    let summary = item["summary"].as_array().into_iter().flatten();
                    let texts: Vec<&str> = summary.map(|part| text_of(part, "text")).collect();
                    self.answer.thinking(key, &texts.join("\n\n"));
                }
                self.answer.seal_thinking(key, item.clone());
            }
            _ => self.answer.opaque(key, item.clone()),
        }
    }

    fn end(&mut self, response: &Value, stop: StopReason) {
        self.progress = Progress::Over;
        self.answer.stop = Some(if self.refused { StopReason::Refusal } else { stop });
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.answer.usage = Some(read_usage(usage));
        }
    }

    fn take(&mut self, event: &Value) -> Result<(), Fault> {
        let output = event["output_index"].as_u64().unwrap_or_default();
        let key = (output, event["content_index"].as_u64().unwrap_or_default());
        match text_of(event, "type") {
            "response.created" => self.answer.id = event["response"]["id"].as_str().map(str::to_owned),
            "response.output_item.added" => self.item_added(key, &event["item"]),
            "response.output_item.done" => self.item_done(output, &event["item"]),
            "response.output_text.delta" => self.answer.text(key, text_of(event, "delta")),
            "response.refusal.delta" => {
                self.refused = true;
                self.answer.text(key, text_of(event, "delta"));
            }
            "response.reasoning_summary_part.added" => {
                let is_first = self.answer.thinking_so_far((output, 0)).is_empty();
                self.answer.thinking((output, 0), if is_first { "" } else { "\n\n" });
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.answer.thinking((output, 0), text_of(event, "delta"));
            }
            "response.function_call_arguments.delta" => self.answer.args(key, text_of(event, "delta")),
            "response.completed" => self.end(&event["response"], StopReason::EndTurn),
            "response.incomplete" => {
                let response = &event["response"];
                let stop = match text_of(&response["incomplete_details"], "reason") {
                    "max_output_tokens" => StopReason::MaxTokens,
                    "content_filter" => StopReason::Refusal,
                    _ => StopReason::Other,
                };
                self.end(response, stop);
            }
            "response.failed" => return Err(Fault::Reported(Report::in_stream(&event["response"]))),
            "error" => return Err(Fault::Reported(Report::in_stream(event))),
            _ => {}
        }
        Ok(())
    }
}

impl Decoder for Events {
    fn feed(&mut self, data: &str) -> Result<Vec<Part>, Fault> {
        // Proxies end every stream as Chat Completions does.
        if data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let event: Value = serde_json::from_str(data).map_err(|error| Fault::unreadable(&error, data))?;
        self.take(&event)?;
        Ok(self.answer.take_parts())
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn finish(self: Box<Self>) -> AiMessage {
        self.answer.finish()
    }
}

/// Returns the arguments of a finished call; text that is no JSON stays text.
fn arguments(item: &Value) -> Value {
    let text = text_of(item, "arguments");
    if text.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn read_usage(usage: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    Usage {
        input_tokens: count(&usage["input_tokens"]),
        output_tokens: count(&usage["output_tokens"]),
        cache_read_tokens: count(&usage["input_tokens_details"]["cached_tokens"]),
        cache_write_tokens: 0,
    }
}
