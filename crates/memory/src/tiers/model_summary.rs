//! Asks the small model for a summary: as many calls as the turns need, each with the summary so far. Every request fits
//! the model's window; what is done when there is no summary is decided elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::formatting::count_content_words;
use facts::redact_and_count;
use jiff::Timestamp;
use minijinja::{Environment, UndefinedBehavior};
use model::sentence_ranking::split_sentences;
use model::{ChatModel, ChatRequest, is_error_text, tokens, untrusted_text};
use protocol::{AiMessage, Message, Usage};
use runtime::{Frame, FrameSender};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::error::{NoSummaryReason, SummarizationError};

const INSTRUCTIONS_TEMPLATE: &str = include_str!("../../prompts/transfer.md");
const INPUT_TEMPLATE: &str = include_str!("../../prompts/transfer_input.md");

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
const ANSWER_DIVISOR: u64 = 4;
/// How many times as long as it should be a summary may be and still be cut: beyond, it is none.
const OVERLENGTH_FACTOR_MAX: u64 = 4;
/// Words that carry meaning of which a summary has at least so many.
const CONTENT_WORDS_MIN: usize = 2;

/// One call of a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SummarizerCall {
    /// `provider/name`.
    pub model: String,
    /// Tokens it took; nothing where the provider did not say.
    pub usage: Usage,
    /// SHA-256 of the prompt's instructions.
    pub prompt_sha256: String,
    /// Why nothing came of it, in one line.
    pub problem: Option<String>,
    /// When it was answered, or failed.
    pub ended_at: Timestamp,
    pub duration: Duration,
}

/// One model that is asked for one summary.
pub(super) struct ChunkSummarizer<'a> {
    pub model: &'a Arc<dyn ChatModel>,
    pub summary_tokens: u64,
    pub frames: &'a FrameSender,
    pub cancel: &'a CancellationToken,
    /// Every call that was made, whatever came of it.
    pub calls: Vec<SummarizerCall>,
    /// Secrets that were in answers.
    pub redacted_secrets: u64,
}

/// Where a chunk stands among those of one summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkPosition {
    /// Others follow.
    NotLast,
    Last,
}

/// A part of what one summary is made of.
pub(super) struct TurnChunk {
    pub conversation: String,
    pub position: ChunkPosition,
    /// How many were summarised before it.
    pub chunks_done: u64,
    /// How many there are, about.
    pub chunks_total: u64,
}

/// The values of the prompt's fields; every text is escaped.
#[derive(Debug, Clone, Default, Serialize)]
struct MemoryPromptInput {
    earlier_summary: Option<String>,
    conversation: String,
    more_follows: bool,
    max_summary_tokens: u64,
}

