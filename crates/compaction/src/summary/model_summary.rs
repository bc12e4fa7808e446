//! The record written by one model: the prompt, and as many calls as the messages need, each with the record so far.
//!
//! Every request is sized to fit the model's window. The parent module decides which model is tried next.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use minijinja::{Environment, UndefinedBehavior};
use model::tokens::{self, truncate_graphemes};
use model::{ChatModel, ChatRequest, untrusted_text};
use protocol::{AiMessage, CondensedSummary, Message};
use runtime::{Frame, RunScope};
use serde::Serialize;

use super::transcript::{TranscriptLimits, render_chunks};
use super::{
    CompactionSummaryOptions, RECORD_PERCENT, SUMMARY_TOKENS_MAX, SummarizerCall, SummarySource, record,
    response,
};

/// The template of the system prompt.
const INSTRUCTIONS_TEMPLATE: &str = include_str!("prompts/compact.md");
/// The template of the message that holds the conversation.
const INPUT_TEMPLATE: &str = include_str!("prompts/condense_input.md");

/// The maximum number of chunks, and so of model calls, in one attempt.
pub(super) const CHUNKS_MAX: usize = 8;
/// The maximum number of times the chunks are halved because the provider refused one as too large.
const SHRINKS_MAX: u32 = 2;
/// The assumed window of a model whose window is unknown, in tokens.
const UNKNOWN_WINDOW_TOKENS: u64 = 32_000;
/// The share of the window that a request may fill by estimate, in percent. The rest is needed because some text has
/// several tokens for each estimated one, and because the answer needs room.
const WINDOW_PERCENT: u64 = 55;
/// The maximum size of a chunk in tokens, for a model with a large window. In a larger chunk, the record of its
/// middle gets worse.
const CHUNK_TOKENS_MAX: u64 = 100_000;
/// The size of a chunk in tokens below which the model is not called.
const CHUNK_TOKENS_MIN: u64 = 400;
/// The output tokens in addition to the record, for JSON syntax and some reasoning.
const ANSWER_TOKENS_SPARE: u64 = 3_000;
/// The divisor of the window that gives the maximum size of an answer: a quarter.
const ANSWER_DIVISOR: u64 = 4;
/// The maximum length of the focus in the prompt, in grapheme clusters.
const FOCUS_GRAPHEMES: usize = 2_000;

/// The summarizer for one model.
pub(super) struct ModelSummarizer<'a> {
    /// The model.
    pub model: &'a Arc<dyn ChatModel>,
    /// The messages to summarize and the earlier record.
    pub source: &'a SummarySource<'a>,
    /// The limits.
    pub options: &'a CompactionSummaryOptions,
    /// The frames and the cancellation of the run.
    pub scope: RunScope<'a>,
}

/// A failure of a model to write the record.
#[derive(Debug)]
pub(super) enum ModelSummaryError {
    /// The user stopped it.
    Stopped,
    /// Any other failure, in one line.
    Failed(String),
}

/// A failure of one model call.
enum SummarizerCallError {
    /// The user stopped it.
    Stopped,
    /// The provider refused the request as too large.
    TooLarge(String),
    /// Any other failure, in one line.
    Failed(String),
}

/// The position of a chunk in the conversation to summarize.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkPosition {
    /// Other chunks follow.
    NotLast,
    /// It is the last or the only one.
    Last,
}

/// The placeholders of the prompt. Every text is neutralized.
#[derive(Debug, Clone, Default, Serialize)]
struct CompactionPromptInput {
    /// The topic to keep in detail.
    focus: Option<String>,
    /// The record so far, as JSON.
    earlier_record: Option<String>,
    /// The chunk of the conversation.
    conversation: String,
    /// True if other chunks follow.
    more_follows: bool,
    /// `answered` or `pending`: the state of the request that is repeated after the summary.
    last_request: Option<&'static str>,
    /// The maximum size of the record in tokens.
    max_summary_tokens: u64,
}

