//! Quotes of messages on one line: whole, or shortened at the end of a sentence or a clause.

use facts::formatting::{ELLIPSIS, count_content_words, strip_markdown, to_single_line};
use facts::tool_use::head;
use facts::{ConversationFacts, Quote, is_pasted};
use model::sentence_ranking::split_sentences;

use super::SummaryLine;
use super::section::SectionRequest;
use super::title::shorten_to_main_clause;

/// The size in bytes from which a passage of several lines without the end of a sentence is shown by its lines. It is pasted
/// output.
const PASSAGE_BYTES_MAX: usize = 240;
/// The number of bytes at the beginning of a message that is read for a quote.
const QUOTE_BYTES_MAX: usize = 4_000;
/// Lowercase texts of errors that say only that something was looked up at a wrong place.
const LOOKUP_FAILURES: &[&str] =
    &["does not exist", "no such file", "no matches found", "file not found", "usage:"];
/// The label of a quote that is not the whole message.
const IN_PART: &str = " (excerpt)";

/// A part of a message that is shown whole or not at all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuotePart {
    /// The part on one line, without the markers of Markdown.
    pub text: String,
    /// The kind of part.
    pub kind: QuotePartKind,
}

/// The kind of a part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotePartKind {
    /// A sentence or a line.
    Sentence,
    /// A heading.
    Heading,
    /// A fenced block of code.
    Code,
}

/// Returns the parts of a message. A heading ends in a colon and an item of a list in a semicolon, so that they stay
/// separate from what follows on the same line.
pub(super) fn quote_parts(text: &str) -> Vec<QuotePart> {
    let mut parts = Vec::new();
    for sentence in split_sentences(head(text, QUOTE_BYTES_MAX)) {
        let kind = match sentence {
            _ if sentence.starts_with("```") || sentence.starts_with("~~~") => QuotePartKind::Code,
            _ if sentence.starts_with('#') => QuotePartKind::Heading,
            _ => QuotePartKind::Sentence,
        };
        let is_passage = kind == QuotePartKind::Sentence && sentence.len() > PASSAGE_BYTES_MAX;
        let is_item = sentence.starts_with(['-', '*', '+', '•']);
        for line in sentence.split(|c| is_passage && c == '\n') {
            let mut text = strip_markdown(line);
            let is_open = text.ends_with(|c: char| c.is_alphanumeric() || c == '`' || c == ')');
            match kind {
                QuotePartKind::Heading if is_open => text.push(':'),
                QuotePartKind::Sentence if is_open && is_item => text.push(';'),
                QuotePartKind::Heading | QuotePartKind::Sentence | QuotePartKind::Code => {}
            }
            if !text.is_empty() {
                parts.push(QuotePart { text, kind });
            }
        }
    }
    parts
}

/// Returns the text on one line in at most `chars_max` characters, and whether it is the whole text. A shortened text ends
/// with a sentence if one fits, else with a clause, else with an ellipsis. It has no code and ends with no heading.
pub(super) fn shorten_message(text: &str, chars_max: usize) -> (String, bool) {
    let whole = if text.trim().contains('\n') { join(&quote_parts(text)) } else { to_single_line(text) };
    if whole.chars().count() <= chars_max && text.len() <= QUOTE_BYTES_MAX {
        return (whole, true);
    }
    let mut parts = quote_parts(text);
    parts.retain(|part| part.kind != QuotePartKind::Code);
    let mut length = 0;
    let fitting = parts
        .iter()
        .take_while(|part| {
            length += part.text.chars().count() + 1;
            length <= chars_max + 1
        })
        .count();
    let mut end = fitting;
    while end > 0 && parts[end - 1].kind == QuotePartKind::Heading {
        end -= 1;
    }
    let shown = join(&parts[..end]);
    let remaining = chars_max.saturating_sub(shown.chars().count() + 1);
    let next = parts.get(fitting).filter(|_| end == fitting || end == 0);
    let clause = next.map(|next| shorten_to_main_clause(&next.text, remaining)).unwrap_or_default();
    match (shown.is_empty(), clause.ends_with(ELLIPSIS)) {
        (true, _) if !clause.is_empty() => (clause, false),
        (true, _) => (shorten_to_main_clause(&to_single_line(text), chars_max), false),
        (false, true) => (shown, false),
        (false, false) => (format!("{shown} {clause}").trim_end().to_owned(), false),
    }
}

/// Returns the text on one line in at most `chars_max` characters like [`shorten_message`], but without a clause after the
/// last whole sentence, because nothing there tells that it is a part.
pub(super) fn whole_sentences(text: &str, chars_max: usize) -> String {
    let (shown, is_whole) = shorten_message(text, chars_max);
    let last = split_sentences(&shown).last().map_or(0, |last| last.len());
    match shown.len() - last {
        0 => shown,
        _ if is_whole || shown.ends_with(['.', '!', '?', '。', '！', '？']) => shown,
        end => shown[..end].trim_end().to_owned(),
    }
}

/// Returns the parts on one line.
fn join(parts: &[QuotePart]) -> String {
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    texts.join(" ").trim_end_matches([';', ' ']).to_owned()
}

