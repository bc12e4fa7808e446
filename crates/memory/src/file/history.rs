//! The history of agent.md: each state of the notes that Segue finds or writes is a revision in the journal, and can be
//! shown and restored. The managed block is not part of it.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{
    NotesRevision, NotesRevisionQuery, NotesRevisionRecord, PAGE_ROWS_MAX, RevisionCause, Store, Transaction,
    Write,
};
use protocol::AssistantId;
use text_diff::{DiffHeader, LineTag};
use tokio::runtime::Handle;

use super::{AgentFile, AgentFileGuard, BlockIntent, FileAction};
use crate::managed_block::{self, MalformedMarkers};
use crate::{AGENT_MD_BYTES_MAX, Error, ReadExtent, Result};

/// Number of unchanged lines around a change in a diff.
const CONTEXT_LINES: usize = 3;

/// The agent.md of an assistant, and the journal that holds its revisions.
#[derive(Clone)]
pub struct NotesHistory {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The assistant.
    pub agent_id: AssistantId,
    /// Its agent.md.
    pub file: Arc<AgentFile>,
}

/// An entry in the list of revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionEntry {
    /// The number of the revision.
    pub number: u64,
    /// The time at which it was recorded.
    pub created_at: Timestamp,
    /// The reason for the change.
    pub cause: RevisionCause,
    /// The lower-case hex SHA-256 of the notes.
    pub sha256: String,
    /// Number of lines that were added since the revision before it.
    pub added_lines: usize,
    /// Number of lines that were removed since the revision before it.
    pub removed_lines: usize,
}

/// The result of restoring a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// The file has the notes of the revision.
    Restored,
    /// The file had these notes already and was left alone.
    Unchanged,
}

/// A change of agent.md, or a look at its history, failed.
///
/// The messages read on after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] Error),
    /// There is no revision with this number.
    #[error("find revision {number} of agent.md")]
    UnknownRevision {
        /// The given number.
        number: u64,
    },
    /// The journal failed. The file may have been changed; the next revision has the change.
    #[error("record a revision of agent.md")]
    Journal(#[from] journal::Error),
    /// The task that changes the file panicked, or the runtime shut down.
    #[error("finish the change of agent.md")]
    Task(#[from] tokio::task::JoinError),
}

impl HistoryError {
    /// Returns what the user can do about the error, as a clause without a period.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File(error) => error.hint(),
            Self::UnknownRevision { .. } => "`segue memory history` lists the revisions",
            Self::Journal(_) | Self::Task(_) => "try again",
        }
    }
}

/// A change of agent.md with its record. The file is locked as long as this lives, so that revisions have the order of the
/// changes. It is used on a blocking thread only.
pub(crate) struct NotesSession<'a> {
    history: &'a NotesHistory,
    guard: AgentFileGuard<'a>,
    runtime: Handle,
}

/// The notes of a file, and the place of the managed block among them.
#[derive(Debug, PartialEq, Eq)]
struct NotesState {
    notes: Vec<u8>,
    block_offset: Option<u64>,
}

impl NotesState {
    /// Returns the state of a file with this text.
    fn of(text: &[u8]) -> Self {
        let block_offset = match managed_block::managed_ranges(text).as_slice() {
            [only] => Some(only.start as u64),
            _ => None,
        };
        Self { notes: managed_block::remove_blocks(text), block_offset }
    }
}

