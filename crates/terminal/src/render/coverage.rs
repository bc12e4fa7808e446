//! Renders the coverage of a summary: what became of the messages, as counts and as a strip over the conversation.
//! `agent::count_message_uses` does the counting.

use agent::{CoverageCounts, MessageUse, count_coverage, count_message_uses};
use protocol::Coverage;
use protocol::handoff::summary::SeqRange;

use crate::screen::Screen;
use crate::text::wrap::wrap;

/// The most cells of the strip.
const STRIP_CELLS_MAX: usize = 72;

/// The most ranges of unread messages that are listed.
const UNREAD_RANGES_MAX: usize = 12;

/// The uses with their names and the characters of the strip, the strongest claim first.
const USES: [(MessageUse, &str, char); 5] = [
    (MessageUse::Quoted, "quoted", '█'),
    (MessageUse::Represented, "represented", '▓'),
    (MessageUse::Read, "read", '▒'),
    (MessageUse::Scanned, "scanned", '░'),
    (MessageUse::Unread, "unread", '·'),
];

/// Returns the message counts on one line, unwrapped and without emphasis.
pub fn render_line(coverage: &Coverage) -> String {
    let CoverageCounts { messages, verbatim, summarized, truncated, excluded, .. } = count_coverage(coverage);
    if messages == 0 {
        return "No messages since the summary that this thread began with".to_owned();
    }
    let noun = if messages == 1 { "message" } else { "messages" };
    match count_message_uses(coverage) {
        Some(uses) => format!(
            "{messages} {noun}: {} quoted, {} represented, {} read, {} scanned, {} unread",
            uses.quoted, uses.represented, uses.read, uses.scanned, uses.unread
        ),
        // A summary of an earlier version states only how much of a message reached the summarizer.
        None => format!(
            "{messages} {noun}: {verbatim} verbatim, {summarized} summarized, {truncated} truncated, {excluded} excluded"
        ),
    }
}

/// Returns the counts, the strip over the conversation, and an explanation of the terms.
pub fn render_full(screen: &Screen, coverage: &Coverage) -> Vec<String> {
    let columns = screen.text_columns();
    let mut lines = vec![screen.style.bold(wrap(&render_line(coverage), columns, "", "  "))];
    let legend = if count_message_uses(coverage).is_some() {
        lines.push(format!(
            "  {}",
            coverage_strip(coverage, columns.saturating_sub(2).clamp(1, STRIP_CELLS_MAX))
        ));
        "From the first message to the last: █ quoted: its words are in the text · ▓ represented: the text refers to it · \
         ▒ read: the model that drafted received it · ░ scanned: only facts were extracted from it · · unread. \
         `segue history` shows the messages."
    } else {
        "verbatim: read in full · summarized: read as a line or a fact · truncated: read in part · excluded: not read. \
         `segue history` shows the events."
    };
    lines.extend(unread_line(coverage).map(|line| screen.style.dim(wrap(&line, columns, "  ", "    "))));
    lines.push(screen.style.dim(wrap(legend, columns, "  ", "  ")));
    lines
}

/// Returns a line with the places of the unread messages; `None` without any. The ranges may contain events that are no
/// messages.
fn unread_line(coverage: &Coverage) -> Option<String> {
    count_message_uses(coverage).filter(|uses| uses.unread > 0)?;
    let range = |(first, last): &SeqRange| match first == last {
        true => format!("#{first}"),
        false => format!("#{first}–#{last}"),
    };
    let ranges: Vec<String> = coverage.unread.iter().take(UNREAD_RANGES_MAX).map(range).collect();
    let others = coverage.unread.len().saturating_sub(UNREAD_RANGES_MAX);
    let others = if others > 0 { format!(" and {others} more places") } else { String::new() };
    Some(format!("Unread messages are in {}{others}.", ranges.join(", ")))
}

