//! The facts of a handoff as sections of its Markdown, and back: a person edits them like the items of the summary.
//!
//! Each entry is one bullet. The goal, the pins and the last request keep the line breaks of their texts. What an entry says is decided by the crate `facts`.

use model::tokens::{self, truncate_graphemes};
use protocol::{
    CarriedFacts, CarriedFiles, LeftOutFacts, LeftOutReason, MessageRole, PinnedText, ReferencedFile, Rule,
    TodoItem, TodoStatus,
};

use super::block::{normalize_block, render_block, shorten_block};
use super::normalize_line;

/// Maximum tokens of all facts together. Facts that are longer are rendered with the first narrower limits that suffice.
const FACT_TOKENS_MAX: u64 = 2_000;
/// Maximum grapheme clusters of an entry that is rendered whole. No fact is that long.
const WHOLE_GRAPHEMES: usize = 1_000_000;
/// Maximum characters of one grapheme cluster on average. Letters with more combining marks are of no language.
const GRAPHEME_CHARS_MAX: usize = 4;

/// The limits within which facts are rendered.
#[derive(Debug, Clone, Copy)]
struct FactLimits {
    /// Maximum entries of a list. A last bullet states how many more there are.
    entries: usize,
    /// Maximum grapheme clusters of one entry.
    entry_graphemes: usize,
    /// Maximum grapheme clusters of the goal and of the last request.
    request_graphemes: usize,
}

impl FactLimits {
    /// Limits that no entry reaches.
    const NONE: Self =
        Self { entries: usize::MAX, entry_graphemes: WHOLE_GRAPHEMES, request_graphemes: WHOLE_GRAPHEMES };
    /// The limits, the widest first.
    const STEPS: [Self; 5] = [
        Self { entries: 12, entry_graphemes: 200, request_graphemes: 2_000 },
        Self { entries: 8, entry_graphemes: 160, request_graphemes: 1_000 },
        Self { entries: 5, entry_graphemes: 120, request_graphemes: 500 },
        Self { entries: 3, entry_graphemes: 80, request_graphemes: 200 },
        Self { entries: 1, entry_graphemes: 40, request_graphemes: 80 },
    ];

    /// Returns the widest limits with which the facts have at most [`FACT_TOKENS_MAX`] tokens. Pins, and entries that the
    /// person added whole, take no room from the others.
    fn for_facts(carry: &CarriedFacts) -> Self {
        let [.., narrowest] = Self::STEPS;
        let carry = CarriedFacts { whole_entries: Vec::new(), pins: Vec::new(), ..carry.clone() };
        let fits = |limits: &Self| tokens::fits(&render_within(&carry, *limits), FACT_TOKENS_MAX);
        Self::STEPS.into_iter().find(fits).unwrap_or(narrowest)
    }
}
/// Maximum grapheme clusters of a rule, however long the other facts are: a rule that is cut may say the opposite.
const RULE_GRAPHEMES_MAX: usize = 400;
/// Hex digits of a file's SHA-256 that are rendered: enough to distinguish two versions of one file.
const HASH_DIGITS: usize = 8;

/// The text between two names in use.
const NAME_SEPARATOR: &str = ", ";

/// The mark of a completed task.
pub(crate) const DONE: &str = "[x] ";
/// The mark of a task that is not completed.
pub(crate) const OPEN: &str = "[ ] ";
/// The end of a task that is in progress.
pub(crate) const IN_PROGRESS: &str = " (in progress)";

/// The state of the last request in its heading.
const ANSWERED: &str = " (answered; not to be done again)";
/// The state of the last request in its heading.
const STILL_OPEN: &str = " (still open)";

/// The text of an entry, which has several lines if its section keeps line breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EntryLine {
    /// The plain text, shortened to the limits unless the person added the entry whole.
    line: String,
    /// The text of the whole entry.
    whole: String,
    /// True if the package contains the entry, and does not only count it.
    is_listed: bool,
}

