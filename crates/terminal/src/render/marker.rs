//! Renders a compaction as a card: number and range of the messages, tokens before and after, trigger and author, and
//! the summary if the card is expanded. The same card is used live, when a thread is reopened, and in the history.
//!
//! Only this file and its submodule describe markers, so that all of these views agree.

mod archive;

use agent::SummaryMarker;
use jiff::Timestamp;
use protocol::{ClippedResult, Compaction, CompactionFailed, CompactionTrigger, Event, EventType, Seq};

use crate::render::markdown::MarkdownRenderer;
use crate::screen::Screen;
use crate::text::amount::format_tokens;
use crate::text::sanitize::sanitize_line;
use crate::text::style::close_styles_per_line;
use crate::text::timestamp::format_minute;
use crate::text::wrap::{format_bytes, width, wrap};

pub use archive::archive_card;

/// The separator between two parts of a card's heading.
const SEPARATOR: &str = " · ";
/// The prefix of a card.
const LEAD: &str = "── ";
/// The prefix of the other lines of the heading.
const INDENT: &str = "   ";
/// The prefix of each line of the summary.
const GUTTER: &str = "│ ";
/// The prefix of each line of the summary for screen readers. No line of a summary begins in the first column, so that
/// the model's text cannot imitate a line that Segue prints.
const PLAIN_GUTTER: &str = "  ";
/// The text after a summary for screen readers.
const SUMMARY_END: &str = "End of the summary.";

/// The status of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionStatus {
    /// Active: the model gets the summary, or a later one built on it. Carries the marker's sequence number.
    Active(Seq),
    /// Undone. Carries the marker's sequence number.
    Reverted(Seq),
    /// Not applied.
    Preview,
}

impl CompactionStatus {
    /// Returns the marker's sequence number, if the compaction was stored.
    const fn marker_seq(self) -> Option<Seq> {
        match self {
            Self::Active(seq) | Self::Reverted(seq) => Some(seq),
            Self::Preview => None,
        }
    }
}

/// The amount of a card that is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CardFold {
    /// Only the heading is shown.
    #[default]
    Closed,
    /// The heading and the summary are shown.
    Open,
}

/// Returns the lines of a card, none wider than the screen. `marked_at` is the time of the marker; `None` omits it.
///
/// The summary is sanitized, and each of its lines has a prefix, so that it cannot be mistaken for a message. For
/// screen readers, a line before the summary states its number of lines, and a line after it announces its end.
pub fn compaction_card(
    screen: &Screen,
    marker: &SummaryMarker,
    marked_at: Option<Timestamp>,
    status: CompactionStatus,
    fold: CardFold,
) -> Vec<String> {
    let marked_at = marked_at.map(format_minute);
    let mut lines = match screen.is_plain() {
        true => plain_heading_lines(screen, marker, status, marked_at),
        false => heading_lines(screen, marker, status, marked_at),
    };
    if let Some(focus) = marker.focus.as_deref().map(sanitize_line).filter(|focus| !focus.is_empty()) {
        let focus = wrap(&format!("focus: {focus}"), screen.text_columns(), INDENT, INDENT);
        lines.extend(close_styles_per_line(focus.lines()).into_iter().map(|line| screen.style.dim(line)));
    }
    if fold == CardFold::Open {
        lines.extend(summary_lines(screen, &marker.summary));
    }
    lines
}

/// Returns the notice that the compaction with this marker was undone.
pub fn revert_notice(screen: &Screen, marker_seq: Seq) -> String {
    match screen.is_plain() {
        true => format!("The compaction of marker {marker_seq} was undone."),
        false => screen.style.warn(format!("{LEAD}undone: the compaction of #{marker_seq}")),
    }
}

