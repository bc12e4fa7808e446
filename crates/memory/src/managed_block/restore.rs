//! Undoes changes of the managed block while changes of the rest of the text stay. The tamper guard decides when that
//! is necessary.
//!
//! The old and the new text are compared line by line. Lines of the old block return to the block, and lines that
//! were added inside it are dropped.

use std::ops::Range;

use text_diff::{ChangedRange, changed_ranges};

use super::scan::{BlockSpan, LineSpan, scan_markers, split_lines};
use super::{
    block_content, line_index_at, marker_problems, remove_blocks, repair_markers, replace_block,
    widen_to_heading,
};

/// The lines of the restored text, by their position relative to the block.
#[derive(Default)]
struct PartitionedLines<'a> {
    above: Vec<&'a [u8]>,
    /// The lines of the block, with its heading.
    block: Vec<&'a [u8]>,
    below: Vec<&'a [u8]>,
}

/// Returns the text `now` with `wanted` in its block. With `None`, the result has no block.
///
/// Lines that were in the block in `before` do not become notes, even if its markers were removed. A second block is
/// removed. `before` must have one well-formed block or none.
pub(crate) fn restore_block(before: &[u8], now: &[u8], wanted: Option<&str>) -> Vec<u8> {
    let restored = match scan_markers(before).blocks.first() {
        Some(pair) => keep_old_block(before, now, pair),
        None if wanted.is_some() => repair_markers(now),
        None => remove_blocks(now),
    };
    match wanted {
        None => remove_blocks(&restored),
        Some(text)
            if marker_problems(&restored).is_empty() && block_content(&restored).as_deref() == Some(text) =>
        {
            restored
        }
        // Inserting a block fails only if the text has malformed markers, so it succeeds once all markers are removed.
        Some(text) => replace_block(&restored, text)
            .or_else(|_| replace_block(&remove_blocks(&restored), text))
            .unwrap_or(restored),
    }
}

/// Returns `now` with the block of `before`, and its heading, restored. `pair` is the block of `before`.
fn keep_old_block(before: &[u8], now: &[u8], pair: &BlockSpan) -> Vec<u8> {
    let (old, new) = (split_lines(before), split_lines(now));
    let range = widen_to_heading(before, &old, pair);
    let block = line_index_at(&old, range.start)..line_index_at(&old, range.end.saturating_sub(1)) + 1;
    let mut parts = PartitionedLines::default();
    let (old_line, new_line) = (
        |index: usize| &before[old[index].start..old[index].next],
        |index: usize| &now[new[index].start..new[index].next],
    );
    let mut equal_from = ChangedRange { old: 0..0, new: 0..0 };
    for range in compare_lines(before, &old, now, &new) {
        partition_equal_lines(&equal_from, &range, &block, &mut parts, new_line);
        partition_changed_lines(&range, &block, &mut parts, old_line, new_line);
        equal_from = range;
    }
    let end = ChangedRange { old: old.len()..old.len(), new: new.len()..new.len() };
    partition_equal_lines(&equal_from, &end, &block, &mut parts, new_line);
    let whole = join_lines(&parts.above, &parts.block, &parts.below);
    if has_one_block(&whole) {
        return whole;
    }
    // The new text has additional markers outside the block. They are removed.
    let (above, below) = (remove_blocks(&parts.above.concat()), remove_blocks(&parts.below.concat()));
    let whole = join_lines(&[&above], &parts.block, &[&below]);
    if has_one_block(&whole) { whole } else { remove_blocks(&join_lines(&[&above], &[], &[&below])) }
}

/// Compares the lines of two texts without their line endings.
fn compare_lines(before: &[u8], old: &[LineSpan], now: &[u8], new: &[LineSpan]) -> Vec<ChangedRange> {
    let old: Vec<&[u8]> = old.iter().map(|line| &before[line.start..line.end]).collect();
    let new: Vec<&[u8]> = new.iter().map(|line| &now[line.start..line.end]).collect();
    changed_ranges(&old, &new)
}

/// Assigns the unchanged lines between two differences to the parts of the restored text. `block` is the range of the
/// block's lines in the old text.
fn partition_equal_lines<'a>(
    previous: &ChangedRange,
    next: &ChangedRange,
    block: &Range<usize>,
    parts: &mut PartitionedLines<'a>,
    new_line: impl Fn(usize) -> &'a [u8],
) {
    let (old, new) = (previous.old.end..next.old.start, previous.new.end..next.new.start);
    for (old_index, new_index) in old.zip(new) {
        if old_index < block.start {
            parts.above.push(new_line(new_index));
        } else if old_index < block.end {
            parts.block.push(new_line(new_index));
        } else {
            parts.below.push(new_line(new_index));
        }
    }
}

