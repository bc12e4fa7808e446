//! Session files of other agents. Any bytes are read in every format: twice with one result, with a report that counts what
//! was read, and into entries that can be stored. A half-written record at the end takes nothing in front of it away.

use jiff::Timestamp;
use transcripts::{
    ConversationInfo, ReadReport, SessionFormat, SinkError, TranscriptEntry, TranscriptProblem,
    TranscriptSink, TranscriptSource, detect_format, read_conversations,
};

use super::{FuzzTarget, RepeatedInput};

/// The first bytes of a SQLite database. Other bytes are not opened as one, which would cost most of the time.
const DATABASE_START: &[u8] = b"SQLite format 3\0";

/// Formats in which every line is a record of its own.
const LINE_FORMATS: [SessionFormat; 4] =
    [SessionFormat::Claude, SessionFormat::Codex, SessionFormat::Copilot, SessionFormat::Pi];

/// A record that ends in the middle.
const CUT_RECORD: &[u8] = br#"{"type":"user","message":{"role":"user","content":"cut o"#;

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "transcripts",
    check,
    parse,
    dictionary: &[
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
        "-1e400",
        "{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":",
        "{\"type\":\"assistant\",\"message\":{\"content\":[",
        "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Bash\",\"input\":{}}",
        "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":",
        "\"message\":",
        "\"content\":",
        "\"role\":\"assistant\"",
        "\"timestamp\":\"2026-01-02T03:04:05Z\"",
        "\"parts\":[",
        "\"info\":{\"id\":\"ses_1\"},",
        "\"messages\":[",
        "\"history\":[",
        "\"trajectory\":[",
        "{\"type\":\"session_meta\",\"payload\":{\"id\":\"c\"}}",
        "\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":[",
        "\"type\":\"response_item\",",
        "{\"type\":\"session.start\",\"data\":{\"sessionId\":\"k\"}}",
        "{\"type\":\"session\",\"id\":\"p\"}",
        "\"toolResult\"",
        "\"type\":\"toolCall\"",
        "\\ud800",
        "\\u0000",
        "# aider chat started at 2026-01-02 03:04:05\n",
        "#### ",
        "> ",
        "\"sessionId\":\"x\"",
        "\"projectHash\":\"h\"",
        "{\"$rewindTo\":\"1\"}",
        "\"$set\":{",
        "\"id\":\"1\"",
        "\"action\":\"run\",\"args\":{",
        "\"observation\":\"run\",\"extras\":{}",
        "[{'type': 'text', 'text': 'a'}]",
        "TextContent(type='text', text='",
        "data:image/png;base64,aGk=",
        "SQLite format 3\0",
    ],
    repeated: &[
        RepeatedInput::of("{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"a\"}}\n"),
        RepeatedInput::of("{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"a\"}}"),
        RepeatedInput::of("17 "),
        RepeatedInput::of("[1]"),
        RepeatedInput::of("[1]\n"),
        RepeatedInput::of("{\"type\":3}"),
        RepeatedInput::of("NaN "),
        RepeatedInput::nested("[", "]"),
        RepeatedInput::of("{"),
        RepeatedInput::of("[{\"a\":"),
        RepeatedInput::between("{\"type\":\"user\",\"message\":{\"content\":\"", "\\ud800", "\"}}\n"),
        RepeatedInput::between(
            "{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":[",
            "{\"type\":\"text\",\"text\":\"a\"},",
            "{}]}}\n",
        ),
        RepeatedInput::between(
            "{\"info\":{\"id\":\"ses_1\"},\"messages\":[",
            "{\"info\":{\"role\":\"user\"},\"parts\":[{\"type\":\"text\",\"text\":\"a\"}]},",
            "{}]}",
        ),
        RepeatedInput::between(
            "[",
            "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"b\"},",
            "{}]",
        ),
        RepeatedInput::between(
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":\"[",
            "{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"a\\\"},",
            "{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"a\\\"}]\"}]",
        ),
        RepeatedInput::between(
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":\"[",
            "{\\\"type\\\":\\\"image\\\",\\\"data\\\":\\\"aGk=\\\"},",
            "{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"a\\\"}]\"}]",
        ),
        RepeatedInput::between(
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":\"",
            "[",
            "type\"}]",
        ),
        RepeatedInput::between(
            "{\"sessionId\":\"g\",\"projectHash\":\"h\"}\n",
            "{\"id\":\"1\",\"type\":\"user\",\"content\":\"one\"}\n{\"$rewindTo\":\"1\"}\n",
            "",
        ),
        RepeatedInput::between("# aider chat started at 2026-01-02 03:04:05\n", "#### a\nb\n> c\rd\n", ""),
        RepeatedInput::of("# aider chat started at 2026-01-02 03:04:05\n#### a\n"),
    ],
};

/// A sink that keeps what it receives.
#[derive(Debug, Default, PartialEq)]
struct ReadSession {
    /// The keys of the conversations.
    keys: Vec<String>,
    entries: Vec<TranscriptEntry>,
    /// The reasons of the problems.
    problems: Vec<String>,
    /// True between the start and the end of a conversation.
    is_open: bool,
}

impl TranscriptSink for ReadSession {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        assert!(!self.is_open, "a conversation ends before the next one begins");
        self.is_open = true;
        self.keys.push(conversation.source_key());
        Ok(())
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        assert!(self.is_open, "an entry is in a conversation");
        self.entries.push(entry);
        Ok(())
    }

    fn end_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        assert!(self.is_open, "a conversation ends once");
        self.is_open = false;
        Ok(())
    }

    fn report_problem(&mut self, problem: TranscriptProblem) {
        self.problems.push(problem.reason);
    }

    fn report_progress(&mut self, _: u64) {}
}

