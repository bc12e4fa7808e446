//! Measures that have a target but no limit: the share of comments in production code, and the 90th percentiles of the
//! lengths of files and functions.

use std::collections::BTreeSet;

use super::code_size;
use super::source::SourceFile;

/// Returns one line with the measures and their targets.
pub fn measure_text(sources: &[SourceFile]) -> String {
    let lines: usize = sources.iter().map(|source| written_lines(source).count()).sum();
    let production: usize = sources
        .iter()
        .map(|source| written_lines(source).filter(|line| !source.is_test(*line)).count())
        .sum();
    let comments: usize = sources.iter().map(count_comment_lines).sum();
    let files: Vec<usize> = sources.iter().map(code_size::count_file_lines).collect();
    let functions: Vec<usize> =
        sources.iter().flat_map(code_size::find_functions).map(|function| function.lines).collect();
    format!(
        "tidy: {lines} lines in {} files, {production} of them production code with {} % comments (target 14 to 25); 90 % of \
         the files have at most {} lines (target 400), 90 % of the functions at most {} (target 40)",
        sources.len(),
        (comments * 100).checked_div(production).unwrap_or(0),
        ninetieth_percentile(files),
        ninetieth_percentile(functions),
    )
}

/// Returns the numbers of the lines that are not blank, from 1.
fn written_lines(source: &SourceFile) -> impl Iterator<Item = usize> {
    source.lines.iter().zip(1..).filter(|(text, _)| !text.trim().is_empty()).map(|(_, line)| line)
}

/// Returns the number of lines of production code that contain a comment, alone or after code.
fn count_comment_lines(source: &SourceFile) -> usize {
    let lines = source.comments.iter().map(|comment| comment.line);
    lines.filter(|line| !source.is_test(*line)).collect::<BTreeSet<_>>().len()
}

/// Returns the 90th percentile: the smallest value that at least 90 % of the values do not exceed. Returns 0 for no
/// values.
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
        let text = "//! A.\n\nfn a() {\n    // Why.\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let measured = measure_text(&[SourceFile::parse("a.rs", text).unwrap()]);
        let expected = "tidy: 8 lines in 1 files, 4 of them production code with 50 % comments ";
        assert!(measured.starts_with(expected), "{measured}");
        assert!(
            measure_text(&[]).starts_with("tidy: 0 lines in 0 files, 0 of them production code with 0 % ")
        );
    }

    #[test]
    fn the_90th_percentile_is_a_value_of_the_list() {
        assert_eq!(ninetieth_percentile((1..=10).collect()), 9);
        assert_eq!(ninetieth_percentile(vec![7]), 7);
    }
}
