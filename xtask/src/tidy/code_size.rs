//! Rules for sizes: the lines of a file, and the lines and parameters of a function. Unit tests do not count as lines
//! of their file, but their functions have the same limits as other functions.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// Maximum number of lines of a file, without its unit tests.
const FILE_LINES_MAX: usize = 600;
/// Maximum number of lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of parameters of a function, without `self`.
const PARAMETERS_MAX: usize = 5;

/// The size of a function.
pub struct FunctionSize {
    /// The name of the function.
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// The number of lines, from `fn` to the closing brace.
    pub lines: usize,
    /// The number of parameters without `self`.
    pub parameters: usize,
    /// True if a parameter is a `bool`.
    pub takes_bool: bool,
    /// True if the function implements a trait, which determines its parameters.
    pub is_trait_method: bool,
}

/// Checks the size of a file and of its functions.
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
            findings.push(source.finding(*line, what, "split it into functions with names"));
        }
        if *parameters > PARAMETERS_MAX && !function.is_trait_method {
            let what = format!("`{name}` has {parameters} parameters, the limit is {PARAMETERS_MAX}");
            findings.push(source.finding(*line, what, "group related parameters in a struct"));
        }
        if function.takes_bool && !function.is_trait_method && !source.is_test(*line) {
            let what = format!("`{name}` takes a `bool`");
            findings.push(source.finding(*line, what, "split the function or use an enum"));
        }
    }
    findings
}

/// Returns the number of lines that the limit applies to: all lines of a test file, and the production lines of others.
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

/// A visitor that collects all functions with a body.
struct FunctionFinder {
    functions: Vec<FunctionSize>,
    /// True inside an `impl` of a trait.
    is_in_trait_impl: bool,
}

impl FunctionFinder {
    /// Adds a function. `end` is the span of its closing brace.
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

/// Returns whether a type is `bool`.
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
    fn a_file_may_have_600_lines_without_its_tests() {
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
        let too_long = "`f` has 71 lines, the limit is 70; split it into functions with names";
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
            &["a.rs:1: `f` has 6 parameters, the limit is 5; group related parameters in a struct"],
        );
        check_text("fn f(a: bool) {}", &["a.rs:1: `f` takes a `bool`; split the function or use an enum"]);
        check_text("impl Foreign for A { fn f(&self, a: bool) {} }", &[]);
        check_text("#[cfg(test)] mod tests { fn check(a: bool) {} }", &[]);
    }
}
