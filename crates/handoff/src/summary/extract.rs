//! The offline summary: the ledger's facts told in a budget, the most needed first. It invents no word that names
//! something: everything but the labels is from the thread.

use model::tokens::{self, CHARS_PER_TOKEN};
use protocol::{CarryOver, ItemKind, Seq, SummaryItem, TodoStatus};

use crate::limits::{BODY_ITEMS_MIN, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::summary::render;
use facts::Goal;
use facts::phrase::{clip, count, plain, weight, without_tags};
use facts::tool_use::head;
use facts::{Facts, Quote};
use section::{SECTIONS, Section, Shown, Source};

mod files;
mod section;
#[cfg(test)]
mod tests;

/// Seqs an item names at most.
const REFS_MAX: usize = 12;
/// Graphemes of the title in a summary of ordinary size; it is said again, in full, as the objective.
const TITLE_GRAPHEMES: usize = 64;
/// Bytes of a request in which its title is looked for.
const TITLE_BYTES_MAX: usize = 2_000;
/// Words that carry meaning below which a request says too little alone.
pub(crate) const REQUEST_WEIGHT_MIN: usize = 6;

/// A summary without the parts that only its handoff knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Extract {
    /// What the thread is about.
    pub title: String,
    /// Where things stand.
    pub tldr: String,
    /// 3–6 items, one for each kind that has something to say, in order.
    pub body: Vec<SummaryItem>,
    /// What goes along whatever the text says.
    pub carry_over: CarryOver,
}

/// One line of an item, and the events it rests on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pub text: String,
    pub refs: Vec<Seq>,
}

/// Returns the summary of what the ledger knows, for the next thread's `goal` if the person gave one, in about
/// `tokens_max` tokens of Markdown.
///
/// There are no facts for which there is no summary. A limit too small for any summary is exceeded;
/// [`render::fit`] then cuts as far as a valid one allows.
pub fn extract(facts: &Facts, goal: Option<&Goal>, tokens_max: u64) -> Extract {
    let title = title(facts, goal.map(Goal::text));
    let tldr = tldr(facts);
    let mut chars_max = usize::try_from(tokens_max.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
    let frame = render::markdown(&title, &tldr, &[]).chars().count() + headings_chars();
    chars_max = chars_max.saturating_sub(frame);
    let source = Source { facts, goal, statements: &section::ranked_statements(facts, goal) };
    loop {
        let body = body(&source, chars_max);
        // Sections are planned in characters before escaping; a line that needed escapes is paid for here.
        let fits = tokens::fits(&render::markdown(&title, &tldr, &body), tokens_max);
        if fits || chars_max < 80 {
            return Extract { title, tldr, body, carry_over: facts.carry_over() };
        }
        chars_max -= chars_max / 24 + 1;
    }
}

/// Returns what the headings of a summary cost.
fn headings_chars() -> usize {
    ItemKind::ALL.into_iter().map(|kind| render::heading(kind).len() + "\n### \n".len()).sum()
}

/// Plans the sections in `chars_max` characters: first each within its share, then what is left over goes to
/// those that have more to say, the most needed first.
fn body(source: &Source<'_>, chars_max: usize) -> Vec<SummaryItem> {
    let mut used = Vec::with_capacity(SECTIONS.len());
    let mut shown = Shown::default();
    for section in SECTIONS {
        let share = chars_max * section.share_percent / 100;
        let lines = build(section, source, share.min(section.chars_max), &shown);
        shown.add(&lines);
        used.push(cost(&lines));
    }
    let mut left = chars_max.saturating_sub(used.iter().sum());
    let mut shown = Shown::default();
    let mut told: Vec<(ItemKind, Vec<Line>)> = Vec::with_capacity(SECTIONS.len());
    for (section, used) in SECTIONS.iter().zip(used) {
        let lines = build(section, source, (used + left).min(section.chars_max.max(used)), &shown);
        left = (left + used).saturating_sub(cost(&lines));
        shown.add(&lines);
        told.push((section.kind_in(source.facts), lines));
    }
    items(source.facts, told)
}

fn build(section: &Section, source: &Source<'_>, chars_max: usize, shown: &Shown) -> Vec<Line> {
    let mut lines = (section.build)(&section::Request { source, facts: source.facts, chars_max, shown });
    lines.retain(|line| !line.text.is_empty());
    lines
}

/// Returns the characters lines take as bullets.
fn cost(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.text.chars().count() + "- \n".len()).sum()
}

/// Makes one item of each kind's lines; an honest sentence stands where fewer than three kinds have any.
fn items(facts: &Facts, told: Vec<(ItemKind, Vec<Line>)>) -> Vec<SummaryItem> {
    let mut items: Vec<SummaryItem> = Vec::with_capacity(ItemKind::ALL.len());
    for kind in ItemKind::ALL {
        let lines: Vec<&Line> =
            told.iter().filter(|(of, _)| *of == kind).flat_map(|(_, lines)| lines).collect();
        if lines.is_empty() {
            continue;
        }
        let mut refs: Vec<Seq> =
            lines.iter().flat_map(|line| line.refs.iter().copied()).filter(|seq| *seq > 0).collect();
        refs.sort_unstable();
        refs.dedup();
        let beyond = refs.len().saturating_sub(REFS_MAX);
        refs.drain(..beyond);
        let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        items.push(SummaryItem { kind, text, refs, verified: true, unfound: Vec::new() });
    }
    for (kind, text) in fallbacks(facts) {
        if items.len() >= BODY_ITEMS_MIN {
            break;
        }
        if items.iter().all(|item| item.kind != kind) {
            items.push(SummaryItem {
                kind,
                text: text.to_owned(),
                refs: Vec::new(),
                verified: true,
                unfound: Vec::new(),
            });
        }
    }
    items.sort_by_key(|item| item.kind);
    items
}

