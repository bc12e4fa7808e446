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
    /// Changes without a result, the oldest first. The result of a creation will report the task's id. At most
    /// [`TASKS_MAX`].
    pending_changes: Vec<PendingChange>,
    /// `seq` of the event that last changed the list; 0 if there is none.
    seq: Seq,
}

impl TaskList {
    /// Records the change that the call `call_id` makes. It takes effect with the result of the call.
    pub(crate) fn record_change(&mut self, change: TaskChange, call_id: &str, seq: Seq) {
        if self.pending_changes.len() >= TASKS_MAX {
            self.pending_changes.remove(0);
        }
        self.pending_changes.push(PendingChange { call_id: call_id.to_owned(), seq, change });
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
                self.pending_changes.retain(|pending| pending.seq >= seq);
                self.items =
                    items.into_iter().take(TASKS_MAX).map(|item| (None, redact_and_shorten(item))).collect();
            }
            TaskChange::Create(text) => self.add_task(None, text),
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

    /// Adds an open task, unless the list is full.
    fn add_task(&mut self, id: Option<String>, text: String) {
        if self.items.len() < TASKS_MAX {
            self.items.push((id, redact_and_shorten(TodoItem { text, status: TodoStatus::Pending })));
        }
    }

    /// Records the result of a call. Its change takes effect if the call was performed. If the call created a task, the
    /// result reports its id as `Task #N`, and the task is added. A result without an id adds nothing.
    pub(crate) fn record_result(&mut self, call_id: &str, text: &str, seq: Seq, effect: CallEffect) {
        let of_call = |pending: &mut PendingChange| pending.call_id == call_id;
        let changes: Vec<PendingChange> = self.pending_changes.extract_if(.., of_call).collect();
        for PendingChange { change, seq: call_seq, .. } in changes {
            match change {
                TaskChange::Create(task_text) => {
                    let Some((_, after)) = text.split_once("Task #") else { continue };
                    let id: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    if !id.is_empty() {
                        self.add_task(Some(id), task_text);
                        self.seq = seq;
                    }
                }
                TaskChange::Replace(_) | TaskChange::Update { .. } if effect != CallEffect::Performed => {}
                TaskChange::Replace(_) | TaskChange::Update { .. } => self.apply_change(change, call_seq),
            }
        }
    }

    /// Returns the tasks in order, without those whose text is blank. An open task of a call without a result is among
    /// them, because losing open work is worse than listing it; a completed one is not.
    pub(crate) fn items(&self) -> Vec<TodoItem> {
        let items = self.items.iter().map(|(_, item)| item);
        let mut items: Vec<TodoItem> = items.filter(|item| !item.text.trim().is_empty()).cloned().collect();
        for pending in self.pending_open_tasks() {
            let is_full = items.len() >= TASKS_MAX;
            match items.iter_mut().find(|item| item.text == pending.text) {
                Some(known) => known.status = pending.status,
                None if is_full => {}
                None => items.push(pending),
            }
        }
        items
    }

    /// Returns the open tasks that calls without a result name.
    fn pending_open_tasks(&self) -> impl Iterator<Item = TodoItem> {
        let tasks = self.pending_changes.iter().flat_map(|pending| match &pending.change {
            TaskChange::Replace(items) => items.iter().take(TASKS_MAX).cloned().collect(),
            TaskChange::Create(text) => vec![TodoItem { text: text.clone(), status: TodoStatus::Pending }],
            TaskChange::Update { .. } => Vec::new(),
        });
        let open = tasks.filter(|task| task.status != TodoStatus::Completed);
        open.map(redact_and_shorten).filter(|task| !task.text.trim().is_empty())
    }

    /// Returns the `seq` of the event that last named a task of the list; 0 if there is none.
    pub(crate) fn seq(&self) -> Seq {
        match self.pending_open_tasks().next() {
            Some(_) => self.pending_changes.last().map_or(self.seq, |pending| pending.seq.max(self.seq)),
            None => self.seq,
        }
    }
}

/// Returns the task with its text redacted and cut to [`TASK_BYTES_MAX`]. Redaction comes before the final cut, so that no
/// part of a secret remains.
fn redact_and_shorten(item: TodoItem) -> TodoItem {
    let safe = redact(head_words(&item.text, 2 * TASK_BYTES_MAX));
    TodoItem { text: head_words(&safe, TASK_BYTES_MAX).to_owned(), status: item.status }
}
