//! The input history: one file in the home folder that only its owner can read. Lines contain pasted text in full, so
//! that a line can be sent again in a later chat.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{
    FileBackedHistory, HistoryItem, HistoryItemId, HistorySessionId, Result as EditorResult, SearchQuery,
};

use super::EditorState;
use crate::exit::{CliFailure, ExitReason};

/// The most lines that are stored. The oldest lines are dropped first.
const LINES_MAX: usize = 1_000;
/// The longest line, in bytes, that is stored with its pasted text. A longer line is stored with labels in place of the
/// pasted text.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// The name of the file in the home folder.
const HISTORY_FILE: &str = "chat_history.txt";

/// The history of the editor.
pub(super) struct ChatHistory {
    /// The history file.
    inner: FileBackedHistory,
    /// The pasted texts, to expand their labels.
    shared: Arc<Mutex<EditorState>>,
}

impl ChatHistory {
    /// Opens the history, and creates its file if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be created or read.
    pub(super) fn open(home: &Path, shared: Arc<Mutex<EditorState>>) -> Result<Self, CliFailure> {
        let path = home.join(HISTORY_FILE);
        create_private(&path)?;
        let inner = FileBackedHistory::with_file(LINES_MAX, path.clone()).map_err(|error| {
            CliFailure::new(ExitReason::Store, format!("read {}: {error}", path.display()))
        })?;
        Ok(Self { inner, shared })
    }
}

impl reedline::History for ChatHistory {
    fn save(&mut self, item: HistoryItem) -> EditorResult<HistoryItem> {
        let whole = self.shared.lock().pastes.expand(&item.command_line).text;
        let item = match whole.len() <= LINE_BYTES_MAX {
            true => HistoryItem { command_line: whole, ..item },
            false => item,
        };
        let saved = self.inner.save(item)?;
        // A failed write must not prevent the line from being sent. The next line writes both.
        let _ = self.inner.sync();
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> EditorResult<HistoryItem> {
        self.inner.load(id)
    }

    fn count(&self, query: SearchQuery) -> EditorResult<i64> {
        self.inner.count(query)
    }

    fn search(&self, query: SearchQuery) -> EditorResult<Vec<HistoryItem>> {
        self.inner.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> EditorResult<()> {
        self.inner.update(id, updater)
    }

    fn clear(&mut self) -> EditorResult<()> {
        self.inner.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> EditorResult<()> {
        self.inner.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.inner.session()
    }
}

/// Creates the file with mode 0600 unless it exists: only the owner may read what they wrote.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
