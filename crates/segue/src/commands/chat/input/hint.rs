//! Hints after the cursor: the arguments of a command, the remainder of an earlier line, or a suggested message. Without colour there are no
//! hints, because they could not be distinguished from the input.

use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{DefaultHinter, Hinter};
use terminal::Style;

use super::EditorState;
use crate::commands::chat::slash_commands::COMMANDS;

/// The shortest input, in characters, for which an earlier line is offered.
const CHARS_MIN: usize = 3;

/// The hinter of the editor.
pub(super) struct ChatHinter {
    /// The hinter for earlier lines.
    history_hinter: DefaultHinter,
    /// True if the current hint is an earlier line, which a key can insert. The arguments of a command cannot be
    /// inserted.
    is_history_hint: bool,
    /// The suggested message that is the current hint. A key inserts it.
    suggestion: Option<String>,
    /// The state in which the hinter records whether the line is empty.
    shared: Arc<Mutex<EditorState>>,
}

impl ChatHinter {
    /// Returns a hinter without a hint.
    pub(super) fn new(shared: Arc<Mutex<EditorState>>) -> Self {
        Self {
            history_hinter: DefaultHinter::default().with_min_chars(CHARS_MIN),
            is_history_hint: false,
            suggestion: None,
            shared,
        }
    }
}

impl Hinter for ChatHinter {
    fn handle(
        &mut self,
        line: &str,
        position: usize,
        history: &dyn reedline::History,
        use_ansi_coloring: bool,
        cwd: &str,
    ) -> String {
        let suggestion = {
            let mut shared = self.shared.lock();
            shared.is_empty = line.is_empty();
            shared.suggestion.clone().filter(|_| line.is_empty())
        };
        self.suggestion = suggestion.filter(|_| use_ansi_coloring);
        if let Some(suggestion) = &self.suggestion {
            return Style::Color.dim(terminal::sanitize_line(suggestion));
        }
        let hint = self.history_hinter.handle(line, position, history, false, cwd);
        let arguments = command_arguments(line);
        self.is_history_hint = arguments.is_none();
        match (use_ansi_coloring, arguments) {
            (false, _) => String::new(),
            (true, Some(arguments)) => Style::Color.dim(arguments),
            (true, None) if hint.contains('\n') => String::new(),
            (true, None) => Style::Color.dim(hint),
        }
    }

    fn complete_hint(&self) -> String {
        if let Some(suggestion) = &self.suggestion {
            return suggestion.clone();
        }
        if self.is_history_hint { self.history_hinter.complete_hint() } else { String::new() }
    }

    fn next_hint_token(&self) -> String {
        if self.suggestion.is_some() {
            return self.complete_hint();
        }
        if self.is_history_hint { self.history_hinter.next_hint_token() } else { String::new() }
    }
}

/// Returns the arguments of a command if the line is exactly its name and a space.
fn command_arguments(line: &str) -> Option<&'static str> {
    let name = line.strip_prefix('/')?.strip_suffix(' ')?;
    COMMANDS.iter().find(|command| command.name == name).map(|command| command.arguments)
}