/// A section of facts. The order of declaration is the order in which they are rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactSection {
    /// The purpose of the child thread.
    Goal,
    /// The user's standing rules.
    Rules,
    /// The pins of the thread.
    Pins,
    /// The user's last request.
    LastRequest,
    /// The task list.
    Tasks,
    /// Files that were written.
    FilesChanged,
    /// Files that were deleted.
    FilesDeleted,
    /// Files that were read.
    FilesRead,
    /// Names that the next turns will probably use. All are in one entry.
    InUse,
    /// Commands that were run.
    Commands,
    /// Errors that nothing after them resolved.
    Errors,
    /// Tool calls that wait for the user's approval.
    PendingApprovals,
    /// Loaded skills.
    Skills,
    /// Tasks of sub-agents.
    Delegations,
    /// Files that the items name, with their state.
    GoalFiles,
}

impl FactSection {
    /// All sections, in the order in which they are rendered.
    pub(crate) const ALL: [Self; 15] = [
        Self::Goal,
        Self::Rules,
        Self::Pins,
        Self::LastRequest,
        Self::Tasks,
        Self::FilesChanged,
        Self::FilesDeleted,
        Self::FilesRead,
        Self::InUse,
        Self::Commands,
        Self::Errors,
        Self::PendingApprovals,
        Self::Skills,
        Self::Delegations,
        Self::GoalFiles,
    ];

    /// Returns the heading.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Goal => "Goal of the new thread",
            Self::Rules => "Rules",
            Self::Pins => "Pins",
            Self::LastRequest => "Last request",
            Self::Tasks => "Tasks",
            Self::FilesChanged => "Files changed",
            Self::FilesDeleted => "Files deleted",
            Self::FilesRead => "Files read",
            Self::InUse => "In use",
            Self::Commands => "Commands",
            Self::Errors => "Unresolved errors",
            Self::PendingApprovals => "Calls that wait for approval",
            Self::Skills => "Skills in use",
            Self::Delegations => "Given to other agents",
            Self::GoalFiles => "Files for the goal, when this was drafted",
        }
    }

    /// Returns whether an entry keeps the line breaks of its text: a request or a pin may contain code or a table.
    pub(crate) const fn keeps_line_breaks(self) -> bool {
        matches!(self, Self::Goal | Self::Pins | Self::LastRequest)
    }

    /// Returns the text in the form in which an entry of this section is rendered, without escapes.
    fn normalize(self, text: &str) -> String {
        if self.keeps_line_breaks() { normalize_block(text) } else { normalize_line(text) }
    }

    /// Returns the maximum number of entries. All rules and pins are rendered; the crates `facts` and `memory` bound their
    /// number.
    const fn entries_max(self, limits: FactLimits) -> usize {
        match self {
            Self::Rules | Self::Pins => usize::MAX,
            Self::Goal
            | Self::LastRequest
            | Self::Tasks
            | Self::FilesChanged
            | Self::FilesDeleted
            | Self::FilesRead
            | Self::InUse
            | Self::Commands
            | Self::Errors
            | Self::PendingApprovals
            | Self::Skills
            | Self::Delegations
            | Self::GoalFiles => limits.entries,
        }
    }

    /// Returns all entries with their lines.
    fn entry_lines(self, carry: &CarriedFacts, limits: FactLimits) -> Vec<EntryLine> {
        let entries_max = self.entries_max(limits);
        let whole = self.lines(carry, FactLimits::NONE);
        let cut = self.lines(carry, limits);
        let entries = cut.into_iter().zip(whole).enumerate();
        entries
            .map(|(index, (line, whole))| {
                let is_added = carry.whole_entries.contains(&whole);
                let line = if is_added { whole.clone() } else { line };
                EntryLine { line, whole, is_listed: index < entries_max || is_added }
            })
            .collect()
    }

    /// Returns the entries as plain text, all of them, without bullets and escapes.
    fn lines(self, carry: &CarriedFacts, limits: FactLimits) -> Vec<String> {
        let max = limits.entry_graphemes;
        let shortened =
            |texts: &[String], max| texts.iter().map(|text| shorten_line(text, max)).collect::<Vec<_>>();
        let entries = |texts: &[String]| shortened(texts, max);
        let request = |text: &Option<String>| {
            let max = limits.request_graphemes;
            text.iter().map(|text| shorten_block(text, max, GRAPHEME_CHARS_MAX)).collect::<Vec<_>>()
        };
        match self {
            Self::Goal => request(&carry.goal),
            Self::Rules => {
                let max = limits.request_graphemes.max(RULE_GRAPHEMES_MAX);
                carry.rules.iter().map(|rule| shorten_line(&rule.text, max)).collect()
            }
            // Pins are whole within every limit, because a person asked for them word for word.
            Self::Pins => carry.pins.iter().map(|pin| normalize_block(&pin.text)).collect(),
            Self::LastRequest => request(&carry.last_user_request),
            Self::Tasks => carry.todos.iter().map(|task| task_line(task, max)).collect(),
            Self::FilesChanged => entries(&carry.files.changed),
            Self::FilesDeleted => entries(&carry.files.deleted),
            Self::FilesRead => entries(&carry.files.read),
            // The names were chosen within a number of tokens, so they are not cut.
            Self::InUse => carry
                .in_use
                .iter()
                .take(1)
                .map(|_| normalize_line(&carry.in_use.join(NAME_SEPARATOR)))
                .collect(),
            Self::Commands => entries(&carry.commands),
            Self::Errors => entries(&carry.errors),
            Self::PendingApprovals => entries(&carry.pending_approvals),
            Self::Skills => entries(&carry.skills),
            Self::Delegations => entries(&carry.delegations),
            Self::GoalFiles => carry.referenced_files.iter().map(|file| file_line(file, max)).collect(),
        }
    }
}

