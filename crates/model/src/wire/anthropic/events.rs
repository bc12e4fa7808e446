//! Reads the events of a Messages stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::Part;
use crate::wire::answer::{Answer, Key};
use crate::wire::fault::Report;
use crate::wire::{Decoder, Fault, Progress, text_of};

/// The events of one answer.
pub(in crate::wire) struct Events {
    answer: Answer,
    progress: Progress,
    /// The block that is being streamed.
    open: Option<Open>,
    input_tokens: Counted,
    output_tokens: u64,
}

/// A block that is being streamed.
struct Open {
    raw: Value,
    json: String,
    signature: String,
}

/// Tokens of the request; the provider counts those of the cache apart.
#[derive(Default)]
struct Counted {
    fresh: u64,
    read: u64,
    written: u64,
}

impl Events {
    pub(in crate::wire) fn new(answer: Answer) -> Self {
        Self {
            answer,
            progress: Progress::Open,
            open: None,
            input_tokens: Counted::default(),
            output_tokens: 0,
        }
    }

    fn start(&mut self, key: Key, block: &Value) {
        match text_of(block, "type") {
            "text" => self.answer.text(key, text_of(block, "text")),
            "thinking" => self.answer.thinking(key, text_of(block, "thinking")),
            "redacted_thinking" => self.answer.seal_thinking(key, block.clone()),
            "tool_use" => self.answer.call(key, text_of(block, "id"), text_of(block, "name")),
            _ => {}
        }
        let signature = text_of(block, "signature").to_owned();
        self.open = Some(Open { raw: block.clone(), json: String::new(), signature });
    }

    fn delta(&mut self, key: Key, delta: &Value) {
        match text_of(delta, "type") {
            "text_delta" => self.answer.text(key, text_of(delta, "text")),
            "thinking_delta" => self.answer.thinking(key, text_of(delta, "thinking")),
            "signature_delta" => {
                if let Some(open) = &mut self.open {
                    open.signature.push_str(text_of(delta, "signature"));
                }
            }
            "input_json_delta" => {
                let json = text_of(delta, "partial_json");
                self.answer.args(key, json);
                if let Some(open) = &mut self.open {
                    open.json.push_str(json);
                }
            }
            _ => {}
        }
    }

    fn stop(&mut self, key: Key) {
        let Some(mut open) = self.open.take() else { return };
        match text_of(&open.raw, "type") {
            "text" | "redacted_thinking" => {}
            "thinking" if open.signature.is_empty() => {}
            "thinking" => {
                let thinking = self.answer.thinking_so_far(key).to_owned();
                let sealed = json!({"type": "thinking", "thinking": thinking, "signature": open.signature});
                self.answer.seal_thinking(key, sealed);
            }
            "tool_use" => self.answer.args_unless_pieces(key, &open.raw["input"]),
            // A tool of the provider's own, or its result: kept as it came, with the input that was streamed.
            _ => {
                if let Ok(input) = serde_json::from_str(&open.json) {
                    open.raw["input"] = input;
                }
                self.answer.opaque(key, open.raw);
            }
        }
    }

    /// Takes the counts of a usage object; those it does not name stay.
    fn count(&mut self, usage: &Value) {
        let set = |field: &str, count: &mut u64| {
            if let Some(reported) = usage.get(field).and_then(Value::as_u64) {
                *count = reported;
            }
        };
        set("input_tokens", &mut self.input_tokens.fresh);
        set("cache_read_input_tokens", &mut self.input_tokens.read);
        set("cache_creation_input_tokens", &mut self.input_tokens.written);
        set("output_tokens", &mut self.output_tokens);
        if usage.is_object() {
            let Counted { fresh, read, written } = self.input_tokens;
            self.answer.usage = Some(Usage {
                input_tokens: fresh + read + written,
                output_tokens: self.output_tokens,
                cache_read_tokens: read,
                cache_write_tokens: written,
            });
        }
    }
}

impl Decoder for Events {
    fn feed(&mut self, data: &str) -> Result<Vec<Part>, Fault> {
        let event: Value = serde_json::from_str(data).map_err(|error| Fault::unreadable(&error, data))?;
        let key = (event["index"].as_u64().unwrap_or_default(), 0);
        match text_of(&event, "type") {
            "message_start" => {
                let message = &event["message"];
                self.answer.id = message["id"].as_str().map(str::to_owned);
                self.count(&message["usage"]);
            }
            "content_block_start" => self.start(key, &event["content_block"]),
            "content_block_delta" => self.delta(key, &event["delta"]),
            "content_block_stop" => self.stop(key),
            "message_delta" => {
                self.answer.stop =
                    event["delta"]["stop_reason"].as_str().map(stop_reason).or(self.answer.stop);
                self.count(&event["usage"]);
            }
            "message_stop" => self.progress = Progress::Over,
            "error" => return Err(Fault::Reported(Report::in_stream(&event))),
            _ => {}
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

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other,
    }
}
