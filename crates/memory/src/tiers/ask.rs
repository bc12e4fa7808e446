//! Asks the small model for a summary: as many calls as the turns need, each with the summary so far. Every request fits
//! the model's window; what is done when there is no summary is decided elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::phrase::weight;
use facts::withhold;
use jiff::Timestamp;
use minijinja::{Environment, UndefinedBehavior};
use model::extractive::sentences;
use model::{ChatModel, ChatRequest, inert, is_error, tokens};
use protocol::{AiMessage, Message, Usage};
use runtime::{Frame, Frames};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::error::{NoSummary, SummarizationError};

const INSTRUCTIONS: &str = include_str!("../../prompts/transfer.md");
const INPUT: &str = include_str!("../../prompts/transfer_input.md");

/// Calls of one summary at most.
pub(super) const CALLS_MAX: u64 = 32;
/// Times that chunks are made smaller because the provider refused one as too large.
pub(super) const SHRINKS_MAX: u32 = 2;
/// Tokens of a model's window where nobody knows it.
const UNKNOWN_WINDOW_TOKENS: u64 = 32_000;
/// Of every hundred tokens of a window, those that a request may take by estimate: some text has several tokens where
/// the estimate has one, and the answer needs room.
const WINDOW_PERCENT: u64 = 55;
/// Tokens of one chunk at most, however large the window: beyond it, what is told of the middle gets worse.
const CHUNK_TOKENS_MAX: u64 = 60_000;
/// Tokens of a chunk at least, however small the window: more than one turn as it is shown.
const CHUNK_TOKENS_MIN: u64 = 500;
/// Tokens of an answer beyond the summary: one that is a little long is cut, and some reasoning.
const ANSWER_TOKENS_SPARE: u64 = 2_000;
/// Of every four tokens of a window, the answer has one at most.
const ANSWER_PART: u64 = 4;
/// How many times as long as it should be a summary may be and still be cut: beyond, it is none.
const LENGTHS_MAX: u64 = 4;
/// Words that carry meaning of which a summary has at least so many.
const WEIGHT_MIN: usize = 2;

/// One call of a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Called {
    /// `provider/name`.
    pub model: String,
    /// Tokens it took; nothing where the provider did not say.
    pub usage: Usage,
    /// SHA-256 of the prompt's instructions.
    pub prompt_sha256: String,
    /// Why nothing came of it, in one line.
    pub problem: Option<String>,
    /// When it was answered, or failed.
    pub ended: Timestamp,
    pub took: Duration,
}

/// One model that is asked for one summary.
pub(super) struct Asking<'a> {
    pub model: &'a Arc<dyn ChatModel>,
    pub summary_tokens: u64,
    pub frames: &'a Frames,
    pub cancel: &'a CancellationToken,
    /// Every call that was made, whatever came of it.
    pub calls: Vec<Called>,
    /// Secrets that were in answers.
    pub withheld: u64,
}

/// Where a chunk stands among those of one summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Others follow.
    Before,
    Last,
}

/// A part of what one summary is made of.
pub(super) struct Chunk {
    pub conversation: String,
    pub place: Place,
    /// How many were summarised before it.
    pub done: u64,
    /// How many there are, about.
    pub total: u64,
}

/// What the prompt is filled with; every text is escaped.
#[derive(Debug, Clone, Default, Serialize)]
struct Input {
    earlier_summary: Option<String>,
    conversation: String,
    more_follows: bool,
    max_summary_tokens: u64,
}

