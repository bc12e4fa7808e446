//! A line of a selection: one event, or a part of one. [`super::selector`] decides which lines are selected.

use std::sync::OnceLock;

use model::untrusted_text;
use protocol::Seq;

use crate::summary::coverage::CoverageClass;
use facts::TermSet;
use facts::formatting::{to_single_line, truncate_with_ellipsis};
use facts::tool_use::head_words;
use secrets::redact;

/// The maximum size of the retained text, in bytes. It is larger than the shown text, so that redaction still
/// recognizes a secret that the cut would split.
pub(super) const EVENT_LINE_BYTES_MAX: usize = 6_400;

/// A line of the selection.
#[derive(Debug, Clone)]
pub(super) struct EventLine {
    /// The number of the line among all lines of the thread, from 1.
    pub position: u64,
    /// The seq of the event.
    pub seq: Seq,
    /// The id of the tool call that the line is about.
    pub call_id: Option<String>,
    /// The label before the text, such as `User: `; empty for a tool call.
    pub label: &'static str,
    /// The retained text, not redacted.
    pub text: String,
    /// The maximum length of the shown text, in grapheme clusters.
    pub graphemes_max: usize,
    /// The coverage class of the event when the whole line is selected; `None` when the line claims nothing.
    pub coverage_class: Option<CoverageClass>,
    /// The terms of the goal that the line contains.
    pub terms: TermSet,
    /// True for a call whose result may be shown as its detail: a command or a search. The content of a file is no detail,
    /// because the file can be read again.
    pub takes_detail: bool,
    /// The beginning of the result, redacted, which the line shows if there is room; empty when there is none.
    pub detail: String,
    /// The rendered line; computed at the first use.
    rendered_line: OnceLock<RenderedLine>,
}

/// The extent to which a line shows its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineExtent {
    /// The whole text.
    Whole,
    /// A part of the text, or a text from which a secret was removed.
    Shortened,
}

/// A line in the form in which a selection contains it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RenderedLine {
    /// The line, redacted and neutralized.
    pub text: String,
    /// The extent to which it shows the event's text.
    pub extent: LineExtent,
}

impl EventLine {
    /// Returns a line with the beginning of `text`, up to [`EVENT_LINE_BYTES_MAX`].
    pub(super) fn new(seq: Seq, label: &'static str, text: &str, graphemes_max: usize) -> Self {
        Self {
            position: 0,
            seq,
            call_id: None,
            label,
            text: head_words(text.trim(), EVENT_LINE_BYTES_MAX).to_owned(),
            graphemes_max,
            coverage_class: None,
            terms: 0,
            takes_detail: false,
            detail: String::new(),
            rendered_line: OnceLock::new(),
        }
    }

    /// Returns the approximate size of the rendered line in tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.text.len().min(self.graphemes_max) as u64 / model::tokens::CHARS_PER_TOKEN + 4
    }

    /// Appends the outcome of the tool call that the line is about.
    pub(super) fn append_outcome(&mut self, outcome: &str) {
        self.text.push_str(outcome);
        self.rendered_line.take();
    }

    /// Returns the rendered line: `[seq] label text`, redacted, neutralized and cut to `graphemes_max`.
    pub(super) fn rendered_line(&self) -> &RenderedLine {
        self.rendered_line.get_or_init(|| {
            let whole = redact(&self.text);
            let shown = truncate_with_ellipsis(&whole, self.graphemes_max);
            let is_whole = shown == self.text && self.text.len() < EVENT_LINE_BYTES_MAX - 4;
            let text = untrusted_text::neutralize_line(&format!(
                "[{}] {}{}",
                self.seq,
                self.label,
                to_single_line(&shown)
            ));
            RenderedLine { text, extent: if is_whole { LineExtent::Whole } else { LineExtent::Shortened } }
        })
    }

    /// Returns the rendered line with the detail after it, cut to `detail_graphemes`; `None` when the line has no detail.
    pub(super) fn detailed_line(&self, detail_graphemes: usize) -> Option<String> {
        let detail = truncate_with_ellipsis(&self.detail, detail_graphemes);
        let detail = untrusted_text::neutralize_line(&to_single_line(&detail));
        (!detail.is_empty()).then(|| format!("{} -> {detail}", self.rendered_line().text))
    }

    /// Returns the coverage of the event when the line is selected to that extent; `None` when the line claims nothing.
    pub(super) fn coverage_claim(&self, extent: LineExtent) -> Option<(Seq, CoverageClass)> {
        let class = self.coverage_class?;
        Some((self.seq, if extent == LineExtent::Whole { class } else { CoverageClass::Truncated }))
    }
}
