//! The collector of the lines of a selection. It visits a stream of events and retains the newest lines and, with a
//! goal, older lines that are about the goal.
//!
//! Memory is bounded by the token budget. The lines are ranked and selected at the end, in [`super`].

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{AiMessage, ContentBlock, Message, Seq, ToolMessage, ToolStatus};

use super::event_line::EventLine;
use crate::summary::coverage::{CoverageBuilder, CoverageClass};
use facts::ConversationFacts;
use facts::formatting::{to_single_line, truncate_with_ellipsis};
use facts::limits::{PENDING_CALLS_MAX, SCAN_BYTES_MAX};
use facts::strip_answer_wrappers;
use facts::tool_use::{ToolUse, head_words, render_call_line, tail_words};
use facts::{GoalMatcher, TermFrequencies, TermSet};
use facts::{TranscriptItem, TranscriptItemKind};
use secrets::redact;

/// The maximum length of the line of an assistant message, in grapheme clusters.
const STATEMENT_GRAPHEMES: usize = 1_500;
/// The maximum length of the line of a request among the events, in grapheme clusters. It is short because requests
/// have their own part of the selection.
const RECALL_GRAPHEMES: usize = 90;
/// The maximum length of the line of a tool call without its outcome, in characters.
const CALL_CHARS: usize = 150;
/// The maximum length of the outcome of a tool call, in characters.
const OUTCOME_CHARS: usize = 140;
/// The maximum length of the result of a call that is kept to be shown when there is room, in grapheme clusters.
const DETAIL_GRAPHEMES: usize = 1_200;
/// The size of the beginning of a result from which its detail is taken, in bytes. It is larger than the detail, so that
/// redaction still recognizes a secret that the cut would split.
const DETAIL_BYTES: usize = 4_096;
/// The size of a tool result in bytes above which its line always has a shortened outcome with the seq of the whole.
const LONG_RESULT_BYTES: usize = 64 * 1024;
/// The maximum number of tool names that are counted separately for a turn.
const TOOLS_MAX: usize = 32;
/// The factor by which a request counts more for the goal than other lines with the same terms.
const REQUEST_FACTOR: f32 = 1.5;

/// A collector of candidate lines for a selection; see [`TranscriptSelector::visit`].
#[derive(Debug, Clone)]
pub struct TranscriptSelector {
    /// The largest budget of a later selection, in tokens.
    tokens_max: u64,
    /// The purpose of the child thread.
    goal: Option<Arc<GoalMatcher>>,
    /// The frequencies of the goal's terms in all lines.
    frequencies: TermFrequencies,
    /// The number of lines so far.
    line_count: u64,
    /// The newest lines, oldest first, with about `tokens_max` tokens.
    newest: VecDeque<EventLine>,
    /// The tokens of `newest`.
    newest_tokens: u64,
    /// The seq of the newest line that is not among `newest` any more; 0 when all lines are.
    dropped_seq: Seq,
    /// Older lines that contain a term of the goal, with at most `2 * tokens_max` tokens.
    older: Vec<EventLine>,
    /// The tokens of `older`.
    older_tokens: u64,
    /// The ids of the tool calls without a result, oldest first.
    open_calls: VecDeque<String>,
    /// The tool calls of the present turn.
    turn_calls: TurnCalls,
    /// The coverage of the visited events.
    coverage: CoverageBuilder,
}

/// The tool calls of a turn, counted by tool.
#[derive(Debug, Clone, Default)]
struct TurnCalls {
    /// The seq of the request that began the turn; 0 before the first request.
    first_seq: Seq,
    /// Each tool's name with its number of calls.
    calls: Vec<(String, u32)>,
    /// The calls of further tools, above [`TOOLS_MAX`].
    other_calls: u32,
}

impl TranscriptSelector {
    /// Returns a selector that retains enough lines for a selection of `tokens_max` tokens and prefers lines that are
    /// about the goal.
    pub fn new(tokens_max: u64, goal: Option<Arc<GoalMatcher>>) -> Self {
        Self {
            tokens_max,
            goal,
            frequencies: TermFrequencies::default(),
            line_count: 0,
            newest: VecDeque::new(),
            newest_tokens: 0,
            dropped_seq: 0,
            older: Vec::new(),
            older_tokens: 0,
            open_calls: VecDeque::new(),
            turn_calls: TurnCalls::default(),
            coverage: CoverageBuilder::default(),
        }
    }

    /// Returns the goal of the selector.
    pub(crate) fn goal(&self) -> Option<&GoalMatcher> {
        self.goal.as_deref()
    }

