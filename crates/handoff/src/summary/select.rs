//! What of a thread reaches the model that drafts: the ledger, all of the person's messages, then the newest events in
//! one line or a paragraph each, and for a goal the older ones that are about it. No prompt is written here.

use model::{inert, tokens};
use protocol::{Coverage, Seq};

use crate::summary::coverage::Reach;
use crate::summary::extract::extract;
use crate::summary::render;
use facts::phrase::{clip, flat};
use facts::{Facts, Quote};
use piece::{Piece, Shown};
pub use pieces::Selector;

mod piece;
mod pieces;
#[cfg(test)]
mod tests;

/// Graphemes of one request of the person, and of the first and last.
const REQUEST_GRAPHEMES: usize = 500;
const EDGE_REQUEST_GRAPHEMES: usize = 2_000;
/// Of every hundred tokens: the ledger, the person's messages, the summary so far.
const LEDGER_PERCENT: u64 = 30;
const REQUESTS_PERCENT: u64 = 30;
const SUMMARY_PERCENT: u64 = 20;
/// Of every hundred tokens for events, those that are the newest whatever the goal is.
const NEWEST_PERCENT: u64 = 50;
/// Tokens below which no line is looked for any more.
const LINE_TOKENS_MIN: u64 = 8;
/// Graphemes below which no beginning of an event is shown.
const SHOWN_GRAPHEMES_MIN: usize = 40;

/// What reaches the model, each part escaped so that none can open or close an element of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The facts, as the offline summary tells them.
    pub ledger: String,
    /// The summary written when the context was last condensed; empty when there is none.
    pub summary_so_far: String,
    /// The person's messages in order, one a line with its seq in brackets; the first, the last and unanswered ones are
    /// always there, the last one with whether it was answered.
    pub requests: String,
    /// The newest events, and those the goal is about, in order, one a line with its seq in brackets.
    pub events: String,
    /// What of the thread these parts are.
    pub coverage: Coverage,
}

