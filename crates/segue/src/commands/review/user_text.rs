//! The user's own text of a summary, written in the user's editor, or field by field if no editor is available.
//!
//! Text that was not accepted is stored in memory for the next edit and saved in a file at the end of the review, so
//! that it is never lost.

mod confirm;
mod fields;

use std::io::Write;

use agent::PendingHandoff;
use protocol::{Decision, Proposal, ReviewNotes};
use serde_json::{Map, Value, json};
use terminal::editor::{self, EditOutcome};
use terminal::{ask_line, sanitize_line, sanitize_path, wrap};

use self::confirm::{ConfirmAnswer, EditedText, RuleRestoring, confirm_text};
use self::fields::SummaryFields;
use super::build_edit_decision;
use crate::commands::CommandContext;
use crate::exit::{self, CliFailure, ExitReason};

/// The first line of the comment in the editor. After a refusal, the reason of the refusal replaces it.
const EDITOR_HELP: &str = "The new thread will get this text. You are asked before it is accepted.";
/// The remaining lines of the comment. The comment always has the same number of lines, so that the line numbers in errors
/// match those in the editor.
const EDITOR_HELP_DETAILS: &str = "Leave it unchanged to return to the question. Each line that begins with -\n\
     is an item or a fact under its heading. Items have the headings Objective,\n\
     Progress, Decisions, Next steps, Blockers and Artifacts; facts are below them.\n\
     This comment is not part of the text.";

/// The editor of the user's own text. It stores text that was not accepted.
#[derive(Debug, Default)]
pub(super) struct UserTextEditor {
    /// The text that was written and not accepted.
    unsaved: Option<UserText>,
}

/// A text that the user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UserText {
    /// Markdown from the user's editor.
    Markdown(String),
    /// Fields that the user was asked for.
    Fields(SummaryFields),
}

impl UserTextEditor {
    /// Lets the user edit the text of the proposal, and returns the decision; `None` if the user returns to the
    /// question. `refused` is the reason why the last text was refused.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written. A failure of the editor is printed instead.
    pub(super) async fn edit(
        &mut self,
        context: &CommandContext,
        pending: &PendingHandoff,
        refused: Option<&str>,
    ) -> Result<Option<Decision>, CliFailure> {
        let decision = match editor::is_available() {
            true => match self.edit_in_editor(context, pending, refused).await {
                Err(CliFailure::Reported(failure)) => {
                    exit::print_failure(&failure, context.format);
                    match failure.code == ExitReason::Config {
                        // The configured editor cannot be started, so the user writes without an editor.
                        true => self.edit_by_field(context, pending).await?,
                        false => None,
                    }
                }
                decision => decision?,
            },
            false => self.edit_by_field(context, pending).await?,
        };
        if decision.is_none() {
            self.print_reminder(context)?;
        }
        Ok(decision)
    }

    /// Prints how to edit the unaccepted text again, if there is one.
    pub(super) fn print_reminder(&self, context: &CommandContext) -> Result<(), CliFailure> {
        if self.unsaved.is_some() {
            let text = "Your text is kept: Edit opens it again.";
            context.screen.print_line(wrap(text, context.screen.text_columns(), "", ""))?;
        }
        Ok(())
    }

