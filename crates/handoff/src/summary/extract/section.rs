//! What each part of an offline summary says, within the characters it is given. Order and shares are in
//! [`SECTIONS`]; how parts become items is decided by the caller.

use protocol::{ItemKind, Seq, TodoItem, TodoStatus};

use super::{Line, REQUEST_WEIGHT_MIN, files, first_sentence, objective};
use facts::Goal;
use facts::identifier;
use facts::phrase::{clip, flat, plain, weight};
use facts::shell::Check;
use facts::{Facts, Name, Quote};

/// A part of the summary.
pub(super) struct Section {
    /// The kind its lines belong to.
    kind: ItemKind,
    /// Characters of every hundred that are its own before anything is left over.
    pub share_percent: usize,
    /// Characters beyond which it says nothing more.
    pub chars_max: usize,
    pub build: fn(&Request<'_>) -> Vec<Line>,
}

/// What all sections tell from.
pub(super) struct Source<'a> {
    pub facts: &'a Facts,
    pub goal: Option<&'a Goal>,
    /// What the assistant said of the state of the work, the most telling first; see [`ranked_statements`].
    pub statements: &'a [Statement],
}

/// A sentence of the assistant as it would be told.
pub(super) struct Statement {
    /// Its place among all of them.
    at: usize,
    seq: Seq,
    text: String,
}

/// What a section is given.
pub(super) struct Request<'a> {
    pub source: &'a Source<'a>,
    pub facts: &'a Facts,
    pub chars_max: usize,
    pub shown: &'a Shown,
}

impl Request<'_> {
    /// Puts first what the goal is about, the most telling first; without a goal the order stays.
    fn by_goal<T>(&self, list: &mut [T], text: impl Fn(&T) -> &str) {
        if let Some(goal) = self.source.goal {
            let score = |entry: &T| goal.score(goal.terms_in(text(entry)), &self.facts.frequencies);
            list.sort_by_cached_key(|entry| std::cmp::Reverse((score(entry) * 1_000.0) as u64));
        }
    }

    /// Returns how many of a list that is sorted by the goal are told: those it is about and a few more; `None` when it
    /// is about none of them.
    fn about_goal<T>(&self, list: &[T], text: impl Fn(&T) -> &str) -> Option<usize> {
        let goal = self.source.goal?;
        let about = list.iter().filter(|entry| goal.terms_in(text(entry)) != 0).count();
        (about > 0).then_some(list.len().min(about + OTHERS_MAX))
    }
}

/// What earlier sections say, so that nothing is said twice.
#[derive(Default)]
pub(super) struct Shown {
    text: String,
}

impl Shown {
    /// Takes lines that will be shown.
    pub(super) fn add(&mut self, lines: &[Line]) {
        for line in lines {
            self.text.push_str(&line.text.to_lowercase());
            self.text.push('\n');
        }
    }

    fn has(&self, text: &str) -> bool {
        self.text.contains(&text.trim_end_matches(['.', '…', ' ']).to_lowercase())
    }
}

/// Characters of an open task: as many as there is room for, within these.
const TODO_CHARS_MIN: usize = 56;
const TODO_CHARS_MAX: usize = 140;
/// Characters of a statement, and those below which none is looked for.
const STATEMENT_CHARS: usize = 240;
const STATEMENT_CHARS_MIN: usize = 12;
/// Entries of a list that are told beside those the goal is about.
const OTHERS_MAX: usize = 4;
/// How much it counts that the goal is about a statement.
const GOAL_FACTOR: f32 = 1.0;
/// Characters of a request that only helps to understand the one after it.
const EARLIER_CHARS: usize = 240;

