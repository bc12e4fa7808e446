//! What leaves a context that is over its budget, and how turns are divided among summaries: plain functions over what was
//! read. Nothing is read or written here.

use std::collections::BTreeMap;

use journal::view::context::Start;
use model::tokens;
use protocol::{Block, Message, Seq};
use runtime::Context;

use super::Between;

/// Turns of one summary: more of them are told too little of each.
const TURNS_PER_SUMMARY: usize = 100;
/// Seconds without a word after which another summary begins: what was said then is another matter.
const PAUSE_SECONDS: i64 = 6 * 60 * 60;
/// Turns below which a pause begins none.
const TURNS_BEFORE_PAUSE: usize = 10;

/// Whether the newest turn of a thread has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newest {
    /// It is answered.
    Complete,
    /// Something of it is still to come, or is asked.
    Open,
}

/// How much a conversation may be, as a model counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit<'a> {
    /// `provider/name`.
    model: &'a str,
    /// Tokens beyond which turns leave.
    above: u64,
    /// Tokens of which no more are left then.
    down_to: u64,
}

impl<'a> Limit<'a> {
    /// Returns the limit of a budget: half of it is left, so that turns do not leave again after each one.
    pub(super) const fn of(model: &'a str, budget: u64) -> Self {
        Self { model, above: budget, down_to: budget / 2 }
    }

    /// Returns the limit while turns leave: they do so until no more is left than is to be.
    pub(super) const fn underway(self) -> Self {
        Self { above: self.down_to, ..self }
    }
}

/// The oldest turns of a context, with everything between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    pub first_seq: Seq,
    pub last_seq: Seq,
    /// Whether nothing that comes before them stays, but for what stands for condensed messages.
    pub is_oldest: bool,
}

impl Leaving {
    /// Returns the events between which it is.
    pub(super) const fn between(&self) -> Between {
        Between { after: self.first_seq.saturating_sub(1), before: self.last_seq + 1 }
    }
}

/// Returns what leaves the context so that it is within the limit; `None` when it is, or nothing can leave. Turns leave
/// whole, from a person's message up to the next, and what a harness said in the person's name begins none; the newest
/// complete one stays, and so does one that is not complete. So does everything before the event `from`.
pub(super) fn leaving(context: &Context, limit: Limit<'_>, newest: Newest, from: Seq) -> Option<Leaving> {
    let total = context.request_tokens(limit.model, 0);
    if total <= limit.above {
        return None;
    }
    let (messages, seqs) = (&context.messages[context.opening..], &context.seqs[context.opening..]);
    let is_begin =
        |at: &usize| matches!(messages[*at], Message::Human(_)) && !context.injected.contains(&seqs[*at]);
    let begins: Vec<usize> = (0..messages.len()).filter(is_begin).collect();
    let staying = match newest {
        Newest::Complete => begins.len().checked_sub(1)?,
        Newest::Open => begins.len().checked_sub(2)?,
    };
    let first = match from {
        0 if may_leave_what_comes_first(context) => 0,
        _ => *begins.iter().find(|at| seqs[**at] >= from)?,
    };
    let is_bounded = matches!(context.beginning.start, Some(Start::Boundary { .. }));
    let times = context.times(limit.model);
    let mut left = 0;
    let mut counted = first;
    let mut end = None;
    for at in begins[..=staying].iter().copied().filter(|at| *at > first) {
        // The summary at a boundary stays where it is.
        let counts = messages[counted..at]
            .iter()
            .enumerate()
            .filter(|(offset, _)| !is_bounded || counted + offset > 0);
        left += counts.map(|(_, message)| cost(context, message)).sum::<u64>();
        counted = at;
        end = Some(at);
        // Truncation of a non-negative number is meant.
        if total.saturating_sub((left as f64 * times) as u64) <= limit.down_to {
            break;
        }
    }
    let end = end?;
    Some(Leaving { first_seq: seqs[first], last_seq: seqs[end] - 1, is_oldest: first == 0 && !is_bounded })
}

/// Returns whether what comes before the first message of a person may leave. It goes on with the request that a
/// compaction kept; while that is not answered, it tells how far the work is.
fn may_leave_what_comes_first(context: &Context) -> bool {
    let kept = context.beginning.compaction().filter(|_| context.beginning.request_seq().is_some());
    kept.is_none_or(|(_, compaction)| compaction.carry_over.last_request_answered == Some(true))
}

/// Returns about how many tokens a message is, with the media that are sent with it.
fn cost(context: &Context, message: &Message) -> u64 {
    let media = message.content().iter().filter_map(|block| match block {
        Block::Media { sha256, .. } => context.media.get_key_value(sha256.as_ref()?),
        Block::Text { .. } | Block::ToolCall { .. } | Block::Thinking { .. } | Block::Opaque { .. } => None,
    });
    let media: BTreeMap<_, _> = media.map(|(sha256, bytes)| (sha256.clone(), bytes.clone())).collect();
    tokens::of_message(message) + tokens::of_media(&media)
}

/// A turn that is logged, without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Logged {
    pub turn_index: u64,
    pub seq: Seq,
    pub is_persons: bool,
    /// When, in seconds.
    pub second: i64,
}

/// Divides the turns of a thread, in order, among summaries: about equally, and where a long pause was; each but the first
/// begins with what a person said.
pub(super) fn parts(turns: &[Logged]) -> Vec<&[Logged]> {
    let summaries = turns.len().div_ceil(TURNS_PER_SUMMARY).max(1);
    let wanted = turns.len().div_ceil(summaries);
    let mut parts = Vec::new();
    let mut begin = 0;
    for at in 1..turns.len() {
        let count = at - begin;
        let has_paused = turns[at].second - turns[at - 1].second >= PAUSE_SECONDS;
        let is_due = count >= wanted || (has_paused && count >= TURNS_BEFORE_PAUSE);
        if is_due && turns[at].is_persons {
            parts.push(&turns[begin..at]);
            begin = at;
        }
    }
    if begin < turns.len() {
        parts.push(&turns[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests;
