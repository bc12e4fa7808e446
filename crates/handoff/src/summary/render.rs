//! The one function from a summary's JSON to the Markdown that is shown, stored and injected, and the cut that keeps
//! both within a limit. The text of a summary is data here: it cannot end its block or break the Markdown around it.
//!
//! In JSON a text is what people read: nothing in it hides or reorders. In Markdown it is inert as well: what is
//! injected into a prompt is what was shown, byte for byte, because making it inert once more changes nothing.

use std::borrow::Cow;
use std::cmp::Reverse;

use memory::block;
use model::tokens::CHARS_PER_TOKEN;
use model::{inert, tokens};
use protocol::{HandoffSummary, ItemKind, SummaryItem};
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::{BODY_ITEMS_MIN, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use facts::phrase::{clip, flat};

#[cfg(test)]
mod tests;
/// Graphemes below which a title, TL;DR or last sentence is not shortened further.
const GRAPHEMES_MIN: usize = 24;
/// Plain characters above which so few graphemes are letters with marks piled on them, or signs of many tokens each.
const PILED_CHARS_MIN: usize = 4 * GRAPHEMES_MIN;

/// A summary within its limit, and what that took.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The summary.
    pub summary: HandoffSummary,
    /// What was cut; `None` when it is whole.
    pub cut: Option<Cut>,
}

/// How long a summary's Markdown was before it was cut, and is since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Tokens of the whole.
    pub tokens_before: u64,
    /// Tokens that are left; over the limit only when no valid summary is within it.
    pub tokens_after: u64,
}

/// Returns the summary as Markdown.
pub fn render(summary: &HandoffSummary) -> String {
    markdown(&summary.title, &summary.tldr, &summary.body)
}

