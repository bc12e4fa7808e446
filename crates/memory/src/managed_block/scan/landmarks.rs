//! The lines that end fences and comments, and the lines with markers, indexed once for a scan. The index answers in
//! logarithmic time where a region ends and if it would cut a block in two, so that no text makes a scan quadratic.
//! Reading the lines is the task of [`super`].

use std::ops::Range;

/// The characters that code fences are made of.
const FENCE_MARKS: [u8; 2] = [b'`', b'~'];

/// The shortest run of characters that makes a fence.
const FENCE_LENGTH_MIN: usize = 3;

/// The markers of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMarkers {
    /// An opening tag at the start.
    Open,
    /// An opening tag at the start, and a closing tag behind it.
    OpenAndClose,
    /// A closing tag at the start.
    Close,
    /// A closing tag at the end, behind other text. It counts only inside a block.
    CloseAtEnd,
}

/// A line that can end a code fence.
#[derive(Debug)]
struct FenceEnd {
    /// The index of the line.
    line: usize,
    /// The number of its characters.
    length: usize,
    /// The position in the list of the next end with more characters.
    next_longer: usize,
}

/// A line with markers.
#[derive(Debug)]
struct MarkerLine {
    /// The index of the line.
    line: usize,
    markers: LineMarkers,
    /// The first line from here on whose marker does not fit, if no block is open before this line.
    first_misfit: usize,
}

/// The index of a text's lines.
#[derive(Debug, Default)]
pub(super) struct Landmarks {
    /// The lines that contain the end of a comment, in order.
    comment_ends: Vec<usize>,
    /// The lines that can end a fence, in order, for each of [`FENCE_MARKS`].
    fence_ends: [Vec<FenceEnd>; 2],
    /// The lines with markers, in order.
    marker_lines: Vec<MarkerLine>,
}

impl Landmarks {
    /// Adds a line that contains the end of a comment. Lines are added in order.
    pub(super) fn add_comment_end(&mut self, line: usize) {
        self.comment_ends.push(line);
    }

    /// Adds a line if its text, without indentation, can end a code fence. Lines are added in order.
    pub(super) fn add_fence_end(&mut self, line: usize, body: &[u8]) {
        let Some(slot) = FENCE_MARKS.iter().position(|mark| body.first() == Some(mark)) else { return };
        let length = body.iter().take_while(|byte| **byte == FENCE_MARKS[slot]).count();
        if length >= FENCE_LENGTH_MIN && body[length..].trim_ascii().is_empty() {
            self.fence_ends[slot].push(FenceEnd { line, length, next_longer: 0 });
        }
    }

    /// Adds a line with markers. Lines are added in order.
    pub(super) fn add_markers(&mut self, line: usize, markers: LineMarkers) {
        self.marker_lines.push(MarkerLine { line, markers, first_misfit: 0 });
    }

    /// Completes the index after the last line.
    pub(super) fn finish(mut self) -> Self {
        for ends in &mut self.fence_ends {
            for index in (0..ends.len()).rev() {
                let length = ends[index].length;
                let mut next = index + 1;
                while next < ends.len() && ends[next].length <= length {
                    next = ends[next].next_longer;
                }
                ends[index].next_longer = next;
            }
        }
        for index in (0..self.marker_lines.len()).rev() {
            self.marker_lines[index].first_misfit = match self.marker_lines[index].markers {
                LineMarkers::OpenAndClose | LineMarkers::CloseAtEnd => self.first_misfit(index + 1),
                LineMarkers::Close => self.marker_lines[index].line,
                LineMarkers::Open => match self.marker_lines.get(index + 1) {
                    Some(MarkerLine { markers: LineMarkers::Close | LineMarkers::CloseAtEnd, .. }) => {
                        self.first_misfit(index + 2)
                    }
                    Some(next) => next.line,
                    None => usize::MAX,
                },
            };
        }
        self
    }

    /// Returns the first line from `from` on that contains the end of a comment.
    pub(super) fn comment_end(&self, from: usize) -> Option<usize> {
        self.comment_ends.get(self.comment_ends.partition_point(|line| *line < from)).copied()
    }

    /// Returns the first line behind `line` that ends a fence of `length` times the character `mark`.
    pub(super) fn fence_end(&self, mark: u8, length: usize, line: usize) -> Option<usize> {
        let slot = FENCE_MARKS.iter().position(|known| *known == mark)?;
        let ends = &self.fence_ends[slot];
        let mut index = ends.partition_point(|end| end.line <= line);
        while ends.get(index).is_some_and(|end| end.length < length) {
            index = ends[index].next_longer;
        }
        ends.get(index).map(|end| end.line)
    }

    /// Returns whether the markers in `range` come in pairs, so that hiding these lines cuts no block in two.
    pub(super) fn has_whole_blocks(&self, range: Range<usize>) -> bool {
        let first = self.marker_lines.partition_point(|marked| marked.line < range.start);
        let end = self.marker_lines.partition_point(|marked| marked.line < range.end);
        // Every marker but an opening tag leaves no block open.
        let is_open_at_end = end > first && self.marker_lines[end - 1].markers == LineMarkers::Open;
        self.first_misfit(first) >= range.end && !is_open_at_end
    }

    /// Returns the first line whose marker does not fit, from the marker line with this position on, before which no
    /// block is open.
    fn first_misfit(&self, index: usize) -> usize {
        self.marker_lines.get(index).map_or(usize::MAX, |marked| marked.first_misfit)
    }
}
