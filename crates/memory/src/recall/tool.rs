//! The tool `recall`: lets the agent find messages that are not in its context, because they were compacted or are in
//! another thread. It only reads.

use async_trait::async_trait;
use journal::Store;
use model::ToolSpec;
use protocol::{Seq, ThreadId};
use runtime::{RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::visible_turn::{VisibleTurn, read_visible_turn};
use crate::MemoryScope;

use super::{MessageFilter, RecallError, RecallQuery, RecallScope, recall};

/// The tool's name.
pub const RECALL: &str = "recall";

/// The tool `recall`. It recalls from the thread of the call.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecallTool {
    /// The memory that conversations use. With [`MemoryScope::Assistant`], the scope of a project is that of everything.
    pub scope: MemoryScope,
}

impl RecallTool {
    /// Returns the query with the scope that the memory of conversations has.
    fn widen_scope(self, mut query: RecallQuery) -> RecallQuery {
        let is_words = matches!(query.filter, MessageFilter::Words(_));
        let keeps_scope = is_words && query.scope == RecallScope::Conversation;
        if self.scope == MemoryScope::Assistant && !keeps_scope {
            query.scope = RecallScope::Everything;
        }
        query
    }
}

// The arguments of a call. Their descriptions are for the model and are prompt files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallArgs {
    #[schemars(description = include_str!("../../prompts/recall/query.md").trim())]
    query: Option<String>,
    #[schemars(description = include_str!("../../prompts/recall/from_seq.md").trim(), range(min = 1))]
    from_seq: Option<Seq>,
    #[schemars(description = include_str!("../../prompts/recall/to_seq.md").trim(), range(min = 1))]
    to_seq: Option<Seq>,
    #[serde(default)]
    #[schemars(description = include_str!("../../prompts/recall/from_char.md").trim(), range(min = 1))]
    from_char: u64,
    #[schemars(description = include_str!("../../prompts/recall/thread.md").trim())]
    thread: Option<String>,
    #[serde(default)]
    #[schemars(description = include_str!("../../prompts/recall/scope.md").trim())]
    scope: RecallScope,
}

#[async_trait]
impl Tool for RecallTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<RecallArgs>(RECALL, include_str!("../../prompts/recall/tool.md"))
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args(args).map(drop)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let query = match parse_args(args) {
            Ok(query) => self.widen_scope(query),
            Err(reason) => return ToolOutput::error(reason),
        };
        match recall_text(&*context.store, context.thread_id, query).await {
            Ok(text) => ToolOutput::success(text),
            Err(error) => ToolOutput::error(format!("failed to {error}. To do: {}.", error.hint())),
        }
    }
}

/// Returns the answer of a call. A query by words does not return messages that the model already sees.
async fn recall_text(
    store: &dyn Store,
    thread_id: ThreadId,
    mut query: RecallQuery,
) -> Result<String, RecallError> {
    if let MessageFilter::Words(_) = &query.filter {
        let VisibleTurn { from, request } = read_visible_turn(store, thread_id).await?;
        (query.visible_from, query.visible_request) = (from, request);
    }
    Ok(recall(store, thread_id, &query).await?.to_text())
}

/// Parses a call's arguments. The error is the message for the model.
fn parse_args(args: &Value) -> Result<RecallQuery, String> {
    let args = RecallArgs::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
    let filter = match (args.query, args.from_seq, args.to_seq) {
        (Some(query), None, None) => MessageFilter::Words(query),
        (None, Some(from), Some(to)) => MessageFilter::Range(from, to),
        (None, Some(only), None) | (None, None, Some(only)) => MessageFilter::Range(only, only),
        (None, None, None) | (Some(_), ..) => {
            return Err("bad arguments: give query, or from_seq and to_seq, and not both".to_owned());
        }
    };
    // Models often fill in optional arguments with empty strings.
    let thread = args.thread.filter(|thread| !thread.trim().is_empty());
    // The argument counts from one; 0 means that it was not given.
    let from_char = args.from_char.saturating_sub(1);
    Ok(RecallQuery { thread, from_char, scope: args.scope, ..RecallQuery::new(filter) })
}
