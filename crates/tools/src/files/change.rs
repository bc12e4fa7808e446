//! Changing one file of the workspace: only one whose content the agent knows, or a new one, and all of it in one step.
//! What the new content is, is the matter of the tool that asks.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::ThreadId;
use runtime::{Channels, Detail, Review, Subject, ToolContext, ToolOutput};

use crate::approval::looked;
use crate::files::seen::{self, Hash, Knowledge, Seen};
use crate::files::text;
use crate::shown::abridged;
use crate::workspace::Workspace;
use crate::workspace::place::{Folders, Found, Place, Replaced, Target};

/// The most bytes of a file that is changed.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// The most bytes of a diff in a tool's result.
const RESULT_BYTES_MAX: usize = 4 * 1024;
/// How many reviews are remembered; beyond it those of calls that were never made are forgotten with the others.
const JUDGED_MAX: usize = 10_000;

/// What the tools that change files have in common: what the agent has read, and what nobody may change.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// What each thread's agent has read.
    pub seen: Arc<Seen>,
    /// Absolute folders and files, links resolved, that no tool writes to.
    pub protected: Vec<PathBuf>,
    /// What the newest review of each call that is still to be made found. Other calls of the same answer run at the
    /// same time: a change that would have been refused when it was judged must not succeed when it is made.
    pub judged: Judged,
}

/// The change a review found, or why there is none, by call.
type Judged = Mutex<HashMap<(ThreadId, String), Result<Target, String>>>;

/// A change that was worked out and not made.
struct Planned {
    target: Target,
    place: Option<Place>,
    old: Option<(Found, String)>,
    new: String,
}

/// Which call it is, and what the state says about it.
struct At {
    thread_id: ThreadId,
    call_id: String,
    channels: Arc<Channels>,
}

impl At {
    fn of(context: &ToolContext) -> Self {
        let (call_id, channels) = (context.call_id.clone(), Arc::clone(&context.channels));
        Self { thread_id: context.thread_id, call_id, channels }
    }

    /// Returns whether the file is as it was when a person was shown what this call makes of it.
    fn knew(&self, target: &Target, bytes: &[u8]) -> Result<Knowledge, String> {
        let shown = looked::shown_content(&self.channels, &self.call_id, target.relative());
        Ok(match shown.map_err(|error| format!("failed to {error}"))? {
            Some(shown) if shown == protocol::sha256_hex(bytes) => Knowledge::Current,
            Some(_) => Knowledge::Stale,
            None => Knowledge::None,
        })
    }
}

/// Returns the hash of the file at `path`, relative to the workspace; `None` when there is none that could be changed.
pub(crate) async fn content(root: &Path, path: &Path) -> Option<Hash> {
    let (root, path) = (root.to_owned(), path.to_owned());
    let hashed = tokio::task::spawn_blocking(move || {
        let workspace = Workspace::open(&root).ok()?;
        let place = Target::new(workspace.root(), path).place(Folders::Existing).ok()?;
        place.read(FILE_BYTES_MAX).ok()?.map(|found| seen::hash(&found.bytes))
    });
    hashed.await.ok().flatten()
}

/// What a tool makes of the text a file holds (`None`: there is no file); the error is what the model is told.
pub(super) type Rewrite = dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync;

impl Changes {
    /// Works out what a call would do. A call that the tool would refuse has no subject.
    pub(super) async fn review(
        self: &Arc<Self>,
        path: &str,
        rewrite: Arc<Rewrite>,
        context: &ToolContext,
    ) -> Review {
        let (changes, thread_id, at) = (Arc::clone(self), context.thread_id, At::of(context));
        let target = self.target(&context.workspace, path);
        // While another call changes the file, what it holds and what the agent knows of it do not fit.
        let turn = match &target {
            Ok(target) => Some(self.seen.turn(&target.absolute()).await),
            Err(_) => None,
        };
        let planned = tokio::task::spawn_blocking(move || {
            let planned = changes.plan(target?, &*rewrite, &at);
            drop(turn);
            planned.map(|planned| (planned.target.clone(), planned.diff()))
        });
        let planned = planned.await.unwrap_or_else(|_| Err("the review broke off".to_owned()));
        let (found, review) = match planned {
            Ok((target, diff)) => {
                let subjects = vec![Subject::Path(target.relative().to_owned())];
                (Ok(target), Review { subjects, detail: Detail::Diff(diff) })
            }
            Err(reason) => (Err(reason), Review::default()),
        };
        let mut judged = self.judged.lock();
        if judged.len() >= JUDGED_MAX {
            judged.clear();
        }
        judged.insert((thread_id, context.call_id.clone()), found);
        review
    }

