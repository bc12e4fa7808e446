//! Renders search hits: location, time, the passage with the matching words, and the adjacent messages. `agent` does
//! the search.

use std::collections::BTreeMap;

use agent::{AdjacentMessage, MatchBasis, SearchHit, SearchHitSource, Speaker};
use protocol::{SHORT_ID_CHARS, ThreadId};

use crate::screen::Screen;
use crate::text::sanitize::{sanitize, sanitize_line};
use crate::text::timestamp::format_minute;
use crate::text::wrap::{shorten, width, wrap};

/// The prefix of the lines below a heading.
const INDENT: &str = "  ";
/// The separator before the title of a thread in a heading.
const SEPARATOR: &str = " · ";
/// The fewest columns for a thread's title. If less space remains, the title is omitted.
const TITLE_COLUMNS_MIN: usize = 12;
/// The name shown for a thread that does not exist any more.
const DELETED_THREAD: &str = "(deleted)";

/// The short id and the title of each thread.
pub type ThreadNames = BTreeMap<ThreadId, (String, String)>;

/// Returns the lines of a hit: a heading, the message before, the passage, and the message after. A line is wider than
/// the screen only if a single word is.
pub fn render_hit(screen: &Screen, hit: &SearchHit, names: &ThreadNames) -> Vec<String> {
    let (before, after) = match &hit.source {
        SearchHitSource::Message { before, after, .. } => (before.as_ref(), after.as_ref()),
        SearchHitSource::Summary { .. } | SearchHitSource::Handoff { .. } | SearchHitSource::Item { .. } => {
            (None, None)
        }
    };
    let passage = highlight_matches(&hit.snippet, |word| screen.style.bold(word));
    let mut lines = vec![heading_line(screen, hit, names)];
    lines.extend(before.map(|message| adjacent_line(screen, message)));
    lines.push(wrap(passage.trim(), screen.text_columns(), INDENT, INDENT));
    lines.extend(after.map(|message| adjacent_line(screen, message)));
    lines
}

/// Returns the heading: the location, kind, time and thread title of a hit.
fn heading_line(screen: &Screen, hit: &SearchHit, names: &ThreadNames) -> String {
    let style = screen.style;
    let short =
        |thread_id: &ThreadId| names.get(thread_id).map_or(DELETED_THREAD, |(id, _)| id.as_str()).to_owned();
    let title = |thread_id: &ThreadId| names.get(thread_id).map(|(_, title)| title.as_str());
    let (location, kind, title) = match &hit.source {
        SearchHitSource::Message { thread_id, seq, speaker, .. } => {
            (short(thread_id), format!("#{seq} {}", speaker_name(speaker)), title(thread_id))
        }
        SearchHitSource::Summary { thread_id, first_turn, last_turn, .. } => {
            let location = thread_id.as_ref().map_or_else(|| DELETED_THREAD.to_owned(), short);
            (
                location,
                format!("summary of messages {first_turn}–{last_turn}"),
                thread_id.as_ref().and_then(title),
            )
        }
        SearchHitSource::Handoff { handoff_id, parent_thread_id, child_thread_id } => {
            // Only an accepted handoff has a child thread.
            let child = names.get(child_thread_id).map(|(id, _)| format!(" → {id}"));
            let id = &handoff_id.to_string()[..SHORT_ID_CHARS];
            let location = format!("{}{}", short(parent_thread_id), child.unwrap_or_default());
            (location, format!("handoff {id}"), title(parent_thread_id))
        }
        SearchHitSource::Item { namespace, key } => {
            (sanitize_line(&format!("{} {key}", namespace.join("."))), "item".to_owned(), None)
        }
    };
    let basis = match hit.matched_by {
        MatchBasis::Words => "",
        MatchBasis::Meaning => " by meaning",
    };
    let details = format!("{kind} {}{basis}", format_minute(hit.at));
    let title_columns =
        screen.text_columns().saturating_sub(width(&location) + 1 + width(&details) + width(SEPARATOR));
    let title = title
        .filter(|_| title_columns >= TITLE_COLUMNS_MIN)
        .map(|title| format!("{SEPARATOR}{}", shorten(title, title_columns)));
    let details = style.dim(format!("{details}{}", title.unwrap_or_default()));
    wrap(&format!("{} {details}", style.code(location)), screen.text_columns(), "", INDENT)
}

/// Returns the message before or after a hit, shortened to one line.
fn adjacent_line(screen: &Screen, message: &AdjacentMessage) -> String {
    let lead = format!("{INDENT}#{} {}: ", message.seq, speaker_name(&message.speaker));
    let text_columns = screen.text_columns().saturating_sub(width(&lead));
    screen.style.dim(format!("{lead}{}", shorten(&sanitize_line(&message.text), text_columns)))
}

