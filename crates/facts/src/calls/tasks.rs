//! The task list, folded over the whole thread because it outlives every compaction. Nothing is inferred from prose.

use protocol::{Seq, TodoItem, TodoStatus};

use crate::limits::TASKS_MAX;
use crate::text::redaction::redact;
use crate::tool_use::{TaskChange, head_words};

/// Bytes of one task that are kept.
const TASK_BYTES_MAX: usize = 600;

/// The newest state of the task list.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskList {
    items: Vec<(Option<String>, TodoItem)>,
    /// Creations whose id is still in a result to come: the call and what it creates.
    pending_creations: Vec<(String, String)>,
    /// The event that last changed the list.
    pub(crate) seq: Seq,
}

impl TaskList {
    /// Applies what the call `call_id` does to the list.
    pub(crate) fn apply_change(&mut self, change: TaskChange, call_id: &str, seq: Seq) {
        self.seq = seq;
        match change {
            TaskChange::Replace(items) => {
                self.items =
                    items.into_iter().take(TASKS_MAX).map(|item| (None, redact_and_shorten(item))).collect();
            }
            TaskChange::Create(text) => {
                if self.pending_creations.len() >= TASKS_MAX {
                    self.pending_creations.remove(0);
                }
                self.pending_creations.push((call_id.to_owned(), text));
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
    pub(crate) fn record_result(&mut self, call_id: &str, text: &str, seq: Seq) {
        if self.pending_creations.is_empty() {
            return;
        }
        let Some(at) = self.pending_creations.iter().position(|(call, _)| call == call_id) else { return };
        let (_, text_of_task) = self.pending_creations.remove(at);
        let Some((_, rest)) = text.split_once("Task #") else { return };
        let id: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if self.items.len() < TASKS_MAX && !id.is_empty() {
            self.items.push((
                Some(id),
                redact_and_shorten(TodoItem { text: text_of_task, status: TodoStatus::Pending }),
            ));
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
fn redact_and_shorten(item: TodoItem) -> TodoItem {
    let safe = redact(head_words(&item.text, 2 * TASK_BYTES_MAX));
    TodoItem { text: head_words(&safe, TASK_BYTES_MAX).to_owned(), status: item.status }
}
