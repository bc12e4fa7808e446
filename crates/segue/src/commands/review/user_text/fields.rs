//! The summary as fields, for a user without an editor: asks for the title, the TL;DR, and each line of each item. The
//! crate `handoff` decides whether the text is valid.

use std::io;

use agent::{PendingHandoff, summary_heading, summary_markdown};
use protocol::{HandoffSummary, SummaryItem, SummaryItemKind};
use serde_json::{Value, json};
use terminal::{Screen, ask_line, ask_text, wrap};

use super::confirm::{ConfirmAnswer, EditedText, RuleRestoring, confirm_text};
use super::edit_notes;
use crate::commands::CommandContext;

/// The answer that removes a line.
const REMOVE_MARK: &str = "-";
/// The letters that select the kind of a new item.
const KIND_LETTERS: [(char, SummaryItemKind); 6] = [
    ('o', SummaryItemKind::Objective),
    ('p', SummaryItemKind::Progress),
    ('d', SummaryItemKind::Decision),
    ('n', SummaryItemKind::NextStep),
    ('b', SummaryItemKind::Blocker),
    ('a', SummaryItemKind::Artifact),
];

/// The fields of a summary that the user can edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SummaryFields {
    /// The title.
    title: String,
    /// The TL;DR.
    tldr: String,
    /// The kind and the text of each item.
    items: Vec<(SummaryItemKind, String)>,
}

impl SummaryFields {
    /// Returns the fields of a summary.
    pub(super) fn from_summary(summary: &HandoffSummary) -> Self {
        let items = summary.body.iter().map(|item| (item.kind, item.text.clone())).collect();
        Self { title: summary.title.clone(), tldr: summary.tldr.clone(), items }
    }

    /// Asks for the fields and shows the changes until the user confirms them or returns to the question. Returns how they
    /// are used; `None` if the user returns.
    ///
    /// The fields contain everything that was written, also if it was not confirmed.
    pub(super) async fn ask_until_confirmed(
        &mut self,
        context: &CommandContext,
        pending: &PendingHandoff,
    ) -> io::Result<Option<ConfirmAnswer>> {
        let (screen, shown) = (&context.screen, &pending.proposal);
        let instructions = match screen.is_plain() {
            true => {
                "There is no editor, so you are asked for each line. An answer of only - removes the line."
            }
            false => {
                "There is no editor, so you are asked for each line: edit it and press Enter. An empty line is removed; Esc \
                 returns to the question."
            }
        };
        loop {
            screen.print_line(screen.style.dim(wrap(instructions, screen.text_columns(), "", "")))?;
            if !self.ask_all(screen)? || *self == Self::from_summary(&shown.summary_json) {
                return Ok(None);
            }
            let after = self.to_markdown(&shown.summary_json);
            let notes = edit_notes(context, pending, "summary_json", self.to_json()).await;
            let edited = EditedText {
                before: &shown.package_md,
                after: &after,
                notes: notes.as_ref(),
                restoring: RuleRestoring::Unavailable,
                refinements_left: pending.remaining_refinements,
            };
            match confirm_text(screen, &edited)? {
                Some(ConfirmAnswer::EditAgain) => {}
                answer => return Ok(answer),
            }
        }
    }

    /// Asks for all fields and for new items. Returns `false` if the user left before the end.
    fn ask_all(&mut self, screen: &Screen) -> io::Result<bool> {
        for (label, text) in [("Title", &mut self.title), ("TL;DR", &mut self.tldr)] {
            match ask_text(screen, label, text)? {
                // The title and the TL;DR cannot be removed, so such an answer changes nothing.
                Some(new) if new.trim().is_empty() || new.trim() == REMOVE_MARK => {}
                Some(new) => *text = new,
                None => return Ok(false),
            }
        }
        for index in 0..self.items.len() {
            let (kind, text) = self.items[index].clone();
            match ask_item(screen, summary_heading(kind), &text)? {
                Some(new) => self.items[index].1 = new,
                None => return Ok(false),
            }
        }
        self.items.retain(|(_, text)| !text.is_empty());
        self.ask_more(screen)
    }

    /// Asks for new items until the user wants no more. Returns `false` if the user left before that.
    fn ask_more(&mut self, screen: &Screen) -> io::Result<bool> {
        let kinds: Vec<String> = KIND_LETTERS
            .iter()
            .map(|(letter, kind)| format!("{letter} {}", summary_heading(*kind)))
            .collect();
        let label = "Kind of a new item (Enter for none)";
        loop {
            screen.print_line(wrap(
                &format!("Kinds: {}", kinds.join(" · ")),
                screen.text_columns(),
                "",
                "  ",
            ))?;
            let Some(line) = ask_line(screen, label)? else { return Ok(false) };
            let letter = line.trim().chars().next().map(|letter| letter.to_ascii_lowercase());
            let kind = KIND_LETTERS.iter().find(|(known, _)| Some(*known) == letter).map(|(_, kind)| *kind);
            match (kind, letter) {
                (Some(kind), _) => match ask_line(screen, summary_heading(kind))? {
                    Some(text) if !text.trim().is_empty() => self.items.push((kind, text.trim().to_owned())),
                    Some(_) => {}
                    None => return Ok(false),
                },
                (None, None) => {
                    self.items.sort_by_key(|(kind, _)| *kind);
                    return Ok(true);
                }
                (None, Some(_)) => screen.print_line("There is no such kind.")?,
            }
        }
    }

    /// Returns the `summary_json` of an edit decision.
    pub(super) fn to_json(&self) -> Value {
        let body: Vec<Value> =
            self.items.iter().map(|(kind, text)| json!({"kind": kind, "text": text})).collect();
        json!({"title": self.title, "tldr": self.tldr, "body": body})
    }

    /// Returns the summary as the Markdown that is stored if the user accepts it. A text that would be refused is rendered
    /// without marks and facts.
    pub(super) fn to_markdown(&self, shown: &HandoffSummary) -> String {
        let item = |(kind, text): &(SummaryItemKind, String)| SummaryItem {
            kind: *kind,
            text: text.clone(),
            refs: Vec::new(),
            verified: true,
            unfound: Vec::new(),
            line_refs: Vec::new(),
            false_refs: Vec::new(),
        };
        agent::edited_markdown(shown, &self.to_json()).unwrap_or_else(|_| {
            summary_markdown(&self.title, &self.tldr, &self.items.iter().map(item).collect::<Vec<_>>())
        })
    }
}

/// Asks for the lines of one item and returns the new text, which is empty if every line was removed; `None` if the
/// user left.
fn ask_item(screen: &Screen, label: &str, text: &str) -> io::Result<Option<String>> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match ask_text(screen, label, line)? {
            Some(new) if new.trim().is_empty() || new.trim() == REMOVE_MARK => {}
            Some(new) => lines.push(new.trim().to_owned()),
            None => return Ok(None),
        }
    }
    Ok(Some(lines.join("\n")))
}