/// Returns the sections of the facts as Markdown; empty if there are no facts.
pub(super) fn render_facts(carry: &CarriedFacts) -> String {
    render_within(carry, FactLimits::for_facts(carry))
}

/// Returns the sections within limits.
fn render_within(carry: &CarriedFacts, limits: FactLimits) -> String {
    let mut md = String::new();
    for section in FactSection::ALL {
        let lines = section.entry_lines(carry, limits);
        if lines.is_empty() {
            continue;
        }
        md.push_str("\n### ");
        md.push_str(section.heading());
        if section == FactSection::LastRequest {
            md.push_str(request_state(carry));
        }
        md.push('\n');
        let (listed, hidden): (Vec<EntryLine>, Vec<EntryLine>) =
            lines.into_iter().partition(|entry| entry.is_listed);
        let more = (!hidden.is_empty()).then(|| more_line(hidden.len()));
        for line in listed.iter().map(|entry| &entry.line).chain(&more) {
            md.push_str(&render_block(line));
        }
    }
    md
}

/// Returns the entries that the text only counts or shortens: for each section those that it counts, then each that it shortens.
pub(crate) fn left_out_facts(carry: &CarriedFacts) -> Vec<LeftOutFacts> {
    if !carry.is_in_markdown {
        return Vec::new();
    }
    let limits = FactLimits::for_facts(carry);
    let of_section = |section: FactSection| {
        let note = move |entries: Vec<String>, reason| LeftOutFacts {
            section: section.heading().to_owned(),
            entries,
            reason,
        };
        let (listed, hidden): (Vec<EntryLine>, Vec<EntryLine>) =
            section.entry_lines(carry, limits).into_iter().partition(|entry| entry.is_listed);
        let counted: Vec<String> = hidden.into_iter().map(|entry| entry.whole).collect();
        let counted = (!counted.is_empty()).then(|| note(counted, LeftOutReason::TooMany));
        let shortened = listed.into_iter().filter(|entry| entry.line != entry.whole);
        counted
            .into_iter()
            .chain(shortened.map(move |entry| note(vec![entry.whole], LeftOutReason::Shortened)))
    };
    FactSection::ALL.into_iter().flat_map(of_section).collect()
}

/// Returns the section with that heading, in lowercase and without the state of the request, if it is one.
pub(crate) fn section_of_heading(name: &str) -> Option<FactSection> {
    let name = name.split(" (").next().unwrap_or(name).trim();
    FactSection::ALL.into_iter().find(|section| section.heading().to_ascii_lowercase() == name)
}

