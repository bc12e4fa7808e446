//! What fills the model's window: each part with its size, how much is free, and when the conversation will be condensed.
//! The sizes are given; none is worked out anew.

use agent::{ContextPart, ContextReport};

use crate::screen::{Cursor, Screen};
use crate::text::amount::tokens;
use crate::text::safe::one_line;
use crate::text::table::{Column, table};
use crate::text::wrap::wrap;

/// The columns of the bar that shows the window.
const BAR_COLUMNS: usize = 40;
/// The pictures of the parts in it, in turn.
const PICTURES: [char; 8] = ['█', '▓', '▒', '▚', '▤', '▥', '▦', '▧'];
/// The picture of what is free.
const FREE: char = '░';

/// Returns the lines that tell what a request would hold.
pub fn report(screen: &Screen, report: &ContextReport) -> Vec<String> {
    let style = screen.style;
    let window = report.window_tokens.unwrap_or(report.tokens).max(1);
    let of = match report.window_tokens {
        Some(window) => format!("about {} of {} tokens", tokens(report.tokens), tokens(window)),
        None if report.model.is_none() => format!("about {} tokens", tokens(report.tokens)),
        None => format!("about {} tokens; the model's window is not known", tokens(report.tokens)),
    };
    let mut lines = vec![style.bold(one_line(report.model.as_deref().unwrap_or("no model"))), style.dim(of)];
    // A bar says nothing to whoever has it read out, or reads it as a program.
    let has_bar = screen.cursor == Cursor::Free;
    if has_bar {
        lines.push(bar(report, window, BAR_COLUMNS.min(screen.columns.saturating_sub(2))));
    }
    let percent = |tokens: u64| format!("{} %", (tokens * 100).div_ceil(window));
    // Neither does the picture a part has in it.
    let named = |picture: char, name: &str| match has_bar {
        true => format!("{picture} {}", one_line(name)),
        false => one_line(name),
    };
    let parts = report.parts.iter().zip(PICTURES.iter().cycle());
    let row = |(part, picture): (&ContextPart, &char)| {
        vec![named(*picture, &part.name), tokens(part.tokens), percent(part.tokens)]
    };
    let mut rows: Vec<Vec<String>> = parts.map(row).collect();
    if let Some(window) = report.window_tokens {
        let free = window.saturating_sub(report.tokens);
        rows.push(vec![named(FREE, "free"), tokens(free), percent(free)]);
    }
    let columns = [Column::Flexible("PART"), Column::Right("TOKENS"), Column::Right("SHARE")];
    lines.extend(table(screen, &columns, &rows));
    let noun = if report.message_count == 1 { "message" } else { "messages" };
    let told = [Some(format!("{} {noun}", report.message_count)), condensed(report), Some(due(report))];
    let say = |text: String| style.dim(wrap(&text, screen.text_columns(), "", "  "));
    lines.extend(told.into_iter().flatten().map(say));
    lines
}

/// Returns what of the thread is condensed.
fn condensed(report: &ContextReport) -> Option<String> {
    let condensed = report.condensed.as_ref()?;
    let part = condensed.part;
    let size = report.parts.iter().find(|sent| sent.name == part).map_or(0, |sent| sent.tokens);
    Some(format!(
        "Everything up to #{} is condensed: {} tokens of {part} stand for it (marker #{}).",
        condensed.last_seq,
        tokens(size),
        condensed.marker_seq
    ))
}

/// Returns when the conversation will be condensed without being asked.
fn due(report: &ContextReport) -> String {
    match report.trigger_tokens {
        None if report.model.is_none() => "With a model, it is condensed by itself in time.".to_owned(),
        None => "It is condensed as `[compaction]` in config.toml says.".to_owned(),
        Some(trigger) => match trigger.checked_sub(report.tokens).filter(|left| *left > 0) {
            Some(left) => {
                format!("It will be condensed at {} tokens: {} to go.", tokens(trigger), tokens(left))
            }
            None => format!(
                "It will be condensed before the next request: {} tokens are reached.",
                tokens(trigger)
            ),
        },
    }
}

/// Returns the shares of the window as a bar: each part with a picture of its own, the rest free.
fn bar(report: &ContextReport, window: u64, columns: usize) -> String {
    let mut bar = String::new();
    let (mut tokens, mut drawn) = (0, 0);
    for (part, picture) in report.parts.iter().zip(PICTURES.iter().cycle()) {
        tokens += part.tokens;
        // Rounded up in sum, so that the bar is as long as all parts together.
        let end = usize::try_from((tokens * columns as u64).div_ceil(window)).unwrap_or(columns).min(columns);
        bar.extend(std::iter::repeat_n(*picture, end.saturating_sub(drawn)));
        drawn = drawn.max(end);
    }
    bar.extend(std::iter::repeat_n(FREE, columns - drawn));
    bar
}

#[cfg(test)]
mod tests {
    use agent::CondensedPart;

    use super::*;
    use crate::screen::Audience;
    use crate::text::style::Style;
    use crate::text::wrap::width;

    fn of(window_tokens: Option<u64>, parts: &[(&str, u64)]) -> ContextReport {
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

    fn shown(audience: Audience, cursor: Cursor, filled: &ContextReport) -> String {
        let screen = Screen { style: Style::Plain, columns: 60, audience, cursor };
        let text = report(&screen, filled).join("\n");
        assert!(text.lines().all(|line| width(line) <= 60), "{text}");
        text
    }

    #[test]
    fn b18_every_part_is_told_and_when_the_conversation_will_be_condensed() {
        let parts = [("instructions", 4_000), ("tools", 6_000), ("summary", 1_500), ("messages", 20_000)];
        let filled = ContextReport {
            message_count: 12,
            trigger_tokens: Some(170_000),
            condensed: Some(CondensedPart { marker_seq: 71, last_seq: 61, part: "summary" }),
            ..of(Some(200_000), &parts)
        };
        let plain = shown(Audience::Person, Cursor::Fixed, &filled);
        assert_eq!(shown(Audience::Program, Cursor::Fixed, &filled), plain);
        insta::assert_snapshot!(format!("{}\n\n{plain}", shown(Audience::Person, Cursor::Free, &filled)));
    }

    #[test]
    fn a_context_that_is_due_or_never_is_says_so() {
        let check = |trigger_tokens, expected: &str| {
            let filled = ContextReport { trigger_tokens, ..of(None, &[("messages", 20_000)]) };
            assert_eq!(due(&filled), expected);
        };
        check(None, "It is condensed as `[compaction]` in config.toml says.");
        check(Some(20_000), "It will be condensed before the next request: 20.0k tokens are reached.");
        check(Some(30_000), "It will be condensed at 30.0k tokens: 10.0k to go.");
        let unknown = shown(Audience::Program, Cursor::Fixed, &of(None, &[("messages", 9)]));
        assert!(unknown.contains("window is not known"), "{unknown}");
    }

    #[test]
    fn the_bar_is_as_long_as_the_window_however_full_it_is() {
        let check = |sizes: &[u64], expected: &str| {
            let parts: Vec<(&str, u64)> = sizes.iter().map(|tokens| ("", *tokens)).collect();
            assert_eq!(bar(&of(Some(100), &parts), 100, 10), expected);
        };
        check(&[10, 0, 30], "█▒▒▒░░░░░░");
        check(&[300], "██████████");
        check(&[], "░░░░░░░░░░");
    }
}
