//! Renders tool calls: a title line, a short outcome, and details such as a file's diff or the todo list. All arguments
//! and outputs are sanitized here.

use std::time::Duration;

use protocol::ToolStatus;
use protocol::message::StopReason;
use serde_json::Value;

use crate::render::diff;
use crate::screen::Screen;
use crate::text::sanitize::{sanitize, sanitize_line};
use crate::text::wrap::wrap;

/// The most lines of a diff shown below its call; `/show` shows all.
const CHANGE_LINES_MAX: usize = 12;
/// The shortest duration that is shown, because `0 ms` has no meaning for the reader.
const SHOWN_DURATION_MIN: Duration = Duration::from_millis(1);

/// Returns a tool call on one line: the tool's name and its subject, such as a path or a command. Unknown tools are
/// shown with all arguments.
pub fn title(name: &str, args: &Value) -> String {
    let text = |key: &str| args.get(key).and_then(Value::as_str).map(sanitize_line);
    let subject = match name {
        "read_file" => text("path").map(|path| format!("{path}{}", line_range(args))),
        "write_file" | "edit_file" => text("path"),
        "ls" => Some(text("path").unwrap_or_else(|| ".".to_owned())),
        "glob" | "grep" => text("pattern").map(|pattern| match text("path").filter(|path| path != ".") {
            Some(path) => format!("{pattern} in {path}"),
            None => pattern,
        }),
        "execute" => text("command"),
        "task" => text("description"),
        "write_todos" => Some(String::new()),
        _ => None,
    };
    match subject {
        Some(subject) => format!("{} {subject}", sanitize_line(name)).trim_end().to_owned(),
        None => title_with_arguments(name, args),
    }
}

/// Returns the tool's name and all arguments on one line.
fn title_with_arguments(name: &str, args: &Value) -> String {
    let mut line = sanitize_line(name);
    match args {
        Value::Object(fields) => {
            for (key, value) in fields {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                line.push_str(&format!(" {}={}", sanitize_line(key), sanitize_line(&value)));
            }
        }
        Value::Null => {}
        other => line.push_str(&format!(" {}", sanitize_line(&other.to_string()))),
    }
    line
}

/// Returns the range of lines that `read_file` reads, such as ` (1–200)`; empty for a whole file. Lines count from 1.
fn line_range(args: &Value) -> String {
    let number = |key: &str| args.get(key).and_then(Value::as_u64);
    match (number("offset"), number("limit")) {
        (None, None) => String::new(),
        (first, None) => format!(" ({}–)", first.unwrap_or(1).max(1)),
        (first, Some(count)) => {
            let first = first.unwrap_or(1).max(1);
            format!(" ({first}–{})", first + count.saturating_sub(1))
        }
    }
}

/// The text that the crate `tools` puts into a truncated output.
const TRUNCATION_NOTE: &str = " bytes left out";

/// The beginning of the result that the crate `tools` stores for a call that a user declined. A message may follow it.
const DECLINED_TEXT: &str = "The person declined this call";

/// The outcome of a call that a user declined. `: ` and the user's message may follow.
pub const DECLINED_OUTCOME: &str = "declined by the user";

/// Returns the outcome of a declined call, with the user's message if there is one.
fn declined_text(output: &str) -> String {
    let message = output.trim_start_matches(DECLINED_TEXT).trim_start_matches([':', '.']).trim();
    match message.lines().next() {
        Some(message) => format!("{DECLINED_OUTCOME}: {}", sanitize_line(message)),
        None => DECLINED_OUTCOME.to_owned(),
    }
}

/// Returns the outcome of a call in a few words: its first error line or the number of output lines, and its duration
/// if it is long enough to show.
pub fn outcome_text(status: ToolStatus, output: &str, duration: Option<Duration>) -> String {
    let outcome = match status {
        ToolStatus::Error if output.starts_with(DECLINED_TEXT) => declined_text(output),
        ToolStatus::Error => match output.lines().find(|line| !line.trim().is_empty()) {
            Some(first) => format!("failed: {}", sanitize_line(first)),
            None => "failed".to_owned(),
        },
        ToolStatus::Success => match output.lines().count() {
            0 => "no output".to_owned(),
            1 => "1 line".to_owned(),
            count => format!("{count} lines"),
        },
    };
    let outcome = if output.contains(TRUNCATION_NOTE) { format!("{outcome}, truncated") } else { outcome };
    match duration.filter(|duration| *duration >= SHOWN_DURATION_MIN) {
        Some(duration) => format!("{outcome} · {}", format_duration(duration)),
        None => outcome,
    }
}