/// Returns the facts of an edited text. `bullets` are the lines under the headings of facts, without bullets and escapes.
///
/// A line that was shown stands for the entry that it showed, and the line about further entries for those entries. Any
/// other line is an entry of the person's own. What is not among the lines was removed.
pub(crate) fn edited_facts(shown: &CarriedFacts, bullets: &[(FactSection, String)]) -> CarriedFacts {
    let edit = FactsEdit { shown, limits: FactLimits::for_facts(shown), bullets };
    let texts = |section: FactSection, entries: &[String]| edit.kept_entries(section, entries, str::to_owned);
    let first = |section: FactSection, entry: &Option<String>| {
        let lines = texts(section, entry.as_slice());
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    let last_user_request = first(FactSection::LastRequest, &shown.last_user_request);
    let mut edited = CarriedFacts {
        goal: first(FactSection::Goal, &shown.goal),
        rules: edit.kept_entries(FactSection::Rules, &shown.rules, parse_rule),
        pins: edit.kept_entries(FactSection::Pins, &shown.pins, parse_pin),
        last_request_answered: shown.last_request_answered.filter(|_| last_user_request.is_some()),
        last_user_request,
        todos: edit.kept_entries(FactSection::Tasks, &shown.todos, parse_task),
        files: CarriedFiles {
            changed: texts(FactSection::FilesChanged, &shown.files.changed),
            read: texts(FactSection::FilesRead, &shown.files.read),
            deleted: texts(FactSection::FilesDeleted, &shown.files.deleted),
        },
        in_use: edit.names_in_use(),
        commands: texts(FactSection::Commands, &shown.commands),
        errors: texts(FactSection::Errors, &shown.errors),
        pending_approvals: texts(FactSection::PendingApprovals, &shown.pending_approvals),
        skills: texts(FactSection::Skills, &shown.skills),
        delegations: texts(FactSection::Delegations, &shown.delegations),
        referenced_files: edit.kept_entries(FactSection::GoalFiles, &shown.referenced_files, parse_file),
        ..shown.clone()
    };
    add_whole_entries(&mut edited, bullets);
    edited
}

/// Adds the entries that the lines contain whole although the limits would cut them: the person wrote them so.
fn add_whole_entries(edited: &mut CarriedFacts, bullets: &[(FactSection, String)]) {
    let limits = FactLimits::for_facts(edited);
    for section in FactSection::ALL {
        let cut = section.entry_lines(edited, limits).into_iter();
        let cut = cut.filter(|entry| !entry.is_listed || entry.line != entry.whole);
        let is_written = |whole: &String| {
            bullets.iter().any(|(of, line)| *of == section && section.normalize(line) == *whole)
        };
        let whole: Vec<String> = cut.map(|entry| entry.whole).filter(is_written).collect();
        edited.whole_entries.extend(whole);
    }
}

/// An edit of the sections of facts.
struct FactsEdit<'a> {
    /// The facts that were shown.
    shown: &'a CarriedFacts,
    /// The limits within which they were shown.
    limits: FactLimits,
    /// The edited entries with their sections.
    bullets: &'a [(FactSection, String)],
}

impl FactsEdit<'_> {
    /// Returns the entries of one section for which the lines stand. `parse` reads a line that was not shown.
    fn kept_entries<T: Clone>(
        &self,
        section: FactSection,
        entries: &[T],
        parse: impl Fn(&str) -> T,
    ) -> Vec<T> {
        let lines = section.entry_lines(self.shown, self.limits);
        let hidden = lines.iter().filter(|entry| !entry.is_listed).count();
        let counted: Vec<T> = entries
            .iter()
            .zip(&lines)
            .filter(|(_, line)| !line.is_listed)
            .map(|(entry, _)| entry.clone())
            .collect();
        let mut shown_lines: Vec<Option<String>> =
            lines.into_iter().map(|entry| entry.is_listed.then_some(entry.line)).collect();
        let mut kept = Vec::new();
        for (_, line) in self.bullets.iter().filter(|(of, _)| *of == section) {
            let line = section.normalize(line);
            if hidden > 0 && line == more_line(hidden) {
                kept.extend(counted.iter().cloned());
                continue;
            }
            let index = shown_lines.iter().position(|shown| shown.as_deref() == Some(line.as_str()));
            match index.and_then(|index| Some((entries.get(index)?, &mut shown_lines[index]))) {
                Some((entry, shown_line)) => {
                    kept.push(entry.clone());
                    *shown_line = None;
                }
                None => kept.push(parse(&line)),
            }
        }
        kept
    }
}

