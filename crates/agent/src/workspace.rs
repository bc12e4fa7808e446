//! Workspaces: the folder in which the tools of a run work. A run is stored with its folder, and a question
//! about tool calls names it. Calls are therefore made in the folder in which they were proposed, whichever
//! process makes them.

use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::{ThreadPatch, Write};
use protocol::event::body::ThreadRehomed;
use protocol::{Checkpoint, Decision, Decisions, Interrupt, InterruptId, NewEvent, RunId, Thread, ThreadId};
use runtime::{Channels, EDITED_ARGS_CHANNEL};
use serde_json::{Map, Value};

use crate::agent::Agent;
use crate::assembly::RunPurpose;
use crate::assembly::toolbox::AssistantAccess;
use crate::project::project_name;
use crate::{Error, Result, RunError};
use crate::{RunService, ThreadService};

/// The key of the thread metadata that names the thread's folder.
pub const WORKSPACE_KEY: &str = "workspace";

/// The most ancestors of a thread that are searched for a folder. Beyond them the folder counts as unknown.
const ANCESTORS_MAX: usize = 64;

impl<'a> ThreadService<'a> {
    /// Returns the folder of the thread, or else that of its nearest ancestor with one. `None` if none of
    /// them has a folder. The folder may belong to another machine, or may no longer exist.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn thread_workspace(self, thread: &'a Thread) -> BoxFuture<'a, Result<Option<PathBuf>>> {
        journal::box_future(async move {
            let (mut folder, mut parent) = (recorded_workspace(thread), thread.parent_id);
            for _ in 0..ANCESTORS_MAX {
                let (None, Some(id)) = (&folder, parent) else { break };
                let Some(ancestor) = self.agent.store.thread(id).await? else { break };
                (folder, parent) = (recorded_workspace(&ancestor), ancestor.parent_id);
            }
            Ok(folder.map(PathBuf::from))
        })
    }
}

impl Agent {
    /// Returns the same agent with its tools in `workspace`. The permission rules, skills and MCP servers of
    /// that folder apply.
    pub(crate) fn with_workspace(&self, workspace: &Path) -> Self {
        let mut agent = self.clone();
        if workspace != self.settings.workspace {
            agent.toolbox = self.toolboxes.toolbox_for(workspace);
            workspace.clone_into(&mut agent.settings.workspace);
            agent.graph_cache = Arc::default();
        }
        agent
    }

    /// Returns the folder for a run of the thread whose request names none: the thread's, or this process's
    /// folder if the thread's does not exist.
    pub(crate) async fn default_workspace(&self, thread: &Thread) -> Result<PathBuf> {
        let thread_folder = match self.assistant_access(&thread.assistant_id) {
            AssistantAccess::Machine => {
                self.threads().thread_workspace(thread).await?.and_then(|path| canonical_folder(&path))
            }
            AssistantAccess::Conversation => None,
        };
        Ok(thread_folder.unwrap_or_else(|| self.settings.workspace.clone()))
    }

    /// Returns the folder in which the run worked. For a run that was stored without one it is the thread's
    /// folder, and for an assistant without access to the machine it is the process's folder.
    pub(crate) async fn run_workspace(
        &self,
        thread: &Thread,
        run_id: Option<RunId>,
    ) -> Result<Option<PathBuf>> {
        if self.assistant_access(&thread.assistant_id) == AssistantAccess::Conversation {
            return Ok(Some(self.settings.workspace.clone()));
        }
        let request = match run_id {
            Some(run_id) => self.store.run_requests(&[run_id]).await?.pop(),
            None => None,
        };
        match request.and_then(|(_, request)| request.workspace) {
            Some(workspace) => Ok(Some(PathBuf::from(workspace))),
            None => self.threads().thread_workspace(thread).await,
        }
    }

