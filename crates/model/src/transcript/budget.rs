//! Fits a conversation into a model's window by shortening old, large tool results and arguments in the request alone.
//! It removes no message, touches nobody's words, and stores nothing; summarising is done elsewhere.

use std::sync::Arc;

use protocol::{Block, Message};
use serde_json::Value;

use crate::chat::{ChatRequest, Limits};
use crate::tokens::{self, CHARS_PER_TOKEN};

/// The newest messages, which are shortened only when everything older has been and it was not enough.
pub const KEPT_MESSAGES: usize = 10;

/// Tokens kept for the answer when neither the request nor the model says how long it is.
const ANSWER_TOKENS: u64 = 8_192;

/// Tokens kept for the answer at most where the request does not say; nearly all answers are shorter.
const ANSWER_TOKENS_MAX: u64 = 16_000;

/// Plain characters of an old result's text from which on it is shortened; see [`tokens::weight`].
const RESULT_CHARS_MAX: u64 = 2_000;

/// Plain characters that are kept of a shortened old result.
const RESULT_CHARS_KEPT: u64 = 800;

/// Plain characters of a text in an old call's arguments from which on it is shortened.
const ARGUMENT_CHARS_MAX: u64 = 600;

/// Plain characters that are kept of a shortened text in arguments.
const ARGUMENT_CHARS_KEPT: u64 = 200;

/// Plain characters that are kept of a result among the newest messages at least.
const CLIPPED_CHARS_MIN: u64 = 4_000;

/// The share of the budget by which more is shortened than must be, so that the next requests begin with the same
/// bytes and caches keep hitting.
const STEPS_PER_BUDGET: u64 = 16;

/// What a request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Tokens of the request at most.
    pub tokens_max: u64,
    /// Tokens of what is no message: instructions, tools, media.
    pub fixed_tokens: u64,
}

impl Budget {
    /// Returns the budget of a request to a model with these limits; `None` when nobody knows its window. The answer
    /// is left what it may need, a quarter of the window at most.
    pub fn of(limits: Limits, request: &ChatRequest) -> Option<Self> {
        let window = limits.context_tokens?;
        let usual = limits.output_tokens.unwrap_or(ANSWER_TOKENS).min(ANSWER_TOKENS_MAX);
        let answer = request.max_output_tokens.unwrap_or(usual).min(window / 4);
        Some(Self {
            tokens_max: window - answer,
            fixed_tokens: tokens::of_frame(request) + tokens::of_media(&request.media),
        })
    }

    /// Returns the same budget in estimated tokens, where the model counts `times` as many.
    #[must_use]
    pub fn counted_as(self, times: f64) -> Self {
        // Truncation of a non-negative number is meant.
        Self { tokens_max: (self.tokens_max as f64 / times) as u64, ..self }
    }
}

/// A conversation that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The messages; the very same ones when nothing had to be shortened.
    pub messages: Arc<Vec<Message>>,
    /// How many messages were shortened.
    pub shortened: usize,
    /// Tokens of the request, by estimate.
    pub tokens: u64,
}

/// The conversation does not fit, whatever is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fit the conversation into {tokens_max} tokens: {irreducible_tokens} cannot be shortened")]
pub struct TooLarge {
    /// Tokens of the request when everything is shortened that may be.
    pub irreducible_tokens: u64,
    /// Tokens it may have.
    pub tokens_max: u64,
}

/// Returns the conversation in a form that fits the budget by the estimate of [`tokens::of_message`].
///
/// `estimated_tokens` is the sum of that estimate over `messages`, which a caller keeps as it goes, so that a
/// conversation far below its window costs nothing. Calls and their results stay pairs. Tool results and arguments are
/// shortened, oldest first, and say that the whole is in the thread; the newest [`KEPT_MESSAGES`] come last and only
/// their results are clipped. The outcome depends on nothing but the arguments.
///
/// # Errors
/// [`TooLarge`] when even that does not fit.
pub fn fit(messages: &Arc<Vec<Message>>, estimated_tokens: u64, budget: Budget) -> Result<Fitted, TooLarge> {
    let tokens = estimated_tokens + budget.fixed_tokens;
    if tokens <= budget.tokens_max {
        return Ok(Fitted { messages: messages.clone(), shortened: 0, tokens });
    }
    let mut shortening = Shortening { messages: messages.to_vec(), shortened: 0, tokens };
    let step = (budget.tokens_max / STEPS_PER_BUDGET).max(1);
    let excess = (tokens - budget.tokens_max).div_ceil(step) * step;
    let old = messages.len().saturating_sub(KEPT_MESSAGES);
    shortening.shorten_until(tokens.saturating_sub(excess), old);
    if shortening.tokens > budget.tokens_max {
        shortening.clip_until(budget.tokens_max, old);
    }
    let Shortening { messages, shortened, tokens } = shortening;
    if tokens > budget.tokens_max {
        return Err(TooLarge { irreducible_tokens: tokens, tokens_max: budget.tokens_max });
    }
    Ok(Fitted { messages: Arc::new(messages), shortened, tokens })
}

