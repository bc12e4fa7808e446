//! Transcript selection: the part of a thread that the drafting model gets, within a token budget.
//!
//! A selection has the facts of the thread, the person's requests, and the newest events as one line or paragraph each.
//! With a goal it also has older events that are about the goal. The prompt is rendered in [`crate::draft`].

use std::collections::HashSet;

use model::{tokens, untrusted_text};
use protocol::{Coverage, Seq};

use crate::summary::coverage::CoverageClass;
use crate::summary::offline_summary::build_offline_summary;
use event_line::{EventLine, LineExtent};
use facts::formatting::{to_single_line, truncate_with_ellipsis};
use facts::{ConversationFacts, Quote};
pub use selector::TranscriptSelector;

mod event_line;
pub(crate) mod parts;
mod selector;
#[cfg(test)]
mod tests;

/// The maximum length of a request, in grapheme clusters.
const REQUEST_GRAPHEMES: usize = 500;
/// The maximum length of the first and the last request, in grapheme clusters.
const EDGE_REQUEST_GRAPHEMES: usize = 2_000;
/// The share of the facts in the budget, in percent.
const FACTS_PERCENT: u64 = 30;
/// The share of the requests in the budget that remains after the facts and the earlier summary, in percent.
const REQUESTS_PERCENT: u64 = 30;
/// The share of the earlier summary in the budget, in percent.
const SUMMARY_PERCENT: u64 = 20;
/// The share of the newest events in the budget for events when there is a goal, in percent.
const NEWEST_PERCENT: u64 = 50;
/// The lengths to which results of commands are shown, in grapheme clusters: first all to the smaller one.
const DETAIL_GRAPHEMES: [usize; 2] = [240, 1_200];
/// The number of remaining tokens below which no further line is tried.
const LINE_TOKENS_MIN: u64 = 8;
/// The minimum length of a shortened event, in grapheme clusters. An event for which less room remains is left out.
const SHOWN_GRAPHEMES_MIN: usize = 40;

/// The selected transcript. Every part is neutralized, so that none can open or close an element of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptSelection {
    /// The facts of the covered events, rendered as an offline summary.
    pub facts: String,
    /// The summary of the last compaction or of an import; empty when there is none.
    pub summary_so_far: String,
    /// The person's requests in order, one a line with its seq in brackets. The first, the last and the unanswered
    /// requests are always included; the last one says whether it was answered.
    pub requests: String,
    /// The newest events and those that are about the goal, in order, one a line with its seq in brackets.
    pub events: String,
    /// The coverage of the thread by these parts.
    pub coverage: Coverage,
    /// The seq from which on the selection contains every message; 0 when it contains the whole conversation.
    pub complete_from: Seq,
}

