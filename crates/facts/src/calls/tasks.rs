//! The task list, folded over the whole thread because it outlives every compaction. Nothing is inferred from prose.

use protocol::{Seq, TodoItem, TodoStatus};

use crate::limits::TASKS_MAX;
use crate::text::secrets::redact;
use crate::tool_use::{TaskChange, head_words};

/// Bytes of one task that are kept.
const TASK_BYTES_MAX: usize = 600;

/// The newest state of the task list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    items: Vec<(Option<String>, TodoItem)>,
    /// Creations whose id is still in a result to come: the call and what it creates.
    creating: Vec<(String, String)>,
    /// The event that last changed the list.
    pub(crate) seq: Seq,
}

impl Tasks {
    /// Applies what the call `call_id` does to the list.
    pub(crate) fn apply(&mut self, change: TaskChange, call_id: &str, seq: Seq) {
        self.seq = seq;
        match change {
            TaskChange::Replace(items) => {
                self.items = items.into_iter().take(TASKS_MAX).map(|item| (None, shortened(item))).collect();
            }
            TaskChange::Create(text) => {
                if self.creating.len() >= TASKS_MAX {
                    self.creating.remove(0);
                }
                self.creating.push((call_id.to_owned(), text));
            }
            TaskChange::Update { id, status } => {
                let Some(at) = self.items.iter().position(|(known, _)| known.as_deref() == Some(&id)) else {
                    return;
                };
                match status {
                    Some(status) => self.items[at].1.status = status,
                    None => {
                        self.items.remove(at);
                    }
                }
            }
        }
    }

    /// Takes the result of a call; a creation reports the task's id as `Task #N`.
    pub(crate) fn result(&mut self, call_id: &str, text: &str, seq: Seq) {
        if self.creating.is_empty() {
            return;
        }
        let Some(at) = self.creating.iter().position(|(call, _)| call == call_id) else { return };
        let (_, text_of_task) = self.creating.remove(at);
        let Some((_, rest)) = text.split_once("Task #") else { return };
        let id: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if self.items.len() < TASKS_MAX && !id.is_empty() {
            self.items
                .push((Some(id), shortened(TodoItem { text: text_of_task, status: TodoStatus::Pending })));
            self.seq = seq;
        }
    }

    /// Returns the tasks in order.
    pub(crate) fn items(&self) -> Vec<TodoItem> {
        let items = self.items.iter().map(|(_, item)| item);
        items.filter(|item| !item.text.trim().is_empty()).cloned().collect()
    }
}

/// Returns the task within its limit and without secrets.
fn shortened(item: TodoItem) -> TodoItem {
    let safe = redact(head_words(&item.text, 2 * TASK_BYTES_MAX));
    TodoItem { text: head_words(&safe, TASK_BYTES_MAX).to_owned(), status: item.status }
}
