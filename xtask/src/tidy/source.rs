//! A parsed Rust file in three forms: lines, tokens (including those in macros) and syntax tree. The rules are in the
//! adjacent files.

use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Finding;

/// A parsed Rust file.
pub struct SourceFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The lines without line ends.
    pub lines: Vec<String>,
    /// The tokens in order, with groups flattened and without comments.
    pub tokens: Vec<SourceToken>,
    /// The comments, one entry for each line.
    pub comments: Vec<SourceComment>,
    /// The syntax tree.
    pub tree: syn::File,
    /// True if the whole file is for tests or benchmarks only.
    pub is_tests_only: bool,
    /// The lines of items under `#[cfg(test)]`, counted from 1.
    pub test_lines: Vec<Range<usize>>,
}

/// A token, or the bracket at one end of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceToken {
    /// The token as written; empty for the ends of a group without brackets.
    pub text: String,
    /// The line on which the token begins, counted from 1.
    pub line: usize,
}

/// One line of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceComment {
    /// The text, without the comment markers.
    pub text: String,
    /// The line, counted from 1.
    pub line: usize,
}

impl SourceFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// A finding if the text has a syntax error.
    pub fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let broken = |line, error: String| Finding {
            path: path.to_owned(),
            line,
            what: format!("a syntax error ({error})"),
            remedy: "make the file compile",
        };
        let stream: TokenStream = text
            .parse()
            .map_err(|error: proc_macro2::LexError| broken(error.span().start().line, error.to_string()))?;
        let tree: syn::File = syn::parse2(stream.clone())
            .map_err(|error| broken(error.span().start().line, error.to_string()))?;
        let mut reader = TokenReader { text, tokens: Vec::new(), code: vec![false; text.len()] };
        reader.read_stream(stream);
        let comments = find_comments(text, &reader.code);
        let test_lines = find_test_lines(&tree);
        let is_tests_only = is_test_file(path);
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Self {
            path: path.to_owned(),
            lines,
            tokens: reader.tokens,
            comments,
            tree,
            is_tests_only,
            test_lines,
        })
    }

    /// Returns whether the line, counted from 1, is part of a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.is_tests_only || self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Returns a finding at a line of this file.
    pub fn finding(&self, line: usize, what: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into(), remedy }
    }
}

/// Returns whether a path is that of a test or benchmark.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

/// A reader that collects the tokens and marks the bytes that they cover. The other bytes are white space and comments.
struct TokenReader<'a> {
    text: &'a str,
    tokens: Vec<SourceToken>,
    /// One flag for each byte of the text: true if a token covers it.
    code: Vec<bool>,
}

impl TokenReader<'_> {
    /// Adds the tokens of a stream, with groups flattened.
    fn read_stream(&mut self, stream: TokenStream) {
        for tree in stream {
            let range = tree.span().byte_range();
            // The lexer turns a doc comment into `#[doc = "…"]` with the span of the comment.
            if self
                .text
                .get(range.clone())
                .is_some_and(|written| written.starts_with('/') && written.len() > 1)
            {
                continue;
            }
            match tree {
                TokenTree::Group(group) => {
                    let (open, close) = brackets(group.delimiter());
                    self.push_token(open, group.span_open().start().line, group.span_open().byte_range());
                    self.read_stream(group.stream());
                    self.push_token(close, group.span_close().start().line, group.span_close().byte_range());
                }
                leaf @ (TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) => {
                    self.push_token(&leaf.to_string(), leaf.span().start().line, range);
                }
            }
        }
    }

    /// Adds a token and marks its bytes.
    fn push_token(&mut self, text: &str, line: usize, range: Range<usize>) {
        if let Some(covered) = self.code.get_mut(range) {
            covered.fill(true);
        }
        self.tokens.push(SourceToken { text: text.to_owned(), line });
    }
}

/// Returns the opening and closing bracket of a group.
const fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

/// Returns the comments: the text of each line that no token covers.
fn find_comments(text: &str, code: &[bool]) -> Vec<SourceComment> {
    let mut comments = Vec::new();
    let mut begin = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let bare: Vec<u8> = line
            .bytes()
            .zip(&code[begin..])
            .map(|(byte, covered)| if *covered { b' ' } else { byte })
            .collect();
        begin += line.len();
        let bare = String::from_utf8_lossy(&bare);
        let comment = bare.trim().trim_start_matches(['/', '!', '*']).trim();
        if !bare.trim().is_empty() {
            comments.push(SourceComment { text: comment.to_owned(), line: index + 1 });
        }
    }
    comments
}

/// Returns the lines of modules, functions and `impl` blocks under `#[cfg(test)]`, from the attribute to the closing
/// brace.
fn find_test_lines(tree: &syn::File) -> Vec<Range<usize>> {
    struct TestItemFinder(Vec<Range<usize>>);
    impl<'ast> Visit<'ast> for TestItemFinder {
        fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
            if let Some((braces, _)) = &item.content {
                self.record(&item.attrs, braces);
            }
            visit::visit_item_mod(self, item);
        }

        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            self.record(&item.attrs, &item.block.brace_token);
        }

        fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
            self.record(&item.attrs, &item.brace_token);
        }
    }
    impl TestItemFinder {
        fn record(&mut self, attributes: &[syn::Attribute], body: &syn::token::Brace) {
            if let Some(attribute) = attributes.iter().find(|attribute| is_cfg_test(attribute)) {
                let begin = attribute.pound_token.span.start().line;
                self.0.push(begin..body.span.close().end().line + 1);
            }
        }
    }
    let mut finder = TestItemFinder(Vec::new());
    finder.visit_file(tree);
    finder.0
}

/// Returns whether an attribute is `#[cfg(test)]`.
fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_after_code_are_found_and_strings_are_not_comments() {
        let text =
            "//! Head.\n\nfn a() {\n    let _b = \"// not one\"; // one\n    /* two\n    lines */\n}\n";
        let source = SourceFile::parse("a.rs", text).unwrap();
        let comments: Vec<(usize, &str)> =
            source.comments.iter().map(|comment| (comment.line, comment.text.as_str())).collect();
        assert_eq!(comments, [(1, "Head."), (4, "one"), (5, "two"), (6, "lines */")]);
        assert!(source.tokens.iter().any(|token| token.text == "\"// not one\"" && token.line == 4));
    }

    #[test]
    fn lines_of_tests_are_detected() {
        let source =
            SourceFile::parse("a.rs", "//! A.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n}\nfn b() {}\n")
                .unwrap();
        assert_eq!((1..=7).filter(|line| source.is_test(*line)).collect::<Vec<_>>(), [4, 5, 6]);
        assert!(SourceFile::parse("crates/a/tests/it/main.rs", "//! A.\n").unwrap().is_test(1));
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_finding() {
        let error = SourceFile::parse("a.rs", "//! A.\nfn (\n").err().unwrap();
        assert_eq!(error.line, 2, "{error}");
    }
}
