//! Every real session file with the counts that a manifest lists for it. The files are outside the repository and may
//! be missing; the test is then skipped.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use transcripts::{EntryKind, TranscriptSource};

use crate::collect::read_source;

/// Returns the folder of the session files, if it exists.
fn data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    folder.join("manifest.json").is_file().then_some(folder)
}

#[test]
fn every_file_of_the_manifest_imports_with_its_counts() {
    let Some(data) = data() else {
        eprintln!("skipped: the folder of real session files is missing");
        return;
    };
    let manifest: Vec<Value> =
        serde_json::from_slice(&std::fs::read(data.join("manifest.json")).unwrap()).unwrap();
    let mut failures = String::new();
    let mut checked = 0;
    for expected in manifest.iter().filter(|row| row["events"].is_u64()) {
        let file = expected["file"].as_str().unwrap();
        if !data.join(file).is_file() {
            continue;
        }
        checked += 1;
        let differences = differences(&data.join(file), expected);
        eprintln!("{} {file}{differences}", if differences.is_empty() { "ok  " } else { "FAIL" });
        if !differences.is_empty() {
            writeln!(failures, "{file}{differences}").unwrap();
        }
    }
    assert!(checked > 0, "the manifest lists no file that exists");
    assert!(failures.is_empty(), "counts differ:\n{failures}");
}

/// Returns the differences between a file and its row in the manifest, as ` name=actual(expected)`.
fn differences(path: &Path, expected: &Value) -> String {
    let source = TranscriptSource::from_file(path);
    let format = transcripts::detect_format(&source).expect("a known format");
    let (read, report) = read_source(&source, format);
    let (unanswered, orphans) = read.unpaired_counts();
    let actual = [
        ("conversations", report.conversations as usize),
        ("events", read.entries().count()),
        ("user_turns", read.user_turns()),
        ("tool_calls", read.count(EntryKind::ToolCall)),
        ("boundaries", read.count(EntryKind::Boundary)),
        ("summaries", read.count(EntryKind::Summary)),
        ("unanswered", unanswered),
        ("orphans", orphans),
    ];
    let mut text = String::new();
    for (name, count) in actual {
        if expected[name] != count {
            text += &format!(" {name}={count}({})", expected[name]);
        }
    }
    let expected_format = expected["format"].as_str().expect("every row names a format");
    let expected_format = if expected_format == "taubench" { "openai" } else { expected_format };
    if format.as_str() != expected_format {
        text += &format!(" format={}({expected_format})", format.as_str());
    }
    assert_eq!((report.conversations - report.empty) as usize, read.conversations.len());
    assert_eq!(report.entries as usize, read.entries().count());
    assert_eq!(report.problems as usize, read.problems.len());
    for problem in &read.problems {
        text += &format!("\n  problem: line {:?}: {}", problem.line, problem.reason);
    }
    text
}
