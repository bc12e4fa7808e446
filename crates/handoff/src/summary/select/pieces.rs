//! Collects the lines of a selection while the events stream by: the newest, and for a goal the older ones that are
//! about it. Memory is bounded by the budget; what is shown of them is decided at the end.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{AiMessage, Block, Message, Seq, ToolMessage, ToolStatus};

use super::piece::Piece;
use crate::summary::coverage::{CoverageBuilder, Reach};
use facts::Facts;
use facts::limits::{OPEN_CALLS_MAX, SCAN_BYTES_MAX};
use facts::phrase::{clip, flat};
use facts::tool_use::{head_words, one_line, tail_words};
use facts::{Frequencies, Goal, Terms};
use facts::{Item, What};

/// Graphemes of one assistant message.
const STATEMENT_GRAPHEMES: usize = 1_500;
/// Graphemes by which a request is recalled among the events.
const RECALL_GRAPHEMES: usize = 90;
/// Characters of one tool call, and of what came of it.
const CALL_CHARS: usize = 150;
const OUTCOME_CHARS: usize = 140;
/// Bytes above which a result is told with a pointer to where it is.
const LONG_RESULT_BYTES: usize = 64 * 1024;
/// Names of tools that are counted for the beginning of a turn.
const TOOLS_MAX: usize = 32;
/// How much more the person's own words count for a goal than what was done.
const REQUEST_FACTOR: f32 = 1.5;

/// Collects what may be shown; see [`Selector::see`].
#[derive(Debug, Clone)]
pub struct Selector {
    tokens_max: u64,
    goal: Option<Arc<Goal>>,
    frequencies: Frequencies,
    seen: u64,
    newest: VecDeque<Piece>,
    newest_tokens: u64,
    older: Vec<Piece>,
    older_tokens: u64,
    open_calls: VecDeque<String>,
    turn: Turn,
    coverage: CoverageBuilder,
}

/// What the turn that is under way began with.
#[derive(Debug, Clone, Default)]
struct Turn {
    first_seq: Seq,
    calls: Vec<(String, u32)>,
    more_calls: u32,
}

impl Selector {
    /// Returns a selector that keeps enough for `tokens_max` tokens, and prefers what the goal is about.
    pub fn new(tokens_max: u64, goal: Option<Arc<Goal>>) -> Self {
        Self {
            tokens_max,
            goal,
            frequencies: Frequencies::default(),
            seen: 0,
            newest: VecDeque::new(),
            newest_tokens: 0,
            older: Vec::new(),
            older_tokens: 0,
            open_calls: VecDeque::new(),
            turn: Turn::default(),
            coverage: CoverageBuilder::default(),
        }
    }

    /// Returns the goal it was made for.
    pub(crate) fn goal(&self) -> Option<&Goal> {
        self.goal.as_deref()
    }

    /// Returns what was recorded of every event: which are messages, and that each is in the ledger.
    pub(crate) fn coverage(&self) -> &CoverageBuilder {
        &self.coverage
    }

    /// Takes that the events up to `last` are left out, and how many of them are messages.
    pub(crate) fn left_out(&mut self, last: Seq, messages: u64) {
        self.coverage.left_out(last, messages);
    }

