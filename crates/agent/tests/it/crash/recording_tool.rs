//! Tools of the crash matrices: one with a countable effect, in which the process can abort, and one that runs concurrently
//! until the result of the first is stored, so that every process makes the same commits.

use std::fs::OpenOptions;
use std::io::Write;

use async_trait::async_trait;
use journal::EventQuery;
use model::ToolSpec;
use protocol::{Category, Message};
use runtime::{RepeatSafety, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

/// The workspace file to which the effects are appended.
pub(super) const EFFECTS_FILE: &str = "effects.txt";

/// A tool that appends a line to [`EFFECTS_FILE`]. It is not idempotent.
pub(super) struct RecordTool;

#[async_trait]
impl Tool for RecordTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "record".to_owned(),
            description: "Appends a line.".to_owned(),
            parameters: json!({"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let line = args["line"].as_str().unwrap();
        crash_at(&format!("before {line}"));
        let path = context.workspace.join(EFFECTS_FILE);
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
        crash_at(&format!("after {line}"));
        ToolOutput::success(format!("recorded {line}"))
    }
}

/// A tool that polls the journal until another call has its result.
pub(super) struct WaitForResultTool;

#[async_trait]
impl Tool for WaitForResultTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "look".to_owned(),
            description: "Waits for another call.".to_owned(),
            parameters: json!({"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}),
        }
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let is_awaited_result =
            |message: &Message| matches!(message, Message::Tool(result) if args["call"] == result.call_id);
        loop {
            let query =
                EventQuery { categories: vec![Category::Message], limit: 10, ..EventQuery::default() };
            let page = context.store.events(context.thread_id, query).await.unwrap();
            if page.iter().filter_map(|event| event.message()).any(|message| is_awaited_result(&message)) {
                return ToolOutput::success("seen");
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Aborts the process if `position` is the crash point of this process.
fn crash_at(position: &str) {
    if std::env::var(super::CALL_VARIABLE).is_ok_and(|crash_position| crash_position == position) {
        std::process::abort();
    }
}
