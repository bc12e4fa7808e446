//! The effects of performed commands on the tracked files: deletions, commits, and what git restores. An operation that the
//! output of its command reports as failed has no effect.

use protocol::Seq;

use super::{FileTracker, PendingUse, same_file};
use crate::facts::FileUse;
use crate::shell::{self, FileOperation, FileOperationKind};

/// Beginnings of the messages with which git reports that it did nothing to a path.
const GIT_FAILURES: [&str; 4] = ["pathspec ", "bad source", "not under version control", "destination "];

/// The uses of a file as of the last commit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CommittedUse {
    /// `seq` of the last event that wrote the file; 0 if there is none.
    last_write_seq: Seq,
    /// `seq` of the last event that deleted the file; 0 if there is none.
    deleted_seq: Seq,
}

impl FileTracker {
    /// Lets the operations of a call take effect with its result, which begins with `text`.
    pub(super) fn perform(&mut self, call: &PendingUse, seq: Seq, text: &str) {
        let is_done = |operation: &&FileOperation| !reports_failure(text, operation);
        let (done, failed): (Vec<_>, Vec<_>) = call.operations.iter().partition(is_done);
        for operation in failed.iter().filter(|operation| is_write(operation)) {
            let is_written = done.iter().any(|other| is_write(other) && other.path == operation.path);
            let before = call.before.iter().find(|file| file.path == operation.path);
            if let Some(before) = before.filter(|_| !is_written) {
                self.restore(before.clone(), call.seq);
            }
        }
        for operation in done {
            match operation.kind {
                FileOperationKind::Edit | FileOperationKind::Create => {
                    self.confirm_write(&operation.path, call.seq, seq)
                }
                FileOperationKind::Delete => self.delete(&operation.path, seq),
                FileOperationKind::Discard => self.discard(&operation.path, seq),
                FileOperationKind::Restore => self.restore_committed(&operation.path),
                FileOperationKind::Reset => self.reset(&operation.path),
                FileOperationKind::Clean => self.delete_untracked(&operation.path, seq),
                FileOperationKind::Commit => self.commit(),
            }
        }
    }

