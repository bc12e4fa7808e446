//! A sink that keeps everything, and short ways to read text and to show entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use transcripts::{
    ConversationInfo, EntryBody, EntryKind, EntryRole, EntryTrack, ReadReport, SessionFormat, SinkError,
    TranscriptEntry, TranscriptProblem, TranscriptSink, TranscriptSource,
};

/// One conversation with its entries.
#[derive(Debug)]
pub struct CollectedConversation {
    pub key: String,
    pub conversation: ConversationInfo,
    pub entries: Vec<TranscriptEntry>,
}

#[derive(Debug, Default)]
pub struct CollectedTranscript {
    pub conversations: Vec<CollectedConversation>,
    pub problems: Vec<TranscriptProblem>,
}

impl TranscriptSink for CollectedTranscript {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.conversations.push(CollectedConversation {
            key: conversation.source_key(),
            conversation: conversation.clone(),
            entries: Vec::new(),
        });
        Ok(())
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        self.conversations.last_mut().expect("an entry comes after a beginning").entries.push(entry);
        Ok(())
    }

    fn end_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.conversations.last_mut().expect("an entry comes after a beginning").conversation =
            conversation.clone();
        Ok(())
    }

    fn report_problem(&mut self, problem: TranscriptProblem) {
        self.problems.push(problem);
    }

    fn report_progress(&mut self, _: u64) {}
}

impl CollectedTranscript {
    pub fn entries(&self) -> impl Iterator<Item = &TranscriptEntry> {
        self.conversations.iter().flat_map(|read| &read.entries)
    }

    pub fn count(&self, kind: EntryKind) -> usize {
        self.entries().filter(|entry| entry.kind() == kind).count()
    }

    pub fn user_turns(&self) -> usize {
        self.entries()
            .filter(|entry| entry.role() == EntryRole::User && entry.kind() == EntryKind::Text)
            .count()
    }

    /// Calls without result and results without call, counted per conversation; a result that names no call is no orphan.
    pub fn unpaired_counts(&self) -> (usize, usize) {
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

fn call_id(entry: &TranscriptEntry) -> Option<&String> {
    match &entry.body {
        EntryBody::ToolCall { call_id, .. } | EntryBody::ToolResult { call_id, .. } => call_id.as_ref(),
        _ => None,
    }
}

fn line(entry: &TranscriptEntry) -> String {
    let side = if entry.track == EntryTrack::Side { " (side)" } else { "" };
    let what = match &entry.body {
        EntryBody::Text { author: by, text, media } => format!("{by:?}: {text:?}{}", images(media.len())),
        EntryBody::Thinking { text } => format!("thinking: {text:?}"),
        EntryBody::ToolCall { call_id, tool, args } => format!("call {call_id:?} {tool} {args}"),
        EntryBody::ToolResult { call_id, tool, text, media, status } => {
            format!("result {call_id:?} {tool:?} {status:?}: {text:?}{}", images(media.len()))
        }
        EntryBody::Summary { text } => format!("summary: {text:?}"),
        EntryBody::Boundary { label, details } => format!("boundary {label} {details}"),
        EntryBody::Note { role, text } => format!("note {}: {text:?}", role.as_str()),
    };
    what + side
}

fn images(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" +{count} image") }
}

pub fn read_source(source: &TranscriptSource, format: SessionFormat) -> (CollectedTranscript, ReadReport) {
    let mut sink = CollectedTranscript::default();
    let report =
        transcripts::read_conversations(source, format, &mut sink).expect("the test reads what exists");
    (sink, report)
}

/// Detects the format of `bytes` and reads them.
pub fn read_bytes(bytes: &[u8]) -> (SessionFormat, CollectedTranscript) {
    let source = TranscriptSource::from_reader(&mut &bytes[..], "test", &std::env::temp_dir())
        .expect("the test reads what exists");
    let format = transcripts::detect_format(&source).expect("the test reads what exists");
    (format, read_source(&source, format).0)
}