impl NotesHistory {
    /// Changes agent.md with `operation`. The state before is recorded if it is not known yet, and the state after it with its
    /// cause, both while the file is locked.
    ///
    /// # Errors
    /// When the operation or the journal fails. If the journal fails after the change, the change is recorded with the next
    /// one.
    pub fn change<'a, T: Send + 'static>(
        &'a self,
        cause: RevisionCause,
        operation: impl FnOnce(&mut AgentFileGuard<'_>) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'a, std::result::Result<T, HistoryError>> {
        self.with_locked_file(move |session| session.change(cause, operation))
    }

    /// Performs `work` with the file locked, on a blocking thread, because the lock may be that of another process. The work is
    /// completed even if the future is dropped.
    pub(crate) fn with_locked_file<'a, T, E>(
        &'a self,
        work: impl FnOnce(&mut NotesSession<'_>) -> std::result::Result<T, E> + Send + 'static,
    ) -> BoxFuture<'a, std::result::Result<T, E>>
    where
        T: Send + 'static,
        E: From<HistoryError> + Send + 'static,
    {
        journal::box_future(async move {
            let (history, runtime) = (self.clone(), Handle::current());
            let performed = tokio::task::spawn_blocking(move || {
                let guard = history.file.lock().map_err(HistoryError::File)?;
                work(&mut NotesSession { history: &history, guard, runtime })
            });
            performed.await.map_err(HistoryError::Task)?
        })
    }

    /// Returns a page of the revisions, newest first, with those before the number `before`. A state of the file that another
    /// program wrote is recorded first.
    ///
    /// # Errors
    /// When the file cannot be read, or the journal fails.
    pub fn revisions<'a>(
        &'a self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, std::result::Result<Vec<RevisionEntry>, HistoryError>> {
        journal::box_future(async move {
            self.record_state(RevisionCause::Outside).await?;
            // The last one is the state before the last entry.
            let limit = limit.min(PAGE_ROWS_MAX - 1);
            let query = NotesRevisionQuery { agent_id: self.agent_id.clone(), before, limit: limit + 1 };
            let found = self.store.notes_revisions(query).await?;
            let entries = found.iter().enumerate().take(limit);
            Ok(entries.map(|(index, revision)| revision_entry(revision, found.get(index + 1))).collect())
        })
    }

    /// Returns the unified diff of a revision to the one before it. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// [`HistoryError::UnknownRevision`] if there is no such revision. Fails if the journal does.
    pub fn diff(&self, number: u64) -> BoxFuture<'_, std::result::Result<String, HistoryError>> {
        journal::box_future(async move {
            let revision = self.revision(number).await?;
            let query =
                NotesRevisionQuery { agent_id: self.agent_id.clone(), before: Some(number), limit: 1 };
            let before = self.store.notes_revisions(query).await?.into_iter().next();
            let before_number = before.as_ref().map_or(0, |before| before.number);
            let names = [before_number, number].map(|number| format!("agent.md#{number}"));
            let (old, new) = (before.as_ref().map(notes_text).unwrap_or_default(), notes_text(&revision));
            let header = DiffHeader { old: &names[0], new: &names[1] };
            Ok(text_diff::unified_diff(&old, &new, CONTEXT_LINES, Some(header)))
        })
    }

    /// Returns the revision with this number.
    ///
    /// # Errors
    /// [`HistoryError::UnknownRevision`] if there is none. Fails if the journal does.
    pub fn revision(&self, number: u64) -> BoxFuture<'_, std::result::Result<NotesRevision, HistoryError>> {
        journal::box_future(async move {
            let before = Some(number.saturating_add(1));
            let query = NotesRevisionQuery { agent_id: self.agent_id.clone(), before, limit: 1 };
            let found = self.store.notes_revisions(query).await?.into_iter().next();
            found.filter(|revision| revision.number == number).ok_or(HistoryError::UnknownRevision { number })
        })
    }

    /// Writes the notes of a revision back, which is a revision itself. The managed block keeps its bytes.
    ///
    /// # Errors
    /// When there is no such revision, when the markers of the block are malformed, and when the file cannot be written.
    pub fn restore(&self, number: u64) -> BoxFuture<'_, std::result::Result<RestoreOutcome, HistoryError>> {
        journal::box_future(async move {
            let revision = self.revision(number).await?;
            self.change(RevisionCause::Restore, move |file| file.restore_notes(&revision)).await
        })
    }

    /// Records the current state of the notes, unless it is the newest revision, or the file has no notes and no history.
    async fn record_state(&self, cause: RevisionCause) -> std::result::Result<(), HistoryError> {
        let snapshot = self.file.read()?;
        if snapshot.extent == ReadExtent::Beginning {
            return Ok(());
        }
        let NotesState { notes, block_offset } = NotesState::of(&snapshot.bytes);
        let agent_id = self.agent_id.clone();
        let query = NotesRevisionQuery { agent_id: agent_id.clone(), before: None, limit: 1 };
        let newest = self.store.notes_revisions(query).await?.into_iter().next();
        let is_known = newest.map_or(notes.is_empty(), |newest| newest.notes == notes);
        if is_known {
            return Ok(());
        }
        let record = NotesRevisionRecord { agent_id, cause, notes, block_offset, at: Timestamp::now() };
        let writes = vec![Write::RecordNotesRevision(record)];
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}

impl NotesSession<'_> {
    /// Changes the file, and records the states before and after.
    pub(crate) fn change<T>(
        &mut self,
        cause: RevisionCause,
        operation: impl FnOnce(&mut AgentFileGuard<'_>) -> Result<T>,
    ) -> std::result::Result<T, HistoryError> {
        self.runtime.block_on(self.history.record_state(RevisionCause::Outside))?;
        let changed = operation(&mut self.guard)?;
        self.runtime.block_on(self.history.record_state(cause))?;
        Ok(changed)
    }

    /// Waits for a request to the journal. A transaction never waits for the lock of the file.
    pub(crate) fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        self.runtime.block_on(request)
    }
}

