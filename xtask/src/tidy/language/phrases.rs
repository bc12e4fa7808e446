//! Refuses listed phrases in all text that people read: comments, string literals, Markdown and the sources of the web page. The list
//! gives the term to use for each phrase, and only grows. Spelling is checked separately, by `typos`.

use crate::tidy::source::SourceFile;
use crate::tidy::{Finding, TextFile};

/// The remedy that each finding shows.
const REMEDY: &str = "use the field's term";

/// The files that define the refused phrases and words. They are not checked, because they quote them.
const OWN_PATH: &str = "xtask/src/tidy/language/phrases.rs";
const LISTS_PATH: &str = "xtask/src/tidy/language.rs";

/// Phrases that paraphrase a known term or have no concrete subject, in lower case, each with the term to use. They match whole words.
const REFUSED_PHRASES: &[(&str, &str)] = &[
    ("anybody", "the thing or role meant, such as \"any caller\""),
    ("asked for by you", "requested by you"),
    ("came to rest", "became idle, stopped"),
    ("carried along", "carried over"),
    ("come to rest", "become idle, stop"),
    ("comes to rest", "becomes idle, stops"),
    ("condense", "compact"),
    ("condenses", "compacts"),
    ("condensing", "compacting"),
    ("failed to find a command", "unknown command"),
    ("found out", "detected, determined"),
    ("gives way", "yields, is replaced"),
    ("go along", "are carried over"),
    ("goes along", "is carried over"),
    ("has a thread rest", "sets the thread's status to idle"),
    ("how often a user may", "rate limit"),
    ("in line", "queued, in the queue"),
    ("is answered finds", "name the caller that gets the response"),
    ("says that it lives", "sends a heartbeat"),
    ("names nothing anew", "is never reused"),
    ("or write: that", "sending a message cancels …"),
    ("somebody", "the thing or role meant, such as \"another process\""),
    ("taken back", "undone, withdrawn"),
    ("takes back", "undoes, withdraws"),
    ("what is gone", "a deleted …, with its noun"),
    ("what there is not", "missing values"),
    ("what was said", "the message, the conversation"),
    ("which model is used says", "choose a model with …"),
    ("who may come in", "authentication, authorization"),
    ("whoever", "the role meant, such as \"the caller\""),
];

/// Checks the comments and the string literals of a Rust file. String literals in tests are not checked, because tests may quote
/// refused phrases.
pub fn check_source(source: &SourceFile) -> Vec<Finding> {
    if source.path == OWN_PATH || source.path == LISTS_PATH {
        return Vec::new();
    }
    let comments = source.comments.iter().map(|comment| (comment.line, comment.text.as_str(), "a comment"));
    let literals = source
        .tokens
        .iter()
        .filter(|token| token.text.ends_with(['"', '#']) && token.text.contains('"'))
        .filter(|token| !source.is_test(token.line))
        .map(|token| (token.line, token.text.as_str(), "a string"));
    let mut findings = Vec::new();
    for (line, text, kind) in comments.chain(literals) {
        for (phrase, term) in find_phrases(text) {
            findings.push(source.finding(line, format!("\"{phrase}\" in {kind} (use: {term})"), REMEDY));
        }
    }
    findings
}

/// Checks the text of a Markdown file or of a source file of the web page. Other files have no findings. Prompts are not checked either:
/// models read them, and a changed wording would need a new evaluation.
pub fn check_file(file: &TextFile) -> Vec<Finding> {
    let is_page_source = file.path.starts_with("web/src/") && !file.path.contains(".test.");
    let is_document = file.path.ends_with(".md") && !file.path.contains("/prompts/");
    if !is_document && !is_page_source {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, text) in file.text.lines().enumerate() {
        for (phrase, term) in find_phrases(text) {
            findings.push(Finding {
                path: file.path.clone(),
                line: index + 1,
                what: format!("\"{phrase}\" (use: {term})"),
                remedy: REMEDY,
            });
        }
    }
    findings
}

/// Returns the refused phrases that occur in a text as whole words, in any case.
fn find_phrases(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = text.to_lowercase();
    REFUSED_PHRASES.iter().copied().filter(move |(phrase, _)| contains_words(&text, phrase))
}

fn contains_words(text: &str, words: &str) -> bool {
    let is_boundary = |char: Option<char>| !char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    text.match_indices(words).any(|(start, _)| {
        is_boundary(text[..start].chars().next_back())
            && is_boundary(text[start + words.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        assert_eq!(findings(check_source, "crates/a/src/a.rs", text), expected, "{text}");
    }

    fn file_findings(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check_file(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn refused_phrases_are_found_in_comments_and_in_strings() {
        let remedy = "(use: becomes idle, stops); use the field's term";
        let comment = format!("crates/a/src/a.rs:1: \"comes to rest\" in a comment {remedy}");
        check_text("// The run Comes to rest.\nstruct A;", &[&comment]);
        let string = format!("crates/a/src/a.rs:1: \"comes to rest\" in a string {remedy}");
        check_text("const A: &str = \"it comes to rest\";", &[&string]);
        check_text("const A: &str = r#\"it comes to rest\"#;", &[&string]);
    }

    #[test]
    fn a_phrase_is_made_of_whole_words_and_tests_may_quote_it() {
        check_text("// An inline fragment, condensed_at, and a timeline.\nstruct A;", &[]);
        check_text("#[cfg(test)]\nmod tests {\n    const A: &str = \"it comes to rest\";\n}", &[]);
    }

    #[test]
    fn markdown_and_the_page_are_checked() {
        let found = |path| vec![format!("{path}:2: \"condenses\" (use: compacts); use the field's term")];
        for path in ["docs/src/a.md", "web/src/a.svelte", "web/src/thread/a.ts"] {
            assert_eq!(file_findings(path, "# A\nIt condenses.\n"), found(path));
        }
        assert!(file_findings("web/src/a.test.ts", "condenses").is_empty());
        assert!(file_findings("crates/a/prompts/a.md", "condenses").is_empty());
    }
}
