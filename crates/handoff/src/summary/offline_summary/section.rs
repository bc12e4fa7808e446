//! The sections of an offline summary: their order and shares ([`SECTIONS`]), and a function for each that writes its
//! lines within a number of characters.
//!
//! The parent module distributes the characters and combines sections into items.

use protocol::{Seq, SummaryItemKind, TodoItem, TodoStatus};

use super::objective::objective_lines;
use super::quotes::{QuoteForm, fill_with_quotes, quoted_line, resolved_errors};
use super::statements::{RankedStatement, is_misleading, is_prose, statements};
use super::title::strip_opening;
use super::topic::{names_topic, states_task};
use super::{
    ANSWERED_REQUEST_LABEL, EARLIER_REQUEST_LABEL, QUESTION_LABEL, REQUEST_WEIGHT_MIN, SummaryLine, files,
    in_use,
};
use facts::GoalMatcher;
use facts::formatting::{
    ELLIPSIS, count_content_words, strip_markdown, to_single_line, truncate_with_ellipsis,
};
use facts::identifier;
use facts::tool_use::head;
use facts::{ConversationFacts, NameUsage, Quote};
use model::tokens::CHARS_PER_TOKEN;

/// A section of the summary.
pub(super) struct SummarySection {
    /// The kind of item that its lines belong to; see [`SummarySection::kind_in`].
    kind: SummaryItemKind,
    /// The share of all characters that is reserved for the section, in percent. A section with 0 gets only
    /// characters that others leave.
    pub share_percent: usize,
    /// The maximum number of characters of the section.
    pub chars_max: usize,
    /// The function that writes the lines.
    pub build: fn(&SectionRequest<'_>) -> Vec<SummaryLine>,
}

/// The input that all sections share.
pub(super) struct SectionSource<'a> {
    /// The facts of the thread.
    pub facts: &'a ConversationFacts,
    /// The purpose of the child thread.
    pub goal: Option<&'a GoalMatcher>,
    /// The title of the summary, which the objective does not repeat.
    pub title: &'a str,
    /// The assistant's sentences about the state of the work, best first; see [`ranked_statements`](super::statements::ranked_statements).
    pub statements: &'a [RankedStatement],
    /// The budget of the whole summary.
    pub tokens_max: u64,
}

/// The budget below which a summary has no list of the files that were only read and of resolved errors, in tokens.
const READ_FILES_TOKENS_MIN: u64 = 600;

/// The input of one section.
pub(super) struct SectionRequest<'a> {
    /// The input that all sections share.
    pub source: &'a SectionSource<'a>,
    /// The facts of the thread, as in `source`.
    pub facts: &'a ConversationFacts,
    /// The number of characters the section may use.
    pub chars_max: usize,
    /// The text of the sections before it.
    pub shown: &'a ShownText,
}

impl SectionRequest<'_> {
    /// Sorts the entries by their score for the goal, best first. The sort is stable; without a goal the order stays.
    pub(super) fn sort_by_goal<T>(&self, list: &mut [T], text: impl Fn(&T) -> &str) {
        if let Some(goal) = self.source.goal {
            let score =
                |entry: &T| goal.score(goal.matching_terms(text(entry)), &self.facts.term_frequencies);
            list.sort_by_cached_key(|entry| std::cmp::Reverse((score(entry) * 1_000.0) as u64));
        }
    }

    /// Returns how many entries of a list sorted by the goal are shown: those that contain a term of the goal and up to
    /// [`OTHER_ENTRIES_MAX`] more. Returns `None` without a goal and when no entry contains a term.
    pub(super) fn goal_relevant_len<T>(&self, list: &[T], text: impl Fn(&T) -> &str) -> Option<usize> {
        let goal = self.source.goal?;
        let relevant = list.iter().filter(|entry| goal.matching_terms(text(entry)) != 0).count();
        (relevant > 0).then_some(list.len().min(relevant + OTHER_ENTRIES_MAX))
    }
}

