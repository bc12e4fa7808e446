//! Renders Markdown source as blocks of lines: CommonMark with tables, strikethrough and task lists, parsed by
//! `pulldown-cmark`.
//!
//! Text is sanitized after parsing, because an entity such as `&#27;` may decode to a control character.

use std::ops::Range;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::tables::layout_table;
use crate::render::code::CodeHighlighter;
use crate::text::sanitize::sanitize;
use crate::text::style::{Style, close_styles_per_line};
use crate::text::wrap::{width, wrap};

/// The gutter of a quote, and of a line of code.
const GUTTER: &str = "│ ";
/// The most containers, and the most spans, inside each other that are laid out. Deeper ones are shown without marks: every
/// line would get a prefix for each of them, so that a short text would make megabytes of output.
const NESTING_MAX: usize = 64;
/// The largest width of a thematic break.
const RULE_COLUMNS_MAX: usize = 40;

/// The layout of a document.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct MarkdownLayout {
    /// The emphasis of the output.
    pub(super) style: Style,
    /// The width of the output, in columns.
    pub(super) columns: usize,
}

/// A part of a document that is printed as a whole: a top-level block, or an item of a top-level list.
#[derive(Debug, Default)]
pub(super) struct RenderedBlock {
    /// The byte offset of the block's end in the source, without the blank lines that follow.
    pub(super) source_end: usize,
    /// True if a blank line separates the block from the previous one.
    pub(super) has_blank_line_before: bool,
    /// The rendered lines, each with its newline.
    pub(super) lines: String,
    /// The way in which later text can extend the block. It matters only for the last block.
    pub(super) growth: BlockGrowth,
}

/// The way in which the last block of a document can grow when more text arrives.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum BlockGrowth {
    /// The block cannot grow.
    Closed,
    /// The block continues until a blank line.
    #[default]
    UntilBlankLine,
    /// The block is an item of a list, which may continue after blank lines.
    Item,
    /// The block is an open code fence that starts at this byte offset and has this info string.
    Fence { start: usize, info: String },
}

/// Returns the blocks of a source, which must be sanitized, in source order.
pub(super) fn render_blocks(source: &str, layout: MarkdownLayout) -> Vec<RenderedBlock> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(source, options);
    let definitions = parser.reference_definitions().iter().map(|(_, definition)| definition.span.clone());
    let definitions: Vec<Range<usize>> = definitions.collect();
    let mut renderer = BlockRenderer { source, layout, ..BlockRenderer::default() };
    for (event, range) in parser.into_offset_iter() {
        renderer.handle_event(event, range);
    }
    for range in definitions {
        // Link definitions are printed, because the terminal does not show the targets of links otherwise.
        let lines = format!("{}\n", source[range.clone()].trim_end());
        let has_blank_line_before = source[..range.start].ends_with("\n\n");
        renderer.blocks.push(RenderedBlock {
            source_end: range.end,
            has_blank_line_before,
            lines,
            growth: BlockGrowth::Closed,
        });
    }
    renderer.blocks.sort_by_key(|block| block.source_end);
    renderer.blocks
}

/// Returns a line of a code block with its gutter. `line` must be sanitized and have no newline.
pub(super) fn code_line(line: &str, code: &mut Option<CodeHighlighter>, style: Style) -> String {
    let text = match code {
        Some(code) => code.highlight_line(line, style),
        None => style.code(line),
    };
    format!("{}{text}", style.dim(GUTTER))
}

/// Returns the line that opens a code block with this info string.
fn code_opening(info: &str, style: Style) -> String {
    style.dim(format!("╷ {info}").trim_end())
}

/// Returns the line that closes a code block.
pub(super) fn code_closing(style: Style) -> String {
    style.dim("╵")
}

/// Returns the highlighter for a code block with this info string, whose first word names the language.
pub(super) fn code_highlighter(info: &str, style: Style) -> Option<CodeHighlighter> {
    CodeHighlighter::for_language(info.split([' ', ',', '{']).next().unwrap_or_default(), style)
}

/// A block that contains other blocks and gives their lines a prefix.
#[derive(Debug)]
enum BlockContainer {
    /// A block quote, whose lines all start with [`GUTTER`].
    Quote { is_mark_printed: bool },
    /// A list, which has no prefix of its own.
    List,
    /// An item of a list. Its first line starts with `mark`, the others are indented by the mark's width.
    Item { mark: String, is_mark_printed: bool },
}

