//! The tool `execute`: one program that only reads, without a shell. [`allow`] says which; [`process`] runs it.

mod allow;
mod git;
mod process;

use std::time::Duration;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::workspace::Workspace;
use crate::{arguments, output};
use process::Ended;

/// How long a command may run.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The tool.
pub(crate) struct Execute {
    timeout: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    argv: Vec<String>,
}

impl Execute {
    /// Returns the tool with a limit on how long a command may run.
    pub const fn new(timeout: Duration) -> Self {
        Self { timeout }
    }

    async fn run(&self, args: &Value, context: &ToolContext) -> Result<String, String> {
        let Args { argv } = arguments(args)?;
        let workspace = Workspace::open(&context.workspace)?;
        allow::check(&argv, &workspace)?;
        let program = process::find_program(&argv[0], &workspace)?;
        let command = match argv[0].as_str() {
            "git" => git::command(&program, &argv[1..], &workspace).await?,
            _ => {
                let mut command = process::command(&program, &workspace);
                command.args(allow::fixed_arguments(&argv[0])).args(&argv[1..]);
                command
            }
        };
        let ran = process::run(command, self.timeout, &context.cancel).await?;
        let text = match ran.text.as_str() {
            "" => "(no output)",
            text => text,
        };
        match ran.ended {
            Ended::Exited(Some(0)) => Ok(text.to_owned()),
            Ended::Exited(Some(code)) => Err(format!("{text}\n[exit status {code}]")),
            Ended::Exited(None) => Err(format!("{text}\n[ended by a signal]")),
            Ended::TooLong => Err(format!("{text}\n[stopped after {} s]", self.timeout.as_secs_f32())),
            Ended::TooMuch => Err(format!("{text}\n[stopped: too much output; narrow the command]")),
            Ended::Cancelled => Err(format!("{text}\n[cancelled]")),
        }
    }
}

#[async_trait]
impl Tool for Execute {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "execute".to_owned(),
            description: format!(
                "Runs one program that only reads, in the workspace, without a shell: no pipes, redirections, \
                 wildcards or variables. Allowed: {}.",
                allow::programs()
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "argv": {
                        "type": "array",
                        "items": {"type": "string"},
                        "minItems": 1,
                        "description": "The program and its arguments, one item each, such as [\"git\", \"log\", \"--oneline\", \"-5\"]."
                    }
                },
                "required": ["argv"],
                "additionalProperties": false
            }),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        output(self.run(args, context).await)
    }
}

#[cfg(test)]
mod tests;
