//! A sink that collects all entries, and functions that read a text and render entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use transcripts::{
    ConversationInfo, EntryBody, EntryKind, EntryRole, EntryTrack, ReadReport, SessionFormat, SinkError,
    TranscriptEntry, TranscriptProblem, TranscriptSink, TranscriptSource,
};

/// A conversation with its entries.
#[derive(Debug)]
pub struct CollectedConversation {
    /// The source key at the start of the conversation.
    pub key: String,
    pub conversation: ConversationInfo,
    pub entries: Vec<TranscriptEntry>,
}

/// A sink that collects everything it receives.
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
        self.conversations.last_mut().expect("a conversation has been started").entries.push(entry);
        Ok(())
    }

    fn end_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.conversations.last_mut().expect("a conversation has been started").conversation =
            conversation.clone();
        Ok(())
    }

    fn report_problem(&mut self, problem: TranscriptProblem) {
        self.problems.push(problem);
    }

    fn report_progress(&mut self, _: u64) {}
}

impl CollectedTranscript {
    /// Returns the entries of all conversations.
    pub fn entries(&self) -> impl Iterator<Item = &TranscriptEntry> {
        self.conversations.iter().flat_map(|conversation| &conversation.entries)
    }

    pub fn count(&self, kind: EntryKind) -> usize {
        self.entries().filter(|entry| entry.kind() == kind).count()
    }

    /// Returns the number of texts with the role `user`, including injected ones.
    pub fn user_turns(&self) -> usize {
        self.entries()
            .filter(|entry| entry.role() == EntryRole::User && entry.kind() == EntryKind::Text)
            .count()
    }

    /// Returns the number of calls without a result and of results without a call. Ids are compared within a
    /// conversation. A result without a call id does not count.
    pub fn unpaired_counts(&self) -> (usize, usize) {
        self.conversations.iter().fold((0, 0), |(unanswered, orphans), conversation| {
            let ids = |kind: EntryKind| -> BTreeSet<Option<&String>> {
                conversation.entries.iter().filter(|entry| entry.kind() == kind).map(call_id).collect()
            };
            let (calls, results) = (ids(EntryKind::ToolCall), ids(EntryKind::ToolResult));
            (
                unanswered + calls.difference(&results).count(),
                orphans + results.difference(&calls).flatten().count(),
            )
        })
    }

    /// Returns the conversations and problems in a compact form, with one line for each entry.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for CollectedConversation { key, conversation, entries } in &self.conversations {
            writeln!(text, "== {key} {:?} {:?}", conversation.title, conversation.workspace)
                .expect("writing to a String does not fail");
            for entry in entries {
                writeln!(text, "{}", line(entry)).expect("writing to a String does not fail");
            }
        }
        for problem in &self.problems {
            writeln!(text, "! line {:?}: {}", problem.line, problem.reason)
                .expect("writing to a String does not fail");
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
    let content = match &entry.body {
        EntryBody::Text { author, text, media } => format!("{author:?}: {text:?}{}", images(media.len())),
        EntryBody::Thinking { text } => format!("thinking: {text:?}"),
        EntryBody::ToolCall { call_id, tool, args } => format!("call {call_id:?} {tool} {args}"),
        EntryBody::ToolResult { call_id, tool, text, media, status } => {
            format!("result {call_id:?} {tool:?} {status:?}: {text:?}{}", images(media.len()))
        }
        EntryBody::Summary { text } => format!("summary: {text:?}"),
        EntryBody::Boundary { label, details } => format!("boundary {label} {details}"),
        EntryBody::Note { role, text } => format!("note {}: {text:?}", role.as_str()),
    };
    content + side
}

fn images(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" +{count} image") }
}

/// Reads `source` as `format`.
pub fn read_source(source: &TranscriptSource, format: SessionFormat) -> (CollectedTranscript, ReadReport) {
    let mut sink = CollectedTranscript::default();
    let report = transcripts::read_conversations(source, format, &mut sink).expect("the source is readable");
    (sink, report)
}

/// Detects the format of `bytes` and reads them.
pub fn read_bytes(bytes: &[u8]) -> (SessionFormat, CollectedTranscript) {
    let source = TranscriptSource::from_reader(&mut &bytes[..], "test", &std::env::temp_dir())
        .expect("the temporary file is written");
    let format = transcripts::detect_format(&source).expect("the format is supported");
    (format, read_source(&source, format).0)
}