/// A code block whose end the parser has not reported yet.
struct OpenCodeBlock {
    /// The info string; `None` for an indented block.
    info: Option<String>,
    /// The code so far, not sanitized.
    text: String,
    /// The byte offset of the end of the code in the source. A closing fence would follow it.
    end: usize,
}

/// The state of the rendering: it consumes the parser's events and collects blocks.
#[derive(Default)]
struct BlockRenderer<'s> {
    /// The source that is rendered.
    source: &'s str,
    /// The style and the width of the output.
    layout: MarkdownLayout,
    /// The open containers, outermost first.
    containers: Vec<BlockContainer>,
    /// The text of the open block and of each open span in it.
    spans: Vec<String>,
    /// The number of open spans that are too deep to be painted.
    unpainted_spans: usize,
    /// The targets of the open links.
    targets: Vec<String>,
    /// The open code block.
    code: Option<OpenCodeBlock>,
    /// The cells of the open table, header first.
    rows: Vec<Vec<String>>,
    /// The alignments of the open table's columns.
    alignments: Vec<Alignment>,
    /// The number of open blocks and spans.
    depth: usize,
    /// The byte offset in the source of the end of the last block with lines.
    last_end: usize,
    /// The block that is being rendered.
    block: RenderedBlock,
    /// The completed blocks.
    blocks: Vec<RenderedBlock>,
}

