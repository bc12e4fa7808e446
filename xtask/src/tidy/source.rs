//! One Rust file, read three ways: its lines, its tokens (inside macros too) and its syntax tree. No rule is here.

use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Finding;

/// A parsed Rust file.
pub struct SourceFile {
    /// Its path relative to the workspace.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// Its tokens, groups opened, in order; comments are not among them.
    pub tokens: Vec<SourceToken>,
    /// Its comments, one entry per line of each.
    pub comments: Vec<SourceComment>,
    /// Its items.
    pub tree: syn::File,
    /// True if the whole file exists for tests or benches only.
    pub is_tests_only: bool,
    /// The lines, from 1, of items that exist in tests only.
    pub test_lines: Vec<Range<usize>>,
}

/// One token, or one end of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceToken {
    /// The token as written; brackets stand for the ends of groups.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

/// One line of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceComment {
    /// The text, without the slashes.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

impl SourceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A finding when the text is not Rust.
    pub fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let broken = |line, error: String| Finding {
            path: path.to_owned(),
            line,
            what: format!("cannot be read as Rust ({error})"),
            remedy: "make it compile",
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
        let tests_only = is_test_file(path);
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Self {
            path: path.to_owned(),
            lines,
            tokens: reader.tokens,
            comments,
            tree,
            is_tests_only: tests_only,
            test_lines,
        })
    }

    /// Returns whether the line belongs to tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.is_tests_only || self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Returns a finding at a line of this file.
    pub fn finding(&self, line: usize, what: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into(), remedy }
    }
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

/// Walks the tokens and marks the bytes they cover; what is left is white space and comments.
struct TokenReader<'a> {
    text: &'a str,
    tokens: Vec<SourceToken>,
    code: Vec<bool>,
}

impl TokenReader<'_> {
    fn read_stream(&mut self, stream: TokenStream) {
        for tree in stream {
            let range = tree.span().byte_range();
            // The lexer turns a doc comment into `#[doc = "…"]` with the comment's place.
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

    fn push_token(&mut self, text: &str, line: usize, range: Range<usize>) {
        if let Some(covered) = self.code.get_mut(range) {
            covered.fill(true);
        }
        self.tokens.push(SourceToken { text: text.to_owned(), line });
    }
}

const fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

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
        let said = bare.trim().trim_start_matches(['/', '!', '*']).trim();
        if !bare.trim().is_empty() {
            comments.push(SourceComment { text: said.to_owned(), line: index + 1 });
        }
    }
    comments
}

/// Returns the lines of items under `#[cfg(test)]`.
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

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_told_from_strings_and_seen_after_code() {
        let text =
            "//! Head.\n\nfn a() {\n    let _b = \"// not one\"; // one\n    /* two\n    lines */\n}\n";
        let source = SourceFile::parse("a.rs", text).unwrap();
        let seen: Vec<(usize, &str)> =
            source.comments.iter().map(|comment| (comment.line, comment.text.as_str())).collect();
        assert_eq!(seen, [(1, "Head."), (4, "one"), (5, "two"), (6, "lines */")]);
        assert!(source.tokens.iter().any(|token| token.text == "\"// not one\"" && token.line == 4));
    }

    #[test]
    fn lines_of_tests_are_known() {
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
