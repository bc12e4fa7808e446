//! The errors of parsing a person's text, with the line that each of them is about. [`super::parse`] and the limits in
//! [`super`] raise them.

use std::fmt;

use protocol::SummaryItemKind;
use runtime::DecisionRejection;
use secrets::REDACTED;

use crate::limits::{EDITED_ITEMS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::summary::render;
use crate::summary::render::facts::FactSection;

/// The maximum length of a quoted line, in grapheme clusters.
const QUOTE_GRAPHEMES_MAX: usize = 40;

/// The reason why a submitted text is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    /// The text is empty, apart from comments.
    #[error("the text is empty: write something, or decline")]
    Empty,
    /// The title is empty.
    #[error("{}the title is empty", location_prefix(.0))]
    EmptyTitle(Option<LineLocation>),
    /// The text has no item.
    #[error("there is no item: keep at least one line under a heading such as `Objective`")]
    NoItem,
    /// An HTML comment is not closed.
    #[error("{0} starts a comment that is not closed by `-->`")]
    UnclosedComment(LineLocation),
    /// A fenced code block is not closed.
    #[error("{0} starts a code block that is not closed")]
    UnclosedFence(LineLocation),
    /// A line looks like a heading but is not one of a summary.
    #[error("{0} is not a heading; the headings are {headings}", headings = headings())]
    UnknownHeading(LineLocation),
    /// A bullet comes before the first heading.
    #[error("{0} is not under a heading; the headings are {headings}", headings = headings())]
    NoHeading(LineLocation),
    /// The Markdown has more items than allowed; the location is the first one above the limit.
    #[error("{0} is item {number}, at most {EDITED_ITEMS_MAX} are allowed", number = EDITED_ITEMS_MAX + 1)]
    ExcessItem(LineLocation),
    /// The JSON has more items than allowed.
    #[error("there are {0} items, at most {EDITED_ITEMS_MAX} are allowed")]
    TooManyItems(usize),
    /// The title is too long.
    #[error("{}the title has {graphemes} characters, at most {TITLE_GRAPHEMES_MAX} are allowed", location_prefix(.location))]
    TitleTooLong { location: Option<LineLocation>, graphemes: usize },
    /// The TL;DR is too long.
    #[error("{}the TL;DR has {graphemes} characters, at most {TLDR_GRAPHEMES_MAX} are allowed", location_prefix(.location))]
    TldrTooLong { location: Option<LineLocation>, graphemes: usize },
    /// The whole text is too long.
    #[error("the text has {tokens} tokens, {} more than the {tokens_max} that are allowed", tokens - tokens_max)]
    TooLong { tokens: u64, tokens_max: u64 },
    /// The notes have no left-out item with that index.
    #[error("there is no left-out item {0}; the indexes are those of `summary_json.notes.left_out`")]
    NoLeftOutItem(usize),
    /// The notes have no topic with that index.
    #[error("there is no topic {0}; the indexes are those of `summary_json.notes.topics`")]
    NoTopic(usize),
    /// The notes have no lost rule with that index.
    #[error("there is no lost rule {0}; the indexes are those of `summary_json.notes.rules`")]
    NoLostRule(usize),
    /// The notes have no left-out facts with that index.
    #[error("there are no left-out facts {0}; the indexes are those of `summary_json.notes.left_out_facts`")]
    NoLeftOutFacts(usize),
    /// The text contains a secret that the shown text does not. It would be stored and sent to models.
    #[error(
        "line {line} contains what looks like a secret ({kind}, {masked}): remove it or write `{REDACTED}`; `[secrets] allow` \
         in config.toml makes exceptions"
    )]
    Secret {
        /// The line of the stored text, from 1.
        line: usize,
        /// The kind of the secret.
        kind: String,
        /// The secret, masked.
        masked: String,
    },
    /// A field of the JSON is missing or has another type.
    #[error("`summary_json.{0}` is missing or has another type")]
    Field(String),
    /// The items of the JSON cannot be parsed.
    #[error("`summary_json.body` cannot be read: {0}")]
    Body(String),
    /// The facts of the JSON cannot be parsed.
    #[error("`summary_json.carried` cannot be read: {0}")]
    CarriedFacts(String),
}

impl From<EditError> for DecisionRejection {
    fn from(error: EditError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// A line of the submitted text. Comments and blank lines count, so the number is the one an editor shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineLocation {
    /// The line number, from 1.
    number: usize,
    /// The beginning of the line.
    quote: String,
}

impl LineLocation {
    /// Returns the location of `line`.
    pub(crate) fn new(number: usize, line: &str) -> Self {
        // The quote shows the line as the person wrote it, without the escapes that storing adds.
        let line = render::strip_hidden(line).trim().replace("&lt;", "<");
        let quote = model::tokens::truncate_graphemes(&line, QUOTE_GRAPHEMES_MAX).to_owned();
        Self { number, quote }
    }
}

impl fmt::Display for LineLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}`", self.number, self.quote)
    }
}

/// Returns `line N: …: ` for an error message, or nothing without a location.
fn location_prefix(location: &Option<LineLocation>) -> String {
    location.as_ref().map_or_else(String::new, |location| format!("{location}: "))
}

/// Returns all headings of a summary, separated by commas: those of items, then those of facts.
fn headings() -> String {
    let facts = FactSection::ALL.map(FactSection::heading);
    SummaryItemKind::ALL.map(render::heading).into_iter().chain(facts).collect::<Vec<_>>().join(", ")
}
