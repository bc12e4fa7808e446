//! Renders the usage of the model's context window: each part with its size, the free tokens, and the size at which the
//! thread will be compacted. The caller passes the sizes, which `agent` has computed; this file computes none.

use agent::{ContextPart, ContextReport};

use crate::screen::{CursorMode, Screen};
use crate::text::amount::format_tokens;
use crate::text::sanitize::sanitize_line;
use crate::text::table::{TableColumn, table};
use crate::text::wrap::wrap;

/// The width of the usage bar, in columns. It is narrower on a narrow screen.
const BAR_COLUMNS: usize = 40;
/// The glyphs of the parts in the bar. They repeat if there are more parts than glyphs.
const BAR_GLYPHS: [char; 8] = ['█', '▓', '▒', '▚', '▤', '▥', '▦', '▧'];
/// The glyph of free tokens.
const FREE_GLYPH: char = '░';

/// Returns the lines that describe the next request: the model and the total, the bar, a table of the parts, and notes.
/// Shares are rounded up to whole percent of the context window, or of the request if the window is unknown.
pub fn render_report(screen: &Screen, report: &ContextReport) -> Vec<String> {
    let style = screen.style;
    let window = report.window_tokens.unwrap_or(report.tokens).max(1);
    let usage = match report.window_tokens {
        Some(window) => format!("about {} of {} tokens", format_tokens(report.tokens), format_tokens(window)),
        None if report.model.is_none() => format!("about {} tokens", format_tokens(report.tokens)),
        None => {
            format!("about {} tokens; the model's context window is unknown", format_tokens(report.tokens))
        }
    };
    let mut lines =
        vec![style.bold(sanitize_line(report.model.as_deref().unwrap_or("no model"))), style.dim(usage)];
    // Screen readers and programs cannot use a bar.
    let has_bar = screen.cursor == CursorMode::Free;
    if has_bar {
        lines.push(usage_bar(report, window, BAR_COLUMNS.min(screen.columns.saturating_sub(2))));
    }
    let percent = |tokens: u64| format!("{} %", (tokens * 100).div_ceil(window));
    let label = |glyph: char, name: &str| match has_bar {
        true => format!("{glyph} {}", part_label(name)),
        false => part_label(name),
    };
    let parts = report.parts.iter().zip(BAR_GLYPHS.iter().cycle());
    let row = |(part, glyph): (&ContextPart, &char)| {
        vec![label(*glyph, &part.name), format_tokens(part.tokens), percent(part.tokens)]
    };
    let mut rows: Vec<Vec<String>> = parts.map(row).collect();
    if let Some(window) = report.window_tokens {
        let free = window.saturating_sub(report.tokens);
        rows.push(vec![label(FREE_GLYPH, "free"), format_tokens(free), percent(free)]);
    }
    let columns = [TableColumn::Flexible("PART"), TableColumn::Right("TOKENS"), TableColumn::Right("SHARE")];
    lines.extend(table(screen, &columns, &rows));
    let noun = if report.message_count == 1 { "message" } else { "messages" };
    let notes = [
        Some(format!("{} {noun}", report.message_count)),
        compacted_line(report),
        Some(next_compaction_line(report)),
    ];
    let note_line = |text: String| style.dim(wrap(&text, screen.text_columns(), "", "  "));
    lines.extend(notes.into_iter().flatten().map(note_line));
    lines
}

/// Returns the display name of a part: a hook's type name in lower case and split into words, such as `agent memory`;
/// other names unchanged except for their case.
fn part_label(name: &str) -> String {
    let mut label = String::new();
    for letter in sanitize_line(name).chars() {
        if letter.is_uppercase() && !label.is_empty() && !label.ends_with(' ') {
            label.push(' ');
        }
        label.extend(letter.to_lowercase());
    }
    label
}

/// Returns the line about the active compaction; `None` if the context contains no compacted messages.
/// The line names the part of the request that contains the summary, its size, and the marker, which `/history` shows.
fn compacted_line(report: &ContextReport) -> Option<String> {
    let compacted = report.condensed.as_ref()?;
    let part = compacted.part;
    let size = report.parts.iter().find(|sent| sent.name == part).map_or(0, |sent| sent.tokens);
    Some(format!(
        "Everything up to #{} is compacted into {} tokens of {part} (marker #{}).",
        compacted.last_seq,
        format_tokens(size),
        compacted.marker_seq
    ))
}

/// Returns the line about the next automatic compaction.
/// If the trigger is not a number of tokens, the line refers to the configuration.
fn next_compaction_line(report: &ContextReport) -> String {
    match report.trigger_tokens {
        None if report.model.is_none() => "Automatic compaction needs a model.".to_owned(),
        None => "Automatic compaction follows `[compaction]` in config.toml.".to_owned(),
        Some(trigger) => match trigger.checked_sub(report.tokens).filter(|left| *left > 0) {
            Some(left) => {
                format!(
                    "The thread will be compacted at {} tokens: {} to go.",
                    format_tokens(trigger),
                    format_tokens(left)
                )
            }
            None => format!(
                "The thread will be compacted before the next request: it has reached {} tokens.",
                format_tokens(trigger)
            ),
        },
    }
}