impl AgentFileGuard<'_> {
    /// Replaces the notes by those of a revision. The managed block keeps its bytes.
    fn restore_notes(&mut self, revision: &NotesRevision) -> Result<RestoreOutcome> {
        let path = self.file.path.clone();
        self.replace(|current| {
            let old = current.unwrap_or_default();
            let bytes = with_notes(old, &revision.notes, revision.block_offset)
                .map_err(|source| Error::MalformedMarkers { path: path.clone(), source })?;
            if bytes.len() as u64 > AGENT_MD_BYTES_MAX {
                let bytes = bytes.len() as u64;
                return Err(Error::TooLarge { path: path.clone(), bytes, bytes_max: AGENT_MD_BYTES_MAX });
            }
            Ok(match bytes == old {
                true => FileAction::KeepFile(RestoreOutcome::Unchanged),
                false => FileAction::ReplaceFile {
                    bytes,
                    block: BlockIntent::KeepBlock,
                    report: RestoreOutcome::Restored,
                },
            })
        })
    }
}

/// Returns the notes of a revision as text.
fn notes_text(revision: &NotesRevision) -> String {
    String::from_utf8_lossy(&revision.notes).into_owned()
}

/// Returns the entry of a revision, with the number of lines that changed since the one before it.
fn revision_entry(revision: &NotesRevision, before: Option<&NotesRevision>) -> RevisionEntry {
    let (old, new) = (before.map(notes_text).unwrap_or_default(), notes_text(revision));
    let lines = text_diff::tagged_lines(&old, &new);
    let count = |wanted| lines.iter().filter(|(tag, _)| *tag == wanted).count();
    RevisionEntry {
        number: revision.number,
        created_at: revision.created_at,
        cause: revision.cause,
        sha256: revision.sha256.clone(),
        added_lines: count(LineTag::Added),
        removed_lines: count(LineTag::Removed),
    }
}

/// Returns `notes` with the managed block of the text `old` at `block_offset`, where it stood when the notes were recorded, or
/// else where a missing block is inserted.
fn with_notes(
    old: &[u8],
    notes: &[u8],
    block_offset: Option<u64>,
) -> std::result::Result<Vec<u8>, MalformedMarkers> {
    let problems = managed_block::marker_problems(old);
    if !problems.is_empty() {
        return Err(MalformedMarkers { problems });
    }
    if managed_block::remove_blocks(old) == notes {
        return Ok(old.to_vec());
    }
    let ranges = managed_block::managed_ranges(old);
    let Some(block) = ranges.first() else { return Ok(notes.to_vec()) };
    let offset = block_offset.and_then(|offset| usize::try_from(offset).ok());
    if let Some(offset) = offset.filter(|offset| *offset <= notes.len()) {
        let text = [&notes[..offset], &old[block.clone()], &notes[offset..]].concat();
        // Notes that open a code fence would hide the block.
        if managed_block::has_same_blocks(old, &text) && managed_block::remove_blocks(&text) == notes {
            return Ok(text);
        }
    }
    managed_block::replace_block(notes, &managed_block::block_content(old).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str =
        "## Recent Thread Snapshot\n<current_thread_summary>\nOf A.\n</current_thread_summary>\n";

    #[test]
    fn restored_notes_keep_the_block_of_the_file_in_the_place_it_had() {
        let check = |before: &str, after: &str, expected: &str| {
            let state = NotesState::of(before.as_bytes());
            let restored = with_notes(after.as_bytes(), &state.notes, state.block_offset).unwrap();
            assert_eq!(String::from_utf8(restored).unwrap(), expected, "{before:?} {after:?}");
        };
        let other = BLOCK.replace("Of A.", "Of B, newer.");
        let between = |block: &str| format!("- one\n\n{block}\n- two\r\n");
        check(&between(BLOCK), &format!("- x\n{other}"), &between(&other));
        check(&between(BLOCK), &between(&other), &between(&other));
        check(&between(BLOCK), "- x\n", "- one\n\n\n- two\r\n");
        check("- one", &format!("- x\n\n{other}"), &format!("- one\n\n{other}"));
        check(&format!("- one\n{BLOCK}"), &other, &format!("- one\n{other}"));
        check("", &between(&other), &other);
    }
}