/// The parts, the most needed first.
pub(super) const SECTIONS: &[Section] = &[
    Section { kind: ItemKind::NextStep, share_percent: 25, chars_max: 700, build: last_request },
    Section { kind: ItemKind::Artifact, share_percent: 18, chars_max: 1_400, build: changed_files },
    Section { kind: ItemKind::Objective, share_percent: 14, chars_max: 420, build: goal },
    Section { kind: ItemKind::NextStep, share_percent: 14, chars_max: 900, build: open_todos },
    Section { kind: ItemKind::Decision, share_percent: 16, chars_max: 900, build: rules },
    Section { kind: ItemKind::Blocker, share_percent: 6, chars_max: 500, build: blockers },
    Section { kind: ItemKind::Artifact, share_percent: 0, chars_max: 160, build: commands },
    Section { kind: ItemKind::Artifact, share_percent: 0, chars_max: 260, build: references },
    Section { kind: ItemKind::Artifact, share_percent: 0, chars_max: 320, build: read_files },
    Section { kind: ItemKind::Artifact, share_percent: 0, chars_max: 400, build: names },
    Section { kind: ItemKind::Progress, share_percent: 7, chars_max: 1_600, build: statements },
    Section { kind: ItemKind::Decision, share_percent: 0, chars_max: 700, build: decisions },
    Section { kind: ItemKind::Progress, share_percent: 0, chars_max: 900, build: earlier_requests },
];

