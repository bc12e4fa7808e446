//! Workspaces: the folder in which the tools of a run work. A run is stored with its folder, and a question about tool calls
//! names it, so that calls are made in the folder in which they were proposed, whichever process makes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::{ThreadPatch, Write};
use protocol::event::body::ThreadRehomed;
use protocol::{Checkpoint, Decision, Decisions, Interrupt, InterruptId, NewEvent, RunId, Thread, ThreadId};
use runtime::{Channels, EDITED_ARGS_CHANNEL};
use serde_json::{Map, Value};

use crate::agent::Agent;
use crate::agent::services::{RunService, ThreadService};
use crate::assembly::Purpose;
use crate::assembly::toolbox::Reach;
use crate::{Error, Result, RunError};

/// The key of a thread's metadata that names its folder.
pub const WORKSPACE_KEY: &str = "workspace";

/// Threads a thread may have come from, one by way of the other, before its folder is taken for unknown.
const ANCESTORS_MAX: usize = 64;

impl ThreadService<'_> {
    /// Returns the folder of the thread, or of the one it came from; `None` when nobody knows. The folder may be of another
    /// machine, or gone.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn workspace_of(self, thread: &Thread) -> Result<Option<PathBuf>> {
        let (mut folder, mut parent) = (own_workspace(thread), thread.parent_id);
        for _ in 0..ANCESTORS_MAX {
            let (None, Some(id)) = (&folder, parent) else { break };
            let Some(found) = self.agent.store.thread(id).await? else { break };
            (folder, parent) = (own_workspace(&found), found.parent_id);
        }
        Ok(folder.map(PathBuf::from))
    }
}

impl Agent {
    /// Returns the same agent with its tools in `workspace`. The rules, skills and servers of that folder are used.
    pub(crate) fn in_workspace(&self, workspace: &Path) -> Self {
        let mut agent = self.clone();
        if workspace != self.settings.workspace {
            agent.toolbox = self.toolboxes.of(workspace);
            workspace.clone_into(&mut agent.settings.workspace);
            agent.assemblies = Arc::default();
        }
        agent
    }

    /// Returns the folder in which a run of the thread works that is not told where: the thread's, or this process's where
    /// the thread's does not exist.
    pub(crate) async fn default_workspace(&self, thread: &Thread) -> Result<PathBuf> {
        let of_thread = match self.reach(&thread.assistant_id) {
            Reach::Machine => self.threads().workspace_of(thread).await?.and_then(|path| canonical(&path)),
            Reach::Conversation => None,
        };
        Ok(of_thread.unwrap_or_else(|| self.settings.workspace.clone()))
    }

    /// Returns the folder in which the run worked; for a run that was stored without one, the thread's. An assistant
    /// without a folder has that of the process.
    pub(crate) async fn workspace_of_run(
        &self,
        thread: &Thread,
        run_id: Option<RunId>,
    ) -> Result<Option<PathBuf>> {
        if self.reach(&thread.assistant_id) == Reach::Conversation {
            return Ok(Some(self.settings.workspace.clone()));
        }
        let request = match run_id {
            Some(run_id) => self.store.run_requests(&[run_id]).await?.pop(),
            None => None,
        };
        match request.and_then(|(_, request)| request.workspace) {
            Some(workspace) => Ok(Some(PathBuf::from(workspace))),
            None => self.threads().workspace_of(thread).await,
        }
    }

