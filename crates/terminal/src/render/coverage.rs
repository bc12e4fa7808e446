//! Renders the coverage of a summary: how many messages it covers, and how each range of events was read.
//! `agent::count_coverage` does the counting.

use agent::{CoverageCounts, count_coverage};
use protocol::Coverage;
use protocol::handoff::summary::SeqRange;

use crate::screen::Screen;
use crate::text::wrap::{pad, wrap};

/// The most ranges shown; if there are more, the newest are shown.
const RANGES_MAX: usize = 12;
/// The width of the column with the ranges.
const RANGE_COLUMNS: usize = 18;

/// Returns the message counts on one line, unwrapped and without emphasis.
pub fn render_line(coverage: &Coverage) -> String {
    let CoverageCounts { messages, verbatim, summarized, truncated, excluded, .. } = count_coverage(coverage);
    let noun = if messages == 1 { "message" } else { "messages" };
    format!(
        "{messages} {noun}: {verbatim} verbatim, {summarized} summarized, {truncated} truncated, {excluded} excluded"
    )
}

/// Returns the counts, the ranges in the order of their events, and an explanation of the terms.
/// Events that are not messages, such as the start of a run, are reported separately, so that the counts of messages
/// agree with the history.
pub fn render_full(screen: &Screen, coverage: &Coverage) -> Vec<String> {
    let ranges = sorted_ranges(coverage);
    let columns = screen.text_columns();
    let mut lines = vec![screen.style.bold(wrap(&render_line(coverage), columns, "", "  "))];
    let omitted = ranges.len().saturating_sub(RANGES_MAX);
    if omitted > 0 {
        lines.push(screen.style.dim(format!("  … {omitted} earlier ranges")));
    }
    for ((first, last), kind) in &ranges[omitted..] {
        let range = if first == last { format!("#{first}") } else { format!("#{first}–#{last}") };
        lines.push(format!("  {}{kind}", pad(&range, RANGE_COLUMNS)));
    }
    let other = count_coverage(coverage).other_events;
    if other > 0 {
        let text = match other {
            1 => "1 event is not a message (such as the start of a run) and counts as excluded.".to_owned(),
            _ => {
                format!("{other} events are not messages (such as the start of a run) and count as excluded.")
            }
        };
        lines.push(screen.style.dim(wrap(&text, columns, "  ", "  ")));
    }
    let legend = "verbatim: read in full · summarized: read as a line or a fact · truncated: read in part · excluded: not read. \
                  `segue history` shows the events.";
    lines.push(screen.style.dim(wrap(legend, columns, "  ", "  ")));
    lines
}

/// Returns all ranges with the name of the way in which they were read, ordered by sequence number.
fn sorted_ranges(coverage: &Coverage) -> Vec<(SeqRange, &'static str)> {
    let lists = [
        (&coverage.verbatim, "verbatim"),
        (&coverage.summarized, "summarized"),
        (&coverage.truncated, "truncated"),
        (&coverage.excluded, "excluded"),
    ];
    let mut all: Vec<(SeqRange, &str)> =
        lists.into_iter().flat_map(|(ranges, kind)| ranges.iter().map(move |range| (*range, kind))).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// Returns a coverage with one range of each kind, of which the excluded range contains no messages.
    fn coverage() -> Coverage {
        Coverage {
            first_seq: 1,
            last_seq: 250,
            messages: 240,
            verbatim: vec![(240, 250)],
            summarized: vec![(1, 180)],
            truncated: vec![(191, 239)],
            excluded: vec![(181, 190)],
        }
    }

    #[test]
    fn m5_the_displayed_counts_equal_the_coverage() {
        let expected = "240 messages: 11 verbatim, 180 summarized, 49 truncated, 0 excluded";
        assert_eq!(render_line(&coverage()), expected);
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
    fn the_ranges_are_in_order_and_bounded() {
        let screen = Screen {
            style: Style::Plain,
            columns: 60,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let coverage = Coverage {
            first_seq: 1,
            last_seq: 30,
            messages: 30,
            verbatim: (1..=15).map(|index| (2 * index, 2 * index)).collect(),
            summarized: (0..15).map(|index| (2 * index + 1, 2 * index + 1)).collect(),
            ..Coverage::default()
        };
        let lines = render_full(&screen, &coverage);
        assert_eq!(lines[1], "  … 18 earlier ranges");
        assert_eq!(lines[2], format!("  {:<18}summarized", "#19"));
        assert_eq!(lines[13], format!("  {:<18}verbatim", "#30"));
    }
}
