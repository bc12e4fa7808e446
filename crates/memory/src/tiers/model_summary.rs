//! Makes a summary with the small model: one call for each chunk of messages, each with the summary so far. Every
//! request fits the model's context window. Failures are returned; the worker decides about retries and the offline
//! summary.

mod fact_block;
mod known_notes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::formatting::count_content_words;
use jiff::Timestamp;
use minijinja::{Environment, UndefinedBehavior};
use model::sentence_ranking::split_sentences;
use model::{ChatModel, ChatRequest, is_error_text, tokens, untrusted_text};
use protocol::{AiMessage, Message, Usage};
use runtime::{Frame, FrameSender};
use secrets::redact_and_count;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::error::{NoSummaryReason, SummarizationError};
use fact_block::{FACT_CHARS_MAX, FACTS_MAX, check_claim, split_answer};

pub(super) use fact_block::{QuotableTurn, UnstoredFact};
pub(super) use known_notes::KnownNotes;

/// The template of the instructions, which are the system prompt.
const INSTRUCTIONS_TEMPLATE: &str = include_str!("../../prompts/transfer.md");
/// The template of the input: the summary so far and the conversation.
const INPUT_TEMPLATE: &str = include_str!("../../prompts/transfer_input.md");

/// Maximum number of calls for one summary. It limits the cost.
pub(super) const CALLS_MAX: u64 = 32;
/// Maximum number of times that the chunk size is halved because the provider refused a request as too large.
pub(super) const SHRINKS_MAX: u32 = 2;
/// Assumed context window in tokens of a model whose window is unknown.
const UNKNOWN_WINDOW_TOKENS: u64 = 32_000;
/// Share of the context window, in percent, that the estimated tokens of a request may use. The rest is for the
/// answer and for errors of the estimate: some texts have several times as many tokens as estimated.
const WINDOW_PERCENT: u64 = 55;
/// Maximum tokens of a chunk, even for a larger window: summaries of longer inputs omit more of the middle.
const CHUNK_TOKENS_MAX: u64 = 60_000;
/// Minimum tokens of a chunk, even for a smaller window. It is more than one message takes after it has been cut.
const CHUNK_TOKENS_MIN: u64 = 500;
/// Tokens that an answer may have beyond the length of a summary. They are for reasoning, and for a summary that is
/// slightly too long and is cut afterwards.
const ANSWER_TOKENS_SPARE: u64 = 2_000;
/// Tokens that the block of facts may have in an answer.
const FACTS_TOKENS: u64 = 1_000;
/// Divisor of the context window: an answer may use at most a quarter of it.
const ANSWER_DIVISOR: u64 = 4;
/// Maximum length of an answer that is cut to a summary, as a multiple of the allowed length. A longer answer did not
/// follow the instructions and is refused.
const OVERLENGTH_FACTOR_MAX: u64 = 4;
/// Minimum number of content words of a summary.
const CONTENT_WORDS_MIN: usize = 2;

/// The record of one model call, for the journal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SummarizerCall {
    /// `provider/name`.
    pub model: String,
    /// Tokens of the call; zero if the provider did not report them.
    pub usage: Usage,
    /// SHA-256 of the prompt's templates.
    pub prompt_sha256: String,
    /// The error in one line, if the call gave no summary.
    pub problem: Option<String>,
    /// Time at which the call was answered, or failed.
    pub ended_at: Timestamp,
    pub duration: Duration,
}

/// Makes one summary with one model, chunk by chunk.
pub(super) struct ChunkSummarizer<'a> {
    pub model: &'a Arc<dyn ChatModel>,
    /// Maximum tokens of the summary.
    pub summary_tokens: u64,
    /// Receives a progress frame before each call.
    pub frames: &'a FrameSender,
    /// Stops a running call, and prevents further ones.
    pub cancel: &'a CancellationToken,
    /// All calls so far, including failed ones.
    pub calls: Vec<SummarizerCall>,
    /// Number of secrets redacted from the model's answers.
    pub redacted_secrets: u64,
    /// The notes that the model is shown; `None` if it is to propose no facts.
    pub notes: Option<KnownNotes>,
    /// The facts of all chunks so far.
    pub facts: Vec<UnstoredFact>,
}

