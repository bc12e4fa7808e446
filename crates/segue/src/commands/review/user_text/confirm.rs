//! The confirmation of the user's own text: shows the changes and asks whether to accept them.

use std::io;

use terminal::{KeyChoice, Screen, ask, diff, sanitize};

/// An answer to the confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfirmAnswer {
    /// Accept the text.
    Accept,
    /// Store the text as a draft, and go on with the review.
    Save,
    /// Store the text as a draft, and let the model redraft it from feedback.
    Refine,
    /// Open the text in the editor again.
    EditAgain,
}

/// The text to confirm.
pub(super) struct EditedText<'a> {
    /// The text of the proposal.
    pub(super) before: &'a str,
    /// The user's text.
    pub(super) after: &'a str,
    /// The number of drafts from feedback that are still allowed.
    pub(super) refinements_left: u32,
}

/// Shows the changes and asks; `None` if the user returns to the question.
pub(super) fn confirm_text(screen: &Screen, text: &EditedText<'_>) -> io::Result<Option<ConfirmAnswer>> {
    screen.print_line(screen.style.bold("You changed:"))?;
    // The line break at the end is no part of the text.
    let (before, after) = (sanitize(text.before.trim_end()), sanitize(text.after.trim_end()));
    screen.print_lines(diff::render_versions(screen, &before, &after))?;
    let mut choices = vec![
        KeyChoice { key: 'a', label: "Accept this text", answer: ConfirmAnswer::Accept },
        KeyChoice { key: 's', label: "Save as a draft", answer: ConfirmAnswer::Save },
    ];
    if text.refinements_left > 0 {
        choices.push(KeyChoice { key: 'r', label: "Refine this text", answer: ConfirmAnswer::Refine });
    }
    choices.push(KeyChoice { key: 'e', label: "Edit it again", answer: ConfirmAnswer::EditAgain });
    ask(screen, &choices, "Go back")
}