struct Shortening {
    messages: Vec<Message>,
    shortened: usize,
    tokens: u64,
}

impl Shortening {
    /// Shortens the first `old` messages, oldest first, until so many tokens are left.
    fn shorten_until(&mut self, tokens_max: u64, old: usize) {
        for index in 0..old {
            if self.tokens <= tokens_max {
                return;
            }
            self.change(index, |block| match block {
                Block::Text { text } => shorten(text, RESULT_CHARS_MAX, RESULT_CHARS_KEPT),
                Block::ToolCall { args, .. } => shorten_args(args),
                Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            });
        }
    }

    /// Clips the results behind the first `old` messages to one length, the greatest at which the whole fits.
    fn clip_until(&mut self, tokens_max: u64, old: usize) {
        let lengths: Vec<u64> = self.messages[old..]
            .iter()
            .filter(|message| matches!(message, Message::Tool(_)))
            .flat_map(Message::content)
            .filter_map(
                |block| if let Block::Text { text } = block { Some(tokens::weight(text)) } else { None },
            )
            .collect();
        // One token more for each, because the estimate rounds up.
        let excess_tokens = self.tokens - tokens_max + lengths.len() as u64;
        let excess = excess_tokens * CHARS_PER_TOKEN;
        let freed = |length: u64| -> u64 { lengths.iter().map(|weight| weight.saturating_sub(length)).sum() };
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let (mut fits, mut too_long) = (CLIPPED_CHARS_MIN, longest);
        while fits + 1 < too_long {
            let middle = u64::midpoint(fits, too_long);
            if freed(middle) >= excess {
                fits = middle;
            } else {
                too_long = middle;
            }
        }
        // What says that something is left out takes room itself.
        let kept = fits.saturating_sub(POINTER_CHARS).max(CLIPPED_CHARS_MIN);
        for index in old..self.messages.len() {
            self.change(index, |block| {
                if let Block::Text { text } = block {
                    shorten(text, kept, kept);
                }
            });
        }
    }

    /// Changes a result's blocks, or a model's calls; nobody's words.
    fn change(&mut self, index: usize, mut change: impl FnMut(&mut Block)) {
        let message = &mut self.messages[index];
        let before = tokens::of_message(message);
        match message {
            Message::Human(_) => return,
            Message::Ai(ai) => ai
                .content
                .iter_mut()
                .filter(|block| matches!(block, Block::ToolCall { .. }))
                .for_each(&mut change),
            Message::Tool(tool) => tool.content.iter_mut().for_each(&mut change),
        }
        let after = tokens::of_message(message);
        if after != before {
            self.shortened += 1;
            self.tokens = (self.tokens + after).saturating_sub(before);
        }
    }
}

/// Characters of [`pointer`] at most.
const POINTER_CHARS: u64 = 120;

/// Returns what stands in place of what is left out.
fn pointer(chars: usize) -> String {
    format!("\n[… {chars} characters are left out here to fit the request; the whole is in the thread …]\n")
}

/// Cuts the middle out of a text of more than `chars_max` plain characters; three quarters of what is kept are its
/// beginning.
fn shorten(text: &mut String, chars_max: u64, kept: u64) {
    if tokens::end_of_head(text, chars_max) == text.len() {
        return;
    }
    let head = tokens::cut_at(text, tokens::end_of_head(text, kept - kept / 4));
    let tail = tokens::cut_at(text, tokens::begin_of_tail(text, kept / 4));
    let left_out = text.get(head..tail).unwrap_or_default();
    if tokens::weight(left_out) > POINTER_CHARS {
        let pointer = pointer(left_out.chars().count());
        text.replace_range(head..tail, &pointer);
    }
}

fn shorten_args(args: &mut Value) {
    match args {
        Value::String(text) => shorten(text, ARGUMENT_CHARS_MAX, ARGUMENT_CHARS_KEPT),
        Value::Array(items) => items.iter_mut().for_each(shorten_args),
        Value::Object(fields) => fields.values_mut().for_each(shorten_args),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
