//! The tool `compact_conversation`, by which the agent requests a compaction of its own conversation, for example
//! when it starts with another task.

use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use protocol::CompactionTrigger;
use runtime::{GraphUpdate, RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::compactor::Compactor;
use crate::node::compaction_request_channels;
use crate::plan::CompactionRequest;

/// The name of the tool.
pub const COMPACT_CONVERSATION: &str = "compact_conversation";

/// The tool `compact_conversation`.
///
/// A call is refused when the conversation is shorter than half of the trigger or when there is nothing to compact.
/// Otherwise the conversation is compacted before the next model call.
pub struct CompactConversationTool {
    /// The compactor of the agent.
    pub compactor: Arc<Compactor>,
}

// A doc comment here would become a description in the schema that the model gets.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompactConversationArgs {
    #[schemars(description = include_str!("../prompts/compact_conversation_focus.md").trim())]
    focus: Option<String>,
}

#[async_trait]
impl Tool for CompactConversationTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<CompactConversationArgs>(
            COMPACT_CONVERSATION,
            include_str!("../prompts/compact_conversation.md"),
        )
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let focus = match CompactConversationArgs::deserialize(args) {
            Ok(args) => args.focus.filter(|focus| !focus.trim().is_empty()),
            Err(error) => return ToolOutput::error(format!("bad arguments: {error}")),
        };
        let long = self.compactor.long_conversation_tokens();
        match self.compactor.request_tokens(&*context.store, context.thread_id).await {
            Ok(tokens) if tokens < long / 2 => {
                return ToolOutput::error(format!(
                    "Not compacted: the conversation has {tokens} tokens, less than half of the {long} tokens of a \
                     long one. Continue."
                ));
            }
            Ok(_) => {}
            Err(error) => return ToolOutput::error(format!("failed to {error}")),
        }
        let request = CompactionRequest { focus, ..CompactionRequest::new(CompactionTrigger::Manual, 0) };
        match self.compactor.nothing_to_compact_reason(&*context.store, context.thread_id, &request).await {
            Ok(None) => {}
            Ok(Some(reason)) => return ToolOutput::error(format!("Not compacted: {reason}. Continue.")),
            Err(failure) => return ToolOutput::error(format!("failed to {failure}")),
        }
        let update =
            GraphUpdate { channels: compaction_request_channels(&request), ..GraphUpdate::default() };
        ToolOutput::success("The conversation is compacted before your next step. Continue with the work.")
            .with_update(update)
    }
}
