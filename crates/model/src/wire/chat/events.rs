//! Reads the events of a Chat Completions stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::Part;
use crate::wire::answer::{Answer, Key};
use crate::wire::fault::Report;
use crate::wire::{Decoder, Fault, Progress, text_of};

/// The format has one text and one reasoning per answer; calls are numbered.
const THINKING: Key = (0, 0);
const TEXT: Key = (1, 0);
const CALLS: u64 = 2;

/// The names under which servers send reasoning.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The events of one answer.
pub(in crate::wire) struct Events {
    answer: Answer,
    progress: Progress,
    calls: Vec<Call>,
    reasoning_field: Option<&'static str>,
}

/// A call as the server numbers it.
struct Call {
    index: Option<u64>,
    id: String,
}

impl Events {
    pub(in crate::wire) fn new(answer: Answer) -> Self {
        Self { answer, progress: Progress::Open, calls: Vec::new(), reasoning_field: None }
    }

    fn choice(&mut self, choice: &Value) {
        // Servers that do not stream send a whole `message`.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        for field in REASONING_FIELDS {
            if let Some(text) = delta.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.reasoning_field = Some(field);
                self.answer.thinking(THINKING, text);
                break;
            }
        }
        if let Some(text) = delta.get("content").and_then(Value::as_str) {
            self.answer.text(TEXT, text);
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            self.answer.text(TEXT, text);
            self.answer.stop = Some(StopReason::Refusal);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.progress = Progress::MayEnd;
            if self.answer.stop != Some(StopReason::Refusal) {
                self.answer.stop = Some(stop_reason(reason));
            }
        }
    }

    fn call(&mut self, delta: &Value) {
        let index = delta.get("index").and_then(Value::as_u64);
        let id = text_of(delta, "id");
        let function = delta.get("function").unwrap_or(&Value::Null);
        let name = text_of(function, "name");
        let number = match self.continued(index, id, name) {
            Some(number) => number,
            None => {
                self.calls.push(Call { index, id: id.to_owned() });
                self.answer.call((CALLS, self.calls.len() as u64 - 1), id, name);
                self.calls.len() - 1
            }
        };
        let key = (CALLS, number as u64);
        match function.get("arguments") {
            Some(Value::String(pieces)) => self.answer.args(key, pieces),
            Some(whole @ Value::Object(_)) => self.answer.whole_args(key, whole.clone()),
            Some(_) | None => {}
        }
    }

    /// Returns the call that a piece continues; `None` when it begins another one.
    fn continued(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let number = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None if name.is_empty() => self.calls.len().checked_sub(1)?,
            None => return None,
        };
        (id.is_empty() || id == self.calls[number].id).then_some(number)
    }
}

impl Decoder for Events {
    fn feed(&mut self, data: &str) -> Result<Vec<Part>, Fault> {
        if data.trim() == "[DONE]" {
            self.progress = Progress::Over;
            return Ok(Vec::new());
        }
        let event: Value = serde_json::from_str(data).map_err(|error| Fault::unreadable(&error, data))?;
        if event.get("error").is_some_and(|error| !error.is_null()) || event["object"] == "error" {
            return Err(Fault::Reported(Report::in_stream(&event)));
        }
        if self.answer.id.is_none() {
            self.answer.id = event["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        }
        // More than one choice is never asked for.
        if let Some(choice) = event["choices"].get(0) {
            self.choice(choice);
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            self.answer.usage = Some(read_usage(usage));
        }
        Ok(self.answer.take_parts())
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn finish(mut self: Box<Self>) -> AiMessage {
        if let Some(field) = self.reasoning_field {
            let sealed = json!({field: self.answer.thinking_so_far(THINKING)});
            self.answer.seal_thinking(THINKING, sealed);
        }
        self.answer.finish()
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    Usage {
        input_tokens: count(&usage["prompt_tokens"]),
        output_tokens: count(&usage["completion_tokens"]),
        cache_read_tokens: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        cache_write_tokens: 0,
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other,
    }
}
