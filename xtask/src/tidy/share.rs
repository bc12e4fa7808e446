//! Measures that have an aim but no limit: the share of comments, and how long nine files or functions in ten are.

use std::collections::BTreeSet;

use super::size;
use super::source::Source;

/// Returns one line with the measures and their aims.
pub fn measure(sources: &[Source]) -> String {
    let lines: usize = sources.iter().map(written).sum();
    let comments: usize = sources.iter().map(commented).sum();
    let files: Vec<usize> = sources.iter().map(size::file_lines).collect();
    let functions: Vec<usize> =
        sources.iter().flat_map(size::functions).map(|function| function.lines).collect();
    format!(
        "tidy: {lines} lines in {} files; comments {} % (aim 12 to 28); nine in ten files have up to {} lines (aim 400), \
         nine in ten functions up to {} (aim 40)",
        sources.len(),
        (comments * 100).checked_div(lines).unwrap_or(0),
        nine_in_ten(files),
        nine_in_ten(functions),
    )
}

fn written(source: &Source) -> usize {
    source.lines.iter().filter(|line| !line.trim().is_empty()).count()
}

fn commented(source: &Source) -> usize {
    source.comments.iter().map(|comment| comment.line).collect::<BTreeSet<_>>().len()
}

fn nine_in_ten(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    let last = (values.len() * 9).div_ceil(10).saturating_sub(1);
    values.get(last).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_comments_is_counted_in_lines() {
        let source = Source::parse("a.rs", "//! A.\n\nfn a() {\n    // Why.\n}\n").unwrap();
        assert!(measure(&[source]).starts_with("tidy: 4 lines in 1 files; comments 50 % "));
        assert!(measure(&[]).starts_with("tidy: 0 lines in 0 files; comments 0 % "));
    }

    #[test]
    fn nine_in_ten_are_not_longer() {
        assert_eq!(nine_in_ten((1..=10).collect()), 9);
        assert_eq!(nine_in_ten(vec![7]), 7);
    }
}
