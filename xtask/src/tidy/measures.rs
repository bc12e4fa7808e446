//! Measures that have an aim but no limit: the share of comments, and how long nine files or functions in ten are.

use std::collections::BTreeSet;

use super::code_size;
use super::source::SourceFile;

/// Returns one line with the measures and their aims.
pub fn measure_text(sources: &[SourceFile]) -> String {
    let lines: usize = sources.iter().map(count_written_lines).sum();
    let comments: usize = sources.iter().map(count_comment_lines).sum();
    let files: Vec<usize> = sources.iter().map(code_size::count_file_lines).collect();
    let functions: Vec<usize> =
        sources.iter().flat_map(code_size::find_functions).map(|function| function.lines).collect();
    format!(
        "tidy: {lines} lines in {} files; comments {} % (aim 12 to 28); nine in ten files have up to {} lines (aim 400), \
         nine in ten functions up to {} (aim 40)",
        sources.len(),
        (comments * 100).checked_div(lines).unwrap_or(0),
        ninetieth_percentile(files),
        ninetieth_percentile(functions),
    )
}

fn count_written_lines(source: &SourceFile) -> usize {
    source.lines.iter().filter(|line| !line.trim().is_empty()).count()
}

fn count_comment_lines(source: &SourceFile) -> usize {
    source.comments.iter().map(|comment| comment.line).collect::<BTreeSet<_>>().len()
}

fn ninetieth_percentile(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    let last = (values.len() * 9).div_ceil(10).saturating_sub(1);
    values.get(last).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_comments_is_counted_in_lines() {
        let source = SourceFile::parse("a.rs", "//! A.\n\nfn a() {\n    // Why.\n}\n").unwrap();
        assert!(measure_text(&[source]).starts_with("tidy: 4 lines in 1 files; comments 50 % "));
        assert!(measure_text(&[]).starts_with("tidy: 0 lines in 0 files; comments 0 % "));
    }

    #[test]
    fn nine_in_ten_are_not_longer() {
        assert_eq!(ninetieth_percentile((1..=10).collect()), 9);
        assert_eq!(ninetieth_percentile(vec![7]), 7);
    }
}
