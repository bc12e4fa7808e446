//! The tests whose names begin with the numbers of guarantees, such as `a2_b1_seq_is_never_reused`. They are found in the tokens of
//! the sources, without a compiler, so that tests inside macros are found too.

use std::sync::LazyLock;

use regex::Regex;

use crate::tidy::TextFile;
use crate::tidy::source::SourceFile;

/// The folder with the sources and tests of the web page.
const WEB_FOLDER: &str = "web/src/";
/// The ending of the files with tests of the web page.
const WEB_TESTS_ENDING: &str = ".test.ts";

/// The names of the root files of crates, which are no modules.
const ROOT_FILES: [&str; 2] = ["lib", "main"];

/// A test whose name begins with numbers of guarantees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberedTest {
    /// The path: crate, modules and name, such as `journal::it::crash::a3_acknowledged_events_survive_a_kill`.
    pub path: String,
    /// The numbers, such as `A3`.
    pub numbers: Vec<String>,
    /// The file, relative to the workspace.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
}

/// Returns all numbered tests, sorted by path.
pub fn find_tests(files: &[TextFile], sources: &[SourceFile]) -> Vec<NumberedTest> {
    let mut tests: Vec<NumberedTest> = sources.iter().flat_map(find_rust_tests).collect();
    let is_web_test =
        |file: &&TextFile| file.path.starts_with(WEB_FOLDER) && file.path.ends_with(WEB_TESTS_ENDING);
    tests.extend(files.iter().filter(is_web_test).flat_map(find_web_tests));
    tests.sort();
    tests
}

/// Returns the tests of a Rust file: the functions with a test attribute, and those of files for tests, which a macro may call.
fn find_rust_tests(source: &SourceFile) -> Vec<NumberedTest> {
    let Some(file_module) = module_of_file(&source.path) else { return Vec::new() };
    let mut tests = Vec::new();
    // The inline modules around a token, each with the number of braces around it.
    let mut modules: Vec<(&str, usize)> = Vec::new();
    let (mut depth, mut has_test_attribute) = (0_usize, false);
    for (index, token) in source.tokens.iter().enumerate() {
        let next = token_text(source, index + 1);
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                modules.retain(|(_, opened)| *opened < depth);
            }
            "mod" if token_text(source, index + 2) == "{" => modules.push((next, depth)),
            "test" if is_test_attribute(source, index) => has_test_attribute = true,
            "fn" => {
                let numbers = leading_numbers(next);
                if !numbers.is_empty() && (has_test_attribute || source.is_test(token.line)) {
                    let inline = modules.iter().map(|(name, _)| *name);
                    let parts: Vec<&str> =
                        [file_module.as_str()].into_iter().chain(inline).chain([next]).collect();
                    let (path, file) = (parts.join("::"), source.path.clone());
                    tests.push(NumberedTest { path, numbers, file, line: token.line });
                }
                has_test_attribute = false;
            }
            _ => {}
        }
    }
    tests
}

/// Returns the text of a token, or an empty text after the last one.
fn token_text(source: &SourceFile, index: usize) -> &str {
    source.tokens.get(index).map_or("", |token| token.text.as_str())
}

/// Returns whether the token at `index` ends the name of a test attribute, such as `#[test]` or `#[tokio::test(…)]`.
fn is_test_attribute(source: &SourceFile, index: usize) -> bool {
    let before = |offset| index.checked_sub(offset).map_or("", |index| token_text(source, index));
    let is_end = matches!(token_text(source, index + 1), "]" | "(");
    is_end && (before(1) == "[" || (before(1) == ":" && before(4) == "["))
}

/// Returns the tests of a TypeScript file.
fn find_web_tests(file: &TextFile) -> Vec<NumberedTest> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"\b(?:test|it)\(\s*(?:"([^"]+)"|'([^']+)'|`([^`]+)`)"#).expect("the expression is valid")
    });
    let module =
        file.path.trim_start_matches(WEB_FOLDER).trim_end_matches(WEB_TESTS_ENDING).replace('/', "::");
    let mut tests = Vec::new();
    for call in CALL.captures_iter(&file.text) {
        let (Some(whole), Some(name)) = (call.get(0), (1..=3).find_map(|group| call.get(group))) else {
            continue;
        };
        let numbers = leading_numbers(name.as_str());
        if !numbers.is_empty() {
            let path = format!("web::{module}::{}", name.as_str());
            let line = file.text[..whole.start()].matches('\n').count() + 1;
            tests.push(NumberedTest { path, numbers, file: file.path.clone(), line });
        }
    }
    tests
}

