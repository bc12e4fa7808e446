//! The facts that are carried over from compaction to compaction, without a model: the earlier facts are merged with
//! those of the newly dropped messages.
//!
//! Recent facts come first, and every list is bounded.

use std::collections::HashSet;

use facts::formatting::{to_single_line, truncate_with_ellipsis};
use facts::tool_use::{TaskChange, ToolUse};
use facts::{ConversationFacts, TranscriptItemKind};
use protocol::{CarriedFacts, CarriedFiles, Message, TodoItem};

use super::SummarySource;
use super::record::dedup_entries;
use crate::cut::ContextMessage;

/// The maximum number of changed files.
const FILES_CHANGED_MAX: usize = 200;
/// The maximum number of entries of every other list.
const ENTRIES_MAX: usize = 50;
/// The maximum length of a request, in grapheme clusters.
const REQUEST_GRAPHEMES: usize = 240;
/// The number of first requests that are always kept.
const FIRST_REQUESTS_KEPT: usize = 2;
/// The maximum number of requests: the first ones and the newest.
const REQUESTS_MAX: usize = 48;

/// Returns the facts of everything that has been compacted: those of the previous compaction merged with `new`, the
/// facts of the newly dropped messages.
pub(super) fn merge_carried_facts(source: &SummarySource<'_>, new: &ConversationFacts) -> CarriedFacts {
    let fresh = new.carried_facts();
    let old = source.previous.map(|previous| previous.carried.clone()).unwrap_or_default();
    let answered = match &fresh.last_user_request {
        Some(_) => fresh.last_request_answered,
        None => old.last_request_answered,
    };
    let mut files = CarriedFiles {
        changed: merge_recent_first(fresh.files.changed.clone(), old.files.changed, FILES_CHANGED_MAX),
        read: merge_recent_first(fresh.files.read.clone(), old.files.read, ENTRIES_MAX),
        deleted: merge_recent_first(fresh.files.deleted.clone(), old.files.deleted, ENTRIES_MAX),
    };
    files.changed.retain(|path| !fresh.files.deleted.contains(path));
    files.read.retain(|path| !files.changed.contains(path) && !fresh.files.deleted.contains(path));
    files.deleted.retain(|path| !fresh.files.changed.contains(path) && !fresh.files.read.contains(path));
    let open = old.errors.into_iter().filter(|error| !is_retried(error, new)).collect();
    CarriedFacts {
        is_in_markdown: false,
        goal: None,
        last_user_request: fresh.last_user_request.or(old.last_user_request),
        last_request_answered: source.request_answered.or(answered),
        rules: facts::merge_rules(old.rules, fresh.rules),
        todos: merge_todos(source.dropped_messages, fresh.todos, old.todos),
        files,
        // The messages after the boundary name what is in use.
        in_use: Vec::new(),
        commands: merge_recent_first(fresh.commands, old.commands, ENTRIES_MAX),
        pending_approvals: Vec::new(),
        errors: merge_recent_first(fresh.errors, open, ENTRIES_MAX),
        skills: merge_recent_first(fresh.skills, old.skills, ENTRIES_MAX),
        // Every request contains the pins, so a summary does not repeat them.
        pins: Vec::new(),
        delegations: merge_recent_first(fresh.delegations, old.delegations, ENTRIES_MAX),
        referenced_files: old.referenced_files,
        whole_entries: Vec::new(),
        more: old.more,
    }
}

/// Returns the user's requests in order, one entry for each message: the first ones and the newest.
pub(super) fn merge_user_messages(source: &SummarySource<'_>, new: &ConversationFacts) -> Vec<String> {
    let old = source.previous.map(|previous| previous.sections.user_messages.clone()).unwrap_or_default();
    let requests = new
        .requests
        .iter()
        .map(|quote| truncate_with_ellipsis(&to_single_line(&quote.text), REQUEST_GRAPHEMES));
    let mut all = dedup_entries(old.into_iter().chain(requests).collect());
    let excess = all.len().saturating_sub(REQUESTS_MAX);
    if excess > 0 {
        all.drain(FIRST_REQUESTS_KEPT..FIRST_REQUESTS_KEPT + excess);
    }
    all
}

/// Returns the new entries followed by the old entries, without duplicates and at most `max`.
fn merge_recent_first(new: Vec<String>, old: Vec<String>, max: usize) -> Vec<String> {
    let mut known = HashSet::new();
    new.into_iter().chain(old).filter(|entry| known.insert(entry.clone())).take(max).collect()
}

/// Returns whether the failed operation of an earlier error was retried: its check has run again, or its file was
/// written again. The new facts contain the outcome of the retry, so that the old error is dropped.
fn is_retried(error: &str, new: &ConversationFacts) -> bool {
    let is_of_check = |name: &str| {
        error.strip_prefix(name).is_some_and(|message| message.starts_with(": ") || message == " failed")
    };
    let names_file = |path: &str| path.rsplit('/').next().is_some_and(|name| error.contains(name));
    new.checks.iter().any(|run| is_of_check(&run.name))
        || new.files.iter().any(|file| file.last_write_seq > 0 && names_file(&file.path))
}

/// Returns the newest state of the task list, at most [`ENTRIES_MAX`] tasks. If a tool call replaced the whole list,
/// the new list is the result. Otherwise the new tasks replace old tasks with the same text, and the other old tasks
/// are retained before them.
fn merge_todos(dropped: &[ContextMessage], new: Vec<TodoItem>, old: Vec<TodoItem>) -> Vec<TodoItem> {
    let is_replaced = tool_calls(dropped)
        .any(|(name, args)| matches!(ToolUse::from_call(name, args).task, Some(TaskChange::Replace(_))));
    if is_replaced {
        return new;
    }
    let is_new = |todo: &TodoItem| new.iter().all(|known| known.text != todo.text);
    let mut todos: Vec<TodoItem> = old.into_iter().filter(is_new).collect();
    todos.extend(new);
    let excess = todos.len().saturating_sub(ENTRIES_MAX);
    todos.drain(..excess);
    todos
}

/// Returns the names and arguments of all tool calls outside sub-agents.
fn tool_calls(messages: &[ContextMessage]) -> impl Iterator<Item = (&str, &serde_json::Value)> {
    messages.iter().flat_map(|entry| match &entry.item.kind {
        TranscriptItemKind::Message(message @ Message::Ai(_)) if !entry.item.is_subagent => {
            message.tool_calls().map(|(_, name, args)| (name, args)).collect()
        }
        TranscriptItemKind::Message(_)
        | TranscriptItemKind::Note
        | TranscriptItemKind::Boundary
        | TranscriptItemKind::ImportedSummary(_)
        | TranscriptItemKind::InheritedSummary { .. }
        | TranscriptItemKind::Unreadable
        | TranscriptItemKind::Other => Vec::new(),
    })
}
