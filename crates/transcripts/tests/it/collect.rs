//! A sink that keeps everything, and short ways to read text and to show entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use transcripts::{
    Body, Conversation, Entry, EntryKind, Format, Problem, Report, Role, Sink, SinkError, Source, Track,
};

/// One conversation with its entries.
#[derive(Debug)]
pub struct Read {
    pub key: String,
    pub conversation: Conversation,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Default)]
pub struct Collected {
    pub conversations: Vec<Read>,
    pub problems: Vec<Problem>,
}

impl Sink for Collected {
    fn begin(&mut self, conversation: &Conversation) -> Result<(), SinkError> {
        self.conversations.push(Read {
            key: conversation.source_key(),
            conversation: conversation.clone(),
            entries: Vec::new(),
        });
        Ok(())
    }

    fn entry(&mut self, entry: Entry) -> Result<(), SinkError> {
        self.conversations.last_mut().expect("an entry comes after a beginning").entries.push(entry);
        Ok(())
    }

    fn end(&mut self, conversation: &Conversation) -> Result<(), SinkError> {
        self.conversations.last_mut().expect("an entry comes after a beginning").conversation =
            conversation.clone();
        Ok(())
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn progress(&mut self, _: u64) {}
}

impl Collected {
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.conversations.iter().flat_map(|read| &read.entries)
    }

    pub fn count(&self, kind: EntryKind) -> usize {
        self.entries().filter(|entry| entry.kind() == kind).count()
    }

    pub fn user_turns(&self) -> usize {
        self.entries().filter(|entry| entry.role() == Role::User && entry.kind() == EntryKind::Text).count()
    }

    /// Calls without result and results without call, counted per conversation; a result that names no call is no orphan.
    pub fn unpaired(&self) -> (usize, usize) {
        self.conversations.iter().fold((0, 0), |(unanswered, orphans), read| {
            let ids = |kind: EntryKind| -> BTreeSet<Option<&String>> {
                read.entries.iter().filter(|entry| entry.kind() == kind).map(call_id).collect()
            };
            let (calls, results) = (ids(EntryKind::ToolCall), ids(EntryKind::ToolResult));
            (
                unanswered + calls.difference(&results).count(),
                orphans + results.difference(&calls).flatten().count(),
            )
        })
    }

    /// The conversations in a compact form: one line per entry.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for read in &self.conversations {
            let c = &read.conversation;
            writeln!(text, "== {} {:?} {:?}", read.key, c.title, c.workspace)
                .expect("the test reads what exists");
            for entry in &read.entries {
                writeln!(text, "{}", line(entry)).expect("the test reads what exists");
            }
        }
        for problem in &self.problems {
            writeln!(text, "! line {:?}: {}", problem.line, problem.reason)
                .expect("the test reads what exists");
        }
        text
    }
}

fn call_id(entry: &Entry) -> Option<&String> {
    match &entry.body {
        Body::ToolCall { call_id, .. } | Body::ToolResult { call_id, .. } => call_id.as_ref(),
        _ => None,
    }
}

fn line(entry: &Entry) -> String {
    let side = if entry.track == Track::Side { " (side)" } else { "" };
    let what = match &entry.body {
        Body::Text { by, text, media } => format!("{by:?}: {text:?}{}", images(media.len())),
        Body::Thinking { text } => format!("thinking: {text:?}"),
        Body::ToolCall { call_id, tool, args } => format!("call {call_id:?} {tool} {args}"),
        Body::ToolResult { call_id, tool, text, media, status } => {
            format!("result {call_id:?} {tool:?} {status:?}: {text:?}{}", images(media.len()))
        }
        Body::Summary { text } => format!("summary: {text:?}"),
        Body::Boundary { label, details } => format!("boundary {label} {details}"),
        Body::Note { role, text } => format!("note {}: {text:?}", role.as_str()),
    };
    what + side
}

fn images(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" +{count} image") }
}

pub fn read_source(source: &Source, format: Format) -> (Collected, Report) {
    let mut sink = Collected::default();
    let report = transcripts::read(source, format, &mut sink).expect("the test reads what exists");
    (sink, report)
}

/// Detects the format of `bytes` and reads them.
pub fn read_bytes(bytes: &[u8]) -> (Format, Collected) {
    let source =
        Source::spool(&mut &bytes[..], "test", &std::env::temp_dir()).expect("the test reads what exists");
    let format = transcripts::detect(&source).expect("the test reads what exists");
    (format, read_source(&source, format).0)
}