    /// Returns about how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        let pieces =
            self.newest.iter().chain(&self.older).map(|piece| 2 * piece.text.len() + size_of::<Piece>());
        pieces.sum::<usize>() + self.coverage.bytes()
    }

    /// Takes the next event. What a sub-agent did and what nobody typed is not selected.
    pub fn see(&mut self, item: &Item) {
        if item.seq > 0 {
            match item.is_message() {
                true if item.is_meant() => self.coverage.message(item.seq, Reach::Summarized),
                true => self.coverage.message(item.seq, Reach::Excluded),
                false => self.coverage.other(item.seq),
            }
        }
        match &item.what {
            What::Message(Message::Human(_)) => {
                if let Some(text) = item.user_text() {
                    self.turn = Turn { first_seq: item.seq, ..Turn::default() };
                    let mut piece = Piece::new(item.seq, "User: ", &text, RECALL_GRAPHEMES);
                    piece.reach = Some(Reach::Verbatim);
                    self.keep(piece);
                }
            }
            What::Message(Message::Ai(message)) if item.is_meant() => self.answer(item.seq, message),
            What::Message(Message::Tool(message)) if item.is_meant() => self.result(item.seq, message),
            What::Message(_)
            | What::ImportedSummary(_)
            | What::InheritedSummary { .. }
            | What::Boundary
            | What::Note
            | What::Unread
            | What::Other => {}
        }
    }

    fn answer(&mut self, seq: Seq, message: &AiMessage) {
        let has_calls = message.content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        for block in &message.content {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    let mut piece = Piece::new(seq, "Assistant: ", text, STATEMENT_GRAPHEMES);
                    piece.reach = Some(if has_calls { Reach::Summarized } else { Reach::Verbatim });
                    self.keep(piece);
                }
                Block::ToolCall { id, name, args } => {
                    self.turn.count(name);
                    if self.open_calls.len() >= OPEN_CALLS_MAX {
                        self.open_calls.pop_front();
                    }
                    self.open_calls.push_back(id.clone());
                    let line = one_line(name, args, CALL_CHARS);
                    let mut piece = Piece::new(seq, "", &line, CALL_CHARS + OUTCOME_CHARS);
                    piece.call_id = Some(id.clone());
                    self.keep(piece);
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    /// A result is part of its call's line: when it is an error, when it is too long to be looked at elsewhere, or when
    /// the goal is about it. One whose call is not known stands alone.
    fn result(&mut self, seq: Seq, message: &ToolMessage) {
        let text = message.content.iter().find_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            Block::Thinking { .. } | Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => {
                None
            }
        });
        let text = text.unwrap_or_default();
        let open = self.open_calls.iter().position(|id| *id == message.call_id);
        let Some(at) = open else {
            let (told, terms) = self.told(seq, text);
            let mut piece = Piece::new(seq, "Result: ", &told, CALL_CHARS + OUTCOME_CHARS);
            piece.terms = terms;
            return self.keep(piece);
        };
        self.open_calls.remove(at);
        let is_error = message.status == ToolStatus::Error;
        let (outcome, terms) = match self.about_goal(text) {
            _ if is_error => {
                (format!(" -> failed: {}", flat(head_words(text.trim(), OUTCOME_CHARS))), self.terms_in(text))
            }
            _ if text.len() > LONG_RESULT_BYTES => {
                let (told, terms) = self.told(seq, text);
                (format!(" -> {told}"), terms)
            }
            Some((line, terms)) => (format!(" -> {line}"), terms),
            None => return,
        };
        self.add_outcome(&message.call_id, &outcome, terms);
    }

    /// Adds what came of a call to its line, if that is still kept.
    fn add_outcome(&mut self, call_id: &str, outcome: &str, terms: Terms) {
        let is_call = |piece: &&mut Piece| piece.call_id.as_deref() == Some(call_id);
        if let Some(call) = self.newest.iter_mut().rev().find(is_call) {
            self.newest_tokens -= call.tokens();
            call.add(outcome);
            call.terms |= terms;
            self.newest_tokens += call.tokens();
        } else if let Some(call) = self.older.iter_mut().rev().find(is_call) {
            self.older_tokens -= call.tokens();
            call.add(outcome);
            call.terms |= terms;
            self.older_tokens += call.tokens();
        }
    }

    /// Returns a result in one line, with a pointer to the whole when it is longer than that.
    fn told(&self, seq: Seq, text: &str) -> (String, Terms) {
        let text = text.trim();
        let half = OUTCOME_CHARS / 2 - 10;
        let told = match text.len() > 2 * OUTCOME_CHARS {
            true => format!(
                "{} … {} (shortened; all of it is [{seq}])",
                flat(head_words(text, half)),
                flat(tail_words(text, half))
            ),
            false => flat(text),
        };
        (told, self.terms_in(text))
    }

    /// Returns the line of a result that says most of what the goal is about.
    fn about_goal(&self, text: &str) -> Option<(String, Terms)> {
        let goal = self.goal.as_deref()?;
        let text = head_words(text, SCAN_BYTES_MAX);
        let all = goal.terms_in(text);
        if all == 0 {
            return None;
        }
        let (mut best, mut best_score) = (None, 0.0);
        for line in text.lines() {
            let score = goal.score(goal.terms_in(line), &self.frequencies);
            if score > best_score {
                (best, best_score) = (Some(line), score);
            }
        }
        best.map(|line| (clip(&flat(head_words(line.trim(), 4 * OUTCOME_CHARS)), OUTCOME_CHARS), all))
    }

    fn terms_in(&self, text: &str) -> Terms {
        self.goal.as_deref().map_or(0, |goal| goal.terms_in(head_words(text, SCAN_BYTES_MAX)))
    }

    fn keep(&mut self, mut piece: Piece) {
        self.seen += 1;
        piece.order = self.seen;
        if let Some(goal) = self.goal.as_deref() {
            piece.terms |= goal.terms_in(&piece.text);
            self.frequencies.count(piece.terms);
        }
        self.newest_tokens += piece.tokens();
        self.newest.push_back(piece);
        while self.newest_tokens > self.tokens_max && self.newest.len() > 1 {
            let Some(oldest) = self.newest.pop_front() else { break };
            self.newest_tokens -= oldest.tokens();
            if oldest.terms != 0 {
                self.older_tokens += oldest.tokens();
                self.older.push(oldest);
            }
        }
        if self.older_tokens > 2 * self.tokens_max {
            self.prune();
        }
    }

    /// Lets go of the older pieces that say least of what the goal is about.
    fn prune(&mut self) {
        let mut order: Vec<usize> = (0..self.older.len()).collect();
        order.sort_by(|a, b| self.compare(&self.older[*b], &self.older[*a]));
        let mut left = self.tokens_max;
        order.retain(|at| {
            let cost = self.older[*at].tokens();
            let fits = cost <= left;
            left = if fits { left - cost } else { 0 };
            fits
        });
        order.sort_unstable();
        let mut kept = order.into_iter().peekable();
        let mut at = 0;
        self.older.retain(|_| {
            let is_kept = kept.next_if_eq(&at).is_some();
            at += 1;
            is_kept
        });
        self.older_tokens = self.older.iter().map(Piece::tokens).sum();
    }

    /// Compares what two pieces say of what the goal is about; the newer one wins a tie.
    fn compare(&self, a: &Piece, b: &Piece) -> std::cmp::Ordering {
        self.score(a).total_cmp(&self.score(b)).then(a.order.cmp(&b.order))
    }

    fn score(&self, piece: &Piece) -> f32 {
        let score = self.goal.as_deref().map_or(0.0, |goal| goal.score(piece.terms, &self.frequencies));
        if piece.label.starts_with("User") { score * REQUEST_FACTOR } else { score }
    }

    /// Returns the pieces in the order they are chosen: without a goal the newest first; with one, the newest in
    /// `newest_tokens` tokens, then what the goal is about, then the others.
    pub(super) fn in_order_of_choice(&self, newest_tokens: u64) -> (Vec<&Piece>, Vec<&Piece>) {
        if self.goal.is_none() {
            return (self.newest.iter().rev().collect(), Vec::new());
        }
        let mut left = newest_tokens;
        let mut newest = Vec::new();
        for piece in self.newest.iter().rev() {
            let Some(rest) = left.checked_sub(piece.tokens()) else { break };
            left = rest;
            newest.push(piece);
        }
        let first_newest = newest.last().map_or(u64::MAX, |piece| piece.order);
        let others = self.older.iter().chain(self.newest.iter().filter(|piece| piece.order < first_newest));
        let mut others: Vec<&Piece> = others.collect();
        others.sort_by(|a, b| self.compare(b, a));
        (newest, others)
    }

    /// Returns the line that stands for the beginning of the turn under way where the turn is longer than what is shown.
    pub(super) fn beginning_of_turn(&self, facts: &Facts) -> Option<String> {
        if self.turn.first_seq == 0 && facts.requests.is_empty() || self.turn.calls.is_empty() {
            return None;
        }
        let calls = self.turn.calls.iter().map(|(name, count)| format!("{name} ×{count}"));
        let mut told: Vec<String> = calls.collect();
        if self.turn.more_calls > 0 {
            told.push(format!("others ×{}", self.turn.more_calls));
        }
        let told = clip(&told.join(", "), CALL_CHARS);
        Some(model::inert::line(&format!(
            "(This turn's beginning is shortened to the facts above; its calls: {told})"
        )))
    }
}

impl Turn {
    fn count(&mut self, name: &str) {
        match self.calls.iter().position(|(known, _)| known == name) {
            Some(at) => self.calls[at].1 += 1,
            None if self.calls.len() < TOOLS_MAX => self.calls.push((name.to_owned(), 1)),
            None => self.more_calls += 1,
        }
    }
}
