//! The confirmation of the user's own text: shows the changes and the warnings, and asks whether to accept them.

use std::io;

use protocol::ReviewNotes;
use terminal::{KeyChoice, Screen, ask, diff, notes, sanitize, sanitize_line, wrap};

/// An answer to the confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfirmAnswer {
    /// Accept the text.
    Accept,
    /// Store the text as a draft, and go on with the review.
    Save,
    /// Store the text as a draft, and let the model redraft it from feedback.
    Refine,
    /// Put the rules that the text has lost back into it, and ask again.
    RestoreRules,
    /// Open the text in the editor again.
    EditAgain,
}

/// The availability of an answer that puts lost rules back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleRestoring {
    /// The text is Markdown, to which they can be added.
    Offered,
    /// The text has no place for them.
    Unavailable,
}

/// The text to confirm.
pub(super) struct EditedText<'a> {
    /// The text of the proposal.
    pub(super) before: &'a str,
    /// The user's text.
    pub(super) after: &'a str,
    /// The notes about the user's text; `None` if it is refused.
    pub(super) notes: Option<&'a ReviewNotes>,
    /// The availability of an answer that puts lost rules back.
    pub(super) restoring: RuleRestoring,
    /// The number of drafts from feedback that are still allowed.
    pub(super) refinements_left: u32,
}

/// Shows the changes and the warnings, and asks; `None` if the user returns to the question.
pub(super) fn confirm_text(screen: &Screen, text: &EditedText<'_>) -> io::Result<Option<ConfirmAnswer>> {
    screen.print_line(screen.style.bold("You changed:"))?;
    let (before, after) = (sanitize(text.before), sanitize(text.after));
    screen.print_lines(diff::render_versions(screen, &before, &after))?;
    let lost = text.notes.map(|notes| notes::lost_rules(notes).count()).unwrap_or_default();
    if let Some(edit_notes) = text.notes {
        for (_, rule) in notes::lost_rules(edit_notes) {
            let warning = format!("Your text does not contain the rule: {}", sanitize_line(&rule.text));
            screen.print_line(screen.style.warn(wrap(&warning, screen.text_columns(), "! ", "  ")))?;
        }
        screen.print_lines(notes::render_warnings(screen, edit_notes))?;
    }
    let choices = confirm_choices(text, lost);
    let concerns_rules = text.notes.is_some_and(|notes| !notes.rules.is_empty());
    loop {
        match ask(screen, &choices, "Go back")? {
            Some(ConfirmAnswer::Accept) if concerns_rules => {
                if let Some(answer) = ask_again(screen, text, lost)? {
                    return Ok(Some(answer));
                }
            }
            answer => return Ok(answer),
        }
    }
}

/// Returns the offered answers. The text has lost that many rules.
fn confirm_choices(text: &EditedText<'_>, lost: usize) -> Vec<KeyChoice<ConfirmAnswer>> {
    let mut choices = vec![
        KeyChoice { key: 'a', label: "Accept this text", answer: ConfirmAnswer::Accept },
        KeyChoice { key: 's', label: "Save as a draft", answer: ConfirmAnswer::Save },
    ];
    if text.refinements_left > 0 {
        choices.push(KeyChoice { key: 'r', label: "Refine this text", answer: ConfirmAnswer::Refine });
    }
    choices.extend(restore_choice(text, lost));
    choices.push(KeyChoice { key: 'e', label: "Edit it again", answer: ConfirmAnswer::EditAgain });
    choices
}

/// Returns the answer that puts lost rules back, if there are any and the text has a place for them.
fn restore_choice(text: &EditedText<'_>, lost: usize) -> Option<KeyChoice<ConfirmAnswer>> {
    let label = if lost == 1 { "Put it back" } else { "Put them back" };
    let is_offered = lost > 0 && text.restoring == RuleRestoring::Offered;
    is_offered.then_some(KeyChoice { key: '+', label, answer: ConfirmAnswer::RestoreRules })
}

/// Asks once more about a text that has lost or may contradict rules of the user; `None` if they go back.
fn ask_again(screen: &Screen, text: &EditedText<'_>, lost: usize) -> io::Result<Option<ConfirmAnswer>> {
    let concerned = text.notes.map_or(0, |notes| notes.rules.len());
    let problem = match lost {
        0 => "Your text may contradict a rule of yours.",
        lost if lost < concerned => {
            "Your text does not contain every rule of yours, and may contradict another one."
        }
        _ => "Your text does not contain every rule of yours.",
    };
    screen.print_line(screen.style.warn(wrap(problem, screen.text_columns(), "! ", "  ")))?;
    let mut choices = vec![KeyChoice { key: 'y', label: "Accept it anyway", answer: ConfirmAnswer::Accept }];
    choices.extend(restore_choice(text, lost));
    choices.push(KeyChoice { key: 'e', label: "Edit it again", answer: ConfirmAnswer::EditAgain });
    ask(screen, &choices, "Go back")
}
