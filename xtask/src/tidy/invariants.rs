//! Invariants of ARCHITECTURE.md that can be read off the source: what a room does not know, who changes events, how a
//! failure is told from another. The direction of dependencies is checked elsewhere.

use syn::visit::{self, Visit};

use super::Finding;
use super::source::{SourceFile, SourceToken};

/// Rooms, and the words that must not occur in them: the names of what plugs into them.
const UNKNOWN_WORDS: &[(&str, &[&str])] = &[("crates/runtime/src/", &["handoff", "memory", "compact"])];

/// Where events are stored.
const JOURNAL_FOLDER: &str = "crates/journal/src/";
/// The statements that change or remove stored events, which nothing else may.
const EVENT_CHANGE_STATEMENTS: &[&str] = &["UPDATE events", "DELETE FROM events"];
/// The files that hold them: the deletion of a thread, and what becomes of the events that told of its words.
const EVENT_CHANGE_FILES: &[&str] =
    &["crates/journal/src/tables/threads.rs", "crates/journal/src/tables/memory/summary_removal.rs"];

/// Methods that look into a text.
const TEXT_TEST_METHODS: &[&str] = &["contains", "starts_with", "ends_with"];
/// Names of variables that hold a failure or its text.
const FAILURE_NAMES: &[&str] = &["error", "err", "fault", "failure", "reason", "problem"];

/// Checks one file.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = find_unknown_words(source);
    findings.extend(find_event_changes(source));
    findings.extend(find_failures_by_text(source));
    findings.extend(find_tuple_parameters(source));
    findings
}

/// Finds words that a room must not know. Tests may name what they stand for.
fn find_unknown_words(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (room, words) in UNKNOWN_WORDS.iter().filter(|(room, _)| source.path.starts_with(room)) {
        for (index, line) in source.lines.iter().enumerate().filter(|(index, _)| !source.is_test(index + 1)) {
            let line = line.to_lowercase();
            for word in words.iter().filter(|word| line.contains(**word)) {
                let what = format!("`{word}` in {room}");
                let remedy =
                    "let the feature, or the assembly, bring it: as a hook, a node, an activity or a field";
                findings.push(source.finding(index + 1, what, remedy));
            }
        }
    }
    findings
}

fn find_event_changes(source: &SourceFile) -> Vec<Finding> {
    if !source.path.starts_with(JOURNAL_FOLDER) || EVENT_CHANGE_FILES.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let changes = |token: &&SourceToken| {
        let is_change = EVENT_CHANGE_STATEMENTS.iter().any(|change| token.text.contains(change));
        is_change && !source.is_test(token.line)
    };
    let remedy = "append an event instead: only the deletion of a thread takes events away";
    let found = source.tokens.iter().filter(changes);
    found.map(|token| source.finding(token.line, "SQL that changes stored events", remedy)).collect()
}

/// Finds failures that are told from each other by their words: `error.to_string().contains("…")`, `reason.contains("…")`.
fn find_failures_by_text(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in 1..source.tokens.len().saturating_sub(3) {
        let [dot, method, open, argument] = &source.tokens[at..at + 4] else { continue };
        let is_look =
            dot.text == "." && open.text == "(" && TEXT_TEST_METHODS.contains(&method.text.as_str());
        if !is_look || !argument.text.starts_with('"') || source.is_test(method.line) {
            continue;
        }
        let receiver: Vec<&str> =
            source.tokens[at.saturating_sub(3)..at].iter().map(|token| token.text.as_str()).collect();
        let is_failure = match receiver.as_slice() {
            ["to_string" | "message" | "reason", "(", ")"] => true,
            [.., name] => FAILURE_NAMES.contains(name),
            [] => false,
        };
        if is_failure {
            let what = format!("`{}` on the words of a failure", method.text);
            findings.push(source.finding(method.line, what, "match on its variant, code or kind"));
        }
    }
    findings
}

fn find_tuple_parameters(source: &SourceFile) -> Vec<Finding> {
    if source.is_tests_only {
        return Vec::new();
    }
    let mut finder = TupleFinder { source, findings: Vec::new() };
    finder.visit_file(&source.tree);
    finder.findings
}

/// Finds parameters of functions that are tuples. What implements a trait has the trait's parameters.
struct TupleFinder<'a> {
    source: &'a SourceFile,
    findings: Vec<Finding>,
}

