//! The managed block of agent.md as text: find, insert, replace, repair. No file is touched here.
//!
//! A marker is `<current_thread_summary>` or its closing tag at the start of a line, indented by at most three
//! spaces; a closing tag also counts at the end of a line of an open block. Markers in closed code fences, in
//! comments that begin a line, and in indented code are ordinary text. A fence or comment that is never closed, or
//! that would cut a block in two, hides nothing. What is done with them:
//!
//! | markers | [`replace_block`] | [`repair_markers`] (the caller keeps a backup) |
//! | --- | --- | --- |
//! | none | inserts a block: after the heading if that stands alone, else at the end | nothing |
//! | one pair | replaces what is between | nothing |
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

/// The name inside both tags.
const TAG_NAME: &str = "current_thread_summary";
/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Something wrong with the markers of a text. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkerProblem {
    /// More than one block; the lines where they open.
    MultipleBlocks {
        /// The lines where the blocks open.
        lines: Vec<usize>,
    },
    /// An opening marker without its closing one.
    Unclosed {
        /// The line of the marker.
        line: usize,
    },
    /// A closing marker without its opening one.
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

/// Returns what the first block holds, with `\n` line endings; `None` without a block.
pub fn block_content(text: &[u8]) -> Option<String> {
    scan_markers(text).blocks.first().map(|pair| {
        let content = String::from_utf8_lossy(&text[pair.content.clone()]).replace("\r\n", "\n");
        let content = content.trim_start_matches([' ', '\t']);
        content.strip_prefix('\n').unwrap_or(content).trim_end().to_owned()
    })
}

/// Returns what is wrong with the markers; empty when there is one block or none.
pub fn marker_problems(text: &[u8]) -> Vec<MarkerProblem> {
    problems_in_scan(&scan_markers(text))
}

/// Returns `text` with its block holding `summary_md`; a missing block is inserted, a blank summary becomes
/// [`PLACEHOLDER`].
///
/// # Errors
/// When the markers are malformed; call [`repair_markers`] first.
pub fn replace_block(text: &[u8], summary_md: &str) -> Result<Vec<u8>, MalformedMarkers> {
    let found = scan_markers(text);
    let problems = problems_in_scan(&found);
    if !problems.is_empty() {
        return Err(MalformedMarkers { problems });
    }
    let Some(pair) = found.blocks.first() else {
        return Ok(insert_block(text, &found, summary_md));
    };
    // The line of the opening tag tells: it ends as the call before this one left it.
    let old = &text[pair.content.clone()];
    let eol = match old.iter().position(|byte| *byte == b'\n') {
        Some(end) => line_ending(&old[..=end]),
        None => line_ending(text),
    };
    let content = normalize_content(summary_md).replace('\n', eol);
    let new = splice(text, pair.content.clone(), format!("{eol}{content}{eol}").as_bytes());
    // A fence before the block may have ended inside its old text and runs over the whole block without that.
    let after = scan_markers(&new);
    let stays = after.stray_markers.is_empty()
        && matches!(after.blocks.as_slice(), [only] if only.range.start == pair.range.start);
    if !stays {
        let rest = remove_blocks(text);
        return Ok(insert_block(&rest, &scan_markers(&rest), summary_md));
    }
    Ok(new)
}

/// Returns `text` with at most one block and no stray marker; lines of text outside the blocks all stay.
pub fn repair_markers(text: &[u8]) -> Vec<u8> {
    remove_markers(text, 1)
}

/// Returns `text` without any block or marker: what agent.md says apart from the managed part.
pub fn remove_blocks(text: &[u8]) -> Vec<u8> {
    remove_markers(text, 0)
}

/// Returns the text that [`block_content`] returns after [`replace_block`] with `summary_md`.
pub fn normalize_content(summary_md: &str) -> String {
    let content = escape_block_tags(summary_md).replace("\r\n", "\n").replace('\r', "\n");
    let content = content.trim_end();
    if content.trim().is_empty() { PLACEHOLDER.to_owned() } else { content.to_owned() }
}

/// Returns where the blocks, with their headings, and the stray markers of `text` are, in order.
pub(crate) fn managed_ranges(text: &[u8]) -> Vec<Range<usize>> {
    let (found, all) = (scan_markers(text), split_lines(text));
    let pairs = found.blocks.iter().map(|pair| widen_to_heading(text, &all, pair));
    let mut all: Vec<_> = pairs.chain(found.stray_markers.iter().map(|stray| stray.range.clone())).collect();
    all.sort_by_key(|range| range.start);
    all
}

/// Returns whether both texts hold the same blocks and stray markers, byte for byte, wherever they stand.
pub(crate) fn has_same_blocks(one: &[u8], other: &[u8]) -> bool {
    let (in_one, in_other) = (managed_ranges(one), managed_ranges(other));
    in_one.len() == in_other.len() && in_one.into_iter().zip(in_other).all(|(a, b)| one[a] == other[b])
}

/// Returns where notes that are added to `text` belong: before the block, with its heading, when nothing follows it.
pub(crate) fn notes_end_offset(text: &[u8]) -> usize {
    let found = scan_markers(text);
    let last = found.blocks.last().filter(|pair| text[pair.range.end..].trim_ascii().is_empty());
    last.map_or(text.len(), |pair| widen_to_heading(text, &split_lines(text), pair).start)
}

/// Returns `summary_md` with every tag that could open or close the block shown as text (`&lt;…&gt;`).
///
/// Doing it twice changes nothing more.
pub fn escape_block_tags(summary_md: &str) -> String {
    let mut safe = String::with_capacity(summary_md.len());
    let mut rest = summary_md;
    while let Some(at) = rest.find('<') {
        safe.push_str(&rest[..at]);
        let tag = &rest[at + 1..];
        match tag_length(tag) {
            Some(length) => {
                safe.push_str("&lt;");
                safe.push_str(&tag[..length]);
                rest = &tag[length..];
                if let Some(after) = rest.strip_prefix('>') {
                    safe.push_str("&gt;");
                    rest = after;
                }
            }
            None => {
                safe.push('<');
                rest = tag;
            }
        }
    }
    safe.push_str(rest);
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

/// Returns how much of the text after a `<` is the block's tag name, with slash and blanks.
fn tag_length(tag: &str) -> Option<usize> {
    let blank = |c: char| c.is_whitespace() || c == '/';
    let name = tag.trim_start_matches(blank);
    let matches = name.get(..TAG_NAME.len()).is_some_and(|head| head.eq_ignore_ascii_case(TAG_NAME));
    matches.then(|| {
        let rest = &name[TAG_NAME.len()..];
        tag.len() - rest.trim_start_matches(blank).len()
    })
}

fn problems_in_scan(found: &MarkerScan) -> Vec<MarkerProblem> {
    let mut problems = Vec::new();
    if found.blocks.len() > 1 {
        problems.push(MarkerProblem::MultipleBlocks {
            lines: found.blocks.iter().map(|pair| pair.line).collect(),
        });
    }
    problems.extend(found.stray_markers.iter().map(|stray| match stray.tag {
        MarkerTag::Open => MarkerProblem::Unclosed { line: stray.line },
        MarkerTag::Close => MarkerProblem::Unopened { line: stray.line },
    }));
    problems
}

/// Returns the line ending most lines of `text` have.
pub(crate) fn line_ending(text: &[u8]) -> &'static str {
    let newlines = text.iter().filter(|byte| **byte == b'\n').count();
    let crlf = text.windows(2).filter(|pair| pair == b"\r\n").count();
    if crlf * 2 > newlines { "\r\n" } else { "\n" }
}

fn splice(text: &[u8], range: Range<usize>, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len() + new.len());
    result.extend_from_slice(&text[..range.start]);
    result.extend_from_slice(new);
    result.extend_from_slice(&text[range.end..]);
    result
}

