//! A person's own text for the summary: written in their editor, or field by field where there is none. What was written
//! and not taken is kept for the next time, and at the end in a file: nothing of it is lost.

mod confirm;
mod fields;

use std::io::Write;

use agent::PendingHandoff;
use protocol::{Decision, Proposal};
use serde_json::{Map, json};
use terminal::editor::{self, Edited};
use terminal::{one_line, shown_path, wrap};

use self::confirm::{Then, confirm};
use self::fields::Fields;
use super::edited;
use crate::commands::Context;
use crate::exit::{self, Code, Failure};

/// What the editor's comment says first.
const HOW: &str = "This is what the new thread will be told. Change it, save and close the editor; you are asked before it is accepted.";
/// What it says besides; with the line above as many lines whatever happened, so that the numbers of lines stay.
const MORE: &str = "Leave it as it is to go back to the question. Each line that begins with - is an item, under its heading:\n\
                    Objective, Progress, Decisions, Next steps, Blockers or Artifacts. This comment is not part of it.";

/// What the person wrote and nobody has taken.
#[derive(Debug, Default)]
pub(super) struct Own {
    written: Option<Written>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    Markdown(String),
    Fields(Fields),
}

impl Own {
    /// Lets the person change the text; `None` when they leave it as it is. `refused` is why the last one was not taken.
    pub(super) fn edit(
        &mut self,
        context: &Context,
        pending: &PendingHandoff,
        refused: Option<&str>,
    ) -> Result<Option<Decision>, Failure> {
        let decision = match editor::is_there() {
            true => match self.in_editor(context, pending, refused) {
                Err(Failure::Told(told)) => {
                    exit::tell(&told, context.format);
                    match told.code == Code::Config {
                        // The editor that is set is not there: the person can write all the same.
                        true => self.by_field(context, pending)?,
                        false => None,
                    }
                }
                done => done?,
            },
            false => self.by_field(context, pending)?,
        };
        if decision.is_none() {
            self.remind(context)?;
        }
        Ok(decision)
    }

    /// Says how to come back to what was written, if there is something.
    pub(super) fn remind(&self, context: &Context) -> Result<(), Failure> {
        if self.written.is_some() {
            let text = "What you wrote is kept: Edit opens it again.";
            context.screen.line(wrap(text, context.screen.text_columns(), "", ""))?;
        }
        Ok(())
    }

    /// Says that the text was taken.
    pub(super) fn taken(&mut self) {
        self.written = None;
    }

    /// Keeps what was written in a file, and says where; `shown` is what was changed.
    pub(super) fn keep(&mut self, context: &Context, shown: &Proposal) -> Result<(), Failure> {
        let Some(written) = self.written.take() else { return Ok(()) };
        let text = match written {
            Written::Markdown(text) => text,
            Written::Fields(fields) => fields.markdown(&shown.summary_json),
        };
        let id = shown.handoff_id.to_string();
        let prefix = format!("handoff-{}-", &id[..id.len().min(8)]);
        let mut file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".md")
            .tempfile_in(context.agent.home().root())?;
        file.write_all(text.as_bytes())?;
        let (_, path) = file.keep().map_err(|error| error.error)?;
        Ok(context.screen.line(format!("What you wrote is kept in {}", shown_path(&path)))?)
    }

    fn in_editor(
        &mut self,
        context: &Context,
        pending: &PendingHandoff,
        refused: Option<&str>,
    ) -> Result<Option<Decision>, Failure> {
        let mut refused = refused;
        loop {
            let Some((text, first_line)) = self.edited_text(context, pending, refused.take())? else {
                return Ok(None);
            };
            self.written = Some(Written::Markdown(text.clone()));
            let shown = &pending.proposal;
            match confirm(&context.screen, &shown.summary_md, &text)? {
                Some(Then::Accept) => {}
                Some(Then::Again) => continue,
                None => return Ok(None),
            }
            // Blank lines in the place of the comment: what is wrong is told by the line the person finds it on.
            let handed_in = format!("{}{text}", "\n".repeat(first_line.saturating_sub(1)));
            return Ok(Some(Decision::Approve {
                args: Some(Map::from_iter([("summary_md".to_owned(), json!(handed_in))])),
                summary_sha256: Some(shown.summary_sha256.clone()),
            }));
        }
    }

    /// Returns the text as the person left it in their editor, and the line it began on; `None` when they left it as it is.
    fn edited_text(
        &self,
        context: &Context,
        pending: &PendingHandoff,
        refused: Option<&str>,
    ) -> Result<Option<(String, usize)>, Failure> {
        let shown = &pending.proposal;
        let (text, is_kept) = match &self.written {
            Some(Written::Markdown(text)) => (text.clone(), true),
            Some(Written::Fields(_)) | None => (shown.summary_md.clone(), false),
        };
        let first = refused
            .map_or_else(|| HOW.to_owned(), |why| format!("The text was not taken: {}", one_line(why)));
        match editor::edit(context.agent.home().root(), &format!("{first}\n{MORE}"), &text)? {
            Edited::Text { text, first_line } => Ok(Some((text, first_line))),
            // Closed once more without a change, it is meant as it is; after a refusal, it is left.
            Edited::Unchanged if is_kept && refused.is_none() => Ok(Some((text, 1))),
            Edited::Unchanged => {
                context.screen.line("The text was not changed.")?;
                Ok(None)
            }
        }
    }

    fn by_field(&mut self, context: &Context, pending: &PendingHandoff) -> Result<Option<Decision>, Failure> {
        let shown = Fields::of(&pending.proposal.summary_json);
        let mut fields = match &self.written {
            Some(Written::Fields(fields)) => fields.clone(),
            Some(Written::Markdown(_)) | None => shown.clone(),
        };
        let is_accepted = fields.ask(&context.screen, &pending.proposal)?;
        self.written = (fields != shown).then(|| Written::Fields(fields.clone()));
        if self.written.is_none() {
            context.screen.line("The text was not changed.")?;
        }
        let args = Map::from_iter([("summary_json".to_owned(), fields.json())]);
        Ok((is_accepted && self.written.is_some()).then(|| edited(pending, args)))
    }
}
