//! The managed block of agent.md as text: find, insert, replace, repair. This module does not access files.
//!
//! The block contains the summary of the newest handoff, or a placeholder. Only Segue writes it; all other text
//! belongs to the user and the agent.
//!
//! A marker is `<current_thread_summary>` or its closing tag at the start of a line, indented by at most three
//! spaces; a closing tag also counts at the end of a line of an open block. Markers in closed code fences, in
//! comments that begin a line, and in indented code are ordinary text. A fence or comment that is never closed, or
//! that would cut a block in two, hides nothing. The functions treat markers as follows:
//!
//! | markers | [`replace_block`] | [`repair_markers`] (the caller keeps a backup) |
//! | --- | --- | --- |
//! | none | inserts a block: after the heading if the text has one, else at the end | nothing |
//! | one pair | replaces the text between them | nothing |
//! | several pairs | refuses | keeps the first pair, removes the others with their managed text |
//! | nested | refuses | keeps the innermost pair, removes the outer tags, keeps their text |
//! | reversed, unclosed, unopened | refuses | removes the tags, keeps every line of text |
//!
//! Everything outside the block stays byte for byte, whatever its encoding or line endings.

pub(crate) mod restore;
mod scan;

use std::fmt;
use std::ops::Range;

use scan::{BlockSpan, LineSpan, MarkerScan, MarkerTag, scan_markers, split_lines};

/// The line that opens the block.
pub const OPEN_TAG: &str = "<current_thread_summary>";
/// The line that closes the block.
pub const CLOSE_TAG: &str = "</current_thread_summary>";
/// The heading that an inserted block gets.
pub const HEADING: &str = "## Recent Thread Snapshot";
/// The text of a block without a summary.
pub const PLACEHOLDER: &str = "None recorded yet.";

/// The tag name of both tags.
const TAG_NAME: &str = "current_thread_summary";
/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A problem of the markers of a text. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkerProblem {
    /// The text has more than one block.
    MultipleBlocks {
        /// The lines of the opening tags.
        lines: Vec<usize>,
    },
    /// An opening marker has no closing marker.
    Unclosed {
        /// The line of the marker.
        line: usize,
    },
    /// A closing marker has no opening marker.
    Unopened {
        /// The line of the marker.
        line: usize,
    },
}

/// The markers of a text do not form exactly one block or none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find one summary block: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
pub struct MalformedMarkers {
    /// The problems; never empty.
    pub problems: Vec<MarkerProblem>,
}

/// Returns the content of the first block, with `\n` line endings and without trailing blanks. Returns `None` when
/// the text has no block. Bytes that are not UTF-8 are replaced.
pub fn block_content(text: &[u8]) -> Option<String> {
    scan_markers(text).blocks.first().map(|pair| {
        let content = String::from_utf8_lossy(&text[pair.content.clone()]).replace("\r\n", "\n");
        let content = content.trim_start_matches([' ', '\t']);
        content.strip_prefix('\n').unwrap_or(content).trim_end().to_owned()
    })
}

/// Returns the problems of the markers. The list is empty when the text has one well-formed block or no marker.
pub fn marker_problems(text: &[u8]) -> Vec<MarkerProblem> {
    problems_in_scan(&scan_markers(text))
}

