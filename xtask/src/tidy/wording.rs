//! Rules for the text of a file: its head, marks of unfinished work, banners, switched-off tests and lints. Names are
//! checked elsewhere.

use super::Finding;
use super::source::SourceFile;

/// Words that mark unfinished work when a comment begins with one.
const UNFINISHED_MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Checks one file.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = check_head(source);
    findings.extend(check_marks(source));
    findings.extend(check_banners(source));
    findings.extend(check_tokens(source));
    findings
}

fn check_head(source: &SourceFile) -> Vec<Finding> {
    let first = source.lines.first().map_or("", String::as_str);
    let said = first.strip_prefix("//!").unwrap_or_default().trim();
    let remedy = "begin with `//!` and its one responsibility, then what it deliberately does not do";
    match said {
        "" => vec![source.finding(1, "no head comment", remedy)],
        "Placeholder." => vec![source.finding(1, "a placeholder for a head comment", remedy)],
        _ => Vec::new(),
    }
}

fn check_marks(source: &SourceFile) -> Vec<Finding> {
    let unfinished = |text: &str| {
        UNFINISHED_MARKS.iter().any(|mark| {
            let begins = text.strip_prefix(mark).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
            begins || text.contains(&format!("{mark}:")) || text.contains(&format!("{mark}("))
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

fn check_banners(source: &SourceFile) -> Vec<Finding> {
    let is_banner = |text: &str| text.chars().count() >= 4 && text.chars().all(|c| "-=#~*_─━═".contains(c));
    let banners = source.comments.iter().filter(|comment| is_banner(&comment.text));
    let remedy = "remove it; a file that needs parts is asking to be several files";
    banners.map(|comment| source.finding(comment.line, "a banner", remedy)).collect()
}

fn has_issue_number(text: &str) -> bool {
    text.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn check_tokens(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for window in source.tokens.windows(3) {
        let [first, second, third] = window else { continue };
        let line = first.line;
        match (first.text.as_str(), second.text.as_str(), third.text.as_str()) {
            (name @ ("todo" | "unimplemented"), "!", "(" | "[" | "{") => {
                findings.push(source.finding(line, format!("`{name}!`"), "write it, or leave it out"));
            }
            ("#" | "!", "[", "allow") => {
                let remedy = "use `#[expect(…, reason = \"…\")]`";
                findings.push(source.finding(line, "a lint that is switched off", remedy));
            }
            ("#", "[", "ignore") => {
                findings.push(source.finding(line, "a test that is switched off", "repair it or remove it"));
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
        let remedy = "begin with `//!` and its one responsibility, then what it deliberately does not do";
        check_text("//! Adds.\n", &[]);
        check_text("fn a() {}", &[&format!("a.rs:1: no head comment; {remedy}")]);
        check_text("//!\n//! Late.", &[&format!("a.rs:1: no head comment; {remedy}")]);
        check_text("// Plain.", &[&format!("a.rs:1: no head comment; {remedy}")]);
        check_text("//! Placeholder.", &[&format!("a.rs:1: a placeholder for a head comment; {remedy}")]);
    }

    #[test]
    fn unfinished_work_names_an_issue() {
        let found = "a.rs:2: a mark of unfinished work without an issue; finish it, or name the issue (`#12`) that will";
        check_text("//! A.\n// TODO later", &[found]);
        check_text("//! A.\n/// FIXME(me) later\nfn a() {}", &[found]);
        check_text("//! A.\nfn a() {} // and TODO: more", &[found]);
        check_text("//! A.\n// TODO #12: later", &[]);
        check_text("//! A.\n// No TODO stays without an issue.", &[]);
        check_text("//! A.\nconst A: &str = \"// TODO: x\";", &[]);
    }

    #[test]
    fn banners_are_found() {
        let found = "a.rs:2: a banner; remove it; a file that needs parts is asking to be several files";
        check_text("//! A.\n// ----------\n", &[found]);
        check_text("//! A.\n// -- aside --\n//! | --- |\n", &[]);
    }

    #[test]
    fn lints_are_expected_with_a_reason_and_never_allowed() {
        let found =
            |line| format!("a.rs:{line}: a lint that is switched off; use `#[expect(…, reason = \"…\")]`");
        check_text("//! A.\n#[allow(dead_code)]\nfn a() {}", &[&found(2)]);
        check_text("//! A.\n#![allow(dead_code)]\nfn a() {}", &[&found(2)]);
        check_text("//! A.\n#[expect(dead_code, reason = \"because\")]\nfn a() {}", &[]);
    }

    #[test]
    fn unwritten_code_and_switched_off_tests_are_found_inside_macros_too() {
        check_text("//! A.\nfn a() { todo!() }", &["a.rs:2: `todo!`; write it, or leave it out"]);
        check_text(
            "//! A.\nfn a() { unimplemented!() }",
            &["a.rs:2: `unimplemented!`; write it, or leave it out"],
        );
        let found = "a.rs:3: a test that is switched off; repair it or remove it";
        check_text("//! A.\n#[test]\n#[ignore]\nfn a() {}", &[found]);
        check_text("//! A.\nproptest! {\n#[ignore = \"slow\"] fn a() {} }", &[found]);
        check_text("//! A.\nfn todo() { ignore(\"#[ignore]\") }", &[]);
    }
}
