//! The files that tool calls read, write and delete. A call that failed or was declined leaves no trace, and a file has
//! one name although agents use absolute and relative paths for it. Neither does a call without a result: it may wait for an
//! approval.

mod operations;
pub(crate) mod same_file;
mod working_folder;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use protocol::Seq;

use crate::calls::outcomes::CallEffect;
use crate::facts::FileUse;
use crate::limits::{NAME_BYTES_MAX, NAMES_COUNTED_MAX, PENDING_CALLS_MAX, USES_KEPT_MAX};
use crate::shell::{FileOperation, FileOperationKind};
use crate::tool_use::ToolUse;
use operations::CommittedUse;
use working_folder::JoinedPaths;

/// The effects of a call on files that become void or valid with its result.
#[derive(Debug, Clone)]
struct PendingUse {
    /// The number of the call in the thread. Calls of one message share a `seq`.
    order: u64,
    /// `seq` of the call.
    seq: Seq,
    /// The files that the call uses, as they were before it.
    before: Vec<FileUse>,
    /// The effects of the call on files, which take place with its result.
    operations: Vec<FileOperation>,
    /// True for a check, which uses its files even if it fails.
    is_check: bool,
}

/// The uses of files by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileTracker {
    /// At most [`NAMES_COUNTED_MAX`] entries.
    files: HashMap<String, FileUse>,
    /// Calls without a result, by call id. At most [`PENDING_CALLS_MAX`].
    pending: HashMap<String, PendingUse>,
    /// The uses of files as of the last commit, by path.
    committed: HashMap<String, CommittedUse>,
    /// The paths that commands named relative to the folder of a `cd`.
    joined_paths: JoinedPaths,
    /// The source and the target of copies and moves: names of two files, even if one ends in the other. At most
    /// [`NAMES_COUNTED_MAX`].
    copies: HashSet<(String, String)>,
    /// Number of calls recorded.
    call_count: u64,
    /// True after the first result. Some formats record none, and their calls count as performed.
    has_results: bool,
}

impl FileTracker {
    /// Records the files that a call reads and writes. They are undone unless a result confirms
    /// them.
    pub(crate) fn record_call(&mut self, seq: Seq, call_id: &str, usage: &ToolUse) {
        if usage.reads.is_empty() && usage.writes.is_empty() && usage.operations.is_empty() {
            return;
        }
        self.joined_paths.record_call(usage);
        for operation in &usage.operations {
            let source = operation.source.clone().filter(|_| self.copies.len() < NAMES_COUNTED_MAX);
            self.copies.extend(source.map(|source| (source, operation.path.clone())));
        }
        let paths = usage.reads.iter().chain(&usage.writes);
        let before = paths.map(|path| self.file_at(path)).collect();
        for path in &usage.reads {
            self.change(path, |file| {
                file.record_use(seq);
                file.last_read_seq = seq;
            });
        }
        let is_creation = |path: &str| {
            let creates = |operation: &FileOperation| operation.kind == FileOperationKind::Create;
            usage.operations.iter().any(|operation| creates(operation) && operation.path == path)
        };
        for path in &usage.writes {
            self.change(path, |file| {
                let writes_whole_file = usage.writes_whole_file || is_creation(path);
                file.is_created |= file.first_use_seq == 0 && writes_whole_file;
                file.record_use(seq);
                file.last_write_seq = seq;
            });
        }
        let oldest = self.pending.iter().min_by_key(|(_, call)| call.order).map(|(id, _)| id.clone());
        if let Some(oldest) = oldest.filter(|_| self.pending.len() >= PENDING_CALLS_MAX) {
            let evicted = self.pending.remove(&oldest).filter(|_| self.has_results);
            evicted.into_iter().for_each(|call| self.undo(call));
        }
        let is_check =
            usage.command.as_deref().is_some_and(|text| crate::shell::detect_check(text).is_some());
        let operations = usage.operations.clone();
        self.call_count += 1;
        let call = PendingUse { order: self.call_count, seq, before, operations, is_check };
        self.pending.insert(call_id.to_owned(), call);
    }

    /// Lets the calls without a result count as performed, because their format records no results.
    pub(crate) fn confirm_pending(&mut self) {
        self.pending.clear();
    }

    /// Undoes the uses of the calls without a result, the latest first.
    fn undo_pending(&mut self) {
        let mut calls: Vec<PendingUse> = self.pending.drain().map(|(_, call)| call).collect();
        calls.sort_unstable_by_key(|call| std::cmp::Reverse(call.order));
        calls.into_iter().for_each(|call| self.undo(call));
    }

    /// Undoes the uses of a call.
    fn undo(&mut self, PendingUse { before, seq, .. }: PendingUse) {
        before.into_iter().for_each(|before| self.restore(before, seq));
    }

