//! Property tests with random input: no reader panics, and two reads of the same bytes have the same result.

use proptest::prelude::*;
use transcripts::{SessionFormat, TranscriptSource, detect_format, read_conversations};

use crate::collect::CollectedTranscript;

const FORMATS: [SessionFormat; 11] = [
    SessionFormat::Claude,
    SessionFormat::Codex,
    SessionFormat::OpenCode,
    SessionFormat::Pi,
    SessionFormat::Gemini,
    SessionFormat::Copilot,
    SessionFormat::Aider,
    SessionFormat::OpenHands,
    SessionFormat::SweAgent,
    SessionFormat::OpenAi,
    SessionFormat::LangGraph,
];

/// A strategy for pieces of records. Random sequences of them form records of all formats.
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

/// Reads `bytes` twice in every format and compares the results.
fn check(bytes: &[u8]) {
    let source = TranscriptSource::from_reader(&mut &bytes[..], "random", &std::env::temp_dir()).unwrap();
    let _ = detect_format(&source);
    for format in FORMATS {
        let (mut first, mut second) = (CollectedTranscript::default(), CollectedTranscript::default());
        let reports = (
            read_conversations(&source, format, &mut first),
            read_conversations(&source, format, &mut second),
        );
        assert_eq!(reports.0.is_ok(), reports.1.is_ok());
        assert_eq!(first.render(), second.render());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_counts::count(24, 96), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn any_pieces_of_records_are_read_without_a_panic(pieces in proptest::collection::vec(piece(), 0..40)) {
        check(pieces.concat().as_bytes());
    }
}
