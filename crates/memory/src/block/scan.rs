//! Where the markers of a text are, and which of them form blocks. What to do about them is decided elsewhere.

use std::cell::Cell;
use std::ops::Range;

use super::{CLOSE, HEADING, OPEN, strip_bom_at};

/// Which tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Open,
    Close,
}

/// A block.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    /// Both tags and all between.
    pub range: Range<usize>,
    /// All between the tags.
    pub content: Range<usize>,
    /// The line of the opening tag, from 1.
    pub line: usize,
}

/// A marker that belongs to no block.
#[derive(Debug, Clone)]
pub(super) struct Stray {
    pub tag: Tag,
    pub range: Range<usize>,
    /// Its line, from 1.
    pub line: usize,
}

/// What [`scan`] found.
#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    pub pairs: Vec<Pair>,
    /// The markers outside blocks, in order.
    pub strays: Vec<Stray>,
    /// Where the first fence or comment begins that is never closed.
    pub open_ended: Option<usize>,
    /// The end of the first line that is the block's heading.
    pub heading_end: Option<usize>,
}

/// A line: its text is `start..end`, the next one begins at `next`.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub start: usize,
    /// The end of its text, before `\n` or `\r\n`.
    pub end: usize,
    /// The first byte of the next line.
    pub next: usize,
}

/// Returns the lines of `text`; a text without any has one empty line.
pub(super) fn lines(text: &[u8]) -> Vec<Line> {
    let mut all = Vec::new();
    let mut start = 0;
    for part in text.split_inclusive(|byte| *byte == b'\n') {
        let next = start + part.len();
        let body = part.strip_suffix(b"\n").map_or(part, |body| body.strip_suffix(b"\r").unwrap_or(body));
        all.push(Line { start, end: start + body.len(), next });
        start = next;
    }
    if all.is_empty() {
        all.push(Line { start: 0, end: 0, next: 0 });
    }
    all
}

/// Returns the blocks and stray markers of `text`.
pub(super) fn scan(text: &[u8]) -> Scan {
    let all = lines(text);
    let scanner = Scanner { text, lines: &all, endless: Cell::default() };
    let mut found = Scan::default();
    let mut index = 0;
    while index < all.len() {
        match scanner.hidden_until(index) {
            Hidden::Until(next) => {
                index = next;
                continue;
            }
            Hidden::OpenEnded => {
                found.open_ended.get_or_insert(strip_bom_at(text, all[index].start));
            }
            Hidden::Nothing => {}
        }
        index = scanner.visible_line(index, &mut found);
    }
    found
}

/// Returns whether the line is the block's heading.
pub(super) fn is_heading(text: &[u8], line: &Line) -> bool {
    let start = strip_bom_at(text, line.start);
    text[start..line.end].trim_ascii_end() == HEADING.as_bytes()
}

/// What a line hides.
enum Hidden {
    /// A closed fence or comment, up to that line.
    Until(usize),
    /// A fence or comment begins and is never closed.
    OpenEnded,
    /// No fence or comment begins here.
    Nothing,
}

struct Scanner<'a> {
    text: &'a [u8],
    lines: &'a [Line],
    /// Searches that reached the end of the text for nothing, so that a thousand unclosed fences cost one search.
    endless: Cell<[Option<Endless>; 3]>,
}

/// From this line on, nothing closes a fence of at least this length (or a comment).
#[derive(Clone, Copy)]
struct Endless {
    line: usize,
    length: usize,
}

