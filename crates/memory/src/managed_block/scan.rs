//! Finds the markers of a text and the blocks that they form, with the rules of [`super`]. Handling them is the
//! caller's task.
//!
//! Code fences, HTML comments and indented code follow CommonMark as far as markers are concerned. The time of a scan is
//! proportional to the length of the text, apart from a logarithm: [`landmarks`] indexes the lines that end regions.

mod landmarks;

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use self::landmarks::{Landmarks, LineMarkers};
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
    /// The number of lines that were read, each as often as it was.
    #[cfg(test)]
    pub lines_read: usize,
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
    let scanner =
        MarkerScanner { text, lines: &all, landmarks: OnceCell::new(), lines_read: Cell::default() };
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
    #[cfg(test)]
    {
        scan.lines_read = scanner.lines_read.get();
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

/// A text with its lines.
struct MarkerScanner<'a> {
    text: &'a [u8],
    lines: &'a [LineSpan],
    /// The index of the lines. It is made when the first fence or comment is found, because most texts have none.
    landmarks: OnceCell<Landmarks>,
    /// The number of lines that were read. Only tests look at it.
    lines_read: Cell<usize>,
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
        let landmarks = self.landmarks.get_or_init(|| self.index_lines());
        let last = match region {
            MarkdownRegion::Comment => landmarks.comment_end(index),
            MarkdownRegion::Fence { mark, length } => landmarks.fence_end(mark, length, index),
        };
        match last {
            Some(last) if landmarks.has_whole_blocks(index + 1..last) => HiddenRegion::Until(last + 1),
            Some(_) => HiddenRegion::Nothing,
            None => HiddenRegion::Unterminated,
        }
    }

    /// Returns the index of all lines.
    fn index_lines(&self) -> Landmarks {
        let mut landmarks = Landmarks::default();
        for index in 0..self.lines.len() {
            if find_bytes(self.line_text(index), b"-->").is_some() {
                landmarks.add_comment_end(index);
            }
            if let Some((_, body)) = self.unindented_text(index) {
                landmarks.add_fence_end(index, body);
            }
            if let Some(markers) = self.line_markers(index) {
                landmarks.add_markers(index, markers);
            }
        }
        landmarks.finish()
    }

    /// Returns the markers of the line, if it has any.
    fn line_markers(&self, index: usize) -> Option<LineMarkers> {
        match self.tag_at_start(index) {
            Some((MarkerTag::Open, tag)) => {
                let tail = &self.text[tag.end..self.lines[index].end];
                let has_close = find_bytes(tail, CLOSE_TAG.as_bytes()).is_some();
                Some(if has_close { LineMarkers::OpenAndClose } else { LineMarkers::Open })
            }
            Some((MarkerTag::Close, _)) => Some(LineMarkers::Close),
            None => self.closing_tag_at_end(index).map(|_| LineMarkers::CloseAtEnd),
        }
    }

    /// Returns the text of the line, without its line break and without a byte order mark.
    fn line_text(&self, index: usize) -> &[u8] {
        self.lines_read.set(self.lines_read.get() + 1);
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
}

fn find_bytes(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}
