//! Tasks that were given to other agents, each with its outcome, and the skills that were loaded.

use std::collections::VecDeque;

use model::sentence_ranking::split_sentences;
use secrets::redact;
use serde_json::Value;

use crate::calls::outcomes::CallEffect;
use crate::calls::tool_use::head_words;
use crate::text::formatting::{strip_markdown, to_single_line, truncate_with_ellipsis};

/// The names of tools that delegate to another agent, in lowercase.
const DELEGATION_TOOLS: [&str; 3] = ["task", "agent", "delegate"];
/// The names of tools that load a skill, in lowercase.
const SKILL_TOOLS: [&str; 2] = ["load_skill", "skill"];
/// The maximum number of delegations, and of skills.
const ENTRIES_MAX: usize = 50;
/// The maximum length of a task or of the name of a skill, in grapheme clusters.
const TASK_GRAPHEMES_MAX: usize = 120;
/// The maximum length of an outcome, in bytes of whole sentences. The package shows less of it if the facts are long.
const OUTCOME_BYTES_MAX: usize = 600;

/// A task of another agent.
#[derive(Debug, Clone)]
struct Delegation {
    /// The id of the call.
    call_id: String,
    /// The agent and the task.
    task: String,
    /// The outcome; `None` while there is no result.
    outcome: Option<String>,
}

/// The delegations and the loaded skills of a conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct DelegationTracker {
    /// The delegations, oldest first. A refused one is removed.
    delegations: VecDeque<Delegation>,
    /// The loaded skills, oldest first.
    skills: VecDeque<String>,
    /// True once a call has a result. Some formats record none, and then nothing is known about outcomes.
    has_results: bool,
}

impl DelegationTracker {
    /// Records a call of a tool that delegates or loads a skill; other calls are ignored.
    pub(crate) fn record_call(&mut self, id: &str, name: &str, args: &Value) {
        let tool = name.rsplit("__").next().unwrap_or(name).to_ascii_lowercase();
        let text = |keys: &[&str]| keys.iter().find_map(|key| args.get(*key)?.as_str()).map(to_redacted_line);
        if SKILL_TOOLS.contains(&tool.as_str()) {
            if let Some(skill) = text(&["name", "skill", "command"]) {
                self.skills.retain(|known| *known != skill);
                push_bounded(&mut self.skills, skill);
            }
        } else if DELEGATION_TOOLS.contains(&tool.as_str()) {
            let agent = text(&["agent", "subagent_type", "subagent", "name"]);
            let task = text(&["description", "task", "prompt"]);
            let task = match (agent, task) {
                // "Explore: Explore the tests" names the agent twice.
                (Some(agent), Some(task)) if !task.to_lowercase().starts_with(&agent.to_lowercase()) => {
                    Some(format!("{agent}: {task}"))
                }
                (Some(_), Some(task)) => Some(task),
                (agent, task) => task.or(agent),
            };
            if let Some(task) = task {
                push_bounded(
                    &mut self.delegations,
                    Delegation { call_id: id.to_owned(), task, outcome: None },
                );
            }
        }
    }

    /// Records the result of a call: the outcome of a delegation. A refused delegation never began.
    pub(crate) fn record_result(&mut self, id: &str, text: &str, effect: CallEffect) {
        self.has_results = true;
        let Some(index) = self.delegations.iter().rposition(|delegation| delegation.call_id == id) else {
            return;
        };
        let outcome = outcome_text(text);
        match effect {
            CallEffect::Declined => drop(self.delegations.remove(index)),
            CallEffect::Performed => self.delegations[index].outcome = Some(outcome),
            CallEffect::Failed => self.delegations[index].outcome = Some(format!("failed: {outcome}")),
        }
    }

    /// Returns the delegations as lines, newest first: the task and its outcome.
    pub(crate) fn delegations(&self) -> Vec<String> {
        let line = |delegation: &Delegation| match delegation.outcome.as_deref() {
            None if self.has_results => format!("{} (no result)", delegation.task),
            None | Some("") => delegation.task.clone(),
            Some(outcome) => format!("{} → {outcome}", delegation.task),
        };
        self.delegations.iter().rev().map(line).collect()
    }

    /// Returns the names of the loaded skills, newest first.
    pub(crate) fn skills(&self) -> Vec<String> {
        self.skills.iter().rev().cloned().collect()
    }
}

/// Appends an entry. The oldest one is dropped if there are [`ENTRIES_MAX`].
fn push_bounded<T>(queue: &mut VecDeque<T>, entry: T) {
    if queue.len() >= ENTRIES_MAX {
        queue.pop_front();
    }
    queue.push_back(entry);
}

/// Returns the beginning of a result in whole sentences, on one line and redacted.
fn outcome_text(text: &str) -> String {
    let head = redact(head_words(text.trim(), 2 * OUTCOME_BYTES_MAX)).into_owned();
    let mut outcome = String::new();
    for sentence in split_sentences(&head) {
        let sentence = to_single_line(&strip_markdown(sentence));
        if !outcome.is_empty() && outcome.len() + sentence.len() >= OUTCOME_BYTES_MAX {
            break;
        }
        if !outcome.is_empty() && !sentence.is_empty() {
            outcome.push(' ');
        }
        outcome.push_str(&sentence);
    }
    truncate_with_ellipsis(&outcome, OUTCOME_BYTES_MAX)
}

/// Returns `text` on one line, redacted and cut to [`TASK_GRAPHEMES_MAX`].
fn to_redacted_line(text: &str) -> String {
    let head = head_words(text, 4 * TASK_GRAPHEMES_MAX);
    truncate_with_ellipsis(&to_single_line(&redact(head)), TASK_GRAPHEMES_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn m7_a_delegation_is_carried_with_its_outcome() {
        let mut tracker = DelegationTracker::default();
        for (id, args) in [
            ("a", json!({"description": "Audit licences", "subagent_type": "general"})),
            ("b", json!({"prompt": "Read the logs", "subagent_type": "Read"})),
            ("c", json!({"task": "Port the reader"})),
            ("d", json!({"task": "Delete everything"})),
        ] {
            tracker.record_call(id, "Task", &args);
        }
        assert!(
            tracker.delegations().contains(&"Read the logs".to_owned()),
            "the format may record no results"
        );
        tracker.record_call("e", "mcp__x__skill", &json!({"name": "release"}));
        tracker.record_call("f", "TaskCreate", &json!({"description": "no delegation"}));
        tracker.record_result(
            "a",
            "**libfoo** is GPL-3.\n\nlibbar has no licence file.",
            CallEffect::Performed,
        );
        tracker.record_result("c", "API Error: 529 overloaded", CallEffect::Failed);
        tracker.record_result("d", "", CallEffect::Declined);
        assert_eq!(
            tracker.delegations(),
            [
                "Port the reader → failed: API Error: 529 overloaded",
                "Read the logs (no result)",
                "general: Audit licences → libfoo is GPL-3. libbar has no licence file.",
            ]
        );
        assert_eq!(tracker.skills(), ["release"]);
    }

    #[test]
    fn a_long_outcome_ends_with_a_whole_sentence() {
        let outcome = outcome_text(&"The reader loses a row. ".repeat(200));
        assert!(outcome.len() <= OUTCOME_BYTES_MAX && outcome.ends_with("a row."), "{outcome}");
        assert!(outcome_text(&"word ".repeat(900)).ends_with('…'));
    }
}