/// Returns the lines of an event that changes the model's context: the card of a compaction, or a notice. Other events,
/// and events whose body cannot be read, have no lines.
pub fn render_context_event(screen: &Screen, event: &Event) -> Vec<String> {
    let notice = |text: &str| wrap(text, screen.text_columns(), LEAD, INDENT);
    match event.kind() {
        Some(EventType::Compacted) => match event.body::<Compaction>() {
            Ok(compaction) => {
                let (marker, marked_at) = (compaction.into(), Some(event.created_at));
                compaction_card(
                    screen,
                    &marker,
                    marked_at,
                    CompactionStatus::Active(event.seq),
                    CardFold::Closed,
                )
            }
            Err(_) => Vec::new(),
        },
        Some(EventType::CompactionFailed) => {
            let reason = event.body().map(|CompactionFailed { reason, .. }| reason);
            let reason = sanitize_line(reason.as_deref().unwrap_or("unknown reason"));
            vec![screen.style.warn(notice(&format!("not compacted: {reason}")))]
        }
        Some(EventType::ResultClipped) => {
            let Ok(ClippedResult { seq, bytes, .. }) = event.body() else { return Vec::new() };
            let text = format!(
                "result #{seq} is too large ({}): the model gets its beginning and end, and can read the rest",
                format_bytes(bytes)
            );
            vec![screen.style.dim(notice(&text))]
        }
        Some(_) | None => Vec::new(),
    }
}

/// Returns a range of sequence numbers, such as `#3–#61`.
pub fn format_seq_range(first_seq: Seq, last_seq: Seq) -> String {
    match first_seq == last_seq {
        true => format!("#{first_seq}"),
        false => format!("#{first_seq}–#{last_seq}"),
    }
}

/// Returns the heading for sighted readers: its parts separated by dots.
fn heading_lines(
    screen: &Screen,
    marker: &SummaryMarker,
    status: CompactionStatus,
    marked_at: Option<String>,
) -> Vec<String> {
    let sizes =
        format!("{} → {} tokens", format_tokens(marker.tokens_before), format_tokens(marker.tokens_after));
    let mut parts = vec![
        message_count_text(marker.replaced_count, status),
        format_seq_range(marker.first_seq, marker.last_seq),
        sizes,
        marker.trigger.as_str().to_owned(),
        writer_name(&marker.model),
    ];
    let time = marked_at.map(|time| format!(" {time}")).unwrap_or_default();
    parts.extend(status.marker_seq().map(|seq| format!("marker #{seq}{time}")));
    let lines = fill_lines(&parts, screen.text_columns());
    let paint = |line| match status {
        CompactionStatus::Active(_) | CompactionStatus::Preview => screen.style.warn(line),
        CompactionStatus::Reverted(_) => screen.style.dim(line),
    };
    lines.into_iter().map(paint).collect()
}

/// Returns the parts joined into lines. Lines are broken between parts; a part is broken only if it is wider than a line.
fn fill_lines(parts: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = LEAD.to_owned();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 && width(&line) + width(SEPARATOR) + width(part) > columns {
            lines.push(std::mem::replace(&mut line, INDENT.to_owned()));
        } else if index > 0 {
            line.push_str(SEPARATOR);
        }
        line.push_str(part);
    }
    lines.push(line);
    let break_line = |line: String| match width(&line) > columns {
        true => wrap(line.trim_start(), columns, INDENT, INDENT).lines().map(str::to_owned).collect(),
        false => vec![line],
    };
    lines.into_iter().flat_map(break_line).collect()
}

/// Returns the heading as a sentence, for screen readers.
fn plain_heading_lines(
    screen: &Screen,
    marker: &SummaryMarker,
    status: CompactionStatus,
    marked_at: Option<String>,
) -> Vec<String> {
    let SummaryMarker { tokens_before, tokens_after, .. } = marker;
    let numbers = plain_seq_range(marker.first_seq, marker.last_seq);
    let cause = match marker.trigger {
        CompactionTrigger::Auto => "automatically",
        CompactionTrigger::Manual => "on request",
        CompactionTrigger::Overflow => "because the request was too large",
    };
    let writer = plain_writer_name(&marker.model);
    let time = marked_at.map(|time| format!(", {time}")).unwrap_or_default();
    let lead = status.marker_seq().map(|seq| format!("Marker {seq}{time}: ")).unwrap_or_default();
    let count = message_count_text(marker.replaced_count, status);
    let text = format!(
        "{lead}{count}, {numbers}, from {tokens_before} to {tokens_after} tokens, {cause}, by {writer}."
    );
    wrap(&text, screen.text_columns(), "", INDENT).lines().map(str::to_owned).collect()
}

/// Returns the number of messages and what happens to them.
fn message_count_text(count: u64, status: CompactionStatus) -> String {
    let noun = if count == 1 { "message" } else { "messages" };
    match status {
        CompactionStatus::Active(_) => format!("{count} {noun} compacted"),
        CompactionStatus::Reverted(_) => format!("{count} {noun} compacted, then undone"),
        CompactionStatus::Preview => format!("{count} {noun} would be compacted"),
    }
}

