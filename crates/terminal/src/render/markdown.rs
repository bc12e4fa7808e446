//! Renders streamed Markdown: CommonMark with tables and highlighted code.
//!
//! Printed lines are never redrawn, so that output of any length scrolls like plain text. A block is printed as soon as
//! no further text can change it. Code is printed line by line, and lists item by item.

mod blocks;
mod tables;

use self::blocks::{
    BlockGrowth, MarkdownLayout, RenderedBlock, code_closing, code_highlighter, code_line, render_blocks,
};
use crate::render::code::CodeHighlighter;
use crate::screen::Screen;
use crate::text::sanitize::sanitize;

/// The largest block, in bytes, that is held back because later text may still change it. A larger block is printed in
/// its current form, which bounds the cost of parsing it again for each line.
const SOURCE_BYTES_MAX: usize = 32 * 1024;

/// A renderer of one streamed document.
#[derive(Debug)]
pub struct MarkdownRenderer {
    /// The style and the width of the output.
    layout: MarkdownLayout,
    /// The complete lines that are not printed yet.
    unprinted_source: String,
    /// The incomplete last line.
    partial_line: String,
    /// The code fence that is open at the end of the printed text.
    fence: Option<OpenCodeFence>,
    /// True if a block was printed, so that the next one may need a blank line before it.
    has_printed: bool,
}

/// An open code fence, whose lines are printed as they arrive.
#[derive(Debug)]
struct OpenCodeFence {
    /// The shortest mark that closes the fence: the characters that opened it, such as three backticks.
    closing_mark: String,
    /// The highlighter; `None` if the language is unknown or the style has no colours.
    code: Option<CodeHighlighter>,
}

impl MarkdownRenderer {
    /// Returns a renderer for an empty document.
    pub fn new(screen: &Screen) -> Self {
        Self {
            layout: MarkdownLayout { style: screen.style, columns: screen.text_columns() },
            unprinted_source: String::new(),
            partial_line: String::new(),
            fence: None,
            has_printed: false,
        }
    }

    /// Uses the current width of the screen from now on.
    pub fn fit_width(&mut self, screen: &Screen) {
        self.layout.columns = screen.text_columns();
    }