/// The text of the earlier sections, by which later ones avoid repetitions.
#[derive(Default)]
pub(super) struct ShownText {
    /// All lines in lower case.
    text: String,
}

impl ShownText {
    /// Adds the lines of a section.
    pub(super) fn add_lines(&mut self, lines: &[SummaryLine]) {
        for line in lines {
            self.text.push_str(&line.text.to_lowercase());
            self.text.push('\n');
        }
    }

    /// Returns whether the text is shown already; case and final punctuation do not matter.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.text.contains(&text.trim_end_matches(['.', '…', ' ']).to_lowercase())
    }
}

/// The minimum length to which an open task is shortened, in characters.
const TODO_CHARS_MIN: usize = 56;
/// The maximum length of an open task, in characters.
const TODO_CHARS_MAX: usize = 140;
/// The maximum number of entries in a list that contain no term of the goal, when others do.
const OTHER_ENTRIES_MAX: usize = 4;
/// Beginnings of requests that are no decisions, also without a question mark.
const REQUEST_OPENERS: &[&str] = &[
    "can you",
    "could you",
    "would you",
    "will you",
    "can we",
    "could we",
    "question:",
    "how ",
    "why ",
    "what ",
];
/// The maximum length of a rule in the list of decisions, in characters. A longer one is only among the rules.
const RULE_CHARS: usize = 300;
/// The minimum number of content words of an earlier request. A shorter one, such as "yes, do it", tells nothing alone.
const EARLIER_REQUEST_WORDS_MIN: usize = 3;
/// The number of requests before the last that are searched for one that explains it.
const EARLIER_REQUESTS_SEARCHED: usize = 3;
/// The number of bytes at the beginning of a request by which it is recognized.
pub(super) const BEGINNING_BYTES: usize = 48;
/// The number of files in a folder from which they are shown as one group, if they were changed or read.
const CHANGED_GROUP_MIN: usize = 12;
/// The number of files in a folder from which they are shown as one group, if they were deleted.
const DELETED_GROUP_MIN: usize = 4;
/// The maximum length of a question of the assistant, in characters.
const QUESTION_CHARS: usize = 300;
/// The maximum length of a request that is shown only to make the one after it understandable, in characters.
const EARLIER_REQUEST_CHARS: usize = 240;

/// The minimum length of the line of such a request if it is cut inside a clause, in characters.
const EARLIER_CUT_CHARS_MIN: usize = 80;

/// The sections, the most needed first.
pub(super) const SECTIONS: &[SummarySection] = &[
    SummarySection {
        kind: SummaryItemKind::Artifact,
        share_percent: 18,
        chars_max: 1_400,
        build: changed_files,
    },
    SummarySection {
        kind: SummaryItemKind::NextStep,
        share_percent: 25,
        chars_max: 1_200,
        build: last_request,
    },
    SummarySection {
        kind: SummaryItemKind::Artifact,
        share_percent: 6,
        chars_max: 300,
        build: deleted_files,
    },
    SummarySection {
        kind: SummaryItemKind::Objective,
        share_percent: 14,
        chars_max: 900,
        build: objective_lines,
    },
    SummarySection { kind: SummaryItemKind::NextStep, share_percent: 14, chars_max: 900, build: open_todos },
    SummarySection { kind: SummaryItemKind::NextStep, share_percent: 12, chars_max: 600, build: left_open },
    SummarySection { kind: SummaryItemKind::Decision, share_percent: 16, chars_max: 1_400, build: rules },
    SummarySection {
        kind: SummaryItemKind::Progress,
        share_percent: 0,
        chars_max: 900,
        build: single_requests,
    },
    SummarySection { kind: SummaryItemKind::Blocker, share_percent: 6, chars_max: 500, build: blockers },
    SummarySection { kind: SummaryItemKind::Artifact, share_percent: 14, chars_max: 720, build: in_use_line },
    SummarySection { kind: SummaryItemKind::Artifact, share_percent: 0, chars_max: 600, build: read_files },
    SummarySection { kind: SummaryItemKind::Progress, share_percent: 0, chars_max: 400, build: resolved },
    SummarySection { kind: SummaryItemKind::Progress, share_percent: 7, chars_max: 2_400, build: statements },
    SummarySection { kind: SummaryItemKind::Decision, share_percent: 0, chars_max: 700, build: decisions },
    SummarySection {
        kind: SummaryItemKind::Progress,
        share_percent: 0,
        chars_max: 1_600,
        build: earlier_requests,
    },
];

