//! The cut: the position in a context that separates the messages to compact from those that stay verbatim.
//!
//! The cut depends on the roles and sizes of messages, never on their text. All functions are pure.

use facts::{TranscriptItem, TranscriptItemKind};
use model::transcript::pair_results;
use protocol::{ContentBlock, Message, Seq};

use crate::trigger::{KEEP_MESSAGES, KeepPolicy, window_share};

/// The divisor of the kept size that decides whether the cut is moved to the beginning of a turn: at least half of it
/// has to remain. If less remained, the model would lose sight of the work that the next request is about.
const WHOLE_TURNS_DIVISOR: u64 = 2;

/// A message of a context, after the context's opening (summary and repeated request).
#[derive(Debug, Clone)]
pub(crate) struct ContextMessage {
    /// The message with its event's seq and origin.
    pub item: TranscriptItem,
    /// The size of the message in tokens, as the model counts them.
    pub tokens: u64,
}

/// A position at which a context is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompactionCut {
    /// The seq of the last event that is compacted.
    pub last_seq: Seq,
    /// The number of messages that are compacted. An earlier summary does not count.
    pub replaced_count: u64,
    /// The number of messages that are kept.
    pub kept_count: u64,
    /// The seq of the user's last request, if it is in the compacted range. It is repeated verbatim after the
    /// summary.
    pub last_request_seq: Option<Seq>,
    /// True if that request was answered; `None` when no request is repeated.
    pub request_answered: Option<bool>,
}

/// Returns the cut that keeps about `keep` of the context; `None` when there is nothing to compact.
///
/// The kept part begins with a turn if that leaves at least half of the permitted size, otherwise within a turn. Tool
/// calls and their results are never separated, the kept part never begins with a result, and it always has at least
/// the newest message with its calls and results.
///
/// `carried_request` is the request that an earlier compaction repeats. It stays the last request until the user
/// makes another one.
pub(crate) fn find_cut(
    messages: &[ContextMessage],
    carried_request: Option<Seq>,
    keep: KeepPolicy,
    window: Option<u64>,
) -> Option<CompactionCut> {
    let kept = KeptAmounts::measure(messages, keep, window);
    if kept.is_within_limit(0) {
        return None;
    }
    let candidates = cut_candidates(messages);
    let newest = *candidates.last()?;
    let first = candidates.iter().copied().find(|index| kept.is_within_limit(*index)).unwrap_or(newest);
    let turns = turn_starts(messages);
    let enough = kept.amounts[first] / WHOLE_TURNS_DIVISOR;
    let whole_turn =
        candidates.iter().copied().find(|index| *index >= first && turns.binary_search(index).is_ok());
    let cut = whole_turn.filter(|index| kept.amounts[*index] >= enough).unwrap_or(first);
    let request = messages.iter().rposition(|message| is_user_request(&message.item));
    if cut == 1 && request == Some(0) {
        // Only the request would be compacted, and it is repeated verbatim, so the context would not become smaller.
        return None;
    }
    let compacted_request = match request {
        Some(request) if request < cut => Some(messages[request].item.seq),
        Some(_) => None,
        None => carried_request,
    };
    let after_request = request.map_or(0, |request| request + 1);
    Some(CompactionCut {
        last_seq: messages[cut - 1].item.seq,
        replaced_count: count_messages(&messages[..cut]),
        kept_count: count_messages(&messages[cut..]),
        last_request_seq: compacted_request,
        request_answered: compacted_request.map(|_| is_answered(&messages[after_request..])),
    })
}

/// Returns whether the item is a request of the user. Messages that a program injected in the user's name, and
/// those of sub-agents, are recognized by their origin and do not count.
pub(crate) fn is_user_request(item: &TranscriptItem) -> bool {
    match &item.kind {
        TranscriptItemKind::Message(Message::Human(human)) if !item.is_subagent && !item.is_injected => {
            human.content.iter().any(|block| match block {
                ContentBlock::Text { text } => !text.trim().is_empty(),
                ContentBlock::Media { .. } => true,
                ContentBlock::Thinking { .. }
                | ContentBlock::ToolCall { .. }
                | ContentBlock::Opaque { .. } => false,
            })
        }
        TranscriptItemKind::Message(_)
        | TranscriptItemKind::Note
        | TranscriptItemKind::Boundary
        | TranscriptItemKind::ImportedSummary(_)
        | TranscriptItemKind::InheritedSummary { .. }
        | TranscriptItemKind::Unreadable
        | TranscriptItemKind::Other => false,
    }
}

/// The amount that each possible cut keeps, in the unit of the keep policy (tokens or messages).
struct KeptAmounts {
    /// For each index, the amount of the messages from that index on. It has one entry more than there are messages.
    amounts: Vec<u64>,
    /// The maximum amount to keep.
    amount_max: u64,
}

