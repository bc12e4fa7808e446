//! The tool `edit_memory`: lets the agent keep notes for later conversations in agent.md. The tool cannot change
//! the managed block.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use journal::RevisionCause;
use model::ToolSpec;
use runtime::{CallReview, CallSubject, RepeatSafety, ReviewDetail, Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::Value;
use text_diff::DiffHeader;

use crate::ReadExtent;
use crate::edit::{self, AppliedChange, EDITED_BYTES_MAX, NotesChange};
use crate::file::history::{HistoryError, NotesHistory};
use crate::file::project_notes::NotesScope;
use crate::file::{AgentFile, AgentFileGuard};

/// The tool's name.
pub const EDIT_MEMORY: &str = "edit_memory";

/// The tool's description: which facts are worth keeping and which are not.
const DESCRIPTION: &str = include_str!("../../prompts/edit_memory.md");

/// Maximum number of replacements in one call.
pub(super) const EDITS_MAX: usize = 50;
/// Number of unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// The tool `edit_memory`.
pub struct EditMemoryTool {
    file: Arc<AgentFile>,
    /// The notes that the tool changes.
    scope: NotesScope,
    /// Records the changes; `None` keeps no history.
    history: Option<NotesHistory>,
}

impl EditMemoryTool {
    /// Returns the tool for the notes of all projects in the assistant's agent.md.
    pub fn new(file: Arc<AgentFile>) -> Self {
        Self { file, scope: NotesScope::AllProjects, history: None }
    }

    /// Returns the tool for the notes of another scope.
    #[must_use]
    pub fn with_scope(self, scope: NotesScope) -> Self {
        Self { scope, ..self }
    }

    /// Returns the tool with a history of its changes. The history must be that of the same file.
    #[must_use]
    pub fn with_history(self, history: NotesHistory) -> Self {
        Self { history: Some(history), ..self }
    }

    /// Performs a change on a blocking thread, because it waits for a lock and syncs the file.
    async fn apply(&self, change: NotesChange) -> Result<AppliedChange, HistoryError> {
        let scope = self.scope.clone();
        let edit = move |file: &mut AgentFileGuard<'_>| file.edit_notes(&scope, &change);
        match &self.history {
            Some(history) => history.change(RevisionCause::Tool, edit).await,
            None => {
                let file = Arc::clone(&self.file);
                Ok(tokio::task::spawn_blocking(move || edit(&mut file.lock()?)).await??)
            }
        }
    }

    /// Returns the review of a call: a diff of the file. Returns `None` when the call would change nothing, or when
    /// the file cannot be read whole.
    fn plan_review(&self, args: &Value) -> Option<CallReview> {
        let change = parse_args(args).ok()?;
        let old = self.file.read().ok().filter(|old| old.extent == ReadExtent::Whole)?;
        let applied = edit::apply_change(&old.bytes, &self.scope, &change);
        if applied.applied_count == 0 {
            return None;
        }
        let name = PathBuf::from(self.file.path().file_name()?);
        let (old, new) = (String::from_utf8_lossy(&old.bytes), String::from_utf8_lossy(&applied.text));
        let shown = name.display();
        let (old_name, new_name) = (format!("a/{shown}"), format!("b/{shown}"));
        let header = DiffHeader { old: &old_name, new: &new_name };
        let diff = text_diff::unified_diff(&old, &new, CONTEXT_LINES, Some(header));
        let subjects = vec![CallSubject::Path(name)];
        Some(CallReview { subjects, detail: ReviewDetail::Diff(diff), ..CallReview::default() })
    }
}

#[async_trait]
impl Tool for EditMemoryTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<NotesChange>(EDIT_MEMORY, DESCRIPTION)
    }

    /// Unsafe: a repeated call would append its notes twice.
    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Unsafe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args(args).map(drop)
    }

    async fn review(&self, args: &Value, _context: &ToolContext) -> CallReview {
        self.plan_review(args).unwrap_or_default()
    }

    async fn call(&self, args: &Value, _context: &ToolContext) -> ToolOutput {
        let change = match parse_args(args) {
            Ok(change) => change,
            Err(reason) => return ToolOutput::error(reason),
        };
        match self.apply(change).await {
            Ok(applied) => render_report(&applied),
            Err(HistoryError::Task(_) | HistoryError::Journal(_)) => {
                ToolOutput::error("the tool broke off; look at agent.md before you repeat the call")
            }
            Err(error) => ToolOutput::error(format!("failed to {error}. To do: {}", error.hint())),
        }
    }
}

/// Parses a call's arguments. The error is the message for the model.
fn parse_args(args: &Value) -> Result<NotesChange, String> {
    let change = NotesChange::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
    match (change.edits.len(), &change.append) {
        (0, None) => Err("bad arguments: give edits, append, or both".to_owned()),
        (count, _) if count > EDITS_MAX => Err(format!("bad arguments: give at most {EDITS_MAX} edits")),
        _ => Ok(change),
    }
}

/// Returns the notice about redacted secrets for the model and the user.
pub(crate) fn redaction_notice(count: u64) -> String {
    let secrets = if count == 1 { "1 secret was".to_owned() } else { format!("{count} secrets were") };
    format!(
        "{secrets} withheld: secrets are never kept in agent.md; name the place where the secret is instead."
    )
}

/// Returns the result of a call. It is an error if any part was refused, although the other parts were applied.
fn render_report(applied: &AppliedChange) -> ToolOutput {
    let AppliedChange { text, applied_count, refusals, redacted_secrets } = applied;
    let mut lines = Vec::new();
    if *applied_count > 0 {
        let size = text.len();
        lines.push(format!(
            "agent.md is changed ({applied_count} of {} parts; {size} of {EDITED_BYTES_MAX} bytes).",
            applied_count + refusals.len()
        ));
    } else {
        lines.push("agent.md is unchanged.".to_owned());
    }
    if *redacted_secrets > 0 {
        lines.push(redaction_notice(*redacted_secrets));
    }
    lines.extend(refusals.iter().cloned());
    let text = lines.join("\n");
    if refusals.is_empty() { ToolOutput::success(text) } else { ToolOutput::error(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_the_agent_is_told_to_keep_what_is_durable_about_the_user_and_descriptive() {
        let tool = EditMemoryTool::new(Arc::new(AgentFile::new("agent.md")));
        let description = tool.spec().description;
        for word in ["durable", "about the person", "descriptive", "never for secrets"] {
            assert!(description.contains(word), "{word}");
        }
        insta::assert_snapshot!(description);
    }
}
