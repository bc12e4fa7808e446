//! Changing one file of the workspace: only one whose content the agent knows, or a new one, and all of it in one step.
//! What the new content is, is the matter of the tool that asks.

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

/// The most bytes of a file that is changed.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// The most bytes of a diff in a tool's result.
const RESULT_BYTES_MAX: usize = 4 * 1024;
/// How many reviews are remembered; beyond it those of calls that were never made are forgotten with the others.
const REVIEWED_MAX: usize = 10_000;

/// State shared by the tools that change files: the files that each agent has read, and the files that must not be
/// changed.
#[derive(Debug, Default)]
pub(crate) struct FileChanges {
    /// The files that each thread's agent has read.
    pub read_tracker: Arc<ReadTracker>,
    /// Absolute folders and files, links resolved, that no tool writes to.
    pub protected: Vec<PathBuf>,
    /// The newest review of each pending call. Other calls of the same answer run at the same time, so a change that
    /// would have been refused when it was reviewed must not succeed when it is made.
    pub reviewed: ReviewedChanges,
}

/// The change a review found, or why there is none, by call.
type ReviewedChanges = Mutex<HashMap<(ThreadId, String), Result<WorkspacePath, String>>>;

/// A change that was worked out and not made.
struct PlannedChange {
    target: WorkspacePath,
    entry: Option<DirEntryRef>,
    old: Option<(FileSnapshot, String)>,
    new: String,
}

/// Which call it is, and what the state says about it.
struct ChangeCallRef {
    thread_id: ThreadId,
    call_id: String,
    channels: Arc<Channels>,
}

impl ChangeCallRef {
    fn from_context(context: &ToolContext) -> Self {
        let (call_id, channels) = (context.call_id.clone(), Arc::clone(&context.channels));
        Self { thread_id: context.thread_id, call_id, channels }
    }

    /// Returns whether the file is as it was when a person was shown what this call makes of it.
    fn compare_with_review(&self, target: &WorkspacePath, bytes: &[u8]) -> Result<FileKnowledge, String> {
        let shown = reviewed_call::reviewed_content_hash(&self.channels, &self.call_id, target.relative());
        Ok(match shown.map_err(|error| format!("failed to {error}"))? {
            Some(shown) if shown == protocol::sha256_hex(bytes) => FileKnowledge::Current,
            Some(_) => FileKnowledge::Stale,
            None => FileKnowledge::None,
        })
    }
}

/// Returns the hash of the file at `path`, relative to the workspace; `None` when there is none that could be changed.
pub(crate) async fn current_content_hash(root: &Path, path: &Path) -> Option<ContentHash> {
    let (root, path) = (root.to_owned(), path.to_owned());
    let hashed = tokio::task::spawn_blocking(move || {
        let workspace = Workspace::open(&root).ok()?;
        let place = WorkspacePath::new(workspace.root(), path).open_parent(FolderCreation::MustExist).ok()?;
        place.read(FILE_BYTES_MAX).ok()?.map(|found| read_tracker::hash_content(&found.bytes))
    });
    hashed.await.ok().flatten()
}

/// Computes the new text of a file from its present text (`None` when there is no file). The error is the message for the
/// model.
pub(super) type TextRewrite = dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync;

impl FileChanges {
    /// Works out what a call would do. A call that the tool would refuse has no subject.
    pub(super) async fn review_change(
        self: &Arc<Self>,
        path: &str,
        rewrite: Arc<TextRewrite>,
        context: &ToolContext,
    ) -> CallReview {
        let (changes, thread_id, at) =
            (Arc::clone(self), context.thread_id, ChangeCallRef::from_context(context));
        let target = self.resolve_target(&context.workspace, path);
        // While another call changes the file, what it holds and what the agent knows of it do not fit.
        let turn = match &target {
            Ok(target) => Some(self.read_tracker.lock_file(&target.absolute()).await),
            Err(_) => None,
        };
        let planned = tokio::task::spawn_blocking(move || {
            let planned = changes.plan_change(target?, &*rewrite, &at);
            drop(turn);
            planned.map(|planned| (planned.target.clone(), planned.diff()))
        });
        let planned = planned.await.unwrap_or_else(|_| Err("the review broke off".to_owned()));
        let (found, review) = match planned {
            Ok((target, diff)) => {
                let subjects = vec![CallSubject::Path(target.relative().to_owned())];
                (Ok(target), CallReview { subjects, detail: ReviewDetail::Diff(diff) })
            }
            Err(reason) => (Err(reason), CallReview::default()),
        };
        let mut judged = self.reviewed.lock();
        if judged.len() >= REVIEWED_MAX {
            judged.clear();
        }
        judged.insert((thread_id, context.call_id.clone()), found);
        review
    }

