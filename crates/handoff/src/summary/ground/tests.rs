//! Tests of grounding: a name is found in every form in which the source contains it, and only then.

use proptest::prelude::*;
use protocol::{SummaryItem, SummaryItemKind};
use serde_json::json;

use super::GroundingCheck;
use facts::notation::parse_items;

const THREAD: &str = r#"
U: Fix src/parser.rs, see https://x.test/issues/7 and #214.
A: parse_all took 1200ms before 3f2a9bc1.
C: 1 Bash {"command": "cargo test --workspace"}
T: 1 ok 250 rows
"#;

fn body(text: &str) -> Vec<SummaryItem> {
    vec![SummaryItem {
        kind: SummaryItemKind::Progress,
        text: text.into(),
        refs: Vec::new(),
        verified: true,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }]
}

/// Returns the names in `text` that `thread` does not contain.
fn ungrounded_names(thread: &str, text: &str) -> Vec<String> {
    let mut body = body(text);
    let mut grounding = GroundingCheck::from_items(&body, Some(std::path::Path::new("/srv/app")));
    parse_items(thread).iter().for_each(|item| grounding.visit(item));
    let missing = grounding.missing_names();
    let flagged = grounding.mark_items(&mut body);
    assert_eq!((flagged > 0, missing.len()), (!body[0].verified, flagged), "{text}");
    assert_eq!(missing.into_iter().next().map_or(Vec::new(), |(_, names)| names), body[0].unfound);
    body.remove(0).unfound
}

#[test]
fn m6_a_name_that_is_not_in_the_source_is_always_reported() {
    for (text, missing) in [
        ("Nothing is named here.", ""),
        ("parser.rs was fixed in `parse_all`, 1200ms.", ""),
        ("Ran `cargo test --workspace` on 250 rows for #214.", ""),
        ("Commit 3f2a9bc1 closes https://x.test/issues/7.", ""),
        ("lexer.rs was fixed.", "lexer.rs"),
        ("See https://x.test/issues/8.", "https://x.test/issues/8"),
        ("It took 1300ms, or 12 s.", "1300ms, 12 s"),
        ("It took 200ms.", "200ms"),
        ("Commit 3f2a9bc2.", "3f2a9bc2"),
        ("Commit f2a9bc1.", "f2a9bc1"),
        ("Closes #215 and #21.", "#215, #21"),
        ("Call parse_none.", "parse_none"),
        ("Call parse_al or Parse_all.", "parse_al, Parse_all"),
        ("Run `cargo bench`.", "bench"),
        ("Run `cargo test --work`.", "--work"),
        ("Released v4.5.6.", "v4.5.6"),
        ("999 rows, 50 % of them.", "999, 50 %"),
        ("See src/parser.rs.bak and other/parser.rs.", "src/parser.rs.bak, other/parser.rs"),
        (r"See evil\parser.rs", r"evil\parser.rs"),
    ] {
        assert_eq!(ungrounded_names(THREAD, text).join(", "), missing, "{text}");
    }
}

#[test]
fn m6_invented_persons_packages_and_hashes_without_digits_are_reported() {
    let thread = r#"
U: Ask dana about the tokio_rustls upgrade. KUBERNETES is not used. See deadbeefcafe.
A: Moved to serde-yaml, with the rate-limiter of postgresql.
"#;
    for (text, missing) in [
        ("Reviewed with Dana Whitfield.", "Whitfield"),
        ("Dmitri asked for a smaller image.", "Dmitri"),
        ("Then Priya's patch, and Oleg, were kept.", "Priya, Oleg"),
        ("Deployed to Kubernetes beside Postgres, not to Nomad.", "Nomad"),
        ("The user asked for it. Tests said so. Nobody wants it.", ""),
        ("It uses the tokio-rustls crate and package serde-yaml.", ""),
        ("It uses the serde-json crate.", "serde-json"),
        ("Add fizzbuzz-rustls and tokio-axum.", "fizzbuzz-rustls, tokio-axum"),
        ("A route-specific, non-empty fizzbuzz-like check in the second-largest file.", ""),
        ("Total Cost: 3. The meeting is on Monday. Once confirmed, go on.", ""),
        ("A well-known, case-insensitive, end-to-end check of the rate-limited, read-only cache.", ""),
        ("Commit deadbeef and defaced walls.", ""),
        ("Commit feedfacecafe.", "feedfacecafe"),
        ("Fix The Retry Logic In The Importer", ""),
        ("- [ ] Write it. (See below.) Objective: Port it; Then test it.", ""),
        ("Der Fehler ist im Parser und wird mit einem Test behoben.", ""),
    ] {
        assert_eq!(ungrounded_names(thread, text).join(", "), missing, "{text}");
    }
}

