//! Where a context is cut: what is condensed and what stays as it is. It looks at who said what and how large it is,
//! never at what was said; nothing is condensed here.

use facts::{Item, What};
use model::transcript::pair;
use protocol::{Block, Message, Seq};

use crate::trigger::{KEEP_MESSAGES, Keep, share_of};

/// A turn stays whole when what then stays is at least this part of what may; a smaller rest would lose sight of the
/// work that the next request is about.
const WHOLE_TURNS_PART: u64 = 2;

/// One message of a context, behind its opening.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// The event it comes from.
    pub item: Item,
    pub tokens: u64,
}

/// Where a context is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The last event that is condensed.
    pub last_seq: Seq,
    /// Messages that are condensed; a summary is none.
    pub replaced: u64,
    /// Messages that stay.
    pub kept: u64,
    /// The person's last request when it is condensed: it is sent verbatim all the same.
    pub last_request_seq: Option<Seq>,
    pub request_answered: Option<bool>,
}

/// Returns where the context is cut so that about `keep` of it stays; `None` when there is nothing to condense.
///
/// What stays begins with a turn, if that is not much less than what may stay, and else within one. A model's calls and
/// their results are never parted, no result stands first, and the newest of these always stays. `carried_request` is
/// the request that an earlier compaction repeats: it stays the last one while nobody asks for anything else.
pub(crate) fn cut(
    units: &[Unit],
    carried_request: Option<Seq>,
    keep: Keep,
    window: Option<u64>,
) -> Option<Cut> {
    let rest = Rest::of(units, keep, window);
    if rest.fits(0) {
        return None;
    }
    let starts = starts(units);
    let newest = *starts.last()?;
    let first = starts.iter().copied().find(|at| rest.fits(*at)).unwrap_or(newest);
    let turns = turn_starts(units);
    let enough = rest.amounts[first] / WHOLE_TURNS_PART;
    let whole_turn = starts.iter().copied().find(|at| *at >= first && turns.binary_search(at).is_ok());
    let at = whole_turn.filter(|at| rest.amounts[*at] >= enough).unwrap_or(first);
    let request = units.iter().rposition(|unit| is_request(&unit.item));
    if at == 1 && request == Some(0) {
        // The request would be repeated whole: nothing is gained.
        return None;
    }
    let condensed_request = match request {
        Some(request) if request < at => Some(units[request].item.seq),
        Some(_) => None,
        None => carried_request,
    };
    let after = request.map_or(0, |request| request + 1);
    Some(Cut {
        last_seq: units[at - 1].item.seq,
        replaced: messages(&units[..at]),
        kept: messages(&units[at..]),
        last_request_seq: condensed_request,
        request_answered: condensed_request.map(|_| is_answered(&units[after..])),
    })
}

/// Returns whether a person asked for something there. What was said in their name is recognised by where it came from.
pub(crate) fn is_request(item: &Item) -> bool {
    match &item.what {
        What::Message(Message::Human(human)) if !item.side && !item.injected => {
            human.content.iter().any(|block| match block {
                Block::Text { text } => !text.trim().is_empty(),
                Block::Media { .. } => true,
                Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => false,
            })
        }
        What::Message(_)
        | What::Note
        | What::Boundary
        | What::ImportedSummary(_)
        | What::InheritedSummary { .. }
        | What::Unread
        | What::Other => false,
    }
}

/// How much stays at each place where a context may be cut.
struct Rest {
    amounts: Vec<u64>,
    amount_max: u64,
}

impl Rest {
    fn of(units: &[Unit], keep: Keep, window: Option<u64>) -> Self {
        let (amount_max, amount): (u64, fn(&Unit) -> u64) = match (keep, window) {
            (Keep::Tokens(tokens), _) => (tokens, |unit| unit.tokens),
            (Keep::Fraction(share), Some(window)) => (share_of(window, share), |unit| unit.tokens),
            (Keep::Messages(messages), _) => (messages, |unit| messages_in(unit)),
            (Keep::Fraction(_), None) => (KEEP_MESSAGES, |unit| messages_in(unit)),
        };
        let mut amounts = vec![0; units.len() + 1];
        for at in (0..units.len()).rev() {
            amounts[at] = amounts[at + 1] + amount(&units[at]);
        }
        Self { amounts, amount_max }
    }

    fn fits(&self, at: usize) -> bool {
        self.amounts[at] <= self.amount_max
    }
}

/// Returns the places where what stays may begin, in order; the last one keeps the newest message, with its calls and
/// results.
fn starts(units: &[Unit]) -> Vec<usize> {
    let joined = joined(units);
    let starts: Vec<usize> = (1..units.len())
        .filter(|at| !joined[*at] && !matches!(units[*at].item.what, What::Message(Message::Tool(_))))
        .collect();
    if !starts.is_empty() {
        return starts;
    }
    // Results alone, whose calls are nowhere: nothing can be parted that belongs together.
    (1..units.len()).filter(|at| !joined[*at]).collect()
}

/// Returns, for each place before a unit, whether a call before it has its result behind it.
fn joined(units: &[Unit]) -> Vec<bool> {
    let messages: Vec<(usize, &Message)> = units
        .iter()
        .enumerate()
        .filter_map(|(at, unit)| match &unit.item.what {
            What::Message(message) => Some((at, message)),
            What::Note
            | What::Boundary
            | What::ImportedSummary(_)
            | What::InheritedSummary { .. }
            | What::Unread
            | What::Other => None,
        })
        .collect();
    let results = pair(messages.iter().map(|(_, message)| *message));
    let calls = messages.iter().filter(|(_, message)| matches!(message, Message::Ai(_)));
    let calls = calls.flat_map(|(at, message)| message.tool_calls().map(move |_| *at));
    let mut last_result = vec![0; units.len()];
    for (call, result) in calls.zip(results) {
        if let Some(result) = result {
            last_result[call] = last_result[call].max(messages[result].0);
        }
    }
    let mut joined = vec![false; units.len() + 1];
    let mut until = 0;
    for at in 0..units.len() {
        joined[at] = at > 0 && at <= until;
        until = until.max(last_result[at]);
    }
    joined
}

/// Returns the places where a turn begins: a person's request, with what was put right before it in their name.
fn turn_starts(units: &[Unit]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut before = 0;
    for (at, unit) in units.iter().enumerate() {
        if is_request(&unit.item) {
            starts.push(before);
        }
        if !unit.item.injected {
            before = at + 1;
        }
    }
    starts.dedup();
    starts
}

/// Returns whether a request is answered, given everything that was said after it.
fn is_answered(after: &[Unit]) -> bool {
    let meant = after.iter().rev().filter(|unit| !unit.item.injected);
    let last = meant.map(|unit| &unit.item.what).find(|what| matches!(what, What::Message(_)));
    match last {
        Some(What::Message(message @ Message::Ai(ai))) => {
            !ai.incomplete && message.tool_calls().next().is_none() && !message.text().trim().is_empty()
        }
        Some(
            What::Message(_)
            | What::Note
            | What::Boundary
            | What::ImportedSummary(_)
            | What::InheritedSummary { .. }
            | What::Unread
            | What::Other,
        )
        | None => false,
    }
}

fn messages(units: &[Unit]) -> u64 {
    units.iter().map(messages_in).sum()
}

fn messages_in(unit: &Unit) -> u64 {
    u64::from(matches!(unit.item.what, What::Message(_)))
}

#[cfg(test)]
mod tests;