impl Selection {
    /// Returns all parts as one text.
    pub fn text(&self) -> String {
        [&self.ledger, &self.summary_so_far, &self.requests, &self.events]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Selector {
    /// Returns the selection in `tokens_max` tokens, with the facts of the same events.
    pub fn finish(&self, facts: &Facts, tokens_max: u64) -> Selection {
        let told = extract(facts, self.goal(), tokens_max * LEDGER_PERCENT / 100);
        let ledger = inert::text(&render::markdown(&told.title, &told.tldr, &told.body));
        let mut left = tokens_max.saturating_sub(tokens::estimate(&ledger) + 1);
        let summary_so_far = facts.previous_summary.as_ref().map_or_else(String::new, |quote| {
            inert::text(&clip(quote.text.trim(), chars(tokens_max * SUMMARY_PERCENT / 100)))
        });
        left = left.saturating_sub(tokens::estimate(&summary_so_far) + 1);
        let mut reached = Vec::new();
        let requests = self.requests(facts, left * REQUESTS_PERCENT / 100, &mut reached);
        left = left.saturating_sub(tokens::estimate(&requests) + 1);
        let events = self.events(facts, left, &mut reached);
        Selection { ledger, summary_so_far, requests, events, coverage: self.coverage().finish(reached) }
    }

    /// Returns the person's messages that fit: first, last and unanswered ones always, then what the goal is about, then
    /// the newest.
    fn requests(&self, facts: &Facts, tokens_max: u64, reached: &mut Vec<(Seq, Reach)>) -> String {
        let mut all: Vec<&Quote> = origin(facts).into_iter().chain(&facts.requests).collect();
        all.extend(
            facts
                .requests_about_goal
                .iter()
                .filter(|quote| origin(facts).is_none_or(|origin| origin.seq != quote.seq)),
        );
        all.sort_by_key(|quote| quote.seq);
        let is_edge = |at: usize| at == 0 || at + 1 == all.len();
        let is_due = |at: usize| is_edge(at) || facts.unanswered.iter().any(|quote| quote.seq == all[at].seq);
        let mut order: Vec<usize> = (0..all.len()).rev().collect();
        let about_goal = |at: usize| match self.goal() {
            Some(goal) => (goal.score(goal.terms_in(&all[at].text), &facts.frequencies) * 1_000.0) as u64,
            None => 0,
        };
        order.sort_by_cached_key(|at| (!is_due(*at), std::cmp::Reverse(about_goal(*at))));
        let mut left = tokens_max;
        let mut lines: Vec<(usize, String)> = Vec::new();
        for at in order {
            let room = if is_due(at) { chars(left).max(REQUEST_GRAPHEMES) } else { chars(left) };
            let limit = room.min(if is_edge(at) { EDGE_REQUEST_GRAPHEMES } else { REQUEST_GRAPHEMES });
            let whole = flat(&all[at].text);
            let shown = clip(&whole, limit);
            let who = match (at + 1 == all.len(), facts.is_answered) {
                (true, true) => "User (last request, answered)",
                (true, false) => "User (last request, pending)",
                (false, _) => "User",
            };
            let line = inert::line(&format!("[{}] {who}: {shown}", all[at].seq));
            let cost = tokens::estimate(&line) + 1;
            if cost > left && !is_due(at) || shown.len() < 8 && shown != whole {
                continue;
            }
            left = left.saturating_sub(cost);
            let is_whole = shown == whole && !all[at].is_cut;
            reached.push((all[at].seq, if is_whole { Reach::Verbatim } else { Reach::Truncated }));
            lines.push((at, line));
        }
        lines.sort_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the events that are shown, in order.
    fn events(&self, facts: &Facts, tokens_max: u64, reached: &mut Vec<(Seq, Reach)>) -> String {
        let beginning = self.beginning_of_turn(facts);
        let mut left =
            tokens_max.saturating_sub(beginning.as_ref().map_or(0, |line| tokens::estimate(line) + 1));
        let mut chosen: Vec<(&Piece, String)> = Vec::new();
        let (newest, by_goal) = self.in_order_of_choice(left * NEWEST_PERCENT / 100);
        let is_for_goal = !by_goal.is_empty();
        let requests: Vec<Seq> = reached.iter().map(|(seq, _)| *seq).collect();
        // What the goal is about and is told among the requests need not be told twice.
        let by_goal = by_goal.into_iter().filter(|piece| !requests.contains(&piece.seq));
        for piece in newest.into_iter().chain(by_goal) {
            if left < LINE_TOKENS_MIN {
                break;
            }
            let is_claimed = requests.contains(&piece.seq);
            let line = piece.line();
            let cost = tokens::estimate(&line.text) + 1;
            if cost <= left {
                left -= cost;
                reached.extend(piece.claim(line.shown).filter(|_| !is_claimed));
                chosen.push((piece, line.text.clone()));
                continue;
            }
            let room = chars(left.saturating_sub(8));
            if room >= SHOWN_GRAPHEMES_MIN {
                left = 0;
                reached.extend(piece.claim(Shown::Shortened).filter(|_| !is_claimed));
                chosen.push((piece, clip(&line.text, room)));
            }
            if !is_for_goal {
                break;
            }
        }
        chosen.sort_by_key(|(piece, _)| piece.order);
        let mut lines: Vec<String> = chosen.into_iter().map(|(_, line)| line).collect();
        let oldest_shown =
            lines.first().and_then(|line| line.strip_prefix('[')?.split(']').next()?.parse::<Seq>().ok());
        let is_split =
            oldest_shown.is_none_or(|seq| facts.requests.last().is_some_and(|last| seq > last.seq + 1));
        if let Some(beginning) = beginning.filter(|_| is_split) {
            lines.insert(0, beginning);
        }
        lines.join("\n")
    }
}

/// Returns the thread's first request, unless it is among the others.
fn origin(facts: &Facts) -> Option<&Quote> {
    facts.origin.as_ref().filter(|origin| facts.requests.iter().all(|quote| quote.seq != origin.seq))
}

fn chars(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(tokens::CHARS_PER_TOKEN)).unwrap_or(usize::MAX)
}