fn check(input: &[u8]) {
    let source = open_source(input);
    let detected = detect_format(&source);
    for format in formats_of(input) {
        let (report, session) = read_session(&source, format);
        let (again, same_session) = read_session(&source, format);
        assert_eq!(report.is_some(), again.is_some(), "{format:?}");
        assert_eq!(session, same_session, "two reads of the same bytes have one result: {format:?}");
        if let Some(report) = report {
            assert!(!session.is_open, "every conversation ends: {format:?}");
            assert_eq!(report.entries, session.entries.len() as u64, "{format:?}");
            assert_eq!(report.problems, session.problems.len() as u64, "{format:?}");
            assert_eq!(report.conversations - report.empty, session.keys.len() as u64, "{format:?}");
        }
        check_entries(session.entries, format);
    }
    if let Ok(format) = detected
        && LINE_FORMATS.contains(&format)
    {
        check_cut_record(input, format);
    }
}

fn parse(input: &[u8]) {
    let source = open_source(input);
    let _ = detect_format(&source);
    for format in formats_of(input) {
        drop(read_session(&source, format));
    }
}

/// Checks that each entry can be stored: as an event of valid JSON that any reader can decode.
fn check_entries(entries: Vec<TranscriptEntry>, format: SessionFormat) {
    for entry in entries {
        let event = entry.into_event(format, Timestamp::UNIX_EPOCH).expect("an entry has a JSON form");
        let content = event.content.get();
        assert_eq!(protocol::lone_surrogate(content), None, "{format:?}: {content}");
        serde_json::from_str::<serde_json::Value>(content).expect("the content of an event is JSON");
    }
}

/// Checks that a half-written record behind the last whole line changes none of the entries in front of it.
fn check_cut_record(input: &[u8], format: SessionFormat) {
    let end = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let whole = &input[..end];
    let (_, intact) = read_session(&open_source(whole), format);
    let (_, damaged) = read_session(&open_source(&[whole, CUT_RECORD].concat()), format);
    assert_eq!(damaged.entries, intact.entries, "{format:?}");
    assert!(
        damaged.problems.len() > intact.problems.len(),
        "the half-written record is reported: {format:?}"
    );
}

/// Returns the formats in which an input is read.
fn formats_of(input: &[u8]) -> impl Iterator<Item = SessionFormat> {
    let is_database = input.starts_with(DATABASE_START);
    SessionFormat::ALL.into_iter().filter(move |format| is_database == (*format == SessionFormat::LangGraph))
}

/// Returns the source of an input.
fn open_source(mut input: &[u8]) -> TranscriptSource {
    TranscriptSource::from_reader(&mut input, "generated", &std::env::temp_dir())
        .expect("the folder for temporary files can be written")
}

/// Reads a source. Returns no report if it cannot be read.
fn read_session(source: &TranscriptSource, format: SessionFormat) -> (Option<ReadReport>, ReadSession) {
    let mut session = ReadSession::default();
    let report = read_conversations(source, format, &mut session).ok();
    (report, session)
}