    /// Adds text and returns the lines that can be printed, each with its newline. The text is sanitized here. It may
    /// end at any character, even within a word.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            self.partial_line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.partial_line);
                self.push_line(&sanitize(&line), &mut out);
            }
        }
        out
    }

    /// Returns the remaining lines, each with its newline. Afterwards the renderer is ready for another document.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        let line = std::mem::take(&mut self.partial_line);
        if !line.is_empty() {
            self.push_line(&format!("{}\n", sanitize(&line)), &mut out);
        }
        self.print_all(&mut out);
        self.fence = None;
        self.has_printed = false;
        out
    }

    /// Returns a preview of the text that is not printed yet, for lines that are redrawn.
    pub fn preview(&self) -> Vec<String> {
        let pending = sanitize(&self.partial_line);
        if self.fence.is_some() {
            return pending.lines().map(|line| code_line(line, &mut None, self.layout.style)).collect();
        }
        let blocks = render_blocks(&format!("{}{pending}", self.unprinted_source), self.layout);
        blocks.iter().flat_map(|block| block.lines.lines()).map(str::to_owned).collect()
    }

    /// Adds a complete, sanitized line with its newline, and appends to `out` all lines that can be printed.
    fn push_line(&mut self, line: &str, out: &mut String) {
        match &mut self.fence {
            Some(fence) => {
                let style = self.layout.style;
                let mark = line.trim();
                let is_end = mark.starts_with(&fence.closing_mark)
                    && mark.trim_start_matches(&fence.closing_mark[..1]).is_empty();
                let line = match is_end {
                    true => code_closing(style),
                    false => code_line(line.trim_end_matches('\n'), &mut fence.code, style),
                };
                out.push_str(&line);
                out.push('\n');
                if is_end {
                    self.fence = None;
                }
            }
            None => {
                // A line of a paragraph or a row of a table cannot end a block.
                let continues_block = line.starts_with(|c: char| c.is_alphabetic() || c == '|');
                let may_end_block = !continues_block || self.unprinted_source.ends_with("\n\n");
                self.unprinted_source.push_str(line);
                if self.unprinted_source.len() > SOURCE_BYTES_MAX {
                    self.print_all(out);
                } else if may_end_block {
                    self.print_finished_blocks(out);
                }
            }
        }
    }

    /// Prints the blocks that later text cannot change, and drops their source. Blocks before the last one are always
    /// finished.
    fn print_finished_blocks(&mut self, out: &mut String) {
        let mut blocks = render_blocks(&self.unprinted_source, self.layout);
        let Some(last) = blocks.last() else { return };
        let growth = last.growth.clone();
        let is_finished = match growth {
            BlockGrowth::Closed | BlockGrowth::Fence { .. } => true,
            BlockGrowth::UntilBlankLine => {
                self.unprinted_source[last.source_end..].matches('\n').nth(1).is_some()
            }
            BlockGrowth::Item => false,
        };
        if !is_finished {
            blocks.pop();
        }
        let end = blocks.last().map_or(0, |block| block.source_end);
        self.append_blocks(&blocks, out);
        match growth {
            BlockGrowth::Fence { start, info } => {
                let closing_mark: String =
                    self.unprinted_source[start..].chars().take_while(|c| ['`', '~'].contains(c)).collect();
                self.fence =
                    Some(OpenCodeFence { closing_mark, code: code_highlighter(&info, self.layout.style) });
                self.unprinted_source.clear();
            }
            BlockGrowth::Closed | BlockGrowth::UntilBlankLine | BlockGrowth::Item => {
                drop(self.unprinted_source.drain(..end))
            }
        }
    }

    /// Prints all blocks, including those that later text could still change.
    fn print_all(&mut self, out: &mut String) {
        let blocks = render_blocks(&self.unprinted_source, self.layout);
        self.append_blocks(&blocks, out);
        self.unprinted_source.clear();
    }

    /// Appends the lines of blocks to `out`, with blank lines between blocks where the source has them.
    fn append_blocks(&mut self, blocks: &[RenderedBlock], out: &mut String) {
        for block in blocks {
            if block.has_blank_line_before && self.has_printed {
                out.push('\n');
            }
            out.push_str(&block.lines);
            self.has_printed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// Renders chunks that arrive one after another on a screen of 40 columns.
    fn render(style: Style, chunks: &[&str]) -> String {
        let screen = Screen { style, columns: 40, audience: Audience::Program, cursor: CursorMode::Fixed };
        let mut markdown = MarkdownRenderer::new(&screen);
        let mut out: String = chunks.iter().map(|chunk| markdown.push(chunk)).collect();
        out.push_str(&markdown.finish());
        out
    }

    /// Checks the output of a text that arrives as one chunk, without colour.
    fn check(text: &str, expected: &str) {
        assert_eq!(render(Style::Plain, &[text]), expected);
    }

    #[test]
    fn blocks_are_rendered_and_code_is_kept_verbatim() {
        check("# Title\n", "Title\n");
        check("- one\n  - two\n1. three\n", "• one\n  • two\n1. three\n");
        check("- [ ] open\n- [x] done\n", "☐ open\n☑ done\n");
        check("> quote\n", "│ quote\n");
        check("```rust\nlet  x = 1; // **not bold**\n```\n", "╷ rust\n│ let  x = 1; // **not bold**\n╵\n");
        check("a\n| a | b |\n|---|---|\n| 1 | 2 |\n\nb\n", "a\na │ b\n──┼──\n1 │ 2\n\nb\n");
        check("```\n| a |\n```\n", "╷\n│ | a |\n╵\n");
        check("\n\na\n\n\nb\n\n", "a\n\nb\n");
        check("Title\n=====\n\n    code\n", "Title\n\n│ code\n");
        check("a  \nb\\\nc\n\n* * *\n", "a\nb\nc\n\n────────────────────────────────────────\n");
        check("[x]\n\n[x]: http://e.org\n", "[x]\n\n[x]: http://e.org\n");
    }

    #[test]
    fn wrapped_list_items_are_indented() {
        check(
            "- a line that is longer than forty columns by far\n",
            "• a line that is longer than forty\n  columns by far\n",
        );
    }

    /// Providers split the text at arbitrary positions, so one character at a time is the strictest case.
    #[test]
    fn i4_chunk_boundaries_do_not_change_the_output() {
        let text = "# T\n\n- **b** `c`\n```rust\nfn x() {}\n```\n|a|\n|-|\n|b|\nend";
        let whole = render(Style::Color, &[text]);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(render(Style::Color, &letters), whole);
        assert!(whole.contains("\u{1b}[1mb\u{1b}[22m"), "{whole:?}");
        assert!(whole.contains("\u{1b}[34mx\u{1b}[39m"), "{whole:?}");
    }

    #[test]
    fn incomplete_text_has_a_preview() {
        let screen =
            Screen { style: Style::Plain, columns: 40, audience: Audience::Person, cursor: CursorMode::Free };
        let mut markdown = MarkdownRenderer::new(&screen);
        assert_eq!(markdown.push("done\n\nhalf a **li"), "done\n");
        assert_eq!(markdown.preview(), ["half a **li"]);
        assert_eq!(markdown.finish(), "\nhalf a **li\n");
        assert_eq!(markdown.preview(), Vec::<String>::new());
    }

    /// Each push returns exactly the lines that no later text can change.
    #[test]
    fn a_heading_an_item_and_a_line_of_code_are_printed_once_complete() {
        let screen =
            Screen { style: Style::Plain, columns: 40, audience: Audience::Person, cursor: CursorMode::Free };
        let mut markdown = MarkdownRenderer::new(&screen);
        assert_eq!(markdown.push("# T\n"), "T\n");
        assert_eq!(markdown.push("- a\n- b\n"), "• a\n");
        assert_eq!(markdown.push("\nText\n\n"), "• b\n\nText\n");
        assert_eq!(markdown.push("```\nx\n"), "\n╷\n│ x\n");
        assert_eq!(markdown.push("y\n```\n"), "│ y\n╵\n");
        assert_eq!(markdown.push("two\n**li"), "");
        assert_eq!(markdown.preview(), ["two", "**li"]);
        assert_eq!(markdown.push("nes**\n\n"), "two\nlines\n");
    }

    #[test]
    fn blocks_in_quotes_and_list_items_have_prefixes() {
        check("> a\n>\n> - b\n>   c\n> > d\n\nend\n", "│ a\n│\n│ • b\n│   c\n│ │ d\n\nend\n");
        check("1) a\n\n   ```\n   x\n   ```\n2) b\n", "1) a\n\n   ╷\n   │ x\n   ╵\n2) b\n");
        check("- > a\n- \n- - b\n", "• │ a\n• \n• • b\n");
    }

    /// Without a limit, 30 kB would make 400 MB.
    #[test]
    fn deep_nesting_makes_no_more_output_than_a_multiple_of_the_text() {
        let quote = format!("{}a\n{}", "> ".repeat(7_000), "b\n".repeat(7_000));
        let list = format!("{}a\n{}", "- ".repeat(7_000), "b\n".repeat(7_000));
        let images = format!("{}x{}\n", "![".repeat(4_000), "](y)".repeat(4_000));
        for text in [quote, list, images] {
            let rendered = render(Style::Color, &[&text]);
            assert!(rendered.len() < text.len() * 1_000, "{} bytes for {}", rendered.len(), text.len());
            assert!(rendered.contains('a') || rendered.contains("x (y) (y)"), "the text is shown");
        }
    }

    #[test]
    fn emphasis_continues_on_the_next_line_but_not_in_its_gutter() {
        let expected =
            "\u{1b}[2m│ \u{1b}[22m\u{1b}[1ma\u{1b}[22m\n\u{1b}[2m│ \u{1b}[22m\u{1b}[1mb\u{1b}[22m\n";
        assert_eq!(render(Style::Color, &["> **a\n> b**\n"]), expected);
    }

    #[test]
    fn emphasis_marks_are_removed() {
        check("a **bold** and *thin* `co_de`", "a bold and thin co_de\n");
        check("see [it](https://example.org/a_b) now", "see it (https://example.org/a_b) now\n");
        check("[x](x) <https://e.org> <a@e.org>", "x https://e.org a@e.org\n");
        check("[not a link] (x) [](x) [a](b c)", "[not a link] (x) (x) [a](b c)\n");
        check("~~gone~~ \\*kept\\* a\\b", "gone *kept* a\\b\n");
        check("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4\n");
        check("an **unclosed mark", "an **unclosed mark\n");
        check("~/home ~ 5", "~/home ~ 5\n");
        check("a ``` b", "a ``` b\n");
    }

    #[test]
    fn nested_emphasis_is_rendered() {
        assert_eq!(render(Style::Color, &["**a `b`**"]), "\u{1b}[1ma \u{1b}[36mb\u{1b}[39m\u{1b}[22m\n");
    }

    #[test]
    fn a_block_that_exceeds_the_size_limit_is_printed_before_it_ends() {
        let screen =
            Screen { style: Style::Plain, columns: 40, audience: Audience::Person, cursor: CursorMode::Free };
        let mut markdown = MarkdownRenderer::new(&screen);
        let printed = markdown.push(&"a line of text\n".repeat(SOURCE_BYTES_MAX / 10));
        assert!(printed.len() > SOURCE_BYTES_MAX, "{}", printed.len());
    }

    /// The parser decodes entities after the source was sanitized, so a control character could appear in the output
    /// again.
    #[test]
    fn k5_decoded_entities_are_sanitized() {
        check("a&#27;[2Jb &#x202e;c &#10;d &amp;", "a[2Jb c d &\n");
        check("[x](http://e&#27;[31m) `&#27;`", "x (http://e) &#27;\n");
        check("``` a&#27;[2Jb\n&#27;\n```\n", "╷ ab\n│ &#27;\n╵\n");
        check("|a|\n|-|\n|&#27;[2J&#10;b|\n", "a\n─────\n[2J b\n");
    }

    #[test]
    fn k5_escape_sequences_are_removed() {
        check("\u{1b}[2Jcl\u{202e}ear\n", "clear\n");
    }
}
