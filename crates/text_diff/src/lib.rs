//! The difference of two texts by line: changed ranges, tagged lines, and unified diffs.
//!
//! The algorithm is that of `imara-diff`. Its time is quadratic for long texts of few different lines, whose changed part
//! is one range here. This crate deliberately renders nothing for a screen.

use std::fmt::Write;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// A range of lines of the old text that was replaced by a range of lines of the new text. One of them may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRange {
    /// Indices of the removed lines in the old text.
    pub old: Range<usize>,
    /// Indices of the added lines in the new text.
    pub new: Range<usize>,
}

/// The side of a difference to which a line belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineTag {
    /// In both texts.
    Equal,
    /// Only in the old text.
    Removed,
    /// Only in the new text.
    Added,
}

/// The two names in the header of a unified diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffHeader<'a> {
    /// The name after `---`.
    pub old: &'a str,
    /// The name after `+++`.
    pub new: &'a str,
}

/// Returns the changed ranges of two lists of lines, in their order. Lines between two ranges are equal.
pub fn changed_ranges<L: AsRef<[u8]>>(old: &[L], new: &[L]) -> Vec<ChangedRange> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().map(AsRef::as_ref));
    input.update_after(new.iter().map(AsRef::as_ref));
    ranges_of_lines(&input)
}

/// Returns all lines of both texts with their line breaks. Removed lines precede the lines that replace them.
pub fn tagged_lines<'a>(old: &'a str, new: &'a str) -> Vec<(LineTag, &'a str)> {
    let (old, new) = (split_lines(old), split_lines(new));
    let mut lines = Vec::with_capacity(old.len().max(new.len()));
    let mut equal_from = 0;
    for range in changed_ranges(&old, &new) {
        lines.extend(old[equal_from..range.old.start].iter().map(|line| (LineTag::Equal, *line)));
        equal_from = range.old.end;
        lines.extend(old[range.old].iter().map(|line| (LineTag::Removed, *line)));
        lines.extend(new[range.new].iter().map(|line| (LineTag::Added, *line)));
    }
    lines.extend(old[equal_from..].iter().map(|line| (LineTag::Equal, *line)));
    lines
}

/// Returns the unified diff of two texts, or an empty text if they are equal. Each hunk has up to `context_lines`
/// unchanged lines before and after its changes. Without a header, the diff begins with its first hunk.
pub fn unified_diff(old: &str, new: &str, context_lines: usize, header: Option<DiffHeader<'_>>) -> String {
    let (old, new) = (split_lines(old), split_lines(new));
    let ranges = changed_ranges(&old, &new);
    let mut text = String::new();
    if let (Some(header), false) = (header, ranges.is_empty()) {
        let _ = write!(text, "--- {}\n+++ {}\n", header.old, header.new);
    }
    for hunk in ranges.chunk_by(|a, b| b.old.start - a.old.end <= 2 * context_lines) {
        write_hunk(&mut text, hunk, context_lines, [&old, &new]);
    }
    text
}

/// The number of lines of both texts from which on repetitive texts are not compared line by line.
const REPETITIVE_LINES_MIN: usize = 20_000;
/// A text is repetitive if its lines occur this often on average.
const OCCURRENCES_MIN: usize = 8;

fn ranges_of_lines(input: &InternedInput<&[u8]>) -> Vec<ChangedRange> {
    let lines = input.before.len() + input.after.len();
    let different_lines = input.interner.num_tokens() as usize;
    if lines >= REPETITIVE_LINES_MIN && lines / different_lines.max(1) >= OCCURRENCES_MIN {
        return changed_middle(&input.before, &input.after).into_iter().collect();
    }
    let mut diff = Diff::compute(Algorithm::Histogram, input);
    diff.postprocess_lines(input);
    let indices = |range: Range<u32>| range.start as usize..range.end as usize;
    diff.hunks().map(|hunk| ChangedRange { old: indices(hunk.before), new: indices(hunk.after) }).collect()
}