    /// Returns the folder in which what was cut off at the checkpoint goes on.
    ///
    /// # Errors
    /// [`RunError::WorkspaceGone`] when a turn would go on in a folder that does not exist here.
    pub(crate) async fn workspace_to_go_on(
        &self,
        thread_id: ThreadId,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<PathBuf> {
        let thread = self.thread(thread_id).await?;
        let run_id = checkpoint.map(|point| point.run_id);
        let workspace = self.workspace_of_run(&thread, run_id).await?;
        let node = checkpoint.and_then(|point| point.next.as_deref());
        let is_turn = Purpose::at(node, checkpoint.map(|point| &point.channels)) == Purpose::Turn;
        match workspace {
            Some(workspace) if is_in_place(&workspace) => Ok(workspace),
            Some(workspace) if is_turn => Err(RunError::WorkspaceGone { thread_id, workspace }.into()),
            Some(_) | None => Ok(self.settings.workspace.clone()),
        }
    }

    /// Returns the folder of this process as a run is stored with it; `None` for an assistant that has no folder.
    ///
    /// # Errors
    /// [`RunError::WorkspaceNotUtf8`].
    pub fn named_workspace(&self) -> Result<Option<String>> {
        match (self.reach(&self.settings.assistant_id), self.settings.workspace.to_str()) {
            (Reach::Conversation, _) => Ok(None),
            (Reach::Machine, Some(name)) => Ok(Some(name.to_owned())),
            (Reach::Machine, None) => Err(RunError::WorkspaceNotUtf8(self.settings.workspace.clone()).into()),
        }
    }

    /// Returns the question about calls that the thread's move asks again, if there is one, and the folder from which the
    /// thread moves.
    ///
    /// # Errors
    /// [`RunError::NotMoved`] when the named question does not wait, or the assistant has no folder.
    pub(crate) async fn question_to_move<'q>(
        &self,
        thread: &Thread,
        pending: &'q [Interrupt],
        named: Option<InterruptId>,
    ) -> Result<(Option<&'q Interrupt>, Option<PathBuf>)> {
        let thread_id = thread.thread_id;
        if self.reach(&thread.assistant_id) == Reach::Conversation {
            return Err(not_moved(thread_id, "its assistant has no folder"));
        }
        let is_of_turn = |asked: &&Interrupt| Purpose::at(Some(&asked.node), None) == Purpose::Turn;
        let is_named = |asked: &&Interrupt| named.is_none_or(|named| named == asked.interrupt_id);
        let asked = pending.iter().filter(is_of_turn).find(is_named);
        if let (Some(named), None) = (named, asked) {
            return Err(not_moved(thread_id, format!("interrupt {named} does not wait for a decision")));
        }
        let from = match asked.and_then(|asked| asked.payload.workspace.clone()) {
            Some(workspace) => Some(PathBuf::from(workspace)),
            None => self.workspace_of_run(thread, asked.map(|asked| asked.run_id)).await?,
        };
        Ok((asked, from))
    }
}