/// Returns a range of sequence numbers for screen readers.
fn plain_seq_range(first_seq: Seq, last_seq: Seq) -> String {
    match first_seq == last_seq {
        true => format!("number {first_seq}"),
        false => format!("numbers {first_seq} to {last_seq}"),
    }
}

/// Returns the author of a summary for a sentence.
fn plain_writer_name(model: &str) -> String {
    match model {
        agent::OFFLINE_SUMMARY_MODEL => "the offline summary".to_owned(),
        model => sanitize_line(model),
    }
}

/// Returns the author of a summary for a heading.
fn writer_name(model: &str) -> String {
    match model {
        agent::OFFLINE_SUMMARY_MODEL => "offline summary".to_owned(),
        model => sanitize_line(model),
    }
}

/// Returns the lines of a summary, rendered as Markdown, each with a prefix. For screen readers, a line before the
/// summary states its number of lines, and a line after it announces its end.
pub fn summary_lines(screen: &Screen, text: &str) -> Vec<String> {
    let gutter = if screen.is_plain() { PLAIN_GUTTER } else { GUTTER };
    let inner = Screen { columns: screen.text_columns().saturating_sub(width(gutter)), ..*screen };
    let mut markdown = MarkdownRenderer::new(&inner);
    let rendered = markdown.push(text) + &markdown.finish();
    let prefix = |line: String| match line.is_empty() {
        true => screen.style.dim(gutter.trim_end()),
        false => format!("{}{line}", screen.style.dim(gutter)),
    };
    let mut lines: Vec<String> = close_styles_per_line(rendered.lines()).into_iter().map(prefix).collect();
    if screen.is_plain() {
        let noun = if lines.len() == 1 { "line" } else { "lines" };
        lines.insert(0, format!("Summary, {} {noun}:", lines.len()));
        lines.push(SUMMARY_END.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use protocol::NewEvent;
    use serde_json::json;

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// Returns a marker with a summary that contains Markdown and is wider than a narrow screen.
    fn marker() -> SummaryMarker {
        SummaryMarker {
            trigger: CompactionTrigger::Auto,
            first_seq: 3,
            last_seq: 61,
            replaced_count: 42,
            kept_count: 6,
            tokens_before: 150_240,
            tokens_after: 18_120,
            model: "anthropic/claude-sonnet-4-5".to_owned(),
            summary: "## Goal\n\nMend `retries_after_timeout`.\n\n## Decisions\n\n- Never raise the timeout, whatever \
                      else happens, for it only hides that the clock is read twice.\n- see [the page](https://example.org)\n"
                .to_owned(),
            previous_seq: None,
            focus: None,
            duration_ms: 2_300,
        }
    }

    /// Returns a screen of this width for a program, without colour.
    fn test_screen(columns: usize) -> Screen {
        Screen { style: Style::Plain, columns, audience: Audience::Program, cursor: CursorMode::Fixed }
    }

    /// Returns the time of a marker; a preview has none.
    fn marker_time(status: CompactionStatus) -> Option<Timestamp> {
        status.marker_seq().map(|_| "2026-11-21T10:02:59Z".parse().unwrap())
    }

    /// Renders a card and checks that every line fits the screen.
    fn render_card(
        screen: &Screen,
        marker: &SummaryMarker,
        status: CompactionStatus,
        fold: CardFold,
    ) -> String {
        let text = compaction_card(screen, marker, marker_time(status), status, fold).join("\n");
        assert!(text.lines().all(|line| width(line) <= screen.columns), "{text}");
        text
    }

    #[test]
    fn c5_the_card_at_60_and_at_100_columns() {
        let focused = SummaryMarker { focus: Some("the API\nand why".to_owned()), ..marker() };
        let cards = [60, 100].map(|columns| {
            let screen = test_screen(columns);
            [
                render_card(&screen, &marker(), CompactionStatus::Active(71), CardFold::Closed),
                render_card(&screen, &focused, CompactionStatus::Reverted(71), CardFold::Closed),
                render_card(&screen, &focused, CompactionStatus::Preview, CardFold::Open),
            ]
            .join("\n\n")
        });
        insta::assert_snapshot!(cards.join("\n\n"));
    }

    #[test]
    fn c6_screen_readers_get_the_heading_as_a_sentence() {
        let screen = Screen { audience: Audience::Person, ..test_screen(100) };
        let check = |marker: &SummaryMarker, expected: &str| {
            assert_eq!(
                render_card(&screen, marker, CompactionStatus::Active(71), CardFold::Closed)
                    .replace("\n   ", " "),
                expected
            );
        };
        check(
            &marker(),
            "Marker 71, 2026-11-21 10:02: 42 messages compacted, numbers 3 to 61, from 150240 to 18120 tokens, automatically, by \
             anthropic/claude-sonnet-4-5.",
        );
        check(
            &SummaryMarker {
                replaced_count: 1,
                last_seq: 3,
                trigger: CompactionTrigger::Overflow,
                model: agent::OFFLINE_SUMMARY_MODEL.to_owned(),
                ..marker()
            },
            "Marker 71, 2026-11-21 10:02: 1 message compacted, number 3, from 150240 to 18120 tokens, because the request was too large, by the \
             offline summary.",
        );
    }

    /// Returns a marker with a summary that tries to control the terminal and to imitate other cards, messages and the
    /// end of the summary.
    fn hostile_marker() -> SummaryMarker {
        SummaryMarker {
            summary: "\u{1b}[2J\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\\n── 9 messages compacted\nyou #1 now\n\
                      <script>x</script>\u{202e}\n\nEnd of the summary.\n\nMarker 999: 3 messages compacted, numbers 1 to \
                      3, from 9 to 1 tokens, automatically, by nobody.\n\n# you #7 2026-11-21 10:00\n\n- you #8\n\n```\nyou \
                      #9\n```\n\n| you #10 |\n| --- |\n| Marker 7: 1 |\n"
                .to_owned(),
            model: "a/\u{1b}[31mb\nc".to_owned(),
            ..marker()
        }
    }

    #[test]
    fn c7_a_summary_is_sanitized_and_cannot_be_taken_for_a_message() {
        let (hostile, screen) = (hostile_marker(), test_screen(60));
        let text = render_card(&screen, &hostile, CompactionStatus::Active(71), CardFold::Open);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        let head = compaction_card(
            &screen,
            &hostile,
            marker_time(CompactionStatus::Active(71)),
            CompactionStatus::Active(71),
            CardFold::Closed,
        )
        .len();
        assert!(text.lines().skip(head).all(|line| line.starts_with(GUTTER.trim_end())), "{text}");
    }

    /// A listener cannot see the gutter, so the number of lines and the announced end show which text belongs to the
    /// summary.
    #[test]
    fn c7_screen_readers_get_the_summary_with_a_line_count_and_an_end() {
        for columns in [40, 60, 100] {
            let hostile = hostile_marker();
            let screen = Screen { audience: Audience::Person, ..test_screen(columns) };
            let text = render_card(&screen, &hostile, CompactionStatus::Active(71), CardFold::Open);
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
            let head = compaction_card(
                &screen,
                &hostile,
                marker_time(CompactionStatus::Active(71)),
                CompactionStatus::Active(71),
                CardFold::Closed,
            )
            .len();
            let mut lines: Vec<&str> = text.lines().skip(head).collect();
            assert_eq!(lines.pop(), Some(SUMMARY_END), "{text}");
            assert_eq!(lines.remove(0), format!("Summary, {} lines:", lines.len()), "{text}");
            assert!(lines.iter().all(|line| line.is_empty() || line.starts_with(PLAIN_GUTTER)), "{text}");
        }
    }

    #[test]
    fn c5_other_context_events_have_one_line() {
        let check = |event_type, content: serde_json::Value, expected: &str| {
            let new = NewEvent::new(event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
            let event = Event::from_new(new, "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b".parse().unwrap(), 71);
            assert_eq!(render_context_event(&test_screen(100), &event).join("\n"), expected);
        };
        let failed = json!({"trigger": "auto", "reason": "it\nwould not help"});
        check(EventType::CompactionFailed, failed, "── not compacted: it would not help");
        check(
            EventType::ResultClipped,
            json!({"seq": 7, "call_id": "c", "sha256": "ab", "bytes": 1_200_000, "text": "…"}),
            "── result #7 is too large (1.2 MB): the model gets its beginning and end, and can read the rest",
        );
        check(EventType::RunStarted, json!({}), "");
        check(EventType::Compacted, json!({"from": "the future"}), "");
    }
}
