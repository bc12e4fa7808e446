//! The task list, folded from tool calls over the whole thread, because it outlives every compaction. Prose is not
//! interpreted.

use protocol::{Seq, TodoItem, TodoStatus};

use crate::calls::outcomes::CallEffect;
use crate::limits::TASKS_MAX;
use crate::tool_use::{TaskChange, head_words};
use secrets::redact;

/// Maximum bytes kept of the text of one task.
const TASK_BYTES_MAX: usize = 600;

/// A change of the list that takes effect with the result of its call.
#[derive(Debug, Clone)]
struct PendingChange {
    /// The id of the call.
    call_id: String,
    /// `seq` of the call.
    seq: Seq,
    change: TaskChange,
}

/// The newest state of the task list.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskList {
    /// The tasks in order. The id is known only for tasks that were created one at a time.
    items: Vec<(Option<String>, TodoItem)>,
    /// Creations without a result, which will report the task's id: call id and text of the task. At most [`TASKS_MAX`].
    pending_creations: Vec<(String, String)>,
    /// Other changes without a result, oldest first. At most [`TASKS_MAX`].
    pending_changes: Vec<PendingChange>,
    /// `seq` of the event that last changed the list; 0 if there is none.
    pub(crate) seq: Seq,
}

impl TaskList {
    /// Records the change that the call `call_id` makes. It takes effect with the result of the call.
    pub(crate) fn record_change(&mut self, change: TaskChange, call_id: &str, seq: Seq) {
        match change {
            TaskChange::Create(text) => {
                if self.pending_creations.len() >= TASKS_MAX {
                    self.pending_creations.remove(0);
                }
                self.pending_creations.push((call_id.to_owned(), text));
            }
            TaskChange::Replace(_) | TaskChange::Update { .. } => {
                if self.pending_changes.len() >= TASKS_MAX {
                    self.pending_changes.remove(0);
                }
                self.pending_changes.push(PendingChange { call_id: call_id.to_owned(), seq, change });
            }
        }
    }

    /// Lets the changes without a result take effect, because their format records no results.
    pub(crate) fn confirm_pending(&mut self) {
        for PendingChange { change, seq, .. } in std::mem::take(&mut self.pending_changes) {
            self.apply_change(change, seq);
        }
    }

    /// Applies a change. An update of an unknown task has no effect.
    fn apply_change(&mut self, change: TaskChange, seq: Seq) {
        self.seq = seq;
        match change {
            TaskChange::Replace(items) => {
                self.items =
                    items.into_iter().take(TASKS_MAX).map(|item| (None, redact_and_shorten(item))).collect();
            }
            TaskChange::Create(_) => {}
            TaskChange::Update { id, status } => {
                let Some(index) = self.items.iter().position(|(known, _)| known.as_deref() == Some(&id))
                else {
                    return;
                };
                match status {
                    Some(status) => self.items[index].1.status = status,
                    None => {
                        self.items.remove(index);
                    }
                }
            }
        }
    }

    /// Records the result of a call. Its change takes effect if the call was performed. If the call created a task, the
    /// result reports its id as `Task #N`, and the task is added. A result without an id adds nothing.
    pub(crate) fn record_result(&mut self, call_id: &str, text: &str, seq: Seq, effect: CallEffect) {
        let of_call = |pending: &mut PendingChange| pending.call_id == call_id;
        let changes: Vec<PendingChange> = self.pending_changes.extract_if(.., of_call).collect();
        for pending in changes.into_iter().filter(|_| effect == CallEffect::Performed) {
            self.apply_change(pending.change, pending.seq);
        }
        if self.pending_creations.is_empty() {
            return;
        }
        let Some(index) = self.pending_creations.iter().position(|(call, _)| call == call_id) else { return };
        let (_, task_text) = self.pending_creations.remove(index);
        let Some((_, after)) = text.split_once("Task #") else { return };
        let id: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if self.items.len() < TASKS_MAX && !id.is_empty() {
            self.items.push((
                Some(id),
                redact_and_shorten(TodoItem { text: task_text, status: TodoStatus::Pending }),
            ));
            self.seq = seq;
        }
    }

    /// Returns the tasks in order, without those whose text is blank.
    pub(crate) fn items(&self) -> Vec<TodoItem> {
        let items = self.items.iter().map(|(_, item)| item);
        items.filter(|item| !item.text.trim().is_empty()).cloned().collect()
    }
}

/// Returns the task with its text redacted and cut to [`TASK_BYTES_MAX`]. Redaction comes before the final cut, so that no
/// part of a secret remains.
fn redact_and_shorten(item: TodoItem) -> TodoItem {
    let safe = redact(head_words(&item.text, 2 * TASK_BYTES_MAX));
    TodoItem { text: head_words(&safe, TASK_BYTES_MAX).to_owned(), status: item.status }
}