/// Returns `text` with `summary_md` in its block. A missing block is inserted. A blank summary becomes
/// [`PLACEHOLDER`], and tags in the summary are escaped.
///
/// The function is idempotent: [`block_content`] of the result is [`normalize_content`] of the summary.
///
/// # Errors
/// When the markers are malformed; call [`repair_markers`] first.
pub fn replace_block(text: &[u8], summary_md: &str) -> Result<Vec<u8>, MalformedMarkers> {
    let scan = scan_markers(text);
    let problems = problems_in_scan(&scan);
    if !problems.is_empty() {
        return Err(MalformedMarkers { problems });
    }
    let Some(pair) = scan.blocks.first() else {
        return Ok(insert_block(text, &scan, summary_md));
    };
    // The block keeps the line ending after its opening tag, even in a text with mixed line endings. So repeated
    // calls return the same text.
    let old = &text[pair.content.clone()];
    let eol = match old.iter().position(|byte| *byte == b'\n') {
        Some(end) => line_ending(&old[..=end]),
        None => line_ending(text),
    };
    let content = normalize_content(summary_md).replace('\n', eol);
    let new = splice(text, pair.content.clone(), format!("{eol}{content}{eol}").as_bytes());
    // A fence before the block may have been closed by a line of the old content. Without that line it would hide the
    // block.
    let after = scan_markers(&new);
    let is_intact = after.stray_markers.is_empty()
        && matches!(after.blocks.as_slice(), [only] if only.range.start == pair.range.start);
    if !is_intact {
        let notes = remove_blocks(text);
        return Ok(insert_block(&notes, &scan_markers(&notes), summary_md));
    }
    Ok(new)
}

/// Returns `text` with at most one block and no stray marker. All lines of text outside blocks stay.
pub fn repair_markers(text: &[u8]) -> Vec<u8> {
    remove_markers(text, 1)
}

/// Returns `text` without any block or marker: the notes of agent.md.
pub fn remove_blocks(text: &[u8]) -> Vec<u8> {
    remove_markers(text, 0)
}

/// Returns `text` without `own`, a text that Segue wrote into the block, if a damaged marker leaves it outside of one; `None` if
/// `text` does not contain it. The placeholder is no such text.
pub(crate) fn remove_own_text(text: &[u8], own: &str) -> Option<Vec<u8>> {
    let own = own.trim_end();
    if own.is_empty() || own == PLACEHOLDER {
        return None;
    }
    [own.to_owned(), own.replace('\n', "\r\n")].into_iter().find_map(|own| {
        let start = text.windows(own.len()).position(|window| window == own.as_bytes())?;
        Some(splice(text, start..start + own.len(), b""))
    })
}

/// Returns the text that [`block_content`] returns after [`replace_block`] with `summary_md`.
pub fn normalize_content(summary_md: &str) -> String {
    let content = escape_block_tags(summary_md).replace("\r\n", "\n").replace('\r', "\n");
    let content = content.trim_end();
    if content.trim().is_empty() { PLACEHOLDER.to_owned() } else { content.to_owned() }
}

/// Returns the byte ranges of the blocks, with their headings, and of the stray markers of `text`, in order.
pub(crate) fn managed_ranges(text: &[u8]) -> Vec<Range<usize>> {
    let (scan, lines) = (scan_markers(text), split_lines(text));
    let pairs = scan.blocks.iter().map(|pair| widen_to_heading(text, &lines, pair));
    let mut ranges: Vec<_> =
        pairs.chain(scan.stray_markers.iter().map(|stray| stray.range.clone())).collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// Returns whether both texts have the same blocks and stray markers, byte for byte. Their positions may differ.
pub(crate) fn has_same_blocks(left: &[u8], right: &[u8]) -> bool {
    let (in_left, in_right) = (managed_ranges(left), managed_ranges(right));
    in_left.len() == in_right.len() && in_left.into_iter().zip(in_right).all(|(a, b)| left[a] == right[b])
}

/// Returns the byte offset at which notes are appended to `text`: before the block and its heading if nothing follows
/// them, otherwise the end of the text.
pub(crate) fn notes_end_offset(text: &[u8]) -> usize {
    let scan = scan_markers(text);
    let last = scan.blocks.last().filter(|pair| text[pair.range.end..].trim_ascii().is_empty());
    last.map_or(text.len(), |pair| widen_to_heading(text, &split_lines(text), pair).start)
}

/// Returns `summary_md` with every tag that could open or close the block escaped as text (`&lt;…&gt;`). Case,
/// slashes and blanks in a tag do not matter.
///
/// The function is idempotent.
pub fn escape_block_tags(summary_md: &str) -> String {
    let mut safe = String::with_capacity(summary_md.len());
    let mut remaining = summary_md;
    while let Some(start) = remaining.find('<') {
        safe.push_str(&remaining[..start]);
        let tag = &remaining[start + 1..];
        match tag_length(tag) {
            Some(length) => {
                safe.push_str("&lt;");
                safe.push_str(&tag[..length]);
                remaining = &tag[length..];
                if let Some(after) = remaining.strip_prefix('>') {
                    safe.push_str("&gt;");
                    remaining = after;
                }
            }
            None => {
                safe.push('<');
                remaining = tag;
            }
        }
    }
    safe.push_str(remaining);
    safe
}

impl fmt::Display for MarkerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MultipleBlocks { lines } => {
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                write!(f, "{} blocks (lines {})", lines.len(), lines.join(", "))
            }
            Self::Unclosed { line } => write!(f, "line {line} opens a block that nothing closes"),
            Self::Unopened { line } => write!(f, "line {line} closes a block that nothing opened"),
        }
    }
}

