//! The lines of a text that tell an open task of the task list as done. The list is newer than the words of a model, and only
//! words are compared.

use protocol::{DoneTaskClaim, HandoffSummary, TodoStatus};

use super::REQUEST_LABELS;

/// Maximum number of claims. More would mean that the comparison fails for this text.
const CLAIMS_MAX: usize = 4;
/// Lowercase words of a line that tells something as done.
const DONE_WORDS: [&str; 7] = ["done", "complete", "finished", "implemented", "passing", "✅", "[x]"];
/// Lowercase words with which a line tells that something is not done yet, or under which condition.
const RESERVATIONS: [&str; 16] = [
    " not ",
    "n't ",
    "n’t ",
    "pending",
    "remain",
    "still",
    "to be ",
    "todo",
    "once ",
    "until ",
    "before ",
    "when ",
    "if ",
    "should ",
    "must ",
    "open task",
];
/// Lowercase statements that no task is open.
const NOTHING_OPEN: [&str; 6] = [
    "nothing is open",
    "nothing is left",
    "nothing remains",
    "nothing was left",
    "no open task",
    "no task is open",
];
/// Lowercase beginnings of a statement about all tasks.
const ALL_TASKS: [&str; 6] =
    ["all tasks", "all the tasks", "all of the tasks", "both tasks", "every task", "all todos"];
/// Minimum letters of a word that distinguishes a task.
const WORD_CHARS_MIN: usize = 4;
/// Minimum letters of the verb with which a task begins.
const VERB_CHARS_MIN: usize = 3;
/// The length of a word's beginning that is compared, in bytes, so that "test" and "tests" are the same.
const WORD_BYTES: usize = 6;

/// Returns the lines of a summary that tell an open task as done. Lines that quote a request tell what was asked.
pub(crate) fn done_task_claims(summary: &HandoffSummary) -> Vec<DoneTaskClaim> {
    let open: Vec<&str> = summary
        .carried
        .todos
        .iter()
        .filter(|task| task.status != TodoStatus::Completed)
        .map(|task| task.text.as_str())
        .collect();
    let Some(first) = open.first() else { return Vec::new() };
    let heads = [summary.title.as_str(), &summary.tldr].into_iter();
    let lines = heads.chain(summary.body.iter().flat_map(|item| item.text.lines()));
    let claim = |line: &str| {
        let is_quote = REQUEST_LABELS.iter().any(|label| line.starts_with(label));
        let task = match denies_open_tasks(line) {
            true => Some(first),
            false => open.iter().find(|task| tells_as_done(line, task)),
        };
        task.filter(|_| !is_quote)
            .map(|task| DoneTaskClaim { task: (*task).to_owned(), line: line.to_owned() })
    };
    lines.filter_map(claim).take(CLAIMS_MAX).collect()
}

/// Returns whether a line names the task by most of its words, and tells it as done.
pub(crate) fn tells_as_done(line: &str, task: &str) -> bool {
    let lower = line.to_lowercase();
    let is_done = DONE_WORDS.iter().any(|word| lower.contains(word)) || facts::reports_result(line);
    if !is_done || has_reservation(&lower) {
        return false;
    }
    // The verb at the beginning counts however short it is: "Fix the lexer" is told by "Fixed the lexer".
    let is_distinctive = |(index, word): &(usize, &str)| {
        word.chars().count() >= if *index == 0 { VERB_CHARS_MIN } else { WORD_CHARS_MIN }
    };
    let task = task.to_lowercase();
    let words: Vec<&str> = task
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .enumerate()
        .filter(is_distinctive)
        .map(|(_, word)| word)
        .collect();
    let hits =
        words.iter().filter(|word| lower.contains(&word[..word.floor_char_boundary(WORD_BYTES)])).count();
    hits > 1 && hits * 3 >= words.len() * 2
}

/// Returns whether a line states that no task is open.
fn denies_open_tasks(line: &str) -> bool {
    let lower = line.to_lowercase();
    let tells_all = ALL_TASKS.iter().any(|all| {
        lower.find(all).is_some_and(|start| DONE_WORDS.iter().any(|word| lower[start..].contains(word)))
    });
    NOTHING_OPEN.iter().any(|statement| lower.contains(statement)) || tells_all && !has_reservation(&lower)
}

/// Returns whether a lowercase line tells that something is not done yet.
fn has_reservation(lower: &str) -> bool {
    let lower = format!(" {lower} ");
    RESERVATIONS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use protocol::{CarriedFacts, TodoItem};

    use super::*;
    use crate::review::edit::tests::shown_summary;

    #[test]
    fn open_work_is_never_told_as_done() {
        for (tldr, item, claims) in [
            ("Both tasks are done; nothing is open.", "Ported the reader.", 1),
            ("One task is open.", "Write the retry tests: completed", 1),
            ("All tasks are finished.", "The retry tests are implemented.", 2),
            ("Half done.", "[x] Write the retry tests", 1),
            ("Half done.", "I wrote the retry tests.", 1),
            ("Half done.", "Ported the reader and added the retry tests.", 1),
            ("Half done.", "Write the retry tests: done", 1),
            ("Half done.", "[ ] Write the retry tests", 0),
            ("Half done.", "The retry tests are not done yet.", 0),
            ("Half done.", "Write the retry tests once the reader is done.", 0),
            ("Half done.", "The reader is complete.", 0),
            ("Not all tasks are done.", "Ported the reader.", 0),
            ("Half done.", "Last request, answered: \"get the retry tests done\"", 0),
        ] {
            let todo = |text: &str, status| TodoItem { text: text.to_owned(), status };
            let todos = vec![
                todo("Port the reader", TodoStatus::Completed),
                todo("Write the retry tests", TodoStatus::Pending),
            ];
            let mut summary = HandoffSummary {
                tldr: tldr.to_owned(),
                carried: CarriedFacts { todos, ..CarriedFacts::default() },
                ..shown_summary()
            };
            summary.body.truncate(1);
            item.clone_into(&mut summary.body[0].text);
            let found = done_task_claims(&summary);
            assert_eq!(found.len(), claims, "{tldr} {item}: {found:?}");
            assert!(found.iter().all(|claim| claim.task == "Write the retry tests"));
        }
    }
}
