//! The agent's standing instructions. They are the first part of every system prompt and stay the same bytes
//! for a whole run, so that a provider's prompt cache is used.

use async_trait::async_trait;
use model::ChatRequest;
use runtime::{Channels, GraphUpdate, Hook, HookPoint, StepContext, StepFailure};

use super::AgentRole;

/// The instructions of the thread's own agent.
const PROMPT: &str = include_str!("prompts/instructions.md");
/// The instructions of a sub-agent.
const SUBAGENT_PROMPT: &str = include_str!("prompts/subagent.md");

/// Hook that puts the standing instructions before all other parts of the system prompt.
pub(super) struct Instructions {
    /// The path of the workspace, or the text that replaces it for an agent without access to the machine.
    pub(super) workspace: String,
    /// The role that selects the instructions.
    pub(super) role: AgentRole,
}

#[async_trait]
impl Hook for Instructions {
    fn name(&self) -> &'static str {
        "Instructions"
    }

    fn can_skip(&self, _point: HookPoint, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        _step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        request.system.insert(0, instructions_text(self.role, &self.workspace));
        Ok(GraphUpdate::default())
    }
}

/// Returns the instructions for a role with the workspace filled in.
fn instructions_text(role: AgentRole, workspace: &str) -> String {
    let prompt = match role {
        AgentRole::Main => PROMPT,
        AgentRole::Subagent => SUBAGENT_PROMPT,
    };
    prompt.replace("{workspace}", workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_contain_no_unfilled_placeholder() {
        for (name, role) in [("main", AgentRole::Main), ("subagent", AgentRole::Subagent)] {
            let text = instructions_text(role, "/srv/project");
            assert!(!text.contains('{') && !text.contains('}'));
            insta::assert_snapshot!(name, text);
        }
    }
}
