//! The decoder for the events of a Chat Completions stream.

use protocol::{AiMessage, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::wire::answer_builder::{AnswerBuilder, BlockKey};
use crate::wire::fault::FailureReport;
use crate::wire::{AnswerDecoder, AnswerFault, AnswerProgress, text_field};

/// The key of the reasoning; an answer has one block of it.
const THINKING_KEY: BlockKey = (0, 0);
/// The key of the text; an answer has one block of it.
const TEXT_KEY: BlockKey = (1, 0);
/// The first number of the keys of calls; the second one counts the calls.
const CALLS_KEY: u64 = 2;

/// The names of the fields in which servers send reasoning.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The decoder of one answer.
pub(in crate::wire) struct ChatDecoder {
    /// The answer so far.
    answer: AnswerBuilder,
    /// The progress of the answer.
    progress: AnswerProgress,
    /// The calls of the answer so far.
    calls: Vec<StreamedChatCall>,
    /// The name of the field in which reasoning arrived, if any did.
    reasoning_field: Option<&'static str>,
}

/// A call, identified as the server does.
struct StreamedChatCall {
    /// The server's index of the call, if it sent one.
    index: Option<u64>,
    /// The server's id of the call; may be empty.
    id: String,
}

impl ChatDecoder {
    /// Returns a decoder that adds to `answer`.
    pub(in crate::wire) fn new(answer: AnswerBuilder) -> Self {
        Self { answer, progress: AnswerProgress::Incomplete, calls: Vec::new(), reasoning_field: None }
    }

    /// Adds the content of a choice.
    fn apply_choice(&mut self, choice: &Value) {
        // Servers that do not stream send a complete `message` instead of a `delta`.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        for field in REASONING_FIELDS {
            if let Some(text) = delta.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.reasoning_field = Some(field);
                self.answer.push_thinking(THINKING_KEY, text);
                break;
            }
        }
        if let Some(text) = delta.get("content").and_then(Value::as_str) {
            self.answer.push_text(TEXT_KEY, text);
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            self.answer.push_text(TEXT_KEY, text);
            self.answer.stop = Some(StopReason::Refusal);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            if self.answer.is_too_large() {
                break;
            }
            self.apply_call_delta(call);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.progress = AnswerProgress::MayEnd;
            if self.answer.stop != Some(StopReason::Refusal) {
                self.answer.stop = Some(stop_reason(reason));
            }
        }
    }

    /// Adds a delta of a tool call, which continues a call or starts one.
    fn apply_call_delta(&mut self, delta: &Value) {
        let index = delta.get("index").and_then(Value::as_u64);
        let id = text_field(delta, "id");
        let function = delta.get("function").unwrap_or(&Value::Null);
        let name = text_field(function, "name");
        let number = match self.find_continued_call(index, id, name) {
            Some(number) => number,
            None => {
                self.calls.push(StreamedChatCall { index, id: id.to_owned() });
                self.answer.begin_call((CALLS_KEY, self.calls.len() as u64 - 1), id, name);
                self.calls.len() - 1
            }
        };
        let key = (CALLS_KEY, number as u64);
        match function.get("arguments") {
            Some(Value::String(pieces)) => self.answer.push_args(key, pieces),
            Some(whole @ Value::Object(_)) => self.answer.set_args(key, whole.clone()),
            Some(_) | None => {}
        }
    }

    /// Returns the number of the call that a delta continues, or `None` if it starts another call.
    fn find_continued_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let number = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None if name.is_empty() => self.calls.len().checked_sub(1)?,
            None => return None,
        };
        (id.is_empty() || id == self.calls[number].id).then_some(number)
    }
}

impl AnswerDecoder for ChatDecoder {
    fn feed(&mut self, data: &str) -> Result<Vec<AnswerPart>, AnswerFault> {
        if data.trim() == "[DONE]" {
            self.progress = AnswerProgress::Complete;
            return Ok(Vec::new());
        }
        let event: Value =
            serde_json::from_str(data).map_err(|error| AnswerFault::unreadable(&error, data))?;
        if event.get("error").is_some_and(|error| !error.is_null()) || event["object"] == "error" {
            return Err(AnswerFault::Reported(FailureReport::from_event(&event)));
        }
        if self.answer.id.is_none() {
            self.answer.id = event["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        }
        // Requests never ask for more than one choice.
        if let Some(choice) = event["choices"].get(0) {
            self.apply_choice(choice);
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            self.answer.usage = Some(read_usage(usage));
        }
        self.answer.take_parts()
    }

    fn progress(&self) -> AnswerProgress {
        self.progress
    }

    fn finish(mut self: Box<Self>) -> AiMessage {
        if let Some(field) = self.reasoning_field {
            let sealed = json!({field: self.answer.thinking_so_far(THINKING_KEY)});
            self.answer.seal_thinking(THINKING_KEY, sealed);
        }
        self.answer.finish()
    }
}

/// Returns the usage in this crate's terms.
fn read_usage(usage: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    Usage {
        input_tokens: count(&usage["prompt_tokens"]),
        output_tokens: count(&usage["completion_tokens"]),
        cache_read_tokens: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        cache_write_tokens: 0,
    }
}

/// Returns the stop reason for the format's finish reason.
fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other,
    }
}