impl TranscriptSelection {
    /// Returns all parts as one text, without empty ones.
    pub fn text(&self) -> String {
        [&self.facts, &self.summary_so_far, &self.requests, &self.events]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl TranscriptSelector {
    /// Returns the selection within about `tokens_max` tokens. `facts` must come from the events that this selector
    /// visited.
    ///
    /// Requests that are always included may exceed a very small budget.
    pub fn select(&self, facts: &ConversationFacts, tokens_max: u64) -> TranscriptSelection {
        let summary = build_offline_summary(facts, self.goal(), tokens_max * FACTS_PERCENT / 100);
        let ledger = untrusted_text::neutralize(&summary.to_markdown());
        let mut remaining = tokens_max.saturating_sub(tokens::estimate_tokens(&ledger) + 1);
        let summary_so_far = facts.previous_summary.as_ref().map_or_else(String::new, |quote| {
            untrusted_text::neutralize(&truncate_with_ellipsis(
                quote.text.trim(),
                chars_in_tokens(tokens_max * SUMMARY_PERCENT / 100),
            ))
        });
        remaining = remaining.saturating_sub(tokens::estimate_tokens(&summary_so_far) + 1);
        let mut claims = Vec::new();
        let requests = self.select_requests(facts, remaining * REQUESTS_PERCENT / 100, &mut claims);
        remaining = remaining.saturating_sub(tokens::estimate_tokens(&requests) + 1);
        let (events, complete_from) = self.select_events(facts, remaining, &mut claims);
        TranscriptSelection {
            facts: ledger,
            summary_so_far,
            requests,
            events,
            coverage: self.coverage().finish(claims),
            complete_from,
        }
    }

    /// Returns the requests within the budget, in order. The first, the last and the unanswered ones are always
    /// included; then come those that are about the goal, then the newest. `claims` gets the coverage of each.
    fn select_requests(
        &self,
        facts: &ConversationFacts,
        tokens_max: u64,
        claims: &mut Vec<(Seq, CoverageClass)>,
    ) -> String {
        let mut requests: Vec<&Quote> = first_request(facts).into_iter().chain(&facts.requests).collect();
        requests.extend(
            facts
                .requests_about_goal
                .iter()
                .filter(|quote| first_request(facts).is_none_or(|first| first.seq != quote.seq)),
        );
        requests.sort_by_key(|quote| quote.seq);
        let is_edge = |index: usize| index == 0 || index + 1 == requests.len();
        let is_required = |index: usize| {
            is_edge(index) || facts.unanswered_requests.iter().any(|quote| quote.seq == requests[index].seq)
        };
        let mut order: Vec<usize> = (0..requests.len()).rev().collect();
        let goal_score = |index: usize| match self.goal() {
            Some(goal) => {
                (goal.score(goal.matching_terms(&requests[index].text), &facts.term_frequencies) * 1_000.0)
                    as u64
            }
            None => 0,
        };
        order.sort_by_cached_key(|index| (!is_required(*index), std::cmp::Reverse(goal_score(*index))));
        let mut remaining = tokens_max;
        let mut lines: Vec<(usize, String)> = Vec::new();
        for index in order {
            let available = if is_required(index) {
                chars_in_tokens(remaining).max(REQUEST_GRAPHEMES)
            } else {
                chars_in_tokens(remaining)
            };
            let limit =
                available.min(if is_edge(index) { EDGE_REQUEST_GRAPHEMES } else { REQUEST_GRAPHEMES });
            let whole = to_single_line(&requests[index].text);
            let shown = truncate_with_ellipsis(&whole, limit);
            let speaker = match (index + 1 == requests.len(), facts.request_answered) {
                (true, Some(true)) => "User (last request, answered)",
                (true, Some(false)) => "User (last request, pending)",
                (true, None) => "User (last request)",
                (false, _) => "User",
            };
            let line =
                untrusted_text::neutralize_line(&format!("[{}] {speaker}: {shown}", requests[index].seq));
            let cost = tokens::estimate_tokens(&line) + 1;
            if cost > remaining && !is_required(index) || shown.len() < 8 && shown != whole {
                continue;
            }
            remaining = remaining.saturating_sub(cost);
            let is_whole = shown == whole && !requests[index].is_cut;
            claims.push((
                requests[index].seq,
                if is_whole { CoverageClass::Verbatim } else { CoverageClass::Truncated },
            ));
            lines.push((index, line));
        }
        lines.sort_by_key(|(index, _)| *index);
        lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines of the selected events, in order, and the seq from which on they contain every message.
    /// `claims` holds the coverage of the requests and gets the coverage of the events.
    fn select_events(
        &self,
        facts: &ConversationFacts,
        tokens_max: u64,
        claims: &mut Vec<(Seq, CoverageClass)>,
    ) -> (String, Seq) {
        let beginning = self.turn_beginning_line(facts);
        let mut remaining =
            tokens_max.saturating_sub(beginning.as_ref().map_or(0, |line| tokens::estimate_tokens(line) + 1));
        let mut selected: Vec<(&EventLine, String)> = Vec::new();
        let mut whole: HashSet<u64> = HashSet::new();
        let (newest, goal_lines) = self.ranked_lines(remaining * NEWEST_PERCENT / 100);
        let has_goal_lines = !goal_lines.is_empty();
        let requests: Vec<Seq> = claims.iter().map(|(seq, _)| *seq).collect();
        // A request that is included above is not repeated because of the goal.
        let goal_lines = goal_lines.into_iter().filter(|event| !requests.contains(&event.seq));
        for event in newest.into_iter().chain(goal_lines) {
            if remaining < LINE_TOKENS_MIN {
                break;
            }
            let is_claimed = requests.contains(&event.seq);
            let line = event.rendered_line();
            let cost = tokens::estimate_tokens(&line.text) + 1;
            if cost <= remaining {
                remaining -= cost;
                claims.extend(event.coverage_claim(line.extent).filter(|_| !is_claimed));
                whole.insert(event.position);
                selected.push((event, line.text.clone()));
                continue;
            }
            let available = chars_in_tokens(remaining.saturating_sub(8));
            if available >= SHOWN_GRAPHEMES_MIN {
                remaining = 0;
                claims.extend(event.coverage_claim(LineExtent::Shortened).filter(|_| !is_claimed));
                selected.push((event, truncate_with_ellipsis(&line.text, available)));
            }
            if !has_goal_lines {
                break;
            }
        }
        let complete_from =
            self.complete_from(|line| whole.contains(&line.position) || requests.contains(&line.seq));
        show_details(&mut selected, remaining);
        selected.sort_by_key(|(event, _)| event.position);
        let mut lines: Vec<String> = selected.into_iter().map(|(_, line)| line).collect();
        let oldest_shown =
            lines.first().and_then(|line| line.strip_prefix('[')?.split(']').next()?.parse::<Seq>().ok());
        // The line about the beginning of the turn is needed only if the oldest selected line lies inside the turn.
        let is_split =
            oldest_shown.is_none_or(|seq| facts.requests.last().is_some_and(|last| seq > last.seq + 1));
        if let Some(beginning) = beginning.filter(|_| is_split) {
            lines.insert(0, beginning);
        }
        (lines.join("\n"), complete_from)
    }
}

/// Adds the results of commands to their lines within `remaining` tokens, the newest first. They are the least needed part
/// of a selection. All get a few words before any gets more.
fn show_details(selected: &mut [(&EventLine, String)], mut remaining: u64) {
    for graphemes_max in DETAIL_GRAPHEMES {
        for (event, line) in &mut *selected {
            if remaining < LINE_TOKENS_MIN {
                return;
            }
            let Some(detailed) = event.detailed_line(graphemes_max) else { continue };
            let cost = tokens::estimate_tokens(&detailed).saturating_sub(tokens::estimate_tokens(line));
            if cost <= remaining {
                remaining -= cost;
                *line = detailed;
            }
        }
    }
}

/// Returns the thread's first request, unless it is among the collected requests.
fn first_request(facts: &ConversationFacts) -> Option<&Quote> {
    facts.first_request.as_ref().filter(|first| facts.requests.iter().all(|quote| quote.seq != first.seq))
}

/// Returns the number of characters that `tokens` tokens hold.
fn chars_in_tokens(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(tokens::CHARS_PER_TOKEN)).unwrap_or(usize::MAX)
}