/// Returns the length in bytes of the block's tag name, with slashes and blanks around it, at the start of the text
/// after a `<`. Returns `None` for another tag.
fn tag_length(tag: &str) -> Option<usize> {
    let blank = |c: char| c.is_whitespace() || c == '/';
    let name = tag.trim_start_matches(blank);
    let matches = name.get(..TAG_NAME.len()).is_some_and(|head| head.eq_ignore_ascii_case(TAG_NAME));
    matches.then(|| {
        let after_name = &name[TAG_NAME.len()..];
        tag.len() - after_name.trim_start_matches(blank).len()
    })
}

/// Returns the problems of a scanned text.
fn problems_in_scan(scan: &MarkerScan) -> Vec<MarkerProblem> {
    let mut problems = Vec::new();
    if scan.blocks.len() > 1 {
        problems.push(MarkerProblem::MultipleBlocks {
            lines: scan.blocks.iter().map(|pair| pair.line).collect(),
        });
    }
    problems.extend(scan.stray_markers.iter().map(|stray| match stray.tag {
        MarkerTag::Open => MarkerProblem::Unclosed { line: stray.line },
        MarkerTag::Close => MarkerProblem::Unopened { line: stray.line },
    }));
    problems
}

/// Returns the line ending of most lines of `text`: `\r\n` or `\n`.
pub(crate) fn line_ending(text: &[u8]) -> &'static str {
    let newlines = text.iter().filter(|byte| **byte == b'\n').count();
    let crlf = text.windows(2).filter(|pair| pair == b"\r\n").count();
    if crlf * 2 > newlines { "\r\n" } else { "\n" }
}

/// Returns `text` with the bytes of `range` replaced by `new`.
fn splice(text: &[u8], range: Range<usize>, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len() + new.len());
    result.extend_from_slice(&text[..range.start]);
    result.extend_from_slice(new);
    result.extend_from_slice(&text[range.end..]);
    result
}

/// Inserts a block into a text that has none. It is separated from other text by a blank line.
fn insert_block(text: &[u8], scan: &MarkerScan, summary_md: &str) -> Vec<u8> {
    let eol = line_ending(text);
    let content = normalize_content(summary_md).replace('\n', eol);
    let tags = format!("{OPEN_TAG}{eol}{content}{eol}{CLOSE_TAG}{eol}");
    if let Some(heading_end) = scan.heading_end {
        let before = if text[..heading_end].ends_with(b"\n") { "" } else { eol };
        return splice(text, heading_end..heading_end, format!("{before}{tags}").as_bytes());
    }
    // The block is inserted before an unclosed fence or comment. After it, the block would be hidden as soon as a
    // line closes the fence or comment.
    let at = scan.unterminated_at.unwrap_or(text.len());
    let head = text[..at].strip_prefix(BOM).unwrap_or(&text[..at]);
    let before = match (head.is_empty(), head.ends_with(b"\n"), ends_with_blank_line(head)) {
        (true, _, _) | (_, _, true) => String::new(),
        (_, true, _) => eol.to_owned(),
        (_, false, _) => eol.repeat(2),
    };
    let after = if at == text.len() { "" } else { eol };
    splice(text, at..at, format!("{before}{HEADING}{eol}{tags}{after}").as_bytes())
}

