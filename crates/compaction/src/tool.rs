//! The tool `compact_conversation`: the agent lets its own conversation be condensed when it turns to something else.

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use protocol::CompactionTrigger;
use runtime::{Repeat, Tool, ToolContext, ToolOutput, Update};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::compactor::Compactor;
use crate::node::wanted_channels;
use crate::plan::Wanted;

/// The tool's name.
pub const COMPACT_CONVERSATION: &str = "compact_conversation";

/// The tool.
pub struct CompactTool {
    /// What condenses.
    pub compactor: Arc<Compactor>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(description = include_str!("../prompts/compact_conversation_focus.md").trim())]
    focus: Option<String>,
}

#[async_trait]
impl Tool for CompactTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::taking::<Args>(COMPACT_CONVERSATION, include_str!("../prompts/compact_conversation.md"))
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let focus = match Args::deserialize(args) {
            Ok(args) => args.focus.filter(|focus| !focus.trim().is_empty()),
            Err(error) => return ToolOutput::error(format!("bad arguments: {error}")),
        };
        let long = self.compactor.long_tokens();
        match self.compactor.request_tokens(&*context.store, context.thread_id).await {
            Ok(tokens) if tokens < long / 2 => {
                return ToolOutput::error(format!(
                    "Not condensed: the conversation takes {tokens} tokens, less than half of the {long} at which it \
                     is long. Go on."
                ));
            }
            Ok(_) => {}
            Err(error) => return ToolOutput::error(format!("failed to {error}")),
        }
        let wanted = Wanted { focus, ..Wanted::unasked(CompactionTrigger::Manual, 0) };
        match self.compactor.nothing_to_do(&*context.store, context.thread_id, &wanted).await {
            Ok(None) => {}
            Ok(Some(reason)) => return ToolOutput::error(format!("Not condensed: {reason}. Go on.")),
            Err(failure) => return ToolOutput::error(format!("failed to {failure}")),
        }
        let update = Update { channels: wanted_channels(&wanted), ..Update::default() };
        ToolOutput::success("The conversation is condensed before your next step. Go on with the work.")
            .with_update(update)
    }
}
