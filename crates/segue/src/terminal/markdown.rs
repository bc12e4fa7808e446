//! Markdown as it streams in, lightly rendered: headings, lists, emphasis, code. A line is committed once it is whole
//! and never drawn again, so that output of any length scrolls as plain text does.

use crate::terminal::safe::safe;
use crate::terminal::screen::Screen;
use crate::terminal::style::Style;
use crate::terminal::wrap::wrap;

/// What stands before a line of code.
const GUTTER: &str = "│ ";

/// A document under way.
#[derive(Debug)]
pub(crate) struct Markdown {
    style: Style,
    columns: usize,
    /// What has arrived of the line that is not whole.
    pending: String,
    /// The mark that closes the code fence under way.
    fence: Option<String>,
}

impl Markdown {
    /// Returns an empty document for `screen`.
    pub(crate) fn new(screen: &Screen) -> Self {
        Self { style: screen.style, columns: screen.text_columns(), pending: String::new(), fence: None }
    }

    /// Takes more text and returns the lines that became whole, each with its newline.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            self.pending.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.pending);
                self.commit(&line, &mut out);
            }
        }
        out
    }

    /// Returns what is left as a whole line; empty when nothing is.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        let line = std::mem::take(&mut self.pending);
        if !line.is_empty() {
            self.commit(&line, &mut out);
        }
        self.fence = None;
        out
    }

    fn commit(&mut self, line: &str, out: &mut String) {
        for line in safe(line.trim_end_matches(['\n', '\r'])).split('\n') {
            out.push_str(&self.render(line));
            out.push('\n');
        }
    }

    fn render(&mut self, line: &str) -> String {
        let text = line.trim_start();
        if let Some(mark) = &self.fence {
            if text.starts_with(mark.as_str()) && text.trim_end().trim_start_matches(&mark[..1]).is_empty() {
                self.fence = None;
                return self.style.dim("╵");
            }
            return format!("{}{}", self.style.dim(GUTTER), self.style.code(line));
        }
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark)) {
            let end = text.len() - text.trim_start_matches(&mark[..1]).len();
            self.fence = Some(text[..end].to_owned());
            return self.style.dim(format!("╷ {}", text[end..].trim()).trim_end());
        }
        self.block(line, text)
    }

    fn block(&self, line: &str, text: &str) -> String {
        let indent = &line[..line.len() - text.len()];
        let level = text.len() - text.trim_start_matches('#').len();
        if (1..=6).contains(&level) && text[level..].starts_with(' ') {
            return self.style.bold(inline(text[level..].trim(), self.style));
        }
        if let Some(quoted) = text.strip_prefix('>') {
            let lead = format!("{indent}{}", self.style.dim(GUTTER));
            return wrap(&inline(quoted.trim(), self.style), self.columns, &lead, &lead);
        }
        if text.starts_with('|') || is_rule(text) {
            return line.to_owned();
        }
        let (lead, rest) = match item(text) {
            Some((mark, rest)) => (format!("{indent}{mark} "), rest),
            None => (indent.to_owned(), text),
        };
        let next = " ".repeat(lead.chars().count());
        wrap(&inline(rest, self.style), self.columns, &lead, &next)
    }
}

fn is_rule(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 3 && ['-', '*', '_'].into_iter().any(|mark| text.chars().all(|c| c == mark))
}

/// Returns the mark of a list item and its text.
fn item(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = ["- ", "* ", "+ "].into_iter().find_map(|mark| text.strip_prefix(mark)) {
        return Some(("•", rest));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = text[digits..].strip_prefix(". ").or_else(|| text[digits..].strip_prefix(") "))?;
    (1..=9).contains(&digits).then(|| (&text[..=digits], rest))
}

/// Returns one line with code spans, bold and slanted text emphasised.
pub(crate) fn inline(text: &str, style: Style) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '_']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match span(from, out.chars().next_back()) {
            Some((Span::Code, inner, after)) => {
                out.push_str(&style.code(inner));
                rest = after;
            }
            Some((Span::Bold, inner, after)) => {
                out.push_str(&style.bold(inline(inner, style)));
                rest = after;
            }
            Some((Span::Italic, inner, after)) => {
                out.push_str(&style.italic(inline(inner, style)));
                rest = after;
            }
            None => {
                out.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

enum Span {
    Code,
    Bold,
    Italic,
}

/// Returns the span that begins `text`: its kind, its inside and what follows it. After a letter `before` it, an
/// underscore begins nothing.
fn span(text: &str, before: Option<char>) -> Option<(Span, &str, &str)> {
    let opens = before.is_none_or(|c| !c.is_alphanumeric());
    let run = |mark: char| text.len() - text.trim_start_matches(mark).len();
    if text.starts_with('`') {
        let mark = &text[..run('`')];
        let (inner, after) = text[mark.len()..].split_once(mark)?;
        return Some((Span::Code, inner.trim_matches(' '), after)).filter(|_| !inner.is_empty());
    }
    for (mark, bold) in [("**", true), ("__", true), ("*", false), ("_", false)] {
        let Some(body) = text.strip_prefix(mark).filter(|_| opens || mark.starts_with('*')) else { continue };
        let Some(end) = body.find(mark).filter(|end| *end > 0) else { continue };
        let (inner, after) = (&body[..end], &body[end + mark.len()..]);
        let tight = !inner.starts_with(' ') && !inner.ends_with(' ');
        let closed = !mark.starts_with('_') || after.chars().next().is_none_or(|c| !c.is_alphanumeric());
        if tight && closed {
            return Some((if bold { Span::Bold } else { Span::Italic }, inner, after));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::screen::Audience;

    fn render(style: Style, chunks: &[&str]) -> String {
        let screen = Screen { style, columns: 40, audience: Audience::Program };
        let mut markdown = Markdown::new(&screen);
        let mut out: String = chunks.iter().map(|chunk| markdown.push(chunk)).collect();
        out.push_str(&markdown.finish());
        out
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(render(Style::Plain, &[text]), expected);
    }

    #[test]
    fn marks_of_emphasis_are_not_shown_and_code_keeps_its_lines() {
        check("# Title\n", "Title\n");
        check("a **bold** and *thin* `co_de`\n", "a bold and thin co_de\n");
        check("- one\n  - two\n1. three\n", "• one\n  • two\n1. three\n");
        check("> said\n", "│ said\n");
        check("```rust\nlet  x = 1; // **not bold**\n```\n", "╷ rust\n│ let  x = 1; // **not bold**\n╵\n");
        check("snake_case_name and 2 * 3 * 4\n", "snake_case_name and 2 * 3 * 4\n");
        check("| a | b |\n|---|---|\n", "| a | b |\n|---|---|\n");
        check("an **unclosed mark\n", "an **unclosed mark\n");
        check("\n", "\n");
    }

    #[test]
    fn lists_wrap_under_their_text() {
        check(
            "- a line that is longer than forty columns by far\n",
            "• a line that is longer than forty\n  columns by far\n",
        );
    }

    #[test]
    fn i4_where_the_chunks_are_cut_does_not_show() {
        let text = "# T\n\n- **b** `c`\n```\nx\n```\nend";
        let whole = render(Style::Color, &[text]);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(render(Style::Color, &letters), whole);
        assert!(whole.contains("\u{1b}[1mb\u{1b}[22m"), "{whole:?}");
    }

    #[test]
    fn k5_escape_sequences_of_a_model_do_not_reach_the_terminal() {
        check("\u{1b}[2Jcl\u{202e}ear\n", "clear\n");
    }
}