    /// Returns the coverage of the visited events, in which every conversation message counts as summarized, because
    /// its facts are collected.
    pub(crate) fn coverage(&self) -> &CoverageBuilder {
        &self.coverage
    }

    /// Records that the events up to `last` that were not visited are not covered, and that `messages` of them are
    /// messages.
    pub(crate) fn skip_to(&mut self, last: Seq, messages: u64) {
        self.coverage.skip_to(last, messages);
    }

    /// Returns the approximate size of the selector in bytes. A line counts twice, because it may be rendered.
    pub(crate) fn size_in_bytes(&self) -> usize {
        let lines = self
            .newest
            .iter()
            .chain(&self.older)
            .map(|line| 2 * line.text.len() + line.detail.len() + size_of::<EventLine>());
        lines.sum::<usize>() + self.coverage.size_in_bytes()
    }

    /// Visits the next event. Events of sub-agents and injected messages are not selected.
    pub fn visit(&mut self, item: &TranscriptItem) {
        if item.seq > 0 {
            match item.is_message() {
                true if item.is_conversation_message() => {
                    self.coverage.add_message(item.seq, CoverageClass::Summarized)
                }
                true => self.coverage.add_message(item.seq, CoverageClass::Excluded),
                false => self.coverage.add_other_event(item.seq),
            }
        }
        match &item.kind {
            TranscriptItemKind::Message(Message::Human(_)) => {
                if let Some(text) = item.user_text() {
                    self.turn_calls = TurnCalls { first_seq: item.seq, ..TurnCalls::default() };
                    let mut line = EventLine::new(item.seq, "User: ", &text, RECALL_GRAPHEMES);
                    line.coverage_class = Some(CoverageClass::Verbatim);
                    self.push_line(line);
                }
            }
            TranscriptItemKind::Message(Message::Ai(message)) if item.is_conversation_message() => {
                self.add_answer(item.seq, message)
            }
            TranscriptItemKind::Message(Message::Tool(message)) if item.is_conversation_message() => {
                self.add_result(item.seq, message)
            }
            TranscriptItemKind::Message(_)
            | TranscriptItemKind::ImportedSummary(_)
            | TranscriptItemKind::InheritedSummary { .. }
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::Note
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other => {}
        }
    }

    /// Adds the lines of an assistant message: one for each text, one for each tool call.
    fn add_answer(&mut self, seq: Seq, message: &AiMessage) {
        let has_calls = message.content.iter().any(|block| matches!(block, ContentBlock::ToolCall { .. }));
        for block in &message.content {
            match block {
                ContentBlock::Text { text } if !text.trim().is_empty() => {
                    let text = strip_answer_wrappers(text);
                    let mut line = EventLine::new(seq, "Assistant: ", &text, STATEMENT_GRAPHEMES);
                    line.coverage_class =
                        Some(if has_calls { CoverageClass::Summarized } else { CoverageClass::Verbatim });
                    self.push_line(line);
                }
                ContentBlock::ToolCall { id, name, args } => {
                    self.turn_calls.count_call(name);
                    if self.open_calls.len() >= PENDING_CALLS_MAX {
                        self.open_calls.pop_front();
                    }
                    self.open_calls.push_back(id.clone());
                    let line = render_call_line(name, args, CALL_CHARS);
                    let mut line = EventLine::new(seq, "", &line, CALL_CHARS + OUTCOME_CHARS);
                    line.call_id = Some(id.clone());
                    let usage = ToolUse::from_call(name, args);
                    line.takes_detail =
                        usage.writes.is_empty() && (usage.command.is_some() || usage.reads.is_empty());
                    self.push_line(line);
                }
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::Media { .. }
                | ContentBlock::Opaque { .. } => {}
            }
        }
    }

