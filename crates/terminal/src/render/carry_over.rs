//! Renders the facts that a handoff carries over independently of the model: the last request, todos, files, commands
//! and errors. All texts are sanitized here.

use protocol::{CarryOver, ReferencedFile, TodoItem, TodoStatus};

use crate::screen::Screen;
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::{shorten, wrap};

/// The most names shown in one row; `…` stands for the others.
const NAMES_MAX: usize = 3;
/// The most entries shown per section of the full rendering.
const ENTRIES_MAX: usize = 12;
/// The number of hex digits shown of a file's SHA-256 hash. They identify a version of the file to a reader.
const HASH_DIGITS: usize = 8;

/// Returns one row per kind of fact, shortened to the screen. Kinds without facts have no row.
pub fn render_brief(screen: &Screen, carry: &CarryOver) -> Vec<String> {
    let request = carry.last_user_request.as_deref().map(sanitize_line).filter(|text| !text.is_empty());
    let files: Vec<String> = carry.referenced_files.iter().map(file_state).collect();
    let rows = [
        request.map(|text| format!("  Last request: {text}")),
        todos_row(&carry.todos),
        names_row("Files changed", &carry.files_modified),
        names_row("Files read", &carry.files_read),
        names_row("Errors", &carry.errors),
        names_row("Files for the goal", &files),
    ];
    let columns = screen.text_columns().saturating_sub(1);
    rows.into_iter().flatten().map(|row| shorten(&row, columns).into_owned()).collect()
}

/// Returns one section per kind of fact: a heading, and at most `ENTRIES_MAX` wrapped entries. Kinds without facts
/// have no section.
pub fn render_full(screen: &Screen, carry: &CarryOver) -> Vec<String> {
    let columns = screen.text_columns();
    let mut lines = Vec::new();
    let mut section = |label: &str, entries: Vec<String>| {
        let entries: Vec<String> = entries.into_iter().filter(|entry| !entry.is_empty()).collect();
        if entries.is_empty() {
            return;
        }
        lines.push(screen.style.bold(label));
        lines.extend(entries.iter().take(ENTRIES_MAX).map(|entry| wrap(entry, columns, "  • ", "    ")));
        if entries.len() > ENTRIES_MAX {
            lines.push(screen.style.dim(format!("    … {} more", entries.len() - ENTRIES_MAX)));
        }
    };
    let safe = |texts: &[String]| texts.iter().map(|text| sanitize_line(text)).collect::<Vec<_>>();
    section("Last request", carry.last_user_request.iter().map(|text| sanitize_line(text)).collect());
    section(
        "Todos",
        carry
            .todos
            .iter()
            .map(|todo| format!("{} {}", status_label(todo.status), sanitize_line(&todo.text)))
            .collect(),
    );
    section("Files changed", safe(&carry.files_modified));
    section("Files read", safe(&carry.files_read));
    section("Commands", safe(&carry.commands));
    section("Errors", safe(&carry.errors));
    section("Files for the goal", carry.referenced_files.iter().map(file_state).collect());
    lines
}

/// Returns a row with the number of names and the first [`NAMES_MAX`] of them; `None` if there are no names.
fn names_row(label: &str, names: &[String]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| sanitize_line(name)).collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    (!names.is_empty()).then(|| format!("  {label} ({}): {}{more}", names.len(), shown.join(", ")))
}

/// Returns a row with the number of open and completed todos and the next open one; `None` if there are no todos.
fn todos_row(todos: &[TodoItem]) -> Option<String> {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let next = todos.iter().find(|todo| todo.status != TodoStatus::Completed);
    let next = next.map(|todo| format!("; next: {}", sanitize_line(&todo.text))).unwrap_or_default();
    (!todos.is_empty()).then(|| format!("  Todos: {} open, {done} done{next}", todos.len() - done))
}

/// Returns the label of a todo's status.
const fn status_label(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Completed => "[done]",
        TodoStatus::InProgress => "[in progress]",
        TodoStatus::Pending => "[open]",
    }
}

/// Returns a file's path with the start of its hash, or with a note whether it exists if it has no hash.
fn file_state(file: &ReferencedFile) -> String {
    let path = sanitize_line(&file.path);
    match (&file.sha256, file.exists) {
        (Some(hash), _) => format!("{path} ({})", &hash[..hash.len().min(HASH_DIGITS)]),
        (None, true) => format!("{path} (exists)"),
        (None, false) => format!("{path} (missing)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;
    use crate::text::wrap::width;

    /// Returns facts of every kind: a request with an escape sequence, more files than a row shows, and files in each
    /// state.
    fn carry() -> CarryOver {
        let file = |path: &str, exists, sha256: Option<&str>| ReferencedFile {
            path: path.to_owned(),
            exists,
            sha256: sha256.map(str::to_owned),
        };
        CarryOver {
            last_user_request: Some(
                "do the same in src/backoff.rs\nand run \u{1b}[2Jthe whole suite ".repeat(3),
            ),
            todos: vec![
                TodoItem { text: "one".to_owned(), status: TodoStatus::Completed },
                TodoItem { text: "two".to_owned(), status: TodoStatus::Pending },
            ],
            files_read: (0..20).map(|index| format!("src/{index}.rs")).collect(),
            files_modified: vec!["src/retry.rs".to_owned()],
            errors: vec!["left: 2, right: 3".to_owned()],
            referenced_files: vec![
                file("a.rs", true, Some(&"3fa9c1d07e".repeat(6))),
                file("b.rs", false, None),
                file("big.bin", true, None),
            ],
            ..CarryOver::default()
        }
    }

    #[test]
    fn the_brief_rendering_has_a_row_per_kind_of_fact() {
        let screen = Screen {
            style: Style::Plain,
            columns: 60,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let rows = render_brief(&screen, &carry());
        assert!(rows.iter().all(|row| width(row) < 60), "{rows:#?}");
        assert_eq!(
            rows[1..5],
            [
                "  Todos: 1 open, 1 done; next: two",
                "  Files changed (1): src/retry.rs",
                "  Files read (20): src/0.rs, src/1.rs, src/2.rs, …",
                "  Errors (1): left: 2, right: 3",
            ]
        );
        assert!(
            rows[5].starts_with("  Files for the goal (3): a.rs (3fa9c1d0), b.rs (missing)"),
            "{}",
            rows[5]
        );
        assert!(render_brief(&screen, &CarryOver::default()).is_empty());
    }

    #[test]
    fn the_full_rendering_is_bounded_and_reports_omitted_entries() {
        let screen = Screen {
            style: Style::Plain,
            columns: 60,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let lines = render_full(&screen, &carry());
        assert!(
            lines.contains(&"    … 8 more".to_owned()) && lines.contains(&"  • [done] one".to_owned()),
            "{lines:#?}"
        );
        assert!(!lines.concat().contains('\u{1b}'), "{lines:#?}");
    }
}