    /// Returns the folder in which the work at the checkpoint resumes.
    ///
    /// # Errors
    /// [`RunError::WorkspaceGone`] if a turn would resume in a folder that does not exist on this machine.
    pub(crate) async fn resume_workspace(
        &self,
        thread_id: ThreadId,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<PathBuf> {
        let thread = self.thread(thread_id).await?;
        let run_id = checkpoint.map(|point| point.run_id);
        let workspace = self.run_workspace(&thread, run_id).await?;
        let node = checkpoint.and_then(|point| point.next.as_deref());
        let is_turn =
            RunPurpose::from_node(node, checkpoint.map(|point| &point.channels)) == RunPurpose::Turn;
        match workspace {
            Some(workspace) if is_canonical_folder(&workspace) => Ok(workspace),
            Some(workspace) if is_turn => Err(RunError::WorkspaceGone { thread_id, workspace }.into()),
            Some(_) | None => Ok(self.settings.workspace.clone()),
        }
    }

    /// Returns the folder of this process in the form in which it is stored with a run; `None` for an
    /// assistant without access to the machine.
    ///
    /// # Errors
    /// [`RunError::WorkspaceNotUtf8`] if the path is not UTF-8.
    pub fn workspace_name(&self) -> Result<Option<String>> {
        match (self.assistant_access(&self.settings.assistant_id), self.settings.workspace.to_str()) {
            (AssistantAccess::Conversation, _) => Ok(None),
            (AssistantAccess::Machine, Some(name)) => Ok(Some(name.to_owned())),
            (AssistantAccess::Machine, None) => {
                Err(RunError::WorkspaceNotUtf8(self.settings.workspace.clone()).into())
            }
        }
    }

    /// Returns the pending interrupt whose calls are proposed again when the thread moves to another folder,
    /// if there is one, and the folder from which the thread moves. `named` restricts the search to one
    /// interrupt.
    ///
    /// # Errors
    /// [`RunError::NotRehomed`] if the named interrupt is not pending, or if the assistant has no access to
    /// the machine.
    pub(crate) async fn interrupt_to_rehome<'q>(
        &self,
        thread: &Thread,
        pending: &'q [Interrupt],
        named: Option<InterruptId>,
    ) -> Result<(Option<&'q Interrupt>, Option<PathBuf>)> {
        let thread_id = thread.thread_id;
        if self.assistant_access(&thread.assistant_id) == AssistantAccess::Conversation {
            return Err(not_rehomed_error(thread_id, "its assistant has no access to a folder"));
        }
        let is_of_turn =
            |interrupt: &&Interrupt| RunPurpose::from_node(Some(&interrupt.node), None) == RunPurpose::Turn;
        let is_named = |interrupt: &&Interrupt| named.is_none_or(|named| named == interrupt.interrupt_id);
        let interrupt = pending.iter().filter(is_of_turn).find(is_named);
        if let (Some(named), None) = (named, interrupt) {
            return Err(not_rehomed_error(thread_id, format!("interrupt {named} is not pending")));
        }
        let from = match interrupt.and_then(|interrupt| interrupt.payload.workspace.clone()) {
            Some(workspace) => Some(PathBuf::from(workspace)),
            None => self.run_workspace(thread, interrupt.map(|interrupt| interrupt.run_id)).await?,
        };
        Ok((interrupt, from))
    }
}

impl<'a> RunService<'a> {
    /// Checks that the thread has pending tool calls that can be proposed again in this agent's folder: those
    /// of the named interrupt, or of any.
    ///
    /// # Errors
    /// [`RunError::NotRehomed`] if the named interrupt is not pending, if no call is pending, or if the calls
    /// are already proposed in this folder.
    pub fn check_rehome(self, thread_id: ThreadId, named: Option<InterruptId>) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let thread = self.agent.thread(thread_id).await?;
            let pending = self.pending_interrupts(thread_id).await?;
            let here = self.agent.workspace();
            match self.agent.interrupt_to_rehome(&thread, &pending, named).await? {
                (None, _) => Err(not_rehomed_error(thread_id, "no tool call is pending there")),
                (Some(_), Some(from)) if from == here => Err(already_in_workspace_error(thread_id, here)),
                (Some(_), _) => Ok(()),
            }
        })
    }

    /// Returns whether the thread's unfinished work can resume on this machine, which requires that its
    /// folder exists here.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn can_resume_here(self, thread_id: ThreadId) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move {
            let checkpoint = self.agent.store.checkpoint(thread_id).await?;
            match self.agent.resume_workspace(thread_id, checkpoint.as_ref()).await {
                Ok(_) => Ok(true),
                Err(Error::Run(RunError::WorkspaceGone { .. })) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}

