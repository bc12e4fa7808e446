//! Limits of size: lines of a file, lines and parameters of a function. Tests at the end of a file do not count
//! against the file; their functions have the same limit as any other.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// The most lines of a file, those of its tests not counted.
const FILE_LINES_MAX: usize = 600;
/// The most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// The most parameters of a function, `self` not counted.
const PARAMETERS_MAX: usize = 5;

/// A function and where it is.
pub struct FunctionSize {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Its lines, from `fn` to the closing brace.
    pub lines: usize,
    /// Its parameters without `self`.
    pub parameters: usize,
    /// True if the function takes a `bool`.
    pub takes_bool: bool,
    /// True if a foreign trait sets its shape.
    pub is_trait_method: bool,
}

/// Checks one file.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = count_file_lines(source);
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, the limit is {FILE_LINES_MAX}");
        findings.push(source.finding(1, what, "split it by responsibility"));
    }
    for function in find_functions(source) {
        let FunctionSize { name, line, lines, parameters, .. } = &function;
        if *lines > FUNCTION_LINES_MAX {
            let what = format!("`{name}` has {lines} lines, the limit is {FUNCTION_LINES_MAX}");
            findings.push(source.finding(*line, what, "name its parts and make them functions"));
        }
        if *parameters > PARAMETERS_MAX && !function.is_trait_method {
            let what = format!("`{name}` has {parameters} parameters, the limit is {PARAMETERS_MAX}");
            findings.push(source.finding(*line, what, "gather what belongs together in a struct"));
        }
        if function.takes_bool && !function.is_trait_method && !source.is_test(*line) {
            let what = format!("`{name}` takes a `bool`");
            findings.push(source.finding(*line, what, "split the function or name an enum"));
        }
    }
    findings
}

/// Returns the lines that count against the limit.
pub fn count_file_lines(source: &SourceFile) -> usize {
    if source.is_tests_only {
        return source.lines.len();
    }
    (1..=source.lines.len()).filter(|line| !source.is_test(*line)).count()
}

/// Returns every function with a body: free, in an `impl`, in a trait, or nested.
pub fn find_functions(source: &SourceFile) -> Vec<FunctionSize> {
    let mut finder = FunctionFinder { functions: Vec::new(), is_in_trait_impl: false };
    finder.visit_file(&source.tree);
    finder.functions
}

struct FunctionFinder {
    functions: Vec<FunctionSize>,
    is_in_trait_impl: bool,
}

impl FunctionFinder {
    fn record_function(&mut self, signature: &syn::Signature, end: Span) {
        let typed = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(typed) => Some(&*typed.ty),
            syn::FnArg::Receiver(_) => None,
        });
        let line = signature.fn_token.span.start().line;
        self.functions.push(FunctionSize {
            name: signature.ident.to_string(),
            line,
            lines: end.end().line + 1 - line,
            parameters: typed.clone().count(),
            takes_bool: typed.clone().any(is_bool),
            is_trait_method: self.is_in_trait_impl,
        });
    }
}

impl<'ast> Visit<'ast> for FunctionFinder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.record_function(&item.sig, item.block.brace_token.span.close());
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.is_in_trait_impl = item.trait_.is_some();
        visit::visit_item_impl(self, item);
        self.is_in_trait_impl = false;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.record_function(&item.sig, item.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let end = item
            .default
            .as_ref()
            .map_or_else(|| item.sig.paren_token.span.close(), |block| block.brace_token.span.close());
        self.record_function(&item.sig, end);
        visit::visit_trait_item_fn(self, item);
    }
}

fn is_bool(kind: &syn::Type) -> bool {
    matches!(kind, syn::Type::Path(path) if path.path.is_ident("bool"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    fn check_text(text: &str, expected: &[&str]) {
        assert_eq!(findings(check, "a.rs", text), expected);
    }

    #[test]
    fn a_file_may_have_600_lines_beside_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(900));
        check_text(&format!("//! A.\n{}{tests}", "\n".repeat(599)), &[]);
        check_text(
            &format!("//! A.\n{}{tests}", "\n".repeat(600)),
            &["a.rs:1: 601 lines, the limit is 600; split it by responsibility"],
        );
        let text = format!("//! A.\n{}", "\n".repeat(600));
        assert_eq!(findings(check, "crates/a/tests/it/main.rs", &text).len(), 1);
    }

    #[test]
    fn a_function_may_have_70_lines_wherever_it_is() {
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "\n".repeat(lines - 2));
        check_text(&body(70), &[]);
        let too_long = "`f` has 71 lines, the limit is 70; name its parts and make them functions";
        check_text(&body(71), &[&format!("a.rs:1: {too_long}")]);
        check_text(&format!("impl A {{\n{}}}", body(71)), &[&format!("a.rs:2: {too_long}")]);
        check_text(&format!("trait A {{\n{}}}", body(71)), &[&format!("a.rs:2: {too_long}")]);
        check_text(&format!("#[cfg(test)]\nmod tests {{\n{}}}", body(71)), &[&format!("a.rs:3: {too_long}")]);
    }

    #[test]
    fn parameters_are_few_and_none_is_a_bool() {
        check_text("fn f(a: A, b: A, c: A, d: A, e: A) {}", &[]);
        check_text(
            "fn f(a: A, b: A, c: A, d: A, e: A, f: A) {}",
            &["a.rs:1: `f` has 6 parameters, the limit is 5; gather what belongs together in a struct"],
        );
        check_text("fn f(a: bool) {}", &["a.rs:1: `f` takes a `bool`; split the function or name an enum"]);
        check_text("impl Foreign for A { fn f(&self, a: bool) {} }", &[]);
        check_text("#[cfg(test)] mod tests { fn check(a: bool) {} }", &[]);
    }
}
