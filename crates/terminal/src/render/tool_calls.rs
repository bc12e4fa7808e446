//! Tool calls: one line for what is done, a few words for what came of it, and what is worth seeing below: the change
//! of a file, the list of tasks. It makes no call.

use std::time::Duration;

use protocol::ToolStatus;
use protocol::message::StopReason;
use serde_json::Value;

use crate::screen::Screen;
use crate::render::diff;
use crate::text::sanitize::{sanitize_line, sanitize};
use crate::text::wrap::wrap;

/// Lines of a change that are shown below its call; `/show` shows all.
const CHANGE_LINES_MAX: usize = 12;
/// Calls that take less are not told how long they took.
const SHOWN_DURATION_MIN: Duration = Duration::from_millis(1);

/// Returns a tool call on one line: the tool, and what it is about.
pub fn title(name: &str, args: &Value) -> String {
    let text = |key: &str| args.get(key).and_then(Value::as_str).map(sanitize_line);
    let about = match name {
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
    match about {
        Some(about) => format!("{} {about}", sanitize_line(name)).trim_end().to_owned(),
        None => arguments(name, args),
    }
}

/// Returns the call with all its arguments on one line.
fn arguments(name: &str, args: &Value) -> String {
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

/// Returns which lines of a file are read, if not all.
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

/// How an output ends or goes on where a part of it was left out.
const TRUNCATION_NOTE: &str = " bytes left out";

/// Returns what came of a call, in a few words.
pub fn outcome_text(status: ToolStatus, output: &str, took: Option<Duration>) -> String {
    let what = match status {
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
    let what = if output.contains(TRUNCATION_NOTE) { format!("{what}, cut") } else { what };
    match took.filter(|took| *took >= SHOWN_DURATION_MIN) {
        Some(took) => format!("{what} · {}", format_duration(took)),
        None => what,
    }
}

/// Returns what a person should know of how an answer stopped, if it is not the usual.
pub const fn stop_notice(stop: Option<StopReason>) -> Option<&'static str> {
    match stop {
        Some(StopReason::MaxTokens) => Some("The answer reached its limit of tokens and is cut off."),
        Some(StopReason::Refusal) => Some("The model, or a filter of its provider, declined to go on."),
        Some(StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other) | None => None,
    }
}

/// Returns a time for people.
pub fn format_duration(time: Duration) -> String {
    match time.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis @ 1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Returns the lines below a call that succeeded; most have none.
pub fn detail_lines(screen: &Screen, name: &str, args: &Value) -> Vec<String> {
    let text = |args: &Value, key: &str| {
        args.get(key).and_then(Value::as_str).map(|text| sanitize(text).into_owned()).unwrap_or_default()
    };
    match name {
        "edit_file" => {
            let more = args.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let own = args.get("old_string").map(|_| args);
            let edits = own.into_iter().chain(more);
            let change = |edit| diff::render_replacement(screen, &text(edit, "old_string"), &text(edit, "new_string"));
            truncate_lines(screen, edits.flat_map(change).collect())
        }
        "write_file" => truncate_lines(screen, diff::render_replacement(screen, "", &text(args, "content"))),
        "write_todos" => todo_lines(screen, args),
        _ => Vec::new(),
    }
}

fn truncate_lines(screen: &Screen, mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(CHANGE_LINES_MAX);
    if more > 1 {
        lines.truncate(CHANGE_LINES_MAX);
        lines.push(screen.style.dim(format!("… {more} more lines; /show opens them")));
    }
    lines
}

/// Returns the list of tasks as a checklist.
pub fn todo_lines(screen: &Screen, args: &Value) -> Vec<String> {
    let tasks = args.get("todos").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let line = |task: &Value| {
        let text = |key: &str| task.get(key).and_then(Value::as_str);
        let what = sanitize_line(text("content").or_else(|| text("text")).unwrap_or_default());
        let (mark, style) = match text("status") {
            Some("completed") => ("☑", 0),
            Some("in_progress") => ("▸", 1),
            Some(_) | None => ("☐", 2),
        };
        let wrapped = wrap(&what, screen.text_columns(), &format!("{mark} "), "  ");
        match style {
            0 => screen.style.dim(wrapped),
            1 => screen.style.bold(wrapped),
            _ => wrapped,
        }
    };
    tasks.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_says_what_it_is_about() {
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
    fn what_came_of_a_call_is_said_in_a_few_words() {
        let ms = Duration::from_millis;
        assert_eq!(outcome_text(ToolStatus::Success, "a\nb\n", Some(ms(12))), "2 lines · 12 ms");
        assert_eq!(outcome_text(ToolStatus::Success, "", None), "no output");
        let cut = "a\n[10 bytes left out]\nb\n";
        assert_eq!(outcome_text(ToolStatus::Success, cut, None), "3 lines, cut");
        assert_eq!(outcome_text(ToolStatus::Error, "\nno such file\nmore", Some(ms(0))), "failed: no such file");
        assert_eq!(format_duration(ms(1_250)), "1.2 s");
        assert_eq!(format_duration(ms(61_000)), "1 min 1 s");
    }
}
