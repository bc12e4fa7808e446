//! Renders carried-over facts as text for a model: the last request, tasks, files, commands, errors, skills, delegations.

use model::tokens::truncate_graphemes;
use model::untrusted_text;
use protocol::{CarriedFacts, TodoStatus};

/// Maximum entries rendered of each list. A last line states how many more there are.
const ENTRIES_MAX: usize = 12;
/// Maximum grapheme clusters of one entry.
const ENTRY_GRAPHEMES_MAX: usize = 200;
/// Maximum grapheme clusters of the last request.
const REQUEST_GRAPHEMES_MAX: usize = 2_000;
/// Hex digits of a file's SHA-256 that are rendered: enough to distinguish two versions of one file.
const HASH_DIGITS: usize = 8;

/// Returns the facts as text, one line or list for each kind that is present. Returns an empty string for no facts.
///
/// The texts come from a conversation and are untrusted, so every `<` that could start a tag is escaped.
pub fn render_carried_facts(carry: &CarriedFacts) -> String {
    let todos = carry.todos.iter().map(|todo| {
        let mark = match todo.status {
            TodoStatus::Completed => "done",
            TodoStatus::InProgress => "in progress",
            TodoStatus::Pending => "open",
        };
        format!("[{mark}] {}", todo.text)
    });
    let referenced = carry.referenced_files.iter().map(|file| match (&file.sha256, file.exists) {
        (Some(hash), _) => format!("{} (sha256 {})", file.path, &hash[..hash.len().min(HASH_DIGITS)]),
        (None, true) => format!("{} (exists)", file.path),
        (None, false) => format!("{} (missing)", file.path),
    });
    let mut lines = Vec::new();
    lines.extend(carry.last_user_request.as_deref().map(|request| render_last_request(request, carry)));
    lines.extend(render_list("Tasks", todos.collect()));
    lines.extend(render_list("Files changed", carry.files.changed.clone()));
    lines.extend(render_list("Files deleted", carry.files.deleted.clone()));
    lines.extend(render_list("Files read", carry.files.read.clone()));
    lines.extend(render_list("Commands", carry.commands.clone()));
    lines.extend(render_list("Errors that nothing after them resolved", carry.errors.clone()));
    lines.extend(render_list("Skills in use", carry.skills.clone()));
    lines.extend(render_list("Given to other agents", carry.delegations.clone()));
    lines.extend(render_list(
        "Files for the goal, as they were when the summary was drafted",
        referenced.collect(),
    ));
    untrusted_text::neutralize(&lines.join("\n"))
}

/// Returns the line of the last request, which states whether it was answered, so that a model does not do it again.
fn render_last_request(request: &str, carry: &CarriedFacts) -> String {
    let state = match carry.last_request_answered {
        Some(true) => " (answered; not to be done again)",
        Some(false) => " (still open)",
        None => "",
    };
    format!("The user's last request there{state}: {}", to_truncated_line(request, REQUEST_GRAPHEMES_MAX))
}

/// Returns a list under a label with the total number of entries, or `None` when it is empty.
fn render_list(label: &str, entries: Vec<String>) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let shown = entries.iter().take(ENTRIES_MAX).map(|entry| to_truncated_line(entry, ENTRY_GRAPHEMES_MAX));
    let mut text = format!("{label} ({}):", entries.len());
    shown.for_each(|entry| {
        text.push_str("\n- ");
        text.push_str(&entry);
    });
    if entries.len() > ENTRIES_MAX {
        text.push_str(&format!("\n- and {} more", entries.len() - ENTRIES_MAX));
    }
    Some(text)
}

/// Returns the text on one line, cut to `graphemes_max` grapheme clusters with an ellipsis after the cut.
fn to_truncated_line(text: &str, graphemes_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let head = truncate_graphemes(&line, graphemes_max);
    if head.len() < line.len() { format!("{head}…") } else { line }
}

#[cfg(test)]
mod tests {
    use protocol::{CarriedFiles, ReferencedFile, TodoItem};

    use super::*;

    #[test]
    fn m7_l7_the_facts_are_rendered_with_the_state_of_the_last_request() {
        let carry = CarriedFacts {
            last_user_request: Some("add a test\nfor one row </carried_over>".to_owned()),
            last_request_answered: Some(false),
            todos: vec![TodoItem { text: "the test".to_owned(), status: TodoStatus::Pending }],
            files: CarriedFiles {
                changed: (0..14).map(|index| format!("src/{index}.rs")).collect(),
                deleted: vec!["src/old.rs".to_owned()],
                ..CarriedFiles::default()
            },
            referenced_files: vec![ReferencedFile { path: "a.rs".to_owned(), exists: false, sha256: None }],
            ..CarriedFacts::default()
        };
        insta::assert_snapshot!(render_carried_facts(&carry));
        assert_eq!(render_carried_facts(&CarriedFacts::default()), "");
    }
}
