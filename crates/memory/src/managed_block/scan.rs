//! Finds the markers of a text and the blocks that they form, with the rules of [`super`]. Handling them is the
//! caller's task.
//!
//! Code fences, HTML comments and indented code follow CommonMark as far as markers are concerned. A scan takes
//! linear time: searches for the end of a fence or comment that reached the end of the text are not repeated.

use std::cell::Cell;
use std::ops::Range;

use super::{CLOSE_TAG, HEADING, OPEN_TAG, skip_bom};

/// The kind of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkerTag {
    /// An opening tag.
    Open,
    /// A closing tag.
    Close,
}

/// The byte ranges of a block.
#[derive(Debug, Clone)]
pub(super) struct BlockSpan {
    /// Both tags and the text between them.
    pub range: Range<usize>,
    /// The text between the tags, including line breaks next to them.
    pub content: Range<usize>,
    /// The line of the opening tag, from 1.
    pub line: usize,
}

/// A marker that belongs to no block.
#[derive(Debug, Clone)]
pub(super) struct StrayMarker {
    pub tag: MarkerTag,
    /// The bytes of the tag.
    pub range: Range<usize>,
    /// Its line, from 1.
    pub line: usize,
}

/// The result of [`scan_markers`].
#[derive(Debug, Clone, Default)]
pub(super) struct MarkerScan {
    /// The blocks, in order.
    pub blocks: Vec<BlockSpan>,
    /// The markers outside blocks, in order.
    pub stray_markers: Vec<StrayMarker>,
    /// The byte offset of the first fence or comment that is never closed.
    pub unterminated_at: Option<usize>,
    /// The byte offset after the first visible line that is the block's heading.
    pub heading_end: Option<usize>,
}

/// The byte offsets of a line. Its text is `start..end`.
#[derive(Debug, Clone)]
pub(super) struct LineSpan {
    /// The first byte of the line.
    pub start: usize,
    /// The end of its text, before `\n` or `\r\n`.
    pub end: usize,
    /// The first byte of the next line.
    pub next: usize,
}

/// Returns the lines of `text`. An empty text has one empty line, so that there is always a line to refer to.
pub(super) fn split_lines(text: &[u8]) -> Vec<LineSpan> {
    let mut all = Vec::new();
    let mut start = 0;
    for part in text.split_inclusive(|byte| *byte == b'\n') {
        let next = start + part.len();
        let body = part.strip_suffix(b"\n").map_or(part, |body| body.strip_suffix(b"\r").unwrap_or(body));
        all.push(LineSpan { start, end: start + body.len(), next });
        start = next;
    }
    if all.is_empty() {
        all.push(LineSpan { start: 0, end: 0, next: 0 });
    }
    all
}

/// Returns the blocks and stray markers of `text`.
pub(super) fn scan_markers(text: &[u8]) -> MarkerScan {
    let all = split_lines(text);
    let scanner = MarkerScanner { text, lines: &all, unterminated: Cell::default() };
    let mut scan = MarkerScan::default();
    let mut index = 0;
    while index < all.len() {
        match scanner.hidden_region_at(index) {
            HiddenRegion::Until(next) => {
                index = next;
                continue;
            }
            HiddenRegion::Unterminated => {
                scan.unterminated_at.get_or_insert(skip_bom(text, all[index].start));
            }
            HiddenRegion::Nothing => {}
        }
        index = scanner.scan_visible_line(index, &mut scan);
    }
    scan
}

/// Returns whether the line is the block's heading.
pub(super) fn is_heading(text: &[u8], line: &LineSpan) -> bool {
    let start = skip_bom(text, line.start);
    text[start..line.end].trim_ascii_end() == HEADING.as_bytes()
}

/// The region that begins on a line and in which markers are ordinary text.
enum HiddenRegion {
    /// A closed fence or comment. The value is the index of the line after it.
    Until(usize),
    /// A fence or comment that is never closed. It hides nothing.
    Unterminated,
    /// No fence or comment begins here, or it hides nothing because it would cut a block in two.
    Nothing,
}