impl SummarySection {
    /// Returns the kind of item that the section's lines belong to. An answered last request is progress; otherwise
    /// it is a next step.
    pub(super) fn kind_in(&self, facts: &ConversationFacts) -> SummaryItemKind {
        if self.is_built_by(last_request) && facts.request_answered != Some(false) {
            SummaryItemKind::Progress
        } else {
            self.kind
        }
    }

    /// Returns whether the section is the line of the names in use.
    pub(super) fn is_in_use_line(&self) -> bool {
        self.is_built_by(in_use_line)
    }

    /// Returns whether this function writes the lines of the section.
    fn is_built_by(&self, build: fn(&SectionRequest<'_>) -> Vec<SummaryLine>) -> bool {
        std::ptr::fn_addr_eq(self.build, build)
    }
}

/// Returns the last request in the person's words, up to three requests before it when it is too short to be understood
/// alone, and a question of the assistant that waits for an answer.
fn last_request(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let mut lines = Vec::new();
    let mut remaining = request.chars_max;
    let mut words = 0;
    let last_seq = facts.requests.last().map_or(0, |quote| quote.seq);
    let has_statement = facts.statements.last().is_some_and(|quote| quote.seq > last_seq);
    let is_informative = |(index, quote): &(usize, &Quote)| {
        *index == 0
            || count_content_words(&quote.text) > 1 && (states_task(&quote.text) || names_topic(&quote.text))
    };
    for (index, quote) in facts.requests.iter().rev().enumerate().filter(is_informative) {
        let label = match (index, facts.request_answered, facts.open_question.is_some()) {
            (0, _, true) => "Last request, the assistant asked back",
            (0, Some(true), false) => ANSWERED_REQUEST_LABEL,
            (0, Some(false), false) if has_statement => "Last request, not finished",
            (0, Some(false), false) => "Pending request",
            (0, None, false) => "Last request",
            _ => EARLIER_REQUEST_LABEL,
        };
        // A question of the assistant needs room beside the request that it is about.
        let question_chars =
            facts.open_question.as_ref().map_or(0, |question| question.text.chars().count() + 26);
        let reserved = question_chars.min(remaining / 3);
        let available = if index == 0 { remaining - reserved } else { remaining.min(EARLIER_REQUEST_CHARS) };
        let Some(line) = quoted_line(label, quote, available) else { break };
        // The first few words of an earlier request do not make the last one understandable.
        let is_cut = line.text.trim_end_matches('"').ends_with(ELLIPSIS);
        if index > 0 && is_cut && line.text.chars().count() < EARLIER_CUT_CHARS_MIN {
            break;
        }
        remaining = remaining.saturating_sub(line.text.chars().count() + 3);
        lines.push(line);
        if index == 0
            && let Some(question) = &facts.open_question
            && let Some(line) = quoted_line(QUESTION_LABEL, question, remaining.min(QUESTION_CHARS))
        {
            remaining = remaining.saturating_sub(line.text.chars().count() + 3);
            lines.push(line);
        }
        words += count_content_words(&quote.text);
        if words >= REQUEST_WEIGHT_MIN + 2 || index >= EARLIER_REQUESTS_SEARCHED {
            break;
        }
    }
    lines
}

/// Returns the line of the changed files, the most recent first.
fn changed_files(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let mut files: Vec<(&str, Seq)> = request
        .facts
        .files
        .iter()
        .filter(|file| file.last_write_seq >= request.facts.recent_from.max(1) && !file.is_deleted())
        .map(|file| (file.path.as_str(), file.last_write_seq))
        .collect();
    files.sort_by_key(|(_, seq)| std::cmp::Reverse(*seq));
    request.sort_by_goal(&mut files, |(path, _)| path);
    files.truncate(request.goal_relevant_len(&files, |(path, _)| path).unwrap_or(files.len()));
    path_line(
        "Changed",
        &files,
        files::FileGrouping::Folder { files_min: CHANGED_GROUP_MIN },
        request.chars_max,
    )
}

/// Returns the line of the files that were deleted, the most recent first.
fn deleted_files(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let deleted = request.facts.files.iter().filter(|file| file.is_deleted() && !file.is_temporary());
    let recent = deleted.filter(|file| file.deleted_seq >= request.facts.recent_from.max(1));
    let mut files: Vec<(&str, Seq)> = recent.map(|file| (file.path.as_str(), file.deleted_seq)).collect();
    files.sort_by_key(|(_, seq)| std::cmp::Reverse(*seq));
    path_line(
        "Deleted",
        &files,
        files::FileGrouping::Nested { files_min: DELETED_GROUP_MIN },
        request.chars_max,
    )
}

/// Returns the line of the files that were read and not changed, without those that an earlier section names.
fn read_files(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    if request.source.tokens_max < READ_FILES_TOKENS_MIN {
        return Vec::new();
    }
    let mut files: Vec<(&str, Seq)> = request
        .facts
        .files
        .iter()
        .filter(|file| file.last_write_seq == 0 && !file.is_deleted())
        .filter(|file| file.last_read_seq >= request.facts.recent_from)
        .filter(|file| !request.shown.contains(file.path.rsplit('/').next().unwrap_or(&file.path)))
        .map(|file| (file.path.as_str(), file.last_read_seq))
        .collect();
    request.sort_by_goal(&mut files, |(path, _)| path);
    files.truncate(24);
    path_line("Read", &files, files::FileGrouping::Folder { files_min: CHANGED_GROUP_MIN }, request.chars_max)
}

/// Returns a line with the label and the paths that fit. It refers to the first four events.
fn path_line(
    label: &str,
    files: &[(&str, Seq)],
    grouping: files::FileGrouping,
    chars_max: usize,
) -> Vec<SummaryLine> {
    if files.is_empty() {
        return Vec::new();
    }
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let (single, groups) = files::fold_groups(&paths, grouping);
    let chars_max = chars_max.saturating_sub(3);
    let groups = groups.join(", ");
    let text = match (single.is_empty(), groups.is_empty()) {
        (_, true) => files::format_paths(label, &single, chars_max),
        (true, false) => format!("{label}: {groups}"),
        (false, false) => {
            let single = files::format_paths(label, &single, chars_max.saturating_sub(groups.len() + 2));
            if single.is_empty() { format!("{label}: {groups}") } else { format!("{single}; {groups}") }
        }
    };
    let text = if text.chars().count() > chars_max { String::new() } else { text };
    vec![SummaryLine { text, refs: files.iter().map(|(_, seq)| *seq).take(4).collect() }]
}

/// Returns the open tasks, those in progress first.
fn open_todos(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let rank = |todo: &&TodoItem| u8::from(todo.status != TodoStatus::InProgress);
    let mut open: Vec<&TodoItem> =
        facts.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect();
    open.sort_by_key(rank);
    request.sort_by_goal(&mut open, |todo| &todo.text);
    let mut remaining = request.chars_max;
    let mut lines = Vec::new();
    // If the tasks do not all fit, the beginnings of several tasks are more useful than one whole task.
    let todo_chars = (remaining / open.len().max(1)).clamp(TODO_CHARS_MIN, TODO_CHARS_MAX);
    for todo in open {
        let text = format!("[ ] {}", truncate_with_ellipsis(&to_single_line(&todo.text), todo_chars));
        let length = text.chars().count() + 3;
        if length > remaining {
            break;
        }
        remaining -= length;
        lines.push(SummaryLine { text, refs: vec![facts.todos_seq] });
    }
    lines
}

/// Returns the sentences of the last answer that say what is left.
fn left_open(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let question = request.facts.open_question.as_ref().map(|quote| strip_markdown(&quote.text));
    let left = request.facts.left_open.iter();
    let left = left.filter(|quote| question.as_ref().is_none_or(|question| !question.contains(&quote.text)));
    fill_with_quotes(left, request, 300, QuoteForm::Plain(""))
}

/// Returns the person's rules, strict ones before wishes, the newest first, without those that are shown already.
fn rules(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let rules = directives(request).into_iter().filter(|quote| !facts::asks_once(&quote.text));
    fill_with_quotes(rules, request, RULE_CHARS, QuoteForm::Quoted)
}

/// Returns the sentences with the words of a rule that only ask for one thing. They are requests, and no decisions.
fn single_requests(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let tells_enough = |quote: &&Quote| count_content_words(&quote.text) > 1;
    let single =
        directives(request).into_iter().filter(|quote| facts::asks_once(&quote.text)).filter(tells_enough);
    fill_with_quotes(single, request, RULE_CHARS, QuoteForm::Labeled("Asked earlier"))
}

/// Returns the person's sentences with the words of a rule in the order in which they are shown.
fn directives<'a>(request: &SectionRequest<'a>) -> Vec<&'a Quote> {
    let facts = request.facts;
    let mut rules: Vec<&facts::UserRule> = facts.rules.iter().rev().collect();
    // Rules stay valid across a compaction. But an older rule with a name in it is likely about work that is finished.
    rules.retain(|rule| {
        rule.quote.seq >= facts.recent_from || rule.is_strict && !has_identifier(&rule.quote.text)
    });
    rules.sort_by_key(|rule| (rule.quote.seq < facts.recent_from, !rule.is_strict));
    request.sort_by_goal(&mut rules, |rule| &rule.quote.text);
    // A part of a rule may say something else than the rule.
    let is_whole = |quote: &&Quote| quote.text.chars().count() <= RULE_CHARS;
    let is_request = |quote: &&Quote| {
        let lower = head(&quote.text, BEGINNING_BYTES).to_lowercase();
        REQUEST_OPENERS.iter().any(|opener| lower.starts_with(opener))
    };
    rules.into_iter().map(|rule| &rule.quote).filter(is_whole).filter(|quote| !is_request(quote)).collect()
}

