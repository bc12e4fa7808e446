//! The page of the book that names the tests of each guarantee. The guarantees and their numbers are written by hand; the lists
//! of tests are generated from the sources, and tidy reports lists that differ from them.

mod numbered_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::tidy::source::SourceFile;
use crate::tidy::{Finding, TextFile};
use numbered_tests::{NumberedTest, find_tests};

/// The page with a table row for each guarantee: its number, its sentence and its tests.
const TESTS_PAGE: &str = "docs/src/guarantees.md";
/// The page that defines the guarantees in full.
const DEFINITIONS_PAGE: &str = "docs/src/invariants.md";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct GuaranteeRow<'a> {
    /// The number, such as `A1`.
    number: &'a str,
    /// The guarantee in one sentence.
    sentence: &'a str,
    /// The cell with the tests.
    tests: &'a str,
}

impl<'a> GuaranteeRow<'a> {
    /// Parses a line of the page. Returns `None` for a line that is no row of a guarantee.
    fn parse(line: &'a str) -> Option<Self> {
        let (number, cells) = line.strip_prefix("| ")?.split_once(" | ")?;
        let (sentence, tests) = cells.split_once(" | ")?;
        let tests = tests.strip_suffix('|')?.trim();
        is_number(number).then_some(Self { number, sentence, tests })
    }
}

/// The tests of the project that quote guarantees.
struct TestIndex {
    /// The tests, sorted by path.
    tests: Vec<NumberedTest>,
}

impl TestIndex {
    /// Collects the tests of all files.
    fn collect(files: &[TextFile], sources: &[SourceFile]) -> Self {
        Self { tests: find_tests(files, sources) }
    }

    /// Returns the table cell with the paths of the tests of a guarantee. It is empty without a test.
    fn tests_cell(&self, number: &str) -> String {
        let is_of_number = |test: &&NumberedTest| test.numbers.iter().any(|quoted| quoted == number);
        let paths: Vec<String> =
            self.tests.iter().filter(is_of_number).map(|test| format!("`{}`", test.path)).collect();
        let summary = match paths.len() {
            0 => return String::new(),
            1 => "1 test".to_owned(),
            count => format!("{count} tests"),
        };
        format!("<details><summary>{summary}</summary>{}</details>", paths.join("<br>"))
    }
}

/// Compares the page with the sources and with the definitions: each guarantee has a row and at least one test, each test quotes
/// defined numbers, and the lists of tests are current.
pub fn check(files: &[TextFile], sources: &[SourceFile]) -> Vec<Finding> {
    let (Some(page), Some(definitions)) = (find_file(files, TESTS_PAGE), find_file(files, DEFINITIONS_PAGE))
    else {
        let what = format!("{TESTS_PAGE} or {DEFINITIONS_PAGE} is missing");
        return vec![page_finding(1, what, "restore the page")];
    };
    let index = TestIndex::collect(files, sources);
    let mut findings = check_rows(page, &index);
    findings.extend(check_definitions(page, definitions));
    let numbers: BTreeSet<&str> = rows(page).map(|(_, row)| row.number).collect();
    for test in &index.tests {
        for number in test.numbers.iter().filter(|number| !numbers.contains(number.as_str())) {
            findings.push(Finding {
                path: test.file.clone(),
                line: test.line,
                what: format!("a test quotes {number}, which is no guarantee of {TESTS_PAGE}"),
                remedy: "begin its name with the number of a guarantee, or with none",
            });
        }
    }
    findings
}

/// Writes the current lists of tests into the page.
///
/// # Errors
/// If the page is missing or cannot be written.
pub fn write_page(root: &Path, files: &[TextFile], sources: &[SourceFile]) -> anyhow::Result<()> {
    let page = find_file(files, TESTS_PAGE).with_context(|| format!("find {TESTS_PAGE}"))?;
    let index = TestIndex::collect(files, sources);
    let (written, missing) = render_page(page, &index);
    fs::write(root.join(TESTS_PAGE), written).with_context(|| format!("write {TESTS_PAGE}"))?;
    if !missing.is_empty() {
        bail!("these guarantees have no test whose name begins with their number: {}", missing.join(", "));
    }
    println!("{TESTS_PAGE}: {} tests of {} guarantees", index.tests.len(), rows(page).count());
    Ok(())
}

/// Returns the page with the current lists of tests, and the numbers of the guarantees without a test.
fn render_page(page: &TextFile, index: &TestIndex) -> (String, Vec<String>) {
    let (mut written, mut missing) = (String::new(), Vec::new());
    for line in page.text.lines() {
        match GuaranteeRow::parse(line) {
            Some(GuaranteeRow { number, sentence, .. }) => {
                let tests = index.tests_cell(number);
                if tests.is_empty() {
                    missing.push(number.to_owned());
                }
                written.push_str(&format!("| {number} | {sentence} | {tests} |"));
            }
            None => written.push_str(line),
        }
        written.push('\n');
    }
    (written, missing)
}