/// A text with its lines and the cache of failed searches.
struct MarkerScanner<'a> {
    text: &'a [u8],
    lines: &'a [LineSpan],
    /// Searches for a closing line that reached the end of the text, for comments, backtick fences and tilde fences.
    /// So a thousand unclosed fences cost one search.
    unterminated: Cell<[Option<UnterminatedRegion>; 3]>,
}

/// The result of a failed search: from the line with index `line` on, nothing closes a fence of at least `length`
/// characters, or a comment.
#[derive(Clone, Copy)]
struct UnterminatedRegion {
    line: usize,
    length: usize,
}

impl MarkerScanner<'_> {
    /// Adds the marker or block that begins on a visible line to `scan`. Returns the index of the line to continue
    /// with.
    fn scan_visible_line(&self, index: usize, scan: &mut MarkerScan) -> usize {
        if scan.heading_end.is_none() && is_heading(self.text, &self.lines[index]) {
            scan.heading_end = Some(self.lines[index].next);
        }
        let Some((tag, range)) = self.tag_at_start(index) else {
            return index + 1;
        };
        if tag == MarkerTag::Open
            && let Some((close, last)) = self.find_closing_tag(index, range.end)
        {
            let content = range.end..close.start;
            scan.blocks.push(BlockSpan { range: range.start..close.end, content, line: index + 1 });
            return last + 1;
        }
        scan.stray_markers.push(StrayMarker { tag, range, line: index + 1 });
        index + 1
    }

    /// Returns the closing tag of the opening tag on line `opening_line` that ends at byte `from`, and the index of
    /// its line. Returns `None` when another opening tag or the end of the text comes first.
    fn find_closing_tag(&self, opening_line: usize, from: usize) -> Option<(Range<usize>, usize)> {
        let line_tail = from..self.lines[opening_line].end;
        if let Some(offset) = find_bytes(&self.text[line_tail.clone()], CLOSE_TAG.as_bytes()) {
            let start = line_tail.start + offset;
            return Some((start..start + CLOSE_TAG.len(), opening_line));
        }
        let mut index = opening_line + 1;
        while index < self.lines.len() {
            if let HiddenRegion::Until(next) = self.hidden_region_at(index) {
                index = next;
                continue;
            }
            match self.tag_at_start(index) {
                Some((MarkerTag::Close, range)) => return Some((range, index)),
                Some((MarkerTag::Open, _)) => return None,
                None => {}
            }
            if let Some(range) = self.closing_tag_at_end(index) {
                return Some((range, index));
            }
            index += 1;
        }
        None
    }

    /// Returns the closing tag at the end of the line, behind other text. Editors and models sometimes omit the line
    /// break before the tag.
    fn closing_tag_at_end(&self, index: usize) -> Option<Range<usize>> {
        let line = &self.lines[index];
        let body = self.text[line.start..line.end].trim_ascii_end();
        let before = body.strip_suffix(CLOSE_TAG.as_bytes())?;
        let end = line.start + body.len();
        // A tag alone on a deeply indented line is indented code.
        (!before.trim_ascii().is_empty()).then(|| end - CLOSE_TAG.len()..end)
    }

    /// Returns the marker at the start of the line, after at most three spaces.
    fn tag_at_start(&self, index: usize) -> Option<(MarkerTag, Range<usize>)> {
        let (start, body) = self.unindented_text(index)?;
        [(MarkerTag::Open, OPEN_TAG), (MarkerTag::Close, CLOSE_TAG)]
            .into_iter()
            .find(|(_, word)| body.starts_with(word.as_bytes()))
            .map(|(tag, word)| (tag, start..start + word.len()))
    }

    /// Returns the region that the fence or comment on this line hides.
    fn hidden_region_at(&self, index: usize) -> HiddenRegion {
        let Some((_, body)) = self.unindented_text(index) else {
            return HiddenRegion::Nothing;
        };
        let Some(region) = MarkdownRegion::parse_opening(body) else {
            return HiddenRegion::Nothing;
        };
        match self.closing_line(index, &region) {
            Some(last) if self.has_whole_blocks(index + 1..last) => HiddenRegion::Until(last + 1),
            Some(_) => HiddenRegion::Nothing,
            None => HiddenRegion::Unterminated,
        }
    }

    /// Returns the line that closes the region that begins on line `index`.
    fn closing_line(&self, index: usize, region: &MarkdownRegion) -> Option<usize> {
        let (slot, length) = region.search_key();
        let mut failed_searches = self.unterminated.get();
        if failed_searches[slot].is_some_and(|failed| index >= failed.line && length >= failed.length) {
            return None;
        }
        let mut lines = index..self.lines.len();
        let last = match region {
            MarkdownRegion::Comment => lines.find(|i| find_bytes(self.line_text(*i), b"-->").is_some()),
            MarkdownRegion::Fence { mark, length } => lines.skip(1).find(|i| {
                self.unindented_text(*i).is_some_and(|(_, body)| is_fence_end(body, *mark, *length))
            }),
        };
        if last.is_none() {
            failed_searches[slot] = Some(UnterminatedRegion { line: index, length });
            self.unterminated.set(failed_searches);
        }
        last
    }

    /// Returns whether the markers in `range` come in pairs, so that hiding these lines cuts no block in two.
    fn has_whole_blocks(&self, range: Range<usize>) -> bool {
        let mut open = false;
        for index in range {
            match self.tag_at_start(index) {
                Some((MarkerTag::Open, _)) if open => return false,
                Some((MarkerTag::Open, tag)) => {
                    open = find_bytes(&self.text[tag.end..self.lines[index].end], CLOSE_TAG.as_bytes())
                        .is_none();
                }
                Some((MarkerTag::Close, _)) if !open => return false,
                Some((MarkerTag::Close, _)) => open = false,
                None if open && self.closing_tag_at_end(index).is_some() => open = false,
                None => {}
            }
        }
        !open
    }

    /// Returns the text of the line, without its line break and without a byte order mark.
    fn line_text(&self, index: usize) -> &[u8] {
        let line = &self.lines[index];
        &self.text[skip_bom(self.text, line.start).min(line.end)..line.end]
    }

    /// Returns the line's text without its indentation, and the byte offset of it. Returns `None` for a line that is
    /// indented by more than three spaces, which is indented code.
    fn unindented_text(&self, index: usize) -> Option<(usize, &[u8])> {
        let body = self.line_text(index);
        let indent = body.iter().take_while(|byte| **byte == b' ').count();
        (indent <= 3).then(|| (self.lines[index].end - (body.len() - indent), &body[indent..]))
    }
}