/// A plan to move a thread to another folder.
pub(crate) struct RehomePlan<'a> {
    /// The thread that moves.
    pub(crate) thread: &'a Thread,
    /// The folder in which the thread's calls were proposed; `None` if it is unknown.
    pub(crate) from: Option<PathBuf>,
    /// The folder in which the calls are proposed again.
    pub(crate) to: &'a Path,
}

impl RehomePlan<'_> {
    /// Returns the event that records the move.
    pub(crate) fn event(&self, now: jiff::Timestamp) -> Result<NewEvent> {
        let from = self.from.as_ref().map(|from| from.to_string_lossy().into_owned());
        Ok(NewEvent::from_body(&ThreadRehomed { from, to: self.to.to_string_lossy().into_owned() }, now)?)
    }

    /// Returns the write that stores the new folder in the thread's metadata.
    pub(crate) fn workspace_write(&self) -> Write {
        set_workspace_write(self.thread.thread_id, &self.to.to_string_lossy())
    }

    /// Returns the channels with which an interrupt's calls are proposed again. Paths below the old folder
    /// become paths below the new one.
    pub(crate) fn channels_to_repropose(&self, interrupt: &Interrupt) -> Channels {
        let Some(from) = self.from.as_ref() else { return Channels::new() };
        reproposed_call_channels(interrupt, &from.to_string_lossy(), self.to)
    }
}

/// Returns the channels with which an interrupt's calls, proposed in `from`, are proposed again in `to`. The
/// result is empty if no argument contains a path below `from`.
pub(crate) fn reproposed_call_channels(interrupt: &Interrupt, from: &str, to: &Path) -> Channels {
    let to = to.to_string_lossy();
    let requests = interrupt.payload.action_requests.iter();
    let edited = requests.filter_map(|request| {
        let call_id = request.details.as_ref()?.get("call_id")?.as_str()?;
        let args = remap_paths(&request.args, from, &to);
        (args != request.args).then(|| (call_id.to_owned(), args))
    });
    let edited: Map<String, Value> = edited.collect();
    let mut channels = Channels::new();
    if !edited.is_empty() {
        EDITED_ARGS_CHANNEL.set(&mut channels, &edited);
    }
    channels
}

/// Builds the error that says why a thread does not move.
fn not_rehomed_error(thread_id: ThreadId, reason: impl Into<String>) -> Error {
    RunError::NotRehomed { thread_id, reason: reason.into() }.into()
}

/// Builds the error that says that a thread's calls are already made in that folder.
pub(crate) fn already_in_workspace_error(thread_id: ThreadId, folder: &Path) -> Error {
    not_rehomed_error(thread_id, format!("its calls are made in {} already", folder.display()))
}

/// Returns whether a recorded path still names the same folder, which means that no part of it has become a
/// symbolic link.
pub fn is_canonical_folder(folder: &Path) -> bool {
    canonical_folder(folder).is_some_and(|canonical| canonical == folder)
}

/// Returns the path of an existing folder without symbolic links, which is the form in which runs store it.
/// `None` if the folder does not exist.
pub(crate) fn canonical_folder(folder: &Path) -> Option<PathBuf> {
    folder.canonicalize().ok().filter(|canonical| canonical.is_dir())
}

