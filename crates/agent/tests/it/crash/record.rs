//! A tool with an effect that can be counted, and in which a process can die; and one that runs beside it until its
//! result is stored, so that every process comes to the same commits.

use std::fs::OpenOptions;
use std::io::Write;

use async_trait::async_trait;
use journal::EventQuery;
use model::ToolSpec;
use protocol::{Category, Message};
use runtime::{Repeat, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

/// The file that effects go to.
pub(super) const EFFECTS: &str = "effects.txt";

/// Appends a line to the file of effects. It does not notice what it has done already.
pub(super) struct Record;

#[async_trait]
impl Tool for Record {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "record".to_owned(),
            description: "Appends a line.".to_owned(),
            parameters: json!({"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let line = args["line"].as_str().unwrap();
        die(&format!("before {line}"));
        let path = context.workspace.join(EFFECTS);
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
        die(&format!("after {line}"));
        ToolOutput::success(format!("recorded {line}"))
    }
}

/// Looks into the journal until another call has its result.
pub(super) struct Look;

#[async_trait]
impl Tool for Look {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "look".to_owned(),
            description: "Waits for another call.".to_owned(),
            parameters: json!({"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
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

fn die(here: &str) {
    if std::env::var(super::CALL).is_ok_and(|at| at == here) {
        std::process::abort();
    }
}
