//! The offline summary: a summary built from the facts of a thread without a model, within a token budget, the most
//! needed facts first.
//!
//! Every name in it comes from the thread; only the labels and the number of messages of a thread without facts are
//! fixed texts.

use model::tokens::{self, CHARS_PER_TOKEN};
use protocol::{CarriedFacts, Seq, SummaryItem, SummaryItemKind, TodoStatus};

use crate::limits::TLDR_GRAPHEMES_MAX;
use crate::summary::render;
use crate::summary::render::facts::FactSection;
use facts::GoalMatcher;
use facts::formatting::{count_content_words, pluralize, strip_markdown, truncate_with_ellipsis};
use facts::{ConversationFacts, Quote};
use section::{SECTIONS, SectionSource, ShownText, SummarySection};
use unicode_segmentation::UnicodeSegmentation;

/// The beginnings of next steps that quote a request, each followed by the quotation.
pub(crate) const REQUEST_LABELS: [&str; 4] =
    ["Pending request", "Last request", EARLIER_REQUEST_LABEL, QUESTION_LABEL];
/// The label of a request before the last one.
pub(crate) const EARLIER_REQUEST_LABEL: &str = "Before it";
/// The label of a question of the assistant.
pub(crate) const QUESTION_LABEL: &str = "The assistant asked";
/// The label of a last request that was answered.
pub(crate) const ANSWERED_REQUEST_LABEL: &str = "Last request, answered";

/// Returns the label and the quote of a next step that quotes a request.
pub(crate) fn quoted_request(text: &str) -> Option<(&str, &str)> {
    let (label, quote) = text.split_once(": \"")?;
    let quote = quote.trim_end_matches('.').strip_suffix('"')?;
    REQUEST_LABELS.iter().any(|known| label.starts_with(known)).then_some((label, quote))
}

mod current_task;
mod files;
mod in_use;
mod objective;
pub(crate) mod open_tasks;
mod quotes;
mod section;
mod statements;
mod superseded;
#[cfg(test)]
mod tests;
mod title;
mod topic;

/// The maximum number of seqs that an item refers to.
const REFS_MAX: usize = 12;
/// The number of content words below which a request is too short to be understood alone.
pub(crate) const REQUEST_WEIGHT_MIN: usize = 6;

/// An offline summary, without the fields that belong to a certain handoff.
#[derive(Debug, Clone, PartialEq)]
pub struct OfflineSummary {
    /// The topic of the thread, or the goal.
    pub title: String,
    /// The state of the work, in one sentence.
    pub tldr: String,
    /// 1 to 6 items, at most one for each kind, in the order of the kinds. A kind of which nothing is known has none.
    pub body: Vec<SummaryItem>,
    /// The facts that are carried over whatever the text says, with the names in use that the items do not contain.
    pub carried: CarriedFacts,
}

impl OfflineSummary {
    /// Returns the text that the token limit applies to: title, TL;DR, items and the names in use. The other facts have a limit
    /// of their own.
    pub fn to_markdown(&self) -> String {
        let Self { title, tldr, body, carried } = self;
        render::render_markdown(title, tldr, body) + &names_markdown(&carried.in_use)
    }
}

/// Returns the section of the names in use.
fn names_markdown(names: &[String]) -> String {
    render::facts_markdown(&CarriedFacts { in_use: names.to_vec(), ..CarriedFacts::default() })
}

/// A line of an item, and the events it is based on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SummaryLine {
    /// The text, without a bullet.
    pub text: String,
    /// The seqs of the events.
    pub refs: Vec<Seq>,
}

