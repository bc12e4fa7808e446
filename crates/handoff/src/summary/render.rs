//! Rendering a summary to the Markdown that is shown, stored and injected, and cutting a summary to a token budget.
//!
//! The texts in a summary are data. In the JSON they have no characters that hide or reorder others. In the Markdown
//! they are also escaped, so that a text can neither end the block that contains it nor break the Markdown around it.
//! Escaping is idempotent: neutralizing the Markdown again for a prompt does not change it, so the injected text
//! equals the shown one byte for byte.

use std::borrow::Cow;
use std::cmp::Reverse;

use memory::managed_block;
use model::tokens::CHARS_PER_TOKEN;
use model::{tokens, untrusted_text};
use protocol::{CarriedFacts, HandoffSummary, LeftOutItem, LeftOutReason, SummaryItem, SummaryItemKind};
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::{BODY_ITEMS_MAX, BODY_ITEMS_MIN, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use ::facts::formatting::{to_single_line, truncate_with_ellipsis};

pub(crate) mod block;
pub(crate) mod facts;
#[cfg(test)]
mod tests;

/// The length in grapheme clusters at which a title, a TL;DR or a last sentence is not shortened further.
const GRAPHEMES_MIN: usize = 24;
/// The cost, in characters of ordinary text, above which a text of so few grapheme clusters is shortened further.
/// Such a text has letters with many combining marks, or signs that take many tokens each.
const DENSE_CHARS_MIN: usize = 4 * GRAPHEMES_MIN;

/// A summary within its budget.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedSummary {
    /// The summary, normalized.
    pub summary: HandoffSummary,
    /// The size before and after the cut; `None` when nothing was cut.
    pub cut: Option<SummaryCut>,
}

/// The size of a summary's Markdown before and after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryCut {
    /// The tokens before the cut.
    pub tokens_before: u64,
    /// The tokens after the cut. They exceed the budget only if no valid summary fits it.
    pub tokens_after: u64,
}

/// Returns the summary as Markdown: title, TL;DR, items, and the facts that are carried over. This is the whole text that
/// is shown, hashed, stored and injected. The function is pure: the same summary always gives the same text.
pub fn render_summary(summary: &HandoffSummary) -> String {
    let mut md = render_body(summary);
    if summary.carried.is_in_markdown {
        md.push_str(&facts_markdown(&summary.carried));
    }
    md
}

/// Returns the facts as Markdown: one section for each kind of fact that is present.
pub fn facts_markdown(carry: &CarriedFacts) -> String {
    facts::render_facts(carry)
}

/// Returns whether a heading of the Markdown is that of items, and not of facts.
pub fn is_summary_heading(text: &str) -> bool {
    SummaryItemKind::ALL.into_iter().any(|kind| heading(kind) == text)
}

/// Returns the summary as Markdown without the facts.
pub(crate) fn render_body(summary: &HandoffSummary) -> String {
    render_head(summary) + &render_items(&summary.body)
}

/// Returns the lines of the title and the TL;DR. Each ends with [`SummaryItem::UNVERIFIED`] if it is unverified.
pub(crate) fn render_head(summary: &HandoffSummary) -> String {
    let mark = |unfound: &[String]| if unfound.is_empty() { "" } else { SummaryItem::UNVERIFIED };
    let title_mark = mark(&summary.notes.title_unfound);
    let tldr_mark = mark(&summary.notes.tldr_unfound);
    format!("{}{title_mark}\n{}{tldr_mark}\n", title_markdown(&summary.title), tldr_markdown(&summary.tldr))
}

/// Returns title, TL;DR and items as Markdown, without marks at the title and the TL;DR; see [`render_summary`].
pub fn render_markdown(title: &str, tldr: &str, body: &[SummaryItem]) -> String {
    format!("{}\n{}\n{}", title_markdown(title), tldr_markdown(tldr), render_items(body))
}

/// Returns the line of the title.
fn title_markdown(title: &str) -> String {
    // Two asterisks inside the title would end its bold text.
    format!("**{}**", escape_tags(&normalize_line(title).replace("**", "")))
}

