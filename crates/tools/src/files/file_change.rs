//! Changing one file of the workspace atomically. An existing file can be changed only if the agent knows its present
//! content, because a change by another process or the user must not be overwritten unseen.
//!
//! `write_file` and `edit_file` share this code. Each supplies a [`TextRewrite`] that computes the new text. A change
//! is planned twice: once for the review, which shows its diff, and again when the call is made.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::ThreadId;
use runtime::{CallReview, CallSubject, Channels, ReviewDetail, ToolContext, ToolOutput};

use crate::approval::reviewed_call;
use crate::files::read_tracker::{self, ContentHash, FileKnowledge, ReadTracker};
use crate::files::text_replacement;
use crate::truncation::truncate_middle;
use crate::workspace::Workspace;
use crate::workspace::confined_file::{
    DirEntryRef, FileReplaceOutcome, FileSnapshot, FolderCreation, WorkspacePath,
};

/// Maximum size in bytes of a file that can be changed, before and after the change.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Maximum number of bytes of the diff in a tool's result.
const RESULT_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of stored reviews. When it is reached, all are dropped, so that reviews of calls that were never made
/// don't accumulate.
const REVIEWED_MAX: usize = 10_000;

/// State shared by the tools that change files: the files that each agent has read, and the files that must not be
/// changed.
#[derive(Debug, Default)]
pub(crate) struct FileChanges {
    /// The files that each thread's agent has read.
    pub read_tracker: Arc<ReadTracker>,
    /// Absolute paths of folders and files, with links resolved, that the file tools never write to.
    pub protected: Vec<PathBuf>,
    /// The newest review of each pending call. Other calls of the same answer run at the same time, so a change that
    /// would have been refused when it was reviewed must not succeed when it is made.
    pub reviewed: ReviewedChanges,
}

/// Result of the newest review, by thread and call id: the target of the change, or the reason for refusing it.
type ReviewedChanges = Mutex<HashMap<(ThreadId, String), Result<WorkspacePath, String>>>;

/// A computed change that has not been written.
struct PlannedChange {
    target: WorkspacePath,
    /// The file's entry in its open parent folder; `None` if the folder does not exist.
    entry: Option<DirEntryRef>,
    /// The existing file and its text; `None` for a new file.
    old: Option<(FileSnapshot, String)>,
    /// The file's new text.
    new: String,
}

/// The identity of a call, and the thread's state at the time of the call.
struct ChangeCallRef {
    thread_id: ThreadId,
    call_id: String,
    /// The thread's state, which contains the approved calls.
    channels: Arc<Channels>,
}

impl ChangeCallRef {
    /// Returns the reference to the call that `context` belongs to.
    fn from_context(context: &ToolContext) -> Self {
        let (call_id, channels) = (context.call_id.clone(), Arc::clone(&context.channels));
        Self { thread_id: context.thread_id, call_id, channels }
    }

    /// Compares `bytes`, the file's present content, with the content at the time when the user was shown this call's
    /// diff. This works after a restart too, because the hash is stored in the thread's state.
    fn compare_with_review(&self, target: &WorkspacePath, bytes: &[u8]) -> Result<FileKnowledge, String> {
        let reviewed = reviewed_call::reviewed_content_hash(&self.channels, &self.call_id, target.relative());
        Ok(match reviewed.map_err(|error| format!("failed to {error}"))? {
            Some(hash) if hash == protocol::sha256_hex(bytes) => FileKnowledge::Current,
            Some(_) => FileKnowledge::Stale,
            None => FileKnowledge::None,
        })
    }
}

/// Returns the hash of the content of the file at `path`, relative to the workspace, or `None` if there is no readable
/// regular file. Of a file above [`FILE_BYTES_MAX`], only the beginning is hashed; such a file cannot be changed
/// anyway.
pub(crate) async fn current_content_hash(root: &Path, path: &Path) -> Option<ContentHash> {
    let (root, path) = (root.to_owned(), path.to_owned());
    let hash = tokio::task::spawn_blocking(move || {
        let workspace = Workspace::open(&root).ok()?;
        let entry = WorkspacePath::new(workspace.root(), path).open_parent(FolderCreation::MustExist).ok()?;
        entry.read(FILE_BYTES_MAX).ok()?.map(|snapshot| read_tracker::hash_content(&snapshot.bytes))
    });
    hash.await.ok().flatten()
}

/// A function that computes the new text of a file from its present text (`None` if the file does not exist). The error
/// is the message for the model.
pub(super) type TextRewrite = dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync;

