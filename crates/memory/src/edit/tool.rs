//! The tool `edit_memory`: what the agent keeps for later conversations, in the notes of agent.md. The block in there is
//! not its matter.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Detail, Repeat, Review, Subject, Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::Value;
use similar::TextDiff;

use crate::Extent;
use crate::edit::{self, Applied, Change, EDITED_BYTES_MAX};
use crate::file::AgentFile;

/// The tool's name.
pub const EDIT_MEMORY: &str = "edit_memory";

/// What is worth keeping, and what is not.
const DESCRIPTION: &str = include_str!("../../prompts/edit_memory.md");

/// The most replacements of one call.
pub(super) const EDITS_MAX: usize = 50;
/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// The tool.
pub struct EditMemory {
    file: Arc<AgentFile>,
}

impl EditMemory {
    /// Returns the tool for the assistant's agent.md.
    pub fn new(file: Arc<AgentFile>) -> Self {
        Self { file }
    }

    fn planned(&self, args: &Value) -> Option<Review> {
        let change = arguments(args).ok()?;
        let old = self.file.read().ok().filter(|old| old.extent == Extent::Whole)?;
        let applied = edit::apply(&old.bytes, &change);
        if applied.made == 0 {
            return None;
        }
        let name = PathBuf::from(self.file.path().file_name()?);
        let (old, new) = (String::from_utf8_lossy(&old.bytes), String::from_utf8_lossy(&applied.text));
        let shown = name.display();
        let diff = TextDiff::from_lines(&*old, &*new)
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(&format!("a/{shown}"), &format!("b/{shown}"))
            .to_string();
        Some(Review { subjects: vec![Subject::Path(name)], detail: Detail::Diff(diff) })
    }
}

#[async_trait]
impl Tool for EditMemory {
    fn spec(&self) -> ToolSpec {
        ToolSpec::taking::<Change>(EDIT_MEMORY, DESCRIPTION)
    }

    fn repeat(&self) -> Repeat {
        Repeat::Never
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        arguments(args).map(drop)
    }

    async fn review(&self, args: &Value, _context: &ToolContext) -> Review {
        self.planned(args).unwrap_or_default()
    }

    async fn call(&self, args: &Value, _context: &ToolContext) -> ToolOutput {
        let change = match arguments(args) {
            Ok(change) => change,
            Err(reason) => return ToolOutput::error(reason),
        };
        let file = Arc::clone(&self.file);
        match tokio::task::spawn_blocking(move || file.edit(&change)).await {
            Ok(Ok(applied)) => report(&applied),
            Ok(Err(error)) => ToolOutput::error(format!("failed to {error}. To do: {}", error.hint())),
            Err(_) => ToolOutput::error("the tool broke off; look at agent.md before you repeat the call"),
        }
    }
}

/// Reads a call's arguments; the error is what the model is told.
fn arguments(args: &Value) -> Result<Change, String> {
    let change = Change::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
    match (change.edits.len(), &change.append) {
        (0, None) => Err("bad arguments: give edits, append, or both".to_owned()),
        (count, _) if count > EDITS_MAX => Err(format!("bad arguments: give at most {EDITS_MAX} edits")),
        _ => Ok(change),
    }
}

/// Returns what a model and a person are told when secrets were withheld.
pub(crate) fn withheld_from(count: u64) -> String {
    let secrets = if count == 1 { "1 secret was".to_owned() } else { format!("{count} secrets were") };
    format!(
        "{secrets} withheld: secrets are never kept in agent.md; name the place where the secret is instead."
    )
}

fn report(applied: &Applied) -> ToolOutput {
    let Applied { text, made, refused, withheld } = applied;
    let mut lines = Vec::new();
    if *made > 0 {
        let size = text.len();
        lines.push(format!(
            "agent.md is changed ({made} of {} parts; {size} of {EDITED_BYTES_MAX} bytes).",
            made + refused.len()
        ));
    } else {
        lines.push("agent.md is unchanged.".to_owned());
    }
    if *withheld > 0 {
        lines.push(withheld_from(*withheld));
    }
    lines.extend(refused.iter().cloned());
    let text = lines.join("\n");
    if refused.is_empty() { ToolOutput::success(text) } else { ToolOutput::error(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_the_agent_is_told_to_keep_what_is_durable_about_the_user_and_descriptive() {
        let tool = EditMemory::new(Arc::new(AgentFile::new("agent.md")));
        let description = tool.spec().description;
        for word in ["durable", "about the person", "descriptive", "never for secrets"] {
            assert!(description.contains(word), "{word}");
        }
        insta::assert_snapshot!(description);
    }
}
