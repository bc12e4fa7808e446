//! Decides which turns leave a context over its budget, and divides turns among summaries. Pure functions,
//! without I/O.

use std::collections::BTreeMap;

use journal::view::context::ContextStart;
use model::tokens;
use protocol::{ContentBlock, Message, Seq};
use runtime::ModelContext;

use super::SeqInterval;

/// Turns of one summary: more of them are told too little of each.
const TURNS_PER_SUMMARY: usize = 100;
/// Seconds without a word after which another summary begins: what was said then is another matter.
const PAUSE_SECONDS: i64 = 6 * 60 * 60;
/// Turns below which a pause begins none.
const TURNS_BEFORE_PAUSE: usize = 10;

/// The state of a thread's newest turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewestTurnState {
    /// It is answered.
    Complete,
    /// Something of it is still to come, or is asked.
    Open,
}

/// How much a conversation may be, as a model counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextLimit<'a> {
    /// `provider/name`.
    model: &'a str,
    /// Tokens beyond which turns leave.
    trigger_tokens: u64,
    /// Tokens of which no more are left then.
    target_tokens: u64,
}

impl<'a> ContextLimit<'a> {
    /// Returns the limit of a budget: half of it is left, so that turns do not leave again after each one.
    pub(super) const fn from_budget(model: &'a str, budget: u64) -> Self {
        Self { model, trigger_tokens: budget, target_tokens: budget / 2 }
    }

    /// Returns the limit while turns leave: they do so until no more is left than is to be.
    pub(super) const fn in_progress(self) -> Self {
        Self { trigger_tokens: self.target_tokens, ..self }
    }
}

/// The oldest turns of a context, with everything between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DepartingRange {
    pub first_seq: Seq,
    pub last_seq: Seq,
    /// True when everything before them, except for compaction summaries, leaves too.
    pub is_oldest: bool,
}

impl DepartingRange {
    /// Returns the events between which it is.
    pub(super) const fn interval(&self) -> SeqInterval {
        SeqInterval { after: self.first_seq.saturating_sub(1), before: self.last_seq + 1 }
    }
}

/// Returns what leaves the context so that it is within the limit; `None` when it is, or nothing can leave. Turns leave
/// whole, from a person's message up to the next, and what a harness said in the person's name begins none; the newest
/// complete one stays, and so does one that is not complete. So does everything before the event `from`.
pub(super) fn find_departing_range(
    context: &ModelContext,
    limit: ContextLimit<'_>,
    newest: NewestTurnState,
    from: Seq,
) -> Option<DepartingRange> {
    let total = context.request_tokens(limit.model, 0);
    if total <= limit.trigger_tokens {
        return None;
    }
    let (messages, seqs) = (&context.messages[context.summary_len..], &context.seqs[context.summary_len..]);
    let is_begin = |at: &usize| {
        matches!(messages[*at], Message::Human(_)) && !context.injected_seqs.contains(&seqs[*at])
    };
    let begins: Vec<usize> = (0..messages.len()).filter(is_begin).collect();
    let staying = match newest {
        NewestTurnState::Complete => begins.len().checked_sub(1)?,
        NewestTurnState::Open => begins.len().checked_sub(2)?,
    };
    let first = match from {
        0 if can_leading_messages_depart(context) => 0,
        _ => *begins.iter().find(|at| seqs[**at] >= from)?,
    };
    let is_bounded = matches!(context.beginning.start, Some(ContextStart::ImportedBoundary { .. }));
    let times = context.calibration_factor(limit.model);
    let mut left = 0;
    let mut counted = first;
    let mut end = None;
    for at in begins[..=staying].iter().copied().filter(|at| *at > first) {
        // The summary at a boundary stays where it is.
        let counts = messages[counted..at]
            .iter()
            .enumerate()
            .filter(|(offset, _)| !is_bounded || counted + offset > 0);
        left += counts.map(|(_, message)| message_tokens(context, message)).sum::<u64>();
        counted = at;
        end = Some(at);
        // Truncation of a non-negative number is meant.
        if total.saturating_sub((left as f64 * times) as u64) <= limit.target_tokens {
            break;
        }
    }
    let end = end?;
    Some(DepartingRange {
        first_seq: seqs[first],
        last_seq: seqs[end] - 1,
        is_oldest: first == 0 && !is_bounded,
    })
}

/// Returns whether what comes before the first message of a person may leave. It goes on with the request that a
/// compaction kept; while that is not answered, it tells how far the work is.
fn can_leading_messages_depart(context: &ModelContext) -> bool {
    let kept = context.beginning.compaction().filter(|_| context.beginning.request_seq().is_some());
    kept.is_none_or(|(_, compaction)| compaction.carry_over.last_request_answered == Some(true))
}

/// Returns about how many tokens a message is, with the media that are sent with it.
fn message_tokens(context: &ModelContext, message: &Message) -> u64 {
    let media = message.content().iter().filter_map(|block| match block {
        ContentBlock::Media { sha256, .. } => context.media.get_key_value(sha256.as_ref()?),
        ContentBlock::Text { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::Opaque { .. } => None,
    });
    let media: BTreeMap<_, _> = media.map(|(sha256, bytes)| (sha256.clone(), bytes.clone())).collect();
    tokens::message_tokens(message) + tokens::media_tokens(&media)
}

/// A turn that is logged, without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnPosition {
    pub turn_index: u64,
    pub seq: Seq,
    pub is_user: bool,
    /// When, in seconds.
    pub second: i64,
}

/// Divides the turns of a thread, in order, among summaries: about equally, and where a long pause was; each but the first
/// begins with what a person said.
pub(super) fn divide_into_summaries(turns: &[TurnPosition]) -> Vec<&[TurnPosition]> {
    let summaries = turns.len().div_ceil(TURNS_PER_SUMMARY).max(1);
    let wanted = turns.len().div_ceil(summaries);
    let mut parts = Vec::new();
    let mut begin = 0;
    for at in 1..turns.len() {
        let count = at - begin;
        let has_paused = turns[at].second - turns[at - 1].second >= PAUSE_SECONDS;
        let is_due = count >= wanted || (has_paused && count >= TURNS_BEFORE_PAUSE);
        if is_due && turns[at].is_user {
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
