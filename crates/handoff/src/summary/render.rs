//! The one function from a summary's JSON to the Markdown that is shown, stored and injected, and the cut that keeps
//! both within a limit. The text of a summary is data here: it cannot end its block or break the Markdown around it.

use model::tokens;
use protocol::{HandoffSummary, ItemKind, SummaryItem};

use crate::limits::{BODY_ITEMS_MIN, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::summary::phrase::{clip, flat};

#[cfg(test)]
mod tests;

/// The element of `agent.md` that a summary's text must not open or close.
const BLOCK_ELEMENT: &str = "current_thread_summary";
/// What is shown after an item that names something its source does not contain.
pub(crate) const UNVERIFIED: &str = " (unverified)";
/// Graphemes below which a title, TL;DR or last sentence is not shortened further.
const GRAPHEMES_MIN: usize = 24;

/// Returns the summary as Markdown.
pub fn render(summary: &HandoffSummary) -> String {
    markdown(&summary.title, &summary.tldr, &summary.body)
}

/// Returns title, TL;DR and items as Markdown: each kind under its heading, each line of an item one bullet.
pub fn markdown(title: &str, tldr: &str, body: &[SummaryItem]) -> String {
    let mut md = format!("**{}**\n{}\n", inert(title).replace("**", ""), guarded(&inert(tldr)));
    for kind in ItemKind::ALL {
        let mut items = body.iter().filter(|item| item.kind == kind).peekable();
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
    let lines: Vec<String> = item.text.lines().map(inert).filter(|line| !line.is_empty()).collect();
    for (index, line) in lines.iter().enumerate() {
        md.push_str("- ");
        md.push_str(&guarded(line));
        if !item.verified && index + 1 == lines.len() {
            md.push_str(UNVERIFIED);
        }
        md.push('\n');
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

/// Returns `text` on one line, without characters that hide or reorder others, and unable to open or close the block.
pub(crate) fn inert(text: &str) -> String {
    without_markers(flat(&without_hidden(text)).replace("```", "`"))
}

/// Returns `text` without characters that hide or reorder others; white space and control characters become spaces.
pub(crate) fn without_hidden(text: &str) -> String {
    model::inert::visible(&text.replace(|c: char| c.is_whitespace() || c.is_control(), " "))
}

/// Replaces the bracket before the block's element by one that looks alike and means nothing.
fn without_markers(mut text: String) -> String {
    let mut from = 0;
    while let Some(at) = text[from..].find('<').map(|found| from + found) {
        let name = text[at + 1..].trim_start_matches(['/', ' ']);
        if name.get(..BLOCK_ELEMENT.len()).is_some_and(|head| head.eq_ignore_ascii_case(BLOCK_ELEMENT)) {
            text.replace_range(at..=at, "‹");
        }
        from = at + 1;
        while !text.is_char_boundary(from) {
            from += 1;
        }
    }
    text
}

/// Escapes the start of a line where Markdown would read a block: a heading, list, quote, fence, rule, table or HTML.
fn guarded(line: &str) -> String {
    if ["[ ] ", "[x] "].iter().any(|task| line.starts_with(task)) {
        return line.to_owned();
    }
    let marker_length = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=9).contains(&marker_length) && line[marker_length..].starts_with(['.', ')']);
    if numbered && line[marker_length + 1..].starts_with([' ']) {
        return format!("{}\\{}", &line[..marker_length], &line[marker_length..]);
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

/// Returns the summary within `tokens_max` tokens of Markdown, and whether something was cut.
///
/// Whole items go first, the least needed kinds first, down to three; then sentences from the end of the longest
/// item; then title and TL;DR. What remains below a very small limit is as short as a valid summary can be.
pub fn fit(mut summary: HandoffSummary, tokens_max: u64) -> (HandoffSummary, bool) {
    let mut cut = false;
    while !tokens::fits(&render(&summary), tokens_max) {
        if !cut_once(&mut summary) {
            break;
        }
        cut = true;
    }
    (summary, cut)
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
fn cut_once(summary: &mut HandoffSummary) -> bool {
    let repeated = |kind: &ItemKind| summary.body.iter().filter(|item| item.kind == *kind).count() > 1;
    let kind = LEAST_NEEDED
        .into_iter()
        .find(repeated)
        .or_else(|| LEAST_NEEDED.into_iter().find(|kind| summary.body.iter().any(|item| item.kind == *kind)));
    if summary.body.len() > BODY_ITEMS_MIN
        && let Some(at) = kind.and_then(|kind| summary.body.iter().rposition(|item| item.kind == kind))
    {
        summary.body.remove(at);
        return true;
    }
    let longest = summary.body.iter_mut().max_by_key(|item| item.text.len());
    if let Some(item) = longest
        && let Some(shorter) = without_last_sentence(&item.text)
    {
        item.text = shorter;
        return true;
    }
    shorten(&mut summary.tldr, TLDR_GRAPHEMES_MAX) || shorten(&mut summary.title, TITLE_GRAPHEMES_MAX)
}

/// Returns `text` without its last line, sentence or, when it is only one, its second half.
fn without_last_sentence(text: &str) -> Option<String> {
    if let Some((first, _)) = text.trim_end().rsplit_once('\n') {
        return Some(first.to_owned());
    }
    let ends = model::extractive::sentences(text).count();
    if ends > 1 {
        let kept: Vec<&str> = model::extractive::sentences(text).take(ends - 1).collect();
        return Some(kept.join(" "));
    }
    let mut shorter = text.to_owned();
    shorten(&mut shorter, usize::MAX).then_some(shorter)
}

/// Cuts `text` to two thirds of its length, or to `graphemes_max` if that is less.
fn shorten(text: &mut String, graphemes_max: usize) -> bool {
    let length = text.chars().count();
    let target = (length * 2 / 3).min(graphemes_max);
    if target < GRAPHEMES_MIN {
        return false;
    }
    let shorter = clip(text, target);
    let changed = shorter.len() < text.len();
    *text = shorter;
    changed
}
