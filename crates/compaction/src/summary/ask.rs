//! Asks one model for a record: the prompt, and as many calls as the stretch needs, each with the record so far. Every
//! request fits the model's window; which model is asked next is decided elsewhere.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use minijinja::{Environment, UndefinedBehavior};
use model::tokens::{self, truncate_graphemes};
use model::{ChatModel, ChatRequest, inert};
use protocol::{AiMessage, CondensedSummary, Message};
use runtime::{Frame, RunScope};
use serde::Serialize;

use super::transcript::{Room, chunks};
use super::{Called, Options, SUMMARY_TOKENS_MAX, Source, WRITTEN_PERCENT, answer, record};

const INSTRUCTIONS: &str = include_str!("prompts/condense.md");
const INPUT: &str = include_str!("prompts/condense_input.md");

/// Chunks, and so calls, of one attempt.
pub(super) const CHUNKS_MAX: usize = 8;
/// Times that chunks are made smaller because the provider refused one as too large.
const SHRINKS_MAX: u32 = 2;
/// Tokens of a model's window where nobody knows it.
const UNKNOWN_WINDOW_TOKENS: u64 = 32_000;
/// Of every hundred tokens of a window, those that a request may take by estimate: some text has several tokens where
/// the estimate has one, and the answer needs room.
const WINDOW_PERCENT: u64 = 55;
/// Tokens of one chunk at most, however large the window: beyond it, what is recorded of the middle gets worse.
const CHUNK_TOKENS_MAX: u64 = 100_000;
/// Tokens of a chunk below which a model is not worth asking.
const CHUNK_TOKENS_MIN: u64 = 400;
/// Tokens of an answer beyond the record: JSON and some reasoning.
const ANSWER_TOKENS_SPARE: u64 = 3_000;
/// Of every four tokens of a window, the answer has one at most.
const ANSWER_PART: u64 = 4;
const FOCUS_GRAPHEMES: usize = 2_000;

/// One model, and what it is asked for.
pub(super) struct Asking<'a> {
    pub model: &'a Arc<dyn ChatModel>,
    pub source: &'a Source<'a>,
    pub options: &'a Options,
    pub scope: RunScope<'a>,
}

/// Why a model gave no record.
#[derive(Debug)]
pub(super) enum Unusable {
    Stopped,
    /// Anything else: why, in one line.
    Failed(String),
}

/// Why one call gave no record.
enum Fault {
    Stopped,
    /// The provider refused the request as too large.
    TooLarge(String),
    Failed(String),
}

/// Where a chunk stands among those of one stretch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Others follow.
    Before,
    Last,
}

/// What the prompt is filled with; every text is escaped.
#[derive(Debug, Clone, Default, Serialize)]
struct Input {
    focus: Option<String>,
    earlier_record: Option<String>,
    conversation: String,
    more_follows: bool,
    last_request: Option<&'static str>,
    max_summary_tokens: u64,
}

