//! Rules for invariants of ARCHITECTURE.md that the source shows: the runtime does not name features, stored events are
//! not changed, failures are not distinguished by their text, and no parameter is a tuple. The direction of
//! dependencies is checked in [`super::crate_dependencies`], and the tests of the numbered guarantees in [`guarantees`].

pub mod guarantees;

use syn::visit::{self, Visit};

use super::Finding;
use super::source::{SourceFile, SourceToken};

/// Folders of crates, with the words that must not occur in them: the names of features that use the crate.
const UNKNOWN_WORDS: &[(&str, &[&str])] = &[("crates/runtime/src/", &["handoff", "memory", "compact"])];

/// The folder of the crate that stores events.
const JOURNAL_FOLDER: &str = "crates/journal/src/";
/// SQL statements that change or remove stored events.
const EVENT_CHANGE_STATEMENTS: &[&str] = &["UPDATE events", "DELETE FROM events"];
/// The files that may contain these statements: the deletion of a thread, the removal of its quoted content from events of
/// other threads, and the salvage of a damaged database, which leaves damaged events out of the new one.
const EVENT_CHANGE_FILES: &[&str] = &[
    "crates/journal/src/copy/salvage.rs",
    "crates/journal/src/tables/memory/summary_removal.rs",
    "crates/journal/src/tables/threads/purges.rs",
];

/// Methods that test a part of a text.
const TEXT_TEST_METHODS: &[&str] = &["contains", "starts_with", "ends_with"];
/// Names of variables for a failure or its text.
const FAILURE_NAMES: &[&str] = &["error", "err", "fault", "failure", "reason", "problem"];

/// Checks one file against all invariants.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = find_unknown_words(source);
    findings.extend(find_event_changes(source));
    findings.extend(find_failures_by_text(source));
    findings.extend(find_tuple_parameters(source));
    findings
}

/// Finds the names of features in crates that must not know them. Tests may use these words.
fn find_unknown_words(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, words) in UNKNOWN_WORDS.iter().filter(|(folder, _)| source.path.starts_with(folder)) {
        for (index, line) in source.lines.iter().enumerate().filter(|(index, _)| !source.is_test(index + 1)) {
            let line = line.to_lowercase();
            for word in words.iter().filter(|word| line.contains(**word)) {
                let what = format!("`{word}` in {folder}");
                let remedy =
                    "have the feature or the assembly pass it in, as a hook, a node, an activity or a field";
                findings.push(source.finding(index + 1, what, remedy));
            }
        }
    }
    findings
}

/// Finds SQL that changes or removes events outside of [`EVENT_CHANGE_FILES`].
fn find_event_changes(source: &SourceFile) -> Vec<Finding> {
    if !source.path.starts_with(JOURNAL_FOLDER) || EVENT_CHANGE_FILES.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let changes = |token: &&SourceToken| {
        let is_change = EVENT_CHANGE_STATEMENTS.iter().any(|change| token.text.contains(change));
        is_change && !source.is_test(token.line)
    };
    let remedy = "append an event instead; only the deletion of a thread removes events";
    let statements = source.tokens.iter().filter(changes);
    statements.map(|token| source.finding(token.line, "SQL that changes stored events", remedy)).collect()
}

/// Finds tests on the text of a failure, such as `error.to_string().contains("…")` or `reason.contains("…")`.
fn find_failures_by_text(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in 1..source.tokens.len().saturating_sub(3) {
        let [dot, method, open, argument] = &source.tokens[index..index + 4] else { continue };
        let is_text_test =
            dot.text == "." && open.text == "(" && TEXT_TEST_METHODS.contains(&method.text.as_str());
        if !is_text_test || !argument.text.starts_with('"') || source.is_test(method.line) {
            continue;
        }
        let receiver: Vec<&str> =
            source.tokens[index.saturating_sub(3)..index].iter().map(|token| token.text.as_str()).collect();
        let is_failure = match receiver.as_slice() {
            ["to_string" | "message" | "reason", "(", ")"] => true,
            [.., name] => FAILURE_NAMES.contains(name),
            [] => false,
        };
        if is_failure {
            let what = format!("`{}` on the text of a failure", method.text);
            findings.push(source.finding(method.line, what, "match on its variant, code or kind"));
        }
    }
    findings
}