impl ChunkSummarizer<'_> {
    /// Returns the tokens a chunk may have, halved so many times.
    pub(super) fn chunk_tokens(&self, halved: u32) -> Result<u64, SummarizationError> {
        let (instructions, text) =
            render_prompt(&self.prompt_input(None, String::new(), ChunkPosition::NotLast))?;
        let frame = tokens::estimate_tokens(&instructions) + tokens::estimate_tokens(&text);
        let room = (self.window_tokens() * WINDOW_PERCENT / 100).saturating_sub(frame + self.summary_tokens);
        Ok((room.min(CHUNK_TOKENS_MAX) >> halved).max(CHUNK_TOKENS_MIN))
    }

    /// Returns `provider/name`.
    pub(super) fn model_name(&self) -> String {
        self.model.name().to_string()
    }

    /// Asks for the summary of a chunk and of what was summarised before it.
    pub(super) async fn summarize_chunk(
        &mut self,
        earlier: Option<&str>,
        chunk: TurnChunk,
    ) -> Result<String, SummarizationError> {
        if self.cancel.is_cancelled() {
            return Err(SummarizationError::Stopped);
        }
        let TurnChunk { conversation, position: place, chunks_done: done, chunks_total: total } = chunk;
        let what = format!("remembering with {}", self.model_name());
        self.frames.send(Frame::Progress { what, done, total: Some(total.max(done + 1)) });
        let (instructions, text) = render_prompt(&self.prompt_input(earlier, conversation, place))?;
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
        let read = answered.and_then(|answer| self.parse_answer(answer));
        let problem = read.as_ref().err().map(ToString::to_string);
        self.calls.push(SummarizerCall {
            model: self.model_name(),
            usage,
            prompt_sha256: prompt_sha256(),
            problem,
            ended_at: Timestamp::now(),
            duration: begun.elapsed(),
        });
        read
    }

    /// Returns the summary in an answer, without secrets, cut where it is a little long: it is still a summary, and to
    /// ask again costs more than the end of it tells.
    fn parse_answer(&mut self, answer: AiMessage) -> Result<String, SummarizationError> {
        let none = |why: NoSummaryReason| SummarizationError::NoSummary { model: self.model_name(), why };
        let text = model::answer_text(answer).map_err(|why| none(why.into()))?;
        let (safe, withheld) = redact_and_count(&text);
        let text = untrusted_text::strip_hidden_characters(safe.trim());
        if is_error_text(&text) {
            return Err(none(NoSummaryReason::IsError));
        }
        if count_content_words(&text) < CONTENT_WORDS_MIN {
            return Err(none(NoSummaryReason::SaysNothing));
        }
        let tokens = tokens::estimate_tokens(&text);
        let too_long = NoSummaryReason::TooLong { tokens, tokens_max: self.summary_tokens };
        if tokens > self.summary_tokens * OVERLENGTH_FACTOR_MAX {
            return Err(none(too_long));
        }
        let text =
            truncate_to_sentences(&text, self.summary_tokens).ok_or_else(|| none(too_long))?.to_owned();
        self.redacted_secrets += withheld;
        Ok(text)
    }

    fn answer_tokens(&self) -> u64 {
        let most = self.window_tokens() / ANSWER_DIVISOR;
        let limit = self.model.limits().output_tokens.unwrap_or(u64::MAX);
        (self.summary_tokens + ANSWER_TOKENS_SPARE).min(most).min(limit)
    }

    fn window_tokens(&self) -> u64 {
        self.model.limits().context_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS)
    }

    fn prompt_input(
        &self,
        earlier: Option<&str>,
        conversation: String,
        place: ChunkPosition,
    ) -> MemoryPromptInput {
        MemoryPromptInput {
            earlier_summary: earlier.map(untrusted_text::neutralize),
            conversation,
            more_follows: place == ChunkPosition::NotLast,
            max_summary_tokens: self.summary_tokens,
        }
    }
}

/// Returns as many whole sentences from the beginning as fit; `None` when not one does.
fn truncate_to_sentences(text: &str, tokens_max: u64) -> Option<&str> {
    if tokens::fits(text, tokens_max) {
        return Some(text);
    }
    let begin = text.as_ptr() as usize;
    // A sentence is a part of the text: where it ends is where its last byte is.
    let ends = split_sentences(text).map(|sentence| sentence.as_ptr() as usize - begin + sentence.len());
    let end = ends.take_while(|end| tokens::fits(&text[..*end], tokens_max)).last()?;
    Some(&text[..end])
}

/// Returns the instructions and the input of the prompt.
fn render_prompt(input: &MemoryPromptInput) -> Result<(String, String), minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fields = minijinja::Value::from(minijinja::value::Serde(input));
    let instructions = environment.render_str(INSTRUCTIONS_TEMPLATE, fields.clone())?;
    let text = environment.render_str(INPUT_TEMPLATE, fields)?;
    Ok((instructions, text))
}

/// Returns the hash of the prompt files, for the record of a call.
fn prompt_sha256() -> String {
    protocol::sha256_hex(format!("{INSTRUCTIONS_TEMPLATE}\n{INPUT_TEMPLATE}"))
}

#[cfg(test)]
mod tests;
