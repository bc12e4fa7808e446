//! The text that a person submitted, cleaned: without comments and hidden characters, neutralized, and with the
//! original number of each line.
//!
//! Its lines are parsed in [`super::parse`].

use memory::managed_block;
use model::untrusted_text;

use crate::review::edit::error::{EditError, LineLocation};

/// A submitted text, ready to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SubmittedText {
    /// The cleaned text; empty when the person submitted only white space and comments.
    pub(crate) text: String,
    /// For each line of `text`, its number in the submitted text, from 1.
    line_numbers: Vec<usize>,
}

impl SubmittedText {
    /// Cleans `text`.
    ///
    /// # Errors
    ///
    /// [`EditError::UnclosedComment`].
    pub(crate) fn new(text: &str) -> Result<Self, EditError> {
        // A byte order mark and the line ends of other systems are not part of the text. U+2028 and U+2029 separate
        // lines in some programs and not in others, so they become spaces.
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
        let mut kept = strip_comments(&text.replace(['\u{2028}', '\u{2029}'], " "))?;
        let blank = |line: &(usize, String)| line.1.trim().is_empty();
        let first = kept.iter().position(|line| !blank(line)).unwrap_or(kept.len());
        kept.drain(..first);
        while kept.last().is_some_and(blank) {
            kept.pop();
        }
        let (numbers, lines): (Vec<usize>, Vec<String>) = kept.into_iter().unzip();
        // The lines are neutralized together, because a tag may span several of them.
        let text = managed_block::escape_block_tags(&untrusted_text::neutralize(&lines.join("\n")));
        Ok(Self { text: text.trim().to_owned(), line_numbers: numbers })
    }

    /// Returns the lines, each with its number in the submitted text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.line_numbers.iter().copied().zip(self.text.split('\n'))
    }

    /// Returns whether the text equals the shown one. White space at the ends of lines is ignored, because editors and
    /// forms remove it.
    pub(crate) fn is_unchanged(&self, shown_md: &str) -> bool {
        self.text.lines().map(str::trim_end).eq(shown_md.trim().lines().map(str::trim_end))
    }
}

/// Returns the lines with their numbers, without hidden characters and without HTML comments that start a line, such
/// as the instructions in the editor's buffer. A comment within a line stays, because a summary may be about
/// comments.
fn strip_comments(text: &str) -> Result<Vec<(usize, String)>, EditError> {
    let mut kept = Vec::new();
    let mut open: Option<LineLocation> = None;
    for (number, line) in (1..).zip(text.split('\n')) {
        let mut remaining = line;
        let mut is_comment = open.is_some();
        loop {
            if open.is_none() && remaining.trim_start().starts_with("<!--") {
                open = Some(LineLocation::new(number, remaining));
                is_comment = true;
            }
            match (&open, remaining.split_once("-->")) {
                (None, _) => break,
                (Some(_), None) => break remaining = "",
                (Some(_), Some((_, following))) => {
                    open = None;
                    remaining = following;
                }
            }
        }
        // A line that held nothing but a comment is removed with it.
        if !is_comment || !remaining.trim().is_empty() {
            kept.push((number, untrusted_text::strip_hidden_characters(remaining)));
        }
    }
    match open {
        Some(location) => Err(EditError::UnclosedComment(location)),
        None => Ok(kept),
    }
}