impl FileChanges {
    /// Plans the change of a call without writing it, and returns its review with the diff. A call that the tool would
    /// refuse gets a review without a subject. The result is stored until the call is made.
    ///
    /// Waits for the file's lock. Dropping the future while it waits stores no review.
    pub(super) async fn review_change(
        self: &Arc<Self>,
        path: &str,
        rewrite: Arc<TextRewrite>,
        context: &ToolContext,
    ) -> CallReview {
        let (changes, thread_id, call) =
            (Arc::clone(self), context.thread_id, ChangeCallRef::from_context(context));
        let target = self.resolve_target(&context.workspace, path);
        // While another call changes the file, its content may not match the recorded hash yet.
        let lock = match &target {
            Ok(target) => Some(self.read_tracker.lock_file(&target.absolute()).await),
            Err(_) => None,
        };
        let planned = tokio::task::spawn_blocking(move || {
            let planned = changes.plan_change(target?, &*rewrite, &call);
            drop(lock);
            planned.map(|planned| (planned.target.clone(), planned.diff()))
        });
        let planned = planned.await.unwrap_or_else(|_| Err("the review failed unexpectedly".to_owned()));
        let (outcome, review) = match planned {
            Ok((target, diff)) => {
                let subjects = vec![CallSubject::Path(target.relative().to_owned())];
                (
                    Ok(target),
                    CallReview { subjects, detail: ReviewDetail::Diff(diff), ..CallReview::default() },
                )
            }
            Err(reason) => (Err(reason), CallReview::default()),
        };
        let mut reviewed = self.reviewed.lock();
        if reviewed.len() >= REVIEWED_MAX {
            reviewed.clear();
        }
        reviewed.insert((thread_id, context.call_id.clone()), outcome);
        review
    }

    /// Makes the change: plans it again with the present content of the file, and writes it.
    ///
    /// The file's lock serializes changes of one file by this process. If the future is dropped after the blocking work
    /// has started, that work still runs to its end.
    pub(super) async fn apply_change(
        self: &Arc<Self>,
        path: &str,
        rewrite: Arc<TextRewrite>,
        context: &ToolContext,
    ) -> ToolOutput {
        let (changes, root, thread_id) = (Arc::clone(self), context.workspace.clone(), context.thread_id);
        let call = ChangeCallRef::from_context(context);
        let reviewed = {
            let mut reviewed = self.reviewed.lock();
            reviewed.remove(&(thread_id, context.call_id.clone()))
        };
        let target = match (self.resolve_target(&root, path), reviewed) {
            (Err(reason), _) | (Ok(_), Some(Err(reason))) => return ToolOutput::error(reason),
            (Ok(target), Some(Ok(reviewed))) if target != reviewed => {
                return ToolOutput::error(format!(
                    "{path:?} leads to another file than when the call was reviewed; nothing was written"
                ));
            }
            (Ok(target), Some(Ok(_)) | None) => target,
        };
        let lock = self.read_tracker.lock_file(&target.absolute()).await;
        crate::run_blocking(move || {
            let planned = changes.plan_change(target, &*rewrite, &call)?;
            let report = changes.write_change(planned, thread_id);
            drop(lock);
            report
        })
        .await
    }

    /// Returns the real path of the file to change.
    ///
    /// # Errors
    /// Returns the message for the model if the path is empty, outside the workspace, protected, or names a folder.
    fn resolve_target(&self, root: &Path, path: &str) -> Result<WorkspacePath, String> {
        if path.is_empty() || path.contains('\0') {
            return Err(format!("{path:?} is not a valid path; name a file of the workspace"));
        }
        let target = Workspace::open(root)?.resolve(path)?;
        let absolute = target.absolute();
        if self.protected.iter().any(|protected| absolute.starts_with(protected)) {
            return Err(format!("{path:?} belongs to Segue itself, and no tool changes it"));
        }
        if path.ends_with('/') || target.relative().as_os_str().is_empty() {
            return Err(format!("{path:?} is a folder; name a file"));
        }
        Ok(target)
    }