/// Returns whether the text contains a name such as a path or an identifier.
fn has_identifier(text: &str) -> bool {
    let mut found = false;
    identifier::scan_names(text, |_, _| found = true);
    found
}

/// Returns the failing checks and the open errors; without both, the names of errors, unless the last check passed.
fn blockers(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let mut lines = Vec::new();
    let mut remaining = request.chars_max;
    let failing = facts.checks.iter().filter(|run| run.has_failed() && run.seq >= facts.recent_from);
    let failing = failing.map(|run| match &run.detail {
        Some(detail) => (format!("`{}` fails: {}", run.name, to_single_line(detail)), run.seq),
        None => (format!("`{}` fails.", run.name), run.seq),
    });
    let errors = facts.errors.iter().filter(|quote| quote.seq >= facts.recent_from);
    for (text, seq) in failing.chain(errors.map(|quote| (to_single_line(&quote.text), quote.seq))) {
        let text = truncate_with_ellipsis(&text, 150);
        let length = text.chars().count() + 3;
        if length <= remaining && !request.shown.contains(&text) {
            remaining -= length;
            lines.push(SummaryLine { text, refs: vec![seq] });
        }
    }
    if lines.is_empty() && facts.checks.first().is_some_and(|run| !run.has_failed()) {
        // The last check passed after these errors had occurred.
        return lines;
    }
    let types: Vec<&NameUsage> =
        facts.error_types.iter().filter(|name| name.seq >= facts.recent_from).take(6).collect();
    let mut shown = ShownText::default();
    shown.add_lines(&lines);
    let is_resolved = |name: &NameUsage| {
        let mut resolved = facts.resolved_errors.iter();
        resolved.any(|quote| quote.seq >= name.seq && quote.text.contains(&name.text))
    };
    let types: Vec<&NameUsage> =
        types.into_iter().filter(|name| !shown.contains(&name.text) && !is_resolved(name)).collect();
    lines.extend(name_line("Failures named", &types, request.shown, remaining.min(120)));
    lines
}