impl Section {
    /// Returns the kind its lines belong to: an answered request is progress, not a next step.
    pub(super) fn kind_in(&self, facts: &Facts) -> ItemKind {
        let is_request = std::ptr::fn_addr_eq(self.build, last_request as fn(&Request<'_>) -> Vec<Line>);
        if is_request && facts.is_answered && facts.awaited.is_none() {
            ItemKind::Progress
        } else {
            self.kind
        }
    }
}

/// Returns the last request in the person's words, those before it when it says too little alone, and the question
/// that waits for an answer.
fn last_request(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let mut lines = Vec::new();
    let mut left = request.chars_max;
    let mut known = 0;
    for (index, quote) in facts.requests.iter().rev().enumerate() {
        let label = match (index, facts.is_answered, facts.awaited.is_some()) {
            (0, true, false) => "Last request, answered",
            (0, true, true) => "Last request, answered with a question",
            (0, false, _) => "Pending request",
            _ => "Before it",
        };
        let room = if index == 0 { left } else { left.min(EARLIER_CHARS) };
        let Some(line) = quoted(label, quote, room) else { break };
        left = left.saturating_sub(line.text.chars().count() + 3);
        lines.push(line);
        known += weight(&quote.text);
        if known >= REQUEST_WEIGHT_MIN + 2 || index >= 3 {
            break;
        }
    }
    if let Some(question) = &facts.awaited {
        lines.extend(quoted("The assistant asked", question, left.min(200)));
    }
    lines
}

/// Returns `label: "quote"`, or nothing when there is no room for a few words of it.
fn quoted(label: &str, quote: &Quote, chars_max: usize) -> Option<Line> {
    let text = flat(&quote.text);
    let room = chars_max.checked_sub(label.len() + 7).filter(|room| *room >= 20 || text.len() <= *room)?;
    Some(Line { text: format!("{label}: \"{}\"", clip(&text, room)), refs: vec![quote.seq] })
}

/// Returns what the work is for: the person's goal for the next thread, then the request that began it.
fn goal(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let mut lines = Vec::new();
    let mut left = request.chars_max;
    if let Some(goal) = request.source.goal {
        lines.push(Line { text: clip(&flat(goal.text()), left.max(40)), refs: Vec::new() });
        left = left.saturating_sub(lines[0].text.chars().count() + 3);
    }
    let mut known = 0;
    for quote in facts.requests.iter().filter(|quote| quote.seq >= facts.recent_from).take(4) {
        let is_last = facts.requests.last().is_some_and(|last| last.seq == quote.seq);
        let text = if is_last { first_sentence(&quote.text) } else { plain(&quote.text) };
        if left < 24 || known > 0 && (is_last || request.shown.has(&text)) {
            break;
        }
        known += weight(&text);
        let line = Line { text: clip(&text, left), refs: vec![quote.seq] };
        left = left.saturating_sub(line.text.chars().count() + 3);
        lines.push(line);
        if known >= REQUEST_WEIGHT_MIN + 2 {
            break;
        }
    }
    if lines.is_empty() {
        let source = objective(facts).or(facts.proven_summary.as_ref());
        lines.extend(
            source.map(|quote| Line { text: clip(&plain(&quote.text), left), refs: vec![quote.seq] }),
        );
    }
    lines
}

fn changed_files(request: &Request<'_>) -> Vec<Line> {
    let mut files: Vec<(&str, Seq)> = request
        .facts
        .files
        .iter()
        .filter(|file| file.written_at >= request.facts.recent_from.max(1))
        .map(|file| (file.path.as_str(), file.written_at))
        .collect();
    files.sort_by_key(|(_, seq)| std::cmp::Reverse(*seq));
    request.by_goal(&mut files, |(path, _)| path);
    files.truncate(request.about_goal(&files, |(path, _)| path).unwrap_or(files.len()));
    path_line("Changed", &files, request.chars_max)
}

fn read_files(request: &Request<'_>) -> Vec<Line> {
    let mut files: Vec<(&str, Seq)> = request
        .facts
        .files
        .iter()
        .filter(|file| file.written_at == 0 && file.read_at >= request.facts.recent_from)
        .filter(|file| !request.shown.has(file.path.rsplit('/').next().unwrap_or(&file.path)))
        .map(|file| (file.path.as_str(), file.read_at))
        .collect();
    request.by_goal(&mut files, |(path, _)| path);
    files.truncate(14);
    path_line("Read", &files, request.chars_max)
}

fn path_line(label: &str, files: &[(&str, Seq)], chars_max: usize) -> Vec<Line> {
    if files.is_empty() {
        return Vec::new();
    }
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let text = files::list(label, &paths, chars_max.saturating_sub(3));
    vec![Line { text, refs: files.iter().map(|(_, seq)| *seq).take(4).collect() }]
}

fn open_todos(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let rank = |todo: &&TodoItem| u8::from(todo.status != TodoStatus::InProgress);
    let mut open: Vec<&TodoItem> =
        facts.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect();
    open.sort_by_key(rank);
    request.by_goal(&mut open, |todo| &todo.text);
    let mut left = request.chars_max;
    let mut lines = Vec::new();
    // Where they do not all fit whole, the beginnings of more of them tell more than the whole of one.
    let room = (left / open.len().max(1)).clamp(TODO_CHARS_MIN, TODO_CHARS_MAX);
    for todo in open {
        let text = format!("[ ] {}", clip(&flat(&todo.text), room));
        let length = text.chars().count() + 3;
        if length > left {
            break;
        }
        left -= length;
        lines.push(Line { text, refs: vec![facts.todos_seq] });
    }
    lines
}

/// Returns the person's rules: orders before wishes, the newest first, none that is already shown.
fn rules(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let mut rules: Vec<&facts::Rule> = facts.rules.iter().rev().collect();
    // Rules outlive a compaction, but one from before it that names something is more likely about work that is over.
    rules.retain(|rule| {
        rule.quote.seq >= facts.recent_from || rule.is_strict && !names_something(&rule.quote.text)
    });
    rules.sort_by_key(|rule| (rule.quote.seq < facts.recent_from, !rule.is_strict));
    request.by_goal(&mut rules, |rule| &rule.quote.text);
    fill(rules.into_iter().map(|rule| &rule.quote), request, 170, |text| format!("\"{text}\""))
}

fn names_something(text: &str) -> bool {
    let mut found = false;
    identifier::scan(text, |_, _| found = true);
    found
}

/// Returns lines of the quotes that fit and are not shown yet, in order.
fn fill<'a>(
    quotes: impl Iterator<Item = &'a Quote>,
    request: &Request<'_>,
    line_max: usize,
    shape: fn(&str) -> String,
) -> Vec<Line> {
    let mut left = request.chars_max;
    let mut lines: Vec<Line> = Vec::new();
    for quote in quotes {
        let text = clip(&plain(&quote.text), line_max);
        let length = text.chars().count() + 5;
        let known = request.shown.has(&text) || lines.iter().any(|line| line.text.contains(&text));
        if text.is_empty() || length > left || known {
            continue;
        }
        left -= length;
        lines.push(Line { text: shape(&text), refs: vec![quote.seq] });
    }
    lines
}

/// Returns failing checks and open errors.
fn blockers(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let mut lines = Vec::new();
    let mut left = request.chars_max;
    let failing = facts.checks.iter().filter(|run| run.failed() && run.seq >= facts.recent_from);
    let failing = failing.map(|run| match &run.detail {
        Some(detail) => (format!("`{}` fails: {}", run.name, flat(detail)), run.seq),
        None => (format!("`{}` fails.", run.name), run.seq),
    });
    let errors = facts.errors.iter().filter(|quote| quote.seq >= facts.recent_from);
    for (text, seq) in failing.chain(errors.map(|quote| (flat(&quote.text), quote.seq))) {
        let text = clip(&text, 150);
        let length = text.chars().count() + 3;
        if length <= left && !request.shown.has(&text) {
            left -= length;
            lines.push(Line { text, refs: vec![seq] });
        }
    }
    if lines.is_empty() && facts.checks.first().is_some_and(|run| !run.failed()) {
        // The last check passed after whatever those names stood for.
        return lines;
    }
    let types: Vec<&Name> =
        facts.error_types.iter().filter(|name| name.seq >= facts.recent_from).take(6).collect();
    lines.extend(name_line("Failures named", &types, request.shown, left.min(120)));
    lines
}

fn commands(request: &Request<'_>) -> Vec<Line> {
    let commands: Vec<&Name> =
        request.facts.commands.iter().filter(|name| name.seq >= request.facts.recent_from).collect();
    name_line("Commands", &commands, request.shown, request.chars_max)
}

fn references(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let all: Vec<&Name> = facts.values.iter().take(8).chain(&facts.references).take(18).collect();
    let mut recent: Vec<&Name> = all.into_iter().filter(|name| name.seq >= facts.recent_from).collect();
    request.by_goal(&mut recent, |name| &name.text);
    name_line("References", &recent, request.shown, request.chars_max)
}

fn names(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let mut names: Vec<&Name> =
        facts.identifiers.iter().filter(|name| name.count > 1 && name.seq >= facts.recent_from).collect();
    request.by_goal(&mut names, |name| &name.text);
    names.truncate(20);
    name_line("Names", &names, request.shown, request.chars_max)
}

/// Returns `label: a, b, c` of the names that fit and are not shown yet.
fn name_line(label: &str, names: &[&Name], shown: &Shown, chars_max: usize) -> Vec<Line> {
    let mut line = Line { text: format!("{label}:"), refs: Vec::new() };
    let mut left = chars_max.saturating_sub(line.text.len() + 3);
    for name in names {
        let length = name.text.chars().count() + 2;
        if length > left || shown.has(&name.text) {
            continue;
        }
        left -= length;
        line.text.push_str(if line.refs.is_empty() { " " } else { ", " });
        line.text.push_str(&name.text);
        line.refs.push(name.seq);
    }
    if line.refs.is_empty() { Vec::new() } else { vec![line] }
}

fn decisions(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let recent = facts.decisions.iter().rev().filter(|quote| quote.seq >= facts.recent_from);
    let prose = recent.filter(|quote| reads_as_prose(&quote.text) && !misleads(facts, &quote.text));
    let mut prose: Vec<&Quote> = prose.collect();
    request.by_goal(&mut prose, |quote| &quote.text);
    fill(prose.into_iter(), request, 200, str::to_owned)
}

/// Returns what the assistant said of the state of the work, the most telling first: the sentences that are nearest to
/// all of them, the newest messages before older ones, and what a goal is about before both.
pub(super) fn ranked_statements(facts: &Facts, goal: Option<&Goal>) -> Vec<Statement> {
    let recent = facts.statements.iter().filter(|quote| quote.seq >= facts.recent_from);
    let mut quotes: Vec<&Quote> = facts.statements_about_goal.iter().chain(recent).collect();
    quotes.sort_by_key(|quote| quote.seq);
    let sentences: Vec<(Seq, &str)> = quotes
        .into_iter()
        .flat_map(|quote| {
            model::extractive::sentences(&quote.text).map(move |sentence| (quote.seq, sentence))
        })
        .filter(|(_, sentence)| weight(sentence) >= 4 && reads_as_prose(sentence) && !sentence.ends_with(':'))
        .filter(|(_, sentence)| !misleads(facts, sentence))
        .collect();
    let texts: Vec<&str> = sentences.iter().map(|(_, sentence)| *sentence).collect();
    let mut scores = model::extractive::rank(&texts);
    let total = sentences.len().max(1) as f32;
    for (at, score) in scores.iter_mut().enumerate() {
        *score += 1.5 * at as f32 / total;
    }
    if let Some(goal) = goal {
        for (score, text) in scores.iter_mut().zip(&texts) {
            *score += GOAL_FACTOR * goal.score(goal.terms_in(text), &facts.frequencies);
        }
    }
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(b.cmp(a)));
    let told = order.into_iter().map(|at| (at, sentences[at]));
    told.map(|(at, (seq, sentence))| Statement { at, seq, text: clip(&plain(sentence), STATEMENT_CHARS) })
        .collect()
}

