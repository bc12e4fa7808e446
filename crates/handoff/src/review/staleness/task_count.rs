//! Sentences that count the tasks, such as "Three tasks are open.": their number follows the task list. The wording is that
//! of a model or a person, so a number changes only if it is the one that the task list had before.

use std::ops::Range;

use protocol::{CarriedFacts, TodoStatus};

/// The numbers that are written as words, by their value.
const NUMBER_WORDS: [&str; 21] = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];
/// Words for what is counted: the singular and the plural.
const NOUNS: [(&str, &str); 2] = [("task", "tasks"), ("todo", "todos")];
/// Words that say that a task is open.
const OPEN_WORDS: [&str; 9] =
    ["open", "remain", "remains", "remaining", "left", "pending", "outstanding", "unfinished", "incomplete"];
/// Words that say that a task is done.
const DONE_WORDS: [&str; 4] = ["done", "completed", "finished", "complete"];
/// Verbs after what is counted: the singular and the plural.
const VERBS: [(&str, &str); 3] = [("is", "are"), ("has", "have"), ("remains", "remain")];
/// The most words between a number and what it counts.
const DISTANCE_MAX: usize = 3;

/// The numbers of tasks in a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskCounts {
    /// The tasks that are not completed.
    open: usize,
    /// All tasks.
    total: usize,
}

/// A word of a clause.
#[derive(Debug, Clone, Copy)]
struct ClauseWord<'a> {
    /// The word without punctuation.
    text: &'a str,
    /// Its offset in the line.
    start: usize,
}

impl TaskCounts {
    /// Returns the numbers of tasks in the facts.
    pub(super) fn from_facts(facts: &CarriedFacts) -> Self {
        let open = facts.todos.iter().filter(|task| task.status != TodoStatus::Completed).count();
        Self { open, total: facts.todos.len() }
    }

    /// Returns the line with the numbers of these tasks changed to those `after` a change of the task list.
    pub(super) fn replace_in(self, line: &str, after: Self) -> String {
        let clauses = clauses(line);
        let noun_at = clauses.iter().position(|clause| clause.iter().any(|word| is_noun(word.text)));
        let mut changes = Vec::new();
        for (index, clause) in clauses.iter().enumerate() {
            let is_elliptic = noun_at.is_some_and(|first| first < index);
            changes.extend(match is_elliptic && !clause.iter().any(|word| is_noun(word.text)) {
                true => self.elliptic_changes(clause, after),
                false => self.changes(line, clause, after),
            });
        }
        changes.sort_by_key(|(range, _)| range.start);
        let mut updated = line.to_owned();
        for (range, text) in changes.into_iter().rev() {
            updated.replace_range(range, &text);
        }
        updated
    }