/// Returns the write that stores the folder of the first turn as the thread's, for a thread without a folder
/// or whose recorded folder does not exist here. `None` if the thread has an existing folder.
pub(crate) fn first_turn_workspace_write(thread: &Thread, workspace: &Path) -> Option<Write> {
    let (thread_id, name) = (thread.thread_id, workspace.to_str()?);
    let is_known = thread.metadata.contains_key(WORKSPACE_KEY)
        || recorded_workspace(thread).is_some_and(|folder| Path::new(&folder).is_dir());
    (!is_known).then(|| set_workspace_write(thread_id, name))
}

/// Returns the write that stores a folder in the thread's metadata, and the folder's project.
fn set_workspace_write(thread_id: ThreadId, workspace: &str) -> Write {
    let metadata = Map::from_iter([(WORKSPACE_KEY.to_owned(), workspace.into())]);
    let project = Some(project_name(Path::new(workspace)));
    Write::UpdateThread { thread_id, patch: ThreadPatch { metadata, project, ..ThreadPatch::default() } }
}

/// Returns whether the decisions need the folder of the calls: they allow a call, or leave one undecided, which is then
/// proposed again in its folder.
pub(crate) fn needs_call_folder(decisions: &Decisions) -> bool {
    decisions.decisions.iter().any(|decision| match decision {
        Decision::Approve { .. } | Decision::Edit { .. } | Decision::Defer {} => true,
        Decision::Reject { .. } | Decision::Respond { .. } | Decision::Preview {} => false,
    })
}

/// Returns the folder in the thread's own metadata, or else the one that its import source recorded.
fn recorded_workspace(thread: &Thread) -> Option<String> {
    let source = thread.metadata.get("source").and_then(|source| source.get(WORKSPACE_KEY));
    let folder = thread.metadata.get(WORKSPACE_KEY).or(source);
    folder.and_then(Value::as_str).map(str::to_owned)
}

/// Returns `args` with every path below `from` replaced by the same path below `to`, at any depth.
fn remap_paths(args: &Value, from: &str, to: &str) -> Value {
    match args {
        Value::String(text) => Value::from(remap_paths_in_text(text, from, to)),
        Value::Array(items) => items.iter().map(|item| remap_paths(item, from, to)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), remap_paths(value, from, to)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => args.clone(),
    }
}

/// Returns `text` with every path below `from` replaced by the same path below `to`.
///
/// An occurrence of `from` inside a longer path or name is not replaced. The time is linear in the length of
/// the text.
fn remap_paths_in_text(text: &str, from: &str, to: &str) -> String {
    let from = from.trim_end_matches('/');
    if from.is_empty() {
        return text.to_owned();
    }
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let (mut mapped, mut remaining) = (String::with_capacity(text.len()), text);
    while let Some(index) = remaining.find(from) {
        let (before, after) = (&remaining[..index], &remaining[index + from.len()..]);
        let starts_path = !before
            .chars()
            .next_back()
            .or_else(|| mapped.chars().next_back())
            .is_some_and(|c| is_of_name(c) || c == '/');
        let ends_component = !after.chars().next().is_some_and(is_of_name);
        mapped.push_str(before);
        mapped.push_str(if starts_path && ends_component { to } else { from });
        remaining = after;
    }
    mapped.push_str(remaining);
    mapped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_below_the_old_folder_are_paths_below_the_new_one() {
        let check = |text: &str, expected: &str| {
            assert_eq!(remap_paths_in_text(text, "/old/app", "/new"), expected, "{text}");
        };
        check("/old/app/src/a.rs", "/new/src/a.rs");
        check("cd /old/app && rm -rf '/old/app/build'", "cd /new && rm -rf '/new/build'");
        check("/old/app", "/new");
        check("/old/app2/x /very/old/app/x /old/app.txt", "/old/app2/x /very/old/app/x /old/app.txt");
        check("src/a.rs", "src/a.rs");
        assert_eq!(remap_paths_in_text("/a", "/", "/new"), "/a");
        let args = json!({"path": "/old/app/a", "list": ["/old/app"], "count": 1});
        let mapped = json!({"path": "/new/a", "list": ["/new"], "count": 1});
        assert_eq!(remap_paths(&args, "/old/app", "/new"), mapped);
    }
}
