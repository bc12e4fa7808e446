//! What is wrong with a text a person handed back, and the line of it they will find it on. It judges nothing; reading
//! does.

use std::fmt;

use protocol::ItemKind;
use runtime::Rejection;

use crate::limits::{BODY_ITEMS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::summary::render;

/// Graphemes of a line that are quoted.
const QUOTE_GRAPHEMES_MAX: usize = 40;

/// Why a text is not taken as a summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the text is empty: write something, or decline")]
    Empty,
    #[error("{}the title is empty", at(.0))]
    NoTitle(Option<Place>),
    #[error("there is no item: keep at least one line under a heading such as `Objective`")]
    NoItem,
    #[error("{0} begins a comment that no `-->` closes")]
    OpenComment(Place),
    #[error("{0} begins a code block that nothing closes")]
    OpenFence(Place),
    #[error("{0} is no heading; the headings are {headings}", headings = headings())]
    UnknownHeading(Place),
    #[error("{0} is under no heading; the headings are {headings}", headings = headings())]
    NoHeading(Place),
    #[error("{0} is item {number}, at most {BODY_ITEMS_MAX} are allowed", number = BODY_ITEMS_MAX + 1)]
    ItemTooMany(Place),
    #[error("there are {0} items, at most {BODY_ITEMS_MAX} are allowed")]
    TooManyItems(usize),
    #[error("{}the title has {graphemes} characters, at most {TITLE_GRAPHEMES_MAX} are allowed", at(.place))]
    TitleTooLong { place: Option<Place>, graphemes: usize },
    #[error("{}the TL;DR has {graphemes} characters, at most {TLDR_GRAPHEMES_MAX} are allowed", at(.place))]
    TldrTooLong { place: Option<Place>, graphemes: usize },
    #[error("the text has {tokens} tokens, {} more than the {tokens_max} that are allowed", tokens - tokens_max)]
    TooLong { tokens: u64, tokens_max: u64 },
    #[error("`summary_json.{0}` is missing or has another type")]
    Field(String),
    #[error("`summary_json.body` cannot be read: {0}")]
    Body(String),
}

impl From<Fault> for Rejection {
    fn from(fault: Fault) -> Self {
        Self::Invalid(fault.to_string())
    }
}

/// A line of the text as the person handed it in, comments and blank lines counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its number, from 1.
    number: usize,
    quote: String,
}

impl Place {
    /// Returns the place of a line.
    pub(crate) fn new(number: usize, line: &str) -> Self {
        // As the person wrote it: escapes are what storing adds.
        let line = render::without_hidden(line).trim().replace("&lt;", "<");
        let quote = model::tokens::truncate_graphemes(&line, QUOTE_GRAPHEMES_MAX).to_owned();
        Self { number, quote }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}`", self.number, self.quote)
    }
}

fn at(place: &Option<Place>) -> String {
    place.as_ref().map_or_else(String::new, |place| format!("{place}: "))
}

fn headings() -> String {
    ItemKind::ALL.map(render::heading).join(", ")
}