impl ModelSummarizer<'_> {
    /// Returns the record of the dropped messages. Every completed call is appended to `calls`, also a failed one.
    ///
    /// If the provider refuses a chunk as too large, the whole attempt is repeated with chunks of half the size, at
    /// most [`SHRINKS_MAX`] times.
    ///
    /// # Errors
    ///
    /// [`ModelSummaryError`]: the user stopped it, the window is too small, or a call gave no usable record.
    pub(super) async fn summarize(
        &self,
        calls: &mut Vec<SummarizerCall>,
    ) -> Result<CondensedSummary, ModelSummaryError> {
        let name = self.model.name();
        let earlier = self.source.previous.map(|previous| self.trim_earlier_record(&previous.sections));
        let mut problem = format!("ask {name}: its window is too small for the conversation");
        for halvings in 0..=SHRINKS_MAX {
            let Some(chunk_tokens) = self.chunk_tokens(earlier.as_ref(), halvings)? else { break };
            let limits = TranscriptLimits {
                trim_tokens: self.options.trim_tokens,
                chunk_tokens,
                chunks_max: CHUNKS_MAX,
            };
            let Some(chunks) = render_chunks(self.source.dropped_messages, limits) else { break };
            match self.summarize_chunks(earlier.clone(), chunks, calls).await {
                Ok(record) => return Ok(record),
                Err(SummarizerCallError::Stopped) => return Err(ModelSummaryError::Stopped),
                Err(SummarizerCallError::Failed(problem)) => return Err(ModelSummaryError::Failed(problem)),
                Err(SummarizerCallError::TooLarge(refused)) => problem = refused,
            }
        }
        Err(ModelSummaryError::Failed(problem))
    }

    /// Summarizes the chunks in order, each with the record of the chunks before it.
    async fn summarize_chunks(
        &self,
        mut record: Option<CondensedSummary>,
        chunks: Vec<String>,
        calls: &mut Vec<SummarizerCall>,
    ) -> Result<CondensedSummary, SummarizerCallError> {
        let count = chunks.len();
        for (index, conversation) in chunks.into_iter().enumerate() {
            let what = format!("compacting with {}", self.model.name());
            self.scope.frames.send(Frame::Progress { what, done: index as u64, total: Some(count as u64) });
            let position = if index + 1 < count { ChunkPosition::NotLast } else { ChunkPosition::Last };
            let input = self.prompt_input(record.as_ref(), conversation, position);
            record = Some(self.call_model(&input, calls).await?);
        }
        record.ok_or_else(|| SummarizerCallError::Failed("summarize an empty conversation".to_owned()))
    }

    /// Calls the model once and parses its answer. The call is appended to `calls` unless it was stopped.
    async fn call_model(
        &self,
        input: &CompactionPromptInput,
        calls: &mut Vec<SummarizerCall>,
    ) -> Result<CondensedSummary, SummarizerCallError> {
        let (instructions, text) =
            render_prompt(input).map_err(|error| SummarizerCallError::Failed(error.to_string()))?;
        let request = ChatRequest {
            system: vec![instructions],
            messages: Arc::new(vec![Message::human(text)]),
            max_output_tokens: Some(self.answer_tokens()),
            answer_schema: Some(response::response_schema()),
            ..ChatRequest::default()
        };
        let started = Instant::now();
        let answer = tokio::select! {
            answer = self.model.answer(&request) => answer,
            () = self.scope.cancel.cancelled() => return Err(SummarizerCallError::Stopped),
        };
        let usage = answer.as_ref().ok().and_then(|answer| answer.usage).unwrap_or_default();
        let record = answer.map_err(to_call_error).and_then(|answer| self.parse_record(answer));
        let problem = match &record {
            Ok(_) | Err(SummarizerCallError::Stopped) => None,
            Err(SummarizerCallError::TooLarge(problem) | SummarizerCallError::Failed(problem)) => {
                Some(problem.clone())
            }
        };
        calls.push(SummarizerCall {
            model: self.model.name().to_string(),
            usage,
            prompt_sha256: prompt_sha256(),
            problem,
            ended_at: Timestamp::now(),
            duration: started.elapsed(),
        });
        record
    }

    /// Parses an answer as a record.
    fn parse_record(&self, answer: AiMessage) -> Result<CondensedSummary, SummarizerCallError> {
        let record = response::parse_response(answer, self.summary_tokens());
        record.map_err(|reason| {
            SummarizerCallError::Failed(format!("read the record of {}: {reason}", self.model.name()))
        })
    }

    /// Returns the maximum size of the whole summary in tokens. A record that is longer is rejected.
    fn summary_tokens(&self) -> u64 {
        self.options.max_summary_tokens.min(SUMMARY_TOKENS_MAX).min(self.window_tokens() / ANSWER_DIVISOR)
    }

    /// Returns the maximum size of an answer in tokens.
    fn answer_tokens(&self) -> u64 {
        let by_window = self.window_tokens() / ANSWER_DIVISOR;
        let by_model = self.model.limits().output_tokens.unwrap_or(u64::MAX);
        (self.summary_tokens() + ANSWER_TOKENS_SPARE).min(by_window).min(by_model)
    }

    /// Returns the known or assumed window in tokens.
    fn window_tokens(&self) -> u64 {
        self.model.limits().context_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS)
    }

    /// Returns the maximum size of a chunk in tokens, halved `halvings` times; `None` when it is below
    /// [`CHUNK_TOKENS_MIN`].
    fn chunk_tokens(
        &self,
        earlier: Option<&CondensedSummary>,
        halvings: u32,
    ) -> Result<Option<u64>, ModelSummaryError> {
        let input = self.prompt_input(earlier, String::new(), ChunkPosition::NotLast);
        let (instructions, text) =
            render_prompt(&input).map_err(|error| ModelSummaryError::Failed(error.to_string()))?;
        let schema = response::response_schema().to_string();
        let parts = [instructions, text, schema];
        let frame: u64 = parts.iter().map(|part| tokens::estimate_tokens(part)).sum();
        // The record may grow from chunk to chunk up to its limit, so that room is reserved.
        let growth = self.summary_tokens().saturating_sub(earlier.map_or(0, record::estimate_tokens));
        let available = (self.window_tokens() * WINDOW_PERCENT / 100).saturating_sub(frame + growth);
        let chunk = available.min(CHUNK_TOKENS_MAX) >> halvings;
        Ok(Some(chunk).filter(|chunk| *chunk >= CHUNK_TOKENS_MIN))
    }

    /// Returns the earlier record without its least needed entries, so that it does not exceed the size of a summary.
    fn trim_earlier_record(&self, sections: &CondensedSummary) -> CondensedSummary {
        let mut record = sections.clone();
        while record::estimate_tokens(&record) > self.summary_tokens()
            && record::drop_least_needed_entry(&mut record)
        {}
        record
    }

    /// Returns the placeholders for one chunk.
    fn prompt_input(
        &self,
        earlier: Option<&CondensedSummary>,
        conversation: String,
        position: ChunkPosition,
    ) -> CompactionPromptInput {
        let focus = self.source.focus.map(|focus| truncate_graphemes(focus.trim(), FOCUS_GRAPHEMES));
        let earlier_json = earlier.map(|record| serde_json::to_string_pretty(record).unwrap_or_default());
        CompactionPromptInput {
            focus: focus.filter(|focus| !focus.is_empty()).map(untrusted_text::neutralize),
            earlier_record: earlier_json.map(|json| untrusted_text::neutralize(&json)),
            conversation,
            more_follows: position == ChunkPosition::NotLast,
            last_request: self
                .source
                .request_answered
                .map(|is_answered| if is_answered { "answered" } else { "pending" }),
            max_summary_tokens: self.summary_tokens() * RECORD_PERCENT / 100,
        }
    }
}

/// Classifies an error of a model call.
fn to_call_error(error: model::Error) -> SummarizerCallError {
    match error {
        model::Error::ContextOverflow { .. } => SummarizerCallError::TooLarge(error.to_string()),
        error => SummarizerCallError::Failed(error.to_string()),
    }
}

/// Returns the rendered system prompt and the rendered input message.
fn render_prompt(input: &CompactionPromptInput) -> Result<(String, String), minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fields = minijinja::Value::from(minijinja::value::Serde(input));
    let instructions = environment.render_str(INSTRUCTIONS_TEMPLATE, fields.clone())?;
    let text = environment.render_str(INPUT_TEMPLATE, fields)?;
    Ok((instructions, text))
}

/// Returns the hash of both prompt templates, by which calls can be compared.
pub(super) fn prompt_sha256() -> String {
    protocol::sha256_hex(format!("{INSTRUCTIONS_TEMPLATE}\n{INPUT_TEMPLATE}"))
}

#[cfg(test)]
mod tests;
