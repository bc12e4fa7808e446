//! Any bytes at all: no reader panics, and reading twice gives the same.

use proptest::prelude::*;
use transcripts::{Format, Source, detect, read};

use crate::collect::Collected;

const FORMATS: [Format; 11] = [
    Format::Claude,
    Format::Codex,
    Format::OpenCode,
    Format::Pi,
    Format::Gemini,
    Format::Copilot,
    Format::Aider,
    Format::OpenHands,
    Format::SweAgent,
    Format::OpenAi,
    Format::LangGraph,
];

/// Pieces from which records of all formats can grow by accident.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\n",
        "null",
        "NaN",
        "\"type\":\"user\"",
        "\"message\":",
        "\"content\":",
        "\"role\":\"assistant\"",
        "\"parts\":[",
        "\"info\":{\"id\":\"ses_1\"},",
        "\"messages\":[",
        "\"history\":[",
        "\"payload\":{\"type\":\"message\"}",
        "\"type\":\"response_item\",",
        "\\ud800",
        "# aider chat started at ",
        "#### ",
        "> ",
        "\"sessionId\":\"x\"",
        "\"projectHash\":\"h\"",
        "\"$rewindTo\":\"1\"",
        "\"id\":\"1\"",
        "SQLite format 3\0",
    ];
    prop_oneof![
        4 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}

fn check(bytes: &[u8]) {
    let source = Source::spool(&mut &bytes[..], "random", &std::env::temp_dir()).unwrap();
    let _ = detect(&source);
    for format in FORMATS {
        let (mut first, mut second) = (Collected::default(), Collected::default());
        let reports = (read(&source, format, &mut first), read(&source, format, &mut second));
        assert_eq!(reports.0.is_ok(), reports.1.is_ok());
        assert_eq!(first.render(), second.render());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn any_pieces_of_records_are_read_without_a_panic(pieces in proptest::collection::vec(piece(), 0..40)) {
        check(pieces.concat().as_bytes());
    }
}
