//! Decides which messages leave a context over its budget, and divides logged messages among summaries. Pure functions,
//! without I/O.
//!
//! A *turn* here is a user message and everything up to the next one. Only whole turns leave a context.

use std::collections::BTreeMap;

use journal::view::context::ContextStart;
use model::tokens;
use protocol::{ContentBlock, Message, Seq};
use runtime::ModelContext;

use super::SeqInterval;

/// Maximum number of logged messages of one summary. A summary of more would say too little about each.
const TURNS_PER_SUMMARY: usize = 100;
/// Length in seconds of a pause after which a new summary begins, 6 hours. The conversation then probably has another
/// subject.
const PAUSE_SECONDS: i64 = 6 * 60 * 60;
/// Minimum number of messages of a summary that ends at a pause.
const TURNS_BEFORE_PAUSE: usize = 10;

/// The state of a thread's newest turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewestTurnState {
    /// The turn has its final answer.
    Complete,
    /// The turn is still at work, was interrupted, or has a pending question.
    Open,
}

/// The token limits of a conversation, as the model's provider counts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextLimit<'a> {
    /// `provider/name`. Its calibration corrects the token estimates.
    model: &'a str,
    /// Number of tokens above which turns leave.
    trigger_tokens: u64,
    /// Number of tokens at or below which no further turns leave.
    target_tokens: u64,
}

impl<'a> ContextLimit<'a> {
    /// Returns the limits for a budget. The target is half of the budget, so that turns do not leave again after each
    /// new turn.
    pub(super) const fn from_budget(model: &'a str, budget: u64) -> Self {
        Self { model, trigger_tokens: budget, target_tokens: budget / 2 }
    }

    /// Returns the limits after some turns have left: further turns leave until the target is reached, although the
    /// context is already below the trigger.
    pub(super) const fn in_progress(self) -> Self {
        Self { trigger_tokens: self.target_tokens, ..self }
    }
}

/// The events that leave a context: its oldest turns, with everything between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DepartingRange {
    pub first_seq: Seq,
    pub last_seq: Seq,
    /// True when the range begins with the oldest message of the context, apart from a compaction's summary. The
    /// context then begins after the range.
    pub is_oldest: bool,
}

impl DepartingRange {
    /// Returns the range as an open interval.
    pub(super) const fn interval(&self) -> SeqInterval {
        SeqInterval { after: self.first_seq.saturating_sub(1), before: self.last_seq + 1 }
    }
}

/// Returns the events that must leave the context so that it is within the limit. Returns `None` when it is within
/// the limit or no turn can leave.
///
/// Turns leave whole, from a user message up to the next. A message that a harness injected in the user's role does not
/// begin a turn. The newest complete turn stays, and so does an open turn and everything before the event `from`. Token
/// estimates are multiplied by the calibration factor of the model.
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
    let is_turn_start = |index: &usize| {
        matches!(messages[*index], Message::Human(_)) && !context.injected_seqs.contains(&seqs[*index])
    };
    let turn_starts: Vec<usize> = (0..messages.len()).filter(is_turn_start).collect();
    // The index in `turn_starts` of the first turn that must stay.
    let staying = match newest {
        NewestTurnState::Complete => turn_starts.len().checked_sub(1)?,
        NewestTurnState::Open => turn_starts.len().checked_sub(2)?,
    };
    let first = match from {
        0 if can_leading_messages_depart(context) => 0,
        _ => *turn_starts.iter().find(|index| seqs[**index] >= from)?,
    };
    let is_bounded = matches!(context.beginning.start, Some(ContextStart::ImportedBoundary { .. }));
    let calibration = context.calibration_factor(limit.model);
    let mut departing_tokens = 0;
    let mut counted = first;
    let mut end = None;
    for start in turn_starts[..=staying].iter().copied().filter(|index| *index > first) {
        // The first message after an imported boundary is that boundary's summary. It stays, so it does not count.
        let departing = messages[counted..start]
            .iter()
            .enumerate()
            .filter(|(offset, _)| !is_bounded || counted + offset > 0);
        departing_tokens += departing.map(|(_, message)| message_tokens(context, message)).sum::<u64>();
        counted = start;
        end = Some(start);
        // The number is not negative; truncating its fraction is intended.
        if total.saturating_sub((departing_tokens as f64 * calibration) as u64) <= limit.target_tokens {
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

/// Returns whether the messages before the first user message may leave.
///
/// After a compaction that kept a request, these messages are the work on that request. They stay until it is
/// answered (L7), because they show the progress of the work.
fn can_leading_messages_depart(context: &ModelContext) -> bool {
    let with_request = context.beginning.compaction().filter(|_| context.beginning.request_seq().is_some());
    with_request.is_none_or(|(_, compaction)| compaction.carried.last_request_answered == Some(true))
}

/// Returns the estimated tokens of a message and its media, before calibration.
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

/// The position of a logged message, without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnPosition {
    pub turn_index: u64,
    pub seq: Seq,
    /// True for a message of the user.
    pub is_user: bool,
    /// Time of the message as a Unix time in seconds.
    pub second: i64,
}

/// Divides the logged messages of a thread, in order, among summaries of about equal size. A summary also ends at a
/// long pause.
///
/// Each part except the first begins with a user message. So a part can have more than [`TURNS_PER_SUMMARY`] messages
/// if the user wrote none after that many.
pub(super) fn divide_into_summaries(turns: &[TurnPosition]) -> Vec<&[TurnPosition]> {
    let summaries = turns.len().div_ceil(TURNS_PER_SUMMARY).max(1);
    let part_size = turns.len().div_ceil(summaries);
    let mut parts = Vec::new();
    let mut start = 0;
    for index in 1..turns.len() {
        let count = index - start;
        let has_paused = turns[index].second - turns[index - 1].second >= PAUSE_SECONDS;
        let is_due = count >= part_size || (has_paused && count >= TURNS_BEFORE_PAUSE);
        if is_due && turns[index].is_user {
            parts.push(&turns[start..index]);
            start = index;
        }
    }
    if start < turns.len() {
        parts.push(&turns[start..]);
    }
    parts
}

#[cfg(test)]
mod tests;