/// The position of a chunk among the chunks of one summary. The prompt tells the model whether more follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkPosition {
    /// More chunks follow.
    NotLast,
    /// No chunk follows.
    Last,
}

/// A part of the conversation that one call summarizes.
pub(super) struct TurnChunk {
    /// The messages as text, escaped.
    pub conversation: String,
    /// The same messages, which facts must quote.
    pub turns: Vec<QuotableTurn>,
    pub position: ChunkPosition,
    /// Number of chunks before this one.
    pub chunks_done: u64,
    /// Estimated number of all chunks.
    pub chunks_total: u64,
}

/// The values of the prompt's fields. Every text is escaped.
#[derive(Debug, Clone, Default, Serialize)]
struct MemoryPromptInput {
    earlier_summary: Option<String>,
    conversation: String,
    more_follows: bool,
    max_summary_tokens: u64,
    propose_facts: bool,
    notes: Vec<String>,
    max_facts: usize,
    max_fact_chars: usize,
}

impl ChunkSummarizer<'_> {
    /// Returns the maximum tokens of a chunk after `halvings` reductions of its size: the usable part of the window
    /// without the prompt and the summary so far.
    ///
    /// # Errors
    /// When the prompt cannot be rendered.
    pub(super) fn chunk_tokens(&self, halvings: u32) -> Result<u64, SummarizationError> {
        let (instructions, text) =
            render_prompt(&self.prompt_input(None, String::new(), ChunkPosition::NotLast))?;
        let frame = tokens::estimate_tokens(&instructions) + tokens::estimate_tokens(&text);
        let usable =
            (self.window_tokens() * WINDOW_PERCENT / 100).saturating_sub(frame + self.summary_tokens);
        Ok((usable.min(CHUNK_TOKENS_MAX) >> halvings).max(CHUNK_TOKENS_MIN))
    }

    /// Returns `provider/name`.
    pub(super) fn model_name(&self) -> String {
        self.model.name().to_string()
    }

    /// Calls the model for a summary of the chunk and of the summary before it, and records the call.
    ///
    /// # Errors
    /// When the caller cancels, when the call fails, and when the answer is not a usable summary. The call is
    /// recorded in [`Self::calls`] in all cases in which it was made.
    pub(super) async fn summarize_chunk(
        &mut self,
        earlier: Option<&str>,
        chunk: TurnChunk,
    ) -> Result<String, SummarizationError> {
        if self.cancel.is_cancelled() {
            return Err(SummarizationError::Stopped);
        }
        let TurnChunk { conversation, turns, position, chunks_done: done, chunks_total: total } = chunk;
        let what = format!("remembering with {}", self.model_name());
        self.frames.send(Frame::Progress { what, done, total: Some(total.max(done + 1)) });
        let (instructions, text) = render_prompt(&self.prompt_input(earlier, conversation, position))?;
        let request = ChatRequest {
            system: vec![instructions],
            messages: Arc::new(vec![Message::human(text)]),
            max_output_tokens: Some(self.answer_tokens()),
            ..ChatRequest::default()
        };
        let started = Instant::now();
        let answer = tokio::select! {
            answer = self.model.answer(&request) => answer.map_err(SummarizationError::Model),
            // The usage of a cancelled call is unknown and is recorded as zero.
            () = self.cancel.cancelled() => Err(SummarizationError::Stopped),
        };
        let usage = answer.as_ref().ok().and_then(|answer| answer.usage).unwrap_or_default();
        let summary = answer.and_then(|answer| self.parse_answer(answer, &turns));
        let problem = summary.as_ref().err().map(ToString::to_string);
        self.calls.push(SummarizerCall {
            model: self.model_name(),
            usage,
            prompt_sha256: prompt_sha256(),
            problem,
            ended_at: Timestamp::now(),
            duration: started.elapsed(),
        });
        summary
    }

    /// Returns the summary in an answer with its secrets redacted, and keeps the facts of the answer that quote one of the
    /// messages.
    ///
    /// A summary that is too long is cut at the end of a sentence. Another call would cost more than the lost
    /// sentences are worth.
    ///
    /// # Errors
    /// [`SummarizationError::NoSummary`] when the answer is not a usable summary.
    fn parse_answer(
        &mut self,
        answer: AiMessage,
        turns: &[QuotableTurn],
    ) -> Result<String, SummarizationError> {
        let refusal = |why: NoSummaryReason| SummarizationError::NoSummary { model: self.model_name(), why };
        let text = model::answer_text(answer).map_err(|why| refusal(why.into()))?;
        let (text, claims) = split_answer(&text);
        let (safe, redacted) = redact_and_count(&text);
        let text = untrusted_text::strip_hidden_characters(safe.trim());
        if is_error_text(&text) {
            return Err(refusal(NoSummaryReason::IsError));
        }
        if count_content_words(&text) < CONTENT_WORDS_MIN {
            return Err(refusal(NoSummaryReason::SaysNothing));
        }
        let tokens = tokens::estimate_tokens(&text);
        let too_long = NoSummaryReason::TooLong { tokens, tokens_max: self.summary_tokens };
        if tokens > self.summary_tokens * OVERLENGTH_FACTOR_MAX {
            return Err(refusal(too_long));
        }
        let text =
            truncate_to_sentences(&text, self.summary_tokens).ok_or_else(|| refusal(too_long))?.to_owned();
        self.redacted_secrets += redacted;
        if let Some(notes) = &self.notes {
            self.facts.extend(claims.into_iter().filter_map(|claim| check_claim(claim, turns, notes)));
        }
        Ok(text)
    }

    /// Returns the output limit of a request in tokens. It respects the limit of the model.
    fn answer_tokens(&self) -> u64 {
        let window_share = self.window_tokens() / ANSWER_DIVISOR;
        let limit = self.model.limits().output_tokens.unwrap_or(u64::MAX);
        let facts = if self.notes.is_some() { FACTS_TOKENS } else { 0 };
        (self.summary_tokens + facts + ANSWER_TOKENS_SPARE).min(window_share).min(limit)
    }

    /// Returns the model's context window in tokens.
    fn window_tokens(&self) -> u64 {
        self.model.limits().context_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS)
    }

    /// Returns the values of the prompt's fields. `conversation` must be escaped already.
    fn prompt_input(
        &self,
        earlier: Option<&str>,
        conversation: String,
        position: ChunkPosition,
    ) -> MemoryPromptInput {
        MemoryPromptInput {
            earlier_summary: earlier.map(untrusted_text::neutralize),
            conversation,
            more_follows: position == ChunkPosition::NotLast,
            max_summary_tokens: self.summary_tokens,
            propose_facts: self.notes.is_some(),
            notes: self.notes.as_ref().map(|notes| notes.lines().to_vec()).unwrap_or_default(),
            max_facts: FACTS_MAX,
            max_fact_chars: FACT_CHARS_MAX,
        }
    }
}

