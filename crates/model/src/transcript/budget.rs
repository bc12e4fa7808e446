//! Fitting a conversation into a model's window, by shortening old and large tool results and arguments in the
//! request. Messages of people and texts of the model are not changed, no message is removed, and nothing is
//! stored. Summarizing is done elsewhere.

use std::sync::Arc;

use protocol::{ContentBlock, Message};
use serde_json::Value;

use crate::chat::{ChatRequest, ModelLimits};
use crate::tokens::{self, CHARS_PER_TOKEN};

/// The number of newest messages that are protected. They are shortened only when shortening all older ones is
/// not enough.
pub const PROTECTED_MESSAGES: usize = 10;

/// The tokens reserved for the answer if neither the request nor the model has a limit for it.
const ANSWER_TOKENS: u64 = 8_192;

/// The most tokens reserved for the answer if the request has no limit for it. Nearly all answers are shorter.
const ANSWER_TOKENS_MAX: u64 = 16_000;

/// The length in plain characters above which the text of an old result is shortened; see [`tokens::weight`].
const RESULT_CHARS_MAX: u64 = 2_000;

/// The plain characters that are kept of a shortened old result.
const RESULT_CHARS_KEPT: u64 = 800;

/// The length in plain characters above which a text in the arguments of an old call is shortened.
const ARGUMENT_CHARS_MAX: u64 = 600;

/// The plain characters that are kept of a shortened text in arguments.
const ARGUMENT_CHARS_KEPT: u64 = 200;

/// The fewest plain characters that are kept of a result among the newest messages.
const CLIPPED_CHARS_MIN: u64 = 4_000;

/// The number of steps that the budget is divided into. The excess is rounded up to whole steps, so more is
/// shortened than necessary. The next requests then begin with the same bytes, and provider caches keep hitting.
const STEPS_PER_BUDGET: u64 = 16;

/// The size limit of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBudget {
    /// The most tokens of the request.
    pub tokens_max: u64,
    /// The tokens of everything except messages: instructions, tools and media.
    pub fixed_tokens: u64,
}

impl TokenBudget {
    /// Returns the budget for a request to a model with these limits, or `None` if the model's window is unknown.
    /// Reserves tokens for the answer, at most a quarter of the window.
    pub fn for_request(limits: ModelLimits, request: &ChatRequest) -> Option<Self> {
        let window = limits.context_tokens?;
        let usual = limits.output_tokens.unwrap_or(ANSWER_TOKENS).min(ANSWER_TOKENS_MAX);
        let answer = request.max_output_tokens.unwrap_or(usual).min(window / 4);
        Some(Self {
            tokens_max: window - answer,
            fixed_tokens: tokens::overhead_tokens(request) + tokens::media_tokens(&request.media),
        })
    }

    /// Returns the budget in estimated tokens, for a model that counts `factor` tokens for each estimated one.
    #[must_use]
    pub fn in_estimated_tokens(self, factor: f64) -> Self {
        // The conversion truncates a non-negative number, as intended.
        Self { tokens_max: (self.tokens_max as f64 / factor) as u64, ..self }
    }
}

/// A conversation that fits the budget.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedConversation {
    /// The messages. They are shared with the input if nothing was shortened.
    pub messages: Arc<Vec<Message>>,
    /// The number of messages that were shortened.
    pub shortened_messages: usize,
    /// The estimated tokens of the request.
    pub tokens: u64,
}

/// The error of a conversation that does not fit even when everything possible is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fit the conversation into {tokens_max} tokens: {irreducible_tokens} cannot be shortened")]
pub struct ConversationTooLarge {
    /// The tokens of the request when everything possible is shortened.
    pub irreducible_tokens: u64,
    /// The most tokens of the request.
    pub tokens_max: u64,
}

/// Returns the conversation in a form that fits the budget, by the estimate of [`tokens::message_tokens`].
///
/// `estimated_tokens` is the sum of that estimate over `messages`. Callers keep this sum up to date, so a
/// conversation that fits costs nothing here. Calls keep their results. Tool results and arguments are shortened,
/// oldest first, with a note that the full text is in the thread. Of the newest [`PROTECTED_MESSAGES`], only the
/// results are clipped, and only if everything else was not enough. The result depends on the arguments only.
///
/// # Errors
/// [`ConversationTooLarge`] when the shortened conversation still does not fit.
pub fn fit_conversation(
    messages: &Arc<Vec<Message>>,
    estimated_tokens: u64,
    budget: TokenBudget,
) -> Result<FittedConversation, ConversationTooLarge> {
    let tokens = estimated_tokens + budget.fixed_tokens;
    if tokens <= budget.tokens_max {
        return Ok(FittedConversation { messages: messages.clone(), shortened_messages: 0, tokens });
    }
    let mut shortener = ConversationShortener { messages: messages.to_vec(), shortened: 0, tokens };
    let step = (budget.tokens_max / STEPS_PER_BUDGET).max(1);
    let excess = (tokens - budget.tokens_max).div_ceil(step) * step;
    let old = messages.len().saturating_sub(PROTECTED_MESSAGES);
    shortener.shorten_until(tokens.saturating_sub(excess), old);
    if shortener.tokens > budget.tokens_max {
        shortener.clip_until(budget.tokens_max, old);
    }
    let ConversationShortener { messages, shortened, tokens } = shortener;
    if tokens > budget.tokens_max {
        return Err(ConversationTooLarge { irreducible_tokens: tokens, tokens_max: budget.tokens_max });
    }
    Ok(FittedConversation { messages: Arc::new(messages), shortened_messages: shortened, tokens })
}