/// Returns a bar of `columns` glyphs in which each part has its own glyph and the remaining columns stand for free
/// tokens.
fn usage_bar(report: &ContextReport, window: u64, columns: usize) -> String {
    let mut bar = String::new();
    let (mut tokens, mut drawn) = (0, 0);
    for (part, glyph) in report.parts.iter().zip(BAR_GLYPHS.iter().cycle()) {
        tokens += part.tokens;
        // The running sum is rounded up, so that the bar is as long as all parts together.
        let end = usize::try_from((tokens * columns as u64).div_ceil(window)).unwrap_or(columns).min(columns);
        bar.extend(std::iter::repeat_n(*glyph, end.saturating_sub(drawn)));
        drawn = drawn.max(end);
    }
    bar.extend(std::iter::repeat_n(FREE_GLYPH, columns - drawn));
    bar
}

#[cfg(test)]
mod tests {
    use agent::CompactedPart;

    use super::*;
    use crate::screen::Audience;
    use crate::text::style::Style;
    use crate::text::wrap::width;

    /// Returns a report with these parts and without messages, trigger or compaction.
    fn context_report(window_tokens: Option<u64>, parts: &[(&str, u64)]) -> ContextReport {
        let part = |(name, tokens): &(&str, u64)| ContextPart { name: (*name).to_owned(), tokens: *tokens };
        ContextReport {
            model: Some("anthropic/x".to_owned()),
            window_tokens,
            parts: parts.iter().map(part).collect(),
            tokens: parts.iter().map(|(_, tokens)| tokens).sum(),
            message_count: 0,
            trigger_tokens: None,
            condensed: None,
        }
    }

    /// Renders a report on a screen of 60 columns and checks that every line fits.
    fn render_sample(audience: Audience, cursor: CursorMode, report: &ContextReport) -> String {
        let screen = Screen { style: Style::Plain, columns: 60, audience, cursor };
        let text = render_report(&screen, report).join("\n");
        assert!(text.lines().all(|line| width(line) <= 60), "{text}");
        text
    }

    /// The text for screen readers and for programs must be the same: neither has a bar.
    #[test]
    fn b18_every_part_is_listed_with_the_next_compaction() {
        let parts = [("instructions", 4_000), ("tools", 6_000), ("summary", 1_500), ("messages", 20_000)];
        let report = ContextReport {
            message_count: 12,
            trigger_tokens: Some(170_000),
            condensed: Some(CompactedPart { marker_seq: 71, last_seq: 61, part: "summary" }),
            ..context_report(Some(200_000), &parts)
        };
        let plain = render_sample(Audience::Person, CursorMode::Fixed, &report);
        assert_eq!(render_sample(Audience::Program, CursorMode::Fixed, &report), plain);
        insta::assert_snapshot!(format!(
            "{}\n\n{plain}",
            render_sample(Audience::Person, CursorMode::Free, &report)
        ));
    }

    #[test]
    fn parts_have_readable_names() {
        let check = |name: &str, expected: &str| assert_eq!(part_label(name), expected);
        check("AgentMemory", "agent memory");
        check("Instructions", "instructions");
        check("messages", "messages");
        check("a\nb", "a b");
    }

    #[test]
    fn the_next_compaction_is_announced() {
        let check = |trigger_tokens, expected: &str| {
            let report = ContextReport { trigger_tokens, ..context_report(None, &[("messages", 20_000)]) };
            assert_eq!(next_compaction_line(&report), expected);
        };
        check(None, "Automatic compaction follows `[compaction]` in config.toml.");
        check(
            Some(20_000),
            "The thread will be compacted before the next request: it has reached 20.0k tokens.",
        );
        check(Some(30_000), "The thread will be compacted at 30.0k tokens: 10.0k to go.");
        let unknown =
            render_sample(Audience::Program, CursorMode::Fixed, &context_report(None, &[("messages", 9)]));
        assert!(unknown.contains("window is unknown"), "{unknown}");
    }

    /// The bar must not overflow if the parts exceed the window, as they can before a compaction.
    #[test]
    fn the_bar_has_the_same_length_however_full_the_window_is() {
        let check = |sizes: &[u64], expected: &str| {
            let parts: Vec<(&str, u64)> = sizes.iter().map(|tokens| ("", *tokens)).collect();
            assert_eq!(usage_bar(&context_report(Some(100), &parts), 100, 10), expected);
        };
        check(&[10, 0, 30], "█▒▒▒░░░░░░");
        check(&[300], "██████████");
        check(&[], "░░░░░░░░░░");
    }
}
