//! Reads real conversations from files next to the workspace. Without such files, the tests are skipped.

use std::path::{Path, PathBuf};

use facts::TranscriptItem;
use jiff::Timestamp;
use protocol::{Event, ThreadId};
use transcripts::{
    ConversationInfo, SessionFormat, SinkError, TranscriptEntry, TranscriptProblem, TranscriptSink,
    TranscriptSource,
};

/// A conversation that was read from a file.
pub struct ReadConversation {
    /// The name of the file and of the conversation in it.
    pub name: String,
    /// The events of the conversation.
    pub items: Vec<TranscriptItem>,
}

/// A sink that collects the conversations of a file.
struct ConversationReader {
    format: SessionFormat,
    file: String,
    conversations: Vec<ReadConversation>,
}

impl TranscriptSink for ConversationReader {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        let name = format!("{}::{}", self.file, conversation.name);
        self.conversations.push(ReadConversation { name, items: Vec::new() });
        Ok(())
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        let new = entry.into_event(self.format, Timestamp::UNIX_EPOCH)?;
        let items = &mut self.conversations.last_mut().unwrap().items;
        let event = Event::from_new(new, ThreadId::generate(), items.len() as u64 + 1);
        items.push(TranscriptItem::from_event(&event));
        Ok(())
    }

    fn end_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }

    fn report_problem(&mut self, _: TranscriptProblem) {}

    fn report_progress(&mut self, _: u64) {}
}

/// Returns all conversations. If there are none, prints a note that the test is skipped.
pub fn read_all() -> Vec<ReadConversation> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open");
    let mut files = Vec::new();
    collect_files(&folder, &mut files);
    files.sort();
    let mut conversations = Vec::new();
    for path in files {
        let source = TranscriptSource::from_file(&path);
        let Ok(format) = transcripts::detect_format(&source) else { continue };
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut reader = ConversationReader { format, file, conversations: Vec::new() };
        transcripts::read_conversations(&source, format, &mut reader).unwrap();
        conversations.extend(reader.conversations);
    }
    if conversations.is_empty() {
        eprintln!("skipped: no real conversations next to the workspace");
    }
    conversations
}

/// Adds all files of the folder and of its subfolders to `files`.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { collect_files(&path, files) } else { files.push(path) }
    }
}
