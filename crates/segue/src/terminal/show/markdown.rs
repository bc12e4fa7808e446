//! Markdown as it streams in, rendered: headings, lists, tables, emphasis, code in colour. A line is committed once it
//! is whole and never drawn again, so that output of any length scrolls as plain text does; a table is one line here.

use crate::terminal::screen::Screen;
use crate::terminal::show::code::Code;
use crate::terminal::show::inline::inline;
use crate::terminal::show::tabular;
use crate::terminal::text::safe::safe;
use crate::terminal::text::style::Style;
use crate::terminal::text::wrap::{width, wrap};

/// What stands before a line of code.
const GUTTER: &str = "│ ";
/// Lines of a table that wait for its end; a longer one goes on as another.
const TABLE_LINES_MAX: usize = 200;

/// A document under way.
#[derive(Debug)]
pub(crate) struct Markdown {
    style: Style,
    columns: usize,
    /// What has arrived of the line that is not whole.
    pending: String,
    fence: Option<Fence>,
    /// The lines of the table under way.
    table: Vec<String>,
}

/// A code fence under way.
#[derive(Debug)]
struct Fence {
    /// The mark that closes it.
    mark: String,
    code: Option<Code>,
}

impl Markdown {
    /// Returns an empty document for `screen`.
    pub(crate) fn new(screen: &Screen) -> Self {
        Self {
            style: screen.style,
            columns: screen.text_columns(),
            pending: String::new(),
            fence: None,
            table: Vec::new(),
        }
    }

    /// Goes on in the width the screen has now.
    pub(crate) fn fit(&mut self, screen: &Screen) {
        self.columns = screen.text_columns();
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

    /// Returns what is left as whole lines; empty when nothing is.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        let line = std::mem::take(&mut self.pending);
        if !line.is_empty() {
            self.commit(&line, &mut out);
        }
        self.end_table(&mut out);
        self.fence = None;
        out
    }

    /// Returns what has arrived and is not committed, as it may look, for a place that is drawn again.
    pub(crate) fn preview(&self) -> Vec<String> {
        let pending = safe(&self.pending);
        let line = match &self.fence {
            Some(_) => format!("{GUTTER}{pending}"),
            None => wrap(&inline(&pending, self.style), self.columns, "", ""),
        };
        let table = self.table.iter().cloned();
        table.chain(line.lines().filter(|_| !pending.is_empty()).map(str::to_owned)).collect()
    }

    fn commit(&mut self, line: &str, out: &mut String) {
        for line in safe(line.trim_end_matches(['\n', '\r'])).split('\n') {
            if self.fence.is_none() && line.trim_start().starts_with('|') {
                self.table.push(line.to_owned());
                if self.table.len() < TABLE_LINES_MAX {
                    continue;
                }
                self.end_table(out);
                continue;
            }
            self.end_table(out);
            out.push_str(&self.render(line));
            out.push('\n');
        }
    }

    fn end_table(&mut self, out: &mut String) {
        for line in tabular::table(&std::mem::take(&mut self.table), self.columns, self.style) {
            out.push_str(&line);
            out.push('\n');
        }
    }

    fn render(&mut self, line: &str) -> String {
        let text = line.trim_start();
        if let Some(fence) = &mut self.fence {
            let mark = &fence.mark;
            if text.starts_with(mark.as_str()) && text.trim_end().trim_start_matches(&mark[..1]).is_empty() {
                self.fence = None;
                return self.style.dim("╵");
            }
            let code = match &mut fence.code {
                Some(code) => code.line(line, self.style),
                None => self.style.code(line),
            };
            return format!("{}{code}", self.style.dim(GUTTER));
        }
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark)) {
            let end = text.len() - text.trim_start_matches(&mark[..1]).len();
            let language = text[end..].trim();
            let name = language.split([' ', ',', '{']).next().unwrap_or_default();
            self.fence = Some(Fence { mark: text[..end].to_owned(), code: Code::begin(name, self.style) });
            return self.style.dim(format!("╷ {language}").trim_end());
        }
        self.block(line, text)
    }

    fn block(&self, line: &str, text: &str) -> String {
        let indent = &line[..line.len() - text.len()];
        let level = text.len() - text.trim_start_matches('#').len();
        if (1..=6).contains(&level) && text[level..].starts_with(' ') {
            let title = wrap(&inline(text[level..].trim(), self.style), self.columns, "", "");
            return self.style.bold(title);
        }
        if let Some(quoted) = text.strip_prefix('>') {
            let lead = format!("{indent}{}", self.style.dim(GUTTER));
            return wrap(&inline(quoted.trim(), self.style), self.columns, &lead, &lead);
        }
        if is_rule(text) {
            return self.style.dim("─".repeat(self.columns.min(40)));
        }
        let (lead, rest) = match item(text) {
            Some((mark, rest)) => match rest.get(..4) {
                Some("[ ] ") => (format!("{indent}☐ "), &rest[4..]),
                Some("[x] " | "[X] ") => (format!("{indent}☑ "), &rest[4..]),
                Some(_) | None => (format!("{indent}{mark} "), rest),
            },
            None => (indent.to_owned(), text),
        };
        let next = " ".repeat(width(&lead));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::screen::{Audience, Cursor};

    fn render(style: Style, chunks: &[&str]) -> String {
        let screen = Screen { style, columns: 40, audience: Audience::Program, cursor: Cursor::Fixed };
        let mut markdown = Markdown::new(&screen);
        let mut out: String = chunks.iter().map(|chunk| markdown.push(chunk)).collect();
        out.push_str(&markdown.finish());
        out
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(render(Style::Plain, &[text]), expected);
    }

    #[test]
    fn blocks_are_rendered_and_code_keeps_its_lines() {
        check("# Title\n", "Title\n");
        check("- one\n  - two\n1. three\n", "• one\n  • two\n1. three\n");
        check("- [ ] open\n- [x] done\n", "☐ open\n☑ done\n");
        check("> said\n", "│ said\n");
        check("```rust\nlet  x = 1; // **not bold**\n```\n", "╷ rust\n│ let  x = 1; // **not bold**\n╵\n");
        check("a\n| a | b |\n|---|---|\n| 1 | 2 |\nb\n", "a\na │ b\n──┼──\n1 │ 2\nb\n");
        check("```\n| a |\n```\n", "╷\n│ | a |\n╵\n");
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
        let text = "# T\n\n- **b** `c`\n```rust\nfn x() {}\n```\n|a|\n|-|\n|b|\nend";
        let whole = render(Style::Color, &[text]);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(render(Style::Color, &letters), whole);
        assert!(whole.contains("\u{1b}[1mb\u{1b}[22m"), "{whole:?}");
        assert!(whole.contains("\u{1b}[34mx\u{1b}[39m"), "{whole:?}");
    }

    #[test]
    fn what_is_not_whole_yet_can_be_looked_at() {
        let screen =
            Screen { style: Style::Plain, columns: 40, audience: Audience::Person, cursor: Cursor::Free };
        let mut markdown = Markdown::new(&screen);
        assert_eq!(markdown.push("done\nhalf a **li"), "done\n");
        assert_eq!(markdown.preview(), ["half a **li"]);
        assert_eq!(markdown.finish(), "half a **li\n");
        assert_eq!(markdown.preview(), Vec::<String>::new());
    }

    #[test]
    fn k5_escape_sequences_of_a_model_do_not_reach_the_terminal() {
        check("\u{1b}[2Jcl\u{202e}ear\n", "clear\n");
    }
}