/// Finds guarantees without a test, and lists of tests that differ from the sources.
fn check_rows(page: &TextFile, index: &TestIndex) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, row) in rows(page) {
        let tests = index.tests_cell(row.number);
        if tests.is_empty() {
            let what = format!("{} has no test", row.number);
            let remedy = "begin the name of a test that proves it with its number";
            findings.push(page_finding(line, what, remedy));
        } else if tests != row.tests {
            let what = format!("the list of the tests of {} is not current", row.number);
            findings.push(page_finding(line, what, "run `cargo xtask guarantees`"));
        }
    }
    findings
}

/// Finds guarantees that only one of the two pages has, and numbers that have several rows.
fn check_definitions(page: &TextFile, definitions: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, row) in rows(page) {
        if lines.insert(row.number, line).is_some() {
            findings.push(page_finding(line, format!("{} has a second row", row.number), "remove one"));
        }
    }
    let defined: BTreeMap<&str, usize> = definitions
        .text
        .lines()
        .zip(1..)
        .filter_map(|(text, line)| Some((defined_number(text)?, line)))
        .collect();
    for (number, line) in lines.iter().filter(|(number, _)| !defined.contains_key(*number)) {
        let what = format!("{number} is not defined in {DEFINITIONS_PAGE}");
        findings.push(page_finding(*line, what, "define it there, or remove the row"));
    }
    for (number, line) in defined.iter().filter(|(number, _)| !lines.contains_key(*number)) {
        findings.push(Finding {
            path: DEFINITIONS_PAGE.to_owned(),
            line: *line,
            what: format!("{number} has no row in {TESTS_PAGE}"),
            remedy: "add a row with its number and one sentence, and run `cargo xtask guarantees`",
        });
    }
    findings
}

/// Returns the rows of the page with their lines, counted from 1.
fn rows(page: &TextFile) -> impl Iterator<Item = (usize, GuaranteeRow<'_>)> {
    page.text.lines().zip(1..).filter_map(|(text, line)| Some((line, GuaranteeRow::parse(text)?)))
}

/// Returns the number that a line of the definitions begins with, as in `- **A1** seq starts at 1`.
fn defined_number(line: &str) -> Option<&str> {
    let (head, _) = line.strip_prefix("- **")?.split_once("**")?;
    head.split(' ').next().filter(|number| is_number(number))
}

/// Returns whether a text is the number of a guarantee: a letter of a group and digits.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(|letter: char| ('A'..='M').contains(&letter));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the file with this path.
fn find_file<'a>(files: &'a [TextFile], path: &str) -> Option<&'a TextFile> {
    files.iter().find(|file| file.path == path)
}

