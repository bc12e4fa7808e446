//! Real conversations, read from the files beside the workspace; they may be absent.

use std::path::{Path, PathBuf};

use facts::Item;
use jiff::Timestamp;
use protocol::{Event, ThreadId};
use transcripts::{Conversation, Entry, Format, Problem, Sink, SinkError, Source};

/// One conversation.
pub struct Read {
    pub name: String,
    pub items: Vec<Item>,
}

struct Reader {
    format: Format,
    file: String,
    read: Vec<Read>,
}

impl Sink for Reader {
    fn begin(&mut self, conversation: &Conversation) -> Result<(), SinkError> {
        let name = format!("{}::{}", self.file, conversation.name);
        self.read.push(Read { name, items: Vec::new() });
        Ok(())
    }

    fn entry(&mut self, entry: Entry) -> Result<(), SinkError> {
        let new = entry.into_event(self.format, Timestamp::UNIX_EPOCH)?;
        let items = &mut self.read.last_mut().unwrap().items;
        let event = Event::stored(new, ThreadId::generate(), items.len() as u64 + 1);
        items.push(Item::from_event(&event));
        Ok(())
    }

    fn end(&mut self, _: &Conversation) -> Result<(), SinkError> {
        Ok(())
    }

    fn problem(&mut self, _: Problem) {}

    fn progress(&mut self, _: u64) {}
}

/// Returns every conversation, or says that there are none.
pub fn all() -> Vec<Read> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open");
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    let mut read = Vec::new();
    for path in files {
        let source = Source::file(&path);
        let Ok(format) = transcripts::detect(&source) else { continue };
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut reader = Reader { format, file, read: Vec::new() };
        transcripts::read(&source, format, &mut reader).unwrap();
        read.extend(reader.read);
    }
    if read.is_empty() {
        eprintln!("skipped: no real conversations beside the workspace");
    }
    read
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}
