//! One event, or a part of one, as a line of a selection. Which lines are shown is decided elsewhere.

use std::sync::OnceLock;

use model::inert;
use protocol::Seq;

use crate::summary::coverage::Reach;
use facts::Terms;
use facts::phrase::{clip, flat};
use facts::redact;
use facts::tool_use::head_words;

/// Bytes kept of one piece: enough for its graphemes, and for a secret at the cut to be seen whole.
pub(super) const PIECE_BYTES_MAX: usize = 6_400;

/// One line of the selection.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Its place among all pieces of the thread.
    pub order: u64,
    pub seq: Seq,
    pub call_id: Option<String>,
    pub label: &'static str,
    pub text: String,
    pub graphemes_max: usize,
    /// What is claimed for the event when this piece is in, whole; `None` when nothing more than its line.
    pub reach: Option<Reach>,
    /// The terms of the goal in it.
    pub terms: Terms,
    line: OnceLock<Line>,
}

/// How much of a piece is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Whole,
    Shortened,
}

/// A piece as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub text: String,
    pub shown: Shown,
}

impl Piece {
    pub(super) fn new(seq: Seq, label: &'static str, text: &str, graphemes_max: usize) -> Self {
        Self {
            order: 0,
            seq,
            call_id: None,
            label,
            text: head_words(text.trim(), PIECE_BYTES_MAX).to_owned(),
            graphemes_max,
            reach: None,
            terms: 0,
            line: OnceLock::new(),
        }
    }

    /// Returns about how many tokens it takes.
    pub(super) fn tokens(&self) -> u64 {
        self.text.len().min(self.graphemes_max) as u64 / model::tokens::CHARS_PER_TOKEN + 4
    }

    /// Adds what came of a call to its line.
    pub(super) fn add(&mut self, outcome: &str) {
        self.text.push_str(outcome);
        self.line.take();
    }

    /// Returns the line, without secrets and unable to open or close an element.
    pub(super) fn line(&self) -> &Line {
        self.line.get_or_init(|| {
            let whole = redact(&self.text);
            let shown = clip(&whole, self.graphemes_max);
            let is_whole = shown == self.text && self.text.len() < PIECE_BYTES_MAX - 4;
            let text = inert::line(&format!("[{}] {}{}", self.seq, self.label, flat(&shown)));
            Line { text, shown: if is_whole { Shown::Whole } else { Shown::Shortened } }
        })
    }

    /// Returns what is claimed for its event when it is shown like that.
    pub(super) fn claim(&self, shown: Shown) -> Option<(Seq, Reach)> {
        let reach = self.reach?;
        Some((self.seq, if shown == Shown::Whole { reach } else { Reach::Truncated }))
    }
}
