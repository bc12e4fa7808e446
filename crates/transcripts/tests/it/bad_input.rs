//! Damaged, foreign and hostile input. A file gets an error of its own, and a record gets a problem report. Neither
//! ends the import of other records, and nothing panics.

use std::fmt::Write as _;

use transcripts::{Error, SessionFormat, TranscriptSource, detect_format};

use crate::collect::{read_bytes, read_source};

fn detect_bytes(bytes: &[u8]) -> Result<SessionFormat, Error> {
    detect_format(&TranscriptSource::from_reader(&mut &bytes[..], "stdin", &std::env::temp_dir()).unwrap())
}

/// Returns a Claude Code record with a text of the user.
fn user(text: &str) -> String {
    format!(r#"{{"type":"user","sessionId":"s","parentUuid":null,"message":{{"content":"{text}"}}}}"#)
}

/// Checks the texts and the problems (line and reason) of a Claude Code log.
#[track_caller]
fn check(bytes: &[u8], texts: &[&str], problems: &[(u64, &str)]) {
    let (format, read) = read_bytes(bytes);
    assert_eq!(format, SessionFormat::Claude);
    let actual: Vec<&str> = read.entries().map(transcripts::TranscriptEntry::text).collect();
    assert_eq!(actual, texts);
    let actual: Vec<(u64, &str)> =
        read.problems.iter().map(|problem| (problem.line.unwrap(), problem.reason.as_str())).collect();
    assert_eq!(actual, problems);
}

#[test]
fn files_that_are_not_sessions_have_specific_errors() {
    let folder = tempfile::tempdir().unwrap();
    let missing = detect_format(&TranscriptSource::from_file(folder.path().join("none.jsonl")));
    assert!(matches!(missing, Err(Error::Missing { .. })));
    assert!(matches!(detect_format(&TranscriptSource::from_file(folder.path())), Err(Error::Folder { .. })));
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = detect_format(&TranscriptSource::from_file(pipe));
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    for empty in [&b""[..], b"  \n\n", b"\xef\xbb\xbf"] {
        assert!(matches!(detect_bytes(empty), Err(Error::Empty { .. })));
    }
    for binary in [&b"\x1f\x8b\x08\x01"[..], b"\x00\x01\x02", b"PK\x03\x04", b"\xff\xfea\x00"] {
        assert!(matches!(detect_bytes(binary), Err(Error::Binary { .. })));
    }
    for (unknown, expected) in [
        ("<!doctype html><html>", "an HTML or XML page"),
        ("{\"name\":\"package\"}", "JSON of another program"),
        ("[1,2,3]", "JSON of another program"),
        ("hello", "plain text"),
        ("{", "JSON of another program"),
    ] {
        match detect_bytes(unknown.as_bytes()) {
            Err(Error::Unrecognized { looks_like, .. }) => assert_eq!(looks_like, expected),
            other => assert!(other.is_err(), "{unknown} was detected as {other:?}"),
        }
    }
}

#[test]
fn errors_name_the_file_and_have_a_hint() {
    let error = detect_bytes(b"<html>").unwrap_err().to_string();
    assert!(error.contains("stdin") && error.contains("HTML") && error.contains("Claude Code"), "{error}");
}

#[test]
fn a_database_of_another_program_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b?#%.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    let source = TranscriptSource::from_file(&path);
    assert_eq!(detect_format(&source).unwrap(), SessionFormat::LangGraph);
    let result = transcripts::read_conversations(
        &source,
        SessionFormat::LangGraph,
        &mut crate::collect::CollectedTranscript::default(),
    );
    assert!(matches!(result, Err(Error::Database { .. })));
}

#[test]
fn records_without_a_separator_are_all_read() {
    let text = format!("{}{}\n{}", user("a"), user("b"), user("c"));
    check(text.as_bytes(), &["a", "b", "c"], &[]);
}

#[test]
fn a_half_written_record_is_reported_with_its_line() {
    let whole = user("a");
    let text = format!("{whole}\n\n{}", &user("b")[..40]);
    check(text.as_bytes(), &["a"], &[(3, "skipped a half-written record: it ends in the middle")]);
    let text = format!("{whole}{}\n{whole}\n", &user("b")[..40]);
    check(text.as_bytes(), &["a", "a"], &[(1, "skipped a half-written record: it ends in the middle")]);
}

#[test]
fn lines_end_at_line_feeds_only() {
    check(user("a\u{2028}b\u{85}c").as_bytes(), &["a\u{2028}b\u{85}c"], &[]);
    check(format!("\u{feff}{}\r\n{}\r\n", user("a"), user("b")).as_bytes(), &["a", "b"], &[]);
}