    /// Makes the change when it is the file's turn.
    pub(super) async fn make(
        self: &Arc<Self>,
        path: &str,
        rewrite: Arc<Rewrite>,
        context: &ToolContext,
    ) -> ToolOutput {
        let (changes, root, thread_id) = (Arc::clone(self), context.workspace.clone(), context.thread_id);
        let at = At::of(context);
        let judged = {
            let mut judged = self.judged.lock();
            judged.remove(&(thread_id, context.call_id.clone()))
        };
        let target = match (self.target(&root, path), judged) {
            (Err(reason), _) | (Ok(_), Some(Err(reason))) => return ToolOutput::error(reason),
            (Ok(target), Some(Ok(judged))) if target != judged => {
                return ToolOutput::error(format!(
                    "{path:?} leads elsewhere than when the call was looked at; nothing was written"
                ));
            }
            (Ok(target), Some(Ok(_)) | None) => target,
        };
        let turn = self.seen.turn(&target.absolute()).await;
        crate::blocking(move || {
            let planned = changes.plan(target, &*rewrite, &at)?;
            let report = changes.write(planned, thread_id);
            drop(turn);
            report
        })
        .await
    }

    fn target(&self, root: &Path, path: &str) -> Result<Target, String> {
        if path.is_empty() || path.contains('\0') {
            return Err(format!("{path:?} is no path; name a file of the workspace"));
        }
        let target = Workspace::open(root)?.target(path)?;
        let absolute = target.absolute();
        if self.protected.iter().any(|protected| absolute.starts_with(protected)) {
            return Err(format!("{path:?} belongs to Segue itself, and no tool changes it"));
        }
        if path.ends_with('/') || target.relative().as_os_str().is_empty() {
            return Err(format!("{path:?} is a folder; name a file"));
        }
        Ok(target)
    }

    fn plan(&self, target: Target, rewrite: &Rewrite, at: &At) -> Result<Planned, String> {
        let shown = target.relative().display().to_string();
        let failed = |error: io::Error| cannot("read", &shown, &error);
        let place = match target.place(Folders::Existing) {
            Ok(place) => Some(place),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let found =
            place.as_ref().map(|place| place.read(FILE_BYTES_MAX)).transpose().map_err(failed)?.flatten();
        let old = match found {
            Some(found) => Some(self.known(found, &target, at)?),
            None => None,
        };
        let new = rewrite(old.as_ref().map(|(_, text)| text.as_str()))?;
        if new.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("{shown:?} would have {} bytes; {FILE_BYTES_MAX} is the limit", new.len()));
        }
        if old.as_ref().is_some_and(|(_, old)| *old == new) {
            return Err(format!("{shown:?} holds exactly that already; nothing was changed"));
        }
        Ok(Planned { target, place, old, new })
    }

    /// Returns the file with its text, if the agent knows it, or knew it when a person was asked about this change.
    fn known(&self, found: Found, target: &Target, at: &At) -> Result<(Found, String), String> {
        let shown = target.relative().display();
        if found.bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!(
                "\"{shown}\" has more than {FILE_BYTES_MAX} bytes, too many to change here; use execute"
            ));
        }
        let known = match self.seen.knows(at.thread_id, &target.absolute(), &found.bytes) {
            Knowledge::None => at.knew(target, &found.bytes)?,
            known => known,
        };
        match known {
            Knowledge::Current => {}
            Knowledge::Stale => {
                return Err(format!(
                    "\"{shown}\" has changed since you read it; nothing was written. Read it again with read_file, \
                     then make the change"
                ));
            }
            Knowledge::None => {
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

    fn write(&self, planned: Planned, thread_id: ThreadId) -> Result<String, String> {
        let shown = planned.target.relative().display().to_string();
        let failed = |error: io::Error| cannot("written", &shown, &error);
        let diff = planned.diff();
        let place = match planned.place {
            Some(place) => place,
            None => planned.target.place(Folders::Made).map_err(failed)?,
        };
        let old = planned.old.as_ref().map(|(found, _)| found);
        match place.replace(old, planned.new.as_bytes()).map_err(failed)? {
            Replaced::Yes => {}
            Replaced::Stale => {
                return Err(format!(
                    "\"{shown}\" was changed by someone else at this moment; nothing was written. Read it again with \
                     read_file, then make the change"
                ));
            }
        }
        self.seen.learn(thread_id, &planned.target.absolute(), seen::hash(planned.new.as_bytes()));
        Ok(match planned.old {
            Some(_) => format!("changed {shown}\n{}", abridged(&diff, RESULT_BYTES_MAX)),
            None => format!("created {shown} ({} lines)", planned.new.lines().count()),
        })
    }
}

impl Planned {
    fn diff(&self) -> String {
        text::diff(self.target.relative(), self.old.as_ref().map(|(_, old)| old.as_str()), &self.new)
    }
}

fn cannot(what: &str, shown: &str, error: &io::Error) -> String {
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
