//! Replacements as tables, and properties about the text outside a replacement.

use proptest::prelude::*;

use super::*;

fn edit(old: &str, new: &str) -> TextReplacement {
    TextReplacement { old_string: old.to_owned(), new_string: new.to_owned(), replace_all: false }
}

fn all(old: &str, new: &str) -> TextReplacement {
    TextReplacement { replace_all: true, ..edit(old, new) }
}

fn check(text: &str, edits: &[TextReplacement], expected: Result<(&str, usize), &str>) {
    match (apply_replacements(text, edits), expected) {
        (Ok((actual, count)), Ok(expected)) => assert_eq!((actual.as_str(), count), expected, "{text:?}"),
        (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{text:?}: {actual}"),
        (actual, expected) => panic!("{text:?}: {actual:?}, expected {expected:?}"),
    }
}

#[test]
fn an_edit_replaces_exactly_its_old_text() {
    check("a b a", &[edit("b", "c")], Ok(("a c a", 1)));
    check("a b a", &[all("a", "x")], Ok(("x b x", 2)));
    check("a b", &[edit("b", "")], Ok(("a ", 1)));
    check("aaa", &[all("aa", "b")], Ok(("ba", 1)));
    check("one\ntwo\n", &[edit("one", "1"), edit("1\ntwo", "12")], Ok(("12\n", 2)));
    check("ärger\n", &[edit("är", "är ")], Ok(("är ger\n", 1)));
}

#[test]
fn line_endings_outside_an_edit_stay_and_those_inside_follow_the_file() {
    check("a\r\nb\r\nc", &[edit("b", "x\ny")], Ok(("a\r\nx\r\ny\r\nc", 1)));
    check("a\r\nb\r\nc", &[edit("a\nb", "z")], Ok(("z\r\nc", 1)));
    check("a\r\nb\r\n", &[edit("a\r\nb", "z\r\n")], Ok(("z\r\n\r\n", 1)));
    check("a\r\nb\r\n", &[edit("\nb", "!")], Ok(("a!\r\n", 1)));
    // In a file with mixed line endings, only the replaced text changes.
    check("a\nb\nc\r\nd\n", &[edit("c\nd", "e\nf")], Ok(("a\nb\ne\nf\n", 1)));
    check("a\rb\n", &[edit("b", "c")], Ok(("a\rc\n", 1)));
}

#[test]
fn an_edit_without_exactly_one_match_changes_nothing() {
    check("a", &[edit("b", "c")], Err("does not occur"));
    check("x\nx\nx", &[edit("x", "y")], Err("occurs 3 times (lines 1, 2, 3)"));
    check("a", &[edit("", "c")], Err("old_string is empty"));
    check("a", &[edit("a", "a")], Err("are the same"));
    check("    let a = 1;\n", &[edit("\tlet a = 1;", "x")], Err("like line 1, but its blanks differ"));
    check("a\nb\n", &[edit("a\nc", "x")], Err("like line 1, but what follows it differs"));
    check("a b", &[edit("a", "x"), edit("a", "y")], Err("edit 2: old_string does not occur"));
}

#[test]
fn a_whole_new_text_keeps_the_style_of_the_old_one() {
    for (old, content, expected) in [
        ("a\n", "b", "b\n"),
        ("a", "b", "b"),
        ("a\r\nb\r\n", "x\ny", "x\r\ny\r\n"),
        ("a\r\nb\r\n", "x\r\ny\n", "x\r\ny\r\n"),
        ("\u{feff}a\n", "b\n", "\u{feff}b\n"),
        ("\u{feff}a\n", "\u{feff}b\n", "\u{feff}b\n"),
        ("a\n", "", ""),
        ("", "b", "b"),
    ] {
        assert_eq!(match_style(old, content), expected, "{old:?} {content:?}");
    }
}

#[test]
fn a_diff_names_the_file_and_shows_the_change() {
    let path = Path::new("src/a.rs");
    assert_eq!(
        unified_diff(path, Some("one\ntwo\n"), "one\n2\n"),
        "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    );
    assert_eq!(unified_diff(path, None, "one\n"), "--- /dev/null\n+++ b/src/a.rs\n@@ -0,0 +1 @@\n+one\n");
    assert_eq!(unified_diff(path, None, ""), "--- /dev/null\n+++ b/src/a.rs\n");
    assert_eq!(unified_diff(path, Some("same"), "same"), "");
}

proptest! {
    #[test]
    fn an_edit_and_its_inverse_restore_the_text(
        before in "[ab\r\n]{0,24}", old in "[a-d]{1,4}", new in "[e-h]{1,4}", after in "[ab\r\n]{0,24}",
    ) {
        let old = format!("<{old}>");
        let new = format!("<{new}>");
        let text = format!("{before}{old}{after}");
        let (changed, _) = apply_replacements(&text, &[edit(&old, &new)]).unwrap();
        prop_assert_eq!(&changed, &format!("{before}{new}{after}"));
        let (back, _) = apply_replacements(&changed, &[edit(&new, &old)]).unwrap();
        prop_assert_eq!(back, text);
    }

    #[test]
    fn text_outside_an_edit_stays_byte_for_byte(
        before in "\\PC{0,20}", after in "\\PC{0,20}", lines in "[x\r\n]{0,20}", new in "[yz\n]{0,8}",
    ) {
        let text = format!("{before}{lines}\u{1}mark\u{1}{after}");
        let (changed, count) = apply_replacements(&text, &[edit("\u{1}mark\u{1}", &format!("{new}!"))]).unwrap();
        prop_assert_eq!(count, 1);
        let head = format!("{before}{lines}");
        prop_assert!(changed.starts_with(&head));
        prop_assert!(changed.ends_with(&after));
        let middle = &changed[head.len()..changed.len() - after.len()];
        prop_assert_eq!(middle.replace("\r\n", "\n"), format!("{new}!"));
    }
}
