//! One reader per agent, each from its own records to the one form of entries. No reader decides which format a file has.

pub(crate) mod aider;
pub(crate) mod chat;
pub(crate) mod claude;
pub(crate) mod codex;
pub(crate) mod copilot;
pub(crate) mod gemini;
pub(crate) mod langgraph;
pub(crate) mod msgpack;
pub(crate) mod opencode;
pub(crate) mod openhands;
pub(crate) mod pi;

use crate::entry::Author;
use std::collections::HashMap;

/// How many unanswered tool calls are remembered at a time.
const PENDING_CALLS_MAX: usize = 10_000;

/// Starts of texts that a harness wrote in the user's place and that nobody typed.
const INJECTED_STARTS: [&str; 12] = [
    "[Request interrupted by user",
    "Caveat: The messages below were generated",
    "<task-notification>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-prompt-submit-hook>",
    "<ide_opened_file>",
    "<ide_selection>",
    "<environment_context>",
    "<turn_aborted>",
    "This session is being continued from a previous conversation",
];

/// The names of tools whose calls wait for a result: results of most formats name only the call.
#[derive(Default)]
pub(crate) struct PendingCalls {
    names: HashMap<String, String>,
}

impl PendingCalls {
    /// Remembers a call.
    pub(crate) fn record_call(&mut self, call_id: Option<&str>, tool: Option<&str>) {
        if let (Some(call_id), Some(tool)) = (call_id, tool) {
            if self.names.len() >= PENDING_CALLS_MAX {
                // A file with this many calls without results is broken; names are only a courtesy then.
                self.names.clear();
            }
            self.names.insert(call_id.to_owned(), tool.to_owned());
        }
    }

    /// Returns the tool that the call used, and forgets the call.
    pub(crate) fn take_tool_name(&mut self, call_id: Option<&str>) -> Option<String> {
        self.names.remove(call_id?)
    }
}

/// Returns who wrote a text that stands in the user's place.
pub(crate) fn detect_author(text: &str) -> Author {
    let text = text.trim();
    let reminder = text.starts_with("<system-reminder>") && text.ends_with("</system-reminder>");
    if reminder || INJECTED_STARTS.iter().any(|start| text.starts_with(start)) {
        Author::Harness
    } else {
        Author::Person
    }
}