/// Returns what can be said truthfully of kinds that nothing was found for.
fn fallbacks(facts: &Facts) -> [(ItemKind, &'static str); 4] {
    let progress = match facts.messages {
        0 => "The thread holds no messages.",
        _ => "The covered messages name no result.",
    };
    [
        (ItemKind::Objective, "No request was made in the covered messages."),
        (ItemKind::NextStep, "Nothing was left open in the covered messages."),
        (ItemKind::Decision, "Nothing was decided in the covered messages."),
        (ItemKind::Progress, progress),
    ]
}

/// Returns the request that says what the work is for: the first recent one that says enough, else the first of all.
pub(crate) fn objective(facts: &Facts) -> Option<&Quote> {
    let recent = || facts.requests.iter().filter(|quote| quote.seq >= facts.recent_from);
    let says_enough = |quote: &&Quote| weight(&quote.text) >= REQUEST_WEIGHT_MIN;
    recent()
        .find(says_enough)
        .or_else(|| facts.origin.as_ref().filter(says_enough))
        .or_else(|| recent().max_by_key(|quote| weight(&quote.text)))
        .or(facts.requests.last())
        .or(facts.origin.as_ref())
}

fn title(facts: &Facts, goal: Option<&str>) -> String {
    let said = goal.map(str::to_owned).or_else(|| objective(facts).map(|quote| quote.text.clone()));
    let source = said.or_else(|| facts.proven_summary.as_ref().map(|quote| quote.text.clone()));
    let text = source.map(|text| first_sentence(&text)).unwrap_or_default();
    if text.is_empty() {
        let first = facts.statements.first().map(|quote| clip(&first_sentence(&quote.text), TITLE_GRAPHEMES));
        return first
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| "Thread without a request".to_owned());
    }
    clip(&with_short_paths(&text), TITLE_GRAPHEMES.min(TITLE_GRAPHEMES_MAX))
}

/// Returns `text` with the folders of its paths left out; a title has no room for them.
fn with_short_paths(text: &str) -> String {
    let short = |word: &str| match word.rsplit_once('/') {
        Some((folders, name)) if !folders.ends_with('/') && name.contains('.') && !word.contains("//") => {
            let opening: String = folders.chars().take_while(|c| "`\"'(".contains(*c)).collect();
            format!("{opening}{name}")
        }
        Some(_) | None => word.to_owned(),
    };
    text.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// Returns the first sentence that says something, without the mark it ends on.
fn first_sentence(text: &str) -> String {
    let text = without_tags(head(text, TITLE_BYTES_MAX));
    let sentences: Vec<String> = model::extractive::sentences(&text)
        .take(8)
        .map(plain)
        .filter(|sentence| !sentence.is_empty())
        .collect();
    let telling = sentences
        .iter()
        .find(|sentence| weight(sentence) >= 3 && sentence.contains(' '))
        .or(sentences.first());
    let sentence = telling.map(|sentence| render::line(sentence)).unwrap_or_default();
    let sentence = sentence.trim_end_matches(['.', ':', '!', ' ', ',']);
    let first_word = sentence.split(' ').next().unwrap_or_default();
    if first_word.contains(|c: char| c.is_ascii_digit() || "/._`:(".contains(c)) {
        // A name is spelled as it is.
        return sentence.to_owned();
    }
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns where things stand, in one sentence.
fn tldr(facts: &Facts) -> String {
    if facts.messages == 0 {
        return "Nothing was said in this thread.".to_owned();
    }
    let mut parts = Vec::new();
    let written = facts.files.iter().filter(|file| file.written_at >= facts.recent_from).count();
    if written > 0 {
        parts.push(format!("{} changed", count(written, "file")));
    }
    if let Some(run) = facts.checks.first().filter(|run| run.seq >= facts.recent_from) {
        parts.push(format!("`{}` {}", run.name, if run.failed() { "failed last" } else { "passed last" }));
    }
    if !facts.todos.is_empty() {
        let open = facts.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).count();
        parts.push(format!("{open} of {} open", count(facts.todos.len(), "task")));
    }
    parts.push(match (&facts.requests.is_empty(), facts.is_answered, &facts.awaited) {
        (true, _, _) => "nobody asked for anything".to_owned(),
        (false, true, Some(_)) => "the assistant asked back and waits for an answer".to_owned(),
        (false, true, None) => "the last request was answered".to_owned(),
        (false, false, _) => "the last request is pending".to_owned(),
    });
    let sentence = parts.join(", ");
    let mut letters = sentence.chars();
    let sentence: String =
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default();
    clip(&format!("{sentence}."), TLDR_GRAPHEMES_MAX)
}