impl BlockRenderer<'_> {
    /// Handles an event of the parser, which covers `range` of the source.
    fn handle_event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => {
                self.start_tag(tag, &range);
                self.depth += 1;
            }
            Event::End(tag) => {
                self.depth -= 1;
                self.end_tag(tag, &range);
            }
            Event::Text(text) => match &mut self.code {
                Some(code) => {
                    code.text.push_str(&text);
                    code.end = range.end;
                }
                None => self.push_text(&sanitize_inline(&text)),
            },
            Event::Code(text) => self.push_text(&self.layout.style.code(sanitize_inline(&text))),
            Event::Html(text) | Event::InlineHtml(text) => self.push_text(&sanitize(&text)),
            Event::SoftBreak | Event::HardBreak => self.push_text("\n"),
            Event::Rule => {
                self.end_text(range.start);
                let columns = self.remaining_columns().min(RULE_COLUMNS_MAX);
                self.add_lines(&range, &[self.layout.style.dim("─".repeat(columns))]);
                self.close_block();
                self.end_block(&range);
            }
            Event::TaskListMarker(is_done) => {
                if let Some(BlockContainer::Item { mark, .. }) = self.containers.last_mut() {
                    *mark = if is_done { "☑ ".to_owned() } else { "☐ ".to_owned() };
                }
            }
            // Other events belong to options that are not enabled.
            _ => {}
        }
    }

    /// Opens a span, a container or a leaf block.
    fn start_tag(&mut self, tag: Tag<'_>, range: &Range<usize>) {
        match tag {
            Tag::TableCell => {
                self.spans.push(String::new());
                return;
            }
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough => {
                self.open_span();
                return;
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.open_span();
                self.targets.push(sanitize_inline(&dest_url));
                return;
            }
            _ => {}
        }
        // The text of a tight list item has no paragraph that would end it.
        self.end_text(range.start);
        match tag {
            Tag::BlockQuote(_) => self.open_container(BlockContainer::Quote { is_mark_printed: false }),
            Tag::List(_) => self.open_container(BlockContainer::List),
            Tag::Item => {
                let mark = self.item_mark(range.start);
                self.open_container(BlockContainer::Item { mark, is_mark_printed: false });
            }
            Tag::CodeBlock(kind) => {
                let info = match kind {
                    CodeBlockKind::Indented => None,
                    CodeBlockKind::Fenced(info) => Some(sanitize_inline(&info)),
                };
                let end =
                    self.source[range.clone()].find('\n').map_or(range.end, |offset| range.start + offset);
                self.code = Some(OpenCodeBlock { info, text: String::new(), end });
            }
            Tag::Table(alignments) => self.alignments = alignments,
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            _ => {}
        }
    }

    /// Closes a span, a container or a leaf block, and adds the lines of a leaf block.
    fn end_tag(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Emphasis => self.close_span(Style::italic),
            TagEnd::Strong => self.close_span(Style::bold),
            TagEnd::Strikethrough => self.close_span(Style::dim),
            TagEnd::Link | TagEnd::Image => {
                let target = self.targets.pop().unwrap_or_default();
                if self.unpainted_spans > 0 {
                    self.push_text(&format!(" ({target})"));
                }
                self.close_span(|style, text| render_link(style, text, &target));
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_text(range.end),
            TagEnd::Heading(_) => {
                let title = self.layout.style.bold(self.spans.concat());
                self.spans = vec![title];
                self.end_text(range.end);
                self.close_block();
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) => drop(self.containers.pop()),
            TagEnd::Item => {
                self.end_text(range.end);
                if let Some(BlockContainer::Item { is_mark_printed: false, .. }) = self.containers.last() {
                    self.add_lines(range, &[String::new()]);
                }
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code_block(range),
            TagEnd::TableCell => {
                let cell = self.spans.pop().unwrap_or_default();
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = std::mem::take(&mut self.rows);
                let lines =
                    layout_table(&rows, &self.alignments, self.remaining_columns(), self.layout.style);
                let source = || self.source[range.clone()].lines().map(str::to_owned).collect();
                self.add_lines(range, &lines.unwrap_or_else(source));
            }
            _ => {}
        }
        self.end_block(range);
    }

    /// Marks the current block as closed if it is a top-level block.
    fn close_block(&mut self) {
        if self.containers.is_empty() {
            self.block.growth = BlockGrowth::Closed;
        }
    }

    /// Completes the current block if the end of a top-level block or of an item of a top-level list was reached.
    fn end_block(&mut self, range: &Range<usize>) {
        let is_item = self.depth == 1 && matches!(self.containers[..], [BlockContainer::List]);
        if (self.depth == 0 || is_item) && !self.block.lines.is_empty() {
            let mut block = std::mem::take(&mut self.block);
            block.source_end = self.trimmed_end(range.end);
            if is_item {
                block.growth = BlockGrowth::Item;
            }
            self.blocks.push(block);
        }
    }

    /// Opens a container. One that is too deep gives its lines no prefix, as a list.
    fn open_container(&mut self, container: BlockContainer) {
        let is_too_deep = self.containers.len() >= NESTING_MAX;
        self.containers.push(if is_too_deep { BlockContainer::List } else { container });
    }

    /// Opens a span. The text of one that is too deep is added to the enclosing span.
    fn open_span(&mut self) {
        if self.spans.len() >= NESTING_MAX {
            self.unpainted_spans += 1;
        } else {
            self.spans.push(String::new());
        }
    }

    /// Closes the innermost span and appends its painted text to the enclosing span.
    fn close_span(&mut self, paint: impl FnOnce(Style, String) -> String) {
        if let Some(remaining) = self.unpainted_spans.checked_sub(1) {
            self.unpainted_spans = remaining;
            return;
        }
        let text = self.spans.pop().unwrap_or_default();
        self.push_text(&paint(self.layout.style, text));
    }

    /// Appends text to the innermost open span.
    fn push_text(&mut self, text: &str) {
        match self.spans.last_mut() {
            Some(span) => span.push_str(text),
            None => self.spans.push(text.to_owned()),
        }
    }

    /// Adds the collected inline text as wrapped lines. `end` is the offset of the text's end in the source.
    fn end_text(&mut self, end: usize) {
        let text = std::mem::take(&mut self.spans).concat();
        if !text.is_empty() {
            let columns = self.remaining_columns();
            let lines: Vec<String> =
                text.trim_end().split('\n').map(|line| wrap(line, columns, "", "")).collect();
            self.add_lines(&(self.last_end..end), &close_styles_per_line(lines.join("\n").split('\n')));
        }
    }

    /// Adds the lines of the open code block. A fenced block without a closing fence stays open, so that its next lines
    /// can be streamed.
    fn end_code_block(&mut self, range: &Range<usize>) {
        let Some(OpenCodeBlock { info, text, end }) = self.code.take() else { return };
        let style = self.layout.style;
        let mut highlighter = code_highlighter(info.as_deref().unwrap_or_default(), style);
        let mut lines: Vec<String> = info.iter().map(|info| code_opening(info, style)).collect();
        lines.extend(sanitize(&text).lines().map(|line| code_line(line, &mut highlighter, style)));
        let is_closed = info.is_some() && self.source[end..range.end].contains(['`', '~']);
        if is_closed {
            lines.push(code_closing(style));
        }
        self.add_lines(range, &lines);
        match info {
            Some(_) if is_closed => self.close_block(),
            Some(info) if self.containers.is_empty() => {
                self.block.growth = BlockGrowth::Fence { start: range.start, info };
            }
            Some(_) | None => {}
        }
    }

    /// Returns the columns that the prefixes of the open containers leave for the lines of a block.
    fn remaining_columns(&self) -> usize {
        let lead = self.containers.iter().map(|container| match container {
            BlockContainer::Quote { .. } => width(GUTTER),
            BlockContainer::Item { mark, .. } => width(mark),
            BlockContainer::List => 0,
        });
        self.layout.columns.saturating_sub(lead.sum())
    }

    /// Adds the lines of a leaf block, each with the prefixes of the open containers, and with a blank line before them
    /// if the source has one.
    fn add_lines(&mut self, range: &Range<usize>, lines: &[String]) {
        let gutter = self.layout.style.dim(GUTTER);
        let has_blank_line_before = self.is_preceded_by_blank_line(range);
        let (mut first, mut next, mut between) = (String::new(), String::new(), String::new());
        let mut are_outer_marks_printed = true;
        for container in &mut self.containers {
            let (mark, indent, is_mark_printed) = match container {
                BlockContainer::Quote { is_mark_printed } => {
                    (gutter.clone(), gutter.clone(), is_mark_printed)
                }
                BlockContainer::Item { mark, is_mark_printed } => {
                    (mark.clone(), " ".repeat(width(mark)), is_mark_printed)
                }
                BlockContainer::List => continue,
            };
            are_outer_marks_printed &= *is_mark_printed;
            if are_outer_marks_printed {
                between.push_str(&indent);
            }
            first.push_str(if *is_mark_printed { &indent } else { &mark });
            next.push_str(&indent);
            *is_mark_printed = true;
        }
        if self.block.lines.is_empty() {
            self.block.has_blank_line_before = has_blank_line_before;
        } else if has_blank_line_before {
            self.block.lines.push_str(between.trim_end());
            self.block.lines.push('\n');
        }
        for (index, line) in lines.iter().enumerate() {
            self.block.lines.push_str(if index == 0 { &first } else { &next });
            self.block.lines.push_str(line);
            self.block.lines.push('\n');
        }
        self.block.growth = BlockGrowth::UntilBlankLine;
        self.last_end = self.trimmed_end(range.end);
    }

    /// Returns whether the source has a blank line between the last block with lines and `range`. Lines with only quote
    /// marks count as blank.
    fn is_preceded_by_blank_line(&self, range: &Range<usize>) -> bool {
        let text = self.source.get(self.last_end..self.trimmed_end(range.end)).unwrap_or_default();
        let mut lines = text.split('\n').map(|line| line.trim_matches([' ', '>']).is_empty());
        // The first part is the end of the line above.
        lines.next() == Some(true) && lines.next() == Some(true)
    }

    /// Returns the offset of the last text before `end` that is not white space.
    fn trimmed_end(&self, end: usize) -> usize {
        self.source[..end].trim_end().len()
    }

    /// Returns the mark of the list item that starts at this offset of the source: its number, or a bullet.
    fn item_mark(&self, start: usize) -> String {
        let text = &self.source[start..];
        match text.find(|c: char| !c.is_ascii_digit()) {
            Some(digits @ 1..) => format!("{} ", &text[..=digits]),
            Some(_) | None => "• ".to_owned(),
        }
    }
}

/// Returns a link's text followed by its target in parentheses. The target is printed once if it is also the text.
fn render_link(style: Style, text: String, target: &str) -> String {
    match text.as_str() {
        label if label == target || target.is_empty() => style.code(text),
        "" => style.dim(format!("({target})")),
        _ => format!("{text} {}", style.dim(format!("({target})"))),
    }
}

/// Returns the text sanitized and on one line.
fn sanitize_inline(text: &str) -> String {
    sanitize(text).replace('\n', " ")
}
