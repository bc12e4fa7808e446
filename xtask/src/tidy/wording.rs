//! Rules for the text of a file: its head comment, marks of unfinished work, banner comments, and disabled tests and
//! lints. Names are checked in [`super::names`].

use super::Finding;
use super::source::SourceFile;

/// Words that mark unfinished work, at the start of a comment or before `:` or `(`.
const UNFINISHED_MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Checks one file against all rules for texts.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = check_head(source);
    findings.extend(check_marks(source));
    findings.extend(check_banners(source));
    findings.extend(check_tokens(source));
    findings
}

/// Checks that a file begins with a head comment.
fn check_head(source: &SourceFile) -> Vec<Finding> {
    let first = source.lines.first().map_or("", String::as_str);
    let head = first.strip_prefix("//!").unwrap_or_default().trim();
    let remedy = "begin with `//!` and the file's one responsibility, then its deliberate limits";
    match head {
        "" => vec![source.finding(1, "no head comment", remedy)],
        "Placeholder." => vec![source.finding(1, "a placeholder for a head comment", remedy)],
        _ => Vec::new(),
    }
}

/// Finds marks of unfinished work without an issue number.
fn check_marks(source: &SourceFile) -> Vec<Finding> {
    let unfinished = |text: &str| {
        UNFINISHED_MARKS.iter().any(|mark| {
            let is_first_word =
                text.strip_prefix(mark).is_some_and(|after| !after.starts_with(char::is_alphanumeric));
            is_first_word || text.contains(&format!("{mark}:")) || text.contains(&format!("{mark}("))
        })
    };
    source
        .comments
        .iter()
        .filter(|comment| unfinished(&comment.text) && !has_issue_number(&comment.text))
        .map(|comment| {
            let remedy = "finish it, or name the issue (`#12`) that will";
            source.finding(comment.line, "a mark of unfinished work without an issue", remedy)
        })
        .collect()
}

/// Finds comments that consist only of line characters.
fn check_banners(source: &SourceFile) -> Vec<Finding> {
    let is_banner = |text: &str| text.chars().count() >= 4 && text.chars().all(|c| "-=#~*_─━═".contains(c));
    let banners = source.comments.iter().filter(|comment| is_banner(&comment.text));
    let remedy = "remove it; if the file has several parts, split it";
    banners.map(|comment| source.finding(comment.line, "a banner comment", remedy)).collect()
}

/// Returns whether a comment contains an issue number such as `#12`.
fn has_issue_number(text: &str) -> bool {
    text.split('#').skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_digit()))
}

/// Finds unwritten code, allowed lints and ignored tests by their tokens, so that those in macros are found too.
fn check_tokens(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for window in source.tokens.windows(3) {
        let [first, second, third] = window else { continue };
        let line = first.line;
        match (first.text.as_str(), second.text.as_str(), third.text.as_str()) {
            (name @ ("todo" | "unimplemented"), "!", "(" | "[" | "{") => {
                findings.push(source.finding(line, format!("`{name}!`"), "implement it, or remove it"));
            }
            ("#" | "!", "[", "allow") => {
                let remedy = "use `#[expect(…, reason = \"…\")]`";
                findings.push(source.finding(line, "a disabled lint", remedy));
            }
            ("#", "[", "ignore") => {
                findings.push(source.finding(line, "a disabled test", "repair it or remove it"));
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    fn check_text(text: &str, expected: &[&str]) {
        assert_eq!(findings(check, "a.rs", text), expected, "{text}");
    }

    #[test]
    fn every_file_begins_with_its_responsibility() {
        let remedy = "begin with `//!` and the file's one responsibility, then its deliberate limits";
        check_text("//! Adds.\n", &[]);
        check_text("fn a() {}", &[&format!("a.rs:1: no head comment; {remedy}")]);
        check_text("//!\n//! Late.", &[&format!("a.rs:1: no head comment; {remedy}")]);
        check_text("// Plain.", &[&format!("a.rs:1: no head comment; {remedy}")]);
        check_text("//! Placeholder.", &[&format!("a.rs:1: a placeholder for a head comment; {remedy}")]);
    }

    #[test]
    fn unfinished_work_names_an_issue() {
        let finding = "a.rs:2: a mark of unfinished work without an issue; finish it, or name the issue (`#12`) that will";
        check_text("//! A.\n// TODO later", &[finding]);
        check_text("//! A.\n/// FIXME(me) later\nfn a() {}", &[finding]);
        check_text("//! A.\nfn a() {} // and TODO: more", &[finding]);
        check_text("//! A.\n// TODO #12: later", &[]);
        check_text("//! A.\n// No TODO stays without an issue.", &[]);
        check_text("//! A.\nconst A: &str = \"// TODO: x\";", &[]);
    }

    #[test]
    fn banners_are_found() {
        let finding = "a.rs:2: a banner comment; remove it; if the file has several parts, split it";
        check_text("//! A.\n// ----------\n", &[finding]);
        check_text("//! A.\n// -- aside --\n//! | --- |\n", &[]);
    }

    #[test]
    fn lints_are_expected_with_a_reason_and_never_allowed() {
        let finding = |line| format!("a.rs:{line}: a disabled lint; use `#[expect(…, reason = \"…\")]`");
        check_text("//! A.\n#[allow(dead_code)]\nfn a() {}", &[&finding(2)]);
        check_text("//! A.\n#![allow(dead_code)]\nfn a() {}", &[&finding(2)]);
        check_text("//! A.\n#[expect(dead_code, reason = \"because\")]\nfn a() {}", &[]);
    }

    #[test]
    fn unwritten_code_and_disabled_tests_are_found_in_macros_too() {
        check_text("//! A.\nfn a() { todo!() }", &["a.rs:2: `todo!`; implement it, or remove it"]);
        check_text(
            "//! A.\nfn a() { unimplemented!() }",
            &["a.rs:2: `unimplemented!`; implement it, or remove it"],
        );
        let finding = "a.rs:3: a disabled test; repair it or remove it";
        check_text("//! A.\n#[test]\n#[ignore]\nfn a() {}", &[finding]);
        check_text("//! A.\nproptest! {\n#[ignore = \"slow\"] fn a() {} }", &[finding]);
        check_text("//! A.\nfn todo() { ignore(\"#[ignore]\") }", &[]);
    }
}
