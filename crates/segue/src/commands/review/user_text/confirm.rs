//! The confirmation of the user's own text: shows the changes and asks whether to accept them.

use std::io;

use protocol::Rule;
use terminal::{KeyChoice, Screen, ask, diff, sanitize, sanitize_line, wrap};

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
    /// The user's standing rules, which the proposal carries over.
    pub(super) rules: &'a [Rule],
    /// The number of drafts from feedback that are still allowed.
    pub(super) refinements_left: u32,
}

/// Returns the rules that the proposal contains and the user's text does not.
fn lost_rules<'a>(text: &EditedText<'a>) -> impl Iterator<Item = &'a str> {
    let (before, after) = (text.before, text.after);
    let lines = text.rules.iter().map(|rule| rule.text.as_str());
    lines.filter(move |rule| before.contains(rule) && !after.contains(rule))
}

/// Shows the changes and asks; `None` if the user returns to the question.
pub(super) fn confirm_text(screen: &Screen, text: &EditedText<'_>) -> io::Result<Option<ConfirmAnswer>> {
    screen.print_line(screen.style.bold("You changed:"))?;
    let (before, after) = (sanitize(text.before), sanitize(text.after));
    screen.print_lines(diff::render_versions(screen, &before, &after))?;
    for rule in lost_rules(text) {
        let warning = format!("Your text does not contain the rule: {}", sanitize_line(rule));
        screen.print_line(screen.style.warn(wrap(&warning, screen.text_columns(), "! ", "  ")))?;
    }
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