/// Returns the errors that a later call resolved, so that nobody runs into them again.
fn resolved(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    if request.source.tokens_max < READ_FILES_TOKENS_MIN {
        return Vec::new();
    }
    fill_with_quotes(resolved_errors(request.facts).take(4), request, 160, QuoteForm::Plain("Resolved: "))
}

/// Returns the names in use as one line, which reserves the characters for them.
fn in_use_line(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let names = in_use::names_in_use(&in_use_request(request));
    let line = SummaryLine { text: names.join(", "), refs: Vec::new() };
    if names.is_empty() { Vec::new() } else { vec![line] }
}

/// Returns the request for the names in use: they have at most 60 tokens of 300, 150 of 1,000 and 180 of any number.
pub(super) fn in_use_request<'a>(request: &SectionRequest<'a>) -> SectionRequest<'a> {
    let tokens_max = request.source.tokens_max;
    let tokens = if tokens_max <= 300 { tokens_max / 5 } else { 60 + (tokens_max - 300) * 9 / 70 };
    let chars = usize::try_from(tokens.min(180) * CHARS_PER_TOKEN).unwrap_or(usize::MAX);
    SectionRequest { chars_max: request.chars_max.min(chars), ..*request }
}

/// Returns `label: a, b, c` with the names that fit and are not shown yet; nothing when there is none.
fn name_line(label: &str, names: &[&NameUsage], shown: &ShownText, chars_max: usize) -> Vec<SummaryLine> {
    let mut line = SummaryLine { text: format!("{label}:"), refs: Vec::new() };
    let mut remaining = chars_max.saturating_sub(line.text.len() + 3);
    for name in names {
        let length = name.text.chars().count() + 2;
        if length > remaining || shown.contains(&name.text) {
            continue;
        }
        remaining -= length;
        line.text.push_str(if line.refs.is_empty() { " " } else { ", " });
        line.text.push_str(&name.text);
        line.refs.push(name.seq);
    }
    if line.refs.is_empty() { Vec::new() } else { vec![line] }
}