    /// Reads the file and computes its new text. The caller holds the file's lock.
    ///
    /// # Errors
    /// Returns the message for the model if the file cannot be read, its content is not known to the agent, or the change
    /// is refused by `rewrite`, too large, or has no effect.
    fn plan_change(
        &self,
        target: WorkspacePath,
        rewrite: &TextRewrite,
        call: &ChangeCallRef,
    ) -> Result<PlannedChange, String> {
        let path = target.relative().display().to_string();
        let failed = |error: io::Error| io_error_text("read", &path, &error);
        let entry = match target.open_parent(FolderCreation::MustExist) {
            Ok(entry) => Some(entry),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let snapshot =
            entry.as_ref().map(|entry| entry.read(FILE_BYTES_MAX)).transpose().map_err(failed)?.flatten();
        let old = match snapshot {
            Some(snapshot) => Some(self.require_known_content(snapshot, &target, call)?),
            None => None,
        };
        let new = rewrite(old.as_ref().map(|(_, text)| text.as_str()))?;
        if new.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("{path:?} would have {} bytes; {FILE_BYTES_MAX} is the limit", new.len()));
        }
        if old.as_ref().is_some_and(|(_, old)| *old == new) {
            return Err(format!("{path:?} holds exactly that already; nothing was changed"));
        }
        Ok(PlannedChange { target, entry, old, new })
    }

    /// Returns the file with its text if the agent has read this content, or if the user was shown the diff of this
    /// call for this content.
    ///
    /// # Errors
    /// Returns the message for the model if the content is unknown, has changed since, is too large, or is not UTF-8.
    fn require_known_content(
        &self,
        snapshot: FileSnapshot,
        target: &WorkspacePath,
        call: &ChangeCallRef,
    ) -> Result<(FileSnapshot, String), String> {
        let path = target.relative().display();
        if snapshot.bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!(
                "\"{path}\" has more than {FILE_BYTES_MAX} bytes, too many to change here; use execute"
            ));
        }
        let knowledge = match self.read_tracker.knowledge(call.thread_id, &target.absolute(), &snapshot.bytes)
        {
            FileKnowledge::None => call.compare_with_review(target, &snapshot.bytes)?,
            knowledge => knowledge,
        };
        match knowledge {
            FileKnowledge::Current => {}
            FileKnowledge::Stale => {
                return Err(format!(
                    "\"{path}\" has changed since you read it; nothing was written. Read it again with read_file, \
                     then make the change"
                ));
            }
            FileKnowledge::None => {
                return Err(format!(
                    "\"{path}\" exists and you have not read it in this session; read it with read_file first"
                ));
            }
        }
        match std::str::from_utf8(&snapshot.bytes) {
            Ok(text) => {
                let text = text.to_owned();
                Ok((snapshot, text))
            }
            Err(_) => Err(format!("\"{path}\" is not UTF-8 text; change it with execute")),
        }
    }

    /// Writes a planned change, records the new content as known to the agent, and returns the report for the model.
    ///
    /// # Errors
    /// Returns the message for the model if the file changed since it was planned or cannot be written.
    fn write_change(&self, planned: PlannedChange, thread_id: ThreadId) -> Result<String, String> {
        let path = planned.target.relative().display().to_string();
        let failed = |error: io::Error| io_error_text("written", &path, &error);
        let diff = planned.diff();
        let entry = match planned.entry {
            Some(entry) => entry,
            None => planned.target.open_parent(FolderCreation::CreateMissing).map_err(failed)?,
        };
        let old = planned.old.as_ref().map(|(snapshot, _)| snapshot);
        match entry.replace(old, planned.new.as_bytes()).map_err(failed)? {
            FileReplaceOutcome::Replaced => {}
            FileReplaceOutcome::Stale => {
                return Err(format!(
                    "\"{path}\" was changed by another process at this moment; nothing was written. Read it again with \
                     read_file, then make the change"
                ));
            }
        }
        self.read_tracker.record_read(
            thread_id,
            &planned.target.absolute(),
            read_tracker::hash_content(planned.new.as_bytes()),
        );
        Ok(match planned.old {
            Some(_) => format!("changed {path}\n{}", truncate_middle(&diff, RESULT_BYTES_MAX)),
            None => format!("created {path} ({} lines)", planned.new.lines().count()),
        })
    }
}

impl PlannedChange {
    /// Returns the change as a unified diff.
    fn diff(&self) -> String {
        text_replacement::unified_diff(
            self.target.relative(),
            self.old.as_ref().map(|(_, old)| old.as_str()),
            &self.new,
        )
    }
}

/// Returns the message for the model about an I/O error. `action` is a participle: `read` or `written`.
fn io_error_text(action: &str, path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => format!("{path:?} is a folder; name a file"),
        io::ErrorKind::NotADirectory => {
            format!("{path:?} cannot be {action}: a parent folder is a file, or was replaced by a link")
        }
        io::ErrorKind::NotFound => format!("{path:?} cannot be {action}: its folder was removed"),
        _ => format!("{path:?} cannot be {action}: {error}"),
    }
}