    /// Confirms the write of a file by the call `call_seq`. An earlier operation of the call may have deleted or restored the
    /// file.
    fn confirm_write(&mut self, path: &str, call_seq: Seq, seq: Seq) {
        self.change(path, |file| {
            let write_seq = if file.deleted_seq >= seq { seq } else { call_seq };
            file.last_write_seq = file.last_write_seq.max(write_seq);
        });
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

    /// Marks a temporary file as deleted, or all known files in a temporary folder. A file of the working folder is none,
    /// even if that folder is a temporary one.
    fn discard(&mut self, path: &str, seq: Seq) {
        let root = self.working_folder().map(str::to_owned);
        let is_work = |path: &str| {
            root.as_deref().is_some_and(|root| shell::is_temporary_file(root) && path.starts_with(root))
        };
        self.delete(path, seq);
        for file in self.files.values_mut().filter(|file| file.deleted_seq == seq && !is_work(&file.path)) {
            if shell::is_temporary_file(&file.path) {
                file.is_created = true;
                file.first_use_seq = if file.first_use_seq == 0 { seq } else { file.first_use_seq };
            }
        }
    }

    /// Records a commit of all changes.
    fn commit(&mut self) {
        let changed = self.files.values().filter(|file| self.has_uncommitted_use(file));
        let changed: Vec<_> = changed.map(|file| (file.path.clone(), CommittedUse::of(file))).collect();
        self.committed.extend(changed);
    }

    /// Undoes what was done to a file, or to all files in a folder, after the last commit. An empty path is the working
    /// folder.
    fn restore_committed(&mut self, path: &str) {
        let root = self.working_folder().unwrap_or_default();
        let path = relative_path(root, path).trim_end_matches('/');
        let changed = || self.files.values().filter(|file| self.has_uncommitted_use(file));
        let relative = |file: &FileUse| relative_path(root, &file.path).to_owned();
        let mut restored: Vec<String> =
            changed().filter(|file| relative(file) == path).map(|file| file.path.clone()).collect();
        if restored.is_empty() {
            // The other name of the file may be relative to another folder.
            let is_same = |file: &&FileUse| is_end(&relative(file), path) || is_end(path, &relative(file));
            let same: Vec<&FileUse> = changed().filter(is_same).collect();
            restored.extend(same.first().filter(|_| same.len() == 1).map(|file| file.path.clone()));
        }
        if restored.is_empty() {
            let folder = format!("{path}/");
            let is_inside = |file: &&FileUse| {
                let name = relative(file);
                path.is_empty()
                    || name.starts_with(&folder)
                    || same_file::is_absolute(&name) && name.contains(&format!("/{folder}"))
            };
            let inside = changed().filter(is_inside).filter(|file| !self.is_untracked(file));
            restored.extend(inside.map(|file| file.path.clone()));
        }
        for path in restored {
            self.undo_uncommitted(&path);
        }
    }

    /// Undoes what was done to the files of a repository after its last commit. `folder` is a folder of it, or empty. Files
    /// that git does not know stay.
    fn reset(&mut self, folder: &str) {
        for path in self.uncommitted_files(folder) {
            if self.files.get(&path).is_some_and(|file| !self.is_untracked(file)) {
                self.undo_uncommitted(&path);
            }
        }
    }

    /// Marks the files as deleted that the thread created in a repository and did not commit.
    fn delete_untracked(&mut self, folder: &str, seq: Seq) {
        for path in self.uncommitted_files(folder) {
            if self.files.get(&path).is_some_and(|file| self.is_untracked(file)) {
                self.change(&path, |file| file.deleted_seq = seq);
            }
        }
    }

    /// Returns the paths of the files with uncommitted uses in the repository to which `folder` belongs.
    fn uncommitted_files(&self, folder: &str) -> Vec<String> {
        let root = self.working_folder();
        let is_root = !same_file::is_absolute(folder)
            || root.is_none_or(|root| format!("{folder}/").starts_with(root) || root.starts_with(folder));
        let is_inside = |path: &str| {
            let is_in_folder = path.strip_prefix(folder).is_some_and(|inside| inside.starts_with('/'));
            match root {
                _ if !same_file::is_absolute(path) => is_root,
                Some(root) => is_in_folder || is_root && path.starts_with(root),
                None => is_in_folder || !same_file::is_absolute(folder),
            }
        };
        let files =
            self.files.values().filter(|file| self.has_uncommitted_use(file) && is_inside(&file.path));
        files.map(|file| file.path.clone()).collect()
    }

    /// Sets the uses of a file to those of the last commit.
    fn undo_uncommitted(&mut self, path: &str) {
        let committed = self.committed.get(path).copied().unwrap_or_default();
        self.change(path, |file| {
            file.last_write_seq = committed.last_write_seq;
            file.deleted_seq = committed.deleted_seq;
            // Git could not restore a file that was not committed.
            file.is_created &= committed.last_write_seq > 0;
        });
    }

    /// Returns whether a file was written or deleted after the last commit.
    fn has_uncommitted_use(&self, file: &FileUse) -> bool {
        let committed = self.committed.get(&file.path).copied().unwrap_or_default();
        file.last_write_seq > committed.last_write_seq || file.deleted_seq > committed.deleted_seq
    }

    /// Returns whether the thread created the file and did not commit it.
    fn is_untracked(&self, file: &FileUse) -> bool {
        file.is_created && !self.committed.contains_key(&file.path)
    }
}

impl CommittedUse {
    /// Returns the uses of a file that is committed now.
    fn of(file: &FileUse) -> Self {
        Self { last_write_seq: file.last_write_seq, deleted_seq: file.deleted_seq }
    }
}

/// Returns a path without the working folder `root`; an empty path for the working folder itself.
fn relative_path<'p>(root: &str, path: &'p str) -> &'p str {
    let is_root = !root.is_empty() && path.trim_end_matches('/') == root.trim_end_matches('/');
    if is_root { "" } else { path.strip_prefix(root).unwrap_or(path) }
}

/// Returns whether `path` ends in the whole path `end`.
fn is_end(path: &str, end: &str) -> bool {
    !end.is_empty()
        && path.strip_suffix(end.trim_start_matches("../")).is_some_and(|folder| folder.ends_with('/'))
}

/// Returns whether an operation writes a file.
fn is_write(operation: &FileOperation) -> bool {
    matches!(operation.kind, FileOperationKind::Edit | FileOperationKind::Create)
}

/// Returns whether the output of a command reports that an operation failed: in a line that begins with the program and
/// names the operand, such as `rm: cannot remove 'a.md': No such file or directory`.
fn reports_failure(output: &str, operation: &FileOperation) -> bool {
    if operation.operand.is_empty() {
        return false;
    }
    let is_git = operation.program == "git";
    let labels: &[&str] = if is_git { &["fatal", "error"] } else { &[&operation.program] };
    output.lines().any(|line| {
        let message =
            labels.iter().find_map(|label| line.trim_start().strip_prefix(label)?.strip_prefix(": "));
        message.is_some_and(|message| {
            // Other programs label errors as git does.
            let is_own = !is_git || GIT_FAILURES.iter().any(|beginning| message.starts_with(beginning));
            let names_target = message.starts_with("target ") || message.starts_with("destination ");
            is_own && (names_target || names_operand(message, &operation.operand))
        })
    })
}

/// Returns whether an error message contains the operand as a whole word.
fn names_operand(message: &str, operand: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_');
    message.match_indices(operand).any(|(start, _)| {
        let before = message[..start].chars().next_back();
        let after = &message[start + operand.len()..];
        let is_begun = before.is_some_and(|c| is_part(c) || c == '.');
        // A point may end the sentence.
        let is_continued = after.strip_prefix('.').unwrap_or(after).starts_with(is_part);
        !is_begun && !is_continued
    })
}