/// A region of Markdown in which markers are ordinary text.
enum MarkdownRegion {
    /// An HTML comment that begins a line.
    Comment,
    /// A code fence of `length` times the character `mark`.
    Fence { mark: u8, length: usize },
}

impl MarkdownRegion {
    /// Parses the beginning of a region from an unindented line.
    fn parse_opening(body: &[u8]) -> Option<Self> {
        if body.starts_with(b"<!--") {
            return Some(Self::Comment);
        }
        let mark = *body.first().filter(|mark| matches!(mark, b'`' | b'~'))?;
        let length = body.iter().take_while(|byte| **byte == mark).count();
        // A backtick in the info string makes the line inline code.
        let inline = mark == b'`' && body[length..].contains(&b'`');
        (length >= 3 && !inline).then_some(Self::Fence { mark, length })
    }

    /// Returns the index of the region's kind in the cache of failed searches, and the length that its end needs.
    const fn search_key(&self) -> (usize, usize) {
        match self {
            Self::Comment => (0, 0),
            Self::Fence { mark: b'`', length } => (1, *length),
            Self::Fence { length, .. } => (2, *length),
        }
    }
}

/// Returns whether the line closes a fence: at least as many characters as its opening, and nothing else.
fn is_fence_end(body: &[u8], mark: u8, length: usize) -> bool {
    let run = body.iter().take_while(|byte| **byte == mark).count();
    run >= length && body[run..].trim_ascii().is_empty()
}

fn find_bytes(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}
