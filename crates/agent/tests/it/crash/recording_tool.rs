//! A tool with an effect that can be counted, and in which a process can die; and one that runs beside it until its
//! result is stored, so that every process comes to the same commits.

use std::fs::OpenOptions;
use std::io::Write;

use async_trait::async_trait;
use journal::EventQuery;
use model::ToolSpec;
use protocol::{Category, Message};
use runtime::{RepeatSafety, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

/// The file that effects go to.
pub(super) const EFFECTS_FILE: &str = "effects.txt";

/// Appends a line to the file of effects. It does not notice what it has done already.
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

/// Looks into the journal until another call has its result.
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
        let is_it =
            |message: &Message| matches!(message, Message::Tool(result) if args["call"] == result.call_id);
        loop {
            let query =
                EventQuery { categories: vec![Category::Message], limit: 10, ..EventQuery::default() };
            let page = context.store.events(context.thread_id, query).await.unwrap();
            if page.iter().filter_map(|event| event.message()).any(|message| is_it(&message)) {
                return ToolOutput::success("seen");
            }
            tokio::task::yield_now().await;
        }
    }
}

fn crash_at(here: &str) {
    if std::env::var(super::CALL_VARIABLE).is_ok_and(|at| at == here) {
        std::process::abort();
    }
}