/// Returns the line of the TL;DR.
pub(crate) fn tldr_markdown(tldr: &str) -> String {
    escape_block_start(&escape_tags(tldr))
}

/// Returns the items of each kind under its heading, each line of an item as one bullet. An unverified item ends with
/// [`SummaryItem::UNVERIFIED`].
fn render_items(body: &[SummaryItem]) -> String {
    let mut md = String::new();
    for kind in SummaryItemKind::ALL {
        let mut items = body
            .iter()
            .filter(|item| item.kind == kind && !normalize_lines(&item.text).is_empty())
            .peekable();
        if items.peek().is_some() {
            md.push_str("\n### ");
            md.push_str(heading(kind));
            md.push('\n');
        }
        for item in items {
            push_bullets(&mut md, item);
        }
    }
    md
}

/// Appends the lines of an item as bullets.
fn push_bullets(md: &mut String, item: &SummaryItem) {
    let text = normalize_lines(&item.text);
    for line in text.lines() {
        md.push_str("- ");
        md.push_str(&escape_block_start(&escape_tags(line)));
        md.push('\n');
    }
    if !item.verified {
        md.insert_str(md.len() - 1, SummaryItem::UNVERIFIED);
    }
}

/// Returns the heading of a kind (contract §4).
pub const fn heading(kind: SummaryItemKind) -> &'static str {
    match kind {
        SummaryItemKind::Objective => "Objective",
        SummaryItemKind::Progress => "Progress",
        SummaryItemKind::Decision => "Decisions",
        SummaryItemKind::NextStep => "Next steps",
        SummaryItemKind::Blocker => "Blockers",
        SummaryItemKind::Artifact => "Artifacts",
    }
}