/// Returns the offline summary of `facts`, for the child thread's `goal` if there is one, in about `tokens_max`
/// tokens of Markdown.
///
/// The function never fails: there is a summary for any facts, even for an empty thread. A budget too small for any
/// summary is exceeded; [`render::fit_summary`] then cuts as far as a valid summary allows.
pub fn build_offline_summary(
    facts: &ConversationFacts,
    goal: Option<&GoalMatcher>,
    tokens_max: u64,
) -> OfflineSummary {
    let title = title::title(facts, goal.map(GoalMatcher::text));
    let tldr = tldr(facts);
    let mut chars_max = usize::try_from(tokens_max.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
    let frame = render::render_markdown(&title, &tldr, &[]).chars().count() + headings_chars();
    let facts_to_carry = facts.carried_facts();
    chars_max = chars_max.saturating_sub(frame);
    let statements = &statements::ranked_statements(facts, goal);
    let source = SectionSource { facts, goal, title: &title, statements, tokens_max };
    loop {
        let PlannedBody { items, names } = plan_body(&source, chars_max);
        let carried = CarriedFacts { in_use: names, ..facts_to_carry.clone() };
        let summary = OfflineSummary { title: title.clone(), tldr: tldr.clone(), body: items, carried };
        // The sections are planned in characters before escaping. If escapes make the text too long, the plan is
        // repeated with fewer characters.
        if tokens::fits(&summary.to_markdown(), tokens_max) || chars_max < 80 {
            return summary;
        }
        chars_max -= chars_max / 24 + 1;
    }
}

/// Returns the names that the next turns will probably use and that `shown`, a summary of about `tokens_max` tokens, does not
/// contain, the likeliest first.
pub(crate) fn names_in_use(
    facts: &ConversationFacts,
    goal: Option<&GoalMatcher>,
    shown: &str,
    tokens_max: u64,
) -> Vec<String> {
    let source = SectionSource { facts, goal, title: "", statements: &[], tokens_max };
    let mut text = ShownText::default();
    text.add_lines(&[SummaryLine { text: shown.to_owned(), refs: Vec::new() }]);
    let request = section::SectionRequest { source: &source, facts, chars_max: usize::MAX, shown: &text };
    in_use::names_in_use(&section::in_use_request(&request))
}

/// Returns the number of characters of all headings.
fn headings_chars() -> usize {
    let items = SummaryItemKind::ALL.into_iter().map(render::heading);
    items.chain([FactSection::InUse.heading()]).map(|heading| heading.len() + "\n### \n".len()).sum()
}

/// The items of a summary, and the names in use that they do not contain.
struct PlannedBody {
    items: Vec<SummaryItem>,
    names: Vec<String>,
}

/// Builds the sections within `chars_max` characters. A first pass gives each section its share; a second pass gives
/// the characters that are left to sections that need more, the most needed first. At the end the names in use are chosen
/// again without those that later sections show. They are no item, but have their share of the characters.
fn plan_body(source: &SectionSource<'_>, chars_max: usize) -> PlannedBody {
    let mut used = Vec::with_capacity(SECTIONS.len());
    let mut shown = ShownText::default();
    for section in SECTIONS {
        let share = chars_max * section.share_percent / 100;
        let lines = build_section(section, source, share.min(section.chars_max), &shown);
        shown.add_lines(&lines);
        used.push(line_chars(&lines));
    }
    let mut remaining = chars_max.saturating_sub(used.iter().sum());
    let mut shown = ShownText::default();
    let mut sections: Vec<Vec<SummaryLine>> = Vec::with_capacity(SECTIONS.len());
    for (section, used) in SECTIONS.iter().zip(used) {
        let lines =
            build_section(section, source, (used + remaining).min(section.chars_max.max(used)), &shown);
        remaining = (remaining + used).saturating_sub(line_chars(&lines));
        shown.add_lines(&lines);
        sections.push(lines);
    }
    let mut names = Vec::new();
    if let Some(index) = SECTIONS.iter().position(SummarySection::is_in_use_line) {
        let chars_max = line_chars(&std::mem::take(&mut sections[index])) + remaining;
        let mut shown = ShownText::default();
        sections.iter().for_each(|lines| shown.add_lines(lines));
        let request = section::SectionRequest { source, facts: source.facts, chars_max, shown: &shown };
        names = in_use::names_in_use(&section::in_use_request(&request));
    }
    let kinds = SECTIONS.iter().map(|section| section.kind_in(source.facts));
    PlannedBody { items: build_items(source.facts, kinds.zip(sections).collect()), names }
}

/// Builds the non-empty lines of a section.
fn build_section(
    section: &SummarySection,
    source: &SectionSource<'_>,
    chars_max: usize,
    shown: &ShownText,
) -> Vec<SummaryLine> {
    let mut lines =
        (section.build)(&section::SectionRequest { source, facts: source.facts, chars_max, shown });
    lines.retain(|line| !line.text.is_empty());
    lines
}

/// Returns the number of characters of the lines as bullets.
fn line_chars(lines: &[SummaryLine]) -> usize {
    lines.iter().map(|line| line.text.chars().count() + "- \n".len()).sum()
}

/// Combines the lines of each kind into one item. If no kind has lines, the only item is the number of messages.
fn build_items(
    facts: &ConversationFacts,
    sections: Vec<(SummaryItemKind, Vec<SummaryLine>)>,
) -> Vec<SummaryItem> {
    let mut items: Vec<SummaryItem> = Vec::with_capacity(SummaryItemKind::ALL.len());
    for kind in SummaryItemKind::ALL {
        let lines: Vec<&SummaryLine> =
            sections.iter().filter(|(own, _)| *own == kind).flat_map(|(_, lines)| lines).collect();
        if lines.is_empty() {
            continue;
        }
        let mut refs: Vec<Seq> =
            lines.iter().flat_map(|line| line.refs.iter().copied()).filter(|seq| *seq > 0).collect();
        refs.sort_unstable();
        refs.dedup();
        let excess = refs.len().saturating_sub(REFS_MAX);
        refs.drain(..excess);
        let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        let item = verified_item(kind, text, refs);
        items.push(SummaryItem { line_refs: line_refs(&lines), ..item });
    }
    if items.is_empty() {
        items.push(verified_item(SummaryItemKind::Progress, message_count_sentence(facts), Vec::new()));
    }
    items
}

/// Returns the references of each line; none for a single line, or if a text has several lines of its own.
fn line_refs(lines: &[&SummaryLine]) -> Vec<Vec<Seq>> {
    if lines.len() < 2 || lines.iter().any(|line| line.text.contains('\n')) {
        return Vec::new();
    }
    let refs_of = |line: &&SummaryLine| {
        let mut refs: Vec<Seq> = line.refs.iter().copied().filter(|seq| *seq > 0).collect();
        refs.sort_unstable();
        refs.dedup();
        refs
    };
    lines.iter().map(refs_of).collect()
}

/// Returns an item whose names all come from the thread.
fn verified_item(kind: SummaryItemKind, text: String, refs: Vec<Seq>) -> SummaryItem {
    SummaryItem {
        kind,
        text,
        refs,
        verified: true,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }
}

/// Returns the number of covered messages as a sentence.
fn message_count_sentence(facts: &ConversationFacts) -> String {
    match usize::try_from(facts.messages) {
        Ok(0) => "The thread holds no messages.".to_owned(),
        Ok(1) => "1 message is covered.".to_owned(),
        // A number of three digits counts as a name that grounding would have to find in the thread.
        Ok(messages @ ..100) => format!("{messages} messages are covered."),
        Ok(_) | Err(_) => "More than 99 messages are covered.".to_owned(),
    }
}

/// Returns the request that states the objective: the first recent one that has enough content words and states a task,
/// else the thread's first request if a compaction has hidden it, else the first recent one with enough words, else the
/// thread's first request if it has enough, else the recent request with the most, else any request.
pub(crate) fn objective_request(facts: &ConversationFacts) -> Option<&Quote> {
    let recent = || facts.requests.iter().filter(|quote| quote.seq >= facts.recent_from);
    let has_enough_words = |quote: &&Quote| count_content_words(&quote.text) >= REQUEST_WEIGHT_MIN;
    let states_task = |quote: &&Quote| topic::states_task(&quote.text);
    let first = facts.first_request.as_ref();
    recent()
        .find(|quote| has_enough_words(quote) && states_task(quote))
        .or_else(|| first.filter(|quote| quote.seq < facts.recent_from && topic::names_topic(&quote.text)))
        .or_else(|| recent().find(has_enough_words))
        .or_else(|| first.filter(has_enough_words))
        .or_else(|| recent().max_by_key(|quote| count_content_words(&quote.text)))
        .or(facts.requests.last())
        .or(facts.first_request.as_ref())
}

/// Returns whether a request of the thread has enough content words to state an objective.
pub(crate) fn has_own_objective(facts: &ConversationFacts) -> bool {
    objective_request(facts).is_some_and(|quote| count_content_words(&quote.text) >= REQUEST_WEIGHT_MIN)
}

/// Returns one sentence about a thread of which no state is known: what the assistant said last about the work, else the last
/// request, else the number of messages.
fn tldr_without_state(facts: &ConversationFacts) -> String {
    let last = facts.statements.last().map(|quote| quote.text.as_str()).unwrap_or_default();
    let statement = model::sentence_ranking::split_sentences(last)
        .filter(|sentence| statements::is_statement(sentence) && !statements::is_misleading(facts, sentence))
        .map(strip_markdown)
        .find(|sentence| sentence.graphemes(true).count() <= TLDR_GRAPHEMES_MAX);
    let request = || {
        let quote = facts.requests.last()?;
        let line = quotes::quoted_line("The last request was", quote, TLDR_GRAPHEMES_MAX - 8)?;
        Some(line.text.replacen(": ", " ", 1) + ".")
    };
    statement.or_else(request).unwrap_or_else(|| message_count_sentence(facts))
}

/// Returns the state of the work in one sentence: changed files, the last check, open tasks, and whether the last
/// request was answered.
fn tldr(facts: &ConversationFacts) -> String {
    if facts.messages == 0 {
        return "This thread has no messages.".to_owned();
    }
    let mut parts = Vec::new();
    let written = facts.files.iter().filter(|file| file.last_write_seq > 0 && !file.is_deleted()).count();
    if written > 0 {
        parts.push(format!("{} changed", pluralize(written, "file")));
    }
    if let Some(run) = facts.checks.first().filter(|run| run.seq >= facts.recent_from) {
        parts.push(format!(
            "`{}` {}",
            run.name,
            if run.has_failed() { "failed last" } else { "passed last" }
        ));
    }
    if !facts.todos.is_empty() {
        let open = facts.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).count();
        parts.push(format!("{open} of {} open", pluralize(facts.todos.len(), "task")));
    }
    match (&facts.requests.is_empty(), facts.request_answered, &facts.open_question) {
        (true, _, _) => parts.push("no request was made".to_owned()),
        (false, _, Some(_)) => {
            parts.push("the assistant asked a question and waits for the answer".to_owned())
        }
        (false, Some(true), None) => parts.push("the last request was answered".to_owned()),
        (false, Some(false), None) => parts.push("the last request is pending".to_owned()),
        (false, None, None) => {}
    }
    if parts.is_empty() {
        return tldr_without_state(facts);
    }
    let sentence = parts.join(", ");
    let mut letters = sentence.chars();
    let sentence: String =
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default();
    truncate_with_ellipsis(&format!("{sentence}."), TLDR_GRAPHEMES_MAX)
}