/// A conversation that is being shortened.
struct ConversationShortener {
    /// The messages, some of them shortened.
    messages: Vec<Message>,
    /// The number of messages that were shortened.
    shortened: usize,
    /// The estimated tokens of the request.
    tokens: u64,
}

impl ConversationShortener {
    /// Shortens the first `old` messages, oldest first, until the request has at most `tokens_max` tokens.
    fn shorten_until(&mut self, tokens_max: u64, old: usize) {
        for index in 0..old {
            if self.tokens <= tokens_max {
                return;
            }
            self.edit_blocks(index, |block| match block {
                ContentBlock::Text { text } => shorten_text(text, RESULT_CHARS_MAX, RESULT_CHARS_KEPT),
                ContentBlock::ToolCall { args, .. } => shorten_args(args),
                ContentBlock::Thinking { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => {}
            });
        }
    }

    /// Clips the results after the first `old` messages to one length: the greatest at which the request fits.
    /// Finds it by binary search.
    fn clip_until(&mut self, tokens_max: u64, old: usize) {
        let lengths: Vec<u64> = self.messages[old..]
            .iter()
            .filter(|message| matches!(message, Message::Tool(_)))
            .flat_map(Message::content)
            .filter_map(|block| {
                if let ContentBlock::Text { text } = block { Some(tokens::weight(text)) } else { None }
            })
            .collect();
        // The estimate of each result may round up by one token.
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
        // The note about the omission takes room, too.
        let kept = fits.saturating_sub(OMISSION_NOTE_CHARS).max(CLIPPED_CHARS_MIN);
        for index in old..self.messages.len() {
            self.edit_blocks(index, |block| {
                if let ContentBlock::Text { text } = block {
                    shorten_text(text, kept, kept);
                }
            });
        }
    }

    /// Changes the blocks of a result, or the calls of a model's message. Texts of people and of the model are
    /// not changed.
    fn edit_blocks(&mut self, index: usize, mut edit: impl FnMut(&mut ContentBlock)) {
        let message = &mut self.messages[index];
        let before = tokens::message_tokens(message);
        match message {
            Message::Human(_) => return,
            Message::Ai(ai) => ai
                .content
                .iter_mut()
                .filter(|block| matches!(block, ContentBlock::ToolCall { .. }))
                .for_each(&mut edit),
            Message::Tool(tool) => tool.content.iter_mut().for_each(&mut edit),
        }
        let after = tokens::message_tokens(message);
        if after != before {
            self.shortened += 1;
            self.tokens = (self.tokens + after).saturating_sub(before);
        }
    }
}

/// The most plain characters of [`omission_note`].
const OMISSION_NOTE_CHARS: u64 = 120;

/// Returns the note in place of the omitted characters.
fn omission_note(chars: usize) -> String {
    format!("\n[… {chars} characters are left out here to fit the request; the whole is in the thread …]\n")
}

/// Cuts the middle out of a text of more than `chars_max` plain characters, so that about `kept` remain. Three
/// quarters of them are from the beginning of the text. A text is not cut if the note would be longer than the
/// omission.
fn shorten_text(text: &mut String, chars_max: u64, kept: u64) {
    if tokens::head_end(text, chars_max) == text.len() {
        return;
    }
    let head = tokens::floor_grapheme_boundary(text, tokens::head_end(text, kept - kept / 4));
    let tail = tokens::floor_grapheme_boundary(text, tokens::tail_start(text, kept / 4));
    let omitted = text.get(head..tail).unwrap_or_default();
    if tokens::weight(omitted) > OMISSION_NOTE_CHARS {
        let note = omission_note(omitted.chars().count());
        text.replace_range(head..tail, &note);
    }
}

/// Shortens all texts in the arguments of a call.
fn shorten_args(args: &mut Value) {
    match args {
        Value::String(text) => shorten_text(text, ARGUMENT_CHARS_MAX, ARGUMENT_CHARS_KEPT),
        Value::Array(items) => items.iter_mut().for_each(shorten_args),
        Value::Object(fields) => fields.values_mut().for_each(shorten_args),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