/// Returns the path of the module in a file: `crates/a/src/b/c.rs` is `a::b::c`, and `crates/a/tests/it/b.rs` is `a::it::b`. Returns
/// `None` for files without tests, such as examples.
fn module_of_file(path: &str) -> Option<String> {
    let path = path.strip_prefix("crates/").unwrap_or(path).strip_suffix(".rs")?;
    let (name, file) = path.split_once('/')?;
    let file = file.strip_prefix("src/").or_else(|| file.strip_prefix("tests/"))?;
    let modules = file.split('/').filter(|part| !ROOT_FILES.contains(part));
    Some([name].into_iter().chain(modules).collect::<Vec<_>>().join("::"))
}

/// Returns the numbers with which a name begins, in upper case: A2 and B1 for `a2_b1_seq_is_never_reused`. A name of numbers alone has
/// none.
fn leading_numbers(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('_').collect();
    let numbers: Vec<String> =
        parts.iter().take_while(|part| is_quoted_number(part)).map(|part| part.to_uppercase()).collect();
    if numbers.len() == parts.len() { Vec::new() } else { numbers }
}

/// Returns whether a part of a name is the number of a guarantee, in lower case.
fn is_quoted_number(part: &str) -> bool {
    let digits = part.strip_prefix(|letter: char| ('a'..='m').contains(&letter));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_rust(path: &str, text: &str, expected: &[&str]) {
        let source = SourceFile::parse(path, text).unwrap();
        let found = find_tests(&[], &[source]);
        let found: Vec<String> =
            found.iter().map(|test| format!("{} {}", test.numbers.join("+"), test.path)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_path_of_a_test_has_its_crate_its_modules_and_its_name() {
        let test = "#[test]\nfn a1_x() {}\n";
        let unit = format!(
            "fn f() {{}}\n#[cfg(test)]\nmod tests {{\nmod b {{\n{test}}}\n#[test]\nfn a2_y() {{}}\n}}\n"
        );
        check_rust("crates/a/src/b/c.rs", &unit, &["A2 a::b::c::tests::a2_y", "A1 a::b::c::tests::b::a1_x"]);
        check_rust("crates/a/src/lib.rs", &unit, &["A2 a::tests::a2_y", "A1 a::tests::b::a1_x"]);
        check_rust("crates/a/tests/it/main.rs", test, &["A1 a::it::a1_x"]);
        check_rust("crates/a/tests/it/b/c.rs", test, &["A1 a::it::b::c::a1_x"]);
        check_rust("xtask/src/b.rs", test, &["A1 xtask::b::a1_x"]);
        check_rust("crates/a/examples/b.rs", test, &[]);
    }

    #[test]
    fn tests_are_functions_with_an_attribute_or_in_files_for_tests() {
        let production = "fn i64_from_text() {}\nfn test(a: u8) {}\nfn f64_of(a: u8) { nextest::test(a) }\n";
        check_rust("crates/a/src/b.rs", production, &[]);
        check_rust(
            "crates/a/src/b.rs",
            "fn i64_from_text() {}\n#[tokio::test(start_paused = true)]\nasync fn b2_x() {}\nfn f64_of() {}\n",
            &["B2 a::b::b2_x"],
        );
        let conformance =
            "pub async fn a5_a22_x(store: Store) {}\nmacro_rules! m { () => { fn $name() {} } }\n";
        check_rust("crates/a/tests/it/b.rs", conformance, &["A5+A22 a::it::b::a5_a22_x"]);
        check_rust(
            "crates/a/tests/it/b.rs",
            "proptest! {\n#[test]\nfn c3_x(a in 0..9) {}\n}\n",
            &["C3 a::it::b::c3_x"],
        );
    }

    #[test]
    fn a_name_quotes_numbers_only_at_its_beginning() {
        for (name, expected) in [
            ("a1_x", &["A1"][..]),
            ("a10_b2_m16_x", &["A10", "B2", "M16"]),
            ("i8_s22_8_x", &["I8"]),
            ("x_a1", &[]),
            ("n1_x", &[]),
            ("a_x", &[]),
            ("a1", &[]),
            ("a1b_x", &[]),
            ("a23_an unknown event", &["A23"]),
        ] {
            assert_eq!(leading_numbers(name), expected, "{name}");
        }
    }

    #[test]
    fn tests_of_the_page_are_found_by_their_calls() {
        let text =
            "test(\"b3_pages sort\", () => {\n});\n\nit(\n  'i7_x', async () => {});\ntest(\"plain\", f);\n";
        let file = |path: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let found =
            find_tests(&[file("web/src/thread/window.test.ts"), file("web/src/thread/window.ts")], &[]);
        let found: Vec<(&str, usize)> = found.iter().map(|test| (test.path.as_str(), test.line)).collect();
        assert_eq!(found, [("web::thread::window::b3_pages sort", 1), ("web::thread::window::i7_x", 4)]);
    }
}