fn strip_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(BOM).unwrap_or(text)
}

fn ends_with_blank_line(text: &[u8]) -> bool {
    text.ends_with(b"\n\n") || text.ends_with(b"\n\r\n")
}

/// Removes stray markers and all but the first `keep` blocks.
fn remove_markers(text: &[u8], keep: usize) -> Vec<u8> {
    let mut text = text.to_vec();
    // Removing a stray marker from a fence can make the fence hide other markers, so the text is scanned again until no
    // marker is left to remove. The loop ends, because every round removes a marker.
    loop {
        let scan = scan_markers(&text);
        if scan.stray_markers.is_empty() && scan.blocks.len() <= keep {
            return text;
        }
        let lines = split_lines(&text);
        // Stray markers are removed first, because without them a pair may be hidden by a fence and is then ordinary
        // text.
        let mut ranges: Vec<Range<usize>> = match scan.stray_markers.as_slice() {
            [] => scan.blocks.iter().skip(keep).map(|pair| widen_to_heading(&text, &lines, pair)).collect(),
            strays => strays.iter().map(|stray| widen_to_line(&text, &lines, stray.range.clone())).collect(),
        };
        ranges.sort_by_key(|range| range.start);
        text = remove_ranges(&text, &ranges);
    }
}

/// Returns `text` without these ranges, which are sorted.
fn remove_ranges(text: &[u8], ranges: &[Range<usize>]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(text.len());
    let mut position = 0;
    for range in ranges {
        rest.extend_from_slice(&text[position..range.start.max(position)]);
        position = range.end.max(position);
    }
    rest.extend_from_slice(&text[position..]);
    rest
}

/// Widens the range to whole lines if they contain nothing else but blanks.
fn widen_to_line(text: &[u8], lines: &[LineSpan], range: Range<usize>) -> Range<usize> {
    let first = &lines[line_index_at(lines, range.start)];
    let last = &lines[line_index_at(lines, range.end)];
    let start = skip_bom(text, first.start);
    let blank = |part: &[u8]| part.iter().all(u8::is_ascii_whitespace);
    if range.start >= start && blank(&text[start..range.start]) && blank(&text[range.end..last.end]) {
        start..last.next
    } else {
        range
    }
}

/// Returns the range of a block, widened to whole lines and to the heading above it. Only blank lines may be between
/// them.
fn widen_to_heading(text: &[u8], lines: &[LineSpan], pair: &BlockSpan) -> Range<usize> {
    let range = widen_to_line(text, lines, pair.range.clone());
    let above =
        lines[..pair.line - 1].iter().rev().find(|line| !text[line.start..line.end].trim_ascii().is_empty());
    match above {
        Some(line) if scan::is_heading(text, line) => skip_bom(text, line.start)..range.end,
        Some(_) | None => range,
    }
}

/// Returns the offset after the byte order mark if `offset` is 0 and the text has one; otherwise `offset`.
fn skip_bom(text: &[u8], offset: usize) -> usize {
    if offset == 0 { text.len() - strip_bom(text).len() } else { offset }
}

/// Returns the index of the line that contains the byte at `offset`. The end of the text belongs to the last line.
fn line_index_at(lines: &[LineSpan], offset: usize) -> usize {
    lines.partition_point(|line| line.next <= offset).min(lines.len() - 1)
}

#[cfg(test)]
mod tests;