/// Returns a strip of at most `cells` characters over the covered range. Each shows the strongest use in its part.
fn coverage_strip(coverage: &Coverage, cells: usize) -> String {
    let first = coverage.first_seq;
    let events = coverage.last_seq.saturating_sub(first) + 1;
    let cells = u64::try_from(cells).unwrap_or(1).min(events);
    let mut strip = vec!['·'; usize::try_from(cells).unwrap_or(1)];
    let lists: [&Vec<SeqRange>; 5] =
        [&coverage.quoted, &coverage.represented, &coverage.read, &coverage.scanned, &coverage.unread];
    // The strongest use is drawn last.
    for ((_, _, character), ranges) in USES.iter().zip(lists).rev() {
        for (from, to) in ranges {
            let cell =
                |seq: u64| usize::try_from(seq.saturating_sub(first) * cells / events).unwrap_or(usize::MAX);
            let (from, to) = (cell(*from), cell(*to).min(strip.len() - 1));
            strip.iter_mut().take(to + 1).skip(from).for_each(|shown| *shown = *character);
        }
    }
    strip.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// Returns a coverage of 240 messages and 10 other events.
    fn coverage() -> Coverage {
        Coverage {
            first_seq: 1,
            last_seq: 250,
            messages: 240,
            verbatim: vec![(240, 250)],
            summarized: vec![(1, 180)],
            truncated: vec![(191, 239)],
            excluded: vec![(181, 190)],
            quoted: vec![(1, 1), (250, 250)],
            represented: vec![(120, 124), (246, 249)],
            read: vec![(191, 245)],
            scanned: vec![(2, 119), (125, 180)],
            unread: vec![(181, 190)],
        }
    }

    #[test]
    fn m5_the_displayed_counts_equal_the_coverage() {
        let expected = "240 messages: 2 quoted, 9 represented, 55 read, 174 scanned, 0 unread";
        assert_eq!(render_line(&coverage()), expected);
        let earlier = Coverage {
            quoted: Vec::new(),
            represented: Vec::new(),
            read: Vec::new(),
            scanned: Vec::new(),
            unread: Vec::new(),
            ..coverage()
        };
        let unused = "No messages since the summary that this thread began with";
        assert_eq!(render_line(&Coverage::default()), unused);
        let expected = "240 messages: 11 verbatim, 180 summarized, 49 truncated, 0 excluded";
        assert_eq!(render_line(&earlier), expected);
    }

    /// Renders the coverage on a screen of this width.
    fn render_sample(columns: usize) -> String {
        let screen =
            Screen { style: Style::Plain, columns, audience: Audience::Program, cursor: CursorMode::Fixed };
        render_full(&screen, &coverage()).join("\n")
    }

    #[test]
    fn coverage_at_60_and_at_100_columns() {
        insta::assert_snapshot!(format!("{}\n\n{}", render_sample(60), render_sample(100)));
    }

    #[test]
    fn the_places_of_unread_messages_are_listed() {
        assert_eq!(unread_line(&coverage()), None, "the ten events of the range are no messages");
        let mut with_unread = Coverage { messages: 250, ..coverage() };
        assert_eq!(unread_line(&with_unread).as_deref(), Some("Unread messages are in #181–#190."));
        with_unread.unread = (0..14).map(|index| (150 + 2 * index, 150 + 2 * index)).collect();
        let line = unread_line(&with_unread).unwrap();
        assert!(line.starts_with("Unread messages are in #150, #152,"), "{line}");
        assert!(line.ends_with("#172 and 2 more places."), "{line}");
    }

    #[test]
    fn a_cell_of_the_strip_shows_the_strongest_use_in_its_part() {
        assert_eq!(coverage_strip(&coverage(), 10), "█░░░▓░░▒▒█");
        assert_eq!(
            coverage_strip(
                &Coverage { first_seq: 1, last_seq: 1, scanned: vec![(1, 1)], ..Coverage::default() },
                10
            ),
            "░"
        );
        assert_eq!(coverage_strip(&Coverage::default(), 10), "·");
    }
}