impl Asking<'_> {
    /// Asks for the record; every call is noted in `calls`, whatever came of it.
    pub(super) async fn ask(&self, calls: &mut Vec<Called>) -> Result<CondensedSummary, Unusable> {
        let name = self.model.name();
        let earlier = self.source.previous.map(|previous| self.earlier(&previous.sections));
        let mut problem = format!("ask {name}: its window is too small for what is condensed");
        for shrunk in 0..=SHRINKS_MAX {
            let Some(chunk_tokens) = self.chunk_tokens(earlier.as_ref(), shrunk)? else { break };
            let room = Room { trim_tokens: self.options.trim_tokens, chunk_tokens, chunks_max: CHUNKS_MAX };
            let Some(chunks) = chunks(self.source.dropped, room) else { break };
            match self.roll(earlier.clone(), chunks, calls).await {
                Ok(record) => return Ok(record),
                Err(Fault::Stopped) => return Err(Unusable::Stopped),
                Err(Fault::Failed(problem)) => return Err(Unusable::Failed(problem)),
                Err(Fault::TooLarge(refused)) => problem = refused,
            }
        }
        Err(Unusable::Failed(problem))
    }

    /// Goes through the chunks, each with the record of those before it.
    async fn roll(
        &self,
        mut record: Option<CondensedSummary>,
        chunks: Vec<String>,
        calls: &mut Vec<Called>,
    ) -> Result<CondensedSummary, Fault> {
        let count = chunks.len();
        for (at, conversation) in chunks.into_iter().enumerate() {
            let what = format!("condensing with {}", self.model.name());
            self.scope.frames.send(Frame::Progress { what, done: at as u64, total: Some(count as u64) });
            let place = if at + 1 < count { Place::Before } else { Place::Last };
            let input = self.input(record.as_ref(), conversation, place);
            record = Some(self.call(&input, calls).await?);
        }
        record.ok_or_else(|| Fault::Failed("condense nothing".to_owned()))
    }

    async fn call(&self, input: &Input, calls: &mut Vec<Called>) -> Result<CondensedSummary, Fault> {
        let (instructions, text) = prompt(input).map_err(|error| Fault::Failed(error.to_string()))?;
        let request = ChatRequest {
            system: vec![instructions],
            messages: Arc::new(vec![Message::human(text)]),
            max_output_tokens: Some(self.answer_tokens()),
            answer_schema: Some(answer::schema()),
            ..ChatRequest::default()
        };
        let begun = Instant::now();
        let answered = tokio::select! {
            answered = self.model.answer(&request) => answered,
            () = self.scope.cancel.cancelled() => return Err(Fault::Stopped),
        };
        let usage = answered.as_ref().ok().and_then(|answer| answer.usage).unwrap_or_default();
        let read = answered.map_err(fault).and_then(|answer| self.read(answer));
        let problem = match &read {
            Ok(_) | Err(Fault::Stopped) => None,
            Err(Fault::TooLarge(problem) | Fault::Failed(problem)) => Some(problem.clone()),
        };
        calls.push(Called {
            model: self.model.name().to_string(),
            usage,
            prompt_sha256: prompt_sha256(),
            problem,
            ended: Timestamp::now(),
            took: begun.elapsed(),
        });
        read
    }

    fn read(&self, answer: AiMessage) -> Result<CondensedSummary, Fault> {
        let read = answer::read(answer, self.summary_tokens());
        read.map_err(|why| Fault::Failed(format!("read the record of {}: {why}", self.model.name())))
    }

    /// Returns the tokens of a whole summary; a record longer than that is none.
    fn summary_tokens(&self) -> u64 {
        self.options.max_summary_tokens.min(SUMMARY_TOKENS_MAX).min(self.window() / ANSWER_PART)
    }

    fn answer_tokens(&self) -> u64 {
        let most = self.window() / ANSWER_PART;
        let limit = self.model.limits().output_tokens.unwrap_or(u64::MAX);
        (self.summary_tokens() + ANSWER_TOKENS_SPARE).min(most).min(limit)
    }

    fn window(&self) -> u64 {
        self.model.limits().context_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS)
    }

    /// Returns the tokens a chunk may have, halved so many times; `None` when that is too few.
    fn chunk_tokens(&self, earlier: Option<&CondensedSummary>, halved: u32) -> Result<Option<u64>, Unusable> {
        let input = self.input(earlier, String::new(), Place::Before);
        let (instructions, text) = prompt(&input).map_err(|error| Unusable::Failed(error.to_string()))?;
        let schema = answer::schema().to_string();
        let parts = [instructions, text, schema];
        let frame: u64 = parts.iter().map(|part| tokens::estimate(part)).sum();
        // A record that grows from chunk to chunk stays within its limit.
        let grown = self.summary_tokens().saturating_sub(earlier.map_or(0, record::size));
        let room = (self.window() * WINDOW_PERCENT / 100).saturating_sub(frame + grown);
        let chunk = room.min(CHUNK_TOKENS_MAX) >> halved;
        Ok(Some(chunk).filter(|chunk| *chunk >= CHUNK_TOKENS_MIN))
    }

    /// Returns the earlier record as far as it fits beside what is new.
    fn earlier(&self, sections: &CondensedSummary) -> CondensedSummary {
        let mut record = sections.clone();
        while record::size(&record) > self.summary_tokens() && record::give_up_one(&mut record) {}
        record
    }

    fn input(&self, earlier: Option<&CondensedSummary>, conversation: String, place: Place) -> Input {
        let focus = self.source.focus.map(|focus| truncate_graphemes(focus.trim(), FOCUS_GRAPHEMES));
        let written = earlier.map(|record| serde_json::to_string_pretty(record).unwrap_or_default());
        Input {
            focus: focus.filter(|focus| !focus.is_empty()).map(inert::text),
            earlier_record: written.map(|json| inert::text(&json)),
            conversation,
            more_follows: place == Place::Before,
            last_request: self.source.answered.map(|is| if is { "answered" } else { "pending" }),
            max_summary_tokens: self.summary_tokens() * WRITTEN_PERCENT / 100,
        }
    }
}

fn fault(error: model::Error) -> Fault {
    match error {
        model::Error::Overflow { .. } => Fault::TooLarge(error.to_string()),
        error => Fault::Failed(error.to_string()),
    }
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
pub(super) fn prompt_sha256() -> String {
    protocol::sha256_hex(format!("{INSTRUCTIONS}\n{INPUT}"))
}

#[cfg(test)]
mod tests;
