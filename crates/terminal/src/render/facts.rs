//! Renders the goal and the facts of a handoff: the sections of the proposal's Markdown behind its items. A long list is
//! folded to one row, and the full rendering shows every line that the new thread reads.

use std::borrow::Cow;

use agent::{facts_markdown, is_summary_heading};
use protocol::Proposal;

use crate::screen::Screen;
use crate::text::sanitize::{sanitize, sanitize_line};
use crate::text::wrap::{shorten, wrap_entry};

/// The most entries of a section that is not folded.
const ENTRIES_UNFOLDED_MAX: usize = 4;
/// The headings of sections that are never folded.
const NEVER_FOLDED: [&str; 5] = ["Goal of the new thread", "Last request", "Tasks", "Rules", "Pins"];
/// The beginning of an entry that only counts further ones.
const MORE: &str = "and ";

/// The indentation of the lines of an entry after the first.
const CONTINUATION: &str = "  ";

/// A section of the Markdown.
pub(crate) struct FactSection<'a> {
    /// The heading.
    pub(crate) heading: &'a str,
    /// The entries, as they are in the Markdown, without bullets. A request or a pin may have several lines.
    pub(crate) entries: Vec<String>,
}

/// Returns the sections of facts. A long list is one row.
pub fn render_folded(screen: &Screen, proposal: &Proposal) -> Vec<String> {
    let markdown = markdown_of(proposal);
    let is_folded = |section: &FactSection<'_>| {
        section.entries.len() > ENTRIES_UNFOLDED_MAX
            && !NEVER_FOLDED.iter().any(|heading| section.heading.starts_with(heading))
    };
    let sections = fact_sections(&markdown).into_iter();
    sections
        .flat_map(|section| match is_folded(&section) {
            true => vec![folded_row(screen, &section)],
            false => full_lines(screen, &section),
        })
        .collect()
}

/// Returns whether [`render_folded`] folds a section.
pub fn is_any_folded(screen: &Screen, proposal: &Proposal) -> bool {
    render_folded(screen, proposal).len() < render_full(screen, proposal).len()
}

/// Returns the sections of facts with all entries.
pub fn render_full(screen: &Screen, proposal: &Proposal) -> Vec<String> {
    let markdown = markdown_of(proposal);
    fact_sections(&markdown).iter().flat_map(|section| full_lines(screen, section)).collect()
}

/// Returns the Markdown with the facts: that of the proposal, or for a proposal of an older version that of the facts
/// beside it.
pub(crate) fn markdown_of(proposal: &Proposal) -> Cow<'_, str> {
    match proposal.summary_json.carried.is_in_markdown {
        true => Cow::Borrowed(&proposal.package_md),
        false => Cow::Owned(facts_markdown(&proposal.summary_json.carried)),
    }
}

/// Returns the sections whose heading is not one of the items.
pub(crate) fn fact_sections(markdown: &str) -> Vec<FactSection<'_>> {
    let mut sections: Vec<FactSection<'_>> = Vec::new();
    let mut is_fact = false;
    let mut blank_lines = 0;
    for line in markdown.lines() {
        if line.trim().is_empty() {
            blank_lines += 1;
            continue;
        }
        let blank_lines = std::mem::take(&mut blank_lines);
        if let Some(heading) = line.strip_prefix("### ") {
            is_fact = !is_summary_heading(heading);
            if is_fact {
                sections.push(FactSection { heading, entries: Vec::new() });
            }
        } else if let Some(section) = sections.last_mut().filter(|_| is_fact) {
            match (line.strip_prefix(CONTINUATION), section.entries.last_mut()) {
                (Some(line), Some(entry)) => {
                    entry.extend(std::iter::repeat_n('\n', blank_lines + 1));
                    entry.push_str(line);
                }
                _ => section.entries.push(line.strip_prefix("- ").unwrap_or(line).to_owned()),
            }
        }
    }
    sections
}

/// Returns the heading and one bullet for each entry.
fn full_lines(screen: &Screen, section: &FactSection<'_>) -> Vec<String> {
    let columns = screen.text_columns();
    let heading = screen.style.bold(sanitize_line(section.heading));
    let entries = section.entries.iter().map(|entry| wrap_entry(&sanitize(entry), columns, "  • ", "    "));
    [String::new(), heading].into_iter().chain(entries).collect()
}

/// Returns the heading, the number of entries and the beginning of the list, in one row.
fn folded_row(screen: &Screen, section: &FactSection<'_>) -> String {
    let named = section.entries.iter().filter(|entry| !entry.starts_with(MORE));
    let text = sanitize_line(&named.map(String::as_str).collect::<Vec<_>>().join(", "));
    let heading = sanitize_line(section.heading);
    let count = section.entries.len();
    let columns = screen.text_columns().saturating_sub(heading.len() + 16);
    let row = format!("({count} lines): {}", shorten(&text, columns));
    format!("{} {}", screen.style.bold(heading), screen.style.dim(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    #[test]
    fn long_lists_are_folded_and_every_line_is_in_the_full_rendering() {
        let files: String = (0..6).map(|index| format!("- src/{index}.rs\n")).collect();
        let markdown = format!(
            "**T**\nD\n\n### Objective\n- o\n\n### Last request (still open)\n- do \u{1b}[2J it:\n\n      a = 1\n  b\n\n\
             ### Files changed\n{files}- and 3 more\n\n### Commands\n- make\n"
        );
        let screen = Screen {
            style: Style::Plain,
            columns: 60,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let sections = fact_sections(&markdown);
        let headings: Vec<&str> = sections.iter().map(|section| section.heading).collect();
        assert_eq!(headings, ["Last request (still open)", "Files changed", "Commands"]);
        let full: Vec<String> = sections.iter().flat_map(|section| full_lines(&screen, section)).collect();
        assert_eq!(full.len(), 3 * 2 + 1 + 7 + 1);
        assert!(full[2].ends_with(" it:\n\n        a = 1\n    b"), "{:?}", full[2]);
        assert!(!full.concat().contains('\u{1b}'), "{full:?}");
        assert_eq!(
            folded_row(&screen, &sections[1]),
            "Files changed (7 lines): src/0.rs, src/1.rs, src/2.rs,…"
        );
    }
}