impl RunService<'_> {
    /// Checks that calls wait in the thread which can be asked about again in this agent's folder: those of the named
    /// question, or of any.
    ///
    /// # Errors
    /// [`RunError::NotMoved`] when the question does not wait, nothing does, or the calls are made in this folder already.
    pub async fn check_rehome(self, thread_id: ThreadId, named: Option<InterruptId>) -> Result<()> {
        let thread = self.agent.thread(thread_id).await?;
        let pending = self.pending_interrupts(thread_id).await?;
        let here = self.agent.workspace();
        match self.agent.question_to_move(&thread, &pending, named).await? {
            (None, _) => Err(not_moved(thread_id, "no tool call waits there")),
            (Some(_), Some(from)) if from == here => Err(already_there(thread_id, here)),
            (Some(_), _) => Ok(()),
        }
    }

    /// Returns whether what was cut off in the thread can be gone on with on this machine.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn is_of_here(self, thread_id: ThreadId) -> Result<bool> {
        let checkpoint = self.agent.store.checkpoint(thread_id).await?;
        match self.agent.workspace_to_go_on(thread_id, checkpoint.as_ref()).await {
            Ok(_) => Ok(true),
            Err(Error::Run(RunError::WorkspaceGone { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A thread's move to another folder.
pub(crate) struct Rehoming<'a> {
    pub(crate) thread: &'a Thread,
    /// The folder in which the thread's calls were proposed; `None` when it is not known.
    pub(crate) from: Option<PathBuf>,
    /// The folder in which they are proposed again.
    pub(crate) to: &'a Path,
}

impl Rehoming<'_> {
    /// Returns the event that tells of the move.
    pub(crate) fn event(&self, now: jiff::Timestamp) -> Result<NewEvent> {
        let from = self.from.as_ref().map(|from| from.to_string_lossy().into_owned());
        Ok(NewEvent::of(&ThreadRehomed { from, to: self.to.to_string_lossy().into_owned() }, now)?)
    }

    /// Returns the write that makes the new folder the thread's.
    pub(crate) fn write(&self) -> Write {
        home_write(self.thread.thread_id, &self.to.to_string_lossy())
    }

    /// Returns the state in which the calls of a question are proposed again: paths below the old folder are paths below
    /// the new one.
    pub(crate) fn channels(&self, interrupt: &Interrupt) -> Channels {
        let Some(from) = self.from.as_ref() else { return Channels::new() };
        proposed_again(interrupt, &from.to_string_lossy(), self.to)
    }
}

/// Returns the state in which the calls of a question that were proposed in `from` are proposed again in `to`.
pub(crate) fn proposed_again(interrupt: &Interrupt, from: &str, to: &Path) -> Channels {
    let to = to.to_string_lossy();
    let requests = interrupt.payload.action_requests.iter();
    let edited = requests.filter_map(|request| {
        let call_id = request.details.as_ref()?.get("call_id")?.as_str()?;
        let args = with_paths_mapped(&request.args, from, &to);
        (args != request.args).then(|| (call_id.to_owned(), args))
    });
    let edited: Map<String, Value> = edited.collect();
    let mut channels = Channels::new();
    if !edited.is_empty() {
        EDITED_ARGS_CHANNEL.set(&mut channels, &edited);
    }
    channels
}

/// Returns the error that says why a thread stays where it is.
fn not_moved(thread_id: ThreadId, why: impl Into<String>) -> Error {
    RunError::NotMoved { thread_id, why: why.into() }.into()
}

/// Returns the error that says that the calls of a thread are made in that folder already.
pub(crate) fn already_there(thread_id: ThreadId, folder: &Path) -> Error {
    not_moved(thread_id, format!("its calls are made in {} already", folder.display()))
}

/// Returns whether a recorded path still names the folder that it named: nothing on it has become a symbolic link.
pub fn is_in_place(folder: &Path) -> bool {
    canonical(folder).is_some_and(|found| found == folder)
}

/// Returns the path of an existing folder without symbolic links, as runs are stored with it.
pub(crate) fn canonical(folder: &Path) -> Option<PathBuf> {
    folder.canonicalize().ok().filter(|found| found.is_dir())
}

/// Returns the write that makes the folder of its first turn the thread's, for a thread that was begun in none or that
/// comes from a folder which is not here.
pub(crate) fn home_of_first_turn(thread: &Thread, workspace: &Path) -> Option<Write> {
    let (thread_id, name) = (thread.thread_id, workspace.to_str()?);
    let is_known = thread.metadata.contains_key(WORKSPACE_KEY)
        || own_workspace(thread).is_some_and(|folder| Path::new(&folder).is_dir());
    (!is_known).then(|| home_write(thread_id, name))
}

fn home_write(thread_id: ThreadId, workspace: &str) -> Write {
    let metadata = Map::from_iter([(WORKSPACE_KEY.to_owned(), workspace.into())]);
    Write::UpdateThread { thread_id, patch: ThreadPatch { metadata, ..ThreadPatch::default() } }
}

/// Returns whether an answer makes a call.
pub(crate) fn makes_a_call(decisions: &Decisions) -> bool {
    decisions.decisions.iter().any(|decision| match decision {
        Decision::Approve { .. } | Decision::Edit { .. } => true,
        Decision::Reject { .. } | Decision::Respond { .. } | Decision::Preview {} => false,
    })
}

/// Returns the folder that the thread's own metadata names, here or in the agent it was imported from.
fn own_workspace(thread: &Thread) -> Option<String> {
    let source = thread.metadata.get("source").and_then(|source| source.get(WORKSPACE_KEY));
    let named = thread.metadata.get(WORKSPACE_KEY).or(source);
    named.and_then(Value::as_str).map(str::to_owned)
}

/// Returns `args` with every path below `from` as the same path below `to`.
fn with_paths_mapped(args: &Value, from: &str, to: &str) -> Value {
    match args {
        Value::String(text) => Value::from(text_with_paths_mapped(text, from, to)),
        Value::Array(items) => items.iter().map(|item| with_paths_mapped(item, from, to)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), with_paths_mapped(value, from, to)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => args.clone(),
    }
}

fn text_with_paths_mapped(text: &str, from: &str, to: &str) -> String {
    let from = from.trim_end_matches('/');
    if from.is_empty() {
        return text.to_owned();
    }
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let (mut mapped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(from) {
        let (before, behind) = (&rest[..at], &rest[at + from.len()..]);
        let begins = !before
            .chars()
            .next_back()
            .or_else(|| mapped.chars().next_back())
            .is_some_and(|c| is_of_name(c) || c == '/');
        let ends = !behind.chars().next().is_some_and(is_of_name);
        mapped.push_str(before);
        mapped.push_str(if begins && ends { to } else { from });
        rest = behind;
    }
    mapped.push_str(rest);
    mapped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_below_the_old_folder_are_paths_below_the_new_one() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text_with_paths_mapped(text, "/old/app", "/new"), expected, "{text}");
        };
        check("/old/app/src/a.rs", "/new/src/a.rs");
        check("cd /old/app && rm -rf '/old/app/build'", "cd /new && rm -rf '/new/build'");
        check("/old/app", "/new");
        check("/old/app2/x /very/old/app/x /old/app.txt", "/old/app2/x /very/old/app/x /old/app.txt");
        check("src/a.rs", "src/a.rs");
        assert_eq!(text_with_paths_mapped("/a", "/", "/new"), "/a");
        let args = json!({"path": "/old/app/a", "list": ["/old/app"], "count": 1});
        let mapped = json!({"path": "/new/a", "list": ["/new"], "count": 1});
        assert_eq!(with_paths_mapped(&args, "/old/app", "/new"), mapped);
    }
}
