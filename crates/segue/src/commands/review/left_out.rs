//! The choice of something that a draft left out. A topic is added in words that the draft does not show, so the user sees
//! these words first.

use agent::summary_heading;
use protocol::SummaryItemKind;
use serde_json::Value;
use terminal::{KeyChoice, ask, notes, pick, sanitize_line, shorten, wrap};

use super::HandoffReviewSession;
use crate::exit::CliFailure;

/// The answers to the words that would be added.
const ANSWERS: [KeyChoice<()>; 1] = [KeyChoice { key: 'a', label: "Add this", answer: () }];

impl HandoffReviewSession<'_> {
    /// Asks the user to choose something that the draft left out, and returns it as the argument of an edit; `None` if the user
    /// leaves the question.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written.
    pub(super) fn choose_note(&self) -> Result<Option<Value>, CliFailure> {
        let screen = &self.context.screen;
        let review_notes = &self.pending.proposal.summary_json.notes;
        let columns = screen.columns.saturating_sub(8);
        let entries = notes::note_entries(review_notes);
        // The number is that of the panel, so that typing it selects the entry.
        let numbered = entries.iter().enumerate().map(|(at, entry)| format!("{}. {entry}", at + 1));
        let items = numbered.map(|entry| shorten(&entry, columns).into_owned());
        let Some(index) = pick(screen, "Add", items.collect())? else { return Ok(None) };
        if let Some(topic) = notes::topic_at(review_notes, index) {
            let heading = format!("Adds to {}:", summary_heading(SummaryItemKind::Progress));
            screen.print_line(screen.style.bold(heading))?;
            for line in topic.item_text().lines() {
                screen.print_line(wrap(&sanitize_line(line), screen.text_columns(), "- ", "  "))?;
            }
            if ask(screen, &ANSWERS, "Go back")?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(notes::added_entry(review_notes, index)))
    }
}