impl Scanner<'_> {
    /// Reads a line that no fence or comment hides; returns the line to go on with.
    fn visible_line(&self, index: usize, found: &mut Scan) -> usize {
        if found.heading_end.is_none() && is_heading(self.text, &self.lines[index]) {
            found.heading_end = Some(self.lines[index].next);
        }
        let Some((tag, range)) = self.tag_at_start(index) else {
            return index + 1;
        };
        if tag == Tag::Open
            && let Some((close, last)) = self.closing(index, range.end)
        {
            let content = range.end..close.start;
            found.pairs.push(Pair { range: range.start..close.end, content, line: index + 1 });
            return last + 1;
        }
        found.strays.push(Stray { tag, range, line: index + 1 });
        index + 1
    }

    /// Returns the closing tag that belongs to an opening one, and its line.
    fn closing(&self, opened_in: usize, from: usize) -> Option<(Range<usize>, usize)> {
        let first = from..self.lines[opened_in].end;
        if let Some(at) = find(&self.text[first.clone()], CLOSE.as_bytes()) {
            let start = first.start + at;
            return Some((start..start + CLOSE.len(), opened_in));
        }
        let mut index = opened_in + 1;
        while index < self.lines.len() {
            if let Hidden::Until(next) = self.hidden_until(index) {
                index = next;
                continue;
            }
            match self.tag_at_start(index) {
                Some((Tag::Close, range)) => return Some((range, index)),
                Some((Tag::Open, _)) => return None,
                None => {}
            }
            if let Some(range) = self.closing_tag_at_end(index) {
                return Some((range, index));
            }
            index += 1;
        }
        None
    }

    fn closing_tag_at_end(&self, index: usize) -> Option<Range<usize>> {
        let line = &self.lines[index];
        let body = self.text[line.start..line.end].trim_ascii_end();
        let before = body.strip_suffix(CLOSE.as_bytes())?;
        let end = line.start + body.len();
        // A tag alone behind a deep indent is indented code.
        (!before.trim_ascii().is_empty()).then(|| end - CLOSE.len()..end)
    }

    /// Returns the marker the line begins with, behind at most three spaces.
    fn tag_at_start(&self, index: usize) -> Option<(Tag, Range<usize>)> {
        let (start, body) = self.unindented(index)?;
        [(Tag::Open, OPEN), (Tag::Close, CLOSE)]
            .into_iter()
            .find(|(_, word)| body.starts_with(word.as_bytes()))
            .map(|(tag, word)| (tag, start..start + word.len()))
    }

    /// Returns what a fence or comment that begins on this line hides.
    fn hidden_until(&self, index: usize) -> Hidden {
        let Some((_, body)) = self.unindented(index) else {
            return Hidden::Nothing;
        };
        let Some(region) = Region::opening(body) else {
            return Hidden::Nothing;
        };
        match self.last_line(index, &region) {
            Some(last) if self.holds_whole_blocks(index + 1..last) => Hidden::Until(last + 1),
            Some(_) => Hidden::Nothing,
            None => Hidden::OpenEnded,
        }
    }

    /// Returns the line that closes the region that begins on line `index`.
    fn last_line(&self, index: usize, region: &Region) -> Option<usize> {
        let (slot, length) = region.slot();
        let mut endless = self.endless.get();
        if endless[slot].is_some_and(|known| index >= known.line && length >= known.length) {
            return None;
        }
        let mut rest = index..self.lines.len();
        let last = match region {
            Region::Comment => rest.find(|i| find(self.line(*i), b"-->").is_some()),
            Region::Fence { mark, length } => rest
                .skip(1)
                .find(|i| self.unindented(*i).is_some_and(|(_, body)| is_fence_end(body, *mark, *length))),
        };
        if last.is_none() {
            endless[slot] = Some(Endless { line: index, length });
            self.endless.set(endless);
        }
        last
    }

    /// Returns whether the markers in `range` come in pairs, so that hiding these lines cuts no block in two.
    fn holds_whole_blocks(&self, range: Range<usize>) -> bool {
        let mut open = false;
        for index in range {
            match self.tag_at_start(index) {
                Some((Tag::Open, _)) if open => return false,
                Some((Tag::Open, tag)) => {
                    open = find(&self.text[tag.end..self.lines[index].end], CLOSE.as_bytes()).is_none();
                }
                Some((Tag::Close, _)) if !open => return false,
                Some((Tag::Close, _)) => open = false,
                None if open && self.closing_tag_at_end(index).is_some() => open = false,
                None => {}
            }
        }
        !open
    }

    fn line(&self, index: usize) -> &[u8] {
        let line = &self.lines[index];
        &self.text[strip_bom_at(self.text, line.start).min(line.end)..line.end]
    }

    /// Returns where the line's text begins behind at most three spaces, and the text; `None` for indented code.
    fn unindented(&self, index: usize) -> Option<(usize, &[u8])> {
        let body = self.line(index);
        let indent = body.iter().take_while(|byte| **byte == b' ').count();
        (indent <= 3).then(|| (self.lines[index].end - (body.len() - indent), &body[indent..]))
    }
}

/// Lines that hide markers.
enum Region {
    /// An HTML comment that begins a line.
    Comment,
    /// A code fence: its character and how many of them.
    Fence { mark: u8, length: usize },
}

impl Region {
    fn opening(body: &[u8]) -> Option<Self> {
        if body.starts_with(b"<!--") {
            return Some(Self::Comment);
        }
        let mark = *body.first().filter(|mark| matches!(mark, b'`' | b'~'))?;
        let length = body.iter().take_while(|byte| **byte == mark).count();
        // A backtick in the info string makes the line inline code.
        let inline = mark == b'`' && body[length..].contains(&b'`');
        (length >= 3 && !inline).then_some(Self::Fence { mark, length })
    }

    /// Returns which search for an end this is, and the length it needs.
    const fn slot(&self) -> (usize, usize) {
        match self {
            Self::Comment => (0, 0),
            Self::Fence { mark: b'`', length } => (1, *length),
            Self::Fence { length, .. } => (2, *length),
        }
    }
}

fn is_fence_end(body: &[u8], mark: u8, length: usize) -> bool {
    let run = body.iter().take_while(|byte| **byte == mark).count();
    run >= length && body[run..].trim_ascii().is_empty()
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}
