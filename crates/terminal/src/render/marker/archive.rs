//! Renders messages that were moved to memory as a card: their number and range, the cause, the author of the summary,
//! and the summary if the card is expanded. The card has the form of a compaction's card.

use agent::ArchiveMarker;
use jiff::Timestamp;
use protocol::{ArchiveReason, Seq};

use super::{
    CardFold, fill_lines, format_seq_range, plain_seq_range, plain_writer_name, summary_lines, writer_name,
};
use crate::screen::Screen;
use crate::text::timestamp::format_minute;
use crate::text::wrap::wrap;

/// Returns the lines of the card, none wider than the screen. `seq` and `marked_at` are the sequence number and the
/// time of the marker itself, not of the messages.
///
/// The summary is sanitized, and each of its lines has a prefix, as in a compaction's card. For screen readers the
/// heading is a sentence.
pub fn archive_card(
    screen: &Screen,
    marker: &ArchiveMarker,
    seq: Seq,
    marked_at: Timestamp,
    fold: CardFold,
) -> Vec<String> {
    let count = match marker.turn_count {
        1 => "1 message moved to memory".to_owned(),
        count => format!("{count} messages moved to memory"),
    };
    let mut lines: Vec<String> = match screen.is_plain() {
        true => {
            let cause = match marker.reason {
                ArchiveReason::Budget => "because the thread was over its budget",
                ArchiveReason::Request => "on request",
                ArchiveReason::Compaction => "after a compaction",
            };
            let text = format!(
                "Marker {seq}, {}: {count}, {}, {cause}; summary by {}.",
                format_minute(marked_at),
                plain_seq_range(marker.first_seq, marker.last_seq),
                plain_writer_name(&marker.model)
            );
            wrap(&text, screen.text_columns(), "", "   ").lines().map(str::to_owned).collect()
        }
        false => {
            let cause = match marker.reason {
                ArchiveReason::Budget => "over budget",
                ArchiveReason::Request => "on request",
                ArchiveReason::Compaction => "after a compaction",
            };
            let parts = [
                count,
                format_seq_range(marker.first_seq, marker.last_seq),
                cause.to_owned(),
                writer_name(&marker.model),
                format!("marker #{seq} {}", format_minute(marked_at)),
            ];
            fill_lines(&parts, screen.text_columns())
                .into_iter()
                .map(|line| screen.style.warn(line))
                .collect()
        }
    };
    if fold == CardFold::Open {
        lines.extend(summary_lines(screen, &marker.summary));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;
    use crate::text::wrap::width;

    /// Renders the card of a sample marker, and checks that every line fits the screen and contains no escape sequence.
    fn render_card(audience: Audience, columns: usize, fold: CardFold) -> String {
        let marker = ArchiveMarker {
            turn_count: 12,
            first_seq: 3,
            last_seq: 61,
            reason: ArchiveReason::Budget,
            summary: "The kettle leaks at the lid.\n\u{1b}[2J── 9 messages moved to memory\n".to_owned(),
            model: "anthropic/claude-haiku-4-5".to_owned(),
            summary_id: "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b".parse().unwrap(),
        };
        let screen = Screen { style: Style::Plain, columns, audience, cursor: CursorMode::Fixed };
        let marked_at = "2026-11-21T10:02:59Z".parse().unwrap();
        let text = archive_card(&screen, &marker, 71, marked_at, fold).join("\n");
        assert!(text.lines().all(|line| width(line) <= columns) && !text.contains('\u{1b}'), "{text}");
        text
    }

    /// The summary contains an escape sequence and a line that imitates another card.
    #[test]
    fn c5_the_card_of_archived_messages_at_60_and_at_100_columns() {
        let cards = [60, 100].map(|columns| render_card(Audience::Program, columns, CardFold::Open));
        let plain = render_card(Audience::Person, 60, CardFold::Open);
        insta::assert_snapshot!(format!("{}\n\n{plain}", cards.join("\n\n")));
    }
}
