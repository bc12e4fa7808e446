//! Misleading texts and the warnings about them.

use super::*;

fn check(place: &'static str, text: &str, expected: &[&str]) {
    let warnings: Vec<String> = find_warnings(place, text)
        .iter()
        .map(|warning| {
            let kind = serde_json::to_value(warning.kind).unwrap();
            let code_point = warning.code_point.as_deref().unwrap_or("-");
            format!("{}:{} {} {code_point}", warning.line, warning.column, kind.as_str().unwrap())
        })
        .collect();
    assert_eq!(warnings, expected, "{text:?}");
}

#[test]
fn k8_hidden_and_reordering_characters_are_reported() {
    check("command", "ls", &[]);
    check("command", "echo a\u{202e}b", &["1:7 bidi U+202E"]);
    check("command", "a\nb\u{200b}c", &["2:2 invisible U+200B"]);
    check("path", "a\u{2066}\u{2069}", &["1:2 bidi U+2066", "1:3 bidi U+2069"]);
    check("command", "echo \u{1b}[2K", &["1:6 invisible U+001B"]);
    check("command", "a\rb", &["1:2 invisible U+000D"]);
    check("diff", "+a\r\n+b\r\n", &[]);
    check("diff", "+\u{feff}a", &["1:2 invisible U+FEFF"]);
    check("command", "x\u{e0041}", &["1:2 invisible U+E0041"]);
    check("argument", "soft\u{ad}ware", &["1:5 invisible U+00AD"]);
}

#[test]
fn k8_lookalike_letters_are_reported() {
    // Cyrillic letters among Latin ones, and a word of Cyrillic letters only.
    check("command", "curl p\u{430}ypal.com", &["1:7 mixed_scripts U+0430"]);
    check("diff", "+let \u{430}dmin = 1;", &["1:6 mixed_scripts U+0430"]);
    check("path", "\u{441}\u{43e}\u{440}\u{443}", &["1:1 look_alike U+0441"]);
    check("diff", "+// \u{441}\u{43e}\u{440}\u{443}", &[]);
    check("command", "rm a\u{2215}b", &["1:5 look_alike U+2215"]);
    check("command", "rm\u{a0}a", &["1:3 look_alike U+00A0"]);
    check("command", "a \u{37e} b", &["1:3 look_alike U+037E"]);
    for fine in ["touch größe.txt", "echo 你好", "echo привет", "echo naïve café", "echo 👩‍💻 ❤️", "echo ñ"]
    {
        check("command", fine, &[]);
    }
}

#[test]
fn k8_text_after_long_blanks_is_reported() {
    check("command", &format!("ls{}; rm -rf x", " ".repeat(80)), &["1:83 blanks -"]);
    check("command", &format!("ls\n{}rm -rf x", "\n".repeat(20)), &["22:1 blanks -"]);
    check("command", "ls      # x", &[]);
    check("diff", &format!("+ls{}x", " ".repeat(80)), &[]);
}

#[test]
fn k8_hidden_characters_are_escaped_in_the_shown_text() {
    assert_eq!(escape_hidden_characters("a\u{202e}b\tc\n\u{200b}"), "a⟨U+202E⟩b\tc\n⟨U+200B⟩");
    assert_eq!(escape_hidden_characters("\u{1b}[31m"), "⟨U+001B⟩[31m");
    assert_eq!(escape_hidden_characters("👩‍💻"), "👩‍💻");
    assert!(find_warnings("command", &"\u{202e}".repeat(1_000)).len() == WARNINGS_MAX);
}
