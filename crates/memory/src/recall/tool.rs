//! The tool `recall`: how the agent finds again what was said before its context began. It only reads.

use async_trait::async_trait;
use journal::{EventQuery, Store};
use model::ToolSpec;
use protocol::{Category, EventType, Seq, ThreadId};
use runtime::{Repeat, Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{RecallError, RecallQuery, Wanted, recall};

/// The tool's name.
pub const RECALL: &str = "recall";

/// Messages that are read at a time to find where a turn began.
const TURN_PAGE: usize = 50;

/// The tool.
pub struct RecallTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    query: Option<String>,
    from_seq: Option<Seq>,
    to_seq: Option<Seq>,
    thread: Option<String>,
}

#[async_trait]
impl Tool for RecallTool {
    fn spec(&self) -> ToolSpec {
        let number =
            |description: &str| json!({"type": "integer", "minimum": 1, "description": description.trim()});
        let string = |description: &str| json!({"type": "string", "description": description.trim()});
        ToolSpec {
            name: RECALL.to_owned(),
            description: include_str!("../../prompts/recall/tool.md").trim().to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": string(include_str!("../../prompts/recall/query.md")),
                    "from_seq": number(include_str!("../../prompts/recall/from_seq.md")),
                    "to_seq": number(include_str!("../../prompts/recall/to_seq.md")),
                    "thread": string(include_str!("../../prompts/recall/thread.md"))
                },
                "additionalProperties": false
            }),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let (wanted, thread) = match arguments(args) {
            Ok(asked) => asked,
            Err(reason) => return ToolOutput::error(reason),
        };
        match answer(&*context.store, context.thread_id, (wanted, thread)).await {
            Ok(text) => ToolOutput::success(text),
            Err(error) => ToolOutput::error(format!("failed to {error}. To do: {}.", error.hint())),
        }
    }
}

async fn answer(
    store: &dyn Store,
    thread_id: ThreadId,
    (wanted, thread): (Wanted, Option<String>),
) -> Result<String, RecallError> {
    let before = match &wanted {
        Wanted::Words(_) => turn_begins(store, thread_id).await?,
        Wanted::Range(..) => None,
    };
    let query = RecallQuery { thread, before, ..RecallQuery::of(wanted) };
    Ok(recall(store, thread_id, &query).await?.to_text())
}

/// Reads a call's arguments; the error is what the model is told.
fn arguments(args: &Value) -> Result<(Wanted, Option<String>), String> {
    let args = Args::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
    let wanted = match (args.query, args.from_seq, args.to_seq) {
        (Some(query), None, None) => Wanted::Words(query),
        (None, Some(from), Some(to)) => Wanted::Range(from, to),
        (None, Some(only), None) | (None, None, Some(only)) => Wanted::Range(only, only),
        (None, None, None) | (Some(_), ..) => {
            return Err("bad arguments: give query, or from_seq and to_seq, and not both".to_owned());
        }
    };
    // Models fill in what they need not.
    Ok((wanted, args.thread.filter(|thread| !thread.trim().is_empty())))
}

/// Returns the seq of what the person said last: what follows it is this turn's, which the model has in sight.
async fn turn_begins(store: &dyn Store, thread_id: ThreadId) -> Result<Option<Seq>, RecallError> {
    let mut query =
        EventQuery { categories: vec![Category::Message], after: None, ..EventQuery::after(0, TURN_PAGE) };
    loop {
        let page = store.events(thread_id, query.clone()).await?;
        let human = page.iter().rev().find(|event| event.kind() == Some(EventType::HumanMessage));
        match (human, page.first()) {
            (Some(human), _) => return Ok(Some(human.seq)),
            (None, Some(first)) => query.before = Some(first.seq),
            (None, None) => return Ok(None),
        }
    }
}
