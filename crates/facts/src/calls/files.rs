//! The files that tool calls read, write and delete. A call that failed or was declined leaves no trace, and a file has
//! one name although agents use absolute and relative paths for it. Neither does a call without a result: it may wait for an
//! approval.

pub(crate) mod same_file;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use protocol::Seq;

use crate::calls::outcomes::CallEffect;
use crate::facts::FileUse;
use crate::limits::{NAME_BYTES_MAX, NAMES_COUNTED_MAX, PENDING_CALLS_MAX, USES_KEPT_MAX};
use crate::tool_use::ToolUse;

/// The effects of a call on files that become void or valid with its result.
#[derive(Debug, Clone)]
struct PendingUse {
    /// The number of the call in the thread. Calls of one message share a `seq`.
    order: u64,
    /// `seq` of the call.
    seq: Seq,
    /// The files that the call uses, as they were before it.
    before: Vec<FileUse>,
    /// The files and folders that the call deletes.
    deletes: Vec<String>,
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
    /// Number of calls recorded.
    call_count: u64,
    /// True after the first result. Some formats record none, and their calls count as performed.
    has_results: bool,
}

impl FileTracker {
    /// Records the files that a call reads and writes. They are undone unless a result confirms
    /// them.
    pub(crate) fn record_call(&mut self, seq: Seq, call_id: &str, usage: &ToolUse) {
        if usage.reads.is_empty() && usage.writes.is_empty() && usage.deletes.is_empty() {
            return;
        }
        let paths = usage.reads.iter().chain(&usage.writes);
        let before = paths.map(|path| self.file_at(path)).collect();
        for path in &usage.reads {
            self.change(path, |file| {
                file.record_use(seq);
                file.last_read_seq = seq;
            });
        }
        for path in &usage.writes {
            self.change(path, |file| {
                file.is_created |= file.first_use_seq == 0 && usage.writes_whole_file;
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
        let deletes = usage.deletes.clone();
        self.call_count += 1;
        let call = PendingUse { order: self.call_count, seq, before, deletes, is_check };
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

    /// Records the result of a call: its uses are undone if it had no effect, else its deletions take effect.
    pub(crate) fn record_result(&mut self, seq: Seq, call_id: &str, effect: CallEffect) {
        self.has_results = true;
        let Some(call) = self.pending.remove(call_id) else { return };
        match effect {
            CallEffect::Performed => call.deletes.iter().for_each(|path| self.delete(path, seq)),
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

    /// Marks a file as deleted, or all known files in a folder.
    fn delete(&mut self, path: &str, seq: Seq) {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let inside = self.files.values_mut().filter(|file| file.path.starts_with(&folder));
        let count = inside.map(|file| file.deleted_seq = seq).count();
        if count == 0 && path.rsplit('/').next().is_some_and(|name| name.contains('.')) {
            self.change(path, |file| file.deleted_seq = seq);
        } else if let Some(file) = self.files.get_mut(path) {
            file.deleted_seq = seq;
        }
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
            let is_only_read = file.last_write_seq == 0 && file.deleted_seq == 0;
            reads += usize::from(is_only_read);
            !is_only_read || reads <= USES_KEPT_MAX
        });
        files
    }

    /// Returns the files with the paths below the working folder made relative, without secrets, and uses of one file joined.
    fn files_with_one_name(&self) -> Vec<FileUse> {
        let root = working_folder(&self.files).unwrap_or_default();
        let mut files: HashMap<Cow<'_, str>, FileUse> = HashMap::with_capacity(self.files.len());
        for file in self.files.values() {
            // The whole path is searched, because a secret may be recognized by what is before it.
            let path = match secrets::redact(&file.path) {
                Cow::Borrowed(path) => Cow::Borrowed(path.strip_prefix(root).unwrap_or(path)),
                Cow::Owned(path) => Cow::Owned(path.strip_prefix(root).unwrap_or(&path).to_owned()),
            };
            let unused = || FileUse { path: path.clone().into_owned(), ..FileUse::default() };
            let joined = files.entry(path.clone()).or_insert_with(unused);
            joined.join_uses(file);
        }
        same_file::join_same_files(files.into_values().collect())
    }
}

/// Returns the folder that relative paths are relative to, with its final slash: the one below which the most absolute
/// paths continue as a relative path. Pairs with only a file name in common count if the folder has at least half of all
/// absolute paths. Returns `None` when no absolute and relative path belong together.
fn working_folder(files: &HashMap<String, FileUse>) -> Option<&str> {
    let is_absolute = same_file::is_absolute;
    let relative: HashSet<&str> = files
        .keys()
        .map(String::as_str)
        .filter(|path| !is_absolute(path) && !path.starts_with('~') && !path.starts_with(".."))
        .collect();
    let absolute: Vec<&str> = files.keys().map(String::as_str).filter(|path| is_absolute(path)).collect();
    let mut support: HashMap<&str, (usize, usize)> = HashMap::new();
    for path in &absolute {
        for (slash, _) in path.match_indices('/').filter(|(slash, _)| *slash > 0) {
            let (root, inside) = path.split_at(slash + 1);
            if relative.contains(inside) {
                let (with_folder, bare) = support.entry(root).or_default();
                *(if inside.contains('/') { with_folder } else { bare }) += 1;
            }
        }
    }
    let is_common =
        |root: &str| 2 * absolute.iter().filter(|path| path.starts_with(root)).count() >= absolute.len();
    let candidates =
        support.into_iter().filter(|(root, (with_folder, _))| *with_folder > 0 || is_common(root));
    candidates
        .max_by(|(a, a_support), (b, b_support)| a_support.cmp(b_support).then_with(|| b.cmp(a)))
        .map(|(root, _)| root)
}
