//! Renders changes: a unified diff, a replacement in a file, or two versions of a text. Each changed line has a `+` or
//! `-`, so that the output is readable without colour.

use text_diff::{LineTag, tagged_lines};

use crate::screen::Screen;
use crate::text::style::Style;
use crate::text::wrap::{shorten, wrap};

/// The number of unchanged lines shown before and after a replacement.
const CONTEXT_LINES: usize = 2;

/// Returns the lines of a unified diff, coloured and shortened to the screen. The text must be sanitized.
///
/// A line that is wider than the screen ends with `…`, so that each line of the diff is one row.
pub fn render_unified(screen: &Screen, diff: &str) -> Vec<String> {
    diff.lines().map(|line| color_line(screen, line)).collect()
}

/// Returns the removed and added lines of a replacement of `old` by `new`, with `CONTEXT_LINES` unchanged lines
/// around them. Both texts must be sanitized.
///
/// Only the common lines at the start and at the end count as unchanged, so the result has one block of removed lines
/// and one of added lines. Takes linear time.
pub fn render_replacement(screen: &Screen, old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail_max = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(tail_max).take_while(|(a, b)| a == b).count();
    let unchanged = |line: &&str| format!(" {line}");
    let mut lines: Vec<String> =
        old[head.saturating_sub(CONTEXT_LINES)..head].iter().map(unchanged).collect();
    lines.extend(old[head..old.len() - tail].iter().map(|line| format!("-{line}")));
    lines.extend(new[head..new.len() - tail].iter().map(|line| format!("+{line}")));
    lines.extend(new[new.len() - tail..].iter().take(CONTEXT_LINES).map(unchanged));
    lines.iter().map(|line| color_line(screen, line)).collect()
}

/// Returns the lines that differ between `old` and `new`, wrapped and in full, with the unchanged line before and after
/// each change. `…` stands for other unchanged lines, and empty lines are omitted. Both texts must be sanitized. The line
/// break at the end of a text is no difference.
pub fn render_versions(screen: &Screen, old: &str, new: &str) -> Vec<String> {
    // Every line ends with a line break, so that a last line equals the same line followed by others.
    let [old, new] = [old, new].map(|text| format!("{}\n", text.trim_end()));
    let changes: Vec<(LineTag, &str)> =
        tagged_lines(&old, &new).into_iter().map(|(tag, line)| (tag, line.trim_end())).collect();
    let is_near_change = |index: usize| {
        let neighbours = index.saturating_sub(1)..(index + 2).min(changes.len());
        changes[neighbours].iter().any(|(tag, _)| *tag != LineTag::Equal)
    };
    let mut lines = Vec::new();
    let mut is_gap = false;
    for (index, (tag, text)) in changes.iter().enumerate() {
        if text.is_empty() || !is_near_change(index) {
            is_gap |= *tag == LineTag::Equal && !text.is_empty();
            continue;
        }
        if std::mem::take(&mut is_gap) {
            lines.push(screen.style.dim("  …"));
        }
        let (first, next) = match tag {
            LineTag::Removed => ("- ", "-   "),
            LineTag::Added => ("+ ", "+   "),
            LineTag::Equal => ("  ", "    "),
        };
        let wrapped = wrap(text, screen.text_columns().saturating_sub(1), first, next);
        lines.extend(wrapped.lines().map(|line| color_line(screen, line)));
    }
    lines
}

/// Returns a line shortened to the screen, in the colour that its first character selects: `+`, `-`, or `@` for a hunk
/// header.
fn color_line(screen: &Screen, line: &str) -> String {
    let style: Style = screen.style;
    let text = shorten(line, screen.columns.saturating_sub(1));
    match line.as_bytes().first() {
        Some(b'+') => style.good(text),
        Some(b'-') => style.bad(text),
        Some(b'@') => style.code(text),
        Some(_) | None => style.dim(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};

    #[test]
    fn a_replacement_has_removed_and_added_lines() {
        let screen = Screen {
            style: Style::Plain,
            columns: 20,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let check = |old: &str, new: &str, expected: &[&str]| {
            assert_eq!(render_replacement(&screen, old, new), expected, "{old:?} {new:?}");
        };
        check("a\nb\nc", "a\nx\nc", &[" a", "-b", "+x", " c"]);
        check("a", "a\nb", &[" a", "+b"]);
        check("", "a", &["+a"]);
        check("a\na", "a", &[" a", "-a"]);
        check("same", "same", &[" same"]);
        check(&"w".repeat(40), "", &["-wwwwwwwwwwwwwwwww…"]);
    }

    #[test]
    fn versions_have_changed_lines_in_full_and_their_neighbours() {
        let screen = Screen {
            style: Style::Plain,
            columns: 30,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let old =
            "**T**\nTl.\n\n### A\n- one\n- two is a line that is longer than the screen\n- three\n- four\n";
        let new = "**T**\nTl.\n\n### A\n- one\n- two is a line that is longer\n- three\n- four\n- five\n";
        let expected = [
            "  …",
            "  - one",
            "- - two is a line that is",
            "-   longer than the screen",
            "+ - two is a line that is",
            "+   longer",
            "  - three",
            "  - four",
            "+ - five",
        ];
        assert_eq!(render_versions(&screen, old, new), expected);
        assert!(render_versions(&screen, old, old).is_empty());
        assert!(render_versions(&screen, old, old.trim_end()).is_empty(), "the last line is the same");
    }

    #[test]
    fn added_and_removed_lines_are_coloured() {
        let screen =
            Screen { style: Style::Color, columns: 20, audience: Audience::Person, cursor: CursorMode::Free };
        let lines = render_unified(&screen, "@@ -1 +1 @@\n-a\n+b\n c");
        assert!(lines[1].starts_with("\u{1b}[31m-a") && lines[2].starts_with("\u{1b}[32m+b"), "{lines:?}");
    }
}