/// Finds tuple parameters in production code.
fn find_tuple_parameters(source: &SourceFile) -> Vec<Finding> {
    if source.is_tests_only {
        return Vec::new();
    }
    let mut finder = TupleFinder { source, findings: Vec::new() };
    finder.visit_file(&source.tree);
    finder.findings
}

/// A visitor that finds tuple parameters. Implementations of traits are skipped, because the trait determines their
/// parameters.
struct TupleFinder<'a> {
    source: &'a SourceFile,
    findings: Vec<Finding>,
}

impl TupleFinder<'_> {
    /// Checks the parameters of one function.
    fn check_signature(&mut self, signature: &syn::Signature) {
        for input in &signature.inputs {
            let syn::FnArg::Typed(typed) = input else { continue };
            let line = typed.colon_token.span.start().line;
            let is_tuple = is_tuple(&typed.ty) || matches!(&*typed.pat, syn::Pat::Tuple(_));
            if is_tuple && !self.source.is_test(line) {
                let what = format!("`{}` takes a tuple", signature.ident);
                let remedy = "use one parameter for each part, or a struct";
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

/// Returns whether a type is a tuple, or an `Option` of one. Collections of tuples (slices, `Vec`, iterators) are
/// allowed.
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
        let finding = "crates/runtime/src/a.rs:1: `handoff` in crates/runtime/src/; have the feature or the assembly pass it in, as a \
                     hook, a node, an activity or a field";
        check_text("crates/runtime/src/a.rs", "const HINT: &str = \"try `/Handoff`\";", &[finding]);
        check_text("crates/agent/src/a.rs", "const HINT: &str = \"try `/handoff`\";", &[]);
        check_text("crates/runtime/src/a.rs", "#[cfg(test)]\nmod tests {\n// a handoff\n}", &[]);
        check_text("crates/runtime/src/a/tests.rs", "// a handoff", &[]);
    }

    #[test]
    fn events_are_never_changed() {
        let finding = "crates/journal/src/a.rs:2: SQL that changes stored events; append an event instead; only the deletion of a \
                     thread removes events";
        let text = "fn a() {\nb(\"UPDATE events SET content = ''\");\n}";
        check_text("crates/journal/src/a.rs", text, &[finding]);
        check_text("crates/journal/src/tables/threads/purges.rs", text, &[]);
        check_text("crates/journal/src/a.rs", "fn a() { b(\"INSERT INTO events\") }", &[]);
    }

    #[test]
    fn failures_are_distinguished_by_values() {
        let finding = |method| {
            format!(
                "crates/a/src/a.rs:1: `{method}` on the text of a failure; match on its variant, code or kind"
            )
        };
        let path = "crates/a/src/a.rs";
        check_text(path, "fn a() { error.to_string().contains(\"full\") }", &[&finding("contains")]);
        check_text(path, "fn a() { reason.starts_with(\"no such\") }", &[&finding("starts_with")]);
        check_text(path, "fn a() { self.error.ends_with(\".\") }", &[&finding("ends_with")]);
        check_text(path, "fn a() { path.contains(\"/\") && error.contains(&needle) }", &[]);
        check_text(
            path,
            "#[test]\nfn a() {}\n#[cfg(test)]\nmod tests { fn b() { error.contains(\"full\") } }",
            &[],
        );
    }

    #[test]
    fn no_function_takes_a_tuple() {
        let finding = "crates/a/src/a.rs:1: `f` takes a tuple; use one parameter for each part, or a struct";
        let path = "crates/a/src/a.rs";
        check_text(path, "fn f((a, b): (u8, u8)) {}", &[finding]);
        check_text(path, "impl A { fn f(&self, pair: &(u8, u8)) {} }", &[finding]);
        check_text(path, "trait A { fn f(&self, pair: (u8, u8)); }", &[finding]);
        check_text(path, "fn f(pair: Option<(u8, u8)>) {}", &[finding]);
        check_text(path, "fn f(pair: Option<&(u8, u8)>, number: Option<u8>) {}", &[finding]);
        check_text(path, "impl Foreign for A { fn f(&self, pair: (u8, u8)) {} }", &[]);
        check_text(path, "fn f(a: u8, all: &[(u8, u8)], unit: ()) { all.iter().map(|(a, _)| a); }", &[]);
        check_text("crates/a/src/a/tests.rs", "fn f((a, b): (u8, u8)) {}", &[]);
    }
}