    /// Adds a tool result.
    ///
    /// The outcome is appended to the line of the call when it is an error, is longer than [`LONG_RESULT_BYTES`], or
    /// contains a term of the goal. The result of another command or search becomes the detail of its line, and other results
    /// are left out. A result whose call is unknown gets a line of its own.
    fn add_result(&mut self, seq: Seq, message: &ToolMessage) {
        let text = message.content.iter().find_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            ContentBlock::Thinking { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        });
        let text = text.unwrap_or_default();
        let call_index = self.open_calls.iter().position(|id| *id == message.call_id);
        let Some(index) = call_index else {
            let (outcome, terms) = self.result_line(seq, text);
            let mut line = EventLine::new(seq, "Result: ", &outcome, CALL_CHARS + OUTCOME_CHARS);
            line.terms = terms;
            return self.push_line(line);
        };
        self.open_calls.remove(index);
        let is_error = message.status == ToolStatus::Error;
        let (outcome, terms) = match self.goal_line(text) {
            _ if is_error => (
                format!(" -> failed: {}", to_single_line(head_words(text.trim(), OUTCOME_CHARS))),
                self.terms_in(text),
            ),
            _ if text.len() > LONG_RESULT_BYTES => {
                let (outcome, terms) = self.result_line(seq, text);
                (format!(" -> {outcome}"), terms)
            }
            Some((line, terms)) => (format!(" -> {line}"), terms),
            None => return self.add_detail(&message.call_id, text),
        };
        self.add_outcome(&message.call_id, &outcome, terms);
    }

    /// Appends the outcome of a tool call to its line, if the line is still retained.
    fn add_outcome(&mut self, call_id: &str, outcome: &str, terms: TermSet) {
        let is_call = |line: &&mut EventLine| line.call_id.as_deref() == Some(call_id);
        if let Some(call) = self.newest.iter_mut().rev().find(is_call) {
            self.newest_tokens -= call.tokens();
            call.append_outcome(outcome);
            call.terms |= terms;
            self.newest_tokens += call.tokens();
        } else if let Some(call) = self.older.iter_mut().rev().find(is_call) {
            self.older_tokens -= call.tokens();
            call.append_outcome(outcome);
            call.terms |= terms;
            self.older_tokens += call.tokens();
        }
    }

    /// Sets the detail of the line of a tool call, if the line is still retained and takes one.
    fn add_detail(&mut self, call_id: &str, text: &str) {
        let is_call = |line: &&mut EventLine| line.takes_detail && line.call_id.as_deref() == Some(call_id);
        if let Some(call) = self.newest.iter_mut().rev().find(is_call) {
            let text = redact(head_words(text.trim(), DETAIL_BYTES));
            call.detail = truncate_with_ellipsis(&to_single_line(&text), DETAIL_GRAPHEMES);
        }
    }

    /// Returns a result on one line, and the terms of the goal in it. A long result is shortened to its beginning and
    /// end and names the seq of the whole.
    fn result_line(&self, seq: Seq, text: &str) -> (String, TermSet) {
        let text = text.trim();
        let half = OUTCOME_CHARS / 2 - 10;
        let line = match text.len() > 2 * OUTCOME_CHARS {
            true => format!(
                "{} … {} (shortened; all of it is [{seq}])",
                to_single_line(head_words(text, half)),
                to_single_line(tail_words(text, half))
            ),
            false => to_single_line(text),
        };
        (line, self.terms_in(text))
    }

    /// Returns the line of a result that scores best for the goal, and the terms of the goal in the whole result;
    /// `None` when the result has no term of the goal.
    fn goal_line(&self, text: &str) -> Option<(String, TermSet)> {
        let goal = self.goal.as_deref()?;
        let text = head_words(text, SCAN_BYTES_MAX);
        let terms = goal.matching_terms(text);
        if terms == 0 {
            return None;
        }
        let (mut best, mut best_score) = (None, 0.0);
        for line in text.lines() {
            let score = goal.score(goal.matching_terms(line), &self.frequencies);
            if score > best_score {
                (best, best_score) = (Some(line), score);
            }
        }
        best.map(|line| {
            (
                truncate_with_ellipsis(
                    &to_single_line(head_words(line.trim(), 4 * OUTCOME_CHARS)),
                    OUTCOME_CHARS,
                ),
                terms,
            )
        })
    }

    /// Returns the terms of the goal in the first [`SCAN_BYTES_MAX`] bytes of `text`.
    fn terms_in(&self, text: &str) -> TermSet {
        self.goal.as_deref().map_or(0, |goal| goal.matching_terms(head_words(text, SCAN_BYTES_MAX)))
    }

    /// Adds a line as the newest. Lines beyond the budget are moved to `older` if they contain a term of the goal, and
    /// dropped otherwise.
    fn push_line(&mut self, mut line: EventLine) {
        self.line_count += 1;
        line.position = self.line_count;
        if let Some(goal) = self.goal.as_deref() {
            line.terms |= goal.matching_terms(&line.text);
            self.frequencies.add_text(line.terms);
        }
        self.newest_tokens += line.tokens();
        self.newest.push_back(line);
        while self.newest_tokens > self.tokens_max && self.newest.len() > 1 {
            let Some(oldest) = self.newest.pop_front() else { break };
            self.newest_tokens -= oldest.tokens();
            self.dropped_seq = oldest.seq;
            if oldest.terms != 0 {
                self.older_tokens += oldest.tokens();
                self.older.push(oldest);
            }
        }
        if self.older_tokens > 2 * self.tokens_max {
            self.prune_older();
        }
    }

    /// Drops the older lines with the lowest scores, so that `tokens_max` tokens remain. It runs once for every
    /// `tokens_max` tokens added, so its cost per line is small.
    fn prune_older(&mut self) {
        let mut order: Vec<usize> = (0..self.older.len()).collect();
        order.sort_by(|a, b| self.compare(&self.older[*b], &self.older[*a]));
        let mut remaining = self.tokens_max;
        order.retain(|index| {
            let cost = self.older[*index].tokens();
            let fits = cost <= remaining;
            remaining = if fits { remaining - cost } else { 0 };
            fits
        });
        order.sort_unstable();
        let mut retained = order.into_iter().peekable();
        let mut index = 0;
        self.older.retain(|_| {
            let is_retained = retained.next_if_eq(&index).is_some();
            index += 1;
            is_retained
        });
        self.older_tokens = self.older.iter().map(EventLine::tokens).sum();
    }

    /// Compares two lines by their score for the goal; of two equal ones the newer is the greater.
    fn compare(&self, a: &EventLine, b: &EventLine) -> std::cmp::Ordering {
        self.score(a).total_cmp(&self.score(b)).then(a.position.cmp(&b.position))
    }

    /// Returns the score of a line for the goal; 0 without a goal.
    fn score(&self, line: &EventLine) -> f32 {
        let score = self.goal.as_deref().map_or(0.0, |goal| goal.score(line.terms, &self.frequencies));
        if line.label.starts_with("User") { score * REQUEST_FACTOR } else { score }
    }

    /// Returns the retained lines in the order of selection, as the newest ones and the others.
    ///
    /// Without a goal all lines are in the first list, newest first. With a goal the first list has the newest lines
    /// within `newest_tokens` tokens, and the second list has the others, best score for the goal first.
    pub(super) fn ranked_lines(&self, newest_tokens: u64) -> (Vec<&EventLine>, Vec<&EventLine>) {
        if self.goal.is_none() {
            return (self.newest.iter().rev().collect(), Vec::new());
        }
        let mut remaining = newest_tokens;
        let mut newest = Vec::new();
        for line in self.newest.iter().rev() {
            let Some(fewer) = remaining.checked_sub(line.tokens()) else { break };
            remaining = fewer;
            newest.push(line);
        }
        let first_newest = newest.last().map_or(u64::MAX, |line| line.position);
        let others = self.older.iter().chain(self.newest.iter().filter(|line| line.position < first_newest));
        let mut others: Vec<&EventLine> = others.collect();
        others.sort_by(|a, b| self.compare(b, a));
        (newest, others)
    }

    /// Returns the seq from which on every line is selected; 0 when all lines of the thread are.
    pub(super) fn complete_from(&self, is_selected: impl Fn(&EventLine) -> bool) -> Seq {
        let missing = self.newest.iter().rev().find(|line| !is_selected(line)).map(|line| line.seq);
        match missing.unwrap_or(self.dropped_seq) {
            0 => 0,
            seq => seq + 1,
        }
    }

    /// Returns a line that replaces the beginning of the present turn when the turn is longer than the selection: the
    /// number of its calls by tool. Returns `None` when the turn has no calls.
    pub(super) fn turn_beginning_line(&self, facts: &ConversationFacts) -> Option<String> {
        if self.turn_calls.first_seq == 0 && facts.requests.is_empty() || self.turn_calls.calls.is_empty() {
            return None;
        }
        let calls = self.turn_calls.calls.iter().map(|(name, count)| format!("{name} ×{count}"));
        let mut counts: Vec<String> = calls.collect();
        if self.turn_calls.other_calls > 0 {
            counts.push(format!("others ×{}", self.turn_calls.other_calls));
        }
        let counts = truncate_with_ellipsis(&counts.join(", "), CALL_CHARS);
        Some(model::untrusted_text::neutralize_line(&format!(
            "(This turn's beginning is shortened to the facts above; its calls: {counts})"
        )))
    }
}

impl TurnCalls {
    /// Counts a call of the tool `name`.
    fn count_call(&mut self, name: &str) {
        match self.calls.iter().position(|(known, _)| known == name) {
            Some(index) => self.calls[index].1 += 1,
            None if self.calls.len() < TOOLS_MAX => self.calls.push((name.to_owned(), 1)),
            None => self.other_calls += 1,
        }
    }
}