    /// Returns the number of tasks that a clause counts, before and after the change; `None` if it counts neither open nor
    /// done tasks.
    fn counted(self, clause: &[ClauseWord<'_>], after: Self) -> Option<(usize, usize)> {
        let is_in =
            |list: &[&str]| clause.iter().any(|word| list.contains(&word.text.to_lowercase().as_str()));
        match (is_in(&OPEN_WORDS), is_in(&DONE_WORDS)) {
            (true, false) => Some((self.open, after.open)),
            (false, true) => Some((self.total - self.open, after.total - after.open)),
            (true, true) | (false, false) => None,
        }
    }

    /// Returns the changes of a clause that does not repeat the noun, such as "2 remain" in "3 tasks are done, 2 remain".
    fn elliptic_changes(self, clause: &[ClauseWord<'_>], after: Self) -> Vec<(Range<usize>, String)> {
        let Some((before_count, after_count)) = self.counted(clause, after) else { return Vec::new() };
        match clause {
            [number, verb, rest @ ..]
                if rest.len() < 2
                    && is_verb_or_state(verb.text)
                    && parse_number(number.text) == Some(before_count) =>
            {
                let verb_form = form_of(verb.text, &VERBS, after_count);
                vec![(number.range(), number_like(number.text, after_count)), (verb.range(), verb_form)]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the changes of the words of one clause; none if it does not count these tasks.
    fn changes(self, line: &str, clause: &[ClauseWord<'_>], after: Self) -> Vec<(Range<usize>, String)> {
        let Some((before_count, after_count)) = self.counted(clause, after) else { return Vec::new() };
        let Some(noun) = clause.iter().position(|word| is_noun(word.text)) else { return Vec::new() };
        let near = noun.saturating_sub(DISTANCE_MAX)..clause.len().min(noun + DISTANCE_MAX + 1);
        // A number after the noun counts only after a colon: "Task 3 is done" names one.
        let is_count = |index: &usize| {
            *index < noun || line[clause[noun].range().end..clause[*index].start].contains(':')
        };
        let numbers: Vec<usize> =
            near.filter(|index| parse_number(clause[*index].text).is_some()).filter(is_count).collect();
        let Some(&number) = numbers.first() else { return Vec::new() };
        if parse_number(clause[number].text) != Some(before_count) || before_count == after_count {
            return Vec::new();
        }
        let mut changes = vec![(number, number_like(clause[number].text, after_count))];
        let total = numbers.get(1).filter(|total| {
            **total == number + 2
                && clause[number + 1].text.eq_ignore_ascii_case("of")
                && parse_number(clause[**total].text) == Some(self.total)
        });
        changes.extend(total.map(|total| (*total, number_like(clause[*total].text, after.total))));
        let counted = if total.is_some() { after.total } else { after_count };
        changes.push((noun, form_of(clause[noun].text, &NOUNS, counted)));
        let verb = clause.get(noun + 1).filter(|_| number < noun);
        changes.extend(verb.map(|verb| (noun + 1, form_of(verb.text, &VERBS, after_count))));
        changes.into_iter().map(|(index, text)| (clause[index].range(), text)).collect()
    }
}

impl ClauseWord<'_> {
    /// Returns the bytes of the word in its line.
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// Returns the words of each clause of a line. A colon ends no clause, because "Open tasks: 3" is one.
fn clauses(line: &str) -> Vec<Vec<ClauseWord<'_>>> {
    let mut clauses = vec![Vec::new()];
    let mut offset = 0;
    for piece in line.split_inclusive(char::is_whitespace) {
        let text = piece.trim_matches(|c: char| !c.is_alphanumeric());
        let start = offset + piece.find(text).unwrap_or(0);
        offset += piece.len();
        if text.is_empty() {
            continue;
        }
        if let Some(clause) = clauses.last_mut() {
            clause.push(ClauseWord { text, start });
        }
        if piece.trim_end().ends_with(['.', ',', ';', '!', '?', ')']) || text.eq_ignore_ascii_case("and") {
            clauses.push(Vec::new());
        }
    }
    clauses
}

/// Returns whether the word names tasks.
fn is_noun(word: &str) -> bool {
    NOUNS.iter().any(|(one, many)| word.eq_ignore_ascii_case(one) || word.eq_ignore_ascii_case(many))
}

/// Returns whether the word is a verb of a count, or says that a task is open or done.
fn is_verb_or_state(word: &str) -> bool {
    let is_in = |list: &[&str]| list.iter().any(|known| word.eq_ignore_ascii_case(known));
    is_in(&OPEN_WORDS) || is_in(&DONE_WORDS) || VERBS.iter().any(|(one, many)| is_in(&[one, many]))
}

/// Returns the value of a number in digits or as a word.
fn parse_number(word: &str) -> Option<usize> {
    word.parse().ok().or_else(|| NUMBER_WORDS.iter().position(|known| word.eq_ignore_ascii_case(known)))
}

/// Returns a number, written like `model`: in digits, or as a word with its capital letter.
fn number_like(model: &str, number: usize) -> String {
    let word = NUMBER_WORDS.get(number).filter(|_| model.parse::<usize>().is_err());
    word.map_or_else(|| number.to_string(), |word| capitalize_like(model, word))
}

/// Returns the form of a word for a number, or the word itself if it is none of the forms.
fn form_of(word: &str, forms: &[(&str, &str)], count: usize) -> String {
    let known =
        forms.iter().find(|(one, many)| word.eq_ignore_ascii_case(one) || word.eq_ignore_ascii_case(many));
    known.map_or_else(
        || word.to_owned(),
        |(one, many)| capitalize_like(word, if count == 1 { one } else { many }),
    )
}

/// Returns the word with a capital letter if `model` begins with one.
fn capitalize_like(model: &str, word: &str) -> String {
    let mut letters = word.chars();
    match letters.next().filter(|_| model.starts_with(char::is_uppercase)) {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_tasks_follows_the_task_list_in_any_wording() {
        let counts = |open, total| TaskCounts { open, total };
        for (line, after, expected) in [
            ("Three tasks are open.", counts(2, 3), "Two tasks are open."),
            ("Three tasks are open.", counts(1, 3), "One task is open."),
            ("Three tasks are open.", counts(0, 3), "No tasks are open."),
            ("The fix is in; three tasks remain.", counts(1, 3), "The fix is in; one task remains."),
            ("3 open tasks, 1 blocker", counts(2, 3), "2 open tasks, 1 blocker"),
            ("Open tasks: 3", counts(2, 3), "Open tasks: 2"),
            ("3 of 4 tasks are open.", counts(2, 3), "2 of 3 tasks are open."),
            ("1 of 4 tasks is done", counts(2, 4), "2 of 4 tasks are done"),
            ("1 task is done, 3 remain.", counts(1, 4), "3 tasks are done, 1 remains."),
            ("One task is done and three are open.", counts(2, 4), "Two tasks are done and two are open."),
            // Other numbers, and numbers of something else.
            ("Task 1 is done.", counts(2, 4), "Task 1 is done."),
            (
                "The tasks are planned, 3 files remain.",
                counts(2, 4),
                "The tasks are planned, 3 files remain.",
            ),
            ("Two tasks are open.", counts(2, 3), "Two tasks are open."),
            ("Three files are open.", counts(2, 3), "Three files are open."),
            ("Three tasks were planned.", counts(2, 3), "Three tasks were planned."),
            ("Three tasks are open.", counts(3, 4), "Three tasks are open."),
        ] {
            assert_eq!(counts(3, 4).replace_in(line, after), expected, "{line}");
        }
    }
}
