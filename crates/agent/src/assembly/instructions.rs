//! The agent's standing instructions: the first part of every system prompt, and the same bytes for a whole run, so
//! that a provider's cache hits.

use async_trait::async_trait;
use model::ChatRequest;
use runtime::{Channels, Failure, Hook, Point, StepContext, Update};

use super::Role;

const PROMPT: &str = include_str!("prompts/instructions.md");
const SUBAGENT_PROMPT: &str = include_str!("prompts/subagent.md");

/// Puts the standing instructions first.
pub(super) struct Instructions {
    /// What the model is told of the folder it works in.
    pub(super) workspace: String,
    pub(super) role: Role,
}

#[async_trait]
impl Hook for Instructions {
    fn name(&self) -> &'static str {
        "Instructions"
    }

    fn is_idle(&self, _point: Point, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        _step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        request.system.insert(0, text(self.role, &self.workspace));
        Ok(Update::default())
    }
}

fn text(role: Role, workspace: &str) -> String {
    let prompt = match role {
        Role::Main => PROMPT,
        Role::Subagent => SUBAGENT_PROMPT,
    };
    prompt.replace("{workspace}", workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_filled_completely() {
        for (name, role) in [("main", Role::Main), ("subagent", Role::Subagent)] {
            let text = text(role, "/srv/project");
            assert!(!text.contains('{') && !text.contains('}'));
            insta::assert_snapshot!(name, text);
        }
    }
}
