//! One reader for each format. A reader converts the records of its format to [entries](crate::entry). Detection of the
//! format is in [`crate::detect`].

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

/// Maximum number of tool calls without a result that are remembered at a time.
const PENDING_CALLS_MAX: usize = 10_000;

/// Prefixes of user messages that a harness wrote and the user did not type.
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

/// The tool names of calls that have no result yet. They are needed because results of most formats contain only the id
/// of the call.
#[derive(Default)]
pub(crate) struct PendingCalls {
    /// Tool names by call id.
    names: HashMap<String, String>,
}

impl PendingCalls {
    /// Remembers the tool of a call. A call without an id or a name is ignored.
    pub(crate) fn record_call(&mut self, call_id: Option<&str>, tool: Option<&str>) {
        if let (Some(call_id), Some(tool)) = (call_id, tool) {
            if self.names.len() >= PENDING_CALLS_MAX {
                // A file with this many calls without results is damaged. Results lose only their tool name.
                self.names.clear();
            }
            self.names.insert(call_id.to_owned(), tool.to_owned());
        }
    }

    /// Returns the tool name of a call and removes the call.
    pub(crate) fn take_tool_name(&mut self, call_id: Option<&str>) -> Option<String> {
        self.names.remove(call_id?)
    }
}

/// Returns the author of a text with the role `user`: the user, or a harness if the text has a known prefix.
pub(crate) fn detect_author(text: &str) -> Author {
    let text = text.trim();
    let reminder = text.starts_with("<system-reminder>") && text.ends_with("</system-reminder>");
    if reminder || INJECTED_STARTS.iter().any(|start| text.starts_with(start)) {
        Author::Harness
    } else {
        Author::Person
    }
}