#[test]
fn m6_a_name_is_found_in_every_form_in_which_it_is_written() {
    for (thread, text) in [
        ("U: see ./src/a.rs", "src/a.rs is done"),
        ("U: see src/a.rs", "./src/a.rs is done"),
        ("U: see src//a.rs and src/./b.rs", "src/a.rs and src/b.rs"),
        ("U: see src/a.rs and b/c.rs", "src//a.rs and b/./c.rs"),
        ("U: see /srv/app/src/a.rs", "src/a.rs"),
        ("U: see src/a.rs", "/srv/app/src/a.rs"),
        ("U: see src/a.rs:12:5", "src/a.rs:12"),
        ("U: see src/a.rs", "src/a.rs:99, src/a.rs#L3, src/a.rs#L3-L9"),
        (r"U: see C:\\app\\src\\a.rs", "C:/app/src/a.rs and src/a.rs"),
        (r"U: see C:\app\src\lib.rs", r"C:\app\src\lib.rs and `src\lib.rs`"),
        (
            "U: see `parse_all`, **parse_one**, _parse_two_ and [the lexer](src/lexer.rs)",
            "parse_all, parse_one, parse_two, src/lexer.rs",
        ),
        (r"U: escaped parse\_all and src\/a.rs", "parse_all and src/a.rs"),
        (
            r#"T: 1 {"path":"src\/a.rs","line":"x\\nfoo_bar\\tb_c","nested":"{\"key_name\":\"a-b/c.rs\"}"}"#,
            "src/a.rs foo_bar b_c key_name a-b/c.rs",
        ),
        (r#"T: 1 "\u002fetc\u002fhosts.conf""#, "/etc/hosts.conf"),
        (
            r#"C: 1 Bash {"command": "rm -rf 'build dir'/\"out\".log --dry-run --level=max && FOO_BAR=1 ./run.sh"}"#,
            "`--dry-run` `--level` out.log FOO_BAR run.sh",
        ),
        ("U: took 1,200 rows and 12 ms, 3.5 GB", "1200 rows, 12ms, 3.5GB"),
        ("U: took 1200 rows and 12ms", "1,200 rows, 12 ms"),
        ("U: v1.2.3 of 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "1.2.3, 0a1b2c3"),
        ("U: use 1.2.3", "v1.2.3"),
        ("U: parseAll fails", "ParseAll fails"),
        ("U: see https://x.test/a/b?c=d.", "https://x.test/a/b and https://x.test/a"),
        ("U: see src/very/long/path/name.rs", "see src/very/long/pa…"),
        ("U: see src/very/long/path/name.rs", "see src/very/lo …"),
        ("U: a**b/c.rs\u{200b}deadbeef12", "a**b/c.rsdeadbeef12"),
        ("U: 先看src/解析.rs和foo_bar吧", "src/解析.rs `foo_bar`"),
    ] {
        assert_eq!(ungrounded_names(thread, text), Vec::<String>::new(), "{thread} | {text}");
    }
}

#[test]
fn m6_events_that_are_not_covered_are_no_evidence() {
    for thread in ["S: see src/a.rs", "I: see src/a.rs"] {
        assert_eq!(ungrounded_names(thread, "src/a.rs").len(), 1, "{thread}");
    }
}

#[test]
fn m6_the_seqs_of_selected_lines_are_no_evidence() {
    let body = body("1234 rows in a.rs");
    let mut grounding = GroundingCheck::from_items(&body, None);
    grounding
        .search_selection("[1234] User: look at a.rs\n[1235] [Bash] ls (shortened; all of it is [1234])");
    assert_eq!(grounding.missing_names(), [(0, vec!["1234".to_owned()])]);
    grounding.search_selection("(its calls: Bash ×1234)\n1234 of them");
    assert_eq!(grounding.missing_names(), [(0, vec!["1234".to_owned()])]);
    grounding.search_selection("[1] User: a[0] has 1234 rows");
    assert!(grounding.is_done());
}

#[test]
fn the_search_is_done_when_every_name_is_found() {
    let mut grounding = GroundingCheck::from_items(&body("src/parser.rs"), None);
    assert!(!grounding.is_done());
    grounding.visit(&parse_items(THREAD)[0]);
    assert!(grounding.is_done());
}

/// Generates a name of each kind that the contract lists, from parts that occur in no word of the texts below.
fn name() -> impl Strategy<Value = String> {
    let part = "[bcdfg]{3}[jkqxz][a-z]{1,5}";
    prop_oneof![
        (part, part).prop_map(|(a, b)| format!("src/{a}/{b}.rs")),
        (part, part).prop_map(|(a, b)| format!("/opt/{a}/{b}")),
        part.prop_map(|a| format!("{a}.toml")),
        (part, "[a-z]{2,6}").prop_map(|(a, b)| format!("https://{a}.test/{b}?id=7")),
        "[0-9a-f]{3}[0-9][a-f][0-9a-f]{4,35}".prop_map(|hash| hash),
        ("[1-9][0-9]{0,3}", prop::sample::select(vec!["ms", " ms", "%", "kB", " GB", "s", " seconds", "px"]))
            .prop_map(|(n, unit)| format!("{n}{unit}")),
        (part, part).prop_map(|(a, b)| format!("{a}_{b}")),
        (part, part).prop_map(|(a, b)| format!("`{a} {b}`")),
        part.prop_map(|a| format!("`{a}()`")),
        part.prop_map(|a| format!("--{a}")),
        "[A-Z]{2,4}-[1-9][0-9]{1,4}".prop_map(|ticket| ticket),
        "v[0-9]\\.[0-9]{1,2}\\.[0-9]{1,2}".prop_map(|version| version),
    ]
}

const WORDS: [&str; 12] = [
    "the",
    "worker",
    "was",
    "fixed",
    "and",
    "tests",
    "pass,",
    "see",
    "(also)",
    "\"quoted\"",
    "**bold**",
    "done.",
];

/// Returns the name with markup or punctuation around it, as it may occur in an item.
fn wrapped(name: &str, how: usize) -> String {
    let is_code = name.starts_with('`');
    match how {
        1 if !is_code => format!("`{name}`"),
        2 => format!("**{name}**"),
        3 => format!("({name})"),
        4 => format!("\"{name}\""),
        5 => format!("{name},"),
        6 => format!("{name}."),
        7 => format!("[{name}]"),
        8 => format!("{name}:"),
        9 => format!("'{name}'"),
        _ => name.to_owned(),
    }
}

/// Returns the words with the wrapped name inserted at a position.
fn item_with(words: &[usize], name: &str, (position, how): (usize, usize)) -> String {
    let mut words: Vec<String> = words.iter().map(|word| WORDS[*word].to_owned()).collect();
    words.insert(position % (words.len() + 1), wrapped(name, how));
    words.join(" ")
}

/// Returns a thread that contains the name in one of several forms.
fn thread_with(name: &str, how: usize) -> String {
    let bare = name.trim_matches('`');
    match how {
        0 => format!("U: please look at {bare} today"),
        1 => format!("A: it is **{bare}** now"),
        2 => format!("A: see [this]({bare})"),
        3 => format!("A: ```\\n{bare}\\n```"),
        4 => format!("T: 1 {}", json!({"value": bare, "more": [bare]})),
        5 => format!(
            "T: 1 {}",
            json!({"value": json!({"deep": format!("line\n{bare}\tend")}).to_string()})
                .to_string()
                .replace("\\n", "\\\\n")
        ),
        6 => format!("C: 1 Bash {}", json!({"command": format!("run --x='{bare}' && echo \"{bare}\"")})),
        7 => format!("C: 1 other {}", json!({bare: 1})),
        8 => format!("T: 1 {}", bare.replace('_', "\\_")),
        9 if bare.starts_with("src/") => format!("T: 1 C:\\proj\\{}", bare.replace('/', "\\")),
        10 if !bare.contains(' ') => format!("E: 1 {bare}:12: error"),
        _ => format!("T: 1 a\\n  {bare}\\nb"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_counts::count(100, 2_000)))]

    #[test]
    fn m6_an_invented_name_is_always_reported(
        words in prop::collection::vec(0..WORDS.len(), 0..12), name in name(), at in 0usize..12, how in 0usize..12,
    ) {
        let item = item_with(&words, &name, (at, how));
        let thread = "U: the worker was fixed and tests pass, see (also) \"quoted\" **bold** done. src opt test id GB ms 7";
        prop_assert!(!ungrounded_names(thread, &item).is_empty(), "{}", item);
    }

    #[test]
    fn m6_a_name_of_the_source_is_never_reported(
        words in prop::collection::vec(0..WORDS.len(), 0..12), name in name(), at in 0usize..12, how in 0usize..12, form in 0usize..12,
    ) {
        let item = item_with(&words, &name, (at, how));
        let thread = thread_with(&name, form);
        prop_assert_eq!(ungrounded_names(&thread, &item), Vec::<String>::new(), "{} | {}", thread, item);
    }
}

#[test]
fn m6_names_without_separators_are_never_reported_when_quoted_verbatim() {
    for text in ["v1.2.31234.5src/lib.rsTypeError: bad", "10.0.31234.7 is up", "see 1,234.56789 and v31234.1"]
    {
        assert_eq!(ungrounded_names(&format!("U: {text}"), text), Vec::<String>::new(), "{text}");
    }
}
