//! Taking back what was done to the block while what was done to the rest of the text stays. Whether it must be taken
//! back is decided elsewhere.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_by_key_deadline};

use super::scan::{BlockSpan, LineSpan, scan_markers, split_lines};
use super::{
    block_content, line_index_at, marker_problems, remove_blocks, repair_markers, replace_block,
    widen_to_heading,
};

/// How long the two texts are compared; after that the comparison is coarser.
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// Lines of the mended text, by where they stand.
#[derive(Default)]
struct PartitionedLines<'a> {
    above: Vec<&'a [u8]>,
    block: Vec<&'a [u8]>,
    below: Vec<&'a [u8]>,
}

/// Returns `now` with the block holding `wanted`, or without one: lines that stood in the block `before` are no notes,
/// even when its markers are gone, and a second block is none.
///
/// `before` holds one well-formed block or none.
pub(crate) fn restore_block(before: &[u8], now: &[u8], wanted: Option<&str>) -> Vec<u8> {
    let mended = match scan_markers(before).blocks.first() {
        Some(pair) => keep_old_block(before, now, pair),
        None if wanted.is_some() => repair_markers(now),
        None => remove_blocks(now),
    };
    match wanted {
        None => remove_blocks(&mended),
        Some(text)
            if marker_problems(&mended).is_empty() && block_content(&mended).as_deref() == Some(text) =>
        {
            mended
        }
        // A text without any marker can always be given a block.
        Some(text) => replace_block(&mended, text)
            .or_else(|_| replace_block(&remove_blocks(&mended), text))
            .unwrap_or(mended),
    }
}

/// Returns `now` with the lines of `before`'s block, and its heading, in their place.
fn keep_old_block(before: &[u8], now: &[u8], pair: &BlockSpan) -> Vec<u8> {
    let (old, new) = (split_lines(before), split_lines(now));
    let range = widen_to_heading(before, &old, pair);
    let block = line_index_at(&old, range.start)..line_index_at(&old, range.end.saturating_sub(1)) + 1;
    let mut parts = PartitionedLines::default();
    for op in diff_lines(before, &old, now, &new) {
        partition_diff_op(
            &op,
            &block,
            &mut parts,
            |index| &before[old[index].start..old[index].next],
            |index| &now[new[index].start..new[index].next],
        );
    }
    let whole = join_lines(&parts.above, &parts.block, &parts.below);
    if has_one_block(&whole) {
        return whole;
    }
    // Someone wrote markers of their own.
    let (above, below) = (remove_blocks(&parts.above.concat()), remove_blocks(&parts.below.concat()));
    let whole = join_lines(&[&above], &parts.block, &[&below]);
    if has_one_block(&whole) { whole } else { remove_blocks(&join_lines(&[&above], &[], &[&below])) }
}

/// Compares the lines; how they end does not matter.
fn diff_lines(before: &[u8], old: &[LineSpan], now: &[u8], new: &[LineSpan]) -> Vec<DiffOp> {
    let old: Vec<&[u8]> = old.iter().map(|line| &before[line.start..line.end]).collect();
    let new: Vec<&[u8]> = new.iter().map(|line| &now[line.start..line.end]).collect();
    let deadline = Some(Instant::now() + DIFF_TIME_MAX);
    capture_diff_slices_by_key_deadline(Algorithm::Myers, &old, &new, |line| *line, deadline)
}

fn partition_diff_op<'a>(
    op: &DiffOp,
    block: &Range<usize>,
    parts: &mut PartitionedLines<'a>,
    old_line: impl Fn(usize) -> &'a [u8],
    new_line: impl Fn(usize) -> &'a [u8],
) {
    let (old, new) = (op.old_range(), op.new_range());
    if let DiffOp::Equal { .. } = op {
        for (at, index) in old.zip(new) {
            if at < block.start {
                parts.above.push(new_line(index));
            } else if at < block.end {
                parts.block.push(new_line(index));
            } else {
                parts.below.push(new_line(index));
            }
        }
        return;
    }
    // Lines of the block that went away are put back, lines that came into it go.
    let kept = old.start.max(block.start)..old.end.min(block.end);
    parts.block.extend(kept.map(old_line));
    let covers_block = old.start <= block.start && block.end <= old.end;
    if old.start < block.start || old.end <= block.start || covers_block {
        parts.above.extend(new.map(new_line));
    } else if old.end > block.end || old.start >= block.end {
        parts.below.extend(new.map(new_line));
    }
}

fn has_one_block(text: &[u8]) -> bool {
    marker_problems(text).is_empty() && block_content(text).is_some()
}

/// Joins lines; one that was the last of its text gets a line end when others follow.
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
        let mended = restore_block(BEFORE.as_bytes(), now.as_bytes(), Some("S1\nS2"));
        assert_eq!(String::from_utf8(mended).unwrap(), expected, "{now:?}");
    }

    /// `BEFORE` with `a` and `z` replaced.
    fn block_between(above: &str, below: &str) -> String {
        BEFORE.replacen("a\n", above, 1).replacen("z\n", below, 1)
    }

    #[test]
    fn f4_what_was_done_to_the_block_is_undone_and_the_rest_stays() {
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
    fn f4_a_file_written_anew_keeps_its_text_and_gets_the_block_back() {
        check("mine\n", &block_between("mine\n", "").replacen("\n\n", "\n", 1));
        check("", BEFORE.strip_prefix("a\n\n").unwrap().strip_suffix("z\n").unwrap());
        let crlf = BEFORE.replace('\n', "\r\n").replace("S1", "X");
        let mended = restore_block(BEFORE.as_bytes(), crlf.as_bytes(), Some("S1\nS2"));
        let text = String::from_utf8(mended).unwrap();
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
    fn f4_what_a_writer_noted_meanwhile_wins() {
        let now = BEFORE.replace("S1\nS2", "forged");
        let mended = restore_block(BEFORE.as_bytes(), now.as_bytes(), Some("newer"));
        assert_eq!(String::from_utf8(mended).unwrap(), BEFORE.replace("S1\nS2", "newer"));
        let created = restore_block(b"a\n", b"a\nb\n", Some("newer"));
        assert_eq!(block_content(&created).as_deref(), Some("newer"));
        assert!(created.starts_with(b"a\nb\n"));
    }
}
