//! The pane of a review: the package in sections that open and close. A reference opens the messages that it names.

use agent::{MessageFilter, RecallQuery};
use protocol::Seq;
use terminal::search_hits::speaker_name;
use terminal::{PaneOutcome, outline, summary};

use super::HandoffReviewSession;
use crate::exit::CliFailure;

/// The rows that a question and the lines around the text take.
const QUESTION_ROWS: usize = 8;

impl HandoffReviewSession<'_> {
    /// Shows the proposal in a pane until the user closes it.
    ///
    /// # Errors
    /// Fails if the terminal cannot be used or the journal cannot be read.
    pub(super) async fn show_pane(&self) -> Result<(), CliFailure> {
        let mut pane = outline::proposal_pane(&self.pending.proposal);
        loop {
            match pane.show(&self.context.screen)? {
                PaneOutcome::Closed => return Ok(()),
                PaneOutcome::NeedsPlaces { section, item } => {
                    let refs = pane.sections[section].items[item].refs.clone();
                    pane.sections[section].items[item].places = Some(self.read_places(&refs).await?);
                }
            }
        }
    }

    /// Prints how to read the text if it is longer than the terminal, so that the question has scrolled it away.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub(super) fn note_long_text(&self) -> Result<(), CliFailure> {
        let screen = &self.context.screen;
        let text = summary::render_proposal(screen, &self.pending.proposal);
        match screen.rows() {
            Some(rows) if text.lines().count() + QUESTION_ROWS > rows => Ok(screen
                .print_line(screen.style.dim("The text is longer than this terminal: [o] opens it here."))?),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the messages at these places, one line for each.
    async fn read_places(&self, refs: &[Seq]) -> Result<Vec<String>, CliFailure> {
        let parent = self.pending.handoff.parent_thread_id;
        let mut places = Vec::new();
        for seq in refs {
            let filter = MessageFilter::Range(*seq, *seq);
            let query = RecallQuery { thread: Some(parent.to_string()), ..RecallQuery::new(filter) };
            let result = self.context.agent.memory().recall(parent, &query).await?;
            let passages: Vec<_> = result.excerpts.into_iter().flatten().collect();
            match passages.first() {
                Some(passage) => {
                    let speaker = speaker_name(&passage.speaker);
                    places.push(format!("#{seq} {speaker}: {}", passage.text));
                }
                None => places.push(format!("#{seq}: this message cannot be read")),
            }
        }
        Ok(places)
    }
}