impl KeptAmounts {
    /// Computes the amounts. The cost is linear in the number of messages.
    fn measure(messages: &[ContextMessage], keep: KeepPolicy, window: Option<u64>) -> Self {
        let (amount_max, amount): (u64, fn(&ContextMessage) -> u64) = match (keep, window) {
            (KeepPolicy::Tokens(limit), _) => (limit, |message| message.tokens),
            (KeepPolicy::Fraction(share), Some(window)) => {
                (window_share(window, share), |message| message.tokens)
            }
            (KeepPolicy::Messages(messages), _) => (messages, |message| message_count(message)),
            (KeepPolicy::Fraction(_), None) => (KEEP_MESSAGES, |message| message_count(message)),
        };
        let mut amounts = vec![0; messages.len() + 1];
        for index in (0..messages.len()).rev() {
            amounts[index] = amounts[index + 1] + amount(&messages[index]);
        }
        Self { amounts, amount_max }
    }

    /// Returns whether a cut before the message at `index` keeps no more than the maximum.
    fn is_within_limit(&self, index: usize) -> bool {
        self.amounts[index] <= self.amount_max
    }
}

/// Returns the indexes at which the kept part may begin, in ascending order. The last one keeps only the newest
/// message, with its calls and results.
fn cut_candidates(messages: &[ContextMessage]) -> Vec<usize> {
    let inside_pair = positions_inside_call_pairs(messages);
    let candidates: Vec<usize> = (1..messages.len())
        .filter(|index| {
            !inside_pair[*index]
                && !matches!(messages[*index].item.kind, TranscriptItemKind::Message(Message::Tool(_)))
        })
        .collect();
    if !candidates.is_empty() {
        return candidates;
    }
    // Every message is a result whose call is missing, so no pair can be separated.
    (1..messages.len()).filter(|index| !inside_pair[*index]).collect()
}

/// Returns, for each index, whether a cut there would separate a tool call before it from a result at or after it.
fn positions_inside_call_pairs(units: &[ContextMessage]) -> Vec<bool> {
    let messages: Vec<(usize, &Message)> = units
        .iter()
        .enumerate()
        .filter_map(|(index, message)| match &message.item.kind {
            TranscriptItemKind::Message(message) => Some((index, message)),
            TranscriptItemKind::Note
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::ImportedSummary(_)
            | TranscriptItemKind::InheritedSummary { .. }
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other => None,
        })
        .collect();
    let results = pair_results(messages.iter().map(|(_, message)| *message));
    let calls = messages.iter().filter(|(_, message)| matches!(message, Message::Ai(_)));
    let calls = calls.flat_map(|(index, message)| message.tool_calls().map(move |_| *index));
    let mut last_result = vec![0; units.len()];
    for (call, result) in calls.zip(results) {
        if let Some(result) = result {
            last_result[call] = last_result[call].max(messages[result].0);
        }
    }
    let mut inside_pair = vec![false; units.len() + 1];
    let mut pair_end = 0;
    for index in 0..units.len() {
        inside_pair[index] = index > 0 && index <= pair_end;
        pair_end = pair_end.max(last_result[index]);
    }
    inside_pair
}

/// Returns the indexes at which a turn begins: at the user's request, or at the injected messages right before it.
fn turn_starts(messages: &[ContextMessage]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut candidate = 0;
    for (index, message) in messages.iter().enumerate() {
        if is_user_request(&message.item) {
            starts.push(candidate);
        }
        if !message.item.is_injected {
            candidate = index + 1;
        }
    }
    starts.dedup();
    starts
}

/// Returns whether a request is answered, given the messages after it: the last message is a complete answer of the
/// assistant with text and without tool calls.
fn is_answered(after: &[ContextMessage]) -> bool {
    let conversation = after.iter().rev().filter(|message| !message.item.is_injected);
    let last = conversation
        .map(|message| &message.item.kind)
        .find(|kind| matches!(kind, TranscriptItemKind::Message(_)));
    match last {
        Some(TranscriptItemKind::Message(message @ Message::Ai(ai))) => {
            !ai.incomplete && message.tool_calls().next().is_none() && !message.text().trim().is_empty()
        }
        Some(
            TranscriptItemKind::Message(_)
            | TranscriptItemKind::Note
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::ImportedSummary(_)
            | TranscriptItemKind::InheritedSummary { .. }
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other,
        )
        | None => false,
    }
}

/// Returns the number of entries that are messages. An imported summary, for example, is not one.
fn count_messages(messages: &[ContextMessage]) -> u64 {
    messages.iter().map(message_count).sum()
}

/// Returns 1 for a message and 0 for any other entry.
fn message_count(message: &ContextMessage) -> u64 {
    u64::from(matches!(message.item.kind, TranscriptItemKind::Message(_)))
}

#[cfg(test)]
mod tests;
