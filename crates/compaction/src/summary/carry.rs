//! Facts that outlive every compaction, without a model: those carried so far brought up to date with what is new. The
//! recent ones come first, and every list is bounded.

use std::collections::HashSet;

use facts::phrase::{clip, flat};
use facts::tool_use::{TaskChange, ToolUse};
use facts::{Facts, What, redact};
use protocol::{CarryOver, Message, TodoItem};

use super::Source;
use super::record::once;
use crate::cut::Unit;

/// Files that were changed, and entries of every other list.
const FILES_MODIFIED_MAX: usize = 200;
const ENTRIES_MAX: usize = 50;
/// Graphemes of what a delegation was about.
const DELEGATION_GRAPHEMES: usize = 120;
/// Graphemes of one of the person's messages.
const REQUEST_GRAPHEMES: usize = 240;
/// The person's messages that are kept: the first ones, and the newest.
const FIRST_REQUESTS: usize = 2;
const REQUESTS_MAX: usize = 48;

/// Names of tools that load a skill, and of those that delegate to another agent.
const SKILL_TOOLS: [&str; 2] = ["load_skill", "skill"];
const DELEGATING_TOOLS: [&str; 3] = ["task", "agent", "delegate"];

/// Returns the facts over everything that is condensed: those of the earlier compaction, and `new`.
pub(super) fn merged(source: &Source<'_>, new: &Facts) -> CarryOver {
    let fresh = new.carry_over();
    let old = source.previous.map(|previous| previous.carry_over.clone()).unwrap_or_default();
    let answered = match &fresh.last_user_request {
        Some(_) => fresh.last_request_answered,
        None => old.last_request_answered,
    };
    let (skills, delegations) = in_use(source.dropped);
    let files_modified = recent_first(fresh.files_modified, old.files_modified, FILES_MODIFIED_MAX);
    let mut files_read = recent_first(fresh.files_read, old.files_read, ENTRIES_MAX);
    files_read.retain(|path| !files_modified.contains(path));
    let open = old.errors.into_iter().filter(|error| !is_looked_at_again(error, new)).collect();
    CarryOver {
        last_user_request: fresh.last_user_request.or(old.last_user_request),
        last_request_answered: source.answered.or(answered),
        todos: todos(source.dropped, fresh.todos, old.todos),
        files_read,
        files_modified,
        commands: recent_first(fresh.commands, old.commands, ENTRIES_MAX),
        errors: recent_first(fresh.errors, open, ENTRIES_MAX),
        skills: recent_first(skills, old.skills, ENTRIES_MAX),
        delegations: recent_first(delegations, old.delegations, ENTRIES_MAX),
        referenced_files: old.referenced_files,
        more: old.more,
    }
}

/// Returns what the person asked for, one entry a message, in order: the first ones and the newest.
pub(super) fn user_messages(source: &Source<'_>, new: &Facts) -> Vec<String> {
    let old = source.previous.map(|previous| previous.sections.user_messages.clone()).unwrap_or_default();
    let told = new.requests.iter().map(|quote| clip(&flat(&quote.text), REQUEST_GRAPHEMES));
    let mut all = once(old.into_iter().chain(told).collect());
    let beyond = all.len().saturating_sub(REQUESTS_MAX);
    if beyond > 0 {
        all.drain(FIRST_REQUESTS..FIRST_REQUESTS + beyond);
    }
    all
}

fn recent_first(new: Vec<String>, old: Vec<String>, max: usize) -> Vec<String> {
    let mut told = HashSet::new();
    new.into_iter().chain(old).filter(|entry| told.insert(entry.clone())).take(max).collect()
}

/// Returns whether what was wrong was tried again since: how that ended is among the new facts.
fn is_looked_at_again(error: &str, new: &Facts) -> bool {
    let named =
        |name: &str| error.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ") || rest == " failed");
    let mended = |path: &str| path.rsplit('/').next().is_some_and(|name| error.contains(name));
    new.checks.iter().any(|run| named(&run.name))
        || new.files.iter().any(|file| file.written_at > 0 && mended(&file.path))
}

/// Returns the newest state of the task list. A list that was written anew takes the place of the old one; single tasks
/// add to it.
fn todos(dropped: &[Unit], new: Vec<TodoItem>, old: Vec<TodoItem>) -> Vec<TodoItem> {
    let is_replaced = calls(dropped)
        .any(|(name, args)| matches!(ToolUse::of(name, args).task, Some(TaskChange::Replace(_))));
    if is_replaced {
        return new;
    }
    let is_new = |todo: &TodoItem| new.iter().all(|known| known.text != todo.text);
    let mut todos: Vec<TodoItem> = old.into_iter().filter(is_new).collect();
    todos.extend(new);
    let beyond = todos.len().saturating_sub(ENTRIES_MAX);
    todos.drain(..beyond);
    todos
}

/// Returns the skills that were loaded and what was given to other agents, the latest first.
fn in_use(dropped: &[Unit]) -> (Vec<String>, Vec<String>) {
    let (mut skills, mut delegations) = (Vec::new(), Vec::new());
    for (name, args) in calls(dropped) {
        let tool = name.rsplit("__").next().unwrap_or(name).to_ascii_lowercase();
        let text = |keys: &[&str]| keys.iter().find_map(|key| args.get(*key)?.as_str()).map(shown);
        if SKILL_TOOLS.contains(&tool.as_str()) {
            skills.extend(text(&["name", "skill", "command"]));
        } else if DELEGATING_TOOLS.contains(&tool.as_str()) {
            let who = text(&["agent", "subagent_type", "subagent", "name"]);
            let what = text(&["description", "task", "prompt"]);
            delegations.extend(match (who, what) {
                (Some(who), Some(what)) => Some(format!("{who}: {what}")),
                (who, what) => what.or(who),
            });
        }
    }
    skills.reverse();
    delegations.reverse();
    (skills, delegations)
}

fn calls(units: &[Unit]) -> impl Iterator<Item = (&str, &serde_json::Value)> {
    units.iter().flat_map(|unit| match &unit.item.what {
        What::Message(message @ Message::Ai(_)) if !unit.item.side => {
            message.tool_calls().map(|(_, name, args)| (name, args)).collect()
        }
        What::Message(_)
        | What::Note
        | What::Boundary
        | What::ImportedSummary(_)
        | What::InheritedSummary { .. }
        | What::Unread
        | What::Other => Vec::new(),
    })
}

fn shown(text: &str) -> String {
    clip(&flat(&redact(facts::tool_use::head_words(text, 4 * DELEGATION_GRAPHEMES))), DELEGATION_GRAPHEMES)
}