/// Returns a finding about a line of the page.
fn page_finding(line: usize, what: String, remedy: &'static str) -> Finding {
    Finding { path: TESTS_PAGE.to_owned(), line, what, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: &str = "# Invariants\n\n- **A1** seq starts at 1.\n- **M1 approve** the hash.\n";

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns a page with a row for each number, the `tests` in its last cell.
    fn page(numbers_and_tests: &[(&str, &str)]) -> String {
        let row = |(number, tests): &(&str, &str)| format!("| {number} | It holds. | {tests} |\n");
        let rows: String = numbers_and_tests.iter().map(row).collect();
        format!("# Guarantees\n\n| | guarantee | tests |\n| --- | --- | --- |\n{rows}")
    }

    /// Returns the files of a project whose tests are these functions of one file.
    fn project(page: &str, definitions: &str, functions: &[&str]) -> (Vec<TextFile>, Vec<SourceFile>) {
        let text: String = functions.iter().map(|name| format!("#[test]\nfn {name}() {{}}\n")).collect();
        let source = file("crates/journal/tests/it/log.rs", &text);
        let sources = vec![SourceFile::parse(&source.path, &source.text).unwrap()];
        (vec![file(TESTS_PAGE, page), file(DEFINITIONS_PAGE, definitions), source], sources)
    }

    #[track_caller]
    fn check_project(page: &str, definitions: &str, functions: &[&str], expected: &[&str]) {
        let (files, sources) = project(page, definitions, functions);
        let findings = check(&files, &sources);
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    const A1_TESTS: &str =
        "<details><summary>1 test</summary>`journal::it::log::a1_m1_seqs_have_no_gap`</details>";
    const M1_TESTS: &str = "<details><summary>2 tests</summary>`journal::it::log::a1_m1_seqs_have_no_gap`<br>\
                            `journal::it::log::m1_the_hash_is_stored`</details>";
    const TESTS: [&str; 3] = ["a1_m1_seqs_have_no_gap", "m1_the_hash_is_stored", "pages_are_full"];

    #[test]
    fn a_current_page_has_no_finding() {
        check_project(&page(&[("A1", A1_TESTS), ("M1", M1_TESTS)]), DEFINITIONS, &TESTS, &[]);
    }

    #[test]
    fn a_guarantee_without_a_test_and_a_list_that_is_not_current_are_found() {
        check_project(
            &page(&[("A1", A1_TESTS), ("M1", M1_TESTS)]),
            DEFINITIONS,
            &["m1_the_hash_is_stored"],
            &[
                "docs/src/guarantees.md:5: A1 has no test; begin the name of a test that proves it with its number",
                "docs/src/guarantees.md:6: the list of the tests of M1 is not current; run `cargo xtask guarantees`",
            ],
        );
    }

    #[test]
    fn a_test_that_quotes_an_unknown_number_is_found() {
        let functions = ["a1_b9_rows_are_hidden", "m1_the_hash_is_stored"];
        let a1 = "<details><summary>1 test</summary>`journal::it::log::a1_b9_rows_are_hidden`</details>";
        let m1 = "<details><summary>1 test</summary>`journal::it::log::m1_the_hash_is_stored`</details>";
        check_project(
            &page(&[("A1", a1), ("M1", m1)]),
            DEFINITIONS,
            &functions,
            &[
                "crates/journal/tests/it/log.rs:2: a test quotes B9, which is no guarantee of docs/src/guarantees.md; \
                 begin its name with the number of a guarantee, or with none",
            ],
        );
    }

    #[test]
    fn both_pages_have_the_same_guarantees() {
        let definitions = format!("{DEFINITIONS}- **A2** seq is never reused.\n");
        let functions = ["a1_m1_seqs_have_no_gap", "m1_the_hash_is_stored", "b1_all_of_it"];
        let b1 = "<details><summary>1 test</summary>`journal::it::log::b1_all_of_it`</details>";
        check_project(
            &page(&[("A1", A1_TESTS), ("A1", A1_TESTS), ("M1", M1_TESTS), ("B1", b1)]),
            &definitions,
            &functions,
            &[
                "docs/src/guarantees.md:6: A1 has a second row; remove one",
                "docs/src/guarantees.md:8: B1 is not defined in docs/src/invariants.md; define it there, or remove \
                 the row",
                "docs/src/invariants.md:5: A2 has no row in docs/src/guarantees.md; add a row with its number and one \
                 sentence, and run `cargo xtask guarantees`",
            ],
        );
    }

    #[test]
    fn a_missing_page_is_found() {
        let findings = check(&[file(TESTS_PAGE, "")], &[]);
        let what = "docs/src/guarantees.md or docs/src/invariants.md is missing";
        assert_eq!(findings.iter().map(|finding| finding.what.as_str()).collect::<Vec<_>>(), [what]);
    }

    #[test]
    fn the_command_writes_the_lists_and_keeps_everything_else() {
        let old = page(&[("A1", ""), ("M1", "`gone`")]) + "\nThe end.\n";
        let (files, sources) = project(&old, DEFINITIONS, &TESTS);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("docs/src")).unwrap();
        write_page(folder.path(), &files, &sources).unwrap();
        let written = fs::read_to_string(folder.path().join(TESTS_PAGE)).unwrap();
        assert_eq!(written, page(&[("A1", A1_TESTS), ("M1", M1_TESTS)]) + "\nThe end.\n");

        let (files, sources) = project(&old, DEFINITIONS, &["m1_the_hash_is_stored"]);
        let error = write_page(folder.path(), &files, &sources).unwrap_err();
        assert!(error.to_string().ends_with("number: A1"), "{error}");
    }

    #[test]
    fn a_row_has_a_number_a_sentence_and_tests() {
        let row = |number, sentence, tests| Some(GuaranteeRow { number, sentence, tests });
        assert_eq!(GuaranteeRow::parse("| A12 | It holds. | `a::b` |"), row("A12", "It holds.", "`a::b`"));
        assert_eq!(GuaranteeRow::parse("| A12 | It holds. |  |"), row("A12", "It holds.", ""));
        assert_eq!(GuaranteeRow::parse("| A12 | It holds. | |"), row("A12", "It holds.", ""));
        for other in
            ["| | guarantee | tests |", "| --- | --- | --- |", "| N1 | x. | y |", "| A | x. | y |", "A1"]
        {
            assert_eq!(GuaranteeRow::parse(other), None, "{other}");
        }
    }
}