/// Returns `label: "quote"`, shortened to `chars_max` characters and then labeled as a part; `None` when there is no room
/// for a few words of it.
pub(super) fn quoted_line(label: &str, quote: &Quote, chars_max: usize) -> Option<SummaryLine> {
    let available = chars_max
        .checked_sub(label.len() + 7)
        .filter(|available| *available >= 20 || quote.text.len() <= *available)?;
    let (text, is_whole) = shorten_message(&quote.text, available);
    let text = match is_whole && !quote.is_cut {
        // What the person put in quotation marks gets no others.
        true if is_in_quotation_marks(&text) => format!("{label}: {text}"),
        true => format!("{label}: \"{text}\""),
        false => {
            let (text, _) = shorten_message(&quote.text, available.saturating_sub(IN_PART.len()));
            format!("{label}{IN_PART}: \"{text}\"")
        }
    };
    Some(SummaryLine { text, refs: vec![quote.seq] })
}

/// Returns whether a text is inside one pair of quotation marks.
fn is_in_quotation_marks(text: &str) -> bool {
    text.len() > 2 && text.starts_with('"') && text.ends_with('"') && text.matches('"').count() == 2
}

/// The form of the lines of several quotes.
#[derive(Debug, Clone, Copy)]
pub(super) enum QuoteForm {
    /// Whole texts of the assistant or of a tool, without quotation marks, after a label that may be empty.
    Plain(&'static str),
    /// Whole texts of the user in quotation marks.
    Quoted,
    /// Texts of the user in quotation marks after a label, which says so if a text is shown in part.
    Labeled(&'static str),
}

impl QuoteForm {
    /// Returns the line of a whole text.
    fn whole_line(self, text: &str) -> String {
        match self {
            Self::Plain(label) => format!("{label}{text}"),
            Self::Quoted => format!("\"{text}\""),
            Self::Labeled(label) => format!("{label}: \"{text}\""),
        }
    }

    /// Returns the line of a part of a text; `None` if the line could not say that it is a part.
    fn partial_line(self, text: &str) -> Option<String> {
        match self {
            Self::Plain(_) | Self::Quoted => None,
            Self::Labeled(label) => Some(format!("{label}{IN_PART}: \"{text}\"")),
        }
    }
}

/// Returns a line for each quote that fits and is not shown yet, in order. `line_max` is the maximum length of a quote in
/// characters. A quote that can only be cut inside a clause is left out.
pub(super) fn fill_with_quotes<'a>(
    quotes: impl Iterator<Item = &'a Quote>,
    request: &SectionRequest<'_>,
    line_max: usize,
    form: QuoteForm,
) -> Vec<SummaryLine> {
    let mut remaining = request.chars_max;
    let mut lines: Vec<SummaryLine> = Vec::new();
    for quote in quotes {
        let (text, is_whole) = shorten_message(&quote.text, line_max);
        let text = strip_markdown(&text);
        let is_known = request.shown.contains(&text) || lines.iter().any(|line| line.text.contains(&text));
        if text.is_empty() || text.ends_with(ELLIPSIS) || is_known {
            continue;
        }
        let line = match is_whole && !quote.is_cut {
            true => Some(form.whole_line(&text)),
            false => form.partial_line(&text),
        };
        let Some(line) = line else { continue };
        let length = line.chars().count() + 3;
        if length <= remaining {
            remaining -= length;
            lines.push(SummaryLine { text: line, refs: vec![quote.seq] });
        }
    }
    lines
}

/// Returns the errors that a later call resolved, the newest first, without those of a wrong path.
pub(super) fn resolved_errors(facts: &ConversationFacts) -> impl Iterator<Item = &Quote> {
    let recent = facts.resolved_errors.iter().filter(|quote| quote.seq >= facts.recent_from);
    recent.filter(|quote| {
        let lower = quote.text.to_lowercase();
        !LOOKUP_FAILURES.iter().any(|failure| lower.contains(failure))
            && !is_pasted(&quote.text)
            && !quote.text.starts_with(|c: char| c.is_ascii_digit())
            && count_content_words(&quote.text) >= 3
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_shortened_at_the_end_of_a_sentence_or_clause() {
        for (text, chars_max, expected, is_whole) in [
            ("Port the reader.", 40, "Port the reader.", true),
            ("Port the reader. Then port the writer too.", 30, "Port the reader.", false),
            ("Port the old reader, because it loses rows.", 30, "Port the old reader", false),
            (
                "# Plan\n\nPort it.\n- the reader\n- the writer",
                60,
                "Plan: Port it. the reader; the writer",
                true,
            ),
            ("Port it.\n\n## Details\n\n```\nlet x = 1;\n```\nThe reader first.", 20, "Port it.", false),
            (
                "Fix it:\n```\nlet x = 1;\n```\nIt does not compile today.",
                40,
                "Fix it: It does not compile today.",
                false,
            ),
        ] {
            assert_eq!(shorten_message(text, chars_max), (expected.to_owned(), is_whole), "{text:?}");
        }
        let text = "Port it now. Two rules: keep the format, and keep the tests.";
        assert_eq!(whole_sentences(text, 48), "Port it now.");
    }
}