/// Returns the most telling statements that fit, in order.
fn statements(request: &Request<'_>) -> Vec<Line> {
    let mut left = request.chars_max;
    let mut chosen: Vec<&Statement> = Vec::new();
    for statement in request.source.statements {
        if left < STATEMENT_CHARS_MIN {
            break;
        }
        let length = statement.text.chars().count() + 3;
        let is_known = || chosen.iter().any(|known| known.text == statement.text);
        if length <= left && !is_known() && !request.shown.has(&statement.text) {
            left -= length;
            chosen.push(statement);
        }
    }
    chosen.sort_by_key(|statement| statement.at);
    chosen.into_iter().map(|told| Line { text: told.text.clone(), refs: vec![told.seq] }).collect()
}

/// Returns whether a sentence is made of words rather than of code.
fn reads_as_prose(sentence: &str) -> bool {
    let outside: String = sentence.split('`').step_by(2).collect();
    let symbols = outside.chars().filter(|c| "=(){}[];<>|_/\\\"$".contains(*c)).count();
    let starts_well = sentence.starts_with(|c: char| c.is_alphabetic() || matches!(c, '-' | '*' | '"' | '`'))
        || !sentence.is_ascii();
    let words = if sentence.is_ascii() { sentence.split_whitespace().count() } else { weight(sentence) };
    starts_well && !sentence.starts_with("```") && words >= 4 && symbols * 100 <= 7 * outside.len().max(1)
}