/// Returns the normalized text of an item: each line normalized by [`normalize_line`], without empty lines.
pub(crate) fn normalize_lines(text: &str) -> String {
    text.lines().map(normalize_line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns `text` on one line, without characters that hide or reorder others, and without code fences.
pub(crate) fn normalize_line(text: &str) -> String {
    let mut line = to_single_line(&strip_hidden(text));
    // Replacing a long run of backticks may leave three of them, so it is repeated.
    while line.contains("```") {
        line = line.replace("```", "`");
    }
    line
}

/// Returns the result of [`normalize_line`] with everything escaped that could be read as a tag, so that the text can
/// neither open nor close a delimiter. Escaping the result again does not change it.
pub(crate) fn escape_tags(text: &str) -> String {
    managed_block::escape_block_tags(&untrusted_text::neutralize(&normalize_line(text)))
}

/// Returns `text` without characters that hide or reorder others. White space and control characters become spaces.
pub(crate) fn strip_hidden(text: &str) -> String {
    untrusted_text::strip_hidden_characters(&text.replace(|c: char| c.is_whitespace() || c.is_control(), " "))
}

/// The characters that can start a Markdown block and are escaped with a backslash.
const BLOCK_SIGNS: [char; 11] = ['#', '>', '<', '|', '~', '[', '-', '*', '+', '_', '='];

/// Escapes the start of a line that Markdown would read as a block: a heading, list, quote, fence, rule, table or
/// HTML. A line that begins with such an escape gets another one, so that [`unescape_block_start`] restores every
/// line.
///
/// The boxes of a task list stay, because they are meant as such.
pub(crate) fn escape_block_start(line: &str) -> String {
    if ["[ ] ", "[x] "].iter().any(|task| line.starts_with(task)) {
        return line.to_owned();
    }
    if let Some(position) = escape_position(line) {
        return format!("{}\\{}", &line[..position], &line[position..]);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let is_numbered = (1..=9).contains(&digits) && line[digits..].starts_with(['.', ')']);
    if is_numbered && line[digits + 1..].starts_with([' ']) {
        return format!("{}\\{}", &line[..digits], &line[digits..]);
    }
    let mut chars = line.chars();
    let first = chars.next().unwrap_or(' ');
    let is_followed_by_space = chars.as_str().is_empty() || chars.as_str().starts_with(' ');
    let is_rule = !line.is_empty() && line.chars().all(|c| matches!(c, '-' | '*' | '_' | '=' | ' '));
    let opens_block = match first {
        '#' | '>' | '<' | '|' => true,
        // A path in the home folder begins with one tilde, and a fence with three.
        '~' => line.starts_with("~~~"),
        '[' => line.contains("]:"),
        '-' | '*' | '+' => is_followed_by_space || is_rule,
        '_' | '=' => is_rule,
        _ => false,
    };
    if opens_block { format!("\\{line}") } else { line.to_owned() }
}

/// Returns a line without the escape that [`escape_block_start`] adds.
pub(crate) fn unescape_block_start(line: &str) -> Cow<'_, str> {
    match escape_position(line) {
        Some(position) => Cow::Owned(format!("{}{}", &line[..position], &line[position + 1..])),
        None => Cow::Borrowed(line),
    }
}

/// Returns the byte offset of the backslashes that escape the start of a line; `None` when it has none.
fn escape_position(line: &str) -> Option<usize> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let sign = line[digits..].strip_prefix('\\')?.trim_start_matches('\\');
    let signs: &[char] = if digits > 0 { &['.', ')'] } else { &BLOCK_SIGNS };
    sign.starts_with(signs).then_some(digits)
}

/// Normalizes a summary, limits it to [`BODY_ITEMS_MAX`] items, and cuts it until its Markdown without the facts has at most `tokens_max` tokens.
///
/// The notes of the summary list every item that the cut removed or shortened. The cut removes whole items first, the least needed kinds first, down to [`BODY_ITEMS_MIN`]; then sentences from the
/// end of the longest item; then it shortens the TL;DR and the title.
///
/// Validity takes precedence over the budget: no cut leaves fewer than [`BODY_ITEMS_MIN`] items, so with a very small
/// budget the result is as short as such a summary can be, and exceeds the budget.
pub fn fit_summary(mut summary: HandoffSummary, tokens_max: u64) -> FittedSummary {
    summary.title = normalize_line(&summary.title);
    summary.tldr = normalize_line(&summary.tldr);
    for item in &mut summary.body {
        item.text = normalize_lines(&item.text);
        item.unfound.iter_mut().for_each(|name| *name = normalize_line(name));
    }
    summary.body.retain(|item| !item.text.is_empty());
    let excess = summary.body.split_off(summary.body.len().min(BODY_ITEMS_MAX));
    let excess = excess.into_iter().map(|item| LeftOutItem { item, reason: LeftOutReason::TooMany });
    summary.notes.left_out.extend(excess);
    let mut md = render_body(&summary);
    let tokens_before = tokens::estimate_tokens(&md);
    let whole = summary.body.clone();
    let mut is_cut = false;
    // No single text can be longer than the whole budget, so an oversized one is cut to it at once. This bounds the
    // number of rounds.
    let graphemes_max = usize::try_from(tokens_max.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
    while !tokens::fits(&md, tokens_max) && shorten_once(&mut summary, graphemes_max) {
        is_cut = true;
        md = render_body(&summary);
    }
    summary.notes.left_out.extend(left_out_items(whole, &summary.body));
    for item in &mut summary.body {
        // An unfound name whose sentence was cut is not in the item any more.
        item.unfound.retain(|name| item.text.contains(name.as_str()));
    }
    let cut = is_cut.then(|| SummaryCut { tokens_before, tokens_after: tokens::estimate_tokens(&md) });
    FittedSummary { summary, cut }
}

/// Returns the items of `whole` that `body`, its cut form, does not contain or contains shortened. Both are in the same order.
fn left_out_items(whole: Vec<SummaryItem>, body: &[SummaryItem]) -> Vec<LeftOutItem> {
    let mut remaining = body.iter().peekable();
    let mut left_out = Vec::new();
    for item in whole {
        let is_cut_form = |cut: &&SummaryItem| {
            let beginning = cut.text.trim_end_matches('…').trim_end();
            cut.kind == item.kind && cut.refs == item.refs && item.text.starts_with(beginning)
        };
        match remaining.next_if(is_cut_form) {
            Some(cut) if cut.text == item.text => {}
            Some(_) => left_out.push(LeftOutItem { item, reason: LeftOutReason::Shortened }),
            None => left_out.push(LeftOutItem { item, reason: LeftOutReason::TooLong }),
        }
    }
    left_out
}

/// The kinds in the order in which their items are removed.
const DROP_ORDER: [SummaryItemKind; 6] = [
    SummaryItemKind::Artifact,
    SummaryItemKind::Progress,
    SummaryItemKind::Blocker,
    SummaryItemKind::Decision,
    SummaryItemKind::NextStep,
    SummaryItemKind::Objective,
];

/// Makes one cut. Returns false when the summary cannot be shortened further.
fn shorten_once(summary: &mut HandoffSummary, graphemes_max: usize) -> bool {
    if summary.body.len() > BODY_ITEMS_MIN && drop_item(&mut summary.body) {
        return true;
    }
    let mut longest_first: Vec<&mut String> = summary.body.iter_mut().map(|item| &mut item.text).collect();
    longest_first.sort_by_key(|text| Reverse(text.chars().count()));
    longest_first.into_iter().any(|text| drop_sentence(text, graphemes_max))
        || shorten(&mut summary.tldr, TLDR_GRAPHEMES_MAX)
        || shorten(&mut summary.title, TITLE_GRAPHEMES_MAX)
}

/// Removes the last item of the least needed kind. A kind loses its only item just when no kind has more than one.
/// Returns false when there is no item.
fn drop_item(body: &mut Vec<SummaryItem>) -> bool {
    let count = |kind: &SummaryItemKind| body.iter().filter(|item| item.kind == *kind).count();
    let repeated = DROP_ORDER.into_iter().find(|kind| count(kind) > 1);
    let kind = repeated.or_else(|| DROP_ORDER.into_iter().find(|kind| count(kind) > 0));
    let index = kind.and_then(|kind| body.iter().rposition(|item| item.kind == kind));
    if let Some(index) = index {
        body.remove(index);
    }
    index.is_some()
}

/// Cuts `text` to `graphemes_max` grapheme clusters, then removes its last line, else its last sentence, else the end
/// of its only sentence. Returns false when `text` is as short as it may get.
fn drop_sentence(text: &mut String, graphemes_max: usize) -> bool {
    let length_before = text.len();
    *text = truncate_with_ellipsis(text, graphemes_max.max(DENSE_CHARS_MIN));
    if let Some(end) = text.rfind('\n') {
        text.truncate(end);
        return true;
    }
    let last = model::sentence_ranking::split_sentences(text).last().unwrap_or_default();
    match text.trim_end().strip_suffix(last.trim_end()).map(|remaining| remaining.trim_end().len()) {
        Some(end) if end > 0 && end < text.len() => {
            text.truncate(end);
            true
        }
        Some(_) | None => shorten(text, usize::MAX) || text.len() < length_before,
    }
}

/// Cuts `text` to two thirds of its length, or to `graphemes_max` if that is less. Returns false when it is as short
/// as it may get.
fn shorten(text: &mut String, graphemes_max: usize) -> bool {
    let graphemes = text.graphemes(true).count();
    let target = (graphemes * 2 / 3).min(graphemes_max);
    let shorter = if target >= GRAPHEMES_MIN {
        truncate_with_ellipsis(text, target)
    } else if tokens::fits(text, DENSE_CHARS_MIN as u64 / CHARS_PER_TOKEN) {
        return false;
    } else if graphemes > 2 {
        truncate_with_ellipsis(text, target.max(2))
    } else {
        // No script needs that many combining marks on a letter. Cutting them leaves the letter readable.
        text.chars().take(GRAPHEMES_MIN).collect()
    };
    let is_shorter = shorter.len() < text.len();
    *text = shorter;
    is_shorter
}