/// Returns what is between the common beginning and the common end of two lists; `None` if they are equal.
fn changed_middle<T: PartialEq>(old: &[T], new: &[T]) -> Option<ChangedRange> {
    let shorter = old.len().min(new.len());
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let ends = old.iter().rev().zip(new.iter().rev());
    let end = ends.take(shorter - start).take_while(|(old, new)| old == new).count();
    let range = ChangedRange { old: start..old.len() - end, new: start..new.len() - end };
    (!range.old.is_empty() || !range.new.is_empty()).then_some(range)
}

/// Splits a text into lines that include their line breaks.
fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Writes one hunk: a header with the line numbers, and the changed lines with their context.
fn write_hunk(text: &mut String, hunk: &[ChangedRange], context_lines: usize, [old, new]: [&[&str]; 2]) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
    let before = first.old.start.min(context_lines);
    let after = (old.len() - last.old.end).min(context_lines);
    let old_lines = first.old.start - before..last.old.end + after;
    let new_lines = first.new.start - before..last.new.end + after;
    let _ = writeln!(text, "@@ -{} +{} @@", line_numbers(&old_lines), line_numbers(&new_lines));
    let mut equal_from = old_lines.start;
    for range in hunk {
        old[equal_from..range.old.start].iter().for_each(|line| write_line(text, ' ', line));
        old[range.old.clone()].iter().for_each(|line| write_line(text, '-', line));
        new[range.new.clone()].iter().for_each(|line| write_line(text, '+', line));
        equal_from = range.old.end;
    }
    old[equal_from..old_lines.end].iter().for_each(|line| write_line(text, ' ', line));
}

/// Returns the line numbers of a hunk as `diff -u` writes them: the first line, and the number of lines unless it is
/// one. An empty range has the number of the line before it.
fn line_numbers(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// Writes a line with its sign, and the note of `diff -u` if the line has no line break.
fn write_line(text: &mut String, sign: char, line: &str) {
    text.push(sign);
    text.push_str(line);
    if !line.ends_with('\n') {
        text.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A comparison line by line would take seconds.
    #[test]
    fn the_changed_part_of_a_long_repetitive_text_is_one_range() {
        let old = format!("first\n{}last\n", "a\nb\n".repeat(100_000));
        let new = format!("first\n{}last\n", "b\na\n".repeat(99_900));
        let ranges = changed_ranges(&split_lines(&old), &split_lines(&new));
        assert_eq!(ranges, [ChangedRange { old: 1..200_001, new: 1..199_801 }]);
        let same = changed_ranges(&split_lines(&old), &split_lines(&old));
        assert_eq!(same, []);
    }

    #[test]
    fn a_unified_diff_has_the_form_of_diff_u() {
        let check = |old: &str, new: &str, expected: &str| {
            assert_eq!(unified_diff(old, new, 1, None), expected, "{old:?} {new:?}");
        };
        check("a\n", "a\n", "");
        check("", "a\n", "@@ -0,0 +1 @@\n+a\n");
        check("a\n", "", "@@ -1 +0,0 @@\n-a\n");
        check("a\nb\nc\nd\n", "a\nx\nc\nd\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
        check("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        check(
            "1\n2\n3\n4\n5\n6\n",
            "0\n1\n2\n3\n4\n5\n7\n",
            "@@ -1 +1,2 @@\n+0\n 1\n@@ -5,2 +6,2 @@\n 5\n-6\n+7\n",
        );
        // Changes whose contexts touch are in one hunk.
        check("1\n2\n3\n", "0\n1\n2\n4\n", "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n-3\n+4\n");
    }

    #[test]
    fn a_header_precedes_the_first_hunk_of_a_change() {
        let header = Some(DiffHeader { old: "a/f", new: "b/f" });
        assert_eq!(unified_diff("a\n", "b\n", 3, header), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(unified_diff("a\n", "a\n", 3, header), "");
    }

    proptest! {
        #[test]
        fn the_tagged_lines_contain_both_texts(old in "([abc]\n){0,12}[abc]?", new in "([abc]\n){0,12}[abc]?") {
            let lines = tagged_lines(&old, &new);
            let side = |other: LineTag| -> String {
                lines.iter().filter(|(tag, _)| *tag != other).map(|(_, line)| *line).collect()
            };
            prop_assert_eq!(&side(LineTag::Added), &old);
            prop_assert_eq!(&side(LineTag::Removed), &new);
        }
    }
}