    /// Records the result of a call with the beginning `text`: its uses are undone if it had no effect, else its operations
    /// take effect.
    pub(crate) fn record_result(&mut self, seq: Seq, call_id: &str, effect: CallEffect, text: &str) {
        self.has_results = true;
        let Some(call) = self.pending.remove(call_id) else { return };
        match effect {
            CallEffect::Performed => self.perform(&call, seq, text),
            CallEffect::Failed if call.is_check => {}
            CallEffect::Failed | CallEffect::Declined => {
                self.undo(call);
            }
        }
    }

    /// Records a write that only the text of a result reports.
    pub(crate) fn record_write(&mut self, seq: Seq, path: &str) {
        self.change(path, |file| file.last_write_seq = seq);
    }

    /// Undoes the use of a file by the call with this `seq`, unless a later call used the file.
    fn restore(&mut self, before: FileUse, seq: Seq) {
        let Some(file) = self.files.get_mut(&before.path) else { return };
        if file.last_read_seq == seq {
            file.last_read_seq = before.last_read_seq;
        }
        if file.last_write_seq == seq {
            file.last_write_seq = before.last_write_seq;
        }
        file.use_count = file.use_count.saturating_sub(1);
        if file.last_use_seq() == 0 {
            self.files.remove(&before.path);
        }
    }

    /// Returns the present entry of a path, or an unused one.
    fn file_at(&self, path: &str) -> FileUse {
        let unused = || FileUse { path: path.to_owned(), ..FileUse::default() };
        self.files.get(path).cloned().unwrap_or_else(unused)
    }

    /// Applies `change` to the entry of the file at `path`, which is created if necessary. Texts that cannot be a path are
    /// ignored. At [`NAMES_COUNTED_MAX`] files, the half that was used least recently is dropped first.
    fn change(&mut self, path: &str, change: impl FnOnce(&mut FileUse)) {
        if path.is_empty() || path.len() > NAME_BYTES_MAX || path.contains(['`', '\n', '"']) {
            return;
        }
        if self.files.len() >= NAMES_COUNTED_MAX && !self.files.contains_key(path) {
            let mut last_uses: Vec<Seq> = self.files.values().map(FileUse::last_use_seq).collect();
            let (_, median, _) = last_uses.select_nth_unstable(NAMES_COUNTED_MAX / 2);
            let median = *median;
            self.files.retain(|_, file| file.last_use_seq() > median);
        }
        let unused = || FileUse { path: path.to_owned(), ..FileUse::default() };
        change(self.files.entry(path.to_owned()).or_insert_with(unused));
    }

    /// Returns the files by their last use, the latest first: every written or deleted file, and the latest
    /// [`USES_KEPT_MAX`] of those that were only read. Uses by calls without a result are left out.
    pub(crate) fn latest(&self) -> Vec<FileUse> {
        let mut files = if self.pending.is_empty() {
            self.files_with_one_name()
        } else {
            let mut confirmed = self.clone();
            confirmed.undo_pending();
            confirmed.files_with_one_name()
        };
        files.sort_unstable_by(|a, b| {
            b.last_use_seq().cmp(&a.last_use_seq()).then_with(|| a.path.cmp(&b.path))
        });
        let mut reads = 0;
        files.retain(|file| {
            // The use of a file that was restored is undone.
            if file.last_use_seq() == 0 {
                return false;
            }
            let is_only_read = file.last_write_seq == 0 && file.deleted_seq == 0;
            reads += usize::from(is_only_read);
            !is_only_read || reads <= USES_KEPT_MAX
        });
        files
    }

    /// Returns the files with the paths below the working folder made relative, without secrets, and uses of one file joined.
    fn files_with_one_name(&self) -> Vec<FileUse> {
        let root = self.working_folder().unwrap_or_default();
        let mut files: HashMap<Cow<'_, str>, FileUse> = HashMap::with_capacity(self.files.len());
        for file in self.files.values() {
            // The whole path is searched, because a secret may be recognized by what is before it.
            let path = match secrets::redact(&file.path) {
                Cow::Borrowed(path) => Cow::Borrowed(self.joined_paths.shorten(path, root)),
                Cow::Owned(path) => Cow::Owned(path.strip_prefix(root).unwrap_or(&path).to_owned()),
            };
            let unused = || FileUse { path: path.clone().into_owned(), ..FileUse::default() };
            let joined = files.entry(path.clone()).or_insert_with(unused);
            joined.join_uses(file);
        }
        let shorten = |path: &str| self.joined_paths.shorten(path, root).to_owned();
        let copies = self.copies.iter().map(|(source, target)| (shorten(source), shorten(target)));
        // A file that is copied between two working trees is one file, as it is if both are edited.
        let is_inside = |(source, target): &(String, String)| {
            !same_file::is_absolute(source) && !same_file::is_absolute(target)
        };
        let copies = copies.filter(is_inside).collect();
        same_file::join_same_files(files.into_values().collect(), &copies)
    }
}

#[cfg(test)]
mod tests;
