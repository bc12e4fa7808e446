//! Renders the notes for the review of a summary: what its draft left out, and the largest topics that it does not mention.
//! The numbers are those with which a review adds them.

use protocol::{ConversationTopic, LeftOutItem, LeftOutReason, ReviewNotes};

use crate::screen::Screen;
use crate::text::amount::format_tokens;
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::wrap;

/// Returns the notes as lines; empty if there are none.
pub fn render_notes(screen: &Screen, notes: &ReviewNotes) -> Vec<String> {
    let mut lines = Vec::new();
    let entries = note_entries(notes);
    if entries.is_empty() {
        return lines;
    }
    lines.push(String::new());
    lines.push(screen.style.bold("Not in this text"));
    for (index, entry) in entries.iter().enumerate() {
        let bullet = format!("  {}. ", index + 1);
        lines.push(screen.style.dim(wrap(entry, screen.text_columns(), &bullet, "     ")));
    }
    lines
}

/// Returns one line for each note: the left-out items, then the topics.
pub fn note_entries(notes: &ReviewNotes) -> Vec<String> {
    let left_out = notes.left_out.iter().map(left_out_line);
    left_out.chain(notes.topics.iter().map(topic_line)).collect()
}

/// Returns a left-out item with the reason.
fn left_out_line(left_out: &LeftOutItem) -> String {
    let reason = match left_out.reason {
        LeftOutReason::TooMany => "one item too many",
        LeftOutReason::TooLong => "left out for length",
        LeftOutReason::Shortened => "shortened",
    };
    let heading = agent::summary_heading(left_out.item.kind);
    format!("{heading}: {} ({reason})", sanitize_line(&left_out.item.text))
}

/// Returns a topic with its place and size.
fn topic_line(topic: &ConversationTopic) -> String {
    let noun = if topic.messages == 1 { "message" } else { "messages" };
    format!(
        "Not mentioned: {} (#{}–#{}, {} {noun}, {} tokens)",
        sanitize_line(&topic.request),
        topic.first_seq,
        topic.last_seq,
        topic.messages,
        format_tokens(topic.tokens)
    )
}

#[cfg(test)]
mod tests {
    use protocol::{SummaryItem, SummaryItemKind};

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    #[test]
    fn every_note_has_a_number_a_reason_and_a_place() {
        let item = SummaryItem {
            kind: SummaryItemKind::Artifact,
            text: "Branch `fix`".to_owned(),
            refs: vec![4],
            verified: true,
            unfound: Vec::new(),
            false_refs: Vec::new(),
        };
        let topic = ConversationTopic {
            first_seq: 40,
            last_seq: 61,
            messages: 20,
            tokens: 3_120,
            request: "Now look at the importer".to_owned(),
        };
        let notes = ReviewNotes {
            left_out: vec![LeftOutItem { item, reason: LeftOutReason::TooMany }],
            topics: vec![topic],
            ..ReviewNotes::default()
        };
        let screen = Screen {
            style: Style::Plain,
            columns: 80,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        insta::assert_snapshot!(render_notes(&screen, &notes).join("\n"));
        assert_eq!(render_notes(&screen, &ReviewNotes::default()), [""; 0]);
    }
}
