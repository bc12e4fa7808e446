//! A tool with an effect that can be counted, and in which a process can die.

use std::fs::OpenOptions;
use std::io::Write;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Tool, ToolContext, ToolOutput};
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

fn die(here: &str) {
    if std::env::var(super::CALL).is_ok_and(|at| at == here) {
        std::process::abort();
    }
}