impl FactsEdit<'_> {
    /// Returns the names in use: those that were shown if their line is unchanged, else the names of the lines.
    fn names_in_use(&self) -> Vec<String> {
        let shown = FactSection::InUse.lines(self.shown, self.limits);
        let lines = self.bullets.iter().filter(|(section, _)| *section == FactSection::InUse);
        let lines: Vec<String> = lines.map(|(_, line)| normalize_line(line)).collect();
        if lines == shown {
            return self.shown.in_use.clone();
        }
        let names = lines.iter().flat_map(|line| line.split(NAME_SEPARATOR)).map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

/// Returns whether the last request was answered, for its heading.
const fn request_state(carry: &CarriedFacts) -> &'static str {
    match carry.last_request_answered {
        Some(true) => ANSWERED,
        Some(false) => STILL_OPEN,
        None => "",
    }
}

/// Returns the state in a heading of the last request, as [`request_state`] renders it or as a person shortens it.
pub(crate) fn parse_request_state(heading: &str) -> Option<bool> {
    let lower = heading.to_lowercase();
    match (lower.contains("(answered"), lower.contains("(still open") || lower.contains("(open")) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// Returns the line that states how many more entries there are.
fn more_line(count: usize) -> String {
    format!("and {count} more")
}

/// Returns a task with its mark.
fn task_line(task: &TodoItem, graphemes_max: usize) -> String {
    let text = shorten_line(&task.text, graphemes_max);
    match task.status {
        TodoStatus::Completed => format!("{DONE}{text}"),
        TodoStatus::InProgress => format!("{OPEN}{text}{IN_PROGRESS}"),
        TodoStatus::Pending => format!("{OPEN}{text}"),
    }
}

/// Returns the task of a line; without a mark, it is pending.
fn parse_task(line: &str) -> TodoItem {
    let (text, status) = match (line.strip_prefix(DONE), line.strip_prefix(OPEN)) {
        (Some(text), _) => (text, TodoStatus::Completed),
        (None, open) => match open.unwrap_or(line).strip_suffix(IN_PROGRESS) {
            Some(text) => (text, TodoStatus::InProgress),
            None => (open.unwrap_or(line), TodoStatus::Pending),
        },
    };
    TodoItem { text: text.to_owned(), status }
}

/// Returns a file with its state.
fn file_line(file: &ReferencedFile, graphemes_max: usize) -> String {
    let state = match (&file.sha256, file.exists) {
        (Some(hash), _) => format!("sha256 {}", &hash[..hash.len().min(HASH_DIGITS)]),
        (None, true) => "exists".to_owned(),
        (None, false) => "missing".to_owned(),
    };
    format!("{} ({state})", shorten_line(&file.path, graphemes_max))
}

/// Returns the file of a person's line, whose state is unknown.
fn parse_file(line: &str) -> ReferencedFile {
    ReferencedFile { path: line.to_owned(), exists: true, sha256: None }
}

/// Returns the rule of a person's line.
fn parse_rule(line: &str) -> Rule {
    Rule { text: line.to_owned(), refs: Vec::new() }
}

/// Returns the pin of a person's line.
fn parse_pin(line: &str) -> PinnedText {
    PinnedText { text: line.to_owned(), author: MessageRole::User, refs: Vec::new() }
}

/// Returns the text on one line, cut to `graphemes_max` grapheme clusters with an ellipsis after the cut.
fn shorten_line(text: &str, graphemes_max: usize) -> String {
    let line = normalize_line(text);
    let chars_max = graphemes_max * GRAPHEME_CHARS_MAX;
    let head = truncate_graphemes(&line, graphemes_max);
    let head = head.char_indices().nth(chars_max).map_or(head, |(end, _)| &head[..end]);
    if head.len() < line.len() { format!("{head}…") } else { line }
}

#[cfg(test)]
mod tests;
