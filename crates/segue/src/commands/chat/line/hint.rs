//! Hints behind what is being written: what a command takes, or the rest of an earlier line. Without colour there are
//! none, for they could not be told from what was written.

use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{DefaultHinter, Hinter};
use terminal::Style;

use super::Shared;
use crate::commands::chat::slash::COMMANDS;

/// The fewest letters of a line before an earlier one is offered.
const CHARS_MIN: usize = 3;

/// The hints of the editor.
pub(super) struct Hints {
    earlier: DefaultHinter,
    /// Whether the hint on the screen is an earlier line, which a key can take over.
    is_earlier: bool,
    shared: Arc<Mutex<Shared>>,
}

impl Hints {
    pub(super) fn new(shared: Arc<Mutex<Shared>>) -> Self {
        Self { earlier: DefaultHinter::default().with_min_chars(CHARS_MIN), is_earlier: false, shared }
    }
}

impl Hinter for Hints {
    fn handle(
        &mut self,
        line: &str,
        position: usize,
        history: &dyn reedline::History,
        use_ansi_coloring: bool,
        cwd: &str,
    ) -> String {
        self.shared.lock().is_empty = line.is_empty();
        let hint = self.earlier.handle(line, position, history, false, cwd);
        let takes = takes(line);
        self.is_earlier = takes.is_none();
        match (use_ansi_coloring, takes) {
            (false, _) => String::new(),
            (true, Some(takes)) => Style::Color.dim(takes),
            (true, None) if hint.contains('\n') => String::new(),
            (true, None) => Style::Color.dim(hint),
        }
    }

    fn complete_hint(&self) -> String {
        if self.is_earlier { self.earlier.complete_hint() } else { String::new() }
    }

    fn next_hint_token(&self) -> String {
        if self.is_earlier { self.earlier.next_hint_token() } else { String::new() }
    }
}

/// Returns what the command takes that was written and nothing more.
fn takes(line: &str) -> Option<&'static str> {
    let name = line.strip_prefix('/')?.strip_suffix(' ')?;
    COMMANDS.iter().find(|command| command.name == name).map(|command| command.takes)
}
