//! The agent's standing instructions: the first part of every system prompt, and the same bytes for a whole run, so
//! that a provider's cache hits.

use std::path::PathBuf;

use async_trait::async_trait;
use model::ChatRequest;
use runtime::{Failure, Hook, StepContext, Update};

const PROMPT: &str = include_str!("prompts/instructions.md");

/// Puts the standing instructions first.
pub(crate) struct Instructions {
    pub(crate) workspace: PathBuf,
}

#[async_trait]
impl Hook for Instructions {
    async fn before_model(
        &self,
        _step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        request.system.insert(0, text(&self.workspace.to_string_lossy()));
        Ok(Update::default())
    }
}

fn text(workspace: &str) -> String {
    PROMPT.replace("{workspace}", workspace)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_instructions_are_filled_completely() {
        let text = super::text("/srv/project");
        assert!(!text.contains('{') && !text.contains('}'));
        insta::assert_snapshot!(text);
    }
}