    /// Makes the change when it is the file's turn.
    pub(super) async fn apply_change(
        self: &Arc<Self>,
        path: &str,
        rewrite: Arc<TextRewrite>,
        context: &ToolContext,
    ) -> ToolOutput {
        let (changes, root, thread_id) = (Arc::clone(self), context.workspace.clone(), context.thread_id);
        let at = ChangeCallRef::from_context(context);
        let judged = {
            let mut judged = self.reviewed.lock();
            judged.remove(&(thread_id, context.call_id.clone()))
        };
        let target = match (self.resolve_target(&root, path), judged) {
            (Err(reason), _) | (Ok(_), Some(Err(reason))) => return ToolOutput::error(reason),
            (Ok(target), Some(Ok(judged))) if target != judged => {
                return ToolOutput::error(format!(
                    "{path:?} leads elsewhere than when the call was looked at; nothing was written"
                ));
            }
            (Ok(target), Some(Ok(_)) | None) => target,
        };
        let turn = self.read_tracker.lock_file(&target.absolute()).await;
        crate::run_blocking(move || {
            let planned = changes.plan_change(target, &*rewrite, &at)?;
            let report = changes.write_change(planned, thread_id);
            drop(turn);
            report
        })
        .await
    }

    fn resolve_target(&self, root: &Path, path: &str) -> Result<WorkspacePath, String> {
        if path.is_empty() || path.contains('\0') {
            return Err(format!("{path:?} is no path; name a file of the workspace"));
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

    fn plan_change(
        &self,
        target: WorkspacePath,
        rewrite: &TextRewrite,
        at: &ChangeCallRef,
    ) -> Result<PlannedChange, String> {
        let shown = target.relative().display().to_string();
        let failed = |error: io::Error| io_error_text("read", &shown, &error);
        let place = match target.open_parent(FolderCreation::MustExist) {
            Ok(place) => Some(place),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let found =
            place.as_ref().map(|place| place.read(FILE_BYTES_MAX)).transpose().map_err(failed)?.flatten();
        let old = match found {
            Some(found) => Some(self.require_known_content(found, &target, at)?),
            None => None,
        };
        let new = rewrite(old.as_ref().map(|(_, text)| text.as_str()))?;
        if new.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("{shown:?} would have {} bytes; {FILE_BYTES_MAX} is the limit", new.len()));
        }
        if old.as_ref().is_some_and(|(_, old)| *old == new) {
            return Err(format!("{shown:?} holds exactly that already; nothing was changed"));
        }
        Ok(PlannedChange { target, entry: place, old, new })
    }

    /// Returns the file with its text, if the agent knows it, or knew it when a person was asked about this change.
    fn require_known_content(
        &self,
        found: FileSnapshot,
        target: &WorkspacePath,
        at: &ChangeCallRef,
    ) -> Result<(FileSnapshot, String), String> {
        let shown = target.relative().display();
        if found.bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!(
                "\"{shown}\" has more than {FILE_BYTES_MAX} bytes, too many to change here; use execute"
            ));
        }
        let known = match self.read_tracker.knowledge(at.thread_id, &target.absolute(), &found.bytes) {
            FileKnowledge::None => at.compare_with_review(target, &found.bytes)?,
            known => known,
        };
        match known {
            FileKnowledge::Current => {}
            FileKnowledge::Stale => {
                return Err(format!(
                    "\"{shown}\" has changed since you read it; nothing was written. Read it again with read_file, \
                     then make the change"
                ));
            }
            FileKnowledge::None => {
                return Err(format!(
                    "\"{shown}\" exists and you have not read it in this session; read it with read_file first"
                ));
            }
        }
        match std::str::from_utf8(&found.bytes) {
            Ok(text) => {
                let text = text.to_owned();
                Ok((found, text))
            }
            Err(_) => Err(format!("\"{shown}\" is not UTF-8 text; change it with execute")),
        }
    }

    fn write_change(&self, planned: PlannedChange, thread_id: ThreadId) -> Result<String, String> {
        let shown = planned.target.relative().display().to_string();
        let failed = |error: io::Error| io_error_text("written", &shown, &error);
        let diff = planned.diff();
        let place = match planned.entry {
            Some(place) => place,
            None => planned.target.open_parent(FolderCreation::CreateMissing).map_err(failed)?,
        };
        let old = planned.old.as_ref().map(|(found, _)| found);
        match place.replace(old, planned.new.as_bytes()).map_err(failed)? {
            FileReplaceOutcome::Replaced => {}
            FileReplaceOutcome::Stale => {
                return Err(format!(
                    "\"{shown}\" was changed by someone else at this moment; nothing was written. Read it again with \
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
            Some(_) => format!("changed {shown}\n{}", truncate_middle(&diff, RESULT_BYTES_MAX)),
            None => format!("created {shown} ({} lines)", planned.new.lines().count()),
        })
    }
}

impl PlannedChange {
    fn diff(&self) -> String {
        text_replacement::unified_diff(
            self.target.relative(),
            self.old.as_ref().map(|(_, old)| old.as_str()),
            &self.new,
        )
    }
}

fn io_error_text(what: &str, shown: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => format!("{shown:?} is a folder; name a file"),
        io::ErrorKind::NotADirectory => {
            format!(
                "{shown:?} cannot be {what}: something on the way is a file, or a link that was not there before"
            )
        }
        io::ErrorKind::NotFound => format!("{shown:?} cannot be {what}: its folder went away"),
        _ => format!("{shown:?} cannot be {what}: {error}"),
    }
}