/// Inserts a block into a text that has none.
fn insert_block(text: &[u8], found: &MarkerScan, summary_md: &str) -> Vec<u8> {
    let eol = line_ending(text);
    let content = normalize_content(summary_md).replace('\n', eol);
    let tags = format!("{OPEN_TAG}{eol}{content}{eol}{CLOSE_TAG}{eol}");
    if let Some(at) = found.heading_end {
        let before = if text[..at].ends_with(b"\n") { "" } else { eol };
        return splice(text, at..at, format!("{before}{tags}").as_bytes());
    }
    // Before a fence or comment that is not closed yet: whatever closes it later must not swallow the block.
    let at = found.unterminated_at.unwrap_or(text.len());
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
    // Taking a stray marker out of a fence can give the fence its effect back, so look again until all is well.
    // Every round removes a marker.
    loop {
        let found = scan_markers(&text);
        if found.stray_markers.is_empty() && found.blocks.len() <= keep {
            return text;
        }
        let all = split_lines(&text);
        // Stray markers first: without them a pair may turn out to be an example in a fence.
        let mut ranges: Vec<Range<usize>> = match found.stray_markers.as_slice() {
            [] => found.blocks.iter().skip(keep).map(|pair| widen_to_heading(&text, &all, pair)).collect(),
            strays => strays.iter().map(|stray| widen_to_line(&text, &all, stray.range.clone())).collect(),
        };
        ranges.sort_by_key(|range| range.start);
        for range in ranges.into_iter().rev() {
            text.drain(range);
        }
    }
}

/// Widens a tag's range to its whole line when nothing else stands on it.
fn widen_to_line(text: &[u8], all: &[LineSpan], range: Range<usize>) -> Range<usize> {
    let first = &all[line_index_at(all, range.start)];
    let last = &all[line_index_at(all, range.end)];
    let start = skip_bom(text, first.start);
    let blank = |part: &[u8]| part.iter().all(u8::is_ascii_whitespace);
    if range.start >= start && blank(&text[start..range.start]) && blank(&text[range.end..last.end]) {
        start..last.next
    } else {
        range
    }
}

/// Widens a pair's range to its lines and to the heading right above it.
fn widen_to_heading(text: &[u8], all: &[LineSpan], pair: &BlockSpan) -> Range<usize> {
    let range = widen_to_line(text, all, pair.range.clone());
    let above =
        all[..pair.line - 1].iter().rev().find(|line| !text[line.start..line.end].trim_ascii().is_empty());
    match above {
        Some(line) if scan::is_heading(text, line) => skip_bom(text, line.start)..range.end,
        Some(_) | None => range,
    }
}

fn skip_bom(text: &[u8], at: usize) -> usize {
    if at == 0 { text.len() - strip_bom(text).len() } else { at }
}

/// Returns the index of the line that holds byte `at` (the last line for the end of the text).
fn line_index_at(all: &[LineSpan], at: usize) -> usize {
    all.partition_point(|line| line.next <= at).min(all.len() - 1)
}

#[cfg(test)]
mod tests;