/// Returns the decisions that the assistant stated in prose, the newest first.
fn decisions(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let recent = facts.decisions.iter().rev().filter(|quote| quote.seq >= facts.recent_from);
    let prose = recent.filter(|quote| is_prose(&quote.text) && !is_misleading(facts, &quote.text));
    let prose = prose
        .filter(|quote| !facts::announces_work(&quote.text) && !strip_markdown(&quote.text).ends_with(':'));
    let mut prose: Vec<&Quote> = prose.collect();
    request.sort_by_goal(&mut prose, |quote| &quote.text);
    fill_with_quotes(prose.into_iter(), request, 300, QuoteForm::Plain(""))
}

/// Returns the requests before the last one, the newest first, and older ones that are about the goal.
fn earlier_requests(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let recent = facts.requests.iter().rev().filter(|quote| quote.seq >= facts.recent_from);
    let mut earlier: Vec<&Quote> = recent.skip(1).chain(&facts.requests_about_goal).collect();
    earlier.retain(|quote| {
        count_content_words(strip_opening(&to_single_line(head(&quote.text, 400))))
            >= EARLIER_REQUEST_WORDS_MIN
            && !facts::is_conversational(&quote.text)
    });
    request.sort_by_goal(&mut earlier, |quote| &quote.text);
    fill_with_quotes(earlier.into_iter(), request, 320, QuoteForm::Labeled("Asked earlier"))
}