/// Returns title, TL;DR and items as Markdown: each kind under its heading, each line of an item one bullet.
pub fn markdown(title: &str, tldr: &str, body: &[SummaryItem]) -> String {
    // Two asterisks within the title would end its emphasis.
    let mut md = format!("**{}**\n{}\n", inert(&line(title).replace("**", "")), guarded(&inert(tldr)));
    for kind in ItemKind::ALL {
        let mut items =
            body.iter().filter(|item| item.kind == kind && !settled(&item.text).is_empty()).peekable();
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

fn push_bullets(md: &mut String, item: &SummaryItem) {
    let text = settled(&item.text);
    for line in text.lines() {
        md.push_str("- ");
        md.push_str(&guarded(&inert(line)));
        md.push('\n');
    }
    if !item.verified {
        md.insert_str(md.len() - 1, SummaryItem::UNVERIFIED);
    }
}

/// Returns the heading of a kind.
pub const fn heading(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Objective => "Objective",
        ItemKind::Progress => "Progress",
        ItemKind::Decision => "Decisions",
        ItemKind::NextStep => "Next steps",
        ItemKind::Blocker => "Blockers",
        ItemKind::Artifact => "Artifacts",
    }
}

/// Returns the lines of an item as they are kept: each on its own, without what hides, none empty.
pub(crate) fn settled(text: &str) -> String {
    text.lines().map(line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns `text` on one line, without characters that hide or reorder others, and unable to open a fence.
pub(crate) fn line(text: &str) -> String {
    let mut line = flat(&without_hidden(text));
    // What is left of a long row of them may be a fence again.
    while line.contains("```") {
        line = line.replace("```", "`");
    }
    line
}

/// Returns what [`line()`] returns, with everything that could be read as a tag escaped: it can neither open nor close
/// the block or another delimiter, and stays what it is when it is made inert again.
pub(crate) fn inert(text: &str) -> String {
    block::neutralise(&inert::text(&line(text)))
}

/// Returns `text` without characters that hide or reorder others; white space and control characters become spaces.
pub(crate) fn without_hidden(text: &str) -> String {
    inert::visible(&text.replace(|c: char| c.is_whitespace() || c.is_control(), " "))
}

/// What a backslash before it makes text, where Markdown would read the start of a block.
const BLOCK_SIGNS: [char; 11] = ['#', '>', '<', '|', '~', '[', '-', '*', '+', '_', '='];

/// Escapes the start of a line where Markdown would read a block: a heading, list, quote, fence, rule, table or HTML;
/// and where the line itself begins with such an escape. [`unguarded`] takes it back.
fn guarded(line: &str) -> String {
    if ["[ ] ", "[x] "].iter().any(|task| line.starts_with(task)) {
        return line.to_owned();
    }
    if let Some(at) = escaped(line) {
        return format!("{}\\{}", &line[..at], &line[at..]);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=9).contains(&digits) && line[digits..].starts_with(['.', ')']);
    if numbered && line[digits + 1..].starts_with([' ']) {
        return format!("{}\\{}", &line[..digits], &line[digits..]);
    }
    let mut rest = line.chars();
    let first = rest.next().unwrap_or(' ');
    let spaced = rest.as_str().is_empty() || rest.as_str().starts_with(' ');
    let rule_only = !line.is_empty() && line.chars().all(|c| matches!(c, '-' | '*' | '_' | '=' | ' '));
    let opens = match first {
        '#' | '>' | '<' | '|' | '~' => true,
        '[' => line.contains("]:"),
        '-' | '*' | '+' => spaced || rule_only,
        '_' | '=' => rule_only,
        _ => false,
    };
    if opens { format!("\\{line}") } else { line.to_owned() }
}

/// Returns a line without the backslash that rendering puts before what Markdown would read as a block.
pub(crate) fn unguarded(line: &str) -> Cow<'_, str> {
    match escaped(line) {
        Some(at) => Cow::Owned(format!("{}{}", &line[..at], &line[at + 1..])),
        None => Cow::Borrowed(line),
    }
}

/// Returns where the backslashes are that make the start of a line text.
fn escaped(line: &str) -> Option<usize> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let sign = line[digits..].strip_prefix('\\')?.trim_start_matches('\\');
    let signs: &[char] = if digits > 0 { &['.', ')'] } else { &BLOCK_SIGNS };
    sign.starts_with(signs).then_some(digits)
}

/// Returns the summary as it is kept, within `tokens_max` tokens of Markdown, and what was cut for that.
///
/// Whole items go first, the least needed kinds first, down to three; then sentences from the end of the longest
/// item; then TL;DR and title. A valid summary comes before the limit: no cut leaves fewer than three items, so
/// below a very small limit what remains is as short as a summary of three items can be, and longer than the limit.
pub fn fit(mut summary: HandoffSummary, tokens_max: u64) -> Fitted {
    summary.title = line(&summary.title);
    summary.tldr = line(&summary.tldr);
    for item in &mut summary.body {
        item.text = settled(&item.text);
        item.unfound.iter_mut().for_each(|name| *name = line(name));
    }
    summary.body.retain(|item| !item.text.is_empty());
    let mut md = render(&summary);
    let tokens_before = tokens::estimate(&md);
    let mut is_cut = false;
    // No text longer than the whole may be can stay; the rest is cut with more care.
    let graphemes_max = usize::try_from(tokens_max.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
    while !tokens::fits(&md, tokens_max) && cut_once(&mut summary, graphemes_max) {
        is_cut = true;
        md = render(&summary);
    }
    for item in &mut summary.body {
        // A name that went with its sentence is nothing to check any more.
        item.unfound.retain(|name| item.text.contains(name.as_str()));
    }
    let cut = is_cut.then(|| Cut { tokens_before, tokens_after: tokens::estimate(&md) });
    Fitted { summary, cut }
}

/// The order in which kinds are given up.
const LEAST_NEEDED: [ItemKind; 6] = [
    ItemKind::Artifact,
    ItemKind::Progress,
    ItemKind::Blocker,
    ItemKind::Decision,
    ItemKind::NextStep,
    ItemKind::Objective,
];

/// Makes the summary a little shorter; returns false when nothing can be given up.
fn cut_once(summary: &mut HandoffSummary, graphemes_max: usize) -> bool {
    if summary.body.len() > BODY_ITEMS_MIN && drop_item(&mut summary.body) {
        return true;
    }
    let mut longest_first: Vec<&mut String> = summary.body.iter_mut().map(|item| &mut item.text).collect();
    longest_first.sort_by_key(|text| Reverse(text.chars().count()));
    longest_first.into_iter().any(|text| drop_sentence(text, graphemes_max))
        || shorten(&mut summary.tldr, TLDR_GRAPHEMES_MAX)
        || shorten(&mut summary.title, TITLE_GRAPHEMES_MAX)
}

/// Removes the last item of the kind that is needed least; a kind goes altogether only when each has one item left.
fn drop_item(body: &mut Vec<SummaryItem>) -> bool {
    let count = |kind: &ItemKind| body.iter().filter(|item| item.kind == *kind).count();
    let repeated = LEAST_NEEDED.into_iter().find(|kind| count(kind) > 1);
    let kind = repeated.or_else(|| LEAST_NEEDED.into_iter().find(|kind| count(kind) > 0));
    let at = kind.and_then(|kind| body.iter().rposition(|item| item.kind == kind));
    if let Some(at) = at {
        body.remove(at);
    }
    at.is_some()
}

/// Cuts the last line, sentence or, when it is only one, its end, and all that is beyond `graphemes_max`; returns false
/// when `text` is as short as it may get.
fn drop_sentence(text: &mut String, graphemes_max: usize) -> bool {
    let whole = text.len();
    *text = clip(text, graphemes_max.max(PILED_CHARS_MIN));
    if let Some(end) = text.rfind('\n') {
        text.truncate(end);
        return true;
    }
    let last = model::extractive::sentences(text).last().unwrap_or_default();
    match text.trim_end().strip_suffix(last.trim_end()).map(|kept| kept.trim_end().len()) {
        Some(end) if end > 0 && end < text.len() => {
            text.truncate(end);
            true
        }
        Some(_) | None => shorten(text, usize::MAX) || text.len() < whole,
    }
}

/// Cuts `text` to two thirds of its length, or to `graphemes_max` if that is less; returns false when it is as short as
/// it may get.
fn shorten(text: &mut String, graphemes_max: usize) -> bool {
    let graphemes = text.graphemes(true).count();
    let target = (graphemes * 2 / 3).min(graphemes_max);
    let shorter = if target >= GRAPHEMES_MIN {
        clip(text, target)
    } else if tokens::fits(text, PILED_CHARS_MIN as u64 / CHARS_PER_TOKEN) {
        return false;
    } else if graphemes > 2 {
        clip(text, target.max(2))
    } else {
        // No script needs so many marks on a letter; what is left of them is still one.
        text.chars().take(GRAPHEMES_MIN).collect()
    };
    let is_shorter = shorter.len() < text.len();
    *text = shorter;
    is_shorter
}
