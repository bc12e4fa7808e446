//! What of a thread reaches the model that drafts: the ledger, all of the person's messages, then the newest events in
//! one line or a paragraph each. One pass over the events, memory by the budget; no prompt is written here.

use std::collections::VecDeque;

use model::tokens;
use protocol::{AiMessage, Block, Coverage, Message, Seq, ToolMessage, ToolStatus};

use crate::ledger::source::{Item, What};
use crate::ledger::tool_use::{head, one_line};
use crate::ledger::{Facts, Quote};
use crate::summary::coverage::{CoverageBuilder, Reach};
use crate::summary::extract::extract;
use crate::summary::phrase::{clip, flat};
use crate::summary::render;
use memory::redact;

#[cfg(test)]
mod tests;

/// Graphemes of one assistant message.
const STATEMENT_GRAPHEMES: usize = 1_500;
/// Graphemes of one request of the person, and of the first and last.
const REQUEST_GRAPHEMES: usize = 500;
const EDGE_REQUEST_GRAPHEMES: usize = 2_000;
/// Graphemes by which a request is recalled among the events.
const RECALL_GRAPHEMES: usize = 90;
/// Characters of one tool call, and of the error it ended with.
const CALL_CHARS: usize = 150;
const ERROR_CHARS: usize = 140;
/// Of every hundred tokens: the ledger, the person's messages, the summary so far.
const LEDGER_PERCENT: u64 = 30;
const REQUESTS_PERCENT: u64 = 30;
const SUMMARY_PERCENT: u64 = 20;
/// Bytes kept of one piece until the end: enough for its graphemes, and for a secret at the cut to be seen whole.
const PIECE_BYTES_MAX: usize = 6_400;

/// What reaches the model, each part escaped so that none can open or close an element of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The facts, as the offline summary tells them.
    pub ledger: String,
    /// The summary written when the context was last condensed; empty when there is none.
    pub summary_so_far: String,
    /// The person's messages in order, one a line with its seq in brackets; the first, the last and unanswered ones are always there.
    pub requests: String,
    /// The newest events in order, one a line with its seq in brackets.
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

/// Collects the newest events while they stream by.
#[derive(Debug)]
pub struct Selector {
    from: Seq,
    tokens_max: u64,
    pieces: VecDeque<Piece>,
    pieces_tokens: u64,
    coverage: CoverageBuilder,
}

/// One line of the selection.
#[derive(Debug)]
struct Piece {
    seq: Seq,
    call_id: Option<String>,
    label: &'static str,
    text: String,
    graphemes_max: usize,
    /// What is claimed for the event when this piece is in, whole.
    reach: Reach,
}

impl Piece {
    fn tokens(&self) -> u64 {
        self.text.len().min(self.graphemes_max) as u64 / tokens::CHARS_PER_TOKEN + 4
    }
}

impl Selector {
    /// Returns a selector of events from the position `from` on, into `tokens_max` tokens.
    pub fn new(from: Seq, tokens_max: u64) -> Self {
        Self {
            from,
            tokens_max,
            pieces: VecDeque::new(),
            pieces_tokens: 0,
            coverage: CoverageBuilder::default(),
        }
    }

    /// Takes the next event.
    pub fn see(&mut self, item: &Item) {
        let covered = item.seq >= self.from && !item.side && !item.injected;
        let reach = match &item.what {
            What::Message(_) | What::ImportedSummary(_) | What::Boundary if covered => Reach::Summarized,
            What::Message(_) | What::ImportedSummary(_) | What::Boundary | What::Note | What::Other => {
                Reach::Excluded
            }
        };
        if item.seq > 0 {
            self.coverage.mark(item.seq, reach);
        }
        match &item.what {
            What::Message(Message::Human(_)) if covered => {
                if let Some(text) = item.user_text() {
                    self.push(item.seq, "User: ", &text, RECALL_GRAPHEMES);
                }
            }
            What::Message(Message::Ai(message)) if covered => self.answer(item.seq, message),
            What::Message(Message::Tool(message)) if covered => self.result(message),
            _ => {}
        }
    }

    fn push(&mut self, seq: Seq, label: &'static str, text: &str, graphemes_max: usize) {
        self.keep(Piece {
            seq,
            call_id: None,
            label,
            text: head(text.trim(), PIECE_BYTES_MAX).to_owned(),
            graphemes_max,
            reach: Reach::Verbatim,
        });
    }