/// Returns the display name of a speaker.
pub fn speaker_name(speaker: &Speaker) -> String {
    match speaker {
        Speaker::User => "you".to_owned(),
        Speaker::Assistant => "assistant".to_owned(),
        Speaker::Tool(None) => "tool".to_owned(),
        Speaker::Tool(Some(name)) => format!("tool {}", sanitize_line(name)),
        Speaker::Harness => "harness".to_owned(),
    }
}

/// Returns the passage sanitized and on one line, with each matching word passed through `highlight`. The search index
/// puts U+0002 before and U+0003 after each matching word.
pub fn highlight_matches(snippet: &str, highlight: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (index, part) in snippet.split('\u{2}').enumerate() {
        let (word, following) = match part.split_once('\u{3}') {
            Some((word, following)) if index > 0 => (word, following),
            Some(_) | None => ("", part),
        };
        if !word.is_empty() {
            out.push_str(&highlight(&sanitize_line(word)));
        }
        out.push_str(&sanitize(following).replace('\n', " "));
    }
    out
}

#[cfg(test)]
mod tests {
    use protocol::Seq;

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// Returns an id of any kind that ends in this byte.
    fn id<T: std::str::FromStr>(last: u8) -> T
    where
        T::Err: std::fmt::Debug,
    {
        format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{last:02x}").parse().unwrap()
    }

    /// Returns a hit with a fixed time and score.
    fn search_hit(source: SearchHitSource, snippet: &str) -> SearchHit {
        let at = "2026-03-02T10:15:59Z".parse().unwrap();
        SearchHit { source, at, snippet: snippet.to_owned(), score: 1.0, matched_by: MatchBasis::Words }
    }

    /// Returns a message before or after a hit.
    fn adjacent_message(seq: Seq, speaker: Speaker, text: &str) -> Option<AdjacentMessage> {
        Some(AdjacentMessage { seq, speaker, text: text.to_owned() })
    }

    /// Returns one hit of each kind. The summary belongs to a deleted thread, and its passage contains an escape
    /// sequence.
    fn sample_hits() -> Vec<SearchHit> {
        let message = SearchHitSource::Message {
            thread_id: id(1),
            seq: 412,
            speaker: Speaker::Assistant,
            before: adjacent_message(411, Speaker::User, "Which of the two do we take, and why?\nBe brief."),
            after: adjacent_message(
                413,
                Speaker::Tool(Some("read_file".to_owned())),
                &"a long result ".repeat(20),
            ),
        };
        let summary = SearchHitSource::Summary {
            summary_id: id(2),
            thread_id: Some(id(9)),
            first_turn: 1,
            last_turn: 24,
        };
        let handoff =
            SearchHitSource::Handoff { handoff_id: id(3), parent_thread_id: id(1), child_thread_id: id(4) };
        let item = SearchHitSource::Item {
            namespace: vec!["users".to_owned(), "ada".to_owned()],
            key: "tea".to_owned(),
        };
        vec![
            search_hit(
                message,
                "We take the \u{2}small\u{3} \u{2}kettle\u{3}: it boils in half the time, and its lid does not leak as the lid of the \
                 large one does.",
            ),
            search_hit(summary, "The \u{2}kettle\u{3} leaks. \u{1b}[2J"),
            search_hit(handoff, "Mend the \u{2}kettle\u{3}"),
            search_hit(item, "{\"tea\":\"green\",\n\"\u{2}kettle\u{3}\":\"small\"}"),
        ]
    }

    /// Renders the sample hits on a screen of this width, and checks that every line fits.
    fn render_hits(columns: usize) -> String {
        let screen =
            Screen { style: Style::Plain, columns, audience: Audience::Program, cursor: CursorMode::Fixed };
        let names: ThreadNames = [(1, "Find out why the kettle leaks, and mend it"), (4, "Mend the kettle")]
            .map(|(last, title)| (id(last), (format!("0192f0c{last}"), title.to_owned())))
            .into();
        let hits: Vec<String> =
            sample_hits().iter().map(|hit| render_hit(&screen, hit, &names).join("\n")).collect();
        let text = hits.join("\n\n");
        assert!(text.lines().all(|line| width(line) <= columns), "{text}");
        text
    }

    #[test]
    fn m11_hits_at_60_and_at_100_columns() {
        insta::assert_snapshot!(format!("{}\n\n{}", render_hits(60), render_hits(100)));
    }

    #[test]
    fn matches_are_highlighted_and_the_passage_is_sanitized() {
        let text = highlight_matches("a \u{2}flaky\u{3} test\n\u{1b}[2Jand \u{2}flaky\u{3}", |word| {
            format!("<{word}>")
        });
        assert_eq!(text, "a <flaky> test and <flaky>");
    }
}