/// Returns the longest prefix of whole sentences that fits into `tokens_max`. Returns `None` when the first sentence
/// does not fit.
fn truncate_to_sentences(text: &str, tokens_max: u64) -> Option<&str> {
    if tokens::fits(text, tokens_max) {
        return Some(text);
    }
    let start = text.as_ptr() as usize;
    // Each sentence is a slice of `text`, so its end offset follows from its address.
    let ends = split_sentences(text).map(|sentence| sentence.as_ptr() as usize - start + sentence.len());
    let end = ends.take_while(|end| tokens::fits(&text[..*end], tokens_max)).last()?;
    Some(&text[..end])
}

/// Renders the instructions and the input of the prompt.
fn render_prompt(input: &MemoryPromptInput) -> Result<(String, String), minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fields = minijinja::Value::from(minijinja::value::Serde(input));
    let instructions = environment.render_str(INSTRUCTIONS_TEMPLATE, fields.clone())?;
    let text = environment.render_str(INPUT_TEMPLATE, fields)?;
    Ok((instructions, text))
}

/// Returns the SHA-256 of the two templates, for the record of a call.
fn prompt_sha256() -> String {
    protocol::sha256_hex(format!("{INSTRUCTIONS_TEMPLATE}\n{INPUT_TEMPLATE}"))
}

#[cfg(test)]
mod tests;
