//! The history of what was written, one per home folder and for its owner's eyes only. What was pasted is in it in full,
//! so that a line can be sent again later.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{
    FileBackedHistory, HistoryItem, HistoryItemId, HistorySessionId, Result as EditorResult, SearchQuery,
};

use super::Shared;
use crate::exit::{Code, Failure};

/// Lines that are kept.
const LINES_MAX: usize = 1_000;
/// A line that is longer with what was pasted into it is kept as it was seen.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// The file in the home folder.
const FILE: &str = "chat_history.txt";

/// The history of the editor.
pub(super) struct History {
    lines: FileBackedHistory,
    shared: Arc<Mutex<Shared>>,
}

impl History {
    pub(super) fn open(home: &Path, shared: Arc<Mutex<Shared>>) -> Result<Self, Failure> {
        let path = home.join(FILE);
        create_private(&path)?;
        let lines = FileBackedHistory::with_file(LINES_MAX, path.clone())
            .map_err(|error| Failure::new(Code::Store, format!("read {}: {error}", path.display())))?;
        Ok(Self { lines, shared })
    }
}

impl reedline::History for History {
    fn save(&mut self, item: HistoryItem) -> EditorResult<HistoryItem> {
        let whole = self.shared.lock().pastes.written(&item.command_line).text;
        let item = match whole.len() <= LINE_BYTES_MAX {
            true => HistoryItem { command_line: whole, ..item },
            false => item,
        };
        let saved = self.lines.save(item)?;
        // A history that cannot be written must not keep the line from being sent; it is tried again with the next.
        let _ = self.lines.sync();
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> EditorResult<HistoryItem> {
        self.lines.load(id)
    }

    fn count(&self, query: SearchQuery) -> EditorResult<i64> {
        self.lines.count(query)
    }

    fn search(&self, query: SearchQuery) -> EditorResult<Vec<HistoryItem>> {
        self.lines.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> EditorResult<()> {
        self.lines.update(id, updater)
    }

    fn clear(&mut self) -> EditorResult<()> {
        self.lines.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> EditorResult<()> {
        self.lines.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.lines.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.lines.session()
    }
}

/// What a person wrote is theirs alone to read.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