#[test]
fn invalid_json_does_not_affect_other_records() {
    let text = format!("{}\nnot json\n[1]\n17\n{}\n", user("a"), user("b"));
    let (_, read) = read_bytes(text.as_bytes());
    assert_eq!(read.entries().count(), 2);
    let lines: Vec<_> = read.problems.iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines.first(), Some(&2));
    assert!(lines.iter().all(|line| (2..=4).contains(line)), "{lines:?}");
}

#[test]
fn a6_invalid_characters_are_replaced_and_reported() {
    check(
        user(r"a\ud800b \ud83d\ude00 \\ud800 \udc00").as_bytes(),
        &["a\u{fffd}b \u{1f600} \\ud800 \u{fffd}"],
        &[(1, "replaced 2 half surrogate pair(s) by U+FFFD")],
    );
    let mut bytes = user("a@b").into_bytes();
    let index = bytes.iter().position(|byte| *byte == b'@').unwrap();
    bytes[index] = 0xe9;
    check(&bytes, &["a\u{fffd}b"], &[(1, "replaced bytes that are not UTF-8 by U+FFFD")]);
    check(user(r"a\u0000b").as_bytes(), &["a\u{0}b"], &[]);
}

#[test]
fn values_of_a_wrong_type_are_read_as_absent() {
    let text = concat!(
        r#"{"type":"user","uuid":7,"parentUuid":[],"isSidechain":"x","timestamp":{"a":1},"sessionId":null,"message":{"content":"a"}}"#,
        "\n",
        r#"{"type":"user","message":{"content":[null,5,"x",{"type":"text","text":null},{"type":"tool_result","tool_use_id":3,"is_error":"no","content":{"content":"c"}}]}}"#,
        "\n",
        r#"{"type":"user","message":{"content":17}}"#,
        "\n{\"type\":\"user\"}\n{\"type\":\"assistant\",\"message\":null}\n",
    );
    check(text.as_bytes(), &["a", "", "c", "17", ""], &[]);
}

#[test]
fn deeply_nested_records_are_reported_and_skipped() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!(
        "{}\n{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"input\":{deep}}}]}}}}\n{}\n",
        user("a"),
        user("b")
    );
    let (_, read) = read_bytes(text.as_bytes());
    assert_eq!(read.entries().map(transcripts::TranscriptEntry::text).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read.problems.len(), 1);
    let list =
        format!("[{{\"role\":\"user\",\"content\":\"a\"}},{deep},{{\"role\":\"user\",\"content\":\"b\"}}]");
    let (_, read) = read_bytes(list.as_bytes());
    assert_eq!(read.entries().count(), 2);
}

#[test]
fn a_large_line_is_read_and_an_oversized_one_skipped() {
    let large = user(&"x".repeat(3 * 1024 * 1024));
    let (_, read) = read_bytes(format!("{large}\n").as_bytes());
    assert_eq!(read.entries().next().unwrap().text().len(), 3 * 1024 * 1024);
    let oversized = user(&"x".repeat(65 * 1024 * 1024));
    let text = format!("{}\n{oversized}\n{}\n", user("a"), user("b"));
    let (_, read) = read_bytes(text.as_bytes());
    assert_eq!(read.entries().map(transcripts::TranscriptEntry::text).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read.problems[0].line, Some(2));
}

#[test]
fn elements_before_the_end_of_a_truncated_object_are_read() {
    let mut text = String::from(r#"{"info":{"id":"ses_1"},"messages":["#);
    for n in 0..3 {
        write!(
            text,
            "\n{{\"info\":{{\"role\":\"user\"}},\"parts\":[{{\"type\":\"text\",\"text\":\"{n}\"}}]}},"
        )
        .unwrap();
    }
    text.push_str("\n{\"info\":{\"role\":");
    let (format, read) = read_bytes(text.as_bytes());
    assert_eq!(format, SessionFormat::OpenCode);
    assert_eq!(read.entries().count(), 3);
    assert_eq!(read.problems.len(), 1);
    assert_eq!(read.problems[0].line, Some(5));
}

#[test]
fn members_may_come_in_any_order() {
    let text = r#"{"messages":[{"info":{"role":"user"},"parts":[{"type":"text","text":"a"}]}],"info":{"id":"ses_9","title":"T"}}"#;
    let source = TranscriptSource::from_reader(&mut text.as_bytes(), "x", &std::env::temp_dir()).unwrap();
    let (read, _) = read_source(&source, SessionFormat::OpenCode);
    assert_eq!(read.conversations[0].key, "opencode:ses_9");
}