/// Assigns the lines of one difference to the parts of the restored text. `block` is the range of the block's lines
/// in the old text; `old_line` and `new_line` return lines of the two texts by index.
fn partition_changed_lines<'a>(
    range: &ChangedRange,
    block: &Range<usize>,
    parts: &mut PartitionedLines<'a>,
    old_line: impl Fn(usize) -> &'a [u8],
    new_line: impl Fn(usize) -> &'a [u8],
) {
    let (old, new) = (range.old.clone(), range.new.clone());
    // Removed lines of the block are restored. Lines added inside the block are dropped.
    let removed = old.start.max(block.start)..old.end.min(block.end);
    parts.block.extend(removed.map(old_line));
    let covers_block = old.start <= block.start && block.end <= old.end;
    if old.start < block.start || old.end <= block.start || covers_block {
        parts.above.extend(new.map(new_line));
    } else if old.end > block.end || old.start >= block.end {
        parts.below.extend(new.map(new_line));
    }
}

/// Returns whether the text has exactly one well-formed block.
fn has_one_block(text: &[u8]) -> bool {
    marker_problems(text).is_empty() && block_content(text).is_some()
}

/// Joins lines. A line without a line break, which was the last of its text, gets one if other lines follow.
fn join_lines(above: &[&[u8]], block: &[&[u8]], below: &[&[u8]]) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for line in above.iter().chain(block).chain(below).filter(|line| !line.is_empty()) {
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        text.extend_from_slice(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "a\n\n## Recent Thread Snapshot\n<current_thread_summary>\nS1\nS2\n</current_thread_summary>\nz\n";

    fn check(now: &str, expected: &str) {
        let restored = restore_block(BEFORE.as_bytes(), now.as_bytes(), Some("S1\nS2"));
        assert_eq!(String::from_utf8(restored).unwrap(), expected, "{now:?}");
    }

    /// Returns `BEFORE` with `a` and `z` replaced.
    fn block_between(above: &str, below: &str) -> String {
        BEFORE.replacen("a\n", above, 1).replacen("z\n", below, 1)
    }

    #[test]
    fn f4_changes_of_the_block_are_undone_and_other_changes_stay() {
        check(BEFORE, BEFORE);
        check(&BEFORE.replace("S1", "other"), BEFORE);
        check(&BEFORE.replace("S1\nS2\n", ""), BEFORE);
        check(&BEFORE.replace("S2\n", "S2\nmore\n"), BEFORE);
        check(&block_between("a\nb\n", "y\n").replace("S2", "X"), &block_between("a\nb\n", "y\n"));
    }

    #[test]
    fn f4_a_block_without_its_markers_does_not_become_notes() {
        let unmarked =
            BEFORE.replace("<current_thread_summary>\n", "").replace("</current_thread_summary>\n", "");
        check(&unmarked, BEFORE);
        check(&unmarked.replace("z\n", "z\nnew\n"), &block_between("a\n", "z\nnew\n"));
        check(&BEFORE.replace("</current_thread_summary>\n", ""), BEFORE);
        let moved = unmarked.replace("S2\n", "S2\n<current_thread_summary>\n</current_thread_summary>\n");
        check(&moved, BEFORE);
        let none = restore_block(BEFORE.as_bytes(), unmarked.as_bytes(), None);
        assert_eq!(String::from_utf8(none).unwrap(), "a\n\nz\n");
    }

    #[test]
    fn f4_a_rewritten_file_keeps_its_new_text_and_gets_the_block_back() {
        check("mine\n", &block_between("mine\n", "").replacen("\n\n", "\n", 1));
        check("", BEFORE.strip_prefix("a\n\n").unwrap().strip_suffix("z\n").unwrap());
        let crlf = BEFORE.replace('\n', "\r\n").replace("S1", "X");
        let restored = restore_block(BEFORE.as_bytes(), crlf.as_bytes(), Some("S1\nS2"));
        let text = String::from_utf8(restored).unwrap();
        assert!(text.starts_with("a\r\n") && text.ends_with("z\r\n"), "{text:?}");
        assert_eq!(block_content(text.as_bytes()).as_deref(), Some("S1\nS2"));
    }

    #[test]
    fn f4_a_second_block_is_removed() {
        let second = "<current_thread_summary>\nmine\n</current_thread_summary>\n";
        check(&BEFORE.replace("z\n", &format!("z\n{second}")), BEFORE);
        check(&format!("{second}{BEFORE}"), BEFORE);
        check(&format!("</current_thread_summary>\n{BEFORE}"), BEFORE);
        let created = restore_block(b"a\n", format!("a\n{second}b\n").as_bytes(), None);
        assert_eq!(String::from_utf8(created).unwrap(), "a\nb\n");
    }

    #[test]
    fn f4_a_newer_recorded_summary_replaces_the_old_one() {
        let now = BEFORE.replace("S1\nS2", "forged");
        let restored = restore_block(BEFORE.as_bytes(), now.as_bytes(), Some("newer"));
        assert_eq!(String::from_utf8(restored).unwrap(), BEFORE.replace("S1\nS2", "newer"));
        let created = restore_block(b"a\n", b"a\nb\n", Some("newer"));
        assert_eq!(block_content(&created).as_deref(), Some("newer"));
        assert!(created.starts_with(b"a\nb\n"));
    }
}