/// Returns the notice for an answer that ended before the model was done; `None` for a regular end.
pub const fn stop_notice(stop: Option<StopReason>) -> Option<&'static str> {
    match stop {
        Some(StopReason::MaxTokens) => Some("The answer reached the token limit and is truncated."),
        Some(StopReason::Refusal) => Some("The model, or a filter of its provider, refused to continue."),
        Some(StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other) | None => None,
    }
}

/// Formats a duration, such as `850 ms`, `1.2 s` or `3 min 5 s`. The value is rounded down.
pub fn format_duration(time: Duration) -> String {
    match time.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis @ 1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Returns the lines below a successful call: the diff of an edit, or the todo list. Other calls have no such lines.
/// The diff is made from the arguments of the call, so it needs no access to the file.
pub fn detail_lines(screen: &Screen, name: &str, args: &Value) -> Vec<String> {
    let text = |args: &Value, key: &str| {
        args.get(key).and_then(Value::as_str).map(|text| sanitize(text).into_owned()).unwrap_or_default()
    };
    match name {
        "edit_file" => {
            let listed_edits =
                args.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let single_edit = args.get("old_string").map(|_| args);
            let edits = single_edit.into_iter().chain(listed_edits);
            let render =
                |edit| diff::render_replacement(screen, &text(edit, "old_string"), &text(edit, "new_string"));
            truncate_lines(screen, edits.flat_map(render).collect())
        }
        "write_file" => truncate_lines(screen, diff::render_replacement(screen, "", &text(args, "content"))),
        "write_todos" => todo_lines(screen, args),
        _ => Vec::new(),
    }
}

/// Limits the lines to [`CHANGE_LINES_MAX`] and adds a line with the number of omitted lines.
fn truncate_lines(screen: &Screen, mut lines: Vec<String>) -> Vec<String> {
    let omitted = lines.len().saturating_sub(CHANGE_LINES_MAX);
    if omitted > 1 {
        lines.truncate(CHANGE_LINES_MAX);
        lines.push(screen.style.dim(format!("… {omitted} more lines; /show shows all")));
    }
    lines
}

/// Returns the todo list of a `write_todos` call as a checklist.
/// The text of an entry is its field `content` or `text`; an unknown status counts as open.
pub fn todo_lines(screen: &Screen, args: &Value) -> Vec<String> {
    let tasks = args.get("todos").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let line = |task: &Value| {
        let text = |key: &str| task.get(key).and_then(Value::as_str);
        let content = sanitize_line(text("content").or_else(|| text("text")).unwrap_or_default());
        let wrapped = |mark: &str| wrap(&content, screen.text_columns(), mark, "  ");
        match text("status") {
            Some("completed") => screen.style.dim(wrapped("☑ ")),
            Some("in_progress") => screen.style.bold(wrapped("▸ ")),
            Some(_) | None => wrapped("☐ "),
        }
    };
    tasks.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_title_has_the_tool_and_its_subject() {
        let check = |name: &str, args: Value, expected: &str| assert_eq!(title(name, &args), expected);
        check("read_file", json!({"path": "a.rs"}), "read_file a.rs");
        check("read_file", json!({"path": "a.rs", "offset": 1, "limit": 200}), "read_file a.rs (1–200)");
        check("read_file", json!({"path": "a.rs", "offset": 20}), "read_file a.rs (20–)");
        check("grep", json!({"pattern": "fn \n main", "path": "src"}), "grep fn main in src");
        check("ls", json!({}), "ls .");
        check("execute", json!({"command": "ls -l\u{1b}[2J"}), "execute ls -l");
        check("write_todos", json!({"todos": []}), "write_todos");
        check("read_file", json!({"file": 1}), "read_file file=1");
        check("other", json!({"a": "b", "n": 2}), "other a=b n=2");
        check("other", Value::Null, "other");
    }

    #[test]
    fn the_outcome_is_a_few_words() {
        let ms = Duration::from_millis;
        assert_eq!(outcome_text(ToolStatus::Success, "a\nb\n", Some(ms(12))), "2 lines · 12 ms");
        assert_eq!(outcome_text(ToolStatus::Success, "", None), "no output");
        let truncated = "a\n[10 bytes left out]\nb\n";
        assert_eq!(outcome_text(ToolStatus::Success, truncated, None), "3 lines, truncated");
        assert_eq!(
            outcome_text(ToolStatus::Error, "\nno such file\nmore", Some(ms(0))),
            "failed: no such file"
        );
        assert_eq!(format_duration(ms(1_250)), "1.2 s");
        assert_eq!(format_duration(ms(61_000)), "1 min 1 s");
    }
}
