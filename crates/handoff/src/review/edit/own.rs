//! The text a person handed back, cleaned: without comments and what hides, inert, and with the number each line has
//! where they look at it. What its lines mean is read elsewhere.

use memory::block;
use model::inert;

use crate::review::edit::fault::{Fault, Place};

/// A text that differs from what was shown, ready to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnText {
    pub(crate) text: String,
    /// The number of each of its lines in what the person handed in.
    numbers: Vec<usize>,
}

impl OwnText {
    /// Cleans `text`; empty when it says nothing.
    pub(crate) fn new(text: &str) -> Result<Self, Fault> {
        // A mark of the encoding and line ends of other systems are no text. The other two separate lines for some
        // readers and not for others.
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
        let mut kept = without_comments(&text.replace(['\u{2028}', '\u{2029}'], " "))?;
        let blank = |line: &(usize, String)| line.1.trim().is_empty();
        let first = kept.iter().position(|line| !blank(line)).unwrap_or(kept.len());
        kept.drain(..first);
        while kept.last().is_some_and(blank) {
            kept.pop();
        }
        let (numbers, lines): (Vec<usize>, Vec<String>) = kept.into_iter().unzip();
        // Whole, because a tag may go over the end of a line.
        let text = block::neutralise(&inert::text(&lines.join("\n")));
        Ok(Self { text: text.trim().to_owned(), numbers })
    }

    /// Returns the lines with the numbers they were handed in under.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbers.iter().copied().zip(self.text.split('\n'))
    }

    /// Returns whether this says what was shown. Editors and forms drop blanks at the ends of lines.
    pub(crate) fn is_unchanged(&self, shown_md: &str) -> bool {
        self.text.lines().map(str::trim_end).eq(shown_md.trim().lines().map(str::trim_end))
    }
}

/// Returns the lines with their numbers, without characters that hide and without the HTML comments that begin a line,
/// such as the explanation an editor was opened with. Within a line they are text: a summary may well speak of them.
fn without_comments(text: &str) -> Result<Vec<(usize, String)>, Fault> {
    let mut kept = Vec::new();
    let mut open: Option<Place> = None;
    for (number, line) in (1..).zip(text.split('\n')) {
        let mut rest = line;
        let mut is_comment = open.is_some();
        loop {
            if open.is_none() && rest.trim_start().starts_with("<!--") {
                open = Some(Place::new(number, rest));
                is_comment = true;
            }
            match (&open, rest.split_once("-->")) {
                (None, _) => break,
                (Some(_), None) => break rest = "",
                (Some(_), Some((_, after))) => {
                    open = None;
                    rest = after;
                }
            }
        }
        // What a comment leaves blank goes with it.
        if !is_comment || !rest.trim().is_empty() {
            kept.push((number, inert::visible(rest)));
        }
    }
    match open {
        Some(place) => Err(Fault::OpenComment(place)),
        None => Ok(kept),
    }
}