    fn answer(&mut self, seq: Seq, message: &AiMessage) {
        let calls = message.content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        for block in &message.content {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    self.push(seq, "Assistant: ", text, STATEMENT_GRAPHEMES);
                    if let Some(piece) = self.pieces.back_mut().filter(|_| calls) {
                        piece.reach = Reach::Summarized;
                    }
                }
                Block::ToolCall { id, name, args } => self.keep(Piece {
                    seq,
                    call_id: Some(id.clone()),
                    label: "",
                    text: one_line(name, args, CALL_CHARS),
                    graphemes_max: CALL_CHARS + ERROR_CHARS,
                    reach: Reach::Summarized,
                }),
                Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    /// A result is part of its call's line, and only when it is an error.
    fn result(&mut self, message: &ToolMessage) {
        if message.status != ToolStatus::Error {
            return;
        }
        let call =
            self.pieces.iter_mut().rev().find(|piece| piece.call_id.as_deref() == Some(&message.call_id));
        let text = message.content.iter().find_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        if let (Some(call), Some(text)) = (call, text) {
            let error = flat(head(text.trim(), ERROR_CHARS));
            self.pieces_tokens -= call.tokens();
            call.text.push_str(" -> failed: ");
            call.text.push_str(&error);
            self.pieces_tokens += call.tokens();
        }
    }

    fn keep(&mut self, piece: Piece) {
        self.pieces_tokens += piece.tokens();
        self.pieces.push_back(piece);
        while self.pieces_tokens > self.tokens_max && self.pieces.len() > 1 {
            if let Some(oldest) = self.pieces.pop_front() {
                self.pieces_tokens -= oldest.tokens();
            }
        }
    }

    /// Returns the selection, with the facts of the same events and the goal the person gave.
    pub fn finish(mut self, facts: &Facts, goal: Option<&str>) -> Selection {
        let told = extract(facts, goal, self.tokens_max * LEDGER_PERCENT / 100);
        let ledger = escape(&render::markdown(&told.title, &told.tldr, &told.body));
        let mut left = self.tokens_max.saturating_sub(tokens::estimate(&ledger) + 1);
        let summary_so_far = facts.previous_summary.as_ref().filter(|quote| quote.seq >= self.from);
        let summary_so_far = summary_so_far.map_or_else(String::new, |quote| {
            escape(&clip(quote.text.trim(), chars(self.tokens_max * SUMMARY_PERCENT / 100)))
        });
        left = left.saturating_sub(tokens::estimate(&summary_so_far) + 1);
        let requests = self.requests(facts, left * REQUESTS_PERCENT / 100);
        left = left.saturating_sub(tokens::estimate(&requests) + 1);
        let events = self.events(left);
        Selection { ledger, summary_so_far, requests, events, coverage: self.coverage.finish() }
    }

    /// Returns the person's messages that fit: first, last and unanswered ones always, then the newest.
    fn requests(&mut self, facts: &Facts, tokens_max: u64) -> String {
        let all: Vec<&Quote> = origin(facts).into_iter().chain(&facts.requests).collect();
        let is_edge = |at: usize| at == 0 || at + 1 == all.len();
        let is_due = |at: usize| is_edge(at) || facts.unanswered.iter().any(|quote| quote.seq == all[at].seq);
        let mut order: Vec<usize> = (0..all.len()).rev().collect();
        order.sort_by_key(|at| !is_due(*at));
        let mut left = tokens_max;
        let mut lines: Vec<(usize, String)> = Vec::new();
        for at in order {
            let room = if is_due(at) { chars(left).max(REQUEST_GRAPHEMES) } else { chars(left) };
            let limit = room.min(if is_edge(at) { EDGE_REQUEST_GRAPHEMES } else { REQUEST_GRAPHEMES });
            let whole = flat(&all[at].text);
            let shown = clip(&whole, limit);
            let line = escape(&format!("[{}] User: {shown}", all[at].seq));
            let cost = tokens::estimate(&line) + 1;
            if cost > left && !is_due(at) || shown.len() < 8 && shown != whole {
                continue;
            }
            left = left.saturating_sub(cost);
            if all[at].seq >= self.from {
                self.coverage
                    .refine(all[at].seq, if shown == whole { Reach::Verbatim } else { Reach::Truncated });
            }
            lines.push((at, line));
        }
        lines.sort_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the newest events that fit, in order.
    fn events(&mut self, tokens_max: u64) -> String {
        let mut left = tokens_max;
        let mut lines: VecDeque<String> = VecDeque::new();
        for piece in self.pieces.iter().rev() {
            let whole = redact(&piece.text);
            let room = piece.graphemes_max.min(chars(left.saturating_sub(4)));
            let shown = clip(&whole, room);
            let line = escape(&format!("[{}] {}{}", piece.seq, piece.label, flat(&shown)));
            let cost = tokens::estimate(&line) + 1;
            if cost > left || room < 40 && shown != whole {
                break;
            }
            left -= cost;
            lines.push_front(line);
            if piece.label.starts_with("Assistant") {
                let is_whole = shown == piece.text && piece.text.len() < PIECE_BYTES_MAX - 4;
                self.coverage.refine(piece.seq, if is_whole { piece.reach } else { Reach::Truncated });
            }
        }
        Vec::from(lines).join("\n")
    }
}

/// Returns the thread's first request, unless it is among the others.
fn origin(facts: &Facts) -> Option<&Quote> {
    facts.origin.as_ref().filter(|origin| facts.requests.iter().all(|quote| quote.seq != origin.seq))
}

fn chars(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(tokens::CHARS_PER_TOKEN)).unwrap_or(usize::MAX)
}

/// Replaces the bracket of everything that could be read as an element's tag.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        escaped.push_str(&rest[..at]);
        let opens =
            rest[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
        escaped.push_str(if opens { "&lt;" } else { "<" });
        rest = &rest[at + 1..];
    }
    escaped.push_str(rest);
    escaped
}
