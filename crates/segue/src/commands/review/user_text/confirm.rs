//! The confirmation of the user's own text: shows the changes and asks whether to accept them.

use std::io;

use terminal::{KeyChoice, Screen, ask, diff, sanitize};

/// An answer to the confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfirmAnswer {
    /// Use the text.
    Accept,
    /// Open the text in the editor again.
    EditAgain,
}

/// The answers with their keys.
const CHOICES: [KeyChoice<ConfirmAnswer>; 2] = [
    KeyChoice { key: 'a', label: "Accept this text", answer: ConfirmAnswer::Accept },
    KeyChoice { key: 'e', label: "Edit it again", answer: ConfirmAnswer::EditAgain },
];

/// Shows the changes from `before` to `after` and asks; `None` if the user returns to the question.
pub(super) fn confirm_text(screen: &Screen, before: &str, after: &str) -> io::Result<Option<ConfirmAnswer>> {
    screen.print_line(screen.style.bold("You changed:"))?;
    screen.print_lines(diff::render_versions(screen, &sanitize(before), &sanitize(after)))?;
    ask(screen, &CHOICES, "Go back")
}