impl TupleFinder<'_> {
    fn check_signature(&mut self, signature: &syn::Signature) {
        for input in &signature.inputs {
            let syn::FnArg::Typed(typed) = input else { continue };
            let line = typed.colon_token.span.start().line;
            let is_tuple = is_tuple(&typed.ty) || matches!(&*typed.pat, syn::Pat::Tuple(_));
            if is_tuple && !self.source.is_test(line) {
                let what = format!("`{}` takes a tuple", signature.ident);
                let remedy = "take its parts as parameters, or name the group with a struct";
                self.findings.push(self.source.finding(line, what, remedy));
            }
        }
    }
}

impl<'ast> Visit<'ast> for TupleFinder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check_signature(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            for function in &item.items {
                if let syn::ImplItem::Fn(function) = function {
                    self.check_signature(&function.sig);
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check_signature(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
}

/// Returns whether the type is a tuple, or an `Option` of one. Rows of pairs (slices, `Vec`, iterators) are not meant.
fn is_tuple(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
            last.ident == "Option"
                && arguments
                    .args
                    .iter()
                    .any(|inner| matches!(inner, syn::GenericArgument::Type(inner) if is_tuple(inner)))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    fn check_text(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(findings(check, path, text), expected, "{text}");
    }

    #[test]
    fn runtime_names_no_feature() {
        let found = "crates/runtime/src/a.rs:1: `handoff` in crates/runtime/src/; let the feature, or the assembly, bring it: as a \
                     hook, a node, an activity or a field";
        check_text("crates/runtime/src/a.rs", "const HINT: &str = \"try `/Handoff`\";", &[found]);
        check_text("crates/agent/src/a.rs", "const HINT: &str = \"try `/handoff`\";", &[]);
        check_text("crates/runtime/src/a.rs", "#[cfg(test)]\nmod tests {\n// a handoff\n}", &[]);
        check_text("crates/runtime/src/a/tests.rs", "// a handoff", &[]);
    }

    #[test]
    fn events_are_never_changed() {
        let found = "crates/journal/src/a.rs:2: SQL that changes stored events; append an event instead: only the deletion of a \
                     thread takes events away";
        let text = "fn a() {\nb(\"UPDATE events SET content = ''\");\n}";
        check_text("crates/journal/src/a.rs", text, &[found]);
        check_text("crates/journal/src/tables/threads.rs", text, &[]);
        check_text("crates/journal/src/a.rs", "fn a() { b(\"INSERT INTO events\") }", &[]);
    }

    #[test]
    fn failures_are_told_apart_by_values() {
        let found = |method| {
            format!(
                "crates/a/src/a.rs:1: `{method}` on the words of a failure; match on its variant, code or kind"
            )
        };
        let path = "crates/a/src/a.rs";
        check_text(path, "fn a() { error.to_string().contains(\"full\") }", &[&found("contains")]);
        check_text(path, "fn a() { reason.starts_with(\"no such\") }", &[&found("starts_with")]);
        check_text(path, "fn a() { self.error.ends_with(\".\") }", &[&found("ends_with")]);
        check_text(path, "fn a() { path.contains(\"/\") && error.contains(&needle) }", &[]);
        check_text(
            path,
            "#[test]\nfn a() {}\n#[cfg(test)]\nmod tests { fn b() { error.contains(\"full\") } }",
            &[],
        );
    }

    #[test]
    fn no_function_takes_a_tuple() {
        let found = "crates/a/src/a.rs:1: `f` takes a tuple; take its parts as parameters, or name the group with a struct";
        let path = "crates/a/src/a.rs";
        check_text(path, "fn f((a, b): (u8, u8)) {}", &[found]);
        check_text(path, "impl A { fn f(&self, pair: &(u8, u8)) {} }", &[found]);
        check_text(path, "trait A { fn f(&self, pair: (u8, u8)); }", &[found]);
        check_text(path, "fn f(pair: Option<(u8, u8)>) {}", &[found]);
        check_text(path, "fn f(pair: Option<&(u8, u8)>, one: Option<u8>) {}", &[found]);
        check_text(path, "impl Foreign for A { fn f(&self, pair: (u8, u8)) {} }", &[]);
        check_text(path, "fn f(a: u8, all: &[(u8, u8)], unit: ()) { all.iter().map(|(a, _)| a); }", &[]);
        check_text("crates/a/src/a/tests.rs", "fn f((a, b): (u8, u8)) {}", &[]);
    }
}
