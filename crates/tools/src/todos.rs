//! The tool `write_todos`: the agent's task list. The list is stored in a channel of the thread's state, and each call
//! replaces it as a whole. The agent alone sets a task's status; nothing here verifies it.

use async_trait::async_trait;
use model::ToolSpec;
use protocol::TodoStatus;
use runtime::{Channel, GraphUpdate, RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse_args;

/// The channel that holds the task list, `[{content, status}]`.
pub const TODOS_CHANNEL: Channel<Vec<Todo>> = Channel::new("todos");

/// Maximum number of tasks in a list.
const TODOS_MAX: usize = 100;
/// Maximum length of a task's text in characters.
const CONTENT_CHARS_MAX: usize = 500;

/// The tool `write_todos`.
pub(crate) struct WriteTodosTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteTodosArgs {
    /// The whole list, in order.
    #[schemars(length(max = TODOS_MAX))]
    todos: Vec<Todo>,
}

/// One task of the list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// The text of the task.
    pub content: String,
    /// How far it is.
    #[schemars(with = "String", description = "", extend("enum" = ["pending", "in_progress", "completed"]))]
    pub status: TodoStatus,
}

#[async_trait]
impl Tool for WriteTodosTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<WriteTodosArgs>(
            "write_todos",
            "Replaces your list of tasks. Use it for work of three steps or more: write the list when you \
                          begin, and again whenever a task begins or is done; one is in progress at a time.",
        )
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args::<WriteTodosArgs>(args).and_then(WriteTodosArgs::validate).map(drop)
    }

    async fn call(&self, args: &Value, _context: &ToolContext) -> ToolOutput {
        let todos = match parse_args::<WriteTodosArgs>(args).and_then(WriteTodosArgs::validate) {
            Ok(todos) => todos,
            Err(reason) => return ToolOutput::error(reason),
        };
        let lines: Vec<String> = todos.iter().map(Todo::to_line).collect();
        let text = if lines.is_empty() { "(the list is empty)".to_owned() } else { lines.join("\n") };
        let mut update = GraphUpdate::default();
        TODOS_CHANNEL.set(&mut update.channels, &todos);
        ToolOutput::success(text).with_update(update)
    }
}

impl WriteTodosArgs {
    /// Returns the tasks if their number and their texts are within the limits.
    ///
    /// # Errors
    /// Returns the message for the model if a limit is exceeded or a task is empty.
    fn validate(self) -> Result<Vec<Todo>, String> {
        if self.todos.len() > TODOS_MAX {
            return Err(format!("{} tasks are too many; {TODOS_MAX} is the limit", self.todos.len()));
        }
        for todo in &self.todos {
            if todo.content.trim().is_empty() {
                return Err("a task has no content".to_owned());
            }
            if todo.content.chars().count() > CONTENT_CHARS_MAX {
                return Err(format!("a task has more than {CONTENT_CHARS_MAX} characters; shorten it"));
            }
        }
        Ok(self.todos)
    }
}

impl Todo {
    /// Renders the task as one line with a check box.
    fn to_line(&self) -> String {
        let mark = match self.status {
            TodoStatus::Pending => "[ ]",
            TodoStatus::InProgress => "[~]",
            TodoStatus::Completed => "[x]",
        };
        format!("{mark} {}", self.content)
    }
}
