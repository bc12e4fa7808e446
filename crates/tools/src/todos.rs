//! The tool `write_todos`: the agent's list of tasks, kept in the thread's state and replaced as a whole. Whether the
//! tasks are done is for the agent to say.

use async_trait::async_trait;
use model::ToolSpec;
use protocol::TodoStatus;
use runtime::{Channels, Repeat, Tool, ToolContext, ToolOutput, Update};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments;

/// Channel: the list of tasks, `[{content, status}]`.
pub const TODOS_CHANNEL: &str = "todos";

/// The most tasks of a list.
const TODOS_MAX: usize = 100;
/// The most characters of one task.
const CONTENT_CHARS_MAX: usize = 500;

/// The tool.
pub(crate) struct WriteTodos;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    todos: Vec<Todo>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Todo {
    content: String,
    status: TodoStatus,
}

#[async_trait]
impl Tool for WriteTodos {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_todos".to_owned(),
            description: "Replaces your list of tasks. Use it for work of three steps or more: write the list when you \
                          begin, and again whenever a task begins or is done; one is in progress at a time."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "maxItems": TODOS_MAX,
                        "description": "The whole list, in order.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "content": {"type": "string", "description": "What is to be done."},
                                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                            },
                            "required": ["content", "status"],
                            "additionalProperties": false
                        }
                    }
                },
                "required": ["todos"],
                "additionalProperties": false
            }),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    async fn call(&self, args: &Value, _context: &ToolContext) -> ToolOutput {
        let todos = match arguments::<Args>(args).and_then(Args::checked) {
            Ok(todos) => todos,
            Err(reason) => return ToolOutput::error(reason),
        };
        let lines: Vec<String> = todos.iter().map(Todo::line).collect();
        let text = if lines.is_empty() { "(the list is empty)".to_owned() } else { lines.join("\n") };
        let channels = Channels::from_iter([(TODOS_CHANNEL.to_owned(), json!(todos))]);
        ToolOutput::success(text).with_update(Update { channels, ..Update::default() })
    }
}

impl Args {
    fn checked(self) -> Result<Vec<Todo>, String> {
        if self.todos.len() > TODOS_MAX {
            return Err(format!("{} tasks are too many; {TODOS_MAX} is the limit", self.todos.len()));
        }
        for todo in &self.todos {
            if todo.content.trim().is_empty() {
                return Err("a task has no content".to_owned());
            }
            if todo.content.chars().count() > CONTENT_CHARS_MAX {
                return Err(format!("a task has more than {CONTENT_CHARS_MAX} characters; say it shorter"));
            }
        }
        Ok(self.todos)
    }
}

impl Todo {
    fn line(&self) -> String {
        let mark = match self.status {
            TodoStatus::Pending => "[ ]",
            TodoStatus::InProgress => "[~]",
            TodoStatus::Completed => "[x]",
        };
        format!("{mark} {}", self.content)
    }
}