impl Asking<'_> {
    /// Returns the tokens a chunk may have, halved so many times.
    pub(super) fn chunk_tokens(&self, halved: u32) -> Result<u64, SummarizationError> {
        let (instructions, text) = prompt(&self.input(None, String::new(), Place::Before))?;
        let frame = tokens::estimate(&instructions) + tokens::estimate(&text);
        let room = (self.window() * WINDOW_PERCENT / 100).saturating_sub(frame + self.summary_tokens);
        Ok((room.min(CHUNK_TOKENS_MAX) >> halved).max(CHUNK_TOKENS_MIN))
    }

    /// Returns `provider/name`.
    pub(super) fn name(&self) -> String {
        self.model.name().to_string()
    }

    /// Asks for the summary of a chunk and of what was summarised before it.
    pub(super) async fn summarise(
        &mut self,
        earlier: Option<&str>,
        chunk: Chunk,
    ) -> Result<String, SummarizationError> {
        if self.cancel.is_cancelled() {
            return Err(SummarizationError::Stopped);
        }
        let Chunk { conversation, place, done, total } = chunk;
        let what = format!("remembering with {}", self.name());
        self.frames.send(Frame::Progress { what, done, total: Some(total.max(done + 1)) });
        let (instructions, text) = prompt(&self.input(earlier, conversation, place))?;
        let request = ChatRequest {
            system: vec![instructions],
            messages: Arc::new(vec![Message::human(text)]),
            max_output_tokens: Some(self.answer_tokens()),
            ..ChatRequest::default()
        };
        let begun = Instant::now();
        let answered = tokio::select! {
            answered = self.model.answer(&request) => answered.map_err(SummarizationError::Model),
            // What the provider had done until then nobody says.
            () = self.cancel.cancelled() => Err(SummarizationError::Stopped),
        };
        let usage = answered.as_ref().ok().and_then(|answer| answer.usage).unwrap_or_default();
        let read = answered.and_then(|answer| self.read(answer));
        let problem = read.as_ref().err().map(ToString::to_string);
        self.calls.push(Called {
            model: self.name(),
            usage,
            prompt_sha256: prompt_sha256(),
            problem,
            ended: Timestamp::now(),
            took: begun.elapsed(),
        });
        read
    }

    /// Returns the summary in an answer, without secrets, cut where it is a little long: it is still a summary, and to
    /// ask again costs more than the end of it tells.
    fn read(&mut self, answer: AiMessage) -> Result<String, SummarizationError> {
        let none = |why: NoSummary| SummarizationError::NoSummary { model: self.name(), why };
        let text = model::said(answer).map_err(|why| none(why.into()))?;
        let (safe, withheld) = withhold(&text);
        let text = inert::visible(safe.trim());
        if is_error(&text) {
            return Err(none(NoSummary::IsError));
        }
        if weight(&text) < WEIGHT_MIN {
            return Err(none(NoSummary::SaysNothing));
        }
        let tokens = tokens::estimate(&text);
        let too_long = NoSummary::TooLong { tokens, tokens_max: self.summary_tokens };
        if tokens > self.summary_tokens * LENGTHS_MAX {
            return Err(none(too_long));
        }
        let text = cut(&text, self.summary_tokens).ok_or_else(|| none(too_long))?.to_owned();
        self.withheld += withheld;
        Ok(text)
    }

    fn answer_tokens(&self) -> u64 {
        let most = self.window() / ANSWER_PART;
        let limit = self.model.limits().output_tokens.unwrap_or(u64::MAX);
        (self.summary_tokens + ANSWER_TOKENS_SPARE).min(most).min(limit)
    }

    fn window(&self) -> u64 {
        self.model.limits().context_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS)
    }

    fn input(&self, earlier: Option<&str>, conversation: String, place: Place) -> Input {
        Input {
            earlier_summary: earlier.map(inert::text),
            conversation,
            more_follows: place == Place::Before,
            max_summary_tokens: self.summary_tokens,
        }
    }
}

/// Returns as many whole sentences from the beginning as fit; `None` when not one does.
fn cut(text: &str, tokens_max: u64) -> Option<&str> {
    if tokens::fits(text, tokens_max) {
        return Some(text);
    }
    let begin = text.as_ptr() as usize;
    // A sentence is a part of the text: where it ends is where its last byte is.
    let ends = sentences(text).map(|sentence| sentence.as_ptr() as usize - begin + sentence.len());
    let end = ends.take_while(|end| tokens::fits(&text[..*end], tokens_max)).last()?;
    Some(&text[..end])
}

/// Returns the instructions and the input of the prompt.
fn prompt(input: &Input) -> Result<(String, String), minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fields = minijinja::Value::from(minijinja::value::Serde(input));
    let instructions = environment.render_str(INSTRUCTIONS, fields.clone())?;
    let text = environment.render_str(INPUT, fields)?;
    Ok((instructions, text))
}

/// Returns the hash of the prompt files, for the record of a call.
fn prompt_sha256() -> String {
    protocol::sha256_hex(format!("{INSTRUCTIONS}\n{INPUT}"))
}

#[cfg(test)]
mod tests;