    /// Removes the stored text and returns it. It is put back if it was neither accepted nor stored as a draft.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Saves the unaccepted text, if there is one, to a new file in the home folder, and prints its path. `shown` is
    /// the proposal that was edited.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn save_to_file(
        &mut self,
        context: &CommandContext,
        shown: &Proposal,
    ) -> Result<(), CliFailure> {
        let Some(unsaved) = self.unsaved.take() else { return Ok(()) };
        let text = match unsaved {
            UserText::Markdown(text) => text,
            UserText::Fields(fields) => fields.to_markdown(&shown.summary_json),
        };
        let id = shown.handoff_id.to_string();
        let prefix = format!("handoff-{}-", &id[..id.len().min(8)]);
        let mut file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".md")
            .tempfile_in(context.agent.home().root())?;
        file.write_all(text.as_bytes())?;
        let (_, path) = file.keep().map_err(|error| error.error)?;
        Ok(context.screen.print_line(format!("Your text is saved in {}", sanitize_path(&path)))?)
    }

    /// Opens the editor until the user accepts the text or returns to the question.
    async fn edit_in_editor(
        &mut self,
        context: &CommandContext,
        pending: &PendingHandoff,
        refused: Option<&str>,
    ) -> Result<Option<Decision>, CliFailure> {
        let mut refused = refused;
        loop {
            let Some((text, first_line)) = self.open_editor(context, pending, refused.take())? else {
                return Ok(None);
            };
            let (text, answer) = match self.confirm_markdown(context, pending, text).await? {
                (_, Some(ConfirmAnswer::EditAgain)) => continue,
                (text, Some(answer)) => (text, answer),
                (_, None) => return Ok(None),
            };
            let shown = &pending.proposal;
            // Blank lines replace the comment, so that the line numbers in errors match those in the editor.
            let package_md = format!("{}{text}", "\n".repeat(first_line.saturating_sub(1)));
            let mut args = Map::from_iter([("package_md".to_owned(), json!(package_md))]);
            let Some(use_args) = ask_use_args(context, answer)? else { continue };
            let hash = shown.summary_sha256.clone();
            if use_args.is_empty() {
                return Ok(Some(Decision::Approve { args: Some(args), summary_sha256: Some(hash) }));
            }
            args.extend(use_args);
            args.insert("summary_sha256".to_owned(), json!(hash));
            return Ok(Some(build_edit_decision(pending, args)));
        }
    }

    /// Asks about the text until the answer is about the text as it is, and returns it with the answer.
    async fn confirm_markdown(
        &mut self,
        context: &CommandContext,
        pending: &PendingHandoff,
        mut text: String,
    ) -> Result<(String, Option<ConfirmAnswer>), CliFailure> {
        loop {
            self.unsaved = Some(UserText::Markdown(text.clone()));
            let notes = edit_notes(context, pending, "package_md", json!(text)).await;
            let edited = EditedText {
                before: &pending.proposal.package_md,
                after: &text,
                notes: notes.as_ref(),
                restoring: RuleRestoring::Offered,
                refinements_left: pending.remaining_refinements,
            };
            match (confirm_text(&context.screen, &edited)?, &notes) {
                (Some(ConfirmAnswer::RestoreRules), Some(notes)) => {
                    let lost = terminal::notes::lost_rules(notes);
                    text = lost.fold(text, |text, (_, rule)| agent::add_rule(&text, &rule.text));
                }
                (answer, _) => return Ok((text, answer)),
            }
        }
    }

    /// Opens the editor and returns the edited text and the number of its first line in the editor; `None` if the user
    /// changed nothing.
    fn open_editor(
        &self,
        context: &CommandContext,
        pending: &PendingHandoff,
        refused: Option<&str>,
    ) -> Result<Option<(String, usize)>, CliFailure> {
        let shown = &pending.proposal;
        let (text, is_reopened) = match &self.unsaved {
            Some(UserText::Markdown(text)) => (text.clone(), true),
            Some(UserText::Fields(_)) | None => (shown.package_md.clone(), false),
        };
        let first = refused.map_or_else(
            || EDITOR_HELP.to_owned(),
            |reason| format!("The text was refused: {}", sanitize_line(reason)),
        );
        match editor::edit_text(
            context.agent.home().root(),
            &format!("{first}\n{EDITOR_HELP_DETAILS}"),
            &text,
        )? {
            EditOutcome::Changed { text, first_line } => Ok(Some((text, first_line))),
            // If a reopened text is closed without a change, the user wants exactly this text, unless it was refused.
            EditOutcome::Unchanged if is_reopened && refused.is_none() => Ok(Some((text, 1))),
            EditOutcome::Unchanged => {
                context.screen.print_line("The text was not changed.")?;
                Ok(None)
            }
        }
    }

    /// Asks for each field of the summary, and returns the edit as a decision if the user changed and accepted it.
    async fn edit_by_field(
        &mut self,
        context: &CommandContext,
        pending: &PendingHandoff,
    ) -> Result<Option<Decision>, CliFailure> {
        let shown = SummaryFields::from_summary(&pending.proposal.summary_json);
        let mut fields = match &self.unsaved {
            Some(UserText::Fields(fields)) => fields.clone(),
            Some(UserText::Markdown(_)) | None => shown.clone(),
        };
        let answer = fields.ask_until_confirmed(context, pending).await?;
        self.unsaved = (fields != shown).then(|| UserText::Fields(fields.clone()));
        if self.unsaved.is_none() {
            context.screen.print_line("The text was not changed.")?;
        }
        let Some(answer) = answer.filter(|_| self.unsaved.is_some()) else { return Ok(None) };
        let mut args = Map::from_iter([("summary_json".to_owned(), fields.to_json())]);
        let Some(use_args) = ask_use_args(context, answer)? else { return Ok(None) };
        args.extend(use_args);
        Ok(Some(build_edit_decision(pending, args)))
    }
}

/// Returns the notes about a text of the user, which is the argument `name` of an edit; `None` if the text would be refused.
/// The reason is printed when it is sent.
async fn edit_notes(
    context: &CommandContext,
    pending: &PendingHandoff,
    name: &str,
    text: Value,
) -> Option<ReviewNotes> {
    let args = Map::from_iter([(name.to_owned(), text)]);
    let edited = context.agent.handoffs().preview_edit(pending, &args).await.ok()?;
    Some(edited.summary_json.notes)
}

/// Returns the arguments of an edit that say how a confirmed text is used: none to accept it. For a refinement, the user is
/// asked for feedback; `None` if they write none.
fn ask_use_args(
    context: &CommandContext,
    answer: ConfirmAnswer,
) -> Result<Option<Map<String, Value>>, CliFailure> {
    let arg = |key: &str, value: Value| Some(Map::from_iter([(key.to_owned(), value)]));
    Ok(match answer {
        ConfirmAnswer::Accept | ConfirmAnswer::EditAgain => Some(Map::new()),
        // Such a text is asked about again before it is used.
        ConfirmAnswer::RestoreRules => None,
        ConfirmAnswer::Save => arg("save_draft", json!(true)),
        ConfirmAnswer::Refine => ask_line(&context.screen, "Feedback")?
            .map(|feedback| feedback.trim().to_owned())
            .filter(|feedback| !feedback.is_empty())
            .and_then(|feedback| arg("feedback", json!(feedback))),
    })
}