/// Returns whether a sentence speaks of an open task as if it were done, or of tests otherwise than they ended: the
/// task list and the last run are newer than the talk.
fn misleads(facts: &Facts, sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    if let Some(run) = facts.checks.iter().find(|run| run.check == Check::Test)
        && lower.contains("test")
    {
        let stale: &[&str] = if run.failed() { &["pass", "green", "ok"] } else { &["fail", "red"] };
        if lower
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| stale.iter().any(|stale| word.starts_with(stale)))
        {
            return true;
        }
    }
    let says_done = ["done", "complete", "finished", "implemented", "passing", "✅", "[x]"]
        .iter()
        .any(|word| lower.contains(word));
    says_done
        && facts.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).any(|todo| {
            let words: Vec<String> = todo
                .text
                .to_lowercase()
                .split(|c: char| !c.is_alphanumeric())
                .filter(|w| w.len() > 3)
                .map(str::to_owned)
                .collect();
            let hits =
                words.iter().filter(|word| lower.contains(&word[..word.floor_char_boundary(6)])).count();
            hits > 1 && hits * 3 >= words.len() * 2
        })
}

/// Returns requests between the first and the last, the newest first.
fn earlier_requests(request: &Request<'_>) -> Vec<Line> {
    let facts = request.facts;
    let recent = facts.requests.iter().rev().filter(|quote| quote.seq >= facts.recent_from);
    let mut earlier: Vec<&Quote> = recent.skip(1).chain(&facts.requests_about_goal).collect();
    request.by_goal(&mut earlier, |quote| &quote.text);
    fill(earlier.into_iter(), request, 200, |text| format!("Asked earlier: \"{text}\""))
}
